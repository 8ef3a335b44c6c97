package replication

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// isQuota says whether objects of the resource are quotas.
func isQuota(resource schema.GroupResource) bool {
	return resource.Group == placementv1.GroupVersion.Group && (resource.Resource == "scopedquotas" || resource.Resource == "clusterscopedquotas")
}

// Quota is what data.berth shows of a quota: hard and used as its status has them, each an object that is empty as
// long as nothing is counted. ok is false for other resources.
func Quota(resource schema.GroupVersionResource, obj map[string]any) (document map[string]any, ok bool) {
	if !isQuota(resource.GroupResource()) {
		return nil, false
	}
	return map[string]any{"hard": object(obj, "status", "hard"), "used": object(obj, "status", "used")}, true
}

// stripQuota leaves out what changes with every charge without meaning anything to a policy.
func stripQuota(obj *unstructured.Unstructured) {
	unstructured.RemoveNestedField(obj.Object, "metadata", "resourceVersion")
	for _, field := range []string{"reservations", "conditions", "module", "summary", "observedGeneration"} {
		unstructured.RemoveNestedField(obj.Object, "status", field)
	}
}

/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package replication

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// isQuota reports whether a resource type is that of ScopedQuotas or ClusterScopedQuotas.
func isQuota(resource schema.GroupResource) bool {
	return resource.Group == placementv1.GroupVersion.Group && (resource.Resource == "scopedquotas" ||
		resource.Resource == "clusterscopedquotas")
}

// Quota returns the document that policies read of a quota at data.berth. It has hard and used from the quota's status, each an object that
// is empty until something is counted. ok is false for other resource types.
func Quota(resource schema.GroupVersionResource, obj map[string]any) (document map[string]any, ok bool) {
	if !isQuota(resource.GroupResource()) {
		return nil, false
	}
	return map[string]any{"hard": object(obj, "status", "hard"), "used": object(obj, "status", "used")}, true
}

// stripQuota removes metadata.resourceVersion and the fields reservations, conditions, module, summary, and observedGeneration of the
// status from a quota: no policy needs them, and some change with every charge.
func stripQuota(obj *unstructured.Unstructured) {
	unstructured.RemoveNestedField(obj.Object, "metadata", "resourceVersion")
	for _, field := range []string{"reservations", "conditions", "module", "summary", "observedGeneration"} {
		unstructured.RemoveNestedField(obj.Object, "status", field)
	}
}

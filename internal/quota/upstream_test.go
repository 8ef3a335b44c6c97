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

package quota_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	limitedapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// oracle is the API server's own quota decision, built from Kubernetes' packages without any of Berth's.
type oracle struct {
	evaluators map[schema.GroupResource]upstream.Evaluator
}

func newOracle(c clock.Clock, claims upstream.Evaluator) oracle {
	out := oracle{evaluators: map[schema.GroupResource]upstream.Evaluator{}}
	for _, evaluator := range []upstream.Evaluator{
		core.NewPodEvaluator(nil, c),
		core.NewServiceEvaluator(nil),
		core.NewPersistentVolumeClaimEvaluator(nil),
		claims,
		generic.NewObjectCountEvaluator(corev1.Resource("configmaps"), nil, corev1.ResourceConfigMaps),
		generic.NewObjectCountEvaluator(corev1.Resource("secrets"), nil, corev1.ResourceSecrets),
		generic.NewObjectCountEvaluator(corev1.Resource("replicationcontrollers"), nil, corev1.ResourceReplicationControllers),
		generic.NewObjectCountEvaluator(corev1.Resource("resourcequotas"), nil, corev1.ResourceQuotas),
	} {
		out.evaluators[evaluator.GroupResource()] = evaluator
	}
	return out
}

func (o oracle) of(resource schema.GroupResource) upstream.Evaluator {
	if known, ok := o.evaluators[resource]; ok {
		return known
	}
	return generic.NewObjectCountEvaluator(resource, nil, "")
}

// check decides a request. It returns the quotas as they would be if the request succeeded.
func (o oracle) check(t testing.TB, quotas []corev1.ResourceQuota, limits []limitedapi.LimitedResource, r *admissionv1.AdmissionRequest) ([]corev1.ResourceQuota, error) {
	t.Helper()
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	return resourcequota.CheckRequest(quotas, o.attributes(t, r), o.of(resource), limits)
}

func (oracle) attributes(t testing.TB, r *admissionv1.AdmissionRequest) admission.Attributes {
	t.Helper()
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	decode := func(raw []byte) runtime.Object {
		if len(raw) == 0 {
			return nil
		}
		var object runtime.Object
		switch resource.String() {
		case "pods":
			object = &corev1.Pod{}
		case "services":
			object = &corev1.Service{}
		case "persistentvolumeclaims":
			object = &corev1.PersistentVolumeClaim{}
		case "resourceclaims.resource.k8s.io":
			object = &resourcev1.ResourceClaim{}
		default:
			object = &metav1.PartialObjectMetadata{}
		}
		if err := json.Unmarshal(raw, object); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		return object
	}
	return admission.NewAttributesRecord(decode(r.Object.Raw), decode(r.OldObject.Raw), schema.GroupVersionKind(r.Kind), r.Namespace, r.Name,
		schema.GroupVersionResource(r.Resource), r.SubResource, admission.Operation(r.Operation), nil, r.DryRun != nil && *r.DryRun, nil)
}

// entered returns upstream's denial of an update by which the object comes to match scopes of limits, as if the object
// were created; nil if upstream would not deny that for its scopes. Upstream itself checks no limits for such an update.
func (o oracle) entered(t testing.TB, quotas []corev1.ResourceQuota, limits []limitedapi.LimitedResource, r *admissionv1.AdmissionRequest) error {
	t.Helper()
	evaluator := o.of(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource})
	attributes := o.attributes(t, r)
	old, err := meta.Accessor(attributes.GetOldObject())
	if r.Operation != admissionv1.Update || err != nil || old.GetResourceVersion() == "" || !evaluator.Handles(attributes) {
		return nil
	}
	var entered []limitedapi.LimitedResource
	for _, limit := range limits {
		limit.MatchContains, limit.MatchScopes = nil, slices.DeleteFunc(slices.Clone(limit.MatchScopes), func(s corev1.ScopedResourceSelectorRequirement) bool {
			matched, err := evaluator.MatchingScopes(attributes.GetOldObject(), []corev1.ScopedResourceSelectorRequirement{s})
			return err != nil || len(matched) > 0
		})
		entered = append(entered, limit)
	}
	create := *r
	create.Operation, create.OldObject, create.SubResource = admissionv1.Create, runtime.RawExtension{}, ""
	if _, err := o.check(t, quotas, entered, &create); err != nil && strings.Contains(err.Error(), "insufficient quota to match these scopes") {
		return err
	}
	return nil
}

// upstreamQuota converts a quota to core/v1. Kubernetes decides by status.hard, which is spec.hard at the last count.
// Berth decides by spec.hard, and uses status.used only if it was counted for that spec.
func upstreamQuota(q placementv1.Quota) corev1.ResourceQuota {
	spec, status := q.QuotaSpec(), q.QuotaStatus()
	return corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: q.GetName(), Namespace: q.GetNamespace()},
		Spec:       corev1.ResourceQuotaSpec{Hard: spec.Hard, Scopes: spec.Scopes, ScopeSelector: spec.ScopeSelector.Upstream()},
		Status:     corev1.ResourceQuotaStatus{Hard: spec.Hard, Used: status.Used},
	}
}

func upstreamLimit(spec *placementv1.LimitedResourceSpec) limitedapi.LimitedResource {
	out := limitedapi.LimitedResource{APIGroup: spec.APIGroup, Resource: spec.Resource, MatchContains: spec.MatchContains}
	for _, r := range spec.MatchScopes {
		out.MatchScopes = append(out.MatchScopes, r.Upstream())
	}
	return out
}

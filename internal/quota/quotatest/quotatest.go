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

// Package quotatest has test cases and objects for quotas that the tests of several packages share.
package quotatest

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Case is a sequence of requests to the same quotas, transcribed from a test of Kubernetes' ResourceQuota plug-in.
type Case struct {
	Name string `json:"name"`
	// Source is the name of the test of Kubernetes that the case is from.
	Source           string                            `json:"source"`
	Quotas           []Quota                           `json:"quotas"`
	LimitedResources []placementv1.LimitedResourceSpec `json:"limitedResources"`
	Steps            []Step                            `json:"steps"`
}

// Quota is a quota of a Case, without a kind. Case.ScopedQuotas returns it as a ScopedQuota.
type Quota struct {
	Name      string                  `json:"name"`
	Namespace string                  `json:"namespace"`
	Spec      placementv1.QuotaSpec   `json:"spec"`
	Status    placementv1.QuotaStatus `json:"status"`
}

// Step is a request with the expected result.
type Step struct {
	Operation   admissionv1.Operation `json:"operation"`
	Group       string                `json:"group"`
	Resource    string                `json:"resource"`
	Subresource string                `json:"subresource"`
	DryRun      bool                  `json:"dryRun"`
	Namespace   string                `json:"namespace"`
	Object      json.RawMessage       `json:"object"`
	OldObject   json.RawMessage       `json:"oldObject"`

	Allowed bool `json:"allowed"`
	// Message is a part of the message with which the request is expected to be denied; "" if it is expected to be allowed.
	Message string `json:"message"`
	// Used is the expected usage of each quota whose status the step writes, by name.
	Used map[string]corev1.ResourceList `json:"used"`
}

// Cases decodes a list of cases from YAML. It fails the test for an unknown field, and if there are no cases.
func Cases(t testing.TB, text []byte) []Case {
	t.Helper()
	var out []Case
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("no cases")
	}
	return out
}

// Used returns the usage of each quota before the first step.
func (c *Case) Used() map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for _, q := range c.Quotas {
		out[q.Name] = maps.Clone(q.Status.Used)
	}
	return out
}

// ScopedQuotas returns the quotas as ScopedQuotas with the spec and the status in the case. status.observedGeneration is the generation of
// the object; conditions are not set.
func (c *Case) ScopedQuotas() []*placementv1.ScopedQuota {
	var out []*placementv1.ScopedQuota
	for _, q := range c.Quotas {
		s := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{
			Name: q.Name, Namespace: q.Namespace, UID: types.UID(c.Name + "/" + q.Name), Generation: 1,
		}}
		q.Spec.DeepCopyInto(&s.Spec.QuotaSpec)
		q.Status.DeepCopyInto(&s.Status.QuotaStatus)
		s.Status.ObservedGeneration = s.Generation
		out = append(out, s)
	}
	return out
}

// Limits returns the case's LimitedResources, named limit-0, limit-1, and so on, without a status; nil if it has none.
func (c *Case) Limits() []*placementv1.LimitedResource {
	var out []*placementv1.LimitedResource
	for i, spec := range c.LimitedResources {
		name := fmt.Sprintf("limit-%d", i)
		out = append(out, &placementv1.LimitedResource{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(c.Name + "/" + name), Generation: 1}, Spec: *spec.DeepCopy(),
		})
	}
	return out
}

// GroupResource returns the type of the step's object.
func (s *Step) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: s.Group, Resource: s.Resource}
}

// Request returns the admission request that the API server sends for the step.
func (s *Step) Request(t testing.TB, uid types.UID) *admissionv1.AdmissionRequest {
	t.Helper()
	object := metav1.PartialObjectMetadata{}
	for _, raw := range []json.RawMessage{s.OldObject, s.Object} {
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatal(err)
		}
	}
	kind := object.GroupVersionKind()
	return &admissionv1.AdmissionRequest{
		UID: uid, Operation: s.Operation, Namespace: s.Namespace, Name: object.Name, SubResource: s.Subresource, DryRun: new(s.DryRun),
		Kind:     metav1.GroupVersionKind(kind),
		Resource: metav1.GroupVersionResource{Group: s.Group, Version: kind.Version, Resource: s.Resource},
		Object:   runtime.RawExtension{Raw: s.Object}, OldObject: runtime.RawExtension{Raw: s.OldObject},
	}
}

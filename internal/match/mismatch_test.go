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

package match_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// TestMismatch checks which part of a match is named, and that there is one exactly if the match does not match.
func TestMismatch(t *testing.T) {
	object := func(namespace string, labels map[string]string) match.Object {
		content := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": namespace}}}
		content.SetLabels(labels)
		return match.Object{
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: namespace,
			NamespaceLabels: map[string]string{"team": "payments"}, Content: content, Request: &admissionv1.AdmissionRequest{Operation: admissionv1.Create},
		}
	}
	rules := []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
	selector := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for name, test := range map[string]struct {
		match  placementv1.Match
		object match.Object
		want   *match.Mismatch
	}{
		"matches":               {placementv1.Match{ResourceRules: rules, NamespaceSelector: selector("team", "payments")}, object("shop", nil), nil},
		"another type":          {placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}}}}, object("shop", nil), &match.Mismatch{Part: "resourceRules", Reason: "no rule selects deployments.apps in version v1"}},
		"Berth's own namespace": {placementv1.Match{ResourceRules: rules}, object("berth-system", nil), &match.Mismatch{Part: "namespaceSelector", Reason: "policies never match objects in the namespace berth-system, which is protected"}},
		"another namespace":     {placementv1.Match{ResourceRules: rules, NamespaceSelector: selector("team", "search")}, object("shop", nil), &match.Mismatch{Part: "namespaceSelector", Reason: "requires team=search, and the namespace shop has team=payments"}},
		"another label":         {placementv1.Match{ResourceRules: rules, ObjectSelector: selector("tier", "gold")}, object("shop", map[string]string{"tier": "silver"}), &match.Mismatch{Part: "objectSelector", Reason: "requires tier=gold, and the object has tier=silver"}},
		"a false condition": {placementv1.Match{ResourceRules: rules, MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "named", Expression: "object.metadata.name == 'web'"}, {Name: "labelled", Expression: "has(object.metadata.labels)"},
		}}, object("shop", nil), &match.Mismatch{Part: "matchConditions[1]", Reason: `the condition "labelled" is false: has(object.metadata.labels)`}},
	} {
		t.Run(name, func(t *testing.T) {
			m, errs := match.New(test.match, field.NewPath("spec", "match"))
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if diff := cmp.Diff(test.want, m.Mismatch(t.Context(), test.object, "berth-system")); diff != "" {
				t.Errorf("mismatch (-want +got):\n%s", diff)
			}
			matches, err := m.Matches(t.Context(), test.object)
			// The decider, not the matcher, leaves out Berth's own namespace.
			if own := test.object.Namespace == "berth-system"; err != nil || !own && matches != (test.want == nil) {
				t.Errorf("matches %t, error %v", matches, err)
			}
			some, all := m.SelectsIn(test.object.Resource, test.object.Namespace, test.object.NamespaceLabels, "berth-system")
			decided := test.want != nil && (test.want.Part == "resourceRules" || test.want.Part == "namespaceSelector")
			if some == decided || all != (test.want == nil) {
				t.Errorf("type and namespace select some objects: %t, all: %t", some, all)
			}
		})
	}
}

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

package conformance_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/casetest"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/conformance"
)

// TestCases writes the corpus as files of `kubectl berth test`, and checks that every case passes, and that every case
// fails if something else is expected of it.
func TestCases(t *testing.T) {
	for _, theme := range load(t) {
		for _, p := range theme.Policies {
			t.Run(theme.Name+"/"+p.Name, func(t *testing.T) {
				for _, result := range runCases(t, theme, p, expectation) {
					if len(result.Failures) > 0 {
						t.Errorf("%s: %s", result.Case, strings.Join(result.Failures, "\n"))
					}
				}
				for _, result := range runCases(t, theme, p, otherExpectation) {
					if len(result.Failures) == 0 {
						t.Errorf("%s: passes whatever is expected", result.Case)
					}
				}
			})
		}
	}
}

// runCases writes the cases of a policy and runs them.
func runCases(t *testing.T, theme conformance.Theme, p conformance.Policy, expect func(*testing.T, conformance.Policy, conformance.Case) casetest.Expectation) []casetest.Result {
	t.Helper()
	directory := t.TempDir()
	spec := p.Spec()
	spec.Match = placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}}
	spec.Mode = placementv1.ModeEnforce
	// An empty list of clusters is a decision, too.
	spec.Clusters = &placementv1.ClustersRule{DeveloperChoice: placementv1.DeveloperChoiceOverride, OnEmpty: placementv1.OnEmptyClear}
	write(t, filepath.Join(directory, "policy.yaml"), placementv1.PlacementPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: placementv1.GroupVersion.String(), Kind: "PlacementPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: spec,
	})
	file := casetest.File{APIVersion: casetest.APIVersion, Kind: casetest.Kind, Policies: []string{"policy.yaml"}}
	for _, listed := range theme.Types {
		file.Objects = append(file.Objects, casetest.Object{Content: definition(t, listed)})
	}
	for _, o := range theme.Objects {
		file.Objects = append(file.Objects, casetest.Object{Content: o.Document})
	}
	for _, c := range p.Cases {
		if reason := noObject[theme.Name+"/"+p.Name]; reason != "" {
			t.Skip(reason)
		}
		object := typed(c)
		if kind := (&unstructured.Unstructured{Object: object}).GroupVersionKind(); kind.Group != "apps" {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			file.Objects = append(file.Objects, casetest.Object{Content: definition(t, conformance.Type{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Resource: plural.Resource, Namespaced: true})})
		}
		file.Cases = append(file.Cases, casetest.Case{Name: c.Name, Object: casetest.Object{Content: object}, Expect: expect(t, p, c)})
	}
	path := filepath.Join(directory, "corpus"+casetest.Suffix)
	write(t, path, file)
	loaded, err := casetest.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	results, err := loaded.Run(t.Context(), casetest.Options{Inventories: replication.Known(), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func write(t *testing.T, path string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// definition returns the CustomResourceDefinition of a type.
func definition(t *testing.T, listed conformance.Type) map[string]any {
	t.Helper()
	gvr, err := listed.GroupVersionResource()
	if err != nil {
		t.Fatal(err)
	}
	scope := "Cluster"
	if listed.Namespaced {
		scope = "Namespaced"
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": gvr.Resource + "." + gvr.Group},
		"spec": map[string]any{
			"group": gvr.Group, "scope": scope, "names": map[string]any{"plural": gvr.Resource, "kind": listed.Kind},
			"versions": []any{map[string]any{"name": gvr.Version, "served": true, "storage": true}},
		},
	}
}

// noObject are policies of whose cases the input can't be an object of Kubernetes.
var noObject = map[string]string{
	"language/references": "the result has all members of the input, and an object has more of them",
}

// typed returns the object of a case with a type, a name, and, where the policy decides on scheduling, a pod template. The
// cases of the corpus may omit them.
func typed(c conformance.Case) map[string]any {
	out := maps.Clone(c.Object.Document)
	if c.Decision != nil && c.Decision.Scheduling != nil {
		spec, _ := out["spec"].(map[string]any)
		spec = maps.Clone(spec)
		if spec == nil {
			spec = map[string]any{}
		}
		spec["template"] = map[string]any{"spec": map[string]any{}}
		out["spec"] = spec
	}
	for key, value := range map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"} {
		if _, ok := out[key]; !ok {
			out[key] = value
		}
	}
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if _, ok := metadata["name"]; !ok {
		metadata["name"] = "corpus"
	}
	out["metadata"] = metadata
	return out
}

// expectation returns what a case expects of the placed object.
func expectation(t *testing.T, p conformance.Policy, c conformance.Case) casetest.Expectation {
	t.Helper()
	if c.Fails != nil {
		return casetest.Expectation{Error: cmp.Or(c.Fails.Message, p.Name+": ")}
	}
	want, err := c.Decision.Want()
	if err != nil {
		t.Fatal(err)
	}
	out := casetest.Expectation{Annotations: values(want.Annotations), Labels: values(want.Labels), PodSpec: placedPodSpec(c.Decision.Scheduling)}
	// An empty list is expected, too.
	denied, warnings := append([]string{}, want.Errors...), append([]string{}, want.Warnings...)
	out.Denied, out.Warnings = &denied, &warnings
	if want.Clusters != nil {
		out.Clusters = &want.Clusters
	}
	return out
}

// placedPodSpec returns scheduling fields as they are in a placed object: without empty ones, and with tolerations in their
// normal form, sorted.
func placedPodSpec(scheduling map[string]any) map[string]any {
	out := maps.Clone(scheduling)
	maps.DeleteFunc(out, func(_ string, value any) bool { return reflect.ValueOf(value).Len() == 0 })
	tolerations, ok := out["tolerations"].([]any)
	if !ok {
		return out
	}
	var normal []any
	for _, item := range tolerations {
		toleration, _ := item.(map[string]any)
		toleration = maps.Clone(toleration)
		if toleration["operator"] == "Equal" {
			delete(toleration, "operator")
		}
		normal = append(normal, toleration)
	}
	slices.SortFunc(normal, func(a, b any) int {
		return strings.Compare(podscheduling.JSONText(a), podscheduling.JSONText(b))
	})
	out["tolerations"] = normal
	return out
}

// otherExpectation returns what no policy of the corpus decides.
func otherExpectation(*testing.T, conformance.Policy, conformance.Case) casetest.Expectation {
	return casetest.Expectation{Denied: &[]string{"a message that no policy has"}}
}

func values(texts map[string]string) map[string]*string {
	out := map[string]*string{}
	for key, value := range texts {
		out[key] = &value
	}
	return out
}

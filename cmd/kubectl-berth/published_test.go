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

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/casetest"
	"github.com/berth-dev/berth/test/mistakes/generated"
)

// another is a cluster with values that policies of the stories name, and that no cluster of their fleet has.
const another = `
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: ca-staging, labels: {topology.kubernetes.io/region: ca, example.com/environment: staging, example.com/pci-level: "1"}}
spec: {region: ca}
status: {conditions: [{type: Ready, status: "True"}]}
`

// TestPublishedWithoutMistakes checks that nothing is said of the policies of the library, the stories, and the examples with tests, in
// the worlds of their tests: neither at apply, nor by check, nor in the status.
func TestPublishedWithoutMistakes(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"library/*/*_test.yaml", "docs/examples/stories/*/*_test.yaml", "docs/examples/tests/*_test.yaml"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, path := range files {
			world, policies := published(t, path)
			if strings.Contains(path, "stories") {
				world = append(world, generated.Objects(another)...)
			}
			for _, manifest := range policies {
				checked++
				if said := said(t, world, manifest); len(said) > 0 {
					t.Errorf("%s: %s\n%s", path, strings.Join(said, "\n"), manifest)
				}
			}
		}
	}
	t.Logf("%d policies", checked)
}

// published returns the world of a file of cases, and its policies.
func published(t *testing.T, path string) (world []*unstructured.Unstructured, policies []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file casetest.File
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []*unstructured.Unstructured {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		return generated.Objects(string(text))
	}
	for _, name := range file.World {
		world = append(world, read(name)...)
	}
	add := func(objects ...casetest.Object) {
		for _, o := range objects {
			next := &unstructured.Unstructured{Object: o.Content}
			known := func(obj *unstructured.Unstructured) bool {
				return obj.GetKind() == next.GetKind() && obj.GetName() == next.GetName() && obj.GetNamespace() == next.GetNamespace()
			}
			if !slices.ContainsFunc(world, known) {
				world = append(world, next)
			}
		}
	}
	add(file.Objects...)
	for _, c := range file.Cases {
		add(c.Objects...)
	}
	for _, name := range append(slices.Concat(file.Alternatives...), file.Policies...) {
		for _, obj := range read(name) {
			if obj.GetKind() != "PlacementPolicy" {
				world = append(world, obj)
				continue
			}
			// Marshaling does not fail: the object comes from YAML.
			text, _ := yaml.Marshal(obj.Object)
			policies = append(policies, string(text))
		}
	}
	return world, policies
}

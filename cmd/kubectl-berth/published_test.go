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
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/casetest"
	"github.com/berth-dev/berth/test/mistakes/generated"
)

// namespaces are those that published policies name, and no published manifest has.
const namespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: quickstart, labels: {kubernetes.io/metadata.name: quickstart}}
---
apiVersion: v1
kind: Namespace
metadata: {name: gitops, labels: {kubernetes.io/metadata.name: gitops}}
`

// examples are files with policies that have no cases, with the files of the world that they are for. Of pages, these are the policies in
// their blocks. Policies whose manifest a shell completes are left out.
var examples = map[string][]string{
	"README.md":                          {"docs/examples/clusters.yaml"},
	"docs/*.md":                          {"docs/examples/clusters.yaml", "docs/examples/best-cluster/clusters.yaml"},
	"docs/examples/eu-karmada.yaml":      {"docs/examples/clusters.yaml", "hack/demo/propagationpolicy-crd.yaml"},
	"docs/examples/eu-pci.yaml":          {"docs/examples/clusters.yaml"},
	"docs/examples/gitops/narrow.yaml":   {},
	"docs/examples/node-name.yaml":       {},
	"docs/examples/predicates.yaml":      {"docs/examples/predicates-tape.yaml", "docs/examples/predicates-web.yaml"},
	"docs/examples/quickstart.yaml":      {},
	"docs/examples/rollout/policy*.yaml": {"docs/examples/rollout/namespaces.yaml"},
	"docs/examples/zones/policy.yaml":    {"docs/examples/zones/nodes.yaml", "docs/examples/zones/till.yaml"},
}

// TestPublishedWithoutMistakes checks that nothing is said of the policies of the library, the stories, and the examples with tests, in
// the worlds of their tests, and of those in the documentation: neither at apply, nor by check, nor in the status.
func TestPublishedWithoutMistakes(t *testing.T) {
	checked := 0
	check := func(path string, world []*unstructured.Unstructured, policy *unstructured.Unstructured) {
		checked++
		// Marshaling does not fail: the object comes from YAML.
		manifest, _ := yaml.Marshal(policy.Object)
		if said := said(t, world, string(manifest)); len(said) > 0 {
			t.Errorf("%s: %s\n%s", path, strings.Join(said, "\n"), manifest)
		}
	}
	for _, pattern := range []string{
		"library/*/*_test.yaml", "docs/examples/stories/*/*_test.yaml", "docs/examples/tests/*_test.yaml", "docs/examples/best-cluster/*_test.yaml",
	} {
		for _, path := range filesOf(t, pattern) {
			world, sets := published(t, path)
			for _, set := range sets {
				for i, policy := range set {
					check(path, slices.Concat(world, set[:i], set[i+1:]), policy)
				}
			}
		}
	}
	for pattern, files := range examples {
		world := generated.Objects(namespaces)
		for _, name := range files {
			world = append(world, objectsOf(t, filepath.Join("../..", name))...)
		}
		found := 0
		for _, path := range filesOf(t, pattern) {
			policies, others := divided(objectsOf(t, path))
			for _, policy := range policies {
				found++
				check(path, slices.Concat(world, others), policy)
			}
		}
		if found == 0 {
			t.Errorf("%s has no policy", pattern)
		}
	}
	t.Logf("%d policies", checked)
}

// filesOf returns the files of a pattern from the root of the repository.
func filesOf(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}

// yamlBlock matches a block with a manifest in a page.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// objectsOf returns the objects in a file: of a page, those in its blocks.
func objectsOf(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	if filepath.Ext(path) != ".md" {
		out = generated.Objects(string(text))
		for _, obj := range out {
			if obj.GetKind() == "Namespace" && obj.GetLabels() == nil {
				// The API server sets it.
				obj.SetLabels(map[string]string{corev1.LabelMetadataName: obj.GetName()})
			}
		}
		return out
	}
	for _, found := range yamlBlock.FindAllSubmatch(text, -1) {
		policies, _ := divided(generated.Objects(string(found[1])))
		out = append(out, policies...)
	}
	return out
}

// divided returns the policies among objects, and the others.
func divided(objects []*unstructured.Unstructured) (policies, others []*unstructured.Unstructured) {
	for _, obj := range objects {
		if obj.GetKind() == "PlacementPolicy" {
			policies = append(policies, obj)
		} else {
			others = append(others, obj)
		}
	}
	return policies, others
}

// published returns the world of a file of cases, and the sets of policies that are in force together.
func published(t *testing.T, path string) (world []*unstructured.Unstructured, sets [][]*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file casetest.File
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range file.World {
		world = append(world, objectsOf(t, filepath.Join(filepath.Dir(path), name))...)
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
	alternatives := file.Alternatives
	if len(alternatives) == 0 {
		alternatives = [][]string{nil}
	}
	for _, alternative := range alternatives {
		var set []*unstructured.Unstructured
		for _, name := range append(slices.Clone(alternative), file.Policies...) {
			policies, others := divided(objectsOf(t, filepath.Join(filepath.Dir(path), name)))
			set, world = append(set, policies...), append(world, others...)
		}
		sets = append(sets, set)
	}
	return world, sets
}

// TestPublishedFleet checks that every command reads the fleet that the documentation shows.
func TestPublishedFleet(t *testing.T) {
	fleet, err := filepath.Abs("../../docs/examples/console/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"where": "paris-1", "violations": "policy eu-pci", "plan eu-pci": "paris-1", "explain deployment/search -n shop-eu": "dublin-1 is chosen",
	} {
		stdout, _, err := command(t, append(strings.Fields(args), "--from", fleet)...)
		if err != nil || !strings.Contains(stdout, want) {
			t.Errorf("%s: %v, without %q:\n%s", args, err, want, stdout)
		}
	}
}

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

package simulation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

// parse returns the objects of YAML documents.
func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, obj)
	}
	return out
}

func newSimulation(t *testing.T, text string) *simulation.Simulation {
	t.Helper()
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, text)...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulation.New(t.Context(), cluster, simulation.Options{OwnNamespace: "berth-system"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const fleet = `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-1, namespace: fleet, labels: {region: eu, pci: "2"}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: us-1, namespace: fleet, labels: {region: us, pci: "1"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: payments}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region, generation: 3}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    namespaceSelector: {matchLabels: {team: payments}}
  mode: Enforce
  remediation: {mode: Automatic}
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    annotations["example.com/region"] := input.metadata.labels.region
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: eu}}
spec: {template: {spec: {containers: [{name: main, image: web}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: other, labels: {region: eu}}
spec: {template: {spec: {containers: [{name: main, image: web}]}}}`

func TestDecide(t *testing.T) {
	s := newSimulation(t, fleet)
	if p := s.Policy("region"); p == nil || p.Err != nil || p.Generation != 3 {
		t.Fatalf("policy: %+v", p)
	}
	got := map[string][]string{}
	for o, err := range s.Matched(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := s.Decide(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got[simulation.Describe(o.Content)] = nil
		for _, v := range outcome.Verdicts {
			if v.Err != nil {
				t.Error(v.Err)
			}
			for _, c := range v.Changes {
				got[simulation.Describe(o.Content)] = append(got[simulation.Describe(o.Content)], c.Action())
			}
		}
	}
	want := map[string][]string{
		"Deployment other/web": nil,
		"Deployment shop/web":  {"set annotation example.com/region to eu", `set annotation placement.berth.dev/clusters to ["eu-1"]`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestRequestedIsRestored checks that a record on an object counts although the simulation does not have the key.
func TestRequestedIsRestored(t *testing.T) {
	s := newSimulation(t, fleet)
	content := parse(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: eu}, annotations: {example.com/region: mine}}
spec: {template: {spec: {containers: [{name: main, image: web}]}}}`)[0]
	o, err := s.NewObject(content, false)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := s.Decide(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	placed := outcome.Object
	if got := placed.GetAnnotations()["example.com/region"]; got != "eu" {
		t.Fatalf("placed with %q", got)
	}
	// Another simulation signs with another key.
	s = newSimulation(t, fleet)
	requested, err := s.Requested(t.Context(), simulation.Object{Resource: o.Resource, Namespace: o.Namespace, Content: placed, Exists: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content.Object, requested.Object); diff != "" {
		t.Errorf("requested (-want +got):\n%s", diff)
	}
	verdicts, err := s.Verdicts(t.Context(), simulation.Object{Resource: o.Resource, Namespace: o.Namespace, Content: placed, Exists: true})
	if err != nil || len(verdicts) != 1 || len(verdicts[0].Changes) != 0 {
		t.Errorf("verdicts %+v, error %v", verdicts, err)
	}
}

// TestPoliciesThatCannotDecide checks that the verdict of such a policy has the reason.
func TestPoliciesThatCannotDecide(t *testing.T) {
	for name, test := range map[string]struct{ spec, want string }{
		"does not compile": {`rego: "package p\n\nclusters contains x if true\n"`, "var x is unsafe"},
		"remote":           {"remote: {url: \"https://opa.example/v1/data/p\"}", "the remote engine at https://opa.example/v1/data/p decides for this policy"},
		"type not served":  {`rego: "package p\n\nwarnings contains \"x\" if data.kubernetes.gadgets.a.b\n"`, "gadgets"},
		"no predicates":    {`rego: "package p\n\nwarnings contains \"x\" if count(berth.nodes.feasible(input)) > 0\n"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  `+test.spec)
			o := simulation.Object{
				Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "a",
				Content: parse(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}")[0],
			}
			verdicts, err := s.Verdicts(t.Context(), o)
			if err != nil || len(verdicts) != 1 || verdicts[0].Err == nil || !strings.Contains(verdicts[0].Err.Error(), test.want) {
				t.Errorf("verdicts %s, error %v; want %q", describe(verdicts), err, test.want)
			}
		})
	}
}

func describe(verdicts []*placement.Verdict) string {
	var out []string
	for _, v := range verdicts {
		out = append(out, v.Policy.Name)
		if v.Err != nil {
			out = append(out, v.Err.Error())
		}
	}
	return strings.Join(out, " ")
}

// TestStatic checks how a static cluster finds the types of objects.
func TestStatic(t *testing.T) {
	text := `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: oxen.farm.example.com}
spec:
  group: farm.example.com
  scope: Namespaced
  names: {kind: Ox, plural: oxen, singular: ox}
  versions: [{name: v1beta1, served: true, storage: false}, {name: v1, served: true, storage: true, subresources: {scale: {}}}, {name: v2, served: false, storage: false}]
---
apiVersion: farm.example.com/v1
kind: Ox
metadata: {name: a}
---
apiVersion: other.example.com/v1
kind: Policy
metadata: {name: b}`
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, text)...)
	if err != nil {
		t.Fatal(err)
	}
	oxen := schema.GroupVersionResource{Group: "farm.example.com", Version: "v1", Resource: "oxen"}
	if got := cluster.Catalog().ByPlural("oxen"); len(got) != 1 || got[0].GroupVersionResource != oxen || !got[0].Namespaced {
		t.Errorf("oxen: %v", got)
	}
	if got := cluster.Catalog().Scalable(func(r schema.GroupVersionResource) bool { return r == oxen }); len(got) != 1 {
		t.Errorf("scalable: %v", got)
	}
	if got, err := cluster.Get(t.Context(), oxen, "default", "a"); got == nil || got.GetNamespace() != "default" || err != nil {
		t.Errorf("object %v, error %v", got, err)
	}
	if got := cluster.Catalog().ByPlural("policies"); len(got) != 1 || got[0].Namespaced {
		t.Errorf("policies: %v", got)
	}
	if _, err := cluster.List(t.Context(), oxen.GroupResource().WithVersion("v1beta1"), nil); err == nil || !strings.Contains(err.Error(), "write them in version v1beta1") {
		t.Errorf("error %v", err)
	}
	if got, err := cluster.Resource(schema.GroupVersionKind{Group: "none.example.com", Version: "v1", Kind: "None"}); err == nil {
		t.Errorf("resource %v", got)
	}
}

// TestBadObjects checks that the errors name the object.
func TestBadObjects(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "object 1: apiVersion and kind are required",
		"apiVersion: v1\nkind: Pod\nmetadata: {namespace: a}":                                                            "Pod a/: metadata.name is missing",
		"apiVersion: placement.berth.dev/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: p}\nspec: {regoo: package p}": `PlacementPolicy p: `,
	} {
		_, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, text)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

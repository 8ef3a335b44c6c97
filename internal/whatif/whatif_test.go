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

package whatif_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, obj)
	}
	return out
}

const world = `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-1, namespace: fleet, labels: {region: eu}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata:
  name: us-1
  namespace: fleet
  labels: {region: us}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"metadata":{"labels":{"region":"us"}}}'}
spec: {displayName: "1.2"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: eu}, annotations: {placement.berth.dev/clusters: '["eu-1"]', placement.berth.dev/requested: RECORD}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: db, namespace: bank, labels: {region: us}, annotations: {placement.berth.dev/clusters: '["us-1"]', placement.berth.dev/requested: RECORD}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: unmatched, namespace: shop}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: pods, namespace: shop}
spec: {hard: {pods: "10", requests.cpu: "4"}}
status: {used: {pods: "5", requests.cpu: "1"}}
---
`

const region = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  remediation: {mode: Automatic}
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }
`

// placed returns the objects of the world after the policies placed them.
func placed(t *testing.T, text string) *simulation.Static {
	t.Helper()
	objects := parse(t, text)
	for _, obj := range objects {
		if obj.GetKind() == "Deployment" {
			obj.SetAnnotations(nil)
		}
	}
	bare, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulation.New(t.Context(), bare, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for o, err := range s.Matched(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		o.Exists = false
		outcome, err := s.Decide(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, outcome.Object)
	}
	out, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func reference(group, version, resource, namespace, name string) whatif.Reference {
	return whatif.Reference{
		Resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
	}
}

// summary renders a report, one line per object.
func summary(r *whatif.Report) []string {
	text := func(value *string) string {
		if value == nil {
			return "none"
		}
		return *value
	}
	var out []string
	for _, o := range r.Objects {
		line := fmt.Sprintf("%s %s %s/%s", o.Transition, o.Resource, o.Namespace, o.Name)
		for _, v := range o.Values {
			line += fmt.Sprintf(" %s: %s -> %s", v.Key, text(v.From), text(v.To))
		}
		out = append(out, strings.TrimSpace(line+" "+strings.Join(o.Reasons, "; ")))
	}
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("finding %s %t %s", f.Object, f.Error, f.Message))
	}
	return append(out, fmt.Sprintf("unchanged %d", r.Unchanged))
}

// parsedProfile is the ClusterProfile us-1 as it was last applied, with its region and the label tier.
const parsedProfile = `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: us-1, namespace: fleet, labels: {region: us, tier: gold}}
`

func TestWhatIf(t *testing.T) {
	profile := func(name string) whatif.Reference {
		return reference("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "fleet", name)
	}
	policy := reference("placement.berth.dev", "v1alpha1", "placementpolicies", "", "region")
	for name, test := range map[string]struct {
		changes whatif.Changes
		apply   string
		want    []string
	}{
		"nothing": {want: []string{"unchanged 2"}},
		"a cluster moves to another region": {
			changes: whatif.Changes{Set: []whatif.Assignment{{Reference: profile("us-1"), Path: []string{"metadata", "labels", "region"}, Value: "eu"}}},
			want: []string{
				`Denied deployments.apps bank/db region: no cluster is left: this policy allows none`,
				`Moved deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["eu-1","us-1"]`, "unchanged 0",
			},
		},
		"a cluster is removed": {
			changes: whatif.Changes{Delete: []whatif.Reference{profile("us-1")}},
			want:    []string{`Denied deployments.apps bank/db region: no cluster is left: this policy allows none`, "unchanged 1"},
		},
		"a policy is deleted": {
			changes: whatif.Changes{Delete: []whatif.Reference{policy}},
			want:    []string{"Unmatched deployments.apps bank/db region", "Unmatched deployments.apps shop/web region", "unchanged 0"},
		},
		"a policy denies": {
			apply: strings.Replace(region, "clusters contains", "errors contains \"no\" if input.metadata.namespace == \"bank\"\n\n    clusters contains", 1),
			want:  []string{"Denied deployments.apps bank/db region: no", "unchanged 1"},
		},
		"a policy does not compile": {
			apply: strings.Replace(region, "c.labels", "d.labels", 1),
			want: []string{
				"Undecidable deployments.apps bank/db region: the policy does not compile: region.rego:5:3: rego_unsafe_var_error: var d is unsafe",
				"Undecidable deployments.apps shop/web region: the policy does not compile: region.rego:5:3: rego_unsafe_var_error: var d is unsafe",
				"finding PlacementPolicy region true the policy does not compile: region.rego:5:3: rego_unsafe_var_error: var d is unsafe", "unchanged 0",
			},
		},
		"a new policy matches nothing": {
			apply: strings.NewReplacer("name: region", "name: other", "[apps]", "[batch]", "[deployments]", "[jobs]").Replace(region),
			want:  []string{"finding PlacementPolicy other false spec.match matches no existing object", "unchanged 2"},
		},
		"a quota is lowered": {
			changes: whatif.Changes{Set: []whatif.Assignment{{
				Reference: reference("placement.berth.dev", "v1alpha1", "scopedquotas", "shop", "pods"), Path: []string{"spec", "hard", "pods"}, Value: "2",
			}}},
			want: []string{"finding ScopedQuota shop/pods false 5 of pods are used, which exceeds the limit 2", "unchanged 2"},
		},
		"an object of the default namespace": {
			apply: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, labels: {region: eu}}",
			want:  []string{`Moved deployments.apps default/api placement.berth.dev/clusters: none -> ["eu-1"]`, "unchanged 2"},
		},
		"an object gets another label": {
			changes: whatif.Changes{Set: []whatif.Assignment{{
				Reference: reference("apps", "v1", "deployments", "shop", "web"), Path: []string{"metadata", "labels", "region"}, Value: "us",
			}}},
			want: []string{`Moved deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["us-1"]`, "unchanged 1"},
		},
		"a manifest lacks a label that the one before had": {
			apply: strings.Replace(parsedProfile, "region: us, ", "", 1),
			want:  []string{`Denied deployments.apps bank/db region: no cluster is left: this policy allows none`, "unchanged 1"},
		},
		"a manifest lacks a label that somebody else set": {
			apply: strings.Replace(parsedProfile, ", tier: gold", "", 1),
			want:  []string{"unchanged 2"},
		},
		"text that looks like a number": {
			changes: whatif.Changes{Set: []whatif.Assignment{{Reference: profile("us-1"), Path: []string{"spec", "displayName"}, Value: 1.3, Text: "1.30"}}},
			apply:   strings.NewReplacer("name: region", "name: display", "clusters contains name if", "labels.display := c.displayName if", "c.labels.region == input.metadata.labels.region", `name == "us-1"`, "data.clusters", `data.kubernetes.clusterprofiles.fleet; c := {"displayName": p.spec.displayName}`, "some name, c in", "some name, p in").Replace(region),
			want: []string{
				"Changed deployments.apps bank/db display: none -> 1.30", "Changed deployments.apps shop/web display: none -> 1.30", "unchanged 0",
			},
		},
		"a policy for new objects": {
			apply: strings.NewReplacer("name: region", "name: other", "Automatic", "NewOnly", "clusters contains name if", `labels["other"] := name if`, "c.labels.region == input.metadata.labels.region", `name == "eu-1"`).Replace(region),
			want:  []string{"Matched deployments.apps bank/db other", "Matched deployments.apps shop/web other", "unchanged 0"},
		},
		"an object that is being deleted": {
			changes: whatif.Changes{Set: []whatif.Assignment{
				{Reference: reference("apps", "v1", "deployments", "shop", "web"), Path: []string{"metadata", "deletionTimestamp"}, Value: "2026-01-01T00:00:00Z"},
				{Reference: profile("us-1"), Path: []string{"metadata", "labels", "region"}, Value: "eu"},
				{Reference: reference("apps", "v1", "deployments", "bank", "db"), Path: []string{"metadata", "labels", "region"}, Value: "eu"},
			}},
			want: []string{`Moved deployments.apps bank/db placement.berth.dev/clusters: ["us-1"] -> ["eu-1","us-1"]`, "unchanged 1"},
		},
		"a resource rule that matches nothing": {
			apply: strings.Replace(region, "[deployments]", "[deployments, deploymentz]", 1),
			want: []string{
				"finding PlacementPolicy region false spec.match.resourceRules[0].resources[1]: the API server does not serve \"deploymentz\" in apiGroups [\"apps\"], apiVersions [\"v1\"] (did you mean deployments?)", "unchanged 2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := whatif.NewSession(t.Context(), placed(t, world+region), simulation.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if test.apply != "" {
				test.changes.Apply = parse(t, test.apply)
			}
			report, err := s.WhatIf(t.Context(), test.changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, summary(report)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBadChanges checks that the errors name the object.
func TestBadChanges(t *testing.T) {
	s, err := whatif.NewSession(t.Context(), placed(t, world+region), simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scaler := "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: shop}"
	reader := strings.NewReplacer("name: region", "name: reader", "data.clusters", "data.kubernetes.horizontalpodautoscalers.shop").Replace(region)
	none := reference("", "v1", "nodes", "", "n1")
	for want, changes := range map[string]whatif.Changes{
		"nodes /n1 does not exist, so it can't be deleted":         {Delete: []whatif.Reference{none}},
		"nodes /n1: does not exist, so no field of it can be set":  {Set: []whatif.Assignment{{Reference: none, Path: []string{"a"}, Value: "b"}}},
		"Gadget a: the kind Gadget of example.com/v1 is not known": {Apply: parse(t, "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}")},
		"deployments.apps shop/web: its type, namespace, and name can't be changed": {
			Set: []whatif.Assignment{{Reference: reference("apps", "v1", "deployments", "shop", "web"), Path: []string{"metadata"}, Value: "x"}},
		},
		"ConfigMap: metadata.name is missing": {Apply: parse(t, "apiVersion: v1\nkind: ConfigMap\n")},
		"policies read or match horizontalpodautoscalers.autoscaling in version v2: write the change in this version, not in v1": {Apply: parse(t, scaler+"\n---\n"+reader)},
		`PlacementPolicy p: strict decoding error: unknown field "spec.regoo"`: {
			Apply: parse(t, "apiVersion: placement.berth.dev/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: p}\nspec: {regoo: a}"),
		},
	} {
		if _, err := s.WhatIf(t.Context(), changes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestViolations checks that objects that differ are listed with the difference, and objects that are placed are not.
func TestViolations(t *testing.T) {
	violations := func(cluster simulation.Cluster, policy string) ([]whatif.Violation, error) {
		t.Helper()
		s, err := simulation.New(t.Context(), cluster, simulation.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return whatif.Violations(t.Context(), s, policy)
	}
	if got, err := violations(placed(t, world+region), ""); err != nil || len(got) != 0 {
		t.Errorf("violations %v, error %v", got, err)
	}
	bare, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, world+strings.Replace(region, "mode: Enforce", "mode: DryRun", 1)+`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: new, namespace: shop, labels: {region: eu}}
`)...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := violations(bare, "region")
	if err != nil {
		t.Fatal(err)
	}
	want := []whatif.Violation{{
		Policy: "region", Resource: "deployments.apps", Namespace: "shop", Name: "new", Messages: []string{`annotation placement.berth.dev/clusters is absent, should be ["eu-1"]`},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if _, err := violations(bare, "none"); err == nil || !strings.Contains(err.Error(), `there is no PlacementPolicy "none"`) {
		t.Errorf("error %v", err)
	}
}

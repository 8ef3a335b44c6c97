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
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/projection"
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

// quotaReader denies what is requested in a namespace whose quota is used up.
const quotaReader = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: quotas}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rego: |
    package quotas

    errors contains "the namespace is full" if {
      quota := data.berth.quotas[input.metadata.namespace].pods
      some name, limit in quota.hard
      to_number(quota.used[name]) >= to_number(limit)
    }
`

const fullQuota = `apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: pods, namespace: bank}
spec: {hard: {pods: "1"}}
status: {hard: {pods: "1"}, used: {pods: "1"}}
---
`

// bare returns the objects of the world as they are requested.
func bare(t *testing.T, text string) *simulation.Static {
	t.Helper()
	objects := parse(t, text)
	for _, obj := range objects {
		if obj.GetKind() == "Deployment" {
			obj.SetAnnotations(nil)
		}
	}
	out, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// placed returns a cluster with placedObjects.
func placed(t *testing.T, text string) *simulation.Static {
	t.Helper()
	out, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), placedObjects(t, text)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// placedObjects returns the objects of the world after the policies placed them.
func placedObjects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	requested := bare(t, text)
	s, err := simulation.New(t.Context(), requested, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	objects := parse(t, text)
	for o, err := range s.Matched(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		o.Exists = false
		outcome, err := s.Decide(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if outcome.Object != nil {
			objects = append(objects, outcome.Object)
		}
	}
	return objects
}

// deployment returns a Deployment in the region eu.
func deployment(name string) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s, namespace: many, labels: {region: eu}}\n---\n", name)
}

func pod(name, namespace string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s}\nspec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}\n---\n", name, namespace)
}

// denials returns the lines of denied Deployments.
func denials(namespace string, names ...string) []string {
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("Denied deployments.apps %s/%s region: no", namespace, name))
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
			if v.Pending {
				line += " (pending)"
			}
			if v.Planned != nil {
				line += " instead of " + text(v.Planned.To)
			}
		}
		line = strings.TrimSpace(line + " " + strings.Join(o.Reasons, "; "))
		for _, v := range o.Dropped {
			line += fmt.Sprintf(", no longer %s: %s -> %s", v.Key, text(v.From), text(v.To))
		}
		out = append(out, line)
	}
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("finding %s %t %s", f.Object, f.Error, f.Message))
	}
	if r.Waiting > 0 {
		out = append(out, fmt.Sprintf("waiting %d", r.Waiting))
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
	web := reference("apps", "v1", "deployments", "shop", "web")
	set := func(r whatif.Reference, value any, path ...string) whatif.Assignment {
		return whatif.Assignment{Reference: r, Path: path, Value: value}
	}
	manual := strings.Replace(region, "Automatic", "Manual", 1)
	newOnly := strings.Replace(region, "Automatic", "NewOnly", 1)
	denying := strings.Replace(region, "clusters contains", `errors contains "no" if input.metadata.namespace == "bank"

    clusters contains`, 1)
	failing := strings.Replace(strings.Replace(region, "name: region", "name: failing", 1), "c.labels", "d.labels", 1)
	ignored := strings.Replace(failing, "mode: Enforce", "mode: Enforce\n  failurePolicy: Ignore", 1)
	for name, test := range map[string]struct {
		// world is added to the objects, and policies replace the policy region. The policies place the Deployments, unless
		// unplaced is true.
		world, policies string
		unplaced        bool
		recount         bool
		changes         whatif.Changes
		apply           string
		want            []string
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
			apply: strings.Replace(region, "clusters contains", `errors contains "no" if input.metadata.namespace == "bank"

    clusters contains`, 1),
			want: []string{"Denied deployments.apps bank/db region: no", "unchanged 1"},
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
			want:  []string{"finding ClusterProfile fleet/us-1 false the object already has this content, so nothing changes", "unchanged 2"},
		},
		"a manifest of a built-in kind": {
			world: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: two
  namespace: shop
  labels: {region: eu}
spec: {template: {spec: {containers: [{name: a, image: "1"}, {name: b, image: "1"}]}}}
---
`,
			policies: strings.Replace(region, "clusters contains", `errors contains "one container" if count(input.spec.template.spec.containers) == 1

    clusters contains`, 1), unplaced: true,
			apply: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: two, namespace: shop}\nspec: {template: {spec: {containers: [{name: b, image: \"2\"}]}}}",
			want:  []string{"unchanged 3"},
		},
		"a policy that was applied before": {
			policies: strings.Replace(manual, "metadata: {name: region}", `metadata: {name: region, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"mode":"Enforce"}}'}}`, 1),
			// Another client set the mode of remediation, and no manifest has it.
			apply: strings.Replace(strings.Replace(region, "  remediation: {mode: Automatic}\n", "", 1), "c.labels.region ==", "c.labels.region !=", 1),
			want: []string{
				`Pending deployments.apps bank/db placement.berth.dev/clusters: ["us-1"] -> ["eu-1"] (pending)`,
				`Pending deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["us-1"] (pending)`, "unchanged 0",
			},
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
			world: `apiVersion: apps/v1
kind: Deployment
metadata: {name: old, namespace: shop, labels: {region: eu}, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [example.com/a]}
---
`,
			changes: whatif.Changes{Set: []whatif.Assignment{set(profile("us-1"), "eu", "metadata", "labels", "region")}},
			want: []string{
				`Denied deployments.apps bank/db region: no cluster is left: this policy allows none`,
				`Moved deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["eu-1","us-1"]`, "unchanged 1",
			},
		},
		"a policy begins to change existing objects": {
			policies: manual, unplaced: true, apply: region,
			want: []string{
				`Moved deployments.apps bank/db placement.berth.dev/clusters: none -> ["us-1"] instead of ["us-1"]`,
				`Moved deployments.apps shop/web placement.berth.dev/clusters: none -> ["eu-1"] instead of ["eu-1"]`, "unchanged 0",
			},
		},
		"a policy begins to change existing objects of which another policy leaves the clusters alone": {
			policies: strings.Replace(region, "Enforce", "DryRun", 1) + "---\n" + strings.NewReplacer("name: region", "name: second", "Automatic", "\"Off\"").Replace(region), unplaced: true, apply: region,
			want: []string{
				`Moved deployments.apps bank/db placement.berth.dev/clusters: none -> ["us-1"] instead of ["us-1"]`,
				`Moved deployments.apps shop/web placement.berth.dev/clusters: none -> ["eu-1"] instead of ["eu-1"]`, "unchanged 0",
			},
		},
		"a policy stops changing existing objects": {
			apply: manual, want: []string{"unchanged 2"},
		},
		"a policy that leaves existing objects alone decides otherwise": {
			policies: manual,
			changes:  whatif.Changes{Set: []whatif.Assignment{set(profile("us-1"), "eu", "metadata", "labels", "region"), set(profile("eu-1"), "us", "metadata", "labels", "region")}},
			want: []string{
				`Pending deployments.apps bank/db placement.berth.dev/clusters: ["us-1"] -> ["eu-1"] (pending)`,
				`Pending deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["us-1"] (pending)`, "unchanged 0",
			},
		},
		"a policy that leaves existing objects alone is deleted": {
			policies: manual, unplaced: true, changes: whatif.Changes{Delete: []whatif.Reference{policy}},
			want: []string{
				`Unmatched deployments.apps bank/db region, no longer placement.berth.dev/clusters: none -> ["us-1"]`,
				`Unmatched deployments.apps shop/web region, no longer placement.berth.dev/clusters: none -> ["eu-1"]`, "unchanged 0",
			},
		},
		"a policy that leaves existing objects alone is no longer enforced": {
			policies: manual, unplaced: true, changes: whatif.Changes{Set: []whatif.Assignment{set(policy, "DryRun", "spec", "mode")}},
			want: []string{
				`Unenforced deployments.apps bank/db region, no longer placement.berth.dev/clusters: none -> ["us-1"]`,
				`Unenforced deployments.apps shop/web region, no longer placement.berth.dev/clusters: none -> ["eu-1"]`, "unchanged 0",
			},
		},
		"a policy is no longer enforced": {
			changes: whatif.Changes{Set: []whatif.Assignment{set(policy, "Warn", "spec", "mode")}},
			want:    []string{"Unenforced deployments.apps bank/db region", "Unenforced deployments.apps shop/web region", "unchanged 0"},
		},
		"a policy that is not enforced changes its mode": {
			policies: strings.Replace(region, "Enforce", "DryRun", 1), changes: whatif.Changes{Set: []whatif.Assignment{set(policy, "Warn", "spec", "mode")}},
			want: []string{"unchanged 2"},
		},
		"an update of what a manual policy reads": {
			policies: manual,
			changes:  whatif.Changes{Set: []whatif.Assignment{set(web, "us", "metadata", "labels", "region")}},
			want:     []string{`Moved deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["us-1"]`, "unchanged 1"},
		},
		"an update of something else while a manual policy decides otherwise": {
			policies: manual,
			changes: whatif.Changes{Set: []whatif.Assignment{
				set(profile("us-1"), "eu", "metadata", "labels", "region"), set(web, "b", "metadata", "labels", "a"),
			}},
			want: []string{"unchanged 2"},
		},
		"an update with a policy for new objects": {
			policies: newOnly,
			changes:  whatif.Changes{Set: []whatif.Assignment{set(web, "us", "metadata", "labels", "region")}},
			want:     []string{"unchanged 2"},
		},
		"an update that a policy takes back": {
			changes: whatif.Changes{Set: []whatif.Assignment{set(web, "[\"us-1\"]", "metadata", "annotations", "placement.berth.dev/preferences")}},
			want:    []string{"unchanged 2"},
		},
		"an update of an object that is denied": {
			policies: denying, unplaced: true,
			changes: whatif.Changes{Set: []whatif.Assignment{set(reference("apps", "v1", "deployments", "bank", "db"), "b", "metadata", "labels", "a")}},
			want:    []string{"Denied deployments.apps bank/db region: no", "unchanged 1"},
		},
		"an update that is allowed again": {
			world: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: asia, namespace: shop, labels: {region: asia}}\n---\n", unplaced: true,
			changes: whatif.Changes{Set: []whatif.Assignment{set(reference("apps", "v1", "deployments", "shop", "asia"), "eu", "metadata", "labels", "region")}},
			want: []string{
				`Allowed deployments.apps shop/asia placement.berth.dev/clusters: none -> ["eu-1"] region: no cluster is left: this policy allows none`, "unchanged 2",
			},
		},
		"another policy fails": {
			policies: region + "---\n" + failing, apply: strings.Replace(failing, "name: failing", "name: second", 1),
			want: []string{
				"Undecidable deployments.apps bank/db second: the policy does not compile: second.rego:5:3: rego_unsafe_var_error: var d is unsafe",
				"Undecidable deployments.apps shop/web second: the policy does not compile: second.rego:5:3: rego_unsafe_var_error: var d is unsafe",
				"finding PlacementPolicy second true the policy does not compile: second.rego:5:3: rego_unsafe_var_error: var d is unsafe", "unchanged 0",
			},
		},
		"a denial ends while a policy fails that is ignored": {
			policies: denying + "---\n" + ignored, apply: region,
			want: []string{"Allowed deployments.apps bank/db region: no", "unchanged 1"},
		},
		"a policy that leaves existing objects alone forbids what another keeps": {
			// An update asks both, and remediation the first one only.
			policies: strings.NewReplacer("name: region", "name: first", "input.metadata.labels.region", `"eu"`).Replace(region) + "---\n" + strings.NewReplacer("name: region", "name: second", "Automatic", "\"Off\"", "input.metadata.labels.region", `"eu"`).Replace(region),
			apply:    strings.NewReplacer("name: region", "name: first", "input.metadata.labels.region", `"us"`).Replace(region) + "---\n" + strings.NewReplacer("name: region", "name: second", "Automatic", "\"Off\"", "input.metadata.labels.region", `"us"`).Replace(region),
			want: []string{
				`Pending deployments.apps bank/db placement.berth.dev/clusters: ["eu-1"] -> ["us-1"] (pending)`,
				`Pending deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["us-1"] (pending)`, "unchanged 0",
			},
		},
		"a change of what no policy reads": {
			changes: whatif.Changes{Set: []whatif.Assignment{set(reference("", "v1", "configmaps", "shop", "unmatched"), "b", "data", "a")}},
			want:    []string{"finding ConfigMap shop/unmatched false no policy matches or reads configmaps, so the change moves nothing", "unchanged 2"},
		},
		"a change of a field that no policy reads": {
			policies: strings.NewReplacer("some name, c in data.clusters", `some name, c in data.kubernetes.configmaps.shop`, "c.labels.region == input.metadata.labels.region", `c.data.region == "eu"`).Replace(region), unplaced: true,
			changes: whatif.Changes{Set: []whatif.Assignment{set(reference("", "v1", "configmaps", "shop", "unmatched"), "b", "metadata", "labels", "a")}},
			want:    []string{"finding ConfigMap shop/unmatched false no policy reads what changes, so the change moves nothing", "unchanged 2"},
		},
		"a namespace is deleted": {
			world:    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {stage: dev}}\n---\n",
			policies: strings.Replace(region, "  match: {", "  match: {namespaceSelector: {matchLabels: {stage: dev}}, ", 1),
			changes:  whatif.Changes{Delete: []whatif.Reference{reference("", "v1", "namespaces", "", "shop")}},
			want: []string{
				"Unmatched deployments.apps shop/web region",
				"finding Namespace shop false the objects in the namespace are deleted, too; this report does not show that", "unchanged 0",
			},
		},
		"a policy whose remediation would be paused": {
			world: strings.Join([]string{deployment("a"), deployment("b"), deployment("c"), deployment("d"), deployment("e"), deployment("f"), deployment("g"), deployment("h"), deployment("i"), deployment("j"), ""}, ""),
			apply: strings.Replace(region, "clusters contains", `errors contains "no" if input.metadata.namespace == "many"

    clusters contains`, 1),
			want: slices.Concat(denials("many", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"), []string{
				"finding PlacementPolicy region false 10 of 12 matched objects would be left denied, undecided, or without clusters, which is more than 10 %: Berth pauses the policy in namespace many and moves none of its objects there until the change is released", "unchanged 2",
			}),
		},
		"a new quota": {
			recount: true, world: pod("a", "shop") + pod("b", "shop") + pod("c", "bank"),
			apply: "apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: new, namespace: shop}\nspec: {hard: {pods: \"1\", requests.cpu: \"2\"}}",
			want:  []string{"finding ScopedQuota shop/new false 2 of pods are used, which exceeds the limit 1", "unchanged 2"},
		},
		"a quota with a name that counts nothing": {
			recount: true, world: pod("a", "shop"),
			apply: "apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: new, namespace: shop}\nspec: {hard: {podz: \"1\", example.com/gpu: \"1\", pods: \"5\"}}",
			want: []string{
				"finding ScopedQuota shop/new false spec.hard[example.com/gpu]: Berth counts nothing under this name now, so that nothing is limited, or the API server refuses the quota: kubectl apply --dry-run=server says why",
				"finding ScopedQuota shop/new false spec.hard[podz]: Berth counts nothing under this name now, so that nothing is limited, or the API server refuses the quota: kubectl apply --dry-run=server says why", "unchanged 2",
			},
		},
		"a new quota in a snapshot": {
			apply: "apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: new, namespace: shop}\nspec: {hard: {pods: \"1\"}}",
			want:  []string{"finding ScopedQuota shop/new false how much of pods is used is not known here: ask the cluster instead of a snapshot", "unchanged 2"},
		},
		"a quota selects another namespace": {
			recount: true,
			world: pod("a", "shop") + pod("b", "bank") + "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: bank}\n---\n" +
				"apiVersion: placement.berth.dev/v1alpha1\nkind: ClusterScopedQuota\nmetadata: {name: team}\nspec: {hard: {pods: \"1\"}, namespaceSelector: {matchLabels: {team: a}}}\n---\n",
			changes: whatif.Changes{Set: []whatif.Assignment{set(reference("", "v1", "namespaces", "", "bank"), "a", "metadata", "labels", "team")}},
			want: []string{
				"finding ClusterScopedQuota team false 2 of pods are used, which exceeds the limit 1",
				"finding Namespace bank false no policy matches or reads namespaces, so the change moves nothing", "unchanged 2",
			},
		},
		"a lowered quota that a policy reads": {
			policies: quotaReader, unplaced: true,
			changes: whatif.Changes{Set: []whatif.Assignment{{
				Reference: reference("placement.berth.dev", "v1alpha1", "scopedquotas", "shop", "pods"), Path: []string{"spec", "hard", "pods"}, Value: "5",
			}}},
			want: []string{"Denied deployments.apps shop/web quotas: the namespace is full", "unchanged 1"},
		},
		"a quota that a policy reads is raised with a manifest": {
			policies: quotaReader, unplaced: true, world: fullQuota,
			apply: strings.NewReplacer(`"1"`, `"7"`, "---\n", "", "\nstatus: {hard: {pods: \"1\"}, used: {pods: \"1\"}}", "").Replace(fullQuota),
			want:  []string{"Allowed deployments.apps bank/db quotas: the namespace is full", "unchanged 1"},
		},
		"a new quota that a policy reads": {
			recount: true, policies: quotaReader, unplaced: true, world: pod("a", "bank"),
			apply: "apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: pods, namespace: bank}\nspec: {hard: {pods: \"1\"}}",
			want:  []string{"Denied deployments.apps bank/db quotas: the namespace is full", "unchanged 1"},
		},
		"a quota that a policy reads is deleted": {
			policies: quotaReader, unplaced: true, world: fullQuota,
			changes: whatif.Changes{Delete: []whatif.Reference{reference("placement.berth.dev", "v1alpha1", "scopedquotas", "bank", "pods")}},
			want:    []string{"Allowed deployments.apps bank/db quotas: the namespace is full", "unchanged 1"},
		},
		"what a quota counts is deleted": {
			recount: true, policies: quotaReader, unplaced: true, world: fullQuota + pod("a", "bank"),
			changes: whatif.Changes{Delete: []whatif.Reference{reference("", "v1", "pods", "bank", "a")}},
			want:    []string{"Allowed deployments.apps bank/db quotas: the namespace is full", "unchanged 1"},
		},
		"what a quota counts is created": {
			// The request of the new object is decided before the quota counts it.
			recount: true, policies: strings.Replace(quotaReader, "[deployments]", "[deployments, replicasets]", 1), unplaced: true,
			world: "apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: pods, namespace: bank}\n" +
				"spec: {hard: {count/replicasets.apps: \"1\"}}\nstatus: {hard: {count/replicasets.apps: \"1\"}, used: {count/replicasets.apps: \"0\"}}\n---\n",
			apply: "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: new, namespace: bank}",
			want: []string{
				"Denied deployments.apps bank/db quotas: the namespace is full", "Matched replicasets.apps bank/new quotas", "unchanged 1",
			},
		},
		"a namespace comes to a quota that a policy reads": {
			recount: true, policies: strings.Replace(quotaReader, "data.berth.quotas[input.metadata.namespace].pods", "data.berth.clusterquotas.team", 1), unplaced: true,
			world: pod("a", "shop") + pod("b", "bank") + "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: bank}\n---\n" +
				"apiVersion: placement.berth.dev/v1alpha1\nkind: ClusterScopedQuota\nmetadata: {name: team}\nspec: {hard: {pods: \"2\"}, namespaceSelector: {matchLabels: {team: a}}}\nstatus: {hard: {pods: \"2\"}, used: {pods: \"1\"}}\n---\n",
			changes: whatif.Changes{Set: []whatif.Assignment{set(reference("", "v1", "namespaces", "", "bank"), "a", "metadata", "labels", "team")}},
			want: []string{
				"Denied deployments.apps bank/db quotas: the namespace is full", "Denied deployments.apps shop/web quotas: the namespace is full", "unchanged 0",
			},
		},
		"a namespace whose manifest lacks the label with its name": {
			world:    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}\n---\n",
			policies: strings.Replace(region, "  match: {", "  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}, ", 1),
			apply:    `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {a: b}}}`,
			want:     []string{"unchanged 1"},
		},
		"a limit of quotas": {
			apply: "apiVersion: placement.berth.dev/v1alpha1\nkind: LimitedResource\nmetadata: {name: gpus}\nspec: {resource: pods}",
			want:  []string{"finding LimitedResource gpus false this report does not say which requests the LimitedResource denies because no quota covers them", "unchanged 2"},
		},
		"a resource rule that matches nothing": {
			apply: strings.Replace(region, "[deployments]", "[deployments, deploymentz]", 1),
			want: []string{
				"finding PlacementPolicy region false spec.match.resourceRules[0].resources[1]: the API server does not serve \"deploymentz\" in apiGroups [\"apps\"], apiVersions [\"v1\"] (did you mean deployments?)", "unchanged 2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := bare
			if !test.unplaced {
				cluster = placed
			}
			s, err := whatif.NewSession(t.Context(), cluster(t, world+test.world+cmp.Or(test.policies, region)), simulation.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.Recount = test.recount
			if test.apply != "" {
				test.changes.Apply = parse(t, test.apply)
			}
			report, err := s.WhatIf(t.Context(), test.changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.want, summary(report)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// cut is a cluster that returns no more fields than are needed, as an API server's objects are kept.
type cut struct{ simulation.Cluster }

func (c cut) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	objects, err := c.Cluster.List(ctx, resource, fields)
	if err != nil || fields == nil {
		return objects, err
	}
	var out []*unstructured.Unstructured
	for _, obj := range objects {
		out = append(out, &unstructured.Unstructured{Object: projection.Union(simulation.IdentityFields(), fields).Project(obj.Object)})
	}
	return out, nil
}

// TestFieldsOfLaterPolicies checks that policies decide with fields that only they read.
func TestFieldsOfLaterPolicies(t *testing.T) {
	large := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: large, namespace: shop, labels: {region: eu}}\nspec: {replicas: 9}\n---\n"
	denying := strings.Replace(region, "clusters contains", `errors contains "too many" if input.spec.replicas > 5

    clusters contains`, 1)
	conditional := strings.Replace(strings.Replace(region, "name: region", "name: conditional", 1), "  match: {", "  match: {matchConditions: [{name: large, expression: 'object.?spec.?replicas.orValue(1) > 5'}], ", 1)
	for want, apply := range map[string]string{
		"Denied deployments.apps shop/large region: too many":  denying,
		"Matched deployments.apps shop/large conditional":      conditional,
		"Denied deployments.apps shop/large another: too many": strings.Replace(denying, "name: region", "name: another", 1),
	} {
		s, err := whatif.NewSession(t.Context(), cut{placed(t, world+large+region)}, simulation.Options{})
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.WhatIf(t.Context(), whatif.Changes{Apply: parse(t, apply)})
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(report); got[0] != want {
			t.Errorf("report %q, want first %q", got, want)
		}
	}
}

// vanishing is a cluster in which the Deployment web is deleted after the Deployments were read once.
type vanishing struct {
	cut
	read *bool
}

func (v vanishing) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	objects, err := v.cut.List(ctx, resource, fields)
	if resource.Resource != "deployments" {
		return objects, err
	}
	if *v.read {
		objects = slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return o.GetName() == "web" })
	}
	*v.read = true
	return objects, err
}

// TestObjectThatVanishes checks that an object is left out that is deleted before its type is read again with more fields.
func TestObjectThatVanishes(t *testing.T) {
	s, err := whatif.NewSession(t.Context(), vanishing{cut{placed(t, world+region)}, new(bool)}, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := s.WhatIf(t.Context(), whatif.Changes{Apply: parse(t, strings.Replace(region, "clusters contains", `errors contains "no" if not input.spec.replicas

    clusters contains`, 1))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{"Denied deployments.apps bank/db region: no", "unchanged 0"}, summary(report)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestMoves checks that objects with values that change at once count, whatever else happens to them.
func TestMoves(t *testing.T) {
	r := &whatif.Report{Objects: []whatif.Object{
		{Transition: whatif.Moved, Values: []whatif.Value{{Key: "a"}}}, {Transition: whatif.Allowed, Values: []whatif.Value{{Key: "a"}, {Key: "b", Pending: true}}},
		{Transition: whatif.Pending, Values: []whatif.Value{{Key: "a", Pending: true}}}, {Transition: whatif.Denied},
	}}
	if got := r.Moves(); got != 2 {
		t.Errorf("moves %d, want 2", got)
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
		"nodes n1 does not exist, so it can't be deleted":          {Delete: []whatif.Reference{none}},
		"nodes n1: does not exist, so no field of it can be set":   {Set: []whatif.Assignment{{Reference: none, Path: []string{"a"}, Value: "b"}}},
		"Gadget a: the kind Gadget of example.com/v1 is not known": {Apply: parse(t, "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}")},
		"deployments.apps shop/web: a change can't set the type, namespace, or name of an object": {
			Set: []whatif.Assignment{{Reference: reference("apps", "v1", "deployments", "shop", "web"), Path: []string{"metadata"}, Value: "x"}},
		},
		"ConfigMap: metadata.name is missing": {Apply: parse(t, "apiVersion: v1\nkind: ConfigMap\n")},
		"policies or quotas read horizontalpodautoscalers.autoscaling in version v2: write the change in this version, not in v1": {Apply: parse(t, scaler+"\n---\n"+reader)},
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
		Note: "Berth does not patch the object, because spec.mode of the policy is DryRun",
	}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	denying := strings.Replace(region, "clusters contains", `errors contains "no" if input.metadata.name == "new"

    labels.tier := "gold"

    clusters contains`, 1)
	denied, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, denying+`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: new, namespace: shop, labels: {region: eu}}
`)...)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = violations(denied, "region"); err != nil || len(got) != 1 {
		t.Fatalf("violations %v, error %v", got, err)
	}
	if diff := gocmp.Diff([]string{"denied: no"}, got[0].Messages); diff != "" {
		t.Errorf("messages of a denied object (-want +got):\n%s", diff)
	}
	if _, err := violations(bare, "none"); err == nil || !strings.Contains(err.Error(), `there is no PlacementPolicy "none"`) {
		t.Errorf("error %v", err)
	}
}

// withoutDeployments is a cluster whose user may not list deployments.
type withoutDeployments struct{ simulation.Cluster }

// List implements simulation.Cluster.
func (c withoutDeployments) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	if resource.Resource == "deployments" {
		return nil, apierrors.NewForbidden(resource.GroupResource(), "", nil)
	}
	return c.Cluster.List(ctx, resource, fields)
}

// TestMissing checks that a report names the types that are missing, also if policies match them only before the changes or only after.
func TestMissing(t *testing.T) {
	only := strings.Replace(region, "resources: [deployments]", "resources: [statefulsets]", 1)
	for name, test := range map[string]struct {
		before string
		change whatif.Changes
	}{
		"before and after": {region, whatif.Changes{}},
		"only before":      {region, whatif.Changes{Apply: parse(t, only)}},
		"only after":       {only, whatif.Changes{Apply: parse(t, region)}},
	} {
		session, err := whatif.NewPartialSession(t.Context(), withoutDeployments{bare(t, world+test.before)}, simulation.Options{})
		if err != nil {
			t.Fatal(err)
		}
		report, err := session.WhatIf(t.Context(), test.change)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"deployments.apps"}; !slices.Equal(report.Missing, want) {
			t.Errorf("%s: %q, want %q", name, report.Missing, want)
		}
	}
}

// TestAlias checks that a value has no alias, because a short text could stand for a value of any size.
func TestAlias(t *testing.T) {
	const text = "clusterprofiles/fleet/eu-1:spec.displayName={a: &b c, d: *b}"
	if _, err := whatif.ParseAssignment(t.Context(), bare(t, world+region), text); err == nil || !strings.Contains(err.Error(), "alias *b") {
		t.Error(err)
	}
}

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

package clusterlist_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/test/budget"
)

// resources are the resources of the kinds in the tests' objects.
var resources = map[string]schema.GroupResource{
	"karmada":  {Group: "policy.karmada.io", Resource: "propagationpolicies"},
	"fleet":    {Group: "placement.kubernetes-fleet.io", Resource: "clusterresourceplacements"},
	"decision": {Group: "multicluster.x-k8s.io", Resource: "placementdecisions"},
	"declared": {Group: "fleet.example.com", Resource: "rollouts"},
}

func kind(t testing.TB, system string) *clusterlist.Kind {
	t.Helper()
	kinds, err := clusterlist.NewKinds(clusterlist.Declaration{GroupResource: resources["declared"], Kind: "Rollout", Path: []string{"spec", "target", "clusters"}})
	if err != nil {
		t.Fatal(err)
	}
	out := kinds.Of(resources[system])
	if out == nil {
		t.Fatalf("%s is unknown", system)
	}
	return out
}

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func textOf(text *string) string {
	if text == nil {
		return "none"
	}
	return *text
}

const (
	flat  = "spec.placement.clusterAffinity.clusterNames"
	terms = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms"
)

// fleet returns a placement of KubeFleet with the cluster selector terms.
func fleet(placementType, terms string) string {
	return `{spec: {policy: {placementType: ` + placementType + `, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: ` + terms + `}}}}}}`
}

func named(names string) string {
	return `{key: clusters.berth.dev/name, operator: In, values: ` + names + `}`
}

// TestReadAndWrite reads each object, writes another text, reads that, and restores the object.
func TestReadAndWrite(t *testing.T) {
	const decided = `["b","c"]`
	const placed = `{spec: {policy: {placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchExpressions: [{key: clusters.berth.dev/name, operator: In, values: [b, c]}]}}]}}}}}}`
	tests := map[string]struct {
		system, object string
		path, text     string
		// set is the text to write, or decided. want is the object then, and restored is the restored object if it is not the first.
		set, want, restored string
	}{
		"KarmadaNoSpec":      {system: "karmada", object: `{}`, path: flat, text: "none", want: `{spec: {placement: {clusterAffinity: {clusterNames: [b, c]}}}}`, restored: `{spec: {}}`},
		"KarmadaNoPlacement": {system: "karmada", object: `{spec: {x: 1}}`, path: flat, text: "none", want: `{spec: {x: 1, placement: {clusterAffinity: {clusterNames: [b, c]}}}}`},
		"KarmadaEmptyPlacement": {
			system: "karmada", object: `{spec: {placement: {}}}`, path: flat, text: "none", want: `{spec: {placement: {clusterAffinity: {clusterNames: [b, c]}}}}`,
		},
		"KarmadaEmptyAffinity": {
			system: "karmada", object: `{spec: {placement: {clusterAffinity: {}}}}`, path: flat, text: "none",
			want: `{spec: {placement: {clusterAffinity: {clusterNames: [b, c]}}}}`,
		},
		"KarmadaEmptyNames": {
			system: "karmada", object: `{spec: {placement: {clusterAffinity: {clusterNames: []}}}}`, path: flat, text: "none",
			want: `{spec: {placement: {clusterAffinity: {clusterNames: [b, c]}}}}`,
		},
		"KarmadaOtherMembers": {
			system: "karmada", object: `{spec: {placement: {spreadConstraints: [], clusterAffinity: {exclude: [x]}}}}`, path: flat, text: "none",
			want: `{spec: {placement: {spreadConstraints: [], clusterAffinity: {exclude: [x], clusterNames: [b, c]}}}}`,
		},
		"KarmadaNames": {
			system: "karmada", object: `{spec: {placement: {clusterAffinity: {clusterNames: [c, b, a]}}}}`, path: flat, text: `["c","b","a"]`,
			want: `{spec: {placement: {clusterAffinity: {clusterNames: [b, c]}}}}`,
		},
		"KarmadaNone": {
			system: "karmada", object: `{spec: {placement: {clusterAffinity: {clusterNames: [a]}}}}`, path: flat, text: `["a"]`, set: `[]`,
			want: `{spec: {placement: {clusterAffinity: {clusterNames: [no-cluster.placement.berth.dev]}}}}`,
		},
		"KarmadaReserved": {
			system: "karmada", object: `{spec: {placement: {clusterAffinity: {clusterNames: [no-cluster.placement.berth.dev]}}}}`, path: flat, text: `[]`,
			want: `{spec: {placement: {clusterAffinity: {clusterNames: [b, c]}}}}`,
		},
		"KarmadaReservedAndOther": {
			system: "karmada", object: `{spec: {placement: {clusterAffinity: {clusterNames: [no-cluster.placement.berth.dev, a]}}}}`, path: flat,
			text: `["no-cluster.placement.berth.dev","a"]`, want: `{spec: {placement: {clusterAffinity: {clusterNames: [b, c]}}}}`,
		},
		"KarmadaTerms": {
			system: "karmada", path: "spec.placement.clusterAffinities", text: `[["a","b"],null,null]`, set: `[["b"],["b","c"],[]]`,
			object: `{spec: {placement: {clusterAffinities: [{affinityName: x, clusterNames: [a, b]}, {affinityName: y}, {affinityName: z, clusterNames: []}]}}}`,
			want:   `{spec: {placement: {clusterAffinities: [{affinityName: x, clusterNames: [b]}, {affinityName: y, clusterNames: [b, c]}, {affinityName: z, clusterNames: [no-cluster.placement.berth.dev]}]}}}`,
		},
		"KarmadaOneTerm": {
			system: "karmada", path: "spec.placement.clusterAffinities", text: `[["a"]]`, set: `[["b"]]`,
			object: `{spec: {placement: {clusterAffinities: [{affinityName: x, clusterNames: [a]}]}}}`,
			want:   `{spec: {placement: {clusterAffinities: [{affinityName: x, clusterNames: [b]}]}}}`,
		},
		"KarmadaOverflow": {
			system: "karmada", path: "spec.placement.clusterAffinities", text: `[["a"],["b"],null]`, set: `[["a"],[],["a"]]`,
			object: `{spec: {placement: {clusterAffinities: [{affinityName: x, clusterNames: [a], overflowAffinities: [{affinityName: y, clusterNames: [b]}, {affinityName: z}]}]}}}`,
			want:   `{spec: {placement: {clusterAffinities: [{affinityName: x, clusterNames: [a], overflowAffinities: [{affinityName: y, clusterNames: [no-cluster.placement.berth.dev]}, {affinityName: z, clusterNames: [a]}]}]}}}`,
		},
		"FleetNoPolicy":    {system: "fleet", object: `{spec: {x: 1}}`, path: terms, text: "none", want: strings.Replace(placed, "{spec: {", "{spec: {x: 1, ", 1), restored: `{spec: {x: 1, policy: {placementType: PickAll}}}`},
		"FleetEmptyPolicy": {system: "fleet", object: `{spec: {policy: {}}}`, path: terms, text: "none", want: strings.Replace(placed, "placementType: PickAll, ", "", 1)},
		"FleetPickAll":     {system: "fleet", object: `{spec: {policy: {placementType: PickAll}}}`, path: terms, text: "none", want: placed},
		"FleetEmptyParts":  {system: "fleet", object: `{spec: {policy: {placementType: PickAll, affinity: {clusterAffinity: {}}}}}`, path: terms, text: "none", want: placed},
		"FleetNoTerms":     {system: "fleet", object: fleet("PickAll", "[]"), path: terms, text: "none", want: placed},
		"FleetEmptyTerm":   {system: "fleet", object: fleet("PickAll", "[{}]"), path: terms, text: "none", want: placed},
		"FleetEmptyTermParts": {
			system: "fleet", object: fleet("PickAll", "[{labelSelector: {matchExpressions: []}}]"), path: terms, text: "none", want: placed,
		},
		"FleetOtherExpression": {
			system: "fleet", object: fleet("PickN", "[{labelSelector: {matchLabels: {r: eu}, matchExpressions: [{key: x, operator: Exists}]}}]"), path: terms, text: "none",
			want: fleet("PickN", "[{labelSelector: {matchLabels: {r: eu}, matchExpressions: [{key: x, operator: Exists}, "+named("[b, c]")+"]}}]"),
		},
		"FleetPropertySelector": {
			system: "fleet", object: fleet("PickN", "[{propertySelector: {matchExpressions: []}}]"), path: terms, text: "none",
			want: fleet("PickN", "[{propertySelector: {matchExpressions: []}, labelSelector: {matchExpressions: ["+named("[b, c]")+"]}}]"),
		},
		"FleetOwnNames": {
			system: "fleet", object: fleet("PickN", "[{labelSelector: {matchExpressions: ["+named("[b, a]")+", {key: x, operator: Exists}]}}]"), path: terms, text: `["b","a"]`, set: `["a"]`,
			want: fleet("PickN", "[{labelSelector: {matchExpressions: ["+named("[a]")+", {key: x, operator: Exists}]}}]"),
		},
		"FleetExcludedNames": {
			system: "fleet", object: fleet("PickN", "[{labelSelector: {matchExpressions: [{key: clusters.berth.dev/name, operator: NotIn, values: [b]}]}}]"), path: terms, text: "none",
			want: fleet("PickN", "[{labelSelector: {matchExpressions: [{key: clusters.berth.dev/name, operator: NotIn, values: [b]}, "+named("[b, c]")+"]}}]"),
		},
		"FleetTerms": {
			system: "fleet", object: fleet("PickN", "[{labelSelector: {matchExpressions: ["+named("[a]")+"]}}, {}]"), path: terms, text: `[["a"],null]`, set: `[[],["b"]]`,
			want: fleet("PickN", "[{labelSelector: {matchExpressions: ["+named("[no-cluster.placement.berth.dev]")+"]}}, {labelSelector: {matchExpressions: ["+named("[b]")+"]}}]"),
		},
		"FleetPickFixed": {
			system: "fleet", object: `{spec: {policy: {placementType: PickFixed, clusterNames: [a, b]}}}`, path: "spec.policy.clusterNames", text: `["a","b"]`, set: `["a"]`,
			want: `{spec: {policy: {placementType: PickFixed, clusterNames: [a]}}}`,
		},
		"FleetPickFixedNone": {
			system: "fleet", object: `{spec: {policy: {placementType: PickFixed}}}`, path: "spec.policy.clusterNames", text: "none", set: `[]`,
			want: `{spec: {policy: {placementType: PickFixed, clusterNames: [no-cluster.placement.berth.dev]}}}`,
		},
		"DecisionAbsent": {
			system: "decision", object: `{metadata: {namespace: ns}}`, path: "decisions", text: "none", restored: `{metadata: {namespace: ns}, decisions: []}`,
			want: `{metadata: {namespace: ns}, decisions: [{clusterProfileRef: {name: b, namespace: ns}}, {clusterProfileRef: {name: c, namespace: ns}}]}`,
		},
		"DecisionEmpty": {system: "decision", object: `{decisions: []}`, path: "decisions", text: `[]`, want: `{decisions: [{clusterProfileRef: {name: b}}, {clusterProfileRef: {name: c}}]}`},
		"DecisionNone":  {system: "decision", object: `{decisions: [{clusterProfileRef: {name: b}}]}`, path: "decisions", text: `["b"]`, set: `[]`, want: `{decisions: []}`},
		"DecisionEntries": {
			system: "decision", path: "decisions", text: `["c","a","d"]`, set: `["c","d","e"]`,
			object: `{metadata: {namespace: ns}, decisions: [{clusterProfileRef: {name: c, namespace: m}, reason: r}, {clusterProfileRef: {name: a, namespace: m}, reason: s}, {clusterProfileRef: {name: d}}, {clusterProfileRef: {name: c, namespace: o}}]}`,
			want:   `{metadata: {namespace: ns}, decisions: [{clusterProfileRef: {name: c, namespace: m}, reason: r}, {clusterProfileRef: {name: c, namespace: o}}, {clusterProfileRef: {name: d}}, {clusterProfileRef: {name: e, namespace: ns}}]}`,
		},
		"Declared": {
			system: "declared", object: `{spec: {target: {wave: 1}}}`, path: "spec.target.clusters", text: "none", want: `{spec: {target: {wave: 1, clusters: [b, c]}}}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k, obj := kind(t, tc.system), decode(t, tc.object)
			before, err := k.Read(obj)
			if err != nil {
				t.Fatal(err)
			}
			if before.Path != tc.path || textOf(before.Text) != tc.text {
				t.Errorf("read %s %s, want %s %s", before.Path, textOf(before.Text), tc.path, tc.text)
			}
			set := tc.set
			if set == "" {
				set = decided
			}
			placed, err := k.Write(obj, &set, before.Form)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decode(t, tc.want), placed); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			if after, err := k.Read(placed); err != nil || textOf(after.Text) != set {
				t.Errorf("read %s of the placed object, %v, want %s", textOf(after.Text), err, set)
			}
			restored, err := k.Write(placed, before.Text, before.Form)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.object
			if tc.restored != "" {
				want = tc.restored
			}
			if diff := cmp.Diff(decode(t, want), restored); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(decode(t, tc.object), obj); diff != "" {
				t.Errorf("the object itself changed:\n%s", diff)
			}
		})
	}
}

// TestKept shows that restoring keeps what other clients wrote beside the names.
func TestKept(t *testing.T) {
	tests := map[string]struct{ system, object, placed, want string }{
		"KarmadaSibling": {
			"karmada", `{spec: {}}`, `{spec: {placement: {clusterAffinity: {clusterNames: [b], exclude: [x]}}}}`, `{spec: {placement: {clusterAffinity: {exclude: [x]}}}}`,
		},
		"FleetTerm": {
			"fleet", `{spec: {}}`, fleet("PickAll", "[{labelSelector: {matchExpressions: ["+named("[b]")+", {key: x, operator: Exists}]}}]"),
			fleet("PickAll", "[{labelSelector: {matchExpressions: [{key: x, operator: Exists}]}}]"),
		},
		"DecisionReason": {
			"decision", `{decisions: [{clusterProfileRef: {name: a}, reason: r}, {clusterProfileRef: {name: b}}]}`, `{decisions: [{clusterProfileRef: {name: b}, reason: new}]}`,
			`{decisions: [{clusterProfileRef: {name: a}, reason: r}, {clusterProfileRef: {name: b}, reason: new}]}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := kind(t, tc.system)
			before, err := k.Read(decode(t, tc.object))
			if err != nil {
				t.Fatal(err)
			}
			got, err := k.Write(decode(t, tc.placed), before.Text, before.Form)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decode(t, tc.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWidenedDecision gives a narrowed PlacementDecision one of its requested clusters back, and a cluster that was not requested.
func TestWidenedDecision(t *testing.T) {
	k := kind(t, "decision")
	before, err := k.Read(decode(t, `{decisions: [{clusterProfileRef: {name: a, namespace: m}, reason: r}, {clusterProfileRef: {name: b}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.Write(decode(t, `{decisions: [{clusterProfileRef: {name: b}}]}`), new(`["a","c"]`), before.Form)
	if err != nil {
		t.Fatal(err)
	}
	want := decode(t, `{decisions: [{clusterProfileRef: {name: a, namespace: m}, reason: r}, {clusterProfileRef: {name: c}}]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestResolvedDecision reads and writes references where it is known which ClusterProfile represents which cluster.
func TestResolvedDecision(t *testing.T) {
	var none *clusterlist.Kinds
	k := none.Resolving(func(cluster string) (string, bool) {
		namespace, ok := map[string]string{"a": "fleet", "b": "shop"}[cluster]
		return namespace, ok
	}).Of(schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "placementdecisions"})
	object := func(decisions string) map[string]any {
		return decode(t, `{metadata: {namespace: shop}, decisions: `+decisions+`}`)
	}
	for name, tc := range map[string]struct{ decisions, text, write, want string }{
		"TheCluster":    {`[{clusterProfileRef: {name: a, namespace: fleet}}]`, `["a"]`, `["a"]`, `[{clusterProfileRef: {name: a, namespace: fleet}}]`},
		"Another":       {`[{clusterProfileRef: {name: a, namespace: evil}}]`, `["evil/a"]`, `["a"]`, `[{clusterProfileRef: {name: a, namespace: fleet}}]`},
		"Both":          {`[{clusterProfileRef: {name: a, namespace: evil}}, {clusterProfileRef: {name: a, namespace: fleet}}]`, `["evil/a","a"]`, `["a"]`, `[{clusterProfileRef: {name: a, namespace: fleet}}]`},
		"Own":           {`[{clusterProfileRef: {name: b}}]`, `["b"]`, `["b","a"]`, `[{clusterProfileRef: {name: b}}, {clusterProfileRef: {name: a, namespace: fleet}}]`},
		"NotOwn":        {`[{clusterProfileRef: {name: a}}]`, `["shop/a"]`, `["shop/a"]`, `[{clusterProfileRef: {name: a}}]`},
		"Unknown":       {`[{clusterProfileRef: {name: c, namespace: evil}}]`, `["c"]`, `["c","d"]`, `[{clusterProfileRef: {name: c, namespace: evil}}, {clusterProfileRef: {name: d, namespace: shop}}]`},
		"AnotherIsBack": {`[]`, `[]`, `["evil/a"]`, `[{clusterProfileRef: {name: a, namespace: evil}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := k.Read(object(tc.decisions))
			if err != nil || textOf(got.Text) != tc.text {
				t.Errorf("read %s, %v, want %s", textOf(got.Text), err, tc.text)
			}
			written, err := k.Write(object(tc.decisions), &tc.write, got.Form)
			if diff := cmp.Diff(object(tc.want), written); err != nil || diff != "" {
				t.Errorf("written, error %v (-want +got):\n%s", err, diff)
			}
			// What was narrowed to nothing comes back as it was.
			empty, err := k.Write(object(tc.decisions), new("[]"), got.Form)
			if err != nil {
				t.Fatal(err)
			}
			for _, kinds := range []*clusterlist.Kind{k, kind(t, "decision")} {
				back, err := kinds.Write(empty, got.Text, got.Form)
				if diff := cmp.Diff(object(tc.decisions), back); err != nil || diff != "" {
					t.Errorf("restored, error %v (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

// TestBuiltinKinds checks that the kinds of all systems whose placement objects Berth writes are known, and others are not.
func TestBuiltinKinds(t *testing.T) {
	for resource, want := range map[string][]string{
		"propagationpolicies.policy.karmada.io":                   {"spec", "placement"},
		"clusterpropagationpolicies.policy.karmada.io":            {"spec", "placement"},
		"clusterresourceplacements.placement.kubernetes-fleet.io": {"spec", "policy"},
		"resourceplacements.placement.kubernetes-fleet.io":        {"spec", "policy"},
		"placementdecisions.multicluster.x-k8s.io":                {"decisions"},
		"placements.cluster.open-cluster-management.io":           nil,
		"placementdecisions.cluster.open-cluster-management.io":   nil,
		"workloads.kueue.x-k8s.io":                                nil,
		"deployments.apps":                                        nil,
	} {
		k := (*clusterlist.Kinds)(nil).Of(schema.ParseGroupResource(resource))
		var got []string
		if k != nil {
			got = k.Root()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", resource, diff)
		}
	}
}

// TestLimits checks how many clusters each field can have.
func TestLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		system, object string
		want           int
	}{
		"Karmada":   {"karmada", `{spec: {}}`, 0},
		"PickFixed": {"fleet", `{spec: {policy: {placementType: PickFixed}}}`, 100},
		"PickN":     {"fleet", `{spec: {policy: {placementType: PickN}}}`, 0},
		"Decision":  {"decision", `{decisions: []}`, 100},
		"Declared":  {"declared", `{spec: {}}`, 0},
	} {
		got, err := kind(t, tc.system).Read(decode(t, tc.object))
		if err != nil || got.Max != tc.want {
			t.Errorf("%s: at most %d clusters, error %v, want %d", name, got.Max, err, tc.want)
		}
	}
}

func TestForeignShapes(t *testing.T) {
	tests := map[string]struct{ system, object, err string }{
		"Spec":          {"karmada", `{spec: text}`, "spec must be an object"},
		"Placement":     {"karmada", `{spec: {placement: []}}`, "spec.placement must be an object"},
		"Affinity":      {"karmada", `{spec: {placement: {clusterAffinity: 1}}}`, "spec.placement.clusterAffinity must be an object"},
		"Names":         {"karmada", `{spec: {placement: {clusterAffinity: {clusterNames: a}}}}`, flat + " must be a list"},
		"Name":          {"karmada", `{spec: {placement: {clusterAffinity: {clusterNames: [a, 1]}}}}`, flat + "[1] must be the name of a cluster"},
		"Affinities":    {"karmada", `{spec: {placement: {clusterAffinities: {}}}}`, "spec.placement.clusterAffinities must be a list"},
		"NoAffinities":  {"karmada", `{spec: {placement: {clusterAffinities: []}}}`, "spec.placement.clusterAffinities has no items: add one, or remove the field"},
		"Term":          {"karmada", `{spec: {placement: {clusterAffinities: [{}, a]}}}`, "spec.placement.clusterAffinities[1] must be an object"},
		"TermNames":     {"karmada", `{spec: {placement: {clusterAffinities: [{clusterNames: [{}]}]}}}`, "spec.placement.clusterAffinities[0].clusterNames[0] must be the name of a cluster"},
		"Overflow":      {"karmada", `{spec: {placement: {clusterAffinities: [{overflowAffinities: 1}]}}}`, "spec.placement.clusterAffinities[0].overflowAffinities must be a list"},
		"PlacementType": {"fleet", `{spec: {policy: {placementType: PickSome}}}`, "spec.policy.placementType must be PickAll, PickFixed, or PickN"},
		"Policy":        {"fleet", `{spec: {policy: PickAll}}`, "spec.policy must be an object"},
		"Terms":         {"fleet", fleet("PickAll", "a"), terms + " must be a list"},
		"Expressions":   {"fleet", fleet("PickAll", "[{labelSelector: {matchExpressions: a}}]"), terms + "[0].labelSelector.matchExpressions must be a list"},
		"Expression":    {"fleet", fleet("PickAll", "[{labelSelector: {matchExpressions: [a]}}]"), terms + "[0].labelSelector.matchExpressions[0] must be an object"},
		"NoValues":      {"fleet", fleet("PickAll", "[{labelSelector: {matchExpressions: ["+named("[]")+"]}}]"), terms + "[0].labelSelector.matchExpressions[0].values must be a list with at least one name of a cluster"},
		"Decisions":     {"decision", `{decisions: a}`, "decisions must be a list"},
		"Reference":     {"decision", `{decisions: [{clusterProfileRef: a}]}`, "decisions[0].clusterProfileRef.name must be the name of a cluster"},
		"Declared":      {"declared", `{spec: {target: {clusters: {}}}}`, "spec.target.clusters must be a list"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k, obj := kind(t, tc.system), decode(t, tc.object)
			if got, err := k.Read(obj); err == nil || err.Error() != tc.err || got.Path == "" {
				t.Errorf("read %+v, %v; want a path and %q", got, err, tc.err)
			}
			if _, err := k.Write(obj, new(`["a"]`), ""); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("write: %v, want %q", err, tc.err)
			}
		})
	}
}

func TestForeignTexts(t *testing.T) {
	const two = `{spec: {placement: {clusterAffinities: [{}, {}]}}}`
	for object, texts := range map[string][]string{
		two:                          {`[["a"]]`, `[["a"],["b"],["c"]]`, `{}`, `null`, ``},
		`{spec: {placement: {}}}`:    {`[["a"],["b"]]`},
		`{spec: {policy: {}}}`:       {`[["a"],["b"]]`},
		`{decisions: []}`:            {`[["a"]]`},
		fleet("PickAll", "[{}, {}]"): {`[["a"]]`},
	} {
		system := "karmada"
		switch {
		case strings.Contains(object, "policy"):
			system = "fleet"
		case strings.Contains(object, "decisions"):
			system = "decision"
		}
		for _, text := range texts {
			if got, err := kind(t, system).Write(decode(t, object), &text, ""); err == nil {
				t.Errorf("%s: wrote %s: %v", object, text, got)
			}
		}
	}
	// A single list is that of every term.
	got, err := kind(t, "karmada").Write(decode(t, two), new(`["a"]`), "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, `{spec: {placement: {clusterAffinities: [{clusterNames: [a]}, {clusterNames: [a]}]}}}`), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAt(t *testing.T) {
	obj := decode(t, `{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, spec: {placement: {clusterAffinities: [{clusterNames: [a]}]}}}`)
	if got, err := clusterlist.At(obj, flat); err != nil || got.Path != "spec.placement.clusterAffinities" || textOf(got.Text) != `[["a"]]` {
		t.Errorf("built-in kind: %+v, %v", got, err)
	}
	obj = decode(t, `{apiVersion: fleet.example.com/v1, kind: Rollout, spec: {target: {clusters: [a]}}}`)
	if got, err := clusterlist.At(obj, "spec.target.clusters"); err != nil || textOf(got.Text) != `["a"]` {
		t.Errorf("declared kind: %+v, %v", got, err)
	}
	if _, err := clusterlist.At(obj, "spec"); err == nil {
		t.Error("no error for a path without a list")
	}
}

func TestGraft(t *testing.T) {
	k := kind(t, "karmada")
	for name, tc := range map[string][3]string{
		"Set":     {`{a: 1, spec: {b: 2}}`, `{spec: {c: 3, placement: {d: 4}}}`, `{a: 1, spec: {b: 2, placement: {d: 4}}}`},
		"NoSpec":  {`{a: 1}`, `{spec: {placement: {d: 4}}}`, `{a: 1, spec: {placement: {d: 4}}}`},
		"Removed": {`{spec: {b: 2, placement: {d: 4}}}`, `{spec: {}}`, `{spec: {b: 2}}`},
		"Neither": {`{a: 1}`, `{}`, `{a: 1}`},
	} {
		if diff := cmp.Diff(decode(t, tc[2]), k.Graft(decode(t, tc[0]), decode(t, tc[1]))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]struct {
		all []string
		ok  bool
	}{
		`[]`:                   {[]string{}, true},
		`["b","a"]`:            {[]string{"a", "b"}, true},
		`[["b"],["a","b"],[]]`: {[]string{"a", "b"}, true},
		`[["b"],null]`:         {[]string{"b"}, false},
		`[null]`:               {[]string{}, false},
	} {
		names, ok := clusterlist.Parse(text)
		if !ok {
			t.Errorf("%s is not valid", text)
			continue
		}
		if got := textOf(names.Text()); got != text {
			t.Errorf("%s has the text %s", text, got)
		}
		if all, ok := names.All(); !slices.Equal(all, want.all) || ok != want.ok {
			t.Errorf("%s: all are %v, %v", text, all, ok)
		}
	}
	for _, text := range []string{``, `null`, `{}`, `"a"`, `[1]`, `["a",["b"]]`, `[["a"],"b"]`} {
		if names, ok := clusterlist.Parse(text); ok {
			t.Errorf("%q is valid: %+v", text, names)
		}
	}
}

func TestNewKinds(t *testing.T) {
	declared := func(change func(*clusterlist.Declaration)) clusterlist.Declaration {
		out := clusterlist.Declaration{GroupResource: resources["declared"], Kind: "Rollout", Path: []string{"spec", "clusters"}}
		change(&out)
		return out
	}
	tests := map[string]struct {
		change func(*clusterlist.Declaration)
		err    string
	}{
		"Valid":         {func(*clusterlist.Declaration) {}, ""},
		"Group":         {func(d *clusterlist.Declaration) { d.Group = "A" }, "placements[0].group"},
		"NoResource":    {func(d *clusterlist.Declaration) { d.Resource = "" }, "placements[0].resource"},
		"Subresource":   {func(d *clusterlist.Declaration) { d.Resource = "a/b" }, "placements[0].resource"},
		"NoKind":        {func(d *clusterlist.Declaration) { d.Kind = "" }, "placements[0].kind"},
		"NoPath":        {func(d *clusterlist.Declaration) { d.Path = nil }, "placements[0].path"},
		"Spec":          {func(d *clusterlist.Declaration) { d.Path = []string{"spec"} }, "placements[0].path"},
		"OutsideSpec":   {func(d *clusterlist.Declaration) { d.Path = []string{"status", "clusters"} }, "placements[0].path"},
		"EmptyName":     {func(d *clusterlist.Declaration) { d.Path = []string{"spec", "", "clusters"} }, "placements[0].path"},
		"KnownResource": {func(d *clusterlist.Declaration) { d.GroupResource = resources["karmada"] }, "placements[0].resource"},
		"KnownKind":     {func(d *clusterlist.Declaration) { d.Group, d.Kind = "policy.karmada.io", "PropagationPolicy" }, "placements[0].kind"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := clusterlist.NewKinds(declared(tc.change))
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
	same := declared(func(*clusterlist.Declaration) {})
	if _, err := clusterlist.NewKinds(same, same); err == nil || !strings.Contains(err.Error(), "placements[1].resource") || !strings.Contains(err.Error(), "placements[1].kind") {
		t.Errorf("twice: %v", err)
	}
	if (*clusterlist.Kinds)(nil).Of(resources["declared"]) != nil {
		t.Error("an undeclared kind is known")
	}
}

// TestFields shows that reading and writing need no other fields than those of Fields.
func TestFields(t *testing.T) {
	for system, object := range map[string]string{
		"karmada":  `{spec: {placement: {clusterAffinities: [{clusterNames: [a]}]}}}`,
		"fleet":    fleet("PickN", "[{labelSelector: {matchExpressions: ["+named("[a]")+"]}}]"),
		"decision": `{metadata: {namespace: ns}, decisions: [{clusterProfileRef: {name: a, namespace: ns}}]}`,
		"declared": `{spec: {target: {clusters: [a]}}}`,
	} {
		k, obj := kind(t, system), decode(t, object)
		if diff := cmp.Diff(any(obj), k.Fields().Project(obj)); diff != "" {
			t.Errorf("%s (-whole +projected):\n%s", system, diff)
		}
	}
}

// generator generates placements that API servers may store.
type generator struct{ *rand.Rand }

func (g generator) maybe(obj map[string]any, name string, value func() any) {
	if g.IntN(3) > 0 {
		obj[name] = value()
	}
}

func (g generator) names() any {
	out := []any{}
	for range g.IntN(3) {
		out = append(out, string(rune('a'+g.IntN(4))))
	}
	if g.IntN(6) == 0 {
		out = []any{clusterlist.NoCluster}
	}
	return out
}

func (g generator) list(item func() any) any {
	out := []any{item()}
	for range g.IntN(3) {
		out = append(out, item())
	}
	return out
}

func (g generator) affinity() any {
	out := map[string]any{}
	g.maybe(out, "clusterNames", g.names)
	g.maybe(out, "exclude", g.names)
	return out
}

func (g generator) karmada() map[string]any {
	return map[string]any{"spec": g.object(func(spec map[string]any) {
		g.maybe(spec, "placement", func() any {
			return g.object(func(placement map[string]any) {
				if g.IntN(2) == 0 {
					g.maybe(placement, "clusterAffinity", g.affinity)
					return
				}
				placement["clusterAffinities"] = g.list(func() any {
					term := g.affinity().(map[string]any)
					g.maybe(term, "overflowAffinities", func() any { return g.list(g.affinity) })
					return term
				})
			})
		})
	})}
}

func (g generator) object(fill func(map[string]any)) map[string]any {
	out := map[string]any{}
	fill(out)
	g.maybe(out, "other", func() any { return "x" })
	return out
}

func (g generator) fleet() map[string]any {
	expression := func() any {
		if names := g.names().([]any); g.IntN(2) == 0 && len(names) > 0 {
			return map[string]any{"key": clusterlist.NameLabel, "operator": "In", "values": names}
		}
		return map[string]any{"key": "x", "operator": "Exists"}
	}
	// The API server requires the type, and KubeFleet keeps the policy.
	policy := map[string]any{"placementType": "PickFixed"}
	g.maybe(policy, "clusterNames", g.names)
	if g.IntN(3) > 0 {
		policy = map[string]any{"placementType": "PickN"}
		g.maybe(policy, "affinity", func() any {
			return g.object(func(affinity map[string]any) {
				g.maybe(affinity, "clusterAffinity", func() any {
					return g.object(func(clusters map[string]any) {
						g.maybe(clusters, "requiredDuringSchedulingIgnoredDuringExecution", func() any {
							return g.object(func(required map[string]any) {
								g.maybe(required, "clusterSelectorTerms", func() any {
									if g.IntN(4) == 0 {
										return []any{}
									}
									return g.list(func() any {
										return g.object(func(term map[string]any) {
											g.maybe(term, "labelSelector", func() any {
												return g.object(func(selector map[string]any) {
													g.maybe(selector, "matchExpressions", func() any { return g.list(expression) })
												})
											})
										})
									})
								})
							})
						})
					})
				})
			})
		})
	}
	return map[string]any{"spec": map[string]any{"policy": policy}}
}

func (g generator) decision() map[string]any {
	out := []any{}
	for range g.IntN(4) {
		reference := map[string]any{"name": string(rune('a' + g.IntN(4)))}
		g.maybe(reference, "namespace", func() any { return string(rune('m' + g.IntN(2))) })
		out = append(out, g.object(func(entry map[string]any) { entry["clusterProfileRef"] = reference }))
	}
	return map[string]any{"metadata": map[string]any{"namespace": "n"}, "decisions": out}
}

// narrowed returns a text with some of the names, and the names that it has.
func (g generator) narrowed(names clusterlist.Names) (string, clusterlist.Names) {
	out := clusterlist.Names{Several: names.Several}
	for _, term := range names.Terms {
		kept := []string{}
		for _, name := range append(slices.Clone(term), "y", "z") {
			if g.IntN(2) == 0 && name != clusterlist.NoCluster && !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		}
		out.Terms = append(out.Terms, kept)
	}
	return *out.Text(), out
}

// TestRoundTrip shows for random placements that writing what was read changes nothing, that reading returns what was
// written, and that restoring returns the same object.
func TestRoundTrip(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for system, generate := range map[string]func() map[string]any{"karmada": g.karmada, "fleet": g.fleet, "decision": g.decision} {
		k := kind(t, system)
		for range budget.Rounds(1000) {
			obj := generate()
			encoded, _ := json.Marshal(obj)
			before, err := k.Read(obj)
			if err != nil {
				t.Fatalf("%s: %v", encoded, err)
			}
			if same, err := k.Write(obj, before.Text, before.Form); err != nil || !reflect.DeepEqual(obj, same) {
				t.Fatalf("%s: writing %s gives %v, %v", encoded, textOf(before.Text), same, err)
			}
			names := clusterlist.Names{Terms: [][]string{nil}}
			if before.Text != nil {
				names, _ = clusterlist.Parse(*before.Text)
			}
			text, want := g.narrowed(names)
			placed, err := k.Write(obj, &text, before.Form)
			if err != nil {
				t.Fatalf("%s: %v", encoded, err)
			}
			after, err := k.Read(placed)
			if err != nil || textOf(after.Text) != text {
				t.Fatalf("%s: wrote %s and read %s, %v", encoded, text, textOf(after.Text), err)
			}
			if got, _ := clusterlist.Parse(*after.Text); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: wrote %v and read %v", encoded, want, got)
			}
			restored, err := k.Write(placed, before.Text, before.Form)
			if err != nil || !reflect.DeepEqual(obj, restored) {
				text, _ := json.Marshal(restored)
				t.Fatalf("%s restored: %s, %v", encoded, text, err)
			}
			// Whatever the form is, the names are those of the text, and nothing panics.
			for _, form := range []string{"", "x", `{"path":99,"terms":[-1]}`, `{"terms":[9,9,9],"entries":[1,{"clusterProfileRef":{"name":"y"}}]}`} {
				again, err := k.Write(placed, before.Text, form)
				if err != nil {
					t.Fatalf("%s with form %s: %v", encoded, form, err)
				}
				if got, err := k.Read(again); err != nil || textOf(got.Text) != textOf(before.Text) {
					t.Fatalf("%s with form %s: %s, %v", encoded, form, textOf(got.Text), err)
				}
			}
		}
	}
}

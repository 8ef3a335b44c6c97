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

package embedded

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// ruled returns the evaluator of a policy of rules over the clusters of ruledEngine, and its observer.
func ruled(t *testing.T, rules string) (*evaluator, *counts) {
	t.Helper()
	e, seen := ruledEngine()
	ev, _ := prepare(t, e, ruledBy(t, rules))
	return ev.(*evaluator), seen
}

// ruledBy returns a spec with rules.
func ruledBy(t testing.TB, rules string) (spec placementv1.PlacementPolicySpec) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(rules), &spec.Rules); err != nil {
		t.Fatal(err)
	}
	return spec
}

// ruledEngine returns an engine with three clusters, whose label pci is 0, 1, and 2, and its observer.
func ruledEngine() (*Engine, *counts) {
	data := NewData()
	var objects []*unstructured.Unstructured
	for i := range 3 {
		o := document("fleet", fmt.Sprintf("eu-%d", i), "status", map[string]any{
			"version":    map[string]any{"kubernetes": fmt.Sprintf("1.3%d.0", i)},
			"properties": []any{map[string]any{"name": "tier", "value": fmt.Sprint(i)}},
		})
		o.SetLabels(map[string]string{"topology.kubernetes.io/region": "eu", "pci": fmt.Sprint(i)})
		objects = append(objects, o)
	}
	data.Replace(profiles.GroupVersionResource, objects)
	data.Replace(managed.GroupVersionResource, nil)
	seen := &counts{}
	return New(data, Options{Timeout: time.Minute, Concurrency: 1, Observer: seen}), seen
}

// ruledObject is a Deployment of a name, with fields that no rule below reads.
func ruledObject(name string) map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": name, "namespace": "ns-" + name, "uid": name,
			"labels":      map[string]any{"app": name, "team": "shop", "tier": "1"},
			"annotations": map[string]any{"pci": "1", "note": name},
		},
		"spec":   map[string]any{"replicas": int64(3)},
		"status": map[string]any{"replicas": int64(len(name))},
	}
}

// TestRulesAreRemembered verifies that objects that differ only in what rules do not read have one decision in the decision cache,
// whether it gives clusters or denies the object.
func TestRulesAreRemembered(t *testing.T) {
	tests := map[string]struct {
		rules    string
		clusters []string
		apart    bool
	}{
		"Constants": {
			rules:    `[{name: a, require: [{field: region, operator: In, values: [eu]}, {label: pci, operator: Gte, values: ["1"]}]}]`,
			clusters: []string{"eu-1", "eu-2"},
		},
		"ValueFrom": {
			rules:    `[{name: a, require: [{label: pci, operator: Gt, valueFrom: {annotation: pci}}]}]`,
			clusters: []string{"eu-2"},
		},
		"Properties": {
			rules:    `[{name: a, require: [{property: tier, operator: Exists}, {property: tier, operator: In, valueFrom: {label: tier}}]}]`,
			clusters: []string{"eu-1"},
		},
		"Versions": {
			rules:    `[{name: a, require: [{field: version, operator: Lt, values: ["1.31"]}]}]`,
			clusters: []string{"eu-0"},
		},
		"When": {
			rules: `[{name: a, when: {objectSelector: {matchLabels: {team: bank}}}}, ` +
				`{name: b, when: {annotations: [{key: pci, operator: Exists}]}, require: [{label: pci, operator: Gt, valueFrom: {annotation: pci}}]}]`,
			clusters: []string{"eu-2"},
		},
		"Expression": {
			rules:    `[{name: a, when: {expression: "has(object.spec.replicas) && object.spec.replicas > 2"}, require: [{label: pci, operator: Gte, values: ["1"]}]}]`,
			clusters: []string{"eu-1", "eu-2"},
		},
		"Weights": {
			rules:    `[{name: a, weights: Score, prefer: [{label: pci, operator: Gte, values: ["1"], weight: 10}], require: [{label: pci, operator: Gte, values: ["1"]}]}]`,
			clusters: []string{"eu-1", "eu-2"},
		},
		"Denied": {rules: `[{name: a, require: [{label: pci, operator: Gt, values: ["7"]}]}]`},
		"Set": {
			rules:    `[{name: a, require: [{label: pci, operator: Gte, values: ["1"]}], set: {annotations: {on: "{clusters} for {label:team}"}}}]`,
			clusters: []string{"eu-1", "eu-2"},
		},
		"Name": {
			rules:    `[{name: a, require: [{label: pci, operator: Gte, values: ["1"]}], warn: "{name}"}]`,
			clusters: []string{"eu-1", "eu-2"}, apart: true,
		},
		"Limit": {
			rules:    `[{name: a, require: [{label: pci, operator: Gte, values: ["0"]}], limit: 3}]`,
			clusters: []string{"eu-0", "eu-1", "eu-2"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ev, seen := ruled(t, tc.rules)
			for _, object := range []string{"web", "database"} {
				if d := decide(t, ev, ruledObject(object)); !slices.Equal(d.Clusters, tc.clusters) || (len(d.Errors) > 0) != (tc.clusters == nil) {
					t.Errorf("%s: clusters %v, errors %v, want clusters %v", object, d.Clusters, d.Errors, tc.clusters)
				}
			}
			if tc.apart {
				seen.want(t, 0, 2)
			} else {
				seen.want(t, 1, 1)
			}
		})
	}
}

// TestUnreadableValues verifies that a value of an object that a requirement can't read denies the object, and selects no other rule.
func TestUnreadableValues(t *testing.T) {
	const (
		number   = "must be a number, such as 2 or 0.5"
		quantity = "must be a quantity, such as 500m or 4Gi"
		version  = "must be a version, such as 1.30"
	)
	long := strings.Repeat("1", 31)
	annotation, label := "valueFrom: {annotation: v}", "valueFrom: {label: v}"
	for name, tc := range map[string]struct {
		// require is the requirement of the first rule, and value that of the object; nil for none.
		require string
		value   any
		// want is the denial; empty for a value that can be read, which none of the clusters meets.
		want string
	}{
		"Number":             {"label: pci, operator: Gt, " + annotation, "garbage", `metadata.annotations[v]: Invalid value: "garbage": ` + number},
		"NumberWithSpace":    {"label: pci, operator: Gt, " + annotation, " 9", `metadata.annotations[v]: Invalid value: " 9": ` + number},
		"NumberWithNewline":  {"label: pci, operator: Gt, " + annotation, "9\n", `metadata.annotations[v]: Invalid value: "9\n": ` + number},
		"NumberWithExponent": {"label: pci, operator: Gt, " + annotation, "9e9", `metadata.annotations[v]: Invalid value: "9e9": ` + number},
		"LongNumber":         {"label: pci, operator: Gt, " + annotation, long, `metadata.annotations[v]: Invalid value: "` + long + `": ` + number},
		"EmptyNumber":        {"label: pci, operator: Lt, " + label, "", `metadata.labels[v]: Invalid value: "": ` + number},
		"LongText":           {"label: pci, operator: Lt, " + annotation, strings.Repeat("x", 1000), `metadata.annotations[v]: Invalid value: "` + strings.Repeat("x", 64) + `": ` + number},
		"Quantity":           {"allocatable: cpu, operator: Gte, " + annotation, "4GiB", `metadata.annotations[v]: Invalid value: "4GiB": ` + quantity},
		"QuantityBomb":       {"label: pci, operator: Gte, as: Quantity, " + annotation, "1e-999999999", `metadata.annotations[v]: Invalid value: "1e-999999999": ` + quantity},
		"Version":            {"field: version, operator: Gte, " + label, "latest", `metadata.labels[v]: Invalid value: "latest": ` + version},
		"LongVersion":        {"field: version, operator: Gte, " + annotation, "1." + long, `metadata.annotations[v]: Invalid value: "1.` + long + `": ` + version},
		"Default":            {`label: pci, operator: Gt, valueFrom: {annotation: v, default: "9"}`, "x", `metadata.annotations[v]: Invalid value: "x": ` + number},
		"ReadableNumber":     {"label: pci, operator: Gt, " + annotation, "+9.0", ""},
		"ReadableQuantity":   {"label: pci, operator: Gt, as: Quantity, " + annotation, "4Gi", ""},
		"ReadableVersion":    {"field: version, operator: Gt, " + annotation, "v2-rc.1", ""},
		"Missing":            {"label: pci, operator: Gte, " + annotation, nil, ""},
		"MissingWithDefault": {`label: pci, operator: Gt, valueFrom: {annotation: v, default: "9"}`, nil, ""},
		"Text":               {"field: region, operator: In, " + annotation, " garbage", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ev, _ := ruled(t, `[{name: strict, message: "{name}", require: [{`+tc.require+`}], otherwise: NextRule}, {name: lenient, require: [{field: region, operator: In, values: [eu]}]}]`)
			object := ruledObject("web")
			if tc.value != nil {
				for _, document := range []string{"labels", "annotations"} {
					object["metadata"].(map[string]any)[document].(map[string]any)["v"] = tc.value
				}
			}
			d := decide(t, ev, object)
			want := placement.Decision{Clusters: []string{"eu-0", "eu-1", "eu-2"}, Rule: "lenient"}
			if tc.want != "" {
				want = placement.Decision{Errors: []string{"rule strict: web: " + tc.want}, Rule: "strict"}
			}
			if diff := cmp.Diff(want, d, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("Preference", func(t *testing.T) {
		ev, _ := ruled(t, `[{name: a, prefer: [{label: pci, operator: Gt, weight: 9, valueFrom: {annotation: note}}], limit: 3}]`)
		if d := decide(t, ev, ruledObject("web")); len(d.Clusters) != 3 || len(d.Errors) > 0 {
			t.Errorf("clusters %v, errors %v, want all clusters", d.Clusters, d.Errors)
		}
	})
}

// TestEligibleClustersAreRemembered verifies that objects that differ in their names, by which a rule with a limit chooses among the
// eligible clusters, share the eligible clusters and their scores in the rule cache.
func TestEligibleClustersAreRemembered(t *testing.T) {
	ev, seen := ruled(t, `
- name: a
  require:
  - {field: region, operator: In, values: [eu]}
  - {label: pci, operator: Gte, valueFrom: {annotation: pci}}
  prefer:
  - {label: pci, operator: Gte, values: ["1"], weight: 10}
  limit: 1
`)
	decide(t, ev, ruledObject("web"))
	view := ev.ruleCache.view(ev.Revision(), ruledObject("database"))
	var known []string
	for i, r := range ev.module.CacheableRules {
		if view.found[i] != nil {
			known = append(known, strings.TrimPrefix(r.Ref.String(), "data.rules."))
		}
	}
	for _, want := range []string{"suitable_a", "eligible_a", "score_a", "repelled"} {
		if !slices.Contains(known, want) {
			t.Errorf("the value of %s is not remembered, but those of %q", want, known)
		}
	}
	other := ruledObject("database")
	other["metadata"].(map[string]any)["annotations"] = map[string]any{"pci": "2"}
	for _, d := range []struct {
		object   map[string]any
		clusters []string
	}{{ruledObject("database"), []string{"eu-1", "eu-2"}}, {other, []string{"eu-2"}}} {
		if got := decide(t, ev, d.object).Clusters; len(got) != 1 || !slices.Contains(d.clusters, got[0]) {
			t.Errorf("clusters %v, want one of %v", got, d.clusters)
		}
	}
	seen.want(t, 1, 2)
}

// TestWhyNot verifies why a policy of rules does not give an object clusters.
func TestWhyNot(t *testing.T) {
	for name, tc := range map[string]struct {
		rules string
		want  map[string]string
	}{
		"Lacks": {
			`[{name: a, require: [{field: region, operator: In, values: [eu]}, {label: pci, operator: Gt, valueFrom: {annotation: pci}}]}]`,
			map[string]string{"eu-0": "with label pci not above 1", "eu-1": "with label pci not above 1", "eu-2": "eligible, but the policy chooses others", `us"`: "in no inventory"},
		},
		"RuleThatDecides": {
			`[{name: other, when: {expression: "false"}, require: [{field: region, operator: In, values: [us], reason: in the US}]}, {name: the-last, require: [{label: pci, operator: Gt, values: ["0"], reason: too low}]}]`,
			map[string]string{"eu-0": "too low", "eu-1": "eligible, but the policy chooses others", "eu-2": "eligible, but the policy chooses others", `us"`: "in no inventory"},
		},
		"NoRuleDecides":    {`[{name: a, when: {expression: "false"}, limit: 1}]`, nil},
		"RuleWithoutLists": {`[{name: a, set: {labels: {a: b}}}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ev, _ := ruled(t, tc.rules)
			if diff := cmp.Diff(tc.want, ev.WhyNot(t.Context(), ruledObject("web"), []string{"eu-0", "eu-1", "eu-2", `us"`})); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("Rego", func(t *testing.T) {
		e, _ := ruledEngine()
		ev, _ := prepare(t, e, v1(`package p

clusters := {"eu-0"}
`))
		if got := ev.(*evaluator).WhyNot(t.Context(), ruledObject("web"), []string{"eu-1"}); got != nil {
			t.Errorf("got %v for Rego", got)
		}
	})
	t.Run("Busy", func(t *testing.T) {
		ev, _ := ruled(t, `[{name: a, limit: 1}]`)
		if !ev.engine.slots.tryAcquire("other", "") {
			t.Fatal("no slot is free")
		}
		if got := ev.WhyNot(t.Context(), ruledObject("web"), []string{"eu-1"}); got != nil {
			t.Errorf("got %v from an engine without a free slot", got)
		}
		ev.engine.slots.release("other", "")
		if got := ev.WhyNot(t.Context(), ruledObject("web"), []string{"eu-1"}); got == nil {
			t.Error("got nothing from an engine with a free slot")
		}
	})
}

// TestDecidingRule checks that decisions have the name of the rule that decides, with one text for all, and that the same Rego of an author
// has none.
func TestDecidingRule(t *testing.T) {
	const rules = `[{name: gone, when: {objectSelector: {matchLabels: {team: bank}}}}, {name: none, when: {objectSelector: {matchLabels: {team: shop}}}, ` +
		`require: [{label: pci, operator: Gt, values: ["9"]}], otherwise: NextRule}, {name: eu, when: {annotations: [{key: pci, operator: Exists}]}, require: [{field: region, operator: In, values: [eu]}]}]`
	ev, _ := ruled(t, rules)
	decide := func(input map[string]any) placement.Decision {
		d, err := ev.Evaluate(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	bank := ruledObject("c")
	bank["metadata"].(map[string]any)["labels"] = map[string]any{"team": "bank"}
	other := ruledObject("d")
	other["metadata"] = map[string]any{"name": "d", "namespace": "ns"}
	for name, test := range map[string]struct {
		input map[string]any
		want  string
	}{"NextRule": {ruledObject("a"), "eu"}, "Empty": {bank, "gone"}, "None": {other, ""}} {
		if got := decide(test.input).Rule; got != test.want {
			t.Errorf("%s: rule %q, want %q", name, got, test.want)
		}
	}
	e, _ := ruledEngine()
	byRules, m := prepare(t, e, ruledBy(t, rules))
	byAuthor, _ := prepare(t, e, placementv1.PlacementPolicySpec{Rego: m.Text, RegoVersion: placementv1.RegoV1})
	for _, test := range []struct {
		evaluator placement.Evaluator
		want      string
	}{{byRules, "eu"}, {byAuthor, ""}, {byRules, "eu"}} {
		d, err := test.evaluator.Evaluate(t.Context(), ruledObject("b"))
		if err != nil || d.Rule != test.want {
			t.Errorf("rule %q, want %q, error %v", d.Rule, test.want, err)
		}
	}
}

// TestCandidatesAreKept verifies that objects of different names share the prepared candidates, and that a change of the clusters is
// seen.
func TestCandidatesAreKept(t *testing.T) {
	for name, rules := range map[string]string{
		"Limit":  `[{name: a, prefer: [{label: pci, operator: Gte, values: ["1"], weight: 10}], limit: 1}]`,
		"Spread": `[{name: a, prefer: [{label: pci, operator: Gte, values: ["1"], weight: 10}], spread: {label: pci, maxDomains: 1}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			ev, _ := ruled(t, rules)
			decide(t, ev, ruledObject("web"))
			table := ev.ruleCache.current.Load()
			if n := len(table.candidates.kept); n != 1 {
				t.Fatalf("%d lists of candidates are kept, want 1", n)
			}
			first := slices.Collect(maps.Values(table.candidates.kept))[0]
			for i := range 20 {
				if got := decide(t, ev, ruledObject(fmt.Sprint("web-", i))).Clusters; len(got) != 1 || got[0] == "eu-0" {
					t.Errorf("clusters %v, want eu-1 or eu-2", got)
				}
			}
			if kept := slices.Collect(maps.Values(table.candidates.kept)); len(kept) != 1 || kept[0] != first {
				t.Errorf("%d lists of candidates are kept, want the first one", len(kept))
			}
			o := document("fleet", "eu-0", "status", map[string]any{"version": map[string]any{"kubernetes": "1.30.0"}})
			o.SetLabels(map[string]string{"pci": "3"})
			ev.engine.data.Replace(profiles.GroupVersionResource, []*unstructured.Unstructured{o})
			if got := decide(t, ev, ruledObject("web")).Clusters; !slices.Equal(got, []string{"eu-0"}) {
				t.Errorf("clusters %v, want the one that is left", got)
			}
		})
	}
}

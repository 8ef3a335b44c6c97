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

package findings

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// fleet are clusters of two regions.
var fleet = []map[string]any{
	{"name": "eu-1", "region": "eu", "zones": []any{"a", "b"}, "labels": map[string]any{"level": "2", "env": "prod"}, "ready": false},
	{"name": "eu-2", "region": "eu", "labels": map[string]any{"level": "3", "env": "test"}, "taints": []any{map[string]any{"key": "example.com/gpu", "effect": "NoSchedule"}}},
	{"name": "us-1", "region": "us", "labels": map[string]any{"level": "high"}, "allocatable": map[string]any{"cpu": "64", "memory": "256Gi"}},
}

// TestEligible checks what is found in rules that no cluster of the fleet meets.
func TestEligible(t *testing.T) {
	for name, test := range map[string]struct{ rule, want string }{
		"Some":          {"require: [{field: region, operator: In, values: [eu]}, {label: level, operator: Gte, values: ['3']}]", ""},
		"Together":      {"require: [{field: region, operator: In, values: [us]}, {label: env, operator: Exists}]", "spec.rules[0].require: no cluster meets all of these requirements now, so that no cluster is eligible"},
		"Order":         {"require: [{label: level, operator: Gt, values: ['3']}]", `spec.rules[0].require[0]: no cluster meets this now, so that no cluster is eligible; clusters have the values "2", "3", "high" of label level`},
		"All":           {"require: [{field: region, operator: NotIn, values: [eu, us]}]", `clusters have the values "eu", "us" of field region`},
		"Value":         {"require: [{field: region, operator: In, values: [ap]}]", ""},
		"Contradiction": {"require: [{field: region, operator: In, values: [eu]}, {field: region, operator: In, values: [us]}]", ""},
		"Ready":         {"require: [{field: ready, operator: In, values: ['true']}]", ""},
		"Free":          {"require: [{free: cpu, operator: Gte, values: ['64']}, {free: memory, operator: Lt, values: [1Gi]}]", ""},
		"TooMuchFree":   {"require: [{free: cpu, operator: Gt, values: ['64']}]", "spec.rules[0].require[0]: no cluster meets this now, not even while nothing runs there, so that no cluster is eligible"},
		"FreeOfNone":    {"require: [{free: nvidia.com/gpu, operator: Gte, values: ['1']}]", ""},
		"Allocatable":   {"require: [{allocatable: memory, operator: Gte, values: [1Ti]}]", "spec.rules[0].require[0]: no cluster meets this now, so that no cluster is eligible"},
		"Unit":          {"require: [{allocatable: cpu, operator: Gte, values: [8Gi]}]", ""},
		"Prefer":        {"limit: 1, prefer: [{label: level, operator: Gte, values: ['3'], weight: 1}, {free: cpu, operator: Gte, values: ['8'], weight: 1}]", ""},
		"PreferNone": {"limit: 1, prefer: [{label: level, operator: Gt, values: ['3'], weight: 1}]", "spec.rules[0].prefer[0]: no cluster meets this now, so that this makes no cluster " +
			`better than others; clusters have the values "2", "3", "high" of label level`},
		"PreferMost":    {"limit: 1, prefer: [{label: level, operator: Most, weight: 1}, {label: level, operator: Gt, valueFrom: {label: level}, weight: 1}]", ""},
		"FromObject":    {"require: [{label: level, operator: Gt, valueFrom: {label: level}}]", ""},
		"Nodes":         {"candidates: Nodes, require: [{label: level, operator: Gt, values: ['3']}]", ""},
		"Domains":       {"spread: {field: region, minDomains: 3}", `spec.rules[0].spread: the clusters that meet the requirements now have too few domains by region for minDomains: 3 and minClusters: 1, so that the rule finds too few clusters. Domains with enough clusters: "eu", "us"`},
		"SmallDomains":  {"spread: {field: region, minDomains: 2, minClusters: 2}", `: "eu"`},
		"FewerDomains":  {"require: [{field: region, operator: In, values: [eu]}], spread: {field: region, minDomains: 2}", `: "eu"`},
		"EnoughDomains": {"spread: {field: region, minDomains: 2, maxClusters: 1}", ""},
		"NoDomains":     {"spread: {label: rack, minDomains: 2}", ""},
	} {
		if got := findingsOfEligible([]placementv1.Rule{ruleFrom(t, test.rule)}, fleet); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestTaintKeys checks which taints tolerations may mean.
func TestTaintKeys(t *testing.T) {
	for name, test := range map[string]struct{ rule, want string }{
		"Prefix":  {"tolerate: [{key: gpu, operator: Exists}]", `spec.rules[0].tolerate[0].key: no cluster has a taint with the key "gpu" now; did you mean "example.com/gpu"?`},
		"Case":    {"tolerate: [{key: example.com/GPU, operator: Exists}]", `did you mean "example.com/gpu"?`},
		"Same":    {"tolerate: [{key: example.com/gpu, operator: Exists}]", ""},
		"Both":    {"tolerate: [{key: gpu, operator: Exists}, {key: example.com/gpu, operator: Exists}]", ""},
		"All":     {"tolerate: [{operator: Exists}]", ""},
		"Other":   {"tolerate: [{key: example.com/spot, operator: Exists}]", ""},
		"Vendor":  {"tolerate: [{key: amd.com/gpu, operator: Exists}]", ""},
		"OfNodes": {"candidates: Nodes, tolerate: [{key: gpu, operator: Exists}]", ""},
	} {
		if got := (population{"cluster", fleet}).taintKeys([]placementv1.Rule{ruleFrom(t, test.rule)}, false); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestExpressions checks which expressions fail for objects without a label or annotation that the policy matches.
func TestExpressions(t *testing.T) {
	const expression = "when: {expression: object.metadata.labels.tier == 'gold'}"
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	for name, test := range map[string]struct {
		rules []string
		match placementv1.Match
		want  string
	}{
		"Label":          {[]string{expression}, placementv1.Match{}, `spec.rules[0].when.expression: fails for an object without label tier, which then can't be decided: test the key first, as in "tier" in object.metadata.?labels.orValue({}) && ...`},
		"Annotation":     {[]string{"when: {expression: \"object.metadata.annotations['a'] == 'b'\"}"}, placementv1.Match{}, "without annotation a"},
		"Matched":        {[]string{expression}, placementv1.Match{ObjectSelector: labels}, ""},
		"Selected":       {[]string{"when: {objectSelector: {matchExpressions: [{key: tier, operator: Exists}]}, expression: object.metadata.labels.tier == 'gold'}"}, placementv1.Match{}, ""},
		"Required":       {[]string{"when: {annotations: [{key: a, operator: Exists}], expression: \"object.metadata.annotations['a'] == 'b'\"}"}, placementv1.Match{}, ""},
		"NotRequired":    {[]string{"when: {annotations: [{key: a, operator: NotIn, values: [c]}], expression: \"object.metadata.annotations['a'] == 'b'\"}"}, placementv1.Match{}, "without annotation a"},
		"Exempt":         {[]string{"when: {objectSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}", expression}, placementv1.Match{}, ""},
		"Conditional":    {[]string{expression}, placementv1.Match{MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "has(object.metadata.labels.tier)"}}}, ""},
		"WithoutReading": {[]string{"when: {expression: has(object.spec.replicas)}"}, placementv1.Match{}, ""},
	} {
		test.match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
		m, errs := match.New(test.match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		spec := placementv1.PlacementPolicySpec{Match: test.match}
		for _, text := range test.rules {
			spec.Rules = append(spec.Rules, ruleFrom(t, text))
		}
		if got := findingsOfExpressions(t.Context(), spec, m); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestPercentages checks which percentages of stages are probably meant as parts.
func TestPercentages(t *testing.T) {
	selected := placementv1.RolloutStage{Name: "own", NamespaceSelector: &metav1.LabelSelector{}}
	stage := func(percent int32) placementv1.RolloutStage {
		return placementv1.RolloutStage{Name: "s", Percent: percent}
	}
	for name, test := range map[string]struct {
		stages []placementv1.RolloutStage
		want   string
	}{
		"Parts":      {[]placementv1.RolloutStage{selected, stage(10), stage(90)}, `spec.rollout.stages[2].percent: percentages are cumulative: in stage "s", the version decides in 90 percent`},
		"Cumulative": {[]placementv1.RolloutStage{selected, stage(10), stage(50), stage(100)}, ""},
		"All":        {[]placementv1.RolloutStage{selected, stage(100)}, ""},
	} {
		if got := findingsOfPercentages(test.stages, specPath.Child("rollout", "stages")); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestNamespaceLabel checks which object selectors are meant to select a namespace.
func TestNamespaceLabel(t *testing.T) {
	f := &Finder{Namespaces: labelled{"shop": nil, "pay": nil}}
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"Name":      {&metav1.LabelSelector{MatchLabels: map[string]string{"namespace": "shop"}}, "spec.match.objectSelector: the policy matches no object, and objects do not have the name of their namespace, such as shop, in the label namespace"},
		"OneOf":     {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "namespace", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "pay"}}}}, "such as pay"},
		"Other":     {&metav1.LabelSelector{MatchLabels: map[string]string{"namespace": "tenant-a"}}, ""},
		"OtherKey":  {&metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}, ""},
		"Excluded":  {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "namespace", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"shop"}}}}, ""},
		"NoneAtAll": {nil, ""},
	} {
		if got := f.findingsOfNamespaceLabel(t.Context(), placementv1.Match{ObjectSelector: test.selector}); !finds(got, test.want) || len(got) == 1 && !got[0].Unmatched {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// ruleFrom returns the rule a.
func ruleFrom(t *testing.T, text string) placementv1.Rule {
	t.Helper()
	rule := placementv1.Rule{}
	if err := yaml.UnmarshalStrict([]byte("{name: a, "+text+"}"), &rule); err != nil {
		t.Fatal(err)
	}
	return rule
}

// finds reports whether there is one finding with the text; none if the text is "".
func finds(list []Finding, text string) bool {
	if text == "" {
		return len(list) == 0
	}
	return len(list) == 1 && strings.Contains(list[0].Message, text)
}

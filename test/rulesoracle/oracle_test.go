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

package rulesoracle

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// The digests that these tests expect begin, for Deployment/shop/web, with 39f1 (bravo), 3db2 (the domain ap), 454e (charlie),
// 531f (the domain us), 594c (delta), 6942 (echo), 6ea8 (alpha) and b21b (the domain eu).
const fleet = `
alpha: {name: alpha, namespace: "", source: sites, ready: true, region: eu, zones: [b, a], labels: {tier: gold, pci: "2"}, properties: {gpus: 2, edge: true, list: [x]}, taints: []}
bravo: {name: bravo, namespace: "", source: sites, ready: true, region: eu, zones: [c], labels: {tier: "", pci: "10"}, properties: {gpus: "4"}, taints: [{key: gpu, value: "true", effect: NoSchedule}]}
charlie: {name: charlie, namespace: "", source: sites, ready: false, region: us, labels: {tier: gold, pci: x}, version: v1.30.2-gke.1, taints: [], allocatable: {cpu: "4"}}
delta: {name: delta, namespace: "", source: sites, ready: true, region: us, labels: {pci: "2.0"}, version: "1.9", taints: [{key: old, effect: PreferNoSelect}], allocatable: {cpu: "4"}, allocated: {cpu: 500m}}
echo: {name: echo, namespace: "", source: sites, ready: true, region: ap, labels: {tier: silver}, version: "1.30", taints: []}
`

func TestClusters(t *testing.T) {
	for name, test := range map[string]struct {
		rule string
		want []string
	}{
		"In":                                {`require: [{field: region, operator: In, values: [us, ap]}]`, []string{"charlie", "delta", "echo"}},
		"a taint repels":                    {`require: [{field: region, operator: In, values: [eu]}]`, []string{"alpha"}},
		"an empty string is a value":        {`{require: [{label: tier, operator: Exists}], tolerate: [{operator: Exists}]}`, []string{"alpha", "bravo", "charlie", "echo"}},
		"NotIn matches missing":             {`require: [{label: tier, operator: NotIn, values: [gold]}]`, []string{"delta", "echo"}},
		"DoesNotExist":                      {`require: [{label: tier, operator: DoesNotExist}]`, []string{"delta"}},
		"one of the zones":                  {`require: [{field: zone, operator: In, values: [a, c]}]`, []string{"alpha"}},
		"none of the zones":                 {`require: [{field: zone, operator: NotIn, values: [a]}]`, []string{"charlie", "delta", "echo"}},
		"a number's text":                   {`require: [{property: gpus, operator: In, values: ["2"]}]`, []string{"alpha"}},
		"a boolean's text":                  {`require: [{property: edge, operator: In, values: ["true"]}]`, []string{"alpha"}},
		"a list is missing":                 {`require: [{property: list, operator: Exists}]`, nil},
		"ready":                             {`require: [{field: ready, operator: In, values: ["false"]}]`, []string{"charlie"}},
		"numbers":                           {`{require: [{label: pci, operator: Gte, values: ["2"]}], tolerate: [{key: gpu, operator: Exists}]}`, []string{"alpha", "bravo", "delta"}},
		"versions":                          {`require: [{field: version, operator: Gte, values: ["1.30"]}]`, []string{"charlie", "echo"}},
		"a version as a number":             {`require: [{field: version, operator: Gt, values: ["1.3"], as: Number}]`, []string{"delta"}},
		"allocatable":                       {`require: [{allocatable: cpu, operator: Gte, values: ["4000m"]}]`, []string{"charlie", "delta"}},
		"free":                              {`require: [{free: cpu, operator: Lte, values: ["3.5"]}]`, []string{"delta"}},
		"valueFrom":                         {`require: [{field: region, operator: In, valueFrom: {label: region}}]`, []string{"charlie", "delta"}},
		"valueFrom, default":                {`require: [{field: region, operator: In, valueFrom: {label: none, default: ap}}]`, []string{"echo"}},
		"valueFrom, NotIn of nothing":       {`require: [{field: region, operator: NotIn, valueFrom: {annotation: none}}]`, nil},
		"the toleration's value":            {`tolerate: [{key: gpu, value: "true"}]`, []string{"alpha", "bravo", "charlie", "delta", "echo"}},
		"another value":                     {`tolerate: [{key: gpu, value: "no"}]`, []string{"alpha", "charlie", "delta", "echo"}},
		"another effect":                    {`tolerate: [{key: gpu, operator: Exists, effect: NoExecute}]`, []string{"alpha", "charlie", "delta", "echo"}},
		"limit, by rank":                    {`limit: 2`, []string{"charlie", "delta"}},
		"a limit that is not reached":       {`{limit: 3, require: [{field: region, operator: In, values: [us]}]}`, []string{"charlie", "delta"}},
		"limit, by score":                   {`{limit: 2, prefer: [{label: tier, operator: In, values: [silver], weight: 2}, {field: region, operator: In, values: [eu], weight: 1}]}`, []string{"alpha", "echo"}},
		"scores closer than minGain":        {`{limit: 2, minGain: 3, prefer: [{label: tier, operator: In, values: [silver], weight: 2}]}`, []string{"charlie", "delta"}},
		"scores minGain apart":              {`{limit: 1, minGain: 2, prefer: [{label: tier, operator: In, values: [silver], weight: 2}]}`, []string{"echo"}},
		"Most":                              {`{limit: 1, prefer: [{label: pci, operator: Most, weight: 10}], tolerate: [{operator: Exists}]}`, []string{"bravo"}},
		"Least, equal values":               {`{limit: 1, prefer: [{label: pci, operator: Least, weight: 10}]}`, []string{"delta"}},
		"Least, of the only value":          {`{limit: 1, prefer: [{free: cpu, operator: Least, weight: 10}]}`, []string{"delta"}},
		"Most, as quantities":               {`{limit: 1, prefer: [{property: gpus, operator: Most, as: Quantity, weight: 10}], tolerate: [{operator: Exists}]}`, []string{"bravo"}},
		"Most, a part of the weight":        {`{limit: 2, prefer: [{label: pci, operator: Most, weight: 100}, {field: region, operator: In, values: [ap], weight: 1}], tolerate: [{operator: Exists}]}`, []string{"bravo", "echo"}},
		"spread and limit":                  {`{limit: 3, spread: {field: region, minDomains: 2}, tolerate: [{operator: Exists}]}`, []string{"bravo", "charlie", "echo"}},
		"spread, the second turn":           {`{limit: 4, spread: {field: region, minDomains: 2}, tolerate: [{operator: Exists}]}`, []string{"bravo", "charlie", "delta", "echo"}},
		"spread, two in each":               {`{limit: 3, spread: {field: region, minClusters: 2}, tolerate: [{operator: Exists}]}`, []string{"charlie", "delta"}},
		"spread, fewer than two":            {`{limit: 1, spread: {field: region, minClusters: 2}, tolerate: [{operator: Exists}]}`, nil},
		"spread, one domain":                {`{spread: {field: region, maxDomains: 1}, tolerate: [{operator: Exists}]}`, []string{"echo"}},
		"spread, the best domain":           {`{spread: {field: region, maxDomains: 1}, tolerate: [{operator: Exists}], prefer: [{field: name, operator: In, values: [alpha], weight: 9}]}`, []string{"alpha", "bravo"}},
		"spread, one in each":               {`{spread: {field: region, maxClusters: 1}, tolerate: [{operator: Exists}]}`, []string{"bravo", "charlie", "echo"}},
		"spread, too few domains":           {`{spread: {field: region, minDomains: 4}, tolerate: [{operator: Exists}]}`, nil},
		"spread, the zone that sorts first": {`{spread: {field: zone, maxClusters: 1}, tolerate: [{operator: Exists}]}`, []string{"alpha", "bravo"}},
		"spread, the empty domain":          {`{spread: {label: tier, maxClusters: 1}, tolerate: [{operator: Exists}]}`, []string{"bravo", "charlie", "echo"}},
	} {
		t.Run(name, func(t *testing.T) {
			var rule placementv1.Rule
			decode(t, test.rule, &rule)
			rule.Name = "r"
			var clusters map[string]map[string]any
			decode(t, fleet, &clusters)
			got := Decide([]placementv1.Rule{rule}, web(t), nil, clusters)
			if diff := cmp.Diff(test.want, got.Clusters); diff != "" {
				t.Error(diff)
			}
			if denied := len(got.Errors) > 0; denied != (test.want == nil) {
				t.Errorf("the errors are %q", got.Errors)
			}
		})
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func web(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	decode(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {region: us, app: web}, annotations: {a: x}}, spec: {template: {metadata: {labels: {app: web}}}}}`, &object)
	return object
}

func TestOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		rules     string
		namespace map[string]string
		want      Decision
	}{
		"the first rule that applies": {
			rules: `[{name: a, when: {objectSelector: {matchLabels: {app: db}}}, deny: denied}, {name: b, when: {annotations: [{key: a, operator: In, values: [x]}]}, deny: "{kind} {namespace}/{name} {label:app} {label:none} {{}}"}, {name: c, limit: 1}]`,
			want:  Decision{Rule: "b", Errors: []string{"Deployment shop/web web  {}"}},
		},
		"an exempting rule": {
			rules: `[{name: a, when: {objectSelector: {}}}, {name: b, deny: denied}]`,
			want:  Decision{Rule: "a"},
		},
		"no rule": {
			rules: `[{name: a, when: {namespaceSelector: {matchLabels: {env: prod}}}, deny: denied}]`,
		},
		"the namespace's labels": {
			rules:     `[{name: a, when: {namespaceSelector: {matchLabels: {env: prod}}}, deny: denied}]`,
			namespace: map[string]string{"env": "prod"},
			want:      Decision{Rule: "a", Errors: []string{"denied"}},
		},
		"the next rule": {
			rules: `[{name: a, require: [{field: region, operator: In, values: [mars]}], otherwise: NextRule, warn: w}, {name: b, when: {annotations: [{key: z, operator: NotIn, values: [x]}]}, warn: "{name}"}]`,
			want:  Decision{Rule: "b", Warnings: []string{"web"}},
		},
		"a value that can't be read does not select the next rule": {
			rules: `[{name: a, message: "{name}", require: [{label: pci, operator: Gte, valueFrom: {annotation: a}}, {field: version, operator: Gt, valueFrom: {label: app}}], otherwise: NextRule}, {name: b, limit: 1}]`,
			want: Decision{Rule: "a", Errors: []string{
				`rule a: web: metadata.annotations[a]: Invalid value: "x": must be a number, such as 2 or 0.5`,
				`rule a: web: metadata.labels[app]: Invalid value: "web": must be a version, such as 1.30`,
			}},
		},
		"a value that is missing does": {
			rules: `[{name: a, require: [{label: pci, operator: Gte, valueFrom: {annotation: none}}], otherwise: NextRule}, {name: b, warn: w}]`,
			want:  Decision{Rule: "b", Warnings: []string{"w"}},
		},
		"a preference for a value that can't be read": {
			rules: `[{name: a, limit: 1, prefer: [{label: pci, operator: Gte, weight: 5, valueFrom: {annotation: a}}]}]`,
			want:  Decision{Rule: "a", Clusters: []string{"charlie"}},
		},
		"shares and settings": {
			rules: `[{name: a, require: [{label: tier, operator: Exists}], prefer: [{field: region, operator: In, values: [eu], weight: 7}], weights: Score, set: {annotations: {"on": "{clusters}", list: "{clusters:json}"}, nodeSelector: {disk: ssd}, schedulerName: s}}]`,
			want: Decision{
				Rule: "a", Clusters: []string{"alpha", "charlie", "echo"}, Shares: map[string]int64{"alpha": 7, "charlie": 1, "echo": 1},
				Annotations: map[string]string{"on": "alpha,charlie,echo", "list": `["alpha","charlie","echo"]`},
				Scheduling:  map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}, "schedulerName": "s"},
			},
		},
		"nodes": {
			rules: `[{name: a, candidates: Nodes, tolerate: [{key: k, operator: Exists}], spread: {field: zone, minDomains: 2}}]`,
			want: Decision{Rule: "a", Scheduling: map[string]any{
				"tolerations":               []any{map[string]any{"key": "k", "operator": "Exists"}},
				"topologySpreadConstraints": []any{map[string]any{"maxSkew": int64(1), "minDomains": int64(2), "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}},
			}},
		},
		"an expression that fails": {
			rules: `[{name: a, when: {expression: object.spec.replicas >= 2}, deny: denied}]`,
			want:  Decision{Undecidable: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []placementv1.Rule
			decode(t, test.rules, &rules)
			var clusters map[string]map[string]any
			decode(t, fleet, &clusters)
			if diff := cmp.Diff(test.want, Decide(rules, web(t), test.namespace, clusters)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTaintsInDenials checks that taints which differ in their value alone are one group, without a value, and that equal ones keep it.
func TestTaintsInDenials(t *testing.T) {
	dedicated := func(value string) map[string]any {
		return map[string]any{"taints": []any{
			map[string]any{"key": "zone", "effect": "NoSchedule"}, map[string]any{"key": "dedicated", "value": value, "effect": "NoSchedule"},
		}}
	}
	clusters := map[string]map[string]any{"other": {"taints": []any{map[string]any{"key": "dedicated", "value": "a", "effect": "NoExecute"}}}}
	rules := []placementv1.Rule{{Name: "r", Limit: 1}}
	for i := range 20 {
		clusters[fmt.Sprintf("c%d", i)] = dedicated(fmt.Sprintf("team-%d", i))
	}
	want := []string{"rule r: 0/21 clusters are eligible: 20 with untolerated taint dedicated:NoSchedule, 1 with untolerated taint dedicated=a:NoExecute"}
	if diff := cmp.Diff(want, Decide(rules, web(t), nil, clusters).Errors); diff != "" {
		t.Error(diff)
	}
	for i := range 20 {
		clusters[fmt.Sprintf("c%d", i)] = dedicated("web")
	}
	want = []string{"rule r: 0/21 clusters are eligible: 20 with untolerated taint dedicated=web:NoSchedule, 1 with untolerated taint dedicated=a:NoExecute"}
	if diff := cmp.Diff(want, Decide(rules, web(t), nil, clusters).Errors); diff != "" {
		t.Error(diff)
	}
}

func TestFits(t *testing.T) {
	node := Node{Name: "n1", Labels: map[string]string{"gpus": "2", "topology.kubernetes.io/zone": "a"}}
	for requirement, want := range map[string]bool{
		`{field: name, operator: In, values: [n1, n2]}`:                    true,
		`{field: name, operator: NotIn, values: [n1]}`:                     false,
		`{field: zone, operator: In, values: [a]}`:                         true,
		`{field: region, operator: DoesNotExist}`:                          true,
		`{label: gpus, operator: Gte, values: ["2"]}`:                      true,
		`{label: gpus, operator: Gt, values: ["2"]}`:                       false,
		`{label: gpus, operator: Lt, valueFrom: {label: none}}`:            false,
		`{label: gpus, operator: NotIn, valueFrom: {label: none}}`:         false,
		`{label: none, operator: Lt, values: ["5"]}`:                       false,
		`{label: gpus, operator: Lt, valueFrom: {label: n, default: "3"}}`: true,
	} {
		t.Run(requirement, func(t *testing.T) {
			rule := &placementv1.Rule{Require: make([]placementv1.Requirement, 1)}
			decode(t, requirement, &rule.Require[0])
			if got := Fits(rule, web(t), node); got != want {
				t.Errorf("Fits is %t", got)
			}
		})
	}
}

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

package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestContradictions checks the warnings about conditions that can't be met together.
func TestContradictions(t *testing.T) {
	const (
		denies = "rule a denies each object that it decides"
		change = ". All of them have to be met: change or remove one"
	)
	none := func(at, others, rest string) []string {
		return []string{"spec.rules[0]." + at + ": no cluster can meet this together with " + others + ": " + rest}
	}
	second := func(rest string) []string { return none("require[1]", "spec.rules[0].require[0]", rest) }
	require := func(list string) string { return "[{name: a, require: [" + list + "]}]" }
	when := func(condition string) string { return "[{name: a, warn: w, when: {" + condition + "}}]" }
	tests := map[string]struct {
		rules string
		want  []string
	}{
		"TwoRegions": {require("{field: region, operator: In, values: [eu]}, {field: region, operator: In, values: [us]}"),
			second(denies + `. All of them have to be met: to allow any of the values, list them in one entry of require, {field: region, operator: In, values: ["eu", "us"]}`)},
		"ManyValues": {require("{label: a, operator: In, values: [a, b, c, d, e]}, {label: a, operator: In, values: [f, g, h, i]}"),
			second(denies + ". All of them have to be met: to allow any of the values, list them in one entry of require")},
		"Overlap":        {require("{field: region, operator: In, values: [eu, ch]}, {field: region, operator: In, values: [us, ch]}"), nil},
		"OtherSubject":   {require("{label: region, operator: In, values: [eu]}, {field: region, operator: In, values: [us]}"), nil},
		"Excluded":       {require("{label: a, operator: In, values: [x]}, {label: a, operator: NotIn, values: [x, y]}"), second(denies + change)},
		"ExcludedBefore": {require("{label: a, operator: NotIn, values: [x, y]}, {label: a, operator: In, values: [x]}"), second(denies + change)},
		"PartlyExcluded": {require("{label: a, operator: In, values: [x, z]}, {label: a, operator: NotIn, values: [x, y]}"), nil},
		"Together": {require("{label: a, operator: In, values: [x, y]}, {label: a, operator: NotIn, values: [x]}, {label: a, operator: NotIn, values: [y]}"),
			none("require[2]", "spec.rules[0].require[0] and spec.rules[0].require[1]", denies+change)},
		"OnceForAValue":   {require("{label: a, operator: Exists}, {label: a, operator: DoesNotExist}, {label: a, operator: In, values: [x]}"), second(denies + change)},
		"AbsentAndIn":     {require("{property: a, operator: DoesNotExist}, {property: a, operator: In, values: [x]}"), second(denies + change)},
		"AbsentAndNotIn":  {require("{property: a, operator: DoesNotExist}, {property: a, operator: NotIn, values: [x]}"), nil},
		"AbsentAndGt":     {require("{free: cpu, operator: DoesNotExist}, {free: cpu, operator: Gt, values: ['2']}"), second(denies + change)},
		"Range":           {require("{label: a, operator: Gt, values: ['5']}, {label: a, operator: Lt, values: ['3']}"), second(denies + change)},
		"RangeReversed":   {require("{label: a, operator: Lte, values: ['3']}, {label: a, operator: Gte, values: ['+3.5']}"), second(denies + change)},
		"RangeOfOne":      {require("{label: a, operator: Lte, values: ['3']}, {label: a, operator: Gte, values: ['3.0']}"), nil},
		"EmptyRange":      {require("{label: a, operator: Lte, values: ['3']}, {label: a, operator: Gt, values: ['3.0']}"), second(denies + change)},
		"Fractions":       {require("{label: a, operator: Lt, values: ['3']}, {label: a, operator: Gt, values: ['2']}"), nil},
		"Quantities":      {require("{allocatable: memory, operator: Gte, values: [1Gi]}, {allocatable: memory, operator: Lt, values: [500Mi]}"), second(denies + change)},
		"Versions":        {require("{field: version, operator: Gte, values: ['1.30']}, {field: version, operator: Lt, values: [v1.9]}"), second(denies + change)},
		"VersionRange":    {require("{field: version, operator: Gte, values: ['1.9']}, {field: version, operator: Lt, values: [v1.30]}"), nil},
		"OtherType":       {require("{label: a, operator: Gte, values: ['1.30']}, {label: a, operator: Lt, values: ['1.9'], as: Version}"), nil},
		"NumberOutside":   {require("{label: a, operator: In, values: ['1', '2', x]}, {label: a, operator: Gt, values: ['2']}"), second(denies + change)},
		"NumberInside":    {require("{label: a, operator: In, values: ['1', '3']}, {label: a, operator: Gt, values: ['2']}"), nil},
		"FromObject":      {require("{label: a, operator: In, values: [x]}, {label: a, operator: In, valueFrom: {label: b}}"), nil},
		"RangeOfObject":   {require("{label: a, operator: Gt, values: ['2']}, {label: a, operator: Lt, valueFrom: {label: b}}"), nil},
		"AbsentAndObject": {require("{label: a, operator: DoesNotExist}, {label: a, operator: In, valueFrom: {label: b}}"), second(denies + change)},
		"Zones":           {require("{field: zone, operator: In, values: [a]}, {field: zone, operator: In, values: [b]}"), nil},
		"ExcludedZone":    {require("{field: zone, operator: In, values: [a]}, {field: zone, operator: NotIn, values: [a]}"), second(denies + change)},
		"Ready": {require("{field: ready, operator: In, values: ['true']}, {field: ready, operator: In, values: ['false']}"),
			second(denies + `. All of them have to be met: to allow any of the values, list them in one entry of require, {field: ready, operator: In, values: ["true", "false"]}`)},
		"NextRule": {"[{name: a, otherwise: NextRule, require: [{label: a, operator: Exists}, {label: a, operator: DoesNotExist}]}, {name: b, limit: 1}]",
			second("rule a leaves each object to the next rule" + change)},
		"Nodes": {"[{name: a, candidates: Nodes, require: [{field: zone, operator: In, values: [a]}, {label: topology.kubernetes.io/zone, operator: DoesNotExist}]}]",
			[]string{"spec.rules[0].require[1]: no node can meet this together with spec.rules[0].require[0]: the pods of each object that rule a decides stay pending" + change}},
		"Integers": {"[{name: a, candidates: Nodes, require: [{label: a, operator: Gt, values: ['2']}, {label: a, operator: Lt, values: ['3']}]}]",
			[]string{"spec.rules[0].require[1]: no node can meet this together with spec.rules[0].require[0]: the pods of each object that rule a decides stay pending" + change}},
		"Preferences": {"[{name: a, limit: 1, prefer: [{label: a, operator: Exists, weight: 1}, {label: a, operator: DoesNotExist, weight: 1}]}]", nil},
		"ObjectSelector": {when("objectSelector: {matchLabels: {tier: gold}, matchExpressions: [{key: tier, operator: DoesNotExist}]}"),
			[]string{"spec.rules[0].when.objectSelector.matchExpressions[0]: no object can meet this together with spec.rules[0].when.objectSelector.matchLabels[tier]: rule a never applies" + change}},
		"NamespaceSelector": {when("namespaceSelector: {matchLabels: {env: prod}, matchExpressions: [{key: env, operator: In, values: [dev]}]}"),
			[]string{"spec.rules[0].when.namespaceSelector.matchExpressions[0]: no namespace can meet this together with spec.rules[0].when.namespaceSelector.matchLabels[env]: rule a never applies" +
				`. All of them have to be met: to allow any of the values, list them in one entry of matchExpressions, {key: env, operator: In, values: ["prod", "dev"]}`}},
		"Annotations": {when("annotations: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]"),
			[]string{"spec.rules[0].when.annotations[1]: no object can meet this together with spec.rules[0].when.annotations[0]: rule a never applies" + change}},
		"LabelAndAnnotation": {when("objectSelector: {matchLabels: {a: b}}, annotations: [{key: a, operator: DoesNotExist}]"), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, warnings, errs := Render(parse(t, tc.rules))
			if diff := cmp.Diff(tc.want, warnings); diff != "" || len(errs) > 0 {
				t.Errorf("warnings (-want +got):\n%s\nerrors: %v", diff, errs)
			}
		})
	}
}

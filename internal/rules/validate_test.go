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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInvalidRules checks that each mistake that the schema of the API lets through is refused, with the field's path and what to do.
func TestInvalidRules(t *testing.T) {
	tests := map[string]struct {
		rules string
		want  []string
	}{
		"NoNumber": {`[{name: a, require: [{label: pci, operator: Gt, values: [high]}]}]`,
			[]string{`spec.rules[0].require[0].values[0]: Invalid value: "high": must be a number, such as 2 or 0.5`}},
		"QuantityAsNumber": {`[{name: a, require: [{label: disk, operator: Gt, values: [10Gi]}]}]`, []string{"set as: Quantity"}},
		"VersionAsNumber":  {`[{name: a, require: [{label: release, operator: Gt, values: [1.2.3]}]}]`, []string{"set as: Version"}},
		"NoQuantity":       {`[{name: a, require: [{free: cpu, operator: Gt, values: [much]}]}]`, []string{"spec.rules[0].require[0].values[0]", "must be a quantity"}},
		"NoVersion":        {`[{name: a, require: [{field: version, operator: Gt, values: [latest]}]}]`, []string{"must be a version"}},
		"NoNumberInDefault": {`[{name: a, require: [{label: pci, operator: Gt, valueFrom: {label: pci, default: none}}]}]`,
			[]string{`spec.rules[0].require[0].valueFrom.default: Invalid value: "none"`}},
		"NoNumberInPreference": {`[{name: a, limit: 1, prefer: [{weight: 1, label: pci, operator: Gt, values: [x]}]}]`, []string{"spec.rules[0].prefer[0].values[0]"}},
		"AsOfTexts":            {`[{name: a, require: [{label: a, operator: In, values: ["1"], as: Number}]}]`, []string{"spec.rules[0].require[0].as", "only Gt, Gte, Lt, Lte, Most and Least"}},
		"MostInRequire":        {`[{name: a, require: [{label: a, operator: Most}]}]`, []string{"spec.rules[0].require[0].operator", "move this to prefer, with a weight"}},
		"MostOfVersion":        {`[{name: a, limit: 1, prefer: [{weight: 1, field: version, operator: Most}]}]`, []string{"spec.rules[0].prefer[0].field", "operator: Gte"}},
		"MostOfField":          {`[{name: a, limit: 1, prefer: [{weight: 1, field: region, operator: Most}]}]`, []string{"spec.rules[0].prefer[0].field", "region is neither", "set label"}},
		"LeastOfVersions":      {`[{name: a, limit: 1, prefer: [{weight: 1, label: a, operator: Least, as: Version}]}]`, []string{"spec.rules[0].prefer[0].as", "Quantity"}},
		"LeastOfNumbers":       {`[{name: a, limit: 1, prefer: [{weight: 1, free: cpu, operator: Least, as: Number}]}]`, []string{`supported values: "Quantity"`}},
		"LeastOfValues":        {`[{name: a, limit: 1, prefer: [{weight: 1, label: a, operator: Least, values: ["1"]}]}]`, []string{"spec.rules[0].prefer[0].operator", "have no values"}},
		"MostOfNodes":          {`[{name: a, candidates: Nodes, prefer: [{weight: 1, label: a, operator: Most}]}]`, []string{"spec.rules[0].prefer[0].operator", "set Gt or Lt"}},
		"MostOfScore":          {`[{name: a, limit: 1, prefer: [{weight: 1, score: cpuAvailable, operator: Most}]}]`, []string{"spec.rules[0].prefer[0].score", "joined by a slash"}},
		"MostOfKey":            {`[{name: a, limit: 1, prefer: [{weight: 1, label: "a b", operator: Most}]}]`, []string{"spec.rules[0].prefer[0].label"}},
		"OrderOfZones":         {`[{name: a, require: [{field: zone, operator: Gt, values: ["1"]}]}]`, []string{"spec.rules[0].require[0].operator", "DoesNotExist"}},
		"NoBoolean":            {`[{name: a, require: [{field: ready, operator: In, values: ["yes"]}]}]`, []string{`spec.rules[0].require[0].values[0]: Unsupported value: "yes"`}},
		"LabelKey":             {`[{name: a, require: [{label: "a b", operator: Exists}]}]`, []string{"spec.rules[0].require[0].label"}},
		"ResourceName":         {`[{name: a, require: [{free: "a b", operator: Exists}]}]`, []string{"spec.rules[0].require[0].free"}},
		"InventoryAnnotation":  {`[{name: a, require: [{annotation: "a b", operator: Exists}]}]`, []string{"spec.rules[0].require[0].annotation"}},
		"PropertyName":         {`[{name: a, require: [{property: "a\u0007b", operator: Exists}]}]`, []string{"spec.rules[0].require[0].property", "printable"}},
		"SpreadProperty":       {`[{name: a, spread: {property: "a\u0007b", minDomains: 2}}]`, []string{"spec.rules[0].spread.property", "printable"}},
		"ObjectKey":            {`[{name: a, require: [{label: a, operator: In, valueFrom: {label: "a b"}}]}]`, []string{"spec.rules[0].require[0].valueFrom.label"}},
		"ObjectAnnotation":     {`[{name: a, require: [{label: a, operator: In, valueFrom: {annotation: "a b"}}]}]`, []string{"spec.rules[0].require[0].valueFrom.annotation"}},
		"Selector":             {`[{name: a, warn: w, when: {objectSelector: {matchLabels: {"a b": c}}}}]`, []string{"spec.rules[0].when.objectSelector.matchLabels"}},
		"NamespaceSelector":    {`[{name: a, warn: w, when: {namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}}]`, []string{"spec.rules[0].when.namespaceSelector.matchExpressions[0].values"}},
		"AnnotationKey":        {`[{name: a, warn: w, when: {annotations: [{key: "a b", operator: Exists}]}}]`, []string{"spec.rules[0].when.annotations[0].key"}},
		"Expression":           {`[{name: a, warn: w, when: {expression: "object.spec.replicas >"}}]`, []string{"spec.rules[0].when.expression", "Syntax error"}},
		"ExpressionVariable":   {`[{name: a, warn: w, when: {expression: "request.operation == 'CREATE'"}}]`, []string{"undeclared reference to 'request'"}},
		"ExpressionType":       {`[{name: a, warn: w, when: {expression: "1 + 1"}}]`, []string{"must be a boolean, is int"}},
		"AfterAll": {`[{name: a, limit: 1}, {name: b, when: {objectSelector: {matchLabels: {a: b}}}, warn: w}]`,
			[]string{"spec.rules[1]: Forbidden: rule b is never reached: rule a (spec.rules[0]) applies to all objects"}},
		"AfterEmptySelector": {`[{name: a, limit: 1, when: {objectSelector: {}}}, {name: b, warn: w}]`, []string{"rule b is never reached"}},
		"AfterTheSame": {`[{name: a, limit: 1, when: {objectSelector: {matchLabels: {a: b}}}}, {name: b, warn: w, when: {objectSelector: {matchLabels: {a: b}}}}]`,
			[]string{"rule b is never reached: rule a (spec.rules[0]) has the same condition. Merge the two rules, or change a condition"}},
		"Nothing":            {`[{name: a}]`, []string{"spec.rules[0]: Forbidden: rule a decides nothing"}},
		"NodesWithNothing":   {`[{name: a, candidates: Nodes}]`, []string{"rule a decides nothing"}},
		"NothingWithMessage": {`[{name: a, message: m, when: {objectSelector: {matchLabels: {a: b}}}}, {name: b, warn: w}]`, []string{"rule a gives no clusters"}},
		"OtherwiseOfNothing": {`[{name: a, warn: w, otherwise: NextRule}, {name: b, warn: w}]`, []string{"spec.rules[0].otherwise", "never finds too few"}},
		"NextOfLast":         {`[{name: a, limit: 1, otherwise: NextRule}]`, []string{"spec.rules[0].otherwise: Forbidden: no rule follows"}},
		"Placeholder":        {`[{name: a, deny: "{nmae}"}]`, []string{"spec.rules[0].deny", "unknown placeholder {nmae}", "{name}"}},
		"PlaceholderOfWarn":  {`[{name: a, limit: 1, warn: "{clusters}"}]`, []string{"spec.rules[0].warn", "only set.annotations and set.labels"}},
		"PlaceholderOfSet":   {`[{name: a, set: {labels: {a: "{clusters}"}}}]`, []string{"spec.rules[0].set.labels[a]"}},
		"Brace":              {`[{name: a, deny: "{name"}]`, []string{"write {{ for a brace"}},
		"ClosingBrace":       {`[{name: a, deny: "name}"}]`, []string{"write }} for a brace"}},
		"SetKey":             {`[{name: a, set: {annotations: {"a b": c}}}]`, []string{"spec.rules[0].set.annotations[a b]"}},
		"SetLabelKey":        {`[{name: a, set: {labels: {"a b": c}}}]`, []string{"spec.rules[0].set.labels[a b]"}},
		"SetLabelValue":      {`[{name: a, set: {labels: {a: "b c"}}}]`, []string{`spec.rules[0].set.labels[a]: Invalid value: "b c"`}},
		"SetNodeSelector":    {`[{name: a, set: {nodeSelector: {a: "b c"}}}]`, []string{"spec.rules[0].set.nodeSelector[a]"}},
		"ClustersInLabel":    {`[{name: a, limit: 1, set: {labels: {a: "{clusters:json}"}}}]`, []string{"spec.rules[0].set.labels[a]", "write it to an annotation"}},
		"LimitOfDomains":     {`[{name: a, limit: 3, spread: {field: region, minDomains: 2, minClusters: 2}}]`, []string{"2 domains with 2 clusters each are more than limit, which is 3"}},
		"SpreadKey":          {`[{name: a, spread: {label: "a b", minDomains: 2}}]`, []string{"spec.rules[0].spread.label"}},
		"NodeProperty":       {`[{name: a, candidates: Nodes, require: [{property: a, operator: Exists}]}]`, []string{"only labels and the fields name, region and zone exist"}},
		"NodeNames":          {`[{name: a, candidates: Nodes, require: [{field: name, operator: In, values: [a, b]}]}]`, []string{"spec.rules[0].require[0].field", "with one name"}},
		"NodeNumber":         {`[{name: a, candidates: Nodes, require: [{label: a, operator: Gt, values: ["1.5"]}]}]`, []string{"must be an integer"}},
		"NodeQuantity":       {`[{name: a, candidates: Nodes, require: [{label: a, operator: Gt, values: ["1"], as: Quantity}]}]`, []string{"spec.rules[0].require[0].as"}},
		"NodeReason":         {`[{name: a, candidates: Nodes, require: [{label: a, operator: Exists, reason: r}]}]`, []string{"spec.rules[0].require[0].reason"}},
		"NodeSpread":         {`[{name: a, candidates: Nodes, spread: {property: a, minDomains: 2}}]`, []string{"nodes are spread by a label"}},
		"NodeDomains":        {`[{name: a, candidates: Nodes, spread: {field: zone, maxDomains: 2}}]`, []string{"only minDomains applies to nodes"}},
		"NodeEffect":         {`[{name: a, candidates: Nodes, tolerate: [{operator: Exists, effect: NoSelect}]}]`, []string{"spec.rules[0].tolerate[0].effect"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, _, errs := Render(parse(t, tc.rules))
			if len(errs) != 1 || m.Text != "" {
				t.Fatalf("errors %v, text %q", errs, m.Text)
			}
			for _, want := range tc.want {
				if got := errs[0].Error(); !strings.Contains(got, want) {
					t.Errorf("error %q, want %q", got, want)
				}
			}
		})
	}
}

// TestWarnings checks the warnings about rules that can be compiled.
func TestWarnings(t *testing.T) {
	const better = "has no effect: the rule chooses all eligible clusters, and not the best of them. Set limit, or maxDomains or maxClusters of spread"
	tests := map[string]struct{ rules, want string }{
		"Prefer":         {`[{name: a, prefer: [{weight: 1, label: a, operator: Exists}]}]`, "spec.rules[0].prefer: " + better + ", or weights"},
		"PreferOfSpread": {`[{name: a, prefer: [{weight: 1, label: a, operator: Exists}], spread: {field: region, minDomains: 2}}]`, "spec.rules[0].prefer: " + better + ", or weights"},
		"ClustersInLabel": {`[{name: a, limit: 2, set: {labels: {a: "{clusters}"}}}]`,
			"spec.rules[0].set.labels[a]: objects with several clusters can't be decided, because a label can't have a comma: write {clusters} to an annotation, or set limit: 1"},
		"DoubledBraces": {`[{name: a, deny: "no {{ name }} here"}]`,
			"spec.rules[0].deny: {{ name }} stands for the text { name }, because doubled braces stand for single ones. Placeholders have single braces, such as {name}"},
		"MinGainOfWeights": {`[{name: a, minGain: 5, weights: Score, prefer: [{weight: 9, label: a, operator: Exists}]}]`, "spec.rules[0].minGain: " + better},
		"MinGainTooHigh": {`[{name: a, minGain: 31, limit: 1, prefer: [{weight: 10, label: a, operator: Exists}, {weight: 20, label: b, operator: Exists}]}]`,
			"spec.rules[0].minGain: is more than the sum of all weights, which is 30: all eligible clusters are equally good, and prefer chooses none of them first. Lower or remove it"},
		"MinGainTooLow": {`[{name: a, minGain: 10, limit: 1, prefer: [{weight: 10, label: a, operator: Exists}, {weight: 20, label: b, operator: Exists}]}]`,
			"spec.rules[0].minGain: has no effect: two different scores differ by at least 10. Raise it above that to ignore smaller differences, or remove it"},
		"MinGainOfMostTooHigh": {`[{name: a, minGain: 31, limit: 1, prefer: [{weight: 30, label: a, operator: Most}]}]`,
			"spec.rules[0].minGain: is more than the sum of all weights, which is 30: all eligible clusters are equally good, and prefer chooses none of them first. Lower or remove it"},
		"ShortVersion": {`[{name: a, require: [{field: version, operator: NotIn, values: [v1.33.5-gke.1, "1.33"]}]}]`,
			`spec.rules[0].require[0].values[1]: no cluster has the version "1.33": In and NotIn compare texts, and versions of clusters are such as v1.33.5. Compare with Gte and Lt`},
		"Pattern": {`[{name: a, require: [{field: name, operator: NotIn, values: [us-1, eu-*]}]}]`,
			`spec.rules[0].require[0].values[1]: no cluster has "eu-*": In and NotIn compare whole texts, and * stands for itself. List the values, or compare a label that these clusters share`},
		"PlaceholderInValues": {`[{name: a, limit: 1, prefer: [{label: rack, operator: In, values: ["{label:rack}"], weight: 1}]}]`,
			`spec.rules[0].prefer[0].values[0]: no cluster has "{label:rack}": values have no placeholders. To take the value from the object, set valueFrom in place of values`},
		"CPUsInBytes": {`[{name: a, require: [{free: cpu, operator: Gte, values: [8Gi]}]}]`,
			`spec.rules[0].require[0].values[0]: 8Gi is 8589934592 CPUs, more than any cluster has: write the number without a unit, as in 8`},
		"ManyCPUs": {`[{name: a, limit: 1, prefer: [{allocatable: cpu, operator: Gt, values: ["64000000"], weight: 1}]}]`,
			`spec.rules[0].prefer[0].values[0]: 64000000 is 64000000 CPUs, more than any cluster has: write a number of CPUs, or of thousandths as in 500m`},
		"Effect":        {`[{name: a, tolerate: [{key: a, effect: NoScedule}]}]`, `spec.rules[0].tolerate[0].effect: the effect "NoScedule" is unknown; did you mean "NoSchedule"?`},
		"HarmlessTaint": {`[{name: a, tolerate: [{key: a, effect: PreferNoSelect}]}]`, "spec.rules[0].tolerate[0].effect: has no effect: taints with the effect PreferNoSelect repel nothing"},
		"False": {`[{name: a, when: {expression: "has(object.spec) && 1 > 2"}, warn: w}]`,
			"spec.rules[0].when.expression: is false for every object: rule a never applies. Compare a field of object, as in object.metadata.name == 'shop'"},
		"True": {`[{name: a, when: {expression: "true", annotations: [{key: a, operator: Exists}]}, warn: w}, {name: b, warn: w}]`,
			"spec.rules[0].when.expression: is true for every object, so that it has no effect: remove it, or compare a field of object, as in object.metadata.name == 'shop'"},
		"TrueAlone": {`[{name: a, when: {expression: "true"}, warn: w}, {name: b, warn: w}]`,
			"spec.rules[0].when.expression: is true for every object: rule a applies to all objects, and the rules after it are never reached. Compare a field of object, as in object.metadata.name == 'shop'"},
		"ListOfClusters": {`[{name: a, require: [{field: name, operator: In, valueFrom: {annotation: placement.berth.dev/clusters}}]}]`,
			"spec.rules[0].require[0].valueFrom.annotation: no value of a cluster equals annotation placement.berth.dev/clusters, whose value is JSON. The clusters that a developer lists in annotation placement.berth.dev/clusters narrow what policies allow, and need no requirement for that"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, warnings, errs := Render(parse(t, tc.rules))
			if diff := cmp.Diff([]string{tc.want}, warnings); diff != "" || len(errs) > 0 {
				t.Errorf("warnings (-want +got):\n%s\nerrors: %v", diff, errs)
			}
		})
	}
}

// TestNoWarnings checks rules that look like mistakes and are none.
func TestNoWarnings(t *testing.T) {
	for name, rules := range map[string]string{
		"PreferWithMaxDomains": `[{name: a, prefer: [{weight: 1, label: a, operator: Exists}], spread: {field: region, maxDomains: 2}}]`,
		"MinGain":              `[{name: a, minGain: 11, limit: 1, prefer: [{weight: 10, label: a, operator: Exists}, {weight: 20, label: b, operator: Exists}]}]`,
		"MinGainOfSum":         `[{name: a, minGain: 30, limit: 1, prefer: [{weight: 10, label: a, operator: Exists}, {weight: 20, label: b, operator: Exists}]}]`,
		"MinGainOfMost":        `[{name: a, minGain: 2, limit: 1, prefer: [{weight: 10, free: cpu, operator: Most}, {weight: 20, label: b, operator: Exists}]}]`,
		"MostOfWeights":        `[{name: a, weights: Score, prefer: [{weight: 10, annotation: a, operator: Least, as: Quantity}]}]`,
		"DefaultMinGain":       `[{name: a, minGain: 1, limit: 1, prefer: [{weight: 10, label: a, operator: Exists}]}]`,
		"Braces":               `[{name: a, set: {annotations: {a: '{{"a": 1}}'}}}]`,
		"TemplateInText":       `[{name: a, set: {annotations: {a: '{{{{ .app.metadata.name }}}} {{{{name}}}}'}}}]`,
		"BracesAroundValue":    `[{name: a, set: {annotations: {a: '{{{name}}}, {{{label:team}}}'}}}]`,
		"CPUs":                 `[{name: a, require: [{free: cpu, operator: Gte, values: [500m]}, {allocatable: cpu, operator: Lt, values: [10k]}, {allocatable: example.com/memory, operator: Gte, values: [8Gi]}]}]`,
		"OwnEffect":            `[{name: a, tolerate: [{key: a, effect: Quarantined}, {key: b, effect: NoSelectIfNew}, {key: c}]}]`,
		"PatternInProperty":    `[{name: a, require: [{property: cidr, operator: In, values: ["*"]}]}]`,
		"WholeVersion":         `[{name: a, require: [{field: version, operator: In, values: [v1.33.5]}]}]`,
		"Expression":           `[{name: a, when: {expression: "object.metadata.name == 'shop'"}, warn: w}]`,
		"NarrowerFirst":        `[{name: a, when: {objectSelector: {matchLabels: {k: x}}}, warn: w}, {name: b, when: {objectSelector: {matchExpressions: [{key: k, operator: Exists}]}}, warn: w}]`,
		"OtherExpression":      `[{name: a, when: {objectSelector: {matchLabels: {k: x}}, expression: "object.kind == 'Job'"}, warn: w}, {name: b, when: {objectSelector: {matchLabels: {k: x}}}, warn: w}]`,
		"MissingLabel":         `[{name: a, when: {objectSelector: {matchExpressions: [{key: k, operator: Exists}]}}, warn: w}, {name: b, when: {objectSelector: {matchExpressions: [{key: k, operator: NotIn, values: [x]}]}}, warn: w}]`,
		"NextInOtherZones":     `[{name: a, require: [{field: zone, operator: NotIn, values: [z]}], otherwise: NextRule}, {name: b, require: [{field: zone, operator: In, values: [y]}]}]`,
		"NextWithTaint":        `[{name: a, require: [{field: region, operator: In, values: [eu]}], otherwise: NextRule}, {name: b, require: [{field: region, operator: In, values: [eu]}], tolerate: [{key: t, operator: Exists}]}]`,
		"NextAfterSpread":      `[{name: a, require: [{field: region, operator: In, values: [eu]}], spread: {field: zone, minDomains: 2}, otherwise: NextRule}, {name: b, require: [{field: region, operator: In, values: [eu]}]}]`,
		"NextOfOthers":         `[{name: a, when: {objectSelector: {matchLabels: {k: x}}}, require: [{field: region, operator: In, values: [eu]}], otherwise: NextRule}, {name: b, require: [{field: region, operator: In, values: [eu]}]}]`,
		"NextOfAnother":        `[{name: a, require: [{label: l, operator: In, valueFrom: {label: x}}], otherwise: NextRule}, {name: b, require: [{label: l, operator: In, valueFrom: {label: y}}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, warnings, errs := Render(parse(t, rules)); len(warnings) > 0 || len(errs) > 0 {
				t.Errorf("warnings %q, errors %v", warnings, errs)
			}
		})
	}
}

// TestField checks that lines lead to the fields from which they come.
func TestField(t *testing.T) {
	m, _, errs := Render(parse(t, `[{name: a, require: [{label: b, operator: Exists}, {property: c, operator: In, values: [d]}], set: {annotations: {e: f}}}]`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	fields := map[string]string{
		"cluster.labels.b": "spec.rules[0].require[0]", "cluster.properties.c in": "spec.rules[0].require[1]",
		`annotations := {"e"`: "spec.rules[0].set.annotations[e]", "package rules": "spec.rules", "repelled contains": "spec.rules",
	}
	for text, want := range fields {
		before, _, found := strings.Cut(m.Text, text)
		if !found {
			t.Fatalf("%q is not in\n%s", text, m.Text)
		}
		line := 1 + strings.Count(before, "\n")
		if got := m.Field(line); got != want {
			t.Errorf("line %d with %q comes from %s, want %s", line, text, got, want)
		}
	}
	if got := m.Field(100000); got != "spec.rules" {
		t.Error(got)
	}
}

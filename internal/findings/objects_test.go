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
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// serving is a catalog of which only the served types are asked.
type serving struct {
	Catalog
	types []match.ServedType
}

func (s serving) Served() *match.ServedTypes { return match.NewServedTypes(s.types) }

// deployments is the type of Deployments.
var deployments = match.ServedType{
	GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment", Singular: "deployment", Namespaced: true,
}

// TestObjects checks which labels and annotations that no object has are found, and that few objects say nothing.
func TestObjects(t *testing.T) {
	objectsOf := func(n int) func(context.Context, schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
		return func(context.Context, schema.GroupVersionResource) (out []*unstructured.Unstructured, err error) {
			for i := range n {
				o := &unstructured.Unstructured{}
				o.SetNamespace("shop")
				o.SetName(fmt.Sprintf("web-%d", i))
				o.SetLabels(map[string]string{"app": "checkout", "example.com/residency": "eu", []string{"even", "odd"}[i%2]: "true"})
				o.SetAnnotations(map[string]string{"example.com/eu-required": "true", "example.com/level": "3", "example.com/long": strings.Repeat("x", 100),
					"example.com/pci-compliance-level": "3"})
				out = append(out, o)
			}
			return out, nil
		}
	}
	const valueFrom = "require: [{label: level, operator: Gte, valueFrom: {%s, default: '0'}}]"
	for name, test := range map[string]struct {
		selector map[string]string
		rule     string
		objects  int
		want     string
	}{
		"Selector": {map[string]string{"app": "chekout"}, "deny: no", 5,
			`spec.match.objectSelector selects none of the objects that there are: no object has the value "chekout" of label app now, so that this selects no object; there are "checkout"`},
		"SelectorOfFew": {map[string]string{"app": "chekout"}, "deny: no", 4, ""},
		"Selected":      {map[string]string{"app": "checkout"}, "deny: no", 5, ""},

		"Label": {nil, "when: {objectSelector: {matchLabels: {example.com/residency: EU}}}", 5,
			`spec.rules[0].when.objectSelector.matchLabels[example.com/residency]: no matched object has the value "EU" of label example.com/residency now, so that ` +
				`rule a applies to none; there are "eu"`},
		"Annotation": {nil, "when: {annotations: [{key: example.com/eu-required, operator: In, values: ['yes']}]}", 5,
			`spec.rules[0].when.annotations[0]: no matched object has the value "yes" of annotation example.com/eu-required now, so that rule a applies to none; there are "true"`},
		"LabelOfFew": {nil, "when: {objectSelector: {matchLabels: {example.com/residency: EU}}}", 4, ""},
		"OneOf":      {nil, "when: {objectSelector: {matchExpressions: [{key: example.com/residency, operator: In, values: [EU, eu]}]}}", 5, ""},
		"NewKey":     {nil, "when: {objectSelector: {matchLabels: {example.com/exempt: 'true'}}}", 5, ""},
		"MisspeltKey": {nil, "when: {objectSelector: {matchExpressions: [{key: example.com/residancy, operator: Exists}]}}", 5,
			`no matched object has the label example.com/residancy now, so that rule a applies to none; did you mean "example.com/residency"?`},
		"LongValues": {nil, "when: {annotations: [{key: example.com/long, operator: In, values: ['yes']}]}", 5, ""},
		"NotIn":      {nil, "when: {annotations: [{key: example.com/level, operator: NotIn, values: ['3']}]}", 5, ""},

		"Expression": {nil, `when: {expression: "object.metadata.?labels['example.com/residency'].orValue('') == 'EU'"}`, 5,
			`spec.rules[0].when.expression: no matched object has the value "EU" of label example.com/residency now, so that rule a applies to none; there are "eu"`},
		"ExpressionOfAnnotation": {nil, `when: {expression: "object.spec.replicas > 1 && object.metadata.annotations['example.com/eu-required'] in ['yes', 'True']"}`, 5,
			`no matched object has the value "yes" or "True" of annotation example.com/eu-required now, so that rule a applies to none; there are "true"`},
		"ExpressionOfMisspeltKey": {nil, `when: {expression: "object.metadata.labels['example.com/residancy'] == 'eu'"}`, 5,
			`no matched object has the label example.com/residancy now, so that rule a applies to none; did you mean "example.com/residency"?`},
		"ExpressionOverKeys": {nil, `when: {expression: "has(object.metadata.labels) && object.metadata.labels.exists(l, l == 'eu')"}`, 5,
			`spec.rules[0].when.expression: no matched object has the label eu now, so that rule a applies to none: in and exists() compare the keys of labels, and "eu" ` +
				`is a value of label example.com/residency. Compare the value, as in object.metadata.?labels[?"example.com/residency"].orValue("") == "eu"`},
		"ExpressionInKeys":      {nil, `when: {expression: "'3' in object.metadata.annotations"}`, 5, `"3" is a value of annotation example.com/level`},
		"ExpressionOfFew":       {nil, `when: {expression: "'3' in object.metadata.annotations"}`, 4, ""},
		"ExpressionOfKey":       {nil, `when: {expression: "object.metadata.labels.exists(l, l in ['app', 'eu'])"}`, 5, ""},
		"ExpressionOfNewKey":    {nil, `when: {expression: "'exempt' in object.metadata.labels || object.metadata.labels.exempt == 'EU'"}`, 5, ""},
		"ExpressionOfOther":     {nil, `when: {expression: "object.metadata.labels['example.com/residency'] == 'EU' || object.spec.replicas > 1"}`, 5, ""},
		"ExpressionThatExempts": {nil, `when: {expression: "object.metadata.labels['example.com/residency'] != 'EU'"}`, 5, ""},
		"ExpressionOfValue":     {nil, `when: {expression: "object.metadata.labels['example.com/residency'] in ['EU', 'eu']"}`, 5, ""},

		"ValueFrom":         {nil, fmt.Sprintf(valueFrom, "annotation: example.com/level"), 5, ""},
		"MisspeltValueFrom": {nil, fmt.Sprintf(valueFrom, "annotation: example.com/levell"), 5, `spec.rules[0].require[0].valueFrom: no matched object has the annotation example.com/levell now, so that each gets the default "0"; did you mean "example.com/level"?`},
		"ValueFromLabel":    {nil, fmt.Sprintf(valueFrom, "label: example.com/level"), 5, `no matched object has the label example.com/level now, so that each gets the default "0"; did you mean annotation: example.com/level?`},
		"ValueFromNothing":  {nil, fmt.Sprintf(valueFrom, "label: example.com/team"), 50, `no matched object has the label example.com/team now, so that each gets the default "0"`},
		"ValueFromOfFew":    {nil, fmt.Sprintf(valueFrom, "label: example.com/team"), 49, ""},
		"LongerName": {nil, fmt.Sprintf(valueFrom, "annotation: example.com/pci-level"), 5, `no matched object has the annotation example.com/pci-level now, so that each gets the default "0"; ` +
			`did you mean "example.com/pci-compliance-level"?`},
		"OneWord":     {nil, fmt.Sprintf(valueFrom, "annotation: example.com/pci"), 5, ""},
		"OtherWords":  {nil, fmt.Sprintf(valueFrom, "annotation: example.com/pci-max-level"), 5, ""},
		"OtherPrefix": {nil, fmt.Sprintf(valueFrom, "annotation: example.org/pci-level"), 5, ""},

		"OneOfBoth": {nil, "when: {objectSelector: {matchLabels: {cost: low, example.com/residency: eu}}}", 5, ""},
		"EachLabel": {nil, "when: {objectSelector: {matchLabels: {even: 'true', odd: 'true'}}}", 10, "spec.rules[0].when.objectSelector.matchLabels: no matched object has all of " +
			"these labels now, so that rule a applies to none: 5 have even=true, 5 have odd=true. For objects with one of them, write a rule for each"},
		"EachLabelOfFew": {nil, "when: {objectSelector: {matchLabels: {even: 'true', odd: 'true'}}}", 9, ""},
		"AllLabels":      {nil, "when: {objectSelector: {matchLabels: {even: 'true', app: checkout}}}", 10, ""},
		"AndAnnotations": {nil, "when: {objectSelector: {matchLabels: {even: 'true', odd: 'true'}}, annotations: [{key: example.com/level, operator: Exists}]}", 10, ""},

		"ValueWithoutDefault": {nil, "require: [{label: level, operator: Gte, valueFrom: {label: example.com/team}}]", 5, ""},
	} {
		spec := placementv1.PlacementPolicySpec{Rules: []placementv1.Rule{ruleFrom(t, test.rule)}}
		spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
		if test.selector != nil {
			spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: test.selector}
		}
		m, errs := match.New(spec.Match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		f := &Finder{Catalog: serving{types: []match.ServedType{deployments}}, Namespaces: labelled{"shop": nil}, Objects: objectsOf(test.objects)}
		if got := f.findingsOfObjects(t.Context(), spec, m); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
		f.Namespaces = labelled{"other": nil}
		if got := f.findingsOfObjects(t.Context(), spec, m); len(got) > 0 {
			t.Errorf("%s: in other namespaces: %+v", name, got)
		}
		f.Objects = nil
		if got := f.findingsOfObjects(t.Context(), spec, m); len(got) > 0 {
			t.Errorf("%s: without objects: %+v", name, got)
		}
	}
}

// TestObjectsOfConditions checks that match conditions are compared with the labels of objects.
func TestObjectsOfConditions(t *testing.T) {
	objects := func(context.Context, schema.GroupVersionResource) (out []*unstructured.Unstructured, err error) {
		for range manyObjects {
			o := &unstructured.Unstructured{}
			o.SetNamespace("shop")
			o.SetLabels(map[string]string{"tier": "gold"})
			out = append(out, o)
		}
		return out, nil
	}
	for expression, want := range map[string]string{
		"request.operation == 'CREATE' && object.metadata.?labels.?tier.orValue('') == 'Gold'": `spec.match.matchConditions[0].expression: no matched object has the value "Gold" of label ` +
			`tier now, so that the policy matches none; there are "gold"`,
		"object.metadata.?labels.?tier.orValue('') == 'gold'": "",
	} {
		spec := placementv1.PlacementPolicySpec{Match: placementv1.Match{
			ResourceRules:   []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: expression}},
		}}
		m, errs := match.New(spec.Match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		f := &Finder{Catalog: serving{types: []match.ServedType{deployments}}, Namespaces: labelled{"shop": nil}, Objects: objects}
		if got := f.findingsOfObjects(t.Context(), spec, m); !finds(got, want) {
			t.Errorf("%s: got %+v, want %q", expression, got, want)
		}
	}
}

// TestTypeNames checks which names of types in expressions are found.
func TestTypeNames(t *testing.T) {
	for expression, want := range map[string]string{
		"object.kind == \"deployment\"":                                       `spec.rules[0].when.expression: object.kind is never "deployment"; did you mean "Deployment"?`,
		"!(object.kind in [\"Deployment\", \"deployments\"])":                 `object.kind is never "deployments"; did you mean "Deployment"?`,
		"object.apiVersion == \"apps\"":                                       `object.apiVersion is never "apps"; did you mean "apps/v1"?`,
		"object.kind == \"Deployment\" && object.spec.replicas > 1":           "",
		"object.kind != \"Pod\"":                                              "",
		"object.kind == \"Widget\" || object.metadata.name == \"deployment\"": "",
	} {
		spec := placementv1.PlacementPolicySpec{Rules: []placementv1.Rule{ruleFrom(t, fmt.Sprintf("when: {expression: '%s'}", expression))}}
		spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
		m, errs := match.New(spec.Match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		f := &Finder{Catalog: serving{types: []match.ServedType{deployments}}}
		if got := f.findingsOfTypeNames(spec, m); !finds(got, want) {
			t.Errorf("%s: got %+v, want %q", expression, got, want)
		}
	}
}

// TestSurge checks which timeouts of a surge are too short.
func TestSurge(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		time.Second: "spec.delivery.surge.timeout: hardly any workload starts in another cluster within 1s, so that objects leave a cluster before they run elsewhere. " +
			"Set some minutes, or remove surge",
		10 * time.Second: "",
	} {
		if got := findingsOfSurge(&placementv1.Surge{Timeout: &metav1.Duration{Duration: timeout}}, specPath.Child("delivery", "surge")); !finds(got, want) {
			t.Errorf("%s: got %+v, want %q", timeout, got, want)
		}
	}
	for _, s := range []*placementv1.Surge{nil, {}} {
		if got := findingsOfSurge(s, specPath); len(got) > 0 {
			t.Errorf("%+v: %+v", s, got)
		}
	}
}

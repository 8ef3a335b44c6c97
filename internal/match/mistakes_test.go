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

package match_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// warns checks the warnings for a match. Each entry of want is a part of one warning.
func warns(t *testing.T, m placementv1.Match, want []string) {
	t.Helper()
	got := match.Warnings(m, field.NewPath("match"))
	if len(got) != len(want) {
		t.Fatalf("warnings %q, want %q", got, want)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("warning %q, want %q", got[i], want[i])
		}
	}
}

func TestObjectSelectorsForNamespaces(t *testing.T) {
	const key = "kubernetes.io/metadata.name"
	require := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	deployments, namespaces := ruleOf("apps", "v1", "deployments"), ruleOf("", "v1", "pods,namespaces")
	for name, tc := range map[string]struct {
		rules    []placementv1.ResourceRule
		selector *metav1.LabelSelector
		want     []string
	}{
		"label":         {[]placementv1.ResourceRule{deployments}, &metav1.LabelSelector{MatchLabels: map[string]string{key: "shop"}}, []string{"match.objectSelector: only Namespaces have the label kubernetes.io/metadata.name, so that no object is matched: use namespaceSelector"}},
		"in":            {[]placementv1.ResourceRule{deployments}, require(key, metav1.LabelSelectorOpIn, "shop", "web"), []string{"no object is matched"}},
		"exists":        {[]placementv1.ResourceRule{deployments}, require(key, metav1.LabelSelectorOpExists), []string{"no object is matched"}},
		"not in":        {[]placementv1.ResourceRule{deployments}, require(key, metav1.LabelSelectorOpNotIn, "shop"), []string{"no object is excluded"}},
		"not there":     {[]placementv1.ResourceRule{deployments}, require(key, metav1.LabelSelectorOpDoesNotExist), []string{"no object is excluded"}},
		"namespaces":    {[]placementv1.ResourceRule{deployments, namespaces}, require(key, metav1.LabelSelectorOpIn, "shop"), nil},
		"wildcard":      {[]placementv1.ResourceRule{ruleOf("", "*", "*")}, require(key, metav1.LabelSelectorOpNotIn, "shop"), nil},
		"other label":   {[]placementv1.ResourceRule{deployments}, require("kubernetes.io/name", metav1.LabelSelectorOpIn, "shop"), nil},
		"none":          {[]placementv1.ResourceRule{deployments}, nil, nil},
		"of other apps": {[]placementv1.ResourceRule{ruleOf("apps", "v1", "namespaces")}, require(key, metav1.LabelSelectorOpIn, "shop"), []string{"no object is matched"}},
	} {
		t.Run(name, func(t *testing.T) {
			warns(t, placementv1.Match{ResourceRules: tc.rules, ObjectSelector: tc.selector}, tc.want)
		})
	}
}

func TestOperationsOfConditions(t *testing.T) {
	const at = "match.matchConditions[0].expression: "
	for name, tc := range map[string]struct {
		expression string
		want       []string
	}{
		"case":             {`request.operation == 'Create'`, []string{at + `request.operation is never "Create"; did you mean "CREATE"?`}},
		"lower case":       {`"update" != request.operation`, []string{`never "update"; did you mean "UPDATE"?`}},
		"typing error":     {`request.operation == "UPDATED"`, []string{`did you mean "UPDATE"?`}},
		"unknown":          {`request.operation == "PATCH"`, []string{`request.operation is never "PATCH": the API server sends Berth only CREATE and UPDATE`}},
		"list":             {`request.operation in ['CREATE', 'update']`, []string{`never "update"`}},
		"within":           {`!(has(object.spec) && request.operation == "create") || object.spec.replicas > 1`, []string{`never "create"`}},
		"in a macro":       {`object.spec.list.all(x, x.a || request.operation == "create")`, []string{`never "create"`}},
		"twice":            {`request.operation == 'Create' || request.operation == 'Create' || request.operation == 'Update'`, []string{`never "Create"`, `never "Update"`}},
		"deletions":        {`request.operation == 'DELETE'`, []string{at + `the API server does not send "DELETE" to Berth, so the condition is never true: it sends CREATE and UPDATE`}},
		"only those":       {`object.spec.replicas > 1 && request.operation in ['DELETE', 'CONNECT']`, []string{"never true"}},
		"right":            {`request.operation == 'CREATE' || request.operation != "UPDATE"`, nil},
		"right list":       {`request.operation in ['CREATE', 'UPDATE', 'DELETE']`, nil},
		"guard":            {`request.operation != 'DELETE'`, nil},
		"guard of objects": {`request.operation == 'DELETE' || object.spec.replicas > 1`, nil},
		"negated guard":    {`!(request.operation == 'DELETE')`, nil},
		"other fields":     {`request.name == 'Create' && object.operation == 'Create' && 'Create' in request.userInfo.groups`, nil},
		"not constant":     {`request.operation == object.metadata.name && request.operation in object.spec.list`, nil},
		"broken":           {`request.operation ==`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := []admissionregistrationv1.MatchCondition{{Name: "a", Expression: tc.expression}}
			warns(t, placementv1.Match{ResourceRules: []placementv1.ResourceRule{ruleOf("apps", "v1", "deployments")}, MatchConditions: conditions}, tc.want)
		})
	}
}

func TestCoverageOfClusterScopedTypes(t *testing.T) {
	for name, tc := range map[string]struct {
		rules []placementv1.ResourceRule
		want  bool
	}{
		"volumes":                {[]placementv1.ResourceRule{ruleOf("", "v1", "persistentvolumes")}, true},
		"volumes and namespaces": {[]placementv1.ResourceRule{ruleOf("", "v1", "persistentvolumes,namespaces")}, false},
		"volumes and pods":       {[]placementv1.ResourceRule{ruleOf("", "v1", "persistentvolumes"), ruleOf("", "v1", "pods")}, false},
		"pods":                   {[]placementv1.ResourceRule{ruleOf("", "v1", "pods")}, false},
		"all":                    {[]placementv1.ResourceRule{ruleOf("", "v1", "*")}, false},
		"unserved":               {[]placementv1.ResourceRule{ruleOf("", "v1", "persistentvolumes,widgets")}, false},
		"nothing is served":      {[]placementv1.ResourceRule{ruleOf("", "v1", "widgets")}, false},
		"silent":                 {[]placementv1.ResourceRule{ruleOf("metrics.example", "v1", "loads")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := coverage(t, placementv1.Match{ResourceRules: tc.rules}); got.ClusterScoped != tc.want {
				t.Errorf("got %+v, want %v", got, tc.want)
			}
		})
	}
}

func TestTypes(t *testing.T) {
	for name, tc := range map[string]struct {
		rule placementv1.ResourceRule
		// kinds are the kinds of the types; "" if the types are unknown.
		kinds string
	}{
		"named":     {ruleOf("apps", "v1", "deployments,statefulsets"), "Deployment StatefulSet"},
		"two":       {ruleOf(",apps", "v1,v1beta1", "pods,deployments"), "Pod Deployment"},
		"wildcard":  {ruleOf("apps", "v1", "*"), ""},
		"unserved":  {ruleOf("apps", "v1", "deployments,widgets"), ""},
		"never":     {ruleOf("", "v1", "pods,events"), ""},
		"silent":    {ruleOf("apps,metrics.example", "v1", "deployments"), ""},
		"versions":  {ruleOf("apps", "*", "deployments"), ""},
		"of groups": {ruleOf("*", "v1", "deployments"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			matcher, _ := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{tc.rule}}, field.NewPath("match"))
			types, ok := matcher.Types(someServed)
			var kinds []string
			for _, served := range types {
				kinds = append(kinds, served.Kind)
			}
			if got := strings.Join(kinds, " "); got != tc.kinds || ok != (tc.kinds != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tc.kinds)
			}
		})
	}
	matcher, _ := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{ruleOf("apps", "v1", "deployments")}}, field.NewPath("match"))
	if _, ok := matcher.Types(nil); ok {
		t.Error("the types are known where nothing is known of the API server")
	}
}

func TestRequiresLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		want     bool
	}{
		"none":      {nil, false},
		"label":     {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, true},
		"other":     {&metav1.LabelSelector{MatchLabels: map[string]string{"b": "a"}}, false},
		"in":        {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b"}}}}, true},
		"exists":    {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}}}, true},
		"not in":    {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b"}}}}, false},
		"not there": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpDoesNotExist}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			matcher, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{ruleOf("apps", "v1", "deployments")}, ObjectSelector: tc.selector}, field.NewPath("match"))
			if got := matcher.RequiresLabel("a"); got != tc.want || len(errs) > 0 {
				t.Errorf("got %v, want %v; errors %v", got, tc.want, errs)
			}
		})
	}
}

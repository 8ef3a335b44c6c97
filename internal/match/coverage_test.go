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
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

func servedType(group, version, plural, kind string, namespaced bool, short ...string) match.ServedType {
	return match.ServedType{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
		Kind:                 kind, Singular: strings.ToLower(kind), ShortNames: short, Namespaced: namespaced,
	}
}

var someServed = match.NewServedTypes([]match.ServedType{
	servedType("", "v1", "configmaps", "ConfigMap", true, "cm"),
	servedType("", "v1", "pods", "Pod", true, "po"),
	servedType("", "v1", "events", "Event", true),
	servedType("", "v1", "namespaces", "Namespace", false, "ns"),
	servedType("", "v1", "persistentvolumes", "PersistentVolume", false, "pv"),
	servedType("apps", "v1", "deployments", "Deployment", true, "deploy"),
	servedType("apps", "v1", "statefulsets", "StatefulSet", true, "sts"),
	servedType("batch", "v1", "jobs", "Job", true),
	servedType("events.k8s.io", "v1", "events", "Event", true),
	servedType("networking.k8s.io", "v1", "ingresses", "Ingress", true, "ing"),
	servedType("rbac.authorization.k8s.io", "v1", "roles", "Role", true),
	servedType("shop.example", "v1beta1", "carts", "Cart", true),
}, schema.GroupVersion{Group: "metrics.example", Version: "v1"})

func ruleOf(groups, versions, resources string) placementv1.ResourceRule {
	list := func(text string) []string { return strings.Split(text, ",") }
	return placementv1.ResourceRule{APIGroups: list(groups), APIVersions: list(versions), Resources: list(resources)}
}

func coverage(t *testing.T, m placementv1.Match) match.Coverage {
	t.Helper()
	matcher, errs := match.New(m, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return matcher.Coverage(someServed, field.NewPath("match"), "berth-system")
}

func TestCoverageOfRules(t *testing.T) {
	for name, tc := range map[string]struct {
		rules []placementv1.ResourceRule
		// covered is Coverage's result of that name. Each entry of unserved is a part of one message.
		covered  bool
		unserved []string
	}{
		"served":             {[]placementv1.ResourceRule{ruleOf("apps", "v1", "deployments,statefulsets")}, true, nil},
		"all":                {[]placementv1.ResourceRule{ruleOf("*", "*", "*")}, true, nil},
		"one of two groups":  {[]placementv1.ResourceRule{ruleOf("extensions,apps", "v1,v1beta1", "deployments")}, true, nil},
		"singular":           {[]placementv1.ResourceRule{ruleOf("apps", "v1", "deployment")}, false, []string{`"deployment" in apiGroups ["apps"], apiVersions ["v1"] (did you mean deployments?)`}},
		"kind":               {[]placementv1.ResourceRule{ruleOf("apps", "v1", "StatefulSet")}, false, []string{"did you mean statefulsets?"}},
		"short name":         {[]placementv1.ResourceRule{ruleOf("apps", "v1", "sts")}, false, []string{"did you mean statefulsets?"}},
		"typing error":       {[]placementv1.ResourceRule{ruleOf("apps", "v1", "deplyoments")}, false, []string{"did you mean deployments?"}},
		"other group":        {[]placementv1.ResourceRule{ruleOf("extensions", "v1", "ingresses")}, false, []string{`did you mean ingresses in apiGroups ["networking.k8s.io"]?`}},
		"core":               {[]placementv1.ResourceRule{ruleOf("", "v1", "deployments")}, false, []string{`did you mean deployments in apiGroups ["apps"]?`}},
		"not core":           {[]placementv1.ResourceRule{ruleOf("core", "v1", "pods")}, false, []string{`did you mean pods in apiGroups [""]?`}},
		"group and version":  {[]placementv1.ResourceRule{ruleOf("apps/v1", "v1", "deployments")}, false, []string{`did you mean deployments in apiGroups ["apps"]?`}},
		"version as group":   {[]placementv1.ResourceRule{ruleOf("v1", "v1", "pods")}, false, []string{`did you mean pods in apiGroups [""]?`}},
		"group in version":   {[]placementv1.ResourceRule{ruleOf("apps", "apps/v1", "deployments")}, false, []string{`did you mean deployments in apiVersions ["v1"]?`}},
		"old version":        {[]placementv1.ResourceRule{ruleOf("shop.example", "v1alpha1", "carts")}, false, []string{`did you mean carts in apiVersions ["v1beta1"]?`}},
		"unknown":            {[]placementv1.ResourceRule{ruleOf("widgets.example.com", "v1", "widgets")}, false, []string{`"widgets" in apiGroups ["widgets.example.com"], apiVersions ["v1"]`}},
		"unknown group":      {[]placementv1.ResourceRule{ruleOf("appz", "v1", "*")}, false, []string{`the API server serves nothing in apiGroups ["appz"], apiVersions ["v1"] (did you mean the group "apps"?)`}},
		"version, wildcards": {[]placementv1.ResourceRule{ruleOf("v1", "*", "*")}, false, []string{`did you mean the group ""?`}},
		"some":               {[]placementv1.ResourceRule{ruleOf("apps", "v1", "deployments,statefulset")}, true, []string{"match.resourceRules[0].resources[1]: "}},
		"some rules":         {[]placementv1.ResourceRule{ruleOf("apps", "v1", "deployments"), ruleOf("batch", "v1", "cronjobs")}, true, []string{"match.resourceRules[1].resources[0]: "}},
		"silent":             {[]placementv1.ResourceRule{ruleOf("metrics.example", "v1", "loads")}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := coverage(t, placementv1.Match{ResourceRules: tc.rules})
			if got.Covered != tc.covered || got.Impossible != "" || len(got.Unserved) != len(tc.unserved) {
				t.Fatalf("got %+v", got)
			}
			for i, want := range tc.unserved {
				if !strings.Contains(got.Unserved[i], want) {
					t.Errorf("got %q, want %q", got.Unserved[i], want)
				}
			}
		})
	}
}

func TestCoverageOfSelectors(t *testing.T) {
	selector := func(requirements ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: requirements}
	}
	require := func(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	const name = "kubernetes.io/metadata.name"
	pods, volumes := ruleOf("", "v1", "pods"), ruleOf("", "v1", "persistentvolumes")
	for title, tc := range map[string]struct {
		match placementv1.Match
		want  string
	}{
		"none": {placementv1.Match{ResourceRules: []placementv1.ResourceRule{pods}}, ""},
		"kube-system": {placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{pods}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{name: "kube-system"}},
		}, "match.namespaceSelector: it selects kube-system only"},
		"both": {placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{pods}, NamespaceSelector: selector(require(name, metav1.LabelSelectorOpIn, "kube-system", "berth-system")),
		}, "match.namespaceSelector: it selects berth-system, kube-system only"},
		"the rest is excluded": {placementv1.Match{
			ResourceRules:     []placementv1.ResourceRule{pods},
			NamespaceSelector: selector(require(name, metav1.LabelSelectorOpIn, "kube-system", "shop"), require(name, metav1.LabelSelectorOpNotIn, "shop")),
		}, "match.namespaceSelector: it selects kube-system only"},
		"and another": {placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{pods}, NamespaceSelector: selector(require(name, metav1.LabelSelectorOpIn, "kube-system", "shop")),
		}, ""},
		"all others": {placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{pods}, NamespaceSelector: selector(require(name, metav1.LabelSelectorOpNotIn, "kube-system")),
		}, ""},
		"cluster-scoped too": {placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{pods, volumes}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{name: "kube-system"}},
		}, ""},
		"two values": {placementv1.Match{
			ResourceRules:  []placementv1.ResourceRule{pods},
			ObjectSelector: selector(require("a", metav1.LabelSelectorOpIn, "x"), require("a", metav1.LabelSelectorOpIn, "y")),
		}, "match.objectSelector: no value of the label a meets all requirements on it"},
		"there and not": {placementv1.Match{
			ResourceRules:     []placementv1.ResourceRule{pods},
			NamespaceSelector: selector(require("a", metav1.LabelSelectorOpExists), require("a", metav1.LabelSelectorOpDoesNotExist)),
		}, "match.namespaceSelector: no value of the label a meets all requirements on it"},
		"not there, nor that value": {placementv1.Match{
			ResourceRules:  []placementv1.ResourceRule{pods},
			ObjectSelector: selector(require("a", metav1.LabelSelectorOpNotIn, "x"), require("a", metav1.LabelSelectorOpDoesNotExist)),
		}, ""},
		"wildcards of bootstrap types": {placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{ruleOf("rbac.authorization.k8s.io", "v1", "*")},
		}, "wildcards match none of the types that this entry stands for"},
	} {
		t.Run(title, func(t *testing.T) {
			if got := coverage(t, tc.match).Impossible; (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSelectsNoneOf(t *testing.T) {
	all := map[string]map[string]string{"kube-system": {"team": "platform"}, "berth-system": {"team": "platform"}, "shop": {"team": "retail"}}
	for team, want := range map[string]bool{"retail": false, "platform": true, "payments": true} {
		m, _ := match.New(placementv1.Match{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}}, field.NewPath("match"))
		if got := m.SelectsNoneOf(maps.All(all), "berth-system"); got != want {
			t.Errorf("%s: %t", team, got)
		}
	}
	m, _ := match.New(placementv1.Match{}, field.NewPath("match"))
	if m.SelectsNoneOf(maps.All(map[string]map[string]string{}), "") {
		t.Error("a match without a selector selects none")
	}
}

func TestMeant(t *testing.T) {
	got := map[string]string{}
	for _, text := range []string{"deployment.apps", "deployments", "deploy.apps", "widgets.example.com", "pods.apps", "pods", "deployments.apps"} {
		got[text] = someServed.SuggestResource(schema.ParseGroupResource(text))
	}
	want := map[string]string{
		"deployment.apps": " (did you mean deployments.apps?)", "deployments": " (did you mean deployments.apps?)", "deploy.apps": " (did you mean deployments.apps?)",
		"widgets.example.com": "", "pods.apps": " (did you mean pods?)", "pods": "", "deployments.apps": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("suggestions (-want +got):\n%s", diff)
	}
	if got := someServed.SuggestPlural("configmap"); got != " (did you mean configmaps?)" {
		t.Errorf("suggests %q", got)
	}
}

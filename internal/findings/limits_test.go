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
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
)

// limited has one LimitedResource, and quotas.
type limited struct {
	limit  placementv1.LimitedResourceSpec
	quotas []placementv1.Quota
}

func (l limited) Limits(context.Context) ([]placementv1.LimitedResource, error) {
	return []placementv1.LimitedResource{{ObjectMeta: metav1.ObjectMeta{Name: "expensive"}, Spec: l.limit}}, nil
}

func (l limited) All(context.Context) ([]placementv1.Quota, error) { return l.quotas, nil }

// TestLimits checks which priority classes of policies need a quota that there is not.
func TestLimits(t *testing.T) {
	classOf := func(operator corev1.ScopeSelectorOperator, classes ...string) []placementv1.ScopeRequirement {
		return []placementv1.ScopeRequirement{{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: classes}}
	}
	pods := func(requirements []placementv1.ScopeRequirement) placementv1.LimitedResourceSpec {
		return placementv1.LimitedResourceSpec{Resource: "pods", MatchScopes: requirements}
	}
	quotaIn := func(namespace, class string, mode placementv1.Mode) placementv1.Quota {
		return &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: namespace}, Spec: placementv1.ScopedQuotaSpec{QuotaSpec: placementv1.QuotaSpec{
			Mode: mode, ScopeSelector: &placementv1.ScopeSelector{MatchExpressions: classOf(corev1.ScopeSelectorOpIn, class)},
		}}}
	}
	// hardIn returns a quota with one name in hard for pods of a class; "" for pods without a scope.
	hardIn := func(namespace, class string, name corev1.ResourceName) placementv1.Quota {
		out := quotaIn(namespace, class, "").(*placementv1.ScopedQuota)
		out.Spec.Hard = map[corev1.ResourceName]resource.Quantity{name: resource.MustParse("9")}
		if class == "" {
			out.Spec.ScopeSelector = nil
		}
		return out
	}
	withoutBestEffort := hardIn("pay", "", "pods").(*placementv1.ScopedQuota)
	withoutBestEffort.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}
	byName := placementv1.LimitedResourceSpec{Resource: "pods", MatchContains: []string{"pods"}}
	const gold = "set: {priorityClassName: gold}"
	of := pods(classOf(corev1.ScopeSelectorOpIn, "gold"))
	onlyTest := of
	onlyTest.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"env": "test"}}
	for name, test := range map[string]struct {
		rule   string
		limit  placementv1.LimitedResourceSpec
		quotas []placementv1.Quota
		want   string
	}{
		"NoQuota": {gold, of, nil, "spec.rules[0].set.priorityClassName: LimitedResource expensive denies each pod of priority class gold in namespaces pay, shop, because no " +
			"enforced quota there covers the priority class. Create a quota whose scopeSelector has the priority class, or set another class"},
		"Exists":         {gold, pods(classOf(corev1.ScopeSelectorOpExists)), nil, "expensive"},
		"OtherClass":     {gold, pods(classOf(corev1.ScopeSelectorOpIn, "silver")), nil, ""},
		"OtherQuota":     {gold, of, []placementv1.Quota{quotaIn("pay", "silver", "")}, "expensive"},
		"DryRun":         {gold, of, []placementv1.Quota{quotaIn("pay", "gold", placementv1.ModeDryRun)}, "expensive"},
		"OtherNamespace": {gold, of, []placementv1.Quota{quotaIn("dev", "gold", "")}, "expensive"},
		"OneOfTwo": {gold, of, []placementv1.Quota{quotaIn("shop", "gold", "")}, "in namespace pay, because no enforced quota there covers the priority class. " +
			"Create a quota there whose scopeSelector has the priority class, or set the class only in namespaces that have such a quota"},
		"Both":      {gold, of, []placementv1.Quota{quotaIn("shop", "gold", ""), quotaIn("pay", "gold", "")}, ""},
		"ByCluster": {gold, of, []placementv1.Quota{&placementv1.ClusterScopedQuota{Spec: placementv1.ClusterScopedQuotaSpec{QuotaSpec: *quotaIn("", "gold", "").QuotaSpec()}}}, ""},
		"Exempt":    {gold, onlyTest, nil, ""},
		"Selected":  {gold + ", when: {namespaceSelector: {matchLabels: {team: web}}}", of, nil, "in namespace shop"},
		"Nowhere":   {gold + ", when: {namespaceSelector: {matchLabels: {team: none}}}", of, nil, ""},
		"Claims":    {gold, placementv1.LimitedResourceSpec{Resource: "persistentvolumeclaims", MatchScopes: of.MatchScopes}, nil, ""},
		// The quota of the namespace is for another class.
		"Name": {gold, byName, []placementv1.Quota{hardIn("pay", "silver", "pods")}, "LimitedResource expensive denies each pod of priority class gold in namespace pay, " +
			"because no enforced quota there with pods in spec.hard covers the priority class. Create such a quota there, without scopes or with the priority class in " +
			"scopeSelector, or set a class that one covers"},
		"OneOfTwoNames": {gold, byName, []placementv1.Quota{hardIn("pay", "silver", "count/pods"), hardIn("pay", "gold", "pods")}, "there with count/pods in spec.hard covers the priority class"},
		"NameOfClass":   {gold, byName, []placementv1.Quota{hardIn("pay", "silver", "pods"), hardIn("pay", "gold", "pods")}, ""},
		"NameOfAll":     {gold, byName, []placementv1.Quota{hardIn("pay", "silver", "pods"), hardIn("pay", "", "pods")}, ""},
		// Some pods of the class are covered.
		"NameOfSome": {gold, byName, []placementv1.Quota{hardIn("pay", "silver", "pods"), withoutBestEffort}, ""},
		// Each pod is denied, whatever its class is.
		"NameOfNone": {gold, byName, nil, ""},
		// Pods take it only if they request it.
		"NameOfDevices": {gold, placementv1.LimitedResourceSpec{Resource: "pods", MatchContains: []string{"gpu"}},
			[]placementv1.Quota{hardIn("pay", "silver", "requests.nvidia.com/gpu")}, ""},
		"NoClass": {"set: {labels: {a: b}}", of, nil, ""},
	} {
		spec := policyOf(t, "p", test.rule, "prod").Spec
		m, errs := match.New(spec.Match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		module, err := policy.Compile("p", spec.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		f := &Finder{Quotas: limited{test.limit, test.quotas}, Namespaces: labelled{
			"pay": {"env": "prod"}, "shop": {"env": "prod", "team": "web"}, "dev": {"env": "test"}, "kube-system": {"env": "prod"},
		}}
		if got := f.findingsOfLimits(t.Context(), spec, m, module); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

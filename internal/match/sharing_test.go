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
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/test/budget"
)

// similar returns a match that differs little from base, so that many can share a webhook.
func (g generator) similar(base placementv1.Match) placementv1.Match {
	m := *base.DeepCopy()
	if len(m.MatchConditions) == 0 && g.IntN(2) == 0 {
		// These differ in resource types, in label values, or in both.
		m.ResourceRules = []placementv1.ResourceRule{rule("*", "*", []string{"pods", "deployments"}[g.IntN(2)])}
		m.NamespaceSelector, m.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement("a", g.some("1", "2", "3")...)}}, nil
		return m
	}
	if g.IntN(3) == 0 {
		m.ResourceRules = append(m.ResourceRules, rule("*", "*", "pods"))
	}
	for range g.IntN(3) {
		selector := &m.NamespaceSelector
		if g.IntN(2) == 0 {
			selector = &m.ObjectSelector
		}
		next := &metav1.LabelSelector{}
		if *selector != nil {
			next = *selector
		}
		*selector = next
		key := g.key()
		switch g.IntN(3) {
		case 0:
			next.MatchLabels = map[string]string{key: g.value()}
		case 1, 2:
			next.MatchExpressions = append(next.MatchExpressions, requirement(key, g.some("1", "2", "3")...))
		}
	}
	return m
}

// TestSharedWebhooksAskForNothingElse checks that a shared webhook only receives objects that one of its policies
// matches.
func TestSharedWebhooksAskForNothingElse(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(9, 10))}
	shared, called1, total, rounds := 0, 0, 0, budget.Rounds(60)
	for range rounds {
		base := g.match()
		if g.IntN(2) == 0 {
			base.ResourceRules = []placementv1.ResourceRule{rule("*", "*", "deployments")}
		}
		var hooks []match.PolicyWebhook
		for i := range 2 + g.IntN(6) {
			m, _ := match.New(g.similar(base), field.NewPath("match"))
			hooks = append(hooks, match.PolicyWebhook{Policy: fmt.Sprintf("p%d", i), FailurePolicy: placementv1.FailurePolicyFail, Matcher: m})
		}
		alone := map[string]webhook.WebhookAccessor{}
		for _, hook := range hooks {
			alone[hook.Policy] = webhook.NewMutatingWebhookAccessor("uid", "berth", &match.Webhooks([]match.PolicyWebhook{hook}, ownNamespace)[0].Webhook)
		}
		groups := match.Webhooks(hooks, ownNamespace)
		shared += len(hooks) - len(groups)
		for range 25 {
			r := g.request()
			for _, group := range groups {
				got, gotErr := called(t.Context(), t, webhook.NewMutatingWebhookAccessor("uid", "berth", &group.Webhook), r)
				want, wantErr := false, false
				for _, name := range group.Policies {
					one, err := called(t.Context(), t, alone[name], r)
					want, wantErr = want || one, wantErr || err != nil
				}
				if got != want || (gotErr != nil) != wantErr {
					t.Fatalf("webhook of %v\n%+v\nis called: %t, %v; for its policies alone: %t, error %t; for\n%+v", group.Policies, group.Webhook, got, gotErr, want, wantErr, r.object)
				}
				total++
				if got {
					called1++
				}
			}
		}
	}
	t.Logf("%d policies share another's webhook; %d of %d calls", shared, called1, total)
	if shared < rounds/2 || called1 < 5*rounds/2 {
		t.Errorf("%d policies share another's webhook, %d of %d are calls: the test is too weak", shared, called1, total)
	}
}

// TestValuesShareAWebhook checks that policies with different values of one label share a webhook, whose name does not
// depend on which of the policies exist.
func TestValuesShareAWebhook(t *testing.T) {
	deployment := rule("apps", "v1", "deployments")
	expression := func(r ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: r}
	}
	of := func(r placementv1.ResourceRule, namespaces, objects *metav1.LabelSelector) placementv1.Match {
		return placementv1.Match{ResourceRules: []placementv1.ResourceRule{r}, NamespaceSelector: namespaces, ObjectSelector: objects}
	}
	tests := map[string]struct {
		matches []placementv1.Match
		want    [][]string
	}{
		"Namespaces":     {[]placementv1.Match{of(deployment, selector("a", "1"), nil), of(deployment, selector("a", "2"), nil), of(deployment, selector("a", "3"), nil)}, [][]string{{"0", "1", "2"}}},
		"Objects":        {[]placementv1.Match{of(deployment, nil, selector("a", "1")), of(deployment, nil, selector("a", "2"))}, [][]string{{"0", "1"}}},
		"Lists":          {[]placementv1.Match{of(deployment, expression(requirement("a", "1", "2")), nil), of(deployment, selector("a", "3"), nil)}, [][]string{{"0", "1"}}},
		"OtherForms":     {[]placementv1.Match{of(deployment, expression(requirement("a", "2", "1", "2")), nil), of(deployment, expression(requirement("a", "1", "2")), &metav1.LabelSelector{})}, [][]string{{"0", "1"}}},
		"OtherKeys":      {[]placementv1.Match{of(deployment, selector("a", "1"), nil), of(deployment, selector("b", "1"), nil)}, [][]string{{"0"}, {"1"}}},
		"TwoDifferences": {[]placementv1.Match{of(deployment, selector("a", "1", "b", "1"), nil), of(deployment, selector("a", "2", "b", "2"), nil)}, [][]string{{"0"}, {"1"}}},
		"BothSelectors":  {[]placementv1.Match{of(deployment, selector("a", "1"), selector("b", "1")), of(deployment, selector("a", "2"), selector("b", "2"))}, [][]string{{"0"}, {"1"}}},
		"SecondLabel":    {[]placementv1.Match{of(deployment, selector("a", "1", "b", "1"), nil), of(deployment, selector("a", "1", "b", "2"), nil)}, [][]string{{"0", "1"}}},
		"OtherRules":     {[]placementv1.Match{of(deployment, selector("a", "1"), nil), of(rule("batch", "v1", "jobs"), selector("a", "2"), nil)}, [][]string{{"0"}, {"1"}}},
		"RulesTogether": {[]placementv1.Match{
			of(deployment, selector("a", "1"), nil), of(rule("batch", "v1", "jobs"), selector("a", "1"), nil),
			of(deployment, selector("a", "2"), nil), of(rule("batch", "v1", "jobs"), selector("a", "2"), nil),
		}, [][]string{{"0", "1", "2", "3"}}},
		"NotIn": {[]placementv1.Match{
			of(deployment, expression(metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"1"}}), nil),
			of(deployment, expression(metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"2"}}), nil),
		}, [][]string{{"0"}, {"1"}}},
		"Everywhere": {[]placementv1.Match{of(deployment, nil, nil), of(deployment, &metav1.LabelSelector{}, nil), of(deployment, selector("a", "1"), nil)}, [][]string{{"0", "1"}, {"2"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var hooks []match.PolicyWebhook
			for i, m := range tc.matches {
				hooks = append(hooks, match.PolicyWebhook{Policy: fmt.Sprint(i), FailurePolicy: placementv1.FailurePolicyFail, Matcher: compile(t, m)})
			}
			var got [][]string
			groups := match.Webhooks(hooks, ownNamespace)
			for _, group := range groups {
				got = append(got, group.Policies)
			}
			slices.SortFunc(got, slices.Compare)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatalf("policies by webhook (-want +got):\n%s", diff)
			}
			// The name of a webhook for a single policy does not depend on the value either.
			if first := match.Webhooks(hooks[:1], ownNamespace); name != "RulesTogether" && !slices.ContainsFunc(groups, func(g match.SharedWebhook) bool { return g.Webhook.Name == first[0].Webhook.Name }) {
				t.Errorf("the first policy's webhook is %s alone, and has another name with the others", first[0].Webhook.Name)
			}
		})
	}
}

func BenchmarkWebhooks(b *testing.B) {
	var hooks []match.PolicyWebhook
	for i := range 2000 {
		m, errs := match.New(placementv1.Match{
			ResourceRules:     []placementv1.ResourceRule{rule("apps", "v1", "deployments")},
			NamespaceSelector: selector("team", fmt.Sprint(i)),
		}, field.NewPath("match"))
		if len(errs) > 0 {
			b.Fatal(errs.ToAggregate())
		}
		hooks = append(hooks, match.PolicyWebhook{Policy: fmt.Sprint(i), FailurePolicy: placementv1.FailurePolicyFail, Matcher: m})
	}
	b.ReportAllocs()
	for b.Loop() {
		if groups := match.Webhooks(hooks, ownNamespace); len(groups) != 1 {
			b.Fatalf("%d webhooks", len(groups))
		}
	}
}

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
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

const (
	inEU  = "require: [{field: region, operator: In, values: [eu]}]"
	ofWeb = "when: {objectSelector: {matchLabels: {app: web}}}, "
)

// changed returns a policy with a changed spec.
func changed(p placementv1.PlacementPolicy, changes ...func(*placementv1.PlacementPolicySpec)) placementv1.PlacementPolicy {
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

// withPriority and withClusters change a spec.
func withPriority(n int32) func(*placementv1.PlacementPolicySpec) {
	return func(s *placementv1.PlacementPolicySpec) { s.Priority = n }
}

func withClusters(t *testing.T, text string) func(*placementv1.PlacementPolicySpec) {
	return func(s *placementv1.PlacementPolicySpec) { s.Clusters = decoded[*placementv1.ClustersRule](t, text) }
}

// everywhere has a policy match all namespaces, and ofApps only objects that have the label app.
func everywhere(s *placementv1.PlacementPolicySpec) { s.Match.NamespaceSelector = nil }

func ofApps(s *placementv1.PlacementPolicySpec) {
	s.Match.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
}

// webs returns a Finder with a number of Deployments in the namespace shop of prod that have the label app.
func webs(n int) *Finder {
	return &Finder{
		Catalog: serving{types: []match.ServedType{deployments}}, Namespaces: labelled{"shop": {"env": "prod"}},
		Objects: func(context.Context, schema.GroupVersionResource) (out []*unstructured.Unstructured, err error) {
			for i := range n {
				o := &unstructured.Unstructured{}
				o.SetKind("Deployment")
				o.SetNamespace("shop")
				o.SetName(fmt.Sprintf("web-%d", i))
				o.SetLabels(map[string]string{"app": "web"})
				out = append(out, o)
			}
			return out, nil
		},
	}
}

// TestDevelopersLists checks with which other policies the settings of developers' lists have no effect.
func TestDevelopersLists(t *testing.T) {
	const (
		overrides, clears = "{developerChoice: Override}", "{onEmpty: Clear}"
		choice, empty     = "spec.clusters.developerChoice has no effect: policy b gives clusters", "spec.clusters.onEmpty has no effect: policy b gives clusters"
	)
	dry := func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeDryRun }
	other := func(rule string, changes ...func(*placementv1.PlacementPolicySpec)) placementv1.PlacementPolicy {
		return changed(policyOf(t, "b", rule, "prod"), changes...)
	}
	for name, test := range map[string]struct {
		other     placementv1.PlacementPolicy
		set, rule string
		objects   int
		want      string
	}{
		"Narrow": {other(inEU), overrides, "limit: 2", 0, choice + " to the same objects and has Narrow, and Override counts only if all policies have it that give an " +
			"object clusters. Set Override there, too, or Ignore here, which counts by itself"},
		"Denies": {other(inEU), clears, "limit: 2", 0, empty + " to the same objects and has Deny, and Clear counts only if all policies have it that give an object " +
			"clusters. Set Clear there, too, or remove it here"},
		"PolicyClusters": {other(inEU), "{onEmpty: PolicyClusters}", "limit: 2", 0, empty},
		"Wider":          {other(inEU, everywhere), overrides, ofWeb + "limit: 2", 0, choice},
		"Both":           {other(inEU, withClusters(t, overrides)), overrides, "limit: 2", 0, ""},
		"BothClear":      {other(inEU, withClusters(t, clears)), clears, "limit: 2", 0, ""},
		"Weaker":         {other(inEU, withClusters(t, "{onEmpty: PolicyClusters}")), clears, "limit: 2", 0, ""},
		"Ignores":        {other(inEU), "{developerChoice: Ignore}", "limit: 2", 0, ""},
		"OtherIgnores":   {other(inEU, withClusters(t, "{developerChoice: Ignore}")), overrides, "limit: 2", 0, ""},
		"Defaults":       {other(inEU), "{developerChoice: Narrow, onEmpty: Deny}", "limit: 2", 0, ""},
		"OfSome":         {other(ofWeb + inEU), overrides, "limit: 2", 0, ""},
		"OtherObjects":   {changed(policyOf(t, "b", inEU, "test")), overrides, "limit: 2", 0, ""},
		"NoClusters":     {other("set: {labels: {a: b}}"), overrides, "limit: 2", 0, ""},
		"LeavesToNext":   {other("limit: 1, otherwise: NextRule"), overrides, "limit: 2", 0, ""},
		"DryRun":         {other(inEU, dry), overrides, "limit: 2", 0, ""},

		"AllObjects":     {other(inEU, ofApps), overrides, "limit: 2", 5, choice},
		"FewObjects":     {other(inEU, ofApps), overrides, "limit: 2", 4, ""},
		"RuleOfObjects":  {other(ofWeb + inEU), clears, "limit: 2", 5, empty},
		"OtherRule":      {other("when: {objectSelector: {matchLabels: {app: db}}}, " + inEU), clears, "limit: 2", 5, ""},
		"SomeExpression": {other("when: {expression: has(object.spec)}, " + inEU), clears, "limit: 2", 5, ""},
	} {
		f := webs(test.objects)
		if test.objects == 0 {
			f = &Finder{}
		}
		f.Policies = only(test.other)
		if got := f.findingsOfTogether(t.Context(), "a", changed(policyOf(t, "a", test.rule, "prod"), withClusters(t, test.set)).Spec); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestChoices checks which rules of two policies choose some of the clusters apart from each other.
func TestChoices(t *testing.T) {
	const (
		cheap, premium = "prefer: [{label: tier, operator: In, values: [economy], weight: 9}], limit: 2", "prefer: [{label: tier, operator: In, values: [premium], weight: 9}], limit: 2"
		want           = "spec.rules[0].limit: rule a of policy b chooses clusters for the same objects in another order, and an object gets only clusters that both rules choose"
	)
	other := func(rule string, changes ...func(*placementv1.PlacementPolicySpec)) placementv1.PlacementPolicy {
		return changed(policyOf(t, "b", rule, "prod"), changes...)
	}
	for name, test := range map[string]struct {
		other    placementv1.PlacementPolicy
		rule     string
		objects  int
		clusters sourced
		want     string
	}{
		"Orders":        {other(cheap), premium, 0, nil, want},
		"ByName":        {other("limit: 2"), premium, 0, nil, want},
		"Spread":        {other(cheap), "spread: {field: region, minDomains: 2, maxClusters: 1}", 0, nil, "spec.rules[0].spread: rule a of policy b chooses"},
		"SameOrder":     {other(premium), inEU + ", " + premium, 0, nil, ""},
		"BothByName":    {other("limit: 2"), inEU + ", limit: 1", 0, nil, ""},
		"OneRequires":   {other(inEU), premium, 0, nil, ""},
		"Named":         {other("require: [{field: name, operator: In, values: [eu-1, eu-2]}], limit: 2"), premium, 0, nil, ""},
		"Enough":        {other(cheap), premium, 0, sourced{"x", "x"}, ""},
		"MoreClusters":  {other(cheap), premium, 0, sourced{"x", "x", "x"}, want},
		"OtherObjects":  {policyOf(t, "b", cheap, "test"), premium, 0, nil, ""},
		"OfSome":        {other(ofWeb + cheap), premium, 0, nil, want},
		"Overlap":       {changed(policyOf(t, "b", cheap, "prod"), everywhere, ofApps), premium, 0, nil, ""},
		"PerhapsBoth":   {other(ofWeb + cheap), "when: {objectSelector: {matchLabels: {team: shop}}}, " + premium, 0, nil, ""},
		"ObjectsOfBoth": {other(ofWeb + cheap), "when: {objectSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}, " + premium, 5, nil, want},
		"FewOfBoth":     {other(ofWeb + cheap), "when: {objectSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}, " + premium, 4, nil, ""},
	} {
		f := webs(test.objects)
		if test.objects == 0 {
			f = &Finder{}
		}
		f.Policies = only(test.other)
		if test.clusters != nil {
			f.Clusters = test.clusters
		}
		if got := f.findingsOfTogether(t.Context(), "a", policyOf(t, "a", test.rule, "prod").Spec); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestDelivered checks which fields of spec.delivery a policy of higher priority leaves without effect.
func TestDelivered(t *testing.T) {
	const divided, whole = "{karmada: {}, replicas: {divideBy: Even}}", "{karmada: {}}"
	delivers := func(text string) func(*placementv1.PlacementPolicySpec) {
		return func(s *placementv1.PlacementPolicySpec) { s.Delivery = decoded[*placementv1.Delivery](t, text) }
	}
	other := func(text string, changes ...func(*placementv1.PlacementPolicySpec)) placementv1.PlacementPolicy {
		return changed(policyOf(t, "b", inEU, "prod"), append(changes, delivers(text))...)
	}
	for name, test := range map[string]struct {
		other placementv1.PlacementPolicy
		own   string
		want  string
	}{
		"Higher": {other(whole, withPriority(10)), divided, "spec.delivery.replicas has no effect: policy b delivers the same objects, and its spec.priority is 10 and that of this policy 0, so " +
			"that the other spec.delivery counts. Set the field there, or a higher priority here"},
		"Wider":        {other(whole, withPriority(10), everywhere), divided, "spec.delivery.replicas has no effect"},
		"Surge":        {other(whole, withPriority(10)), "{karmada: {}, surge: {timeout: 5m}}", "spec.delivery.surge has no effect"},
		"Dependencies": {other(whole, withPriority(10)), "{karmada: {propagateDependencies: true}}", "spec.delivery.karmada.propagateDependencies has no effect"},
		"Same":         {other(divided, withPriority(10)), divided, ""},
		"Plain":        {other(divided, withPriority(10)), whole, ""},
		"Lower":        {other(whole, withPriority(-1)), divided, ""},
		"Equal":        {other(whole), divided, ""},
		"Narrower":     {other(whole, withPriority(10), ofApps), divided, ""},
		"OtherSystem":  {other("{kubeFleet: {}}", withPriority(10)), divided, ""},
		"TwoSystems":   {other(whole, withPriority(10)), "{karmada: {}, kubeFleet: {}, surge: {}}", ""},
	} {
		f := &Finder{Policies: only(test.other)}
		if got := f.findingsOfTogether(t.Context(), "a", changed(policyOf(t, "a", inEU, "prod"), delivers(test.own)).Spec); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

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
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

// reads returns the fields at some paths. "*" stands for every member. A path that ends in "**" includes everything
// below it.
func reads(paths ...[]string) *projection.FieldSet {
	out := &projection.FieldSet{}
	for _, path := range paths {
		at := out
		for _, name := range path {
			switch name {
			case "*":
				at = at.AddEach()
			case "**":
				at.AddAll()
			default:
				at = at.AddName(name)
			}
		}
	}
	return out.Seal()
}

func path(names ...string) []string { return names }

// subresourcesOf returns the rules for subresources of a hook, in the form group/version/resource/subresource.
func subresourcesOf(t *testing.T, hook match.PolicyWebhook) []string {
	t.Helper()
	var out []string
	for _, group := range match.Webhooks([]match.PolicyWebhook{hook}, ownNamespace) {
		for _, r := range group.Webhook.Rules {
			if slices.Equal(r.Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Update}) {
				out = append(out, fmt.Sprintf("%s/%s/%s", r.APIGroups[0], r.APIVersions[0], r.Resources[0]))
			}
		}
	}
	return out
}

func TestSubresourceRules(t *testing.T) {
	replicas := reads(path("spec", "replicas"))
	tests := map[string]struct {
		rules     []placementv1.ResourceRule
		condition string
		reads     *projection.FieldSet
		want      []string
	}{
		"Replicas":           {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: replicas, want: []string{"apps/v1/deployments/scale"}},
		"AllOfApps":          {rules: []placementv1.ResourceRule{rule("apps", "v1", "*")}, reads: replicas, want: []string{"apps/v1/deployments/scale", "apps/v1/replicasets/scale", "apps/v1/statefulsets/scale"}},
		"Controllers":        {rules: []placementv1.ResourceRule{rule(",apps", "v1", "replicationcontrollers,daemonsets")}, reads: replicas, want: []string{"/v1/replicationcontrollers/scale"}},
		"Whole":              {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: projection.AllFields(), want: []string{"apps/v1/deployments/scale"}},
		"Unknown":            {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}},
		"WholeSpec":          {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: reads(path("spec", "**")), want: []string{"apps/v1/deployments/scale"}},
		"MembersOfSpec":      {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: reads(path("spec", "*")), want: []string{"apps/v1/deployments/scale"}},
		"Template":           {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: reads(path("spec", "template", "**"))},
		"Status":             {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: reads(path("status", "replicas"))},
		"Metadata":           {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, reads: reads(path("metadata", "**"))},
		"ConditionOnObject":  {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: reads(path("metadata")), condition: "object.spec.replicas > 3", want: []string{"apps/v1/deployments/scale"}},
		"ConditionOnOld":     {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: reads(path("metadata")), condition: "oldObject == null", want: []string{"apps/v1/deployments/scale"}},
		"ConditionOnRequest": {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, reads: reads(path("metadata")), condition: "request.name != 'x'"},
		"Custom":             {rules: []placementv1.ResourceRule{rule("example.com", "v1", "fleets")}, reads: reads(path("spec", "size")), want: []string{"example.com/v1/fleets/scale"}},
		"CustomMetadata":     {rules: []placementv1.ResourceRule{rule("example.com", "v1", "fleets")}, reads: reads(path("metadata", "labels"))},
		"Images":             {rules: []placementv1.ResourceRule{rule("", "v1", "pods")}, reads: reads(path("spec", "containers", "*", "image"), path("spec", "ephemeralContainers", "*", "image")), want: []string{"/v1/pods/ephemeralcontainers"}},
		"ImagesOfContainers": {rules: []placementv1.ResourceRule{rule("", "v1", "pods")}, reads: reads(path("spec", "containers", "*", "image"))},
		"Resources":          {rules: []placementv1.ResourceRule{rule("", "v1", "pods")}, reads: reads(path("spec", "containers", "*", "resources", "**")), want: []string{"/v1/pods/resize"}},
		"FirstContainer":     {rules: []placementv1.ResourceRule{rule("", "v1", "pods")}, reads: reads(path("spec", "containers", "0", "resources")), want: []string{"/v1/pods/resize"}},
		"InitContainers":     {rules: []placementv1.ResourceRule{rule("", "v1", "pods")}, reads: reads(path("spec", "initContainers", "**")), want: []string{"/v1/pods/resize"}},
		"ResourcesOfPod":     {rules: []placementv1.ResourceRule{rule("", "v1", "pods")}, reads: reads(path("spec", "resources", "limits")), want: []string{"/v1/pods/resize"}},
		"EverythingOfAll": {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, reads: projection.AllFields(), want: []string{
			"*/*/*/scale", "/*/pods/ephemeralcontainers", "/*/pods/resize",
		}},
		"EverythingOfCore": {rules: []placementv1.ResourceRule{rule("", "v1", "*")}, reads: projection.AllFields(), want: []string{
			"/v1/pods/ephemeralcontainers", "/v1/pods/resize", "/v1/replicationcontrollers/scale",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := placementv1.Match{ResourceRules: tc.rules, ObjectSelector: selector("a", "b"), NamespaceSelector: selector("c", "d")}
			if tc.condition != "" {
				m.MatchConditions = []admissionregistrationv1.MatchCondition{condition("c", tc.condition)}
			}
			hook := match.PolicyWebhook{Policy: "p", FailurePolicy: placementv1.FailurePolicyFail, Matcher: compile(t, m), Decision: tc.reads}
			got := subresourcesOf(t, hook)
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// changing are the subresources that change objects, with the paths of the changed fields.
var changing = []struct {
	resource    schema.GroupVersionResource
	subresource string
	path        []string
}{
	{deployments, "scale", path("spec", "replicas")},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, "scale", path("spec", "replicas")},
	{schema.GroupVersionResource{Version: "v1", Resource: "replicationcontrollers"}, "scale", path("spec", "replicas")},
	{schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "fleets"}, "scale", path("spec", "size")},
	{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "resize", path("spec", "containers", "*", "resources")},
	{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "ephemeralcontainers", path("spec", "ephemeralContainers")},
}

// TestSubresourcesAskEveryPolicy checks that each policy receives the requests for subresources that change fields it
// reads, whatever labels these requests have and however policies share webhooks. No webhook receives requests for
// other subresources.
func TestSubresourcesAskEveryPolicy(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(11, 12))}
	someReads := func() *projection.FieldSet {
		all := [][]string{
			path("spec", "replicas"), path("spec", "size"), path("spec", "containers", "*", "resources", "**"), path("spec", "ephemeralContainers", "*", "image"),
			path("metadata", "**"), path("status", "**"), path("kind"),
		}
		g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return reads(all[:g.IntN(3)]...)
	}
	asked, spared, rounds := 0, 0, budget.Rounds(600)
	for range rounds {
		var hooks []match.PolicyWebhook
		for i := range 1 + g.IntN(4) {
			spec := placementv1.Match{ObjectSelector: g.selector(), NamespaceSelector: g.selector()}
			for range 1 + g.IntN(2) {
				spec.ResourceRules = append(spec.ResourceRules, placementv1.ResourceRule{
					APIGroups: g.list("", "apps", "example.com"), APIVersions: g.list("v1", "v2"),
					Resources: g.list("deployments", "statefulsets", "pods", "fleets", "replicationcontrollers"),
				})
			}
			m, _ := match.New(spec, field.NewPath("match"))
			hooks = append(hooks, match.PolicyWebhook{Policy: fmt.Sprintf("p%d", i), FailurePolicy: placementv1.FailurePolicyFail, Matcher: m, Decision: someReads()})
		}
		groups := match.Webhooks(hooks, ownNamespace)
		for _, group := range groups {
			if problems := validateWebhook(group.Webhook); len(problems) > 0 {
				t.Fatalf("webhook is not valid: %v", problems)
			}
		}
		for _, c := range changing {
			attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "shop", "web", c.resource, c.subresource, admission.Update, nil, false, nil)
			called := map[string]bool{}
			for _, group := range groups {
				if !slices.ContainsFunc(group.Webhook.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
					return (&rules.Matcher{Rule: r, Attr: attributes}).Matches()
				}) {
					continue
				}
				if len(group.Webhook.ObjectSelector.MatchExpressions) > 0 {
					t.Fatalf("the labels of a Scale decide: %v", group.Webhook.ObjectSelector)
				}
				wanted := false
				for _, name := range group.Policies {
					called[name] = true
					hook := hooks[slices.IndexFunc(hooks, func(h match.PolicyWebhook) bool { return h.Policy == name })]
					changes := hook.Decision.Covers(reads(c.path)) || c.subresource == "scale" && match.MayReadScale(hook.Decision)
					wanted = wanted || changes && hook.Matcher.SelectsResource(c.resource)
				}
				if !wanted {
					t.Fatalf("a webhook of %v is called for %s of %s", group.Policies, c.subresource, c.resource)
				}
			}
			for _, hook := range hooks {
				switch needed := hook.Matcher.SelectsResource(c.resource) && hook.Decision.Covers(reads(c.path)); {
				case needed && !called[hook.Policy]:
					t.Fatalf("policy %s, which reads %v, is not asked about %s of %s", hook.Policy, hook.Decision.Paths(), c.subresource, c.resource)
				case needed:
					asked++
				case !called[hook.Policy]:
					spared++
				}
			}
		}
	}
	if asked < rounds/3 || spared < rounds/3 {
		t.Errorf("%d times asked, %d times spared: the test is too weak", asked, spared)
	}
}

// TestSubresourceWebhooksDependOnTheSetAlone checks that the webhooks for subresources depend only on the set of hooks,
// have unique names, and do not change the webhooks for objects.
func TestSubresourceWebhooksDependOnTheSetAlone(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(13, 14))}
	for range budget.Rounds(60) {
		var hooks, without []match.PolicyWebhook
		for i := range 1 + g.IntN(5) {
			m, _ := match.New(g.match(), field.NewPath("match"))
			hook := match.PolicyWebhook{Policy: fmt.Sprintf("p%d", i), FailurePolicy: placementv1.FailurePolicyFail, Matcher: m}
			without = append(without, hook)
			hook.Decision = reads(path("spec", "replicas"))
			if g.IntN(2) == 0 {
				hook.Decision = projection.AllFields()
			}
			hooks = append(hooks, hook)
		}
		want := match.Webhooks(hooks, ownNamespace)
		names, objects := map[string]bool{}, map[string]bool{}
		for _, group := range want {
			names[group.Webhook.Name] = true
		}
		if len(names) != len(want) {
			t.Fatalf("%d names for %d webhooks", len(names), len(want))
		}
		for _, group := range match.Webhooks(without, ownNamespace) {
			objects[group.Webhook.Name] = true
			if !slices.ContainsFunc(want, func(other match.SharedWebhook) bool { return cmp.Equal(group, other) }) {
				t.Fatalf("webhook %s is another one", group.Webhook.Name)
			}
		}
		policies := map[string]int{}
		for _, group := range want {
			for _, name := range group.Policies {
				if !objects[group.Webhook.Name] {
					policies[name]++
				}
			}
		}
		for name, n := range policies {
			if n > 1 {
				t.Fatalf("policy %s is in %d webhooks for subresources", name, n)
			}
		}
		g.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
		if diff := cmp.Diff(want, match.Webhooks(hooks, ownNamespace)); diff != "" {
			t.Fatalf("another order of the policies renders other webhooks:\n%s", diff)
		}
	}
}

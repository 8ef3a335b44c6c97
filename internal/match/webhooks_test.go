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
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	corelisters "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/test/budget"
)

var update = flag.Bool("update", false, "write the golden files anew")

const ownNamespace = "berth-system"

func userInfo(name string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: name}
}

// validateWebhook validates the names, selectors, and rules of a webhook as the API server does.
func validateWebhook(w admissionregistrationv1.MutatingWebhook) []string {
	var problems []string
	problems = append(problems, utilvalidation.IsDNS1123Subdomain(w.Name)...)
	if strings.Count(w.Name, ".") < 2 {
		problems = append(problems, "a webhook's name has three segments at least: "+w.Name)
	}
	for _, s := range []*metav1.LabelSelector{w.NamespaceSelector, w.ObjectSelector} {
		errs := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, field.NewPath("selector"))
		for _, err := range errs {
			problems = append(problems, err.Error())
		}
	}
	if len(w.MatchConditions) > 64 {
		problems = append(problems, "more than 64 match conditions")
	}
	names := map[string]bool{}
	for _, c := range w.MatchConditions {
		problems = append(problems, utilvalidation.IsQualifiedName(c.Name)...)
		if names[c.Name] {
			problems = append(problems, "match condition twice: "+c.Name)
		}
		names[c.Name] = true
	}
	if len(w.Rules) == 0 {
		problems = append(problems, "no rule")
	}
	for _, r := range w.Rules {
		for _, list := range [][]string{r.APIGroups, r.APIVersions, r.Resources} {
			if len(list) == 0 || (slices.Contains(list, "*") && len(list) > 1) {
				problems = append(problems, fmt.Sprintf("list %q", list))
			}
		}
		if len(r.Operations) == 0 || r.Scope == nil {
			problems = append(problems, "no operations or no scope")
		}
	}
	if w.SideEffects == nil || *w.SideEffects != admissionregistrationv1.SideEffectClassNone || !slices.Contains(w.AdmissionReviewVersions, "v1") {
		problems = append(problems, "sideEffects or admissionReviewVersions")
	}
	return problems
}

// generator generates random matches and objects from small sets of values, so that they often match.
type generator struct{ *rand.Rand }

func (g generator) some(all ...string) []string {
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.Clone(all[:1+g.IntN(2)])
}

func (g generator) list(all ...string) []string {
	if g.IntN(5) == 0 {
		return []string{"*"}
	}
	return g.some(all...)
}

func (g generator) selector() *metav1.LabelSelector {
	switch g.IntN(4) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	}
	out := &metav1.LabelSelector{}
	if g.IntN(2) == 0 {
		out.MatchLabels = map[string]string{g.key(): g.value()}
	}
	switch g.IntN(5) {
	case 0:
		out.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: g.key(), Operator: metav1.LabelSelectorOpIn, Values: g.some("1", "2", "3")}}
	case 1:
		out.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: g.key(), Operator: metav1.LabelSelectorOpNotIn, Values: g.some("1", "2", "3")}}
	case 2:
		out.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: g.key(), Operator: metav1.LabelSelectorOpExists}}
	case 3:
		out.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: g.key(), Operator: metav1.LabelSelectorOpDoesNotExist}}
	}
	return out
}

func (g generator) key() string   { return []string{"a", "b", "example.com/c"}[g.IntN(3)] }
func (g generator) value() string { return []string{"1", "2", "3"}[g.IntN(3)] }

func (g generator) labels() map[string]string {
	out := map[string]string{}
	for range g.IntN(4) {
		out[g.key()] = g.value()
	}
	return out
}

var expressions = []string{
	"true", "false", "has(object.metadata.labels) && 'a' in object.metadata.labels",
	"request.operation == 'CREATE'", "oldObject != null && oldObject.metadata.name == 'web'",
	"object.metadata.labels.a == '1'", "request.resource.group == 'apps'", "request.namespace == 'shop'",
	"request.userInfo.username.startsWith('a')", "object.metadata.labels['b'] == request.name",
}

// Some of these types never match, and some only match by name.
var (
	groups    = []string{"", "apps", "storage.k8s.io"}
	resources = []string{"pods", "deployments", "nodes", "csinodes", "namespaces"}
)

func (g generator) rule() placementv1.ResourceRule {
	return placementv1.ResourceRule{
		APIGroups: g.list(groups...), APIVersions: g.list("v1", "v2"), Resources: g.list(resources...),
	}
}

func (g generator) match() placementv1.Match {
	m := placementv1.Match{NamespaceSelector: g.selector(), ObjectSelector: g.selector()}
	for range 1 + g.IntN(2) {
		m.ResourceRules = append(m.ResourceRules, g.rule())
	}
	for i := range g.IntN(3) {
		m.MatchConditions = append(m.MatchConditions, condition(fmt.Sprintf("c%d", i), expressions[g.IntN(len(expressions))]))
	}
	return m
}

func (g generator) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{
		Group:    groups[g.IntN(len(groups))],
		Version:  []string{"v1", "v2"}[g.IntN(2)],
		Resource: resources[g.IntN(len(resources))],
	}
}

// lister lists one namespace.
type lister struct {
	corelisters.NamespaceLister
	labels map[string]string
}

func (l lister) Get(name string) (*corev1.Namespace, error) {
	if name == "" {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l.labels}}, nil
}

func (l lister) List(labels.Selector) ([]*corev1.Namespace, error) { return nil, nil }

// request is a random request.
type request struct {
	attributes      *admission.VersionedAttributes
	namespaceLabels map[string]string
	object          match.Object
}

func (g generator) request() request {
	resource := g.resource()
	ns := []string{"", "shop", "bank", "kube-system"}[g.IntN(4)]
	obj := newObject(g.labels())
	obj.SetNamespace(ns)
	namespaceLabels := g.labels()
	namespaceLabels[corev1.LabelMetadataName] = ns
	if resource.Resource == "namespaces" {
		// A request for a Namespace has the object's own name as its namespace, and is matched by the object's labels.
		if ns == "" {
			ns = "shop"
		}
		obj.SetName(ns)
		obj.SetNamespace("")
		namespaceLabels[corev1.LabelMetadataName] = ns
		obj.SetLabels(namespaceLabels)
	}
	var old *unstructured.Unstructured
	operation := admission.Create
	if g.IntN(2) == 0 {
		operation = admission.Update
		old = obj.DeepCopy()
		if resource.Resource != "namespaces" {
			old.SetLabels(g.labels())
		}
	}
	kind := obj.GroupVersionKind()
	var oldObject runtime.Object
	if old != nil {
		oldObject = old
	}
	record := admission.NewAttributesRecord(obj, oldObject, kind, ns, obj.GetName(), resource, "", operation, nil, false,
		&user.DefaultInfo{Name: []string{"", "alice", "bob", user.APIServerUser}[g.IntN(4)], Groups: [][]string{nil, {user.AllAuthenticated, user.SystemPrivilegedGroup}}[g.IntN(2)]})
	return request{
		attributes:      &admission.VersionedAttributes{Attributes: record, VersionedObject: obj, VersionedOldObject: oldObject, VersionedKind: kind},
		namespaceLabels: namespaceLabels,
		object: match.Object{
			Resource: resource, Namespace: ns, NamespaceLabels: namespaceLabels, Content: obj, Old: old,
			Request: plugincel.CreateAdmissionRequest(record, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind)),
		},
	}
}

var compiler = plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))

// called reports whether the API server calls a rendered webhook for a request, according to the API server's own code.
func called(ctx context.Context, t *testing.T, accessor webhook.WebhookAccessor, r request) (bool, error) {
	t.Helper()
	ns := namespace.Matcher{NamespaceLister: lister{labels: r.namespaceLabels}}
	if matches, err := ns.MatchNamespaceSelector(accessor, r.attributes); err != nil || !matches {
		if err != nil {
			t.Fatal(err)
		}
		return false, nil
	}
	objects := object.Matcher{}
	if matches, err := objects.MatchObjectSelector(accessor, r.attributes); err != nil || !matches {
		if err != nil {
			t.Fatal(err)
		}
		return false, nil
	}
	if !slices.ContainsFunc(accessor.GetRules(), func(rule admissionregistrationv1.RuleWithOperations) bool {
		return (&rules.Matcher{Rule: rule, Attr: r.attributes}).Matches()
	}) {
		return false, nil
	}
	result := accessor.GetCompiledMatcher(compiler).Match(ctx, r.attributes, nil, nil)
	return result.Matches || result.Error != nil, result.Error
}

// TestMatcherAgreesWithAPIServer checks that the API server calls a policy's webhook for the requests that its Matcher matches and for
// those by which objects leave it. Otherwise requests would be admitted undecided, because either the API server does not call Berth or
// Berth does not match them.
func TestMatcherAgreesWithAPIServer(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	seen, matches := map[string]int{}, budget.Rounds(300)
	for i := range matches {
		spec := g.match()
		// Rules that name types which are never matched are rejected. They must not match in any case.
		m, _ := match.New(spec, field.NewPath("match"))
		rendered := match.Webhooks([]match.PolicyWebhook{{Policy: "p", FailurePolicy: placementv1.FailurePolicyFail, Matcher: m}}, ownNamespace)
		if len(rendered) != 1 {
			t.Fatalf("%d webhooks for one policy", len(rendered))
		}
		if problems := validateWebhook(rendered[0].Webhook); len(problems) > 0 {
			t.Fatalf("webhook is not valid: %v", problems)
		}
		accessor := webhook.NewMutatingWebhookAccessor("uid", "berth", &rendered[0].Webhook)
		for range 25 {
			r := g.request()
			want, wantErr := called(t.Context(), t, accessor, r)
			got, err := m.Matches(t.Context(), r.object)
			if !got {
				got, err = m.Leaves(t.Context(), r.object)
			}
			if got != want || (err != nil) != (wantErr != nil) {
				t.Fatalf("match %d %+v\nobject %+v\nmatches = %t, %v; API server: %t, %v", i, spec, r.object, got, err, want, wantErr)
			}
			seen[fmt.Sprintf("%t %t", got, err != nil)]++
		}
	}
	for _, outcome := range []string{"true false", "false false", "true true"} {
		if seen[outcome] < matches/8 {
			t.Errorf("outcome %q was seen %d times: the test is too weak; %v", outcome, seen[outcome], seen)
		}
	}
}

// TestSharedWebhooksAskEveryPolicy checks that each policy receives exactly the objects that it matches, however
// policies share webhooks. At least one of its webhooks must be called with the object in a version that the policy
// matches. The API server uses the first rule that names the object's own version. It converts the object to another
// version only if there is no such rule.
func TestSharedWebhooksAskEveryPolicy(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(3, 4))}
	versions := []string{"v1", "v2"}
	invoked := func(w admissionregistrationv1.MutatingWebhook, r schema.GroupVersionResource) string {
		candidates := append([]string{r.Version}, versions...)
		for _, version := range candidates {
			for _, rule := range w.Rules {
				attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "shop", "web", r.GroupResource().WithVersion(version), "", admission.Create, nil, false, nil)
				if (&rules.Matcher{Rule: rule, Attr: attributes}).Matches() {
					return version
				}
			}
		}
		return ""
	}
	for range budget.Rounds(500) {
		var hooks []match.PolicyWebhook
		for i := range 1 + g.IntN(4) {
			spec := placementv1.Match{}
			for range 1 + g.IntN(2) {
				spec.ResourceRules = append(spec.ResourceRules, placementv1.ResourceRule{
					APIGroups: g.some("apps", "batch"), APIVersions: g.some("v1", "v2"), Resources: g.some("jobs", "deployments"),
				})
			}
			m, _ := match.New(spec, field.NewPath("match"))
			hooks = append(hooks, match.PolicyWebhook{Policy: fmt.Sprintf("p%d", i), FailurePolicy: placementv1.FailurePolicyFail, Matcher: m})
		}
		together := match.Webhooks(hooks, ownNamespace)
		for _, hook := range hooks {
			alone := match.Webhooks([]match.PolicyWebhook{hook}, ownNamespace)[0].Webhook
			for range 8 {
				r := schema.GroupVersionResource{Group: g.some("apps", "batch")[0], Version: g.some("v1", "v2")[0], Resource: g.some("jobs", "deployments")[0]}
				want := invoked(alone, r)
				if want == "" {
					continue
				}
				i := slices.IndexFunc(together, func(group match.SharedWebhook) bool { return slices.Contains(group.Policies, hook.Policy) })
				if i < 0 {
					t.Fatalf("no webhook stands for policy %s", hook.Policy)
				}
				got := invoked(together[i].Webhook, r)
				if !hook.Matcher.SelectsResource(r.GroupResource().WithVersion(got)) {
					t.Fatalf("a request for %v is sent in version %q, which policy %s does not match (alone: %q); the webhook's policies are %v, its rules %v",
						r, got, hook.Policy, want, together[i].Policies, ruleTexts(together[i].Webhook))
				}
			}
		}
	}
}

// TestWildcardsNeitherReachNorHideNames checks webhooks with wildcards in their rules. The API server must call a
// webhook exactly if one of its policies selects the type in some version. It must send the object in a version in
// which each policy selects it that selects the type at all.
func TestWildcardsNeitherReachNorHideNames(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(9, 10))}
	versions := []string{"v1", "v2"}
	calls, skips, named, rounds := 0, 0, 0, budget.Rounds(75)
	for range rounds {
		var hooks []match.PolicyWebhook
		for i := range 1 + g.IntN(3) {
			spec := placementv1.Match{ResourceRules: []placementv1.ResourceRule{g.rule()}}
			if g.IntN(2) == 0 {
				spec.ResourceRules = append(spec.ResourceRules, rule("storage.k8s.io", g.some(versions...)[0], "csinodes"))
			}
			// Rules that name types which are never matched are rejected. They must not match in any case.
			m, _ := match.New(spec, field.NewPath("match"))
			hooks = append(hooks, match.PolicyWebhook{Policy: fmt.Sprintf("p%d", i), FailurePolicy: placementv1.FailurePolicyFail, Matcher: m})
		}
		for _, group := range match.Webhooks(hooks, ownNamespace) {
			for range 10 {
				r := g.resource()
				sent := sentVersion(t, group.Webhook, r, versions)
				var selecting []string
				for _, hook := range hooks {
					if !slices.Contains(group.Policies, hook.Policy) || !slices.ContainsFunc(versions, func(v string) bool {
						return hook.Matcher.SelectsResource(r.GroupResource().WithVersion(v))
					}) {
						continue
					}
					selecting = append(selecting, hook.Policy)
					if sent != "" && !hook.Matcher.SelectsResource(r.GroupResource().WithVersion(sent)) {
						t.Fatalf("%v is sent in version %q, in which policy %s does not select it; rules %v", r, sent, hook.Policy, ruleTexts(group.Webhook))
					}
				}
				if (sent != "") != (len(selecting) > 0) {
					t.Fatalf("%v is selected by %v and sent in version %q; rules %v, conditions %v", r, selecting, sent, ruleTexts(group.Webhook), group.Webhook.MatchConditions)
				}
				switch {
				case sent == "":
					skips++
				case r.Resource == "csinodes" && r.Group == "storage.k8s.io":
					named++
				default:
					calls++
				}
			}
		}
	}
	if calls < rounds/3 || skips < rounds/3 || named < rounds/15 {
		t.Errorf("%d called, %d not, %d for a bootstrap type: the test is too weak", calls, skips, named)
	}
}

// sentVersion returns the version in which the API server sends an object of the resource, which it can convert to all
// versions. It returns "" if the API server does not call the webhook.
func sentVersion(t *testing.T, w admissionregistrationv1.MutatingWebhook, r schema.GroupVersionResource, versions []string) string {
	t.Helper()
	for _, version := range append([]string{r.Version}, versions...) {
		attributes := admission.NewAttributesRecord(newObject(nil), nil, schema.GroupVersionKind{}, "shop", "web", r.GroupResource().WithVersion(version), "", admission.Create, nil, false,
			&user.DefaultInfo{Name: "alice"})
		if !slices.ContainsFunc(w.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
			return (&rules.Matcher{Rule: rule, Attr: attributes}).Matches()
		}) {
			continue
		}
		versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedObject: newObject(nil)}
		result := webhook.NewMutatingWebhookAccessor("uid", "berth", &w).GetCompiledMatcher(compiler).Match(t.Context(), versioned, nil, nil)
		if result.Error != nil {
			t.Fatal(result.Error)
		}
		if result.Matches {
			return version
		}
		return ""
	}
	return ""
}

func ruleTexts(w admissionregistrationv1.MutatingWebhook) []string {
	var out []string
	for _, r := range w.Rules {
		out = append(out, fmt.Sprint(r.APIGroups, r.APIVersions, r.Resources))
	}
	return out
}

// TestVersionsAreNotMixed checks that two policies that name the same versions, but for different types, do not share a
// webhook. Otherwise the rule of one policy would make the API server send objects in a version that the other policy
// does not match.
func TestVersionsAreNotMixed(t *testing.T) {
	hook := func(name string, rules ...placementv1.ResourceRule) match.PolicyWebhook {
		m, errs := match.New(placementv1.Match{ResourceRules: rules}, field.NewPath("match"))
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		return match.PolicyWebhook{Policy: name, FailurePolicy: placementv1.FailurePolicyFail, Matcher: m}
	}
	tests := map[string]struct {
		hooks []match.PolicyWebhook
		want  [][]string
	}{
		"SameVersion":      {hooks: []match.PolicyWebhook{hook("a", rule("apps", "v1", "deployments")), hook("b", rule("batch", "v1", "jobs"))}, want: [][]string{{"a", "b"}}},
		"OtherVersion":     {hooks: []match.PolicyWebhook{hook("a", rule("apps", "v1", "deployments")), hook("b", rule("apps", "v1beta1", "deployments"))}, want: [][]string{{"a"}, {"b"}}},
		"WildcardIsOther":  {hooks: []match.PolicyWebhook{hook("a", rule("apps", "v1", "deployments")), hook("b", rule("apps", "*", "deployments"))}, want: [][]string{{"a"}, {"b"}}},
		"VersionsAreLists": {hooks: []match.PolicyWebhook{hook("a", rule("apps", "v1,v2", "deployments")), hook("b", rule("apps", "v1", "deployments"))}, want: [][]string{{"a"}, {"b"}}},
		"Crossed": {
			hooks: []match.PolicyWebhook{
				hook("a", rule("apps", "v1", "deployments"), rule("batch", "v2", "jobs")),
				hook("b", rule("batch", "v1", "jobs"), rule("apps", "v2", "deployments")),
			},
			want: [][]string{{"a"}, {"b"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			for _, group := range match.Webhooks(tc.hooks, ownNamespace) {
				got = append(got, group.Policies)
			}
			slices.SortFunc(got, slices.Compare)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("policies by webhook (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWebhooksDependOnTheSetAlone(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(5, 6))}
	for range budget.Rounds(100) {
		var hooks []match.PolicyWebhook
		for i := range g.IntN(6) {
			m, _ := match.New(g.match(), field.NewPath("match"))
			failure := placementv1.FailurePolicyFail
			if g.IntN(2) == 0 {
				failure = placementv1.FailurePolicyIgnore
			}
			hooks = append(hooks, match.PolicyWebhook{Policy: fmt.Sprintf("p%d", i), FailurePolicy: failure, Matcher: m})
		}
		want := match.Webhooks(hooks, ownNamespace)
		names := map[string]bool{}
		policies := map[string]int{}
		for _, group := range want {
			if problems := validateWebhook(group.Webhook); len(problems) > 0 {
				t.Fatalf("webhook is not valid: %v", problems)
			}
			names[group.Webhook.Name] = true
			for _, p := range group.Policies {
				policies[p]++
			}
		}
		if len(names) != len(want) {
			t.Fatalf("%d names for %d webhooks", len(names), len(want))
		}
		for _, hook := range hooks {
			if policies[hook.Policy] != 1 {
				t.Fatalf("policy %s is in %d webhooks", hook.Policy, policies[hook.Policy])
			}
		}
		g.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
		shuffled := slices.Clone(hooks)
		if diff := cmp.Diff(want, match.Webhooks(hooks, ownNamespace)); diff != "" {
			t.Fatalf("another order of the policies renders other webhooks:\n%s", diff)
		}
		for i := range hooks {
			if hooks[i].Policy != shuffled[i].Policy {
				t.Fatal("the caller's slice was changed")
			}
		}
	}
}

func TestWebhooksGolden(t *testing.T) {
	hook := func(name string, failure placementv1.FailurePolicy, m placementv1.Match) match.PolicyWebhook {
		return match.PolicyWebhook{Policy: name, FailurePolicy: failure, Matcher: compile(t, m)}
	}
	eu := selector("jurisdiction", "eu")
	groups := match.Webhooks([]match.PolicyWebhook{
		hook("eu-jobs", placementv1.FailurePolicyFail, placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("batch", "v1", "jobs,cronjobs")}, NamespaceSelector: eu}),
		hook("eu-deployments", placementv1.FailurePolicyFail, placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, NamespaceSelector: eu}),
		hook("eu-again", placementv1.FailurePolicyFail, placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, NamespaceSelector: eu}),
		hook("everything", placementv1.FailurePolicyIgnore, placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("*", "*", "*")}}),
		hook("conditional", placementv1.FailurePolicyFail, placementv1.Match{
			ResourceRules:   []placementv1.ResourceRule{rule(",apps", "v1", "pods,replicasets")},
			ObjectSelector:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{condition("people-only", "!request.userInfo.username.startsWith('system:')")},
		}),
	}, ownNamespace)
	text, err := yaml.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "webhooks.golden.yaml")
	if *update {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("rendered webhooks differ from %s; run the test with -update if that is meant (-want +got):\n%s", path, diff)
	}
}

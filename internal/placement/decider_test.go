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

package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

func matcher(t *testing.T, m placementv1.Match) *match.Matcher {
	t.Helper()
	out, errs := match.New(m, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return out
}

// sets returns an enforced policy that sets one annotation.
func sets(t *testing.T, name string, priority int32, key, value string) *placement.Policy {
	t.Helper()
	return &placement.Policy{
		Name: name, Priority: priority, Matcher: allDeployments(t), Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail,
		Remediation: placementv1.RemediationAutomatic, Evaluator: &fakeEvaluator{clauses: []clause{{field: "annotations", key: key, value: value}}},
	}
}

func decide(t *testing.T, obj, old *unstructured.Unstructured, all ...*placement.Policy) *placement.Outcome {
	t.Helper()
	d := &placement.Decider{Policies: policies(all), Namespaces: namespaces{}, Keyring: keyring(t, "k"), OwnNamespace: "berth-system"}
	out, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: obj, Old: old})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConflicts(t *testing.T) {
	tests := map[string]struct {
		policies []*placement.Policy
		want     string
		// conflicts are by policy name, in the form "key with other", with a "!" if the policy wins.
		conflicts map[string][]string
	}{
		"SameValue":      {policies: []*placement.Policy{sets(t, "a", 0, "k", "1"), sets(t, "b", 0, "k", "1")}, want: "1"},
		"OtherKeys":      {policies: []*placement.Policy{sets(t, "a", 0, "k", "1"), sets(t, "b", 0, "l", "2")}, want: "1"},
		"Name":           {policies: []*placement.Policy{sets(t, "b", 0, "k", "2"), sets(t, "a", 0, "k", "1")}, want: "1", conflicts: map[string][]string{"a": {"k with b!"}, "b": {"k with a"}}},
		"Priority":       {policies: []*placement.Policy{sets(t, "a", 0, "k", "1"), sets(t, "b", 1, "k", "2")}, want: "2", conflicts: map[string][]string{"a": {"k with b"}, "b": {"k with a!"}}},
		"NegativeLoses":  {policies: []*placement.Policy{sets(t, "a", -1, "k", "1"), sets(t, "b", 0, "k", "2")}, want: "2", conflicts: map[string][]string{"a": {"k with b"}, "b": {"k with a!"}}},
		"ThreeOfThem":    {policies: []*placement.Policy{sets(t, "c", 0, "k", "3"), sets(t, "b", 0, "k", "2"), sets(t, "a", 0, "k", "1")}, want: "1", conflicts: map[string][]string{"a": {"k with b!", "k with c!"}, "b": {"k with a"}, "c": {"k with a"}}},
		"ThreeTwoAgree":  {policies: []*placement.Policy{sets(t, "c", 0, "k", "1"), sets(t, "b", 0, "k", "2"), sets(t, "a", 0, "k", "1")}, want: "1", conflicts: map[string][]string{"a": {"k with b!"}, "b": {"k with a"}}},
		"FailedHasNoSay": {policies: []*placement.Policy{{Name: "a", Priority: 9, Matcher: allDeployments(t), Mode: placementv1.ModeEnforce, Evaluator: &fakeEvaluator{err: errFake}}, sets(t, "b", 0, "k", "2")}, want: "2"},
		"WarnHasNoSay": {policies: []*placement.Policy{sets(t, "b", 0, "k", "2"), {
			Name: "a", Priority: 9, Matcher: allDeployments(t), Mode: placementv1.ModeWarn, Evaluator: &fakeEvaluator{clauses: []clause{{field: "annotations", key: "k", value: "1"}}},
		}}, want: "2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				out := decide(t, newObject("web", newMetadata()), nil, tc.policies...)
				if got := out.Object.GetAnnotations()["k"]; got != tc.want {
					t.Errorf("annotation is %q, want %q", got, tc.want)
				}
				got := map[string][]string{}
				for _, v := range out.Verdicts {
					for _, c := range v.Conflicts {
						text := c.Key + " with " + c.With
						if c.Won {
							text += "!"
						}
						got[v.Policy.Name] = append(got[v.Policy.Name], text)
					}
				}
				want := tc.conflicts
				if want == nil {
					want = map[string][]string{}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("conflicts (-want +got):\n%s", diff)
				}
				slices.Reverse(tc.policies)
			}
		})
	}
}

// shared is an evaluator that always returns the same decision.
type shared struct{ placement.Decision }

func (s shared) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	return s.Decision, nil
}
func (shared) Revision() uint64 { return 1 }

func (shared) Input() *projection.FieldSet { return projection.AllFields() }

// TestDecisionsAreShared checks, with the race detector, that nothing changes a decision that concurrent callers share.
func TestDecisionsAreShared(t *testing.T) {
	decision := func() placement.Decision {
		return placement.Decision{
			Annotations: map[string]string{"k": "1", "l": "2"}, Labels: map[string]string{"m": "3"},
			Errors: append(make([]string, 0, 8), "a", "b"), Warnings: append(make([]string, 0, 8), "c"),
		}
	}
	evaluator := shared{decision()}
	var all []*placement.Policy
	for i, mode := range []placementv1.Mode{placementv1.ModeEnforce, placementv1.ModeEnforce, placementv1.ModeWarn, placementv1.ModeDryRun} {
		all = append(all, &placement.Policy{
			Name: fmt.Sprintf("p%d", i), Matcher: allDeployments(t), Mode: mode, FailurePolicy: placementv1.FailurePolicyFail,
			Remediation: placementv1.RemediationAutomatic, Evaluator: evaluator,
		})
	}
	all = append(all, sets(t, "other", 1, "k", "4"))
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 20 {
				object := newObject("web", newMetadata())
				object.SetAnnotations(map[string]string{"k": "developer"})
				first := decide(t, object, nil, all...)
				decide(t, first.Object, object, all...)
			}
		})
	}
	callers.Wait()
	if diff := cmp.Diff(decision(), evaluator.Decision); diff != "" {
		t.Errorf("the decision was changed:\n%s", diff)
	}
}

func TestChangeAction(t *testing.T) {
	tests := map[string]struct {
		change placement.Change
		want   string
	}{
		"Add":     {placement.Change{Field: "labels", Key: "a/b", To: new("x")}, "set label a/b to x"},
		"Replace": {placement.Change{Field: "annotations", Key: "k", From: new("y"), To: new("x")}, "set annotation k to x (was y)"},
		"Remove":  {placement.Change{Field: "annotations", Key: "k", From: new("y")}, "remove annotation k"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.change.Action(); got != tc.want {
				t.Errorf("Action() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestChangeViolation(t *testing.T) {
	tests := map[string]struct {
		change placement.Change
		want   string
	}{
		"Add":     {placement.Change{Field: "labels", Key: "a/b", To: new("x")}, "label a/b is absent, should be x"},
		"Replace": {placement.Change{Field: "annotations", Key: "k", From: new("y"), To: new("x")}, "annotation k is y, should be x"},
		"Remove":  {placement.Change{Field: "annotations", Key: "k", From: new("y")}, "annotation k is y, should be absent"},
		"Empty":   {placement.Change{Field: "labels", Key: "k", From: new("y"), To: new("")}, "label k is y, should be "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.change.Violation(); got != tc.want {
				t.Errorf("Violation() = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRecordFollowsTheObject checks that a record survives what the API server does to an object between two decisions.
func TestRecordFollowsTheObject(t *testing.T) {
	p := sets(t, "p", 0, "k", "policy")
	silent := &placement.Policy{Name: "p", Matcher: p.Matcher, Mode: placementv1.ModeEnforce, Evaluator: &fakeEvaluator{}}
	tests := map[string]struct {
		create func(*unstructured.Unstructured)
		stored func(*unstructured.Unstructured)
		// replaced changes the object that a client sends to replace the stored one; nil for no request.
		replaced func(*unstructured.Unstructured)
		want     string
	}{
		"Untouched": {want: "mine"},
		"NameGenerated": {
			create: func(o *unstructured.Unstructured) { o.SetName(""); o.SetGenerateName("web-") },
			stored: func(o *unstructured.Unstructured) { o.SetName("web-x1") }, want: "mine",
		},
		"VersionConverted": {stored: func(o *unstructured.Unstructured) { o.SetAPIVersion("apps/v2") }, want: "mine"},
		"FieldsDefaulted":  {stored: func(o *unstructured.Unstructured) { o.SetUID("u"); o.SetResourceVersion("7") }, want: "mine"},
		"OtherName":        {stored: func(o *unstructured.Unstructured) { o.SetName("other") }, want: "policy"},
		"OtherKind":        {stored: func(o *unstructured.Unstructured) { o.SetKind("ReplicaSet") }, want: "policy"},
		"OtherGroup":       {stored: func(o *unstructured.Unstructured) { o.SetAPIVersion("extensions/v1") }, want: "policy"},
		"RecordRemoved":    {replaced: func(o *unstructured.Unstructured) { setRecord(o, "") }, want: "mine"},
		"GenerateNameDropped": {
			// A manifest without generateName replaces an object that was created with one.
			create:   func(o *unstructured.Unstructured) { o.SetName(""); o.SetGenerateName("web-") },
			stored:   func(o *unstructured.Unstructured) { o.SetName("web-x1") },
			replaced: func(o *unstructured.Unstructured) { o.SetGenerateName("") }, want: "mine",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := newObject("web", metadata{"annotations": {"k": "mine"}})
			if tc.create != nil {
				tc.create(obj)
			}
			stored := decide(t, obj, nil, p).Object
			if stored.GetAnnotations()["k"] != "policy" {
				t.Fatal("the policy sets nothing")
			}
			if tc.stored != nil {
				tc.stored(stored)
			}
			if tc.replaced != nil {
				next := stored.DeepCopy()
				tc.replaced(next)
				stored = decide(t, next, stored, p).Object
			}
			if got := decide(t, stored, stored, silent).Object.GetAnnotations()["k"]; got != tc.want {
				t.Errorf("when the policy lets go, the annotation is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRecordOfAnotherNamespace checks that a record is not valid in another namespace.
func TestRecordOfAnotherNamespace(t *testing.T) {
	p := sets(t, "p", 0, "k", "policy")
	stored := decide(t, newObject("web", metadata{"annotations": {"k": "mine"}}), nil, p).Object
	d := &placement.Decider{Policies: policies{{Name: "p", Matcher: p.Matcher, Mode: placementv1.ModeEnforce, Evaluator: &fakeEvaluator{}}}, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
	out, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "other", Object: stored})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Object.GetAnnotations()["k"]; got != "policy" {
		t.Errorf("annotation is %q", got)
	}
	if recordOf(out.Object) != "" {
		t.Error("the foreign record stays")
	}
}

// namespaceLabels are the labels of the only namespace.
type namespaceLabels map[string]string

func (n namespaceLabels) Labels(_ context.Context, name string) (map[string]string, error) {
	if name != "shop" {
		return nil, fmt.Errorf("no namespace %s", name)
	}
	return n, nil
}

func TestDecideMatches(t *testing.T) {
	all := []placementv1.ResourceRule{{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}
	p := &placement.Policy{Name: "p", Mode: placementv1.ModeEnforce, Evaluator: &fakeEvaluator{clauses: []clause{{field: "labels", key: "k", value: "v"}}},
		Matcher: matcher(t, placementv1.Match{ResourceRules: all, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}})}
	v1 := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	labelled := func(name string, labels map[string]string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(name)
		o.SetLabels(labels)
		return o
	}
	tests := map[string]struct {
		resource  schema.GroupVersionResource
		namespace string
		object    *unstructured.Unstructured
		want      bool
		wantErr   string
	}{
		"Labelled":             {resource: v1("pods"), namespace: "shop", object: labelled("a", nil), want: true},
		"NamespaceUnknown":     {resource: v1("pods"), namespace: "nowhere", object: labelled("a", nil), wantErr: "reading labels of namespace nowhere"},
		"OwnNamespace":         {resource: v1("pods"), namespace: "berth-system", object: labelled("a", nil)},
		"System":               {resource: v1("pods"), namespace: "kube-system", object: labelled("a", nil), wantErr: "reading labels of namespace kube-system"},
		"ClusterScoped":        {resource: v1("persistentvolumes"), object: labelled("a", nil), want: true},
		"Node":                 {resource: v1("nodes"), object: labelled("a", nil)},
		"NamespaceByItsLabels": {resource: v1("namespaces"), namespace: "new", object: labelled("new", map[string]string{"team": "shop"}), want: true},
		"NamespaceUnlabelled":  {resource: v1("namespaces"), namespace: "new", object: labelled("new", nil)},
		"NamespaceNoRequest":   {resource: v1("namespaces"), object: labelled("new", map[string]string{"team": "shop"}), want: true},
		"OwnNamespaceItself":   {resource: v1("namespaces"), object: labelled("berth-system", map[string]string{"team": "shop"})},
		"SystemItself":         {resource: v1("namespaces"), object: labelled("kube-system", map[string]string{"team": "shop"})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := &placement.Decider{Policies: policies{p}, Namespaces: namespaceLabels{"team": "shop"}, Keyring: keyring(t, "k"), OwnNamespace: "berth-system"}
			out, err := d.Decide(t.Context(), placement.Request{Resource: tc.resource, Namespace: tc.namespace, Object: tc.object})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Object != nil; got != tc.want {
				t.Errorf("decided = %t, want %t", got, tc.want)
			}
		})
	}
}

// TestRecordOfANamespace checks that the record of a Namespace is the same whether or not the request has a namespace.
// The API server's request has one.
func TestRecordOfANamespace(t *testing.T) {
	all := []placementv1.ResourceRule{{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}
	m := matcher(t, placementv1.Match{ResourceRules: all})
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	ns.SetName("shop")
	ns.SetLabels(map[string]string{"k": "mine"})
	resource := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	ask := func(e placement.Evaluator, namespace string, obj *unstructured.Unstructured) *unstructured.Unstructured {
		d := &placement.Decider{Policies: policies{{Name: "p", Mode: placementv1.ModeEnforce, Matcher: m, Evaluator: e}}, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
		out, err := d.Decide(t.Context(), placement.Request{Resource: resource, Namespace: namespace, Object: obj, Old: obj})
		if err != nil {
			t.Fatal(err)
		}
		return out.Object
	}
	stored := ask(&fakeEvaluator{clauses: []clause{{field: "labels", key: "k", value: "v"}}}, "shop", ns)
	if got := ask(&fakeEvaluator{}, "", stored).GetLabels()["k"]; got != "mine" {
		t.Errorf("label is %q", got)
	}
}

func TestInputHasNoManagedFields(t *testing.T) {
	obj := newObject("web", newMetadata())
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	var seen map[string]any
	d := &placement.Decider{Policies: policies{sets(t, "p", 0, "k", "v")}, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
	_, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: obj,
		Evaluate: func(_ context.Context, _ *placement.Policy, input map[string]any) (placement.Decision, error) {
			seen = input
			return placement.Decision{}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := seen["metadata"].(map[string]any)["managedFields"]; ok {
		t.Error("policies see managed fields")
	}
	if len(obj.GetManagedFields()) != 1 {
		t.Error("the object lost its managed fields")
	}
}

func TestKeyring(t *testing.T) {
	if _, err := placement.NewKeyring(make([]byte, placement.KeySize-1)); err == nil {
		t.Error("a short key is taken")
	}
	d := &placement.Decider{Policies: policies{sets(t, "p", 0, "k", "v")}, Namespaces: namespaces{}, Keyring: &placement.Keyring{}}
	if _, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: newObject("web", newMetadata())}); err == nil {
		t.Error("a record is written without a key")
	}
}

func TestRegistry(t *testing.T) {
	r := placement.NewRegistry()
	var told []string
	name := func(p *placement.Policy) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprintf("%s%d", p.Name, p.Generation)
	}
	names := func(policies []*placement.Policy) string {
		texts := make([]string, len(policies))
		for i, p := range policies {
			texts[i] = name(p)
		}
		if len(texts) == 0 {
			return "-"
		}
		return strings.Join(texts, "+")
	}
	r.Subscribe(func(change placement.PolicyChange) {
		told = append(told, fmt.Sprintf("%s %s %s", change.Name, names(change.Before), names(change.After)))
	})
	before := r.InForce()
	r.Set("b", &placement.PolicyState{Policy: &placement.Policy{Name: "b", Generation: 1}})
	r.Set("a", &placement.PolicyState{Policy: &placement.Policy{Name: "a", Generation: 1}, Err: errors.New("x")})
	existing := &placement.PolicyState{Policy: &placement.Policy{Name: "b", Generation: 2}}
	r.Set("b", existing)
	var inForce []string
	for _, p := range r.InForce() {
		inForce = append(inForce, name(p))
	}
	if diff := cmp.Diff([]string{"a1", "b2"}, inForce); diff != "" {
		t.Errorf("in force (-want +got):\n%s", diff)
	}
	if r.Get("b") != existing || r.Get("c") != nil || len(before) != 0 {
		t.Errorf("standings of b and c are %v, %v; before the first, %v were in force", r.Get("b"), r.Get("c"), before)
	}
	var all []string
	for policy, s := range r.All() {
		all = append(all, policy+" "+name(s.Policy))
	}
	if diff := cmp.Diff([]string{"a a1", "b b2"}, all); diff != "" {
		t.Errorf("standings (-want +got):\n%s", diff)
	}
	r.Remove("a")
	if diff := cmp.Diff([]string{"b - b1", "a - a1", "b b1 b2", "a a1 -"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestStagedVersions checks that the registry has both versions of a policy that comes into force in stages, and that an object is
// decided by exactly one of them.
func TestStagedVersions(t *testing.T) {
	version := func(name, value string, within func(string, map[string]string) bool) *placement.Policy {
		p := sets(t, name, 0, "k", value)
		p.Matcher = p.Matcher.Within(within)
		return p
	}
	canary := func(namespace string, _ map[string]string) bool { return namespace == "canary" }
	other := func(namespace string, l map[string]string) bool { return !canary(namespace, l) }
	next, before := version("p", "new", canary), version("p", "old", other)
	r := placement.NewRegistry()
	d := &placement.Decider{Policies: r, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
	expect := func(what string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, namespace := range []string{"canary", "default"} {
			out, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: namespace, Object: newObject("web", newMetadata())})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range out.Verdicts {
				got[namespace] += v.Decision.Annotations["k"]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for _, name := range []string{"a", "z"} {
		r.Set(name, &placement.PolicyState{Policy: version(name, name, func(string, map[string]string) bool { return false })})
	}
	whole := sets(t, "p", 0, "k", "old")
	r.Set("p", &placement.PolicyState{Policy: whole})
	expect("before", map[string]string{"canary": "old", "default": "old"})
	state := &placement.PolicyState{Policy: next, Staged: &placement.StagedVersions{Before: before}}
	r.Set("p", state)
	expect("in the first stage", map[string]string{"canary": "new", "default": "old"})
	if all := r.InForce(); len(all) != 4 || all[1] != next || all[2] != before {
		t.Errorf("in force: %v", all)
	}
	if !state.Decides(next) || !state.Decides(before) || state.Decides(whole) {
		t.Error("not the versions that decide")
	}
	r.Set("p", &placement.PolicyState{Policy: sets(t, "p", 0, "k", "new")})
	expect("complete", map[string]string{"canary": "new", "default": "new"})
	r.Set("p", &placement.PolicyState{Policy: next, Staged: &placement.StagedVersions{}})
	expect("a policy without a version before", map[string]string{"canary": "new"})
	r.Remove("p")
	expect("removed", map[string]string{})
	if all := r.InForce(); len(all) != 2 {
		t.Errorf("in force: %v", all)
	}
}

// TestPausedPolicyKeepsPlacement checks that an update keeps what a policy set while its remediation is paused. New
// objects are still placed, and remediation still reports changes.
func TestPausedPolicyKeepsPlacement(t *testing.T) {
	d := &placement.Decider{Policies: policies{sets(t, "p", 0, "k", "1")}, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
	place := func(obj, old *unstructured.Unstructured) *placement.Outcome {
		t.Helper()
		out, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: obj, Old: old})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	stands := place(newObject("web", newMetadata()), nil).Object
	d.Policies = policies{sets(t, "p", 0, "k", "2"), sets(t, "q", 0, "l", "2")}
	d.Paused = func(policy, namespace string) bool { return policy == "p" && namespace == "default" }
	updated := place(stands.DeepCopy(), stands).Object
	if got := updated.GetAnnotations(); got["k"] != "1" || got["l"] != "2" {
		t.Errorf("an update sets %v", got)
	}
	if got := place(newObject("new", newMetadata()), nil).Object.GetAnnotations()["k"]; got != "2" {
		t.Errorf("a new object gets %q", got)
	}
	if got := place(stands, stands).Object.GetAnnotations()["k"]; got != "2" {
		t.Errorf("remediation decides %q", got)
	}
	patched, err := d.Remediate(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: stands.DeepCopy(), Old: stands}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := patched.Object.GetAnnotations()["k"]; got != "2" {
		t.Errorf("a patch of remediation sets %q", got)
	}
}

// TestPatchesOfPlansThatNeedAnApproval checks that a patch of remediation makes the changes of a policy with mode Approved
// only if they are permitted, and that an update by another client keeps its placement as with mode Manual.
func TestPatchesOfPlansThatNeedAnApproval(t *testing.T) {
	approved := func(name, key, value string) *placement.Policy {
		p := sets(t, name, 0, key, value)
		p.Remediation = placementv1.RemediationApproved
		return p
	}
	d := &placement.Decider{Policies: policies{approved("p", "k", "1"), approved("q", "l", "1"), sets(t, "r", 0, "m", "1")}, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
	decide := func(old *unstructured.Unstructured, remediates bool, permits func([]*placement.Verdict) bool) *placement.Outcome {
		t.Helper()
		obj := newObject("web", newMetadata())
		if old != nil {
			obj = old.DeepCopy()
		}
		request := placement.Request{Resource: deployments, Namespace: "default", Object: obj, Old: old}
		out, err := d.Decide(t.Context(), request)
		if remediates {
			out, err = d.Remediate(t.Context(), request, permits)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	annotations := func(out *placement.Outcome) string {
		got := out.Object.GetAnnotations()
		return got["k"] + got["l"] + got["m"]
	}
	stands := decide(nil, false, nil).Object
	d.Policies = policies{approved("p", "k", "2"), approved("q", "l", "2"), sets(t, "r", 0, "m", "2")}
	by := func(answer bool) func([]*placement.Verdict) bool {
		return func(verdicts []*placement.Verdict) bool {
			for _, v := range verdicts {
				if len(v.Changes) != 1 || *v.Changes[0].From != "1" || *v.Changes[0].To != "2" {
					t.Errorf("permission is asked for the changes %v of %s", v.Changes, v.Policy.Name)
				}
			}
			return answer
		}
	}
	for name, tc := range map[string]struct {
		remediates bool
		permits    func([]*placement.Verdict) bool
		want       string
	}{
		"Update":       {false, nil, "112"},
		"NoPermits":    {true, nil, "112"},
		"NotPermitted": {true, by(false), "112"},
		"Permitted":    {true, by(true), "222"},
	} {
		t.Run(name, func(t *testing.T) {
			out := decide(stands, tc.remediates, tc.permits)
			if got := annotations(out); got != tc.want {
				t.Errorf("annotations %s, want %s", got, tc.want)
			}
			for _, v := range out.Verdicts {
				if len(v.Changes) != 1 {
					t.Errorf("policy %s: changes %v", v.Policy.Name, v.Changes)
				}
			}
		})
	}
	d.Policies = policies{approved("p", "k", "2")}
	d.Policies.(policies)[0].Mode = placementv1.ModeWarn
	if got := annotations(decide(stands, true, func([]*placement.Verdict) bool { return true })); got != "111" {
		t.Errorf("a policy that only warns sets %s", got)
	}
}

// decides is an evaluator that always decides the same.
type decides struct {
	placement.Evaluator
	decision placement.Decision
}

func (d decides) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	return d.decision, nil
}

// TestApprovedClusters checks that what the leader plans for a policy with mode Approved is what a permitted patch makes, and
// that nothing else is made, also if other policies allow other clusters.
func TestApprovedClusters(t *testing.T) {
	allows := func(name string, mode placementv1.RemediationMode, clusters ...string) *placement.Policy {
		p := sets(t, name, 0, name, "x")
		p.Remediation = mode
		p.Evaluator = decides{p.Evaluator, placement.Decision{Clusters: clusters}}
		return p
	}
	for name, tc := range map[string]struct {
		before, after []*placement.Policy
		// held and released are the clusters without and with a permit.
		held, released string
	}{
		"BesideManual": {
			[]*placement.Policy{allows("m", placementv1.RemediationManual, "a", "b"), allows("p", placementv1.RemediationApproved, "a", "b")},
			[]*placement.Policy{allows("m", placementv1.RemediationManual, "x", "y"), allows("p", placementv1.RemediationApproved, "x", "a")},
			`["a","b"]`, `["a"]`,
		},
		"BesideAutomatic": {
			[]*placement.Policy{allows("p", placementv1.RemediationApproved, "a"), allows("q", placementv1.RemediationAutomatic, "a")},
			[]*placement.Policy{allows("p", placementv1.RemediationApproved, "b"), allows("q", placementv1.RemediationAutomatic, "b")},
			`["a"]`, `["b"]`,
		},
		"BesideApproved": {
			[]*placement.Policy{allows("p", placementv1.RemediationApproved, "a"), allows("q", placementv1.RemediationApproved, "a")},
			[]*placement.Policy{allows("p", placementv1.RemediationApproved, "b"), allows("q", placementv1.RemediationApproved, "b")},
			`["a"]`, `["b"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &placement.Decider{Policies: policies(tc.before), Namespaces: namespaces{}, Keyring: keyring(t, "k")}
			must := func(out *placement.Outcome, err error) *placement.Outcome {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			request := placement.Request{Resource: deployments, Namespace: "default", Object: newObject("web", newMetadata())}
			stands := must(d.Decide(t.Context(), request)).Object
			request.Object, request.Old = stands, stands
			d.Policies = policies(tc.after)
			planned := map[string][]placement.Change{}
			for _, v := range must(d.Assess(t.Context(), request)).Verdicts {
				if v.Released == nil || len(v.Released.Decision.Errors) > 0 {
					t.Fatalf("policy %s: released %+v", v.Policy.Name, v.Released)
				}
				planned[v.Policy.Name] = v.Released.Changes
			}
			patched := func(permits func([]*placement.Verdict) bool) string {
				return must(d.Remediate(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: stands.DeepCopy(), Old: stands}, permits)).Object.GetAnnotations()[placementv1.ClustersAnnotation]
			}
			if got := patched(nil); got != tc.held {
				t.Errorf("clusters without a permit: %s, want %s", got, tc.held)
			}
			if got := patched(func([]*placement.Verdict) bool { return false }); got != tc.held {
				t.Errorf("clusters with other permits: %s, want %s", got, tc.held)
			}
			got := patched(func(verdicts []*placement.Verdict) bool {
				return !slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return !cmp.Equal(planned[v.Policy.Name], v.Changes) })
			})
			if got != tc.released {
				t.Errorf("clusters with permits: %s, want %s", got, tc.released)
			}
			for _, c := range planned["p"] {
				if *c.To != got {
					t.Errorf("planned %s, and patched %s", *c.To, got)
				}
			}
		})
	}
}

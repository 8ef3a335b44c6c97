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
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/window"
)

// zoned returns a policy that sets annotation zone for objects with the label app: web, and reads nothing else.
func zoned(t *testing.T, mode placementv1.RemediationMode, zone string) *placement.Policy {
	t.Helper()
	reads := &projection.FieldSet{}
	reads.AddName("metadata").AddName("labels").AddName("app")
	return &placement.Policy{
		Name: "p", Matcher: allDeployments(t), Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail, Remediation: mode,
		Evaluator: &fakeEvaluator{reads: reads.Seal(), clauses: []clause{
			{ifField: "labels", ifKey: "app", ifValue: "web", field: "annotations", key: "zone", value: zone},
			{ifField: "labels", ifKey: "app", ifValue: "db", field: "annotations", key: "zone", value: zone + "-db"},
		}},
	}
}

func annotate(key, value string) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) {
		annotations := obj.GetAnnotations()
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
		obj.SetAnnotations(annotations)
	}
}

func label(key, value string) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) {
		labels := maps.Clone(obj.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		obj.SetLabels(labels)
	}
}

// TestUpdatesThatKeepThePlacement checks which updates keep what a policy set before, and which have it decided again.
func TestUpdatesThatKeepThePlacement(t *testing.T) {
	const manual, newOnly = placementv1.RemediationManual, placementv1.RemediationNewOnly
	tests := map[string]struct {
		mode   placementv1.RemediationMode
		asked  string
		update func(*unstructured.Unstructured)
		budget placementv1.RemediationBudget
		window bool
		want   string
		// wish is the annotation's value after the policy no longer sets it.
		wish string
	}{
		"Automatic":                  {mode: placementv1.RemediationAutomatic, update: annotate("note", "x"), want: "v2"},
		"Window":                     {mode: placementv1.RemediationAutomatic, window: true, update: annotate("note", "x"), want: "v1"},
		"WindowOtherLabel":           {mode: placementv1.RemediationAutomatic, window: true, update: label("tier", "gold"), want: "v1"},
		"WindowReads":                {mode: placementv1.RemediationAutomatic, window: true, update: label("app", "db"), want: "v2-db"},
		"WindowWrites":               {mode: placementv1.RemediationAutomatic, window: true, update: annotate("zone", "mine"), want: "v2", wish: "mine"},
		"Pace":                       {mode: placementv1.RemediationAutomatic, budget: placementv1.RemediationBudget{MaxPerMinute: 1}, update: annotate("note", "x"), want: "v1"},
		"AtOnce":                     {mode: placementv1.RemediationAutomatic, budget: placementv1.RemediationBudget{MaxConcurrent: 1}, update: annotate("note", "x"), want: "v1"},
		"PerNamespace":               {mode: placementv1.RemediationAutomatic, budget: placementv1.RemediationBudget{PerNamespace: 1}, update: annotate("note", "x"), want: "v1"},
		"Group":                      {mode: placementv1.RemediationAutomatic, budget: placementv1.RemediationBudget{Group: "g"}, update: annotate("note", "x"), want: "v1"},
		"Unbounded":                  {mode: placementv1.RemediationAutomatic, update: annotate("note", "x"), want: "v2"},
		"OffWindow":                  {mode: placementv1.RemediationOff, window: true, update: annotate("note", "x"), want: "v2"},
		"Off":                        {mode: placementv1.RemediationOff, update: annotate("note", "x"), want: "v2"},
		"Manual":                     {mode: manual, update: annotate("note", "x"), want: "v1"},
		"ManualOtherLabel":           {mode: manual, update: label("tier", "gold"), want: "v1"},
		"ManualReads":                {mode: manual, update: label("app", "db"), want: "v2-db"},
		"ManualWrites":               {mode: manual, update: annotate("zone", "mine"), want: "v2", wish: "mine"},
		"ManualWritesTheOldWish":     {mode: manual, asked: "wish", update: annotate("zone", "wish"), want: "v1", wish: "wish"},
		"ManualRemoves":              {mode: manual, update: annotate("zone", ""), want: "v1"},
		"ManualRemovesTheWish":       {mode: manual, asked: "wish", update: annotate("zone", ""), want: "v2"},
		"ManualWishIsTheValue":       {mode: manual, asked: "v1", update: annotate("note", "x"), want: "v1", wish: "v1"},
		"ManualChangesWhatWasWished": {mode: manual, asked: "v1", update: annotate("zone", "v0"), want: "v2", wish: "v0"},
		"NewOnly":                    {mode: newOnly, update: annotate("note", "x"), want: "v1"},
		"NewOnlyReads":               {mode: newOnly, update: label("app", "db"), want: "v1"},
		"NewOnlyWrites":              {mode: newOnly, update: annotate("zone", "mine"), want: "v2", wish: "mine"},
		"NewOnlyWritesTheOldWish":    {mode: newOnly, asked: "wish", update: annotate("zone", "wish"), want: "v1", wish: "wish"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			asked := newObject("web", metadata{"labels": {"app": "web"}, "annotations": {"other": "y"}})
			if tc.asked != "" {
				annotate("zone", tc.asked)(asked)
			}
			stored := decide(t, asked, nil, zoned(t, tc.mode, "v1")).Object
			next := stored.DeepCopy()
			tc.update(next)
			p := zoned(t, tc.mode, "v2")
			if p.Budget = tc.budget; tc.window {
				p.Windows = window.ParseAll([]placementv1.RemediationWindow{{Start: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}}})
			}
			out := decide(t, next, stored, p).Object
			if got := out.GetAnnotations()["zone"]; got != tc.want {
				t.Errorf("zone %q, want %q", got, tc.want)
			}
			// The requested value must be recorded in either case.
			silent := zoned(t, placementv1.RemediationAutomatic, "")
			silent.Evaluator = &fakeEvaluator{}
			if got := decide(t, out, out, silent).Object.GetAnnotations()["zone"]; got != tc.wish {
				t.Errorf("wish %q, want %q", got, tc.wish)
			}
		})
	}
}

// TestRecordsThatAreReplayed checks that sending an earlier record with its value does not restore an earlier
// placement.
func TestRecordsThatAreReplayed(t *testing.T) {
	p := func(zone string) *placement.Policy { return zoned(t, placementv1.RemediationManual, zone) }
	first := decide(t, newObject("web", metadata{"labels": {"app": "web"}}), nil, p("v1")).Object
	moved := first.DeepCopy()
	label("app", "db")(moved)
	label("app", "web")(moved)
	annotate("zone", "mine")(moved)
	second := decide(t, moved, first, p("v2")).Object
	replayed := second.DeepCopy()
	replayed.SetAnnotations(first.GetAnnotations())
	if got := decide(t, replayed, second, p("v2")).Object.GetAnnotations()["zone"]; got != "v2" {
		t.Errorf("zone %q", got)
	}
}

// TestObjectsThatBeginToMatch checks that an object counts as new to a policy when it begins to match.
func TestObjectsThatBeginToMatch(t *testing.T) {
	for _, mode := range []placementv1.RemediationMode{placementv1.RemediationManual, placementv1.RemediationNewOnly} {
		p := zoned(t, mode, "v1")
		p.Matcher = matcher(t, placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{{
				APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"placed": "yes"}},
		})
		before := newObject("web", metadata{"labels": {"app": "web"}})
		after := before.DeepCopy()
		label("placed", "yes")(after)
		if got := decide(t, after, before, p).Object.GetAnnotations()["zone"]; got != "v1" {
			t.Errorf("%s: zone %q", mode, got)
		}
	}
}

// TestDenialsOfUpdatesThatKeepThePlacement checks that a policy that denies an object also denies updates that leave it as it is,
// unless its remediation mode is NewOnly.
func TestDenialsOfUpdatesThatKeepThePlacement(t *testing.T) {
	before := newObject("web", metadata{"annotations": {"other": "y"}})
	after := before.DeepCopy()
	annotate("note", "x")(after)
	for mode, want := range map[placementv1.RemediationMode]int{placementv1.RemediationManual: 1, placementv1.RemediationNewOnly: 0} {
		p := zoned(t, mode, "v1")
		p.Evaluator.(*fakeEvaluator).errors = []string{"no"}
		if got := decide(t, after, before, p).Verdicts[0].Decision.Errors; len(got) != want {
			t.Errorf("%s: errors %q", mode, got)
		}
		if got := decide(t, after, nil, p).Verdicts[0].Decision.Errors; len(got) != 1 {
			t.Errorf("%s: errors of a new object: %q", mode, got)
		}
	}
}

// byTier denies objects with the tier gold, can't decide those with the tier odd, and gives those with the tier pci other clusters.
type byTier struct {
	*fakeEvaluator
	clusters, pci []string
	evaluations   *int
}

func (e byTier) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	*e.evaluations++
	switch (&unstructured.Unstructured{Object: input}).GetLabels()["tier"] {
	case "gold":
		return placement.Decision{Errors: []string{"gold is not allowed"}}, nil
	case "odd":
		return placement.Decision{}, errFake
	case "pci":
		return placement.Decision{Clusters: e.pci}, nil
	}
	return placement.Decision{Clusters: e.clusters, Warnings: []string{"take care"}}, nil
}

// TestNewOnlyDeniesWhatUpdatesBringAbout verifies that a policy with mode NewOnly denies an update that makes an object one that it
// denies. It leaves an object alone that it denied before. It evaluates the object before the update only if it denies the new one.
func TestNewOnlyDeniesWhatUpdatesBringAbout(t *testing.T) {
	all, eu, us, none := []string{"eu", "us"}, []string{"eu"}, []string{"us"}, []string{}
	tests := map[string]struct {
		// before and after are values of the label tier; asked is the developer's list of clusters.
		before, after, asked string
		clusters, pci        []string
		change               func(*placement.Policy)
		denied               bool
		evaluations          int
	}{
		"NeitherIsDenied":          {before: "tin", after: "iron", evaluations: 1},
		"UpdateIsDenied":           {before: "tin", after: "gold", denied: true, evaluations: 2},
		"BothAreDenied":            {before: "gold", after: "gold", evaluations: 2},
		"OldIsDenied":              {before: "gold", after: "tin", evaluations: 1},
		"OldIsUndecided":           {before: "odd", after: "gold", denied: true, evaluations: 2},
		"UpdateIsUndecided":        {before: "tin", after: "odd", denied: true, evaluations: 1},
		"NoClusterIsLeft":          {before: "tin", after: "pci", clusters: all, pci: none, denied: true, evaluations: 2},
		"NoClusterWasLeft":         {before: "pci", after: "pci", pci: none, evaluations: 2},
		"NoWantedClusterIsLeft":    {before: "tin", after: "pci", asked: `["eu"]`, clusters: all, pci: us, denied: true, evaluations: 2},
		"NoWantedClusterWasLeft":   {before: "tin", after: "pci", asked: `["eu"]`, clusters: us, pci: us, evaluations: 2},
		"OtherClusters":            {before: "tin", after: "pci", clusters: eu, pci: us, evaluations: 1},
		"NoClusterIsLeftNorDenied": {before: "tin", after: "pci", clusters: all, pci: none, change: clears, evaluations: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			evaluations := 0
			p := zoned(t, placementv1.RemediationNewOnly, "")
			p.Evaluator = byTier{&fakeEvaluator{}, tc.clusters, tc.pci, &evaluations}
			if tc.change != nil {
				tc.change(p)
			}
			old := newObject("web", metadata{"labels": {"tier": tc.before}, "annotations": {"other": "y"}})
			if tc.asked != "" {
				annotate(clustersKey, tc.asked)(old)
			}
			next := old.DeepCopy()
			label("tier", tc.after)(next)
			annotate("note", "x")(next)
			out := decide(t, next, old, p)
			if refused(out) != tc.denied {
				t.Errorf("denied = %t: %v", refused(out), summary(out))
			}
			if evaluations != tc.evaluations {
				t.Errorf("%d evaluations, want %d", evaluations, tc.evaluations)
			}
			if refused(decide(t, next, nil, p)) != (tc.denied || tc.evaluations == 2) {
				t.Error("a new object has another verdict")
			}
		})
	}
}

// TestModesDenyAlike verifies that in each remediation mode, and whatever the other policies are, a policy denies an update that
// makes an object one that it denies. In the modes Warn and DryRun, the verdict says so.
func TestModesDenyAlike(t *testing.T) {
	const other = placementv1.RemediationAutomatic
	for _, remediation := range []placementv1.RemediationMode{
		placementv1.RemediationAutomatic, placementv1.RemediationApproved, placementv1.RemediationManual, placementv1.RemediationNewOnly, placementv1.RemediationOff,
	} {
		for _, mode := range []placementv1.Mode{placementv1.ModeEnforce, placementv1.ModeWarn, placementv1.ModeDryRun} {
			evaluations := 0
			p := zoned(t, remediation, "")
			p.Mode, p.Evaluator = mode, byTier{&fakeEvaluator{}, nil, nil, &evaluations}
			tolerant := zoned(t, other, "v1")
			tolerant.Name = "tolerant"
			old := decide(t, newObject("web", metadata{"labels": {"app": "web", "tier": "tin"}, "annotations": {"other": "y"}}), nil, p, tolerant).Object
			next := old.DeepCopy()
			label("tier", "gold")(next)
			for _, all := range [][]*placement.Policy{{p}, {p, tolerant}} {
				out := decide(t, next, old, all...)
				if got := out.Verdicts[0].Decision.Errors; len(got) != 1 || refused(out) != (mode == placementv1.ModeEnforce) {
					t.Errorf("%s, %s, %d policies: errors %q", remediation, mode, len(all), got)
				}
			}
		}
	}
}

// TestDenialsOfNewObjects checks that remediation knows which policies leave an existing object alone and would deny a new one.
func TestDenialsOfNewObjects(t *testing.T) {
	existing := newObject("web", metadata{"annotations": {"other": "y"}})
	for mode, want := range map[placementv1.RemediationMode]bool{placementv1.RemediationAutomatic: false, placementv1.RemediationManual: false, placementv1.RemediationNewOnly: true} {
		p := zoned(t, mode, "v1")
		p.Evaluator.(*fakeEvaluator).errors = []string{"no"}
		d := &placement.Decider{Policies: policies{p}, Namespaces: namespaces{}, Keyring: keyring(t, "k"), OwnNamespace: "berth-system"}
		out, err := d.Assess(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: existing, Old: existing})
		if err != nil {
			t.Fatal(err)
		}
		if v := out.Verdicts[0]; v.DeniesNew != want || len(v.Decision.Errors) > 0 == want {
			t.Errorf("%s: denies new objects: %t, errors %q", mode, v.DeniesNew, v.Decision.Errors)
		}
	}
}

// TestWarningsOfUpdatesThatKeepThePlacement checks that a policy in mode Warn reports nothing for an update that would
// keep the placement.
func TestWarningsOfUpdatesThatKeepThePlacement(t *testing.T) {
	before := newObject("web", metadata{"labels": {"app": "web"}, "annotations": {"other": "y"}})
	after := before.DeepCopy()
	annotate("note", "x")(after)
	p := zoned(t, placementv1.RemediationManual, "v1")
	p.Mode = placementv1.ModeWarn
	if c := decide(t, after, before, p).Verdicts[0].Changes; len(c) > 0 {
		t.Errorf("changes %v", c)
	}
	if c := decide(t, after, nil, p).Verdicts[0].Changes; len(c) != 1 {
		t.Errorf("changes of a new object: %v", c)
	}
}

// TestClustersOfUpdatesThatKeepThePlacement checks that the clusters of a held policy count as before, and that other
// policies narrow them.
func TestClustersOfUpdatesThatKeepThePlacement(t *testing.T) {
	part := func(name string, mode placementv1.RemediationMode, names ...string) *placement.Policy {
		p := allows(t, name, names)
		p.Remediation, p.Evaluator = mode, &fakeEvaluator{clusters: names, reads: (&projection.FieldSet{}).Seal()}
		return p
	}
	const held, automatic = placementv1.RemediationManual, placementv1.RemediationAutomatic
	stored := decide(t, asking(`["ap","eu","us"]`), nil, part("a", held, "eu", "us"), part("b", automatic, "ap", "eu", "us")).Object
	next := stored.DeepCopy()
	annotate("note", "x")(next)
	if got := decide(t, next, stored, part("a", held, "ap"), part("b", automatic, "ap", "us")).Object.GetAnnotations()[clustersKey]; got != `["us"]` {
		t.Errorf("an update that leaves the list alone: %q", got)
	}
	// Applying the manifest again changes nothing. Another list is decided.
	annotate(clustersKey, `["ap","eu","us"]`)(next)
	if got := decide(t, next, stored, part("a", held, "ap"), part("b", automatic, "ap", "eu", "us")).Object.GetAnnotations()[clustersKey]; got != `["eu","us"]` {
		t.Errorf("the same manifest: %q", got)
	}
	annotate(clustersKey, `["ap","eu"]`)(next)
	if got := decide(t, next, stored, part("a", held, "ap"), part("b", automatic, "ap", "eu", "us")).Object.GetAnnotations()[clustersKey]; got != `["ap"]` {
		t.Errorf("another list: %q", got)
	}
}

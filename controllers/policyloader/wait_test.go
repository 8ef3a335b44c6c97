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

package policyloader

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// TestUpdatesWaitForData checks that a version that reads more waits for its data, for a limited time, and that the
// earlier version decides meanwhile.
func TestUpdatesWaitForData(t *testing.T) {
	for name, then := range map[string]func(c *Controller, settled *bool){
		"it comes":      func(_ *Controller, settled *bool) { *settled = true },
		"it stays away": func(*Controller, *bool) { <-time.After(maxWait) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := policiesOf(1, text)
				c, registry := newController(t, from)
				load(t, c, "policy-0")
				first := registry.Get("policy-0")
				settled := false
				c.Settled = func(b *policy.Binding) bool { return b == first.Binding || settled }

				update := func() {
					from.policies["policy-0"].Generation++
					from.policies["policy-0"].Spec.Rego = text(1) + `
labels.zones := concat("", [z | z := data.clusters[_].labels.zone])
`
				}
				update()
				load(t, c, "policy-0")
				held := registry.Get("policy-0")
				if held.Policy != first.Policy || held.Generation != 1 || held.Next == nil {
					t.Fatalf("in force is generation %d, observed %d, awaited %v", held.Policy.Generation, held.Generation, held.Next)
				}
				<-time.After(maxWait / 2)
				// A newer version does not restart the wait.
				update()
				load(t, c, "policy-0")
				waits := registry.Get("policy-0")
				load(t, c, "policy-0")
				if again := registry.Get("policy-0"); again != waits || again.Policy != first.Policy {
					t.Error("who waits is told of again")
				}
				then(c, &settled)
				load(t, c, "policy-0")
				if got := registry.Get("policy-0"); got.Policy.Generation != 3 || got.Generation != 3 || got.Next != nil || c.entryOf("policy-0").waits() {
					t.Errorf("in force is generation %d, observed %d, awaited %v", got.Policy.Generation, got.Generation, got.Next)
				}
			})
		})
	}
}

// TestWaitIsChecked checks how often the data are checked for which a version waits: less often, the longer it waits.
func TestWaitIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := policiesOf(1, text)
		c, registry := newController(t, from)
		loadAll(t, c, from)
		first, checks := registry.Get("policy-0"), 0
		c.Settled = func(b *policy.Binding) bool { return b == first.Binding }
		from.change("policy-0", "policy-0", text(1)+`
labels.zones := concat("", [z | z := data.clusters[_].labels.zone])
`)
		began, again := time.Now(), dataInterval
		for ; again > 0; checks++ {
			result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "policy-0"}})
			if err != nil || checks == 0 && result.RequeueAfter != dataInterval {
				t.Fatalf("got %+v, %v", result, err)
			}
			again = result.RequeueAfter
			<-time.After(again)
		}
		if took := time.Since(began); checks > 100 || took < maxWait || took > maxWait*11/10 || registry.Get("policy-0").Policy == first.Policy {
			t.Errorf("%d checks in %s", checks, took)
		}
	})
}

// TestKeepsDataBeforeItCounts checks that the registry has what a new version reads before the version counts on complete data, and that
// the version does not wait if the data is complete then.
func TestKeepsDataBeforeItCounts(t *testing.T) {
	from := policiesOf(1, text)
	c, registry := newController(t, from)
	load(t, c, "policy-0")
	c.Settled = func(b *policy.Binding) bool {
		return slices.ContainsFunc(registry.Get("policy-0").Bindings(), func(of *policy.Binding) bool { return of.Covers(b) })
	}
	changes := 0
	registry.Subscribe(func(placement.PolicyChange) { changes++ })
	for i, tc := range []struct {
		rego string
		// changes is the number of changes of the registry.
		changes int
	}{
		{`
labels.zones := concat("", [z | z := data.clusters[_].labels.zone])
`, 2},
		{`
labels.zones := concat("-", [z | z := data.clusters[_].labels.zone])
`, 1},
		{`
labels.zones := "none"
`, 1},
	} {
		from.policies["policy-0"].Generation, from.policies["policy-0"].Spec.Rego = int64(i+2), text(1)+tc.rego
		changes = 0
		load(t, c, "policy-0")
		if got := registry.Get("policy-0"); got.Policy.Generation != int64(i+2) || got.Next != nil || c.entryOf("policy-0").waits() || changes != tc.changes {
			t.Errorf("in force is generation %d, awaited %v, after %d changes; want generation %d after %d", got.Policy.Generation, got.Next, changes, i+2, tc.changes)
		}
	}
}

// TestUpdatesOfWhatFailsDoNotWait checks that a version that can't decide neither waits nor delays its successor, so
// that a correction takes effect immediately.
func TestUpdatesOfWhatFailsDoNotWait(t *testing.T) {
	from := policiesOf(1, text)
	c, registry := newController(t, from)
	c.Settled = func(*policy.Binding) bool { return false }
	load(t, c, "policy-0")
	from.policies["policy-0"].Generation, from.policies["policy-0"].Spec.Rego = 2, text(1)
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy.Generation != 2 || got.Next != nil {
		t.Errorf("in force is generation %d", got.Policy.Generation)
	}
}

// TestAnotherPolicyOfTheSameName checks that a policy that was deleted and created again is a new policy, even if the
// replica did not see the deletion.
func TestAnotherPolicyOfTheSameName(t *testing.T) {
	from := policiesOf(1, text)
	c, registry := newController(t, from)
	c.Settled = func(*policy.Binding) bool { return true }
	load(t, c, "policy-0")
	first := registry.Get("policy-0")
	from.policies["policy-0"].UID, from.policies["policy-0"].Spec.Rego = "another", text(1)
	load(t, c, "policy-0")
	if registry.Get("policy-0").Policy == first.Policy {
		t.Error("the policy that was deleted stays in force")
	}
	// No version of the earlier policies decides in place of one that does not compile.
	from.policies["policy-0"].UID, from.policies["policy-0"].Spec.Rego = "a third", `package p
labels := x`
	from.policies["policy-0"].Generation++
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); !got.Broken {
		t.Errorf("in force is generation %d of another policy", got.Policy.Generation)
	}
}

// elsewhere is a remote engine that has the modules of the given digests.
type elsewhere struct {
	held map[string]bool
}

func (elsewhere) Check(*policy.Module) error { return nil }

func (elsewhere) Prepare(_ context.Context, _ string, m *policy.Module, _ *policy.Binding) (placement.Evaluator, error) {
	return placement.NewFailing(errors.New(m.Remote.ModulesDigest)), nil
}

func (e elsewhere) settled(b *policy.Binding) bool { return e.held[b.Remote.ModulesDigest] }

// TestUpdatesWaitForModules checks that a version with other modules waits until its remote engine has them, and that
// the earlier version decides meanwhile.
func TestUpdatesWaitForModules(t *testing.T) {
	from := policiesOf(1, text)
	spec := &from.policies["policy-0"].Spec
	spec.Rego = ""
	spec.Remote = &placementv1.Remote{URL: "https://opa.example/v1/data/p", Modules: []placementv1.RemoteModule{{Name: "main", Rego: "package p"}}}
	c, registry := newController(t, from)
	e := elsewhere{held: map[string]bool{}}
	c.Engine, c.Settled = e, e.settled
	load(t, c, "policy-0")
	first := registry.Get("policy-0")
	// No earlier version decides, so this one does not wait. Its evaluator reports what the engine lacks.
	if first.Policy.Generation != 1 || first.Next != nil {
		t.Fatalf("in force is generation %d, awaited %v", first.Policy.Generation, first.Next)
	}
	e.held[first.Binding.Remote.ModulesDigest] = true

	spec.Remote.Modules[0].Rego = `package p

errors contains "no"`
	from.policies["policy-0"].Generation++
	load(t, c, "policy-0")
	waits := registry.Get("policy-0")
	if waits.Policy != first.Policy || waits.Next == nil || waits.Next[0].Remote.ModulesDigest == first.Binding.Remote.ModulesDigest {
		t.Fatalf("in force is generation %d, awaited %+v", waits.Policy.Generation, waits.Next)
	}
	// While the leader replaces modules, the engine has neither.
	e.held[first.Binding.Remote.ModulesDigest] = false
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy != first.Policy || !got.Waits() {
		t.Errorf("in force is generation %d, awaited %+v", got.Policy.Generation, got.Next)
	}
	// An edit meanwhile takes effect at once, since neither version can decide.
	edited := *from.policies["policy-0"].DeepCopy()
	spec.FailurePolicy = placementv1.FailurePolicyIgnore
	from.policies["policy-0"].Generation++
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy.Generation != 3 {
		t.Errorf("in force is generation %d, want the edit", got.Policy.Generation)
	}
	*from.policies["policy-0"] = edited
	registry.Set("policy-0", waits)
	e.held[waits.Next[0].Remote.ModulesDigest] = true
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy.Generation != 2 || got.Next != nil || got.Binding.Remote.ModulesDigest != waits.Next[0].Remote.ModulesDigest {
		t.Errorf("in force is generation %d, awaited %v", got.Policy.Generation, got.Next)
	}
}

// recorder is an engine whose evaluators record which ones they take over from.
type recorder struct{ noEngine }

func (recorder) Prepare(context.Context, string, *policy.Module, *policy.Binding) (placement.Evaluator, error) {
	return &recorded{}, nil
}

type recorded struct {
	placement.Evaluator
	from []placement.Evaluator
}

func (r *recorded) TakeOver(_ context.Context, earlier placement.Evaluator) {
	r.from = append(r.from, earlier)
}

// TestVersionsTakeOver checks that a version takes over from the version before.
func TestVersionsTakeOver(t *testing.T) {
	from := policiesOf(1, text)
	c, registry := newController(t, from)
	c.Engine = recorder{}
	var before []placement.Evaluator
	for generation := range int64(3) {
		p := from.policies["policy-0"]
		p.Generation, p.Spec.Priority = generation+1, int32(generation)
		load(t, c, "policy-0")
		got := registry.Get("policy-0").Policy.Evaluator.(*recorded)
		if diff := cmp.Diff(before, got.from, cmp.Comparer(func(a, b placement.Evaluator) bool { return a == b })); diff != "" {
			t.Errorf("generation %d takes over from others: %s", generation+1, diff)
		}
		before = []placement.Evaluator{got}
	}
}

// TestAnotherPolicyDoesNotWait checks that a policy that was deleted and created again does not wait for data of the earlier one, and that
// its own first wait is not shorter.
func TestAnotherPolicyDoesNotWait(t *testing.T) {
	from := policiesOf(1, text)
	c, registry := newController(t, from)
	load(t, c, "policy-0")
	first := registry.Get("policy-0")
	c.Settled = func(b *policy.Binding) bool { return b == first.Binding }
	from.change("policy-0", "policy-0", text(1)+`
labels.zones := concat("", [z | z := data.clusters[_].labels.zone])
`)
	load(t, c, "policy-0")
	if !c.entryOf("policy-0").waits() {
		t.Fatal("the new version does not wait")
	}
	from.policies["policy-0"].UID = "another"
	load(t, c, "policy-0")
	if c.entryOf("policy-0").waits() || registry.Get("policy-0").Next != nil {
		t.Error("another policy waits")
	}
}

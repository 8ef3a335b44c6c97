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

package remediation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/growth"
)

// fleet is a ledger with a policy p, whose objects are decided in assessments of all of them.
type fleet struct {
	t *testing.T
	*remediation.Ledger
	scheduler  *remediation.Scheduler
	now        time.Time
	bound      placementv1.BlastRadius
	generation int64
	// version is the resource version of the objects.
	version string
}

func newFleet(t *testing.T) *fleet {
	l := remediation.NewLedger()
	return &fleet{
		t: t, Ledger: l, scheduler: remediation.NewScheduler(remediation.Limits{}, l, func(string) bool { return false }),
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), generation: 3, version: "1",
	}
}

func object(i int) remediation.Key { return key("deployments", "shop", fmt.Sprintf("o-%03d", i)) }

// state sets the policy's verdict on an object.
type state func(v *placement.Verdict)

func fine(*placement.Verdict)     {}
func refuse(v *placement.Verdict) { v.Decision.Errors = []string{"no"} }
func fail(v *placement.Verdict)   { v.Err = errors.New("no data") }
func empty(v *placement.Verdict)  { v.Decision.Clusters = []string{} }

// moves is a verdict with other clusters.
func moves(v *placement.Verdict) {
	v.Changes = []placement.Change{{Field: "annotations", Key: placementv1.ClustersAnnotation, From: new(`["a"]`), To: new(`["b"]`)}}
}

// clear is a verdict that removes all clusters from an object that has some.
func clear(v *placement.Verdict) {
	empty(v)
	v.Changes = []placement.Change{{Field: "annotations", Key: placementv1.ClustersAnnotation, From: new(`["a"]`), To: new(`[]`)}}
}

// judged is the result of ConcludeAssessments, and the objects that may be patched then.
type judged struct {
	remediation.AssessmentResult
	free []remediation.Key
}

// conclude calls ConcludeAssessments, and has the scheduler look again.
func (f *fleet) conclude() (out judged) {
	if out.AssessmentResult = f.ConcludeAssessments(f.now); out.Freed {
		f.scheduler.Reconsider()
	}
	out.free = f.scheduler.Schedule(f.now).Keys
	return out
}

// release releases a change, and returns the objects that may be patched then.
func (f *fleet) release(change string) (free []remediation.Key, ok bool) {
	if ok = f.Release(f.now, "p", change); ok {
		f.scheduler.Reconsider()
	}
	return f.scheduler.Schedule(f.now).Keys, ok
}

// held reports whether an object waits. It is patched otherwise.
func (f *fleet) held(key remediation.Key) bool {
	due := dueFor(&placement.Policy{Name: "p"})
	ok, _ := f.scheduler.Ask(f.now, key, nil, due, remediation.Carrier{})
	if ok {
		f.scheduler.Done(f.now, key, due, remediation.Patch{})
	}
	return !ok
}

func (f *fleet) record(i int, s state) { f.recordAt(object(i), s) }

func (f *fleet) recordAt(key remediation.Key, s state) {
	v := verdict("p")
	v.Policy.Mode, v.Policy.Remediation = placementv1.ModeEnforce, placementv1.RemediationAutomatic
	v.Policy.BlastRadius, v.Policy.Generation = f.bound, f.generation
	s(v)
	f.Record(key, "u", f.version, []*placement.Verdict{v}, false)
}

// change has total objects decided again in one assessment. An object in states gets its own state. Of the others, the
// first n get state s, and the rest is fine.
func (f *fleet) change(total int, states map[int]state, s state, n int) judged {
	f.t.Helper()
	a := f.Assess(f.now, remediation.Cause{}, "p")
	for i := range total {
		a.Add(object(i))
	}
	a.Complete()
	for i := range total {
		if !f.held(object(i)) {
			f.t.Fatalf("object %d may be patched while %d objects are undecided", i, total-i)
		}
		switch own, ok := states[i]; {
		case ok:
			f.record(i, own)
		case i < n:
			f.record(i, s)
		default:
			f.record(i, fine)
		}
	}
	return f.judge()
}

// judge calls ConcludeAssessments, and patches the objects that are free afterwards.
func (f *fleet) judge() judged {
	f.t.Helper()
	got := f.conclude()
	f.patch(got.free)
	return got
}

// patch decides objects again whose patch was held.
func (f *fleet) patch(free []remediation.Key) {
	f.t.Helper()
	for _, key := range free {
		if f.held(key) {
			f.t.Fatalf("%s is free and held", key)
		}
	}
}

// settle declares that all objects have been decided.
func (f *fleet) settle() judged {
	f.t.Helper()
	if !f.Settle("p", true, false) {
		f.t.Fatal("an assessment is not concluded")
	}
	return f.conclude()
}

func (f *fleet) pause() *remediation.Pause { return f.Report("p").Pause }

func TestBlastRadius(t *testing.T) {
	tests := map[string]struct {
		bound  placementv1.BlastRadius
		total  int
		state  state
		n      int
		paused bool
	}{
		"Nothing":            {total: 40, state: fine},
		"TooFewObjects":      {total: 20, state: empty, n: 9},
		"TooSmallShare":      {total: 100, state: empty, n: 10},
		"Emptied":            {total: 99, state: empty, n: 10, paused: true},
		"Denied":             {total: 40, state: refuse, n: 40, paused: true},
		"Undecided":          {total: 40, state: fail, n: 40, paused: true},
		"Off":                {bound: placementv1.BlastRadius{Percent: 100}, total: 40, state: empty, n: 40},
		"Raised":             {bound: placementv1.BlastRadius{Percent: 50}, total: 40, state: empty, n: 20},
		"AboveRaised":        {bound: placementv1.BlastRadius{Percent: 50}, total: 40, state: empty, n: 21, paused: true},
		"SmallPoliciesToo":   {bound: placementv1.BlastRadius{MinObjects: 1}, total: 3, state: empty, n: 1, paused: true},
		"AllOfFewerThanThat": {total: 9, state: empty, n: 9},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.bound = test.bound
			if got := f.change(test.total, nil, fine, 0); len(got.free) != test.total || len(got.Paused) > 0 {
				t.Fatalf("first: %d objects free, paused %v", len(got.free), got.Paused)
			}
			got := f.change(test.total, nil, test.state, test.n)
			if paused := f.pause() != nil; paused != test.paused || paused != (len(got.Paused) > 0) || paused == (len(got.free) > 0) {
				t.Errorf("paused %t, %d objects free, want paused %t", paused, len(got.free), test.paused)
			}
			if held := f.held(object(0)); held != test.paused {
				t.Errorf("patches are held: %t", held)
			}
		})
	}
}

// TestBlastRadiusCountsWhatWasPlaced checks that a new policy is not paused because of objects that it denies, but
// because of objects that it leaves without clusters. A policy is not paused because of objects that were denied before
// either.
func TestBlastRadiusCountsWhatWasPlaced(t *testing.T) {
	for name, test := range map[string]struct {
		first, then state
		paused      [2]bool
	}{
		"NewPolicyDenies":  {refuse, refuse, [2]bool{false, false}},
		"NewPolicyEmpties": {clear, clear, [2]bool{true, true}},
		"DeniedThenEmpty":  {refuse, empty, [2]bool{false, false}},
		"Recovered":        {refuse, fine, [2]bool{false, false}},
		"Broken":           {fine, refuse, [2]bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.change(20, nil, test.first, 20)
			first := f.pause() != nil
			f.change(20, nil, test.then, 20)
			if got := [2]bool{first, f.pause() != nil}; got != test.paused {
				t.Errorf("paused %v, want %v", got, test.paused)
			}
		})
	}
}

func TestBlastRadiusHealsAndIsReleased(t *testing.T) {
	f := newFleet(t)
	f.change(40, nil, fine, 0)
	f.change(40, nil, empty, 40)
	p := f.pause()
	if p == nil {
		t.Fatal("not paused")
	}
	want := &remediation.Pause{Change: p.Change, Scope: containment.Scope{"shop"}, Emptied: 40, Matched: 40, Percent: 10,
		Examples: []string{"deployments.apps shop/o-000", "deployments.apps shop/o-001", "deployments.apps shop/o-002"}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("pause (-want +got):\n%s", diff)
	}
	for _, text := range []string{"so Berth moves no object of this policy in namespace shop.", "40 of the 40", "40 left without clusters", "shop/o-000", "kubectl annotate plpol p --overwrite placement.berth.dev/release-blast-radius=" + p.Change} {
		if !strings.Contains(p.Message("p", true), text) {
			t.Errorf("message %q lacks %q", p.Message("p", true), text)
		}
		if named := strings.Contains(text, "shop/"); strings.Contains(p.Message("p", false), text) == named {
			t.Errorf("note %q: %q", p.Message("p", false), text)
		}
	}

	// Reverting the change heals the objects one by one.
	for i := range 40 {
		f.record(i, fine)
	}
	if got := f.judge(); len(got.free) != 40 || len(got.Resumed) != 1 || f.pause() != nil {
		t.Errorf("after healing %d objects are free, resumed %v, pause %v", len(got.free), got.Resumed, f.pause())
	}

	// Making the same change again counts as a new change.
	f.now = f.now.Add(time.Minute)
	f.change(40, nil, empty, 40)
	again := f.pause()
	if again == nil || again.Change == p.Change {
		t.Fatalf("pause %+v after %+v", again, p)
	}
	if _, ok := f.release(p.Change); ok {
		t.Error("released by the earlier change's identity")
	}
	if free, ok := f.release(again.Change); !ok || len(free) != 40 || f.held(object(0)) {
		t.Errorf("release: %t, %d objects free", ok, len(free))
	}
	for i := range 40 {
		f.record(i, empty)
	}
	if got := f.conclude(); len(got.Paused) > 0 || f.pause() != nil {
		t.Errorf("what was released paused the policy again: %v", got.Paused)
	}

	// The release does not extend to the next change.
	f.now = f.now.Add(time.Minute)
	f.change(40, nil, fine, 0)
	f.now = f.now.Add(time.Minute)
	f.change(40, nil, refuse, 40)
	if f.pause() == nil {
		t.Error("the release let the next change through")
	}
	f.generation, f.bound = 4, placementv1.BlastRadius{Percent: 100}
	if got := f.change(40, nil, refuse, 40); len(got.free) != 40 || f.pause() != nil {
		t.Error("a raised bound does not release the change")
	}
}

// TestBlastRadiusAddsUp checks that clusters deleted one after the other count as one change, but not those deleted
// long before.
func TestBlastRadiusAddsUp(t *testing.T) {
	f := newFleet(t)
	f.change(100, nil, fine, 0)
	for n := 2; n <= 10; n += 2 {
		f.now = f.now.Add(time.Second)
		f.change(100, nil, empty, n)
		if f.pause() != nil {
			t.Fatalf("paused at %d of 100", n)
		}
	}
	f.change(100, nil, empty, 12)
	if p := f.pause(); p == nil || p.Emptied != 12 {
		t.Errorf("pause %+v", p)
	}
	slow := newFleet(t)
	slow.change(100, nil, fine, 0)
	for n := 2; n <= 40; n += 2 {
		slow.now = slow.now.Add(2 * time.Minute)
		slow.change(100, nil, empty, n)
	}
	if p := slow.pause(); p != nil {
		t.Errorf("paused by changes that are far apart: %+v", p)
	}
}

// TestBlastRadiusOutlivesTheLeader checks that a new leader continues a pause of an earlier leader, which it cannot
// derive from the objects if they are denied.
func TestBlastRadiusOutlivesTheLeader(t *testing.T) {
	f := newFleet(t)
	f.change(40, nil, refuse, 5)
	f.change(40, nil, refuse, 40)
	p := f.pause()
	if p == nil || p.Denied != 35 || p.Before != 5 {
		t.Fatalf("pause %+v", p)
	}
	next := newFleet(t)
	next.Resume("p", p.Change, p.Before, p.Scope)
	next.change(40, nil, refuse, 40)
	if got := next.pause(); got == nil || got.Change != p.Change {
		t.Fatalf("pause of the next leader %+v", got)
	}
	next.settle()
	for i := 5; i < 40; i++ {
		next.record(i, fine)
	}
	if got := next.conclude(); next.pause() != nil || len(got.free) != 40 {
		t.Errorf("healed: pause %+v, %d objects free", next.pause(), len(got.free))
	}
}

// TestPauseOfAnEarlierLeaderStaysUntilAllIsDecided checks that the pause of an earlier leader ends only when all
// objects are decided.
func TestPauseOfAnEarlierLeaderStaysUntilAllIsDecided(t *testing.T) {
	f := newFleet(t)
	f.Resume("p", "3-earlier", 0, nil)
	// The policy is loaded before any object is decided.
	f.change(0, nil, fine, 0)
	expect := func(when string) {
		t.Helper()
		if p := f.pause(); p == nil || p.Change != "3-earlier" || !f.held(object(0)) {
			t.Fatalf("%s: pause %+v", when, p)
		}
	}
	expect("before any object is loaded")
	// The objects of one type are decided, and none of them is harmed.
	f.change(20, nil, fine, 0)
	expect("after the first type")
	a := f.Assess(f.now, remediation.Cause{}, "p")
	for i := 20; i < 60; i++ {
		a.Add(object(i))
	}
	a.Complete()
	if f.Settle("p", true, false) {
		t.Error("settled while objects are undecided")
	}
	for i := 20; i < 60; i++ {
		f.record(i, refuse)
	}
	f.ConcludeAssessments(f.now)
	expect("after the second type")
	if got := f.settle(); len(got.Resumed) > 0 {
		t.Errorf("resumed %v", got.Resumed)
	}
	expect("after all objects")
	if p := f.pause(); p.Denied != 40 || p.Matched != 60 {
		t.Errorf("pause %+v", p)
	}
	for i := 20; i < 60; i++ {
		f.record(i, fine)
	}
	if got := f.conclude(); len(got.Resumed) != 1 || f.pause() != nil {
		t.Errorf("healed: %+v", f.pause())
	}

	healed := newFleet(t)
	healed.Resume("p", "3-earlier", 0, nil)
	healed.change(40, nil, fine, 0)
	if got := healed.settle(); len(got.Resumed) != 1 || len(got.free) != 40 || healed.pause() != nil {
		t.Errorf("healed while there was no leader: %+v, %d objects free", healed.pause(), len(got.free))
	}
}

// TestReleaseOfAnEarlierLeadersPause checks that a release covers all objects of the change, including those that the
// new leader has not decided yet.
func TestReleaseOfAnEarlierLeadersPause(t *testing.T) {
	f := newFleet(t)
	f.Resume("p", "3-earlier", 0, nil)
	f.change(10, nil, clear, 10)
	if _, ok := f.release("3-earlier"); !ok {
		t.Fatal("not released")
	}
	f.change(40, nil, clear, 40)
	if p := f.pause(); p != nil {
		t.Fatalf("paused again by what was released: %+v", p)
	}
	f.settle()
	f.change(80, map[int]state{}, clear, 80)
	if f.pause() == nil {
		t.Error("what came after the release is let through")
	}
}

// TestOwnersDoNotPausePolicies checks that changes that owners make to their own objects do not hold patches of other
// objects.
func TestOwnersDoNotPausePolicies(t *testing.T) {
	for name, s := range map[string]state{"Emptied": empty, "Denied": refuse, "Undecided": fail} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.change(100, nil, fine, 0)
			f.version = "2"
			for i := range 50 {
				f.record(i, s)
				f.ConcludeAssessments(f.now)
			}
			if p := f.pause(); p != nil {
				t.Errorf("pause %+v", p)
			}
			// For a change that harms the other objects, only these count.
			f.change(100, nil, s, 100)
			if p := f.pause(); p == nil || p.Objects() != 50 || p.Before != 50 {
				t.Errorf("pause %+v", p)
			}
		})
	}
}

// spread has n objects of each namespace decided again in one assessment, with the state that the namespace has, and fine otherwise.
func (f *fleet) spread(n int, states map[string]state, namespaces ...string) judged {
	f.t.Helper()
	a := f.Assess(f.now, remediation.Cause{}, "p")
	for _, namespace := range namespaces {
		for i := range n {
			a.Add(key("deployments", namespace, fmt.Sprint(i)))
		}
	}
	a.Complete()
	for _, namespace := range namespaces {
		for i := range n {
			k := key("deployments", namespace, fmt.Sprint(i))
			f.held(k)
			s, ok := states[namespace]
			if !ok {
				s = fine
			}
			f.recordAt(k, s)
		}
	}
	return f.conclude()
}

// TestBlastRadiusOfNamespaces checks that a change that harms the objects of one or two namespaces holds these alone, and that it
// takes three to hold all.
func TestBlastRadiusOfNamespaces(t *testing.T) {
	all := []string{"a", "b", "c", "d"}
	holds := func(f *fleet, want ...string) {
		t.Helper()
		var got []string
		for _, namespace := range all {
			if f.held(key("deployments", namespace, "0")) {
				got = append(got, namespace)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("held (-want +got):\n%s", diff)
		}
	}
	t.Run("one", func(t *testing.T) {
		f := newFleet(t)
		f.spread(12, nil, all...)
		got := f.spread(12, map[string]state{"a": refuse}, all...)
		if len(got.Paused) != 1 || len(got.free) != 36 {
			t.Errorf("paused %v, %d objects free", got.Paused, len(got.free))
		}
		holds(f, "a")
		p := f.pause()
		if p.Everywhere() || p.Denied != 12 || !strings.Contains(p.Message("p", true), "12 of the 48 matched objects at once (12 denied), such as deployments.apps a/0,") ||
			!strings.Contains(p.Message("p", true), "so Berth moves no object of this policy in namespace a.") {
			t.Errorf("pause %+v: %s", p, p.Message("p", true))
		}
		// A new leader keeps it, and no more than that.
		next := newFleet(t)
		next.Resume("p", p.Change, p.Before, p.Scope)
		holds(next, "a")
		next.spread(12, map[string]state{"a": refuse}, all...)
		next.settle()
		holds(next, "a")
		if got := next.pause(); got == nil || got.Change != p.Change {
			t.Errorf("pause %+v, and %+v with the leader before", got, p)
		}
		// It ends when the objects are mended.
		for i := range 12 {
			next.recordAt(key("deployments", "a", fmt.Sprint(i)), fine)
		}
		if got := next.conclude(); len(got.Resumed) != 1 || len(got.free) != 12 {
			t.Errorf("resumed %v, %d objects free", got.Resumed, len(got.free))
		}
		holds(next)
	})
	t.Run("two, then three, then two", func(t *testing.T) {
		f := newFleet(t)
		f.spread(12, nil, all...)
		f.spread(12, map[string]state{"a": refuse, "b": empty}, all...)
		holds(f, "a", "b")
		first := f.pause()
		f.now = f.now.Add(time.Second)
		if got := f.spread(12, map[string]state{"a": refuse, "b": empty, "c": fail}, all...); len(got.Paused) != 1 || len(got.free) != 0 {
			t.Errorf("paused %v, %d objects free", got.Paused, len(got.free))
		}
		holds(f, all...)
		if _, ok := f.release(first.Change); ok {
			t.Error("the release of two namespaces releases all")
		}
		for i := range 12 {
			f.recordAt(key("deployments", "c", fmt.Sprint(i)), fine)
		}
		if got := f.conclude(); len(got.Resumed) != 0 || len(got.free) != 24 {
			t.Errorf("resumed %v, %d objects free", got.Resumed, len(got.free))
		}
		holds(f, "a", "b")
	})
	t.Run("few objects in each of many", func(t *testing.T) {
		f := newFleet(t)
		f.spread(4, nil, all...)
		f.spread(4, map[string]state{"a": refuse, "b": refuse, "c": refuse}, all...)
		holds(f, all...)
	})
	t.Run("released", func(t *testing.T) {
		f := newFleet(t)
		f.spread(12, nil, all...)
		f.spread(12, map[string]state{"a": moves, "b": clear}, all...)
		holds(f, "b")
		if free, ok := f.release(f.pause().Change); !ok || len(free) != 12 {
			t.Errorf("released %t, %d objects free", ok, len(free))
		}
		holds(f)
	})
}

// TestOwnClustersDoNotCount checks that objects that are denied because of their own list of clusters do not count for the blast
// radius.
func TestOwnClustersDoNotCount(t *testing.T) {
	own := func(v *placement.Verdict) {
		refuse(v)
		v.OwnClusters = true
	}
	f := newFleet(t)
	f.change(40, nil, fine, 0)
	f.change(40, nil, own, 40)
	if p := f.pause(); p != nil {
		t.Errorf("pause %+v", p)
	}
	if got := f.Report("p").Denied; got != 40 {
		t.Errorf("%d objects are denied", got)
	}
	// What denies them anyway counts.
	f.change(40, nil, refuse, 40)
	if p := f.pause(); p == nil || p.Denied != 40 {
		t.Errorf("pause %+v", p)
	}
}

// TestLateObjectsCount checks that objects that an assessment did not wait for count when they are decided.
func TestLateObjectsCount(t *testing.T) {
	f := newFleet(t)
	a := f.Assess(f.now, remediation.Cause{}, "p")
	for i := range 40 {
		a.Add(object(i))
	}
	a.Complete()
	f.now = f.now.Add(remediation.AssessmentLimit)
	f.ConcludeAssessments(f.now)
	for i := range 40 {
		f.record(i, clear)
	}
	f.ConcludeAssessments(f.now)
	if p := f.pause(); p == nil || p.Emptied != 40 {
		t.Errorf("pause %+v", p)
	}
}

// TestHoldEnds checks that objects are patched even if an assessment is always open, because one object cannot be
// decided and data keeps changing.
func TestHoldEnds(t *testing.T) {
	f := newFleet(t)
	waited, end := f.now, f.now.Add(5*time.Minute)
	for ; f.now.Before(end); f.now = f.now.Add(10 * time.Second) {
		a := f.Assess(f.now, remediation.Cause{}, "p")
		a.Add(object(0), object(1))
		a.Complete()
		f.record(1, moves)
		f.ConcludeAssessments(f.now)
		if !f.held(object(1)) {
			if wait := f.now.Sub(waited); wait > 2*remediation.AssessmentLimit+10*time.Second {
				t.Errorf("a patch waited for %s", wait)
			}
			waited = f.now
		}
	}
	if waited.IsZero() || end.Sub(waited) > 2*remediation.AssessmentLimit {
		t.Errorf("a patch waits since %s", end.Sub(waited))
	}
	// The limit does not apply to a pause.
	f.change(40, nil, fine, 0)
	f.change(40, nil, empty, 40)
	f.held(object(1))
	f.now = f.now.Add(time.Hour)
	if !f.held(object(1)) {
		t.Error("a patch went through a pause")
	}
}

// TestHealingIsLinear simulates that the remote engine of a large fleet fails and recovers.
func TestHealingIsLinear(t *testing.T) {
	growth.Linear(t, 1000, func(n int) func() {
		f := newFleet(t)
		return func() {
			f.now = f.now.Add(time.Hour)
			f.change(n, nil, fine, 0)
			f.change(n, nil, fail, n)
			if f.pause() == nil {
				t.Fatal("not paused")
			}
			for i := range n {
				f.record(i, fine)
				f.judge()
			}
			if f.pause() != nil {
				t.Fatal("not healed")
			}
		}
	})
}

// TestAwaitedObjectsHoldUpTheirOwnPoliciesAlone checks that an object whose decision takes long only holds patches of
// policies that match it.
func TestAwaitedObjectsHoldUpTheirOwnPoliciesAlone(t *testing.T) {
	l, now := remediation.NewLedger(), time.Now()
	a := l.Assess(now, remediation.Cause{}, "slow", "quick")
	a.Add(object(0), object(1))
	a.Complete()
	holds := func(policy string) bool {
		assessed, _ := l.Holds(policy, "shop")
		return !assessed.IsZero()
	}
	if l.ConcludeAssessments(now); !holds("quick") {
		t.Error("patched while it is not known what the policy says of the others")
	}
	l.Await(object(0), "slow")
	l.Skip(object(1))
	if got := l.ConcludeAssessments(now); !got.Freed || holds("quick") || !holds("slow") {
		t.Errorf("freed: %t, holds quick: %t, slow: %t", got.Freed, holds("quick"), holds("slow"))
	}
	l.Await(object(0), "slow", "quick")
	l.Skip(object(0))
	if l.ConcludeAssessments(now); holds("slow") {
		t.Error("held by nothing")
	}
}

// TestAssessmentEnds checks that an assessment ends after its time limit, and that an assessment of a deleted policy
// does not hold patches for a new policy of the same name.
func TestAssessmentEnds(t *testing.T) {
	f := newFleet(t)
	a := f.Assess(f.now, remediation.Cause{}, "p")
	a.Add(object(0), object(1))
	a.Complete()
	f.record(0, fine)
	f.held(object(0))
	if got := f.conclude(); len(got.free) > 0 {
		t.Error("free before all objects are decided")
	}
	f.now = f.now.Add(remediation.AssessmentLimit)
	if got := f.conclude(); len(got.free) != 1 {
		t.Error("not free after the limit")
	}
	a = f.Assess(f.now, remediation.Cause{}, "p")
	a.Add(object(0))
	f.ForgetPolicy("p")
	a.Complete()
	f.Skip(object(0))
	f.ConcludeAssessments(f.now)
	if f.held(object(0)) {
		t.Error("a policy that was created again is held by the assessment of its namesake")
	}
}

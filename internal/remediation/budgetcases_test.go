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
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// budgetCase is a scheduler with policies that match what the test says. Its methods return what Schedule returns after them.
type budgetCase struct {
	*testing.T
	*remediation.Scheduler
	matching map[remediation.Key][]string
	// all are the policies that match every object, besides.
	all      []string
	matched  int
	requires bool
	now      time.Time
}

// follows is what Schedule returns after an event. wake is the time until it must be called again.
type follows struct {
	keys            []remediation.Key
	wake            time.Duration
	paused, changed []string
}

func newBudgetCase(t *testing.T, limits remediation.Limits) *budgetCase {
	t.Helper()
	c := &budgetCase{T: t, matching: map[remediation.Key][]string{}, matched: 2, now: midnight}
	c.Scheduler = remediation.NewScheduler(limits, c, func(string) bool { return false })
	c.Begin(midnight.Add(-time.Hour))
	return c
}

func (c *budgetCase) next() (out follows) {
	n := c.Schedule(c.now)
	out.keys, out.paused, out.changed = n.Keys, n.Paused, n.Changed
	if !n.Wake.IsZero() {
		out.wake = n.Wake.Sub(c.now)
	}
	return out
}

func (c *budgetCase) ask(key remediation.Key, due remediation.Due, carrier remediation.Carrier) bool {
	ok, _ := c.Ask(c.now, key, &unstructured.Unstructured{Object: map[string]any{}}, due, carrier)
	return ok
}

func (c *budgetCase) done(key remediation.Key, due remediation.Due, patch remediation.Patch) follows {
	c.Done(c.now, key, due, patch)
	return c.next()
}

func (c *budgetCase) observe(key remediation.Key, r remediation.Rollout) follows {
	c.Observe(c.now, key, r)
	return c.next()
}

func (c *budgetCase) decided(key remediation.Key, due remediation.Due) follows {
	c.Decided(key, due)
	return c.next()
}

func (c *budgetCase) changed(name string, version *placement.Policy) follows {
	c.PolicyChanged(c.now, name, version)
	return c.next()
}

func (c *budgetCase) forget(key remediation.Key) follows {
	c.Forget(c.now, key)
	return c.next()
}

func (c *budgetCase) waiting(policy string) remediation.Waiting { return c.Waiting(c.now, policy) }

func (c *budgetCase) Matching(key remediation.Key) []string             { return append(c.matching[key], c.all...) }
func (c *budgetCase) Matched(string, []schema.GroupVersionResource) int { return c.matched }
func (c *budgetCase) Holds(string, string) (time.Time, bool)            { return time.Time{}, false }
func (c *budgetCase) Requires(policy string, key remediation.Key) bool  { return c.requires }

// scheduling returns a version of a policy that rolls pods, and brings it into force.
func (c *budgetCase) scheduling(name string, generation int64, budget placementv1.RemediationBudget) *placement.Policy {
	p := &placement.Policy{Name: name, Generation: generation, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Schedules: true, Budget: budget}
	c.changed(name, p)
	c.settle(p)
	return p
}

func (c *budgetCase) settle(p *placement.Policy) {
	_, epoch := c.Settled(p.Name)
	c.Settle(c.now, p, []schema.GroupVersionResource{deployments}, epoch)
}

// object returns an object that policies match.
func (c *budgetCase) object(name string, policies ...string) remediation.Key {
	key := remediation.Key{Resource: deployments, Namespace: "default", Name: name}
	c.matching[key] = policies
	return key
}

// observed returns the state of an object at a generation.
func observed(key remediation.Key, generation int64, ready bool) remediation.Rollout {
	return remediation.Rollout{UID: types.UID(key.Name), Generation: generation, Ready: ready}
}

// spends checks whether an object may be patched.
func (c *budgetCase) spends(key remediation.Key, due remediation.Due, want bool) {
	c.Helper()
	if got := c.ask(key, due, remediation.Carrier{}); got != want {
		c.Errorf("%s may be patched: %v, not %v; waiting: %+v", key.Name, got, want, c.waiting(due[0].Policy.Name))
	}
}

// patched ends a patch well.
func (c *budgetCase) patched(key remediation.Key, due remediation.Due, generation int64) follows {
	return c.done(key, due, remediation.Patch{Ending: remediation.Made, UID: types.UID(key.Name), Generation: generation})
}

var (
	one      = intstr.FromInt32(1)
	onlyOne  = placementv1.RemediationBudget{MaxUnavailable: &one}
	oneMoved = placementv1.RemediationBudget{MaxConcurrent: 1}
)

func TestBudgetOfDeletedPolicies(t *testing.T) {
	t.Run("waits for all policies", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{MaxConcurrent: 1})
		p, q := &placement.Policy{Name: "p"}, &placement.Policy{Name: "q"}
		c.spends(podKey("a"), dueFor(p), true)
		c.spends(podKey("b"), dueFor(q), false)
		if diff := cmp.Diff([]string{"b"}, namesOf(c.changed("q", nil).keys)); diff != "" {
			t.Errorf("to decide again (-want +got):\n%s", diff)
		}
		c.patched(podKey("a"), dueFor(p), 1)
	})
	t.Run("waits for another policy", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p, q := &placement.Policy{Name: "p", Budget: oneMoved}, &placement.Policy{Name: "q"}
		c.spends(podKey("a"), dueFor(p), true)
		c.spends(podKey("b"), dueFor(p, q), false)
		c.changed("q", nil)
		c.patched(podKey("a"), dueFor(p), 1)
	})
	t.Run("is created again", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		budget := onlyOne
		budget.MaxPerMinute = 1
		q := c.scheduling("q", 1, budget)
		x, labels := c.object("x", "q"), c.object("labels", "q")
		c.spends(labels, dueFor(q), true)
		c.patched(labels, dueFor(q), 1)
		c.observe(x, observed(x, 1, false))
		c.matching = map[remediation.Key][]string{}
		c.changed("q", nil)
		c.observe(x, observed(x, 1, true))
		c.object("x", "q")
		y := c.object("y", "q")
		q = c.scheduling("q", 1, budget)
		c.now = c.now.Add(time.Hour)
		c.spends(y, rollsFor(q), true)
	})
}

// TestBudgetOfNewLeader checks the pace of a replica that knew the policies before it led.
func TestBudgetOfNewLeader(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p := &placement.Policy{Name: "p", Generation: 1, Budget: paced(1)}
	c.changed("p", p)
	c.Begin(midnight)
	c.Resume(midnight, "p", remediation.Left{Generation: 1})
	c.spends(podKey("a"), dueFor(p), false)
	if diff := cmp.Diff(time.Minute, c.next().wake); diff != "" {
		t.Errorf("wake (-want +got):\n%s", diff)
	}
}

// TestBudgetAdoptsForSomeTime checks that an object that is never ready does not stop the policies of a new leader for ever.
func TestBudgetAdoptsForSomeTime(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p := &placement.Policy{Name: "p", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Schedules: true, Budget: oneMoved}
	c.changed("p", p)
	c.Resume(c.now, "p", remediation.Left{Generation: 1, Moving: true})
	x, y := c.object("x", "p"), c.object("y", "p")
	c.observe(x, observed(x, 1, false))
	c.settle(p)
	c.spends(y, rollsFor(p), false)
	next := c.next()
	if diff := cmp.Diff(10*time.Minute, next.wake); diff != "" {
		t.Fatalf("wake (-want +got):\n%s", diff)
	}
	c.now = c.now.Add(next.wake)
	if diff := cmp.Diff([]string{"y"}, namesOf(c.next().keys)); diff != "" {
		t.Errorf("to decide again (-want +got):\n%s", diff)
	}
	c.spends(y, rollsFor(p), true)
}

// TestBudgetForgetsWhatIsNotMatched checks that an object that a policy does not match any more is not unavailable to it.
func TestBudgetForgetsWhatIsNotMatched(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p, q := c.scheduling("p", 1, oneMoved), c.scheduling("q", 1, onlyOne)
	x, y, z := c.object("x", "p", "q"), c.object("y", "q"), c.object("z", "p")
	c.spends(z, rollsFor(p), true)
	c.spends(x, rollsFor(p), false)
	next := c.done(z, rollsFor(p), remediation.Patch{})
	if diff := cmp.Diff([]string{"x"}, namesOf(next.keys)); diff != "" {
		t.Fatalf("admitted (-want +got):\n%s", diff)
	}
	c.matching[x] = nil
	c.decided(x, nil)
	c.decided(x, nil)
	c.spends(y, rollsFor(q), true)
}

// TestBudgetOfTypesThatAreNotWatched checks that nothing rolls while it is not known which objects are ready, and that a patch
// under way does not count for ever.
func TestBudgetOfTypesThatAreNotWatched(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p := c.scheduling("p", 1, oneMoved)
	x, y := c.object("x", "p"), c.object("y", "p")
	c.spends(x, rollsFor(p), true)
	c.Unsettle()
	c.ObserveAll(c.now, deployments, nil)
	c.patched(x, rollsFor(p), 2)
	c.spends(y, rollsFor(p), false)
	c.settle(p)
	c.spends(y, rollsFor(p), true)
}

// TestBudgetSettlesVersions checks that another version of the policy is not settled.
func TestBudgetSettlesVersions(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p := c.scheduling("p", 1, onlyOne)
	next := *p
	c.changed("p", &next)
	c.settle(p)
	if settled, _ := c.Settled("p"); settled {
		t.Error("settled for a version that is no longer in force")
	}
}

func TestFailuresOfMoves(t *testing.T) {
	budget := placementv1.RemediationBudget{PauseAfterFailures: new(intstr.FromInt32(3))}
	failures := func(c *budgetCase, want int) {
		c.Helper()
		if got := c.waiting("p").Failures; len(got) != want {
			c.Errorf("failures %+v, not %d", got, want)
		}
	}
	t.Run("last while a patch has no result", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p, x := c.scheduling("p", 1, budget), c.object("x", "p")
		c.spends(x, dueFor(p), true)
		if next := c.done(x, dueFor(p), remediation.Patch{Ending: remediation.Refused, Reason: "no"}); !cmp.Equal(next.changed, []string{"p"}) {
			t.Errorf("changed %v", next.changed)
		}
		c.spends(x, dueFor(p), true)
		c.observe(x, observed(x, 1, true))
		c.done(x, dueFor(p), remediation.Patch{})
		failures(c, 1)
		c.decided(x, nil)
		failures(c, 0)
	})
	t.Run("end when the object is ready, also if it needs no patch before that", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p, x := c.scheduling("p", 1, budget), c.object("x", "p")
		c.spends(x, rollsFor(p), true)
		c.patched(x, rollsFor(p), 2)
		c.observe(x, remediation.Rollout{UID: "x", Generation: 2, Failure: "late"})
		c.decided(x, nil)
		failures(c, 1)
		c.observe(x, observed(x, 2, true))
		failures(c, 0)
	})
	t.Run("are kept by a new leader unless they are over", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := &placement.Policy{Name: "p", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Schedules: true, Budget: budget}
		c.changed("p", p)
		x, y, z := c.object("x", "p"), c.object("y", "p"), c.object("z", "p")
		var failed []remediation.Failure
		for _, key := range []remediation.Key{x, y, z} {
			key.Resource.Version = ""
			failed = append(failed, remediation.Failure{Key: key, Reason: "late", Rollout: true})
		}
		c.Resume(c.now, "p", remediation.Left{Generation: 1, Failed: failed, Pause: "1-a"})
		c.observe(x, remediation.Rollout{UID: "x", Generation: 2, Failure: "late"})
		c.decided(x, nil)
		failures(c, 3)
		c.settle(p)
		failures(c, 1)
		if pause := c.waiting("p").Pause; pause != "1-a" {
			t.Errorf("pause %s", pause)
		}
	})
}

// TestFailuresOfNamespaces checks that failed objects of one or two namespaces stop the patches in these namespaces alone, until
// the objects are mended, also with another leader, and that those of three stop all.
func TestFailuresOfNamespaces(t *testing.T) {
	budget := placementv1.RemediationBudget{PauseAfterFailures: new(intstr.FromInt32(6))}
	in := func(namespace string, i int) remediation.Key {
		return remediation.Key{Resource: deployments, Namespace: namespace, Name: fmt.Sprintf("%s-%d", namespace, i)}
	}
	fail := func(c *budgetCase, p *placement.Policy, namespace string, n int) (paused []string) {
		for i := range n {
			c.spends(in(namespace, i), dueFor(p), true)
			paused = append(paused, c.done(in(namespace, i), dueFor(p), remediation.Patch{Ending: remediation.Refused, Reason: "no"}).paused...)
		}
		return paused
	}
	const last = 99
	// stops checks which of the namespaces a to d are stopped.
	stops := func(c *budgetCase, p *placement.Policy, want ...string) {
		c.Helper()
		var got []string
		for _, namespace := range []string{"a", "b", "c", "d"} {
			if !c.ask(in(namespace, last), dueFor(p), remediation.Carrier{}) {
				got = append(got, namespace)
				continue
			}
			c.done(in(namespace, last), dueFor(p), remediation.Patch{})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			c.Errorf("stopped (-want +got):\n%s", diff)
		}
	}
	t.Run("one", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.scheduling("p", 1, budget)
		fail(c, p, "a", 5)
		stops(c, p)
		c.spends(in("a", 5), dueFor(p), true)
		if next := c.done(in("a", 5), dueFor(p), remediation.Patch{Ending: remediation.Refused, Reason: "no"}); !cmp.Equal(next.paused, []string{"p"}) {
			t.Errorf("paused %v", next.paused)
		}
		stops(c, p, "a")
		w := c.waiting("p")
		if diff := cmp.Diff(containment.Scope{"a"}, w.PausedIn); diff != "" || w.Pause == "" || w.Stopped != 1 || w.Paused() {
			t.Errorf("waiting %+v", w)
		}
		if message := w.PauseMessage("p", true); !strings.Contains(message, "6 objects failed, so Berth patches no more objects of this policy in namespace a (") || !strings.Contains(message, w.Pause) {
			t.Errorf("message %q", message)
		}
		// Another leader keeps that.
		next := newBudgetCase(t, remediation.Limits{})
		next.changed("p", p)
		next.Resume(next.now, "p", remediation.Left{Generation: 1, Failed: w.Failures, Pause: w.Pause, PausedIn: w.PausedIn})
		stops(next, p, "a")
		if got := next.waiting("p").Pause; got != w.Pause {
			t.Errorf("pause %s, and %s with the leader before", got, w.Pause)
		}
		// What failed is tried again, and pauses nothing again.
		c.spends(in("a", 1), dueFor(p), true)
		if next := c.done(in("a", 1), dueFor(p), remediation.Patch{Ending: remediation.Refused, Reason: "no"}); len(next.paused) > 0 {
			t.Errorf("paused %v", next.paused)
		}
		stops(c, p, "a")
		// Its owner mends an object.
		c.spends(in("a", 1), dueFor(p), true)
		if got := namesOf(c.done(in("a", 1), dueFor(p), remediation.Patch{Ending: remediation.Made, UID: "u"}).keys); !cmp.Equal(got, []string{"a-99"}) {
			t.Errorf("to decide again after a patch: %v", got)
		}
		stops(c, p)
		c.spends(in("a", 1), dueFor(p), true)
		c.done(in("a", 1), dueFor(p), remediation.Patch{Ending: remediation.Refused, Reason: "no"})
		stops(c, p, "a")
		if got := namesOf(c.forget(in("a", 0)).keys); !cmp.Equal(got, []string{"a-99"}) {
			t.Errorf("to decide again: %v", got)
		}
		stops(c, p)
		if w := c.waiting("p"); w.Pause != "" || w.Stopped != 0 {
			t.Errorf("waiting %+v", w)
		}
	})
	t.Run("one, while an object that failed waits", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		one := budget
		one.MaxConcurrent = 1
		p := c.scheduling("p", 1, one)
		fail(c, p, "a", 5)
		c.spends(in("a", 5), dueFor(p), true)
		c.spends(in("a", last), dueFor(p), false)
		c.spends(in("a", 0), dueFor(p), false)
		next := c.done(in("a", 5), dueFor(p), remediation.Patch{Ending: remediation.Refused, Reason: "no"})
		if got := namesOf(next.keys); !cmp.Equal(next.paused, []string{"p"}) || !cmp.Equal(got, []string{"a-0"}) {
			t.Errorf("paused %v, to decide again: %v", next.paused, got)
		}
		if w := c.waiting("p"); w.Stopped != 1 {
			t.Errorf("waiting %+v", w)
		}
	})
	t.Run("two", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.scheduling("p", 1, budget)
		fail(c, p, "a", 6)
		first := c.waiting("p").Pause
		c.now = c.now.Add(time.Second)
		if got := fail(c, p, "b", 2); !cmp.Equal(got, []string{"p"}) {
			t.Errorf("paused %v", got)
		}
		stops(c, p, "a", "b")
		if c.Release("p", first) {
			t.Error("the release of one namespace releases both")
		}
		ok := c.Release("p", c.waiting("p").Pause)
		if names := namesOf(c.next().keys); !ok || len(names) != 2 {
			t.Errorf("released %t, to decide again: %v", ok, names)
		}
		stops(c, p)
	})
	t.Run("three", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.scheduling("p", 1, budget)
		fail(c, p, "a", 2)
		fail(c, p, "b", 2)
		c.spends(in("c", 0), dueFor(p), true)
		c.spends(in("c", 1), dueFor(p), true)
		for i := range 2 {
			c.done(in("c", i), dueFor(p), remediation.Patch{Ending: remediation.Refused, Reason: "no"})
		}
		stops(c, p, "a", "b", "c", "d")
		w := c.waiting("p")
		if !w.Paused() || !strings.Contains(w.PauseMessage("p", true), "6 objects failed, so Berth patches no more objects of this policy (") {
			t.Errorf("waiting %+v", w)
		}
		// A pause of the whole policy lasts until it is released.
		c.Forget(c.now, in("a", 0))
		stops(c, p, "a", "b", "c", "d")
		for i := range 2 {
			for _, namespace := range []string{"a", "b", "c"} {
				c.Forget(c.now, in(namespace, i))
			}
		}
		stops(c, p, "a", "b", "c", "d")
		w = c.waiting("p")
		if message := w.PauseMessage("p", true); !strings.HasPrefix(message, "too many objects failed, which no longer fail, so Berth") || !strings.Contains(message, "). Let the patches go on: kubectl annotate") || !strings.HasSuffix(message, w.Pause) {
			t.Errorf("message %q", message)
		}
	})
	t.Run("another generation", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.scheduling("p", 1, budget)
		fail(c, p, "a", 6)
		p = c.scheduling("p", 2, budget)
		stops(c, p)
	})
	t.Run("cluster-scoped objects", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.scheduling("p", 1, budget)
		fail(c, p, "", 6)
		c.spends(in("", last), dueFor(p), false)
		stops(c, p)
	})
}

// TestBudgetFollowsMatchedObjects checks that an object that waits for a percentage does not wait longer when more objects match.
func TestBudgetFollowsMatchedObjects(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	percent := intstr.FromString("10%")
	p := c.scheduling("p", 1, placementv1.RemediationBudget{MaxUnavailable: &percent})
	x, y := c.object("x", "p"), c.object("y", "p")
	c.observe(x, observed(x, 1, false))
	c.decided(x, nil)
	c.spends(y, rollsFor(p), false)
	c.matched = 20
	if diff := cmp.Diff([]string{"y"}, namesOf(c.decided(c.object("other", "p"), nil).keys)); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

// TestGrantedObjectsKeepTheirPlace checks that an object that could go on, and must wait again before it is patched, is still the first.
func TestGrantedObjectsKeepTheirPlace(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p := c.scheduling("p", 1, onlyOne)
	down, first, second := c.object("down", "p"), c.object("first", "p"), c.object("second", "p")
	c.observe(down, observed(down, 1, false))
	c.spends(first, rollsFor(p), false)
	c.spends(second, rollsFor(p), false)
	for range 2 {
		if diff := cmp.Diff([]remediation.Key{first}, c.observe(down, observed(down, 1, true)).keys); diff != "" {
			t.Errorf("to decide again (-want +got):\n%s", diff)
		}
		c.observe(down, observed(down, 1, false))
		c.spends(first, rollsFor(p), false)
	}
}

// TestFailedPatchesOfDeletedPolicies checks that an object does not wait for a policy that was deleted while it was patched.
func TestFailedPatchesOfDeletedPolicies(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p, other := &placement.Policy{Name: "p", Budget: paced(6)}, &placement.Policy{Name: "other"}
	x := c.object("x", "p")
	c.changed("p", p)
	c.spends(x, dueFor(p, other), true)
	c.changed("p", nil)
	if diff := cmp.Diff([]remediation.Key{x}, c.done(x, dueFor(p, other), remediation.Patch{Ending: remediation.Failed}).keys); diff != "" {
		t.Errorf("to decide again (-want +got):\n%s", diff)
	}
	c.now = c.now.Add(time.Hour)
	c.done(x, dueFor(p), remediation.Patch{})
	c.next()
}

// TestWaitingForAnotherPolicy checks what is said of an object that waits because too many objects of another policy that decides it are
// unavailable.
func TestWaitingForAnotherPolicy(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{})
	p, q := c.scheduling("p", 1, placementv1.RemediationBudget{MaxConcurrent: 5}), c.scheduling("q", 1, onlyOne)
	slow, x := c.object("slow", "q"), c.object("x", "p", "q")
	c.observe(slow, observed(slow, 1, false))
	c.spends(x, append(rollsFor(p), rollsFor(q)...), false)
	for _, policy := range []string{"p", "q"} {
		want := remediation.Waiting{Unavailable: 1, UnavailableNow: 1, MaxUnavailable: 1, FirstUnavailable: slow, UnavailableFor: "q"}
		if diff := cmp.Diff(want, c.waiting(policy)); diff != "" {
			t.Errorf("%s waits (-want +got):\n%s", policy, diff)
		}
	}
}

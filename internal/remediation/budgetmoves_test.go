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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

var (
	reports = remediation.Carrier{Reports: true}
	surges  = remediation.Carrier{Reports: true, Surges: true}
)

// report returns what a system reports of an object with a resource version.
func report(key remediation.Key, version string, runs bool) remediation.Rollout {
	out := remediation.Rollout{UID: types.UID(key.Name), Generation: 1, Version: version, Ready: runs}
	if !runs {
		out.Missing = "cluster b: its health is Unhealthy"
	}
	return out
}

// moving returns a version of a policy in force that moves objects between clusters, and changes no pods.
func (c *budgetCase) moving(budget placementv1.RemediationBudget) *placement.Policy {
	p := &placement.Policy{Name: "p", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Budget: budget}
	c.changed(p.Name, p)
	c.settle(p)
	return p
}

// moves checks whether an object may be moved to other clusters, and moves it at a resource version if so.
func (c *budgetCase) moves(key remediation.Key, p *placement.Policy, carrier remediation.Carrier, version string, want bool) follows {
	c.Helper()
	got := c.ask(key, movesFor(p), carrier)
	if got != want {
		c.Errorf("%s may be moved: %v, not %v; waiting: %+v", key.Name, got, want, c.waiting(p.Name))
	}
	if !got {
		return c.next()
	}
	return c.done(key, movesFor(p), remediation.Patch{Ending: remediation.Made, UID: types.UID(key.Name), Generation: 1, Version: version})
}

func TestMovesBetweenClusters(t *testing.T) {
	minute := metav1.Duration{Duration: time.Minute}
	t.Run("last until the object runs there", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.moving(oneMoved)
		a, b := c.object("a", "p"), c.object("b", "p")
		c.moves(a, p, reports, "5", true)
		c.moves(b, p, reports, "", false)
		for _, stale := range []remediation.Rollout{report(a, "4", true), report(a, "5", false), {UID: "a", Generation: 1, Ready: true}} {
			if next := c.observe(a, stale); len(next.keys) > 0 {
				t.Errorf("%+v ends the move", stale)
			}
		}
		if got := c.waiting("p").Rollouts; got != 1 {
			t.Errorf("%d objects are moved", got)
		}
		if next := c.observe(a, report(a, "6", true)); len(next.keys) != 1 {
			t.Errorf("no other object may be moved: %+v", next)
		}
		c.moves(b, p, reports, "7", true)
	})
	t.Run("may go on while others wait for their end", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		budget := oneMoved
		budget.MaxPerMinute = 6
		p := c.moving(budget)
		a, b := c.object("a", "p"), c.object("b", "p")
		c.moves(a, p, surges, "5", true)
		c.moves(b, p, surges, "", false)
		c.moves(a, p, surges, "", false)
		c.now = c.now.Add(10 * time.Second)
		if diff := cmp.Diff([]remediation.Key{a}, c.next().keys); diff != "" {
			t.Errorf("to decide again (-want +got):\n%s", diff)
		}
	})
	t.Run("end with the patch where no system reports", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.moving(oneMoved)
		c.moves(c.object("a", "p"), p, remediation.Carrier{}, "5", true)
		c.moves(c.object("b", "p"), p, remediation.Carrier{}, "6", true)
	})
	t.Run("fail after some time, and go on to count", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		budget := oneMoved
		budget.PauseAfterFailures, budget.MoveTimeout = new(intstr.FromInt32(0)), &minute
		p := c.moving(budget)
		a, b := c.object("a", "p"), c.object("b", "p")
		if next := c.moves(a, p, reports, "5", true); next.wake != time.Minute {
			t.Errorf("Open is to be called after %s", next.wake)
		}
		c.observe(a, report(a, "5", false))
		c.now = c.now.Add(time.Minute)
		if next := c.next(); !cmp.Equal(next.paused, []string{"p"}) {
			t.Errorf("the patches go on: %+v", next)
		}
		want := []remediation.Failure{{
			Key: remediation.Key{Resource: schema.GroupVersionResource{Group: "apps", Resource: "deployments"}, Namespace: "default", Name: "a"}, Rollout: true,
			Reason: "the object does not run in its clusters 1m0s after it was moved: cluster b: its health is Unhealthy",
		}}
		waiting := c.waiting("p")
		if diff := cmp.Diff(want, waiting.Failures); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		c.Release("p", waiting.Pause)
		c.moves(b, p, reports, "", false)
		if got := c.waiting("p"); got.Rollouts != 1 || got.Paced != 1 {
			t.Errorf("the failed object does not count as being moved: %+v", got)
		}
		c.observe(a, report(a, "6", true))
		if diff := cmp.Diff(remediation.Waiting{}, c.waiting("p"), cmpopts.IgnoreFields(remediation.Waiting{}, "Paced")); diff != "" {
			t.Errorf("after the object runs (-want +got):\n%s", diff)
		}
		c.moves(b, p, reports, "7", true)
	})
	t.Run("that fail stop those of their namespace alone", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		budget := oneMoved
		budget.PauseAfterFailures, budget.MoveTimeout = new(intstr.FromString("Never")), &minute
		p := c.moving(budget)
		a, b, other := c.object("a", "p"), c.object("b", "p"), remediation.Key{Resource: deployments, Namespace: "other", Name: "c"}
		c.moves(a, p, reports, "5", true)
		c.moves(b, p, reports, "", false)
		c.moves(other, p, reports, "", false)
		c.now = c.now.Add(time.Minute)
		if diff := cmp.Diff([]remediation.Key{other}, c.next().keys); diff != "" {
			t.Errorf("to decide again (-want +got):\n%s", diff)
		}
		c.moves(other, p, reports, "6", true)
		if next := c.observe(other, report(other, "7", true)); len(next.keys) > 0 {
			t.Errorf("to decide again: %v", next.keys)
		}
		c.moves(b, p, reports, "", false)
		if w := c.waiting("p"); w.Paced != 1 || w.Late != 1 {
			t.Errorf("waiting: %+v", w)
		}
		if diff := cmp.Diff([]remediation.Key{b}, c.observe(a, report(a, "8", true)).keys); diff != "" {
			t.Errorf("to decide again (-want +got):\n%s", diff)
		}
	})
	t.Run("leave no more objects unavailable than allowed", func(t *testing.T) {
		for name, tc := range map[string]struct {
			carrier remediation.Carrier
			second  bool
		}{
			"in neither cluster": {reports, false},
			"in the old one":     {surges, true},
		} {
			c := newBudgetCase(t, remediation.Limits{})
			p := c.moving(onlyOne)
			a, b := c.object("a", "p"), c.object("b", "p")
			c.moves(a, p, tc.carrier, "5", true)
			observed := report(a, "5", false)
			observed.Serves = tc.carrier.Surges
			c.observe(a, observed)
			c.Log(name)
			c.moves(b, p, tc.carrier, "6", tc.second)
		}
	})
	t.Run("do not wait for others if the object runs nowhere anyway", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.moving(onlyOne)
		a, b := c.object("a", "p"), c.object("b", "p")
		for _, key := range []remediation.Key{a, b} {
			c.observe(key, report(key, "1", false))
		}
		c.moves(a, p, reports, "5", true)
		c.moves(b, p, reports, "6", true)
	})
	t.Run("no longer wait for others once the object runs nowhere", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.moving(onlyOne)
		a, b := c.object("a", "p"), c.object("b", "p")
		c.moves(a, p, reports, "5", true)
		c.moves(b, p, reports, "6", false)
		if diff := cmp.Diff([]remediation.Key{b}, c.observe(b, report(b, "1", false)).keys); diff != "" {
			t.Errorf("goes on (-want +got):\n%s", diff)
		}
	})
	t.Run("do not wait for others if the object had no clusters", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.moving(onlyOne)
		c.moves(c.object("a", "p"), p, reports, "5", true)
		due := movesFor(p)
		due[0].Changes[0].From = new("[]")
		if !c.ask(c.object("b", "p"), due, reports) {
			t.Errorf("it waits: %+v", c.waiting("p"))
		}
	})
	t.Run("wait until it is known what runs", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := c.moving(onlyOne)
		c.Unsettle()
		c.moves(c.object("a", "p"), p, reports, "", false)
		if got := c.waiting("p").Settling; got != 1 {
			t.Errorf("%d objects wait", got)
		}
	})
	t.Run("end when no system reports any more, or with the object", func(t *testing.T) {
		for name, end := range map[string]func(*budgetCase, remediation.Key){
			"no report": func(c *budgetCase, key remediation.Key) { c.Unobserve(key, true) },
			"deleted":   func(c *budgetCase, key remediation.Key) { c.Forget(c.now, key) },
		} {
			c := newBudgetCase(t, remediation.Limits{})
			p := c.moving(oneMoved)
			a := c.object("a", "p")
			c.moves(a, p, reports, "5", true)
			c.observe(a, report(a, "5", false))
			// The status of the type's objects says nothing of it.
			c.ObserveAll(c.now, deployments, nil)
			c.moves(c.object("b", "p"), p, reports, "", false)
			end(c, a)
			c.Log(name)
			c.moves(c.object("b", "p"), p, reports, "6", true)
		}
	})
}

// TestBudgetsOfGroups checks that what is done for the policies of a group counts for all of them, and that each keeps to the bounds of
// all.
func TestBudgetsOfGroups(t *testing.T) {
	policy := func(c *budgetCase, name string, budget placementv1.RemediationBudget) *placement.Policy {
		p := &placement.Policy{Name: name, Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Budget: budget}
		c.changed(name, p)
		c.settle(p)
		return p
	}
	shared, alone := placementv1.RemediationBudget{Group: "g"}, placementv1.RemediationBudget{}
	bounded := placementv1.RemediationBudget{Group: "g", MaxConcurrent: 1}
	t.Run("share the objects that are moved", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p, q, other := policy(c, "p", bounded), policy(c, "q", shared), policy(c, "other", alone)
		a, b := c.object("a", "p"), c.object("b", "q")
		c.moves(a, p, reports, "5", true)
		c.moves(b, q, reports, "", false)
		c.moves(c.object("c", "other"), other, reports, "6", true)
		if got := c.waiting("q"); got.Paced != 1 || got.Rollouts != 0 {
			t.Errorf("waiting: %+v", got)
		}
		if diff := cmp.Diff([]remediation.Key{b}, c.observe(a, report(a, "7", true)).keys); diff != "" {
			t.Errorf("to decide again (-want +got):\n%s", diff)
		}
		c.moves(b, q, reports, "8", true)
		c.moves(a, p, reports, "", false)
	})
	t.Run("wait until it is known what an earlier leader moved for another one", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := policy(c, "p", shared)
		q := &placement.Policy{Name: "q", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Budget: bounded}
		c.changed("q", q)
		c.Resume(c.now, "q", remediation.Left{Generation: 1, Moving: true})
		a, b := c.object("a", "q"), c.object("b", "p")
		c.Observe(c.now, a, report(a, "5", false))
		c.moves(b, p, reports, "", false)
		c.settle(q)
		c.moves(b, p, reports, "", false)
		if diff := cmp.Diff([]remediation.Key{b}, c.observe(a, report(a, "6", true)).keys); diff != "" {
			t.Errorf("to decide again (-want +got):\n%s", diff)
		}
	})
	t.Run("share the pace", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p, q := policy(c, "p", placementv1.RemediationBudget{Group: "g", MaxPerMinute: 6}), policy(c, "q", shared)
		c.spends(c.object("a", "p"), dueFor(p), true)
		c.spends(c.object("b", "q"), dueFor(q), false)
		c.now = c.now.Add(10 * time.Second)
		c.spends(c.object("b", "q"), dueFor(q), true)
		c.spends(c.object("c", "p"), dueFor(p), false)
	})
	t.Run("end with the policy, and with the group", func(t *testing.T) {
		for name, end := range map[string]func(*budgetCase) follows{
			"deleted": func(c *budgetCase) follows { return c.changed("p", nil) },
			"left": func(c *budgetCase) follows {
				left := bounded
				left.Group = "another"
				return c.changed("p", &placement.Policy{Name: "p", Generation: 2, Budget: left})
			},
		} {
			c := newBudgetCase(t, remediation.Limits{})
			p, q := policy(c, "p", bounded), policy(c, "q", shared)
			b := c.object("b", "q")
			c.moves(c.object("a", "p"), p, reports, "5", true)
			c.moves(b, q, reports, "", false)
			if diff := cmp.Diff([]remediation.Key{b}, end(c).keys); diff != "" {
				t.Errorf("%s: to decide again (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestMovesOfEarlierLeader checks what becomes of an object that an earlier leader moved, or may have moved, and that does not run yet.
func TestMovesOfEarlierLeader(t *testing.T) {
	timeout := 5 * time.Minute
	budget := oneMoved
	budget.MoveTimeout, budget.PauseAfterFailures = &metav1.Duration{Duration: timeout}, new(intstr.FromInt32(1))
	object := remediation.Key{Resource: schema.GroupVersionResource{Group: "apps", Resource: "deployments"}, Namespace: "default", Name: "a"}
	moved := func(since, deadline time.Time) []remediation.Move {
		return []remediation.Move{{Key: object, Since: since, Deadline: deadline}}
	}
	since := midnight.Add(-2 * time.Minute)
	for name, tc := range map[string]struct {
		left remediation.Left
		// settles reports whether it becomes known what runs.
		settles bool
		// fails is when the object fails under the new leader; 0 for never. goesOn is whether another object of the namespace may be moved
		// after an hour.
		fails  time.Duration
		goesOn bool
	}{
		"perhaps moved":                               {remediation.Left{Moving: true}, true, 0, true},
		"moved":                                       {remediation.Left{Moving: true, Moves: moved(since, since.Add(timeout))}, true, 3 * time.Minute, false},
		"moved by a completed plan":                   {remediation.Left{Moves: moved(since, since.Add(timeout))}, true, 3 * time.Minute, false},
		"moved, by another generation":                {remediation.Left{Generation: 7, Moves: moved(since, since.Add(timeout))}, true, 3 * time.Minute, false},
		"moved, with its time over meanwhile":         {remediation.Left{Moves: moved(midnight.Add(-time.Hour), midnight.Add(timeout-time.Hour))}, true, time.Nanosecond, false},
		"moved, and it never becomes known what runs": {remediation.Left{Moves: moved(since, since.Add(timeout))}, false, remediation.ResumeLimit, false},
		"failed":                   {remediation.Left{Failed: []remediation.Failure{{Key: object, Rollout: true}}}, true, 0, false},
		"failed, and was released": {remediation.Left{Moves: moved(since, time.Time{})}, true, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newBudgetCase(t, remediation.Limits{})
			p := &placement.Policy{Name: "p", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Budget: budget}
			c.changed("p", p)
			tc.left.Generation = max(tc.left.Generation, 1)
			c.Resume(c.now, "p", tc.left)
			a, b := c.object("a", "p"), c.object("b", "p")
			c.observe(a, report(a, "5", false))
			if tc.settles {
				c.settle(p)
			}
			c.moves(b, p, reports, "", false)
			failures := func(want int) {
				t.Helper()
				c.next()
				if got := c.waiting("p").Failures; len(got) != want {
					t.Errorf("after %s: %d failures and not %d: %v", c.now.Sub(midnight), len(got), want, got)
				}
			}
			before := len(tc.left.Failed)
			if tc.fails > 1 {
				c.now = midnight.Add(tc.fails - time.Second)
				failures(before)
			}
			if tc.fails > 0 {
				c.now = midnight.Add(tc.fails)
				failures(before + 1)
				w := c.waiting("p")
				if w.Pause == "" || w.Late != 1 || w.Rollouts != 1 || !w.Moves[0].Deadline.IsZero() {
					t.Errorf("waiting: %+v", w)
				}
			}
			c.now = midnight.Add(time.Hour)
			failures(before + count(tc.fails > 0))
			c.Release("p", c.waiting("p").Pause)
			c.settle(p)
			c.moves(b, p, reports, "6", tc.goesOn)
			if !tc.goesOn {
				c.observe(a, report(a, "7", true))
				c.moves(b, p, reports, "8", true)
			}
		})
	}
	t.Run("known from one of two policies", func(t *testing.T) {
		for _, order := range [][]string{{"p", "q"}, {"q", "p"}} {
			c := newBudgetCase(t, remediation.Limits{})
			versions := map[string]*placement.Policy{}
			for _, name := range order {
				versions[name] = &placement.Policy{Name: name, Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Budget: budget}
				c.changed(name, versions[name])
				left := remediation.Left{Generation: 1, Moving: true}
				if name == "q" {
					left.Moves = moved(since, since.Add(timeout))
				}
				c.Resume(c.now, name, left)
			}
			c.observe(c.object("a", "p", "q"), report(c.object("a", "p", "q"), "5", false))
			for _, name := range order {
				c.settle(versions[name])
			}
			c.now = midnight.Add(time.Hour)
			c.next()
			if w := c.waiting("q"); len(w.Failures) != 1 || w.Late != 1 {
				t.Errorf("in the order %v: %+v", order, w)
			}
		}
	})
	t.Run("moved again", func(t *testing.T) {
		c := newBudgetCase(t, remediation.Limits{})
		p := &placement.Policy{Name: "p", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Budget: budget}
		c.changed("p", p)
		a := c.object("a", "p")
		c.Resume(c.now, "p", remediation.Left{Generation: 1, Moves: moved(since, since.Add(timeout))})
		c.observe(a, report(a, "5", false))
		c.settle(p)
		c.moves(a, p, reports, "6", true)
		want := []remediation.Move{{Key: object, Since: c.now, Deadline: c.now.Add(timeout)}}
		if diff := cmp.Diff(want, c.waiting("p").Moves); diff != "" {
			t.Errorf("moves (-want +got):\n%s", diff)
		}
	})
}

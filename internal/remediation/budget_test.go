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
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/window"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func podKey(name string) remediation.Key {
	return remediation.Key{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Name: name}
}

func dueFor(policies ...*placement.Policy) remediation.Due {
	var out remediation.Due
	for _, p := range policies {
		out = append(out, &placement.Verdict{Policy: p})
	}
	return out
}

func hourly(minute int, length time.Duration) window.Windows {
	return window.ParseAll([]placementv1.RemediationWindow{{Start: fmt.Sprintf("%d * * * *", minute), Duration: metav1.Duration{Duration: length}}})
}

func TestBudget(t *testing.T) {
	paced := &placement.Policy{Name: "paced", MaxPerMinute: 6}
	closed := &placement.Policy{Name: "closed", Windows: hourly(30, 10*time.Minute)}
	free := &placement.Policy{Name: "free"}
	b := remediation.NewBudget(0)
	b.Begin(midnight)
	spend := func(after time.Duration, name string, ok bool, wake time.Duration, policies ...*placement.Policy) {
		t.Helper()
		gotOK, gotWake := b.Spend(midnight.Add(after), podKey(name), dueFor(policies...))
		if gotOK != ok || gotWake != wake {
			t.Errorf("%s after %s: %v and %s, not %v and %s", name, after, gotOK, gotWake, ok, wake)
		}
	}
	open := func(after, wake time.Duration, names ...string) {
		t.Helper()
		keys, gotWake := b.Open(midnight.Add(after))
		var got []string
		for _, key := range keys {
			got = append(got, key.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(names, got); diff != "" || gotWake != wake {
			t.Errorf("after %s: wake is %s, not %s (-want +got):\n%s", after, gotWake, wake, diff)
		}
	}
	// A policy without bounds waits for nothing. The predecessor may have patched just before the budget began.
	spend(0, "free", true, 0, free)
	spend(0, "a", false, 10*time.Second, paced)
	spend(0, "b", false, 0, paced)
	spend(time.Second, "c", false, 0, closed)
	spend(time.Second, "d", false, 0, paced, closed)
	if diff := cmp.Diff(remediation.Waiting{Paced: 3}, b.Waiting("paced")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(remediation.Waiting{Paced: 1, Closed: 1, Opens: midnight.Add(30 * time.Minute)}, b.Waiting("closed")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	// One object waits longest, and the next one is tried after the interval even if the first one is not patched.
	open(9*time.Second, 0)
	open(10*time.Second, 10*time.Second, "a")
	open(20*time.Second, 10*time.Second, "b")
	spend(20*time.Second, "b", true, 0, paced)
	// An object that needs no patch any more does not wait. No call is scheduled if no object waits.
	b.Leave(podKey("d"))
	open(30*time.Second, 29*time.Minute+30*time.Second)
	open(30*time.Minute, 0, "c")
	spend(30*time.Minute, "c", true, 0, closed)
	// A later version of the policy decides everything that waits for the earlier one. Its pace goes on.
	spend(40*time.Minute, "e", false, 50*time.Minute, closed)
	if diff := cmp.Diff([]remediation.Key{podKey("e")}, b.ForgetPolicy(midnight.Add(41*time.Minute), "closed")); diff != "" {
		t.Errorf("forgotten (-want +got):\n%s", diff)
	}
	spend(41*time.Minute, "f", true, 0, paced)
	b.ForgetPolicy(midnight.Add(41*time.Minute), "paced")
	spend(41*time.Minute, "g", false, 10*time.Second, paced)
}

func TestBudgetOverAllPolicies(t *testing.T) {
	b := remediation.NewBudget(60)
	b.Begin(midnight)
	now := midnight.Add(time.Second)
	if ok, _ := b.Spend(now, podKey("a"), dueFor(&placement.Policy{Name: "one"})); !ok {
		t.Error("the first patch waits")
	}
	if ok, wake := b.Spend(now, podKey("b"), dueFor(&placement.Policy{Name: "two"})); ok || wake != time.Second {
		t.Errorf("%v after %s", ok, wake)
	}
	if diff := cmp.Diff(remediation.Waiting{Paced: 1}, b.Waiting("two")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

// TestBudgetIsNeverExceeded runs random histories of objects that are due, policies that change, and leaders that change.
// No minute has more patches than a budget allows, no patch is outside of a window, and no object waits for ever.
func TestBudgetIsNeverExceeded(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		if err := newHistory(seed).run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// history is a random history with a model of what may be patched.
type history struct {
	random   *rand.Rand
	now      time.Time
	budget   *remediation.Budget
	overall  int
	policies []*placement.Policy
	// patched are the times of the patches for each policy since it got its bounds, and all those of all patches.
	patched [][]time.Time
	all     []time.Time
	// due are the objects that are not patched yet, with their policies by index.
	due map[remediation.Key][]int
	// ready are the objects to try, and timers the calls of Open that are scheduled.
	ready  []remediation.Key
	timers []time.Time
	names  int
}

func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 0)), now: midnight, due: map[remediation.Key][]int{}}
	if h.random.IntN(2) == 0 {
		h.overall = 1 + h.random.IntN(120)
	}
	for i := range 1 + h.random.IntN(3) {
		h.policies, h.patched = append(h.policies, h.policy(i)), append(h.patched, nil)
	}
	h.lead()
	return h
}

// policy returns a version of a policy with random bounds.
func (h *history) policy(i int) *placement.Policy {
	out := &placement.Policy{Name: fmt.Sprint(i)}
	if h.random.IntN(3) > 0 {
		out.MaxPerMinute = 1 + h.random.IntN(100)
	}
	// Windows of two policies may never be open at the same time.
	if i == 0 && h.random.IntN(2) == 0 {
		out.Windows = hourly(h.random.IntN(60), time.Duration(1+h.random.IntN(20))*time.Minute)
	}
	return out
}

// lead lets a new leader begin. It decides all objects.
func (h *history) lead() {
	h.budget = remediation.NewBudget(h.overall)
	h.budget.Begin(h.now)
	h.timers = nil
	h.ready = slices.SortedFunc(maps.Keys(h.due), func(a, b remediation.Key) int { return strings.Compare(a.Name, b.Name) })
}

func (h *history) run() error {
	for range 200 {
		if err := h.step(); err != nil {
			return err
		}
	}
	// Nothing changes any more, so everything is patched. No window of these policies is closed for longer than an hour.
	for end := h.now.Add(200 * time.Hour); len(h.due) > 0; {
		if len(h.ready) > 0 {
			if err := h.try(); err != nil {
				return err
			}
			continue
		}
		if len(h.timers) == 0 || h.now.After(end) {
			return fmt.Errorf("%d objects wait for ever", len(h.due))
		}
		h.fire(slices.MinFunc(h.timers, time.Time.Compare))
	}
	return nil
}

func (h *history) step() error {
	switch n := h.random.IntN(100); {
	case n < 30:
		h.add()
	case n < 80:
		if len(h.ready) > 0 {
			return h.try()
		}
		if len(h.timers) > 0 {
			h.fire(slices.MinFunc(h.timers, time.Time.Compare))
		}
	case n < 90:
		h.now = h.now.Add(time.Duration(h.random.Int64N(int64(20 * time.Second))))
	case n < 93:
		h.leave()
	case n < 97:
		i := h.random.IntN(len(h.policies))
		h.policies[i], h.patched[i] = h.policy(i), nil
		h.ready = append(h.ready, h.budget.ForgetPolicy(h.now, h.policies[i].Name)...)
	default:
		h.lead()
	}
	return nil
}

// add makes an object due for some policies.
func (h *history) add() {
	h.names++
	key := podKey(fmt.Sprint(h.names))
	for i := range h.policies {
		if h.random.IntN(2) == 0 {
			h.due[key] = append(h.due[key], i)
		}
	}
	if h.due[key] != nil {
		h.ready = append(h.ready, key)
	}
}

// leave makes an object not due any more.
func (h *history) leave() {
	for key := range h.due {
		h.budget.Leave(key)
		delete(h.due, key)
		return
	}
}

// fire lets a timer call Open.
func (h *history) fire(at time.Time) {
	h.timers = slices.DeleteFunc(h.timers, func(t time.Time) bool { return t.Equal(at) })
	if at.After(h.now) {
		h.now = at
	}
	keys, wake := h.budget.Open(h.now)
	h.schedule(wake)
	h.ready = append(h.ready, keys...)
}

func (h *history) schedule(wake time.Duration) {
	if wake > 0 {
		h.timers = append(h.timers, h.now.Add(wake))
	}
}

// try patches the next object if the budget allows it.
func (h *history) try() error {
	key := h.ready[0]
	h.ready = h.ready[1:]
	indexes, ok := h.due[key]
	if !ok {
		return nil
	}
	var policies []*placement.Policy
	for _, i := range indexes {
		policies = append(policies, h.policies[i])
	}
	ok, wake := h.budget.Spend(h.now, key, dueFor(policies...))
	h.schedule(wake)
	if !ok {
		return nil
	}
	delete(h.due, key)
	for _, i := range indexes {
		p := h.policies[i]
		if open, _ := p.Windows.Open(h.now); !open {
			return fmt.Errorf("a patch for policy %s at %s, when no window is open", p.Name, h.now)
		}
		h.patched[i] = append(h.patched[i], h.now)
		if err := within(h.patched[i], p.MaxPerMinute); err != nil {
			return fmt.Errorf("policy %s: %w", p.Name, err)
		}
	}
	h.all = append(h.all, h.now)
	if err := within(h.all, h.overall); err != nil {
		return fmt.Errorf("all policies: %w", err)
	}
	return nil
}

// within returns an error if the minute that ends with the last patch has more than limit patches.
func within(patched []time.Time, limit int) error {
	last := patched[len(patched)-1]
	n := 0
	for _, t := range patched {
		if last.Sub(t) < time.Minute {
			n++
		}
	}
	if limit > 0 && n > limit {
		return fmt.Errorf("%d patches in a minute, and %d are allowed", n, limit)
	}
	return nil
}

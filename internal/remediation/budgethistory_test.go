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

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
)

// TestBudgetIsNeverExceeded runs random histories of objects that are due, patches that succeed, fail, and roll pods, objects
// that become unready, observations that come late, policies that change, and leaders that change. No minute has more patches
// than a budget allows, no patch is outside of a window, no more objects are moved or unavailable than allowed, nothing is
// patched in a namespace after too many failures, each move between clusters fails in time, and no object waits for ever.
func TestBudgetIsNeverExceeded(t *testing.T) {
	for seed := range uint64(budget.Rounds(400)) {
		if err := newHistory(seed).run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// history is a random history with a model of what may be patched.
type history struct {
	random   *rand.Rand
	now      time.Time
	budget   *remediation.Scheduler
	limits   remediation.Limits
	policies []*modelPolicy
	objects  map[remediation.Key]*modelObject
	// all are the times of all patches.
	all []time.Time
	// ready are the objects to try, and wake is when Schedule must be called; zero for never.
	ready []remediation.Key
	wake  time.Time
	names int
	// led is when the leader began.
	led time.Time
	// paused are the policies of which a change is not carried out.
	paused map[string]bool
}

// modelPolicy is a version of a policy.
type modelPolicy struct {
	*placement.Policy
	// patched are the times of the patches since the policy got its bounds.
	patched []time.Time
	// failed are the objects that failed since the last pause.
	failed map[remediation.Key]bool
}

// modelObject is an object in the cluster.
type modelObject struct {
	// policies match it, by index. due are those that require a patch, and whether that rolls pods.
	policies []int
	due      map[int]bool
	// patching are the policies of a patch under way.
	patching remediation.Due
	// rollout is its state, seen the state that the budget observed last, and late are the states after that.
	rollout, seen remediation.Rollout
	late          []remediation.Rollout
	// moved are the policies whose rollout is not over. movedBefore is set if an earlier leader patched the object, and the present one can't
	// know that.
	moved       map[int]bool
	movedBefore bool
	// movedAt is when the object was moved last.
	movedAt time.Time
	// refused is set if the API server refuses patches of the object.
	refused bool
	// carrier is what carries the object to clusters. If it reports where the object runs, patches that roll move the object to other
	// clusters, its generation is its resource version, and no rollout fails.
	carrier remediation.Carrier
}

// observed returns the state of an object as the budget observes it.
func (o *modelObject) observed(r remediation.Rollout) remediation.Rollout {
	if o.carrier.Reports {
		r.Version, r.Generation, r.Serves = fmt.Sprint(r.Generation), 1, o.carrier.Surges && !r.Ready
	}
	return r
}

// holdsOut reports whether an object takes a slot from the objects of a namespace: one that does not run in time takes those of its own
// alone.
func (h *history) holdsOut(key remediation.Key, o *modelObject, namespace string) bool {
	return key.Namespace == namespace || !o.carrier.Reports || o.patching != nil || h.now.Sub(o.movedAt) < placementv1.DefaultMoveTimeout
}

// unavailable reports whether the object is unavailable while it is moved, or is not ready.
func (o *modelObject) unavailable() bool { return !o.carrier.Surges }

func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 0)), now: midnight, objects: map[remediation.Key]*modelObject{}, paused: map[string]bool{}}
	if h.random.IntN(2) == 0 {
		h.limits.MaxPerMinute = 1 + h.random.IntN(120)
	}
	if h.random.IntN(3) == 0 {
		h.limits.MaxConcurrent = 1 + h.random.IntN(8)
	}
	for i := range 1 + h.random.IntN(3) {
		h.policies = append(h.policies, h.policy(i, 1))
	}
	h.lead()
	return h
}

// policy returns a version of a policy with random bounds.
func (h *history) policy(i int, generation int64) *modelPolicy {
	out := &placement.Policy{
		Name: fmt.Sprint(i), Generation: generation, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Schedules: true,
	}
	if h.random.IntN(3) > 0 {
		out.Budget.MaxPerMinute = int32(1 + h.random.IntN(100))
	}
	if h.random.IntN(3) == 0 {
		out.Budget.MaxConcurrent = int32(1 + h.random.IntN(5))
	}
	if h.random.IntN(3) == 0 {
		out.Budget.PerNamespace = int32(1 + h.random.IntN(3))
	}
	if h.random.IntN(3) == 0 {
		out.Budget.Group = "g"
	}
	if h.random.IntN(2) == 0 {
		out.Budget.MaxUnavailable = new(oneOf(h.random, intstr.FromInt32(1), intstr.FromInt32(4), intstr.FromString("10%"), intstr.FromString("40%"), intstr.FromString("100%")))
	}
	if h.random.IntN(2) == 0 {
		out.Budget.PauseAfterFailures = new(intstr.FromInt(h.random.IntN(5)))
	}
	// Windows of two policies may never be open at the same time.
	if i == 0 && h.random.IntN(2) == 0 {
		out.Windows = hourly(h.random.IntN(60), time.Duration(1+h.random.IntN(20))*time.Minute)
	}
	return &modelPolicy{Policy: out, failed: map[remediation.Key]bool{}}
}

func oneOf[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// Matching and Matched make the history the Matches of the budget.
func (h *history) Matching(key remediation.Key) (out []string) {
	if o := h.objects[key]; o != nil {
		for _, i := range o.policies {
			out = append(out, h.policies[i].Name)
		}
	}
	return out
}

func (h *history) Matched(policy string, types []schema.GroupVersionResource) (n int) {
	for key := range h.objects {
		n += count(slices.Contains(types, key.Resource) && slices.Contains(h.Matching(key), policy))
	}
	return n
}

// Holds makes the history the Matches of the budget.
func (h *history) Holds(policy, _ string) (time.Time, bool) { return time.Time{}, h.paused[policy] }

// Requires makes the history the Matches of the budget.
func (h *history) Requires(policy string, key remediation.Key) bool {
	key.Resource = deployments
	o := h.objects[key]
	if o == nil {
		return false
	}
	for i := range o.due {
		if h.policies[i].Name == policy {
			return true
		}
	}
	return false
}

// deployments is the type of all objects.
var deployments = appsv1.SchemeGroupVersion.WithResource("deployments")

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// keys returns the objects for which selects returns true, in a fixed order.
func (h *history) keys(selects func(*modelObject) bool) []remediation.Key {
	var out []remediation.Key
	for key, o := range h.objects {
		if selects(o) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b remediation.Key) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// pick returns a random object for which selects returns true; ok is false if there is none.
func (h *history) pick(selects func(*modelObject) bool) (key remediation.Key, o *modelObject, ok bool) {
	keys := h.keys(selects)
	if len(keys) == 0 {
		return key, nil, false
	}
	key = keys[h.random.IntN(len(keys))]
	return key, h.objects[key], true
}

// lead lets a new leader begin. Patches under way are done or were never sent. It knows what the status says, and observes and
// decides all objects.
func (h *history) lead() {
	status := map[string]remediation.Waiting{}
	if h.budget != nil {
		for _, p := range h.policies {
			status[p.Name] = h.budget.Waiting(h.now, p.Name)
		}
	}
	for key, o := range h.objects {
		// The status has the objects that were moved to other clusters, but not what happened since it was written.
		var known map[int]bool
		if o.carrier.Reports && !o.movedBefore {
			known = maps.Clone(o.moved)
		}
		if o.patching != nil {
			if h.random.IntN(2) == 0 {
				h.patched(key, o)
			}
			// An earlier move may have failed. Its failure is known to the new leader, and this one is not.
			o.patching, o.movedAt = nil, time.Time{}
		}
		o.late, o.movedBefore = nil, len(known) == 0
		// It can't find out that a policy moved an object that it does not match any more.
		maps.DeleteFunc(o.moved, func(i int, _ bool) bool { return !known[i] && !slices.Contains(o.policies, i) })
	}
	h.led = h.now
	h.wake, h.budget = time.Time{}, remediation.NewScheduler(h.limits, h, func(string) bool { return false })
	// A replica knows the policies before it leads.
	for _, p := range h.policies {
		h.budget.PolicyChanged(h.now.Add(-time.Hour), p.Name, p.Policy)
		h.follow()
	}
	h.budget.Begin(h.now)
	for _, p := range h.policies {
		s := status[p.Name]
		h.budget.Resume(h.now, p.Name, remediation.Left{Generation: p.Generation, Moving: true, Moves: s.Moves, Failed: s.Failures, Pause: s.Pause, PausedIn: s.PausedIn})
	}
	h.observeAll(func(*modelObject) bool { return true })
	h.ready = h.keys(func(o *modelObject) bool { return len(o.due) > 0 })
}

// observeAll lets the budget observe all objects, and the reports of those that are selected.
func (h *history) observeAll(reported func(*modelObject) bool) {
	all := map[remediation.Key]remediation.Rollout{}
	for key, o := range h.objects {
		if !o.carrier.Reports {
			all[key], o.seen = o.rollout, o.rollout
		}
	}
	h.budget.ObserveAll(h.now, deployments, all)
	h.follow()
	for _, key := range h.keys(func(o *modelObject) bool { return o.carrier.Reports && reported(o) }) {
		o := h.objects[key]
		o.seen = o.rollout
		h.budget.Observe(h.now, key, o.observed(o.rollout))
		h.follow()
	}
}

func (h *history) run() error {
	for range 300 {
		if err := h.step(); err != nil {
			return err
		}
		if keys := h.budget.Misfiled(); len(keys) > 0 {
			return fmt.Errorf("objects wait by other rules than their own: %v", keys)
		}
	}
	return h.rest()
}

// rest runs until nothing happens any more. Everything heals, so everything is patched. No window of these policies is closed
// for longer than an hour.
func (h *history) rest() error {
	for _, o := range h.objects {
		o.refused = false
	}
	for end := h.now.Add(200 * time.Hour); ; {
		if err := h.heal(); err != nil {
			return err
		}
		if len(h.ready) > 0 {
			if err := h.try(); err != nil {
				return err
			}
			continue
		}
		if _, _, due := h.pick(func(o *modelObject) bool { return len(o.due) > 0 }); !due {
			return nil
		}
		if h.wake.IsZero() || h.now.After(end) {
			return fmt.Errorf("objects wait for ever: %v", h.keys(func(o *modelObject) bool { return len(o.due) > 0 }))
		}
		h.pass()
	}
}

// heal ends what is under way well.
func (h *history) heal() error {
	for _, key := range h.keys(func(*modelObject) bool { return true }) {
		o := h.objects[key]
		if o.patching != nil {
			if err := h.finish(key, o); err != nil {
				return err
			}
		}
		if !o.rollout.Ready {
			h.change(o, remediation.Rollout{Generation: o.rollout.Generation, Ready: true})
		}
		for len(o.late) > 0 {
			h.observe(key, o)
		}
	}
	// What was observed late may have been a failure.
	for _, p := range h.policies {
		h.resume(p)
		h.settle(p)
		h.pause(p.Name, false)
	}
	return nil
}

func (h *history) step() error {
	switch n := h.random.IntN(100); {
	case n < 20:
		h.add()
	case n < 50:
		if len(h.ready) > 0 {
			return h.try()
		}
		if !h.wake.IsZero() {
			h.pass()
		}
	case n < 65:
		if key, o, ok := h.pick(func(o *modelObject) bool { return o.patching != nil }); ok {
			return h.finish(key, o)
		}
	case n < 72:
		if _, o, ok := h.pick(func(o *modelObject) bool { return !o.rollout.Ready }); ok {
			next := remediation.Rollout{Generation: o.rollout.Generation, Ready: h.random.IntN(4) > 0}
			if !next.Ready && !o.carrier.Reports {
				next.Failure = "too late"
			}
			h.change(o, next)
		}
	case n < 85:
		if key, o, ok := h.pick(func(o *modelObject) bool { return len(o.late) > 0 }); ok {
			h.observe(key, o)
		}
	case n < 88:
		h.now = h.now.Add(time.Duration(h.random.Int64N(int64(20 * time.Second))))
	case n < 90:
		h.disturb()
	case n < 91:
		h.unwatch()
	case n < 93:
		h.resume(h.policies[h.random.IntN(len(h.policies))])
	case n < 96:
		h.settle(h.policies[h.random.IntN(len(h.policies))])
	case n < 97:
		h.pause(h.policies[h.random.IntN(len(h.policies))].Name, h.random.IntN(3) == 0)
	case n < 98:
		h.changePolicy(h.random.IntN(len(h.policies)))
	case n < 99:
		h.lead()
	default:
		return h.expire()
	}
	return nil
}

// expire lets time pass until each object has failed that was moved to other clusters and does not run there, under whatever leader. It
// returns an error if one has not.
func (h *history) expire() error {
	h.now = h.now.Add(placementv1.DefaultMoveTimeout)
	h.follow()
	for i, p := range h.policies {
		moves := h.budget.Waiting(h.now, p.Name).Moves
		for _, key := range h.keys(func(o *modelObject) bool {
			return o.moved[i] && o.carrier.Reports && !o.movedBefore && !o.movedAt.IsZero() && o.patching == nil
		}) {
			if !slices.ContainsFunc(moves, func(m remediation.Move) bool { return m.Name == key.Name && m.Deadline.IsZero() }) {
				return fmt.Errorf("policy %s moved %s at %s, and it has not failed by %s", p.Name, key, h.objects[key].movedAt, h.now)
			}
		}
	}
	return nil
}

// pause pauses a policy, or ends its pause.
func (h *history) pause(policy string, paused bool) {
	h.paused[policy] = paused
	h.budget.Reconsider()
	h.follow()
}

// changePolicy brings another generation of a policy into force, which may be a new policy with the same name. It may match other
// objects.
func (h *history) changePolicy(i int) {
	old := h.policies[i]
	h.policies[i] = h.policy(i, old.Generation+1)
	if h.random.IntN(3) == 0 {
		for _, key := range h.keys(func(o *modelObject) bool { return o.due[i] || o.moved[i] || slices.Contains(o.policies, i) }) {
			o := h.objects[key]
			delete(o.due, i)
			o.policies = slices.DeleteFunc(o.policies, func(p int) bool { return p == i })
			if o.movedBefore || !o.movedAt.After(h.led) {
				delete(o.moved, i)
			}
			h.recorded(key, o)
		}
		h.budget.PolicyChanged(h.now, old.Name, nil)
		h.follow()
		h.policies[i].Generation = 1
	}
	h.budget.PolicyChanged(h.now, h.policies[i].Name, h.policies[i].Policy)
	h.follow()
	for _, key := range h.keys(func(*modelObject) bool { return h.random.IntN(3) == 0 }) {
		o := h.objects[key]
		if matches := slices.Contains(o.policies, i); matches {
			o.policies = slices.DeleteFunc(o.policies, func(p int) bool { return p == i })
			delete(o.due, i)
			if o.movedBefore || !o.movedAt.After(h.led) {
				// As for lead: the present leader may not have known of the move yet.
				delete(o.moved, i)
			}
		} else {
			o.policies = append(o.policies, i)
		}
		h.recorded(key, o)
	}
}

// recorded declares that an object was decided.
func (h *history) recorded(key remediation.Key, o *modelObject) {
	h.budget.Decided(key, h.dueOf(o))
	h.follow()
	if len(o.due) == 0 && o.patching == nil {
		h.leave(key)
	}
}

// add creates an object, or makes an existing one due again.
func (h *history) add() {
	key, o, ok := h.pick(func(o *modelObject) bool { return len(o.due) == 0 && o.patching == nil })
	if !ok || h.random.IntN(2) == 0 {
		h.names++
		key = remediation.Key{Resource: deployments, Namespace: fmt.Sprint(h.random.IntN(3)), Name: fmt.Sprintf("%04d", h.names)}
		o = &modelObject{due: map[int]bool{}, moved: map[int]bool{}, refused: h.random.IntN(5) == 0}
		o.rollout = remediation.Rollout{UID: types.UID(key.Name), Generation: 1, Ready: h.random.IntN(5) > 0}
		o.carrier.Reports = h.random.IntN(2) == 0
		o.carrier.Surges = o.carrier.Reports && h.random.IntN(2) == 0
		for i := range h.policies {
			if h.random.IntN(2) == 0 {
				o.policies = append(o.policies, i)
			}
		}
		h.objects[key], o.seen = o, o.rollout
		h.budget.Observe(h.now, key, o.observed(o.rollout))
		h.follow()
	}
	for _, i := range o.policies {
		if h.random.IntN(2) == 0 {
			o.due[i] = h.random.IntN(2) == 0
		}
	}
	if len(o.due) > 0 {
		h.ready = append(h.ready, key)
	}
}

// unwatch ends the observation of rollouts, and begins it again.
func (h *history) unwatch() {
	h.budget.Unsettle()
	h.budget.ObserveAll(h.now, deployments, nil)
	h.follow()
	for _, o := range h.objects {
		if !o.carrier.Reports {
			// What was under way is not known any more, except by the status of the objects.
			o.late, o.moved = nil, map[int]bool{}
		}
	}
	h.observeAll(func(*modelObject) bool { return false })
}

// disturb makes an object unready for a reason of its own, not due any more, or deletes it.
func (h *history) disturb() {
	key, o, ok := h.pick(func(o *modelObject) bool { return o.patching == nil && len(o.late) == 0 })
	switch {
	case !ok:
	case h.random.IntN(3) == 0:
		o.rollout.Ready = false
		o.seen = o.rollout
		h.budget.Observe(h.now, key, o.observed(o.rollout))
		h.follow()
	case h.random.IntN(2) == 0:
		o.due = map[int]bool{}
		h.leave(key)
	default:
		h.leave(key)
		delete(h.objects, key)
		h.budget.Unobserve(key, false)
		h.follow()
		h.budget.Forget(h.now, key)
		h.follow()
	}
}

// leave declares that an object needs no patch any more.
func (h *history) leave(key remediation.Key) {
	for _, p := range h.policies {
		delete(p.failed, key)
	}
	h.budget.Decided(key, nil)
	h.follow()
}

// change changes an object's rollout. The budget observes it later.
func (h *history) change(o *modelObject, next remediation.Rollout) {
	next.UID = o.rollout.UID
	o.rollout = next
	o.late = append(o.late, next)
	if next.Ready || next.Failure != "" {
		o.moved = map[int]bool{}
	}
}

// observe lets the budget observe the next state of an object.
func (h *history) observe(key remediation.Key, o *modelObject) {
	next := o.late[0]
	o.late, o.seen = o.late[1:], next
	h.budget.Observe(h.now, key, o.observed(next))
	h.follow()
}

// settle declares that all objects are observed and decided.
func (h *history) settle(p *modelPolicy) {
	if settled, epoch := h.budget.Settled(p.Name); !settled {
		h.budget.Settle(h.now, p.Policy, []schema.GroupVersionResource{deployments}, epoch)
		h.follow()
	}
}

// resume releases a policy that is paused.
func (h *history) resume(p *modelPolicy) {
	if pause := h.budget.Waiting(h.now, p.Name).Pause; pause != "" {
		if !h.budget.Release(p.Name, pause) {
			panic("a pause can't be released")
		}
		p.failed = map[remediation.Key]bool{}
		h.follow()
	}
}

// follow does what the scheduler requires.
func (h *history) follow() {
	next := h.budget.Schedule(h.now)
	h.ready, h.wake = append(h.ready, next.Keys...), next.Wake
}

// pass lets time pass until Schedule must be called.
func (h *history) pass() {
	if h.wake.After(h.now) {
		h.now = h.wake
	}
	h.follow()
}

// dueOf returns the verdicts that require a patch of an object.
func (h *history) dueOf(o *modelObject) (out remediation.Due) {
	for _, i := range slices.Sorted(maps.Keys(o.due)) {
		if o.due[i] && o.carrier.Reports {
			out = append(out, movesFor(h.policies[i].Policy)...)
		} else if o.due[i] {
			out = append(out, rollsFor(h.policies[i].Policy)...)
		} else {
			out = append(out, dueFor(h.policies[i].Policy)...)
		}
	}
	return out
}

// try begins to patch the next object if the budget allows it.
func (h *history) try() error {
	key := h.ready[0]
	h.ready = h.ready[1:]
	o := h.objects[key]
	switch {
	case o == nil:
		h.budget.Forget(h.now, key)
		h.follow()
		return nil
	case o.patching != nil:
		return nil
	case len(o.due) == 0:
		h.leave(key)
		return nil
	case h.random.IntN(20) == 0:
		// Something else holds the patch, for a while.
		h.budget.Yield(key)
		h.follow()
		h.ready = append(h.ready, key)
		return nil
	}
	due := h.dueOf(o)
	ok, _ := h.budget.Ask(h.now, key, nil, due, o.carrier)
	h.follow()
	if !ok {
		return nil
	}
	err := h.allowed(key, o)
	o.patching = due
	return err
}

// allowed returns an error if an object must not be patched now. It counts the patch.
func (h *history) allowed(key remediation.Key, o *modelObject) error {
	counts := map[int]bool{}
	for i := range o.due {
		for _, j := range h.group(i) {
			counts[j] = true
		}
	}
	for j := range counts {
		h.policies[j].patched = append(h.policies[j].patched, h.now)
	}
	for i, rolls := range o.due {
		p := h.policies[i]
		if h.paused[p.Name] {
			return fmt.Errorf("a patch for policy %s, which is paused", p.Name)
		}
		if open, _ := p.Windows.Open(h.now); !open {
			return fmt.Errorf("a patch for policy %s at %s, when no window is open", p.Name, h.now)
		}
		failures := map[string]int{}
		for failed := range p.failed {
			failures[failed.Namespace]++
		}
		// What was refused in single namespaces is tried again.
		if scope, stops := containment.Of(failures, containment.LimitOf(p.Budget.PauseAfterFailures, containment.Never)); stops && scope.Includes(key.Namespace) && (scope.All() || !p.failed[key]) {
			return fmt.Errorf("a patch for policy %s in namespace %s after failures %v", p.Name, key.Namespace, failures)
		}
		for _, j := range h.group(i) {
			if err := within(h.policies[j].patched, int(h.policies[j].Budget.MaxPerMinute)); err != nil {
				return fmt.Errorf("policy %s: %w", h.policies[j].Name, err)
			}
		}
		if err := h.extent(key, o, i, rolls); err != nil {
			return err
		}
	}
	h.all = append(h.all, h.now)
	if err := within(h.all, h.limits.MaxPerMinute); err != nil {
		return fmt.Errorf("all policies: %w", err)
	}
	var moved int
	for k, other := range h.objects {
		moved += count(h.holdsOut(k, other, key.Namespace) && (other == o || other.patching != nil || len(other.moved) > 0 && h.knows(other)))
	}
	if h.limits.MaxConcurrent > 0 && moved > h.limits.MaxConcurrent {
		return fmt.Errorf("%d objects are moved, and %d are allowed", moved, h.limits.MaxConcurrent)
	}
	return nil
}

// knows reports whether the leader counts a move: it does not count for ever what an earlier one may have been moving, unless the status
// says that it was moved.
func (h *history) knows(o *modelObject) bool {
	return !o.movedBefore || h.now.Sub(h.led) < 10*time.Minute
}

// group returns the policies that share the bounds of a policy, and itself, by index.
func (h *history) group(i int) []int {
	out := []int{i}
	for j, p := range h.policies {
		if j != i && p.Budget.Group != "" && p.Budget.Group == h.policies[i].Budget.Group {
			out = append(out, j)
		}
	}
	return out
}

// extent returns an error if too many objects are moved or unavailable once a policy moves this one.
func (h *history) extent(key remediation.Key, o *modelObject, i int, rolls bool) error {
	p := h.policies[i]
	patchingFor := func(other *modelObject) bool { return slices.Contains(remediation.Names(other.patching), p.Name) }
	var moved, here, unavailable int
	for k, other := range h.objects {
		moves := other == o || slices.ContainsFunc(h.group(i), func(j int) bool {
			return slices.Contains(remediation.Names(other.patching), h.policies[j].Name) || other.moved[j] && h.knows(other)
		})
		moved += count(moves && h.holdsOut(k, other, key.Namespace))
		here += count(moves && k.Namespace == key.Namespace)
		unavailable += count(other.unavailable() && (slices.Contains(other.policies, i) && !other.rollout.Ready || patchingFor(other) && other.due[i] || other.moved[i] || other == o && rolls))
	}
	for _, j := range h.group(i) {
		bounds := h.policies[j].Budget
		if limit := int(bounds.MaxConcurrent); limit > 0 && moved > limit {
			return fmt.Errorf("policy %d: %d objects are moved, and %d are allowed", j, moved, limit)
		}
		if limit := int(bounds.PerNamespace); limit > 0 && here > limit {
			return fmt.Errorf("policy %d: %d objects of namespace %s are moved, and %d are allowed", j, here, key.Namespace, limit)
		}
	}
	// An object that is unavailable anyway may be patched. The API server refuses a patch of an object that became ready since
	// it was observed.
	if p.Budget.MaxUnavailable != nil && rolls && o.unavailable() && o.seen.Ready && len(o.moved)+len(o.late) == 0 {
		limit, _ := intstr.GetScaledValueFromIntOrPercent(p.Budget.MaxUnavailable, h.Matched(p.Name, []schema.GroupVersionResource{deployments}), false)
		if unavailable > max(1, limit) {
			return fmt.Errorf("policy %s: %d objects are unavailable, and %d are allowed", p.Name, unavailable, max(1, limit))
		}
	}
	return nil
}

// patched makes the changes of a patch under way.
func (h *history) patched(key remediation.Key, o *modelObject) {
	rolled := false
	for i, rolls := range o.due {
		if slices.Contains(remediation.Names(o.patching), h.policies[i].Name) {
			delete(o.due, i)
			delete(h.policies[i].failed, key)
			if rolls {
				rolled, o.moved[i], o.movedBefore, o.movedAt = true, true, false, h.now
			}
		}
	}
	if rolled {
		o.rollout = remediation.Rollout{UID: o.rollout.UID, Generation: o.rollout.Generation + 1}
	}
	o.late = append(o.late, o.rollout)
}

// finish ends a patch under way.
func (h *history) finish(key remediation.Key, o *modelObject) error {
	due, result := o.patching, remediation.Patch{}
	switch {
	case o.refused:
		result = remediation.Patch{Ending: remediation.Refused, Reason: "denied"}
		for i := range o.due {
			if p := h.policies[i]; slices.Contains(remediation.Names(due), p.Name) && p.Budget.PauseAfterFailures != nil {
				p.failed[key] = true
			}
		}
	case h.random.IntN(10) == 0:
		result.Ending = remediation.Failed
	case h.random.IntN(8) > 0:
		h.patched(key, o)
		// The watch may be faster than the answer.
		for len(o.late) > 0 && h.random.IntN(2) == 0 {
			h.observe(key, o)
		}
		at := o.observed(o.rollout)
		result = remediation.Patch{Ending: remediation.Made, UID: at.UID, Generation: at.Generation, Version: fmt.Sprint(o.rollout.Generation)}
	}
	o.patching = nil
	h.budget.Done(h.now, key, due, result)
	h.follow()
	if len(o.due) > 0 {
		h.ready = append(h.ready, key)
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

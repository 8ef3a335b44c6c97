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

package remediation

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// holdDown is how long the patches for a change of data wait after the patches for the previous change. It doubles
	// with each change, up to holdDownMax. It is reset after twice holdDownMax without a change.
	holdDown    = time.Second
	holdDownMax = 5 * time.Minute
	// retryDelay and retryDelayMax are the first and the longest delay before a failed patch is retried.
	retryDelay    = 200 * time.Millisecond
	retryDelayMax = 5 * time.Minute
	// refusedDelay is the first delay before a patch is retried that was refused for a reason of the object's own. The
	// longest delay is retryDelayMax.
	refusedDelay = 10 * time.Second
	// probeLimit is how long other patches wait for the result of a probe, the one patch that tests whether patches
	// succeed again.
	probeLimit = 30 * time.Second
	// toleratedObjects is how many objects of a policy in a namespace must fail in a row before objects that have not
	// failed wait, too. toleratedNamespaces is how many namespaces must fail before all objects of the policy wait.
	toleratedObjects, toleratedNamespaces = 3, 10
	// policyRetryDelayMax is the longest delay before a probe for a policy that fails in many namespaces.
	policyRetryDelayMax = 20 * time.Second
	// reportInterval is the minimum interval between two log messages about failing patches of a policy.
	reportInterval = time.Minute
)

// Gate decides when objects may be patched. It delays patches longer and longer while the data of their policy keeps
// changing. A patch that fails for a reason that other objects of the namespace may share holds up the policy's other
// patches in that namespace: one patch probes for all of them. If many namespaces fail, one patch probes for the whole
// policy. A patch that fails for a reason of the object's own is retried on its own, less and less often. The gate
// delays patches and never drops any, unless the decision on an object changes again after each patch. It is safe for
// concurrent use.
type Gate struct {
	// exempt reports whether changes of a policy's data are not held down.
	exempt func(policy string) bool

	mu       sync.Mutex
	policies map[string]*policyGate
	// refusals holds the delay before the next attempt for each object whose last patch was refused.
	refusals map[Key]time.Duration
	histories
}

// Place is where objects wait for the gate: for the patches of a policy, or of a policy in a namespace in which they
// fail. Delay is the time after which Open must be called with the place. It is 0 if no call is needed, because one is
// scheduled already or no object waits.
type Place struct {
	Delay     time.Duration
	policy    string
	failing   bool
	namespace string
}

// policyGate is the state of one policy.
type policyGate struct {
	waiters
	// revised is set when the data changed, until the next object is patched.
	revised bool
	// closed is set while patches wait for the hold-down.
	closed bool
	// acted is when objects were first patched for the last change of data. pace is the hold-down from then on.
	acted time.Time
	pace  time.Duration
	// namespaces holds the namespaces in which patches failed since the last success in any namespace.
	namespaces failureStreak[string]
	// failing holds the namespaces in which patches fail.
	failing map[string]*namespaceGate
	// reported is the time of the last log message about a failure.
	reported time.Time
}

// namespaceGate is the state of one policy's patches in one namespace in which they fail.
type namespaceGate struct {
	waiters
	// objects holds the objects whose patches failed since the last success in the namespace.
	objects failureStreak[Key]
}

// waiters holds the objects whose patch waits.
type waiters struct {
	held sets.Set[Key]
	// wakes is when Open must be called, or zero if no call is scheduled.
	wakes time.Time
}

// wait adds an object, and returns the delay after which Open must be called. It returns 0 if an earlier call is
// scheduled.
func (w *waiters) wait(key Key, until, now time.Time) time.Duration {
	if w.held == nil {
		w.held = sets.New[Key]()
	}
	w.held.Insert(key)
	if !w.wakes.IsZero() && !until.Before(w.wakes) {
		return 0
	}
	w.wakes = until
	return max(until.Sub(now), time.Millisecond)
}

// release removes all objects and returns them.
func (w *waiters) release() []Key {
	out := w.held.UnsortedList()
	clear(w.held)
	return out
}

// open returns the objects to try next. If some objects are fresh, only those are tried and the others wait for their
// result. Then wait is the delay after which Open must be called again; otherwise it is 0.
func (w *waiters) open(fresh func(Key) bool, now time.Time) (next []Key, wait time.Duration) {
	if w.wakes.IsZero() || now.Before(w.wakes) {
		// Another call opened it meanwhile, and scheduled the next one.
		return nil, 0
	}
	w.wakes = time.Time{}
	for key := range w.held {
		if fresh(key) {
			next = append(next, key)
		}
	}
	if len(next) == 0 {
		return w.release(), 0
	}
	w.held.Delete(next...)
	if len(w.held) == 0 {
		return next, 0
	}
	w.wakes = now.Add(probeLimit)
	return next, probeLimit
}

// turn returns when to try an object, given the time that a failure streak allows; zero means now. A failed object
// waits for Open if other objects wait, because some of those may not have failed.
func (w *waiters) turn(until time.Time, failed bool) time.Time {
	if until.IsZero() && failed && len(w.held) > 0 {
		return w.wakes
	}
	return until
}

// failureStreak counts failures since the last success.
type failureStreak[K comparable] struct {
	// members holds the objects or namespaces that failed.
	members sets.Set[K]
	// failed is when a probe failed last. pace is how long all patches wait after that. probed is when the current
	// probe started, or zero if there is none.
	failed, probed time.Time
	pace           time.Duration
}

// fail adds a failure. Failures of patches that ran at the same time lengthen the pace only once.
func (s *failureStreak[K]) fail(member K, now time.Time, maxPace time.Duration) {
	if s.members == nil {
		s.members = sets.New[K]()
	}
	s.members.Insert(member)
	s.probed = time.Time{}
	if !now.Before(s.failed.Add(s.pace)) {
		s.failed, s.pace = now, min(max(2*s.pace, retryDelay), maxPace)
	}
}

// until returns when the next probe may start, or zero if it may start now.
func (s *failureStreak[K]) until(now time.Time) time.Time {
	if until := s.failed.Add(s.pace); now.Before(until) {
		return until
	}
	if until := s.probed.Add(probeLimit); !s.probed.IsZero() && now.Before(until) {
		return until
	}
	return time.Time{}
}

// NewGate returns a gate. exempt reports whether changes of a policy's data are not held down; it must not call the
// gate.
func NewGate(exempt func(policy string) bool) *Gate {
	return &Gate{exempt: exempt, policies: map[string]*policyGate{}, refusals: map[Key]time.Duration{}, histories: newHistories()}
}

func (g *Gate) policyGate(name string) *policyGate {
	p, ok := g.policies[name]
	if !ok {
		p = &policyGate{failing: map[string]*namespaceGate{}}
		g.policies[name] = p
	}
	return p
}

// DataChanged records that the data of a policy changed.
func (g *Gate) DataChanged(policy string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policyGate(policy).revised = true
}

// Hold reports whether an object must not be patched now because of any of the policies. If so, the object waits at
// the place.
func (g *Gate) Hold(now time.Time, key Key, policies ...string) (held bool, at Place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range policies {
		p := g.policies[name]
		if p == nil {
			continue
		}
		if t := p.failing[key.Namespace]; t != nil {
			if until := t.until(key, now); !until.IsZero() {
				return true, Place{t.wait(key, until, now), name, true, key.Namespace}
			}
		}
		if until := g.until(key, name, p, now); !until.IsZero() {
			return true, Place{Delay: p.wait(key, until, now), policy: name}
		}
	}
	for _, name := range policies {
		p := g.policies[name]
		if p == nil {
			continue
		}
		if p.failsWidely() {
			p.namespaces.probed = now
		}
		if t := p.failing[key.Namespace]; t != nil {
			t.objects.probed = now
		}
	}
	return false, Place{}
}

// failsWidely reports whether a policy's patches fail in so many namespaces that they probably fail in all.
func (p *policyGate) failsWidely() bool { return len(p.namespaces.members) >= toleratedNamespaces }

// until returns when a patch of an object may be tried, or zero if it may be tried now.
func (t *namespaceGate) until(key Key, now time.Time) time.Time {
	if n := len(t.objects.members); n == 0 || n < toleratedObjects && !t.objects.members.Has(key) {
		return time.Time{}
	}
	return t.turn(t.objects.until(now), t.objects.members.Has(key))
}

// until returns when a policy's patch of an object may be tried, or zero if it may be tried now. The caller holds mu.
func (g *Gate) until(key Key, name string, p *policyGate, now time.Time) time.Time {
	if p.failsWidely() {
		if until := p.turn(p.namespaces.until(now), p.namespaces.members.Has(key.Namespace)); !until.IsZero() {
			return until
		}
	}
	if p.revised {
		p.revised = false
		switch p.closed = now.Before(p.acted.Add(p.pace)); {
		case !p.closed:
			if now.Sub(p.acted) > 2*holdDownMax {
				p.pace = 0
			}
			p.acted, p.pace = now, min(max(2*p.pace, holdDown), holdDownMax)
		case g.exempt(name):
			p.closed = false
		}
	}
	if p.closed {
		return p.acted.Add(p.pace)
	}
	return time.Time{}
}

// Open returns the objects that wait at a place and must be decided next, first those that have not failed. If one may
// still not be patched, Hold makes it wait again. The other objects go on waiting at the place that Open returns.
func (g *Gate) Open(now time.Time, at Place) ([]Key, Place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.policies[at.policy]
	if p == nil {
		return nil, Place{}
	}
	var next []Key
	if at.failing {
		t := p.failing[at.namespace]
		if t == nil {
			return nil, Place{}
		}
		next, at.Delay = t.open(func(key Key) bool { return !t.objects.members.Has(key) }, now)
		p.tidy(at.namespace)
		return next, at
	}
	if p.closed {
		p.closed, p.revised = false, true
	}
	next, at.Delay = p.open(func(key Key) bool { return !p.namespaces.members.Has(key.Namespace) }, now)
	return next, at
}

// tidy drops the state of a namespace in which no existing object has failed and no object waits.
func (p *policyGate) tidy(namespace string) {
	if t := p.failing[namespace]; t != nil && len(t.objects.members)+len(t.held) == 0 {
		delete(p.failing, namespace)
		p.namespaces.members.Delete(namespace)
	}
}

// Fail records that a patch failed for a reason that other objects may share. The object waits at the place. report is
// true if the failure should be logged.
func (g *Gate) Fail(now time.Time, key Key, policies ...string) (report bool, at Place) {
	g.mu.Lock()
	for _, name := range policies {
		p := g.policyGate(name)
		t := p.failing[key.Namespace]
		if t == nil {
			t = &namespaceGate{}
			p.failing[key.Namespace] = t
		}
		t.objects.fail(key, now, retryDelayMax)
		p.namespaces.fail(key.Namespace, now, policyRetryDelayMax)
		report = p.report(now) || report
	}
	g.mu.Unlock()
	_, at = g.Hold(now, key, policies...)
	return report, at
}

// report reports whether a failure should be logged now.
func (p *policyGate) report(now time.Time) bool {
	if !p.reported.IsZero() && now.Sub(p.reported) < reportInterval {
		return false
	}
	p.reported = now
	return true
}

// Refuse records that the API server refused a patch because of the object itself, such as an object that is invalid. policies
// are those whose decisions the patch would have applied. It returns the delay before the next attempt. report is true if the
// failure should be logged.
func (g *Gate) Refuse(now time.Time, key Key, policies ...string) (report bool, retry time.Duration) {
	g.Leave(key, policies...)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range policies {
		report = g.policyGate(name).report(now) || report
	}
	retry = min(max(2*g.refusals[key], refusedDelay), retryDelayMax)
	g.refusals[key] = retry
	return report, retry
}

// Leave ends a probe without a result: its patch neither succeeded nor failed for a shared reason.
func (g *Gate) Leave(key Key, policies ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range policies {
		p := g.policies[name]
		if p == nil {
			continue
		}
		p.namespaces.probed = time.Time{}
		if t := p.failing[key.Namespace]; t != nil {
			t.objects.probed = time.Time{}
		}
	}
}

// Succeed records that a patch succeeded. It returns the objects that waited for a success.
func (g *Gate) Succeed(key Key, policies ...string) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.refusals, key)
	var out []Key
	for _, name := range policies {
		p := g.policies[name]
		if p == nil {
			continue
		}
		if p.failsWidely() {
			out = append(out, p.release()...)
		}
		p.namespaces = failureStreak[string]{}
		if t := p.failing[key.Namespace]; t != nil {
			out = append(out, t.release()...)
			delete(p.failing, key.Namespace)
		}
	}
	return out
}

// Forget removes an object that does not exist any more.
func (g *Gate) Forget(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.refusals, key)
	delete(g.byKey, key)
	for _, p := range g.policies {
		p.held.Delete(key)
		if t := p.failing[key.Namespace]; t != nil {
			t.held.Delete(key)
			t.objects.members.Delete(key)
			p.tidy(key.Namespace)
		}
	}
}

// ForgetPolicy removes the state of a policy that changed or was deleted. It returns the objects that waited.
func (g *Gate) ForgetPolicy(name string) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.policies[name]
	if p == nil {
		return nil
	}
	delete(g.policies, name)
	out := p.release()
	for _, t := range p.failing {
		out = append(out, t.release()...)
	}
	return out
}

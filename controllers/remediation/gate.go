package remediation

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

const (
	// holdDown is how long after the patches for a change of data those for the next one wait. It doubles with each change,
	// up to holdDownMax, and starts again after twice that without a change.
	holdDown    = time.Second
	holdDownMax = 5 * time.Minute
	// retryPace is how soon a patch that failed is tried again, and retryPaceMax how soon at the latest.
	retryPace    = 200 * time.Millisecond
	retryPaceMax = 5 * time.Minute
	// refusedPace is how soon a patch is tried again that was refused for the object's own sake, and retryPaceMax how soon at
	// the latest.
	refusedPace = 10 * time.Second
	// probeLimit is how long the others wait for the one patch by which it is tried whether patches succeed again.
	probeLimit = 30 * time.Second
	// toleratedObjects is how many objects of a policy and namespace fail in a row before others that have not failed wait,
	// too, and toleratedNamespaces how many namespaces before all objects of the policy do.
	toleratedObjects, toleratedNamespaces = 3, 10
	// policyRetryPaceMax is how soon at the latest a patch of a policy is tried again that fails in many namespaces.
	policyRetryPaceMax = 20 * time.Second
	// reportPace is how often at most the log tells that a policy's patches fail.
	reportPace = time.Minute
)

// gate says when objects may be patched. Patches for data of a policy that keeps changing wait longer and longer. Patches
// that fail for a reason that other objects of the namespace may share hold up the policy's other patches in that namespace:
// one is tried for all of them. Where many namespaces fail, one patch of the policy is tried for all. It delays patches and
// never drops any. It is safe for concurrent use.
type gate struct {
	clock clock.Clock
	// exempt reports whether changes of a policy's data are not held down; it must not call the gate.
	exempt func(policy string) bool
	// changes are the hold-downs of changes of data by policy.
	changes *flowcontrol.Backoff

	mu       sync.Mutex
	policies map[string]*passage
}

// place is where objects wait: for their policy, or for their namespace, if its patches fail.
type place struct {
	policy    string
	failing   bool
	namespace string
}

// passage is one policy's.
type passage struct {
	waiters
	// revised says that the data has changed, and that no object was patched since.
	revised bool
	// closed says that patches wait for the hold-down.
	closed bool
	// acted is when objects were first patched for the last change of data.
	acted time.Time
	// namespaces are those in which patches failed since one succeeded anywhere.
	namespaces streak[string]
	// tenants are the namespaces in which patches fail.
	tenants map[string]*tenant
	// reported is when the log told of a failure last.
	reported time.Time
}

// tenant is one policy's patches in one namespace in which they fail.
type tenant struct {
	waiters
	// objects are those whose patches failed since one succeeded in the namespace.
	objects streak[remediation.Key]
}

// waiters are the objects whose patch waits.
type waiters struct {
	held map[remediation.Key]struct{}
	// wakes is when open is called; zero if that is not planned.
	wakes time.Time
}

// wait has an object wait, and returns after what time open is to be called; 0 if somebody does that already.
func (w *waiters) wait(key remediation.Key, until, now time.Time) time.Duration {
	if w.held == nil {
		w.held = map[remediation.Key]struct{}{}
	}
	w.held[key] = struct{}{}
	if !w.wakes.IsZero() && !until.Before(w.wakes) {
		return 0
	}
	w.wakes = until
	return max(until.Sub(now), time.Millisecond)
}

// release returns the objects that wait, which wait no more.
func (w *waiters) release() []remediation.Key {
	out := slices.Collect(maps.Keys(w.held))
	clear(w.held)
	return out
}

// open returns the objects that are looked at next. Where there are fresh ones, the others wait until it is known what
// becomes of those: then wait is after what time open is to be called for them.
func (w *waiters) open(fresh func(remediation.Key) bool, now time.Time) (next []remediation.Key, wait time.Duration) {
	if w.wakes.IsZero() || now.Before(w.wakes) {
		// Others opened it meanwhile, and will again.
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
	for _, key := range next {
		delete(w.held, key)
	}
	if len(w.held) == 0 {
		return next, 0
	}
	w.wakes = now.Add(probeLimit)
	return next, probeLimit
}

// turn returns when an object is tried that would be at some time; zero for now. One that has failed waits for open if others
// wait: there may be some among them that have not.
func (w *waiters) turn(until time.Time, failed bool) time.Time {
	if until.IsZero() && failed && len(w.held) > 0 {
		return w.wakes
	}
	return until
}

// streak is failures without a success between them.
type streak[K comparable] struct {
	// members are those that failed.
	members map[K]struct{}
	// failed is when one failed last that was tried for all, pace how long all wait after it, and probed when one was tried
	// last for all others; zero if none is under way.
	failed, probed time.Time
	pace           time.Duration
}

func (s *streak[K]) has(member K) bool {
	_, ok := s.members[member]
	return ok
}

// fail adds a failure. Several ones of patches that were under way together count as one.
func (s *streak[K]) fail(member K, now time.Time, maxPace time.Duration) {
	if s.members == nil {
		s.members = map[K]struct{}{}
	}
	s.members[member] = struct{}{}
	s.probed = time.Time{}
	if !now.Before(s.failed.Add(s.pace)) {
		s.failed, s.pace = now, min(max(2*s.pace, retryPace), maxPace)
	}
}

// until returns when the next is tried for all; zero if it may be tried now.
func (s *streak[K]) until(now time.Time) time.Time {
	if until := s.failed.Add(s.pace); now.Before(until) {
		return until
	}
	if until := s.probed.Add(probeLimit); !s.probed.IsZero() && now.Before(until) {
		return until
	}
	return time.Time{}
}

func newGate(c clock.Clock, exempt func(policy string) bool) *gate {
	out := &gate{clock: c, exempt: exempt, policies: map[string]*passage{}, changes: flowcontrol.NewBackOff(holdDown, holdDownMax)}
	out.changes.Clock = c
	return out
}

func (g *gate) passage(name string) *passage {
	p, ok := g.policies[name]
	if !ok {
		p = &passage{tenants: map[string]*tenant{}}
		g.policies[name] = p
	}
	return p
}

// changed says that the data of a policy has changed.
func (g *gate) changed(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passage(name).revised = true
}

// hold reports whether an object must not be patched now by the policies of some verdicts. Then wait is after what time
// open is to be called with the place; 0 if somebody does that already.
func (g *gate) hold(key remediation.Key, due []*placement.Verdict) (held bool, at place, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	for _, v := range due {
		name := v.Policy.Name
		p := g.policies[name]
		if p == nil {
			continue
		}
		if t := p.tenants[key.Namespace]; t != nil {
			if until := t.until(key, now); !until.IsZero() {
				return true, place{policy: name, failing: true, namespace: key.Namespace}, t.wait(key, until, now)
			}
		}
		if until := g.until(key, name, p, now); !until.IsZero() {
			return true, place{policy: name}, p.wait(key, until, now)
		}
	}
	for _, v := range due {
		p := g.policies[v.Policy.Name]
		if p == nil {
			continue
		}
		if p.failsWidely() {
			p.namespaces.probed = now
		}
		if t := p.tenants[key.Namespace]; t != nil {
			t.objects.probed = now
		}
	}
	return false, place{}, 0
}

// failsWidely reports whether a policy's patches fail in so many namespaces that they probably fail in all.
func (p *passage) failsWidely() bool { return len(p.namespaces.members) >= toleratedNamespaces }

// until returns when an object may be tried; zero if it may be now.
func (t *tenant) until(key remediation.Key, now time.Time) time.Time {
	if n := len(t.objects.members); n == 0 || n < toleratedObjects && !t.objects.has(key) {
		return time.Time{}
	}
	return t.turn(t.objects.until(now), t.objects.has(key))
}

// until returns when the passage of a policy opens for an object; zero if it is open. The caller holds mu.
func (g *gate) until(key remediation.Key, name string, p *passage, now time.Time) time.Time {
	if p.failsWidely() {
		if until := p.turn(p.namespaces.until(now), p.namespaces.has(key.Namespace)); !until.IsZero() {
			return until
		}
	}
	if p.revised {
		p.revised = false
		switch p.closed = g.changes.IsInBackOffSinceUpdate(name, now); {
		case !p.closed:
			g.changes.Next(name, now)
			p.acted = now
		case g.exempt(name):
			p.closed = false
		}
	}
	if p.closed {
		return p.acted.Add(g.changes.Get(name))
	}
	return time.Time{}
}

// open returns the objects that waited at a place and are looked at next: those first that have not failed. Those that may
// not be patched yet wait again. If wait is not 0, open is to be called again after that time.
func (g *gate) open(at place) (next []remediation.Key, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.policies[at.policy]
	if p == nil {
		return nil, 0
	}
	now := g.clock.Now()
	if at.failing {
		t := p.tenants[at.namespace]
		if t == nil {
			return nil, 0
		}
		next, wait = t.open(func(key remediation.Key) bool { return !t.objects.has(key) }, now)
		p.tidy(at.namespace)
		return next, wait
	}
	if p.closed {
		p.closed, p.revised = false, true
	}
	return p.open(func(key remediation.Key) bool { return !p.namespaces.has(key.Namespace) }, now)
}

// tidy forgets a namespace in which no object has failed that exists, and none waits.
func (p *passage) tidy(namespace string) {
	if t := p.tenants[namespace]; t != nil && len(t.objects.members)+len(t.held) == 0 {
		delete(p.tenants, namespace)
		delete(p.namespaces.members, namespace)
	}
}

// fail says that a patch failed as those of other objects may. report says that the log is to tell of it.
func (g *gate) fail(key remediation.Key, due []*placement.Verdict) (report bool, at place, wait time.Duration) {
	g.mu.Lock()
	now := g.clock.Now()
	for _, v := range due {
		p := g.passage(v.Policy.Name)
		t := p.tenants[key.Namespace]
		if t == nil {
			t = &tenant{}
			p.tenants[key.Namespace] = t
		}
		t.objects.fail(key, now, retryPaceMax)
		p.namespaces.fail(key.Namespace, now, policyRetryPaceMax)
		report = p.report(now) || report
	}
	g.mu.Unlock()
	_, at, wait = g.hold(key, due)
	return report, at, wait
}

// report reports whether the log is to tell of a failure.
func (p *passage) report(now time.Time) bool {
	if !p.reported.IsZero() && now.Sub(p.reported) < reportPace {
		return false
	}
	p.reported = now
	return true
}

// refused says that a patch failed for a reason of the object's own, and reports whether the log is to tell of it.
func (g *gate) refused(key remediation.Key, due []*placement.Verdict) (report bool) {
	g.leave(key, due)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range due {
		report = g.passage(v.Policy.Name).report(g.clock.Now()) || report
	}
	return report
}

// leave says that a patch came to nothing, which says nothing of others.
func (g *gate) leave(key remediation.Key, due []*placement.Verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range due {
		p := g.policies[v.Policy.Name]
		if p == nil {
			continue
		}
		p.namespaces.probed = time.Time{}
		if t := p.tenants[key.Namespace]; t != nil {
			t.objects.probed = time.Time{}
		}
	}
}

// succeed says that a patch succeeded. It returns the objects that waited for that.
func (g *gate) succeed(key remediation.Key, due []*placement.Verdict) []remediation.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []remediation.Key
	for _, v := range due {
		p := g.policies[v.Policy.Name]
		if p == nil {
			continue
		}
		if p.failsWidely() {
			out = append(out, p.release()...)
		}
		p.namespaces = streak[string]{}
		if t := p.tenants[key.Namespace]; t != nil {
			out = append(out, t.release()...)
			delete(p.tenants, key.Namespace)
		}
	}
	return out
}

// drop forgets an object that is gone.
func (g *gate) drop(key remediation.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.policies {
		delete(p.held, key)
		if t := p.tenants[key.Namespace]; t != nil {
			delete(t.held, key)
			delete(t.objects.members, key)
			p.tidy(key.Namespace)
		}
	}
}

// forget forgets a policy, which is another one now or gone. It returns the objects that waited.
func (g *gate) forget(name string) []remediation.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.policies[name]
	if p == nil {
		return nil
	}
	delete(g.policies, name)
	g.changes.DeleteEntry(name)
	out := p.release()
	for _, t := range p.tenants {
		out = append(out, t.release()...)
	}
	return out
}

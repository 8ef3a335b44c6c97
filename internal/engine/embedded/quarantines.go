package embedded

import (
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/engine"
)

const (
	// namespacesForAll is how many namespaces have to be in quarantine at once for the policy to be: one tenant's objects
	// say nothing of what the policy does with those of others.
	namespacesForAll = 3
	// maxQuarantines bounds the namespaces that are remembered for one policy.
	maxQuarantines = 256
)

// quarantines keep a policy from being evaluated where it keeps running into its deadline: for the objects of a namespace,
// or for all objects, once several namespaces are in quarantine or objects in no namespace were the reason. They are safe
// for concurrent use.
type quarantines struct {
	clock clock.PassiveClock
	// all is the policy's own. Evaluations of objects in no namespace count there.
	all quarantine

	mu sync.Mutex
	// namespaces are those of which evaluations ran into their deadline lately.
	namespaces map[string]*namespaced
	uses       uint64
}

// namespaced is a namespace's quarantine.
type namespaced struct {
	quarantine
	// used is when it was last used, by a count.
	used uint64
}

// admission is the right to one evaluation.
type admission struct {
	namespace string
	// own is the namespace's quarantine; nil if it has none yet.
	own *namespaced
	// trial and ownTrial say that the evaluation is a trial, for the policy and for the namespace.
	trial, ownTrial bool
}

// admit lets an evaluation of an object in a namespace take place. Each that is admitted has to settle. The error is an
// *engine.QuarantinedError.
func (q *quarantines) admit(namespace string) (admission, error) {
	a := admission{namespace: namespace, own: q.of(namespace)}
	var err error
	if a.own != nil {
		if a.ownTrial, err = a.own.admit(); err != nil {
			return a, inNamespace(err, namespace)
		}
	}
	if a.trial, err = q.all.admit(); err != nil {
		if a.own != nil {
			a.own.settle(a.ownTrial, untold)
		}
		return a, err
	}
	return a, nil
}

// stands is the error of a quarantine that began after the evaluation was admitted.
func (q *quarantines) stands(a admission) error {
	if err := q.all.stands(); err != nil && !a.trial {
		return err
	}
	if own := q.of(a.namespace); own != nil && !a.ownTrial {
		return inNamespace(own.stands(), a.namespace)
	}
	return nil
}

// inNamespace is the error of a namespace's quarantine.
func inNamespace(err error, namespace string) error {
	if refusal, ok := errors.AsType[*engine.QuarantinedError](err); ok {
		refusal.Namespace = namespace
	}
	return err
}

// settle says how an evaluation that was admitted went, and returns whether that began or ended a quarantine of the
// policy, and of the namespace.
func (q *quarantines) settle(a admission, o outcome) (began, left, beganHere, leftHere bool) {
	if a.namespace == "" {
		began, left = q.all.settle(a.trial, o)
		return began, left, false, false
	}
	if a.own == nil && o == overdue {
		a.own = q.remember(a.namespace)
	}
	if a.own != nil {
		beganHere, leftHere = a.own.settle(a.ownTrial, o)
	}
	if a.trial {
		_, left = q.all.settle(true, o)
	}
	if beganHere && q.Namespaces() >= namespacesForAll {
		began = q.all.begin()
	}
	return began, left, beganHere, leftHere
}

// of returns a namespace's quarantine; nil if it has none.
func (q *quarantines) of(namespace string) *namespaced {
	if namespace == "" {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.namespaces[namespace]
	if own != nil {
		q.uses++
		own.used = q.uses
	}
	return own
}

// remember returns a namespace's quarantine, and forgets the one that was used longest ago if there are too many: one
// that is over, if there is one.
func (q *quarantines) remember(namespace string) *namespaced {
	q.mu.Lock()
	defer q.mu.Unlock()
	if own := q.namespaces[namespace]; own != nil {
		return own
	}
	if q.namespaces == nil {
		q.namespaces = map[string]*namespaced{}
	}
	for len(q.namespaces) >= maxQuarantines {
		delete(q.namespaces, q.oldest())
	}
	q.uses++
	own := &namespaced{quarantine: quarantine{clock: q.clock}, used: q.uses}
	q.namespaces[namespace] = own
	return own
}

// oldest is the namespace to forget. The caller holds the lock.
func (q *quarantines) oldest() string {
	var out string
	var used uint64
	idle := false
	for name, own := range q.namespaces {
		_, busy := own.quarantined()
		if out == "" || !busy && !idle || busy != idle && own.used < used {
			out, used, idle = name, own.used, !busy
		}
	}
	return out
}

// Namespaces is how many namespaces are in quarantine.
func (q *quarantines) Namespaces() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, own := range q.namespaces {
		if _, ok := own.quarantined(); ok {
			n++
		}
	}
	return n
}

// abandon says that an evaluation was given up and runs on, and back, with what abandon returned, that it has ended after
// all.
func (q *quarantines) abandon(a admission) admission {
	if a.own == nil && a.namespace != "" {
		a.own = q.remember(a.namespace)
	}
	q.count(a, 1)
	return a
}

func (q *quarantines) back(a admission) { q.count(a, -1) }

func (q *quarantines) count(a admission, n int) {
	q.all.count(n)
	if a.own != nil {
		a.own.count(n)
	}
}

// begin begins the quarantine, and reports whether there was none.
func (q *quarantine) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.since.IsZero() {
		return false
	}
	q.since, q.pause = q.clock.Now(), quarantinePause
	q.until = q.since.Add(q.pause)
	return true
}

// quarantined says since when the policy is, for all objects.
func (q *quarantines) quarantined() (since time.Time, ok bool) { return q.all.quarantined() }

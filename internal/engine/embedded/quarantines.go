package embedded

import (
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/engine"
)

const (
	// namespacesForAll is the number of namespaces that must be in quarantine at the same time before the whole policy is.
	// The objects of one tenant alone don't show how the policy performs on the objects of others.
	namespacesForAll = 3
	// maxQuarantines is the maximum number of namespaces that are tracked for one policy.
	maxQuarantines = 256
)

// quarantines is the quarantine state of one policy. A quarantine stops evaluations that keep exceeding their deadline.
// It covers the objects of one namespace. It covers all objects once several namespaces are in quarantine, or if the
// evaluations were of objects in no namespace. It is safe for concurrent use.
type quarantines struct {
	clock clock.PassiveClock
	// all is the quarantine that covers all objects. Evaluations of objects in no namespace count here.
	all quarantine

	mu sync.Mutex
	// namespaces are the quarantines of namespaces in which evaluations exceeded their deadline recently.
	namespaces map[string]*namespaced
	uses       uint64
}

// namespaced is the quarantine of one namespace.
type namespaced struct {
	quarantine
	// used is the value of quarantines.uses at the last use.
	used uint64
}

// admission is the permission for one evaluation.
type admission struct {
	namespace string
	// own is the namespace's quarantine; nil if the namespace has none yet.
	own *namespaced
	// trial and ownTrial report whether the evaluation is a trial for the policy, and for the namespace.
	trial, ownTrial bool
}

// admit admits an evaluation of an object in a namespace. The caller must call settle for each admitted evaluation. The
// error is an *engine.QuarantinedError.
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

// stands returns the error of a quarantine that began after the evaluation was admitted; nil if there is none.
func (q *quarantines) stands(a admission) error {
	if err := q.all.stands(); err != nil && !a.trial {
		return err
	}
	if own := q.of(a.namespace); own != nil && !a.ownTrial {
		return inNamespace(own.stands(), a.namespace)
	}
	return nil
}

// inNamespace sets the namespace of a quarantine's error and returns it.
func inNamespace(err error, namespace string) error {
	if refusal, ok := errors.AsType[*engine.QuarantinedError](err); ok {
		refusal.Namespace = namespace
	}
	return err
}

// settle records the outcome of an admitted evaluation. It returns whether that began or ended the policy's quarantine,
// and whether it began or ended the namespace's.
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

// remember returns a namespace's quarantine and creates it if needed. If there are too many, it removes the least
// recently used one, preferably of a namespace that is not in quarantine.
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

// oldest returns the namespace to remove. The caller holds the lock.
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

// Namespaces returns the number of namespaces that are in quarantine.
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

// abandon counts an evaluation that was abandoned and still runs. When that evaluation has ended, the caller passes the
// returned admission to back.
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

// begin starts the quarantine. It returns false if one is already in force.
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

// quarantined returns since when the policy has been in quarantine for all objects.
func (q *quarantines) quarantined() (since time.Time, ok bool) { return q.all.quarantined() }

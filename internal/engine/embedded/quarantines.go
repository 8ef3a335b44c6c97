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

package embedded

import (
	"errors"
	"sync"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/engine"
)

// maxQuarantines is the maximum number of namespaces that are tracked for one policy.
const maxQuarantines = 256

// quarantines is the quarantine state of one policy. A quarantine stops evaluations that keep exceeding their deadline.
// It covers the objects of one namespace. It covers all objects once several namespaces are in quarantine, or if the
// evaluations were of objects in no namespace. It is safe for concurrent use.
type quarantines struct {
	clock clock.PassiveClock
	// wholePolicy is the quarantine that covers all objects. Evaluations of objects in no namespace count here.
	wholePolicy quarantine

	mu sync.Mutex
	// namespaces are the quarantines of namespaces in which evaluations exceeded their deadline recently.
	namespaces map[string]*namespaceQuarantine
	uses       uint64
}

// namespaceQuarantine is the quarantine of one namespace.
type namespaceQuarantine struct {
	quarantine
	// used is the value of quarantines.uses at the last use.
	used uint64
}

// admission is the permission for one evaluation.
type admission struct {
	namespace string
	// namespaceQuarantine is the namespace's quarantine; nil if the namespace has none yet.
	namespaceQuarantine *namespaceQuarantine
	// trial and namespaceTrial report whether the evaluation is a trial for the policy, and for the namespace.
	trial, namespaceTrial bool
}

// admit admits an evaluation of an object in a namespace. The caller must call recordOutcome for each admitted
// evaluation. The error is an *engine.QuarantinedError.
func (q *quarantines) admit(namespace string) (admission, error) {
	a := admission{namespace: namespace, namespaceQuarantine: q.find(namespace)}
	var err error
	if a.namespaceQuarantine != nil {
		if a.namespaceTrial, err = a.namespaceQuarantine.admit(); err != nil {
			return a, withNamespace(err, namespace)
		}
	}
	if a.trial, err = q.wholePolicy.admit(); err != nil {
		if a.namespaceQuarantine != nil {
			a.namespaceQuarantine.recordOutcome(a.namespaceTrial, outcomeUnknown)
		}
		return a, err
	}
	return a, nil
}

// inForceError returns the error of a quarantine that began after the evaluation was admitted; nil if there is none.
func (q *quarantines) inForceError(a admission) error {
	if err := q.wholePolicy.inForceError(); err != nil && !a.trial {
		return err
	}
	if own := q.find(a.namespace); own != nil && !a.namespaceTrial {
		return withNamespace(own.inForceError(), a.namespace)
	}
	return nil
}

// withNamespace sets the namespace of a quarantine's error and returns it.
func withNamespace(err error, namespace string) error {
	if refusal, ok := errors.AsType[*engine.QuarantinedError](err); ok {
		refusal.Namespace = namespace
	}
	return err
}

// recordOutcome records the outcome of an admitted evaluation. It returns whether that began or ended the policy's
// quarantine, and whether it began or ended the namespace's.
func (q *quarantines) recordOutcome(a admission, o outcome) (began, ended, namespaceBegan, namespaceEnded bool) {
	if a.namespace == "" {
		began, ended = q.wholePolicy.recordOutcome(a.trial, o)
		return began, ended, false, false
	}
	if a.namespaceQuarantine == nil && o == outcomeTimedOut {
		a.namespaceQuarantine = q.findOrCreate(a.namespace)
	}
	if a.namespaceQuarantine != nil {
		namespaceBegan, namespaceEnded = a.namespaceQuarantine.recordOutcome(a.namespaceTrial, o)
	}
	if a.trial {
		_, ended = q.wholePolicy.recordOutcome(true, o)
	}
	if namespaceBegan && q.namespacesInForce() >= containment.Namespaces {
		began = q.wholePolicy.begin()
	}
	return began, ended, namespaceBegan, namespaceEnded
}

// find returns a namespace's quarantine; nil if it has none.
func (q *quarantines) find(namespace string) *namespaceQuarantine {
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

// findOrCreate returns a namespace's quarantine and creates it if needed. If there are too many, it removes the least
// recently used one, preferably of a namespace that is not in quarantine.
func (q *quarantines) findOrCreate(namespace string) *namespaceQuarantine {
	q.mu.Lock()
	defer q.mu.Unlock()
	if own := q.namespaces[namespace]; own != nil {
		return own
	}
	if q.namespaces == nil {
		q.namespaces = map[string]*namespaceQuarantine{}
	}
	for len(q.namespaces) >= maxQuarantines {
		delete(q.namespaces, q.evictionCandidate())
	}
	q.uses++
	own := &namespaceQuarantine{quarantine: quarantine{clock: q.clock}, used: q.uses}
	q.namespaces[namespace] = own
	return own
}

// evictionCandidate returns the namespace to remove. The caller holds the lock.
func (q *quarantines) evictionCandidate() string {
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

// namespacesInForce returns the number of namespaces that are in quarantine.
func (q *quarantines) namespacesInForce() int {
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

// markAbandoned counts an evaluation that was abandoned and still runs. When that evaluation has ended, the caller
// passes the returned admission to abandonedEnded.
func (q *quarantines) markAbandoned(a admission) admission {
	if a.namespaceQuarantine == nil && a.namespace != "" {
		a.namespaceQuarantine = q.findOrCreate(a.namespace)
	}
	q.count(a, 1)
	return a
}

func (q *quarantines) abandonedEnded(a admission) { q.count(a, -1) }

func (q *quarantines) count(a admission, n int) {
	q.wholePolicy.count(n)
	if a.namespaceQuarantine != nil {
		a.namespaceQuarantine.count(n)
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

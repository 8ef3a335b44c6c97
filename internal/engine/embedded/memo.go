package embedded

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/internal/placement"
)

const (
	// memoBytes bounds what the memo of one policy holds, twice over: the older half goes when the younger is full.
	memoBytes = 512 << 10
	// entryBytes is about what an entry takes besides its key and its decision's text.
	entryBytes = 200
	// checkEvery is how many hits there are to a check. The first hits are checked more often, at powers of two: a
	// mistake shows early or hardly ever.
	checkEvery = 1024
)

// Observer is told what becomes of decisions that are remembered, and of policies that run too long. Implementations are
// safe for concurrent use and return at once.
type Observer interface {
	// MemoHit says that a decision was known.
	MemoHit()
	// MemoMiss says that a decision was not known, and is evaluated.
	MemoMiss()
	// MemoRules says how many rules an evaluation asked for whose values were known, and how many it had to evaluate
	// among those that may be known.
	MemoRules(known, evaluated int)
	// MemoMismatch says that a policy decided otherwise on an object than on what was thought to be all that it reads
	// of it. Nothing of the policy is remembered any more.
	MemoMismatch(policy string)
	// Quarantined says that a policy is not evaluated for a while, since it kept running into its deadline.
	Quarantined(policy string)
	// Released says that a trial ended the quarantine.
	Released(policy string)
}

// nobody is an Observer that does not mind.
type nobody struct{}

func (nobody) MemoHit()            {}
func (nobody) MemoMiss()           {}
func (nobody) MemoRules(int, int)  {}
func (nobody) MemoMismatch(string) {}
func (nobody) Quarantined(string)  {}
func (nobody) Released(string)     {}

// memo remembers the decisions of one policy at one revision of its data, by the key of what the policy reads of its
// input. Decisions that are remembered are shared, and never changed. It is safe for concurrent use.
//
// It has two generations in place of an order of use: a look-up then writes nothing, and needs no text for the key, as
// the caches of libraries do.
type memo struct {
	mu         sync.RWMutex
	revision   uint64
	young, old map[string]placement.Decision
	size       int

	hits atomic.Uint64
	// off says that the policy reads more than its key has.
	off atomic.Bool
}

// get returns the decision for a key, if it is known, and whether it is to be checked.
func (m *memo) get(revision uint64, key []byte) (d placement.Decision, check, ok bool) {
	d, young, ok := m.find(revision, key)
	if !ok {
		return d, false, false
	}
	if !young {
		m.put(revision, key, d)
	}
	return d, sampled(m.hits.Add(1), checkEvery), true
}

// sampled says whether the n-th use of what is remembered is checked, if one of so many is.
func sampled(n, every uint64) bool {
	return n%every == 0 || n < every && n&(n-1) == 0
}

func (m *memo) find(revision uint64, key []byte) (d placement.Decision, young, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.revision != revision {
		return d, false, false
	}
	if d, ok = m.young[string(key)]; ok {
		return d, true, true
	}
	d, ok = m.old[string(key)]
	return d, false, ok
}

// put remembers a decision. Revisions grow: what was decided at an older one is of no use any more.
func (m *memo) put(revision uint64, key []byte, d placement.Decision) {
	size := entryBytes + len(key) + textBytes(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision < m.revision || size > memoBytes {
		return
	}
	if revision > m.revision {
		m.revision, m.young, m.old, m.size = revision, nil, nil, 0
	}
	if _, known := m.young[string(key)]; known {
		return
	}
	if m.young == nil || m.size+size > memoBytes {
		m.old, m.young, m.size = m.young, map[string]placement.Decision{}, 0
	}
	m.young[string(key)] = d
	m.size += size
}

func textBytes(d placement.Decision) int {
	n := 0
	for _, pairs := range []map[string]string{d.Annotations, d.Labels} {
		for k, v := range pairs {
			n += len(k) + len(v)
		}
	}
	for _, messages := range [][]string{d.Errors, d.Warnings} {
		for _, message := range messages {
			n += len(message)
		}
	}
	return n
}

func equalDecisions(a, b placement.Decision) bool {
	return maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Labels, b.Labels) &&
		slices.Equal(a.Errors, b.Errors) && slices.Equal(a.Warnings, b.Warnings)
}

package embedded

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/predicates"
)

const (
	// memoBytes bounds what the memo of one policy holds, twice over: the older half goes when the younger is full.
	memoBytes = 512 << 10
	// reportsBytes is the bound for a policy that asks predicates about nodes, where what they said is remembered with the
	// decision: room for some 150 decisions on 5,000 nodes. Where there are more to be decided in turn, none is found
	// again, and all are evaluated after each change of the world.
	reportsBytes = 32 << 20
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
	// NamespaceQuarantined says that a policy is not evaluated for a while on the objects of a namespace, since it kept
	// running into its deadline on those, or that a trial ended that.
	NamespaceQuarantined(policy, namespace string, began bool)
	// Released says that a trial ended the quarantine.
	Released(policy string)
}

// nobody is an Observer that does not mind.
type nobody struct{}

func (nobody) MemoHit()           {}
func (nobody) MemoMiss()          {}
func (nobody) MemoRules(int, int) {}

func (nobody) NamespaceQuarantined(string, string, bool) {}

func (nobody) MemoMismatch(string) {}
func (nobody) Quarantined(string)  {}
func (nobody) Released(string)     {}

// remembered is a decision, with what predicates said on which it rests. It is immutable but for the moment for which it
// was last found to hold.
type remembered struct {
	decision placement.Decision
	// reports are those on nodes: what was asked, and what the predicates said.
	reports []*predicates.Report
	// nodes is the revision of the world of nodes.
	nodes atomic.Uint64
}

func newRemembered(at moment, a answer) *remembered {
	out := &remembered{decision: a.decision, reports: a.reports}
	out.found(at)
	return out
}

// found notes that it holds at a moment.
func (r *remembered) found(at moment) {
	if at.nodes != nil {
		r.nodes.Store(at.nodes.Revision())
	}
}

// holds says whether it is known to hold at a moment that has the same data.
func (r *remembered) holds(at moment) bool {
	return len(r.reports) == 0 || at.nodes != nil && r.nodes.Load() == at.nodes.Revision()
}

// again asks the predicates again, and says whether they say the same. If they fail, that is for the evaluation to find.
func (r *remembered) again(ctx context.Context, set *predicates.Set, at moment) bool {
	for _, report := range r.reports {
		if next, err := set.Again(ctx, at.nodes, report); err != nil || next != report {
			return false
		}
	}
	return true
}

// size is about what it takes.
func (r *remembered) size() int {
	n := entryBytes + predicates.SizeOf(r.reports)
	d := r.decision
	for _, pairs := range []map[string]string{d.Annotations, d.Labels, d.Scheduling} {
		for k, v := range pairs {
			n += len(k) + len(v)
		}
	}
	for _, texts := range [][]string{d.Clusters, d.Errors, d.Warnings} {
		for _, text := range texts {
			n += len(text)
		}
	}
	return n
}

// memo remembers the decisions of one policy at one revision of its data, by the key of what the policy reads of its
// input. Decisions that are remembered are shared, and never changed. It is safe for concurrent use.
//
// It has two generations in place of an order of use: a look-up then writes nothing, and needs no text for the key, as
// the caches of libraries do.
type memo struct {
	// limit is how much each generation holds, in bytes.
	limit int

	mu         sync.RWMutex
	revision   uint64
	young, old map[string]*remembered
	size       int

	hits atomic.Uint64
	// off says that the policy reads more than its key has.
	off atomic.Bool
}

// get returns what is remembered for a key; nil for nothing.
func (m *memo) get(revision uint64, key []byte) *remembered {
	r, young := m.find(revision, key)
	if r != nil && !young {
		m.put(revision, key, r)
	}
	return r
}

// sample counts a use of what is remembered, and says whether to check it.
func (m *memo) sample() bool { return sampled(m.hits.Add(1), checkEvery) }

// sampled says whether the n-th use of what is remembered is checked, if one of so many is.
func sampled(n, every uint64) bool {
	return n%every == 0 || n < every && n&(n-1) == 0
}

func (m *memo) find(revision uint64, key []byte) (r *remembered, young bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.revision != revision {
		return nil, false
	}
	if r, young = m.young[string(key)]; young {
		return r, true
	}
	return m.old[string(key)], false
}

// put remembers a decision. Revisions grow: what was decided at an older one is of no use any more.
func (m *memo) put(revision uint64, key []byte, r *remembered) {
	size := len(key) + r.size()
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision < m.revision || size > m.limit {
		return
	}
	if revision > m.revision {
		m.revision, m.young, m.old, m.size = revision, nil, nil, 0
	}
	if standing, known := m.young[string(key)]; known {
		// Of the same data, what predicates said may be another by now. That takes about as much.
		if len(r.reports) > 0 && standing != r {
			m.young[string(key)] = r
		}
		return
	}
	if m.young == nil || m.size+size > m.limit {
		m.old, m.young, m.size = m.young, map[string]*remembered{}, 0
	}
	m.young[string(key)] = r
	m.size += size
}

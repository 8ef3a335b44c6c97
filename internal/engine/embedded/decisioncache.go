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
	"context"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/predicates"
)

const (
	// decisionCacheBytes is the maximum size of each of the two generations of a policy's decision cache. When the young
	// generation is full, it replaces the old one.
	decisionCacheBytes = 512 << 10
	// reportsCacheBytes is the maximum for a policy that calls predicates on nodes, whose decisions are cached together
	// with the reports. It is enough for about 150 decisions on 5,000 nodes. If more objects than that are decided in
	// turn, no decision is found again, and all are evaluated after each change of the nodes.
	reportsCacheBytes = 32 << 20
	// entryBytes estimates the size of an entry apart from its key and its decision's text.
	entryBytes = 200
)

// Observer is notified about each use of the decision caches and rule caches of all policies of an engine, without the name of the policy.
// Implementations are safe for concurrent use and return without blocking.
type Observer interface {
	// DecisionCacheHit is called when a decision was found in the cache, or all of it but the choice of clusters was.
	DecisionCacheHit()
	// DecisionCacheMiss is called when a decision was not in the cache and was evaluated.
	DecisionCacheMiss()
	// RuleCacheUsed is called with the number of cacheable rules whose values an evaluation found in the rule cache, and
	// the number of those that it had to evaluate.
	RuleCacheUsed(known, evaluated int)
}

// noObserver is an Observer that ignores all notifications. An engine without an Observer uses it.
type noObserver struct{}

func (noObserver) DecisionCacheHit()      {}
func (noObserver) DecisionCacheMiss()     {}
func (noObserver) RuleCacheUsed(int, int) {}

// cachedDecision is a cached decision with the reports on nodes that it depends on. If it is an open decision, it also has what chooses the
// clusters for another object. It is immutable except for the revision of the nodes at which it was last found to hold.
type cachedDecision struct {
	decision placement.Decision
	// reports are the reports on nodes, each with its query and its result.
	reports []*predicates.Report
	// nodes is the revision of the nodes at which the decision was last found to hold.
	nodes atomic.Uint64
	// choice is how to choose the clusters of an open decision for an object; nil if the decision has no clusters left to choose.
	choice *choice
	// path is the path of the object for which an open decision was made, whose lookups count as no hits; empty for other decisions.
	path string
}

// newCachedDecision returns a cached decision with the decision of an evaluation and its reports on nodes, found to hold for the nodes of
// the state that the evaluation read. It is not an open decision.
func newCachedDecision(state evaluationState, a evaluation) *cachedDecision {
	out := &cachedDecision{decision: a.decision, reports: a.reports}
	out.markValid(state)
	return out
}

// markValid records that the decision holds for the nodes of a state.
func (r *cachedDecision) markValid(state evaluationState) {
	if state.nodes != nil {
		r.nodes.Store(state.nodes.Revision())
	}
}

// validAt reports whether the decision is known to hold in a state that has the same replica data: it depends on no report on nodes, or the
// nodes have the revision for which the reports were last found to hold.
func (r *cachedDecision) validAt(state evaluationState) bool {
	return len(r.reports) == 0 || state.nodes != nil && r.nodes.Load() == state.nodes.Revision()
}

// revalidate evaluates the predicates again on the nodes of a state and reports whether all reports are unchanged. It returns false if a
// predicate fails; the evaluation that follows returns the error.
func (r *cachedDecision) revalidate(ctx context.Context, set *predicates.Set, state evaluationState) bool {
	for _, report := range r.reports {
		if next, err := set.Reevaluate(ctx, state.nodes, report); err != nil || next != report {
			return false
		}
	}
	return true
}

// size estimates the size of the cached decision in bytes, with its reports.
func (r *cachedDecision) size() int {
	n := entryBytes + predicates.EstimateBytes(r.reports)
	if r.choice != nil {
		n += r.choice.size()
	}
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

// decisionCache is the decision cache of one policy. It holds decisions for one revision of the policy's data, by the key of the input's
// fields that the policy reads. Cached decisions are shared and never changed. It is safe for concurrent use.
//
// It has two generations instead of an order of use: when the young one is full, it replaces the old one. So most lookups write nothing,
// and unlike the caches of common libraries need no string for the key.
type decisionCache struct {
	// limit is the maximum size of each generation in bytes.
	limit int

	mu sync.RWMutex
	// revision is the revision of the data for which all of the decisions were made. To put one of a newer revision drops them.
	revision   uint64
	young, old map[string]*cachedDecision // the two generations, by key; what a lookup finds in old is added to young
	size       int                        // the size of young in bytes
}

// get returns the cached decision of a key at a revision; nil if there is none. It also adds the decision to the young generation.
func (m *decisionCache) get(revision uint64, key []byte) *cachedDecision {
	r, young := m.find(revision, key)
	if r != nil && !young {
		m.put(revision, key, r)
	}
	return r
}

// find returns the cached decision of a key at a revision, from either generation; nil if there is none. young reports whether it is in the
// young generation.
func (m *decisionCache) find(revision uint64, key []byte) (r *cachedDecision, young bool) {
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

// put stores a decision. It drops the decisions of older revisions, and ignores a decision that is older than those in the cache or larger
// than limit.
func (m *decisionCache) put(revision uint64, key []byte, r *cachedDecision) {
	size := len(key) + r.size()
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision < m.revision || size > m.limit {
		return
	}
	if revision > m.revision {
		m.revision, m.young, m.old, m.size = revision, nil, nil, 0
	}
	if existing, known := m.young[string(key)]; known {
		// The data is the same, but the reports on nodes may be newer. They have about the same size.
		if len(r.reports) > 0 && existing != r {
			m.young[string(key)] = r
		}
		return
	}
	if m.young == nil || m.size+size > m.limit {
		m.old, m.young, m.size = m.young, map[string]*cachedDecision{}, 0
	}
	m.young[string(key)] = r
	m.size += size
}

// takeOver adds the decisions of another cache for which keep returns true. It adds none unless they were made at the given revision.
func (m *decisionCache) takeOver(from *decisionCache, revision uint64, keep func(placement.Decision) bool) {
	from.mu.RLock()
	defer from.mu.RUnlock()
	if from.revision != revision {
		return
	}
	for _, generation := range []map[string]*cachedDecision{from.old, from.young} {
		for key, r := range generation {
			if keep(r.decision) {
				m.put(revision, []byte(key), r)
			}
		}
	}
}

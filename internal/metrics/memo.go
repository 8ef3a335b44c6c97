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

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Results of cache lookups for decisions and rules.
const (
	MemoHit  = "hit"
	MemoMiss = "miss"
)

// memoMetrics are the metrics of the decision cache and the rule cache.
type memoMetrics struct {
	hit, miss        prometheus.Counter     // lookups that found a decision in the decision cache, or did not
	known, evaluated prometheus.Counter     // rules that were found in the rule cache, or were evaluated
	lookups, rules   *prometheus.CounterVec // the metrics that have the counters for decisions, and for rules
}

// newMemoMetrics returns metrics whose values are 0.
func newMemoMetrics() *memoMetrics {
	m := &memoMetrics{lookups: decisionMemo.counter(), rules: ruleMemo.counter()}
	m.hit, m.miss = m.lookups.WithLabelValues(MemoHit), m.lookups.WithLabelValues(MemoMiss)
	m.known, m.evaluated = m.rules.WithLabelValues(MemoHit), m.rules.WithLabelValues(MemoMiss)
	return m
}

// DecisionCacheHit counts a decision that was found in the cache.
func (m *Metrics) DecisionCacheHit() { m.memo.hit.Inc() }

// DecisionCacheMiss counts a decision that was not found in the cache.
func (m *Metrics) DecisionCacheMiss() { m.memo.miss.Inc() }

// RuleCacheUsed adds the numbers of rules that an evaluation needed: those found in the rule cache (known) and those that it evaluated.
func (m *Metrics) RuleCacheUsed(known, evaluated int) {
	m.memo.known.Add(float64(known))
	m.memo.evaluated.Add(float64(evaluated))
}

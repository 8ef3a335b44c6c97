package metrics

import "github.com/prometheus/client_golang/prometheus"

// Results of asking for a decision that may be remembered.
const (
	MemoHit  = "hit"
	MemoMiss = "miss"
)

// memoMetrics tell of decisions that are remembered.
type memoMetrics struct {
	hit, miss           prometheus.Counter
	lookups, mismatches *prometheus.CounterVec
}

func newMemoMetrics() *memoMetrics {
	m := &memoMetrics{lookups: decisionMemo.counter(), mismatches: decisionMemoMismatch.counter()}
	m.hit, m.miss = m.lookups.WithLabelValues(MemoHit), m.lookups.WithLabelValues(MemoMiss)
	return m
}

// MemoHit counts a decision that was remembered.
func (m *Metrics) MemoHit() { m.memo.hit.Inc() }

// MemoMiss counts a decision that was not remembered.
func (m *Metrics) MemoMiss() { m.memo.miss.Inc() }

// MemoMismatch counts a policy whose remembered decision was wrong.
func (m *Metrics) MemoMismatch(policy string) {
	m.ofPolicies.touch(policy, func() { m.memo.mismatches.WithLabelValues(policy).Inc() })
}

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

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of objects that deny requests.
const (
	KindScopedQuota        = "ScopedQuota"
	KindClusterScopedQuota = "ClusterScopedQuota"
	KindLimitedResource    = "LimitedResource"
)

// QuotaKey identifies a quota or a LimitedResource. Namespace is empty for cluster-scoped ones.
type QuotaKey struct{ Kind, Namespace, Name string }

// QuotaUsage is the limits (Hard) and the usage (Used) of one quota.
type QuotaUsage struct {
	QuotaKey
	Hard, Used map[string]float64 // amounts in the quota's status by name of the resource, such as requests.cpu
}

// Answers to requests that quotas count.
const (
	QuotaAllowed = "allowed"
	QuotaDenied  = "denied"
	QuotaPending = "pending"
	QuotaError   = "error"
)

// quotaMetrics are the metrics of quotas that are updated when something happens. NewQuotaUsage collects the others.
type quotaMetrics struct {
	requests  *prometheus.HistogramVec // durations of requests that quotas count, in seconds, by answer, such as QuotaPending
	denials   *prometheus.CounterVec   // denied requests, by each quota or LimitedResource that denied them
	conflicts prometheus.Counter       // repeated decisions on batches of requests: a quota had changed before the charge was written
	drift     *prometheus.CounterVec   // recounts that corrected usage that no known change explains, by quota

	owners owners[QuotaKey] // the quotas and LimitedResources that may have series
}

// newQuotaMetrics returns metrics without series of quotas.
func newQuotaMetrics() *quotaMetrics {
	return &quotaMetrics{
		requests: quotaAdmissionDuration.histogram(), denials: quotaDenials.counter(),
		conflicts: quotaChargeConflicts.counter().WithLabelValues(),
		drift:     quotaDrift.counter(),
	}
}

// collectors returns the metrics, which New registers.
func (m *quotaMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.denials, m.conflicts, m.drift}
}

// QuotaAdmission records the duration of one request that quotas count in a histogram by answer, such as QuotaDenied.
func (m *Metrics) QuotaAdmission(answer string, took time.Duration) {
	m.quotas.requests.WithLabelValues(answer).Observe(took.Seconds())
}

// QuotaDenial counts one request that a quota or a LimitedResource denied.
func (m *Metrics) QuotaDenial(by QuotaKey) {
	m.quotas.owners.touch(by, func() { m.quotas.denials.WithLabelValues(by.Kind, by.Namespace, by.Name).Inc() })
}

// QuotaConflict counts one repeated decision on a batch of requests that quotas count: another client, such as another replica, changed a
// quota before Berth had written the charges.
func (m *Metrics) QuotaConflict() { m.quotas.conflicts.Inc() }

// QuotaDrift counts a recount that corrected the usage of a quota although nothing known had changed that usage.
func (m *Metrics) QuotaDrift(k QuotaKey) {
	m.quotas.owners.touch(k, func() { m.quotas.drift.WithLabelValues(k.Kind, k.Namespace, k.Name).Inc() })
}

// AddQuota allows series of a quota or a LimitedResource. Updates for others are ignored.
func (m *Metrics) AddQuota(k QuotaKey) { m.quotas.owners.add(k) }

// ForgetQuota removes the series of a quota or a LimitedResource and ignores later updates for it.
func (m *Metrics) ForgetQuota(k QuotaKey) {
	m.quotas.owners.forget(k, func() {
		m.quotas.denials.DeleteLabelValues(k.Kind, k.Namespace, k.Name)
		m.quotas.drift.DeleteLabelValues(k.Kind, k.Namespace, k.Name)
	})
}

// NewQuotaUsage returns a collector of the usage and the limits of quotas. The function list must return immediately, from
// a cache, and must return quotas on only one replica.
func NewQuotaUsage(list func() []QuotaUsage) prometheus.Collector {
	return newScraped(func(set setGauge) {
		for _, q := range list() {
			for name, amount := range q.Hard {
				set(quotaHard, amount, q.Kind, q.Namespace, q.Name, name)
			}
			for name, amount := range q.Used {
				set(quotaUsed, amount, q.Kind, q.Namespace, q.Name, name)
			}
		}
	}, quotaHard, quotaUsed)
}

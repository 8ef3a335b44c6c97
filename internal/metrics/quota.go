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
	"k8s.io/apimachinery/pkg/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

// Answers to requests that quotas count.
const (
	QuotaAllowed = "allowed"
	QuotaDenied  = "denied"
	QuotaPending = "pending"
	QuotaError   = "error"
)

// quotaMetrics are the metrics of quotas that are updated by events. NewQuotaUsage collects the others.
type quotaMetrics struct {
	requests  *prometheus.HistogramVec
	denials   *prometheus.CounterVec
	conflicts prometheus.Counter
	drift     *prometheus.CounterVec

	owners owners[quota.Key]
}

func newQuotaMetrics() *quotaMetrics {
	return &quotaMetrics{
		requests: quotaAdmissionDuration.histogram(), denials: quotaDenials.counter(), conflicts: quotaChargeConflicts.counter().WithLabelValues(),
		drift: quotaDrift.counter(),
	}
}

func (m *quotaMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.denials, m.conflicts, m.drift}
}

// QuotaAdmission counts one request that quotas count and records how long the response took.
func (m *Metrics) QuotaAdmission(answer string, took time.Duration) {
	m.quotas.requests.WithLabelValues(answer).Observe(took.Seconds())
}

// QuotaDenial counts a denial by a quota or a LimitedResource. It does nothing if by is nil.
func (m *Metrics) QuotaDenial(by runtime.Object) {
	if k, ok := quota.KeyOf(by); ok {
		m.quotas.owners.touch(k, func() { m.quotas.denials.WithLabelValues(k.Kind, k.Namespace, k.Name).Inc() })
	}
}

// QuotaConflict counts a round of decisions that is repeated because of a conflict.
func (m *Metrics) QuotaConflict() { m.quotas.conflicts.Inc() }

// QuotaDrift counts a recount that corrected a quota's usage.
func (m *Metrics) QuotaDrift(k quota.Key) {
	m.quotas.owners.touch(k, func() { m.quotas.drift.WithLabelValues(k.Kind, k.Namespace, k.Name).Inc() })
}

// AddQuota allows series of a quota or a LimitedResource. Updates for others are ignored.
func (m *Metrics) AddQuota(k quota.Key) { m.quotas.owners.add(k) }

// ForgetQuota removes the series of a quota or a LimitedResource and ignores later updates for it.
func (m *Metrics) ForgetQuota(k quota.Key) {
	m.quotas.owners.forget(k, func() {
		m.quotas.denials.DeleteLabelValues(k.Kind, k.Namespace, k.Name)
		m.quotas.drift.DeleteLabelValues(k.Kind, k.Namespace, k.Name)
	})
}

// NewQuotaUsage returns a collector of the usage and the limits of quotas. The function list must return immediately, from
// a cache, and must return quotas on only one replica.
func NewQuotaUsage(list func() []placementv1.Quota) prometheus.Collector {
	return newScraped(func(set setGauge) {
		for _, q := range list() {
			k, _ := quota.KeyOf(q)
			status := q.QuotaStatus()
			for name, amount := range status.Hard {
				set(quotaHard, amount.AsApproximateFloat64(), k.Kind, k.Namespace, k.Name, string(name))
			}
			for name, amount := range status.Used {
				set(quotaUsed, amount.AsApproximateFloat64(), k.Kind, k.Namespace, k.Name, string(name))
			}
		}
	}, quotaHard, quotaUsed)
}

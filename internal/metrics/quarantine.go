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
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/placement"
)

// Quarantined counts a quarantine of a policy.
func (m *Metrics) Quarantined(policy string) {
	m.ofPolicies.touch(policy, func() { m.quarantines.WithLabelValues(policy).Inc() })
}

// Quarantine collects the policies that are in quarantine at the time of the scrape.
type Quarantine struct {
	policies func() []*placement.Policy
	// desc is the descriptor for policies, and namespaces the one for the number of quarantined namespaces.
	desc, namespaces *prometheus.Desc
}

var _ prometheus.Collector = (*Quarantine)(nil)

// NewQuarantine returns a collector. The function policies returns the policies in force.
func NewQuarantine(policies func() []*placement.Policy) *Quarantine {
	return &Quarantine{policies: policies, desc: policyQuarantined.desc(), namespaces: policyQuarantinedNamespaces.desc()}
}

// Describe implements prometheus.Collector.
func (q *Quarantine) Describe(out chan<- *prometheus.Desc) {
	out <- q.desc
	out <- q.namespaces
}

// Collect implements prometheus.Collector.
func (q *Quarantine) Collect(out chan<- prometheus.Metric) {
	for _, p := range q.policies() {
		value := 0.0
		if _, quarantined := p.Quarantined(); quarantined {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(q.desc, prometheus.GaugeValue, value, p.Name)
		out <- prometheus.MustNewConstMetric(q.namespaces, prometheus.GaugeValue, float64(p.QuarantinedNamespaces()), p.Name)
	}
}

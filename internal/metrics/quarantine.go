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

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

// NewQuarantine returns a collector of the policies that are in quarantine. The function policies returns the policies in
// force.
func NewQuarantine(policies func() []*placement.Policy) prometheus.Collector {
	return newScraped(func(set setGauge) {
		// Two versions of a policy may be in force.
		whole, namespaces := map[string]float64{}, map[string]float64{}
		for _, p := range policies() {
			_, quarantined := p.Quarantined()
			whole[p.Name] = max(whole[p.Name], oneIf(quarantined))
			namespaces[p.Name] += float64(p.QuarantinedNamespaces())
		}
		for name := range whole {
			set(policyQuarantined, whole[name], name)
			set(policyQuarantinedNamespaces, namespaces[name], name)
		}
	}, policyQuarantined, policyQuarantinedNamespaces)
}

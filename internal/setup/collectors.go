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

package setup

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/census"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/quota"
)

// openCircuits returns, by the endpoint of each remote engine that one of the policies uses, whether a circuit breaker for it is open.
func openCircuits(policies []*placement.Policy) map[string]bool {
	out := map[string]bool{}
	for _, p := range policies {
		if remote, ok := p.Remote(); ok {
			health := remote.Health()
			out[health.Endpoint] = out[health.Endpoint] || health.BreakerOpen
		}
	}
	return out
}

// policyStates yields the state of each policy as a metric has it: metrics.StateBroken if no version can decide, metrics.StateLastGood if
// an earlier version decides because the newest one can't, and metrics.StateInForce otherwise.
func policyStates(policies iter.Seq2[string, *placement.PolicyState]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range policies {
			state := metrics.StateInForce
			switch {
			case s.Broken:
				state = metrics.StateBroken
			case s.Err != nil:
				state = metrics.StateLastGood
			}
			if !yield(state) {
				return
			}
		}
	}
}

// quotaUsage returns, for metrics, the usage and the limits of quotas, from their status: one element for each quota, with empty amounts if
// it has no status.
func quotaUsage(quotas []placementv1.Quota) []metrics.QuotaUsage {
	amounts := func(list corev1.ResourceList) map[string]float64 {
		out := map[string]float64{}
		for name, amount := range list {
			out[string(name)] = amount.AsApproximateFloat64()
		}
		return out
	}
	var out []metrics.QuotaUsage
	for _, q := range quotas {
		key, _ := quota.KeyOf(q)
		out = append(out, metrics.QuotaUsage{QuotaKey: metrics.QuotaKey(key), Hard: amounts(q.QuotaStatus().Hard),
			Used: amounts(q.QuotaStatus().Used)})
	}
	return out
}

// clusterCounts converts, for metrics, how many objects are in each cluster, by whether they are as policies decide, wait for a patch, or
// violate a policy.
func clusterCounts(counts []census.ClusterCount) []metrics.ClusterCount {
	var out []metrics.ClusterCount
	for _, c := range counts {
		objects := map[string]int{}
		for _, compliance := range census.Compliances() {
			objects[compliance.String()] = int(c.Objects[compliance])
		}
		out = append(out, metrics.ClusterCount{Cluster: c.Cluster, Objects: objects})
	}
	return out
}

// remoteMetrics adapts the metrics of remote engines to remote.Observer and push.Observer.
type remoteMetrics struct{ *metrics.Remote }

// Requested counts a request to the remote engine at an endpoint, and its duration. fault is "" if it succeeded. It implements
// remote.Observer.
func (m remoteMetrics) Requested(endpoint string, fault engine.Fault, took time.Duration) {
	m.Remote.Requested(endpoint, string(fault), took)
}

// Pushed counts a request that writes data or a module to the remote engine at an endpoint, unless no policy in force uses the endpoint.
// fault is "" if the request succeeded. It implements push.Observer.
func (m remoteMetrics) Pushed(endpoint string, fault engine.Fault) {
	m.Remote.Pushed(endpoint, string(fault))
}

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

// deliveryStates are the values of a label for the states of placed objects.
var deliveryStates = []string{DeliveryDelivered, DeliveryDelivering, DeliveryFailed, DeliveryRunning, DeliveryNotRunning}

// Delivery has the numbers of a policy's placed objects: all (Placed), those whose delivery is complete (Delivered) or failed (Failed),
// those that run in their clusters (Running), and those of which a multi-cluster system reports whether they run (Reported).
type Delivery struct {
	Placed, Delivered, Failed, Running, Reported int  // numbers of objects
	Runs                                         bool // whether it is known how many objects run in their clusters
}

// deliveryMetrics are the metrics of policies that deliver objects. Other policies have no series. objects counts objects by policy and
// state.
type deliveryMetrics struct{ objects *prometheus.GaugeVec }

// newDeliveryMetrics returns metrics without series.
func newDeliveryMetrics() deliveryMetrics { return deliveryMetrics{objects: policyDelivery.gauge()} }

// collectors returns the metrics, which New registers.
func (d deliveryMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{d.objects}
}

// set sets the series of a policy. Those of running objects exist only if r.Runs.
func (d deliveryMetrics) set(policy string, r Delivery) {
	d.objects.WithLabelValues(policy, DeliveryDelivered).Set(float64(r.Delivered))
	d.objects.WithLabelValues(policy, DeliveryDelivering).Set(float64(r.Placed - r.Delivered - r.Failed))
	d.objects.WithLabelValues(policy, DeliveryFailed).Set(float64(r.Failed))
	if !r.Runs {
		d.objects.DeleteLabelValues(policy, DeliveryRunning)
		d.objects.DeleteLabelValues(policy, DeliveryNotRunning)
		return
	}
	d.objects.WithLabelValues(policy, DeliveryRunning).Set(float64(r.Running))
	d.objects.WithLabelValues(policy, DeliveryNotRunning).Set(float64(r.Reported - r.Running))
}

// forget removes the series of a policy. It names each of them, because a partial match would visit those of all policies.
func (d deliveryMetrics) forget(policy string) {
	for _, state := range deliveryStates {
		d.objects.DeleteLabelValues(policy, state)
	}
}

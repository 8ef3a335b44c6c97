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

// Delivery has the numbers of the placed objects of a policy: of all, of those whose delivery is complete or failed, of those that run in
// their clusters, and of those of which a system reports it. Runs reports whether the policy's status has the number of running ones.
type Delivery struct {
	Placed, Delivered, Failed, Running, Reported int
	Runs                                         bool
}

// deliveryMetrics are the metrics of policies that deliver. Other policies have no series.
type deliveryMetrics struct{ objects *prometheus.GaugeVec }

func newDeliveryMetrics() deliveryMetrics { return deliveryMetrics{objects: policyDelivery.gauge()} }

func (d deliveryMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{d.objects}
}

// set sets the series of a policy. Those of running objects exist only if the policy's status has their number.
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

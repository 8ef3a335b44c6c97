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
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// NoFault is the fault label of a request that the engine answered.
	NoFault = "none"
	// faultCircuitOpen is that of a request that was not sent because the circuit breaker is open.
	faultCircuitOpen = "circuit_open"
)

// faults are the values of the label fault of the metrics of requests and pushes to remote engines: why one failed, such as "timeout", or
// NoFault ("none") if it did not.
var faults = []string{
	NoFault, "credentials", "timeout", "network", "unauthorized", "back_pressure", "server", "refused", "malformed", "undefined",
	"incomplete", faultCircuitOpen, "serialization",
}

var (
	ofEndpoint = Label{Name: "endpoint"}
	ofFault    = Label{Name: "fault", Values: faults}

	remoteRequests = Metric{
		Name: "berth_remote_requests_total", Type: Counter, Reporter: EachReplica,
		Help:   "Requests to remote engines, counted for each attempt; circuit_open means that none was sent.",
		Labels: []Label{ofEndpoint, ofFault},
	}
	remoteDuration = Metric{
		Name: "berth_remote_request_duration_seconds", Type: Histogram, Reporter: EachReplica,
		Help:   "Time of each attempt of a request to a remote engine, also of one that failed.",
		Labels: []Label{ofEndpoint}, buckets: prometheus.ExponentialBuckets(250e-6, 2, 16),
	}
	remoteCircuitOpen = Metric{
		Name: "berth_remote_circuit_open", Type: Gauge, Reporter: EachReplica,
		Help:   "1 if the circuit breaker of a remote engine is open for all namespaces, because the engine kept failing; otherwise 0.",
		Labels: []Label{ofEndpoint},
	}
	remotePushes = Metric{
		Name: "berth_remote_pushes_total", Type: Counter, Reporter: TheLeader,
		Help:   "Requests to push data and modules to a remote engine.",
		Labels: []Label{ofEndpoint, ofFault},
	}
	remoteLoads = Metric{
		Name: "berth_remote_loads_total", Type: Counter, Reporter: TheLeader,
		Help:   "Full loads of a remote engine that began: the first one of each leader, and one each time it lost data or refused objects.",
		Labels: []Label{ofEndpoint},
	}
	remotePending = Metric{
		Name: "berth_remote_pending_changes", Type: Gauge, Reporter: TheLeader,
		Help:   "Changes of objects that wait to be pushed to a remote engine, without what a full load still has to push.",
		Labels: []Label{ofEndpoint},
	}
)

// Remote are the metrics of remote engines. It is safe for concurrent use.
type Remote struct {
	endpoints owners[string] // the endpoints (URLs) of engines that may have series

	requests, pushes, loads *prometheus.CounterVec   // requests and pushes, by endpoint and fault (NoFault for success); loads, by endpoint
	duration                *prometheus.HistogramVec // duration of an attempt of a request to an engine, failed or not, by endpoint
	pending                 *prometheus.GaugeVec     // changes that wait to be pushed to an engine
}

// newRemote returns metrics without series.
func newRemote() *Remote {
	return &Remote{
		requests: remoteRequests.counter(), pushes: remotePushes.counter(), loads: remoteLoads.counter(),
		duration: remoteDuration.histogram(), pending: remotePending.gauge(),
	}
}

// collectors returns the metrics, which New registers.
func (r *Remote) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.requests, r.pushes, r.loads, r.duration, r.pending}
}

// Requested counts one attempt of a request to the engine at an endpoint. fault says why it failed, as the label has it; "" means success.
// took is not recorded if the circuit breaker was open, because no request was sent.
func (r *Remote) Requested(endpoint, fault string, took time.Duration) {
	r.endpoints.touch(endpoint, func() {
		r.requests.WithLabelValues(endpoint, cmp.Or(fault, NoFault)).Inc()
		if fault != faultCircuitOpen {
			r.duration.WithLabelValues(endpoint).Observe(took.Seconds())
		}
	})
}

// Pushed counts one request to push data or modules to an engine. fault says why it failed, as the label has it; "" means success.
func (r *Remote) Pushed(endpoint, fault string) {
	r.endpoints.touch(endpoint, func() { r.pushes.WithLabelValues(endpoint, cmp.Or(fault, NoFault)).Inc() })
}

// Loading counts the start of a full load: all data and modules are pushed to an engine.
func (r *Remote) Loading(endpoint string) {
	r.endpoints.touch(endpoint, func() { r.loads.WithLabelValues(endpoint).Inc() })
}

// Pending sets the number of changes that wait to be pushed to an engine.
func (r *Remote) Pending(endpoint string, changes int) {
	r.endpoints.touch(endpoint, func() { r.pending.WithLabelValues(endpoint).Set(float64(changes)) })
}

// Released removes the series of pushes, full loads, and pending changes of an engine to which Berth no longer pushes. The series of
// requests to the engine stay, and later updates count.
func (r *Remote) Released(endpoint string) {
	labels := prometheus.Labels{"endpoint": endpoint}
	r.pushes.DeletePartialMatch(labels)
	r.loads.DeletePartialMatch(labels)
	r.pending.DeletePartialMatch(labels)
}

// Add allows series of an engine. Updates for other engines are ignored.
func (r *Remote) Add(endpoint string) { r.endpoints.add(endpoint) }

// Forget removes the series of an engine that no policy uses any more, and ignores later updates for it.
func (r *Remote) Forget(endpoint string) {
	r.endpoints.forget(endpoint, func() {
		labels := prometheus.Labels{"endpoint": endpoint}
		r.requests.DeletePartialMatch(labels)
		r.duration.DeletePartialMatch(labels)
		r.Released(endpoint)
	})
}

// NewCircuits returns a collector of whether the circuit breaker of each engine is open. The function list returns that by endpoint.
func NewCircuits(list func() map[string]bool) prometheus.Collector {
	return newScraped(func(set setGauge) {
		for endpoint, open := range list() {
			set(remoteCircuitOpen, oneIf(open), endpoint)
		}
	}, remoteCircuitOpen)
}

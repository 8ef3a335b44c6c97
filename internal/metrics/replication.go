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
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Replica describes the replica data of a resource type.
type Replica struct {
	Resource schema.GroupResource
	Objects  int
	// Bytes is the approximate memory usage.
	Bytes int64
	// Confirmed is when the API server last confirmed the data.
	Confirmed time.Time
}

// Replication collects the replica data of each resource type at the time of the scrape.
type Replication struct {
	list                      func() []Replica
	objects, bytes, confirmed *prometheus.Desc
}

var _ prometheus.Collector = (*Replication)(nil)

// NewReplication returns a collector. The function list must return immediately, with each type at most once.
func NewReplication(list func() []Replica) *Replication {
	return &Replication{list: list, objects: replicatedObjects.desc(), bytes: replicatedBytes.desc(), confirmed: replicatedConfirmed.desc()}
}

// Describe implements prometheus.Collector.
func (r *Replication) Describe(out chan<- *prometheus.Desc) {
	out <- r.objects
	out <- r.bytes
	out <- r.confirmed
}

// Collect implements prometheus.Collector.
func (r *Replication) Collect(out chan<- prometheus.Metric) {
	for _, t := range r.list() {
		tell := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, t.Resource.String())
		}
		tell(r.objects, float64(t.Objects))
		tell(r.bytes, float64(t.Bytes))
		tell(r.confirmed, float64(t.Confirmed.UnixMilli())/1000)
	}
}

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

// Replica has the numbers of the replicated objects of one resource type in this process.
type Replica struct {
	Resource schema.GroupResource
	Objects  int
	// Bytes is the estimated memory of the objects, with equal projections counted once.
	Bytes int64
	// Confirmed is when the API server last sent a change of the objects or confirmed that there is none.
	Confirmed time.Time
}

// NewReplication returns a collector of the replica data of each resource type. The function list must return immediately, each type at
// most once.
func NewReplication(list func() []Replica) prometheus.Collector {
	return newScraped(func(set setGauge) {
		for _, t := range list() {
			resource := t.Resource.String()
			set(replicatedObjects, float64(t.Objects), resource)
			set(replicatedBytes, float64(t.Bytes), resource)
			set(replicatedConfirmed, float64(t.Confirmed.UnixMilli())/1000, resource)
		}
	}, replicatedObjects, replicatedBytes, replicatedConfirmed)
}

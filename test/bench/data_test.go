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

package bench_test

import (
	"fmt"
	"runtime/debug"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/bench/fixture"
)

const (
	// workloads is how many there are.
	workloads = 100_000
	// perNamespace is how many of them are in a namespace.
	perNamespace = 100
)

// reader is a policy that reads three fields of each Deployment.
func reader(b *testing.B) *placementv1.PlacementPolicy {
	b.Helper()
	p := fixture.Policy()
	p.Name = "reader"
	p.Spec.Rego = fmt.Sprintf(`package reader

warnings contains sprintf("%%s/%%s is like this one", [namespace, name]) if {
	some namespace, name
	other := data.kubernetes.deployments[namespace][name]
	other.metadata.annotations[%q] == input.metadata.annotations[%q]
	other.metadata.annotations[%q] == input.metadata.annotations[%q]
	other.metadata.labels.team != input.metadata.labels.team
}
`, fixture.EUAnnotation, fixture.EUAnnotation, fixture.PCIAnnotation, fixture.PCIAnnotation)
	return p
}

// replicated is a Deployment as it is replicated. What it is read for has as many values as distinct says.
func replicated(i, distinct int) *unstructured.Unstructured {
	o := object(fixture.Stored(fmt.Sprintf("ns-%d", i/perNamespace), fmt.Sprintf("web-%d", i), 2, fixture.Requested(i%40, 50)))
	labels := o.GetLabels()
	labels["team"] = fmt.Sprintf("team-%d", i%distinct)
	o.SetLabels(labels)
	replication.Known().Prepare(fixture.Deployments, o)
	return o
}

// fill replicates n workloads one by one, so that no more than one of them is in memory as a whole.
func (w *world) fill(b *testing.B, n, distinct int) {
	b.Helper()
	// Making the objects leaves much garbage, and is not measured.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	w.data.Load(fixture.Deployments, w.fields(fixture.Deployments), nil)
	for i := range n {
		if !w.data.Put(fixture.Deployments, replicated(i, distinct)) {
			b.Fatal("a new object changes nothing")
		}
	}
}

// BenchmarkUpdate is the update of one replicated Deployment among 100,000, in a field that a policy reads.
func BenchmarkUpdate(b *testing.B) {
	w := newWorld(b)
	w.put(b, reader(b))
	w.fill(b, workloads, workloads)
	var objects []*unstructured.Unstructured
	for i := range 2000 {
		o := replicated(i%1000, workloads)
		labels := o.GetLabels()
		labels["team"] = fmt.Sprintf("changed-%d", i/1000)
		o.SetLabels(labels)
		objects = append(objects, o)
	}
	b.Run(fmt.Sprintf("present=%d", workloads), func(b *testing.B) {
		measure(b, func(i int) {
			if !w.data.Put(fixture.Deployments, objects[i%len(objects)]) {
				b.Fatal("an update changes nothing")
			}
		})
	})
}

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
	"maps"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/bench/fixture"
)

// BenchmarkRedecide decides 100,000 existing Deployments, of which one policy sees 40 different projections, again
// after one cluster of 50 has changed.
//
//   - by=Decider decides every one of them whole, as if each had changed.
//   - by=Evaluator asks the policy alone about each.
func BenchmarkRedecide(b *testing.B) {
	const clusters = 50
	w := newWorld(b)
	p := w.put(b, fixture.Policy())
	w.replicate(fixture.Clusters(fixture.FleetNamespace, clusters))
	objects := make([]*unstructured.Unstructured, workloads)
	shared := make([]map[string]any, 40)
	for i := range shared {
		shared[i] = deployment(i, clusters)
	}
	for i := range objects {
		objects[i] = existing(shared[i%len(shared)], i)
	}
	turn := 0
	change := func() {
		turn++
		cluster := fixture.Cluster(fixture.FleetNamespace, 6)
		labels := cluster.GetLabels()
		labels["compliance.berth.dev/pci-level"] = fmt.Sprint(3 + turn%2)
		cluster.SetLabels(labels)
		replication.Known().Prepare(fixture.ClusterProfiles, cluster)
		if !w.data.Put(fixture.ClusterProfiles, cluster) {
			b.Fatal("the change changes nothing")
		}
	}
	b.Run(fmt.Sprintf("by=Decider/workloads=%d/projections=40", workloads), func(b *testing.B) {
		measure(b, func(int) {
			change()
			for _, o := range objects {
				outcome, err := w.decider.Remediate(b.Context(), placement.Request{
					Resource: fixture.Deployments, Namespace: o.GetNamespace(), Object: o, Old: o,
					Admission: &admissionv1.AdmissionRequest{Operation: admissionv1.Update},
				}, nil)
				if err != nil || len(outcome.Verdicts) != 1 || outcome.Verdicts[0].Err != nil {
					b.Fatal(outcome, err)
				}
			}
		})
	})
	b.Run(fmt.Sprintf("by=Evaluator/workloads=%d/projections=40", workloads), func(b *testing.B) {
		measure(b, func(int) {
			change()
			for _, o := range objects {
				w.decide(b, p.Evaluator, o.Object)
			}
		})
	})
}

// existing is a Deployment like another one, of a name of its own. They share what is not to be changed anyway, since
// 100,000 as a whole would take gigabytes.
func existing(like map[string]any, i int) *unstructured.Unstructured {
	metadata, _ := like["metadata"].(map[string]any)
	own := maps.Clone(metadata)
	delete(own, "managedFields")
	own["name"], own["namespace"], own["uid"] = fmt.Sprintf("web-%d", i), fmt.Sprintf("ns-%d", i/perNamespace), fmt.Sprintf("uid-%d", i)
	out := maps.Clone(like)
	out["metadata"] = own
	return object(out)
}

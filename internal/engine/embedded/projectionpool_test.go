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

package embedded

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/projection"
)

// threeFields returns the fields of a policy that reads three fields of a workload.
func threeFields() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("metadata").AddName("labels").AddName("team").AddAll()
	f.AddName("metadata").AddName("annotations").AddName(pciAnnotation).AddAll()
	f.AddName("spec").AddName("replicas").AddAll()
	return f.Seal()
}

// workloadObject returns what a list-watch delivers of the i-th workload: the projection to three fields and its
// identity. No two workloads share strings, just as objects from the API server do not.
func workloadObject(i, projections int) *unstructured.Unstructured {
	labels := map[string]any{"team": fmt.Sprintf("team-%d", i%projections)}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": fmt.Sprintf("web-frontend-%06d", i), "namespace": fmt.Sprintf("team-%03d", i%500), "uid": fmt.Sprintf("uid-%d", i),
			"labels": labels, "annotations": map[string]any{pciAnnotation: fmt.Sprintf("level-%d", i%projections)},
		},
		"spec": map[string]any{"replicas": int64(i % projections)},
	}}
}

func workloads(n, projections int) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, n)
	for i := range out {
		out[i] = workloadObject(i, projections)
	}
	return out
}

// heap returns the size of reachable memory in bytes.
func heap() int64 {
	var stats runtime.MemStats
	// The second collection frees what became unreachable when finalizers ran after the first one.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestMemory verifies that the memory of a workload, including its name and its place in the tree, is limited. It
// depends on the fields that are read and not on the size of the object, and it is smaller if other objects have the
// same projection. The store's own estimate must be close to the measured value.
func TestMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	const n = 25_000
	tests := map[string]struct {
		projections int
		most        int64
	}{
		"Repeated": {40, 200},
		"Distinct": {n, 2048},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fields := threeFields()
			d := NewData()
			before := heap()
			d.Load(pods.GroupVersionResource, fields, workloads(n, tc.projections))
			loaded := heap() - before
			// Many objects are written again, and then replaced by others.
			const many = n / 4
			for i := range many {
				d.Put(pods.GroupVersionResource, workloadObject(i, tc.projections+1))
			}
			for i := range many {
				o := workloadObject(i, tc.projections)
				d.Delete(pods.GroupVersionResource, o.GetNamespace(), o.GetName())
				d.Put(pods.GroupVersionResource, workloadObject(n+i, tc.projections))
			}
			written := heap() - before
			objects, said, _ := d.Size(pods.GroupVersionResource)
			t.Logf("%d bytes an object when it is loaded, %d after writes, %d as the store says", loaded/n, written/n, said/int64(objects))
			for _, bytes := range []int64{loaded, written} {
				if bytes/n > tc.most {
					t.Errorf("%d bytes an object, want %d at most", bytes/n, tc.most)
				}
			}
			if objects != n || said < written/2 || said > written*2 {
				t.Errorf("the store says that %d objects take %d bytes; they take %d", objects, said, written)
			}
			d.Load(pods.GroupVersionResource, fields, nil)
			s := d.store(pods.GroupVersionResource)
			if len(s.pool.known) > 0 || s.pool.bytes != 0 {
				t.Errorf("%d projections are kept of no objects, of %d bytes", len(s.pool.known), s.pool.bytes)
			}
			runtime.KeepAlive(d)
		})
	}
}

// BenchmarkPut measures an update of one object in a table of 100,000. The new projection is one that other objects
// have, one that no object has, or the object's current one, as after a heartbeat that no policy reads.
func BenchmarkPut(b *testing.B) {
	const n = 100_000
	for _, bm := range []struct {
		name string
		next func(i int) *unstructured.Unstructured
	}{
		{"Shared", func(i int) *unstructured.Unstructured { return workloadObject(i%n, 40+i/n%2) }},
		{"Distinct", func(i int) *unstructured.Unstructured {
			o := workloadObject(i%n, 40)
			o.Object["spec"].(map[string]any)["replicas"] = int64(i)
			return o
		}},
		{"Unread", func(i int) *unstructured.Unstructured { return workloadObject(i%n, 40) }},
	} {
		b.Run("by="+bm.name, func(b *testing.B) {
			d := NewData()
			d.Load(pods.GroupVersionResource, threeFields(), workloads(n, 40))
			l := d.fieldSetFor(pods.GroupVersionResource, threeFields())
			objects := make([]*unstructured.Unstructured, 10_000)
			for i := range objects {
				objects[i] = bm.next(i + n)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				d.Put(pods.GroupVersionResource, objects[i%len(objects)])
				i++
			}
			runtime.KeepAlive(l)
		})
	}
}

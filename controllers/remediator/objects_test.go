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

package remediator

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

// TestDeciding checks that a type is being decided as long as one of its objects is queued, even if objects come and
// go.
func TestDeciding(t *testing.T) {
	targets := newObjectCache(func(schema.GroupVersionResource, []remediation.Key) {})
	objects := many(3, "a")
	keys := make([]remediation.Key, len(objects))
	for i, o := range objects {
		keys[i] = keyOf(deployments, o)
	}
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	expect := func(when string, want bool) {
		t.Helper()
		if got, _ := targets.pending([]schema.GroupVersionResource{services, deployments}); got > 0 != want {
			t.Errorf("%s: %d objects are queued", when, got)
		}
	}
	expect("without objects", false)
	targets.Replace(deployments, projection.AllFields(), objects)
	targets.Put(services, deployment("other", "a", ""))
	expect("before they are queued", false)
	targets.start(&queue{in: map[remediation.Key]bool{}})
	targets.enqueue(keys...)
	targets.enqueue(keys...)
	expect("queued", true)
	targets.take(keys[0])
	targets.take(keys[0])
	expect("with two left", true)
	targets.Replace(deployments, projection.AllFields(), append(slices.Clone(objects[:2]), changed(objects[2])))
	expect("listed again", true)
	targets.take(keys[1])
	expect("with a changed one left", true)
	targets.Delete(deployments, keys[2].Namespace, keys[2].Name)
	expect("with the last one deleted", false)
	targets.enqueue(keys[0])
	targets.Drop(deployments)
	expect("with all dropped", false)
}

// TestListIsPackedTwice checks that the objects of a list are the same if the type was dropped while it was read.
func TestListIsPackedTwice(t *testing.T) {
	cache := newObjectCache(func(schema.GroupVersionResource, []remediation.Key) {})
	var want []*unstructured.Unstructured
	var listed []any
	for i := range 20 {
		o := workload(t, i)
		want = append(want, o.DeepCopy())
		listed = append(listed, cache.Pack(deployments, projection.AllFields(), o))
		if i == 10 {
			cache.Drop(deployments)
		}
	}
	cache.ReplacePacked(deployments, projection.AllFields(), listed)
	for _, o := range want {
		got, _ := cache.get(keyOf(deployments, o))
		if diff := cmp.Diff(o, got); diff != "" {
			t.Errorf("object (-want +got):\n%s", diff)
		}
	}
	if cache.ReplacePacked(deployments, projection.AllFields(), nil); len(cache.within("shop-0")) > 0 {
		t.Error("objects are left")
	}
}

// changed returns a newer version of an object.
func changed(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetResourceVersion("99")
	return o
}

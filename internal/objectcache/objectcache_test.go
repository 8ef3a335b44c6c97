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

package objectcache_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/objectcache"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// newCache returns a cache that keeps all of an object, and ignores changes in lists.
func newCache() *objectcache.Cache {
	return objectcache.New(func(*projection.FieldSet, *unstructured.Unstructured) {}, func(schema.GroupVersionResource, []remediation.Key) {})
}

// many returns n Deployments, of which several have the same labels and images.
func many(n int) (out []*unstructured.Unstructured) {
	for i := range n {
		image := fmt.Sprintf("registry.example/shop/web:%d", i%3)
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"spec": map[string]any{"replicas": int64(i), "template": map[string]any{"spec": map[string]any{"containers": []any{
				map[string]any{"name": "web", "image": image},
			}}}},
		}}
		o.SetName(fmt.Sprintf("web-%d", i))
		o.SetNamespace("shop")
		o.SetUID(types.UID("uid of " + o.GetName()))
		o.SetResourceVersion("1")
		o.SetLabels(map[string]string{"app.kubernetes.io/name": "web", "team": fmt.Sprintf("team-%d", i%4)})
		out = append(out, o)
	}
	return out
}

// keyOf returns the key of a Deployment.
func keyOf(o *unstructured.Unstructured) remediation.Key {
	return remediation.Key{Resource: deployments, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// TestDeciding checks that a type is being decided as long as one of its objects is queued, even if objects come and
// go.
func TestDeciding(t *testing.T) {
	targets := newCache()
	objects := many(3)
	keys := make([]remediation.Key, len(objects))
	for i, o := range objects {
		keys[i] = keyOf(o)
	}
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	expect := func(when string, want bool) {
		t.Helper()
		if got, _ := targets.Pending([]schema.GroupVersionResource{services, deployments}); got > 0 != want {
			t.Errorf("%s: %d objects are queued", when, got)
		}
	}
	expect("without objects", false)
	targets.Replace(deployments, projection.AllFields(), objects)
	targets.Put(services, many(1)[0])
	expect("before they are queued", false)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[remediation.CompactKey]())
	defer queue.ShutDown()
	targets.Start(queue)
	targets.Enqueue(keys...)
	targets.Enqueue(keys...)
	expect("queued", true)
	targets.Take(keys[0])
	targets.Take(keys[0])
	expect("with two left", true)
	targets.Replace(deployments, projection.AllFields(), append(slices.Clone(objects[:2]), changed(objects[2])))
	expect("listed again", true)
	targets.Take(keys[1])
	expect("with a changed one left", true)
	targets.Delete(deployments, keys[2].Namespace, keys[2].Name)
	expect("with the last one deleted", false)
	targets.Enqueue(keys[0])
	targets.Drop(deployments)
	expect("with all dropped", false)
}

// TestDroppedDuringList checks that the objects of a list are the same if the type was dropped while it was read.
func TestDroppedDuringList(t *testing.T) {
	cache := newCache()
	var want []*unstructured.Unstructured
	var listed []any
	for i, o := range many(20) {
		want = append(want, o.DeepCopy())
		listed = append(listed, cache.Pack(deployments, projection.AllFields(), o))
		if i == 10 {
			cache.Drop(deployments)
		}
	}
	cache.ReplacePacked(deployments, projection.AllFields(), listed)
	for _, o := range want {
		got, _ := cache.Get(keyOf(o))
		if diff := cmp.Diff(o, got); diff != "" {
			t.Errorf("object (-want +got):\n%s", diff)
		}
	}
	if cache.ReplacePacked(deployments, projection.AllFields(), nil); len(cache.Within("shop")) > 0 {
		t.Error("objects are left")
	}
}

// changed returns a newer version of an object.
func changed(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetResourceVersion("99")
	return o
}

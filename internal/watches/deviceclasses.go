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

package watches

import (
	"context"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/projection"
)

var deviceClasses = resourcev1.SchemeGroupVersion.WithResource("deviceclasses")

var classesLog = ctrllog.Log.WithName("deviceclasses")

// DeviceClasses watches the DeviceClasses, if the API server serves them. It is safe for concurrent use. Create it with
// NewDeviceClasses.
type DeviceClasses struct {
	// Cache finds DeviceClasses by name and by the extended resource that they stand for. Quotas count ResourceClaims by it.
	Cache *extendedresourcecache.ExtendedResourceCache

	catalog  *Catalog
	consumer *Consumer
	wake     notify.Signal          // signals that the served types changed
	changes  notify.Topic[struct{}] // tells subscribers that the DeviceClasses, or the result of Settled, may have changed

	mu      sync.Mutex
	classes map[string]*resourcev1.DeviceClass // the content of Cache, by name
}

var _ Sink = (*DeviceClasses)(nil)

// NewDeviceClasses returns DeviceClasses with an empty Cache. They watch nothing until Start. Until then, Settled is false if the catalog
// has the type DeviceClass.
func NewDeviceClasses(hub *Hub, catalog *Catalog) *DeviceClasses {
	d := &DeviceClasses{
		Cache: extendedresourcecache.NewExtendedResourceCache(klog.Background()), catalog: catalog,
		wake: notify.NewSignal(), classes: map[string]*resourcev1.DeviceClass{},
	}
	d.consumer = hub.NewConsumer(d, d.stateChanged)
	catalog.Subscribe(d.wake.Notify)
	return d
}

// Subscribe registers f, which is called when DeviceClasses or the result of Settled may have changed. f must return quickly. Call
// Subscribe before Start.
func (d *DeviceClasses) Subscribe(f func()) { d.changes.Subscribe(func(struct{}) { f() }) }

// NeedLeaderElection returns false: every replica measures ResourceClaims, for which it needs the DeviceClasses.
func (*DeviceClasses) NeedLeaderElection() bool { return false }

// Start watches the DeviceClasses, while the API server serves them in version v1, until ctx ends. It returns nil.
func (d *DeviceClasses) Start(ctx context.Context) error {
	for {
		wanted := map[schema.GroupVersionResource]*projection.FieldSet{}
		if d.served() {
			wanted[deviceClasses] = projection.AllFields()
		}
		d.consumer.Set(ctx, wanted)
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		}
	}
}

// served reports whether the API server serves DeviceClasses in version v1, the only one that Berth reads.
func (d *DeviceClasses) served() bool {
	_, served := d.catalog.Exact(deviceClasses)
	return served
}

// Settled reports whether there is nothing more to wait for: Cache has all DeviceClasses, or they are known to be unavailable, after one
// error such as "forbidden" or maxTransientFailures other errors in a row, or the catalog does not have the type. The last is also so
// before the first refresh of the catalog.
func (d *DeviceClasses) Settled() bool {
	state, _ := d.consumer.State(deviceClasses)
	return !d.served() || state.Settled()
}

// stateChanged tells subscribers that the state of the watch on DeviceClasses (r) changed, and logs an error if they are unavailable.
func (d *DeviceClasses) stateChanged(r schema.GroupVersionResource) {
	if state, _ := d.consumer.State(r); unavailable(state.Err) {
		classesLog.Error(state.Err, "Failed to read DeviceClasses; meanwhile, quotas of extended resources do not count ResourceClaims")
	}
	d.changes.Publish(struct{}{})
}

// Replace implements Sink. It replaces the content of Cache.
func (d *DeviceClasses) Replace(_ schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	d.mu.Lock()
	gone := map[string]bool{}
	for name := range d.classes {
		gone[name] = true
	}
	for _, o := range objects {
		delete(gone, o.GetName())
		d.put(o)
	}
	for name := range gone {
		d.remove(name)
	}
	d.mu.Unlock()
	d.changes.Publish(struct{}{})
}

// Put implements Sink. It adds or replaces a class in Cache.
func (d *DeviceClasses) Put(_ schema.GroupVersionResource, o *unstructured.Unstructured) {
	d.mu.Lock()
	d.put(o)
	d.mu.Unlock()
	d.changes.Publish(struct{}{})
}

// Delete implements Sink. It removes a class from Cache.
func (d *DeviceClasses) Delete(_ schema.GroupVersionResource, _, name string) {
	d.mu.Lock()
	d.remove(name)
	d.mu.Unlock()
	d.changes.Publish(struct{}{})
}

// Drop implements Sink. It removes all classes from Cache.
func (d *DeviceClasses) Drop(r schema.GroupVersionResource) { d.Replace(r, nil, nil) }

// put adds or replaces a class in Cache. It logs and ignores a class that can't be decoded, so that Cache keeps the class as it was before.
// The caller holds mu.
func (d *DeviceClasses) put(o *unstructured.Unstructured) {
	class := &resourcev1.DeviceClass{}
	if err := numeral.FromUnstructured(o.Object, class); err != nil {
		classesLog.Error(err, "Failed to decode a DeviceClass; quotas use its last version that could be decoded, if any",
			"deviceClass", o.GetName())
		return
	}
	before, known := d.classes[class.Name]
	d.classes[class.Name] = class
	if !known {
		d.Cache.OnAdd(class, false)
		return
	}
	d.Cache.OnUpdate(before, class)
	d.addAll()
}

// remove removes the class of a name. The caller holds mu.
func (d *DeviceClasses) remove(name string) {
	class, known := d.classes[name]
	if !known {
		return
	}
	delete(d.classes, name)
	d.Cache.OnDelete(class)
	d.addAll()
}

// addAll adds all classes to Cache again. When a class no longer stands for an extended resource, Cache forgets the resource even if
// another class stands for it.
func (d *DeviceClasses) addAll() {
	for _, class := range d.classes {
		d.Cache.OnAdd(class, false)
	}
}

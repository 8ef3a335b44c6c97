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

package deliverer

import (
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*deliveredObjects)(nil)

// name identifies a delivered object.
type name struct {
	schema.GroupVersionResource
	namespace, name string
}

// deliveredObjects holds the existing objects that Berth delivered, by the placed object that owns them. It is safe for
// concurrent use. Objects are never modified.
type deliveredObjects struct {
	// changed is called with the owners of the objects that were added, changed, or deleted.
	changed func(...delivery.Key)
	// foreign are told of objects that are gone.
	foreign *foreignObjects

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]map[name]*unstructured.Unstructured
	// byOwner has orphans by the key that has only their namespace.
	byOwner map[delivery.Key]map[name]*unstructured.Unstructured
}

func newDeliveredObjects(changed func(...delivery.Key), foreign *foreignObjects) *deliveredObjects {
	return &deliveredObjects{
		changed: changed, foreign: foreign, tables: map[schema.GroupVersionResource]map[name]*unstructured.Unstructured{},
		byOwner: map[delivery.Key]map[name]*unstructured.Unstructured{},
	}
}

// ownerOf returns the placed object that an object is delivered for. Of several owners, it is the one that the name is made of, since
// other clients may add owners, or else the first one. ok is false if Berth did not deliver the object.
func ownerOf(o *unstructured.Unstructured) (key delivery.Key, ok bool) {
	if o == nil || o.GetLabels()[placementv1.DeliveredLabel] != "true" {
		return delivery.Key{}, false
	}
	for _, owner := range o.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil || owner.Controller != nil && *owner.Controller {
			continue
		}
		found := delivery.Object{GroupVersionKind: gv.WithKind(owner.Kind), Name: owner.Name}
		named := strings.HasPrefix(o.GetName(), delivery.NameOf(found))
		if named || !ok {
			key, ok = delivery.Key{GroupKind: found.GroupKind(), Namespace: o.GetNamespace(), Name: owner.Name}, true
		}
		if named {
			break
		}
	}
	return key, ok
}

// isOrphan reports whether Berth delivered an object that has no owner any more. The garbage collector removes the owner if a client
// deletes the placed object and orphans its dependents. If the delivered object then counted as foreign, it would keep a new object of
// that name in the clusters of the earlier one.
func isOrphan(o *unstructured.Unstructured) bool {
	return o.GetLabels()[placementv1.DeliveredLabel] == "true" && len(o.GetOwnerReferences()) == 0
}

// forget drops what delivery does not read. It changes its argument.
func forget(_ schema.GroupVersionResource, o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
}

// Replace implements watches.Sink.
func (d *deliveredObjects) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	d.mu.Lock()
	touched := d.clear(resource)
	d.tables[resource] = map[name]*unstructured.Unstructured{}
	for _, o := range objects {
		if owner, ok := d.add(resource, o); ok {
			touched[owner] = true
		}
	}
	d.mu.Unlock()
	d.changed(slices.Collect(maps.Keys(touched))...)
}

// Put implements watches.Sink.
func (d *deliveredObjects) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	if owners := d.put(resource, o); len(owners) > 0 {
		d.changed(owners...)
	}
}

// Delete implements watches.Sink.
func (d *deliveredObjects) Delete(resource schema.GroupVersionResource, namespace, objectName string) {
	id := name{resource, namespace, objectName}
	d.mu.Lock()
	owner, ok := d.remove(id)
	d.mu.Unlock()
	if !ok {
		owner, ok = d.foreign.unblock(id)
	}
	if ok {
		d.changed(owner)
	}
}

// Drop implements watches.Sink.
func (d *deliveredObjects) Drop(resource schema.GroupVersionResource) {
	d.mu.Lock()
	touched := d.clear(resource)
	delete(d.tables, resource)
	d.mu.Unlock()
	d.changed(slices.Collect(maps.Keys(touched))...)
}

// clear drops the objects of a type, and returns their owners. The caller holds mu.
func (d *deliveredObjects) clear(resource schema.GroupVersionResource) map[delivery.Key]bool {
	owners := map[delivery.Key]bool{}
	for id := range d.tables[resource] {
		if owner, ok := d.remove(id); ok {
			owners[owner] = true
		}
	}
	return owners
}

// put stores a version of an object unless a newer one is known, and returns the owners whose objects changed.
func (d *deliveredObjects) put(resource schema.GroupVersionResource, o *unstructured.Unstructured) (owners []delivery.Key) {
	id := name{resource, o.GetNamespace(), o.GetName()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.tables[resource][id]; known != nil && known.GetUID() == o.GetUID() {
		if order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), known.GetResourceVersion()); err == nil && order <= 0 {
			return nil
		}
	}
	if owner, ok := d.remove(id); ok {
		owners = append(owners, owner)
	}
	if owner, ok := d.add(resource, o); ok && !slices.Contains(owners, owner) {
		owners = append(owners, owner)
	}
	return owners
}

// heldBy returns the key of an object in byOwner.
func heldBy(o *unstructured.Unstructured) delivery.Key {
	if owner, ok := ownerOf(o); ok {
		return owner
	}
	return delivery.Key{Namespace: o.GetNamespace()}
}

// add stores an object if Berth delivered it. ok is false if it has no owner. The caller holds mu.
func (d *deliveredObjects) add(resource schema.GroupVersionResource, o *unstructured.Unstructured) (owner delivery.Key, ok bool) {
	owner, ok = ownerOf(o)
	if !ok && !isOrphan(o) {
		return owner, false
	}
	id := name{resource, o.GetNamespace(), o.GetName()}
	if d.tables[resource] == nil {
		d.tables[resource] = map[name]*unstructured.Unstructured{}
	}
	d.tables[resource][id] = o
	key := heldBy(o)
	if d.byOwner[key] == nil {
		d.byOwner[key] = map[name]*unstructured.Unstructured{}
	}
	d.byOwner[key][id] = o
	return owner, ok
}

// remove drops an object. ok is false if it is not known, or has no owner. The caller holds mu.
func (d *deliveredObjects) remove(id name) (owner delivery.Key, ok bool) {
	o := d.tables[id.GroupVersionResource][id]
	if o == nil {
		return owner, false
	}
	delete(d.tables[id.GroupVersionResource], id)
	key := heldBy(o)
	delete(d.byOwner[key], id)
	if len(d.byOwner[key]) == 0 {
		delete(d.byOwner, key)
	}
	return ownerOf(o)
}

// of returns the objects that are delivered for an object.
func (d *deliveredObjects) of(owner delivery.Key) map[name]*unstructured.Unstructured {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return maps.Clone(d.byOwner[owner])
}

// orphansOf returns the objects without an owner that have names of objects that are delivered for an object.
func (d *deliveredObjects) orphansOf(key delivery.Key) map[name]*unstructured.Unstructured {
	d.mu.RLock()
	defer d.mu.RUnlock()
	placed := delivery.Object{GroupVersionKind: key.WithVersion(""), Namespace: key.Namespace, Name: key.Name}
	out := map[name]*unstructured.Unstructured{}
	for id, o := range d.byOwner[delivery.Key{Namespace: key.Namespace}] {
		if delivery.IsNameFor(id.name, placed) {
			out[id] = o
		}
	}
	return out
}

// resources returns the types of which there are delivered objects.
func (d *deliveredObjects) resources() []schema.GroupVersionResource {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []schema.GroupVersionResource
	for resource, table := range d.tables {
		if len(table) > 0 {
			out = append(out, resource)
		}
	}
	return out
}

// owners returns the placed objects for which there are delivered objects of a type.
func (d *deliveredObjects) owners(resource schema.GroupVersionResource) []delivery.Key {
	d.mu.RLock()
	defer d.mu.RUnlock()
	touched := map[delivery.Key]bool{}
	for _, o := range d.tables[resource] {
		if owner, ok := ownerOf(o); ok {
			touched[owner] = true
		}
	}
	return slices.Collect(maps.Keys(touched))
}

// uidOf returns a precondition for the deletion of an object.
func uidOf(o *unstructured.Unstructured) *metav1.Preconditions {
	return &metav1.Preconditions{UID: new(o.GetUID())}
}

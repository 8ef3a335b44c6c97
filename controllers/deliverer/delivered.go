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

// name identifies an object of a system, such as a delivered one, by its resource type in one version, its namespace, and its name.
type name struct {
	schema.GroupVersionResource
	namespace, name string
}

// deliveredObjects holds the existing objects that Berth delivered, by the placed object that owns them. It is safe for
// concurrent use. Objects are never modified.
type deliveredObjects struct {
	// changed is called with the owners of the objects that were added, changed, or deleted.
	changed func(...delivery.Key)
	// foreign has the objects of other clients, of whose deletion it is told.
	foreign *foreignObjects

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]map[name]*entry // The delivered objects by type and name.
	// byOwner has the same entries by their owners. Orphans are under a key that has only their namespace.
	byOwner map[delivery.Key]map[name]*entry
}

// entry is a delivered object. Only defaults and answer change.
type entry struct {
	object *unstructured.Unstructured
	owner  delivery.Key // The placed object for which the object is delivered. Of an orphan, it has only the namespace.
	owned  bool         // Whether the object has an owner; false for an orphan.
	// defaults is the field in which only Berth may set values (Kind.Whole) as it was after Berth had removed what other clients had set
	// there: what is left beside Berth's own members was added by the system in the same request. It is nil if Berth did not have to remove
	// anything, or nothing but Berth's members was left.
	defaults any
	// answer is the object as the API server stored it when Berth last wrote it, if it then lacked something that Berth applied, because
	// the system changed it in the same request. It is nil otherwise.
	answer *unstructured.Unstructured
}

func newDeliveredObjects(changed func(...delivery.Key), foreign *foreignObjects) *deliveredObjects {
	return &deliveredObjects{
		changed: changed, foreign: foreign, tables: map[schema.GroupVersionResource]map[name]*entry{},
		byOwner: map[delivery.Key]map[name]*entry{},
	}
}

// ownerOf returns the placed object for which an object is delivered: of several owners, since other clients may add some, the one from
// which the object's name is made, or else the first one. ok is false if Berth did not deliver the object, or it has no owner.
func ownerOf(o *unstructured.Unstructured) (key delivery.Key, ok bool) {
	if o == nil || !isLabeled(o) {
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

// isOrphan reports whether an object has the label of delivered objects, but no owner references any more, as after a deletion of the
// placed object that orphans its dependents. An orphan is not foreign, so that it does not keep a new placed object of that name in the
// clusters of the earlier one.
func isOrphan(o *unstructured.Unstructured) bool {
	return isLabeled(o) && len(o.GetOwnerReferences()) == 0
}

// isLabeled reports whether an object has the label of delivered objects with the value "true".
func isLabeled(o *unstructured.Unstructured) bool {
	return o.GetLabels()[placementv1.DeliveredLabel] == "true"
}

// dropManagedFields drops managedFields, which delivery does not read, from o.
func dropManagedFields(_ schema.GroupVersionResource, o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
}

// Replace implements watches.Sink: of objects, all that exist of a type, it keeps those that Berth delivered.
func (d *deliveredObjects) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	d.mu.Lock()
	before := maps.Clone(d.tables[resource])
	touched := d.clear(resource)
	d.tables[resource] = map[name]*entry{}
	for _, o := range objects {
		if owner, ok := d.add(resource, o, before[name{resource, o.GetNamespace(), o.GetName()}]); ok {
			touched[owner] = true
		}
	}
	d.mu.Unlock()
	d.changed(slices.Collect(maps.Keys(touched))...)
}

// Put implements watches.Sink: it keeps an object that was added or changed if Berth delivered it, also if another client has removed its
// label since. It calls changed with the owners of what changed.
func (d *deliveredObjects) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	if owners := d.put(resource, o); len(owners) > 0 {
		d.changed(owners...)
	}
}

// Delete implements watches.Sink: it drops a deleted object, or tells foreign of the deletion of another client's.
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

// Drop implements watches.Sink: it drops the objects of a type that is no longer watched or available.
func (d *deliveredObjects) Drop(resource schema.GroupVersionResource) {
	d.mu.Lock()
	touched := d.clear(resource)
	delete(d.tables, resource)
	d.mu.Unlock()
	d.changed(slices.Collect(maps.Keys(touched))...)
}

// clear drops the objects of a type, and returns their owners, each with true. The caller holds mu.
func (d *deliveredObjects) clear(resource schema.GroupVersionResource) map[delivery.Key]bool {
	owners := map[delivery.Key]bool{}
	for id := range d.tables[resource] {
		if owner, ok := d.remove(id); ok {
			owners[owner] = true
		}
	}
	return owners
}

// put stores an object that was read or written, if Berth delivered it, unless it is known in that or a newer resourceVersion. It returns
// the owners whose objects changed: its owner, and the one that it had before.
func (d *deliveredObjects) put(resource schema.GroupVersionResource, o *unstructured.Unstructured) (owners []delivery.Key) {
	id := name{resource, o.GetNamespace(), o.GetName()}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.tables[resource][id]
	if known != nil && known.object.GetUID() == o.GetUID() {
		if order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), known.object.GetResourceVersion()); err == nil &&
			order <= 0 {
			return nil
		}
	}
	if owner, ok := d.remove(id); ok {
		owners = append(owners, owner)
	}
	if owner, ok := d.add(resource, o, known); ok && !slices.Contains(owners, owner) {
		owners = append(owners, owner)
	}
	return owners
}

// add stores an object if Berth delivered it. before is what was stored under its name, or nil. ok is false if Berth did not deliver it, or
// it is an orphan. The caller holds mu.
func (d *deliveredObjects) add(resource schema.GroupVersionResource, o *unstructured.Unstructured,
	before *entry) (owner delivery.Key, ok bool) {
	if before != nil && before.object.GetUID() != o.GetUID() {
		before = nil
	}
	added := &entry{object: o}
	switch added.owner, added.owned = ownerOf(o); {
	case added.owned:
	case isOrphan(o):
		added.owner = delivery.Key{Namespace: o.GetNamespace()}
	case before != nil:
		// Another client removed the label. That does not make the object another one.
		added.owner, added.owned = before.owner, before.owned
	default:
		return delivery.Key{}, false
	}
	if before != nil {
		added.defaults, added.answer = before.defaults, before.answer
	}
	id := name{resource, o.GetNamespace(), o.GetName()}
	if d.tables[resource] == nil {
		d.tables[resource] = map[name]*entry{}
	}
	d.tables[resource][id] = added
	if d.byOwner[added.owner] == nil {
		d.byOwner[added.owner] = map[name]*entry{}
	}
	d.byOwner[added.owner][id] = added
	return added.owner, added.owned
}

// remove drops an object and returns its owner. ok is false if it is not known, or is an orphan. The caller holds mu.
func (d *deliveredObjects) remove(id name) (owner delivery.Key, ok bool) {
	removed := d.tables[id.GroupVersionResource][id]
	if removed == nil {
		return delivery.Key{}, false
	}
	delete(d.tables[id.GroupVersionResource], id)
	delete(d.byOwner[removed.owner], id)
	if len(d.byOwner[removed.owner]) == 0 {
		delete(d.byOwner, removed.owner)
	}
	return removed.owner, removed.owned
}

// disown drops an object from d because Berth no longer manages it, although it exists. It does not write the object.
func (d *deliveredObjects) disown(id name) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(id)
}

// setDefaults records the field of an object in which only Berth may set values (Kind.Whole), with what the system adds there.
func (d *deliveredObjects) setDefaults(id name, defaults any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.tables[id.GroupVersionResource][id]; known != nil {
		known.defaults = defaults
	}
}

// defaultsOf returns the value of the field in which only Berth may set values (Kind.Whole) that setDefaults recorded for an object; nil if
// it recorded none, or the object is not known.
func (d *deliveredObjects) defaultsOf(id name) any {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if known := d.tables[id.GroupVersionResource][id]; known != nil {
		return known.defaults
	}
	return nil
}

// setAnswer records an object as the system stored it when Berth wrote it; nil if the system kept all that Berth applied.
func (d *deliveredObjects) setAnswer(id name, answer *unstructured.Unstructured) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.tables[id.GroupVersionResource][id]; known != nil {
		known.answer = answer
	}
}

// answerTo returns what setAnswer recorded for an object, or nil if Berth wrote another content than body then.
func (d *deliveredObjects) answerTo(id name, body *unstructured.Unstructured) *unstructured.Unstructured {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known := d.tables[id.GroupVersionResource][id]
	if known == nil || known.answer == nil || known.answer.GetAnnotations()[hashAnnotation] != body.GetAnnotations()[hashAnnotation] {
		return nil
	}
	return known.answer
}

// of returns the objects that are delivered for the placed object owner.
func (d *deliveredObjects) of(owner delivery.Key) map[name]*unstructured.Unstructured {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := map[name]*unstructured.Unstructured{}
	for id, e := range d.byOwner[owner] {
		out[id] = e.object
	}
	return out
}

// orphansOf returns the orphans whose names are those of objects that Berth delivers for the placed object key.
func (d *deliveredObjects) orphansOf(key delivery.Key) map[name]*unstructured.Unstructured {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := map[name]*unstructured.Unstructured{}
	for id, e := range d.byOwner[delivery.Key{Namespace: key.Namespace}] {
		if isNameFor(id.name, key) {
			out[id] = e.object
		}
	}
	return out
}

// isNameFor reports whether a name is one of those that objects get which Berth delivers for a placed object.
func isNameFor(objectName string, key delivery.Key) bool {
	return delivery.IsNameFor(objectName, delivery.Object{GroupVersionKind: key.WithVersion(""), Namespace: key.Namespace, Name: key.Name})
}

// resources returns the types of which there are delivered objects, orphans included.
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
	for _, e := range d.tables[resource] {
		if e.owned {
			touched[e.owner] = true
		}
	}
	return slices.Collect(maps.Keys(touched))
}

// ownedObject is a delivered object and the placed object that it is delivered for.
type ownedObject struct {
	key    delivery.Key               // The placed object. There is one: orphans are no ownedObjects.
	object *unstructured.Unstructured // The delivered object.
}

// owned returns the delivered objects of a system that have an owner.
func (d *deliveredObjects) owned(system delivery.System) map[name]ownedObject {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := map[name]ownedObject{}
	for _, kind := range system.Kinds {
		for id, e := range d.tables[kind.GroupVersionResource] {
			if e.owned {
				out[id] = ownedObject{e.owner, e.object}
			}
		}
	}
	return out
}

// sameUID returns the precondition of a deletion that the object still has the UID of o.
func sameUID(o *unstructured.Unstructured) *metav1.Preconditions {
	return &metav1.Preconditions{UID: new(o.GetUID())}
}

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

package predicates

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// NodeCache stores nodes and the pods on them, reduced to the fields that predicates read. Methods are safe for concurrent
// use. Changes of one resource type must come from one goroutine at a time, in order. A NodeCache does not keep objects
// after a call. Its methods report whether anything changed that a predicate can see.
//
// As in kube-scheduler, a pod is on a node if it is bound and has not terminated. A pod on an unknown node counts as
// soon as the node is known. An object that is invalid for its type counts as absent.
//
// An event copies at most one NodeInfo, and all events between two snapshots copy each NodeInfo at most once. Taking a
// snapshot copies the list of nodes, or nothing if nothing changed. A tree would avoid that copy. But users of a
// snapshot iterate over the nodes anyway, and iterating over a list is faster.
type NodeCache struct {
	mu sync.Mutex
	// loaded are the types whose content is complete.
	loaded map[schema.GroupVersionResource]bool
	// hosts are the nodes by name, including unknown nodes that have pods.
	hosts map[string]*host
	// changedNodes are the names of the hosts that changed since the current snapshot.
	changedNodes []string
	// nodesAddedOrRemoved reports whether a node was added or removed since the current snapshot.
	nodesAddedOrRemoved bool
	pods                *btree.BTree[record]      // By namespace and name.
	shapes              shapes                    // The parts that pods share.
	namespaces          map[string]namespaceEntry // By name.
	// sorted are the namespaces, sorted by name. It is nil if it has to be computed.
	sorted []*corev1.Namespace

	// epoch counts snapshots. A NodeInfo made in the current epoch is in no snapshot yet, so it can be changed.
	epoch uint64
	// changes counts the changes that a predicate can see.
	changes uint64
	// revision equals changes, or is 0 while a type is not complete.
	revision atomic.Uint64
	// current is the newest snapshot; nil if none was taken since a type was dropped.
	current atomic.Pointer[Snapshot]
}

// host is a node, or the name of an unknown node that pods are bound to.
type host struct {
	info *framework.NodeInfo
	// epoch is NodeCache.epoch when info was made. If it is not the present one, a snapshot may have info, so info must be copied before a
	// change.
	epoch uint64
	// key is the digest of the node's projection; it means nothing while the node is unknown.
	key digest
}

// known reports whether the cache has the node, and not only pods that are bound to it.
func (h *host) known() bool { return h.info.Node() != nil }

// namespaceEntry is a namespace with the digest of its projection.
type namespaceEntry struct {
	key       digest // The digest of the namespace's projection.
	namespace *corev1.Namespace
}

// IncompleteError reports that a snapshot was requested before all types were complete.
type IncompleteError struct {
	// Missing are the plural names of the types that are not complete, sorted, for example "nodes".
	Missing []string
}

func (e *IncompleteError) Error() string {
	return strings.Join(e.Missing, ", ") + ": not complete"
}

// degree is the degree of the tree of pods. A node of the tree has up to twice as many pods, and a write copies the
// nodes on its path.
const degree = 16

// NewNodeCache returns an empty cache, in which no type is complete.
func NewNodeCache() *NodeCache {
	return &NodeCache{
		loaded:     map[schema.GroupVersionResource]bool{},
		hosts:      map[string]*host{},
		pods:       btree.New(degree, lessRecord),
		namespaces: map[string]namespaceEntry{},
	}
}

// Load replaces all objects of one of the types of Reads. The type is complete then. Load reports whether a predicate can see the change,
// or the type was not complete before.
func (w *NodeCache) Load(resource schema.GroupVersionResource, objects []*unstructured.Unstructured) bool {
	if _, ok := reads()[resource]; !ok {
		return false
	}
	last := make(map[types.NamespacedName]*unstructured.Unstructured, len(objects))
	for _, o := range objects {
		last[nameOf(o)] = o
	}
	apply := make([]func() bool, 0, len(last))
	for _, o := range objects {
		if last[nameOf(o)] == o {
			apply = append(apply, w.prepare(resource, o))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := !w.loaded[resource]
	w.loaded[resource] = true
	for _, name := range w.names(resource) {
		if _, ok := last[name]; !ok {
			changed = w.remove(resource, name) || changed
		}
	}
	for _, change := range apply {
		changed = change() || changed
	}
	return w.countChange(changed)
}

// Put adds or replaces an object. It has no effect unless the type is complete. It reports whether a predicate can see the change.
func (w *NodeCache) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) bool {
	if _, ok := reads()[resource]; !ok {
		return false
	}
	change := w.prepare(resource, o)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loaded[resource] && w.countChange(change())
}

// Delete removes an object, and reports whether a predicate can see the change.
func (w *NodeCache) Delete(resource schema.GroupVersionResource, namespace, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.countChange(w.remove(resource, types.NamespacedName{Namespace: namespace, Name: name}))
}

// Drop removes all objects of a type, which is not complete then. It reports whether the type was complete.
func (w *NodeCache) Drop(resource schema.GroupVersionResource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.loaded[resource] {
		return false
	}
	delete(w.loaded, resource)
	for _, name := range w.names(resource) {
		w.remove(resource, name)
	}
	w.current.Store(nil)
	w.nodesAddedOrRemoved = true
	return w.countChange(true)
}

// Size returns the number of objects of a type. ok is false while the type is incomplete. Pods that are not on a node
// do not count.
func (w *NodeCache) Size(resource schema.GroupVersionResource) (objects int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.loaded[resource] {
		return 0, false
	}
	if resource == podResource {
		return w.pods.Len(), true
	}
	return len(w.names(resource)), true
}

// Revision returns the revision that a new snapshot would have. It is 0 while a type is not complete.
func (w *NodeCache) Revision() uint64 { return w.revision.Load() }

// Snapshot returns a snapshot of the current objects: the last one if no predicate can see a change since. While a type is incomplete, it
// returns an *IncompleteError.
func (w *NodeCache) Snapshot() (*Snapshot, error) {
	if s := w.current.Load(); s != nil && s.revision == w.revision.Load() {
		return s, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if missing := w.missing(); len(missing) > 0 {
		return nil, &IncompleteError{Missing: missing}
	}
	old := w.current.Load()
	if old != nil && old.revision == w.changes {
		return old, nil
	}
	if w.sorted == nil {
		w.sorted = make([]*corev1.Namespace, 0, len(w.namespaces))
		for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
			w.sorted = append(w.sorted, w.namespaces[name].namespace)
		}
	}
	var s *Snapshot
	if old == nil || w.nodesAddedOrRemoved {
		s = w.snapshotAll()
	} else {
		others := make(map[int]fwk.NodeInfo, len(w.changedNodes))
		for _, name := range w.changedNodes {
			if i, ok := slices.BinarySearch(old.names, name); ok {
				others[i] = w.hosts[name].info
			}
		}
		s = old.with(others)
	}
	s.revision, s.pods, s.namespaces = w.changes, w.pods.Clone(), w.sorted
	w.epoch++
	w.changedNodes, w.nodesAddedOrRemoved = nil, false
	w.current.Store(s)
	return s, nil
}

// snapshotAll makes a new snapshot of all known nodes. Its revision, pods, and namespaces are not set yet.
func (w *NodeCache) snapshotAll() *Snapshot {
	var s Snapshot
	for name, h := range w.hosts {
		if h.known() {
			s.names = append(s.names, name)
		}
	}
	slices.Sort(s.names)
	s.infos = make([]fwk.NodeInfo, len(s.names))
	for i, name := range s.names {
		s.infos[i] = w.hosts[name].info
	}
	return newSnapshot(s)
}

// missing returns the plural names of the types that are not complete, sorted.
func (w *NodeCache) missing() []string {
	var out []string
	for resource := range reads() {
		if !w.loaded[resource] {
			out = append(out, resource.Resource)
		}
	}
	slices.Sort(out)
	return out
}

// countChange counts a change if changed is true, updates the revision, and returns changed.
func (w *NodeCache) countChange(changed bool) bool {
	if changed {
		w.changes++
	}
	if len(w.loaded) == len(reads()) {
		w.revision.Store(w.changes)
	} else {
		w.revision.Store(0)
	}
	return changed
}

func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// names returns the names of the objects of a type.
func (w *NodeCache) names(resource schema.GroupVersionResource) []types.NamespacedName {
	var out []types.NamespacedName
	switch resource {
	case nodeResource:
		for name, h := range w.hosts {
			if h.known() {
				out = append(out, types.NamespacedName{Name: name})
			}
		}
	case podResource:
		w.pods.Ascend(func(r record) bool {
			out = append(out, types.NamespacedName{Namespace: r.namespace, Name: r.name})
			return true
		})
	case namespaceResource:
		for name := range w.namespaces {
			out = append(out, types.NamespacedName{Name: name})
		}
	}
	return out
}

// remove removes an object, and reports whether a predicate can see the change. It does not update the revision. The caller holds mu.
func (w *NodeCache) remove(resource schema.GroupVersionResource, name types.NamespacedName) bool {
	switch resource {
	case nodeResource:
		return w.removeNode(name.Name)
	case podResource:
		return w.removePod(name)
	case namespaceResource:
		return w.removeNamespace(name.Name)
	default:
		return false
	}
}

// prepare does the part of adding an object that does not need the lock. It returns a function for the rest, which must
// be called with the lock held. That function reports whether a predicate can see the change.
func (w *NodeCache) prepare(resource schema.GroupVersionResource, o *unstructured.Unstructured) func() bool {
	name := nameOf(o)
	if name.Name == "" {
		return func() bool { return false }
	}
	absent := func() bool { return w.remove(resource, name) }
	if resource == podResource {
		if !onNode(o) {
			return absent
		}
		p, err := w.shapes.pod(o)
		if err != nil {
			return absent
		}
		return func() bool { return w.setPod(p) }
	}
	document, key := cut(resource, o)
	if existing, ok := w.storedDigest(resource, name.Name); ok && existing == key {
		return func() bool { return false }
	}
	if resource == nodeResource {
		node, err := convert[corev1.Node](document)
		if err != nil {
			return absent
		}
		return func() bool { return w.setNode(node, key) }
	}
	namespace, err := convert[corev1.Namespace](document)
	if err != nil {
		return absent
	}
	return func() bool { return w.setNamespace(namespace, key) }
}

// storedDigest returns the digest of the projection of a node or namespace; ok is false if the cache does not have the object.
func (w *NodeCache) storedDigest(resource schema.GroupVersionResource, name string) (key digest, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if resource == nodeResource {
		if h := w.hosts[name]; h != nil && h.known() {
			return h.key, true
		}
		return digest{}, false
	}
	n, ok := w.namespaces[name]
	return n.key, ok
}

// setPod adds or replaces a pod, and reports whether a predicate can see the change: whether the pod differs, and its node, or the one that
// it was on before, is known.
func (w *NodeCache) setPod(p *pod) bool {
	place := at(p.object.Namespace, p.object.Name)
	old, replaced := w.pods.Get(place)
	if replaced && old.pod.same(p) {
		return false
	}
	place.pod = p
	w.pods.ReplaceOrInsert(place)
	seen := replaced && w.removeFromNode(old.pod)
	node := p.object.Spec.NodeName
	h := w.host(node)
	w.mutableInfo(h, node).AddPodInfo(&p.info)
	return h.known() || seen
}

// removePod removes a pod, and reports whether a predicate can see the change.
func (w *NodeCache) removePod(name types.NamespacedName) bool {
	old, ok := w.pods.Delete(at(name.Namespace, name.Name))
	return ok && w.removeFromNode(old.pod)
}

// removeFromNode removes a pod from its node, and reports whether the node is known.
func (w *NodeCache) removeFromNode(p *pod) bool {
	node := p.object.Spec.NodeName
	h := w.hosts[node]
	leave(w.mutableInfo(h, node), &p.object)
	w.removeIfEmpty(h, node)
	return h.known()
}

// setNode adds or replaces a node, whose projection has the digest key. It returns true: a predicate can see the change.
func (w *NodeCache) setNode(node *corev1.Node, key digest) bool {
	h := w.host(node.Name)
	w.nodesAddedOrRemoved = w.nodesAddedOrRemoved || !h.known()
	w.mutableInfo(h, node.Name).SetNode(node)
	h.key = key
	return true
}

// host returns the host with the name, and adds it if it is missing.
func (w *NodeCache) host(name string) *host {
	h, ok := w.hosts[name]
	if !ok {
		h = &host{info: framework.NewNodeInfo(), epoch: w.epoch}
		w.hosts[name] = h
	}
	return h
}

// removeNode removes a node, but not its pods, and reports whether the cache had it.
func (w *NodeCache) removeNode(name string) bool {
	h, ok := w.hosts[name]
	if !ok || !h.known() {
		return false
	}
	w.mutableInfo(h, name).RemoveNode()
	w.nodesAddedOrRemoved = true
	w.removeIfEmpty(h, name)
	return true
}

// mutableInfo returns a host's NodeInfo for changes. It copies the NodeInfo if a snapshot has it.
func (w *NodeCache) mutableInfo(h *host, name string) *framework.NodeInfo {
	if h.epoch != w.epoch {
		h.info, h.epoch = h.info.SnapshotConcrete(), w.epoch
		w.changedNodes = append(w.changedNodes, name)
	}
	return h.info
}

// removeIfEmpty removes a host from the cache if its node is unknown and it has no pods.
func (w *NodeCache) removeIfEmpty(h *host, name string) {
	if !h.known() && len(h.info.Pods) == 0 {
		delete(w.hosts, name)
	}
}

// setNamespace adds or replaces a namespace, whose projection has the digest key. It returns true: a predicate can see the change.
func (w *NodeCache) setNamespace(namespace *corev1.Namespace, key digest) bool {
	w.namespaces[namespace.Name] = namespaceEntry{key, namespace}
	w.sorted = nil
	return true
}

// removeNamespace removes a namespace, and reports whether the cache had it.
func (w *NodeCache) removeNamespace(name string) bool {
	_, ok := w.namespaces[name]
	if ok {
		delete(w.namespaces, name)
		w.sorted = nil
	}
	return ok
}

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
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"
	"weak"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// Data holds the projections of the replicated objects as immutable values of the policy language. Readers take a
// snapshot without a lock. Writers copy what they change. Objects with the same projection share it.
//
// Data replaces OPA's in-memory store. That store converts the data in each evaluation. If it keeps converted values
// instead, it rebuilds the whole collection on each write, under a lock that blocks readers.
//
// Its methods are safe for concurrent use, but the changes of one resource type must come from one goroutine at a time,
// in order. They neither change the objects, which are prepared (see replication.Prepare), nor keep them. Each method
// that changes data reports whether the kept data changed.
type Data struct {
	current atomic.Pointer[snapshot]

	// mu serializes the publication of snapshots and guards the fields below.
	mu sync.Mutex
	// stores has, by resource type, what Load, Put, and Delete change before they publish a snapshot of it. mu guards only the map: each store
	// has a mutex of its own for its content.
	stores map[schema.GroupVersionResource]*store
	// fieldSets are the field sets of each type, by fieldSet.index.
	fieldSets map[schema.GroupVersionResource][]weak.Pointer[fieldSet]
	// inventories are the distinct lists that data.clusters is made of. There are only a few, because lists differ only if
	// the served resource types changed.
	inventories []*inventories
}

// snapshot is the state of all replica data at one time. It is immutable, except for values that it computes on first
// use.
type snapshot struct {
	tables map[schema.GroupVersionResource]*table
	// merged maps each *inventories to the *merged form of data.clusters. Snapshots with the same inventory data share the
	// map.
	merged *sync.Map
}

// table holds the objects of one resource type by namespace and name.
type table struct {
	// fields are the fields that are kept of the objects.
	fields  *projection.FieldSet
	records *btree.BTree[record] // the objects by namespace and name
	// bytes is an estimate of the objects' memory. A projection that several objects share counts once.
	bytes int64
	// revisions are the revisions of the field sets, by fieldSet.index. A revision changes whenever the content of the
	// set's fields does. No value is used twice, not even by another table. It is 0 for a set with fields that the table
	// does not keep.
	revisions []uint64
	// documents are the whole collections, one for each form of the objects. They are computed on first use.
	documents [forms]func() ast.Value
}

// fieldSet is a field set of a resource type. All policies that read the same fields of the type share one fieldSet and
// its revision. The evaluators hold references to it. Once no reference is left, another fieldSet may reuse its index.
type fieldSet struct {
	resource schema.GroupVersionResource
	fields   *projection.FieldSet
	index    int // the index of its revision in table.revisions
}

// form is a form of an object: its own or, for clusters and quotas, its normal form. Policies find the two at different places of `data`.
type form int

const (
	// ownForm is the object itself. normalForm is its normal form, which clusters and quotas have.
	ownForm form = iota
	normalForm
	forms
)

// record is one replicated object in a table: its namespace and name, by which the table finds it, and its projection.
type record struct {
	namespace unique.Handle[string]
	name      string
	projected *projectedObject
}

// recordLess reports whether a sorts before b: by namespace, then by name.
func recordLess(a, b record) bool {
	if a.namespace != b.namespace {
		return a.namespace.Value() < b.namespace.Value()
	}
	return a.name < b.name
}

// recordKey returns a record without a projection, to look up the object with this namespace and name.
func recordKey(namespace, name string) record {
	return record{namespace: unique.Make(namespace), name: name}
}

// NewData returns a store without any resource type.
func NewData() *Data {
	d := &Data{stores: map[schema.GroupVersionResource]*store{}, fieldSets: map[schema.GroupVersionResource][]weak.Pointer[fieldSet]{}}
	d.current.Store(&snapshot{tables: map[schema.GroupVersionResource]*table{}, merged: &sync.Map{}})
	return d
}

// noData is the revision of the data of a policy that reads no replica data. It is not 0, which stands for missing data.
const noData uint64 = 1

// revisions counts the revisions that nextRevision has returned. All tables share it, so that a table that was dropped and loaded again
// never repeats a revision.
var revisions atomic.Uint64

// nextRevision returns a new revision, which is greater than all earlier ones and than noData.
func nextRevision() uint64 { return noData + revisions.Add(1) }

// store has the current objects of a resource type, and the fields that are kept of them. The writer of the type changes it, and readers
// get immutable tables of its content. Revisions of field sets are not here, but in the tables.
type store struct {
	mu sync.Mutex
	// fields are the fields that are kept of the objects.
	fields *projection.FieldSet
	pool   *projectionPool
	// records are the objects by namespace and name; nil until Load has given the store all of them, and after Drop.
	records *btree.BTree[record]
}

// table returns an immutable table of the store's current content, whose field sets have no revisions yet. Later changes of the store don't
// change it.
func (s *store) table() *table {
	t := &table{fields: s.fields, records: s.records.Clone(), bytes: s.pool.bytes + int64(s.records.Len())*recordBytes}
	for s := range forms {
		t.documents[s] = sync.OnceValue(func() ast.Value { return t.document(s) })
	}
	return t
}

// store returns the store of a resource type. It creates the store if there is none.
func (d *Data) store(resource schema.GroupVersionResource) *store {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.stores[resource]
	if !ok {
		s = &store{}
		d.stores[resource] = s
	}
	return s
}

// degree is the degree of the B-trees: a node has fewer than twice as many records, and a write copies the nodes on its
// path.
const degree = 16

// Load replaces the content of a resource type with the objects, and makes the type complete, so that policies that read it can decide. It
// reports whether the kept data changed. Only the given fields of these objects and of all later ones are kept. fields is a sealed set, and
// the objects contain these fields.
func (d *Data) Load(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) bool {
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, before := s.records, s.fields
	// Projections to the same fields are shared with those of the old objects.
	alike := old != nil && before.Covers(fields) && fields.Covers(before)
	if !alike {
		s.fields, s.pool = fields, newProjectionPool(fields)
	}
	next := btree.New(degree, recordLess)
	for _, o := range objects {
		r := recordKey(o.GetNamespace(), o.GetName())
		r.projected = s.pool.acquire(o.Object)
		if replaced, twice := next.ReplaceOrInsert(r); twice {
			s.pool.release(replaced.projected)
		}
	}
	s.records = next
	if old == nil {
		d.publish(resource, s.table(), nil)
		return true
	}
	if alike {
		old.Ascend(func(r record) bool {
			s.pool.release(r.projected)
			return true
		})
	}
	changes, names := compare(old, next, before)
	if alike && !names && len(changes) == 0 {
		return false
	}
	d.publish(resource, s.table(), func(l *fieldSet) bool {
		return names || slices.ContainsFunc(changes, func(c change) bool { return !l.sameContent(c.old, c.next) })
	})
	return true
}

// change is an object's projections in an old and a new table; nil for a table that lacks the object.
type change struct{ old, next *projectedObject }

// compare returns the changes of the objects that both trees have and of which the fields differ. names reports whether one tree has an
// object that the other one lacks; the changes are then incomplete.
func compare(old, next *btree.BTree[record], fields *projection.FieldSet) (changes []change, names bool) {
	if old.Len() != next.Len() {
		return nil, true
	}
	whole := &fieldSet{fields: fields}
	old.Ascend(func(a record) bool {
		b, ok := next.Get(a)
		names = !ok
		if ok && !whole.sameContent(a.projected, b.projected) {
			changes = append(changes, change{a.projected, b.projected})
		}
		return ok
	})
	return changes, names
}

// Put adds or replaces one object. It reports whether the kept data changed. It does nothing before Load has given Data the objects of the
// resource type.
func (d *Data) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) bool {
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return false
	}
	r := recordKey(o.GetNamespace(), o.GetName())
	r.projected = s.pool.acquire(o.Object)
	existing, known := s.records.Get(r)
	if known {
		s.pool.release(existing.projected)
		if existing.projected == r.projected {
			return false
		}
		// Keep the name that is stored, so that the copy can be freed.
		r.name = existing.name
	}
	s.records.ReplaceOrInsert(r)
	d.publish(resource, s.table(), func(l *fieldSet) bool {
		return !known || !l.sameContent(existing.projected, r.projected)
	})
	return true
}

// Delete removes one object, and reports whether Data had it.
func (d *Data) Delete(resource schema.GroupVersionResource, namespace, name string) bool {
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return false
	}
	r, found := s.records.Delete(recordKey(namespace, name))
	if !found {
		return false
	}
	s.pool.release(r.projected)
	d.publish(resource, s.table(), func(*fieldSet) bool { return true })
	return true
}

// Drop removes a resource type and its objects, and reports whether Data had them from Load. Policies that read it get an
// *engine.NotReplicatedError from then on.
func (d *Data) Drop(resource schema.GroupVersionResource) bool {
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return false
	}
	s.records, s.pool, s.fields = nil, nil, nil
	d.publish(resource, nil, nil)
	return true
}

// publish sets the resource's table to next, or removes it if next is nil. changed reports whether the content of a
// field set differs from the current table's. It is called only for field sets whose fields the current table keeps.
func (d *Data) publish(resource schema.GroupVersionResource, next *table, changed func(*fieldSet) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	current := d.current.Load()
	old := current.tables[resource]
	tables := maps.Clone(current.tables)
	if next == nil {
		delete(tables, resource)
	} else {
		tables[resource] = next
		next.revisions = make([]uint64, len(d.fieldSets[resource]))
		for i, pointer := range d.fieldSets[resource] {
			if l := pointer.Value(); l != nil {
				next.revisions[i] = l.revision(old, next, changed)
			}
		}
	}
	published := &snapshot{tables: tables, merged: current.merged}
	if slices.ContainsFunc(d.inventories, func(of *inventories) bool { return slices.Contains(of.resources, resource) }) {
		published.merged = &sync.Map{}
	}
	d.current.Store(published)
}

// revision returns the field set's revision in the table next, which replaces old: that in old if changed returns false, a new one if it
// returns true or old lacks the fields, and 0 if next does not keep the fields. old may be nil. changed reports whether the fields have
// another content in next.
func (l *fieldSet) revision(old, next *table, changed func(*fieldSet) bool) uint64 {
	before := uint64(0)
	if old != nil {
		before = old.revisions[l.index]
	}
	switch {
	case old != nil && old.fields == next.fields:
		if before == 0 || !changed(l) {
			return before
		}
	case !next.fields.Covers(l.fields):
		return 0
	case before != 0 && !changed(l):
		return before
	}
	return nextRevision()
}

// sameContent reports whether two objects have the same content in the set's fields, both in their own and in their normal form. It ignores
// other fields.
func (l *fieldSet) sameContent(a, b *projectedObject) bool {
	return a == b || l.fields.EqualValues(a.terms[ownForm].Value, b.terms[ownForm].Value) &&
		replication.FieldsOfNormal(l.fields).EqualValues(valueOf(a.terms[normalForm]), valueOf(b.terms[normalForm]))
}

// fieldSetFor returns the fieldSet of a resource type that all policies with exactly these fields share. It creates the set, with a
// revision of its own, if none is left.
func (d *Data) fieldSetFor(resource schema.GroupVersionResource, fields *projection.FieldSet) *fieldSet {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.fieldSets[resource]
	free := len(all)
	for i, pointer := range all {
		l := pointer.Value()
		switch {
		case l == nil:
			free = i
		case l.fields.Covers(fields) && fields.Covers(l.fields):
			return l
		}
	}
	l := &fieldSet{resource: resource, fields: fields, index: free}
	if free == len(all) {
		all = append(all, weak.Pointer[fieldSet]{})
	}
	all[free] = weak.Make(l)
	d.fieldSets[resource] = all
	current := d.current.Load()
	if t, ok := current.tables[resource]; ok {
		next := *t
		next.revisions = make([]uint64, len(all))
		copy(next.revisions, t.revisions)
		next.revisions[free] = 0
		if t.fields.Covers(fields) {
			next.revisions[free] = nextRevision()
		}
		tables := maps.Clone(current.tables)
		tables[resource] = &next
		d.current.Store(&snapshot{tables: tables, merged: current.merged})
	}
	return l
}

// fieldSetsOf returns the field sets of a policy, one for each resource type that it reads, which include the types of its inventories.
// Policies that read the same fields of a type share a field set.
func (d *Data) fieldSetsOf(b *policy.Binding) []*fieldSet {
	out := make([]*fieldSet, len(b.Resources))
	for i, r := range b.Resources {
		out[i] = d.fieldSetFor(r.GroupVersionResource, b.Fields[r.GroupVersionResource])
	}
	return out
}

// revision returns the revision of a field set's content; 0 if the snapshot does not have the resource type, or not all of the fields.
func (s *snapshot) revision(l *fieldSet) uint64 {
	t, ok := s.tables[l.resource]
	if !ok {
		return 0
	}
	return t.revisions[l.index]
}

// Size returns the number of objects of a resource type and an estimate of the memory of their projections in bytes, where a shared
// projection counts once. ok is false before Load has given Data the objects, and after Drop.
func (d *Data) Size(resource schema.GroupVersionResource) (objects int, bytes int64, ok bool) {
	t, ok := d.current.Load().tables[resource]
	if !ok {
		return 0, 0, false
	}
	return t.records.Len(), t.bytes, true
}

// valueOf returns the value of a term; nil if the term is nil.
func valueOf(term *ast.Term) ast.Value {
	if term == nil {
		return nil
	}
	return term.Value
}

// document returns all objects in the form show, as data.kubernetes.<plural> has them: by namespace and name, or only by name for
// cluster-scoped resources.
func (t *table) document(show form) ast.Value {
	out := ast.NewObject()
	var inner ast.Object
	var namespace unique.Handle[string]
	// An object computes the hash of a member when the member is inserted. So a namespace is inserted only once it is
	// complete.
	fill := func() {
		if inner != nil {
			out.Insert(ast.StringTerm(namespace.Value()), ast.NewTerm(sorted(inner)))
		}
	}
	t.records.Ascend(func(r record) bool {
		term := r.projected.terms[show]
		if term == nil {
			return true
		}
		if r.namespace.Value() == "" {
			out.Insert(ast.StringTerm(r.name), term)
			return true
		}
		if inner == nil || namespace != r.namespace {
			fill()
			inner, namespace = ast.NewObject(), r.namespace
		}
		inner.Insert(ast.StringTerm(r.name), term)
		return true
	})
	fill()
	return sorted(out)
}

// sorted prepares an object for use by several goroutines, and returns it. OPA sorts an object's members on first ordered access, without
// synchronization with concurrent readers of the unsorted members, such as a copy. sorted makes that access now.
func sorted(o ast.Object) ast.Value {
	o.Foreach(func(_, _ *ast.Term) {})
	return o
}

// namespaceDocument returns the objects of one namespace in the form show, by name; nil if there are none.
func (t *table) namespaceDocument(namespace string, show form) ast.Value {
	out := ast.NewObject()
	first := recordKey(namespace, "")
	t.records.AscendGreaterOrEqual(first, func(r record) bool {
		if r.namespace != first.namespace {
			return false
		}
		if term := r.projected.terms[show]; term != nil {
			out.Insert(ast.StringTerm(r.name), term)
		}
		return true
	})
	if out.Len() == 0 {
		return nil
	}
	return out
}

// inventories are the resource types whose objects represent the clusters in data.clusters. inventoriesOf returns the same pointer for
// lists with the same types in the same order. In another order, the same types are another pointer, with an equal data.clusters.
type inventories struct {
	resources []schema.GroupVersionResource
}

// inventoriesOf returns the shared pointer for a list of inventories. snapshot.clusters accepts only lists that were
// returned here.
func (d *Data) inventoriesOf(resources []schema.GroupVersionResource) *inventories {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.inventories {
		if slices.Equal(known.resources, resources) {
			return known
		}
	}
	out := &inventories{slices.Clone(resources)}
	d.inventories = append(d.inventories, out)
	// Older snapshots share a map that publish did not reset when these inventories changed.
	d.current.Store(&snapshot{tables: d.current.Load().tables, merged: &sync.Map{}})
	return out
}

// merged holds data.clusters of some inventories in two forms, as policies read it and as predicates are evaluated on it. Each is computed
// on first use.
type merged struct {
	// document is the form that policies read.
	document func() mergedDocument
	// predicateSnapshot is the form that predicates are evaluated on.
	predicateSnapshot func() *predicates.Snapshot
	// tolerant is data.clusters as the last call of tolerating returned it, which a call for the same clusters returns again; nil before the
	// first call.
	tolerant atomic.Pointer[tolerantDocument]
}

// tolerantDocument is data.clusters without the taints by which the named clusters are marked as not ready.
type tolerantDocument struct {
	names    []any     // the names of the clusters without these taints: strings, sorted
	clusters ast.Value // data.clusters without these taints
}

// tolerating returns data.clusters without the taints by which the named clusters are marked as not ready. The names are strings, sorted.
// It keeps the last document, for calls with the same names.
func (m *merged) tolerating(names []any) ast.Value {
	last := m.tolerant.Load()
	if last == nil || !slices.Equal(last.names, names) {
		last = &tolerantDocument{names: names, clusters: withoutReadinessTaints(m.document().clusters, names)}
		m.tolerant.Store(last)
	}
	return last.clusters
}

// mergedDocument is what policies read of some inventories: data.clusters, and the names that several objects have, which data.clusters
// lacks. It also has the clusters that are marked as not ready.
type mergedDocument struct {
	clusters  ast.Value               // the value of data.clusters
	ambiguous []replication.Ambiguity // the names that are not in it, with the objects that have them
	// ambiguousNames is the value of data.berth.ambiguousclusters: the objects that have each of these names.
	ambiguousNames ast.Value
	// unready are the clusters that are marked as not ready, by name, with the time since when, zero if unknown; nil if there are none.
	unready map[string]time.Time
}

// clusters returns the merged form of the inventories. It is computed once for all snapshots with the same inventory data.
func (s *snapshot) clusters(of *inventories) *merged {
	existing, ok := s.merged.Load(of)
	if !ok {
		next := &merged{document: sync.OnceValue(func() mergedDocument { return s.merge(of) })}
		next.predicateSnapshot = sync.OnceValue(func() *predicates.Snapshot { return clusterSnapshot(next.document().clusters) })
		existing, _ = s.merged.LoadOrStore(of, next)
	}
	return existing.(*merged)
}

// clusterSnapshot converts data.clusters to a snapshot for predicates, with the same fields of clusters for all policies.
func clusterSnapshot(document ast.Value) *predicates.Snapshot {
	all := map[string]map[string]any{}
	// The document was made from JSON, so it converts back without an error.
	clusters, _ := toMap(document)
	for name, cluster := range clusters {
		if cluster, ok := cluster.(map[string]any); ok {
			// Other policies may need more fields of the clusters replicated. Predicates get the same fields in any case.
			all[name] = analysis.ClusterFields().Project(cluster)
		}
	}
	return predicates.ClusterSnapshot(all)
}

// nameField is the field of the normal form that holds a cluster's name, and managerField the one that holds a ClusterProfile's manager.
var nameField, managerField = ast.StringTerm("name"), ast.StringTerm(replication.ManagerField)

// merge computes data.clusters from the inventories. A name is ambiguous, and not in data.clusters, if several objects count as its cluster
// (replication.Counting).
func (s *snapshot) merge(of *inventories) mergedDocument {
	all, twice, unready := ast.NewObject(), false, map[string]time.Time(nil)
	s.ascend(of, func(name, cluster *ast.Term, _ replication.Claim) {
		if twice = twice || all.Get(name) != nil; !twice {
			all.Insert(name, cluster)
		}
		if since, ok := unreadySince(cluster); ok {
			if unready == nil {
				unready = map[string]time.Time{}
			}
			unready[nameOf(name)] = since
		}
	})
	if !twice {
		return mergedDocument{clusters: sorted(all), ambiguousNames: ambiguousDocument(nil), unready: unready}
	}
	// Only ambiguous names need to know the objects of each name.
	claims := replication.Claims{}
	s.ascend(of, func(name, _ *ast.Term, claim replication.Claim) { claims.Add(nameOf(name), claim) })
	unique := ast.NewObject()
	s.ascend(of, func(name, cluster *ast.Term, claim replication.Claim) {
		if counting := replication.Counting(claims[nameOf(name)]); len(counting) == 1 && counting[0] == claim {
			unique.Insert(name, cluster)
		}
	})
	ambiguous := claims.Ambiguous()
	return mergedDocument{clusters: sorted(unique), ambiguous: ambiguous, ambiguousNames: ambiguousDocument(ambiguous), unready: unready}
}

// ascend calls f with each object of the inventories that represents a cluster: the cluster's name, the normal form of the object, and what
// identifies the object. It calls f several times with a name that several objects have.
func (s *snapshot) ascend(of *inventories, f func(name, cluster *ast.Term, claim replication.Claim)) {
	for _, inventory := range of.resources {
		t, ok := s.tables[inventory]
		if !ok {
			continue
		}
		resource := inventory.GroupResource()
		t.records.Ascend(func(r record) bool {
			cluster := r.projected.terms[normalForm]
			if cluster == nil {
				return true
			}
			// The name is kept if it can differ from the object's name.
			name := cluster.Get(nameField)
			if name == nil {
				name = ast.StringTerm(r.name)
			}
			claim := replication.Claim{Resource: resource, Namespace: r.namespace.Value(), Name: r.name}
			if resource == replication.ClusterProfiles {
				claim.Manager = nameOf(cluster.Get(managerField))
			}
			f(name, cluster, claim)
			return true
		})
	}
}

// nameOf returns the string of a term; "" if the term is nil or not a string.
func nameOf(name *ast.Term) string {
	if name == nil {
		return ""
	}
	text, _ := name.Value.(ast.String)
	return string(text)
}

// Ambiguous returns the names of clusters that several objects have, sorted, each with these objects. A ClusterProfile does not count
// beside the object from which a fleet manager derived it. The resources are the inventories that a policy reads (policy.Binding.Clusters).
func (d *Data) Ambiguous(resources []schema.GroupVersionResource) []replication.Ambiguity {
	if len(resources) == 0 {
		return nil
	}
	// A snapshot from before the list is known would not do.
	of := d.inventoriesOf(resources)
	return d.current.Load().clusters(of).document().ambiguous
}

// Profile returns the namespace of the ClusterProfile that represents a cluster. ok is false if none does, or several, or if no policy
// reads ClusterProfiles as clusters.
func (d *Data) Profile(cluster string) (namespace string, ok bool) {
	current := d.current.Load()
	var found []string
	for resource := range current.tables {
		if resource.GroupResource() != replication.ClusterProfiles {
			continue
		}
		current.ascend(&inventories{[]schema.GroupVersionResource{resource}}, func(name, _ *ast.Term, claim replication.Claim) {
			if nameOf(name) == cluster {
				found = append(found, claim.Namespace)
			}
		})
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// ambiguousDocument returns data.berth.ambiguousclusters: an object that has, by ambiguous name, an array of the objects that have the
// name, as texts.
func ambiguousDocument(all []replication.Ambiguity) ast.Value {
	out := ast.NewObject()
	for _, a := range all {
		objects := make([]*ast.Term, len(a.Objects))
		for i, object := range a.Objects {
			objects[i] = ast.StringTerm(object.String())
		}
		out.Insert(ast.StringTerm(a.Cluster), ast.ArrayTerm(objects...))
	}
	return sorted(out)
}

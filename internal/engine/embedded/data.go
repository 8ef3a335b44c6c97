package embedded

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"
	"weak"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

var _ engine.Data = (*Data)(nil)

// Data holds the replicated objects, cut down to what is read of them, as immutable values of the policy language.
// Readers take a snapshot without a lock; writers copy what they change. Objects that are cut to the same share it.
//
// It stands in for OPA's in-memory store, which converts the data anew in each evaluation or, if it keeps converted
// values, rebuilds the whole collection on each write under a lock that readers wait for.
type Data struct {
	current atomic.Pointer[snapshot]

	// mu serialises what is published.
	mu     sync.Mutex
	stores map[schema.GroupVersionResource]*store
	// lenses are those of each type, by index.
	lenses map[schema.GroupVersionResource][]weak.Pointer[lens]
	// inventories are the lists that data.clusters is made of. There are few, as they differ only where what is served
	// did.
	inventories []*inventories
}

// snapshot is the world at one moment. It is immutable but for what it computes lazily.
type snapshot struct {
	tables map[schema.GroupVersionResource]*table
	// merged are the forms of data.clusters, each a *merged, by the *inventories that it is made of. Snapshots with the same
	// inventories share it.
	merged *sync.Map
}

// table is one resource type's objects by namespace and name.
type table struct {
	// fields are what is kept of the objects.
	fields  *projection.Fields
	records *btree.BTree[record]
	// bytes is about what the objects take.
	bytes int64
	// revisions are those of the lenses, by index; 0 for a lens that wants other fields. One changes whenever what the
	// lens shows does, and is never used twice, not even by another table.
	revisions []uint64
	// documents are the whole collection, by the side that is shown, computed when first read.
	documents [sides]func() ast.Value
}

// lens is how policies see the objects of a resource type that read the same fields of them. Who looks through it
// keeps it; when nobody does, its place is for another one.
type lens struct {
	resource schema.GroupVersionResource
	fields   *projection.Fields
	index    int
}

// side is one of the documents that an object shows in different places.
type side int

const (
	// own is the object itself, normal its normal form: that of a cluster, or of a quota.
	own side = iota
	normal
	sides
)

// record is one replicated object.
type record struct {
	namespace unique.Handle[string]
	name      string
	shown     *shown
}

func sooner(a, b record) bool {
	if a.namespace != b.namespace {
		return a.namespace.Value() < b.namespace.Value()
	}
	return a.name < b.name
}

func at(namespace, name string) record {
	return record{namespace: unique.Make(namespace), name: name}
}

// NewData returns a store without any resource type.
func NewData() *Data {
	d := &Data{stores: map[schema.GroupVersionResource]*store{}, lenses: map[schema.GroupVersionResource][]weak.Pointer[lens]{}}
	d.current.Store(&snapshot{merged: &sync.Map{}})
	return d
}

// noData is the revision of a policy that reads no cluster data.
const noData uint64 = 1

// revisions numbers contents. It is shared so that a table that was dropped and filled anew never repeats one.
var revisions atomic.Uint64

func nextRevision() uint64 { return noData + revisions.Add(1) }

// store is what the writer of a resource type works on.
type store struct {
	mu     sync.Mutex
	fields *projection.Fields
	shared *sharing
	// records is nil while the type is not complete.
	records *btree.BTree[record]
}

// table returns what the store has at this moment.
func (s *store) table() *table {
	t := &table{fields: s.fields, records: s.records.Clone(), bytes: s.shared.bytes + int64(s.records.Len())*recordBytes}
	for s := range sides {
		t.documents[s] = sync.OnceValue(func() ast.Value { return t.document(s) })
	}
	return t
}

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

// degree is that of the trees: nodes of up to twice as many records, which a write copies on its way.
const degree = 16

// Load implements engine.Data.
func (d *Data) Load(resource schema.GroupVersionResource, fields *projection.Fields, objects []*unstructured.Unstructured) bool {
	if fields == nil {
		fields = allFields
	}
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, before := s.records, s.fields
	// What is cut alike is shared with what is there.
	alike := old != nil && before.Covers(fields) && fields.Covers(before)
	if !alike {
		s.fields, s.shared = fields, newSharing(fields)
	}
	next := btree.New(degree, sooner)
	for _, o := range objects {
		r := at(o.GetNamespace(), o.GetName())
		r.shown = s.shared.take(o.Object)
		if replaced, twice := next.ReplaceOrInsert(r); twice {
			s.shared.drop(replaced.shown)
		}
	}
	s.records = next
	if old == nil {
		d.publish(resource, s.table(), nil)
		return true
	}
	if alike {
		old.Ascend(func(r record) bool {
			s.shared.drop(r.shown)
			return true
		})
	}
	changes, names := compare(old, next, before)
	if alike && !names && len(changes) == 0 {
		return false
	}
	d.publish(resource, s.table(), func(l *lens) bool {
		return names || slices.ContainsFunc(changes, func(c change) bool { return !l.same(c.old, c.next) })
	})
	return true
}

// change is what an object showed and shows now.
type change struct{ old, next *shown }

// compare returns the objects in two trees that differ in the fields, or says that the trees have other names.
func compare(old, next *btree.BTree[record], fields *projection.Fields) (changes []change, names bool) {
	if old.Len() != next.Len() {
		return nil, true
	}
	whole := &lens{fields: fields}
	old.Ascend(func(a record) bool {
		b, ok := next.Get(a)
		names = !ok
		if ok && !whole.same(a.shown, b.shown) {
			changes = append(changes, change{a.shown, b.shown})
		}
		return ok
	})
	return changes, names
}

// Put implements engine.Data.
func (d *Data) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) bool {
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return false
	}
	r := at(o.GetNamespace(), o.GetName())
	r.shown = s.shared.take(o.Object)
	standing, known := s.records.Get(r)
	if known {
		s.shared.drop(standing.shown)
		if standing.shown == r.shown {
			return false
		}
		// The name that is there is as good as its copy.
		r.name = standing.name
	}
	s.records.ReplaceOrInsert(r)
	d.publish(resource, s.table(), func(l *lens) bool {
		return !known || !l.same(standing.shown, r.shown)
	})
	return true
}

// Delete implements engine.Data.
func (d *Data) Delete(resource schema.GroupVersionResource, namespace, name string) bool {
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return false
	}
	r, found := s.records.Delete(at(namespace, name))
	if !found {
		return false
	}
	s.shared.drop(r.shown)
	d.publish(resource, s.table(), func(*lens) bool { return true })
	return true
}

// Drop implements engine.Data.
func (d *Data) Drop(resource schema.GroupVersionResource) bool {
	s := d.store(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return false
	}
	s.records, s.shared, s.fields = nil, nil, nil
	d.publish(resource, nil, nil)
	return true
}

// publish makes next the resource's table; nil removes it. changed says whether a lens shows another content than the
// table that is there, if it can show that at all.
func (d *Data) publish(resource schema.GroupVersionResource, next *table, changed func(*lens) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	current := d.current.Load()
	old := current.tables[resource]
	tables := maps.Clone(current.tables)
	if tables == nil {
		tables = map[schema.GroupVersionResource]*table{}
	}
	if next == nil {
		delete(tables, resource)
	} else {
		tables[resource] = next
		next.revisions = make([]uint64, len(d.lenses[resource]))
		for i, pointer := range d.lenses[resource] {
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

// revision is that of the lens in a table that follows another one, which may be nil.
func (l *lens) revision(old, next *table, changed func(*lens) bool) uint64 {
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

// same says whether two objects show the same through the lens.
func (l *lens) same(a, b *shown) bool {
	return a == b || l.fields.Same(a.terms[own].Value, b.terms[own].Value) &&
		replication.FieldsOfNormal(l.fields).Same(valueOf(a.terms[normal]), valueOf(b.terms[normal]))
}

// lens returns the lens on some fields of a resource type; nil stands for all.
func (d *Data) lens(resource schema.GroupVersionResource, fields *projection.Fields) *lens {
	if fields == nil {
		fields = allFields
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.lenses[resource]
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
	l := &lens{resource: resource, fields: fields, index: free}
	if free == len(all) {
		all = append(all, weak.Pointer[lens]{})
	}
	all[free] = weak.Make(l)
	d.lenses[resource] = all
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

// lensesOf are what a policy looks through, one for each resource type that it reads.
func (d *Data) lensesOf(b *policy.Binding) []*lens {
	out := make([]*lens, len(b.Resources))
	for i, r := range b.Resources {
		out[i] = d.lens(r.GroupVersionResource, b.Fields[r.GroupVersionResource])
	}
	return out
}

// revision returns that of what a lens shows; 0 while the snapshot does not have it.
func (s *snapshot) revision(l *lens) uint64 {
	t, ok := s.tables[l.resource]
	if !ok {
		return 0
	}
	return t.revisions[l.index]
}

// Size implements engine.Data.
func (d *Data) Size(resource schema.GroupVersionResource) (objects int, bytes int64, ok bool) {
	t, ok := d.current.Load().tables[resource]
	if !ok {
		return 0, 0, false
	}
	return t.records.Len(), t.bytes, true
}

func valueOf(term *ast.Term) ast.Value {
	if term == nil {
		return nil
	}
	return term.Value
}

// document is the table as data.kubernetes.<plural>: by namespace and name, or by name alone for cluster-scoped
// resources.
func (t *table) document(show side) ast.Value {
	out := ast.NewObject()
	var inner ast.Object
	var namespace unique.Handle[string]
	// An object takes the hash of a member when it gets it, so namespaces are filled first.
	fill := func() {
		if inner != nil {
			out.Insert(ast.StringTerm(namespace.Value()), ast.NewTerm(sorted(inner)))
		}
	}
	t.records.Ascend(func(r record) bool {
		shown := r.shown.terms[show]
		if shown == nil {
			return true
		}
		if r.namespace.Value() == "" {
			out.Insert(ast.StringTerm(r.name), shown)
			return true
		}
		if inner == nil || namespace != r.namespace {
			fill()
			inner, namespace = ast.NewObject(), r.namespace
		}
		inner.Insert(ast.StringTerm(r.name), shown)
		return true
	})
	fill()
	return sorted(out)
}

// sorted makes an object fit to be shared by goroutines: its members are sorted when that is first asked for, behind the
// back of those who walk through them unsorted, such as who copies it.
func sorted(o ast.Object) ast.Value {
	o.Foreach(func(_, _ *ast.Term) {})
	return o
}

// within returns one namespace of the table; nil if the table has no object there.
func (t *table) within(namespace string, show side) ast.Value {
	out := ast.NewObject()
	first := at(namespace, "")
	t.records.AscendGreaterOrEqual(first, func(r record) bool {
		if r.namespace != first.namespace {
			return false
		}
		if shown := r.shown.terms[show]; shown != nil {
			out.Insert(ast.StringTerm(r.name), shown)
		}
		return true
	})
	if out.Len() == 0 {
		return nil
	}
	return out
}

// inventories are what data.clusters is made of, in order of precedence. Equal lists are the same pointer.
type inventories struct {
	resources []schema.GroupVersionResource
}

// inventoriesOf returns a list of inventories. Only clusters of lists that were returned can be read.
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
	// What older snapshots share was not kept apart for these.
	d.current.Store(&snapshot{tables: d.current.Load().tables, merged: &sync.Map{}})
	return out
}

// merged is data.clusters, made of some inventories, in its two forms, which are computed when first asked for.
type merged struct {
	// document is what policies read, and judged what predicates are asked about.
	document func() ast.Value
	judged   func() *predicates.Snapshot
}

func (s *snapshot) clusters(of *inventories) *merged {
	standing, ok := s.merged.Load(of)
	if !ok {
		next := &merged{document: sync.OnceValue(func() ast.Value { return s.merge(of) })}
		next.judged = sync.OnceValue(func() *predicates.Snapshot { return judgedClusters(next.document()) })
		standing, _ = s.merged.LoadOrStore(of, next)
	}
	return standing.(*merged)
}

// judgedClusters makes a snapshot of data.clusters.
func judgedClusters(document ast.Value) *predicates.Snapshot {
	all := map[string]map[string]any{}
	// What was made of JSON can be made JSON again.
	clusters, _ := object(document)
	for name, cluster := range clusters {
		if cluster, ok := cluster.(map[string]any); ok {
			// Others may have had more of it replicated than who asks predicates.
			all[name] = policy.ClusterFields().Cut(cluster)
		}
	}
	return predicates.ClusterSnapshot(all)
}

// nameField is the field of the normal form that has a cluster's name.
var nameField = ast.StringTerm("name")

// merge lays the inventories over each other. Where two objects stand for a cluster of the same name, the inventory that
// comes first counts, and within it the namespace that sorts first, then the object's name.
func (s *snapshot) merge(of *inventories) ast.Value {
	out := ast.NewObject()
	for _, inventory := range of.resources {
		t, ok := s.tables[inventory]
		if !ok {
			continue
		}
		t.records.Ascend(func(r record) bool {
			cluster := r.shown.terms[normal]
			if cluster == nil {
				return true
			}
			// Where it can differ from the object's, it was kept.
			name := cluster.Get(nameField)
			if name == nil {
				name = ast.StringTerm(r.name)
			}
			if out.Get(name) == nil {
				out.Insert(name, cluster)
			}
			return true
		})
	}
	return sorted(out)
}

// resourceText is how messages name a resource type.
func resourceText(r schema.GroupVersionResource) string {
	return strings.TrimSuffix(r.Resource+"."+r.Group, ".")
}

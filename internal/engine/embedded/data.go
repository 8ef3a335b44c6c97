package embedded

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/replication"
)

var _ engine.Data = (*Data)(nil)

// Data holds the replicated objects as immutable values of the policy language. Readers take a snapshot without a
// lock; writers copy what they change.
//
// It stands in for OPA's in-memory store, which converts the data anew in each evaluation or, if it keeps converted
// values, rebuilds the whole collection on each write under a lock that readers wait for.
type Data struct {
	// write serialises writers.
	write   sync.Mutex
	current atomic.Pointer[snapshot]
}

// snapshot is the world at one moment. It is immutable but for what it computes lazily.
type snapshot struct {
	tables map[schema.GroupVersionResource]*table
	// inventories changes, as a table's revision does, whenever an inventory of clusters comes, goes or changes.
	inventories uint64
	// clusters is data.clusters, computed when first read.
	clusters func() ast.Value
}

// table is one resource type's objects by namespace and name.
type table struct {
	// revision changes whenever the content does, and is never used twice, not even by another table.
	revision uint64
	objects  *iradix.Tree[object]
	// whole is the collection as one document, computed when first read.
	whole func() ast.Value
}

// object is one replicated object.
type object struct {
	namespace, name string
	value           ast.Value
	// cluster is its normal form, if it stands for a cluster; quota what data.berth shows of it, if it is a quota.
	cluster, quota ast.Value
}

// whole and usage are what a policy sees of an object at different places.
func whole(o object) ast.Value { return o.value }
func usage(o object) ast.Value { return o.quota }

// NewData returns a store without any resource type.
func NewData() *Data {
	d := &Data{}
	d.current.Store(newSnapshot(nil, noData))
	return d
}

func newSnapshot(tables map[schema.GroupVersionResource]*table, inventories uint64) *snapshot {
	s := &snapshot{tables: tables, inventories: inventories}
	s.clusters = sync.OnceValue(s.mergeClusters)
	return s
}

// noData is the revision of a policy that reads no cluster data.
const noData uint64 = 1

// revisions numbers table contents. It is shared so that a table that was dropped and filled anew never repeats one.
var revisions atomic.Uint64

func newTable(objects *iradix.Tree[object]) *table {
	t := &table{revision: noData + revisions.Add(1), objects: objects}
	t.whole = sync.OnceValue(func() ast.Value { return t.document(whole) })
	return t
}

// key sorts by namespace, then name; neither can hold the separator.
func key(namespace, name string) []byte {
	return []byte(namespace + "\x00" + name)
}

// Replace implements engine.Data.
func (d *Data) Replace(resource schema.GroupVersionResource, objects []*unstructured.Unstructured) bool {
	txn := iradix.New[object]().Txn()
	for _, o := range objects {
		txn.Insert(key(o.GetNamespace(), o.GetName()), convert(resource, o))
	}
	next := txn.Commit()
	return d.update(resource, func(old *table) *table {
		if old != nil && equal(old.objects, next) {
			return old
		}
		return newTable(next)
	})
}

// Put implements engine.Data.
func (d *Data) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) bool {
	next := convert(resource, o)
	return d.update(resource, func(old *table) *table {
		if old == nil {
			return nil
		}
		k := key(next.namespace, next.name)
		if standing, ok := old.objects.Get(k); ok && standing.value.Compare(next.value) == 0 {
			return old
		}
		objects, _, _ := old.objects.Insert(k, next)
		return newTable(objects)
	})
}

// Delete implements engine.Data.
func (d *Data) Delete(resource schema.GroupVersionResource, namespace, name string) bool {
	return d.update(resource, func(old *table) *table {
		if old == nil {
			return nil
		}
		objects, _, found := old.objects.Delete(key(namespace, name))
		if !found {
			return old
		}
		return newTable(objects)
	})
}

// Drop implements engine.Data.
func (d *Data) Drop(resource schema.GroupVersionResource) bool {
	return d.update(resource, func(*table) *table { return nil })
}

// update publishes a snapshot in which the resource's table is what change makes of it; nil removes it. It says whether
// that made a difference.
func (d *Data) update(resource schema.GroupVersionResource, change func(*table) *table) bool {
	d.write.Lock()
	defer d.write.Unlock()
	current := d.current.Load()
	old, inventories := current.tables, current.inventories
	next := change(old[resource])
	if next == old[resource] {
		return false
	}
	tables := maps.Clone(old)
	if tables == nil {
		tables = map[schema.GroupVersionResource]*table{}
	}
	if next == nil {
		delete(tables, resource)
	} else {
		tables[resource] = next
	}
	if slices.Contains(replication.Inventories, resource) {
		inventories = noData + revisions.Add(1)
	}
	d.current.Store(newSnapshot(tables, inventories))
	return true
}

// Objects implements engine.Data.
func (d *Data) Objects(resource schema.GroupVersionResource) (int, bool) {
	t, ok := d.current.Load().tables[resource]
	if !ok {
		return 0, false
	}
	return t.objects.Len(), true
}

func convert(resource schema.GroupVersionResource, o *unstructured.Unstructured) object {
	out := object{namespace: o.GetNamespace(), name: o.GetName()}
	out.value = ast.MustInterfaceToValue(o.Object)
	if cluster, ok := replication.Cluster(resource, o.Object); ok {
		out.cluster = ast.MustInterfaceToValue(cluster)
	}
	if quota, ok := replication.Quota(resource, o.Object); ok {
		out.quota = ast.MustInterfaceToValue(quota)
	}
	return out
}

func equal(a, b *iradix.Tree[object]) bool {
	if a.Len() != b.Len() {
		return false
	}
	same := true
	a.Root().Walk(func(k []byte, left object) bool {
		right, ok := b.Get(k)
		same = ok && left.value.Compare(right.value) == 0
		return !same
	})
	return same
}

// document is the table as data.kubernetes.<plural>: by namespace and name, or by name alone for cluster-scoped
// resources. show is what is shown of each object.
func (t *table) document(show func(object) ast.Value) ast.Value {
	out := ast.NewObject()
	var inner ast.Object
	var namespace string
	t.objects.Root().Walk(func(_ []byte, o object) bool {
		if o.namespace == "" {
			out.Insert(ast.StringTerm(o.name), ast.NewTerm(show(o)))
			return false
		}
		if inner == nil || namespace != o.namespace {
			inner, namespace = ast.NewObject(), o.namespace
			out.Insert(ast.StringTerm(namespace), ast.NewTerm(inner))
		}
		inner.Insert(ast.StringTerm(o.name), ast.NewTerm(show(o)))
		return false
	})
	return out
}

// within returns one namespace of the table; nil if the table has no object there.
func (t *table) within(namespace string, show func(object) ast.Value) ast.Value {
	out := ast.NewObject()
	t.objects.Root().WalkPrefix(key(namespace, ""), func(_ []byte, o object) bool {
		out.Insert(ast.StringTerm(o.name), ast.NewTerm(show(o)))
		return false
	})
	if out.Len() == 0 {
		return nil
	}
	return out
}

// mergeClusters lays the inventories over each other. Where two objects stand for a cluster of the same name, the
// inventory that comes first counts, and within it the namespace that sorts first.
func (s *snapshot) mergeClusters() ast.Value {
	out := ast.NewObject()
	for _, inventory := range replication.Inventories {
		t, ok := s.tables[inventory]
		if !ok {
			continue
		}
		t.objects.Root().Walk(func(_ []byte, o object) bool {
			name := ast.StringTerm(o.name)
			if o.cluster != nil && out.Get(name) == nil {
				out.Insert(name, ast.NewTerm(o.cluster))
			}
			return false
		})
	}
	return out
}

// resourceText is how messages name a resource type.
func resourceText(r schema.GroupVersionResource) string {
	return strings.TrimSuffix(r.Resource+"."+r.Group, ".")
}

package remote

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
)

// mirror is which objects an engine has, once all transactions that were made are done.
type mirror struct {
	tables map[schema.GroupVersionResource]*table
	// clusters are, by the name of a cluster, the objects that stand for it, and shown the one that is at data.clusters;
	// nil while that is not Berth's.
	clusters map[string]map[claim]*record
	shown    map[string]*record
}

func newMirror() *mirror {
	return &mirror{tables: map[schema.GroupVersionResource]*table{}, clusters: map[string]map[claim]*record{}}
}

// table is what there is of one type.
type table struct {
	places []place
	// rank is that of an inventory.
	rank int
	// objects are by namespace and name.
	objects map[string]map[string]*record
}

// place is where the objects of a type are, by namespace and name.
type place struct {
	path pointer
	// normal says that there is their normal form.
	normal bool
}

// claim is an object that stands for a cluster. Of those for the same one the least counts, as for policies that are
// decided here.
type claim struct {
	rank int
	objectKey
}

func compareClaims(a, b claim) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), compareKeys(a.objectKey, b.objectKey))
}

// pointer is a JSON Pointer (RFC 6901).
type pointer string

// escaper writes names as parts of pointers. OPA reads those also as parts of a URL.
var escaper = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25")

func (p pointer) below(names ...string) pointer {
	for _, name := range names {
		p += pointer("/" + escaper.Replace(name))
	}
	return p
}

// unescaper is the inverse of escaper.
var unescaper = strings.NewReplacer("~0", "~", "~1", "/", "%25", "%")

// names are the parts of the pointer.
func (p pointer) names() []string {
	out := strings.Split(string(p), "/")[1:]
	for i := range out {
		out[i] = unescaper.Replace(out[i])
	}
	return out
}

// placesOf are those of a type's objects. The bare plural name stands for nothing while several types have it.
func placesOf(r schema.GroupVersionResource, ambiguous bool) []place {
	out := []place{{path: pointer("").below("resources", r.GroupVersion().String(), r.Resource)}}
	if !ambiguous {
		out = append(out, place{path: barePlace(r)})
	}
	if name, ok := policy.QuotasOf(r); ok {
		out = append(out, place{path: pointer("").below("berth", name), normal: true})
	}
	return out
}

func barePlace(r schema.GroupVersionResource) pointer {
	return pointer("").below("kubernetes", r.Resource)
}

// change is a transaction while it is written down: a JSON Patch (RFC 6902).
type change struct {
	patch bytes.Buffer
	// clusters are the names of the clusters that may have another object now.
	clusters map[string]bool
}

func newChange() *change { return &change{clusters: map[string]bool{}} }

func (c *change) operation(op string, path pointer) {
	c.patch.WriteByte(separator(c.patch.Len()))
	c.patch.WriteString(`{"op":"` + op + `","path":`)
	c.patch.Write(text(path))
}

// separator precedes an element of a list of which so many bytes are there.
func separator(length int) byte {
	if length == 0 {
		return '['
	}
	return ','
}

// set writes a document, which takes the place of one that is there.
func (c *change) set(path pointer, document []byte) {
	c.operation("add", path)
	c.patch.WriteString(`,"value":`)
	c.patch.Write(document)
	c.patch.WriteByte('}')
}

// remove removes a document that was there before the transaction: OPA takes no other.
func (c *change) remove(path pointer) {
	c.operation("remove", path)
	c.patch.WriteByte('}')
}

// body ends the list. The change is not added to after that.
func (c *change) body() []byte {
	c.patch.WriteByte(']')
	return c.patch.Bytes()
}

// fill makes some objects the content of a type. Whatever is there of it goes.
func (m *mirror) fill(c *change, r schema.GroupVersionResource, rank int, ambiguous bool, objects []named) {
	m.retract(c, r)
	t := &table{places: placesOf(r, ambiguous), rank: rank, objects: map[string]map[string]*record{}}
	m.tables[r] = t
	for _, o := range objects {
		m.note(c, t, o.objectKey, o.record)
	}
	for _, p := range t.places {
		c.set(p.path, p.document(objects))
	}
}

// document are objects, which are sorted, as the content of a place.
func (p place) document(objects []named) []byte {
	var out bytes.Buffer
	namespace := ""
	write := func(opening bool, name string) {
		if !opening {
			out.WriteByte(',')
		}
		out.Write(text(name))
		out.WriteByte(':')
	}
	out.WriteByte('{')
	for i, o := range objects {
		first := i == 0
		if o.namespace != namespace {
			if namespace != "" {
				out.WriteByte('}')
			}
			write(first, o.namespace)
			out.WriteByte('{')
			namespace, first = o.namespace, true
		}
		write(first, o.name)
		out.Write(p.text(o.record))
	}
	if namespace != "" {
		out.WriteByte('}')
	}
	out.WriteByte('}')
	return out.Bytes()
}

// text is what is there of an object.
func (p place) text(o *record) []byte {
	if p.normal {
		return o.normal
	}
	return o.own
}

// put changes one object; nil stands for its end. It does nothing if the engine is not to have the type.
func (m *mirror) put(c *change, r schema.GroupVersionResource, key objectKey, o *record) {
	t := m.tables[r]
	if t == nil {
		return
	}
	standing := t.objects[key.namespace]
	if o == nil && standing[key.name] == nil {
		return
	}
	for _, p := range t.places {
		within := p.path
		if key.namespace != "" {
			within = within.below(key.namespace)
		}
		switch {
		case o != nil && key.namespace != "" && len(standing) == 0:
			c.set(within, place{normal: p.normal}.document([]named{{objectKey{name: key.name}, o}}))
		case o != nil:
			c.set(within.below(key.name), p.text(o))
		case key.namespace != "" && len(standing) == 1:
			c.remove(within)
		default:
			c.remove(within.below(key.name))
		}
	}
	m.note(c, t, key, o)
}

// note writes down that an object is there, or no longer.
func (m *mirror) note(c *change, t *table, key objectKey, o *record) {
	standing := t.objects[key.namespace]
	m.stand(c, claim{t.rank, key}, standing[key.name], o)
	if o != nil {
		if standing == nil {
			standing = map[string]*record{}
			t.objects[key.namespace] = standing
		}
		standing[key.name] = o
		return
	}
	if delete(standing, key.name); len(standing) == 0 {
		delete(t.objects, key.namespace)
	}
}

// stand notes which clusters an object stood and stands for; nil stands for none.
func (m *mirror) stand(c *change, by claim, before, after *record) {
	if before != nil && before.cluster != "" {
		delete(m.clusters[before.cluster], by)
		if len(m.clusters[before.cluster]) == 0 {
			delete(m.clusters, before.cluster)
		}
		c.clusters[before.cluster] = true
	}
	if after != nil && after.cluster != "" {
		if m.clusters[after.cluster] == nil {
			m.clusters[after.cluster] = map[claim]*record{}
		}
		m.clusters[after.cluster][by] = after
		c.clusters[after.cluster] = true
	}
}

// retract forgets what there is of a type, whose places are another matter.
func (m *mirror) retract(c *change, r schema.GroupVersionResource) {
	t := m.tables[r]
	if t == nil {
		return
	}
	for namespace, objects := range t.objects {
		for name, o := range objects {
			m.stand(c, claim{t.rank, objectKey{namespace, name}}, o, nil)
		}
	}
	delete(m.tables, r)
}

// showClusters writes what changed of data.clusters.
func (m *mirror) showClusters(c *change) {
	for _, name := range slices.Sorted(maps.Keys(c.clusters)) {
		var next *record
		if all := m.clusters[name]; len(all) > 0 {
			next = all[slices.MinFunc(slices.Collect(maps.Keys(all)), compareClaims)]
		}
		at := pointer("").below("clusters", name)
		switch next {
		case m.shown[name]:
		case nil:
			c.remove(at)
			delete(m.shown, name)
		default:
			c.set(at, next.normal)
			m.shown[name] = next
		}
	}
	clear(c.clusters)
}

// beginClusters makes data.clusters Berth's, without any.
func (m *mirror) beginClusters(c *change) {
	if m.shown == nil {
		m.shown = map[string]*record{}
		c.set(clustersPlace, []byte("{}"))
	}
}

// endClusters empties data.clusters, which is Berth's no longer.
func (m *mirror) endClusters(c *change) {
	m.shown = nil
	clear(c.clusters)
	c.set(clustersPlace, []byte("{}"))
}

// samples are the names on the way to one document at each place of one of the types, by turns, and at data.clusters: to
// any object, or to the place where it has none.
func (m *mirror) samples(turn int) [][]string {
	var out [][]string
	add := func(at pointer, names []string) { out = append(out, append(at.names(), names...)) }
	types := slices.SortedFunc(maps.Keys(m.tables), func(a, b schema.GroupVersionResource) int {
		return strings.Compare(typeName(a), typeName(b))
	})
	if len(types) > 0 {
		t := m.tables[types[turn%len(types)]]
		if names, ok := t.sample(); ok {
			for _, p := range t.places {
				add(p.path, names)
			}
		}
	}
	if m.shown != nil {
		if names, ok := sample(m.shown); ok {
			add(clustersPlace, names)
		}
	}
	return out
}

// sample are the names of any object, none if the type has no objects; ok is false if none of them can be asked for.
func (t *table) sample() (names []string, ok bool) {
	for namespace, objects := range t.objects {
		if namespace == "" {
			return sample(objects)
		}
		if names, ok := sample(objects); ok && !numeric(namespace) {
			return append([]string{namespace}, names...), true
		}
	}
	return nil, len(t.objects) == 0
}

// sample is any name that can be asked for, none if there are no objects; ok is false if there are others only.
func sample(objects map[string]*record) (names []string, ok bool) {
	for name := range objects {
		if !numeric(name) {
			return []string{name}, true
		}
	}
	return nil, len(objects) == 0
}

// numeric says that OPA reads a part of a URL as a number: 007 is another one's name then.
func numeric(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// clustersPlace is data.clusters.
var clustersPlace = pointer("").below("clusters")

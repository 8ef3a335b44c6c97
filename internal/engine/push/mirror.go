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

package push

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/replication"
)

// mirror tracks what an engine has after all transactions that were sent: the objects by type, those that represent a cluster by the
// cluster's name, and what is in data.clusters.
type mirror struct {
	// tables are the contents of the types that the engine has.
	tables map[schema.GroupVersionResource]*table
	// clusters are the objects that represent each cluster, by the cluster's name. Of several, some may not count: ClusterProfiles that a
	// fleet manager derived from another one of them. The name is ambiguous if more than one counts.
	clusters         map[string]map[replication.Claim]*record
	writtenClusters  map[string]*record // the objects at data.clusters, by name; nil while no type in the engine represents clusters
	writtenAmbiguous map[string]bool    // the names in data.berth.ambiguousclusters
}

// table is the content of one type in the engine: its objects, and the documents that have them.
type table struct {
	// places are the documents in the engine that contain the objects. A change of an object changes it in all of them.
	places []documentPlace
	// resource is the resource type.
	resource schema.GroupResource
	// objects are the objects by namespace and name.
	objects map[string]map[string]*record
}

// documentPlace is a document that contains all objects of a type, by namespace, if they have one, and name. It has either the objects
// themselves or only their normal form.
type documentPlace struct {
	path pointer // the path of the document below data, such as /kubernetes/nodes
	// normal reports whether the place has the normal form of the objects, and not the objects themselves. It is true only for quotas in
	// data.berth, which all have a normal form.
	normal bool
}

// pointer is a JSON Pointer (RFC 6901).
type pointer string

// escaper escapes a name for a pointer. It also escapes percent signs, because OPA decodes pointers like URLs.
var escaper = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25")

// below returns the pointer to the value at the path names below p.
func (p pointer) below(names ...string) pointer {
	for _, name := range names {
		p += pointer("/" + escaper.Replace(name))
	}
	return p
}

// unescaper is the inverse of escaper.
var unescaper = strings.NewReplacer("~0", "~", "~1", "/", "%25", "%")

// names returns the unescaped elements of the pointer; none if it points to the whole document.
func (p pointer) names() []string {
	out := strings.Split(string(p), "/")[1:]
	for i := range out {
		out[i] = unescaper.Replace(out[i])
	}
	return out
}

// placesOf returns the documents that have a type's objects: one in data.resources, by group and version; one in data.kubernetes, unless
// ambiguous is true; and, for quotas, one in data.berth, with their normal form. ambiguous reports whether the engine needs several types
// with the plural name.
func placesOf(r schema.GroupVersionResource, ambiguous bool) []documentPlace {
	out := []documentPlace{{path: pointer("").below("resources", r.GroupVersion().String(), r.Resource)}}
	if !ambiguous {
		out = append(out, documentPlace{path: barePlace(r)})
	}
	if name, ok := language.QuotasOf(r); ok {
		out = append(out, documentPlace{path: pointer("").below("berth", name), normal: true})
	}
	return out
}

// barePlace returns the place of a type's objects by its plural name alone, such as /kubernetes/nodes.
func barePlace(r schema.GroupVersionResource) pointer {
	return pointer("").below("kubernetes", r.Resource)
}

// change is a transaction under construction: a JSON Patch (RFC 6902).
type change struct {
	patch bytes.Buffer // the operations so far
	// clusters are the names of the clusters whose object may have changed.
	clusters map[string]bool
}

// newChange returns a transaction without operations. It needs one before body is called.
func newChange() *change { return &change{clusters: map[string]bool{}} }

// operation begins an operation of the patch. The caller writes the rest of the operation and its closing brace.
func (c *change) operation(op string, path pointer) {
	before := "["
	if c.patch.Len() > 0 {
		before = ","
	}
	c.patch.WriteString(before + `{"op":"` + op + `","path":`)
	c.patch.Write(toJSON(path))
}

// set adds an operation that writes a document, and replaces one that exists. The documents that contain it must exist.
func (c *change) set(path pointer, document []byte) {
	c.operation("add", path)
	c.patch.WriteString(`,"value":`)
	c.patch.Write(document)
	c.patch.WriteByte('}')
}

// remove adds an operation that removes a document. The document must exist before the transaction, because OPA rejects
// the operation otherwise.
func (c *change) remove(path pointer) {
	c.operation("remove", path)
	c.patch.WriteByte('}')
}

// body completes the patch and returns its JSON, which is valid only if the change has operations. Nothing may be added to the change
// afterwards.
func (c *change) body() []byte {
	c.patch.WriteByte(']')
	return c.patch.Bytes()
}

// fillType replaces the content of a type by some objects, in the mirror and by operations of c. ambiguous reports whether the engine needs
// several types with the plural name.
func (m *mirror) fillType(c *change, r schema.GroupVersionResource, ambiguous bool, objects []keyedRecord) {
	m.removeType(c, r)
	t := &table{places: placesOf(r, ambiguous), resource: r.GroupResource(), objects: map[string]map[string]*record{}}
	m.tables[r] = t
	for _, o := range objects {
		m.recordObject(c, t, o.objectKey, o.record)
	}
	for _, p := range t.places {
		c.set(p.path, p.document(objects))
	}
}

// document returns the JSON of a place that contains these objects, which must be sorted.
func (p documentPlace) document(objects []keyedRecord) []byte {
	var out bytes.Buffer
	namespace := ""
	write := func(opening bool, name string) {
		if !opening {
			out.WriteByte(',')
		}
		out.Write(toJSON(name))
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

// text returns the JSON of an object in the form that the place contains.
func (p documentPlace) text(o *record) []byte {
	if p.normal {
		return o.normal
	}
	return o.object
}

// put replaces one object, or removes it if o is nil, in the mirror and by operations of c. It does nothing if the engine does not have the
// type.
func (m *mirror) put(c *change, r schema.GroupVersionResource, key objectKey, o *record) {
	t := m.tables[r]
	if t == nil {
		return
	}
	existing := t.objects[key.namespace]
	if o == nil && existing[key.name] == nil {
		return
	}
	for _, p := range t.places {
		within := p.path
		if key.namespace != "" {
			within = within.below(key.namespace)
		}
		switch {
		case o != nil && key.namespace != "" && len(existing) == 0:
			c.set(within, documentPlace{normal: p.normal}.document([]keyedRecord{{objectKey{name: key.name}, o}}))
		case o != nil:
			c.set(within.below(key.name), p.text(o))
		case key.namespace != "" && len(existing) == 1:
			c.remove(within)
		default:
			c.remove(within.below(key.name))
		}
	}
	m.recordObject(c, t, key, o)
}

// recordObject records in the mirror that the engine has an object, or that it does not if o is nil.
func (m *mirror) recordObject(c *change, t *table, key objectKey, o *record) {
	existing := t.objects[key.namespace]
	m.recordCluster(c, t, key, existing[key.name], o)
	if o != nil {
		if existing == nil {
			existing = map[string]*record{}
			t.objects[key.namespace] = existing
		}
		existing[key.name] = o
		return
	}
	if delete(existing, key.name); len(existing) == 0 {
		delete(t.objects, key.namespace)
	}
}

// recordCluster records in the mirror which cluster an object represents. before and after are the object before and after the change; nil
// if there is none.
func (m *mirror) recordCluster(c *change, t *table, key objectKey, before, after *record) {
	if before != nil && before.cluster != "" {
		delete(m.clusters[before.cluster], before.claim(t.resource, key))
		if len(m.clusters[before.cluster]) == 0 {
			delete(m.clusters, before.cluster)
		}
		c.clusters[before.cluster] = true
	}
	if after != nil && after.cluster != "" {
		if m.clusters[after.cluster] == nil {
			m.clusters[after.cluster] = map[replication.Claim]*record{}
		}
		m.clusters[after.cluster][after.claim(t.resource, key)] = after
		c.clusters[after.cluster] = true
	}
}

// removeType removes a type from the mirror. It adds no operations for the type's places in the engine.
func (m *mirror) removeType(c *change, r schema.GroupVersionResource) {
	t := m.tables[r]
	if t == nil {
		return
	}
	for namespace, objects := range t.objects {
		for name, o := range objects {
			m.recordCluster(c, t, objectKey{namespace, name}, o, nil)
		}
	}
	delete(m.tables, r)
}

// patchClusters adds to the transaction the changes of data.clusters and of data.berth.ambiguousclusters for the clusters whose objects it
// may have changed. A cluster with one object that counts is in the former, one with several in the latter. patchClusters reports whether
// the latter changes.
func (m *mirror) patchClusters(c *change) (ambiguity bool) {
	for _, name := range slices.Sorted(maps.Keys(c.clusters)) {
		claims := replication.Counting(slices.Collect(maps.Keys(m.clusters[name])))
		var next *record
		if len(claims) == 1 {
			next = m.clusters[name][claims[0]]
		}
		at := clustersPlace.below(name)
		switch next {
		case m.writtenClusters[name]:
		case nil:
			c.remove(at)
			delete(m.writtenClusters, name)
		default:
			c.set(at, next.normal)
			m.writtenClusters[name] = next
		}
		switch at := ambiguousPlace.below(name); {
		case len(claims) > 1:
			c.set(at, textsOf(claims))
			m.writtenAmbiguous[name], ambiguity = true, true
		case m.writtenAmbiguous[name]:
			c.remove(at)
			delete(m.writtenAmbiguous, name)
			ambiguity = true
		}
	}
	clear(c.clusters)
	return ambiguity
}

// textsOf returns a JSON array with the texts of the objects that claim a cluster, sorted.
func textsOf(claims []replication.Claim) []byte {
	texts := make([]string, 0, len(claims))
	for _, claim := range claims {
		texts = append(texts, claim.String())
	}
	slices.Sort(texts)
	return toJSON(texts)
}

// beginClusters sets data.clusters and data.berth.ambiguousclusters to empty objects, unless Berth already writes them.
func (m *mirror) beginClusters(c *change) {
	if m.writtenClusters == nil {
		m.setClustersEmpty(c)
		m.writtenClusters = map[string]*record{}
	}
}

// endClusters sets data.clusters and data.berth.ambiguousclusters to empty objects, also if Berth did not write them. Berth does not write
// them afterwards, until beginClusters.
func (m *mirror) endClusters(c *change) {
	m.setClustersEmpty(c)
	m.writtenClusters = nil
	clear(c.clusters)
}

// setClustersEmpty adds operations that set data.clusters and data.berth.ambiguousclusters to empty objects, whatever is there.
func (m *mirror) setClustersEmpty(c *change) {
	for _, place := range []pointer{clustersPlace, ambiguousPlace} {
		c.set(place, []byte("{}"))
	}
	m.writtenAmbiguous = map[string]bool{}
}

// samples returns paths of documents that must exist in the engine: one in each place of one type, and one in data.clusters and
// data.berth.ambiguousclusters each. A path leads to an object, or to the place itself if it has no objects. A place is missing if OPA
// could take every path to its objects for another one. round is the number of the call: successive ones have successive types.
func (m *mirror) samples(round int) [][]string {
	var out [][]string
	add := func(at pointer, names []string) { out = append(out, append(at.names(), names...)) }
	if types := slices.SortedFunc(maps.Keys(m.tables), compareTypes); len(types) > 0 {
		t := m.tables[types[round%len(types)]]
		if names, ok := t.sample(); ok {
			for _, p := range t.places {
				add(p.path, names)
			}
		}
	}
	if m.writtenClusters != nil {
		if names, ok := sample(m.writtenClusters); ok {
			add(clustersPlace, names)
		}
		if names, ok := sample(m.writtenAmbiguous); ok {
			add(ambiguousPlace, names)
		}
	}
	return out
}

// sample returns the namespace, if it has one, and the name of any object; none if there are no objects. ok is false if OPA could take
// every path to an object for another one.
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

// sample returns any name that OPA does not take for a number; none if there are no objects. ok is false if there are only other names.
func sample[V any](objects map[string]V) (names []string, ok bool) {
	for name := range objects {
		if !numeric(name) {
			return []string{name}, true
		}
	}
	return nil, len(objects) == 0
}

// numeric reports whether OPA reads an element of a URL as a number. Such an element can refer to another name: 007 is
// read as 7.
func numeric(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// clustersPlace is data.clusters, and ambiguousPlace is data.berth.ambiguousclusters.
var (
	clustersPlace  = pointer("").below(language.RootClusters)
	ambiguousPlace = pointer("").below(language.RootBerth, language.AmbiguousClusters)
)

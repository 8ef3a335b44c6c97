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

package match

import (
	"slices"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	// maxTypes bounds the number of resource types by which an item is indexed. An item with more types is checked for
	// all.
	maxTypes = 64
	// maxValues bounds the number of values of a label by which an item is indexed.
	maxValues = 64
)

// Index finds the items that may match an object, among many items that have a Matcher each. It looks items up by
// resource type, and by one label that the Matcher requires of the object or of its namespace. It is immutable and safe
// for concurrent use. A changed copy shares the unchanged parts.
type Index[T comparable] struct {
	matcher func(T) *Matcher         // Returns the Matcher of an item.
	types   *iradix.Tree[*bucket[T]] // The buckets by typeKey.
	// rest are the items that are not in types because their rules name too many types.
	rest []T
}

// bucket holds the items of one resource type. It is immutable.
type bucket[T comparable] struct {
	// always are the items that cannot be looked up by a label.
	always []T
	// labelled are the other items, by the key of labelKey.
	labelled *iradix.Tree[[]T]
	// byNamespace are the items in labelled that are indexed by a label of the namespace. They may match any cluster-scoped
	// object, to which namespace selectors do not apply.
	byNamespace []T
}

// required is a label of an object or its namespace that must have one of several values.
type required struct {
	ofNamespace bool // Whether it is a label of the namespace.
	// keys are the index keys of the label with each of the values.
	keys [][]byte
}

// NewIndex returns an empty index. matcher returns an item's Matcher; it must always return the same one. An item whose
// Matcher is nil matches nothing.
func NewIndex[T comparable](matcher func(T) *Matcher) *Index[T] {
	return &Index[T]{matcher: matcher, types: iradix.New[*bucket[T]]()}
}

// With returns a copy of the index with an additional item. The index must not have the item yet.
func (x *Index[T]) With(item T) *Index[T] {
	return x.change(item, func(list []T) []T { return slices.Concat(list, []T{item}) }, func(b bucket[T], m *Matcher) bucket[T] {
		return b.with(m, item)
	})
}

// Without returns a copy of the index without an item, which the index must have.
func (x *Index[T]) Without(item T) *Index[T] {
	return x.change(item, func(list []T) []T { return without(list, item) }, func(b bucket[T], m *Matcher) bucket[T] {
		return b.without(m, item)
	})
}

// change returns a copy of the index in which one item is added or removed: by the function rest in the list rest if the item names too
// many types, and otherwise by the function in in the bucket of each of its types. A wildcard is a type of its own, with a bucket.
func (x *Index[T]) change(item T, rest func([]T) []T, in func(bucket[T], *Matcher) bucket[T]) *Index[T] {
	m := x.matcher(item)
	if m == nil {
		return x
	}
	next := *x
	types, few := m.types()
	if !few {
		next.rest = rest(x.rest)
		return &next
	}
	txn := x.types.Txn()
	for _, key := range types {
		b, ok := txn.Get(key)
		if !ok {
			b = &bucket[T]{labelled: iradix.New[[]T]()}
		}
		changed := in(*b, m)
		if len(changed.always) == 0 && changed.labelled.Len() == 0 {
			txn.Delete(key)
		} else {
			txn.Insert(key, &changed)
		}
	}
	next.types = txn.Commit()
	return &next
}

// types returns the index keys of the resource types in the matcher's rules, without duplicates. few is false, and there are no keys, if
// the types, including duplicates, are more than maxTypes.
func (m *Matcher) types() (keys [][]byte, few bool) {
	n := 0
	for _, rule := range m.match.ResourceRules {
		n += len(rule.APIGroups) * len(rule.APIVersions) * len(rule.Resources)
	}
	if n > maxTypes {
		return nil, false
	}
	for _, rule := range m.match.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, version := range rule.APIVersions {
				for _, resource := range rule.Resources {
					keys = append(keys, typeKey(nil, group, version, resource))
				}
			}
		}
	}
	slices.SortFunc(keys, slices.Compare)
	return slices.CompactFunc(keys, slices.Equal), true
}

// typeKey appends the index key of a resource type. The parts of a key cannot contain the separator.
func typeKey(to []byte, group, version, resource string) []byte {
	to = append(append(to, group...), 0)
	to = append(append(to, version...), 0)
	return append(to, resource...)
}

// labelKey appends the index key of a label with a value. ofNamespace tells labels of namespaces from those of objects.
func labelKey(to []byte, ofNamespace bool, key, value string) []byte {
	kind := byte('o')
	if ofNamespace {
		kind = 'n'
	}
	to = append(append(append(to, kind), key...), 0)
	return append(to, value...)
}

// requirements returns the labels for which a selector of namespaces or of objects lists the allowed values. It leaves out labels with
// more than maxValues of them.
func requirements(namespaces, objects labels.Selector) []required {
	var out []required
	add := func(ofNamespace bool, s labels.Selector) {
		all, _ := s.Requirements()
		for _, r := range all {
			switch r.Operator() {
			case selection.In, selection.Equals, selection.DoubleEquals:
				values := r.Values()
				if len(values) > maxValues {
					continue
				}
				one := required{ofNamespace: ofNamespace}
				for _, value := range values.List() {
					one.keys = append(one.keys, labelKey(nil, ofNamespace, r.Key(), value))
				}
				out = append(out, one)
			}
		}
	}
	add(true, namespaces)
	add(false, objects)
	return out
}

// with returns the bucket with an additional item, whose matcher is m. It indexes the item by the required label that it shares with the
// fewest other items. A label that all items require would not narrow the search.
func (b bucket[T]) with(m *Matcher, item T) bucket[T] {
	best, fewest := -1, 0
	for i, r := range m.required {
		others := 0
		for _, key := range r.keys {
			list, _ := b.labelled.Get(key)
			others += len(list)
		}
		if best < 0 || others < fewest {
			best, fewest = i, others
		}
	}
	if best < 0 {
		b.always = slices.Concat(b.always, []T{item})
		return b
	}
	r := m.required[best]
	txn := b.labelled.Txn()
	for _, key := range r.keys {
		list, _ := txn.Get(key)
		txn.Insert(key, slices.Concat(list, []T{item}))
	}
	b.labelled = txn.Commit()
	if r.ofNamespace {
		b.byNamespace = slices.Concat(b.byNamespace, []T{item})
	}
	return b
}

// without returns the bucket without the item, whose matcher is m.
func (b bucket[T]) without(m *Matcher, item T) bucket[T] {
	if len(m.required) == 0 {
		b.always = without(b.always, item)
		return b
	}
	txn := b.labelled.Txn()
	for _, r := range m.required {
		for _, key := range r.keys {
			list, ok := txn.Get(key)
			switch next := without(list, item); {
			case !ok:
			case len(next) == 0:
				txn.Delete(key)
			default:
				txn.Insert(key, next)
			}
		}
	}
	b.labelled = txn.Commit()
	b.byNamespace = without(b.byNamespace, item)
	return b
}

// without returns the list without the item. It returns the same list if it does not contain the item.
func without[T comparable](list []T, item T) []T {
	i := slices.Index(list, item)
	if i < 0 {
		return list
	}
	return slices.Concat(list[:i], list[i+1:])
}

// Candidates are the items whose rules select one resource type.
type Candidates[T comparable] struct {
	buckets []*bucket[T] // Those for the type itself and for wildcards.
	rest    []T          // The candidates that are in no bucket.
}

// CandidatesFor returns the items whose matchers select the resource type, as SelectsResource reports it.
func (x *Index[T]) CandidatesFor(resource schema.GroupVersionResource) Candidates[T] {
	var out Candidates[T]
	if NeverMatched(resource.GroupResource()) {
		return out
	}
	// Wildcards do not select bootstrap types.
	bootstrap := IsBootstrapType(resource.GroupResource())
	var space [256]byte
	for _, group := range [...]string{resource.Group, wildcard} {
		for _, version := range [...]string{resource.Version, wildcard} {
			for _, plural := range [...]string{resource.Resource, wildcard} {
				if bootstrap && (group != resource.Group || plural != resource.Resource) {
					continue
				}
				if b, ok := x.types.Get(typeKey(space[:0], group, version, plural)); ok {
					out.buckets = append(out.buckets, b)
				}
			}
		}
	}
	for _, item := range x.rest {
		if x.matcher(item).SelectsResource(resource) {
			out.rest = append(out.rest, item)
		}
	}
	return out
}

// Versions returns the API versions, except wildcards, in which the rules of items may name the resource, in any order. A version may occur
// more than once.
func (x *Index[T]) Versions(resource schema.GroupResource) []string {
	var out []string
	for _, group := range [...]string{resource.Group, wildcard} {
		prefix := append([]byte(group), 0)
		x.types.Root().WalkPrefix(prefix, func(key []byte, _ *bucket[T]) bool {
			version, plural, _ := strings.Cut(string(key[len(prefix):]), "\x00")
			if version != wildcard && (plural == resource.Resource || plural == wildcard) {
				out = append(out, version)
			}
			return false
		})
	}
	for _, item := range x.rest {
		for _, rule := range x.matcher(item).match.ResourceRules {
			out = append(out, slices.DeleteFunc(slices.Clone(rule.APIVersions), func(version string) bool { return version == wildcard })...)
		}
	}
	return out
}

// Empty reports whether there are no candidates.
func (c Candidates[T]) Empty() bool { return len(c.buckets) == 0 && len(c.rest) == 0 }

// Matching returns the candidates that may match the object, in any order. It includes all whose Matches or Leaves returns true.
// An item may occur more than once.
func (c Candidates[T]) Matching(o Object) []T {
	out := slices.Clone(c.rest)
	for _, b := range c.buckets {
		out = append(out, b.always...)
		if o.Namespace == "" {
			out = append(out, b.byNamespace...)
		} else {
			out = b.appendLabelled(out, true, o.NamespaceLabels)
		}
		out = b.appendLabelled(out, false, o.Content.GetLabels())
		if o.Old != nil {
			out = b.appendLabelled(out, false, o.Old.GetLabels())
		}
	}
	return out
}

// appendLabelled appends the items that are indexed by one of the labels. ofNamespace reports whether these are labels of a namespace.
func (b *bucket[T]) appendLabelled(out []T, ofNamespace bool, labels map[string]string) []T {
	if b.labelled.Len() == 0 {
		return out
	}
	var space [512]byte
	for key, value := range labels {
		items, _ := b.labelled.Get(labelKey(space[:0], ofNamespace, key, value))
		out = append(out, items...)
	}
	return out
}

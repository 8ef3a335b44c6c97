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

package clusterlist

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// references reads and writes a list of references to ClusterProfiles.
type references struct {
	// profile returns the namespace of the ClusterProfile that represents a cluster. ok is false if that is not known.
	profile func(cluster string) (namespace string, ok bool)
}

// newDecisions returns the kind PlacementDecision of multicluster.x-k8s.io. Its objects have, in the field decisions at the top level, a
// list of references to ClusterProfiles. The list is required, and an empty list selects no cluster. profile returns the namespace of the
// ClusterProfile that represents a cluster; ok is false if that is not known.
func newDecisions(profile func(cluster string) (namespace string, ok bool)) *Kind {
	return newKind(multicluster, "PlacementDecision", []string{"decisions"}, func(map[string]any) (layout, error) {
		return layout{path: []string{"decisions"}, max: maxNames, references: &references{profile}}, nil
	})
}

// read returns the names in the references, each once. The result has the references themselves unless new ones to the names would equal
// them.
func (r *references) read(obj map[string]any) (Names, written, error) {
	value := obj["decisions"]
	if value == nil {
		return Names{Terms: [][]string{nil}}, written{}, nil
	}
	list, ok := value.([]any)
	if !ok {
		return Names{}, written{}, errors.New("decisions must be a list")
	}
	names := []string{}
	plain := true
	for i, entry := range list {
		name, ok := r.name(obj, entry)
		if !ok {
			return Names{}, written{}, fmt.Errorf("decisions[%d].clusterProfileRef.name must be the name of a cluster", i)
		}
		plain = plain && reflect.DeepEqual(entry, newReference(namespaceOf(obj), name)) && !slices.Contains(names, name)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	out, form := Names{Terms: [][]string{names}}, written{}
	if !plain {
		form.Entries = list
	}
	return out, form, nil
}

// write sets the references to those with the wanted names. For a name, it keeps the references that the object has, otherwise takes those
// of entries, and otherwise makes a new one. It returns an error only if want has several terms.
func (r *references) write(obj map[string]any, want Names, entries []any) error {
	if want.Several {
		return fmt.Errorf("a PlacementDecision has one list of clusters, but there are %d lists to write", len(want.Terms))
	}
	names := want.Terms[0]
	// What represents a cluster may not be known any more since the names were read.
	nameOf := func(entry any) (name string, ok bool) {
		if qualified, ok := qualifiedName(obj, entry); ok && slices.Contains(names, qualified) {
			return qualified, true
		}
		return r.name(obj, entry)
	}
	list, _ := obj["decisions"].([]any)
	there := map[string][]any{}
	for _, entry := range list {
		if name, ok := nameOf(entry); ok {
			there[name] = append(there[name], entry)
		}
	}
	before := map[string][]any{}
	var order []string
	for _, entry := range entries {
		if name, ok := nameOf(entry); ok {
			before[name] = append(before[name], entry)
			order = append(order, name)
		}
	}
	// Restore the original order if the names are the original ones.
	if !slices.Equal(unique(order), names) {
		order = nil
	}
	stays := map[string]bool{}
	for name := range there {
		stays[name] = true
	}
	out := []any{}
	for _, name := range order {
		source := before
		if stays[name] {
			source = there
		}
		if len(source[name]) > 0 {
			out = append(out, deepCopy(source[name][0]))
			source[name] = source[name][1:]
		}
	}
	for _, name := range names {
		switch {
		case order != nil || stays[name]:
			out = append(out, there[name]...)
		case len(before[name]) > 0:
			out = append(out, before[name]...)
		default:
			out = append(out, r.reference(obj, name))
		}
	}
	obj["decisions"] = out
	return nil
}

// unique returns the names without repetitions, in the order of their first occurrence.
func unique(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// name returns the name of the cluster to which an entry of the list refers; ok is false if the entry has none. If the ClusterProfile that
// represents the cluster of that name is in another namespace than the referenced one, name returns the qualified name, as in "eu/prod",
// which no cluster has.
func (r *references) name(obj map[string]any, entry any) (name string, ok bool) {
	qualified, ok := qualifiedName(obj, entry)
	namespace, name, _ := strings.Cut(qualified, "/")
	if known, represented := r.profile(name); ok && represented && namespace != known {
		return qualified, true
	}
	return name, ok
}

// qualifiedName returns the namespace and the name in an entry's reference, as in "eu/prod". A reference without a namespace is to the
// namespace of the PlacementDecision. ok is false if the name is absent or not a string; an empty name counts as one.
func qualifiedName(obj map[string]any, entry any) (name string, ok bool) {
	at := map[string]any{"entry": entry}
	name, ok = lookup(at, []any{"entry", "clusterProfileRef", "name"}).(string)
	namespace, _ := lookup(at, []any{"entry", "clusterProfileRef", "namespace"}).(string)
	// Without one, it is the namespace of the PlacementDecision.
	return cmp.Or(namespace, namespaceOf(obj)) + "/" + name, ok
}

// reference returns a new entry that refers to a cluster, or to a ClusterProfile by its qualified name. For a cluster, it has the namespace
// of the ClusterProfile that represents it, or that of the PlacementDecision if that is not known.
func (r *references) reference(obj map[string]any, name string) map[string]any {
	namespace, plain, qualified := strings.Cut(name, "/")
	if !qualified {
		plain = name
		var known bool
		if namespace, known = r.profile(name); !known {
			namespace = namespaceOf(obj)
		}
	}
	return newReference(namespace, plain)
}

// newReference returns an entry of a PlacementDecision, with the member clusterProfileRef. That has the name and the namespace of a
// ClusterProfile, or only the name if the namespace is empty.
func newReference(namespace, name string) map[string]any {
	out := map[string]any{"name": name}
	if namespace != "" {
		out["namespace"] = namespace
	}
	return map[string]any{"clusterProfileRef": out}
}

// namespaceOf returns metadata.namespace of an object.
func namespaceOf(obj map[string]any) string {
	namespace, _ := lookup(obj, []any{"metadata", "namespace"}).(string)
	return namespace
}

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

// references is a list of references to ClusterProfiles.
type references struct {
	// profile returns the namespace of the ClusterProfile that represents a cluster, as far as that is known.
	profile func(cluster string) (namespace string, ok bool)
}

// newDecisions returns the kind PlacementDecision of multicluster.x-k8s.io. It has a list of references to ClusterProfiles. The list is
// required, and an empty list selects no cluster.
func newDecisions(profile func(cluster string) (namespace string, ok bool)) *Kind {
	return newKind(multicluster, "PlacementDecision", []string{"decisions"}, func(map[string]any) (layout, error) {
		return layout{path: []string{"decisions"}, max: maxNames, references: &references{profile}}, nil
	})
}

// read returns the names in the references, each once. If a new reference to each name would not be the same,
// the form has the references.
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

// write sets the references to those with the names. References that the object has stay, and others are
// those of the entries, or new ones.
func (r *references) write(obj map[string]any, want Names, entries []any) error {
	if want.Several {
		return errors.New("has no terms")
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

// name returns the name of the cluster in a reference. A reference to another object than the one that represents the cluster of its
// name is to no cluster of the inventories: its name has the namespace of that object, as in "eu/prod", which no cluster has.
func (r *references) name(obj map[string]any, entry any) (name string, ok bool) {
	qualified, ok := qualifiedName(obj, entry)
	namespace, name, _ := strings.Cut(qualified, "/")
	if known, represented := r.profile(name); ok && represented && namespace != known {
		return qualified, true
	}
	return name, ok
}

// qualifiedName returns the namespace and the name in a reference, as in "eu/prod".
func qualifiedName(obj map[string]any, entry any) (name string, ok bool) {
	at := map[string]any{"entry": entry}
	name, ok = lookup(at, []any{"entry", "clusterProfileRef", "name"}).(string)
	namespace, _ := lookup(at, []any{"entry", "clusterProfileRef", "namespace"}).(string)
	// Without one, it is the namespace of the PlacementDecision.
	return cmp.Or(namespace, namespaceOf(obj)) + "/" + name, ok
}

// reference returns a reference to a cluster. It has the namespace of the ClusterProfile that represents the cluster, or that of the
// PlacementDecision if that is not known.
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

func newReference(namespace, name string) map[string]any {
	out := map[string]any{"name": name}
	if namespace != "" {
		out["namespace"] = namespace
	}
	return map[string]any{"clusterProfileRef": out}
}

func namespaceOf(obj map[string]any) string {
	namespace, _ := lookup(obj, []any{"metadata", "namespace"}).(string)
	return namespace
}

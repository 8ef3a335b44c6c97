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
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// decisionLayout is that of a PlacementDecision of multicluster.x-k8s.io. It has a list of references to
// ClusterProfiles. The list is required, and an empty list selects no cluster.
func decisionLayout(map[string]any) (layout, error) {
	return layout{path: []string{"decisions"}, max: maxNames, references: true}, nil
}

// readReferences returns the names in the references, each once. If a new reference to each name would not be the same,
// the form has the references.
func readReferences(obj map[string]any) (Names, written, error) {
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
		name, ok := nameOf(entry)
		if !ok {
			return Names{}, written{}, fmt.Errorf("decisions[%d].clusterProfileRef.name must be the name of a cluster", i)
		}
		plain = plain && reflect.DeepEqual(entry, newReference(obj, name)) && !slices.Contains(names, name)
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

// writeReferences sets the references to those with the names. References that the object has stay, and others are
// those of the entries, or new ones.
func writeReferences(obj map[string]any, want Names, entries []any) error {
	if want.Several {
		return errors.New("has no terms")
	}
	names := want.Terms[0]
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
			out = append(out, newReference(obj, name))
		}
	}
	obj["decisions"] = out
	return nil
}

func unique(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// nameOf returns the name of the cluster in a reference.
func nameOf(entry any) (name string, ok bool) {
	name, ok = lookup(map[string]any{"entry": entry}, []any{"entry", "clusterProfileRef", "name"}).(string)
	return name, ok
}

// newReference returns a reference to a cluster in the namespace of the object.
func newReference(obj map[string]any, name string) map[string]any {
	reference := map[string]any{"name": name}
	if namespace, ok := lookup(obj, []any{"metadata", "namespace"}).(string); ok && namespace != "" {
		reference["namespace"] = namespace
	}
	return map[string]any{"clusterProfileRef": reference}
}

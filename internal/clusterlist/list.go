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
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// List is the list of clusters in an object, as Kind.Read reads it.
type List struct {
	// Path is the path of the field with the clusters, as in spec.placement.clusterAffinity.clusterNames.
	Path string
	// Text is the text of the clusters: a JSON array of their names or, if the field has several terms, of one such array or null for each
	// term. It is [] if the object selects no cluster, and nil if it names none, so that it may select any. An empty list in a field of plain
	// names means the latter.
	Text *string
	// Form is JSON that describes how the object has its list while that names no clusters, and which details the items have. Write needs it
	// to restore the field exactly. Read sets it unless it returns an error.
	Form string
	// Max is the maximum number of names that the API server accepts in the field; 0 means that there is no limit. Write does not check it.
	Max int
	// Repeats reports whether several references in the list have one name. They may refer to different objects if it is not known which
	// object represents the cluster of that name.
	Repeats bool
}

// At reads the list of clusters of an object. A built-in kind, by the object's apiVersion and kind, has its own path. For every other kind,
// path is the List.Path at which the list is. If that has fewer than two names, At returns an error, which is no UnknownKindError.
func At(obj map[string]any, path string) (List, error) {
	version, _ := obj["apiVersion"].(string)
	name, _ := obj["kind"].(string)
	kind := builtinOf(schema.FromAPIVersionAndKind(version, name).GroupKind())
	if kind == nil {
		names := strings.Split(path, ".")
		if len(names) < 2 {
			return List{}, fmt.Errorf("%s is not the path of a list of clusters", path)
		}
		kind = newNames("", "", names)
	}
	return kind.Read(obj)
}

// Read reads the clusters of an object, which needs to have only the fields in Fields. An error names the field with a wrong form; the
// result then has only Path and Max.
func (k *Kind) Read(obj map[string]any) (List, error) {
	l, err := k.layout(obj)
	out := List{Path: strings.Join(l.path, "."), Max: l.max}
	if err != nil {
		return out, err
	}
	names, form, err := l.read(obj)
	if err != nil {
		return out, err
	}
	// Marshaling does not fail: all values are decoded JSON.
	text, _ := json.Marshal(form)
	out.Text, out.Form = names.Text(), string(text)
	out.Repeats = l.references != nil && len(names.Terms) > 0 && len(form.Entries) > len(names.Terms[0])
	return out, nil
}

// Write returns a copy of an object whose list of clusters has the given List.Text; nil names no clusters. It returns the object itself if
// its list has that text already. The copy shares with the object what does not change, and items of the list that stay are not changed.
// form is the List.Form that was read with the text; if it is empty, fields that have no members then are removed. A text without terms is
// written to each term. Write returns an error if Read would return one, if the text can't be parsed, or if it has another number of terms
// than the object.
func (k *Kind) Write(obj map[string]any, text *string, form string) (map[string]any, error) {
	l, err := k.layout(obj)
	if err != nil {
		return nil, err
	}
	current, _, err := l.read(obj)
	if err != nil {
		return nil, err
	}
	want := Names{Terms: [][]string{nil}}
	if text != nil {
		var ok bool
		if want, ok = Parse(*text); !ok {
			return nil, fmt.Errorf("%s: the clusters %q are neither a JSON list of names nor a list of such lists", strings.Join(l.path, "."), *text)
		}
	}
	if now := current.Text(); now == text || now != nil && text != nil && *now == *text {
		return obj, nil
	}
	var as written
	// The form of another version, or of a record that was not verified, may be anything.
	_ = json.Unmarshal([]byte(form), &as)
	out := copied(obj, k.root)
	if err := l.write(out, want, as); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(l.path, "."), err)
	}
	return out, nil
}

// Graft returns a copy of obj that has the field at Root of another object of the kind, or lacks the field if the other one does. The copy
// shares the field with that object, and the other fields with obj.
func (k *Kind) Graft(obj, from map[string]any) map[string]any {
	out := copied(obj, k.root)
	parent, source := out, from
	for _, name := range k.root[:len(k.root)-1] {
		source, _ = source[name].(map[string]any)
		below, ok := parent[name].(map[string]any)
		if !ok {
			if source == nil {
				return out
			}
			below = map[string]any{}
			parent[name] = below
		}
		parent = below
	}
	last := k.root[len(k.root)-1]
	if value, ok := source[last]; ok {
		parent[last] = value
	} else {
		delete(parent, last)
	}
	return out
}

// written is the JSON in List.Form. It describes what exists of the path to the list of clusters.
type written struct {
	// Path is how many names of layout.path exist, if the slots are cluster selector terms; otherwise 0.
	Path int `json:"path,omitempty"`
	// Terms has, for each slot, how many elements of its path exist after its first base elements.
	Terms []int `json:"terms,omitempty"`
	// Entries are the items of a list of references, if the names alone do not restore them.
	Entries []any `json:"entries,omitempty"`
}

// layout is where an object has its clusters.
type layout struct {
	path []string // the path of the field, as messages name it
	max  int      // the maximum number of names, which read and write do not check; 0 for no limit
	// slots are the places of the lists of names, one for each term.
	slots   []slot
	several bool // whether List.Text has an item for each term; false for a placement of KubeFleet with one cluster selector term
	// selectors reports whether the slots are the cluster selector terms of a placement of KubeFleet, in the list at path. An object without
	// terms has no slots.
	selectors bool
	// references reads and writes the list of references to clusters at path, which is the field decisions of a PlacementDecision; nil for
	// other kinds. A layout with references has no slots.
	references *references
}

// read returns the names of clusters in an object, and what exists of the paths to them.
func (l layout) read(obj map[string]any) (Names, written, error) {
	if l.references != nil {
		return l.references.read(obj)
	}
	out, form := Names{Several: l.several}, written{}
	if l.selectors {
		form.Path = existing(obj, elements(l.path))
	}
	for _, s := range l.slots {
		names, err := s.names(obj)
		if err != nil {
			return Names{}, written{}, err
		}
		out.Terms = append(out.Terms, names)
		form.Terms = append(form.Terms, s.existing(obj))
	}
	return out, form, nil
}

// write makes an object name the wanted clusters. It changes the object in place, so no other code may use what is at its root. as is what
// read returned with the names.
func (l layout) write(obj map[string]any, want Names, as written) error {
	if l.references != nil {
		return l.references.write(obj, want, as.Entries)
	}
	if l.selectors && len(l.slots) == 0 {
		return l.addTerm(obj, want)
	}
	terms := want.Terms
	if !want.Several && l.several {
		terms = slices.Repeat(terms, len(l.slots))
	}
	if len(terms) != len(l.slots) {
		return fmt.Errorf("the object has %d terms, but the clusters to write are for %d terms", len(l.slots), len(terms))
	}
	for i, s := range l.slots {
		if terms[i] != nil {
			s.set(obj, terms[i])
			continue
		}
		depth := 0
		if len(as.Terms) == len(l.slots) {
			depth = as.Terms[i]
		}
		s.unset(obj, depth)
	}
	if l.selectors && len(terms) == 1 && terms[0] == nil && len(as.Terms) == 0 {
		l.removeTerm(obj, as.Path)
	}
	return nil
}

// copied returns a copy of an object that shares with it nothing of the field at the path root.
func copied(obj map[string]any, root []string) map[string]any {
	out := make(map[string]any, len(obj))
	for name, value := range obj {
		if name == root[0] {
			if below, ok := value.(map[string]any); ok && len(root) > 1 {
				value = copied(below, root[1:])
			} else {
				value = deepCopy(value)
			}
		}
		out[name] = value
	}
	return out
}

// deepCopy returns a deep copy of decoded JSON.
func deepCopy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = deepCopy(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = deepCopy(item)
		}
		return out
	default:
		return value
	}
}

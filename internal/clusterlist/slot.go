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
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// slot is the place of one list of cluster names in an object.
type slot struct {
	// path leads to the list; its elements are names of members (string) and indexes of items (int). For a selector, it leads to the list of
	// the term's expressions.
	path []any
	// base is how many of the first elements of path stay when the list is removed, even if they are empty then.
	base int
	// selector reports whether the names are the values of the first expression in the list at path that selects the label
	// NameLabel by the operator In.
	selector bool
}

// names returns the names in the slot: nil if the list is absent or empty, and an empty, non-nil list if it has NoCluster alone.
func (s slot) names(obj map[string]any) ([]string, error) {
	value, err := s.value(obj)
	if err != nil || value == nil {
		return nil, err
	}
	if s.selector {
		i, err := s.expression(value)
		if err != nil || i < 0 {
			return nil, err
		}
		expression, _ := value[i].(map[string]any)
		below := slot{path: append(slices.Clone(s.path), i, "values")}
		values, ok := expression["values"].([]any)
		if !ok || len(values) == 0 {
			return nil, fmt.Errorf("%s must be a list with at least one name of a cluster", text(below.path))
		}
		return below.texts(values)
	}
	return s.texts(value)
}

// value returns the list at path, which for a selector is the list of expressions; nil if there is none. An error names the member that has
// a wrong type.
func (s slot) value(obj map[string]any) ([]any, error) {
	var at any = obj
	for i, element := range s.path {
		at = child(at, element)
		if at == nil {
			return nil, nil
		}
		if _, ok := at.(map[string]any); !ok && i+1 < len(s.path) {
			if _, index := s.path[i+1].(int); !index {
				return nil, fmt.Errorf("%s must be an object", text(s.path[:i+1]))
			}
		}
	}
	list, ok := at.([]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a list", text(s.path))
	}
	return list, nil
}

// texts returns the names of clusters in a list: nil if it is empty, and an empty, non-nil list if it has NoCluster alone.
func (s slot) texts(list []any) ([]string, error) {
	var out []string
	for i, item := range list {
		name, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%d] must be the name of a cluster", text(s.path), i)
		}
		out = append(out, name)
	}
	if len(out) == 1 && out[0] == NoCluster {
		return []string{}, nil
	}
	return out, nil
}

// expression returns the index of the expression in a list that selects NameLabel by In; -1 if there is none.
func (s slot) expression(list []any) (int, error) {
	for i, item := range list {
		expression, ok := item.(map[string]any)
		if !ok {
			return 0, fmt.Errorf("%s[%d] must be an object", text(s.path), i)
		}
		if expression["key"] == NameLabel && expression["operator"] == "In" {
			return i, nil
		}
	}
	return -1, nil
}

// existing returns how many elements of path after the first base ones exist in an object.
func (s slot) existing(obj map[string]any) int { return max(0, existing(obj, s.path)-s.base) }

// set sets the names in an object of which value has returned no error: as the list at path or, for a selector, as the values of its
// expression, which set adds if it is absent. No names are written as NoCluster.
func (s slot) set(obj map[string]any, names []string) {
	if len(names) == 0 {
		names = []string{NoCluster}
	}
	values := make([]any, len(names))
	for i, name := range names {
		values[i] = name
	}
	if s.selector {
		list, _ := s.value(obj)
		expression := map[string]any{"key": NameLabel, "operator": "In", "values": values}
		if i, _ := s.expression(list); i >= 0 {
			list[i].(map[string]any)["values"] = values
			return
		}
		values = append(list, expression)
	}
	put(obj, s.path, values)
}

// unset removes the names, and the objects on path that then have no members, except those of the first base+depth elements.
func (s slot) unset(obj map[string]any, depth int) {
	list, _ := s.value(obj)
	if s.selector {
		i, _ := s.expression(list)
		if i < 0 {
			return
		}
		list = slices.Delete(list, i, i+1)
		put(obj, s.path, list)
		if len(list) > 0 {
			return
		}
	} else if len(list) == 0 {
		return
	}
	put(obj, s.path, []any{})
	prune(obj, s.path, s.base+max(0, depth))
}

// prune removes the value at the path if it has no members or items, and then, from the end of the path, each parent that has none left.
// The first keep elements of the path stay. It stops at an item of an array.
func prune(obj map[string]any, path []any, keep int) {
	for n := len(path); n > keep; n-- {
		parent := lookup(obj, path[:n-1])
		switch v := child(parent, path[n-1]).(type) {
		case map[string]any:
			if len(v) > 0 {
				return
			}
		case []any:
			if len(v) > 0 {
				return
			}
		}
		name, ok := path[n-1].(string)
		members, object := parent.(map[string]any)
		if !ok || !object {
			return
		}
		delete(members, name)
	}
}

// existing returns how many elements of the path exist in an object. Null counts as absent.
func existing(obj map[string]any, path []any) int {
	var at any = obj
	for i, element := range path {
		if at = child(at, element); at == nil {
			return i
		}
	}
	return len(path)
}

// put sets the value at a path, and creates the objects on it that are absent.
func put(obj map[string]any, path []any, value any) {
	var at any = obj
	for _, element := range path[:len(path)-1] {
		next := child(at, element)
		if next == nil {
			next = map[string]any{}
			if members, ok := at.(map[string]any); ok {
				members[element.(string)] = next
			}
		}
		at = next
	}
	at.(map[string]any)[path[len(path)-1].(string)] = value
}

// lookup returns the value at a path; nil if there is none.
func lookup(obj map[string]any, path []any) any {
	var at any = obj
	for _, element := range path {
		at = child(at, element)
	}
	return at
}

// child returns the member of an object, or the item of an array, that element names or counts; nil if there is none.
func child(value, element any) any {
	switch e := element.(type) {
	case string:
		members, _ := value.(map[string]any)
		return members[e]
	case int:
		if items, ok := value.([]any); ok && e < len(items) {
			return items[e]
		}
	}
	return nil
}

// elements returns a path of names in the form that lookup takes.
func elements(path []string) []any {
	out := make([]any, len(path))
	for i, name := range path {
		out[i] = name
	}
	return out
}

// text returns a path as messages show it, as in spec.terms[1].names.
func text(path []any) string {
	var out strings.Builder
	for i, element := range path {
		if index, ok := element.(int); ok {
			out.WriteString("[" + strconv.Itoa(index) + "]")
			continue
		}
		if i > 0 {
			out.WriteString(".")
		}
		out.WriteString(element.(string))
	}
	return out.String()
}

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

package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// objectAt returns the object at a path in another one. It returns an error, with the path, if it is missing or is not an object.
func objectAt(object map[string]any, path ...string) (map[string]any, error) {
	at := object
	for i, name := range path {
		value, there := at[name]
		if !there || value == nil {
			return nil, fmt.Errorf("%s is missing", strings.Join(path[:i+1], "."))
		}
		next, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:i+1], "."))
		}
		at = next
	}
	return at, nil
}

// OptionalObject returns the member of an object that is itself an object; nil if it is missing. The error for a member of another type
// begins with its name.
func OptionalObject(object map[string]any, name string) (map[string]any, error) {
	value, there := object[name]
	if !there || value == nil {
		return nil, nil
	}
	out, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", name)
	}
	return out, nil
}

// textAt returns a string member of an object; "" if it is missing. of is the path of the object, for the error for a member of another
// type.
func textAt(object map[string]any, of, name string) (string, error) {
	value, there := object[name]
	if !there || value == nil {
		return "", nil
	}
	out, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a string", strings.TrimPrefix(of+"."+name, "."))
	}
	return out, nil
}

// labelsAt returns the labels in the metadata of an object; nil if there are none. of is the path of the metadata, for errors.
func labelsAt(metadata map[string]any, of string) (map[string]string, error) {
	value, err := OptionalObject(metadata, "labels")
	if err == nil && len(value) > 0 {
		var out map[string]string
		if out, err = stringMap(value, "labels"); err == nil {
			return out, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s.%w", of, err)
	}
	return nil, nil
}

// stringMap converts an object of strings to a map. of is the path of the object, for the error for another member.
func stringMap(value map[string]any, of string) (map[string]string, error) {
	out := make(map[string]string, len(value))
	for key, member := range value {
		text, ok := member.(string)
		if !ok {
			return nil, fmt.Errorf("%s is not a map of strings", of)
		}
		out[key] = text
	}
	return out, nil
}

// countAt returns the number of pods in a field of an object. ok is false if the field is missing. An error means that it is not a
// non-negative integer.
func countAt(object map[string]any, name string) (n int, ok bool, err error) {
	switch v := object[name].(type) {
	case nil:
		return 0, false, nil
	case int64:
		if v >= 0 && v <= math.MaxInt32 {
			return int(v), true, nil
		}
	case float64:
		if v >= 0 && v <= math.MaxInt32 && v == math.Trunc(v) {
			return int(v), true, nil
		}
	}
	return 0, false, fmt.Errorf("%s is not a number of pods", name)
}

// below adds the path of an object, and a dot, before an error that begins with the path of a field in the object. An empty path adds
// nothing. err must not be nil.
func below(path []string, err error) error {
	if len(path) == 0 {
		return err
	}
	return fmt.Errorf("%s.%w", strings.Join(path, "."), err)
}

// plainNumbers returns a value in which each json.Number and int is an int64 or float64, as conversion to API types requires; a json.Number
// that is beyond these types is a string. changed reports whether there were any. The result shares unchanged parts with the value.
func plainNumbers(value any) (out any, changed bool) {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, true
		}
		if f, err := v.Float64(); err == nil {
			return f, true
		}
		return v.String(), true
	case int:
		return int64(v), true
	case map[string]any:
		var next map[string]any
		for key, member := range v {
			plain, other := plainNumbers(member)
			if !other {
				continue
			}
			if next == nil {
				next = maps.Clone(v)
			}
			next[key] = plain
		}
		if next != nil {
			return next, true
		}
	case []any:
		var next []any
		for i, member := range v {
			plain, other := plainNumbers(member)
			if !other {
				continue
			}
			if next == nil {
				next = slices.Clone(v)
			}
			next[i] = plain
		}
		if next != nil {
			return next, true
		}
	}
	return value, false
}

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

package replication

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// path is the path of a field in an object, as a list of names. A nil path selects nothing.
type path []string

// maxPath is the maximum length of a path, in bytes.
const maxPath = 1024

// step matches one name of a path.
var step = regexp.MustCompile(`^(?:\.([A-Za-z0-9_-]+)|\['([^']+)'\]|\["([^"]+)"\])`)

// parsePath parses a path of names joined by dots, with or without a leading dot, as in spec.region, .spec.region, or
// metadata.labels['example.com/tier']. The syntax is that of a downward API fieldPath and of a CustomResourceDefinition's jsonPath. A path
// selects one field, so wildcards, filters, and other features of JSONPath are errors. kubectl's JSONPath parser is not used because this
// package may not import the client libraries.
func parsePath(text string) (path, error) {
	if len(text) > maxPath {
		return nil, fmt.Errorf("is longer than %d bytes", maxPath)
	}
	if text == "" {
		return nil, errors.New("is empty")
	}
	rest := text
	if rest[0] != '.' && rest[0] != '[' {
		rest = "." + rest
	}
	var out path
	for rest != "" {
		found := step.FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf("must be names joined by dots, as in spec.region or metadata.labels['example.com/tier']: %q is not", rest)
		}
		out = append(out, found[1]+found[2]+found[3])
		rest = rest[len(found[0]):]
	}
	return out, nil
}

// value returns the value at the path, which must not be changed; nil if there is none.
func (p path) value(obj map[string]any) any {
	if p == nil {
		return nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj, p...)
	return value
}

// text returns the string at the path; empty if there is none.
func (p path) text(obj map[string]any) string {
	s, _ := p.value(obj).(string)
	return s
}

// object returns the map at the path, which must not be changed. It never returns nil.
func (p path) object(obj map[string]any) map[string]any {
	if m, ok := p.value(obj).(map[string]any); ok && m != nil {
		return m
	}
	return map[string]any{}
}

// list returns the slice at the path, which must not be changed. It never returns nil.
func (p path) list(obj map[string]any) []any {
	if l, ok := p.value(obj).([]any); ok && l != nil {
		return l
	}
	return []any{}
}

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
	"strings"
)

// ParseArray parses the text of a JSON array of names, as json.Unmarshal does, and faster if ArrayText returned the text. The names may
// share the memory of the text. They are nil if the text is null.
func ParseArray(text string) ([]string, error) {
	if names, ok := plainArray(text); ok {
		return names, nil
	}
	var names []string
	err := json.Unmarshal([]byte(text), &names)
	return names, err
}

// NamesAny reports whether the text of a JSON array has at least one name. It is false if ParseArray returns an error.
func NamesAny(text string) bool {
	if inner, ok := insideArray(text); ok && plainNames(inner) {
		return true
	}
	names, err := ParseArray(text)
	return err == nil && len(names) > 0
}

// ArrayText returns the text of a JSON array of names, as json.Marshal does, and in less time for the names that clusters have. The text of
// no names is [].
func ArrayText(names []string) string {
	const around = len(`"",`)
	length := len(`[]`)
	for _, name := range names {
		if !plainName(name) {
			// Marshaling does not fail: all values are strings.
			text, _ := json.Marshal(names)
			return string(text)
		}
		length += len(name) + around
	}
	var out strings.Builder
	out.Grow(length)
	out.WriteByte('[')
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('"')
		out.WriteString(name)
		out.WriteByte('"')
	}
	out.WriteByte(']')
	return out.String()
}

// IsArrayText reports whether ArrayText returns the text for the names, without making one. It is false if there are no names, or if one
// has characters that JSON may escape.
func IsArrayText(text string, names []string) bool {
	before := `["`
	for _, name := range names {
		rest, ok := strings.CutPrefix(text, before)
		if !ok || !plainName(name) {
			return false
		}
		if text, ok = strings.CutPrefix(rest, name); !ok {
			return false
		}
		before = separator
	}
	return len(names) > 0 && text == `"]`
}

// plainArray parses a JSON array of at least one name, without white space, whose names have only characters that JSON never escapes. ok is
// false for any other text.
func plainArray(text string) (names []string, ok bool) {
	inner, ok := insideArray(text)
	if !ok || !plainNames(inner) {
		return nil, false
	}
	return strings.Split(inner, separator), true
}

// separator is the text between two names of an array.
const separator = `","`

// insideArray returns the text between the first and the last quote of an array without white space around its names.
func insideArray(text string) (inner string, ok bool) {
	inner, opened := strings.CutPrefix(text, `["`)
	inner, closed := strings.CutSuffix(inner, `"]`)
	return inner, opened && closed
}

// plainNames reports whether the names in the text of an array, as insideArray returns it, have only characters that JSON never escapes.
func plainNames(inner string) bool {
	for i := 0; i < len(inner); i++ {
		if isPlain(inner[i]) {
			continue
		}
		if !strings.HasPrefix(inner[i:], separator) {
			return false
		}
		i += len(separator) - 1
	}
	return true
}

// plainName reports whether a name has only characters that JSON never escapes.
func plainName(name string) bool {
	for i := range len(name) {
		if !isPlain(name[i]) {
			return false
		}
	}
	return true
}

// isPlain reports whether a character is an ASCII letter, a digit, or one of - . _ / : which JSON never escapes, and of which the names of
// Kubernetes' objects consist.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '/' || c == ':'
}

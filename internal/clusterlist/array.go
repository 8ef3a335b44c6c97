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

// ArrayText returns the JSON array of names as text, as json.Marshal does, and faster for names with the characters that names of clusters
// have. For no names, also for nil, it returns [].
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

// plainArray parses an array of at least one name, without white space, whose names all satisfy plainName. ok is false for any other text.
func plainArray(text string) (names []string, ok bool) {
	inner, opened := strings.CutPrefix(text, `["`)
	inner, closed := strings.CutSuffix(inner, `"]`)
	if !opened || !closed {
		return nil, false
	}
	names = strings.Split(inner, `","`)
	for _, name := range names {
		if !plainName(name) {
			return nil, false
		}
	}
	return names, true
}

// plainName reports whether a name has only characters that JSON never escapes: ASCII letters and digits, "-", ".", "_", "/", and ":".
func plainName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '/', c == ':':
		default:
			return false
		}
	}
	return true
}

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

package projection

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Size returns the size of a document after it is cut to the set, in bytes of JSON without spaces. The document consists of the Go types
// that JSON decodes to. The time is linear in the size of the document.
func (f *FieldSet) Size(document any) int {
	switch d := document.(type) {
	case map[string]any:
		return f.objectSize(d)
	case []any:
		fields := f.items()
		if fields == nil || len(d) == 0 {
			return len("[]")
		}
		size := len("[]") + len(d) - 1
		for _, member := range d {
			size += fields.Size(member)
		}
		return size
	case string:
		return textSize(d)
	case bool:
		if d {
			return len("true")
		}
		return len("false")
	case nil:
		return len("null")
	case int64:
		var space [20]byte
		return len(strconv.AppendInt(space[:0], d, 10))
	case json.Number:
		return len(d)
	}
	// Floats and values of other types.
	text, err := json.Marshal(document)
	if err != nil {
		return 0
	}
	return len(text)
}

// objectSize returns the size of an object after it is cut to the set, in bytes of JSON.
func (f *FieldSet) objectSize(object map[string]any) int {
	size, members := len("{}"), 0
	f.visit(object, func(n namedMember, member any) {
		size += textSize(n.text) + len(":") + n.fields.Size(member)
		members++
	})
	// Commas separate the members.
	return size + max(0, members-1)
}

// textSize returns the size of a string in JSON, including quotes and escapes. The characters <, >, and & are not escaped. The string must
// be valid UTF-8.
func textSize(text string) int {
	size := len(`""`) + len(text)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
			size++
		case c < ' ':
			size += len(`u000`) + 1
		case c == 0xe2 && i+2 < len(text):
			// JSON escapes the line and the paragraph separator.
			if r, _ := utf8.DecodeRuneInString(text[i:]); r == '\u2028' || r == '\u2029' {
				size += len(`\u2028`) - utf8.RuneLen(r)
			}
		}
	}
	return size
}

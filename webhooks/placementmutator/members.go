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

package placementmutator

import "encoding/json"

// members returns the encoded values of the members of a JSON object, by name. If a name occurs several times, the last value counts. ok is
// false if the text is not an object or visibly not JSON. Values are not parsed, so an invalid value is an error only when it is decoded.
//
// The standard library can do the same with json.RawMessage. But it scans the text byte by byte through a state machine
// several times, which takes as long as to decode everything.
func members(text []byte) (out map[string]json.RawMessage, ok bool) {
	s := splitter{text: text}
	if !s.take('{') {
		return nil, false
	}
	out = map[string]json.RawMessage{}
	if s.take('}') {
		return out, s.skipToEnd()
	}
	for {
		name, isText := s.value()
		key, isName := decodeText(name)
		if !isText || !isName || !s.take(':') {
			return nil, false
		}
		value, isValue := s.value()
		if !isValue {
			return nil, false
		}
		out[key] = value
		switch {
		case s.take(','):
		case s.take('}'):
			return out, s.skipToEnd()
		default:
			return nil, false
		}
	}
}

// decodeText decodes a JSON string. It returns false for any other text.
func decodeText(text json.RawMessage) (string, bool) {
	if len(text) < 2 || text[0] != '"' {
		return "", false
	}
	if inner, ok := plain(text); ok {
		return inner, true
	}
	var out string
	err := json.Unmarshal(text, &out)
	return out, err == nil
}

// plain returns the content of a JSON string of printable ASCII characters without escapes. ok is false for any other
// text.
func plain(text []byte) (string, bool) {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", false
	}
	inner := text[1 : len(text)-1]
	for _, c := range inner {
		if c < ' ' || c > '~' || c == '\\' || c == '"' {
			return "", false
		}
	}
	return string(inner), true
}

// splitter scans a JSON text for the ends of its values, without decoding them.
type splitter struct {
	text []byte
	at   int // The index in text of the next byte to scan.
}

// skipSpace skips white space.
func (s *splitter) skipSpace() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take skips white space and then the character c. It returns false, and leaves s after the white space, if another character is next.
func (s *splitter) take(c byte) bool {
	s.skipSpace()
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

// skipToEnd skips white space and reports whether nothing else is left.
func (s *splitter) skipToEnd() bool {
	s.skipSpace()
	return s.at == len(s.text)
}

// value skips a JSON value and returns its encoded text. It returns false if there is none, or it has no end.
func (s *splitter) value() (json.RawMessage, bool) {
	s.skipSpace()
	start, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			if !s.skipString() {
				return nil, false
			}
			if depth == 0 {
				return s.text[start:s.at], true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				// This bracket closes the object that contains the value.
				return s.text[start:s.at], s.at > start
			}
			if depth--; depth == 0 {
				s.at++
				return s.text[start:s.at], true
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.text[start:s.at], s.at > start
			}
		}
		s.at++
	}
	return nil, false
}

// skipString skips a string, at whose first quote s is. It returns false if the string has no end.
func (s *splitter) skipString() bool {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return true
		}
	}
	return false
}

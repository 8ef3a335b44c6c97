package placement

import "encoding/json"

// members splits an object in JSON into the texts of its members; of several of one name the last one counts. ok is
// false for anything else, and for what can be seen not to be JSON: members are not looked into, so that one that is
// none shows when it is decoded.
//
// The standard library can do it too, by json.RawMessage, but reads the text byte by byte through a state machine
// several times, which takes as long as to decode all of it.
func members(text []byte) (out map[string]json.RawMessage, ok bool) {
	s := splitter{text: text}
	if !s.take('{') {
		return nil, false
	}
	out = map[string]json.RawMessage{}
	if s.take('}') {
		return out, s.end()
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
			return out, s.end()
		default:
			return nil, false
		}
	}
}

// decodeText decodes a string.
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

// plain is the content of a string that stands for itself.
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

// splitter reads a text from at on.
type splitter struct {
	text []byte
	at   int
}

func (s *splitter) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take steps over a character, if it is next.
func (s *splitter) take(c byte) bool {
	s.space()
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *splitter) end() bool {
	s.space()
	return s.at == len(s.text)
}

// value steps over a value and returns its text.
func (s *splitter) value() (json.RawMessage, bool) {
	s.space()
	start, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			if !s.quoted() {
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
				// The end of what this value is in.
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

// quoted steps over a string.
func (s *splitter) quoted() bool {
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

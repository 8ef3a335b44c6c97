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
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Value returns a document, cut to the set, as an OPA value. The document consists of the Go types that JSON decodes to; other values are
// converted through their JSON encoding. An error means that a value has no JSON encoding.
func (f *FieldSet) Value(document any) (ast.Value, error) {
	if f.all {
		plain, _ := plainNumbers(document)
		return ast.InterfaceToValue(plain)
	}
	switch d := document.(type) {
	case map[string]any:
		return f.object(d)
	case []any:
		if f.each == nil {
			return ast.NewArray(), nil
		}
		members := make([]*ast.Term, len(d))
		for i, member := range d {
			value, err := f.each.Value(member)
			if err != nil {
				return nil, err
			}
			members[i] = ast.NewTerm(value)
		}
		return ast.NewArray(members...), nil
	default:
		plain, _ := plainNumbers(document)
		return ast.InterfaceToValue(plain)
	}
}

// plainNumbers returns the document with those floats as json.Number that OPA would write otherwise than JSON does, such as 1.2345675e+06
// for 1234567.5, which a policy sees when it converts a number to text. differs reports whether there are any. The original is not changed.
func plainNumbers(document any) (plain any, differs bool) {
	switch d := document.(type) {
	case float64:
		text, err := json.Marshal(d)
		if err != nil || string(text) == strconv.FormatFloat(d, 'g', -1, 64) {
			return d, false
		}
		return json.Number(text), true
	case map[string]any:
		var out map[string]any
		for name, member := range d {
			if member, differs := plainNumbers(member); differs {
				if out == nil {
					out = maps.Clone(d)
				}
				out[name] = member
			}
		}
		if out != nil {
			return out, true
		}
	case []any:
		var out []any
		for i, member := range d {
			if member, differs := plainNumbers(member); differs {
				if out == nil {
					out = slices.Clone(d)
				}
				out[i] = member
			}
		}
		if out != nil {
			return out, true
		}
	}
	return document, false
}

// object returns an object, cut to the set, as an OPA value.
func (f *FieldSet) object(document map[string]any) (ast.Value, error) {
	var members [][2]*ast.Term
	var err error
	f.visit(document, func(n namedMember, member any) {
		if err != nil {
			return
		}
		var value ast.Value
		value, err = n.fields.Value(member)
		if n.term == nil {
			n.term = ast.StringTerm(n.text)
		}
		members = append(members, [2]*ast.Term{n.term, ast.NewTerm(value)})
	})
	if err != nil {
		return nil, err
	}
	return ast.NewObject(members...), nil
}

// Kinds of the parts of a key. Each part begins with its kind. A part of variable length has its length first, so that
// two documents have equal keys only if their cuts are equal. A key does not identify the set that it was made with.
const (
	keyUndefined = iota
	keyNull
	keyFalse
	keyTrue
	keyInt
	keyFloat
	keyNumber
	keyString
	keyArray
	keyObject
	keyOther
)

// sorter pools buffers for sorting the names of objects.
var sorter = sync.Pool{New: func() any { return new([]string) }}

// AppendKey appends a key of the document, cut to the set, to a buffer. Documents with equal keys for the set have equal Values. It does
// not allocate if the buffer is large enough. ok is false for a document without a Value; the appended bytes must not be used then.
//
// An integer that int64 and float64 represent alike has the same key in both types, and another key as a json.Number.
func (f *FieldSet) AppendKey(buffer []byte, document any) (out []byte, ok bool) {
	space := sorter.Get().(*[]string)
	defer sorter.Put(space)
	return f.appendKey(buffer, document, space)
}

// appendKey appends the key of a value of any type, cut to the set. It returns false if the value has no Value. space is a buffer for
// sorting names, which may hold other names.
func (f *FieldSet) appendKey(out []byte, document any, space *[]string) ([]byte, bool) {
	switch d := document.(type) {
	case nil:
		return append(out, keyNull), true
	case bool:
		if d {
			return append(out, keyTrue), true
		}
		return append(out, keyFalse), true
	case int64:
		return binary.BigEndian.AppendUint64(append(out, keyInt), uint64(d)), true
	case float64:
		if n, same := integer(d); same {
			return binary.BigEndian.AppendUint64(append(out, keyInt), uint64(n)), true
		}
		return binary.BigEndian.AppendUint64(append(out, keyFloat), math.Float64bits(d)), true
	case json.Number:
		return appendText(append(out, keyNumber), string(d)), true
	case string:
		return appendText(append(out, keyString), d), true
	case []any:
		return f.appendArray(out, d, space)
	case map[string]any:
		return f.appendObject(out, d, space)
	default:
		value, err := ast.InterfaceToValue(document)
		if err != nil {
			return out, false
		}
		return appendText(append(out, keyOther), value.String()), true
	}
}

// maxExact is the limit up to which every integer is a distinct float64 whose shortest decimal form is that integer.
const maxExact = 1 << 53

// integer returns the integer that has the same decimal text as a float. ok is false for fractions, for -0, and for values beyond maxExact.
func integer(f float64) (n int64, ok bool) {
	if f != math.Trunc(f) || math.Abs(f) > maxExact || f == 0 && math.Signbit(f) {
		return 0, false
	}
	return int64(f), true
}

// appendText appends the length of a text and the text.
func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// appendArray appends the key of an array: the keys of its items after their number, or nothing about them if they are not in the set. It
// returns false if an item has no Value.
func (f *FieldSet) appendArray(out []byte, array []any, space *[]string) ([]byte, bool) {
	out = append(out, keyArray)
	fields := f.items()
	if fields == nil {
		return out, true
	}
	out = binary.AppendUvarint(out, uint64(len(array)))
	for _, member := range array {
		var ok bool
		if out, ok = fields.appendKey(out, member, space); !ok {
			return out, false
		}
	}
	return out, true
}

// appendObject appends the key of an object: the keys of the members that are in the set, sorted by name. A named member that the object
// lacks has a part, too. It returns false if a member has no Value. space is a buffer for sorting names, which may hold other names.
func (f *FieldSet) appendObject(out []byte, object map[string]any, space *[]string) ([]byte, bool) {
	out = append(out, keyObject)
	ok := true
	if f.items() == nil {
		for _, n := range f.names {
			member, present := object[n.text]
			if !present {
				out = append(out, keyUndefined)
				continue
			}
			if out, ok = n.fields.appendKey(out, member, space); !ok {
				return out, false
			}
		}
		return out, true
	}
	out = binary.AppendUvarint(out, uint64(len(object)))
	// The buffer is a stack: recursive calls push their names after these.
	from := len(*space)
	for key := range object {
		*space = append(*space, key)
	}
	to := len(*space)
	slices.Sort((*space)[from:to])
	for i := from; i < to && ok; i++ {
		key := (*space)[i]
		out, ok = f.member(key).appendKey(appendText(out, key), object[key], space)
	}
	// Clear the names, so that the pool does not keep documents alive.
	clear((*space)[from:to])
	*space = (*space)[:from]
	return out, ok
}

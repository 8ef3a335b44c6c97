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

package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WrongType returns err in words for those who write files, if it says that a field of decoded JSON has a wrong type: with the line, the
// field, and the type that the field must have. Otherwise it returns err. text is the YAML document that was converted to the JSON.
func WrongType(err error, text []byte) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	want := ""
	switch t := wrong.Type; t.Kind() {
	case reflect.Slice, reflect.Array:
		want = "a list"
	case reflect.Map, reflect.Struct, reflect.Pointer:
		want = "an object"
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64:
		want = "an integer"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	default:
		return err
	}
	return fmt.Errorf("%s: must be %s, is %s", placeOf(text, wrong.Field, wrong.Value), want, described(wrong.Value))
}

// placeOf returns the line and the path in a YAML document of the first value at a field that has the wrong type. value is how the decoder
// of JSON describes that value, such as "array" or "number 1.5". The field has no indexes, and is returned alone if the value is not found.
func placeOf(text []byte, field, value string) string {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return field
	}
	path, line := find(document.Content[0], "", strings.Split(field, "."), value)
	if line == 0 {
		return field
	}
	return fmt.Sprintf("line %d: %s", line, path)
}

// find returns the path and the line of the first value at the fields in below that matches value, as in placeOf. path is that of the node.
// The line is 0 if there is none.
func find(n *yaml.Node, path string, below []string, value string) (found string, line int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if len(below) == 0 && value != "" && (value == nameInJSON(n) || value == nameInJSON(n)+" "+n.Value) {
		return path, n.Line
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if found, line = find(item, fmt.Sprintf("%s[%d]", path, i), below, value); line > 0 {
				return found, line
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content) && len(below) > 0; i += 2 {
			if n.Content[i].Value == below[0] {
				return find(n.Content[i+1], strings.TrimPrefix(path+"."+below[0], "."), below[1:], value)
			}
		}
	}
	return "", 0
}

// nameInJSON returns the decoder of JSON's word for the type of a node, such as array; "" for null.
func nameInJSON(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!map":
		return "object"
	case "!!seq":
		return "array"
	case "!!int", "!!float":
		return "number"
	case "!!str":
		return "string"
	case "!!bool":
		return "bool"
	}
	return ""
}

// described returns the type of a value in words for those who write files, given the word of the decoder of JSON: "a list" for "array",
// "an object" for "object", "true or false" for "bool", "a string" for "string", and "a number" for "number". It returns any other text,
// such as "number 1.5", as it is.
func described(value string) string {
	switch value {
	case "object":
		return "an object"
	case "array":
		return "a list"
	case "bool":
		return "true or false"
	case "string", "number":
		return "a " + value
	}
	return value
}

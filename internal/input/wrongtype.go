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
)

// WrongType returns an error that names the field and the type that it must have, if err says that decoding JSON found another type.
// Otherwise it returns err. The names of Go types mean nothing to those who write files.
func WrongType(err error) error {
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
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want = "an integer"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	default:
		return err
	}
	return fmt.Errorf("%s: must be %s, is %s", wrong.Field, want, described(wrong.Value))
}

// described returns what JSON found, in the words of WrongType.
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

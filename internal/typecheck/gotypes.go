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

package typecheck

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/open-policy-agent/opa/v1/types"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TypeOf returns the type of the JSON of a Go type, such as a pointer to a kind's struct. A type that encodes itself in a way that is not
// known becomes any, and so does a struct in the places where it contains itself.
func TypeOf(t reflect.Type) types.Type {
	return (&goTypes{done: map[reflect.Type]types.Type{}, open: map[reflect.Type]bool{}}).of(t)
}

// goTypes converts Go types to types of Rego values, each struct once.
type goTypes struct {
	done map[reflect.Type]types.Type
	// open has the structs that enclose the current type.
	open map[reflect.Type]bool
}

// ownEncodings are the types of the JSON of those Go structs that are not converted field by field. Quantities and times encode themselves;
// a time may be null. Of metadata, policies do not get managedFields.
var ownEncodings = map[reflect.Type]types.Type{
	reflect.TypeFor[resource.Quantity]():  quantity,
	reflect.TypeFor[intstr.IntOrString](): types.NewAny(types.N, types.S),
	reflect.TypeFor[metav1.Time]():        types.NewAny(types.S, types.Nl),
	reflect.TypeFor[metav1.MicroTime]():   types.NewAny(types.S, types.Nl),
	reflect.TypeFor[metav1.Duration]():    types.S,
	reflect.TypeFor[metav1.ObjectMeta]():  metadata,
}

func (g *goTypes) of(t reflect.Type) types.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if special, ok := ownEncodings[t]; ok {
		return special
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return types.A
	}
	switch t.Kind() {
	case reflect.String:
		return types.S
	case reflect.Bool:
		return types.B
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32,
		reflect.Uint64, reflect.Float32, reflect.Float64:
		return types.N
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			// It is encoded in base64.
			return types.S
		}
		return types.NewArray(nil, g.of(t.Elem()))
	case reflect.Map:
		return byName(g.of(t.Elem()))
	case reflect.Struct:
		return g.object(t)
	default:
		return types.A
	}
}

// object returns the type of the JSON of a struct: an object with the struct's fields, or with any fields if the struct has none. It
// returns any if the struct is being converted already, as where it contains itself.
func (g *goTypes) object(t reflect.Type) types.Type {
	if out, ok := g.done[t]; ok {
		return out
	}
	if g.open[t] {
		return types.A
	}
	g.open[t] = true
	fields := map[string]types.Type{}
	g.addFields(t, fields)
	delete(g.open, t)
	var out types.Type = objectOf(fields)
	if len(fields) == 0 {
		out = anythingByName
	}
	g.done[t] = out
	return out
}

// addFields adds to fields the types of the exported fields of the struct t, by their names in JSON, with those of embedded structs that
// have the option inline. It leaves out fields without a name in JSON.
func (g *goTypes) addFields(t reflect.Type, fields map[string]types.Type) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name != "":
			fields[name] = g.of(field.Type)
		case field.Anonymous && strings.Contains(options, "inline"):
			g.addFields(field.Type, fields)
		}
	}
}

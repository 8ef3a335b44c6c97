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

// Command consoletypes writes the TypeScript types of the console's endpoints from the Go types of their requests and responses.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/console"
)

func main() {
	out := flag.String("out", "web/src/types.gen.ts", "File to write.")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "consoletypes:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	text, err := generate(console.Endpoints(), console.Values())
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

const header = `// Written by hack/consoletypes from the Go types of the endpoints. To change it, run make console-types.

`

// generate returns the types of the endpoints. values are the values of types that have only some.
func generate(endpoints []console.Endpoint, values map[reflect.Type][]string) (string, error) {
	w := &writer{values: values, declared: map[string]string{}, types: map[string]reflect.Type{}}
	var list strings.Builder
	list.WriteString("// Endpoints are the requests and responses by method and path below api/.\nexport interface Endpoints {\n")
	for _, e := range endpoints {
		request := "undefined"
		if e.Request != nil {
			request = w.of(e.Request)
		}
		fmt.Fprintf(&list, "  %q: { request: %s; response: %s };\n", e.Method+" "+e.Name, request, withoutNull(w.of(e.Response)))
	}
	list.WriteString("}\n")
	if w.err != nil {
		return "", w.err
	}
	var out strings.Builder
	out.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(w.declared)) {
		out.WriteString(w.declared[name] + "\n")
	}
	out.WriteString(list.String())
	return out.String(), nil
}

// writer collects the declarations of types by name.
type writer struct {
	values   map[reflect.Type][]string
	declared map[string]string
	// types are the Go types of the names.
	types map[string]reflect.Type
	err   error
}

// known are types that write their JSON form themselves.
var known = map[reflect.Type]string{
	reflect.TypeFor[time.Time]():         "string",
	reflect.TypeFor[metav1.Time]():       "string",
	reflect.TypeFor[metav1.Duration]():   "string",
	reflect.TypeFor[resource.Quantity](): "string",
	reflect.TypeFor[json.RawMessage]():   "unknown",
}

// marshaler is a type that writes its JSON form itself.
var marshaler = reflect.TypeFor[json.Marshaler]()

// of returns the TypeScript type of the JSON form of a Go type.
func (w *writer) of(t reflect.Type) string {
	if text, ok := known[t]; ok {
		return text
	}
	if t.Kind() == reflect.Pointer {
		return orNull(w.of(t.Elem()))
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		w.fail("%s writes its JSON form itself: add its type to known", t)
		return "unknown"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return w.ofText(t)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Interface:
		return "unknown"
	case reflect.Slice:
		return orNull(listOf(w.of(t.Elem())))
	case reflect.Array:
		return listOf(w.of(t.Elem()))
	case reflect.Map:
		record := fmt.Sprintf("Record<%s, %s>", w.of(t.Key()), w.of(t.Elem()))
		if _, some := w.values[t.Key()]; some {
			record = "Partial<" + record + ">"
		}
		return orNull(record)
	case reflect.Struct:
		return w.ofStruct(t)
	}
	w.fail("%s has no JSON form", t)
	return "unknown"
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func listOf(element string) string {
	if strings.Contains(element, " ") {
		element = "(" + element + ")"
	}
	return element + "[]"
}

func orNull(text string) string { return withoutNull(text) + " | null" }

func withoutNull(text string) string { return strings.TrimSuffix(text, " | null") }

// ofText returns the type of a text, which is an alias if only some values are known.
func (w *writer) ofText(t reflect.Type) string {
	values, ok := w.values[t]
	if !ok {
		return "string"
	}
	name, _ := w.declare(t)
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = fmt.Sprintf("%q", value)
	}
	w.declared[name] = fmt.Sprintf("export const %s = [%s] as const;\nexport type %s = (typeof %[1]s)[number];\n", plural(name),
		strings.Join(quoted, ", "), name)
	return name
}

// plural returns the name of the list of the values of a type.
func plural(name string) string { return string(unicode.ToLower(rune(name[0]))) + name[1:] + "s" }

// ofStruct returns the name of the interface of a structure.
func (w *writer) ofStruct(t reflect.Type) string {
	if t.NumField() == 0 {
		return "Record<string, never>"
	}
	if t.Name() == "" {
		w.fail("%s has no name: declare a type", t)
		return "unknown"
	}
	name, isNew := w.declare(t)
	if !isNew {
		return name
	}
	var out strings.Builder
	fmt.Fprintf(&out, "export interface %s {\n", name)
	w.addFields(&out, t)
	out.WriteString("}\n")
	w.declared[name] = out.String()
	return name
}

// addFields writes the fields of a structure. Those of embedded ones become its own.
func (w *writer) addFields(out *strings.Builder, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			w.addFields(out, embedded)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			w.fail("%s.%s has no name in JSON", t, f.Name)
			continue
		}
		text, optional := w.of(f.Type), ""
		if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
			// A field without a value is missing, and not null.
			text, optional = withoutNull(text), "?"
		}
		fmt.Fprintf(out, "  %s%s: %s;\n", name, optional, text)
	}
}

// declare returns the name of a type, and whether the name is new. Types of the console and of the API have their own names, and others
// that of their package before it.
func (w *writer) declare(t reflect.Type) (name string, isNew bool) {
	pkg := path.Base(t.PkgPath())
	name = capital(t.Name())
	if pkg != "console" && pkg != "v1alpha1" && !strings.HasPrefix(name, capital(pkg)) {
		name = capital(pkg) + name
	}
	other, ok := w.types[name]
	if ok && other != t {
		w.fail("%s and %s have the name %s", t, other, name)
	}
	w.types[name] = t
	return name, !ok
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

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

package conformance

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEveryFieldIsUsed: the form of the cases has nothing that no case needs.
func TestEveryFieldIsUsed(t *testing.T) {
	themes, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	note(used, reflect.ValueOf(themes))
	for _, kind := range []any{Theme{}, Type{}, Policy{}, Case{}, Decision{}, Failure{}} {
		of := reflect.TypeOf(kind)
		for field := range of.Fields() {
			if name := of.Name() + "." + field.Name; !used[name] {
				t.Errorf("no case has %s", name)
			}
		}
	}
}

// note notes the fields of structs that are set.
func note(used map[string]bool, v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			note(used, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			note(used, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); !field.IsZero() {
				used[v.Type().Name()+"."+v.Type().Field(i).Name] = true
				note(used, field)
			}
		}
	}
}

// TestLoadRefuses: what a file has that is of no use, or contradicts itself, is an error.
func TestLoadRefuses(t *testing.T) {
	const head = "about: x\npolicies:\n- name: p\n  rego: package p\n  cases:\n  - name: c\n    object: {a: 1}\n"
	tests := map[string]struct{ text, says string }{
		"UnknownField":      {head + "    decision: {}\n    want: {}\n", `unknown field "want"`},
		"UnknownInDecision": {head + "    decision: {annotation: {}}\n", `unknown field`},
		"Neither":           {head, "either decision or fails is required"},
		"Both":              {head + "    decision: {}\n    fails: {kind: Evaluation}\n", "either decision or fails is required"},
		"Kind":              {head + "    fails: {kind: Other}\n", "fails.kind"},
		"NoRule":            {head + "    fails: {kind: Contract}\n", "fails.rule"},
		"NoCompile":         {strings.Replace(head, "package p", "no", 1) + "    decision: {}\n", "rego_parse_error"},
		"StrangeObject":     {head + "    decision: {}\nobjects: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]\n", "of no type that is listed"},
		"Twice":             {head + "    decision: {}\n  - name: c\n    object: {}\n    decision: {}\n", "is both"},
		"NoCases":           {"about: x\npolicies: [{name: p, rego: package p, cases: []}]\n", "cases are required"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(fstest.MapFS{"corpus/x.yaml": {Data: []byte(tc.text)}})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

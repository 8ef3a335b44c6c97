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

package main

import "testing"

func TestCheckRego(t *testing.T) {
	for name, tt := range map[string]struct{ literal, want string }{
		"escaped quote":      {`"labels.a := \"b\""`, `labels.a := "b"`},
		"several lines":      {`"package p\nlabels := {}"`, "labels := {}"},
		"indented":           {`"rego: |\n  package p\n  errors contains x if input.x"`, "errors contains x if input.x"},
		"older version":      {`"errors[msg] { msg := \"no\" }"`, `errors[msg] { msg := "no" }`},
		"older assignment":   {`"labels = {\"a\": \"b\"}"`, `labels = {"a": "b"}`},
		"rule without value": {`"ok(x) if x == \"a\""`, `ok(x) if x == "a"`},
		"import":             {`"import data.a as b\n# c"`, "import data.a as b"},
		"default":            {`"default a := \"b\""`, `default a := "b"`},
		"format":             {`"%s%d := 1\nx# contains %q"`, "%s%d := 1"},
		"raw string":         {"`labels.a := \"b\"`", ""},
		"one line":           {`"\nlabels.a := input.b\n"`, ""},
		"package alone":      {`"package p\n\n"`, ""},
		"sentence":           {`"\"p\" contains a rule\ndenies it, if it matches"`, ""},
		"Go":                 {`"package a\n\nconst x = \"y\"\n\nfunc f() { g() }\n"`, ""},
		"back quote":         {"\"a := `b`\\nc := 1\"", ""},
		"control character":  {`"a := \"b\" # \x1b"`, ""},
		"space at an end":    {`"a := 1 \nb := 2"`, ""},
		"invalid":            {`"a := \"\xff\""`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte("package a\n\nvar x = f(\n\t" + tt.literal + ")\n")
			found := checkRego(parse("test/a.go", text))
			if tt.want == "" {
				if len(found) > 0 {
					t.Errorf("findings %v", found)
				}
				return
			}
			if len(found) != 1 || found[0].phrase != tt.want || found[0].line != 4 {
				t.Errorf("findings %v, want %q", found, tt.want)
			}
			if found := checkRego(parse("a.go", text)); len(found) > 0 {
				t.Errorf("findings outside of tests: %v", found)
			}
		})
	}
}

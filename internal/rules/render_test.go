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

package rules

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
)

var update = flag.Bool("update", false, "write the golden files")

func parse(t *testing.T, text string) []placementv1.Rule {
	t.Helper()
	var out []placementv1.Rule
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRender compares the module of each construct with its golden file. Each module is clean for OPA's strict compiler, with the
// builtin functions of policies, and is formatted as OPA's formatter formats it.
func TestRender(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, warnings, errs := Render(parse(t, string(text)))
			if len(warnings) > 0 || len(errs) > 0 {
				t.Fatalf("warnings %q, errors %v", warnings, errs)
			}
			checkStrict(t, m.Text)
			golden := strings.TrimSuffix(file, ".yaml") + ".rego"
			if *update {
				if err := os.WriteFile(golden, []byte(m.Text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), m.Text); diff != "" {
				t.Errorf("run the test with -update if this is intended:\n%s", diff)
			}
		})
	}
}

// checkStrict compiles a module as `opa check --strict` does, and formats it once more.
func checkStrict(t *testing.T, text string) {
	t.Helper()
	version, capabilities := language.Of(placementv1.RegoV1)
	parsed, err := ast.ParseModuleWithOpts("rules.rego", text, ast.ParserOptions{RegoVersion: version, Capabilities: capabilities})
	if err != nil {
		t.Fatal(err)
	}
	compiler := ast.NewCompiler().WithStrict(true).WithCapabilities(capabilities)
	if compiler.Compile(map[string]*ast.Module{"rules.rego": parsed}); compiler.Failed() {
		t.Errorf("%v\n%s", compiler.Errors, text)
	}
	again, err := format.SourceWithOpts("rules.rego", []byte(text), format.Opts{RegoVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, string(again)); diff != "" {
		t.Errorf("the text is not formatted:\n%s", diff)
	}
}

// TestTextsOfUsers checks that every text of a user becomes a Rego string that means the same, and no name of a rule hides a shared
// Rego rule.
func TestTextsOfUsers(t *testing.T) {
	for name, text := range map[string]string{
		"Controls":     "a\x00\x07\x0b\x7f\u2028b",
		"Flag":         "\U0001F3F4\U000E0067\U000E0062\U000E007F",
		"Quotes":       "\"`\\ %s %d <&>\n\t",
		"InvalidUTF8":  "a\xffb",
		"Rego":         "\" if true }} deny := true #",
		"Placeholders": "{{not one}}",
	} {
		t.Run(name, func(t *testing.T) {
			property := strings.Map(func(r rune) rune {
				if !unicode.IsPrint(r) || r == utf8.RuneError {
					return -1
				}
				return r
			}, text)
			m, _, errs := Render([]placementv1.Rule{{
				Name: "a", Message: text,
				Require: []placementv1.Requirement{
					{Subject: placementv1.Subject{Property: property}, Operator: placementv1.OperatorIn, Values: []string{text, "NaN", "+Inf", "-Inf", "0x1p-2"}},
					{Subject: placementv1.Subject{Property: property}, Operator: placementv1.OperatorIn, ValueFrom: &placementv1.ObjectValue{Label: "a", Default: &text}},
					{Subject: placementv1.Subject{Field: placementv1.ClusterFieldRegion}, Operator: placementv1.OperatorExists, Reason: text},
				},
			}})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			checkStrict(t, m.Text)
		})
	}
	for _, name := range []string{"path", "name", "namespace", "text-1", "object", "labels", "rule", "1", "eligible"} {
		t.Run("Name"+name, func(t *testing.T) {
			m, _, errs := Render(parse(t, strings.ReplaceAll(`[{name: NAME, when: {expression: "has(object.spec)"}, limit: 1,
				prefer: [{property: a, operator: Exists, weight: 1}], set: {annotations: {a: "{name} {namespace} {label:a}"}}}]`, "NAME", quote(name))))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			checkStrict(t, m.Text)
		})
	}
}

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

package migration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// replacement is a change of a text: at a byte offset, new replaces old.
type replacement struct {
	offset   int
	old, new string
}

// updateLegacyRego updates Rego v0. It replaces old names of builtin functions (json_marshal becomes json.marshal), and
// input.resource, where the first policies of Kubernetes federation found the object, with input. The notes describe
// the replacements, sorted. A text that does not parse is returned unchanged. A function that the text itself defines
// keeps its name.
func updateLegacyRego(text string) (modern string, notes []string) {
	parsed, err := ast.ParseModuleWithOpts("", text, ast.ParserOptions{RegoVersion: ast.RegoV0})
	if err != nil || parsed == nil {
		return text, nil
	}
	defined := map[string]bool{}
	for _, rule := range parsed.Rules {
		defined[language.RuleName(rule)] = true
	}
	var all []replacement
	replace := func(at *ast.Location, old, new string) {
		if at != nil && strings.HasPrefix(text[min(at.Offset, len(text)):], old) {
			all = append(all, replacement{at.Offset, old, new})
			notes = append(notes, fmt.Sprintf("%s is replaced by %s, as it is called today", old, new))
		}
	}
	ast.WalkRefs(parsed, func(ref ast.Ref) bool {
		name, isVar := ref[0].Value.(ast.Var)
		if !isVar {
			return false
		}
		if today, renamed := language.RenamedBuiltin(string(name)); renamed && len(ref) == 1 && !defined[string(name)] {
			replace(ref[0].Location, string(name), today)
		}
		if len(ref) > 1 && name.Equal(ast.InputRootDocument.Value) && ref[1].Value.Compare(ast.String("resource")) == 0 {
			replace(ref[0].Location, "input.resource", "input")
		}
		return false
	})
	slices.SortFunc(all, func(x, y replacement) int { return y.offset - x.offset })
	all = slices.CompactFunc(all, func(x, y replacement) bool { return x.offset == y.offset })
	for _, r := range all {
		text = text[:r.offset] + r.new + text[r.offset+len(r.old):]
	}
	slices.Sort(notes)
	return text, slices.Compact(notes)
}

// failing are builtin functions that fail on some values of the right type, such as strings that are not numbers.
var failing = []string{
	"to_number", "format_int", "json.unmarshal", "yaml.unmarshal", "base64.decode", "base64url.decode", "hex.decode", "urlquery.decode",
	"time.parse_ns", "time.parse_rfc3339_ns", "time.parse_duration_ns", "units.parse", "units.parse_bytes", "semver.compare",
	"net.cidr_contains", "net.cidr_intersects", "re_match", "regex.match", "regex.split", "regex.find_n", "div", "rem",
	"cast_array", "cast_boolean", "cast_null", "cast_object", "cast_set", "cast_string",
}

// failures returns the names of the builtin functions that may fail on a value (failing) and that the module's rules errors, deny, and
// violation call themselves, sorted. It leaves out what other rules that they read call.
func failures(m *module) []string {
	var out []string
	for _, rule := range m.resolved {
		if name := language.RuleName(rule); name != "errors" && !slices.Contains(denials, name) {
			continue
		}
		ast.WalkExprs(rule, func(e *ast.Expr) bool {
			if e.IsCall() && slices.Contains(failing, e.Operator().String()) {
				out = append(out, e.Operator().String())
			}
			return false
		})
		ast.WalkTerms(rule, func(t *ast.Term) bool {
			if call, ok := t.Value.(ast.Call); ok && slices.Contains(failing, call[0].String()) {
				out = append(out, call[0].String())
			}
			return false
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

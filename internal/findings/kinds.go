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

package findings

import (
	"fmt"
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/suggest"
)

// typeField is a field of objects that identifies their type: kind or apiVersion.
type typeField struct {
	name string // "kind" or "apiVersion".
	// of returns the value of the field in objects of a type.
	of func(match.ServedType) string
	// served reports whether any served type has the value.
	served func(value string) bool
	// meant reports whether an author who wrote value, which the field never has, probably meant type t.
	meant func(t match.ServedType, value string) bool
}

// findingsOfKinds finds constants that the policy's Rego compares with input.kind or input.apiVersion and that no matched
// object has there. It reports a constant that is another name of a matched type. It reports all such constants if the
// Rego names no matched type. Rego that also names other types is probably shared by several policies.
func (f *Finder) findingsOfKinds(m *match.Matcher, module *policy.Module) []Finding {
	served := f.Catalog.Served()
	types, ok := m.Types(served)
	// What rules are compiled to compares with kinds that the policy may not match.
	if !ok || module.FromRules() {
		return nil
	}
	var out []Finding
	for _, field := range typeFields(served) {
		constants := slices.DeleteFunc(lint.InputConstants(module.Compiler), func(c lint.InputConstant) bool { return c.Field != field.name })
		out = append(out, field.findings(constants, types)...)
	}
	return out
}

// typeFields returns the fields of objects that identify their type.
func typeFields(served *match.ServedTypes) []typeField {
	return []typeField{{
		name: "kind", served: served.HasKind, meant: match.ServedType.HasName,
		of: func(t match.ServedType) string { return t.Kind },
	}, {
		name: "apiVersion", served: served.HasVersion,
		of:    func(t match.ServedType) string { return t.GroupVersion().String() },
		meant: func(t match.ServedType, value string) bool { return value == t.Group || value == t.Version },
	}}
}

// findingsOfTypeNames finds constants that expressions compare with object.kind or object.apiVersion, and that are another name of a
// matched type.
func (f *Finder) findingsOfTypeNames(spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	served := f.Catalog.Served()
	types, ok := m.Types(served)
	if !ok {
		return nil
	}
	var out []Finding
	for _, field := range typeFields(served) {
		values := field.values(types)
		for _, e := range expressionsOf(spec) {
			for _, constant := range celexpression.TypeNames(e.text, field.name) {
				meant := field.nearest(constant, types, values)
				if meant != "" && !slices.Contains(values, constant) && !field.served(constant) {
					out = append(out, mistake("%s: object.%s is never %q; did you mean %q?", e.at, field.name, constant, meant))
				}
			}
		}
	}
	return out
}

// values returns the values of the field in objects of the types, each once.
func (f typeField) values(types []match.ServedType) []string {
	var out []string
	for _, t := range types {
		if value := f.of(t); !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	return out
}

// findings returns a finding for each of those constants that the field never has for an object of the types. If some constant is right, or
// is compared by !=, it leaves out those that are not another name of one of the types.
func (f typeField) findings(constants []lint.InputConstant, types []match.ServedType) []Finding {
	values := f.values(types)
	several := slices.ContainsFunc(constants, func(c lint.InputConstant) bool { return c.Differs || slices.Contains(values, c.Value) })
	var out []Finding
	for _, c := range constants {
		meant := f.nearest(c.Value, types, values)
		if slices.Contains(values, c.Value) || several && (meant == "" || f.served(c.Value)) {
			continue
		}
		hint := ": the policy matches " + strings.Join(values, ", ")
		if meant != "" {
			hint = fmt.Sprintf("; did you mean %q?", meant)
		}
		out = append(out, mistakeAt(c.Position, fmt.Sprintf("input.%s is never %q%s", f.name, c.Value, hint)))
	}
	return out
}

// nearest returns the value of the field that an author who wrote value, which no object of the types has, probably meant; "" for none. It
// is that of the first of the types that value names in another way: by a plural, singular, or short name in place of the kind, or by the
// group or the version alone in place of apiVersion. Otherwise, it is the most similar one of values, which are those of the types, unless
// another served type has value.
func (f typeField) nearest(value string, types []match.ServedType, values []string) string {
	if i := slices.IndexFunc(types, func(t match.ServedType) bool { return f.meant(t, value) }); i >= 0 {
		return f.of(types[i])
	}
	if f.served(value) {
		return ""
	}
	near, _ := suggest.Nearest(value, values)
	return near
}

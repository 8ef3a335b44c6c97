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

// Package lint finds parts of a policy's Rego that are probably mistakes. Check finds those that the Rego alone shows. Other
// functions return names and constants that only callers can compare with what exists in the cluster.
package lint

import (
	"cmp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Position is a position in a policy's Rego: a row and a column, which both count from 1.
type Position struct{ Row, Col int }

// PositionOf returns the position of a location.
func PositionOf(at *ast.Location) Position { return Position{at.Row, at.Col} }

// Compare returns -1, 0, or 1, as cmp.Compare does: by row, and then by column.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Row, other.Row), cmp.Compare(p.Col, other.Col))
}

// Finding is a part of a policy's Rego that is probably a mistake.
type Finding struct {
	Position
	Message string
	// Undefined reports whether the part is an expression that never has a value: a read of a document that spec.data lacks.
	Undefined bool
}

// Report has the parts of a policy's Rego that are probably mistakes.
type Report struct {
	// Warnings are all parts that are probably mistakes, apart from Unused and from what EachEntry returns. NoEffect are those of them
	// that are rules which decide nothing, because their names are not quite those of contract rules, as deny for errors.
	Warnings, NoEffect []Finding
	// Unused are the rules and functions that no contract rule uses. They are not in Warnings, because an author may keep rules
	// for other purposes.
	Unused []Finding
	// eachEntry are at most maxClauses comparisons that are always true if no term matches all entries of a collection. EachEntry finds
	// out whether any does.
	eachEntry []eachEntry
}

// Check examines a policy's Rego, and returns the findings of all checks, in no order of positions. The parameter parsed is the module
// before compilation, compiled the same module after it, and graph that of the compiler. The parameter v0 reports whether the Rego is in
// version 0.
func Check(parsed, compiled *ast.Module, graph *ast.Graph, v0 bool) *Report {
	r := &Report{}
	used := usedByContract(graph, compiled)
	r.checkUnused(compiled, used)
	r.checkPlaceholders(parsed, used)
	r.checkManyValues(compiled)
	module := moduleNames(parsed)
	for _, rule := range parsed.Rules {
		n := namesOf(rule, module)
		r.checkContradictions(rule, n)
		r.checkComparisons(rule, n)
		clauses := findEachEntry(rule, n)
		r.eachEntry = slices.Concat(r.eachEntry, clauses, findUnequalEntries(rule, n, clauses))
	}
	r.eachEntry = r.eachEntry[:min(len(r.eachEntry), maxClauses)]
	if v0 {
		r.checkLegacyRego(parsed)
	}
	return r
}

// moduleOf returns the only module of a policy's compiler, or a shared module without rules if the compiler is nil, as for a policy without
// Rego. The caller must not change it.
func moduleOf(compiler *ast.Compiler) *ast.Module {
	if compiler != nil {
		for _, module := range compiler.Modules {
			return module
		}
	}
	return withoutRules
}

var withoutRules = ast.MustParseModule("package empty")

// warnAt adds a finding on the part at a location, which must not be nil, to Warnings.
func (r *Report) warnAt(at *ast.Location, message string) {
	r.Warnings = append(r.Warnings, Finding{Position: PositionOf(at), Message: message})
}

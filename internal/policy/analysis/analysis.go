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

// Package analysis finds what a compiled policy reads: resource types, and fields of the input and of the data. It also finds
// the rules whose values can be cached because they read less than the policy does.
//
// The analysis is sound: it treats what it does not understand as a read of everything. It calls the fields to which a value may refer the
// places of the value.
package analysis

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
)

// Dependencies are what a compiled module reads. They are immutable.
type Dependencies struct {
	// Reads are the resource types that the Rego reads, sorted.
	Reads []Read
	// Keyed are the references to objects by constant keys, sorted, without duplicates.
	Keyed []KeyedRead
	// Documents has the references to top-level documents of `data` that Berth does not provide, by the name of the document. A document
	// that spec.data lacks causes a warning, and the policy compiles all the same.
	Documents map[string][]*ast.Location
	// Input and Data are the fields of `input` and `data` that the contract's rules read. Other fields do not influence
	// the decision.
	Input, Data *projection.FieldSet
	// InputWithoutPath are the fields of `input` that the contract's rules read, apart from the fields that only the rule
	// language.RuleObjectPath reads. It is nil if no contract rule uses that rule, if the policy calls predicates, or if the fields are not
	// known.
	InputWithoutPath *projection.FieldSet
	// CacheableRules are rules without arguments that read less of `input` than Input, in the order of the text. A policy that calls
	// predicates has none.
	CacheableRules []CacheableRule
	// Nodes and Clusters report whether the policy calls predicates on nodes and on clusters, by a call in the Rego or
	// by spec.predicates.
	Nodes, Clusters bool
}

// codeRead is the code of errors about references whose resource type is unknown.
const codeRead = "berth_unresolved_read"

// Analyse returns what a compiled module reads. The parameter rules names the rules that are evaluated. A reference whose resource type is
// known only at evaluation is an error, unless listed reports that the policy lists its types. So is a reference with an invalid group or
// version, or to an unknown name below data.berth. The error is an ast.Errors.
func Analyse(compiler *ast.Compiler, module *ast.Module, rules []string, listed bool) (Dependencies, error) {
	var d Dependencies
	if err := d.analyseReads(module, listed); err != nil {
		return Dependencies{}, err
	}
	d.analysePredicates(module)
	d.analyseFields(compiler, module, rules)
	return d, nil
}

// ObjectFields returns the fields that the module reads of the objects of a resource type, at the path that the read
// names. The parameter namespaced reports whether the type is namespaced. For clusters and quotas, the fields are those
// of the normal form.
func (d *Dependencies) ObjectFields(r Read, namespaced bool) *projection.FieldSet {
	// Objects are keyed by name, below a namespace if the type is namespaced.
	levels := 1
	if namespaced {
		levels = 2
	}
	return d.Data.AtPath(r.Path()...).UnionAtDepth(levels)
}

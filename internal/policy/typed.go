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

package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
)

// ParseRego parses a policy's Rego in a version of the language. file is the file name in messages. A text that does not parse, or has no
// package, is an error, which is a *CompileError.
func ParseRego(file, text string, version placementv1.RegoVersion) (*ast.Module, error) {
	parser, capabilities := language.Of(version)
	module, err := ast.ParseModuleWithOpts(file, text, ast.ParserOptions{RegoVersion: parser, Capabilities: capabilities})
	if err != nil {
		return nil, compileError(file, err)
	}
	return module, nil
}

// newPolicyCompiler returns a compiler for policies in a version of Rego, with the functions that policies may use.
func newPolicyCompiler(version placementv1.RegoVersion) *ast.Compiler {
	return NewCompilerWith(version, nil, nil).Compiler
}

// TypedCompiler is a compiler for policies that may have more type information than the compiler of a Module.
type TypedCompiler struct {
	*ast.Compiler
	// v0 reports whether the policies are in Rego v0.
	v0 bool
}

// NewCompilerWith returns a compiler for policies with additional builtin functions. documents has, by path, the types of the rules whose
// values these functions return. Like the compiler of policies, it rejects Rego whose types would take too much work to check. No engine
// implements the additional functions, so the result is useful for the type checker only.
func NewCompilerWith(version placementv1.RegoVersion, builtins []*ast.Builtin, documents map[string]types.Type) *TypedCompiler {
	parser, capabilities := language.Of(version)
	more := *capabilities
	more.Builtins = slices.Concat(capabilities.Builtins, builtins)
	compiler := newCompiler(&more, documents).WithDefaultRegoVersion(parser)
	return &TypedCompiler{Compiler: compiler, v0: version == placementv1.RegoV0}
}

// Contract returns errors about the clauses of contract rules, in the compiled module of a file, that can never have a valid value, sorted
// by position. It returns nil if the module's types were not checked.
func (t *TypedCompiler) Contract(file string) []Diagnostic {
	module := t.Modules[file]
	if module == nil || t.TypeEnv == nil {
		return nil
	}
	m := &Module{Compiler: t.Compiler, Package: module.Package.Path}
	return m.checkContract(module, &contractChecker{v0: t.v0, schemas: true})
}

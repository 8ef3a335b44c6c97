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
	"context"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// CompileGenerated compiles Rego that Berth itself generated, in Rego v1 and with the builtin functions of policies. The parameter rules
// names the rules that will be evaluated. The text must read nothing in `data` except its own rules, which is not checked. The parameter
// name, with .rego, is the file name in messages. An error means a bug in the generator.
func CompileGenerated(name, text string, rules []string) (*Module, error) {
	file := name + ".rego"
	parsed, err := ParseRego(file, text, placementv1.RegoV1)
	if err != nil {
		return nil, fmt.Errorf("generated module: %w", err)
	}
	compiler := newPolicyCompiler(placementv1.RegoV1)
	if compiler.Compile(map[string]*ast.Module{file: parsed}); compiler.Failed() {
		return nil, fmt.Errorf("generated module: %w", compileError(file, compiler.Errors))
	}
	return &Module{Compiler: compiler, Package: parsed.Package.Path, Rules: rules}, nil
}

// Rules are the rules of a module that Berth generated (CompileGenerated), prepared for evaluation. They read an input and no cluster data.
// They are safe for concurrent use.
type Rules interface {
	// Evaluate returns the values of the rules that are defined for the input, keyed by rule name. The values are the
	// Go types of JSON, with sets as lists. If a builtin function fails, Evaluate returns an error instead of omitting
	// the rule.
	Evaluate(ctx context.Context, input map[string]any) (map[string]any, error)
}

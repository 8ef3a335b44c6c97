package policy

import (
	"context"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// CompileGenerated compiles a text that Berth itself generated, in the language and with the builtin functions of
// policies. rules are those that will be asked for. The text may read nothing of `data` but its own rules. name stands
// for the file in messages; an error is a mistake in the generator.
func CompileGenerated(name, text string, rules []string) (*Module, error) {
	file := name + ".rego"
	version, capabilities := language(placementv1.RegoV1)
	parsed, err := ast.ParseModuleWithOpts(file, text, ast.ParserOptions{RegoVersion: version, Capabilities: capabilities})
	if err != nil {
		return nil, fmt.Errorf("generated module: %w", compileError(file, err))
	}
	compiler := newCompiler(capabilities).WithDefaultRegoVersion(version)
	if compiler.Compile(map[string]*ast.Module{file: parsed}); compiler.Failed() {
		return nil, fmt.Errorf("generated module: %w", compileError(file, compiler.Errors))
	}
	return &Module{Compiler: compiler, Package: parsed.Package.Path, Rules: rules}, nil
}

// Rules are the rules of a generated module, ready to be asked. They are safe for concurrent use.
type Rules interface {
	// Evaluate returns the values of the rules that are defined for the input, by name: JSON values of Go, sets as
	// lists. A builtin function that fails is an error, not an undefined rule.
	Evaluate(ctx context.Context, input map[string]any) (map[string]any, error)
}

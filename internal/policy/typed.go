package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// ParseText parses a policy's text for a compilation of its own. The capabilities are those of policies.
func ParseText(file, text string, version placementv1.RegoVersion) (*ast.Module, *ast.Capabilities, error) {
	parser, capabilities := language(version)
	module, err := ast.ParseModuleWithOpts(file, text, ast.ParserOptions{RegoVersion: parser, Capabilities: capabilities})
	if err != nil {
		return nil, nil, compileError(file, err)
	}
	return module, capabilities, nil
}

// TypedCompiler is a compiler of policies that may know more of types than the compiler of a Module.
type TypedCompiler struct {
	*ast.Compiler
	work *typeWork
	v0   bool
}

// NewCompilerWith returns a compiler of policies that knows some more builtin functions. It refuses a text whose types
// would take too much work to check, as the compiler of policies does. No engine implements the functions: what it
// compiles is for the type checker alone.
func NewCompilerWith(version placementv1.RegoVersion, builtins []*ast.Builtin) *TypedCompiler {
	parser, capabilities := language(version)
	more := *capabilities
	more.Builtins = slices.Concat(capabilities.Builtins, builtins)
	compiler, work := newTypedCompiler(&more)
	return &TypedCompiler{Compiler: compiler.WithDefaultRegoVersion(parser), work: work, v0: version == placementv1.RegoV0}
}

// Contract returns the clauses of the decision contract in a module, by its file, whose value can never be valid, in the
// order of the text. It returns nothing if the module's types were not checked.
func (t *TypedCompiler) Contract(file string) []Diagnostic {
	module := t.Modules[file]
	if module == nil || t.work.over() {
		return nil
	}
	m := &Module{Compiler: t.Compiler, Package: module.Package.Path}
	return m.checkContract(module, &contractChecker{v0: t.v0, schemas: true}, t.work.clauses)
}

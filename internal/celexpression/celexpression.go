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

// Package celexpression evaluates CEL expressions over one variable, object, as the API server evaluates those of admission policies: in
// the same environment, and with the same limit on their cost. In addition, it bounds calls that nothing interrupts (Bounds).
package celexpression

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/weakcache"
)

// objectVariable is the name of the only variable that Check and Evaluate give an expression: the object.
const objectVariable = "object"

// environments returns the environments of CEL in which expressions are compiled: those of the API server, with the variable object and
// with Bounds. It builds them on the first call, which takes milliseconds.
var environments = sync.OnceValue(func() *environment.EnvSet {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	out, err := base.Extend(Bounds, environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable(objectVariable, cel.DynType)},
	})
	if err != nil {
		panic(fmt.Errorf("the environment of CEL: %w", err))
	}
	return out
})

// Check returns an error if an expression does not compile, or its value can't be a boolean.
func Check(expression string) error {
	_, err := compile(expression, environment.NewExpressions)
	return err
}

// compile parses and type-checks an expression, as Check does. kind is environment.NewExpressions, or StoredExpressions for one that an
// object has already, which may also use functions of later versions.
func compile(expression string, kind environment.Type) (*cel.Ast, error) {
	env, parsed, err := parse(expression, kind)
	if err != nil {
		return nil, err
	}
	if err := checkPatterns(parsed); err != nil {
		return nil, err
	}
	compiled, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if t := compiled.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("must be a boolean, is %s", t)
	}
	return compiled, nil
}

// parse parses an expression, without checking its types, and returns the environment in which they can be checked. kind is
// environment.NewExpressions or StoredExpressions.
func parse(expression string, kind environment.Type) (*cel.Env, *cel.Ast, error) {
	env, err := environments().Env(kind)
	if err != nil {
		return nil, nil, err
	}
	parsed, issues := env.Parse(expression)
	return env, parsed, issues.Err()
}

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	expression string
	program    cel.Program
}

var (
	// programs shares the program of an expression for as long as a policy with it is in use.
	programs weakcache.Cache[Program]
	// recent keeps the programs of expressions that no policy has as a constant, the last ones that were evaluated.
	recent = lru.New(64)
)

// Compile returns the program of an expression, which all callers with the same expression share; an error if the expression does not
// compile or can't be a boolean. As long as a caller keeps the program, Evaluate does not compile the expression.
func Compile(expression string) (*Program, error) {
	return programs.Get(expression, func() (*Program, error) { return newProgram(expression) })
}

// Evaluate returns the value of an expression on an object, which has the Go types of unstructured content. It is safe for concurrent use.
// It returns an error if the expression does not compile, is no boolean, reads a field that the object does not have, or costs more than
// the API server allows for one expression. Errors do not have values of the object.
func Evaluate(ctx context.Context, expression string, object any) (bool, error) {
	p, err := Compile(expression)
	if err != nil {
		return false, fmt.Errorf("expression %q: %w", expression, err)
	}
	recent.Add(expression, p)
	value, _, err := p.program.ContextEval(ctx, map[string]any{objectVariable: object})
	if err != nil {
		return false, fmt.Errorf("expression %q: %w", expression, p.withoutValues(err))
	}
	result, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("expression %q: must be a boolean, is %s", expression, value.Type())
	}
	return result, nil
}

// errNoSuchKey replaces errors about keys that are values of the object. They may be secret.
var errNoSuchKey = errors.New("no such key")

// withoutValues returns an error of an evaluation of the program without values of the object. If a field is missing, the error also says
// to test for it with has(), and names it only if the expression does. Other errors have no values of the object and are returned as they
// are.
func (p *Program) withoutValues(err error) error {
	_, key, found := strings.Cut(err.Error(), "no such key: ")
	if !found {
		return err
	}
	if !strings.Contains(p.expression, key) {
		err = errNoSuchKey
	}
	return fmt.Errorf("%w: test with has() whether the object has the field, and with in whether a map such as labels has the key", err)
}

// newProgram compiles an expression, as one that an object has already, to a program with the API server's limit on the cost of an
// evaluation. more are further options.
func newProgram(expression string, more ...cel.ProgramOption) (*Program, error) {
	compiled, err := compile(expression, environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	env, err := environments().Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	program, err := env.Program(compiled, append(more,
		cel.CostLimit(celconfig.PerCallLimit),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)...)
	if err != nil {
		return nil, err
	}
	return &Program{expression, program}, nil
}

// Fields returns the sealed set of the fields of the object that an expression reads. It has all of them if the expression reads the
// object itself, such as `object == object`, or does not compile.
func Fields(expression string) *projection.FieldSet {
	compiled, err := compile(expression, environment.StoredExpressions)
	if err != nil {
		return projection.AllFields()
	}
	fields := &projection.FieldSet{}
	for _, use := range ast.MatchDescendants(ast.NavigateAST(compiled.NativeRep()), isObject) {
		addRead(fields, use)
	}
	return fields.Seal()
}

// addRead adds the field that an expression reads at one use of the variable object, such as metadata.name for object.metadata.name, with
// everything below it. If the expression only tests whether the field exists, addRead adds just that. If it reads the object itself,
// addRead adds all fields.
func addRead(fields *projection.FieldSet, use ast.NavigableExpr) {
	path, presence := pathFrom(use)
	for _, name := range path {
		fields = fields.AddName(name)
	}
	if !presence {
		fields.AddAll()
	}
}

// selected returns the name of the member that the expression e selects of its operand, as in operand.name, operand["name"], operand.?name,
// operand[?"name"], has(operand.name), and "name" in operand. The last one counts only if path, the path of the operand, is one of
// mapFields. part reports whether the value of e is the member; if not, e tests whether there is one. ok is false if e selects no member.
func selected(e, operand ast.NavigableExpr, path []string) (name string, part, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().FieldName(), !e.AsSelect().IsTestOnly(), true
	case ast.CallKind:
		args := e.AsCall().Args()
		if len(args) != 2 {
			return "", false, false
		}
		switch function := e.AsCall().FunctionName(); {
		case slices.Contains(selectors, function) && args[0].ID() == operand.ID():
			name, ok = literal(args[1])
			return name, true, ok
		case function == operators.In && args[1].ID() == operand.ID() && slices.ContainsFunc(mapFields,
			func(m []string) bool { return slices.Equal(m, path) }):
			name, ok = literal(args[0])
			return name, false, ok
		}
	}
	return "", false, false
}

// mapFields are the paths of fields that are maps, and never lists, in every object. "tier" in object.metadata.labels reads one member of
// such a map, but would read all items of a list.
var mapFields = [][]string{{"metadata", "labels"}, {"metadata", "annotations"}}

// selectors are the functions that CEL's operators for fields are compiled to.
var selectors = []string{operators.Index, operators.OptIndex, operators.OptSelect}

// isObject reports whether an expression is the variable object, also where a field of it is selected: in object.metadata, the operand
// object is, and object.metadata is not.
func isObject(e ast.NavigableExpr) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == objectVariable
}

// literal returns the value of an expression that is a constant string; false if it is not.
func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().Value().(string)
	return text, ok
}

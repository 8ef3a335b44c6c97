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

package celexpression

import (
	"errors"
	"regexp"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"

	"github.com/berth-dev/berth/internal/pattern"
)

// Bounds are the options of an environment of CEL that bound the calls of functions which nothing interrupts: those that parse
// quantities, match regular expressions, or assemble texts. The API server has no such bounds. A call beyond them is an error.
var Bounds = environment.VersionedOptions{
	IntroducedVersion: version.MajorMinor(1, 0),
	ProgramOptions:    []cel.ProgramOption{cel.CustomDecorator(boundCalls), cel.CustomDecorator(boundPatterns)},
}

// bounded are functions that stand for those of the same name, and return an error beyond a bound. CEL's limit on the cost of a call
// includes neither how long a number takes to parse nor how large a text becomes.
var bounded = map[string]func(operands []ref.Val) ref.Val{"quantity": quantity, "isQuantity": isQuantity, "replace": replace, "join": join}

// boundCalls replaces a call of CEL by one of the function of that name in bounded, with the same operands. It returns other steps of a
// program unchanged, and no error.
func boundCalls(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || bounded[call.Function()] == nil {
		return i, nil
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(operands ...ref.Val) ref.Val {
		return bounded[call.Function()](operands)
	}), nil
}

// matching are the functions whose second operand is a regular expression, and what they return for the first one. limit is the maximum
// number of results of findAll, negative for no maximum; the others ignore it.
var matching = map[string]func(re *regexp.Regexp, text string, limit int) ref.Val{
	"matches": func(re *regexp.Regexp, text string, _ int) ref.Val { return types.Bool(re.MatchString(text)) },
	"find":    func(re *regexp.Regexp, text string, _ int) ref.Val { return types.String(re.FindString(text)) },
	findAll: func(re *regexp.Regexp, text string, limit int) ref.Val {
		return types.NewStringList(types.DefaultTypeAdapter, re.FindAllString(text, limit))
	},
}

const findAll = "findAll"

// boundPatterns replaces a call of a function in matching by one that limits the size of the regular expression, which may be larger if it
// is a constant. A constant beyond the limit is an error now, any other one when the call is evaluated. It returns other steps of a program
// unchanged.
func boundPatterns(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || matching[call.Function()] == nil || len(call.Args()) < 2 {
		return i, nil
	}
	args, most := slices.Clone(call.Args()), pattern.MaxStates
	if constant, ok := args[1].(interpreter.InterpretableConst); ok {
		most = pattern.MaxWritten
		text, _ := constant.Value().(types.String)
		if excess := pattern.Check(string(text), most, 0, false); excess != nil {
			return nil, excess
		}
	}
	args[1] = notConstant{args[1]}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, func(values ...ref.Val) ref.Val {
		return match(call.Function(), most, values)
	}), nil
}

// notConstant hides that a regular expression is a constant. Otherwise, cel-go compiles it with the program, without a bound, and
// replaces the bounded call.
type notConstant struct{ interpreter.Interpretable }

// match returns the value of a call of one of the functions in matching with the given operands. most is the maximum number of states of
// the regular expression.
func match(function string, most int, values []ref.Val) ref.Val {
	text, isText := values[0].(types.String)
	expression, isExpression := values[1].(types.String)
	limit := types.Int(-1)
	if len(values) > 2 {
		if limit, isText = values[2].(types.Int); !isText {
			return types.MaybeNoSuchOverloadErr(values[2])
		}
	}
	switch {
	case !isText:
		return types.MaybeNoSuchOverloadErr(values[0])
	case !isExpression:
		return types.MaybeNoSuchOverloadErr(values[1])
	}
	if excess := pattern.Check(string(expression), most, len(text), function == findAll); excess != nil {
		return types.WrapErr(excess)
	}
	re, err := compiledPattern(string(expression))
	if err != nil {
		return types.WrapErr(errInvalidPattern)
	}
	return matching[function](re, string(text), int(limit))
}

// errInvalidPattern replaces the errors of package regexp, which have the regular expression. It may be secret.
var errInvalidPattern = errors.New("an argument is not a valid regular expression")

// recentPatterns has the compiled regular expressions of the last calls.
var recentPatterns = lru.New(32)

// compiledPattern returns a compiled regular expression, from recentPatterns if it is there. The error for an invalid one contains the
// expression, so callers must not show it.
func compiledPattern(expression string) (*regexp.Regexp, error) {
	if known, ok := recentPatterns.Get(expression); ok {
		return known.(*regexp.Regexp), nil
	}
	out, err := regexp.Compile(expression)
	if err == nil {
		recentPatterns.Add(expression, out)
	}
	return out, err
}

// checkPatterns returns an error if a constant of an expression is too large a regular expression. cel-go compiles them when it
// checks the expression.
func checkPatterns(parsed *cel.Ast) (err error) {
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || matching[e.AsCall().FunctionName()] == nil {
			return
		}
		for _, arg := range e.AsCall().Args() {
			text, constant := literal(arg)
			if excess := pattern.Check(text, pattern.MaxWritten, 0, false); constant && excess != nil {
				err = excess
			}
		}
	}))
	return err
}

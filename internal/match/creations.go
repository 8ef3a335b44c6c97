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

package match

import (
	"context"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// FailsOnCreate reports whether a match condition fails when an object is created, because it reads oldObject, which is null then. It
// returns false if the condition tests that, or reads what may differ between new and existing objects. It also returns false if that is
// not certain, as for a condition that does not parse or has too many parts.
func FailsOnCreate(ctx context.Context, expression string) bool {
	if !strings.Contains(expression, "oldObject") {
		return false
	}
	parsed, issues := conditionParser().Parse(expression)
	if issues.Err() != nil {
		// Ignore the error: compiling the condition reports it.
		return false
	}
	unknown := []*cel.AttributePatternType{cel.AttributePattern("object"), cel.AttributePattern("request").QualString("userInfo")}
	for _, name := range fieldsOfRequests {
		if name != "operation" && name != "oldObject" {
			unknown = append(unknown, cel.AttributePattern("request").QualString(name))
		}
	}
	variables, err := cel.PartialVars(map[string]any{
		"oldObject": types.NullValue,
		"request":   map[string]any{"operation": string(admissionregistrationv1.Create), "oldObject": types.NullValue},
	}, unknown...)
	if err != nil {
		return false
	}
	c := creation{info: parsed.NativeRep().SourceInfo(), variables: variables, left: maxParts}
	return c.outcome(ctx, parsed.NativeRep().Expr()) == outcomeFailure
}

// maxParts limits the parts of a match condition that are evaluated: each is compiled.
const maxParts = 64

// outcome is what is known of the value of an expression: true, false, that its evaluation fails, or nothing.
type outcome int

const (
	outcomeUnknown outcome = iota
	outcomeTrue
	outcomeFalse
	outcomeFailure // The evaluation ends with an error.
)

// creation finds the outcomes of parts of a match condition when an object is created. Evaluation alone does not find them: CEL returns
// that a comparison is unknown if one side of it is, although the other side fails.
type creation struct {
	info      *celast.SourceInfo // Of the parsed match condition, to write its parts as text.
	variables cel.PartialActivation
	left      int // How many parts may still be evaluated. The outcomes of further ones are unknown.
}

// outcome returns what is known of the value of an expression when an object is created.
func (c *creation) outcome(ctx context.Context, e celast.Expr) outcome {
	args := e.AsCall().Args()
	switch e.AsCall().FunctionName() {
	case operators.LogicalNot:
		switch out := c.outcome(ctx, args[0]); out {
		case outcomeTrue:
			return outcomeFalse
		case outcomeFalse:
			return outcomeTrue
		default:
			return out
		}
	case operators.LogicalAnd:
		return c.join(ctx, args, outcomeFalse, outcomeTrue)
	case operators.LogicalOr:
		return c.join(ctx, args, outcomeTrue, outcomeFalse)
	case operators.Conditional:
		switch out := c.outcome(ctx, args[0]); out {
		case outcomeTrue:
			return c.outcome(ctx, args[1])
		case outcomeFalse:
			return c.outcome(ctx, args[2])
		default:
			return out
		}
	}
	if out := c.evaluate(ctx, e); out != outcomeUnknown {
		return out
	}
	if slices.ContainsFunc(strictOperands(e), func(operand celast.Expr) bool { return c.outcome(ctx, operand) == outcomeFailure }) {
		return outcomeFailure
	}
	return outcomeUnknown
}

// join returns the outcome of && or || with the given operands. decides is the outcome of an operand that is that of the whole, whatever
// the others are, and otherwise is the opposite. An operand that fails makes the whole fail, unless the outcome of another one is unknown
// and that one may be there to tell updates from creations: then the outcome of the whole is unknown.
func (c *creation) join(ctx context.Context, operands []celast.Expr, decides, otherwise outcome) outcome {
	out, open := otherwise, false
	for _, e := range operands {
		switch of := c.outcome(ctx, e); {
		case of == decides:
			return decides
		case of == outcomeFailure:
			out = outcomeFailure
		case of == outcomeUnknown && c.mayTellUpdates(e):
			open = true
		case of == outcomeUnknown && out != outcomeFailure:
			out = outcomeUnknown
		}
	}
	if open {
		return outcomeUnknown
	}
	return out
}

// strictOperands returns the operands of an expression that are always evaluated, so that it fails if one of them does: the object of a
// field selection, the elements of a list, what a macro iterates over, and the target and arguments of a call (of or and orValue, the
// target alone). It returns none for other expressions, such as a map. The expression must not be &&, ||, or ?:.
func strictOperands(e celast.Expr) []celast.Expr {
	switch e.Kind() {
	case celast.SelectKind:
		return []celast.Expr{e.AsSelect().Operand()}
	case celast.ListKind:
		return e.AsList().Elements()
	case celast.ComprehensionKind:
		return []celast.Expr{e.AsComprehension().IterRange()}
	case celast.CallKind:
		call := e.AsCall()
		switch {
		case !call.IsMemberFunction():
			return call.Args()
		case slices.Contains([]string{"or", "orValue"}, call.FunctionName()):
			// They read the argument only if the optional value is missing.
			return []celast.Expr{call.Target()}
		default:
			return append([]celast.Expr{call.Target()}, call.Args()...)
		}
	}
	return nil
}

// source returns the text of an expression. ok is false if it can't be written as CEL, such as one with a macro.
func (c *creation) source(e celast.Expr) (text string, ok bool) {
	text, err := parser.Unparse(e, c.info)
	return text, err == nil
}

// evaluate evaluates an expression that reads oldObject or the request, or that is constant. The outcome of others is unknown, as is that
// of an expression that fails without reading oldObject, and of all once left is 0.
func (c *creation) evaluate(ctx context.Context, e celast.Expr) outcome {
	text, ok := c.source(e)
	if !ok || c.left == 0 || strings.HasPrefix(text, "object.") && !strings.Contains(text, "oldObject") && !strings.Contains(text, "request") {
		return outcomeUnknown
	}
	c.left--
	program, err := partialProgram(text)
	if err != nil {
		return outcomeUnknown
	}
	value, _, err := program.ContextEval(ctx, c.variables)
	switch {
	case err != nil && strings.Contains(text, "oldObject"):
		return outcomeFailure
	case err != nil:
		return outcomeUnknown
	case value.Value() == true:
		return outcomeTrue
	case value.Value() == false:
		return outcomeFalse
	}
	return outcomeUnknown
}

// marksOfUpdates are parts of the names of variables and fields that may differ between new and existing objects. An operand of && or ||
// whose text has one may be there to keep a match condition from failing when an object is created. If the outcome of such an operand is
// not known, FailsOnCreate is not certain, and reports no failure.
var marksOfUpdates = []string{
	"request", "oldObject", "status", "annotations", "generation", "uid", "Timestamp", "resourceVersion", "managedFields",
	"ownerReferences", "finalizers",
}

// mayTellUpdates reports whether an expression may be there to tell updates from creations: its text has one of marksOfUpdates, such as
// "request" or "oldObject", or is not known.
func (c *creation) mayTellUpdates(e celast.Expr) bool {
	text, ok := c.source(e)
	return !ok || slices.ContainsFunc(marksOfUpdates, func(mark string) bool { return strings.Contains(text, mark) })
}

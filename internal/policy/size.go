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
	"errors"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Limits on a policy's size. The CRD schema enforces those on the Rego and the data first. They are checked here for callers without an
// API server.
const (
	// maxRego and maxData are in bytes.
	maxRego = 64 << 10
	maxData = 256 << 10
	// maxDepth limits how deeply terms are nested. maxBodies limits how deeply the bodies of comprehensions and of
	// every are nested. The compiler's time grows with the square of the former, and faster with the latter.
	maxDepth  = 64
	maxBodies = 8
	// maxRules limits the number of rules, including else branches. If each rule refers to the one before, the
	// compiler's time grows with the square of their number.
	maxRules = 512
	// maxRenderedRules limits the number of rules that spec.rules are rendered to. Each of them refers to few others, and the
	// length of their text is limited, so that they compile in the time of a request.
	maxRenderedRules = 8192
	// maxOrderWork limits the work to order the expressions of one body, so that each variable has a value before it is used. The
	// compiler goes through the expressions as often as there are variables, and through those before each time. A second takes about
	// fifty million steps.
	maxOrderWork = 100_000_000
	// closureCost is how many times longer a comprehension or every takes, besides the variables: those that each expression before it
	// gives a value are collected again.
	closureCost = 50
)

// Codes of policies that take too much to compile. codeTime is that of one whose compilation did not end in time.
const (
	codeSize = "berth_size_error"
	codeTime = "berth_time_error"
)

// Unfinished returns the error, which IsUnfinished recognizes, for a policy whose compilation has no result yet. The problem says why, and
// what to do. The error is at spec.rules, spec.remote.modules, or in the Rego.
func Unfinished(name string, spec placementv1.PlacementPolicySpec, problem string) *CompileError {
	switch {
	case len(spec.Rules) > 0:
		return &CompileError{Diagnostics: []Diagnostic{{Field: "spec.rules", Code: codeTime, Message: problem}}}
	case spec.Remote != nil:
		return &CompileError{Diagnostics: []Diagnostic{{Field: "spec.remote.modules", Code: codeTime, Message: problem}}}
	}
	return oneError(name+".rego", nil, codeTime, problem)
}

// IsUnfinished reports whether an error is, or wraps, one that Unfinished returned.
func IsUnfinished(err error) bool {
	list, ok := errors.AsType[*CompileError](err)
	return ok && slices.ContainsFunc(list.Diagnostics, func(d Diagnostic) bool { return d.Code == codeTime })
}

// checkSize rejects a policy whose Rego or data has too many bytes to compile within the time of a request.
func checkSize(file string, spec placementv1.PlacementPolicySpec) error {
	if n := len(spec.Rego); n > maxRego {
		return oneError(file, nil, codeSize, fmt.Sprintf("spec.rego: has %d bytes, at most %d are compiled", n, maxRego))
	}
	if spec.Data != nil && len(spec.Data.Raw) > maxData {
		return oneError(file, nil, codeSize, fmt.Sprintf("spec.data: has %d bytes, at most %d are kept with a policy; put larger data "+
			"into a resource that the policy reads", len(spec.Data.Raw), maxData))
	}
	return nil
}

// checkBounds rejects a module that is nested too deeply, has too many rules (most is the maximum), or has a body that takes too long to
// order.
func checkBounds(file string, module *ast.Module, most int) error {
	var place *ast.Location
	terms, bodies, rules, tooDeep := 0, 0, 0, false
	count := func(x any, n int) {
		switch x := x.(type) {
		case *ast.Term:
			if terms += n; x.Location != nil && !tooDeep {
				place = x.Location
			}
		case ast.Body:
			bodies += n
		case *ast.Rule:
			rules += max(n, 0)
		}
	}
	before := func(x any) bool {
		count(x, 1)
		tooDeep = tooDeep || terms > maxDepth || bodies > maxBodies
		return tooDeep
	}
	after := func(x any) { count(x, -1) }
	if ast.NewBeforeAfterVisitor(before, after).Walk(module); tooDeep {
		return oneError(file, place, codeSize, fmt.Sprintf("terms are nested more than %d deep, or comprehensions and every-expressions more "+
			"than %d: write parts of them as rules of their own", maxDepth, maxBodies))
	}
	if rules > most {
		return oneError(file, nil, codeSize, fmt.Sprintf("there are %d rules, at most %d are compiled: put tables into spec.data", rules, most))
	}
	return checkOrder(file, module)
}

// checkOrder rejects a module with a body whose expressions the compiler takes too long to order by the variables that they need.
func checkOrder(file string, module *ast.Module) (err error) {
	ast.WalkBodies(module, func(body ast.Body) bool {
		expressions, closures, names := len(body), 0, ast.NewVarSet()
		ast.NewGenericVisitor(func(x any) bool {
			switch x := x.(type) {
			case ast.Var:
				names.Add(x)
			case ast.Call:
				// The compiler makes an expression of it.
				expressions++
			case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.Every:
				closures++
			}
			return false
		}).Walk(body)
		n := len(names)
		if n*expressions*(n+expressions+closures*(n+closureCost)) > maxOrderWork {
			err = oneError(file, body.Loc(), codeSize, fmt.Sprintf(
				"a body has %d expressions with %d variables, which take too long to order: divide it between several rules", expressions, n))
		}
		return err != nil
	})
	return err
}

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

package main

import (
	"go/ast"
	"strings"
)

// checkWaits returns the findings of code that waits in a way of its own: package notify has the only sleep that a context ends, and the
// only channel that wakes a goroutine.
func checkWaits(code source) []finding {
	if isTest(code.file) || strings.HasPrefix(code.file, "internal/notify/") || strings.HasPrefix(code.file, "hack/") {
		return nil
	}
	w := waits{timers: map[string]bool{}}
	ast.Inspect(code.tree, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && len(a.Rhs) == 1 && isCall(a.Rhs[0], "time", "NewTimer") {
			if name, ok := a.Lhs[0].(*ast.Ident); ok {
				w.timers[name.Name] = true
			}
		}
		return true
	})
	var out []finding
	ast.Inspect(code.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			if w.sleeps(n) {
				out = append(out, code.found(n.Pos(), "select", "notify.Sleep"))
			}
		case *ast.CallExpr:
			if isWake(n) {
				out = append(out, code.found(n.Pos(), "make", "notify.NewSignal"))
			}
		}
		return true
	})
	return out
}

// waits are the timers of a file, by the names of their variables.
type waits struct{ timers map[string]bool }

// sleeps reports whether a statement waits for a timer and the end of a context, and for nothing else.
func (w waits) sleeps(s *ast.SelectStmt) bool {
	timed, ends := false, false
	for _, c := range s.Body.List {
		clause, _ := c.(*ast.CommClause)
		statement, _ := clause.Comm.(*ast.ExprStmt)
		if statement == nil {
			return false
		}
		received, _ := statement.X.(*ast.UnaryExpr)
		if received == nil {
			return false
		}
		switch channel := received.X.(type) {
		case *ast.CallExpr:
			selector, _ := channel.Fun.(*ast.SelectorExpr)
			ends = ends || selector != nil && selector.Sel.Name == "Done"
			timed = timed || isCall(channel, "time", "After")
		case *ast.SelectorExpr:
			name, _ := channel.X.(*ast.Ident)
			timed = timed || name != nil && channel.Sel.Name == "C" && w.timers[name.Name]
		}
	}
	return len(s.Body.List) == 2 && timed && ends
}

// isCall reports whether an expression calls a function of a package.
func isCall(e ast.Expr, of, function string) bool {
	call, _ := e.(*ast.CallExpr)
	if call == nil {
		return false
	}
	selector, _ := call.Fun.(*ast.SelectorExpr)
	if selector == nil {
		return false
	}
	name, _ := selector.X.(*ast.Ident)
	return name != nil && name.Name == of && selector.Sel.Name == function
}

// isWake reports whether a call makes a channel of one element that only wakes its receiver.
func isWake(call *ast.CallExpr) bool {
	function, _ := call.Fun.(*ast.Ident)
	if function == nil || function.Name != "make" || len(call.Args) != 2 {
		return false
	}
	channel, _ := call.Args[0].(*ast.ChanType)
	size, _ := call.Args[1].(*ast.BasicLit)
	if channel == nil || size == nil || size.Value != "1" {
		return false
	}
	switch element := channel.Value.(type) {
	case *ast.StructType:
		return len(element.Fields.List) == 0
	case *ast.SelectorExpr:
		return element.Sel.Name == "GenericEvent"
	default:
		return false
	}
}

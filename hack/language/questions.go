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
	"slices"
)

// questionWords are the first words of names that promise a question, which changes nothing.
var questionWords = []string{"can", "has", "is", "may", "must", "needs", "should"}

// checkQuestions returns the findings of methods whose name asks a question, and that assign to a field of their receiver, or change a map
// in it. It does not see changes by methods that they call, such as those of atomic fields.
func checkQuestions(code source) []finding {
	var out []finding
	for _, d := range code.tree.Decls {
		method, _ := d.(*ast.FuncDecl)
		if method != nil && isQuestion(method) && changesReceiver(method) {
			out = append(out, code.found(method.Pos(), method.Name.Name, "a name that says what changes, or a question that changes nothing"))
		}
	}
	return out
}

// isQuestion reports whether a function is a method with a single result, a boolean, and its name begins with a word of a question.
func isQuestion(f *ast.FuncDecl) bool {
	if f.Body == nil || f.Recv == nil || f.Type.Results.NumFields() != 1 {
		return false
	}
	result, _ := f.Type.Results.List[0].Type.(*ast.Ident)
	words := wordsOf(f.Name.Name)
	return result != nil && result.Name == "bool" && len(words) > 1 && slices.Contains(questionWords, words[0])
}

// changesReceiver reports whether a method assigns to what is reached through a field of its receiver, or deletes from a map there. A
// receiver that is no pointer is a copy, of which only the elements of maps and slices count.
func changesReceiver(method *ast.FuncDecl) (found bool) {
	receiver := method.Recv.List[0]
	if len(receiver.Names) == 0 {
		return false
	}
	_, pointer := receiver.Type.(*ast.StarExpr)
	shared := func(e ast.Expr, pointer bool) bool {
		for {
			switch x := e.(type) {
			case *ast.SelectorExpr:
				e = x.X
			case *ast.IndexExpr:
				e, pointer = x.X, true
			case *ast.StarExpr:
				e, pointer = x.X, true
			case *ast.ParenExpr:
				e = x.X
			case *ast.Ident:
				return pointer && x.Name == receiver.Names[0].Name
			default:
				return false
			}
		}
	}
	assigned := func(e ast.Expr) bool {
		_, name := e.(*ast.Ident)
		return !name && shared(e, pointer)
	}
	ast.Inspect(method.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			found = found || slices.ContainsFunc(n.Lhs, assigned)
		case *ast.IncDecStmt:
			found = found || assigned(n.X)
		case *ast.CallExpr:
			function, _ := n.Fun.(*ast.Ident)
			deletes := function != nil && (function.Name == "delete" || function.Name == "clear")
			found = found || deletes && len(n.Args) > 0 && shared(n.Args[0], true)
		}
		return !found
	})
	return found
}

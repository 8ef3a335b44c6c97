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

package lint

import (
	"fmt"
	"maps"

	"github.com/open-policy-agent/opa/v1/ast"
)

// scopedModuleOf returns a copy of the only module of a policy's compiler in which the variables of different scopes have different names.
// The compiler gives different names only to declared variables. Any other variable belongs to the outermost scope that has it: the clause
// of a rule, or a comprehension in it.
func scopedModuleOf(compiler *ast.Compiler) *ast.Module {
	module := moduleOf(compiler).Copy()
	s := &scopes{}
	for _, rule := range module.Rules {
		for clause := rule; clause != nil; clause = clause.Else {
			s.rename(nil, clause.Head, clause.Body)
		}
	}
	return module
}

// scopes numbers the scopes of a module.
type scopes struct{ number int }

// rename gives new names to the variables in the parts of a scope, and of the scopes inside it, in place. outer maps the variables of the
// surrounding scopes to their new names; nil for the outermost scope. input and data keep their names.
func (s *scopes) rename(outer map[ast.Var]ast.Var, parts ...any) {
	s.number++
	renamed := map[ast.Var]ast.Var{}
	maps.Copy(renamed, outer)
	for _, part := range parts {
		eachVariable(part, func(t *ast.Term) {
			name, _ := t.Value.(ast.Var)
			if _, known := renamed[name]; !known {
				renamed[name] = ast.Var(fmt.Sprintf("%s@%d", name, s.number))
			}
		}, func(...any) {})
	}
	for _, part := range parts {
		eachVariable(part, func(t *ast.Term) {
			name, _ := t.Value.(ast.Var)
			t.Value = renamed[name]
		}, func(parts ...any) { s.rename(renamed, parts...) })
	}
}

// eachVariable calls variable for each variable in a node, and scope for the parts of each scope in it. It does not visit the variables of
// these scopes, operators of calls, and targets of `with`.
func eachVariable(node any, variable func(*ast.Term), scope func(parts ...any)) {
	var visitor *ast.GenericVisitor
	each := func(terms []*ast.Term) {
		for _, t := range terms {
			visitor.Walk(t)
		}
	}
	visitor = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if !x.IsCall() {
				return false
			}
			each(x.Operands())
			for _, with := range x.With {
				visitor.Walk(with)
			}
		case *ast.With:
			visitor.Walk(x.Value)
		case ast.Call:
			each(x[1:])
		case *ast.Term:
			if _, isVar := x.Value.(ast.Var); !isVar || ast.RootDocumentNames.Contains(x) {
				return false
			}
			variable(x)
		case *ast.ArrayComprehension:
			scope(x.Term, x.Body)
		case *ast.SetComprehension:
			scope(x.Term, x.Body)
		case *ast.ObjectComprehension:
			scope(x.Key, x.Value, x.Body)
		case *ast.Every:
			visitor.Walk(x.Domain)
			if x.Key == nil {
				scope(x.Value, x.Body)
			} else {
				scope(x.Key, x.Value, x.Body)
			}
		default:
			return false
		}
		return true
	})
	visitor.Walk(node)
}

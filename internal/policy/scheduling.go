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
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy/language"
)

// checkScheduled adds errors for invalid constants in the value of a clause of the rule scheduling, as podscheduling.Parse validates
// decisions. The types of the value must be valid.
func (c *contractChecker) checkScheduled(rule *ast.Rule, term *ast.Term) {
	constant, whole := constantOf(term)
	if rule.Head.RuleKind() == ast.MultiValue {
		constant = []any{constant}
	}
	path := rule.Head.Ref()[1:]
	for _, part := range slices.Backward(path) {
		name, ok := part.Value.(ast.String)
		if !ok {
			return
		}
		constant = map[string]any{string(name): constant}
	}
	object, ok := constant.(map[string]any)
	if !ok {
		return
	}
	spec, err := podscheduling.Decode(object)
	if err != nil {
		if whole {
			c.fail("%s.%v", c.rule, err)
		}
		return
	}
	invalid, err := podscheduling.Validate(spec)
	if err != nil {
		return
	}
	for _, problem := range invalid {
		// Other clauses may set the missing parts.
		missing := len(path) > 1 && problem.Type == field.ErrorTypeRequired
		// Parts that are not constant are empty here.
		unknown := !whole && (problem.Type != field.ErrorTypeNotSupported || fmt.Sprint(problem.BadValue) == "")
		if !missing && !unknown {
			c.fail("%s.%v", c.rule, problem)
		}
	}
}

// constantOf returns the value of a term, with nil in place of parts that are not constant. The result whole reports
// whether the whole term is constant. Entries whose keys are not constant strings are omitted.
func constantOf(term *ast.Term) (value any, whole bool) {
	whole = true
	list := func(each func(func(*ast.Term))) []any {
		out := []any{}
		each(func(t *ast.Term) {
			member, ok := constantOf(t)
			out, whole = append(out, member), whole && ok
		})
		return out
	}
	switch v := term.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
		value, err := ast.JSON(v)
		return value, err == nil
	case *ast.Array:
		members := list(v.Foreach)
		return members, whole
	case ast.Set:
		members := list(v.Foreach)
		return members, whole
	case ast.Object:
		out := map[string]any{}
		v.Foreach(func(k, t *ast.Term) {
			key, isText := k.Value.(ast.String)
			member, ok := constantOf(t)
			if whole = whole && ok && isText; isText {
				out[string(key)] = member
			}
		})
		return out, whole
	}
	return nil, false
}

// unrestricting are the members of a pod's spec, and of affinities, that only allow or prefer nodes, or spread pods: a user gains nothing
// by creating a pod without them.
var unrestricting = []string{"tolerations", "topologySpreadConstraints", "preferredDuringSchedulingIgnoredDuringExecution"}

// restrictsPods reports whether the rule scheduling of a module may set anything but the members in unrestricting (Module.RestrictsPods).
// The module must not be compiled, because the compiler moves values out of heads.
func restrictsPods(module *ast.Module) bool {
	return slices.ContainsFunc(module.Rules, func(rule *ast.Rule) bool {
		if language.RuleName(rule) != language.RuleScheduling {
			return false
		}
		path := rule.Head.Ref()[1:]
		return !slices.ContainsFunc(path, isUnrestricting) && (rule.Head.Value == nil || restricts(rule.Head.Value))
	})
}

// isUnrestricting reports whether a term is a constant string that names a member of a pod's spec, or of an affinity, that only allows or
// prefers nodes, or spreads pods (unrestricting), such as "tolerations".
func isUnrestricting(name *ast.Term) bool {
	text, ok := name.Value.(ast.String)
	return ok && slices.Contains(unrestricting, string(text))
}

// restricts reports whether a value of the rule scheduling, or of a member of it, sets anything outside the members in unrestricting. An
// object does if a member that is not in unrestricting does; an empty object does not. Every other value does, also one that is not
// constant.
func restricts(value *ast.Term) bool {
	object, ok := value.Value.(ast.Object)
	return !ok || object.Until(func(name, member *ast.Term) bool { return !isUnrestricting(name) && restricts(member) })
}

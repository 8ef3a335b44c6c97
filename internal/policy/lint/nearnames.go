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
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/suggest"
)

// foreignRules maps rule names that other tools evaluate, and members of contract rules that authors mistake for rules,
// to the contract rules to use instead.
var foreignRules = map[string]string{
	"deny": language.RuleErrors, "denied": language.RuleErrors, "denies": language.RuleErrors, "violation": language.RuleErrors, "violations": language.RuleErrors, "reject": language.RuleErrors,
	"warn":  language.RuleWarnings,
	"patch": language.RuleAnnotations + " or " + language.RuleLabels, "patches": language.RuleAnnotations + " or " + language.RuleLabels, "mutate": language.RuleAnnotations + " or " + language.RuleLabels,
	"allow":        language.RuleErrors + "? Without " + language.RuleErrors + " everything is allowed",
	"nodeSelector": language.RuleScheduling + ".nodeSelector", "affinity": language.RuleScheduling + ".affinity", "tolerations": language.RuleScheduling + ".tolerations",
	"topologySpreadConstraints": language.RuleScheduling + ".topologySpreadConstraints", "priorityClassName": language.RuleScheduling + ".priorityClassName",
	"schedulerName": language.RuleScheduling + ".schedulerName",
}

// checkNearNames warns about rules that Berth does not evaluate, that no contract rule uses, and whose authors
// probably meant a contract rule.
func (r *Report) checkNearNames(module *ast.Module, used map[string]bool) {
	seen := map[string]bool{}
	for _, rule := range module.Rules {
		name := language.RuleName(rule)
		if seen[name] || len(rule.Head.Args) > 0 || len(rule.Head.Ref()) > 1 && !rule.Head.Ref()[1].IsGround() || slices.Contains(language.ContractRules, name) {
			continue
		}
		meant := suggestRule(name)
		if meant == "" || used[name] {
			continue
		}
		seen[name] = true
		r.warnAt(rule.Head.Location, fmt.Sprintf("the rule %s decides nothing: Berth evaluates %s. Did you mean %s", name, strings.Join(language.ContractRules, ", "), meant))
		r.NoEffect = append(r.NoEffect, r.Warnings[len(r.Warnings)-1])
	}
}

// suggestRule returns the rule that a name probably stands for, as the end of a question; "" if there is none.
func suggestRule(name string) string {
	meant, ok := foreignRules[name]
	if !ok {
		if meant, ok = suggest.Nearest(name, language.ContractRules); !ok || meant == name {
			return ""
		}
	}
	if strings.Contains(meant, "?") {
		return meant
	}
	return meant + "?"
}

// usedByContract returns the names of the contract rules and of the rules that they use, directly or indirectly.
func usedByContract(graph *ast.Graph, module *ast.Module) map[string]bool {
	out := map[string]bool{}
	visited := map[any]bool{}
	var queue []any
	add := func(rule any) {
		if !visited[rule] {
			visited[rule] = true
			queue = append(queue, rule)
		}
	}
	for _, rule := range module.Rules {
		if slices.Contains(language.ContractRules, language.RuleName(rule)) {
			for ; rule != nil; rule = rule.Else {
				add(rule)
			}
		}
	}
	for len(queue) > 0 {
		next := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if rule, ok := next.(*ast.Rule); ok {
			out[language.RuleName(rule)] = true
		}
		for rule := range graph.Dependencies(next) {
			add(rule)
		}
	}
	return out
}

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

package language

import "github.com/open-policy-agent/opa/v1/ast"

// ContractRules are the rules of a policy's own package that Berth evaluates.
var ContractRules = []string{RuleAnnotations, RuleLabels, RuleScheduling, RuleClusters, RuleErrors, RuleWarnings}

// RuleScheduling is the contract rule that decides where pods run.
const RuleScheduling = "scheduling"

// RuleClusters is the contract rule that names the clusters that a policy allows.
const RuleClusters = "clusters"

// Names of the other rules of the decision contract.
const (
	RuleAnnotations = "annotations"
	RuleLabels      = "labels"
	RuleErrors      = "errors"
	RuleWarnings    = "warnings"
)

// RuleNames returns the set of the names that RuleName returns for a module's rules.
func RuleNames(module *ast.Module) map[string]bool {
	names := map[string]bool{}
	for _, rule := range module.Rules {
		names[RuleName(rule)] = true
	}
	return names
}

// RuleName returns the first part of the rule's name below its package.
func RuleName(rule *ast.Rule) string {
	switch head := rule.Head.Ref()[0].Value.(type) {
	case ast.Var:
		return string(head)
	case ast.String:
		return string(head)
	}
	return ""
}

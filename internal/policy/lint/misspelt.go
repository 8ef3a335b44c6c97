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
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/suggest"
)

// foreignRules maps rule names that other tools evaluate, such as deny, to the contract rules to use instead, as the end of the question
// "Did you mean errors?". It lacks the question mark, unless a sentence follows the question.
var foreignRules = map[string]string{
	"deny": language.RuleErrors, "denied": language.RuleErrors, "denies": language.RuleErrors, "violation": language.RuleErrors,
	"violations": language.RuleErrors, "reject": language.RuleErrors,
	"warn":  language.RuleWarnings,
	"patch": language.RuleAnnotations + " or " + language.RuleLabels, "patches": language.RuleAnnotations + " or " + language.RuleLabels,
	"mutate": language.RuleAnnotations + " or " + language.RuleLabels,
	"allow":  language.RuleErrors + "? Without " + language.RuleErrors + " everything is allowed",
}

// checkUnused finds the rules and functions that are not in used: no contract rule uses them. Rules whose authors probably meant a contract
// rule are added to Warnings and NoEffect. The others are added to Unused, except rules for OPA's test runner (test_...). In a policy
// without contract rules, none is added to Unused.
func (r *Report) checkUnused(module *ast.Module, used map[string]bool) {
	seen := map[string]bool{}
	for _, rule := range module.Rules {
		name, ref := language.RuleName(rule), rule.Head.Ref()
		if used[name] || seen[name] {
			continue
		}
		switch meant := suggestRule(name); {
		case meant == "" && len(used) > 0 && !strings.HasPrefix(name, "test_"):
			r.Unused = append(r.Unused, Finding{Position: PositionOf(rule.Head.Location), Message: "the rule " + name +
				" has no effect: no rule that Berth evaluates uses it"})
		case meant != "" && len(rule.Head.Args) == 0 && (len(ref) == 1 || ref[1].IsGround()):
			r.warnAt(rule.Head.Location, fmt.Sprintf("the rule %s decides nothing: Berth evaluates %s. Did you mean %s", name,
				strings.Join(language.ContractRules, ", "), meant))
			r.NoEffect = append(r.NoEffect, r.Warnings[len(r.Warnings)-1])
		default:
			continue
		}
		seen[name] = true
	}
}

// suggestRule returns what the author of a rule with a name probably meant, as the end of a question: a contract rule, such as "errors?"
// for deny or error, or a member of the rule scheduling, such as "scheduling.nodeSelector?" for nodeSelector; "" if there is none.
func suggestRule(name string) string {
	// Authors mistake members of the rule scheduling for rules.
	if _, member := podscheduling.Types[name]; member {
		return language.RuleScheduling + "." + name + "?"
	}
	meant, ok := foreignRules[name]
	if !ok {
		if meant, ok = suggest.Nearest(name, language.ContractRules); !ok {
			return ""
		}
	}
	if strings.Contains(meant, "?") {
		return meant
	}
	return meant + "?"
}

// usedByContract returns the names of those contract rules that a policy has, and of its rules and functions that these use, directly or
// indirectly. It is empty for a policy without contract rules.
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
	ast.WalkRules(module, func(rule *ast.Rule) bool {
		if slices.Contains(language.ContractRules, language.RuleName(rule)) {
			add(rule)
		}
		return false
	})
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

// MissingData returns findings, one for each reference, and one warning about all top-level documents that a policy's Rego reads and that
// its own documents lack. The parameter read has the references, by the name of the document that they read, and static has the documents;
// nil for none. The warning is empty if there is nothing to report.
func MissingData(read map[string][]*ast.Location, static ast.Object) (findings []Finding, warning string) {
	var missing []string
	present := documents(static)
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if static == nil || static.Get(ast.StringTerm(name)) == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil, ""
	}
	// A document that the Rego already reads under its own name is not a candidate for a misspelt name. The documents that Berth keeps are.
	candidates := slices.DeleteFunc(slices.Clone(present), func(name string) bool { return read[name] != nil })
	candidates = append(candidates, language.Roots...)
	if len(missing)*len(candidates) > maxComparedNames {
		candidates = nil
	}
	for _, name := range missing {
		message := missingData([]string{name}, present, candidates)
		for _, at := range read[name] {
			if at != nil {
				findings = append(findings, Finding{Position: PositionOf(at), Message: message, Undefined: true})
			}
		}
	}
	return findings, missingData(missing, present, candidates)
}

// Limits on the documents of spec.data that messages name.
const (
	maxNamed         = 5
	maxNameLength    = 64
	maxComparedNames = 10_000
)

// documents returns the sorted names of a policy's own documents. It omits names longer than maxNameLength.
func documents(static ast.Object) []string {
	var out []string
	if static == nil {
		return nil
	}
	static.Foreach(func(key, _ *ast.Term) {
		if name, ok := key.Value.(ast.String); ok && len(name) <= maxNameLength {
			out = append(out, string(name))
		}
	})
	slices.Sort(out)
	return out
}

// missingData returns a message that the policy reads documents which spec.data lacks. It lists at most maxNamed of the documents that are
// present, and those of the candidates that are probably meant.
func missingData(missing, present, candidates []string) string {
	layout := oldLayout(missing)
	message := fmt.Sprintf("the policy reads data.%s, which spec.data does not have%s", strings.Join(missing, ", data."), layout)
	if layout != "" {
		return message
	}
	if len(present) > 0 {
		message += "; it has " + strings.Join(present[:min(len(present), maxNamed)], ", ")
	}
	if more := len(present) - maxNamed; more > 0 {
		message += fmt.Sprintf(", and %d more", more)
	}
	var meant []string
	for _, name := range missing {
		if near, ok := suggest.Nearest(name, candidates); ok {
			meant = append(meant, "data."+near)
		}
	}
	if len(meant) > 0 {
		message += fmt.Sprintf("; did you mean %s?", strings.Join(meant, ", "))
	}
	return message
}

// oldLayout returns the end of a sentence on where Berth keeps the data that OPA for Kubernetes federation kept at data.io. It returns ""
// if "io" is not among the names.
func oldLayout(names []string) string {
	if !slices.Contains(names, "io") {
		return ""
	}
	return fmt.Sprintf("; Berth keeps clusters at data.%s[name] and objects of the cluster at data.%s.<plural>", language.RootClusters,
		language.RootKubernetes)
}

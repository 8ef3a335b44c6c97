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

package embedded

import (
	"context"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rules"
)

var _ placement.Explainer = (*evaluator)(nil)

// WhyNot implements placement.Explainer. It returns, by cluster, why the rule of spec.rules that decides the object does not choose the
// cluster; nil for a policy without rules, if no rule for clusters decides, if no evaluation slot is free, and after an error.
func (p *evaluator) WhyNot(ctx context.Context, input map[string]any, clusters []string) map[string]string {
	namespace := placement.NamespaceOf(ctx)
	if !p.module.FromRules() || !p.engine.slots.tryAcquire(p.name, namespace) {
		return nil
	}
	defer p.engine.slots.release(p.name, namespace)
	inspection, err := p.Inspect(input)
	if err != nil {
		return nil
	}
	rule, ok := inspection.DecidingRule(ctx)
	if !ok {
		return nil
	}
	names := make([]*ast.Term, len(clusters))
	for i, name := range clusters {
		names[i] = ast.StringTerm(name)
	}
	body, err := ast.ParseBodyWithOpts(fmt.Sprintf("known := {name | some name in %[1]s; data.clusters[name]}; lacks := {name: text | some "+
		"name in %[1]s; text := %[2]s}",
		ast.SetTerm(names...), rules.Lacking(rule)), ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		return nil
	}
	// The Rego of a rule that does not select clusters says nothing of them, so that there is an error.
	solution, ok, err := inspection.Solve(ctx, body, nil)
	if !ok || err != nil {
		return nil
	}
	return reasonsOf(clusters, solution)
}

// askedRules returns the Rego rules whose values an evaluation returns: those of the decision contract, and the one with the name of the
// rule of spec.rules that decides. The others depend on that one, so that asking for it last costs no further evaluation.
func askedRules(m *policy.Module) []string {
	if !m.FromRules() {
		return m.Rules
	}
	return append(slices.Clip(m.Rules), rules.Decides)
}

// decidingRule returns the name of the rule of spec.rules that decides, given the values of the asked rules; "" for none.
func decidingRule(m *policy.Module, values map[string]any) string {
	name, ok := values[rules.Decides].(string)
	if !ok || !m.FromRules() {
		return ""
	}
	return m.RuleName(name)
}

// DecidingRule returns the name of the rule of spec.rules that decides the input. ok is false if none does, the policy has no rules, or the
// evaluation fails.
func (i *Inspection) DecidingRule(ctx context.Context) (name string, ok bool) {
	solution, solved, err := i.Solve(ctx, ast.NewBody(ast.Equality.Expr(ast.VarTerm("rule"), ast.VarTerm(rules.Decides))), nil)
	name, ok = solution["rule"].(string)
	return name, ok && solved && err == nil
}

// reasonsOf returns the reason why each cluster is not chosen: that it is in no inventory, what it lacks or, if it lacks nothing,
// placement.ReasonNotChosen. The solution has the names that are in data.clusters (known), and what clusters lack (lacks).
func reasonsOf(clusters []string, solution map[string]any) map[string]string {
	known, _ := solution["known"].([]any)
	lacks, _ := solution["lacks"].(map[string]any)
	out := make(map[string]string, len(clusters))
	for _, name := range clusters {
		text, isText := lacks[name].(string)
		switch {
		case !slices.Contains(known, any(name)):
			out[name] = "in no inventory"
		case isText:
			out[name] = text
		default:
			out[name] = placement.ReasonNotChosen
		}
	}
	return out
}

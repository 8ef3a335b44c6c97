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

package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rules"
	"github.com/berth-dev/berth/internal/simulation"
)

// Reason is why a policy does not choose a candidate. Its Policy is empty if no policy is the cause, as when the developer requested other
// clusters.
type Reason struct {
	Policy string `json:"policy"`
	// Message is the reason in words, such as "chooses other clusters: the limit is 2"; empty if Expression is the reason.
	Message string `json:"message,omitempty"`
	Rule    string `json:"rule,omitempty"` // the Rego rule from which the reason comes, in spec.rego or in what spec.rules are compiled to
	Line    int    `json:"line,omitempty"` // the line of the reason in that Rego
	// Field is the field of the policy's rules that the line comes from, such as spec.rules[0].require[1]. It is empty for policies
	// without rules.
	Field string `json:"field,omitempty"`
	// Expression is the first expression of Rule that fails for the candidate. Those before it have a solution.
	Expression string `json:"expression,omitempty"`
	// Unmet says in words what the cluster lacks, such as "label pci-level is 1, must be at least 3"; empty unless Field is a requirement.
	Unmet string `json:"unmet,omitempty"`
	// Outranked reports whether the cluster is eligible, and the rule chooses only others, which come before it.
	Outranked bool `json:"outranked,omitempty"`
	// Values are the references and function calls in Expression, with what they read for the candidate.
	Values []Value `json:"values,omitempty"`
	// Demanded is the value of the object that Expression compares the cluster with; nil unless Field is a requirement with valueFrom.
	Demanded *Demanded `json:"demanded,omitempty"`
	// Because are the reasons why a rule or function fails that Expression uses.
	Because []Reason `json:"because,omitempty"`
}

// Value is a reference in an expression and its value.
type Value struct {
	Reference string `json:"reference"`
	// Value is nil if the reference is undefined.
	Value any `json:"value"`
}

// Demanded is the value with which a requirement with valueFrom compares clusters: that of a label or annotation of the object, or the
// requirement's default.
type Demanded struct {
	Source string `json:"source"` // the path in the object, such as metadata.labels[tier]
	Value  string `json:"value"`
	// Default reports whether the object does not have Source, so that Value is the default of the requirement.
	Default bool `json:"default,omitempty"`
}

// Limits of one search, so that it ends soon for any text.
const (
	maxDepth   = 4
	maxReasons = 8
)

// search finds the first expressions in the Rego of a policy that fail for a candidate. It serves one object.
type search struct {
	inspection *embedded.Inspection
	policy     string // the name of the policy
	compiled   *policy.Module
	module     *ast.Module    // the Rego of compiled as it is written, before the compiler changed it
	input      map[string]any // the object as its developer requested it, which is the whole document input of the Rego
	// rules has, by the name of each rule of module, all of its clauses but default ones.
	rules    map[string][]*ast.Rule
	spec     []placementv1.Rule // spec.rules of the version that decides the object; empty if it has none
	deciding string             // the name of the rule of spec that decides the object; "" if none does
	decided  bool               // whether decidingRule has set deciding
	order    []ranked           // the eligible clusters of that rule, best first; nil before ranking is called, and if the rule ranks none
	demands  []demand           // the values of the object with which requirements in spec compare clusters
	// renamed is the number of copies of Rego functions that rename has made so far. It is part of the names of the variables in a copy.
	renamed int
}

// demand is the value of the object that requirement i of the rule with a name compares clusters with, as valueFrom of the requirement
// gives it: read from the object, the default, or missing.
type demand struct {
	rules.Demand
	rule string
	i    int
}

// newSearch returns the search in a version of a policy for an object, input. module is the parsed text of the version.
func newSearch(inspection *embedded.Inspection, name string, version *simulation.Version, module *ast.Module,
	input map[string]any) *search {
	s := &search{inspection: inspection, policy: name, compiled: version.Module, spec: version.Spec.Rules, module: module, input: input,
		rules: map[string][]*ast.Rule{}}
	for _, rule := range module.Rules {
		if rule.Default {
			continue
		}
		name := string(rule.Head.Ref()[0].Value.(ast.Var))
		s.rules[name] = append(s.rules[name], rule)
	}
	for _, rule := range s.spec {
		for i := range rule.Require {
			if d, ok := rules.DemandOf(rule, i, input); ok {
				s.demands = append(s.demands, demand{d, rule.Name, i})
			}
		}
	}
	return s
}

// notIn returns why the value of a rule, a set or an array, does not contain the candidate: a reason for each clause and each of its else
// branches, but at most maxReasons. It returns nil if one of them contains the candidate.
func (s *search) notIn(ctx context.Context, name, candidate string, depth int) []Reason {
	var out []Reason
	for _, rule := range s.rules[name] {
		for r := rule; r != nil; r = r.Else {
			reason, contains := s.clauseLacks(ctx, r, name, candidate, depth)
			if contains {
				return nil
			}
			if reason != nil && len(out) < maxReasons {
				out = append(out, *reason)
			}
		}
	}
	return out
}

// clauseLacks returns why the value of one clause of a rule does not contain the candidate; contains is true if it does.
func (s *search) clauseLacks(ctx context.Context, rule *ast.Rule, name, candidate string, depth int) (reason *Reason, contains bool) {
	if rule.Head.Key != nil {
		return s.firstFailure(ctx, name, nil, isCandidate(candidate, rule.Head.Key), rule.Body, depth)
	}
	if reason, _ := s.firstFailure(ctx, name, nil, nil, rule.Body, depth); reason != nil {
		return reason, false
	}
	return s.termLacks(ctx, rule, name, rule.Body, rule.Head.Value, candidate, depth)
}

// termLacks returns why the value of a term does not contain the candidate; contains is true if it does. The term is evaluated after the
// expressions in before, which have a solution.
func (s *search) termLacks(ctx context.Context, rule *ast.Rule, name string, before ast.Body, term *ast.Term, candidate string,
	depth int) (reason *Reason, contains bool) {
	member := ast.Member.Expr(ast.StringTerm(candidate), term)
	if _, ok, err := s.inspection.Solve(ctx, append(slices.Clone(before), member), s.module.Imports); ok || err != nil {
		return nil, ok
	}
	whole := s.reasonAt(name, term.Location, rule.Location)
	whole.Message = textOf(term.Location) + " does not contain the cluster"
	if depth >= maxDepth {
		return whole, false
	}
	switch value := term.Value.(type) {
	case *ast.SetComprehension:
		return s.firstFailure(ctx, name, before, isCandidate(candidate, value.Term), value.Body, depth)
	case *ast.ArrayComprehension:
		return s.firstFailure(ctx, name, before, isCandidate(candidate, value.Term), value.Body, depth)
	case ast.Var:
		if _, isRule := s.rules[string(value)]; isRule {
			whole.Because = s.notIn(ctx, string(value), candidate, depth+1)
			return whole, false
		}
		if assigned := assignedTo(before, value); assigned != nil {
			return s.termLacks(ctx, rule, name, before, assigned, candidate, depth+1)
		}
	case ast.Call:
		return s.operationLacks(ctx, rule, name, before, value, whole, candidate, depth)
	}
	return whole, false
}

// operationLacks returns why the result of a call of an operator on sets does not contain the candidate, after termLacks has found that it
// does not. For an intersection or a union, the reason is whole, with Because set to the reasons of all operands that lack the candidate.
// For a difference, it is that the subtracted set contains the candidate, or else why the other set lacks it. For any other call, it is
// whole.
func (s *search) operationLacks(ctx context.Context, rule *ast.Rule, name string, before ast.Body, call ast.Call,
	whole *Reason, candidate string,
	depth int) (*Reason, bool) {
	if len(call) != 3 {
		return whole, false
	}
	operator := call[0].Value.String()
	left, right := call[1], call[2]
	if operator == ast.Minus.Name {
		member := ast.Member.Expr(ast.StringTerm(candidate), right)
		if _, excluded, _ := s.inspection.Solve(ctx, append(slices.Clone(before), member), s.module.Imports); excluded {
			whole.Message = textOf(right.Location) + " contains the cluster, and is subtracted"
			return whole, false
		}
		return s.termLacks(ctx, rule, name, before, left, candidate, depth+1)
	}
	if operator != ast.And.Name && operator != ast.Or.Name {
		return whole, false
	}
	for _, side := range []*ast.Term{left, right} {
		if reason, contains := s.termLacks(ctx, rule, name, before, side, candidate, depth+1); !contains && reason != nil {
			whole.Because = append(whole.Because, *reason)
		}
	}
	return whole, false
}

// firstFailure returns the reason why a body fails: its first expression that has no solution together with those before it. holds is true
// if the whole body has a solution. before are expressions that have a solution, and also are conditions on the variables. An expression
// that is only safe together with later ones is tried with those.
func (s *search) firstFailure(ctx context.Context, rule string, before ast.Body, also []*ast.Expr, body ast.Body,
	depth int) (reason *Reason, holds bool) {
	solved, pending := slices.Clone(before), ast.Body(nil)
	var solution map[string]any
	for _, e := range body {
		pending = append(pending, e)
		// The conditions come last, because a declaration by "some" must not follow a use of its variables.
		next, ok, err := s.inspection.Solve(ctx, slices.Concat(solved, pending, also), s.module.Imports)
		if err != nil {
			continue
		}
		if ok {
			solved, pending, solution = append(solved, pending...), nil, next
			continue
		}
		failed := e
		if i, others := s.culprit(ctx, solved, pending, also); i >= 0 {
			failed, solution = pending[i], others
		}
		return s.failure(ctx, rule, slices.Concat(solved, also), failed, solution, depth), false
	}
	return nil, len(pending) == 0
}

// culprit returns the index of the last expression in pending without which the others have a solution, and that solution. The index is -1
// if there is none.
func (s *search) culprit(ctx context.Context, solved, pending ast.Body, also []*ast.Expr) (index int, solution map[string]any) {
	for i := range slices.Backward(pending) {
		others := slices.Concat(solved, pending[:i], pending[i+1:], also)
		if len(others) == 0 {
			continue
		}
		if next, ok, err := s.inspection.Solve(ctx, others, s.module.Imports); ok && err == nil {
			return i, next
		}
	}
	return -1, nil
}

// failure returns the reason for an expression that fails after others, solved, that have a solution: its text, the values that it reads,
// and, below maxDepth and unless it is negated, why rules or functions that it uses fail. With the keyword with, it has only the text.
func (s *search) failure(ctx context.Context, rule string, solved ast.Body, e *ast.Expr, solution map[string]any, depth int) *Reason {
	out := s.reasonAt(rule, e.Location, e.Location)
	out.Expression = s.written(e.Location)
	if len(e.With) > 0 {
		// The expression sees another input or other data than the rest of the policy.
		return out
	}
	out.Values = s.valuesIn(ctx, solved, e, solution)
	if depth < maxDepth && !e.Negated {
		out.Because = s.causes(ctx, solved, e, solution, depth+1)
	}
	return out
}

// causes returns why a rule or function that an expression uses fails.
func (s *search) causes(ctx context.Context, solved ast.Body, e *ast.Expr, solution map[string]any, depth int) []Reason {
	switch terms := e.Terms.(type) {
	case *ast.SomeDecl:
		call, ok := terms.Symbols[0].Value.(ast.Call)
		if !ok || len(call) != 3 {
			return nil
		}
		if name, ok := call[2].Value.(ast.Var); ok {
			return s.ruleFails(ctx, string(name), call[1], solution, depth)
		}
	case *ast.Term:
		name, key := "", (*ast.Term)(nil)
		switch value := terms.Value.(type) {
		case ast.Var:
			name = string(value)
		case ast.Ref:
			if head, ok := value[0].Value.(ast.Var); ok && len(value) == 2 {
				name, key = string(head), value[1]
			}
		}
		return s.ruleFails(ctx, name, key, solution, depth)
	case []*ast.Term:
		if !e.IsCall() {
			return nil
		}
		operator := e.Operator().String()
		if operator == ast.Member.Name && len(terms) == 3 {
			if name, ok := terms[2].Value.(ast.Var); ok {
				return s.ruleFails(ctx, string(name), terms[1], solution, depth)
			}
		}
		return s.functionFails(ctx, operator, terms[1:], solved, depth)
	}
	return nil
}

// ruleFails returns why the rule with a name is undefined or, if key is not nil, why its value does not contain the key; none if no rule of
// the policy has the name.
func (s *search) ruleFails(ctx context.Context, name string, key *ast.Term, solution map[string]any, depth int) []Reason {
	if key != nil {
		if text, ok := textValue(key, solution); ok {
			return s.notIn(ctx, name, text, depth)
		}
		return nil
	}
	var out []Reason
	for _, rule := range s.rules[name] {
		if reason, _ := s.firstFailure(ctx, name, nil, nil, rule.Body, depth); reason != nil && len(out) < maxReasons {
			out = append(out, *reason)
		}
	}
	return out
}

// functionFails returns why a function of the policy is undefined for the operands: a reason for each definition with as many parameters,
// but at most maxReasons; none for a builtin function.
func (s *search) functionFails(ctx context.Context, name string, operands []*ast.Term, solved ast.Body, depth int) []Reason {
	var out []Reason
	for _, rule := range s.rules[name] {
		if len(rule.Head.Args) != len(operands) || len(out) >= maxReasons {
			continue
		}
		own := s.rename(rule)
		var arguments []*ast.Expr
		for i, argument := range own.Head.Args {
			arguments = append(arguments, ast.Equality.Expr(argument, operands[i]))
		}
		if reason, _ := s.firstFailure(ctx, name, solved, arguments, own.Body, depth); reason != nil {
			out = append(out, *reason)
		}
	}
	return out
}

// rename returns a copy of a function whose variables have names that nothing else has.
func (s *search) rename(rule *ast.Rule) *ast.Rule {
	s.renamed++
	prefix := fmt.Sprintf("berth%d_", s.renamed)
	imported := map[ast.Var]bool{}
	for _, i := range s.module.Imports {
		imported[i.Name()] = true
	}
	renamed, err := ast.TransformVars(rule.Copy(), func(v ast.Var) (ast.Value, error) {
		if _, isRule := s.rules[string(v)]; isRule || imported[v] || v.Equal(ast.DefaultRootDocument.Value) ||
			v.Equal(ast.InputRootDocument.Value) ||
			v.IsWildcard() || isBuiltin(v) {
			return v, nil
		}
		return ast.Var(prefix + string(v)), nil
	})
	if out, ok := renamed.(*ast.Rule); ok && err == nil {
		return out
	}
	return rule
}

// isBuiltin reports whether a name is, or begins, the name of a builtin function.
func isBuiltin(v ast.Var) bool {
	for name := range ast.BuiltinMap {
		if head, _, _ := strings.Cut(name, "."); head == string(v) {
			return true
		}
	}
	return false
}

// notChosen returns why the policy does not choose a cluster for the object. For a policy with spec.rules, the reasons are what the cluster
// lacks for earlier rules that left the object to the next rule, and then what it lacks for the rule that decides the object or, if it
// lacks nothing, that this rule chooses other clusters. There are none if no rule decides.
func (s *search) notChosen(ctx context.Context, candidate string) []Reason {
	if !s.compiled.FromRules() {
		return s.notIn(ctx, "clusters", candidate, 0)
	}
	deciding, ok := s.decidingRule(ctx)
	if !ok {
		return nil
	}
	var out []Reason
	for _, rule := range s.spec {
		if rule.Name == deciding.Name {
			break
		}
		if rule.Otherwise == placementv1.RuleOtherwiseNextRule && s.applies(ctx, rule.Name) {
			out = append(out, s.ineligible(ctx, rule, candidate)...)
		}
	}
	if reasons := s.ineligible(ctx, deciding, candidate); len(reasons) > 0 {
		return append(out, reasons...)
	}
	chosen := s.rules[rules.Chosen(deciding.Name)]
	if len(chosen) == 0 {
		return out
	}
	last := s.reasonAt(rules.Chosen(deciding.Name), chosen[0].Location, nil)
	switch {
	case !s.holds(ctx, "some _ in "+rules.Chosen(deciding.Name)):
		last.Message = "chooses no cluster: this one is eligible, but too few clusters are"
	case deciding.Limit > 0:
		last.Outranked, last.Message = true, fmt.Sprintf("chooses other clusters: the limit is %d", deciding.Limit)
	default:
		last.Outranked, last.Message = true, "chooses other clusters"
	}
	return append(out, *last)
}

// ineligible returns why a cluster is not eligible for a rule of spec.rules: the first thing that it lacks, in the order that docs/rules.md
// gives for denials. There are no reasons if the cluster is eligible, or the rule gives no clusters.
func (s *search) ineligible(ctx context.Context, rule placementv1.Rule, cluster string) []Reason {
	body := s.conditions(rule)
	if len(body) == 0 {
		return nil
	}
	reason, _ := s.firstFailure(ctx, rules.Eligible(rule.Name), nil, isCandidate(cluster, ast.VarTerm("name")), body, 0)
	if reason == nil {
		return nil
	}
	return s.innermost(ctx, rule, cluster, []Reason{*reason})
}

// conditions returns the expressions that are true for an eligible cluster: first the one that iterates over all clusters, then the others
// in the order of priority. The module has them in two Rego rules, because some do not depend on the object.
func (s *search) conditions(rule placementv1.Rule) ast.Body {
	var out, rest ast.Body
	for _, name := range slices.Compact([]string{rules.Suitable(rule), rules.Eligible(rule.Name)}) {
		for _, clause := range s.rules[name] {
			for _, e := range clause.Body {
				switch iteration, iterates := e.Terms.(*ast.SomeDecl); {
				case iterates && isKeyAndValue(iteration):
					out = append(out, e)
				case iterates || e.IsAssignment():
					// It only joins the two Rego rules.
				default:
					rest = append(rest, e)
				}
			}
		}
	}
	slices.SortStableFunc(rest, func(a, b *ast.Expr) int { return s.priority(rule, a) - s.priority(rule, b) })
	return append(out, rest...)
}

// isKeyAndValue reports whether a declaration is of the form "some key, value in collection".
func isKeyAndValue(d *ast.SomeDecl) bool {
	call, ok := d.Symbols[0].Value.(ast.Call)
	return ok && len(call) == 4
}

// priority returns a number by which the expressions that are true for an eligible cluster are sorted: that the cluster is not being
// deleted comes first, then the requirements in their order, then taints, then the value of spread. Of a requirement that reads a value of
// the object, the first expression says that the object has the value.
func (s *search) priority(rule placementv1.Rule, e *ast.Expr) int {
	text, at := textOf(e.Location), s.compiled.Field(e.Location.Row)
	if text == rules.NotTerminating {
		return 0
	}
	if d := s.demandNamed(rule, text); d != nil {
		return 2*d.i + 1
	}
	last := 2*len(rule.Require) + 1
	switch i := requirementAt(rule, at); {
	case i >= 0:
		return 2*i + 2
	case strings.HasSuffix(at, ".tolerate"):
		return last
	default:
		return last + 1
	}
}

// demandNamed returns the demand of a requirement of a rule whose value an expression of the module names; nil for any other expression.
func (s *search) demandNamed(rule placementv1.Rule, expression string) *demand {
	i := slices.IndexFunc(s.demands, func(d demand) bool { return d.rule == rule.Name && d.Names(expression) })
	if i < 0 {
		return nil
	}
	return &s.demands[i]
}

// requirementAt returns the index in rule.Require of the requirement whose path is at, such as spec.rules[0].require[1]; -1 for any other
// path, also for that of a field of a requirement, such as spec.rules[0].require[1].valueFrom. It does not check to which rule the path
// belongs.
func requirementAt(rule placementv1.Rule, at string) int {
	for i := range rule.Require {
		if strings.HasSuffix(at, fmt.Sprintf("].require[%d]", i)) {
			return i
		}
	}
	return -1
}

// decidingRule returns the rule of spec.rules that decides the object. ok is false if none does.
func (s *search) decidingRule(ctx context.Context) (rule placementv1.Rule, ok bool) {
	if !s.decided {
		s.deciding, _ = s.inspection.DecidingRule(ctx)
		s.decided = true
	}
	i := slices.IndexFunc(s.spec, func(r placementv1.Rule) bool { return r.Name == s.deciding })
	if i < 0 {
		return placementv1.Rule{}, false
	}
	return s.spec[i], true
}

// applies reports whether a rule of spec.rules applies to the object.
func (s *search) applies(ctx context.Context, rule string) bool {
	return s.appliesToAll(rule) || s.holds(ctx, rules.Applies(rule))
}

// appliesToAll reports whether a rule of spec.rules applies to all objects.
func (s *search) appliesToAll(rule string) bool { return len(s.rules[rules.Applies(rule)]) == 0 }

// holds reports whether an expression of the module is true for the object.
func (s *search) holds(ctx context.Context, expression string) bool {
	body, err := ast.ParseBodyWithOpts(expression, ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		return false
	}
	_, ok, err := s.inspection.Solve(ctx, body, s.module.Imports)
	return ok && err == nil
}

// laterRules returns the names of the rules that come after the one that decides the object, and apply to the object, too. It leaves out
// rules that apply to all objects, which are meant for the rest.
func (s *search) laterRules(ctx context.Context) (out []string) {
	deciding, ok := s.decidingRule(ctx)
	if !ok {
		return nil
	}
	at := slices.IndexFunc(s.spec, func(r placementv1.Rule) bool { return r.Name == deciding.Name })
	for _, rule := range s.spec[at+1:] {
		if !s.appliesToAll(rule.Name) && s.applies(ctx, rule.Name) {
			out = append(out, rule.Name)
		}
	}
	return out
}

// choosesClusters reports whether the rule of spec.rules that decides the object is for clusters, or the policy's Rego has a rule clusters.
func (s *search) choosesClusters(ctx context.Context) bool {
	if !s.compiled.FromRules() {
		return len(s.rules["clusters"]) > 0
	}
	rule, ok := s.decidingRule(ctx)
	return ok && len(s.rules[rules.Eligible(rule.Name)]) > 0
}

// ranked is an eligible cluster with its score, its level, and its preferences, as in Rank; its rank and the rule are those of the list
// that it is in.
type ranked struct {
	Name         string
	Score, Level int
	Preferences  []Preference
}

// ranking returns the name of the rule that decides the object, and its eligible clusters, best first. There are none if the rule has no
// limit, spread, or weights, or the policy has no rules.
func (s *search) ranking(ctx context.Context) (name string, best []ranked) {
	rule, ok := s.decidingRule(ctx)
	if !ok {
		return "", nil
	}
	expression, chooses := rules.Ranking(rule)
	if !chooses || s.order != nil {
		return rule.Name, s.order
	}
	s.order = []ranked{}
	body, err := ast.ParseBodyWithOpts("ranking := "+expression, ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		return rule.Name, nil
	}
	solution, _, err := s.inspection.Solve(ctx, body, s.module.Imports)
	if err != nil {
		return rule.Name, nil
	}
	list, _ := solution["ranking"].([]any)
	for _, one := range list {
		member, _ := one.(map[string]any)
		name, _ := member["name"].(string)
		s.order = append(s.order, ranked{name, number(member["score"]), number(member["level"]), preferencesOf(rule, member["preferences"])})
	}
	return rule.Name, s.order
}

// preferencesOf returns what a cluster has and scores for each preference of a rule. of is the member preferences of rules.Ranking.
func preferencesOf(rule placementv1.Rule, of any) []Preference {
	list, _ := of.([]any)
	var out []Preference
	for i, one := range list[:min(len(list), len(rule.Prefer))] {
		member, _ := one.(map[string]any)
		p := Preference{
			Subject: rules.Compared{Requirement: rule.Prefer[i].Requirement}.Noun(),
			Score:   number(member["gain"]), Weight: int(rule.Prefer[i].Weight),
		}
		if values, _ := member["values"].([]any); len(values) == 1 {
			p.Value = valueText(values[0])
		}
		out = append(out, p)
	}
	return out
}

// valueText returns the text of a value of a cluster, a string, number, or boolean; of a list, such as zones, the texts joined by commas.
// It is nil for null, an object, and a list without such values, which count as missing, and points to "" for an empty string.
func valueText(value any) *string {
	switch v := value.(type) {
	case string:
		return &v
	case bool, json.Number:
		return new(fmt.Sprint(v))
	case []any:
		var texts []string
		for _, one := range v {
			if text := valueText(one); text != nil {
				texts = append(texts, *text)
			}
		}
		if len(texts) > 0 {
			return new(strings.Join(texts, ", "))
		}
	}
	return nil
}

// number returns the integer that value, a json.Number, stands for; 0 for a fraction and for any value of another Go type.
func number(value any) int {
	n, _ := value.(json.Number)
	out, _ := n.Int64()
	return int(out)
}

// innermost returns the innermost of the reasons why a rule of spec.rules does not find a cluster eligible: those that follow from no
// other, in the words of spec.rules, because an author of rules does not know the Rego that Berth has written.
func (s *search) innermost(ctx context.Context, rule placementv1.Rule, cluster string, reasons []Reason) []Reason {
	var out []Reason
	for _, r := range reasons {
		inner := s.innermost(ctx, rule, cluster, r.Because)
		if r.Because = nil; len(inner) > 0 && !slices.ContainsFunc(inner, isHelper) {
			out = append(out, inner...)
			continue
		}
		switch {
		case strings.HasSuffix(r.Field, ".tolerate"):
			r.Expression, r.Values, r.Message = "", nil, fmt.Sprintf("does not tolerate the taint %s of the cluster",
				s.repelling(ctx, rule, cluster))
		case s.demandNamed(rule, r.Expression) != nil:
			d := s.demandNamed(rule, r.Expression)
			r.Field, r.Message = s.compiled.Field(s.rules[r.Expression][0].Location.Row), d.Unusable()
			r.Expression, r.Values = "", nil
		case r.Expression == rules.NotTerminating:
			r.Expression, r.Values, r.Message = "", nil, "chooses no cluster that is being deleted"
		case strings.HasPrefix(r.Expression, "some name, cluster in "):
			r.Expression, r.Values, r.Message = "", nil, "no inventory that the policy reads has the cluster, which another policy reads or names"
		default:
			s.describeRequirement(rule, &r)
		}
		out = append(out, r)
	}
	return out
}

// describeRequirement sets, in a reason whose field is a requirement of the rule, Unmet to words for what the cluster lacks and, for a
// requirement with valueFrom, Demanded to the value of the object that it compares with. It leaves other reasons as they are.
func (s *search) describeRequirement(rule placementv1.Rule, r *Reason) {
	i := requirementAt(rule, r.Field)
	if i < 0 {
		return
	}
	r.Unmet = s.unmet(rule.Require[i], r.Values)
	for _, d := range s.demands {
		if d.rule == rule.Name && d.i == i {
			r.Demanded = &Demanded{d.Source, d.Value, d.IsDefault}
		}
	}
}

// unmet returns why a cluster does not meet a requirement: the reason that the rule gives or, without one, what the requirement demands; in
// both cases with what the cluster has, if values is not empty. values are those that the requirement reads of the cluster. If the object
// lacks the value to compare with, it returns only the reason that the rule gives, which may be "".
func (s *search) unmet(q placementv1.Requirement, values []Value) string {
	must := rules.Must(q, s.input)
	if must == "" {
		return q.Reason
	}
	noun := rules.Noun(q.Subject)
	has := ""
	if len(values) > 0 {
		has = noun + " is missing"
		if text := valueText(values[0].Value); text != nil {
			has = noun + " is " + *text
		}
	}
	switch {
	case q.Reason != "" && has != "":
		return fmt.Sprintf("%s (%s)", q.Reason, has)
	case q.Reason != "":
		return q.Reason
	case has == "":
		return noun + " " + must
	}
	return has + ", " + must
}

// isHelper reports whether a reason is in a function that Berth has written for several rules, so that it comes from no field of one.
func isHelper(r Reason) bool { return r.Field == "spec.rules" }

// repelling returns the taint of a cluster that a rule does not tolerate, in the form key=value:effect: of several, the one that comes
// first by key, effect, and value; "" if there is none.
func (s *search) repelling(ctx context.Context, rule placementv1.Rule, cluster string) string {
	taints, _ := s.inspection.Lookup(ctx, []string{"clusters", cluster, "taints"}).([]any)
	var out [][3]string
	for _, item := range taints {
		taint, _ := item.(map[string]any)
		text := func(field string) string { s, _ := taint[field].(string); return s }
		if rules.Repels(rule, text("key"), text("value"), text("effect")) {
			out = append(out, [3]string{text("key"), text("effect"), text("value")})
		}
	}
	if len(out) == 0 {
		return ""
	}
	first := slices.MinFunc(out, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	key, effect, value := first[0], first[1], first[2]
	return strings.TrimSuffix(strings.TrimSuffix(key+"="+value, "=")+":"+effect, ":")
}

// reasonAt returns a reason in a Rego rule at a location, or at otherwise if the location is nil, without saying what fails there.
func (s *search) reasonAt(rule string, at, otherwise *ast.Location) *Reason {
	if at == nil {
		at = otherwise
	}
	out := &Reason{Policy: s.policy, Rule: rule}
	if at != nil {
		out.Line, out.Field = at.Row, s.compiled.Field(at.Row)
	}
	return out
}

// isCandidate returns the condition, as an expression of Rego, that a term is the candidate.
func isCandidate(candidate string, t *ast.Term) []*ast.Expr {
	return []*ast.Expr{ast.Equality.Expr(ast.StringTerm(candidate), t)}
}

// assignedTo returns the term that the first expression of the form "v := term" in a body assigns to v; nil if there is none.
func assignedTo(body ast.Body, v ast.Var) *ast.Term {
	for _, e := range body {
		if e.IsAssignment() && e.Operand(0).Value.Compare(v) == 0 {
			return e.Operand(1)
		}
	}
	return nil
}

// maxText is the maximum number of bytes of an expression that messages show.
const maxText = 160

// textOf returns the text at a location in one line, shortened to maxText; "" for nil.
func textOf(l *ast.Location) string { return shortened(lineOf(l)) }

// lineOf returns the text at a location in one line; "" for nil.
func lineOf(l *ast.Location) string {
	if l == nil {
		return ""
	}
	return strings.Join(strings.Fields(string(l.Text)), " ")
}

// shortened returns the text or, if it is longer than maxText, its first maxText bytes, without a cut character at the end, and "...".
func shortened(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

// written returns the text of an expression at a location in one line, with the values of the object in place of the Rego rules in which
// the module has them. An expression that is only the name of a Rego rule stays.
func (s *search) written(l *ast.Location) string {
	text := lineOf(l)
	if _, isRule := s.rules[text]; !isRule {
		for _, d := range s.demands {
			if !d.IsMissing {
				text = d.In(text)
			}
		}
	}
	return shortened(text)
}

// textValue returns the string that a term is, or that its variable has in a solution; false if it is no string.
func textValue(t *ast.Term, solution map[string]any) (string, bool) {
	switch value := t.Value.(type) {
	case ast.String:
		return string(value), true
	case ast.Var:
		text, ok := solution[string(value)].(string)
		return text, ok
	}
	return "", false
}

// valuesIn returns the values of the references, variables, and function calls in an expression, in the order of the text, each once. The
// value of a reference that is undefined is nil. What can't be evaluated is left out. solved are the expressions before it, of which
// solution is a solution.
func (s *search) valuesIn(ctx context.Context, solved ast.Body, e *ast.Expr, solution map[string]any) []Value {
	var out []Value
	add := func(t *ast.Term, value any) {
		reference := readable(t)
		if !slices.ContainsFunc(out, func(v Value) bool { return v.Reference == reference }) {
			out = append(out, Value{reference, value})
		}
	}
	ast.WalkTerms(e, func(t *ast.Term) bool {
		switch value := t.Value.(type) {
		case *ast.SetComprehension, *ast.ArrayComprehension, *ast.ObjectComprehension:
			return true
		case ast.Call:
			if _, own := s.rules[value[0].String()]; own {
				// The references in a call without a value say why it has none.
				found, ok := s.evaluate(ctx, solved, t)
				if ok {
					add(t, found)
				}
				return ok
			}
		case ast.Var:
			if found, ok := solution[string(value)]; ok && isScalar(found) && t.Location != nil && !value.IsWildcard() {
				add(t, found)
			}
		case ast.Ref:
			found, known := s.valueOf(ctx, value, solution)
			if _, isRule := s.rules[value[0].String()]; isRule && !known && len(value) > 1 {
				found, known = s.evaluate(ctx, solved, t)
			}
			if known {
				add(t, found)
			}
			return true
		}
		return false
	})
	return out
}

// evaluate returns the value of a term after the expressions in solved; ok is false if it has none, or one that is not a scalar.
func (s *search) evaluate(ctx context.Context, solved ast.Body, t *ast.Term) (value any, ok bool) {
	const name = "berth_value"
	solution, ok, err := s.inspection.Solve(ctx, append(slices.Clone(solved), ast.Equality.Expr(ast.VarTerm(name), t)), s.module.Imports)
	if err != nil || !ok || !isScalar(solution[name]) {
		return nil, false
	}
	return solution[name], true
}

// readable returns the source text of a term, in one line and shortened to maxText. Prefixes that rename has added to variables are not in
// it. A term without source text is printed as OPA prints it.
func readable(t *ast.Term) string {
	if t.Location != nil && len(t.Location.Text) > 0 {
		return textOf(t.Location)
	}
	return t.String()
}

// valueOf returns the value of a reference to the input, the data, or a variable; nil if it is undefined. known is false for other
// references, and for those with a key whose value is not known.
func (s *search) valueOf(ctx context.Context, ref ast.Ref, solution map[string]any) (value any, known bool) {
	path := make([]string, 0, len(ref))
	for _, key := range ref[1:] {
		text, ok := textValue(key, solution)
		if number, isNumber := key.Value.(ast.Number); isNumber {
			text, ok = number.String(), true
		}
		if !ok {
			return nil, false
		}
		path = append(path, text)
	}
	head, _ := ref[0].Value.(ast.Var)
	for _, i := range s.module.Imports {
		if imported, ok := i.Path.Value.(ast.Ref); ok && i.Name() == head && len(imported) > 1 {
			return s.valueOf(ctx, imported.Concat(ref[1:]), solution)
		}
	}
	switch {
	case ref[0].Equal(ast.InputRootDocument):
		return lookup(s.input, path), true
	case ref[0].Equal(ast.DefaultRootDocument):
		return s.inspection.Lookup(ctx, path), true
	}
	from, known := solution[string(head)]
	if !known {
		return nil, false
	}
	return lookup(from, path), true
}

// lookup returns the value at a path below a decoded JSON value. Each element of the path is the name of a member of an object, or the
// index of an item of a list. It is nil if there is no such value; an empty path gives the value itself.
func lookup(value any, path []string) any {
	for _, name := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[name]
		case []any:
			var index int
			if _, err := fmt.Sscanf(name, "%d", &index); err != nil || index < 0 || index >= len(at) {
				return nil
			}
			value = at[index]
		default:
			return nil
		}
	}
	return value
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

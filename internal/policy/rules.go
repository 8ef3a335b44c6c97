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
	"regexp"
	"slices"
	"strconv"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/rules"
)

// render sets spec.rego and its language version, in the spec itself, to the Rego that the rules of the spec are compiled to. The rules
// stay. It returns the rendered module and warnings; nil if the spec has no rules. An error is a *CompileError.
func render(spec *placementv1.PlacementPolicySpec) (*rules.Module, []string, error) {
	if len(spec.Rules) == 0 {
		return nil, nil, nil
	}
	m, warnings, errs := rules.Render(spec.Rules)
	var wrong []Diagnostic
	for _, e := range errs {
		wrong = append(wrong, Diagnostic{Field: e.Field, Message: e.ErrorBody(), rule: e})
	}
	if err := errorOf(wrong); err != nil {
		return nil, nil, err
	}
	spec.Rego, spec.RegoVersion = m.Text, placementv1.RegoV1
	return &m, append(warnings, rules.Unmatched(spec.Rules, spec.Match)...), nil
}

// expressions returns the compiled CEL expressions of the rules that have one. rules.Render has checked them.
func expressions(list []placementv1.Rule) []*celexpression.Program {
	var out []*celexpression.Program
	for _, rule := range list {
		if rule.When == nil || rule.When.Expression == "" {
			continue
		}
		if program, err := celexpression.Compile(rule.When.Expression); err == nil {
			out = append(out, program)
		}
	}
	return out
}

// FromRules reports whether the policy has spec.rules, from which Berth generated Text.
func (m *Module) FromRules() bool { return m.rendered != nil }

// RuleName returns the name of a rule in spec.rules: the string in the spec, which all decisions share. It returns "" if there is no such
// rule.
func (m *Module) RuleName(name string) string {
	for i := range m.rules {
		if m.rules[i].Name == name {
			return m.rules[i].Name
		}
	}
	return ""
}

// InputWithoutChoice returns the fields of `input` that decisions depend on apart from the choice among the eligible clusters, which
// depends on the path of the object (rules.ObjectPath). It returns nil if more than the clusters of a decision depends on which are chosen,
// if no rule chooses by limit or spread, or if predicates check its decisions.
func (m *Module) InputWithoutChoice() *projection.FieldSet {
	if m.rendered == nil || !m.rendered.ChoosesLast || m.Candidates != "" {
		return nil
	}
	return m.InputWithoutPath
}

// Field returns the field of the policy's rules from which a line of Text comes, such as "spec.rules[0].require[1]". It returns
// "spec.rules" for a line that comes from no single field, and "" if the policy has no rules.
func (m *Module) Field(line int) string {
	if m.rendered == nil {
		return ""
	}
	return m.rendered.Field(line)
}

// RulesDigest returns the digest of the Rego that the policy's rules are compiled to. It returns "" if the policy has no rules.
func (m *Module) RulesDigest() string {
	if m.rendered == nil {
		return ""
	}
	return rules.Digest(m.Text)
}

// RulesComparison returns a policy that compares two versions of a policy's rules, which differ only in values that clusters are compared
// with. It reads no input. If it gives no warnings on some data, both versions decide the same on all objects with that data, apart from
// the texts of denials. RulesComparison returns nil if the versions do not differ, or differ in anything else, and if the comparison would
// be larger than a policy may be.
func RulesComparison(name string, before, after *Module) *Module {
	text, ok := rules.Comparison(before.rules, after.rules)
	if !ok {
		return nil
	}
	// An error means that the comparison is larger than a policy may be.
	m, err := Compile(name, placementv1.PlacementPolicySpec{Rego: text, RegoVersion: placementv1.RegoV1})
	if err != nil {
		return nil
	}
	return m
}

// withRuleFields returns an error with the fields of spec.rules in place of the positions in the Rego that these are compiled to.
// Diagnostics that have a field keep it. If m is nil, because the policy has no rules, or err is no *CompileError, it returns err.
func withRuleFields(m *rules.Module, err error) error {
	list, ok := errors.AsType[*CompileError](err)
	if m == nil || !ok {
		return err
	}
	out := &CompileError{Diagnostics: slices.Clone(list.Diagnostics)}
	for i := range out.Diagnostics {
		if d := &out.Diagnostics[i]; d.Field == "" {
			d.Field, d.File, d.Row, d.Col = m.Field(d.Row), "", 0, 0
			if d.Code == codeSize {
				d.Message = "the rules compile to too much Rego: divide them between several policies, which can match the same objects"
			}
		}
	}
	return out
}

// WithoutRepetition returns warnings with the fields of rules in place of positions (WithFields), and each warning once: one field is
// compiled to several parts of the Rego. name is the name of the policy. Warnings of a policy without rules are returned unchanged.
func (m *Module) WithoutRepetition(name string, warnings []string) []string {
	if m.rendered == nil {
		return warnings
	}
	seen := map[string]bool{}
	out := warnings[:0:0]
	for _, w := range warnings {
		if w = m.WithFields(name, w); !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// WithFields replaces the positions in a message that refer to the Rego of a policy's rules by the fields of the rules. The parameter name
// is the name of the policy. A message of a policy without rules is returned unchanged.
func (m *Module) WithFields(name, message string) string {
	if m.rendered == nil {
		return message
	}
	position := regexp.MustCompile(regexp.QuoteMeta(name+".rego:") + `([0-9]+)(:[0-9]+)?`)
	return position.ReplaceAllStringFunc(message, func(found string) string {
		line, err := strconv.Atoi(position.FindStringSubmatch(found)[1])
		if err != nil {
			return found
		}
		return m.rendered.Field(line)
	})
}

// tolerateUnready sets Tolerant if the rules give clusters. It then adds to Dependencies what lets existing objects stay in clusters that
// are not ready: the names of these clusters in the input, and the taints of all clusters.
func (m *Module) tolerateUnready() {
	if m.Tolerant = slices.Contains(m.Rules, language.RuleClusters); m.Tolerant {
		m.Dependencies = m.WithTolerated()
	}
}

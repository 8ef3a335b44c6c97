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

package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Package is the Rego package of rendered modules.
const Package = "rules"

// maxText limits the length of a module's text, in bytes before it is formatted, so that it compiles in the time of a request. 32 rules
// with as much as a rule may have, and keys of ordinary length, have less.
const maxText = 3 << 19

// Module is the Rego that rules are compiled to.
type Module struct {
	// Text is the formatted Rego.
	Text string
	// ChoosesLast reports whether only the clusters of a decision, and no other part of it, depend on which of the eligible clusters a rule
	// chooses.
	ChoosesLast bool
	// fields has, for each line of Text, the path of the field of spec.rules from which it comes; "" for lines that belong to no field.
	fields []string
}

// Field returns the path of the field from which a line of the text comes, such as "spec.rules[0].require[1]". Lines are numbered
// from 1. It returns "spec.rules" for lines that belong to no single field.
func (m Module) Field(line int) string {
	if line < 1 || line > len(m.fields) || m.fields[line-1] == "" {
		return "spec.rules"
	}
	return m.fields[line-1]
}

// Digest returns the digest of a module's text, as in status.moduleDigest: "sha256:" and the hash in hexadecimal.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Render compiles rules to a module. If there are errors, which have the field's path below spec.rules, there are neither module nor
// warnings. Warnings, with the field's path, name mistakes that do not keep the rules from being compiled.
func Render(rules []placementv1.Rule) (m Module, warnings []string, errs field.ErrorList) {
	path := field.NewPath("spec", "rules")
	if warnings, errs = validate(rules, path); len(errs) > 0 {
		return Module{}, nil, errs
	}
	g := &generator{helpers: map[string]bool{}}
	for i := range rules {
		g.rules = append(g.rules, newRuleText(g, path.Index(i), rules[i]))
	}
	text := g.module()
	if len(text) > maxText {
		return Module{}, nil, field.ErrorList{field.Forbidden(path, g.tooLong(len(text)))}
	}
	formatted, err := format.SourceWithOpts("rules.rego", []byte(text), format.Opts{RegoVersion: ast.RegoV1})
	if err != nil {
		// The generator quotes all texts of the user, so that this is a bug.
		return Module{}, nil, field.ErrorList{field.InternalError(path, fmt.Errorf("the Rego that Berth generated does not parse; report "+
			"this bug: %w", err))}
	}
	m = newModule(string(formatted))
	m.ChoosesLast = !g.readsChoice
	return m, warnings, nil
}

// tooLong returns the message about a module whose text has length bytes, which is too long. It has both sizes in KiB, names the longest
// rule, and suggests to move rules to another policy.
func (g *generator) tooLong(length int) string {
	const kib = 1 << 10
	longest := slices.MaxFunc(g.rules, func(a, b *ruleText) int { return cmp.Compare(a.text.Len(), b.text.Len()) })
	return fmt.Sprintf("the rules compile to %d KiB of Rego, and at most %d KiB are compiled in the time of a request. The longest one is "+
		"%s, with %d KiB. Move rules to another policy, or replace lists of values and tolerations by a label of the "+
		"clusters", length/kib, maxText/kib, longest.rule.Name, longest.text.Len()/kib)
}

// fieldComment matches the comments that say from which field the next lines come.
var fieldComment = regexp.MustCompile(`^\s*# (spec\.rules\[\d+\][^\s:]*)`)

// newModule returns the module with a formatted text. The field of a line is that of the last comment up to it that names one, also after a
// blank line. It is "" if an unindented comment that names none comes in between.
func newModule(text string) Module {
	m := Module{Text: text}
	at := ""
	for line := range strings.Lines(text) {
		if found := fieldComment.FindStringSubmatch(line); found != nil {
			at = found[1]
		} else if strings.HasPrefix(line, "# ") {
			at = ""
		}
		m.fields = append(m.fields, at)
	}
	return m
}

// generator collects the parts of a module.
type generator struct {
	rules []*ruleText // One for each rule, in their order.
	// helpers are the names of the shared Rego functions and rules that are used.
	helpers map[string]bool
	// readsChoice reports whether weights of clusters, or texts of labels, annotations, warnings, or denials, depend on which of the eligible
	// clusters a rule chooses.
	readsChoice bool
	// objectTexts are the placeholders of labels and annotations of the object that texts have, such as "label:tier", in the order of
	// their first use.
	objectTexts []string
}

// use marks a shared Rego function or rule as used, so that the module has it, and returns its name.
func (g *generator) use(name string) string {
	g.helpers[name] = true
	return name
}

// module returns the text of the module, which is not formatted.
func (g *generator) module() string {
	var out strings.Builder
	out.WriteString("# Generated by Berth from spec.rules. Change the rules, not this text.\npackage " + Package + "\n")
	out.WriteString(g.decides())
	for _, r := range g.rules {
		out.WriteString(r.text.String())
	}
	out.WriteString(g.sharedText())
	return out.String()
}

// decides returns the Rego rule decides, whose value is the name of the rule that decides the object: the first one that applies. A rule
// with otherwise: NextRule is passed over if it finds too few clusters, unless it can't read a value of the object. If no other rule
// applies, the last one that was passed over decides, and denies the object. The value is undefined if no rule applies.
func (g *generator) decides() string {
	var branches []string
	// final reports whether a branch has no conditions, so that no other one can follow.
	final := false
	branch := func(r *ruleText, conditions ...string) {
		switch {
		case final:
		case len(conditions) == 0:
			branches, final = append(branches, quote(r.rule.Name)), true
		default:
			branches = append(branches, fmt.Sprintf("%s if {\n%s\n}", quote(r.rule.Name), strings.Join(conditions, "\n")))
		}
	}
	for _, r := range g.rules {
		if r.rule.Otherwise != placementv1.RuleOtherwiseNextRule {
			branch(r, r.applies()...)
			continue
		}
		branch(r, append(r.applies(), r.finds())...)
		// A value that can't be read must not lead to another rule.
		if r.readsObject() {
			branch(r, append(r.applies(), r.unreadable())...)
		}
	}
	// An object that is left to the next rule is denied by the last one that found too few clusters if no other rule applies.
	for _, r := range slices.Backward(g.rules) {
		if r.rule.Otherwise == placementv1.RuleOtherwiseNextRule {
			branch(r, r.applies()...)
		}
	}
	return "\n# The rule that decides the object: the first one that applies.\ndecides := " + strings.Join(branches, " else := ") + "\n"
}

// list returns a Rego array with an item on each line, and with the field of each item.
func list(items []item) string { return listed("[", items, "]") }

// listed returns a Rego array or object between begin and end, with a comment about the field of each item. A single item has no comment,
// because the formatter can't place it: its field is that of the text around it.
func listed(begin string, items []item, end string) string {
	if len(items) == 1 {
		return begin + items[0].text + end
	}
	var out strings.Builder
	out.WriteString(begin + "\n")
	for _, i := range items {
		fmt.Fprintf(&out, "# %s\n%s,\n", i.path, i.text)
	}
	out.WriteString(end)
	return out.String()
}

// item is an item of an array or object, and the field that it comes from.
type item struct {
	path *field.Path // The field that it comes from; never nil.
	text string      // Its Rego.
}

// quote returns a text as a Rego string, which has the escapes of JSON.
func quote(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	// A text can be encoded, and writing to a Builder does not fail.
	_ = encoder.Encode(text)
	return strings.TrimSuffix(out.String(), "\n")
}

// set returns the Rego set of values, which are Rego terms, each once. There must be at least one: {} is an object.
func set(values []string) string {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	return "{" + strings.Join(values, ", ") + "}"
}

// quoted returns texts as Rego strings.
func quoted(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = quote(text)
	}
	return out
}

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
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// ruleText renders one rule of spec.rules as Rego.
type ruleText struct {
	*generator
	rule placementv1.Rule
	path *field.Path     // The path of the rule.
	text strings.Builder // The Rego of the rule.
}

// newRuleText renders all Rego of the rule at a path, and returns the ruleText that has it. It marks the shared functions it uses in g.
func newRuleText(g *generator, path *field.Path, rule placementv1.Rule) *ruleText {
	r := &ruleText{generator: g, rule: rule, path: path}
	r.renderWhen()
	switch {
	case rule.Candidates == placementv1.RuleCandidatesNodes:
		r.renderNodes()
	case GivesClusters(rule):
		r.renderClusters()
	}
	r.renderSettings()
	r.renderMessages()
	return r
}

// selects reports whether a rule has a field that selects clusters or nodes: require, tolerate, prefer, spread, or limit.
func selects(rule placementv1.Rule) bool {
	return len(rule.Require) > 0 || len(rule.Tolerate) > 0 || len(rule.Prefer) > 0 || rule.Spread != nil || rule.Limit > 0
}

// GivesClusters reports whether a rule decides clusters: it has require, tolerate, prefer, spread, or limit, and is not for nodes.
func GivesClusters(rule placementv1.Rule) bool {
	return rule.Candidates != placementv1.RuleCandidatesNodes && selects(rule)
}

// name returns the name of one of the Rego rules that belong to the rule, such as "eligible_NAME" for the part "eligible".
func (r *ruleText) name(what string) string { return nameOf(what, r.rule.Name) }

// nameOf returns the name of a Rego rule that belongs to the rule with a name, whose hyphens become underscores.
func nameOf(what, rule string) string { return what + "_" + strings.ReplaceAll(rule, "-", "_") }

// Names of Rego rules of rendered modules.
const (
	// Decides is the Rego rule with the name of the rule that decides the object.
	Decides        = "decides"
	partApplies    = "applies"
	partEligible   = "eligible"
	partSuitable   = "suitable"
	partChosen     = "chosen"
	partLacks      = "lacks"
	partUnreadable = "unreadable"
)

// Eligible returns the name of the Rego rule with the names of the clusters that are eligible for a rule.
func Eligible(rule string) string { return nameOf(partEligible, rule) }

// Suitable returns the name of the Rego rule with the names of the clusters that meet what does not depend on the object. It is the one of
// Eligible for a rule whose requirements read no value of the object.
func Suitable(rule placementv1.Rule) string {
	if slices.ContainsFunc(rule.Require, func(q placementv1.Requirement) bool { return q.ValueFrom != nil }) {
		return nameOf(partSuitable, rule.Name)
	}
	return Eligible(rule.Name)
}

// Applies returns the name of the Rego rule that is true if a rule applies to the object. A rule that applies to all objects has none.
func Applies(rule string) string { return nameOf(partApplies, rule) }

// Chosen returns the name of the Rego rule with the names of the clusters that a rule chooses.
func Chosen(rule string) string { return nameOf(partChosen, rule) }

// Lacking returns the Rego expression of a text that says why the cluster in the variable name is not eligible for a rule. It is undefined
// for clusters that are eligible.
func Lacking(rule string) string {
	return fmt.Sprintf("%s(%s[name], set())", functionLackText, nameOf(partLacks, rule))
}

// printf adds a formatted text to the Rego of the rule. Call the method comment first to begin a paragraph.
func (r *ruleText) printf(text string, args ...any) { fmt.Fprintf(&r.text, text, args...) }

// comment begins a paragraph with a comment that names the field of the rule from which the paragraph comes, and has the text.
func (r *ruleText) comment(path *field.Path, text string) {
	if text != "" {
		text = ": " + text
	}
	r.printf("\n# %s%s\n", path, text)
}

// applies returns Rego expressions that are all true for an object that the rule applies to; none if it applies to all objects.
func (r *ruleText) applies() []string {
	if len(r.when()) == 0 {
		return nil
	}
	return []string{r.name(partApplies)}
}

// finds returns the Rego expression that is true if the rule chooses a cluster. It chooses none if it finds fewer clusters or domains than
// it needs.
func (r *ruleText) finds() string { return fmt.Sprintf("count(%s) > 0", r.name(partChosen)) }

// readsObject reports whether require of the rule for clusters reads a value of the object as a number, a quantity, or a version. It is
// false for a rule for nodes.
func (r *ruleText) readsObject() bool {
	return GivesClusters(r.rule) && slices.ContainsFunc(r.rule.Require, func(q placementv1.Requirement) bool {
		return requirement{Requirement: q}.readsObject()
	})
}

// unreadable returns the Rego expression that is true for an object with a value that the rule can't read. readsObject must be true.
func (r *ruleText) unreadable() string { return fmt.Sprintf("count(%s) > 0", r.name(partUnreadable)) }

// decided returns Rego expressions, one a line, that are all true for an object that the rule decides and does not deny for lack of
// clusters or values. The first, which is always there, compares decides with the name of the rule. Another one is true if a rule for
// clusters chooses any, or if a rule for nodes can read the values of the object that it compares with.
func (r *ruleText) decided() string {
	out := "decides == " + quote(r.rule.Name)
	switch {
	case GivesClusters(r.rule):
		out += "\n" + r.finds()
	case r.rule.Candidates == placementv1.RuleCandidatesNodes && slices.ContainsFunc(r.rule.Require,
		func(q placementv1.Requirement) bool { return q.ValueFrom != nil }):
		out += "\n" + r.name("term")
	}
	return out
}

// renderWhen renders the Rego rule that is true if the rule applies to the object; none if the rule has no condition.
func (r *ruleText) renderWhen() {
	expressions := r.when()
	if len(expressions) == 0 {
		return
	}
	r.comment(r.path.Child("when"), fmt.Sprintf("the objects to which rule %s applies.", r.rule.Name))
	r.printf("%s if {\n%s\n}\n", r.name(partApplies), strings.Join(expressions, "\n"))
}

// when returns Rego expressions that are all true for an object that meets the rule's condition.
func (r *ruleText) when() []string {
	when := r.rule.When
	if when == nil {
		return nil
	}
	out := selector("input.metadata.labels", when.ObjectSelector)
	for _, a := range when.Annotations {
		out = append(out, keyRequirement("input.metadata.annotations", a.Key, a.Operator, a.Values))
	}
	if s := selector("namespace_labels", when.NamespaceSelector); len(s) > 0 {
		r.use("namespace_labels")
		out = append(append(out, r.use("has_namespace_labels")), s...)
	}
	if when.Expression != "" {
		out = append(out, fmt.Sprintf("k8s.cel(%s, input)", quote(when.Expression)))
	}
	return out
}

// selector returns Rego expressions that are all true if a selector matches the labels in the Rego term labels.
func selector(labels string, s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out = append(out, fmt.Sprintf("%s[%s] == %s", labels, quote(key), quote(s.MatchLabels[key])))
	}
	for _, e := range s.MatchExpressions {
		out = append(out, keyRequirement(labels, e.Key, e.Operator, e.Values))
	}
	return out
}

// keyRequirement returns the Rego expression that is true if the value of a key in a document meets an operator.
func keyRequirement(document, key string, operator metav1.LabelSelectorOperator, values []string) string {
	at := fmt.Sprintf("%s[%s]", document, quote(key))
	switch operator {
	case metav1.LabelSelectorOpIn:
		return at + " in " + set(quoted(values))
	case metav1.LabelSelectorOpNotIn:
		return negated(at + " in " + set(quoted(values)))
	case metav1.LabelSelectorOpDoesNotExist:
		return "not " + at
	default:
		return at
	}
}

// renderSettings renders the annotations, labels, and scheduling fields that the rule sets.
func (r *ruleText) renderSettings() {
	s := r.rule.Set
	if s == nil {
		return
	}
	path := r.path.Child("set")
	renderMap(r, path.Child("annotations"), "annotations", s.Annotations, r.template)
	renderMap(r, path.Child("labels"), "labels", s.Labels, r.template)
	renderMap(r, path.Child("nodeSelector"), "scheduling.nodeSelector", s.NodeSelector, quote)
	for _, one := range []struct{ name, value string }{{"priorityClassName", s.PriorityClassName}, {"schedulerName", s.SchedulerName}} {
		if one.value != "" {
			r.comment(path.Child(one.name), "")
			r.printf("scheduling.%s := %s if {\n%s\n}\n", one.name, quote(one.value), r.decided())
		}
	}
}

// renderMap renders the Rego rule document, whose value is an object with the given values, for the objects that the rule decides; nothing
// without values. term returns the Rego term of a value.
func renderMap[T ~string](r *ruleText, path *field.Path, document string, values map[string]T, term func(string) string) {
	if len(values) == 0 {
		return
	}
	var members []item
	for _, key := range slices.Sorted(maps.Keys(values)) {
		members = append(members, item{path.Key(key), fmt.Sprintf("%s: %s", quote(key), term(string(values[key])))})
	}
	if len(members) == 1 {
		path = members[0].path
	}
	r.comment(path, "")
	r.printf("%s := %s if {\n%s\n}\n", document, listed("{", members, "}"), r.decided())
}

// renderMessages renders a member of the Rego rule warnings with the text of the field warn, and one of errors with that of deny, for the
// objects that the rule decides; none for a field that is not set.
func (r *ruleText) renderMessages() {
	if r.rule.Warn != "" {
		r.comment(r.path.Child("warn"), "")
		r.printf("warnings contains %s if {\n%s\n}\n", r.template(r.rule.Warn), r.decided())
	}
	if r.rule.Deny != "" {
		r.comment(r.path.Child("deny"), "")
		r.printf("errors contains %s if {\n%s\n}\n", r.template(r.rule.Deny), r.decided())
	}
}

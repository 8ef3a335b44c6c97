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
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
)

// renderClusters renders the Rego rules for the clusters that the rule chooses, and for the denial of objects for which it finds too few.
func (r *ruleText) renderClusters() {
	var require []requirement
	for i, q := range r.rule.Require {
		require = append(require, r.requirementOf("require", i, q))
	}
	for _, q := range require {
		q.renderValue()
		q.renderUnreadable()
	}
	repelled, repelling := r.renderRepelled()
	r.renderEligible(require, repelled)
	r.renderScores()
	r.renderChosen()
	r.renderContract()
	r.renderDenial(require, repelled, repelling)
}

// renderRepelled renders a Rego rule with the names of the clusters that have a taint that the rule does not tolerate, and a Rego function
// that returns the first such taint of a cluster. It returns the names of that Rego rule and function. The clusters do not depend on the
// object, so that they are computed once for all objects.
func (r *ruleText) renderRepelled() (clusters, taint string) {
	if len(r.rule.Tolerate) == 0 {
		return r.use("repelled"), r.use("repelling")
	}
	r.comment(r.path.Child("tolerate"), "the clusters with a taint that is not tolerated.")
	r.printf("%s contains name if {\nsome name, cluster in data.clusters\nsome taint in cluster.taints\nnot object.get(taint, \"effect\", "+
		"\"\") in %s\n", r.name("repelled"), harmlessEffects)
	intolerable := fmt.Sprintf("not %s(object.get(taint, \"key\", \"\"), object.get(taint, \"value\", \"\"), object.get(taint, "+
		"\"effect\", \"\"))", r.name("tolerated"))
	r.printf("%s\n}\n", intolerable)
	r.comment(r.path.Child("tolerate"), "the first taint of a cluster that is not tolerated: its key, effect, and value.")
	r.printf("%s(cluster) := min({%s(taint) |\nsome taint in cluster.taints\nnot object.get(taint, \"effect\", \"\") in %s\n%s\n})\n",
		r.name("repelling"), r.use(functionTaintParts), harmlessEffects, intolerable)
	for i, t := range r.rule.Tolerate {
		r.comment(r.path.Child("tolerate").Index(i), "")
		var conditions []string
		is := func(name, value string) string {
			conditions = append(conditions, fmt.Sprintf("%s == %s", name, quote(value)))
			return name
		}
		key, value, effect := "_", "_", "_"
		if t.Key != "" {
			key = is("key", t.Key)
		}
		if t.Operator != "Exists" {
			value = is("value", t.Value)
		}
		if t.Effect != "" {
			effect = is("effect", t.Effect)
		}
		r.printf("%s(%s, %s, %s) if {\n%s\n}\n", r.name("tolerated"), key, value, effect, cmp.Or(strings.Join(conditions, "\n"), "true"))
	}
	return r.name("repelled"), r.name("repelling")
}

// Effects of taints of Kubernetes and of Open Cluster Management. An inventory may have others, which repel objects, too.
const (
	effectPreferNoSelect = "PreferNoSelect"
	effectNoSelect       = "NoSelect"
	effectNoSelectIfNew  = "NoSelectIfNew"
)

// preferring are the effects of taints that repel no object. repelling are the other known ones.
var (
	preferring = []string{string(corev1.TaintEffectPreferNoSchedule), effectPreferNoSelect}
	repelling  = []string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectNoExecute), effectNoSelect, effectNoSelectIfNew}
)

// Repels reports whether a taint keeps the objects that a rule decides out of a cluster: its effect is any other than PreferNoSchedule and
// PreferNoSelect, and the rule does not tolerate it. The module of the rule decides the same.
func Repels(rule placementv1.Rule, key, value, effect string) bool {
	return !slices.Contains(preferring, effect) && !slices.ContainsFunc(rule.Tolerate, func(t placementv1.RuleToleration) bool {
		return (t.Key == "" || t.Key == key) && (t.Effect == "" || t.Effect == effect) &&
			(t.Operator == corev1.TolerationOpExists || t.Value == value)
	})
}

// harmlessEffects is the Rego set of the effects of taints that repel no object.
var harmlessEffects = set(quoted(preferring))

// NotTerminating is the Rego expression that is true if the cluster in the variable cluster is not being deleted.
const NotTerminating = "cluster.terminating == false"

// renderEligible renders the names of the eligible clusters. What does not depend on the object has a Rego rule of its own, which is
// computed once for all objects.
func (r *ruleText) renderEligible(require []requirement, repelled string) {
	fixed := []string{NotTerminating}
	var variable, preconditions []string
	for _, q := range require {
		lines := fmt.Sprintf("# %s\n%s", q.path, q.met())
		if !q.fromObject() {
			fixed = append(fixed, lines)
			continue
		}
		preconditions = append(preconditions, q.precondition())
		variable = append(variable, lines)
	}
	fixed = append(fixed, fmt.Sprintf("# %s\nnot name in %s", r.path.Child("tolerate"), repelled))
	if s := r.spread(); s != nil {
		fixed = append(fixed, fmt.Sprintf("# %s\n%s", r.path.Child("spread"), s.exists))
	}
	target, text := r.name(partEligible), "the eligible clusters."
	if len(variable) > 0 {
		target, text = r.name(partSuitable), "the clusters that meet what does not depend on the object."
	}
	r.comment(r.path, text)
	r.printf("%s contains name if {\nsome name, cluster in data.clusters\n%s\n}\n", target, strings.Join(fixed, "\n"))
	if len(variable) == 0 {
		return
	}
	r.comment(r.path, "the eligible clusters.")
	r.printf("%s contains name if {\n%s\nsome name in %s\ncluster := data.clusters[name]\n%s\n}\n",
		r.name(partEligible), strings.Join(preconditions, "\n"), target, strings.Join(variable, "\n"))
}

// renderScores renders the scores of the eligible clusters.
func (r *ruleText) renderScores() {
	if len(r.rule.Prefer) == 0 {
		return
	}
	var gains []item
	for i, p := range r.rule.Prefer {
		q := r.requirementOf("prefer", i, p.Requirement)
		if q.proportional() {
			q.renderGains(p.Weight)
		} else {
			q.renderValue()
		}
		gains = append(gains, item{q.path, q.gain(p.Weight)})
	}
	of := "some name in " + r.name(partEligible)
	if slices.ContainsFunc(r.rule.Prefer, func(p placementv1.Preference) bool { return !isProportional(p.Operator) }) {
		of += "\ncluster := data.clusters[name]"
	}
	r.comment(r.path.Child("prefer"), "the scores of the eligible clusters.")
	r.printf("%s[name] := sum(array.flatten(%s)) if {\n%s\n}\n", r.name("score"), list(gains), of)
}

// chooses reports whether the rule chooses among the eligible clusters, because it has limit or spread. Otherwise it chooses all of them.
func (r *ruleText) chooses() bool { return r.rule.Limit > 0 || r.rule.Spread != nil }

// scored returns the name of the Rego rule with the eligible clusters, from which the functions of the engine choose: their scores by name,
// or only their names if the rule has no preferences.
func (r *ruleText) scored() string {
	if len(r.rule.Prefer) == 0 {
		return r.name(partEligible)
	}
	return r.name("score")
}

// options returns a Rego object with the limit, the minGain, and the bounds of spread of the rule, by which the functions of the engine
// choose clusters. It leaves out those that make no difference: a maximum of 0, a minimum or minGain of at most 1, and minGain without
// preferences.
func (r *ruleText) options() string {
	var out []string
	add := func(name string, value, otherwise int32) {
		if value > otherwise {
			out = append(out, fmt.Sprintf("%s: %d", quote(name), value))
		}
	}
	add(language.OptionLimit, r.rule.Limit, 0)
	if len(r.rule.Prefer) > 0 {
		add(language.OptionMinGain, r.rule.MinGain, 1)
	}
	if s := r.rule.Spread; s != nil {
		add(language.OptionMinDomains, s.MinDomains, 1)
		add(language.OptionMaxDomains, s.MaxDomains, 0)
		add(language.OptionMinClusters, s.MinClusters, 1)
		add(language.OptionMaxClusters, s.MaxClusters, 0)
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// renderChosen renders the Rego rule with the names of the chosen clusters: the best ones for limit or spread, or all eligible ones.
func (r *ruleText) renderChosen() {
	switch {
	case r.rule.Spread != nil:
		r.renderSpread()
	case r.rule.Limit > 0:
		r.comment(r.path.Child("limit"), "the best of the eligible clusters.")
		r.printf("%s := %s if {\ncount(%s) <= %d\n} else := %s(%s, %s, %s)\n", r.name(partChosen), r.name(partEligible),
			r.name(partEligible), r.rule.Limit, language.ChooseClusters.Name, r.use(language.RuleObjectPath), r.scored(), r.options())
	default:
		r.printf("\n%s := %s\n", r.name(partChosen), r.name(partEligible))
	}
}

// Ranking returns a Rego expression whose value lists the eligible clusters of a rule as objects, best first. They have the members name,
// score, level, and preferences, a list with an object for each preference: gain is the part of the weight that the cluster gets, and
// values a list of the value that is compared, or of none. ok is false if the rule chooses all eligible clusters without weights, or gives
// no clusters.
func Ranking(rule placementv1.Rule) (expression string, ok bool) {
	r := &ruleText{generator: &generator{helpers: map[string]bool{}}, rule: rule}
	if !GivesClusters(rule) || !r.chooses() && rule.Weights == "" {
		return "", false
	}
	// Without a choice, no rank decides, and the module does not have the text that it is computed from.
	rank := `""`
	if r.chooses() {
		rank = fmt.Sprintf(`crypto.sha256(concat("/", [%s, name]))`, r.use(language.RuleObjectPath))
	}
	if len(rule.Prefer) == 0 {
		ordered := fmt.Sprintf("sort([[%s, name] | some name in %s])", rank, r.name(partEligible))
		return fmt.Sprintf(`[{"name": name, "score": 0, "level": 0, "preferences": []} | some [_, name] in %s]`, ordered), true
	}
	best := fmt.Sprintf("max([score | some score in %s])", r.scored())
	ordered := fmt.Sprintf("sort([[floor((best - score) / %d), %s, name] | some name, score in %s])", max(rule.MinGain, 1), rank, r.scored())
	var preferences []string
	for i, p := range rule.Prefer {
		q := r.requirementOf("prefer", i, p.Requirement)
		preferences = append(preferences, fmt.Sprintf(`{"gain": sum(%s), "values": [value | value := %s]}`, q.gain(p.Weight), q.ref))
	}
	return fmt.Sprintf(`[{"name": name, "score": %s[name], "level": level, "preferences": [%s]} |
best := %s; some [level, _, name] in %s; cluster := data.clusters[name]]`,
		r.scored(), strings.Join(preferences, ", "), best, ordered), true
}

// spread returns the operand that clusters are grouped by; nil if the rule has no spread.
func (r *ruleText) spread() *operand {
	s := r.rule.Spread
	if s == nil {
		return nil
	}
	out := r.operandOf(placementv1.Subject{Field: s.Field, Label: s.Label, Property: s.Property})
	switch {
	case out.list:
		out.ref = "min(cluster.zones)"
	case out.mixed:
		out.ref = out.exists
	}
	return &out
}

// renderSpread renders the choice of clusters in domains.
func (r *ruleText) renderSpread() {
	path := r.path.Child("spread")
	r.comment(path, "the domains of the eligible clusters.")
	r.printf("%s[name] := %s if {\nsome name in %s\ncluster := data.clusters[name]\n}\n", r.name("domain"),
		r.spread().ref, r.name(partEligible))

	r.comment(path, "the best of the eligible clusters in the best domains, and these domains.")
	r.printf("%s := %s(%s, %s, %s, %s)\n", r.name("choice"), language.SpreadClusters.Name, r.use(language.RuleObjectPath),
		r.scored(), r.name("domain"),
		r.options())

	if r.countsDomains() {
		r.renderMember("domains", "domains")
	}
	r.renderMember(partChosen, "clusters")
}

// renderMember renders the Rego rule of a part, whose value is a set of the choice in domains: member is "clusters" or "domains". The set
// is empty if there is no choice.
func (r *ruleText) renderMember(part, member string) {
	r.printf("\ndefault %s := set()\n\n%s := %s.%s\n", r.name(part), r.name(part), r.name("choice"), member)
}

// countsDomains reports whether the rule denies objects for which it finds too few domains, or too few clusters in domains: whether its
// spread has a minDomains or minClusters above 1.
func (r *ruleText) countsDomains() bool {
	return r.rule.Spread != nil && max(r.rule.Spread.MinDomains, r.rule.Spread.MinClusters) > 1
}

// renderContract renders the Rego rule with the name clusters, whose value is the names of the chosen clusters, with their weights if the
// rule gives weights. It is undefined for an object that the rule does not decide, or for which it chooses none.
func (r *ruleText) renderContract() {
	value := r.name(partChosen)
	switch {
	case r.rule.Weights == placementv1.RuleWeightsScore && r.chooses():
		r.readsChoice = true
		value = fmt.Sprintf("{name: {\"weight\": max([1, %s[name]])} | some name in %s}", r.name("score"), value)
	case r.rule.Weights == placementv1.RuleWeightsScore:
		value = fmt.Sprintf("{name: {\"weight\": max([1, score])} | some name, score in %s}", r.name("score"))
	}
	r.comment(r.path, fmt.Sprintf("the clusters of rule %s.", r.rule.Name))
	r.printf("clusters := %s if {\n%s\n}\n", value, r.decided())
}

// renderDenial renders the Rego rules for what each cluster lacks, and for the denial of objects for which the rule finds too few clusters.
func (r *ruleText) renderDenial(require []requirement, repelled, repelling string) {
	var lacks []item
	add := func(path *field.Path, l lack) {
		lacks = append(lacks, item{path, fmt.Sprintf("[%s | %s]", l.text, l.condition)})
	}
	add(r.path, lack{quote("being deleted"), "cluster.terminating"})
	for _, q := range require {
		for _, l := range q.lacks() {
			add(q.path, l)
		}
	}
	add(r.path.Child("tolerate"), lack{repelling + "(cluster)", "name in " + repelled})
	spread := r.spread()
	if spread != nil {
		add(r.path.Child("spread"), lack{quote("without " + spread.noun), negated(spread.exists)})
	}
	r.comment(r.path, "the first thing that each cluster lacks: a text, or a taint.")
	r.printf("%s[name] := found[0] if {\nsome name, cluster in data.clusters\nnot name in %s\nfound := array.flatten(%s)\n}\n",
		r.name(partLacks), r.name(partEligible), list(lacks))

	text := quote("rule " + r.rule.Name + ": ")
	if r.rule.Message != "" {
		text = r.template("rule " + strings.NewReplacer("{", "{{", "}", "}}").Replace(r.rule.Name) + ": " + r.rule.Message + ": ")
	}
	few := `""`
	if r.countsDomains() {
		few = fmt.Sprintf("sprintf(%s, [count(%s)])", quote(fmt.Sprintf(" in %%d of at least %d required domains by %s",
			max(r.rule.Spread.MinDomains, 1), strings.ReplaceAll(spread.noun, "%", "%%"))), r.name("domains"))
	}
	shortage := fmt.Sprintf("%s(%s, %s, %s)", r.use("shortage"), r.name(partEligible), r.name(partLacks), few)
	problem, isProblem := shortage, ""
	if r.readsObject() {
		r.comment(r.path, "why an object is denied: a value that can't be read, or too few clusters.")
		r.printf("%s := %s if {\n%s\n} else := {%s}\n", r.name("problems"), r.name(partUnreadable), r.unreadable(), shortage)
		problem, isProblem = "problem", "\nsome problem in "+r.name("problems")
	}
	r.comment(r.path, fmt.Sprintf("the denial of objects for which rule %s finds too few clusters.", r.rule.Name))
	r.printf("errors contains concat(\"\", [%s, %s]) if {\ndecides == %s\nnot %s%s\n}\n", text, problem,
		quote(r.rule.Name), r.finds(), isProblem)
}

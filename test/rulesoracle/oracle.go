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

// Package rulesoracle is a second reading of docs/rules.md: it decides objects by spec.rules in plain Go, slowly and without
// Rego. Its tests compare it with the modules that Berth compiles, on random rules, objects, and clusters.
//
// Nothing here shares code with the compiler, apart from the texts of messages, which docs/rules.md leaves open.
package rulesoracle

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math/big"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Decision is what a policy's rules decide of an object.
type Decision struct {
	// Rule is the name of the rule that decides the object; empty if none does.
	Rule string
	// Clusters are the names of the chosen clusters, sorted; nil if the rule gives none.
	Clusters []string
	// Shares are the weights of the chosen clusters, by name; nil if the rule gives none.
	Shares map[string]int64
	// Annotations and Labels are those that the object gets.
	Annotations, Labels map[string]string
	// Scheduling has the members of a pod's spec that the rule sets, as decoded JSON, without the affinity: Fits and Score
	// are the oracle for that.
	Scheduling map[string]any
	// Errors deny the object. Warnings are for the client.
	Errors, Warnings []string
	// Undecidable reports whether an expression fails on the object. The other fields are empty then.
	Undecidable bool
}

// Twin is the key under which the document of a cluster has the document of another cluster of the same name.
const Twin = "twin"

// Decide decides an object. namespace has the labels of the object's namespace, if it has one and the namespace exists. clusters are the
// documents of the clusters, by name. The name of one with a Twin is ambiguous.
func Decide(rules []placementv1.Rule, object map[string]any, namespace map[string]string, clusters map[string]map[string]any) Decision {
	var last Decision
	for i := range rules {
		rule := &rules[i]
		switch applies(rule.When, object, namespace) {
		case failed:
			return Decision{Undecidable: true}
		case notTrue:
			continue
		}
		if denials := unreadable(rule, object); denials != nil {
			return Decision{Rule: rule.Name, Errors: denials}
		}
		c := choose(rule, object, clusters)
		// If no other rule applies, the last one that finds too few clusters decides.
		last = outcome(rule, object, c)
		if !c.tooFew || rule.Otherwise != placementv1.RuleOtherwiseNextRule {
			break
		}
	}
	return last
}

// outcome returns what an object gets from the rule that decides it.
func outcome(rule *placementv1.Rule, object map[string]any, c choice) Decision {
	d := Decision{Rule: rule.Name}
	switch {
	case rule.Deny != "":
		d.Errors = []string{expand(rule.Deny, object, nil)}
		if rule.Warn != "" {
			d.Warnings = []string{expand(rule.Warn, object, nil)}
		}
		return d
	case c.tooFew:
		d.Errors = []string{denial(rule, object, c)}
		return d
	}
	if d.Errors = nodeErrors(rule, object); d.Errors != nil {
		return d
	}
	if c.given {
		d.Clusters = slices.Sorted(maps.Keys(c.scores))
		if rule.Weights == placementv1.RuleWeightsScore {
			d.Shares = map[string]int64{}
			for name, score := range c.scores {
				d.Shares[name] = max(score, 1)
			}
		}
	}
	if rule.Warn != "" {
		d.Warnings = []string{expand(rule.Warn, object, d.Clusters)}
	}
	if rule.Set != nil {
		d.Annotations = expandAll(rule.Set.Annotations, object, d.Clusters)
		d.Labels = expandAll(rule.Set.Labels, object, d.Clusters)
	}
	d.Scheduling = scheduling(rule, object)
	return d
}

// truth is the value of a condition.
type truth int

const (
	notTrue truth = iota
	isTrue
	failed
)

func truthOf(b bool) truth {
	if b {
		return isTrue
	}
	return notTrue
}

// applies reports whether all parts of a condition match an object. The expression counts only if the other parts match.
func applies(when *placementv1.RuleCondition, object map[string]any, namespace map[string]string) truth {
	if when == nil {
		return isTrue
	}
	if when.ObjectSelector != nil && !selects(when.ObjectSelector, metadata(object, "labels")) {
		return notTrue
	}
	for _, r := range when.Annotations {
		if !annotated(r, metadata(object, "annotations")) {
			return notTrue
		}
	}
	if when.NamespaceSelector != nil && !selectsNamespace(when.NamespaceSelector, object, namespace) {
		return notTrue
	}
	if when.Expression == "" {
		return isTrue
	}
	return expressions[when.Expression](object)
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	for key, value := range selector.MatchLabels {
		if got, ok := set[key]; !ok || got != value {
			return false
		}
	}
	for _, r := range selector.MatchExpressions {
		got, ok := set[r.Key]
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			ok = ok && slices.Contains(r.Values, got)
		case metav1.LabelSelectorOpNotIn:
			ok = !ok || !slices.Contains(r.Values, got)
		case metav1.LabelSelectorOpDoesNotExist:
			ok = !ok
		}
		if !ok {
			return false
		}
	}
	return true
}

func annotated(r placementv1.AnnotationRequirement, annotations map[string]string) bool {
	value, ok := annotations[r.Key]
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		return ok && slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpDoesNotExist:
		return !ok
	}
	return ok
}

func selectsNamespace(selector *metav1.LabelSelector, object map[string]any, namespace map[string]string) bool {
	switch {
	case len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0:
		return true
	case object["kind"] == "Namespace" && object["apiVersion"] == "v1":
		return selects(selector, metadata(object, "labels"))
	}
	return metadataText(object, "namespace") != "" && selects(selector, namespace)
}

// metadata returns an object's labels or annotations.
func metadata(object map[string]any, field string) map[string]string {
	meta, _ := object["metadata"].(map[string]any)
	values, _ := meta[field].(map[string]any)
	out := map[string]string{}
	for key, value := range values {
		out[key], _ = value.(string)
	}
	return out
}

// metadataText returns a field of an object's metadata; empty if the object does not have it.
func metadataText(object map[string]any, field string) string {
	meta, _ := object["metadata"].(map[string]any)
	text, _ := meta[field].(string)
	return text
}

// choice is what a rule finds among the clusters.
type choice struct {
	// given reports whether the rule gives clusters, and tooFew whether it finds too few of them.
	given, tooFew bool
	// scores are the scores of the chosen clusters, by name.
	scores map[string]int64
	// total is the number of clusters, and eligible how many of them are eligible.
	total, eligible int
	// lacks is what the other clusters lack first.
	lacks []lack
	// ambiguous are sentences about the names that two clusters have.
	ambiguous []string
	// domains is the number of domains that could be used, of which there have to be minDomains. It counts only with spread.
	domains int
}

// lack is the first thing that a cluster lacks.
type lack struct {
	// cluster is the name of the cluster.
	cluster string
	// terminating reports whether the cluster is being deleted. The other fields are unset then.
	terminating bool
	// requirement is the index of the requirement; the number of requirements if the cluster meets all.
	requirement int
	// taint is the first taint that repels the object; nil for none. If the requirement and the taint are not what the cluster lacks, it is
	// the value by which spread groups clusters.
	taint *taint
}

// taint is a taint of a cluster.
type taint struct{ key, effect, value string }

// compare compares two taints by what their first one is chosen by.
func (t taint) compare(other taint) int {
	return cmp.Or(cmp.Compare(t.key, other.key), cmp.Compare(t.effect, other.effect), cmp.Compare(t.value, other.value))
}

func (t taint) String() string {
	text := t.key
	if t.value != "" {
		text += "=" + t.value
	}
	if t.effect != "" {
		text += ":" + t.effect
	}
	return text
}

// candidate is an eligible cluster.
type candidate struct {
	name   string
	score  int64
	level  int64
	rank   string
	domain string
}

func better(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.rank, b.rank))
}

// choose returns the clusters that a rule chooses for an object.
func choose(rule *placementv1.Rule, object map[string]any, clusters map[string]map[string]any) choice {
	if rule.Candidates == placementv1.RuleCandidatesNodes || rule.Deny != "" {
		return choice{}
	}
	c := choice{
		given:  len(rule.Require) > 0 || len(rule.Tolerate) > 0 || len(rule.Prefer) > 0 || rule.Spread != nil || rule.Limit > 0,
		scores: map[string]int64{},
	}
	if !c.given {
		return c
	}
	eligible := c.eligibleClusters(rule, object, clusters)
	var chosen []candidate
	switch {
	case rule.Spread != nil:
		domains := usableDomains(rule, object, eligible)
		c.domains = len(domains)
		if len(domains) >= int(max(rule.Spread.MinDomains, 1)) {
			chosen = takeTurns(rule, domains)
		}
	case rule.Limit > 0:
		chosen = eligible[:min(len(eligible), int(rule.Limit))]
	default:
		chosen = eligible
	}
	for _, in := range chosen {
		c.scores[in.name] = in.score
	}
	c.tooFew = len(chosen) == 0
	return c
}

// eligibleClusters returns the clusters that are eligible for a rule, the best first. It counts them and all others, and sets what these
// lack.
func (c *choice) eligibleClusters(rule *placementv1.Rule, object map[string]any, clusters map[string]map[string]any) []candidate {
	var eligible []candidate
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		if twin, ok := clusters[name][Twin].(map[string]any); ok {
			c.ambiguous = append(c.ambiguous, ambiguity(name, clusters[name], twin))
			continue
		}
		c.total++
		if missing := lacks(rule, object, clusters[name]); missing != nil {
			missing.cluster = name
			c.lacks = append(c.lacks, *missing)
			continue
		}
		in := candidate{name: name, rank: rank(object, name)}
		in.domain, _ = domain(rule.Spread, clusters[name])
		eligible = append(eligible, in)
	}
	c.eligible = len(eligible)
	setScores(eligible, rule.Prefer, object, clusters)
	setLevels(eligible, max(int64(rule.MinGain), 1))
	slices.SortFunc(eligible, better)
	return eligible
}

// lacks returns the first thing that a cluster lacks; nil if it is eligible.
func lacks(rule *placementv1.Rule, object, cluster map[string]any) *lack {
	if cluster["terminating"] == true {
		return &lack{terminating: true}
	}
	for i := range rule.Require {
		if !meets(&rule.Require[i], object, cluster) {
			return &lack{requirement: i}
		}
	}
	if taints := repelling(rule.Tolerate, cluster); len(taints) > 0 {
		return &lack{requirement: len(rule.Require), taint: new(slices.MinFunc(taints, taint.compare))}
	}
	if rule.Spread != nil {
		if _, ok := domain(rule.Spread, cluster); !ok {
			return &lack{requirement: len(rule.Require)}
		}
	}
	return nil
}

// repelling returns the taints of a cluster that repel the object.
func repelling(tolerations []placementv1.RuleToleration, cluster map[string]any) (out []taint) {
	taints, _ := cluster["taints"].([]any)
	for _, item := range taints {
		members, _ := item.(map[string]any)
		key, _ := members["key"].(string)
		value, _ := members["value"].(string)
		effect, _ := members["effect"].(string)
		if effect == "PreferNoSchedule" || effect == "PreferNoSelect" {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t placementv1.RuleToleration) bool {
			return (t.Key == "" || t.Key == key) && (t.Effect == "" || t.Effect == effect) && (t.Operator == "Exists" || t.Value == value)
		}) {
			out = append(out, taint{key, effect, value})
		}
	}
	return out
}

// setScores sets the scores of all eligible clusters: the sum of the weights of the preferences that a cluster meets, and of its parts of
// the weights of preferences for the most or the least of a value.
func setScores(eligible []candidate, preferences []placementv1.Preference, object map[string]any, clusters map[string]map[string]any) {
	for i := range preferences {
		p := &preferences[i]
		if slices.Contains(proportional, p.Operator) {
			addParts(eligible, p, clusters)
			continue
		}
		for j := range eligible {
			if meets(&p.Requirement, object, clusters[eligible[j].name]) {
				eligible[j].score += int64(p.Weight)
			}
		}
	}
}

// addParts adds the parts of the weight of a preference for the most or the least of a value.
func addParts(eligible []candidate, p *placementv1.Preference, clusters map[string]map[string]any) {
	amounts := map[string]*big.Rat{}
	var all []*big.Rat
	for _, in := range eligible {
		if amount := amountOf(&p.Requirement, clusters[in.name]); amount != nil {
			amounts[in.name] = amount
			all = append(all, amount)
		}
	}
	for i := range eligible {
		amount := amounts[eligible[i].name]
		if amount == nil {
			continue
		}
		worst, best := slices.MinFunc(all, (*big.Rat).Cmp), slices.MaxFunc(all, (*big.Rat).Cmp)
		if p.Operator == placementv1.OperatorLeast {
			worst, best = best, worst
		}
		part := big.NewRat(int64(p.Weight), 1)
		if span := new(big.Rat).Sub(best, worst); span.Sign() != 0 {
			part.Mul(part, new(big.Rat).Quo(new(big.Rat).Sub(amount, worst), span))
		}
		eligible[i].score += new(big.Int).Quo(part.Num(), part.Denom()).Int64()
	}
}

// setLevels sets the levels of all eligible clusters.
func setLevels(eligible []candidate, gain int64) {
	highest := int64(0)
	for _, in := range eligible {
		highest = max(highest, in.score)
	}
	for i := range eligible {
		eligible[i].level = (highest - eligible[i].score) / gain
	}
}

// rank returns the rank of a cluster or a domain for an object.
func rank(object map[string]any, of string) string {
	kind, name := rankedAs(object)
	digest := sha256.Sum256([]byte(kind + "/" + metadataText(object, "namespace") + "/" + name + "/" + of))
	return hex.EncodeToString(digest[:])
}

// rankedAs returns the kind and name of an object, or of the one from whose template a controller made it.
func rankedAs(object map[string]any) (kind, name string) {
	kind, _ = object["kind"].(string)
	controller := metav1.GetControllerOfNoCopy(&unstructured.Unstructured{Object: object})
	if controller == nil || !slices.Contains([]string{"ReplicaSet", "ControllerRevision", "Job", "Pod"}, kind) {
		return kind, nameOf(object)
	}
	meta, _ := object["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	hash, ok := labels["pod-template-hash"].(string)
	if deployment, cut := strings.CutSuffix(controller.Name, "-"+hash); ok && cut && kind == "Pod" && controller.Kind == "ReplicaSet" {
		return "Deployment", deployment
	}
	return controller.Kind, controller.Name
}

// nameOf returns the name of an object, or what its name is generated from.
func nameOf(object map[string]any) string {
	if name := metadataText(object, "generateName"); name != "" {
		return name
	}
	return metadataText(object, "name")
}

// domain returns the value by which spread groups a cluster.
func domain(spread *placementv1.RuleSpread, cluster map[string]any) (string, bool) {
	if spread == nil {
		return "", false
	}
	values := valuesOf(spreadSubject(spread), cluster)
	if len(values) == 0 {
		return "", false
	}
	return slices.Min(values), true
}

// usableDomains returns the clusters of the domains that are used, the best domain first. The clusters of a domain are sorted
// from best to worst.
func usableDomains(rule *placementv1.Rule, object map[string]any, eligible []candidate) [][]candidate {
	groups := map[string][]candidate{}
	for _, in := range eligible {
		groups[in.domain] = append(groups[in.domain], in)
	}
	least := int(max(rule.Spread.MinClusters, 1))
	var out [][]candidate
	for _, group := range groups {
		if rule.Spread.MaxClusters > 0 {
			group = group[:min(len(group), int(rule.Spread.MaxClusters))]
		}
		if len(group) >= least {
			out = append(out, group)
		}
	}
	slices.SortFunc(out, func(a, b []candidate) int {
		return cmp.Or(cmp.Compare(a[0].level, b[0].level), cmp.Compare(rank(object, a[0].domain), rank(object, b[0].domain)))
	})
	if rule.Spread.MaxDomains > 0 {
		out = out[:min(len(out), int(rule.Spread.MaxDomains))]
	}
	if rule.Limit > 0 {
		out = out[:min(len(out), int(rule.Limit)/least)]
	}
	return out
}

// takeTurns takes clusters from the domains: first the best minClusters of each, then the next best of each, and so on.
func takeTurns(rule *placementv1.Rule, domains [][]candidate) []candidate {
	var chosen []candidate
	least := int(max(rule.Spread.MinClusters, 1))
	for first, last := 0, least; ; first, last = last, last+1 {
		var turn []candidate
		for _, group := range domains {
			turn = append(turn, group[min(first, len(group)):min(last, len(group))]...)
		}
		if len(turn) == 0 {
			return chosen
		}
		slices.SortFunc(turn, better)
		if chosen = append(chosen, turn...); rule.Limit > 0 && len(chosen) >= int(rule.Limit) {
			return chosen[:rule.Limit]
		}
	}
}

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

package findings

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/rules"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/typecheck"
)

// mentions are the values and keys of clusters, or of nodes, that a policy names.
type mentions struct {
	comparisons []comparison
	keys        []key
}

// comparison is a place of a policy where a value of clusters or nodes is compared with constants, in a rule or in Rego.
type comparison struct {
	at   place   // The place of the comparison in the policy.
	each []place // The places of the values, one for each, in their order.
	noun string  // Names what is compared, as in "label env".
	// path is the path in a cluster or node of what is compared. If there is a list at the path, its items are compared.
	path []string
	// operator is that of the requirement or preference of a rule, Exists for the field of a spread, In for a node selector that the rules or
	// the Rego set, and empty for a comparison in Rego.
	operator placementv1.RequirementOperator
	as       placementv1.ValueType // The type that an operator of order, or a proportional one, reads values as; "" for other operators.
	values   []string              // The values that the policy compares with.
	// given reports whether the only value is the name of a cluster that Rego gives to objects, and compares with nothing.
	given bool
	// free reports whether a free quantity of a resource is compared. path is then the path of the allocatable quantity.
	free bool
	// proportional reports whether a preference gives clusters a part of its weight by their own values, which it compares with each other, so
	// that values is empty.
	proportional bool
	// none is a clause about what follows while no cluster or node has any of the values; "" if nothing follows that is known.
	none string
	// fallback reports whether the only value is the default for objects without a value of their own. If no cluster or node has that, it is a
	// finding only if it is similar to a value that some have: an author may mean it.
	fallback bool
}

// key is a key that a policy names, such as the key of a label of nodes, or the name of a property of clusters.
type key struct {
	rules.Key
	at place // Where the policy names the key.
	// none is a clause about what follows while no cluster or node has the key; "" if an author may mean that.
	none string
	// noEffect reports whether what names the key has no effect while no cluster or node has the key, so that the finding is a Mistake.
	noEffect bool
}

// place is what a finding concerns: the field of a rule, or a position in the Rego.
type place struct {
	field string // The path of the field; "" for a position in the Rego.
	lint.Position
}

func placeOf(path *field.Path) place { return place{field: path.String()} }

// finding returns a finding of a level with a message. For the field of a rule, the message gets the path of the field as its prefix. For a
// position in the Rego, the finding gets the position.
func (at place) finding(level Level, message string) Finding {
	if at.field != "" {
		return Finding{Message: at.field + ": " + message, Level: level}
	}
	return Finding{Position: at.Position, Message: message, Level: level}
}

// mentionsIn returns the values and keys of clusters that the rules or the Rego of a policy name.
func mentionsIn(spec placementv1.PlacementPolicySpec, module *policy.Module) mentions {
	var out mentions
	if len(spec.Rules) > 0 {
		return mentionsInRules(spec.Rules, false)
	}
	for _, c := range lint.ClusterConstants(module.Compiler) {
		if c.Value == "" || len(c.Field) > 0 && !typecheck.HasTexts(c.Field) {
			// A comparison with "" asks whether there is a value. The type checker finds comparisons with what is no text.
			continue
		}
		at, path, noun := place{Position: c.Position}, c.Field, "field "+strings.Join(c.Field, ".")
		switch {
		case len(path) == 0:
			path, noun = []string{"name"}, absent.Name
		case len(path) == 2 && documents[path[0]] != "":
			noun = documents[path[0]] + " " + path[1]
		}
		out.comparisons = append(out.comparisons, comparison{at: at, each: []place{at}, noun: noun, path: path,
			values: []string{c.Value}, given: c.Given})
	}
	for _, k := range lint.ClusterKeys(module.Compiler) {
		out.keys = append(out.keys, key{Key: rules.Key{Document: k.Document, Name: k.Name}, at: place{Position: k.Position}})
	}
	return out
}

// documents are the fields of clusters that have members with names of their own, with what a member is called.
var documents = map[string]string{"labels": "label", "annotations": "annotation", "properties": "property", rules.DocumentScores: "score"}

// mentionsInRules returns the values and keys that rules for clusters name, or those that rules for nodes name.
func mentionsInRules(list []placementv1.Rule, ofNodes bool) (out mentions) {
	for _, c := range rules.Comparisons(list) {
		if c.OfNodes == ofNodes {
			out.add(c)
		}
	}
	if ofNodes {
		return out
	}
	for _, k := range rules.Spreads(list) {
		out.keys = append(out.keys, key{Key: k, at: placeOf(k.Field), none: noneEligible})
	}
	for i, rule := range list {
		if s := rule.Spread; s != nil && s.Field != "" && rule.Candidates != placementv1.RuleCandidatesNodes {
			at := specPath.Child("rules").Index(i).Child("spread")
			c := rules.Compared{Requirement: placementv1.Requirement{Subject: placementv1.Subject{Field: s.Field},
				Operator: placementv1.OperatorExists}, Field: at}
			out.add(c)
		}
	}
	return out
}

// Clauses about what follows while no cluster meets a requirement, or a preference.
const (
	noneEligible = "so that no cluster is eligible"
	noneBetter   = "so that this makes no cluster better than others"
)

// add adds the values and the key that a requirement or a preference names.
func (m *mentions) add(c rules.Compared) {
	none, noEffect := noneEligible, false
	switch {
	case c.Preferred && !c.OfNodes:
		none, noEffect = noneBetter, true
	case c.Preferred:
		none, noEffect = "so that this makes no node better than others", true
	case c.Operator == placementv1.OperatorNotIn && !c.OfNodes:
		none, noEffect = "so that this excludes no cluster", true
	case c.Operator == placementv1.OperatorNotIn:
		none, noEffect = "so that this excludes no node", true
	case c.Operator == placementv1.OperatorDoesNotExist:
		none = ""
	case c.OfNodes:
		none = "so that the pods stay pending"
	}
	if k, ok := c.Key(); ok {
		m.keys = append(m.keys, key{k, placeOf(k.Field), none, noEffect})
	}
	if c.Score != "" {
		// Its value may change with each report.
		return
	}
	as, ordered := c.Ordered()
	if !ordered {
		as = ""
	}
	out := comparison{at: placeOf(c.Field), noun: c.Noun(), path: c.Path(), operator: c.Operator, as: as, free: c.Free != "", none: none,
		proportional: c.Proportional()}
	if c.Requirement.Field == placementv1.ClusterFieldName {
		out.noun = absent.Name
	}
	if c.Requirement.Field == placementv1.ClusterFieldReady {
		return
	}
	if from := c.ValueFrom; from != nil && from.Default != nil {
		out.values, out.each, out.fallback = []string{*from.Default}, []place{placeOf(c.Field.Child("valueFrom", "default"))}, true
	}
	for i, value := range c.Values {
		out.values, out.each = append(out.values, value), append(out.each, placeOf(c.Field.Child("values").Index(i)))
	}
	m.comparisons = append(m.comparisons, out)
}

// population are all clusters, or all nodes, in the form of data.clusters[name].
type population struct {
	// noun is "cluster" or "node".
	noun    string
	members []map[string]any // The clusters or nodes.
}

// findings returns the findings in the values and keys that a policy names, such as those that no cluster or node of the population has.
// The population must not be empty, because an empty one has none of them.
func (p population) findings(m mentions) []Finding {
	var out []Finding
	for _, c := range m.comparisons {
		out = append(out, p.compare(c)...)
	}
	for _, k := range m.keys {
		out = append(out, p.compareKey(k)...)
	}
	return out
}

// compare returns the findings in a comparison, except for those that compareKey returns for its key.
func (p population) compare(c comparison) []Finding {
	known := valuesOf(p.members, c.path)
	if c.given {
		if text := unknownCluster(c.values[0], known); text != "" {
			return []Finding{c.at.finding(Mistake, text)}
		}
		return nil
	}
	switch {
	case len(known) == 0 && documents[c.path[0]] != "":
		return nil
	case c.free && !slices.ContainsFunc(p.members, func(m map[string]any) bool { _, reports := m["allocated"]; return reports }):
		known = nil
	}
	switch {
	case c.as != "":
		return p.compareOrder(c, known)
	case c.operator == placementv1.OperatorExists:
		return p.compareExists(c, known)
	case c.operator == placementv1.OperatorDoesNotExist:
		return p.similarResource(c)
	case c.fallback:
		return p.similarFallback(c, known)
	}
	var out []Finding
	var rest []string
	for i, value := range c.values {
		if near := misspelt(value, known); near != "" {
			out = append(out, c.each[i].finding(Mistake, fmt.Sprintf("no %s has %s; did you mean %q?", p.noun,
				absent.Subject(c.noun, strconv.Quote(value)), near)))
			continue
		}
		out = append(out, p.otherCase(c, i)...)
		rest = append(rest, value)
	}
	none := c.none
	if len(rest) < len(c.values) {
		none = ""
	}
	if text := absent.Values(p.noun, c.noun, rest, known, none); text != "" {
		out = append(out, c.at.finding(Advice, text))
	}
	return out
}

// otherCase finds members with a value that differs only in case from the i-th value of a comparison in a rule, which other members have.
func (p population) otherCase(c comparison, i int) []Finding {
	value := c.values[i]
	if c.operator == "" || !slices.Contains(valuesOf(p.members, c.path), value) {
		return nil
	}
	var names []string
	var other string
	for _, member := range p.members {
		for _, v := range valuesOf([]map[string]any{member}, c.path) {
			if v != value && strings.EqualFold(v, value) && !slices.Contains(c.values, v) {
				name, _ := member["name"].(string)
				names, other = append(names, name), cmp.Or(other, v)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	which := fmt.Sprintf("%s %s", p.noun, names[0])
	if more := len(names) - 1; more > 0 {
		which += fmt.Sprintf(" (and %d more)", more)
	}
	return []Finding{c.each[i].finding(Advice, fmt.Sprintf("%s has %s, which is not %q: In and NotIn tell upper case from lower case. "+
		"Correct one of them, or list both", which, absent.Subject(c.noun, strconv.Quote(other)), value))}
}

// similarResource returns the finding in the name of a resource that no member has, and that is similar to one that some have.
func (p population) similarResource(c comparison) []Finding {
	meant := p.meantResource(c)
	if meant == "" {
		return nil
	}
	return []Finding{c.at.finding(Advice, absent.Any(p.noun, c.noun, "")+meant)}
}

// meantResource returns a question that suggests a resource that members have in place of an allocatable or free one that none has, such as
// `; did you mean "nvidia.com/gpu"?` for nvidia.com/gpus. It returns "" if none is similar, which needs the same prefix unless only case or
// separators differ, and for comparisons of other things.
func (p population) meantResource(c comparison) string {
	if len(c.path) < 2 || c.path[0] != "allocatable" {
		return ""
	}
	known := keysOf(p.members, c.path[0])
	near := cmp.Or(misspelt(c.path[1], known), similarLabel(c.path[1], known))
	if slices.Contains(known, c.path[1]) || near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// similarFallback returns the finding in a default value that no member has, and that is similar to one of the known values.
func (p population) similarFallback(c comparison, known []string) []Finding {
	value := c.values[0]
	near := misspelt(value, known)
	if near == "" && len(value) >= minSimilar {
		near, _ = suggest.Nearest(value, known)
	}
	if slices.Contains(known, value) || near == "" {
		return nil
	}
	return []Finding{c.each[0].finding(Advice, fmt.Sprintf("no %s has %s now; did you mean %q?", p.noun,
		absent.Subject(c.noun, strconv.Quote(value)), near))}
}

// compareExists returns the finding in a comparison by operator Exists: no member has a value, whether or not it has a similar key, or the
// only values are true and false, and both meet Exists. known has the values of the members; it is empty if no member has one.
func (p population) compareExists(c comparison, known []string) []Finding {
	if len(known) == 0 {
		return []Finding{c.at.finding(Advice, absent.Any(p.noun, c.noun, c.none)+p.meantResource(c))}
	}
	if i := slices.IndexFunc(known, func(v string) bool { return strings.EqualFold(v, "false") }); i >= 0 && len(known) == 2 {
		if yes := known[1-i]; strings.EqualFold(yes, "true") {
			return []Finding{c.at.finding(Advice, fmt.Sprintf("%s has the values %q and %q, and both meet Exists; did you mean operator: In, "+
				"values: [%q]?", c.noun, known[i], yes, yes))}
		}
	}
	return nil
}

// compareOrder returns the finding in a comparison by order, such as Gte: no member has a value, or some have one that can't be read as the
// type c.as. These never meet it, or get none of its weight. known has the values of the members; it is empty if no member has one.
func (p population) compareOrder(c comparison, known []string) []Finding {
	if len(known) == 0 {
		return []Finding{c.at.finding(Advice, absent.Any(p.noun, c.noun, c.none)+p.meantResource(c))}
	}
	if !slices.ContainsFunc(known, func(v string) bool { return !rules.Reads(c.as, v) }) {
		return nil
	}
	var names []string
	var example string
	for _, member := range p.members {
		for _, value := range valuesOf([]map[string]any{member}, c.path) {
			if !rules.Reads(c.as, value) {
				name, _ := member["name"].(string)
				names, example = append(names, name), cmp.Or(example, value)
			}
		}
	}
	which := fmt.Sprintf("%s %s", p.noun, names[0])
	if more := len(names) - 1; more > 0 {
		which = fmt.Sprintf("%s, and of %d more,", which, more)
	}
	consequence := "never meets this"
	if c.proportional {
		consequence = "gets none of the preference's weight"
	}
	return []Finding{c.at.finding(Advice, fmt.Sprintf("%s of %s is not a %s: %q %s%s", c.noun, which,
		strings.ToLower(string(c.as)), example, consequence,
		c.readable(known)))}
}

// readable returns the end of a sentence that suggests how to compare all of the values: with as, the first type as which all can be read;
// if there is none, with In and the values themselves; "" if they are more than maxListed.
func (c comparison) readable(values []string) string {
	types := []placementv1.ValueType{placementv1.ValueTypeNumber, placementv1.ValueTypeQuantity, placementv1.ValueTypeVersion}
	if c.proportional {
		types = types[:2]
	}
	for _, as := range types {
		if !slices.ContainsFunc(values, func(v string) bool { return !rules.Reads(as, v) }) {
			return fmt.Sprintf(". Set as: %s", as)
		}
	}
	if len(values) <= maxListed {
		return fmt.Sprintf(". Compare with In; there are %s", absent.Quoted(values, ", "))
	}
	return ""
}

// clusterFields are the fields of clusters that a finding suggests in place of a label, annotation, or property with the name of the field,
// which no cluster has.
var clusterFields = []placementv1.ClusterField{
	placementv1.ClusterFieldName, placementv1.ClusterFieldRegion, placementv1.ClusterFieldZone, placementv1.ClusterFieldProvider,
	placementv1.ClusterFieldVersion, placementv1.ClusterFieldReady,
}

// compareKey returns the finding in a key that no member of the population has; none if some member has it, or if an author may mean that:
// k.none is empty, and no other name is probably meant, such as a similar one. If the population is empty, no member has the key, so
// callers leave that out.
func (p population) compareKey(k key) []Finding {
	known, what := keysOf(p.members, k.Document), documents[k.Document]
	if slices.Contains(known, k.Name) {
		return nil
	}
	unknown := fmt.Sprintf("no %s has the %s %q", p.noun, what, k.Name)
	near := cmp.Or(misspelt(k.Name, known), similarLabel(k.Name, known))
	switch isRego := k.at.Row > 0; {
	case k.Document == rules.DocumentScores:
		return p.compareScore(k, known)
	case k.Document == "properties":
		end := suggestion(k.Name, known)
		if !isRego && near == "" {
			end = cmp.Or(p.elsewhere(k.Name), end)
		}
		return []Finding{k.at.finding(Mistake, unknown+end)}
	case isRego && k.none == "" && near == "":
		// It may have another value where there is none.
		return nil
	case isRego && k.none == "":
		return []Finding{k.at.finding(Advice, fmt.Sprintf("%s now; did you mean %q?", unknown, near))}
	case near != "":
		return []Finding{k.at.finding(Mistake, fmt.Sprintf("%s; did you mean %q?", unknown, near))}
	case p.elsewhere(k.Name) != "":
		return []Finding{k.at.finding(Mistake, unknown+p.elsewhere(k.Name))}
	case p.noun == "cluster" && isNodeLabel(k.Name):
		return []Finding{k.at.finding(Advice, unknown+" now, and Kubernetes sets it on nodes; did you mean candidates: Nodes?")}
	case k.none == "":
		return nil
	case k.noEffect:
		return []Finding{k.at.finding(Mistake, unknown+", "+k.none)}
	default:
		return []Finding{k.at.finding(Advice, unknown+" now, "+k.none)}
	}
}

// elsewhere returns the end of a finding in a key that no member has in the document that was named, if another document or a field has the
// key; "" otherwise.
func (p population) elsewhere(key string) string {
	if slices.Contains(clusterFields, placementv1.ClusterField(key)) {
		return fmt.Sprintf("; did you mean field: %s?", key)
	}
	for _, document := range slices.Sorted(maps.Keys(documents)) {
		if slices.Contains(keysOf(p.members, document), key) {
			return fmt.Sprintf("; did you mean %s: %s?", documents[document], key)
		}
	}
	return ""
}

// compareScore returns the finding in a score that no cluster has, which callers have found before: it always returns one. It lists the
// scores that clusters have, known, or suggests a similar one if they are more than maxListed. Its level is Advice, because a score is
// missing while its add-on does not report it.
func (p population) compareScore(k key, known []string) []Finding {
	text := fmt.Sprintf("no cluster has the score %q now", k.Name)
	if k.none != "" {
		text += ", " + k.none
	}
	switch {
	case len(known) == 0:
		text += "; no AddOnPlacementScore in the namespaces of the clusters has a valid score"
	case len(known) <= maxListed:
		text += "; there are " + absent.Quoted(known, ", ")
	default:
		text += suggestion(k.Name, known)
	}
	return []Finding{k.at.finding(Advice, text)}
}

// isNodeLabel reports whether Kubernetes sets a label on nodes alone: kubernetes.io/hostname, arch, or os, or one that begins with
// node.kubernetes.io/ or node-role.kubernetes.io/. It returns false for labels that clusters have, too, such as
// topology.kubernetes.io/zone.
func isNodeLabel(label string) bool {
	prefix, _ := splitLabel(label)
	return slices.Contains([]string{"node.kubernetes.io/", "node-role.kubernetes.io/"}, prefix) ||
		slices.Contains([]string{corev1.LabelHostname, corev1.LabelArchStable, corev1.LabelOSStable}, label)
}

// minSimilar is the length from which names with other characters count as misspelt: cpu and gpu are two names.
const minSimilar = 4

// similarLabel returns the label with the same prefix whose name is the most similar one, or "" if none is similar. Names that differ only
// in digits, or in cpu and gpu, are names of several things, such as nvidia.com/mig-1g.5gb and nvidia.com/mig-2g.10gb.
func similarLabel(label string, known []string) string {
	prefix, name := splitLabel(label)
	if len(name) < minSimilar {
		return ""
	}
	var names []string
	for _, k := range known {
		if p, n := splitLabel(k); p == prefix && kindOf(n) != kindOf(name) {
			names = append(names, n)
		}
	}
	near, _ := suggest.Nearest(name, names)
	if near == "" {
		return ""
	}
	return prefix + near
}

// kindOf returns a name without its digits, and with gpu and tpu replaced by cpu, so that it is equal for several things of a kind.
func kindOf(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, processors.Replace(name))
}

// processors replaces the kinds of processors by one of them.
var processors = strings.NewReplacer("gpu", "cpu", "tpu", "cpu")

// splitLabel splits the key of a label after the slash, which belongs to the prefix. The prefix is empty if there is no slash.
func splitLabel(label string) (prefix, name string) {
	i := strings.LastIndex(label, "/") + 1
	return label[:i], label[i:]
}

// keysOf returns the sorted keys that a document, such as labels, has in any of the clusters.
func keysOf(clusters []map[string]any, document string) []string {
	seen := sets.New[string]()
	for _, cluster := range clusters {
		members, _ := cluster[document].(map[string]any)
		for name := range members {
			seen.Insert(name)
		}
	}
	return sets.List(seen)
}

// unknownCluster returns a message about the name of a cluster that is not among the names; "" if it is.
func unknownCluster(name string, names []string) string {
	if slices.Contains(names, name) {
		return ""
	}
	text := suggestion(name, names)
	if text == "" && len(names) <= maxListed {
		text = "; there are " + absent.Quoted(names, ", ")
	}
	return fmt.Sprintf("the policy gives objects the cluster %q, which no inventory has%s", name, text)
}

// suggestion returns a question that suggests a known name in place of an unknown one, for example `; did you mean
// "eu-1"?`. It returns "" if none is similar.
func suggestion(name string, known []string) string {
	near := misspelt(name, known)
	if near == "" {
		near, _ = suggest.Nearest(name, known)
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// misspelt returns the known value that differs from a constant only in case and separators. It returns "" if there is
// not exactly one such value, or if the constant itself is known. Values that differ in other characters don't count:
// us-east-1 and us-west-1 are two regions.
func misspelt(constant string, known []string) string {
	if slices.Contains(known, constant) {
		return ""
	}
	near := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return spelling(k) != spelling(constant) })
	if len(near) != 1 {
		return ""
	}
	return near[0]
}

// spelling returns a text in lower case without separators.
func spelling(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. /", r) {
			return -1
		}
		return r
	}, strings.ToLower(text))
}

// valuesOf returns the sorted values that clusters have at a path, as texts. If there is an array, it returns those of the array.
func valuesOf(clusters []map[string]any, path []string) []string {
	seen := sets.New[string]()
	for _, cluster := range clusters {
		var value any = cluster
		for _, name := range path {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		members, isArray := value.([]any)
		if !isArray {
			members = []any{value}
		}
		for _, member := range members {
			switch v := member.(type) {
			case string:
				seen.Insert(v)
			case bool, int64, float64:
				seen.Insert(fmt.Sprint(v))
			}
		}
	}
	return sets.List(seen)
}

// findingsOfNodes finds keys and values in rules for nodes, and in node selectors that a policy sets, that no node has. It also finds
// tolerations in rules for nodes that tolerate no taint of a node, although some taint has the same key or a similar one. It returns a
// notice if the nodes can't be read, and nothing if Finder.Nodes is nil, or there are no nodes or too many.
func (f *Finder) findingsOfNodes(ctx context.Context, spec placementv1.PlacementPolicySpec, module *policy.Module) []Finding {
	mentioned := mentionsInRules(spec.Rules, true)
	for _, s := range settings(spec, module) {
		if s.field != podscheduling.NodeSelector {
			continue
		}
		const none = "so that the pods stay pending"
		mentioned.comparisons = append(mentioned.comparisons, comparison{
			at: s.at, each: []place{s.at}, noun: "label " + s.key, path: []string{"labels", s.key},
			operator: placementv1.OperatorIn, values: []string{s.value}, none: none,
		})
		mentioned.keys = append(mentioned.keys, key{Key: rules.Key{Document: "labels", Name: s.key}, at: s.at, none: none})
	}
	tolerates := func(r placementv1.Rule) bool {
		return r.Candidates == placementv1.RuleCandidatesNodes && len(r.Tolerate) > 0
	}
	if f.Nodes == nil || len(mentioned.comparisons) == 0 && !slices.ContainsFunc(spec.Rules, tolerates) {
		return nil
	}
	nodes, err := f.Nodes.All(ctx)
	if err != nil {
		return []Finding{notice("cannot check that nodes have what the policy names: %v", err)}
	}
	if len(nodes) == 0 {
		return nil
	}
	all := population{"node", nodes}
	return slices.Concat(all.findings(mentioned), all.tolerations(spec.Rules, true), all.taintKeys(spec.Rules, true))
}

// taintKeys finds keys in the tolerations of rules that no taint has, and that are probably misspelt keys of taints.
func (p population) taintKeys(list []placementv1.Rule, ofNodes bool) []Finding {
	var known []string
	for _, member := range p.members {
		taints, _ := member["taints"].([]any)
		for _, taint := range taints {
			object, _ := taint.(map[string]any)
			if key, _ := object["key"].(string); key != "" {
				known = append(known, key)
			}
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	var out []Finding
	for i, rule := range list {
		if (rule.Candidates == placementv1.RuleCandidatesNodes) != ofNodes {
			continue
		}
		for j, t := range rule.Tolerate {
			prefix, name := splitLabel(t.Key)
			near := slices.DeleteFunc(slices.Clone(known), func(k string) bool {
				p, other := splitLabel(k)
				// The taints of two vendors can have the same name: amd.com/gpu and nvidia.com/gpu.
				return spelling(other) != spelling(name) || prefix != "" && p != "" && spelling(p) != spelling(prefix) || isOfCondition(k)
			})
			tolerated := func(key string) bool {
				return slices.ContainsFunc(rule.Tolerate, func(t placementv1.RuleToleration) bool { return t.Key == key || t.Key == "" })
			}
			if len(near) != 1 || tolerated(near[0]) {
				continue
			}
			out = append(out, placeOf(specPath.Child("rules").Index(i).Child("tolerate").Index(j).Child("key")).
				finding(Advice, fmt.Sprintf("no %s has a taint with the key %q now; did you mean %q?", p.noun, t.Key, near[0])))
		}
	}
	return out
}

// findingsOfClasses finds priority classes that a policy sets and that do not exist. If the classes can't be read, it returns one notice
// that says so; if f.PriorityClasses is nil, nothing.
func (f *Finder) findingsOfClasses(ctx context.Context, spec placementv1.PlacementPolicySpec, module *policy.Module) []Finding {
	var out []Finding
	var known []string
	for _, s := range settings(spec, module) {
		if f.PriorityClasses == nil || s.field != podscheduling.PriorityClassName {
			continue
		}
		if known == nil {
			var err error
			if known, err = f.PriorityClasses.Names(ctx); err != nil {
				return []Finding{s.at.finding(Notice, fmt.Sprintf("cannot check that the PriorityClass exists: %v", err))}
			}
		}
		who := "of an object that gets this class"
		if s.at.field != "" {
			who = "of an object that the rule decides"
		}
		if text := absent.Values("PriorityClass", absent.Name, []string{s.value}, known,
			fmt.Sprintf("so that no pod %s can be created", who)); text != "" {
			out = append(out, s.at.finding(Advice, text))
		}
	}
	return out
}

// setting is a constant value that a policy sets in a node selector or as a priority class.
type setting struct {
	at place // Where the policy sets the value.
	// field is the field of a pod spec, and key the key in it; empty for a field without keys.
	field, key, value string
	// namespaces is when.namespaceSelector of the rule that sets the value; an empty selector, which selects all, if it has none, and for
	// Rego. It is never nil. spec.match, which is not part of it, may select fewer namespaces.
	namespaces *metav1.LabelSelector
}

// settings returns the constant node selectors and priority classes that the rules or the Rego of a policy set.
func settings(spec placementv1.PlacementPolicySpec, module *policy.Module) (out []setting) {
	for i, rule := range spec.Rules {
		if rule.Set == nil {
			continue
		}
		path, namespaces := specPath.Child("rules").Index(i).Child("set"), &metav1.LabelSelector{}
		if rule.When != nil && rule.When.NamespaceSelector != nil {
			namespaces = rule.When.NamespaceSelector
		}
		for _, label := range slices.Sorted(maps.Keys(rule.Set.NodeSelector)) {
			out = append(out, setting{
				placeOf(path.Child("nodeSelector").Key(label)), podscheduling.NodeSelector, label, string(rule.Set.NodeSelector[label]), namespaces,
			})
		}
		if name := rule.Set.PriorityClassName; name != "" {
			out = append(out, setting{placeOf(path.Child("priorityClassName")), podscheduling.PriorityClassName, "", name, namespaces})
		}
	}
	if module.FromRules() || module.Remote != nil {
		return out
	}
	for _, c := range lint.OutputConstants(module.Compiler) {
		if c.Path[0] != language.RuleScheduling {
			continue
		}
		s := setting{at: place{Position: c.Position}, field: c.Path[1], value: c.Value, namespaces: &metav1.LabelSelector{}}
		if len(c.Path) > 2 {
			s.key = c.Path[2]
		}
		if len(c.Path) == 2 && s.field == podscheduling.PriorityClassName || len(c.Path) == 3 && s.field == podscheduling.NodeSelector {
			out = append(out, s)
		}
	}
	return out
}

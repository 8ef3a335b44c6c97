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
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/numeral"
)

// Patterns of values that Gt, Gte, Lt, and Lte can read. They bound the digits, so that no value is costly to compare.
const (
	numberPattern   = `^[+-]?[0-9]{1,30}(\.[0-9]{1,30})?$`
	integerPattern  = `^[0-9]{1,18}$`
	quantityPattern = `^[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	versionPattern  = `^v?[0-9]{1,30}(\.[0-9]{1,30}){0,2}`
	// longVersionPattern matches texts of which versionPattern would match only a part of a number.
	longVersionPattern = `^v?([0-9]+\.){0,2}[0-9]{31}`

	labelValuePattern = `^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$`
	nodeNamePattern   = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
)

// What values that Gt, Gte, Lt, and Lte read must be.
const (
	formNumber   = "must be a number, such as 2 or 0.5"
	formQuantity = "must be a quantity, such as 500m or 4Gi"
	formVersion  = "must be a version, such as 1.30"
)

var (
	numbers      = regexp.MustCompile(numberPattern)
	integers     = regexp.MustCompile(integerPattern)
	quantities   = regexp.MustCompile(quantityPattern)
	versions     = regexp.MustCompile(versionPattern)
	longVersions = regexp.MustCompile(longVersionPattern)
	digits       = regexp.MustCompile("[0-9]+")
	// doubled matches what looks like a placeholder of Go templates, Helm, or Kyverno. With more braces, such a placeholder is meant
	// to be in the text, or braces around a value.
	doubled = regexp.MustCompile(`(?:^|[^{])(\{\{(\s*\.?[A-Za-z][-A-Za-z0-9_.:/]*\s*)\}\})(?:[^}]|$)`)
)

// isVersion reports whether a text begins like a version: with one to three numbers joined by dots, after a "v" or not, such as "v1.30.2",
// "1.30", and "1". A text after the numbers does not matter. It is false for numbers of more than 30 digits.
func isVersion(text string) bool {
	return versions.MatchString(text) && !longVersions.MatchString(text)
}

// versionNumbers returns the three numbers of a version as Rego terms. The text must be a version.
func versionNumbers(text string) []string {
	out := digits.FindAllString(versions.FindString(text), 3)
	for i, n := range out {
		out[i] = plainNumber(n)
	}
	for len(out) < 3 {
		out = append(out, "0")
	}
	return out
}

// validator collects warnings about rules, and the errors in rules that the schema of the API does not find.
type validator struct {
	warnings []string
	errs     field.ErrorList
}

// validate returns the warnings about rules, which are at the path, and the errors in them. It does not check all that the schema of the
// API does, such as that the names of rules differ.
func validate(rules []placementv1.Rule, path *field.Path) (warnings []string, errs field.ErrorList) {
	v := &validator{}
	for i, rule := range rules {
		v.rule(rule, path.Index(i), i == len(rules)-1)
	}
	v.reachable(rules, path)
	v.fallbacks(rules, path)
	v.constants(rules, path)
	return v.warnings, v.errs
}

// fail adds an error about an invalid value.
func (v *validator) fail(path *field.Path, value any, format string, args ...any) {
	v.errs = append(v.errs, field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

// forbid adds an error about a field that must not be set so.
func (v *validator) forbid(path *field.Path, format string, args ...any) {
	v.errs = append(v.errs, field.Forbidden(path, fmt.Sprintf(format, args...)))
}

// warn adds a warning about a field.
func (v *validator) warn(path *field.Path, format string, args ...any) {
	v.warnings = append(v.warnings, fmt.Sprintf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// appliesToAll reports whether a condition matches all objects, as nil does.
func appliesToAll(w *placementv1.RuleCondition) bool {
	return w == nil || len(w.Annotations) == 0 && w.Expression == "" && isEmpty(w.ObjectSelector) && isEmpty(w.NamespaceSelector)
}

// isEmpty reports whether a selector selects everything, as nil does.
func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// reachable finds rules that never decide an object, because an earlier rule applies to each object to which they apply, and leaves none to
// the next rule. It refuses them if the earlier rule applies to all objects or has the same condition, and otherwise warns of them.
func (v *validator) reachable(rules []placementv1.Rule, path *field.Path) {
	for i, rule := range rules {
		for j, earlier := range rules[:i] {
			if earlier.Otherwise == placementv1.RuleOtherwiseNextRule {
				continue
			}
			switch {
			case appliesToAll(earlier.When):
				v.forbid(path.Index(i), "rule %s is never reached: rule %s (%s) applies to all objects. Give that rule a condition in when, or move "+
					"it to the end", rule.Name, earlier.Name, path.Index(j))
			case equality.Semantic.DeepEqual(earlier.When, rule.When):
				v.forbid(path.Index(i), "rule %s is never reached: rule %s (%s) has the same condition. Merge the two rules, or change a condition",
					rule.Name, earlier.Name, path.Index(j))
			case AppliesWithin(rule.When, earlier.When):
				v.warn(path.Index(i), "rule %[1]s is never reached: rule %[2]s (%[3]s) applies to each object to which rule %[1]s applies. Move rule "+
					"%[1]s before rule %[2]s", rule.Name, earlier.Name, path.Index(j))
			default:
				continue
			}
			break
		}
	}
}

// rule checks a rule. last reports whether no rule follows.
func (v *validator) rule(rule placementv1.Rule, path *field.Path, last bool) {
	if w := rule.When; w != nil {
		v.when(*w, path.Child("when"))
	}
	v.effect(rule, path, last)
	nodes, chooses := rule.Candidates == placementv1.RuleCandidatesNodes, GivesClusters(rule)
	for i, q := range rule.Require {
		v.required(q, path.Child("require").Index(i), nodes)
	}
	for i, p := range rule.Prefer {
		at := path.Child("prefer").Index(i)
		if isProportional(p.Operator) {
			v.proportional(p.Requirement, at, nodes)
		} else {
			v.requirement(p.Requirement, at, nodes)
		}
	}
	if nodes {
		v.nodeTolerations(rule.Tolerate, path.Child("tolerate"))
	}
	if chooses {
		v.order(rule, path)
	}
	if chooses || nodes {
		v.preferences(rule, path, nodes)
	}
	v.impossible(rule, path)
	v.unlikely(rule, path)
	v.spread(rule, path.Child("spread"), nodes)
	v.settings(rule, path.Child("set"), chooses)
	for _, one := range []struct{ name, text string }{{"warn", rule.Warn}, {"deny", rule.Deny}, {"message", rule.Message}} {
		v.template(path.Child(one.name), one.text, false)
	}
}

// decidesBesides reports whether a rule has a field that a rule with deny must not have: any but name, when, warn, and deny.
func decidesBesides(rule placementv1.Rule) bool {
	return selects(rule) || rule.Set != nil || rule.Message != "" || rule.Otherwise != "" || rule.MinGain > 0 || rule.Weights != "" ||
		rule.Candidates != ""
}

// effect refuses the last rule if it decides nothing (an earlier one may exempt objects), and fields that have no effect in a rule: others
// beside deny, message and otherwise without clusters, candidates in a rule that decides nothing, and NextRule in the last rule. The schema
// refuses weights and minGain without prefer.
func (v *validator) effect(rule placementv1.Rule, path *field.Path, last bool) {
	decides := selects(rule) || rule.Set != nil || rule.Warn != "" || rule.Deny != ""
	forClusters := rule.Otherwise != "" || rule.Message != ""
	switch {
	case rule.Deny != "" && decidesBesides(rule):
		v.forbid(path.Child("deny"), "a rule that denies decides nothing else: move the other fields to a rule of its own")
	case !decides && last:
		v.forbid(path, "rule %s decides nothing, and no rule follows from which it could exempt objects: set one of require, prefer, "+
			"tolerate, spread, limit, set, warn and deny", rule.Name)
	case !decides && (forClusters || rule.Candidates != ""):
		v.forbid(path, "rule %s gives no clusters: set require, prefer, tolerate, spread or limit, or remove candidates, message and otherwise",
			rule.Name)
	case !selects(rule) && forClusters:
		v.forbid(path.Child("otherwise"), "rule %s gives no clusters, so that it never finds too few: remove message and otherwise", rule.Name)
	case last && rule.Otherwise == placementv1.RuleOtherwiseNextRule:
		v.forbid(path.Child("otherwise"), "no rule follows: remove NextRule, or add a rule")
	}
}

// nodeTolerations refuses tolerations of pods whose effect Kubernetes does not know.
func (v *validator) nodeTolerations(tolerations []placementv1.RuleToleration, path *field.Path) {
	effects := []string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}
	for i, t := range tolerations {
		if t.Effect != "" && !slices.Contains(effects, t.Effect) {
			v.errs = append(v.errs, field.NotSupported(path.Index(i).Child("effect"), t.Effect, effects))
		}
	}
}

// when checks the condition of a rule: both selectors, the keys of the annotations, and whether the CEL expression compiles.
func (v *validator) when(w placementv1.RuleCondition, path *field.Path) {
	options := metav1validation.LabelSelectorValidationOptions{}
	v.errs = append(v.errs, metav1validation.ValidateLabelSelector(w.ObjectSelector, options, path.Child("objectSelector"))...)
	v.errs = append(v.errs, metav1validation.ValidateLabelSelector(w.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	for i, a := range w.Annotations {
		v.key(path.Child("annotations").Index(i).Child("key"), a.Key)
	}
	if w.Expression != "" {
		if err := celexpression.Check(w.Expression); err != nil {
			v.fail(path.Child("expression"), w.Expression, "%v", err)
		}
	}
}

// key checks the key of a label or annotation, or the name of a resource.
func (v *validator) key(path *field.Path, key string) {
	for _, problem := range validation.IsQualifiedName(key) {
		v.fail(path, key, "%s", problem)
	}
}

// required checks a requirement that clusters or nodes must meet. It refuses Most and Least, which only preferences may have.
func (v *validator) required(q placementv1.Requirement, path *field.Path, nodes bool) {
	if isProportional(q.Operator) {
		// The schema refuses this, too.
		v.forbid(path.Child("operator"), "only prefer has Most and Least, which compare clusters with each other: move this to prefer, "+
			"with a weight")
		return
	}
	v.requirement(q, path, nodes)
}

// requirement checks a requirement, or a preference with another operator than Most and Least. nodes reports whether it is for nodes.
func (v *validator) requirement(q placementv1.Requirement, path *field.Path, nodes bool) {
	v.subject(q.Subject, path)
	if from := q.ValueFrom; from != nil {
		v.subject(placementv1.Subject{Label: from.Label, Annotation: from.Annotation}, path.Child("valueFrom"))
	}
	// The API server of Kubernetes 1.30 reserves the word "as" in the validation rules of a schema, so that they can't check this.
	if q.As != "" && !requirementIsOrdered(q.Operator) {
		v.forbid(path.Child("as"), "only Gt, Gte, Lt, Lte, Most and Least read a number, a quantity, or a version")
		return
	}
	switch ordered := requirementIsOrdered(q.Operator); {
	case ordered && q.ValueFrom == nil && len(q.Values) != 1:
		// The schema refuses this, too. Commands read files that no API server has checked.
		v.fail(path.Child("values"), q.Values, "Gt, Gte, Lt and Lte need exactly one value")
	case nodes:
		v.nodeRequirement(q, path, ordered)
	case q.Allocatable != "" || q.Free != "":
		v.amount(q, path)
	case ordered && (q.Field == placementv1.ClusterFieldZone || q.Field == placementv1.ClusterFieldReady):
		v.errs = append(v.errs, field.NotSupported(path.Child("operator"), q.Operator, []string{"In", "NotIn", "Exists", "DoesNotExist"}))
	case ordered:
		v.compared(q, path)
	case q.Field == placementv1.ClusterFieldReady && q.Operator == placementv1.OperatorExists:
		v.forbid(path.Child("operator"), "clusters that are not ready meet Exists, too: set operator: In, values: [\"true\"]")
	case q.Field == placementv1.ClusterFieldReady:
		for i, value := range q.Values {
			if value != "true" && value != "false" {
				v.errs = append(v.errs, field.NotSupported(path.Child("values").Index(i), value, []string{"false", "true"}))
			}
		}
	}
}

// subject checks the keys and names in the subject of a requirement or a preference.
func (v *validator) subject(s placementv1.Subject, path *field.Path) {
	for _, one := range []struct{ name, key string }{
		{"label", s.Label}, {"annotation", strings.ToLower(s.Annotation)}, {"allocatable", s.Allocatable}, {"free", s.Free},
	} {
		if one.key != "" {
			v.key(path.Child(one.name), one.key)
		}
	}
	v.property(path.Child("property"), s.Property)
	v.property(path.Child("score"), s.Score)
	if object, name, _ := strings.Cut(s.Score, "/"); s.Score != "" && (name == "" || len(validation.IsDNS1123Subdomain(object)) > 0) {
		v.fail(path.Child("score"), s.Score, "must be the names of an AddOnPlacementScore and of a score, joined by a slash, such as "+
			"resource-usage/cpuAvailable")
	}
}

// property refuses a name of a property or a score that has characters that can't be printed, or is not valid UTF-8: OPA's formatter can't
// write it. It permits all other names, also "".
func (v *validator) property(path *field.Path, name string) {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(name) {
		v.fail(path, name, "must have printable characters only")
	}
}

// amount checks a requirement of an allocatable or free quantity. It refuses In and NotIn, another type (as) than Quantity, and for Gt,
// Gte, Lt, and Lte what is no quantity. It permits Exists and DoesNotExist, and negative quantities.
func (v *validator) amount(q placementv1.Requirement, path *field.Path) {
	switch {
	case q.Operator == placementv1.OperatorIn || q.Operator == placementv1.OperatorNotIn:
		// They compare texts, and one quantity has many.
		v.errs = append(v.errs, field.NotSupported(path.Child("operator"), q.Operator,
			[]string{"Exists", "DoesNotExist", "Gt", "Gte", "Lt", "Lte"}))
	case valueType(q) != placementv1.ValueTypeQuantity:
		v.errs = append(v.errs, field.NotSupported(path.Child("as"), q.As, []placementv1.ValueType{placementv1.ValueTypeQuantity}))
	case requirementIsOrdered(q.Operator):
		v.compared(q, path)
	}
}

// versionWord matches names of labels, annotations, and properties that are probably of versions, and not those of conversions.
var versionWord = regexp.MustCompile(`(^|[-_./])version|Version`)

// compared checks that Gt, Gte, Lt, or Lte can read the values and the default that they compare with. It warns if versions are probably
// compared as numbers: if as is not set, the name of the subject contains the word version, and a value is a number with a dot.
func (v *validator) compared(q placementv1.Requirement, path *field.Path) {
	for i, value := range q.Values {
		v.comparable(path.Child("values").Index(i), value, valueType(q))
	}
	if q.ValueFrom != nil && q.ValueFrom.Default != nil {
		v.comparable(path.Child("valueFrom", "default"), *q.ValueFrom.Default, valueType(q))
	}
	if _, name := subjectOf(q.Subject); q.As == "" && valueType(q) == placementv1.ValueTypeNumber && versionWord.MatchString(name) &&
		slices.ContainsFunc(q.Values, func(value string) bool { return numbers.MatchString(value) && strings.Contains(value, ".") }) {
		v.warn(path.Child("operator"), "%s compares numbers, and as a number, 1.9 is greater than 1.30: set as: Version to compare versions, "+
			"or as: Number if these are numbers", q.Operator)
	}
}

// requirementIsOrdered reports whether an operator is Gt, Gte, Lt, or Lte.
func requirementIsOrdered(operator placementv1.RequirementOperator) bool {
	return requirement{Requirement: placementv1.Requirement{Operator: operator}}.ordered()
}

// proportional checks a preference for the most or the least of a value. It refuses one for nodes, for any field, such as version, with
// values, or with the type (as) Version; an allocatable or free quantity must be read as Quantity. It gives no warnings.
func (v *validator) proportional(q placementv1.Requirement, path *field.Path, nodes bool) {
	v.subject(q.Subject, path)
	isAmount := q.Allocatable != "" || q.Free != ""
	switch as := valueType(q); {
	case nodes:
		v.forbid(path.Child("operator"), "the scheduler does not compare nodes with each other: set Gt or Lt with a value, once for each step "+
			"that matters")
	case q.Field == placementv1.ClusterFieldVersion:
		v.forbid(path.Child("field"), "Most and Least read numbers and quantities, and no versions: set operator: Gte with a version, once for "+
			"each step that matters")
	case q.Field != "":
		v.forbid(path.Child("field"), "Most and Least need a number or a quantity, and the field %s is neither: set label, annotation, "+
			"property, allocatable, free or score", q.Field)
	case len(q.Values) > 0 || q.ValueFrom != nil:
		// The schema refuses this, too. Commands read files that no API server has checked.
		v.fail(path.Child("operator"), q.Operator, "Exists, DoesNotExist, Most and Least have no values: remove values and valueFrom")
	case isAmount && as != placementv1.ValueTypeQuantity:
		v.errs = append(v.errs, field.NotSupported(path.Child("as"), q.As, []placementv1.ValueType{placementv1.ValueTypeQuantity}))
	case as == placementv1.ValueTypeVersion:
		v.errs = append(v.errs, field.NotSupported(path.Child("as"), q.As, []placementv1.ValueType{placementv1.ValueTypeNumber,
			placementv1.ValueTypeQuantity}))
	}
}

// comparable checks that Gt, Gte, Lt, and Lte can read a value as a type.
func (v *validator) comparable(path *field.Path, value string, as placementv1.ValueType) {
	switch as {
	case placementv1.ValueTypeVersion:
		if !isVersion(value) {
			v.fail(path, value, formVersion)
		}
	case placementv1.ValueTypeQuantity:
		if _, err := numeral.Quantity(value); err != nil || !quantities.MatchString(value) {
			v.fail(path, value, formQuantity)
		}
	default:
		hint := ""
		switch {
		case numbers.MatchString(value):
			return
		case quantities.MatchString(value):
			hint = ": set as: Quantity to compare quantities"
		case isVersion(value):
			hint = ": set as: Version to compare versions"
		}
		v.fail(path, value, formNumber+"%s", hint)
	}
}

// nodeRequirement refuses a requirement that a node affinity can't express. It permits labels and the fields name, region, and zone, and
// refuses reason, and a type (as) other than Number. For the name, it requires In or NotIn with one value. If ordered is true, which
// reports whether the operator compares by order, values must be integers from 0 on.
func (v *validator) nodeRequirement(q placementv1.Requirement, path *field.Path, ordered bool) {
	if nodeLabel(q.Subject) == "" && q.Field != placementv1.ClusterFieldName {
		v.forbid(path, "with candidates: Nodes, only labels and the fields name, region and zone exist")
		return
	}
	if q.Reason != "" {
		v.forbid(path.Child("reason"), "not with candidates: Nodes: the scheduler, which chooses the nodes, writes the messages")
	}
	if q.As != "" && q.As != placementv1.ValueTypeNumber {
		v.errs = append(v.errs, field.NotSupported(path.Child("as"), q.As, []placementv1.ValueType{placementv1.ValueTypeNumber}))
	}
	if q.Field == placementv1.ClusterFieldName && (q.ValueFrom == nil && len(q.Values) != 1 ||
		q.Operator != placementv1.OperatorIn && q.Operator != placementv1.OperatorNotIn) {
		v.forbid(path.Child("field"), "a node affinity compares the name of a node by In or NotIn with one name: select several nodes by a label")
	}
	values, at := q.Values, path.Child("values")
	if q.ValueFrom != nil && q.ValueFrom.Default != nil {
		values, at = []string{*q.ValueFrom.Default}, path.Child("valueFrom", "default")
	}
	for _, value := range values {
		switch {
		case ordered && !integers.MatchString(value):
			v.fail(at, value, "must be an integer from 0 on: node affinities compare no other numbers")
		case q.Field == placementv1.ClusterFieldName && len(validation.IsDNS1123Subdomain(value)) > 0:
			v.fail(at, value, "must be a valid name of a node")
		case q.Field != placementv1.ClusterFieldName && !ordered:
			v.labelValue(at, value)
		}
	}
}

// spread checks the spread of a rule; nothing if it has none. It refuses invalid keys, minimums of domains and clusters that together
// exceed limit, and, for nodes, all but a label, the fields region and zone, and minDomains. It warns of a spread with limit: 1. It does
// not compare minimums with maximums.
func (v *validator) spread(rule placementv1.Rule, path *field.Path, nodes bool) {
	s := rule.Spread
	if s == nil {
		return
	}
	if s.Label != "" {
		v.key(path.Child("label"), s.Label)
	}
	v.property(path.Child("property"), s.Property)
	minClusters := max(s.MinClusters, 1)
	switch {
	case nodes && (s.Property != "" || nodeLabel(placementv1.Subject{Field: s.Field, Label: s.Label}) == ""):
		v.forbid(path, "nodes are spread by a label, or by the field region or zone")
	case nodes && (s.MaxDomains > 0 || s.MinClusters > 0 || s.MaxClusters > 0):
		v.forbid(path, "the scheduler spreads pods over nodes: only minDomains applies to nodes")
	case rule.Limit > 0 && max(s.MinDomains, 1)*minClusters > rule.Limit:
		v.forbid(path, "%d domains with %d clusters each are more than limit, which is %d", max(s.MinDomains, 1), minClusters, rule.Limit)
	case rule.Limit == 1:
		v.warn(path, "only excludes clusters without a domain, because limit counts the clusters of all domains together, and is 1. For "+
			"one cluster in each domain, remove limit, and set maxClusters: 1; to exclude these clusters, require with operator: Exists")
	}
}

// settings checks the keys of the labels, annotations, and node selectors that a rule sets, constant values of labels, and the placeholders
// in the values. clusters reports whether the rule gives clusters, so that {clusters} is permitted. It warns of {clusters} in a label if
// the rule may choose several. It does not refuse the keys that are Berth's own.
func (v *validator) settings(rule placementv1.Rule, path *field.Path, clusters bool) {
	s := rule.Set
	if s == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		at := path.Child("annotations").Key(key)
		v.key(at, strings.ToLower(key))
		v.template(at, string(s.Annotations[key]), clusters)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		at := path.Child("labels").Key(key)
		v.key(at, key)
		parts := v.template(at, string(s.Labels[key]), clusters)
		if len(parts) == 1 && parts[0].placeholder == "" {
			v.labelValue(at, parts[0].literal)
		}
		for _, p := range parts {
			switch p.placeholder {
			case placeholderClustersJSON:
				v.fail(at, s.Labels[key], "{clusters:json} is never valid in the value of a label: write it to an annotation")
			case placeholderClusters:
				if rule.Limit != 1 {
					v.warn(at, "objects with several clusters can't be decided, because a label can't have a comma: write {clusters} to an annotation, "+
						"or set limit: 1")
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		at := path.Child("nodeSelector").Key(key)
		v.key(at, key)
		v.labelValue(at, string(s.NodeSelector[key]))
	}
}

// template checks a text with placeholders, and returns its parts. clusters is that of parseTemplate.
func (v *validator) template(path *field.Path, text string, clusters bool) []part {
	parts, err := parseTemplate(text, clusters)
	if err != nil {
		v.fail(path, text, "%v", err)
		return nil
	}
	if found := doubled.FindStringSubmatch(text); found != nil {
		v.warn(path, "%s stands for the text {%s}, because doubled braces stand for single ones. Placeholders have single braces, such as {name}",
			found[1], found[2])
	}
	return parts
}

// labelValue checks the value of a label.
func (v *validator) labelValue(path *field.Path, value string) {
	for _, problem := range validation.IsValidLabelValue(value) {
		v.fail(path, value, "%s", problem)
	}
}

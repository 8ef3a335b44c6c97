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
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
)

// Rego functions that convert values, and those that find the free amount of a resource and the score of an add-on. They are undefined for
// values that can't be converted or found.
const (
	functionText     = "text"
	functionNumber   = "number"
	functionQuantity = "quantity"
	functionVersion  = "version"
	functionFree     = "free"
	functionAmount   = "amount"
	functionScore    = "add_on_score"
)

// functionTaintParts is the name of the Rego function that returns the key, the effect, and the value of a taint.
const functionTaintParts = "taint_parts"

// functionLackText is the name of the Rego function that returns the text about what a cluster lacks.
const functionLackText = "lack_text"

// functionInvalid is the name of the Rego function that returns the error about a value of the object that can't be used.
const functionInvalid = "invalid"

// operand is how Rego refers to a value of a cluster that a rule compares, and tests that there is one, with the types that it can have.
type operand struct {
	// ref is the Rego expression of the value, with the variables name and cluster.
	ref string
	// exists is the Rego expression that is true if there is a value.
	exists string
	// list reports whether the value is a list, such as the zones of a cluster.
	list bool
	// boolean reports whether the value is a boolean.
	boolean bool
	// mixed reports whether the value may be a number or a boolean as well as a string.
	mixed bool
	// noun names the value in a denial.
	noun string
}

// Noun returns the name of a subject in a denial, as in "label env", or just the name of a field, as in "region".
func Noun(s placementv1.Subject) string {
	switch {
	case s.Label != "":
		return "label " + s.Label
	case s.Annotation != "":
		return "annotation " + s.Annotation
	case s.Property != "":
		return "property " + s.Property
	case s.Allocatable != "":
		return "allocatable " + s.Allocatable
	case s.Free != "":
		return "free " + s.Free
	case s.Score != "":
		return "score " + s.Score
	}
	return string(s.Field)
}

// operandOf returns the operand for the subject of a requirement, a preference, or a spread.
func (g *generator) operandOf(s placementv1.Subject) operand {
	noun := Noun(s)
	member := func(document, key string) operand {
		ref := fmt.Sprintf("cluster.%s[%s]", document, quote(key))
		return operand{ref: ref, exists: ref, noun: noun}
	}
	switch {
	case s.Label != "":
		return member("labels", s.Label)
	case s.Annotation != "":
		return member("annotations", s.Annotation)
	case s.Property != "":
		out := member("properties", s.Property)
		out.exists, out.mixed = fmt.Sprintf("%s(%s)", g.use(functionText), out.ref), true
		return out
	case s.Score != "":
		object, name, _ := strings.Cut(s.Score, "/")
		ref := fmt.Sprintf("%s(cluster.name, %s, %s)", g.use(functionScore), quote(object), quote(name))
		return operand{ref: ref, exists: fmt.Sprintf("%s(%s)", g.use(functionText), ref), mixed: true, noun: noun}
	case s.Allocatable != "":
		return member("allocatable", s.Allocatable)
	case s.Free != "":
		g.use(functionQuantity)
		ref := fmt.Sprintf("%s(cluster.allocatable[%s], cluster.allocated, %s)", g.use(functionFree), quote(s.Free), quote(s.Free))
		return operand{ref: ref, exists: ref, noun: noun}
	}
	switch s.Field {
	case placementv1.ClusterFieldName:
		return operand{ref: "name", exists: "name", noun: noun}
	case placementv1.ClusterFieldZone:
		return operand{ref: "cluster.zones", exists: "count(cluster.zones) > 0", list: true, noun: noun}
	case placementv1.ClusterFieldReady:
		return operand{ref: "cluster.ready", exists: "cluster.ready in {false, true}", boolean: true, noun: noun}
	default:
		ref := "cluster." + string(s.Field)
		return operand{ref: ref, exists: ref, noun: noun}
	}
}

// requirement renders a requirement or a preference of a rule.
type requirement struct {
	*ruleText
	placementv1.Requirement
	path *field.Path // The path of the requirement or preference.
	// suffix is the part of the names of the requirement's Rego rules that distinguishes them from those of the rule's other requirements and
	// preferences: the field and the number, counted from 1, such as "require_1" or "prefer_2".
	suffix string
	operand
}

// requirementOf returns the renderer of q, the i-th entry of the rule's field list, "require" or "prefer".
func (r *ruleText) requirementOf(list string, i int, q placementv1.Requirement) requirement {
	return requirement{
		ruleText: r, Requirement: q, path: r.path.Child(list).Index(i),
		suffix:  requirementSuffix(list, i),
		operand: r.operandOf(q.Subject),
	}
}

// requirementSuffix returns the suffix of names of Rego rules, such as "require_1", for the i-th entry, counted from 0, of the rule's field
// list.
func requirementSuffix(list string, i int) string { return fmt.Sprintf("%s_%d", list, i+1) }

// fromObject reports whether the requirement compares with a value of the object that is decided.
func (q requirement) fromObject() bool { return q.ValueFrom != nil }

// ordered reports whether the operator is Gt, Gte, Lt, or Lte.
func (q requirement) ordered() bool {
	return slices.Contains([]placementv1.RequirementOperator{
		placementv1.OperatorGt, placementv1.OperatorGte, placementv1.OperatorLt, placementv1.OperatorLte,
	}, q.Operator)
}

// proportional reports whether clusters get a part of the weight of the preference in proportion to their values.
func (q requirement) proportional() bool { return isProportional(q.Operator) }

// isProportional reports whether an operator is Most or Least, which compare the clusters with each other.
func isProportional(operator placementv1.RequirementOperator) bool {
	return operator == placementv1.OperatorMost || operator == placementv1.OperatorLeast
}

// gainName is the name of the Rego rule with the parts of the weight that clusters get in proportion to their values.
func (q requirement) gainName() string { return q.name("gain_" + q.suffix) }

// renderGains renders the Rego rule with the part of the weight of a preference that each eligible cluster gets in proportion to its value.
// A cluster whose value is missing, or can't be read, gets none.
func (q requirement) renderGains(weight int32) {
	lowest, highest := int32(0), weight
	if q.Operator == placementv1.OperatorLeast {
		lowest, highest = weight, 0
	}
	convert := functionNumber
	if q.as() == placementv1.ValueTypeQuantity {
		convert = functionAmount
	}
	amounts := q.name("amount_" + q.suffix)
	q.comment(q.path, "the values of the eligible clusters, and what these get in proportion.")
	q.printf("%s[name] := %s(%s) if {\nsome name in %s\ncluster := data.clusters[name]\n}\n", amounts, q.use(convert),
		q.ref, q.name(partEligible))
	q.printf("\n%s := %s(%s, %d, %d)\n", q.gainName(), language.Scale.Name, amounts, lowest, highest)
}

// gain returns the Rego array with what a cluster gets of the weight of the preference: one number, or none.
func (q requirement) gain(weight int32) string {
	if q.proportional() {
		return fmt.Sprintf("[gain | gain := %s[name]]", q.gainName())
	}
	body := q.met()
	if precondition := q.precondition(); precondition != "" {
		body = precondition + "; " + body
	}
	return fmt.Sprintf("[%d | %s]", weight, body)
}

// as returns the type as which the values of the requirement are read, to compare them by order or to scale them.
func (q requirement) as() placementv1.ValueType { return valueType(q.Requirement) }

// valueType returns the type as which the values of a requirement are read, to compare them by order or to scale them: As or, if that is
// not set, Version for the field version, Quantity for an allocatable or free amount, and Number for all others.
func valueType(q placementv1.Requirement) placementv1.ValueType {
	switch {
	case q.As != "":
		return q.As
	case q.Field == placementv1.ClusterFieldVersion:
		return placementv1.ValueTypeVersion
	case q.Allocatable != "" || q.Free != "":
		return placementv1.ValueTypeQuantity
	default:
		return placementv1.ValueTypeNumber
	}
}

// valueName is the name of the Rego rule with the value of the object that valueFrom names, as a text.
func (q requirement) valueName() string { return q.name("value_" + q.suffix) }

// comparedName is the name of the Rego rule with the value of the object as it is compared: as a text for In and NotIn, and converted for
// Gt, Gte, Lt, and Lte.
func (q requirement) comparedName() string {
	if !q.ordered() {
		return q.valueName()
	}
	return q.name("compared_" + q.suffix)
}

// renderValue renders the Rego rules with the object's value, if the requirement compares with one.
func (q requirement) renderValue() {
	if !q.fromObject() {
		return
	}
	q.comment(q.path.Child("valueFrom"), "")
	if d := q.ValueFrom.Default; d != nil {
		q.printf("default %s := %s\n\n", q.valueName(), quote(*d))
	}
	q.printf("%s := %s\n", q.valueName(), objectRef(q.ValueFrom))
	if q.ordered() {
		q.printf("\n%s := %s(%s)\n", q.comparedName(), q.converter(), q.valueName())
	}
}

// readsObject reports whether the requirement reads a value of the object as a number, a quantity, or a version.
func (q requirement) readsObject() bool { return q.fromObject() && q.ordered() }

// renderUnreadable renders the error for an object whose value can't be read as the type that is compared, if the requirement reads one so.
func (q requirement) renderUnreadable() {
	if !q.readsObject() {
		return
	}
	q.printf("\n%s contains %s if not %s\n", q.name(partUnreadable), q.invalidValue(q.form()), q.comparedName())
}

// form says what the object's value must be so that it can be read as the number, quantity, or version that is compared, such as "must be a
// number, such as 2 or 0.5".
func (q requirement) form() string {
	return map[placementv1.ValueType]string{
		placementv1.ValueTypeNumber: formNumber, placementv1.ValueTypeQuantity: formQuantity, placementv1.ValueTypeVersion: formVersion,
	}[q.as()]
}

// invalidValue returns the Rego expression of an error about the object's value. form says what the value must be. The expression is
// undefined if the object does not have the value.
func (q requirement) invalidValue(form string) string {
	return fmt.Sprintf("%s(%s, %s, %s)", q.use(functionInvalid), quote(objectPath(q.ValueFrom)), q.valueName(), quote(form))
}

// objectPath returns the path of a label or annotation of the object, for messages, such as metadata.labels[tier].
func objectPath(from *placementv1.ObjectValue) string {
	metadata := field.NewPath("metadata")
	if from.Label != "" {
		return metadata.Child("labels").Key(from.Label).String()
	}
	return metadata.Child("annotations").Key(from.Annotation).String()
}

// objectRef returns the Rego reference to a label or annotation of the object.
func objectRef(from *placementv1.ObjectValue) string {
	if from.Label != "" {
		return fmt.Sprintf("input.metadata.labels[%s]", quote(from.Label))
	}
	return fmt.Sprintf("input.metadata.annotations[%s]", quote(from.Annotation))
}

// objectNoun returns the name of a label or annotation of the object in a denial, as in "label env".
func objectNoun(from *placementv1.ObjectValue) string {
	if from.Label != "" {
		return "label " + from.Label
	}
	return "annotation " + from.Annotation
}

// converter returns the name of the Rego function that converts values to the type that is compared.
func (q requirement) converter() string {
	switch q.as() {
	case placementv1.ValueTypeVersion:
		return q.use(functionVersion)
	case placementv1.ValueTypeQuantity:
		return q.use(functionQuantity)
	default:
		return q.use(functionNumber)
	}
}

// precondition returns a Rego expression without variables that is true if the object has the value that clusters are compared with.
// Otherwise no cluster can meet the requirement. The result is empty for requirements that do not read the object.
func (q requirement) precondition() string {
	if !q.fromObject() {
		return ""
	}
	return q.comparedName()
}

// met returns the Rego expression that is true if a cluster meets the requirement, provided that the precondition is true. Its only
// variables are name and cluster.
func (q requirement) met() string {
	switch q.Operator {
	case placementv1.OperatorExists:
		return q.exists
	case placementv1.OperatorDoesNotExist:
		return negated(q.exists)
	case placementv1.OperatorIn:
		return q.isOneOf()
	case placementv1.OperatorNotIn:
		return negated(q.isOneOf())
	}
	symbol := map[placementv1.RequirementOperator]string{
		placementv1.OperatorGt: ">", placementv1.OperatorGte: ">=", placementv1.OperatorLt: "<", placementv1.OperatorLte: "<=",
	}[q.Operator]
	value := q.comparedName()
	if !q.fromObject() {
		value = constant(q.as(), q.Values[0])
	}
	ref := q.ref
	if q.mixed && q.as() == placementv1.ValueTypeVersion {
		ref = fmt.Sprintf("%s(%s)", functionText, ref)
	}
	left := fmt.Sprintf("%s(%s)", q.converter(), ref)
	if q.as() == placementv1.ValueTypeQuantity {
		return fmt.Sprintf("k8s.quantity.compare(%s, %s) %s 0", left, value, symbol)
	}
	return fmt.Sprintf("%s %s %s", left, symbol, value)
}

// unmet returns the Rego expression that is true if a cluster does not meet the requirement.
func (q requirement) unmet() string { return negated(q.met()) }

// negated returns the negation of a Rego expression; of a negation, it returns the negated expression. OPA evaluates what is passed to a
// function or to `in` before the negation. So `not` alone would be undefined for a value that is missing, and not true.
func negated(expression string) string {
	if rest, isNegated := strings.CutPrefix(expression, negation); isNegated {
		return strings.TrimSuffix(rest, negationEnd)
	}
	if rest, isNegated := strings.CutPrefix(expression, "not "); isNegated {
		return rest
	}
	if strings.ContainsAny(expression, "( ") {
		return negation + expression + negationEnd
	}
	return "not " + expression
}

const (
	negation    = "count([1 | "
	negationEnd = "]) == 0"
)

// isOneOf returns the Rego expression that is true if the cluster's value is one of the values that In and NotIn compare with.
func (q requirement) isOneOf() string {
	values := set(q.constants())
	if q.fromObject() {
		values = "{" + q.valueName() + "}"
	}
	ref := q.ref
	switch {
	case q.list:
		return fmt.Sprintf("count(%s & {zone | some zone in cluster.zones}) > 0", values)
	case q.fromObject() && q.mixed:
		ref = fmt.Sprintf("%s(%s)", functionText, ref)
	case q.fromObject() && q.boolean:
		ref = fmt.Sprintf("%s(%s)", q.use(functionText), ref)
	}
	return ref + " in " + values
}

// constants returns the values of In and NotIn as Rego terms: texts or, for the field ready, booleans. For a property or a score, which can
// be a string, a number, or a boolean, they include the number or boolean that a text stands for.
func (q requirement) constants() []string {
	var out []string
	for _, value := range q.Values {
		isBoolean := value == "true" || value == "false"
		if !q.boolean {
			out = append(out, quote(value))
		}
		if isBoolean && (q.boolean || q.mixed) {
			out = append(out, value)
		}
		if n, ok := canonicalNumber(value); ok && q.mixed {
			out = append(out, n)
		}
	}
	return out
}

// canonicalNumber returns the Rego number that OPA prints as the text; false if there is none.
func canonicalNumber(text string) (string, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !numbers.MatchString(text) || strconv.FormatFloat(n, 'f', -1, 64) != text {
		return "", false
	}
	return text, true
}

// constant returns a value of Gt, Gte, Lt, or Lte as a Rego term: a number for Number, a string for Quantity, and an array of three numbers
// for Version.
func constant(as placementv1.ValueType, value string) string {
	switch as {
	case placementv1.ValueTypeVersion:
		return fmt.Sprintf("[%s]", strings.Join(versionNumbers(value), ", "))
	case placementv1.ValueTypeQuantity:
		return quote(value)
	default:
		return plainNumber(value)
	}
}

// plainNumber returns a decimal number without what JSON's numbers do not have: a plus sign, and zeros in front. For "+07.50", this is
// "7.50".
func plainNumber(text string) string {
	digits, negative := strings.CutPrefix(text, "-")
	digits = strings.TrimPrefix(digits, "+")
	whole, fraction, hasFraction := strings.Cut(digits, ".")
	whole = cmp.Or(strings.TrimLeft(whole, "0"), "0")
	if hasFraction {
		whole += "." + fraction
	}
	if negative {
		return "-" + whole
	}
	return whole
}

// lack is a reason why a cluster is not eligible: the Rego expression of its text, and the one that is true for clusters with the reason.
type lack struct{ text, condition string }

// lacks returns the reasons why clusters do not meet the requirement: that the object lacks the value to compare with, if that has no
// default, and then that the cluster does not meet the requirement, for whatever cause. For each cluster, the first one whose condition is
// true counts.
func (q requirement) lacks() []lack {
	var out []lack
	if q.fromObject() && q.ValueFrom.Default == nil {
		out = append(out, lack{quote("not comparable: the object has no " + objectNoun(q.ValueFrom)), "not " + q.valueName()})
	}
	return append(out, lack{q.reason(), q.unmet()})
}

// reason returns the Rego expression of the text that says why a cluster does not meet the requirement: the field reason or, if that is not
// set, words about the subject and the values, which may be one of the object.
func (q requirement) reason() string {
	switch {
	case q.Reason != "":
		return quote(q.Reason)
	case q.fromObject():
		text := strings.ReplaceAll(q.wording("\x00", 1), "%", "%%")
		return fmt.Sprintf("sprintf(%s, [%s])", quote(strings.ReplaceAll(text, "\x00", "%s")), q.valueName())
	default:
		return quote(q.wording(strings.Join(q.Values, ", "), len(q.Values)))
	}
}

// Must returns what a cluster that meets a requirement has, as a verb without its subject, such as "must be at least 3". object is the
// object as its developer requested it. Must returns "" if the object lacks the value to compare with.
func Must(q placementv1.Requirement, object map[string]any) string {
	values := q.Values
	if from := q.ValueFrom; from != nil {
		value, ok := objectValue(object, from)
		if !ok && from.Default == nil {
			return ""
		}
		if !ok {
			value = *from.Default
		}
		values = []string{value}
	}
	text := strings.Join(values, ", ")
	switch q.Operator {
	case placementv1.OperatorExists:
		return "must exist"
	case placementv1.OperatorDoesNotExist:
		return "must not exist"
	case placementv1.OperatorIn:
		if len(values) > 1 {
			return "must be one of " + text
		}
		return "must be " + text
	case placementv1.OperatorNotIn:
		if len(values) > 1 {
			return "must be none of " + text
		}
		return "must not be " + text
	}
	return "must be " + relations[q.Operator] + " " + text
}

// relations are the words for Gt, Gte, Lt, and Lte in messages, such as "above" for Gt.
var relations = map[placementv1.RequirementOperator]string{
	placementv1.OperatorGt: "above", placementv1.OperatorGte: "at least", placementv1.OperatorLt: "below", placementv1.OperatorLte: "at most",
}

// wording returns the words that follow the number of clusters that do not meet the requirement in a denial, such as "with label env not
// prod". values are the values that are compared, as one text, and n is their number.
func (q requirement) wording(values string, n int) string {
	switch q.Operator {
	case placementv1.OperatorExists:
		return "without " + q.noun
	case placementv1.OperatorDoesNotExist:
		return "with " + q.noun
	case placementv1.OperatorIn:
		if n > 1 {
			return fmt.Sprintf("with %s none of %s", q.noun, values)
		}
		return fmt.Sprintf("with %s not %s", q.noun, values)
	case placementv1.OperatorNotIn:
		if n > 1 {
			return fmt.Sprintf("with %s one of %s", q.noun, values)
		}
		return fmt.Sprintf("with %s %s", q.noun, values)
	}
	return fmt.Sprintf("with %s not %s %s", q.noun, relations[q.Operator], values)
}

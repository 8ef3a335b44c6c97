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
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Demand is the value of an object with which a requirement compares clusters.
type Demand struct {
	// Source is the path of the label or annotation of the object, such as "metadata.labels[tier]".
	Source string
	// Value is the value that the object has or, if IsDefault, the default of the requirement.
	Value     string
	IsDefault bool
	// IsMissing reports whether the object does not have the value, and the requirement no default. Value is then empty.
	IsMissing bool
	// form says what Value must be so that the requirement can read it, such as "must be a number, such as 2 or 0.5"; empty if any text will
	// do.
	form string
	// isNumber reports whether the requirement compares Value as a number, by Gt, Gte, Lt, or Lte. It is false for other types and operators.
	isNumber bool
	// text and compared are the names of the Rego rules with Value: as a text, and as what the requirement compares. For In and NotIn, they
	// are the same name.
	text, compared string
}

// DemandOf returns the value of an object with which the i-th requirement of a rule compares clusters. object is the object as its
// developer requested it. ok is false if the requirement compares with no value of the object.
func DemandOf(rule placementv1.Rule, i int, object map[string]any) (d Demand, ok bool) {
	r := &ruleText{rule: rule}
	q := requirement{ruleText: r, Requirement: rule.Require[i], suffix: requirementSuffix("require", i)}
	if !q.fromObject() {
		return Demand{}, false
	}
	out := Demand{Source: objectPath(q.ValueFrom), text: q.valueName(), compared: q.comparedName()}
	if q.ordered() {
		out.form, out.isNumber = q.form(), q.as() == placementv1.ValueTypeNumber
	}
	value, has := objectValue(object, q.ValueFrom)
	switch {
	case has:
		out.Value = value
	case q.ValueFrom.Default != nil:
		out.Value, out.IsDefault = *q.ValueFrom.Default, true
	default:
		out.IsMissing = true
	}
	return out, true
}

// objectValue returns the value of the label or annotation of an object that a requirement compares clusters with; false if the object
// lacks it.
func objectValue(object map[string]any, from *placementv1.ObjectValue) (string, bool) {
	part, key := "labels", from.Label
	if from.Annotation != "" {
		part, key = "annotations", from.Annotation
	}
	value, has, _ := unstructured.NestedString(object, "metadata", part, key)
	return value, has
}

// Names reports whether an expression of the rule's module is just the name of one of the two Rego rules whose value is d.Value.
func (d Demand) Names(expression string) bool {
	return expression == d.text || expression == d.compared
}

// In returns the given expression of the rule's module, in which d.Value replaces the names of the two Rego rules whose value it is: as a
// number where the requirement compares it as one, and everywhere else as a string, also for quantities and versions.
func (d Demand) In(expression string) string {
	value := quote(d.Value)
	compared := value
	if d.isNumber && numbers.MatchString(d.Value) {
		compared = d.Value
	}
	return identifiers.ReplaceAllStringFunc(expression, func(name string) string {
		switch name {
		case d.compared:
			return compared
		case d.text:
			return value
		default:
			return name
		}
	})
}

// identifiers matches the names in a Rego expression.
var identifiers = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// Unusable returns the message why the requirement can compare no cluster with the value: the object does not have it, or, in all other
// cases, that it can't be read. Call it only if the requirement's Rego rule with the value is undefined; it does not check the value
// itself.
func (d Demand) Unusable() string {
	if d.IsMissing {
		return fmt.Sprintf("compares with %s, which the object does not have", d.Source)
	}
	return fmt.Sprintf("can't read %s of the object: %.64q %s", d.Source, d.Value, d.form)
}

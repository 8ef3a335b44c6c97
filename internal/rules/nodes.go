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
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// metadataName is the only field of nodes that node affinities can match, besides labels.
const metadataName = "metadata.name"

// nodeLabel returns the key of the label of nodes that a subject stands for: that of its label, or the well-known one for the fields region
// and zone. It returns "" for the name of a node, and for what nodes do not have, such as properties.
func nodeLabel(s placementv1.Subject) string {
	switch s.Field {
	case placementv1.ClusterFieldRegion:
		return corev1.LabelTopologyRegion
	case placementv1.ClusterFieldZone:
		return corev1.LabelTopologyZone
	default:
		return s.Label
	}
}

// renderNodes renders the scheduling fields that pods get by a rule for nodes, and the denial of objects without a value that nodes are
// compared with, or with one that no node can have.
func (r *ruleText) renderNodes() {
	var require []requirement
	for i, q := range r.rule.Require {
		require = append(require, r.requirementOf("require", i, q))
	}
	for i, p := range r.rule.Prefer {
		r.requirementOf("prefer", i, p.Requirement).renderNodeValue()
	}
	for _, q := range require {
		q.renderNodeValue()
		q.renderNodeDenial()
	}
	if len(require) > 0 {
		r.comment(r.path.Child("require"), "the nodes on which the pods may run.")
		var expressions, fields []item
		var preconditions []string
		for _, q := range require {
			if one := (item{q.path, q.nodeExpression()}); q.Field == placementv1.ClusterFieldName {
				fields = append(fields, one)
			} else {
				expressions = append(expressions, one)
			}
			if q.fromObject() {
				preconditions = append(preconditions, q.nodeComparedName())
			}
		}
		r.printf("%s := %s", r.name("term"), nodeTerm(expressions, fields))
		if len(preconditions) > 0 {
			r.printf(" if {\n%s\n}", strings.Join(preconditions, "\n"))
		}
		r.printf("\n\nscheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution := {\"nodeSelectorTerms\": [%s]} if "+
			"{\n%s\n}\n", r.name("term"), r.decided())
	}
	if len(r.rule.Prefer) > 0 {
		r.renderNodePreferences()
	}
	r.renderNodeTolerations()
	r.renderNodeSpread()
}

// nodeTerm returns a Rego object that is a term of a node selector, with the given match expressions and match fields.
func nodeTerm(expressions, fields []item) string {
	var members []string
	if len(expressions) > 0 {
		members = append(members, `"matchExpressions": `+list(expressions))
	}
	if len(fields) > 0 {
		members = append(members, `"matchFields": `+list(fields))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// renderNodePreferences renders the preferred node affinity. A preference for a value that the object does not have, or that no node can
// have, is left out.
func (r *ruleText) renderNodePreferences() {
	var terms []item
	for i, p := range r.rule.Prefer {
		q := r.requirementOf("prefer", i, p.Requirement)
		expressions, fields := []item{{q.path, q.nodeExpression()}}, []item(nil)
		if q.Field == placementv1.ClusterFieldName {
			expressions, fields = nil, expressions
		}
		text := fmt.Sprintf("{\"weight\": %d, \"preference\": %s}", p.Weight, nodeTerm(expressions, fields))
		if q.fromObject() {
			text += " | " + q.nodeComparedName()
		}
		terms = append(terms, item{q.path, "[" + text + "]"})
	}
	r.comment(r.path.Child("prefer"), "the nodes on which the pods run rather.")
	r.printf("scheduling.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution := array.flatten(%s) if {\n%s\n}\n",
		list(terms), r.decided())
}

// anyInteger is the greatest int64. With Lt and this value, a node affinity matches any integer.
const anyInteger = "9223372036854775807"

// nodeOperator returns the operator (Gt or Lt) and the number with which a node affinity compares as Gt, Gte, Lt, or Lte does with n, which
// is not negative and has at most 18 digits. Gt and Lt stay, Gte becomes Gt with n-1, and Lte becomes Lt with n+1. Gte with 0 becomes Lt
// with anyInteger, which is true of each integer. Labels with negative numbers do not count.
func nodeOperator(operator placementv1.RequirementOperator, n int64) (affinity placementv1.RequirementOperator, number string) {
	switch {
	case operator == placementv1.OperatorGte && n == 0:
		return placementv1.OperatorLt, anyInteger
	case operator == placementv1.OperatorGte:
		return placementv1.OperatorGt, strconv.FormatInt(n-1, 10)
	case operator == placementv1.OperatorLte:
		return placementv1.OperatorLt, strconv.FormatInt(n+1, 10)
	default:
		return operator, strconv.FormatInt(n, 10)
	}
}

// nodeComparedName is the name of the Rego rule with the operator and the values of the node affinity for the object's value. It is
// undefined for a value that no node can have.
func (q requirement) nodeComparedName() string { return q.name("compared_" + q.suffix) }

// nodeValue returns the regular expression of the values that the requirement can compare nodes with, and what such a value must be, for
// the message by which an object with another value in its label or annotation is denied. They are those of integers from 0 on for Gt, Gte,
// Lt, and Lte, of names of nodes for the field name, and otherwise of values of labels.
func (q requirement) nodeValue() (pattern, form string) {
	switch {
	case q.ordered():
		return integerPattern, "must be an integer from 0 on"
	case q.Field == placementv1.ClusterFieldName:
		return nodeNamePattern, "must be a valid name of a node"
	default:
		return labelValuePattern, "must be a value that labels can have"
	}
}

// renderNodeValue renders the Rego rules with the object's value, as a text and as the operator and values of a node affinity, if the
// requirement compares with one.
func (q requirement) renderNodeValue() {
	if !q.fromObject() {
		return
	}
	q.comment(q.path.Child("valueFrom"), "")
	if d := q.ValueFrom.Default; d != nil {
		q.printf("default %s := %s\n\n", q.valueName(), quote(*d))
	}
	q.printf("%s := %s\n", q.valueName(), objectRef(q.ValueFrom))
	pattern, _ := q.nodeValue()
	render := func(operator placementv1.RequirementOperator, value, condition string) {
		q.printf("\n%s := {\"operator\": %s, \"values\": [%s]} if {\nregex.match(`%s`, %s)\n%s}\n",
			q.nodeComparedName(), quote(string(operator)), value, pattern, q.valueName(), condition)
	}
	switch q.Operator {
	case placementv1.OperatorGte:
		render(placementv1.OperatorGt, fmt.Sprintf("format_int(to_number(%s) - 1, 10)", q.valueName()),
			fmt.Sprintf("to_number(%s) > 0\n", q.valueName()))
		render(placementv1.OperatorLt, quote(anyInteger), fmt.Sprintf("to_number(%s) == 0\n", q.valueName()))
	case placementv1.OperatorLte:
		render(placementv1.OperatorLt, fmt.Sprintf("format_int(to_number(%s) + 1, 10)", q.valueName()), "")
	default:
		render(q.Operator, q.valueName(), "")
	}
}

// renderNodeDenial renders the denial of objects that lack the value that nodes are compared with, or have one that no node can have.
func (q requirement) renderNodeDenial() {
	if !q.fromObject() {
		return
	}
	prefix := "rule " + q.rule.Name + ": "
	decides := "decides == " + quote(q.rule.Name)
	if q.ValueFrom.Default == nil {
		q.printf("\nerrors contains %s if {\n%s\nnot %s\n}\n", quote(prefix+"the object has no "+objectNoun(q.ValueFrom)), decides, q.valueName())
	}
	_, form := q.nodeValue()
	q.printf("\nerrors contains concat(\"\", [%s, %s]) if {\n%s\nnot %s\n}\n", quote(prefix), q.invalidValue(form),
		decides, q.nodeComparedName())
}

// nodeExpression returns the requirement as a Rego object that is a requirement of a node selector.
func (q requirement) nodeExpression() string {
	key := nodeLabel(q.Subject)
	if q.Field == placementv1.ClusterFieldName {
		key = metadataName
	}
	operator, values := q.Operator, quoted(q.Values)
	switch {
	case q.Operator == placementv1.OperatorExists || q.Operator == placementv1.OperatorDoesNotExist:
		return fmt.Sprintf("{\"key\": %s, \"operator\": %s}", quote(key), quote(string(operator)))
	case q.fromObject():
		return fmt.Sprintf("object.union({\"key\": %s}, %s)", quote(key), q.nodeComparedName())
	case q.ordered():
		// validate has checked the number.
		n, _ := strconv.ParseInt(q.Values[0], 10, 64)
		var number string
		operator, number = nodeOperator(q.Operator, n)
		values = []string{quote(number)}
	}
	return fmt.Sprintf("{\"key\": %s, \"operator\": %s, \"values\": [%s]}", quote(key), quote(string(operator)), strings.Join(values, ", "))
}

// renderNodeTolerations renders the tolerations that pods get by tolerate of a rule for nodes.
func (r *ruleText) renderNodeTolerations() {
	if len(r.rule.Tolerate) == 0 {
		return
	}
	var out []item
	for i, t := range r.rule.Tolerate {
		var members []string
		add := func(name, value string) {
			if value != "" {
				members = append(members, fmt.Sprintf("%s: %s", quote(name), quote(value)))
			}
		}
		add("key", t.Key)
		add("operator", string(t.Operator))
		add("value", t.Value)
		add("effect", t.Effect)
		out = append(out, item{r.path.Child("tolerate").Index(i), "{" + strings.Join(members, ", ") + "}"})
	}
	r.comment(r.path.Child("tolerate"), "")
	r.printf("scheduling.tolerations := %s if {\n%s\n}\n", list(out), r.decided())
}

// renderNodeSpread renders the topology spread constraint that pods get by spread of a rule for nodes; nothing without spread. Its maxSkew
// is always 1, and its whenUnsatisfiable DoNotSchedule.
func (r *ruleText) renderNodeSpread() {
	s := r.rule.Spread
	if s == nil {
		return
	}
	key := nodeLabel(placementv1.Subject{Field: s.Field, Label: s.Label})
	minDomains := ""
	if s.MinDomains > 0 {
		minDomains = fmt.Sprintf(", \"minDomains\": %d", s.MinDomains)
	}
	r.comment(r.path.Child("spread"), "")
	r.printf("scheduling.topologySpreadConstraints := [{\"maxSkew\": 1, \"topologyKey\": %s, \"whenUnsatisfiable\": \"DoNotSchedule\", "+
		"\"labelSelector\": %s%s}] if {\n%s\n}\n",
		quote(key), r.use("pod_selector"), minDomains, r.decided())
}

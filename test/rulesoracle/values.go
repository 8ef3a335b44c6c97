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

package rulesoracle

import (
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// meets reports whether a cluster meets a requirement.
func meets(r *placementv1.Requirement, object, cluster map[string]any) bool {
	values := valuesOf(r.Subject, cluster)
	switch r.Operator {
	case placementv1.OperatorExists:
		return len(values) > 0
	case placementv1.OperatorDoesNotExist:
		return len(values) == 0
	}
	wanted, ok := operands(r, object)
	if !ok {
		return false
	}
	listed := func(value string) bool { return slices.Contains(wanted, value) }
	switch r.Operator {
	case placementv1.OperatorIn:
		return slices.ContainsFunc(values, listed)
	case placementv1.OperatorNotIn:
		return !slices.ContainsFunc(values, listed)
	}
	if len(values) == 0 {
		return false
	}
	order, ok := compare(valueType(r), values[0], wanted[0])
	return ok && satisfies(r.Operator, order)
}

// satisfies reports whether the order of a value and an operand is one that an operator requires.
func satisfies(operator placementv1.RequirementOperator, order int) bool {
	switch operator {
	case placementv1.OperatorGt:
		return order > 0
	case placementv1.OperatorGte:
		return order >= 0
	case placementv1.OperatorLt:
		return order < 0
	}
	return order <= 0
}

// operands returns the values that a requirement compares with. ok is false if the object does not have the value, and there is
// no default.
func operands(r *placementv1.Requirement, object map[string]any) (values []string, ok bool) {
	if r.ValueFrom == nil {
		return r.Values, true
	}
	value, ok := metadata(object, "labels")[r.ValueFrom.Label]
	if r.ValueFrom.Annotation != "" {
		value, ok = metadata(object, "annotations")[r.ValueFrom.Annotation]
	}
	if !ok && r.ValueFrom.Default != nil {
		value, ok = *r.ValueFrom.Default, true
	}
	return []string{value}, ok
}

// unreadable returns the errors of an object with values that the requirements of a rule for clusters can't read. A value that the object
// does not have can be read: no cluster meets such a requirement.
func unreadable(rule *placementv1.Rule, object map[string]any) []string {
	if rule.Candidates == placementv1.RuleCandidatesNodes {
		return nil
	}
	var out []string
	for i := range rule.Require {
		r := &rule.Require[i]
		values, ok := operands(r, object)
		if r.ValueFrom == nil || !ok || !slices.Contains(orders, r.Operator) {
			continue
		}
		if _, readable := compare(valueType(r), values[0], values[0]); !readable {
			out = append(out, beginOfDenial(rule, object)+invalidValue(r.ValueFrom, values[0], forms[valueType(r)]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// valueType returns how a requirement reads values.
func valueType(r *placementv1.Requirement) placementv1.ValueType {
	switch {
	case r.As != "":
		return r.As
	case r.Field == placementv1.ClusterFieldVersion:
		return placementv1.ValueTypeVersion
	case r.Allocatable != "" || r.Free != "":
		return placementv1.ValueTypeQuantity
	}
	return placementv1.ValueTypeNumber
}

// valuesOf returns the values of a cluster that a subject names; none if the value is missing.
func valuesOf(s placementv1.Subject, cluster map[string]any) []string {
	member := func(field, key string) any {
		values, _ := cluster[field].(map[string]any)
		return values[key]
	}
	switch {
	case s.Field == placementv1.ClusterFieldZone:
		zones, _ := cluster["zones"].([]any)
		var out []string
		for _, zone := range zones {
			out = append(out, scalar(zone)...)
		}
		return out
	case s.Field != "":
		return scalar(cluster[string(s.Field)])
	case s.Label != "":
		return scalar(member("labels", s.Label))
	case s.Annotation != "":
		return scalar(member("annotations", s.Annotation))
	case s.Property != "":
		return scalar(member("properties", s.Property))
	case s.Score != "":
		return scalar(member(addOnScores, s.Score))
	case s.Allocatable != "":
		return scalar(member("allocatable", s.Allocatable))
	}
	if _, reported := cluster["allocated"]; !reported {
		return nil
	}
	return free(scalar(member("allocatable", s.Free)), scalar(member("allocated", s.Free)))
}

// free returns what is allocatable less what is allocated, in canonical form. Nothing allocated counts as zero.
func free(allocatable, allocated []string) []string {
	if len(allocatable) == 0 {
		return nil
	}
	left, err := quantity(allocatable[0])
	if err != nil {
		return nil
	}
	for _, text := range allocated {
		used, err := quantity(text)
		if err != nil {
			return nil
		}
		left.Sub(used)
	}
	return []string{left.String()}
}

// scalar returns the text of a string, a number, or a boolean. Every other value counts as missing.
func scalar(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case bool:
		return []string{strconv.FormatBool(v)}
	case int64:
		return []string{strconv.FormatInt(v, 10)}
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}
	}
	return nil
}

// compare compares two texts that are read as a type. ok is false if one of them can't be read.
func compare(as placementv1.ValueType, a, b string) (order int, ok bool) {
	switch as {
	case placementv1.ValueTypeQuantity:
		x, err := quantity(a)
		if err != nil {
			return 0, false
		}
		y, err := quantity(b)
		return x.Cmp(y), err == nil
	case placementv1.ValueTypeVersion:
		x, y := version(a), version(b)
		if x == nil || y == nil {
			return 0, false
		}
		return slices.CompareFunc(x, y, (*big.Int).Cmp), true
	}
	x, y := number(a), number(b)
	if x == nil || y == nil {
		return 0, false
	}
	return x.Cmp(y), true
}

var (
	// longNumber matches numbers with too many digits, and exponents with too many.
	longNumber  = regexp.MustCompile(`[0-9]{31}|[eE][+-]?[0-9]{3}`)
	numberForm  = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`)
	versionForm = regexp.MustCompile(`^v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?`)
)

// quantity reads a quantity. The parser of Kubernetes takes a unit alone for zero.
func quantity(text string) (resource.Quantity, error) {
	if !strings.ContainsAny(text, "0123456789") || longNumber.MatchString(text) {
		return resource.Quantity{}, resource.ErrNumeric
	}
	return resource.ParseQuantity(text)
}

// number reads a decimal number; nil if the text is none.
func number(text string) *big.Rat {
	if !numberForm.MatchString(text) || longNumber.MatchString(text) {
		return nil
	}
	out, _ := new(big.Rat).SetString(text)
	return out
}

// amountOf returns the value of a cluster that a preference for the most or the least compares; nil if it is missing or can't be read.
func amountOf(r *placementv1.Requirement, cluster map[string]any) *big.Rat {
	values := valuesOf(r.Subject, cluster)
	if len(values) == 0 {
		return nil
	}
	if valueType(r) != placementv1.ValueTypeQuantity {
		return number(values[0])
	}
	amount, err := quantity(values[0])
	if err != nil {
		return nil
	}
	out, _ := new(big.Rat).SetString(amount.AsDec().String())
	return out
}

// version reads the three numbers of a version; nil if the text does not begin with one.
func version(text string) []*big.Int {
	found := versionForm.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	out := make([]*big.Int, 0, 3)
	for _, digits := range found[1:] {
		if longNumber.MatchString(digits) {
			return nil
		}
		part, ok := new(big.Int).SetString(digits, 10)
		if !ok {
			part = new(big.Int)
		}
		out = append(out, part)
	}
	return out
}

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

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	sigsjson "sigs.k8s.io/json"
)

// ParseScheduling strictly decodes a value of the rule scheduling, which holds members of a pod's spec, and validates
// it with the API server's own validation.
func ParseScheduling(value map[string]any) (*corev1.PodSpec, error) {
	spec, err := decodeScheduling(value)
	if err != nil {
		return nil, err
	}
	invalid, err := invalidScheduling(spec)
	if err != nil {
		return nil, err
	}
	if len(invalid) > 0 {
		problems := make([]string, len(invalid))
		for i, problem := range invalid {
			problems[i] = problem.Error()
		}
		return nil, errors.New(strings.Join(problems, "; "))
	}
	return spec, nil
}

func decodeScheduling(value map[string]any) (*corev1.PodSpec, error) {
	spec := &corev1.PodSpec{}
	targets := map[string]any{
		"nodeSelector": &spec.NodeSelector, "affinity": &spec.Affinity, "tolerations": &spec.Tolerations,
		"topologySpreadConstraints": &spec.TopologySpreadConstraints, "priorityClassName": &spec.PriorityClassName, "schedulerName": &spec.SchedulerName,
	}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		target, known := targets[name]
		if !known {
			return nil, fmt.Errorf("%s: unknown; known are %s", name, strings.Join(slices.Sorted(maps.Keys(targets)), ", "))
		}
		if err := decodeStrictly(value[name], target); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if text, isText := target.(*string); isText && *text == "" {
			return nil, fmt.Errorf("%s: must not be empty", name)
		}
	}
	return spec, nil
}

// decodeStrictly decodes a value into an API type. It rejects fields that the type does not have.
func decodeStrictly(value, into any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding as JSON: %w", err)
	}
	if string(text) == "null" {
		return errors.New("must not be null")
	}
	unknown, err := sigsjson.UnmarshalStrict(text, into)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return errors.Join(unknown...)
}

// allowed enables newer fields that some API servers accept. Others reject them with an error of their own.
var allowed = validation.PodValidationOptions{
	AllowMatchLabelKeysInPodTopologySpread:  true,
	AllowTaintTolerationComparisonOperators: true,
}

// invalidScheduling applies the API server's validation to the members of a spec that a policy may set.
func invalidScheduling(spec *corev1.PodSpec) (field.ErrorList, error) {
	var internal core.PodSpec
	if err := corev1conversion.Convert_v1_PodSpec_To_core_PodSpec(spec, &internal, nil); err != nil {
		return nil, err
	}
	problems := validation.ValidatePodSpec(&internal, &metav1.ObjectMeta{}, nil, allowed)
	return slices.DeleteFunc(problems, func(problem *field.Error) bool {
		// The spec lacks all other members of a pod's spec. Errors about them are not the policy's fault.
		member, _, _ := strings.Cut(problem.Field, ".")
		member, _, _ = strings.Cut(member, "[")
		_, known := schedulingTypes[member]
		return !known
	}), nil
}

// checkScheduled validates the constants in the value of a clause of the rule scheduling, as ParseScheduling validates
// decisions. The types of the value must be valid.
func (c *contractChecker) checkScheduled(rule *ast.Rule, term *ast.Term) {
	constant, whole := constantOf(term)
	if rule.Head.RuleKind() == ast.MultiValue {
		constant = []any{constant}
	}
	path := rule.Head.Ref()[1:]
	for _, part := range slices.Backward(path) {
		name, ok := part.Value.(ast.String)
		if !ok {
			return
		}
		constant = map[string]any{string(name): constant}
	}
	object, ok := constant.(map[string]any)
	if !ok {
		return
	}
	spec, err := decodeScheduling(object)
	if err != nil {
		if whole {
			c.fail("%s.%v", c.rule, err)
		}
		return
	}
	invalid, err := invalidScheduling(spec)
	if err != nil {
		return
	}
	for _, problem := range invalid {
		// Other clauses may set the missing parts.
		missing := len(path) > 1 && problem.Type == field.ErrorTypeRequired
		// Parts that are not constant are empty here.
		unknown := !whole && (problem.Type != field.ErrorTypeNotSupported || fmt.Sprint(problem.BadValue) == "")
		if !missing && !unknown {
			c.fail("%s.%v", c.rule, problem)
		}
	}
}

// constantOf returns the value of a term, with nil in place of parts that are not constant. The result whole reports
// whether the whole term is constant. Entries whose keys are not constant strings are omitted.
func constantOf(term *ast.Term) (value any, whole bool) {
	whole = true
	list := func(each func(func(*ast.Term))) []any {
		out := []any{}
		each(func(t *ast.Term) {
			member, ok := constantOf(t)
			out, whole = append(out, member), whole && ok
		})
		return out
	}
	switch v := term.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
		value, err := ast.JSON(v)
		return value, err == nil
	case *ast.Array:
		members := list(v.Foreach)
		return members, whole
	case ast.Set:
		members := list(v.Foreach)
		return members, whole
	case ast.Object:
		out := map[string]any{}
		v.Foreach(func(k, t *ast.Term) {
			key, isText := k.Value.(ast.String)
			member, ok := constantOf(t)
			if whole = whole && ok && isText; isText {
				out[string(key)] = member
			}
		})
		return out, whole
	}
	return nil, false
}

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

package podscheduling

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	sigsjson "sigs.k8s.io/json"
)

// Types maps the members that a value of the rule scheduling may have, such as nodeSelector, to their Go types in core/v1.
var Types = map[string]reflect.Type{
	"nodeSelector":              reflect.TypeFor[map[string]string](),
	"affinity":                  reflect.TypeFor[corev1.Affinity](),
	"tolerations":               reflect.TypeFor[[]corev1.Toleration](),
	"topologySpreadConstraints": reflect.TypeFor[[]corev1.TopologySpreadConstraint](),
	"priorityClassName":         reflect.TypeFor[string](),
	"schedulerName":             reflect.TypeFor[string](),
}

// Parse strictly decodes a value of the rule scheduling, which holds members of a pod's spec, and validates the result as the API server
// would.
func Parse(value map[string]any) (*corev1.PodSpec, error) {
	spec, err := Decode(value)
	if err != nil {
		return nil, err
	}
	invalid, err := Validate(spec)
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

// Decode strictly decodes a value of the rule scheduling: it refuses unknown members and fields, a member that is null, and an empty
// priorityClassName or schedulerName. Unlike Parse, it does not validate the result.
func Decode(value map[string]any) (*corev1.PodSpec, error) {
	spec := &corev1.PodSpec{}
	targets := map[string]any{
		"nodeSelector": &spec.NodeSelector, "affinity": &spec.Affinity, "tolerations": &spec.Tolerations,
		"topologySpreadConstraints": &spec.TopologySpreadConstraints, "priorityClassName": &spec.PriorityClassName,
		"schedulerName": &spec.SchedulerName,
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

// decodeStrictly decodes a JSON value into an API type, to which into points. It rejects a value that is null, and fields that the type
// does not have. A field that is null counts as absent.
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

// Validate returns what the API server's validation says against those members of a spec that a policy may set. The error says why they
// can't be validated.
func Validate(spec *corev1.PodSpec) (field.ErrorList, error) {
	var internal core.PodSpec
	if err := corev1conversion.Convert_v1_PodSpec_To_core_PodSpec(spec, &internal, nil); err != nil {
		return nil, err
	}
	problems := validation.ValidatePodSpec(&internal, &metav1.ObjectMeta{}, nil, allowed)
	return slices.DeleteFunc(problems, func(problem *field.Error) bool {
		// The spec lacks all other members of a pod's spec. Errors about them are not the policy's fault.
		member, _, _ := strings.Cut(problem.Field, ".")
		member, _, _ = strings.Cut(member, "[")
		_, known := Types[member]
		return !known
	}), nil
}

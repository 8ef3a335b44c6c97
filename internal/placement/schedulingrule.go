package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"sigs.k8s.io/json"
)

// parseScheduling reads the rule scheduling, which holds members of a pod's spec, strictly, and has them judged by the
// API server's own validation. It returns them by the keys that they are merged under.
func parseScheduling(value any) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, &ContractError{fieldScheduling, fmt.Sprintf("must be an object, is %s", TypeName(value))}
	}
	var spec corev1.PodSpec
	targets := map[string]any{
		nodeSelector: &spec.NodeSelector, affinity: &spec.Affinity, tolerations: &spec.Tolerations,
		topologySpreadConstraints: &spec.TopologySpreadConstraints, priorityClassName: &spec.PriorityClassName, schedulerName: &spec.SchedulerName,
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		target, known := targets[name]
		if !known {
			return nil, &ContractError{fieldScheduling, fmt.Sprintf("%s: unknown; known are %s", name, strings.Join(slices.Sorted(maps.Keys(targets)), ", "))}
		}
		if err := decodeStrictly(object[name], target); err != nil {
			return nil, &ContractError{fieldScheduling, fmt.Sprintf("%s: %v", name, err)}
		}
		if text, isText := target.(*string); isText && *text == "" {
			return nil, &ContractError{fieldScheduling, name + ": must not be empty"}
		}
	}
	if err := validateScheduling(&spec); err != nil {
		return nil, &ContractError{fieldScheduling, err.Error()}
	}
	return flattenTyped(&spec)
}

// decodeStrictly reads a value into a type of the API, and refuses what the type does not have.
func decodeStrictly(value, into any) error {
	text, err := encodeJSON(value)
	if err != nil {
		return err
	}
	if text == "null" {
		return errors.New("must not be null")
	}
	unknown, err := json.UnmarshalStrict([]byte(text), into)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return errors.Join(unknown...)
}

// allowed are the newer forms that an API server may take: what it does not take, it says itself.
var allowed = validation.PodValidationOptions{
	AllowMatchLabelKeysInPodTopologySpread:  true,
	AllowTaintTolerationComparisonOperators: true,
}

// validateScheduling has the API server's validation judge the members that a policy may set.
func validateScheduling(spec *corev1.PodSpec) error {
	var internal core.PodSpec
	if err := corev1conversion.Convert_v1_PodSpec_To_core_PodSpec(spec, &internal, nil); err != nil {
		return err
	}
	var problems []string
	for _, problem := range validation.ValidatePodSpec(&internal, &metav1.ObjectMeta{}, nil, allowed) {
		// There is nothing else in this spec, which is wrong, but not the policy's fault.
		member, _, _ := strings.Cut(problem.Field, ".")
		member, _, _ = strings.Cut(member, "[")
		if slices.Contains(schedulingMembers, member) {
			problems = append(problems, problem.Error())
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// flattenTyped is flatten for what a policy says.
func flattenTyped(spec *corev1.PodSpec) (map[string]string, error) {
	text, err := encodeJSON(spec)
	if err != nil {
		return nil, err
	}
	out, err := flatten(jsonObject(&text))
	if adds := out[affinity]; implied(nil, adds) {
		delete(out, affinity)
	}
	return out, err
}

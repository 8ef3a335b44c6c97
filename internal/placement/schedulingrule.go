package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/policy"
)

// parseScheduling converts the value of the rule scheduling to values by merge key.
func parseScheduling(value any) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, &ContractError{fieldScheduling, fmt.Sprintf("must be an object, is %s", TypeName(value))}
	}
	spec, err := policy.ParseScheduling(object)
	if err != nil {
		return nil, &ContractError{fieldScheduling, err.Error()}
	}
	return flattenTyped(spec)
}

// flattenTyped is flatten for the pod spec of a decision. It drops an affinity that adds nothing.
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

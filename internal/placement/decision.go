package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Decision is what one policy says of one object.
type Decision struct {
	// Annotations and Labels are to be merged into the object's metadata.
	Annotations map[string]string
	Labels      map[string]string
	// Scheduling says where the object's pods may run, by the keys that it is merged under; see scheduling.go.
	Scheduling map[string]string
	// Clusters are the clusters that the policy allows the object to run on, sorted; nil if it does not say. It may say that
	// there are none.
	Clusters []string
	// Errors deny the object; sorted.
	Errors []string
	// Warnings are for the client; sorted.
	Warnings []string
}

// Equal says whether two decisions say the same.
func (d Decision) Equal(other Decision) bool {
	return maps.Equal(d.Annotations, other.Annotations) && maps.Equal(d.Labels, other.Labels) &&
		maps.Equal(d.Scheduling, other.Scheduling) &&
		slices.Equal(d.Clusters, other.Clusters) && (d.Clusters == nil) == (other.Clusters == nil) &&
		slices.Equal(d.Errors, other.Errors) && slices.Equal(d.Warnings, other.Warnings)
}

// ContractError says that a policy's result is not of the decision contract's types.
type ContractError struct {
	Rule    string
	Message string
}

func (e *ContractError) Error() string {
	return fmt.Sprintf("rule %s: %s", e.Rule, e.Message)
}

// ParseDecision reads the values of the contract's rules, as JSON values of Go. A rule that is absent has no opinion.
// The error is a *ContractError.
func ParseDecision(rules map[string]any) (Decision, error) {
	var d Decision
	var err error
	// The API server judges the keys of annotations without regard to case, and those of labels as they are.
	if d.Annotations, err = parseMap("annotations", rules["annotations"], strings.ToLower, annotationText); err != nil {
		return Decision{}, err
	}
	if d.Labels, err = parseMap("labels", rules["labels"], strings.Clone, labelText); err != nil {
		return Decision{}, err
	}
	if d.Scheduling, err = parseScheduling(rules[fieldScheduling]); err != nil {
		return Decision{}, err
	}
	if d.Clusters, err = parseClusters("clusters", rules["clusters"]); err != nil {
		return Decision{}, err
	}
	if d.Errors, err = parseTexts("errors", rules["errors"]); err != nil {
		return Decision{}, err
	}
	if d.Warnings, err = parseTexts("warnings", rules["warnings"]); err != nil {
		return Decision{}, err
	}
	return d, nil
}

func parseMap(rule string, value any, judged func(string) string, text func(any) (string, error)) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, &ContractError{rule, fmt.Sprintf("must be an object, is %s", TypeName(value))}
	}
	out := make(map[string]string, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if problems := validation.IsQualifiedName(judged(key)); len(problems) > 0 {
			return nil, &ContractError{rule, fmt.Sprintf("key %q: %s", key, strings.Join(problems, "; "))}
		}
		if strings.HasPrefix(key, placementv1.GroupVersion.Group+"/") {
			return nil, &ContractError{rule, fmt.Sprintf("key %q: the prefix %s/ is Berth's own", key, placementv1.GroupVersion.Group)}
		}
		s, err := text(object[key])
		if err != nil {
			return nil, &ContractError{rule, fmt.Sprintf("key %q: %v", key, err)}
		}
		out[key] = s
	}
	return out, nil
}

// annotationText is a string as it is, and anything else as its JSON, with sorted keys.
func annotationText(value any) (string, error) {
	if s, ok := value.(string); ok {
		return s, nil
	}
	return encodeJSON(value)
}

// encodeJSON is a value's JSON as people write it.
func encodeJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("encoding as JSON: %w", err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

func labelText(value any) (string, error) {
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("must be a string, is %s", TypeName(value))
	}
	if problems := validation.IsValidLabelValue(s); len(problems) > 0 {
		return "", fmt.Errorf("%q: %s", s, strings.Join(problems, "; "))
	}
	return s, nil
}

// parseClusters reads names of clusters, which are those of objects.
func parseClusters(rule string, value any) ([]string, error) {
	names, err := parseTexts(rule, value)
	for _, name := range names {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, &ContractError{rule, fmt.Sprintf("%q is not a cluster's name: %s", name, strings.Join(problems, "; "))}
		}
	}
	return names, err
}

// parseTexts reads a set or an array of strings, and returns it sorted; nil for no value.
func parseTexts(rule string, value any) ([]string, error) {
	if value == nil {
		return nil, nil
	}
	items, ok := value.([]any)
	if !ok {
		return nil, &ContractError{rule, fmt.Sprintf("must be a set or an array of strings, is %s", TypeName(value))}
	}
	out := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := item.(string)
		if !ok {
			return nil, &ContractError{rule, fmt.Sprintf("must hold strings, holds %s", TypeName(item))}
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// TypeName names the type of a JSON value of Go for messages, as in "an object"; a json.Number is a number.
func TypeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}

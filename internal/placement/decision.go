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

package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy/language"
)

// Decision is what one policy decides on one object. The shares of its clusters are among the annotations. Outcome.Digest depends on its
// JSON.
type Decision struct {
	// Annotations are merged into the annotations of the object.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are merged into the labels of the object.
	Labels map[string]string `json:"labels,omitempty"`
	// Scheduling has the values that are merged into the object's pod spec, by merge key. Package podscheduling describes the keys.
	Scheduling map[string]string `json:"scheduling,omitempty"`
	// Clusters are the names of the clusters that the policy allows, sorted. nil means that the policy does not
	// restrict clusters; an empty list means that it allows none.
	Clusters []string `json:"clusters,omitzero"`
	// Errors are the reasons to deny the object, sorted.
	Errors []string `json:"errors,omitempty"`
	// Warnings are messages for the client, sorted.
	Warnings []string `json:"warnings,omitempty"`
	// Rule is the name of the rule of spec.rules that decided; empty if none applies, and for a policy without rules. It is not part of the
	// decision contract, and does not change the object.
	Rule string `json:"-"`
}

// Equal reports whether two decisions are equal, including Rule. Of the lists and maps, only Clusters differs if one is nil and the other
// is empty.
func (d Decision) Equal(other Decision) bool {
	return d.Rule == other.Rule && maps.Equal(d.Annotations, other.Annotations) && maps.Equal(d.Labels, other.Labels) &&
		maps.Equal(d.Scheduling, other.Scheduling) &&
		slices.Equal(d.Clusters, other.Clusters) && (d.Clusters == nil) == (other.Clusters == nil) &&
		slices.Equal(d.Errors, other.Errors) && slices.Equal(d.Warnings, other.Warnings)
}

// ContractError reports that a rule of a policy has a value that the decision contract does not allow.
type ContractError struct {
	Rule    string // The rule of the decision contract, such as "clusters".
	Message string // What is wrong with its value.
}

// Error returns the rule and the message, as "rule clusters: ...".
func (e *ContractError) Error() string {
	return fmt.Sprintf("rule %s: %s", e.Rule, e.Message)
}

// ParseDecision converts the values of the rules of the decision contract, as decoded JSON by name of the rule, to a Decision. An absent
// rule leaves its field nil, and rules with other names are ignored. The error is a *ContractError.
func ParseDecision(rules map[string]any) (Decision, error) {
	var d Decision
	var err error
	// The API server validates annotation keys in lower case, and label keys as they are.
	if d.Annotations, err = parseMap("annotations", rules["annotations"], strings.ToLower, annotationText); err != nil {
		return Decision{}, err
	}
	if d.Labels, err = parseMap("labels", rules["labels"], strings.Clone, labelText); err != nil {
		return Decision{}, err
	}
	if d.Scheduling, err = parseScheduling(rules[fieldScheduling]); err != nil {
		return Decision{}, err
	}
	var shares string
	if d.Clusters, shares, err = parseClusters(language.RuleClusters, rules[language.RuleClusters]); err != nil {
		return Decision{}, err
	}
	if shares != "" {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[placementv1.ClusterSharesAnnotation] = shares
	}
	if d.Errors, err = parseTexts("errors", rules["errors"]); err != nil {
		return Decision{}, err
	}
	if d.Warnings, err = parseTexts("warnings", rules["warnings"]); err != nil {
		return Decision{}, err
	}
	return d, nil
}

// parseMap converts the value of the rule annotations or labels. judged returns the form of a key that must be a qualified name, and text
// converts the value of a key. It returns nil for nil. For any other value than an object, a key that is invalid or has the prefix of
// Berth's own annotations, or an error of text, the error is a *ContractError.
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

// annotationText converts the value of an annotation: it returns a string unchanged, and any other value as JSON with sorted keys.
func annotationText(value any) (string, error) {
	if s, ok := value.(string); ok {
		return s, nil
	}
	return podscheduling.EncodeJSON(value)
}

// labelText converts the value of a label, which must be a string that is valid for a label.
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

// parseClusters converts the value of the rule clusters: a set or an array of cluster names, or an object with the shares of replicas by
// cluster name. The names must be valid object names. shares is the value of the annotation ClusterSharesAnnotation; "" if no cluster has a
// share.
func parseClusters(rule string, value any) (names []string, shares string, err error) {
	object, isObject := value.(map[string]any)
	switch value.(type) {
	case nil, []any:
		names, err = parseTexts(rule, value)
	case map[string]any:
		names = slices.AppendSeq(make([]string, 0, len(object)), maps.Keys(object))
		slices.Sort(names)
	default:
		err = &ContractError{rule, fmt.Sprintf("must be a set or an array of strings, or an object, is %s", TypeName(value))}
	}
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		if problems := ClusterNameProblems(name); len(problems) > 0 {
			return nil, "", &ContractError{rule, fmt.Sprintf("%q is not a cluster's name: %s", name, strings.Join(problems, "; "))}
		}
	}
	if !isObject {
		return names, "", nil
	}
	given := map[string]map[string]int64{}
	for _, name := range names {
		share, err := language.ParseShare(object[name])
		if err != nil {
			return nil, "", &ContractError{rule, fmt.Sprintf("cluster %q: %v", name, err)}
		}
		if len(share) > 0 {
			given[name] = share
		}
	}
	if len(given) > 0 {
		if shares, err = podscheduling.EncodeJSON(given); err != nil {
			return nil, "", &ContractError{rule, err.Error()}
		}
	}
	return names, shares, nil
}

// ClusterNameProblems returns why a name can't be a cluster's name in a decision; nil if it can.
func ClusterNameProblems(name string) []string { return validation.IsDNS1123Subdomain(name) }

// parseTexts converts a set or an array of strings, to a sorted list without duplicates. It returns nil for nil.
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

// TypeName returns the type of a decoded JSON value with its article, for messages: for example "an object". Values of other Go types, such
// as json.Number, count as numbers.
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

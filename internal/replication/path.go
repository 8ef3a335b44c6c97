package replication

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// path leads to a field of an object, name by name. A nil path leads nowhere.
type path []string

// maxPath bounds the text of a path.
const maxPath = 1024

// step is one name of a path.
var step = regexp.MustCompile(`^(?:\.([A-Za-z0-9_-]+)|\['([^']+)'\]|\["([^"]+)"\])`)

// parsePath reads a path of names that are joined by dots, with or without a dot in front, as a downward API reference's
// fieldPath and a CustomResourceDefinition's jsonPath have them: spec.region, .spec.region,
// metadata.labels['example.com/tier']. Of what JSONPath has besides, such as wildcards and filters, nothing is
// understood: a path leads to one field. That is why it is not read by kubectl's JSONPath, which finds any number of
// values, and belongs to the client.
func parsePath(text string) (path, error) {
	if len(text) > maxPath {
		return nil, fmt.Errorf("is longer than %d bytes", maxPath)
	}
	if text == "" {
		return nil, errors.New("is empty")
	}
	rest := text
	if rest[0] != '.' && rest[0] != '[' {
		rest = "." + rest
	}
	var out path
	for rest != "" {
		found := step.FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf("must be names joined by dots, as in spec.region or metadata.labels['example.com/tier']: %q is not", rest)
		}
		out = append(out, found[1]+found[2]+found[3])
		rest = rest[len(found[0]):]
	}
	return out, nil
}

// value returns what is at the path, not to be written to; nil if nothing is.
func (p path) value(obj map[string]any) any {
	if p == nil {
		return nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj, p...)
	return value
}

// text returns the text at the path; empty if there is none.
func (p path) text(obj map[string]any) string {
	s, _ := p.value(obj).(string)
	return s
}

// object returns the map at the path, never nil, not to be written to.
func (p path) object(obj map[string]any) map[string]any {
	if m, ok := p.value(obj).(map[string]any); ok && m != nil {
		return m
	}
	return map[string]any{}
}

// list returns the slice at the path, never nil, not to be written to.
func (p path) list(obj map[string]any) []any {
	if l, ok := p.value(obj).([]any); ok && l != nil {
		return l
	}
	return []any{}
}

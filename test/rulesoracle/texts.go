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
	"encoding/json"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// expandAll expands the values of annotations or labels.
func expandAll(texts map[string]placementv1.RuleText, object map[string]any, clusters []string) map[string]string {
	if len(texts) == 0 {
		return nil
	}
	out := map[string]string{}
	for key, text := range texts {
		out[key] = expand(string(text), object, clusters)
	}
	return out
}

// expand replaces the placeholders of a text.
func expand(text string, object map[string]any, clusters []string) string {
	var out strings.Builder
	for text != "" {
		switch {
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			out.WriteByte(text[0])
			text = text[2:]
		case text[0] == '{':
			name, rest, _ := strings.Cut(text[1:], "}")
			out.WriteString(placeholder(name, object, clusters))
			text = rest
		default:
			out.WriteByte(text[0])
			text = text[1:]
		}
	}
	return out.String()
}

// placeholder returns the value of a placeholder.
func placeholder(name string, object map[string]any, clusters []string) string {
	kind, key, _ := strings.Cut(name, ":")
	switch {
	case kind == "label":
		return metadata(object, "labels")[key]
	case kind == "annotation":
		return metadata(object, "annotations")[key]
	case name == "kind":
		text, _ := object["kind"].(string)
		return text
	case name == "name":
		return nameOf(object)
	case name == "clusters":
		return strings.Join(clusters, ",")
	case name == "clusters:json":
		if clusters == nil {
			clusters = []string{}
		}
		// Strings are encoded without an error.
		text, _ := json.Marshal(clusters)
		return string(text)
	}
	return metadataText(object, name)
}

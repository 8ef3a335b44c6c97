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
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Placeholders of texts.
const (
	placeholderKind         = "kind"
	placeholderNamespace    = "namespace"
	placeholderName         = "name"
	placeholderClusters     = "clusters"
	placeholderClustersJSON = "clusters:json"
	placeholderLabel        = "label:"
	placeholderAnnotation   = "annotation:"
)

// part is a piece of a text: a literal, or a placeholder if the literal is empty.
type part struct{ literal, placeholder string }

// parseTemplate splits a text at its placeholders, such as {name}. {{ and }} stand for single braces. It returns an error about the first
// brace without its counterpart, or placeholder that is unknown. The placeholders {clusters} and {clusters:json} are errors unless clusters
// is true. The text "" is one empty part.
func parseTemplate(text string, clusters bool) ([]part, error) {
	var out []part
	var literal strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			literal.WriteByte(c)
			i++
		case c == '}':
			return nil, fmt.Errorf("has a } without a {: write }} for a brace")
		case c == '{':
			name, _, closed := strings.Cut(text[i+1:], "}")
			if !closed {
				return nil, fmt.Errorf("has a { without a }: write {{ for a brace")
			}
			if err := checkPlaceholder(name, clusters); err != nil {
				return nil, err
			}
			if literal.Len() > 0 {
				out = append(out, part{literal: literal.String()})
				literal.Reset()
			}
			out = append(out, part{placeholder: name})
			i += len(name) + 1
		default:
			literal.WriteByte(c)
		}
	}
	if literal.Len() > 0 || len(out) == 0 {
		out = append(out, part{literal: literal.String()})
	}
	return out, nil
}

// checkPlaceholder returns an error unless name, which is without braces, is kind, namespace, name, label:KEY, or annotation:KEY or, if
// clusters is true, clusters or clusters:json. KEY may be any text but "".
func checkPlaceholder(name string, clusters bool) error {
	switch name {
	case placeholderKind, placeholderNamespace, placeholderName:
		return nil
	case placeholderClusters, placeholderClustersJSON:
		if clusters {
			return nil
		}
		return fmt.Errorf("has the placeholder {%s}: only set.annotations and set.labels of rules that give clusters have it", name)
	}
	for _, prefix := range []string{placeholderLabel, placeholderAnnotation} {
		if key, found := strings.CutPrefix(name, prefix); found && key != "" {
			return nil
		}
	}
	return fmt.Errorf("has the unknown placeholder {%s}: known are {kind}, {namespace}, {name}, {label:KEY}, {annotation:KEY}, "+
		"{clusters} and {clusters:json}; write {{ for a brace", name)
}

// template returns the Rego expression of a text with placeholders.
func (r *ruleText) template(text string) string {
	// validate has checked the text.
	parts, _ := parseTemplate(text, true)
	var terms []string
	for _, p := range parts {
		if p.placeholder == "" {
			terms = append(terms, quote(p.literal))
		} else {
			terms = append(terms, r.placeholder(p.placeholder))
		}
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return fmt.Sprintf(`concat("", [%s])`, strings.Join(terms, ", "))
}

// placeholder returns the Rego expression of a placeholder: of the kind, namespace, name, a label, or an annotation of the object, or of
// the clusters that the rule chooses, sorted, joined by commas or as JSON. What the object lacks is "", apart from the kind.
func (r *ruleText) placeholder(name string) string {
	switch name {
	case placeholderKind:
		return "input.kind"
	case placeholderNamespace:
		return r.use("object_namespace")
	case placeholderName:
		return r.use("object_name")
	case placeholderClusters:
		r.readsChoice = r.readsChoice || r.chooses()
		return fmt.Sprintf(`concat(",", sort(%s))`, r.name(partChosen))
	case placeholderClustersJSON:
		r.readsChoice = r.readsChoice || r.chooses()
		return fmt.Sprintf(`json.marshal(sort(%s))`, r.name(partChosen))
	}
	if !slices.Contains(r.objectTexts, name) {
		r.objectTexts = append(r.objectTexts, name)
	}
	return fmt.Sprintf("object_text_%d", slices.Index(r.objectTexts, name)+1)
}

// Without returns what an object gets of a text with placeholders if it has only those labels and annotations for which has returns true.
// Literal parts stay. In place of each placeholder is "x", also of one for a label that the object has, or nothing if it is for a label or
// annotation that the object lacks. lacks are these labels and annotations.
func Without(text string, has func(placementv1.ObjectValue) bool) (out string, lacks []placementv1.ObjectValue) {
	// validate has checked the text.
	parts, _ := parseTemplate(text, true)
	for _, p := range parts {
		label, isLabel := strings.CutPrefix(p.placeholder, placeholderLabel)
		annotation, isAnnotation := strings.CutPrefix(p.placeholder, placeholderAnnotation)
		value := placementv1.ObjectValue{Label: label}
		if isAnnotation {
			value = placementv1.ObjectValue{Annotation: annotation}
		}
		switch {
		case p.placeholder == "":
			out += p.literal
		case (isLabel || isAnnotation) && !has(value):
			lacks = append(lacks, value)
		default:
			out += "x"
		}
	}
	return out, lacks
}

// objectTextOf returns the Rego reference, such as input.metadata.labels["tier"], to the label or annotation of the object that the
// placeholder label:KEY or annotation:KEY names. The reference is undefined for an object that lacks it.
func objectTextOf(placeholder string) string {
	if key, isLabel := strings.CutPrefix(placeholder, placeholderLabel); isLabel {
		return objectRef(&placementv1.ObjectValue{Label: key})
	}
	return objectRef(&placementv1.ObjectValue{Annotation: strings.TrimPrefix(placeholder, placeholderAnnotation)})
}

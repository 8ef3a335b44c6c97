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

// Command jsonschema converts the schema of PlacementPolicies to a JSON Schema for editors. A CustomResourceDefinition has a schema of
// OpenAPI v3, which editors do not understand, and which allows fields that it does not name.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/config/crd"
)

func main() {
	out := flag.String("out", "config/schema/placementpolicy.json", "File to write.")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "jsonschema:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	text, err := generate(crd.PlacementPolicies)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// generate returns the JSON Schema of the kind that a CustomResourceDefinition defines.
func generate(definition []byte) ([]byte, error) {
	var d apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(definition, &d); err != nil {
		return nil, err
	}
	version := d.Spec.Versions[0]
	root := *version.Schema.OpenAPIV3Schema.DeepCopy()
	// The API server validates metadata, and only Berth writes the status.
	delete(root.Properties, "metadata")
	delete(root.Properties, "status")
	out, err := convert(root, true)
	if err != nil {
		return nil, err
	}
	properties := out["properties"].(map[string]any)
	for name, value := range map[string]string{"apiVersion": d.Spec.Group + "/" + version.Name, "kind": d.Spec.Names.Kind} {
		properties[name].(map[string]any)["const"] = value
	}
	properties["metadata"] = map[string]any{
		"type": "object", "description": "The name, the labels and the annotations of the policy.",
		"properties": map[string]any{
			"name":        map[string]any{"type": "string", "description": "The name of the policy."},
			"labels":      texts("Labels of the policy."),
			"annotations": texts("Annotations of the policy."),
		},
	}
	properties["status"] = map[string]any{"type": "object", "description": "What Berth reports. It is not part of a manifest."}
	out["$schema"], out["title"] = "http://json-schema.org/draft-07/schema#", d.Spec.Names.Kind
	out["required"] = []string{"apiVersion", "kind", "metadata", "spec"}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(out)
	return text.Bytes(), err
}

// texts returns the schema of an object whose values are texts.
func texts(description string) map[string]any {
	return map[string]any{"type": "object", "description": description, "additionalProperties": map[string]any{"type": "string"}}
}

// lineBreak matches the line breaks within a paragraph.
var lineBreak = regexp.MustCompile(`([^\n])\n([^\n])`)

// convert returns the JSON Schema for a part of a schema. closed reports whether an object must not have other fields than those that
// are named: the parts of anyOf and the like name only some of them.
func convert(p apiextensionsv1.JSONSchemaProps, closed bool) (map[string]any, error) {
	out, err := constraints(p)
	if err != nil {
		return nil, err
	}
	if p.Description != "" {
		out["description"] = lineBreak.ReplaceAllString(p.Description, "$1 $2")
	}
	if p.XListType != nil && *p.XListType == "set" {
		out["uniqueItems"] = true
	}
	for keyword, all := range map[string][]apiextensionsv1.JSONSchemaProps{"anyOf": p.AnyOf, "allOf": p.AllOf, "oneOf": p.OneOf} {
		var parts []any
		for _, part := range all {
			converted, err := convert(part, false)
			if err != nil {
				return nil, err
			}
			parts = append(parts, converted)
		}
		if parts != nil {
			out[keyword] = parts
		}
	}
	if p.Not != nil {
		if out["not"], err = convert(*p.Not, false); err != nil {
			return nil, err
		}
	}
	if p.Items != nil {
		if out["items"], err = convert(*p.Items.Schema, closed); err != nil {
			return nil, err
		}
	}
	return out, convertObject(p, closed, out)
}

// convertObject sets the keywords for objects.
func convertObject(p apiextensionsv1.JSONSchemaProps, closed bool, out map[string]any) error {
	if len(p.Properties) > 0 {
		properties := map[string]any{}
		for name, property := range p.Properties {
			converted, err := convert(property, closed)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			properties[name] = converted
		}
		out["properties"] = properties
	}
	preserved := p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
	switch {
	case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		converted, err := convert(*p.AdditionalProperties.Schema, closed)
		if err != nil {
			return err
		}
		out["additionalProperties"] = converted
	case closed && p.Type == "object" && !preserved:
		out["additionalProperties"] = false
	}
	return nil
}

// same are the keywords that mean the same in both languages. The others need a translation, or have none.
var same = []string{
	"type", "enum", "default", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf", "minItems", "maxItems", "uniqueItems",
	"minProperties", "maxProperties", "required",
}

// constraints returns the keywords for the type and the value of a part of a schema.
func constraints(p apiextensionsv1.JSONSchemaProps) (map[string]any, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, keyword := range same {
		if value, ok := all[keyword]; ok {
			out[keyword] = value
		}
	}
	// Formats such as int32 and byte are those of OpenAPI.
	if p.Format == "date-time" {
		out["format"] = p.Format
	}
	if p.ExclusiveMinimum || p.ExclusiveMaximum || p.Nullable {
		return nil, fmt.Errorf("exclusive limits and null values are not translated: add their translation")
	}
	if p.XIntOrString {
		maps.Copy(out, map[string]any{"type": []string{"integer", "string"}})
	}
	return out, nil
}

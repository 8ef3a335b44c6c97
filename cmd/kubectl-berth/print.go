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

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/migration"
)

// printPolicies writes the policies as YAML documents.
func printPolicies(out io.Writer, policies []migration.Policy) error {
	for _, p := range policies {
		text, err := manifest(p.Object)
		if err != nil {
			return fmt.Errorf("PlacementPolicy %s: %w", p.Object.Name, err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

// printStructured writes a value as JSON or YAML.
func printStructured(out io.Writer, format string, value any) error {
	var text []byte
	var err error
	switch format {
	case "json":
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(value)
	default:
		return fmt.Errorf("--output: %q is none of json, yaml", format)
	}
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	_, err = out.Write(text)
	return err
}

// manifest renders a policy without its status.
func manifest(p *placementv1.PlacementPolicy) (string, error) {
	render := func(spec placementv1.PlacementPolicySpec) (string, error) {
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": p.APIVersion, "kind": p.Kind, "metadata": p.ObjectMeta, "spec": spec,
		})
		return string(text), err
	}
	plain, err := render(p.Spec)
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	// The encoder writes text with tabs, as opa fmt formats it, as one quoted line. To make it readable, replace it by
	// a block scalar, if that decodes to the same policy.
	spec := p.Spec
	spec.Rego = "text"
	around, err := render(spec)
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	nice := strings.Replace(around, "\n  rego: text\n", "\n"+block("  rego", p.Spec.Rego), 1)
	var again placementv1.PlacementPolicy
	if err := yaml.UnmarshalStrict([]byte(nice), &again); err != nil || !equality.Semantic.DeepEqual(&again, p) {
		return plain, nil
	}
	return nice, nil
}

// block renders a field with a multi-line text as a YAML block scalar.
func block(field, text string) string {
	chomp := "-"
	if body, ended := strings.CutSuffix(text, "\n"); ended {
		chomp = ""
		if strings.HasSuffix(body, "\n") || body == "" {
			chomp = "+"
		}
		text = body
	}
	indent := strings.Repeat(" ", len(field)-len(strings.TrimLeft(field, " "))+2)
	var out strings.Builder
	fmt.Fprintf(&out, "%s: |%s\n", field, chomp)
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			out.WriteString(indent)
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

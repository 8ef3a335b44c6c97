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
	"regexp"
	"strings"
	"unicode/utf16"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/migration"
	"github.com/berth-dev/berth/internal/printable"
)

// printPolicies writes the policies as YAML documents, each after a line with ---, without comments.
func printPolicies(out io.Writer, policies []migration.Policy) error {
	p := newPrinter(out)
	for _, policy := range policies {
		text, err := manifest(policy.Object)
		if err != nil {
			return fmt.Errorf("PlacementPolicy %s: %w", policy.Object.Name, err)
		}
		p.document("---\n" + text)
	}
	return p.err
}

// printEach writes items as JSON or YAML. If format is "", it calls write for each of them, with an empty line between two.
func printEach[T any](out io.Writer, format string, all []T, write func(*printer, T)) error {
	if format != "" {
		return printStructured(out, format, all)
	}
	p := newPrinter(out)
	for i, item := range all {
		if i > 0 {
			p.line("")
		}
		write(p, item)
	}
	return p.err
}

// printStructured writes a value in the format json or yaml. Any other format is an error.
func printStructured(out io.Writer, format string, value any) error {
	encode := encodeJSON
	switch format {
	case "json":
	case "yaml":
		encode = encodeYAML
	default:
		return fmt.Errorf("--output: %q is none of json, yaml", format)
	}
	text, err := encode(value)
	if err != nil {
		return err
	}
	p := newPrinter(out)
	p.document(text)
	return p.err
}

// encodeJSON returns a value as indented JSON, with escapes for characters without a glyph.
func encodeJSON(value any) (string, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	return printableJSON(text) + "\n", nil
}

// printableJSON returns encoded JSON with escapes for the characters without a glyph that the encoder leaves, such as those for the
// direction of text.
func printableJSON(text []byte) string {
	return printable.Lines(longCharacters.ReplaceAllStringFunc(string(text), func(c string) string {
		if printable.Text(c) == c {
			return c
		}
		high, low := utf16.EncodeRune([]rune(c)[0])
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}))
}

// longCharacters matches the characters that JSON escapes as two, a surrogate pair.
var longCharacters = regexp.MustCompile(`[\x{10000}-\x{10ffff}]`)

// encodeYAML returns a value as YAML, in the form of JSON if it has characters without a glyph.
func encodeYAML(value any) (string, error) {
	if text, err := yaml.Marshal(value); err == nil && printable.Lines(string(text)) == string(text) {
		return string(text), nil
	}
	// The encoder refuses some characters without a glyph, and writes others in texts without quotes, which have no escapes. JSON is
	// YAML and has quotes.
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	return printable.Lines(string(text)) + "\n", nil
}

// manifest returns a policy without its status as YAML, with its Rego in a block of lines if possible.
func manifest(p *placementv1.PlacementPolicy) (string, error) {
	render := func(spec placementv1.PlacementPolicySpec) (string, error) {
		return encodeYAML(map[string]any{
			"apiVersion": p.APIVersion, "kind": p.Kind, "metadata": p.ObjectMeta, "spec": spec,
		})
	}
	plain, err := render(p.Spec)
	if err != nil || p.Spec.Rego == "" {
		return plain, err
	}
	// The encoder writes text with tabs, as opa fmt formats it, as one quoted line. To make it readable, replace it by
	// a block scalar, if that decodes to the same policy.
	spec := p.Spec
	spec.Rego = "text"
	around, err := render(spec)
	if err != nil {
		return "", err
	}
	nice := strings.Replace(around, "\n  rego: text\n", "\n"+block("  rego", p.Spec.Rego), 1)
	var again placementv1.PlacementPolicy
	if err := yaml.UnmarshalStrict([]byte(printable.Lines(nice)), &again); err != nil || !equality.Semantic.DeepEqual(&again, p) {
		return plain, nil
	}
	return nice, nil
}

// block renders a field with a multi-line text as a YAML block scalar in the literal style (|), which keeps all line breaks, also those at
// the end. field is the indentation and the name. The lines are indented by two more spaces than the name. There is no indentation
// indicator, so a text that begins with a space does not decode to itself.
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

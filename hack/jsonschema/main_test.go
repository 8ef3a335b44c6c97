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
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/rego"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/config/crd"
)

const root = "../.."

// errorsOf validates a document with OPA's implementation of JSON Schema.
func errorsOf(t *testing.T, query rego.PreparedEvalQuery, document any) []any {
	t.Helper()
	results, err := query.Eval(t.Context(), rego.EvalInput(document))
	if err != nil {
		t.Fatal(err)
	}
	found, _ := results[0].Bindings["errors"].([]any)
	return found
}

// newQuery returns a query that validates its input with the schema.
func newQuery(t *testing.T) rego.PreparedEvalQuery {
	t.Helper()
	text, err := generate(crd.PlacementPolicies)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(string(text))
	if err != nil {
		t.Fatal(err)
	}
	query, err := rego.New(rego.Query("json.verify_schema(" + string(encoded) + ") == [true, null]; [_, errors] := json.match_schema(input, " + string(encoded) + ")")).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return query
}

// policies yields the PlacementPolicies in the YAML files of the repository's examples, by file.
func policies(t *testing.T) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, dir := range []string{"config/samples", "docs/examples", "hack/demo", "library"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
				var object map[string]any
				if yaml.Unmarshal(document, &object) == nil && object["kind"] == "PlacementPolicy" {
					out[path+string(document)] = object
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestExamplesAreValid(t *testing.T) {
	query := newQuery(t)
	found := policies(t)
	if len(found) < 20 {
		t.Fatalf("only %d policies were found", len(found))
	}
	for file, policy := range found {
		if errs := errorsOf(t, query, policy); len(errs) > 0 {
			t.Errorf("%s\n%v", file, errs)
		}
	}
}

func TestMistakesAreRefused(t *testing.T) {
	const policy = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: eu
    when: {objectSelector: {matchLabels: {a: b}}}
    require: [{field: region, operator: In, values: [eu]}]
    spread: {field: zone, minDomains: 2}
    limit: 2
    set: {labels: {region: eu}}
`
	query := newQuery(t)
	for name, change := range map[string]struct{ old, replacement, where string }{
		"Correct":          {},
		"Field":            {"require:", "requires:", "requires"},
		"FieldOfItem":      {"operator: In", "operater: In, operator: In", "operater"},
		"FieldOfSpec":      {"rules:", "mod: Enforce\n  rules:", "mod"},
		"FieldOfRoot":      {"metadata:", "labels: {}\nmetadata:", "labels"},
		"FieldOfSelector":  {"matchLabels:", "matchLabel:", "matchLabel"},
		"Operator":         {"operator: In", "operator: Equals", "operator"},
		"SpreadOfVersions": {"field: zone", "field: version", "field"},
		"NoOperator":       {"operator: In, ", "", "operator is required"},
		"Number":           {"limit: 2", "limit: two", "limit"},
		"TooMany":          {"limit: 2", "limit: 1001", "limit"},
		"Kind":             {"kind: PlacementPolicy", "kind: PlacementPolicies", "kind"},
		"Version":          {"v1alpha1", "v1", "apiVersion"},
		"LabelOfNumber":    {"region: eu}", "region: 1}", "region"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(policy, change.old, change.replacement, 1)
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil || change.old != "" && text == policy {
				t.Fatalf("error %v, policy:\n%s", err, text)
			}
			errs := errorsOf(t, query, object)
			if change.old == "" {
				if len(errs) > 0 {
					t.Errorf("errors %v", errs)
				}
				return
			}
			if encoded, err := json.Marshal(errs); err != nil || len(errs) == 0 || !strings.Contains(string(encoded), change.where) {
				t.Errorf("errors %s, want one about %s", encoded, change.where)
			}
		})
	}
}

// keywords are those of JSON Schema that the language server for YAML and the schema use.
var keywords = map[string]bool{"$schema": true, "title": true, "description": true, "const": true, "format": true, "properties": true, "additionalProperties": true, "items": true,
	"anyOf": true, "allOf": true, "oneOf": true, "not": true}

// TestOnlyKeywordsOfJSONSchema checks that nothing of OpenAPI is left, and that each field has a description.
func TestOnlyKeywordsOfJSONSchema(t *testing.T) {
	known := maps.Clone(keywords)
	for _, keyword := range same {
		known[keyword] = true
	}
	text, err := os.ReadFile(filepath.Join(root, "config/schema/placementpolicy.json"))
	if err != nil {
		t.Fatal(err)
	}
	if generated, err := generate(crd.PlacementPolicies); err != nil || !bytes.Equal(text, generated) {
		t.Errorf("the file is stale: run make manifests (error %v)", err)
	}
	var visit func(path string, schema map[string]any)
	visit = func(path string, schema map[string]any) {
		for keyword, value := range schema {
			if !known[keyword] {
				t.Errorf("%s has the keyword %s", path, keyword)
			}
			if pattern, ok := value.(string); ok && keyword == "pattern" && regexp.MustCompile(`\(\?|\\[pPzAQ]|\[\[:`).MatchString(pattern) {
				t.Errorf("%s: the pattern %s is none of JavaScript", path, pattern)
			}
			switch value := value.(type) {
			case map[string]any:
				if keyword != "properties" {
					visit(path+"."+keyword, value)
					continue
				}
				for name, property := range value {
					p := property.(map[string]any)
					if p["description"] == nil {
						t.Errorf("%s.%s has no description", path, name)
					}
					visit(path+"."+name, p)
				}
			case []any:
				for _, part := range value {
					if p, ok := part.(map[string]any); ok {
						visit(path+"."+keyword, p)
					}
				}
			}
		}
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	visit("", schema)
}

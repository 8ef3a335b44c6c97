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

package placement_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/placement"
)

// parseJSON parses rules in the form that the engine returns: numbers keep their text.
func parseJSON(t testing.TB, text string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseDecision(t *testing.T) {
	tests := map[string]struct {
		rules   string
		want    placement.Decision
		wantErr string
	}{
		"Nothing":            {rules: `{}`},
		"Null":               {rules: `{"annotations": null, "labels": null, "errors": null, "warnings": null}`},
		"Unknown":            {rules: `{"other": {"a": 1}}`},
		"String":             {rules: `{"annotations": {"a": "b"}}`, want: placement.Decision{Annotations: map[string]string{"a": "b"}}},
		"EmptyString":        {rules: `{"annotations": {"a": ""}, "labels": {"b": ""}}`, want: placement.Decision{Annotations: map[string]string{"a": ""}, Labels: map[string]string{"b": ""}}},
		"JSONIsAString":      {rules: `{"annotations": {"a": "{\"b\": 1}"}}`, want: placement.Decision{Annotations: map[string]string{"a": `{"b": 1}`}}},
		"SortedKeys":         {rules: `{"annotations": {"a": {"z": 1, "b": {"y": 2, "c": 3}}}}`, want: placement.Decision{Annotations: map[string]string{"a": `{"b":{"c":3,"y":2},"z":1}`}}},
		"Numbers":            {rules: `{"annotations": {"i": 12345678901234567890, "f": 1.50, "e": 1e3, "l": [0.1, 2]}}`, want: placement.Decision{Annotations: map[string]string{"i": "12345678901234567890", "f": "1.50", "e": "1e3", "l": "[0.1,2]"}}},
		"NoHTMLEscaping":     {rules: `{"annotations": {"a": ["<&>", "é"]}}`, want: placement.Decision{Annotations: map[string]string{"a": `["<&>","é"]`}}},
		"OtherValues":        {rules: `{"annotations": {"t": true, "n": null, "e": {}, "l": []}}`, want: placement.Decision{Annotations: map[string]string{"t": "true", "n": "null", "e": "{}", "l": "[]"}}},
		"UpperCaseKey":       {rules: `{"annotations": {"Example.com/Key": "x"}}`, want: placement.Decision{Annotations: map[string]string{"Example.com/Key": "x"}}},
		"Messages":           {rules: `{"errors": ["b", "a", "b"], "warnings": ["w"]}`, want: placement.Decision{Errors: []string{"a", "b"}, Warnings: []string{"w"}}},
		"NoMessages":         {rules: `{"errors": [], "warnings": []}`, want: placement.Decision{Errors: []string{}, Warnings: []string{}}},
		"Labels":             {rules: `{"labels": {"example.com/a": "b-c_d.e"}}`, want: placement.Decision{Labels: map[string]string{"example.com/a": "b-c_d.e"}}},
		"LabelNumber":        {rules: `{"labels": {"a": 1}}`, wantErr: `rule labels: key "a": must be a string, is a number`},
		"LabelNull":          {rules: `{"labels": {"a": null}}`, wantErr: `rule labels: key "a": must be a string, is null`},
		"LabelObject":        {rules: `{"labels": {"a": {}}}`, wantErr: `rule labels: key "a": must be a string, is an object`},
		"LabelBoolean":       {rules: `{"labels": {"a": true}}`, wantErr: `rule labels: key "a": must be a string, is a boolean`},
		"LabelValue":         {rules: `{"labels": {"a": "not valid"}}`, wantErr: `rule labels: key "a": "not valid": `},
		"LabelTooLong":       {rules: `{"labels": {"a": "` + strings.Repeat("x", 64) + `"}}`, wantErr: `rule labels: key "a": `},
		"KeyWithSpaces":      {rules: `{"annotations": {"a b": "c"}}`, wantErr: `rule annotations: key "a b": `},
		"EmptyKey":           {rules: `{"annotations": {"": "c"}}`, wantErr: `rule annotations: key "": `},
		"OwnKey":             {rules: `{"annotations": {"placement.berth.dev/requested": "c"}}`, wantErr: `rule annotations: key "placement.berth.dev/requested": the prefix placement.berth.dev/ is Berth's own`},
		"OwnLabel":           {rules: `{"labels": {"placement.berth.dev/x": "c"}}`, wantErr: `rule labels: key "placement.berth.dev/x": the prefix`},
		"AnnotationsList":    {rules: `{"annotations": ["a"]}`, wantErr: `rule annotations: must be an object, is an array`},
		"LabelsString":       {rules: `{"labels": "a"}`, wantErr: `rule labels: must be an object, is a string`},
		"ErrorsObject":       {rules: `{"errors": {"a": 1}}`, wantErr: `rule errors: must be a set or an array of strings, is an object`},
		"ErrorsOfNumbers":    {rules: `{"errors": ["a", 1]}`, wantErr: `rule errors: must hold strings, holds a number`},
		"WarningsBoolean":    {rules: `{"warnings": true}`, wantErr: `rule warnings: must be a set or an array of strings, is a boolean`},
		"Clusters":           {rules: `{"clusters": ["b", "a", "b"]}`, want: placement.Decision{Clusters: []string{"a", "b"}}},
		"NoClusters":         {rules: `{"clusters": []}`, want: placement.Decision{Clusters: []string{}}},
		"ClustersString":     {rules: `{"clusters": "a"}`, wantErr: `rule clusters: must be a set or an array of strings, or an object, is a string`},
		"ClustersNull":       {rules: `{"clusters": null}`},
		"ClustersObject":     {rules: `{"clusters": {"b": {}, "a": {}}}`, want: placement.Decision{Clusters: []string{"a", "b"}}},
		"ClustersObjectNone": {rules: `{"clusters": {}}`, want: placement.Decision{Clusters: []string{}}},
		"Shares": {
			rules: `{"annotations": {"x": "y"}, "clusters": {"eu-2": {"replicas": 3}, "ap": {}, "eu-1": {"weight": 2}}}`,
			want: placement.Decision{
				Annotations: map[string]string{"x": "y", "placement.berth.dev/cluster-shares": `{"eu-1":{"weight":2},"eu-2":{"replicas":3}}`},
				Clusters:    []string{"ap", "eu-1", "eu-2"},
			},
		},
		"ShareLimits": {
			rules: `{"clusters": {"a": {"weight": 0}, "b": {"replicas": 1000000}, "c": {"weight": 2.0}}}`,
			want: placement.Decision{
				Annotations: map[string]string{"placement.berth.dev/cluster-shares": `{"a":{"weight":0},"b":{"replicas":1000000},"c":{"weight":2}}`},
				Clusters:    []string{"a", "b", "c"},
			},
		},
		"ShareName":         {rules: `{"clusters": {"a b": {}}}`, wantErr: `rule clusters: "a b" is not a cluster's name: `},
		"ShareNumber":       {rules: `{"clusters": {"a": 2}}`, wantErr: `rule clusters: cluster "a": must be an object such as {"weight": 2} or {}`},
		"ShareNull":         {rules: `{"clusters": {"a": null}}`, wantErr: `rule clusters: cluster "a": must be an object`},
		"ShareNegative":     {rules: `{"clusters": {"a": {"weight": -1}}}`, wantErr: `rule clusters: cluster "a": weight must be an integer from 0 to 1000000, is -1`},
		"ShareFraction":     {rules: `{"clusters": {"a": {"replicas": 1.5}}}`, wantErr: `rule clusters: cluster "a": replicas must be an integer from 0 to 1000000, is 1.5`},
		"ShareHuge":         {rules: `{"clusters": {"a": {"replicas": 1e999}}}`, wantErr: `rule clusters: cluster "a": replicas must be an integer from 0 to 1000000, is 1e999`},
		"ShareText":         {rules: `{"clusters": {"a": {"weight": "2"}}}`, wantErr: `rule clusters: cluster "a": weight must be an integer from 0 to 1000000, is "2"`},
		"ShareOfNull":       {rules: `{"clusters": {"a": {"weight": null}}}`, wantErr: `rule clusters: cluster "a": weight must be an integer from 0 to 1000000, is null`},
		"ShareBoth":         {rules: `{"clusters": {"a": {"weight": 1, "replicas": 1}}}`, wantErr: `rule clusters: cluster "a": has replicas and weight; give only one of them`},
		"ShareField":        {rules: `{"clusters": {"a": {"wieght": 1}}}`, wantErr: `rule clusters: cluster "a": unknown field "wieght"; did you mean weight? Known are replicas, weight; give {} to a cluster without a share`},
		"OwnShares":         {rules: `{"annotations": {"placement.berth.dev/cluster-shares": "{}"}}`, wantErr: `rule annotations: key "placement.berth.dev/cluster-shares": the prefix placement.berth.dev/ is Berth's own`},
		"ClustersOfNumbers": {rules: `{"clusters": ["a", 1]}`, wantErr: `rule clusters: must hold strings, holds a number`},
		"ClusterName":       {rules: `{"clusters": ["a b"]}`, wantErr: `rule clusters: "a b" is not a cluster's name: `},
		"UpperCaseLabelKey": {rules: `{"labels": {"Example.com/key": "x"}}`, wantErr: `rule labels: key "Example.com/key": `},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := placement.ParseDecision(parseJSON(t, tc.rules))
			if tc.wantErr != "" {
				if _, ok := errors.AsType[*placement.ContractError](err); !ok || !strings.HasPrefix(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParseDecision checks that every value of the rules is either rejected, or accepted and preserved.
func FuzzParseDecision(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"annotations": {"a": {"b": [1, 2.0, "<"]}}}`, `{"labels": {"a": "b"}, "errors": ["x"]}`, `{"errors": [["a"]]}`,
		`{"annotations": {"a/b/c": 1}}`, `{"warnings": "x"}`, `{"labels": {"é": "1"}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var rules map[string]any
		if decoder.Decode(&rules) != nil {
			t.Skip()
		}
		got, err := placement.ParseDecision(rules)
		if err != nil {
			if _, ok := errors.AsType[*placement.ContractError](err); !ok {
				t.Fatalf("error is a %T", err)
			}
			return
		}
		annotations, _ := rules["annotations"].(map[string]any)
		for key, value := range annotations {
			if s, ok := value.(string); ok && got.Annotations[key] != s {
				t.Fatalf("annotation %q is %q", key, got.Annotations[key])
			} else if !ok && !json.Valid([]byte(got.Annotations[key])) {
				t.Fatalf("annotation %q is not JSON: %q", key, got.Annotations[key])
			}
		}
	})
}

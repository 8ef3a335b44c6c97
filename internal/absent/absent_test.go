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

package absent_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/absent"
)

// TestValues checks what is said of values that nothing has.
func TestValues(t *testing.T) {
	many := []string{"a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8", "staging"}
	const none = "so that no cluster is eligible"
	for name, tc := range map[string]struct {
		subject       string
		values, known []string
		want          string
	}{
		"Known":     {"label env", []string{"dev"}, []string{"dev", "prod"}, ""},
		"OneOfTwo":  {"label env", []string{"dev", "test"}, []string{"dev", "prod"}, `no cluster has the value "test" of label env now; there are "dev", "prod"`},
		"All":       {"label env", []string{"test", "qa"}, []string{"dev"}, `no cluster has the value "test" or "qa" of label env now, so that no cluster is eligible; there are "dev"`},
		"NoValue":   {"label env", []string{"dev"}, nil, "no cluster has the label env now, so that no cluster is eligible"},
		"Name":      {absent.Name, []string{"eu-9"}, []string{"eu-1"}, `no cluster has the name "eu-9" now, so that no cluster is eligible; there are "eu-1"`},
		"NearOne":   {"label env", []string{"stagin"}, many, `no cluster has the value "stagin" of label env now, so that no cluster is eligible; did you mean "staging"?`},
		"FarOfMany": {"label env", []string{"production"}, many, `no cluster has the value "production" of label env now, so that no cluster is eligible; there are "a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8" and 1 more`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := absent.Values("cluster", tc.subject, tc.values, tc.known, none); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSelector checks what is said of a label selector, and that nothing is said of namespaces that are excluded by a name that none has.
func TestSelector(t *testing.T) {
	namespaces := map[string]map[string]string{
		"shop": {"kubernetes.io/metadata.name": "shop", "team": "retail"},
		"bank": {"kubernetes.io/metadata.name": "bank", "team": "finance"},
	}
	labels := absent.LabelsOf("namespace", maps.All(namespaces))
	expression := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	const name = "kubernetes.io/metadata.name"
	for text, tc := range map[string]struct {
		selector *metav1.LabelSelector
		want     []string
	}{
		"None":         {nil, nil},
		"Known":        {&metav1.LabelSelector{MatchLabels: map[string]string{"team": "retail"}}, nil},
		"Value":        {&metav1.LabelSelector{MatchLabels: map[string]string{"team": "sales"}}, []string{`s.matchLabels[team]: no namespace has the value "sales" of label team now, so that this selects no namespace; there are "finance", "retail"`}},
		"OneOfTwo":     {expression(name, metav1.LabelSelectorOpIn, "shop", "shpo"), []string{`s.matchExpressions[0]: no namespace has the value "shpo" of label kubernetes.io/metadata.name now; there are "bank", "shop"`}},
		"Key":          {expression("env", metav1.LabelSelectorOpExists), []string{`s.matchExpressions[0]: no namespace has the label env now, so that this selects no namespace`}},
		"NearKey":      {expression("taem", metav1.LabelSelectorOpExists), []string{`s.matchExpressions[0]: no namespace has the label taem now, so that this selects no namespace; did you mean team?`}},
		"NearValue":    {&metav1.LabelSelector{MatchLabels: map[string]string{"teams": "retail"}}, []string{`s.matchLabels[teams]: no namespace has the label teams now, so that this selects no namespace; did you mean team?`}},
		"OtherPrefix":  {expression("x.com/team", metav1.LabelSelectorOpExists), []string{`s.matchExpressions[0]: no namespace has the label x.com/team now, so that this selects no namespace`}},
		"Excluded":     {expression("team", metav1.LabelSelectorOpNotIn, "sales"), []string{`s.matchExpressions[0]: no namespace has the value "sales" of label team now, so that this excludes no namespace; there are "finance", "retail"`}},
		"ExcludedName": {expression(name, metav1.LabelSelectorOpNotIn, "kube-public"), nil},
		"NearToAName":  {expression(name, metav1.LabelSelectorOpNotIn, "shpp"), []string{`s.matchExpressions[0]: no namespace has the value "shpp" of label kubernetes.io/metadata.name now; there are "bank", "shop"`}},
		"DoesNotExist": {expression("env", metav1.LabelSelectorOpDoesNotExist), nil},
	} {
		t.Run(text, func(t *testing.T) {
			var got []string
			for _, p := range labels.Selector(tc.selector, field.NewPath("s")) {
				got = append(got, fmt.Sprintf("%s: %s", p.Field, p.Text))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

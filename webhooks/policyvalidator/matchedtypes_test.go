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

package policyvalidator_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// TestTypesThatRulesDoNotFit checks the warnings of rules that can't decide objects of a matched type, or apply to none of them.
func TestTypesThatRulesDoNotFit(t *testing.T) {
	workloads := placementv1.ResourceRule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}
	volumes := placementv1.ResourceRule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"}}
	const podless = "the policy sets fields of pods, and persistentvolumes have no pod template that is known"
	const unnamespaced = "spec.rules[0].when.namespaceSelector: persistentvolumes have no namespace, so that rule a applies to none of them"
	for name, tc := range map[string]struct {
		rules, rego string
		match       []placementv1.ResourceRule
		want        []string
	}{
		"Nodes":             {rules: `[{name: a, candidates: Nodes, require: [{label: a, operator: Exists}]}]`, match: []placementv1.ResourceRule{workloads, volumes}, want: []string{podless}},
		"Settings":          {rules: `[{name: a, set: {priorityClassName: high}}]`, match: []placementv1.ResourceRule{volumes}, want: []string{podless}},
		"Workloads":         {rules: `[{name: a, set: {priorityClassName: high}}]`, match: []placementv1.ResourceRule{workloads}},
		"Labels":            {rules: `[{name: a, set: {labels: {a: b}}}]`, match: []placementv1.ResourceRule{volumes}},
		"Rego":              {rego: `scheduling.priorityClassName := "high"`, match: []placementv1.ResourceRule{volumes}, want: []string{podless}},
		"RegoOfSomeTypes":   {rego: `scheduling.priorityClassName := "high" if input.kind == "Deployment"`, match: []placementv1.ResourceRule{workloads, volumes}},
		"NamespaceSelector": {rules: `[{name: a, when: {namespaceSelector: {matchLabels: {a: b}}}, deny: "no"}]`, match: []placementv1.ResourceRule{volumes, workloads}, want: []string{unnamespaced}},
		"EmptySelector":     {rules: `[{name: a, when: {namespaceSelector: {}}, deny: "no"}]`, match: []placementv1.ResourceRule{volumes}},
		"Namespaced":        {rules: `[{name: a, when: {namespaceSelector: {matchLabels: {a: b}}}, deny: "no"}]`, match: []placementv1.ResourceRule{workloads}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &kinds{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
			p := newPolicy("package p\n" + tc.rego)
			if tc.rules != "" {
				p.Spec.Rego = ""
				if err := yaml.UnmarshalStrict([]byte(tc.rules), &p.Spec.Rules); err != nil {
					t.Fatal(err)
				}
			}
			p.Spec.Match.ResourceRules = tc.match
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(warnings, func(w string) bool {
				return !strings.Contains(w, "no pod template") && !strings.Contains(w, "no namespace")
			})
			if len(got) != len(tc.want) || len(got) > 0 && !strings.HasPrefix(got[0], tc.want[0]) {
				t.Errorf("warnings %q, want %q", got, tc.want)
			}
		})
	}
}

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
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// teamPolicy is a policy for the workloads of a team, with more fields of its spec.
const teamPolicy = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: checked}
spec:
  match:
    resourceRules:
    - {apiGroups: [apps, batch], apiVersions: [v1], resources: [deployments, statefulsets, daemonsets, jobs, cronjobs]}
    namespaceSelector: {matchLabels: {team: %s}}
%s
`

// scopedQuota is a quota with the amounts of spec.hard.
const scopedQuota = "apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: checked, namespace: %s}\nspec: {hard: {%s}}\n"

// TestMistakesInFleet checks what is told of policies and quotas in the fleet that the documentation shows.
func TestMistakesInFleet(t *testing.T) {
	fleet, err := filepath.Abs("../../docs/examples/console/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy := func(team, spec string) string { return fmt.Sprintf(teamPolicy, team, strings.TrimRight(spec, "\n")) }
	quota := func(namespace, hard string) string { return fmt.Sprintf(scopedQuota, namespace, hard) }
	const two = "  rules:\n  - {name: r, limit: 2}\n"
	const level = "  rules:\n  - name: r\n    require: [{label: pci-level, operator: Gte, valueFrom: {annotation: policy.example.com/%s, default: \"0\"}}]\n"
	const minimum = "  delivery: {karmada: {}, replicas: {divideBy: Even, minPerCluster: %d}}\n  rules:\n  - {name: r, require: [{label: pci-level, operator: Gte, values: [\"2\"]}], limit: 3}\n"
	for name, test := range map[string]struct{ manifest, want string }{
		"CPUs":             {quota("support-eu", "requests.cpu: 8000"), "8k is 8000 CPUs, more than four times what all clusters and nodes have together"},
		"ManyCPUs":         {quota("support-eu", "requests.cpu: 2000"), ""},
		"Raised":           {quota("payments-eu", "pods: 500"), "500 is never reached: ScopedQuota compute counts the same objects"},
		"Lower":            {quota("payments-eu", "pods: 100"), ""},
		"Override":         {policy("support", "  clusters: {developerChoice: Override}\n"+two), "spec.clusters.developerChoice has no effect: policy residency gives clusters"},
		"OverrideForMore":  {policy("payments", "  clusters: {developerChoice: Override}\n"+two), ""},
		"Clear":            {policy("support", "  clusters: {onEmpty: Clear}\n"+two), "spec.clusters.onEmpty has no effect: policy residency gives clusters"},
		"Choices":          {policy("identity", "  rules:\n  - {name: r, prefer: [{label: tier, operator: In, values: [premium], weight: 100}], limit: 2}\n"), "spec.rules[0].limit: rule eu of policy residency"},
		"ChoicesOfOthers":  {policy("support", "  rules:\n  - {name: r, require: [{label: pci-level, operator: Gte, values: [\"2\"]}], limit: 3}\n"), ""},
		"SameOrder":        {policy("identity", two), ""},
		"LongerAnnotation": {policy("payments", fmt.Sprintf(level, "pci-level")), `did you mean "policy.example.com/pci-compliance-level"?`},
		"Annotation":       {policy("payments", fmt.Sprintf(level, "pci-compliance-level")), ""},
		"TwoLabels": {strings.Replace(policy("support", "  rules:\n  - name: r\n    when: {objectSelector: {matchLabels: {example.com/residency: eu, example.com/cost: low}}}\n    warn: both\n"),
			"    namespaceSelector: {matchLabels: {team: support}}\n", "", 1), "no matched object has all of these labels now, so that rule r applies to none"},
		"Minimum":      {policy("support", fmt.Sprintf(minimum, 3)), "no matched object is divided among 3 clusters"},
		"SmallMinimum": {policy("support", fmt.Sprintf(minimum, 1)), ""},
	} {
		path := filepath.Join(t.TempDir(), "manifest.yaml")
		if err := os.WriteFile(path, []byte(test.manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, _, err := command(t, "check", "-f", path, "--from", fleet)
		if err != nil || strings.Contains(stdout, "warning: ") != (test.want != "") || !strings.Contains(stdout, test.want) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, test.want, stdout)
		}
	}
	// More is used than one of its quotas admits.
	if stdout, _, err := command(t, "check", "-f", fleet, "--from", fleet); err != nil || strings.Count(stdout, "warning: ") != 1 {
		t.Errorf("the fleet: %v\n%s", err, stdout)
	}
}

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

package whatif_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

const ruled = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  remediation: {mode: Automatic}
  rules:
  - name: eu
    when: {objectSelector: {matchLabels: {region: eu}}}
    require: [{label: region, operator: In, values: [eu]}]
  - name: rest
    require: [{label: region, operator: In, values: [us]}]
`

// TestRuleCounts checks how many objects each rule decides before and after a change of the policy, and a change of an object.
func TestRuleCounts(t *testing.T) {
	s, err := whatif.NewSession(t.Context(), placed(t, world+ruled), simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		changes whatif.Changes
		want    []whatif.RuleCount
	}{
		"Policy": {
			whatif.Changes{Apply: parse(t, strings.NewReplacer("{region: eu}", "{region: us}", "name: rest", "name: others").Replace(ruled))},
			[]whatif.RuleCount{{Policy: "region", Rule: "eu", Before: 1, After: 1}, {Policy: "region", Rule: "others", After: 1}, {Policy: "region", Rule: "rest", Before: 1}},
		},
		"Object": {
			whatif.Changes{Set: []whatif.Assignment{{Reference: reference("apps", "v1", "deployments", "bank", "db"), Path: []string{"metadata", "labels", "region"}, Value: "eu", Text: "eu"}}},
			[]whatif.RuleCount{{Policy: "region", Rule: "eu", Before: 1, After: 2}, {Policy: "region", Rule: "rest", Before: 1}},
		},
		"Deleted": {
			whatif.Changes{Delete: []whatif.Reference{reference("apps", "v1", "deployments", "bank", "db")}},
			[]whatif.RuleCount{{Policy: "region", Rule: "eu", Before: 1, After: 1}, {Policy: "region", Rule: "rest", Before: 1}},
		},
		"Nothing": {whatif.Changes{Set: []whatif.Assignment{{Reference: reference("apps", "v1", "deployments", "bank", "db"), Path: []string{"metadata", "labels", "note"}, Value: "x", Text: "x"}}}, nil},
	} {
		report, err := s.WhatIf(t.Context(), test.changes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(test.want, report.Rules); diff != "" {
			t.Errorf("%s: rules (-want +got):\n%s", name, diff)
		}
	}
}

// TestWaits checks what a change says of when, and with whose approval, an object gets another value.
func TestWaits(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	const orUpdate = ", or for an update that changes what the policy reads or writes"
	const approval, window = "for an approval of the plan of PlacementPolicy region (kubectl berth approve region)",
		"for a window of PlacementPolicy region, the next of which opens at 2026-03-02T22:00:00Z"
	for name, test := range map[string]struct {
		remediation, want string
		pending           bool
	}{
		"Automatic": {"{mode: Automatic}", "", false},
		"Window":    {`{mode: Automatic, windows: [{start: "0 22 * * *", duration: 1h}]}`, window + orUpdate, false},
		"Approved":  {"{mode: Approved}", approval + orUpdate, true},
		"Both":      {`{mode: Approved, windows: [{start: "0 22 * * *", duration: 1h}]}`, approval + ", and then " + window + orUpdate, true},
		"Manual": {
			"{mode: Manual}", "for an update that changes what PlacementPolicy region reads or writes (spec.remediation.mode of PlacementPolicy region is Manual)", true,
		},
	} {
		policy := strings.Replace(region, "{mode: Automatic}", test.remediation, 1)
		s, err := whatif.NewSession(t.Context(), placed(t, world+policy), simulation.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.WhatIf(t.Context(), whatif.Changes{Apply: parse(t, strings.Replace(policy, "== input.metadata.labels.region", "!= input.metadata.labels.region", 1))})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Objects) != 2 {
			t.Fatalf("%s: %+v", name, report.Objects)
		}
		for _, o := range report.Objects {
			if len(o.Values) != 1 || o.Values[0].Waits != test.want || o.Values[0].Pending != test.pending {
				t.Errorf("%s: %s has %+v, want it to wait %q", name, o.Name, o.Values, test.want)
			}
		}
		violations, err := whatif.Violations(t.Context(), simulationOf(t, bare(t, world+policy), now), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range violations {
			if want := test.want; (test.remediation != "{mode: Manual}" && v.Waits != want) || test.remediation == "{mode: Manual}" && v.Waits != "" {
				t.Errorf("%s: the violation of %s waits %q", name, v.Name, v.Waits)
			}
		}
		if len(violations) != 2 {
			t.Errorf("%s: %d violations", name, len(violations))
		}
	}
}

func simulationOf(t *testing.T, cluster simulation.Cluster, now time.Time) *simulation.Simulation {
	t.Helper()
	s, err := simulation.New(t.Context(), cluster, simulation.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

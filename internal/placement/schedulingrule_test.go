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
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/podscheduling"
)

func TestParseScheduling(t *testing.T) {
	tests := map[string]struct {
		rules   string
		want    placement.Decision
		wantErr string
	}{
		"Whole": {
			rules: `{"scheduling": {"nodeSelector": {"example.com/disk": "ssd", "zone": ""}, "priorityClassName": "high", "schedulerName": "mine",
				"tolerations": [{"key": "a", "operator": "Equal", "value": "b"}, {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}, {"key": "a", "value": "b"}],
				"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "example.com/zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"], "labelSelector": {}}],
				"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}}}}`,
			want: placement.Decision{Scheduling: map[string]string{
				"nodeSelector/example.com/disk": "ssd", "nodeSelector/zone": "", "priorityClassName": "high", "schedulerName": "mine",
				`tolerations/{"key":"a","value":"b"}`: "present", `tolerations/{"effect":"NoExecute","operator":"Exists","tolerationSeconds":30}`: "present",
				"topologySpreadConstraints/example.com/zone/DoNotSchedule": `{"labelSelector":{},"matchLabelKeys":["app"],"maxSkew":1,"topologyKey":"example.com/zone","whenUnsatisfiable":"DoNotSchedule"}`,
				"affinity": `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}]}}}`,
			}},
		},
		"Empty":      {rules: `{"scheduling": {"affinity": {}, "tolerations": [], "nodeSelector": {}}}`, want: placement.Decision{Scheduling: map[string]string{}}},
		"Array":      {rules: `{"scheduling": []}`, wantErr: `rule scheduling: must be an object, is an array`},
		"Unknown":    {rules: `{"scheduling": {"nodeName": "a"}}`, wantErr: `rule scheduling: nodeName: unknown; known are affinity, nodeSelector, `},
		"Case":       {rules: `{"scheduling": {"nodeselector": {}}}`, wantErr: `rule scheduling: nodeselector: unknown`},
		"Null":       {rules: `{"scheduling": {"tolerations": null}}`, wantErr: `rule scheduling: tolerations: must not be null`},
		"Type":       {rules: `{"scheduling": {"nodeSelector": {"a": 1}}}`, wantErr: `rule scheduling: nodeSelector: cannot unmarshal number`},
		"EmptyName":  {rules: `{"scheduling": {"schedulerName": ""}}`, wantErr: `rule scheduling: schedulerName: must not be empty`},
		"Member":     {rules: `{"scheduling": {"tolerations": [{"kay": "a"}]}}`, wantErr: `rule scheduling: tolerations: unknown field "[0].kay"`},
		"Label":      {rules: `{"scheduling": {"nodeSelector": {"a b": "c"}}}`, wantErr: `rule scheduling: nodeSelector: Invalid value: "a b"`},
		"LabelValue": {rules: `{"scheduling": {"nodeSelector": {"a": "not valid"}}}`, wantErr: `rule scheduling: nodeSelector: Invalid value: "not valid"`},
		"Effect":     {rules: `{"scheduling": {"tolerations": [{"key": "a", "effect": "Never"}]}}`, wantErr: `rule scheduling: tolerations[0].effect: Unsupported value: "Never"`},
		"Operator":   {rules: `{"scheduling": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}`, wantErr: `rule scheduling: tolerations[0].operator: Invalid value`},
		"Seconds":    {rules: `{"scheduling": {"tolerations": [{"key": "a", "tolerationSeconds": 1}]}}`, wantErr: `rule scheduling: tolerations[0].effect: Invalid value`},
		"Skew":       {rules: `{"scheduling": {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]}}`, wantErr: `rule scheduling: topologySpreadConstraints[0].maxSkew: Invalid value: 0`},
		"Twice":      {rules: `{"scheduling": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]}}`, wantErr: `rule scheduling: topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value`},
		"Terms":      {rules: `{"scheduling": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}}`, wantErr: `rule scheduling: affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value`},
		"Topology":   {rules: `{"scheduling": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}}}}`, wantErr: `rule scheduling: affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value`},
		"Class":      {rules: `{"scheduling": {"priorityClassName": "Not_valid"}}`, wantErr: `rule scheduling: priorityClassName: Invalid value: "Not_valid"`},
	}
	many := make([]string, 40_000)
	for i := range many {
		many[i] = fmt.Sprintf(`{"key": "a%d", "operator": "Exists"}`, i)
	}
	tooMany := tests["Array"]
	tooMany.rules, tooMany.wantErr = `{"scheduling": {"tolerations": [`+strings.Join(many, ",")+`]}}`, "rule scheduling: tolerations"
	tests["TooMany"] = tooMany
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := placement.ParseDecision(parseJSON(t, tc.rules))
			if tc.wantErr != "" {
				var wrong *placement.ContractError
				if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), tc.wantErr) {
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

// FuzzScheduling checks that a rule is either rejected, or that parsing its result again makes no difference.
func FuzzScheduling(f *testing.F) {
	for _, seed := range []string{
		`{"nodeSelector":{"a":"b"}}`, `{"tolerations":[{}]}`, `{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}}`,
		`{"topologySpreadConstraints":[{"topologyKey":"a/b","whenUnsatisfiable":"DoNotSchedule","maxSkew":1,"minDomains":2}]}`, `{"schedulerName":"a"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var rule any
		if json.Unmarshal([]byte(text), &rule) != nil {
			return
		}
		d, err := placement.ParseDecision(map[string]any{"scheduling": rule})
		if err != nil {
			return
		}
		bare := map[string]any{"spec": map[string]any{}}
		once, err := podscheduling.Merge(bare, []string{"spec"}, d.Scheduling)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := podscheduling.Merge(once, []string{"spec"}, d.Scheduling)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Errorf("applied twice (-once +twice):\n%s", diff)
		}
	})
}

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

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/apischema"
)

// refusals validates an object as the API server does, and returns its errors.
func refusals(t *testing.T, schema *apischema.Schema, text string) []string {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	// Other decoders turn integers into floats.
	var object map[string]any
	if err := utiljson.Unmarshal(encoded, &object); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, err := range schema.Validate(t.Context(), object) {
		out = append(out, err.Error())
	}
	return out
}

func TestSchemaOfRollout(t *testing.T) {
	stages := func(count int) string {
		list := make([]string, count)
		for i := range list {
			list[i] = fmt.Sprintf("{name: stage-%d, percent: %d}", i, i+1)
		}
		return "stages: [" + strings.Join(list, ", ") + "]"
	}
	stage := func(rest string) string { return "stages: [{name: canary, " + rest + "}]" }
	policy := schemas(t)["PlacementPolicy/v1alpha1"]
	schema, err := apischema.New(&policy)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		rollout string
		// rest is the rest of the spec. By default, the policy has a module.
		rest string
		want []string
	}{
		"stages":                {rollout: "stages: [{name: canary, namespaceSelector: {matchLabels: {canary: 'true'}}, soak: 1h, approval: true}, {name: rest, percent: 100, pauseAfterFailures: 0}]"},
		"selector of all":       {rollout: stage("namespaceSelector: {}")},
		"one percent":           {rollout: stage("percent: 1")},
		"no soak":               {rollout: stage("percent: 1, soak: 0s")},
		"longest soak":          {rollout: stage("percent: 1, soak: 720h")},
		"revision":              {rollout: "revision: 3"},
		"sixteen stages":        {rollout: stages(16)},
		"nothing":               {want: []string{"spec.rollout: Invalid value: 0: spec.rollout in body should have at least 1 properties"}},
		"no percent":            {rollout: stage("percent: 0"), want: []string{"spec.rollout.stages[0].percent: Invalid value: 0: spec.rollout.stages[0].percent in body should be greater than or equal to 1"}},
		"more than all":         {rollout: stage("percent: 101"), want: []string{"spec.rollout.stages[0].percent: Invalid value: 101: spec.rollout.stages[0].percent in body should be less than or equal to 100"}},
		"negative soak":         {rollout: stage("percent: 1, soak: -1s"), want: []string{`spec.rollout.stages[0].soak: Invalid value: "-1s": must be from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h`}},
		"soak too long":         {rollout: stage("percent: 1, soak: 721h"), want: []string{`spec.rollout.stages[0].soak: Invalid value: "721h": must be from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h`}},
		"negative failures":     {rollout: stage("percent: 1, pauseAfterFailures: -1"), want: []string{"spec.rollout.stages[0].pauseAfterFailures: Invalid value: -1: must be a number from 0 to 10000, or Never"}},
		"too many failures":     {rollout: stage("percent: 1, pauseAfterFailures: 10001"), want: []string{"spec.rollout.stages[0].pauseAfterFailures: Invalid value: 10001: must be a number from 0 to 10000, or Never"}},
		"name":                  {rollout: "stages: [{name: Canary_1, percent: 1}]", want: []string{"spec.rollout.stages[0].name: Invalid value: \"Canary_1\": spec.rollout.stages[0].name in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"}},
		"long name":             {rollout: "stages: [{name: " + strings.Repeat("a", 64) + ", percent: 1}]", want: []string{"spec.rollout.stages[0].name: Too long: may not be more than 63 bytes"}},
		"no name":               {rollout: "stages: [{percent: 1}]", want: []string{"spec.rollout.stages[0].name: Required value"}},
		"selector and percent":  {rollout: stage("percent: 1, namespaceSelector: {}"), want: []string{"spec.rollout.stages[0]: Invalid value: exactly one of namespaceSelector and percent is required"}},
		"nothing selected":      {rollout: stage("soak: 1h"), want: []string{"spec.rollout.stages[0]: Invalid value: exactly one of namespaceSelector and percent is required"}},
		"seventeen stages":      {rollout: stages(17), want: []string{"spec.rollout.stages: Too many: 17: must have at most 16 items"}},
		"the same name":         {rollout: "stages: [{name: a, percent: 1}, {name: a, percent: 2}]", want: []string{`spec.rollout.stages[1]: Duplicate value: {"name":"a"}`}},
		"revision 0":            {rollout: "revision: 0", want: []string{"spec.rollout.revision: Invalid value: 0: spec.rollout.revision in body should be greater than or equal to 1"}},
		"remote engine":         {rollout: stage("percent: 1"), rest: "remote: {url: 'https://opa.example.com/v1/data/placement'}", want: []string{"spec.rollout: Forbidden: a policy that a remote engine decides has no stages: the engine has one version of its modules"}},
		"remote engine, rolled": {rollout: "revision: 3", rest: "remote: {url: 'https://opa.example.com/v1/data/placement'}", want: []string{"spec.rollout: Forbidden: a policy that a remote engine decides has no stages: the engine has one version of its modules"}},
	} {
		t.Run(name, func(t *testing.T) {
			rest := tc.rest
			if rest == "" {
				rest = "rego: package p"
			}
			got := refusals(t, schema, "{apiVersion: placement.berth.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: p}, spec: {"+
				"match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}, "+rest+", rollout: {"+tc.rollout+"}}}")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSchemaOfDurations checks that the API server says how to write a duration, in every field that is one.
func TestSchemaOfDurations(t *testing.T) {
	policy := schemas(t)["PlacementPolicy/v1alpha1"]
	schema, err := apischema.New(&policy)
	if err != nil {
		t.Fatal(err)
	}
	for field, tc := range map[string]struct{ spec, bounds string }{
		"spec.maxStaleness":                    {"maxStaleness: %s", "from 5s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"},
		"spec.clusters.leaveUnreadyAfter":      {"clusters: {leaveUnreadyAfter: %s}", "from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h"},
		"spec.rollout.stages[0].soak":          {"rollout: {stages: [{name: a, percent: 1, soak: %s}]}", "from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h"},
		"spec.remediation.budget.moveTimeout":  {"remediation: {budget: {moveTimeout: %s}}", "from 1s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"},
		"spec.remediation.windows[0].duration": {"remediation: {windows: [{start: '0 22 * * *', duration: %s}]}", "from 1m to 168h, in hours, minutes, and seconds, such as 90m or 24h"},
		"spec.delivery.surge.timeout":          {"delivery: {karmada: {}, surge: {timeout: %s}}", "from 1s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"},
	} {
		for text, sound := range map[string]bool{
			"90m": true, "1h30m": true, "1.5h": true, "5400s": true, "1h0m0s": true, "3600000ms": true,
			"1d": false, "5min": false, "1h 30m": false, "2 hours": false, "''": false, "'90'": false, "-90m": false, "1.2.3h": false, "PT90M": false, "9999h": false,
		} {
			var want []string
			if !sound {
				want = []string{fmt.Sprintf("%s: Invalid value: %q: must be %s", field, strings.Trim(text, "'"), tc.bounds)}
			}
			got := refusals(t, schema, "{apiVersion: placement.berth.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: p}, spec: {"+
				"match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}, rego: package p, "+fmt.Sprintf(tc.spec, text)+"}}")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", field, text, diff)
			}
		}
	}
}

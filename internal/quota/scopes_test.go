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

package quota

import (
	"strings"
	"testing"

	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

func TestScoping(t *testing.T) {
	e := NewEvaluators(clock.RealClock{}, Devices{})
	class := func(expressions string) string {
		return `{hard: {pods: 1}, scopeSelector: {matchExpressions: [` + expressions + `]}}`
	}
	const a, b = `{scopeName: PriorityClass, operator: In, values: [a]}`, `{scopeName: PriorityClass, operator: In, values: [b]}`
	for _, tc := range []struct{ spec, uncounted, nothing string }{
		{`{hard: {count/jobs.batch: 1}}`, "", ""},
		{`{hard: {pods: 1}, scopes: [Terminating, BestEffort, CrossNamespacePodAffinity]}`, "", ""},
		{`{hard: {requests.nvidia.com/gpu: 1, count/pods: 1}, scopes: [BestEffort]}`, "", ""},
		{`{hard: {persistentvolumeclaims: 1}, scopes: [VolumeAttributesClass]}`, "", ""},
		{`{hard: {count/jobs.batch: 1}, scopes: [Terminating]}`, "spec.hard[count/jobs.batch]: jobs.batch do not have the scope Terminating", "jobs.batch"},
		{`{hard: {pods: 1, count/jobs.batch: 1}, scopes: [Terminating]}`, "spec.hard[count/jobs.batch]", ""},
		{`{hard: {count/persistentvolumeclaims: 1}, scopes: [VolumeAttributesClass, BestEffort]}`, "do not have the scope BestEffort", "BestEffort"},
		{`{hard: {pods: 1}, scopes: [BestEffort], scopeSelector: {matchExpressions: [{scopeName: NotBestEffort, operator: Exists}]}}`, "", "both BestEffort and NotBestEffort"},
		{class(a), "", ""},
		{class(a + "," + b), "", "scope PriorityClass"},
		{class(a + `, {scopeName: PriorityClass, operator: NotIn, values: [b]}`), "", ""},
		{class(a + `, {scopeName: PriorityClass, operator: NotIn, values: [a]}`), "", "PriorityClass"},
		{class(a + `, {scopeName: PriorityClass, operator: DoesNotExist}`), "", "PriorityClass"},
		{class(`{scopeName: PriorityClass, operator: In, values: [""]}`), "", "PriorityClass"},
		{class(`{scopeName: PriorityClass, operator: NotIn, values: [a]}, {scopeName: PriorityClass, operator: Exists}`), "", ""},
		{class(`{scopeName: PriorityClass, operator: NotIn, values: [a]}, {scopeName: PriorityClass, operator: DoesNotExist}`), "", ""},
		{strings.ReplaceAll(class(a+","+b), "PriorityClass", "VolumeAttributesClass"), "spec.hard[pods]", "spec.hard[pods]"},
		{`{hard: {count/persistentvolumeclaims: 1}, scopes: [VolumeAttributesClass], scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: DoesNotExist}]}}`, "", "at once"},
		{`{hard: {nvidia.com/gpu: 1}, scopes: [BestEffort]}`, "", ""},
	} {
		t.Run(tc.spec, func(t *testing.T) {
			got := e.CheckScopes(parsed[placementv1.QuotaSpec](t, tc.spec))
			only(t, got.Uncounted, tc.uncounted)
			if (got.CountsNothing == "") != (tc.nothing == "") || !strings.Contains(got.CountsNothing, tc.nothing) {
				t.Errorf("nothing: %q, want %q", got.CountsNothing, tc.nothing)
			}
		})
	}
}

// FuzzScoping checks that requirements by priority class are reported as contradictory if and only if no pod matches
// all of them.
func FuzzScoping(f *testing.F) {
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist"}
	f.Add(uint8(0), uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, x, y, z uint8) {
		var all []placementv1.ScopeRequirement
		for _, n := range []uint8{x, y, z} {
			r := *parsed[placementv1.ScopeRequirement](t, `{scopeName: PriorityClass, operator: `+operators[n%4]+`}`)
			if n%4 < 2 {
				r.Values = []string{string(rune('a' + n/4%3))}
			}
			all = append(all, r)
		}
		want := false
		for _, class := range []string{"", "a", "b", "c", "d"} {
			matches := true
			for _, r := range all {
				in := len(r.Values) > 0 && class == r.Values[0]
				matches = matches && map[string]bool{"In": in, "NotIn": !in, "Exists": class != "", "DoesNotExist": class == ""}[string(r.Operator)]
			}
			want = want || matches
		}
		if got := contradiction(all) == ""; got != want {
			t.Errorf("%v: possible: %t, want %t", all, got, want)
		}
	})
}

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

package console

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/whatif"
)

// TestFlowsOfPlannedMoves checks that a flow has only the difference from the plan of an object.
func TestFlowsOfPlannedMoves(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		planned  *whatif.Planned
		want     []Flow
	}{
		"nothing is planned":       {`["a","b"]`, `["c","d"]`, nil, []Flow{{From: "a", To: "c", Objects: 1}, {From: "b", To: "d", Objects: 1}}},
		"one of two is planned":    {`["a","b"]`, `["c","d"]`, &whatif.Planned{To: new(`["a","d"]`)}, []Flow{{From: "a", To: "c", Objects: 1}}},
		"another target":           {`["a"]`, `["c"]`, &whatif.Planned{To: new(`["b"]`)}, []Flow{{From: "a", To: "c", Planned: true, Objects: 1}}},
		"another target of one":    {`["a","b"]`, `["c","d"]`, &whatif.Planned{To: new(`["c","e"]`)}, []Flow{{From: "b", To: "d", Planned: true, Objects: 1}}},
		"the same, but not later":  {`["a"]`, `["b"]`, &whatif.Planned{To: new(`["b"]`), Pending: true}, []Flow{{From: "a", To: "b", Planned: true, Objects: 1}}},
		"one more cluster":         {`["a"]`, `["b","c"]`, &whatif.Planned{To: new(`["b"]`)}, []Flow{{To: "c", Objects: 1}}},
		"one cluster less":         {`["a"]`, `["b"]`, &whatif.Planned{To: new(`["b","c"]`)}, []Flow{}},
		"the plan is to leave all": {`["a"]`, `["b"]`, &whatif.Planned{}, []Flow{{From: "a", To: "b", Planned: true, Objects: 1}}},
	} {
		got := flowsOf([][]whatif.Value{{{Field: "annotations", Key: "placement.berth.dev/clusters", From: &test.from, To: &test.to, Planned: test.planned}}})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

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

package containment_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/containment"
)

func TestOf(t *testing.T) {
	type counts = map[string]int
	all := containment.Scope(nil)
	tests := map[string]struct {
		failures counts
		limit    int
		want     containment.Scope
		runs     bool
	}{
		"nothing fails":                        {limit: 10, runs: true},
		"no limit":                             {failures: counts{"a": 99, "b": 99, "c": 99}, limit: containment.Never, runs: true},
		"none tolerated, and none fails":       {runs: true},
		"none tolerated, and one fails":        {failures: counts{"a": 1}, want: all},
		"fewer than the limit":                 {failures: counts{"a": 9}, limit: 10, runs: true},
		"fewer than the limit, in many":        {failures: counts{"a": 3, "b": 3, "c": 3}, limit: 10, runs: true},
		"one namespace":                        {failures: counts{"a": 10}, limit: 10, want: containment.Scope{"a"}},
		"one namespace, far above the limit":   {failures: counts{"a": 1000}, limit: 10, want: containment.Scope{"a"}},
		"cluster-scoped objects":               {failures: counts{"": 10}, limit: 10, want: containment.Scope{""}},
		"two namespaces":                       {failures: counts{"b": 10, "a": 10}, limit: 10, want: containment.Scope{"a", "b"}},
		"two namespaces, one with few":         {failures: counts{"a": 9, "b": 1}, limit: 10, want: containment.Scope{"a"}},
		"two namespaces, a small limit":        {failures: counts{"a": 2, "b": 2}, limit: 4, want: containment.Scope{"a", "b"}},
		"one tenant and the failures of two":   {failures: counts{"a": 100, "b": 1, "c": 1}, limit: 10, want: containment.Scope{"a"}},
		"two tenants and the failure of one":   {failures: counts{"a": 100, "b": 100, "c": 1}, limit: 10, want: containment.Scope{"a", "b"}},
		"three namespaces":                     {failures: counts{"a": 4, "b": 4, "c": 4}, limit: 10, want: all},
		"three with just enough":               {failures: counts{"a": 4, "b": 4, "c": 2}, limit: 10, want: all},
		"two namespaces and cluster-scoped":    {failures: counts{"a": 10, "b": 10, "": 10}, limit: 10, want: all},
		"one failure in each of many":          {failures: counts{"a": 1, "b": 1, "c": 1, "d": 1}, limit: 4, want: all},
		"a limit of one, and one namespace":    {failures: counts{"a": 7}, limit: 1, want: containment.Scope{"a"}},
		"a limit of one, and two namespaces":   {failures: counts{"a": 1, "b": 1}, limit: 1, want: containment.Scope{"a", "b"}},
		"a limit of one, and three namespaces": {failures: counts{"a": 1, "b": 1, "c": 1}, limit: 1, want: all},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, stops := containment.Of(tc.failures, tc.limit)
			if diff := cmp.Diff(tc.want, got); diff != "" || stops == tc.runs {
				t.Errorf("stops %t, scope (-want +got):\n%s", stops, diff)
			}
		})
	}
}

// TestOfBoundsWhatGoesOn verifies for random failures that less than the limit fails where nothing is stopped, that no one or two
// namespaces stop the others, and that more failures never stop less.
func TestOfBoundsWhatGoesOn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		failures, limit := map[string]int{}, 1+random.IntN(20)
		for i := range random.IntN(6) {
			failures[fmt.Sprint(i)] = 1 + random.IntN(12)
		}
		scope, stops := containment.Of(failures, limit)
		rest := 0
		for namespace, n := range failures {
			if !stops || !scope.Includes(namespace) {
				rest += n
			}
		}
		if rest >= limit {
			t.Fatalf("%v, limit %d: %d failures outside of %v", failures, limit, rest, scope)
		}
		if stops && (scope.All() && len(failures) < containment.Namespaces || len(scope) >= containment.Namespaces) {
			t.Fatalf("%v, limit %d: scope %v", failures, limit, scope)
		}
		failures[fmt.Sprint(random.IntN(6))]++
		if more, still := containment.Of(failures, limit); stops && (!still || !more.Covers(scope)) {
			t.Fatalf("%v, limit %d: scope %v, and %v before", failures, limit, more, scope)
		}
	}
}

func TestScope(t *testing.T) {
	one, two, all := containment.Scope{"a"}, containment.Scope{"a", "b"}, containment.Scope(nil)
	for _, tc := range []struct {
		wide, narrow containment.Scope
	}{{all, two}, {all, one}, {two, one}} {
		if !tc.wide.Covers(tc.narrow) || tc.narrow.Covers(tc.wide) || !tc.wide.Covers(tc.wide) {
			t.Errorf("%v does not cover just %v", tc.wide, tc.narrow)
		}
	}
	if !one.Includes("a") || one.Includes("b") || one.Includes("") || !all.Includes("") {
		t.Error("a scope includes other namespaces")
	}
}

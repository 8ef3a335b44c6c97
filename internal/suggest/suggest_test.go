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

package suggest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/suggest"
)

func TestNearest(t *testing.T) {
	for _, tc := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"deployment", []string{"daemonsets", "deployments", "statefulsets"}, "deployments"},
		{"Deployments", []string{"deployments"}, "deployments"},
		{"lables", []string{"annotations", "labels", "name"}, "labels"},
		{"nodeselector", []string{"nodeSelector", "affinity"}, "nodeSelector"},
		{"rdain", []string{"train", "drain", "brain"}, "drain"},
		{"drian", []string{"drain"}, "drain"},
		{"arch", []string{"chra"}, ""},
		{"a", []string{"b"}, "b"},
		{"events", []string{"events", "event", "secrets"}, ""},
		{"abc", []string{"xyz"}, ""},
		{"widgets", []string{"deployments", "pods"}, ""},
		{"cat", []string{"bat", "hat", "car"}, "bat"},
		{"", []string{"a"}, ""},
		{"pod", nil, ""},
		{"pod", []string{""}, ""},
		{strings.Repeat("a", 257), []string{strings.Repeat("a", 256)}, ""},
	} {
		got, ok := suggest.Nearest(tc.name, tc.candidates)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("Nearest(%q) = %q, %t, want %q", tc.name, got, ok, tc.want)
		}
	}
}

func TestTheOrderOfTheCandidatesMakesNoDifference(t *testing.T) {
	candidates := []string{"bat", "hat", "car", "cut"}
	want, _ := suggest.Nearest("cat", candidates)
	slices.Reverse(candidates)
	if got, _ := suggest.Nearest("cat", candidates); got != want {
		t.Errorf("got %q and %q", want, got)
	}
}

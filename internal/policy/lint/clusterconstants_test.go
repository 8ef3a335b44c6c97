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

package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
)

func TestClusterConstants(t *testing.T) {
	for name, tc := range map[string]struct {
		rego string
		// want has the constants: "!" if Given is true, then the value and the field.
		want []string
	}{
		"set":       {`clusters := {"a", "b"} if input.metadata.labels.x == "c"`, []string{"3:14 !a ", "3:19 !b "}},
		"array":     {`clusters := ["a", input.metadata.name]`, nil},
		"constants": {`clusters := ["a"]`, []string{"3:14 !a "}},
		"shares":    {`clusters := {"a": {"weight": 1}, "b": {}}`, []string{"3:14 !a ", "3:34 !b "}},
		"share":     {`clusters["a"] := {"weight": 1} if input.metadata.name`, []string{"3:10 !a "}},
		"member":    {`clusters contains "a"`, []string{"3:19 !a "}},
		"else": {`clusters := {"a"} if {
	input.metadata.labels.x
} else := {"b"}`, []string{"3:14 !a ", "5:12 !b "}},
		"field":        {`clusters contains n if { some n, c in data.clusters; c.region == "EU" }`, []string{"3:66 EU region"}},
		"swapped":      {`clusters contains n if { some n, c in data.clusters; "EU" == c.region }`, []string{"3:54 EU region"}},
		"unequal":      {`clusters contains n if { some n, c in data.clusters; c.region != "EU" }`, []string{"3:66 EU region"}},
		"by key":       {`clusters contains n if data.clusters[n].labels["example.com/x"] == "EU"`, []string{"3:68 EU labels/example.com/x"}},
		"variable":     {`clusters contains n if { some n, c in data.clusters; r := c.region; r == "EU" }`, []string{"3:74 EU region"}},
		"one of":       {`clusters contains n if { some n, c in data.clusters; c.region in {"EU", "us"} }`, []string{"3:67 EU region", "3:73 us region"}},
		"members":      {`clusters contains n if { some n, c in data.clusters; "A" in c.zones }`, []string{"3:54 A zones"}},
		"each member":  {`clusters contains n if { some n, c in data.clusters; c.zones[_] == "A" }`, []string{"3:68 A zones"}},
		"constant key": {`clusters contains "a" if data.clusters["b"].ready`, []string{"3:19 !a ", "3:40 b "}},
		"lower":        {`clusters contains n if { some n, c in data.clusters; lower(c.region) == "EU" }`, nil},
		"own data":     {`clusters contains n if { some n, c in data.regions; c.region == "EU" }`, nil},
		"name":         {`clusters contains n if { some n, c in data.clusters; n != "a"; c.ready }`, []string{"3:59 a "}},
		"one of names": {`clusters contains n if { some n, _ in data.clusters; n in {"a"} }`, []string{"3:60 a "}},
		"argument": {`clusters contains n if { some n, c in data.clusters; f(n, c) }
f(n, c) if {
	n == "a"
	c.region == "EU"
}`, []string{"5:7 a ", "6:14 EU region"}},
		"other calls": {`clusters contains n if { some n, c in data.clusters; f(n) }
labels["a"] := "b" if f(input.kind)
f(n) if n == "a"`, nil},
		"given name": {`labels["a"] := "b" if { n := input.metadata.labels.x; data.clusters[n]; n != "none" }`, nil},
		"input":      {`labels["a"] := "b" if input.metadata.labels.region == "EU"`, nil},
		"other rule": {`clusters contains n if data.clusters[n].ready
labels["a"] := "b" if { input.metadata.labels[n]; n == "team" }`, nil},
		"other value": {`clusters contains n if { r = data.clusters[n].region; r == "EU" }
labels["a"] := "b" if { r = input.metadata.name; r == "web" }`, []string{"3:60 EU region"}},
		"two scopes":  {`labels["a"] := "b" if { count({n | data.clusters[n].ready}) > count({n | input.metadata.labels[n]; n == "team"}) }`, nil},
		"inner scope": {`labels["a"] := "b" if { data.clusters[n].ready; count({1 | n == "EU"}) > 0 }`, []string{"3:65 EU "}},
		"other else": {`clusters := {n} if {
	data.clusters[n].ready
} else := {"b"} if {
	input.metadata.labels[n]
	n == "team"
}`, []string{"5:12 !b "}},
		"whole": {`labels["a"] := "b" if { some c in data.clusters; c == "EU" }`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1, Rego: "package p\n\n" + tc.rego})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range lint.ClusterConstants(m.Compiler) {
				given := ""
				if c.Given {
					given = "!"
				}
				got = append(got, fmt.Sprintf("%d:%d %s%s %s", c.Row, c.Col, given, c.Value, strings.Join(c.Field, "/")))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("constants (-want +got):\n%s", diff)
			}
		})
	}
}

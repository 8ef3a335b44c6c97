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
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
)

func TestClusterKeys(t *testing.T) {
	const each = "clusters contains n if { some n, c in data.clusters; "
	for name, tc := range map[string]struct {
		rego string
		want []string
	}{
		"field":    {each + `c.properties.a == "x" }`, []string{"3:67 properties/a"}},
		"exists":   {each + `c.properties.a }`, []string{"3:67 properties/a"}},
		"brackets": {each + `c.properties["example.com/a"] == "x" }`, []string{"3:67 properties/example.com/a"}},
		"below":    {each + `c.properties.a.b == "x" }`, []string{"3:67 properties/a"}},
		"negated":  {each + `not c.properties.a }`, []string{"3:71 properties/a"}},
		"by key":   {`clusters contains n if data.clusters[n].properties.a == "x"`, []string{"3:52 properties/a"}},
		"variable": {each + `p := c.properties; p.a == "x" }`, []string{"3:75 properties/a"}},
		"default":  {each + `object.get(c.properties, "a", "y") == "x" }`, []string{"3:79 properties/a"}},
		"argument": {`clusters contains n if { some n, c in data.clusters; fast(c) }
fast(of) if of.properties.a == "x"`, []string{"4:27 properties/a"}},
		"properties": {`clusters contains n if { some n, c in data.clusters; fast(c.properties) }
fast(p) if p.a == "x"`, []string{"4:14 properties/a"}},
		"through two": {`clusters contains n if { some n, c in data.clusters; f(c) }
f(c) if g(c.properties)
g(p) if p.a == "x"`, []string{"5:11 properties/a"}},
		"comprehended": {`clusters := [n | some n, c in data.clusters; c.properties.a == "x"]`, []string{"3:59 properties/a"}},
		"twice":        {each + `c.properties.b; c.properties.a; c.properties.b }`, []string{"3:67 properties/b", "3:83 properties/a"}},
		"other calls": {`clusters contains n if { some n, c in data.clusters; fast(c) }
labels["a"] := "b" if fast(input)
fast(of) if of.properties.a == "x"`, nil},
		"any property": {each + `some k; c.properties[k] == "x" }`, nil},
		"label":        {each + `c.labels.a == "x" }`, []string{"3:63 labels/a"}},
		"annotation":   {each + `c.annotations["a b"] }`, []string{"3:68 annotations/a b"}},
		"labels": {`clusters contains n if { some n, c in data.clusters; fast(c.labels) }
fast(l) if l.a == "x"`, []string{"4:14 labels/a"}},
		"both": {`clusters contains n if { some n, c in data.clusters; fast(c.labels); fast(c.properties) }
fast(l) if l.a == "x"`, nil},
		"other field": {each + `c.allocatable.a == "x" }`, nil},
		"whole":       {each + `count(c.properties) > 1 }`, nil},
		"own data":    {`clusters contains n if { some n, c in data.regions; c.properties.a == "x" }`, nil},
		"input":       {`labels["a"] := "b" if input.properties.a == "x"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1, Rego: "package p\n\n" + tc.rego})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range lint.ClusterKeys(m.Compiler) {
				got = append(got, fmt.Sprintf("%d:%d %s/%s", k.Row, k.Col, k.Document, k.Name))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

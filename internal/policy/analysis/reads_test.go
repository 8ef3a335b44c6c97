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

package analysis_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

func TestReads(t *testing.T) {
	const (
		pods     = "data.kubernetes.pods"
		nodes    = "data.kubernetes.nodes"
		clusters = "data.kubernetes.clusters"
	)
	tests := map[string]struct {
		version placementv1.RegoVersion
		text    string
		want    []string
		// refused reports whether the analysis must reject the policy unless the types are listed in spec.replicate.
		refused bool
		// recursive reports whether OPA rejects the policy, because a rule that reads all of data also reads itself.
		recursive bool
	}{
		"Nothing": {text: `package p
labels := {"a": input.b}`},
		"Dots": {text: `package p
labels := {"a": data.kubernetes.pods.default.web.spec.x}`, want: []string{pods}},
		"Brackets": {text: `package p
labels := {"a": data["kubernetes"]["pods"]["default"]}`, want: []string{pods}},
		"Wildcard": {text: `package p
errors contains x if x := data.kubernetes.pods[_][_].a`, want: []string{pods}},
		"Import": {text: `package p
import data.kubernetes.clusters
errors contains x if clusters[x]`, want: []string{clusters}},
		"ImportAlias": {text: `package p
import data.kubernetes.clusters as c
errors contains x if c[x]`, want: []string{clusters}},
		"ImportPrefix": {text: `package p
import data.kubernetes as k
errors contains x if k.clusters[x]`, want: []string{clusters}},
		"ImportUnused": {text: `package p
import data.kubernetes.clusters
errors := []`},
		"ImportV0": {version: placementv1.RegoV0, text: `package p
import data.kubernetes.clusters
errors[x] { clusters[x] }`, want: []string{clusters}},
		"ImportShadowed": {text: `package p
import data.kubernetes as k
errors contains x if { some k; k = input; k.pods[x] }`},
		"Several": {text: `package p
errors contains x if { data.kubernetes.pods[x]; data.kubernetes.nodes[x] }`, want: []string{nodes, pods}},
		"Twice": {text: `package p
errors contains x if { data.kubernetes.pods[x]; not data.kubernetes.pods[x].y }`, want: []string{pods}},
		"Negation": {text: `package p
errors contains "x" if not data.kubernetes.pods.a`, want: []string{pods}},
		"ArrayComprehension": {text: `package p
errors := [x | data.kubernetes.pods[x]]`, want: []string{pods}},
		"SetComprehension": {text: `package p
errors := {x | data.kubernetes.pods[x]}`, want: []string{pods}},
		"ObjectComprehension": {text: `package p
labels := {x: "a" | data.kubernetes.pods[x]}`, want: []string{pods}},
		"Function": {text: `package p
labels := {"a": f(input)}
f(x) := data.kubernetes.pods[x.a][x.b].c`, want: []string{pods}},
		"FunctionDefault": {text: `package p
labels := {"a": f(input)}
default f(_) := "x"
f(x) := data.kubernetes.pods[x.a]`, want: []string{pods}},
		"FunctionArgument": {text: `package p
labels := {"a": f(data.kubernetes.pods)}
f(x) := x[input.a]`, want: []string{pods}},
		"Else": {text: `package p
labels := {"a": "b"} if input.x else := {"a": "c"} if data.kubernetes.pods.a else := {"a": data.kubernetes.nodes.x}`, want: []string{nodes, pods}},
		"DefaultRule": {text: `package p
default labels := {x: "a" | data.kubernetes.pods[x]}`, want: []string{pods}},
		"Every": {text: `package p
errors contains "x" if every k, v in data.kubernetes.pods { v[k].a == data.kubernetes.nodes.x }`, want: []string{nodes, pods}},
		"SomeIn": {text: `package p
errors contains x if some x, _ in data.kubernetes.pods`, want: []string{pods}},
		"In": {text: `package p
errors contains "x" if input.a in data.kubernetes.pods`, want: []string{pods}},
		"NestedInRef": {text: `package p
errors contains "x" if input.a[data.kubernetes.pods.x.y].z`, want: []string{pods}},
		"NestedInHead": {text: `package p
labels[data.kubernetes.pods.x.y] := "a"`, want: []string{pods}},
		"NestedInRead": {text: `package p
errors contains "x" if data.kubernetes.pods[data.kubernetes.nodes.a.b]`, want: []string{nodes, pods}},
		"NestedInPath": {text: `package p
errors contains "x" if data.acme[data.kubernetes.nodes.a.b]`, want: []string{nodes}},
		"With": {text: `package p
errors contains "x" if helper with input as data.kubernetes.pods
helper if input.a`, want: []string{pods}},
		"WithTarget": {text: `package p
errors contains "x" if helper with data.kubernetes.clusters as {}
helper if data.kubernetes.clusters.a`, want: []string{clusters}},
		"Template": {text: `package p
errors contains $"x {data.kubernetes.pods.a.b}"`, want: []string{pods}},
		"Walk": {text: `package p
errors contains "x" if walk(data.kubernetes.pods, [_, _])`, want: []string{pods}},
		"ObjectGet": {text: `package p
labels := {"a": object.get(data.kubernetes.pods, ["a"], "x")}`, want: []string{pods}},
		"VariablePrefix": {text: `package p
errors contains n if { x := data.kubernetes.clusters; x[n] }`, want: []string{clusters}},
		"InRuleValue": {text: `package p
k := data.kubernetes.pods
errors contains n if k[n]`, want: []string{pods}},
		"Unification": {text: `package p
errors contains n if { x = data.kubernetes.clusters; x[n] }`, want: []string{clusters}},
		"GroupVersion": {text: `package p
errors contains x if data.resources["apps/v1"].deployments[x]`, want: []string{`data.resources["apps/v1"].deployments`}},
		"CoreVersion": {text: `package p
errors contains x if data.resources.v1.pods[x]`, want: []string{`data.resources["v1"].pods`}},
		"BothForms": {text: `package p
errors contains x if { data.resources.v1.pods[x]; data.kubernetes.pods[x] }`, want: []string{pods, `data.resources["v1"].pods`}},
		"Clusters": {text: `package p
errors contains x if data.clusters[x].ready`, want: []string{"data.clusters"}},
		"ClustersWhole": {text: `package p
errors contains x if some x, _ in data.clusters`, want: []string{"data.clusters"}},
		"OwnPackage": {text: `package kubernetes.placement
foo := "a"
labels := {"a": data.kubernetes.placement.foo}`},
		"OwnPackageMissing": {text: `package kubernetes.placement
labels := {"a": data.kubernetes.placement.foo}`, want: []string{"data.kubernetes.placement"}},
		"OwnPackageWhole": {text: `package kubernetes.placement
import data.kubernetes.clusters
labels := {"a": f(data.kubernetes.placement[input.x])}
f(x) := x
`, recursive: true},
		"PackageOther": {text: `package acme
errors contains x if data.kubernetes.pods[x]`, want: []string{pods}},

		"All": {text: `package p
errors contains x if data[x].pods`, refused: true},
		"AllAsValue": {text: `package p
errors contains "x" if { d := data; d.kubernetes.pods.a }`, recursive: true},
		"AllAsArgument": {text: `package p
labels := {"a": object.get(data, ["kubernetes", "pods"], "x")}`, recursive: true},
		"AllWalked": {text: `package p
errors contains "x" if walk(data, [_, _])`, recursive: true},
		"AllInCollection": {text: `package p
errors contains "x" if some d in [data]`, recursive: true},
		"AllImported": {text: `package p
import data as d
errors contains "x" if d.kubernetes[input.a]`, refused: true},
		"AllKubernetes": {text: `package p
errors contains x if data.kubernetes[x]`, refused: true},
		"AllVariable": {text: `package p
errors contains "x" if { x := data.kubernetes; x.clusters[_] }`, refused: true},
		"AllWalkKubernetes": {text: `package p
errors contains "x" if walk(data.kubernetes, [_, _])`, refused: true},
		"AllSomeIn": {text: `package p
errors contains "x" if some x in data.kubernetes`, refused: true},
		"AllEvery": {text: `package p
errors contains "x" if every x in data.kubernetes { x }`, refused: true},
		"AllFunction": {text: `package p
errors contains "x" if f(data.kubernetes)
f(x) if x.pods`, refused: true},
		"AllWithValue": {text: `package p
errors contains "x" if h with input as data.kubernetes
h if input.pods`, refused: true},
		"AllTemplate": {text: `package p
errors contains $"x {data.kubernetes}"`, refused: true},
		"Dynamic": {text: `package p
errors contains "x" if data.kubernetes[input.kind].a`, refused: true},
		"DynamicConstant": {text: `package p
k := "pods"
errors contains "x" if data.kubernetes[k].a`, refused: true},
		"DynamicVersion": {text: `package p
errors contains "x" if data.resources[input.v].pods`, refused: true},
		"DynamicInVersion": {text: `package p
errors contains "x" if data.resources["apps/v1"][input.v]`, refused: true},
		"WholeVersion": {text: `package p
errors contains "x" if { x := data.resources["apps/v1"]; x.pods }`, refused: true},
		"WholeResources": {text: `package p
errors contains "x" if count(data.resources) > 0`, refused: true},
		"DynamicRoot": {text: `package p
errors contains "x" if data[input.root].pods.a`, refused: true},
		"PackageKubeDynamic": {text: `package kubernetes
foo := 1
errors contains "x" if data.kubernetes[input.x]`, recursive: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			version := tc.version
			if version == "" {
				version = placementv1.RegoV1
			}
			m, err := policy.Compile("p", policytest.SpecOf(version, tc.text))
			if tc.recursive {
				if err == nil || !strings.Contains(err.Error(), "rego_recursion_error") {
					t.Fatalf("error %v, want a recursion", err)
				}
				return
			}
			if tc.refused {
				if err == nil {
					t.Fatalf("is taken, and reads %v", policytest.ReadTexts(m))
				}
				if !strings.Contains(err.Error(), "berth_unresolved_read") || !strings.Contains(err.Error(), "spec.replicate") {
					t.Errorf("error is %v", err)
				}
				listed := policytest.SpecOf(version, tc.text)
				listed.Replicate = []placementv1.ReplicatedResource{{Resource: "pods"}}
				if _, err := policy.Compile("p", listed); err != nil {
					t.Errorf("with spec.replicate: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, policytest.ReadTexts(m)); diff != "" {
				t.Errorf("reads (-want +got):\n%s", diff)
			}
			for _, r := range m.Reads {
				if r.Row == 0 || r.Col == 0 {
					t.Errorf("%s has no place", r)
				}
			}
		})
	}
}

// TestNamesakesOfResources checks packages and rules that have the name of a resource type and thus hide cluster data.
// The policy must be rejected, or the type must be read.
func TestNamesakesOfResources(t *testing.T) {
	tests := map[string]string{
		"Package": `package kubernetes.pods
errors contains x if data.kubernetes.pods.shop[x].spec`,
		"PackageDynamic": `package kubernetes.pods
foo := 1
errors contains "x" if data.kubernetes.pods[input.namespace][input.name]`,
		"RuleInTheMiddle": `package kubernetes
pods.extra := 1
errors contains x if data.kubernetes.pods.shop[x].spec`,
		"PackageBelow": `package kubernetes.pods.extra
errors contains x if data.kubernetes.pods.shop[x].spec`,
		"GroupVersion": `package resources.v1
errors contains x if data.resources.v1.pods.shop[x].spec`,
		"Clusters": `package clusters.extra
errors contains x if data.clusters[x].ready`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(placementv1.RegoV1, text))
			if err == nil && len(m.Reads) == 0 {
				t.Error("is taken, and the read is not seen: the policy would find nothing there, silently")
			}
		})
	}
}

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

package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

// TestContractTypes checks that a clause of a contract rule whose value can never be valid is an error at the clause's
// position. The cases have the beginnings of the expected diagnostics.
func TestContractTypes(t *testing.T) {
	const code = "berth_contract_error: "
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	tests := map[string]struct {
		version placementv1.RegoVersion
		body    string
		want    []string
	}{
		"ErrorsBoolean":      {v1, `errors := count(data.clusters) == 0`, []string{`p.rego:2:1: ` + code + `errors must be a set or an array of strings, is a boolean; write: errors contains "<message>" if`}},
		"ErrorsBooleanV0":    {v0, `errors = x { x := count(data.clusters) == 0 }`, []string{`p.rego:2:1: ` + code + `errors must be a set or an array of strings, is a boolean; write: errors["<message>"] {`}},
		"ErrorsImplicitTrue": {v1, `errors if input.spec.x`, []string{`p.rego:2:1: ` + code + `errors must be a set or an array of strings, is a boolean`}},
		"ErrorsDefault": {v1, `default errors := false
errors := {"no"} if input.x`, []string{`p.rego:2:1: ` + code + `errors must be a set or an array of strings, is a boolean`}},
		"ErrorsObjects": {v1, `errors contains {"msg": "no"} if input.x`, []string{`p.rego:2:1: ` + code + `errors must hold strings, holds an object`}},
		"ErrorsOneOfSeveral": {v1, `errors contains "a" if input.a
errors contains {"msg": "no"} if input.x`, []string{`p.rego:3:1: ` + code + `errors must hold strings, holds an object`}},
		"ErrorsObjectsV0": {v0, `errors[{"msg": msg}] { msg := input.x }`, []string{`p.rego:2:1: ` + code + `errors must hold strings, holds an object`}},
		"ErrorsFromHelper": {v1, `bad contains {"msg": 1} if input.x
errors := bad`, []string{`p.rego:3:1: ` + code + `errors must hold strings, holds an object`}},
		"ErrorsComprehension": {v1, `errors := [{"msg": c} | some c in input.x]`, []string{`p.rego:2:1: ` + code + `errors must hold strings, holds an object`}},
		"ErrorsHeadRef":       {v1, `errors["no"] := true if input.x`, []string{`p.rego:2:1: ` + code + `errors must be a set or an array of strings, is an object`}},
		"ErrorsString":        {v1, `errors := "no" if input.x`, []string{`p.rego:2:1: ` + code + `errors must be a set or an array of strings, is a string`}},
		"ErrorsSprintf":       {v1, `errors := sprintf("%v", [input.x])`, []string{`p.rego:2:1: ` + code + `errors must be a set or an array of strings, is a string`}},
		"ErrorsElse":          {v1, `errors := ["a"] if input.a else := "b"`, []string{`p.rego:2:28: ` + code + `errors must be a set or an array of strings, is a string`}},
		"WarningsNumber":      {v1, `warnings contains count(input.x)`, []string{`p.rego:2:1: ` + code + `warnings must hold strings, holds a number`}},
		"WarningsArray":       {v1, `warnings := ["a", 1]`, []string{`p.rego:2:1: ` + code + `warnings must hold strings, holds a number`}},
		"ClustersString":      {v1, `clusters := "eu-1"`, []string{`p.rego:2:1: ` + code + `clusters must be a set or an array of strings, or an object, is a string; write: clusters := {"<cluster>"}`}},
		"ClustersNumber":      {v1, `clusters := count(data.clusters)`, []string{`p.rego:2:1: ` + code + `clusters must be a set or an array of strings, or an object, is a number`}},
		"ShareNumber":         {v1, `clusters := {"eu-1": 2}`, []string{`p.rego:2:1: ` + code + `clusters: cluster "eu-1" must be an object, is a number; write: clusters := {"<cluster>": {"weight": 2}}`}},
		"ShareNumberV0":       {v0, `clusters["eu-1"] = 2 { input.x }`, []string{`p.rego:2:1: ` + code + `clusters: cluster "eu-1" must be an object, is a number; write: clusters = {"<cluster>": {"weight": 2}}`}},
		"SharesOfNumbers":     {v1, `clusters[name] := 2 if some name, _ in data.clusters`, []string{`p.rego:2:1: ` + code + `clusters: a cluster must be an object, is a number`}},
		"ShareText":           {v1, `clusters := {"eu-1": {"weight": "2"}}`, []string{`p.rego:2:1: ` + code + `clusters: cluster "eu-1": weight must be a number, is a string`}},
		"ShareNegative":       {v1, `clusters := {"eu-1": {"weight": -2}, "ap": {}}`, []string{`p.rego:2:1: ` + code + `clusters: cluster "eu-1": weight must be an integer from 0 to 1000000, is -2`}},
		"ShareNegativeHead":   {v1, `clusters["eu-1"] := {"replicas": -2} if input.x`, []string{`p.rego:2:1: ` + code + `clusters: cluster "eu-1": replicas must be an integer from 0 to 1000000, is -2`}},
		"ShareNegativePath":   {v1, `clusters["eu-1"].weight := -2 if input.x`, []string{`p.rego:2:1: ` + code + `clusters: cluster "eu-1": weight must be an integer from 0 to 1000000, is -2`}},
		"ShareNegativeAny":    {v1, `clusters[name] := {"weight": 1.5} if some name, _ in data.clusters`, []string{`p.rego:2:1: ` + code + `clusters: a cluster: weight must be an integer from 0 to 1000000, is 1.5`}},
		"ShareBoth":           {v1, `clusters := {"eu-1": {"weight": input.x, "replicas": 1}}`, []string{`p.rego:2:1: ` + code + `clusters: cluster "eu-1": has replicas and weight; give only one of them`}},
		"ShareField":          {v1, `clusters[name] := {"wieght": 1} if some name, _ in data.clusters`, []string{`p.rego:2:1: ` + code + `clusters: a cluster: unknown field "wieght"; did you mean weight?`}},
		"ShareName":           {v1, `clusters := {"EU 1": {}}`, []string{`p.rego:2:1: ` + code + `clusters: "EU 1" is not a cluster's name: `}},
		"ShareNameHead":       {v1, `clusters["EU 1"] := {} if input.x`, []string{`p.rego:2:1: ` + code + `clusters: "EU 1" is not a cluster's name: `}},
		"ClustersNested":      {v1, `clusters := [["eu-1"]]`, []string{`p.rego:2:1: ` + code + `clusters must hold strings, holds an array`}},
		"ClustersName":        {v1, `clusters := {"EU 1", "eu-2"}`, []string{`p.rego:2:1: ` + code + `clusters: "EU 1" is not a cluster's name: `}},
		"ClustersNameMember":  {v1, `clusters contains "eu_1" if input.x`, []string{`p.rego:2:1: ` + code + `clusters: "eu_1" is not a cluster's name: `}},
		"AnnotationsArray":    {v1, `annotations := ["a"]`, []string{`p.rego:2:1: ` + code + `annotations must be an object, is an array`}},
		"AnnotationsSet":      {v1, `annotations contains "a"`, []string{`p.rego:2:1: ` + code + `annotations must be an object, is a set; write: annotations["example.com/key"] := `}},
		"AnnotationsSetV0":    {v0, `annotations["a"] { input.x }`, []string{`p.rego:2:1: ` + code + `annotations must be an object, is a set; write: annotations["example.com/key"] = `}},
		"AnnotationsKey":      {v1, `annotations := {"example.com/a b": "x"}`, []string{`p.rego:2:1: ` + code + `annotations: key "example.com/a b": `}},
		"AnnotationsHeadKey":  {v1, `annotations["a/b/c"] := input.x`, []string{`p.rego:2:1: ` + code + `annotations: key "a/b/c": `}},
		"AnnotationsOwn":      {v1, `annotations["placement.berth.dev/clusters"] := "[]"`, []string{`p.rego:2:1: ` + code + `annotations: key "placement.berth.dev/clusters": the prefix placement.berth.dev/ is Berth's own; use the rule clusters`}},
		"LabelsNumber":        {v1, `labels := {"tier": 1}`, []string{`p.rego:2:1: ` + code + `labels: key "tier": must be a string, is a number`}},
		"LabelsBoolean":       {v1, `labels["example.com/eu"] := input.x == "eu"`, []string{`p.rego:2:1: ` + code + `labels: key "example.com/eu": must be a string, is a boolean`}},
		"LabelsDynamic":       {v1, `labels[k] := count(v) if some k, v in input.x`, []string{`p.rego:2:1: ` + code + `labels must hold strings, holds a number`}},
		"LabelsKey":           {v1, `labels := {"a b": "c"}`, []string{`p.rego:2:1: ` + code + `labels: key "a b": `}},
		"LabelsValue":         {v1, `labels := {"a": "b c"}`, []string{`p.rego:2:1: ` + code + `labels: key "a": "b c": `}},
		"LabelsHeadValue":     {v1, `labels["a"] := "b c" if input.x`, []string{`p.rego:2:1: ` + code + `labels: key "a": "b c": `}},
		"LabelsNested":        {v1, `labels.example.com := "x"`, []string{`p.rego:2:1: ` + code + `labels: key "example": must be a string, is an object`}},
		"SchedulingUnknown":   {v1, `scheduling := {"nodeselector": {"a": "b"}}`, []string{`p.rego:2:1: ` + code + `scheduling.nodeselector: unknown; did you mean nodeSelector? Known are affinity, nodeSelector, priorityClassName, schedulerName, tolerations, topologySpreadConstraints`}},
		"SchedulingFar":       {v1, `scheduling := {"containers": []}`, []string{`p.rego:2:1: ` + code + `scheduling.containers: unknown. Known are`}},
		"SchedulingHead":      {v1, `scheduling.nodeselector["a"] := "b"`, []string{`p.rego:2:1: ` + code + `scheduling.nodeselector: unknown; did you mean nodeSelector?`}},
		"SchedulingArray":     {v1, `scheduling := [{"nodeSelector": {}}]`, []string{`p.rego:2:1: ` + code + `scheduling must be an object, is an array`}},
		"SchedulingSelector":  {v1, `scheduling.nodeSelector["a"] := 1`, []string{`p.rego:2:1: ` + code + `scheduling.nodeSelector.a: must be a string, is a number`}},
		"SchedulingList":      {v1, `scheduling.tolerations := {"key": "a", "operator": "Exists"}`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations: must be an array, is an object`}},
		"SchedulingMember":    {v1, `scheduling.tolerations := [{"Key": "a", "operator": "Exists"}]`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations[0].Key: unknown; did you mean key?`}},
		"SchedulingDeep": {v1, `scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerm := []`,
			[]string{`p.rego:2:1: ` + code + `scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerm: unknown; did you mean nodeSelectorTerms?`}},
		"SchedulingNull":     {v1, `scheduling.nodeSelector := null`, []string{`p.rego:2:1: ` + code + `scheduling.nodeSelector: must be an object, is null`}},
		"SchedulingName":     {v1, `scheduling.priorityClassName := ["gold"]`, []string{`p.rego:2:1: ` + code + `scheduling.priorityClassName: must be a string, is an array`}},
		"SchedulingOperator": {v1, `scheduling.tolerations := [{"key": "a", "operator": "Equals", "value": "b"}] if input.x`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations[0].operator: Unsupported value: "Equals": supported values: "Equal", "Exists"`}},
		"SchedulingEffect":   {v1, `scheduling := {"tolerations": [{"key": "a", "effect": "NoScedule"}]}`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations[0].effect: Unsupported value: "NoScedule"`}},
		"SchedulingElse":     {v1, `scheduling.priorityClassName := "gold" if input.x else := "Not_valid"`, []string{`p.rego:2:51: ` + code + `scheduling.priorityClassName: Invalid value: "Not_valid"`}},
		"SchedulingConstant": {v1, `scheduling.nodeSelector["a"] := "not valid"`, []string{`p.rego:2:1: ` + code + `scheduling.nodeSelector: Invalid value: "not valid"`}},
		"SchedulingEmpty":    {v1, `scheduling.schedulerName := ""`, []string{`p.rego:2:1: ` + code + `scheduling.schedulerName: must not be empty`}},
		"SchedulingContains": {v1, `scheduling.tolerations contains {"key": "a", "operator": "equal"} if input.x`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations[0].operator: Unsupported value: "equal"`}},
		"SchedulingPartly":   {v1, `scheduling.tolerations := [{"key": input.k, "effect": "NoScedule"}]`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations[0].effect: Unsupported value: "NoScedule"`}},
		"SchedulingAssigned": {v1, `scheduling.tolerations := list if { list := [{"key": "a", "operator": "Equals"}] }`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations[0].operator: Unsupported value: "Equals"`}},
		"SchedulingV0":       {v0, `scheduling = {"tolerations": [{"key": "a", "operator": "Equals"}]} { input.x }`, []string{`p.rego:2:1: ` + code + `scheduling.tolerations[0].operator: Unsupported value: "Equals"`}},
		"SeveralRules": {v1, `errors := true
clusters := 1`, []string{`p.rego:2:1: ` + code, `p.rego:3:1: ` + code}},
		"TwoKeysOfOneClause": {v1, `labels := {"a": 1, "b": 2}`, []string{`p.rego:2:1: ` + code + `labels: key "a"`, `p.rego:2:1: ` + code + `labels: key "b"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(tc.version, "package p\n"+tc.body+"\n"))
			list, ok := errors.AsType[*policy.CompileError](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if m == nil {
				t.Error("the module is not returned besides findings of the contract alone")
			}
			var got []string
			for i, d := range list.Diagnostics {
				line := d.String()
				if i < len(tc.want) && strings.HasPrefix(line, tc.want[i]) {
					line = tc.want[i]
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

// TestContractTypesAreSilent checks that clauses whose value may be valid for some input are accepted.
func TestContractTypesAreSilent(t *testing.T) {
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	tests := map[string]struct {
		version placementv1.RegoVersion
		body    string
	}{
		"Unknown": {v1, `errors := input.errors
clusters := data.kubernetes.configmaps.a.b
labels := input.labels
scheduling := input.scheduling`},
		"SchedulingParts": {v1, `scheduling.tolerations := [{"key": "a", "operator": input.o, "effect": input.e, "value": "not valid"}, input.t]
scheduling.topologySpreadConstraints := [{"maxSkew": 1, "topologyKey": input.k, "whenUnsatisfiable": input.u}]
scheduling.nodeSelector[input.k] := "not valid"
scheduling.priorityClassName := concat("-", ["a", input.x])
scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution := {}`},
		"SchedulingConstants": {v1, `scheduling.tolerations := [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]
scheduling.nodeSelector["example.com/a"] := "ssd"
scheduling.priorityClassName := "gold"
scheduling.topologySpreadConstraints := [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms := [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]`},
		"Null": {v1, `errors := null
clusters := null
labels := null
annotations := null
scheduling := null
warnings := null`},
		"Empty": {v1, `errors := []
clusters := set()
labels := {}
annotations := {}
scheduling := {}
warnings := set()`},
		"Shares":        {v1, `clusters := {"eu-1": {"weight": 2}, "eu-2": {"replicas": input.x}, "ap": {}}`},
		"SharesByName":  {v1, `clusters[name] := {"weight": count(cluster.zones)} if some name, cluster in data.clusters`},
		"SharesOfInput": {v1, "clusters[name] := share if some name, share in input.shares"},
		"SharesByPath":  {v1, "clusters[name].weight := 2 if some name, _ in data.clusters"},
		"SharesV0":      {v0, `clusters[name] = {"weight": 1} { data.clusters[name] }`},
		"SharesOrNames": {v1, `clusters := {"eu-1"} if input.x
else := {"eu-1": {"weight": 1}}`},
		"Arrays": {v1, `errors := [m | some m in input.m]
clusters := ["eu-1"]`},
		"Sets": {v1, `errors contains input.m
clusters contains n if some n, _ in data.clusters
scheduling.tolerations := {{"key": "a", "operator": "Exists"}}`},
		"AnnotationsOfAny": {v1, `annotations["a"] := 1
annotations["b"] := true
annotations["c"] := null
annotations["d"] := {"x": [1]}
annotations["Example.com/E"] := {1, 2}`},
		"AnnotationsDeep": {v1, `annotations["a"].b.c := input.x`},
		"LabelsPerhaps": {v1, `x := "a" if input.x else := 1
labels := {"a": x}`},
		"MembersPerhaps": {v1, `x contains "a"
x contains 1 if input.x
errors := x`},
		"KeysOfVariables":   {v1, `labels[k] := v if some k, v in {"a b": "c"}`},
		"Selector":          {v1, `scheduling := {"nodeSelector": {"example.com/disk": "ssd", "x": input.x}}`},
		"Spread":            {v1, `scheduling.topologySpreadConstraints := [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": input.metadata.labels}, "minDomains": 3}]`},
		"TolerationSeconds": {v1, `scheduling.tolerations := [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]`},
		"Affinity":          {v1, `scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms := [{"matchExpressions": [{"key": "zone", "operator": "In", "values": {z | some z in input.zones}}]}]`},
		"V0": {v0, `errors[msg] { msg := input.x }
annotations["a"] = x { x := input.y }
labels = {"a": "b"} { input.z }
clusters[c] { data.clusters[c] }`},
		"V0Function": {v0, `f(x) = y { y := x }
errors[msg] { msg := f(input.x) }`},
		"With": {v1, `x := input.a
errors contains y if y := x with input.a as "b"`},
		"SchedulingMapped": {v1, `scheduling := {k: v | some k in ["nodeSelector"]; v := {"a": "b"}}`},
		"Template":         {v1, `labels["a"] := $"b-{input.x}"`},
		"NumericKey":       {v1, `annotations := {1: "a"}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := diagnostics(t, policytest.SpecOf(tc.version, "package p\n"+tc.body+"\n")); got != nil {
				t.Errorf("diagnostics %q", got)
			}
		})
	}
}

// TestNearContractRules checks the warnings about rules that resemble contract rules or belong to other tools, unless a
// contract rule uses them.
func TestNearContractRules(t *testing.T) {
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	tests := map[string]struct {
		version placementv1.RegoVersion
		body    string
		want    []string
	}{
		"Deny": {v1, `labels := {}
deny contains "no" if input.x`, []string{`p.rego:3:1: the rule deny decides nothing: Berth evaluates annotations, labels, scheduling, clusters, errors, warnings. Did you mean errors?`}},
		"DenyUsed": {v1, `errors := deny
deny contains "no" if input.x`, nil},
		"DenyUsedDeep": {v1, `errors contains m if some m in f(1)
f(_) := {m | m := deny[_]}
deny contains "no" if input.x`, nil},
		"DenyOfUnused": {v1, `labels := {}
main if count(deny) > 0
deny contains "no" if input.x`, []string{`p.rego:4:1: the rule deny`}},
		"Violation": {v0, `annotations = {}
violation[{"msg": "no"}] { input.x }`, []string{`p.rego:3:1: the rule violation decides nothing: Berth evaluates annotations, labels, scheduling, clusters, errors, warnings. Did you mean errors?`}},
		"Warn": {v1, `labels := {}
warn contains "x" if input.x`, []string{`Did you mean warnings?`}},
		"Singulars": {v1, `error contains "x"
label := {}
annotation := {}
cluster := {}
warning contains "x"
labels := {}`, []string{"Did you mean errors?", "Did you mean labels?", "Did you mean annotations?", "Did you mean clusters?", "Did you mean warnings?"}},
		"Misspelt": {v1, `labels := {}
anotations := {}
eerrors := {}
clustres := {}
schedulling := {}`, []string{"Did you mean annotations?", "Did you mean errors?", "Did you mean clusters?", "Did you mean scheduling?"}},
		"Case": {v1, `labels := {}
Errors := {}`, []string{"Did you mean errors?"}},
		"Members": {v1, `labels := {}
nodeSelector := {"a": "b"}
tolerations := []`, []string{"Did you mean scheduling.nodeSelector?", "Did you mean scheduling.tolerations?"}},
		"Patch": {v1, `errors contains "x" if input.x
patch := [{"op": "add"}]`, []string{"Did you mean annotations or labels?"}},
		"Allow": {v1, `labels := {}
default allow := false
allow if input.x`, []string{"p.rego:3:9: the rule allow decides nothing: Berth evaluates annotations, labels, scheduling, clusters, errors, warnings. Did you mean errors? Without errors everything is allowed"}},
		"Others": {v1, `labels := {}
x := 1
allowed := 2
region := 3
main := 4
test_errors if true
helper(x) := x`, nil},
		"Function": {v1, `labels := {}
label(x) := x`, nil},
		"OnceForAll": {v1, `labels := {}
deny contains "a"
deny contains "b"`, []string{"p.rego:3:1: the rule deny"}},
		"BelowAnother": {v1, `labels := {}
other.deny := 1`, nil},
		"UsedPerMember": {v1, `errors contains m if some m in data.p.deny
deny contains "a"`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(tc.version, "package p\n"+tc.body+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Warnings) != len(tc.want) {
				t.Fatalf("warnings %q, want %q", m.Warnings, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(m.Warnings[i], want) {
					t.Errorf("warning %q, want %q", m.Warnings[i], want)
				}
			}
		})
	}
}

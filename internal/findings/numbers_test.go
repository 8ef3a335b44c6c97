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

package findings

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// workloads returns a function that lists Deployments in the namespace shop, each with a number of replicas.
func workloads(replicas ...int64) func(context.Context, schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	return func(context.Context, schema.GroupVersionResource) (out []*unstructured.Unstructured, err error) {
		for i, n := range replicas {
			o := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "spec": map[string]any{"replicas": n}}}
			o.SetNamespace("shop")
			o.SetName(fmt.Sprintf("web-%d", i))
			out = append(out, o)
		}
		return out, nil
	}
}

// remediates returns the spec of a policy that matches Deployments.
func remediates(t *testing.T, text string) placementv1.PlacementPolicySpec {
	t.Helper()
	spec := placementv1.PlacementPolicySpec{}
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
	return spec
}

// TestNumbers checks which numbers of objects bound nothing, and for how many objects they do.
func TestNumbers(t *testing.T) {
	const (
		never   = "spec.remediation.blastRadius.minObjects: the blast radius never pauses remediation while the policy matches fewer than %d objects: one change may leave all of them denied or without clusters. Set a smaller number, or percent: 100 to disable the guard"
		patches = "spec.remediation.budget.pauseAfterFailures: failures never stop patches while the policy matches fewer than 100 objects. Set a smaller number, or Never"
		stage   = "spec.rollout.stages[0].pauseAfterFailures: failures never stop the rollout while the policy matches fewer than 1000 objects. Set a smaller number, or Never"
	)
	for name, test := range map[string]struct {
		spec         string
		want         string
		below, until int32
	}{
		"MinObjects":     {"remediation: {blastRadius: {minObjects: 400}}", fmt.Sprintf(never, 400), 101, 400},
		"HugeMinObjects": {"remediation: {blastRadius: {percent: 5, minObjects: 100000}}", fmt.Sprintf(never, 100000), 0, 0},
		"Default":        {"remediation: {blastRadius: {percent: 5}}", "", 0, 0},
		"Disabled":       {"remediation: {blastRadius: {percent: 100, minObjects: 400}}", "", 0, 0},
		"Approved":       {"remediation: {mode: Approved, blastRadius: {minObjects: 400}}", "", 0, 0},
		"DryRun":         {"mode: DryRun\nremediation: {blastRadius: {minObjects: 400}}", "", 0, 0},

		"Failures":      {"remediation: {budget: {pauseAfterFailures: 100}}", patches, 26, 100},
		"FewFailures":   {"remediation: {budget: {pauseAfterFailures: 10}}", "", 0, 0},
		"NeverFails":    {"remediation: {budget: {pauseAfterFailures: Never}}", "", 0, 0},
		"OfNoPatches":   {"remediation: {mode: Manual, budget: {pauseAfterFailures: 100}}", "", 0, 0},
		"StageFailures": {"rollout: {stages: [{name: a, percent: 10, pauseAfterFailures: 1000}, {name: b, percent: 100}]}", stage, 251, 1000},
		"NeverOfStage":  {"rollout: {stages: [{name: a, percent: 10, pauseAfterFailures: Never}, {name: b, percent: 100}]}", "", 0, 0},
		"LastStage":     {"rollout: {stages: [{name: a, percent: 10}, {name: b, percent: 100, pauseAfterFailures: 1000}]}", "", 0, 0},
		"Revision":      {"rollout: {revision: 1}", "", 0, 0},
	} {
		got := findingsOfNumbers(remediates(t, test.spec))
		if !finds(got, test.want) || len(got) == 1 && (got[0].Below != test.below || got[0].Until != test.until || got[0].Level != Advice) {
			t.Errorf("%s: got %+v, want %q below %d", name, got, test.want, test.below)
		}
	}
}

// TestLargeNumbers checks which numbers of matched objects make a finding hold.
func TestLargeNumbers(t *testing.T) {
	spec := remediates(t, "remediation: {blastRadius: {minObjects: 28}}")
	m, errs := match.New(spec.Match, matchPath)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for name, test := range map[string]struct {
		objects []int64
		known   int
		want    bool
	}{
		"Files":       {make([]int64, 5), 0, true},
		"FewFiles":    {make([]int64, 4), 7, false},
		"ManyFiles":   {make([]int64, 8), 7, false},
		"Status":      {nil, 7, true},
		"FewInStatus": {nil, 4, false},
		"Many":        {nil, 8, false},
		"Unknown":     {nil, 0, false},
	} {
		f := &Finder{Catalog: serving{types: []match.ServedType{deployments}}, Namespaces: labelled{"shop": nil}}
		if test.objects != nil {
			f.Objects = workloads(test.objects...)
		}
		if got := f.findingsOfLargeNumbers(t.Context(), spec, m, test.known); (len(got) == 1) != test.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	spec = remediates(t, "remediation: {blastRadius: {minObjects: 100000}}")
	if got := (&Finder{}).findingsOfLargeNumbers(t.Context(), spec, m, 0); len(got) != 1 {
		t.Errorf("a number that hardly any policy matches: got %+v", got)
	}
}

// TestUnavailable checks which numbers of unavailable objects may be percentages, and for how many objects they are.
func TestUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		of    *intstr.IntOrString
		want  string
		below int32
	}{
		"Percentage": {new(intstr.FromString("25%")), "", 0},
		"Number": {new(intstr.FromInt32(25)), `spec.remediation.budget.maxUnavailable: 25 bounds nothing while the policy matches no more than 25 objects: ` +
			`all of them may be unavailable at the same time. For a percentage, write "25%"`, 13},
		"One":     {new(intstr.FromInt32(1)), "", 0},
		"Uneven":  {new(intstr.FromInt32(24)), "", 0},
		"Default": {nil, "", 0},
	} {
		spec := placementv1.PlacementPolicySpec{Remediation: placementv1.Remediation{Budget: &placementv1.RemediationBudget{MaxUnavailable: test.of}}}
		got := findingsOfUnavailable(spec)
		if !finds(got, test.want) || len(got) == 1 && (got[0].Below != test.below || got[0].Until != 26 || got[0].Level != Advice) {
			t.Errorf("%s: got %+v, want %q below %d", name, got, test.want, test.below)
		}
	}
	if got := findingsOfUnavailable(placementv1.PlacementPolicySpec{}); len(got) > 0 {
		t.Errorf("without a budget: got %+v", got)
	}
}

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

package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// allows returns an enforced policy that allows the clusters. If clusters is nil, the policy does not restrict them.
func allows(t *testing.T, name string, clusters []string) *placement.Policy {
	t.Helper()
	return &placement.Policy{
		Name: name, Matcher: allDeployments(t), Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail,
		Remediation: placementv1.RemediationAutomatic,
		Evaluator:   shared{placement.Decision{Clusters: clusters, Annotations: map[string]string{"k": "v"}}},
	}
}

// TestNoClustersAreNotUnsaid checks that allowing no clusters differs from not restricting clusters.
func TestNoClustersAreNotUnsaid(t *testing.T) {
	none, unsaid := placement.Decision{Clusters: []string{}}, placement.Decision{}
	if none.Equal(unsaid) || !none.Equal(placement.Decision{Clusters: []string{}}) {
		t.Error("equal decisions")
	}
	digest := func(d placement.Decision) string {
		return (&placement.Outcome{Verdicts: []*placement.Verdict{{Policy: &placement.Policy{Name: "p"}, Decision: d}}}).Digest()
	}
	if digest(none) == digest(unsaid) || digest(none) == digest(placement.Decision{Clusters: []string{"eu"}}) {
		t.Error("equal digests")
	}
}

func TestPreferences(t *testing.T) {
	tests := map[string]struct {
		value       string
		names       []string
		all, ok     bool
		without     []string
		wantWithout string
	}{
		"Named":        {value: `{"clusters": {"b": {"weight": 1}, "a": {}}}`, names: []string{"a", "b"}, ok: true, without: []string{"a", "c"}, wantWithout: `{"clusters":{"b":{"weight":1}}}`},
		"All":          {value: `{"clusters": {"*": {"weight": 1}}}`, names: []string{}, all: true, ok: true, without: []string{"a"}, wantWithout: `{"clusters":{"*":{"weight":1},"a":{"maxReplicas":0}}}`},
		"AllAndNamed":  {value: `{"clusters": {"*": {}, "a": {"minReplicas": 3}}}`, names: []string{"a"}, all: true, ok: true, without: []string{"a"}, wantWithout: `{"clusters":{"*":{},"a":{"maxReplicas":0}}}`},
		"OthersStay":   {value: `{"rebalance": true, "clusters": {"a": {"weight": 12345678901234567890}}, "x": 1.50}`, names: []string{"a"}, ok: true, without: []string{"b"}, wantWithout: `{"clusters":{"a":{"weight":12345678901234567890}},"rebalance":true,"x":1.50}`},
		"NoneLeft":     {value: `{"clusters": {"a": {}}}`, names: []string{"a"}, ok: true, without: []string{"a"}, wantWithout: `{"clusters":{}}`},
		"NothingToDo":  {value: `{"clusters": {"a": {}}}`, names: []string{"a"}, ok: true, wantWithout: `{"clusters": {"a": {}}}`},
		"Nobody":       {value: `{"clusters": {}}`, names: []string{}, ok: true, wantWithout: `{"clusters": {}}`},
		"NoClusters":   {value: `{"rebalance": true}`, without: []string{"a"}, wantWithout: `{"rebalance": true}`},
		"NullClusters": {value: `{"clusters": null}`, without: []string{"a"}, wantWithout: `{"clusters": null}`},
		"List":         {value: `{"clusters": ["a"]}`, without: []string{"a"}, wantWithout: `{"clusters": ["a"]}`},
		"NoJSON":       {value: `a,b`, without: []string{"a"}, wantWithout: `a,b`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := placement.Decision{Annotations: map[string]string{placement.PreferencesAnnotation: tc.value, "k": "v"}}
			names, all, ok := d.Preferred()
			if !slices.Equal(names, tc.names) || (names == nil) != (tc.names == nil) || all != tc.all || ok != tc.ok {
				t.Errorf("%v, %t, %t; want %v, %t, %t", names, all, ok, tc.names, tc.all, tc.ok)
			}
			got := d.WithoutPreferred(tc.without)
			want := map[string]string{placement.PreferencesAnnotation: tc.wantWithout, "k": "v"}
			if diff := cmp.Diff(want, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if d.Annotations[placement.PreferencesAnnotation] != tc.value {
				t.Error("the decision itself was changed")
			}
		})
	}
}

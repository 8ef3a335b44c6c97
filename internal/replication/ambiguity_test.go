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

package replication

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAmbiguous checks which names are ambiguous, and the sentences about them.
func TestAmbiguous(t *testing.T) {
	profiles, managed := schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}, schema.GroupResource{Group: "ocm", Resource: "managedclusters"}
	claims := Claims{}
	for _, namespace := range []string{"a", "b", "c", "d"} {
		claims.Add("many", Claim{profiles, namespace, "many", ""})
	}
	claims.Add("one", Claim{profiles, "a", "one", ""})
	claims.Add("prod", Claim{profiles, "eu", "prod", ""})
	claims.Add("prod", Claim{managed, "", "prod", ""})
	const prod = "cluster prod is ambiguous: clusterprofiles.multicluster.x-k8s.io eu/prod and managedclusters.ocm prod have this name"
	want := "cluster many is ambiguous: clusterprofiles.multicluster.x-k8s.io a/many and clusterprofiles.multicluster.x-k8s.io b/many and " +
		"clusterprofiles.multicluster.x-k8s.io c/many and 1 more have this name; " + prod
	if diff := cmp.Diff(want, DescribeAmbiguities(claims.Ambiguous())); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
	for i := range 3 {
		name := fmt.Sprintf("q%d", i)
		claims.Add(name, Claim{managed, "", name, ""})
		claims.Add(name, Claim{managed, "", name + "x", ""})
	}
	q0 := "cluster q0 is ambiguous: managedclusters.ocm q0 and managedclusters.ocm q0x have this name"
	if diff := cmp.Diff(want+"; "+q0+"; 2 more are ambiguous", DescribeAmbiguities(claims.Ambiguous())); diff != "" {
		t.Errorf("description of many (-want +got):\n%s", diff)
	}
	if got := DescribeAmbiguities(nil); got != "" {
		t.Errorf("description of none: %q", got)
	}
}

// TestCounting checks which objects of one cluster count.
func TestCounting(t *testing.T) {
	profiles, members := ClusterProfiles, memberClusters
	member, derived := Claim{members, "", "eu-1", ""}, Claim{profiles, "fleet-system", "eu-1", ""}
	managed := Claim{ManagedClusters, "", "eu-1", ""}
	first, second := Claim{profiles, "shop", "eu-1", "open-cluster-management"}, Claim{profiles, "kueue-system", "eu-1", "open-cluster-management"}
	for what, tc := range map[string]struct{ claims, want []Claim }{
		"a ManagedCluster and what registration made in two namespaces": {[]Claim{first, managed, second}, []Claim{managed}},
		"what registration made, without the original":                  {[]Claim{first, second}, []Claim{first, second}},
		"what registration made, beside a MemberCluster":                {[]Claim{first, member}, []Claim{first, member}},
		"a ManagedCluster and a ClusterProfile of another manager":      {[]Claim{managed, {profiles, "shop", "eu-1", "other"}}, []Claim{managed, {profiles, "shop", "eu-1", "other"}}},
		"both managers": {[]Claim{first, managed, derived, member}, []Claim{managed, member}},
		"none":          {nil, nil},
		"a MemberCluster and what KubeFleet made":   {[]Claim{derived, member}, []Claim{member}},
		"what KubeFleet made, without the original": {[]Claim{derived}, []Claim{derived}},
		"a ClusterProfile of a user":                {[]Claim{derived, member, {profiles, "team", "eu-1", ""}}, []Claim{member, {profiles, "team", "eu-1", ""}}},
		"a ClusterProfile of a user alone":          {[]Claim{member, {profiles, "team", "eu-1", ""}}, []Claim{member, {profiles, "team", "eu-1", ""}}},
		"of another name":                           {[]Claim{member, {profiles, "fleet-system", "eu-2", ""}}, []Claim{member, {profiles, "fleet-system", "eu-2", ""}}},
		"another inventory":                         {[]Claim{derived, {schema.GroupResource{Group: "ocm", Resource: "managedclusters"}, "", "eu-1", ""}}, []Claim{derived, {schema.GroupResource{Group: "ocm", Resource: "managedclusters"}, "", "eu-1", ""}}},
	} {
		before := slices.Clone(tc.claims)
		got := Counting(tc.claims)
		if diff := cmp.Diff([][]Claim{tc.want, before}, [][]Claim{got, tc.claims}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if ambiguous := len(Claims{"eu-1": tc.claims}.Ambiguous()) > 0; ambiguous != (len(tc.want) > 1) {
			t.Errorf("%s: ambiguous: %t", what, ambiguous)
		}
	}
}

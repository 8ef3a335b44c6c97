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

package match_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

func TestExemptNamespaces(t *testing.T) {
	for _, tt := range []struct {
		namespace, own string
		want           bool
	}{
		{"kube-system", "berth-system", true},
		{"kube-system", "", true},
		{"berth-system", "berth-system", true},
		// Berth has no namespace in the served cluster.
		{"berth-system", "", false},
		{"shop", "berth-system", false},
		// Cluster-scoped objects.
		{"", "berth-system", false},
		{"", "", false},
	} {
		if got := match.IsProtectedNamespace(tt.namespace, tt.own); got != tt.want {
			t.Errorf("Exempt(%q, %q) = %v", tt.namespace, tt.own, got)
		}
		if tt.namespace == "" {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{match.ExcludeProtectedNamespaces(tt.own)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := selector.Matches(labels.Set{"kubernetes.io/metadata.name": tt.namespace}); got == tt.want {
			t.Errorf("ExcludeProtectedNamespaces(%q) selects %q: %v", tt.own, tt.namespace, got)
		}
	}
}

func TestOnlyWildcardsTakeACondition(t *testing.T) {
	tests := map[string]struct {
		rules []placementv1.ResourceRule
		want  bool
	}{
		"Names":            {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments"), rule("", "*", "pods,services")}},
		"BootstrapName":    {rules: []placementv1.ResourceRule{rule("storage.k8s.io", "v1", "csinodes")}},
		"AllOfAGroup":      {rules: []placementv1.ResourceRule{rule("apps,batch", "v1", "*")}},
		"AllOfNodes":       {rules: []placementv1.ResourceRule{rule("storage.k8s.io", "v1", "*")}, want: true},
		"AllOfTheCore":     {rules: []placementv1.ResourceRule{rule("", "v1", "*")}, want: true},
		"AllOfEndpoints":   {rules: []placementv1.ResourceRule{rule("discovery.k8s.io", "v1", "*")}, want: true},
		"OfAnyGroup":       {rules: []placementv1.ResourceRule{rule("*", "v1", "deployments")}, want: true},
		"BesidesNames":     {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments"), rule("*", "*", "*")}, want: true},
		"NeverNonetheless": {rules: []placementv1.ResourceRule{rule("", "v1", "nodes")}, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// Rules that name types which are never matched are rejected. They must not match in any case.
			m, _ := match.New(placementv1.Match{ResourceRules: tc.rules}, field.NewPath("match"))
			groups := match.Webhooks([]match.PolicyWebhook{{Policy: "p", FailurePolicy: placementv1.FailurePolicyFail, Matcher: m}}, ownNamespace)
			if got := len(groups[0].Webhook.MatchConditions) > 0; got != tc.want {
				t.Errorf("has a condition: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRemarks(t *testing.T) {
	tests := map[string]struct {
		rules []placementv1.ResourceRule
		want  []string
	}{
		"Names":     {rules: []placementv1.ResourceRule{rule("apps", "*", "deployments"), rule("apps", "v1", "*"), rule("*", "v1", "pods")}},
		"Bootstrap": {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments"), rule("storage.k8s.io", "*", "csinodes")}, want: []string{"match.resourceRules[1]: the cluster needs csinodes.storage.k8s.io to start and to add nodes: while Berth is down, or if the policy denies such objects, the cluster may do neither"}},
		"Wildcard":  {rules: []placementv1.ResourceRule{rule("*", "v1", "csinodes")}, want: []string{"match.resourceRules[0]: wildcards do not match csinodes.storage.k8s.io; to match a type, name both its group and resource"}},
		"Everything": {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, want: []string{"match.resourceRules[0]: wildcards do not match clusterroles.rbac.authorization.k8s.io, clusterrolebindings.rbac.authorization.k8s.io, " +
			"roles.rbac.authorization.k8s.io, rolebindings.rbac.authorization.k8s.io, and 11 other types that a cluster needs to start; to match a type, name both its group and resource"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, match.Remarks(placementv1.Match{ResourceRules: tc.rules}, field.NewPath("match"))); diff != "" {
				t.Errorf("remarks (-want +got):\n%s", diff)
			}
		})
	}
}

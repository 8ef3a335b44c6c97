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
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// TestUsers checks in which policies a condition on the user of a request is found.
func TestUsers(t *testing.T) {
	const want = "spec.match.matchConditions[0].expression: the policy matches no existing object"
	for name, test := range map[string]struct {
		rule, condition string
		mode            placementv1.RemediationMode
		want            string
	}{
		"User":    {"set: {labels: {a: b}}", "request.userInfo.username == 'ci'", "", want},
		"Warn":    {"set: {labels: {a: b}}, warn: w", "!request.userInfo.username.startsWith('system:')", placementv1.RemediationApproved, want},
		"Cluster": {"limit: 1", "'people' in request.userInfo.groups", "", want},
		"Not":     {"set: {labels: {a: b}}", "request.userInfo.username != 'ci'", "", ""},
		"Deny":    {"deny: no", "request.userInfo.username == 'ci'", "", ""},
		"NewOnly": {"set: {labels: {a: b}}", "request.userInfo.username == 'ci'", placementv1.RemediationNewOnly, ""},
		"Other":   {"set: {labels: {a: b}}", "request.operation == 'CREATE'", "", ""},
	} {
		spec := policyOf(t, "p", test.rule, "prod").Spec
		spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: test.condition}}
		spec.Remediation.Mode = test.mode
		module, err := policy.Compile("p", spec.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Finder{}).findingsOfUsers(t.Context(), spec, module); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestUnready checks in which policies spec.clusters.leaveUnreadyAfter has no effect.
func TestUnready(t *testing.T) {
	const ready, want = "require: [{field: region, operator: Exists}, {field: ready, operator: In, values: ['true']}]", "spec.clusters.leaveUnreadyAfter has no effect: spec.rules[0].require[1] makes objects leave"
	for name, test := range map[string]struct {
		rules []string
		limit string
		mode  placementv1.RemediationMode
		want  string
	}{
		"Ready":     {[]string{ready}, "10m", "", want},
		"Both":      {[]string{ready, "deny: no"}, "10m", "", want},
		"Other":     {[]string{ready, "limit: 1"}, "10m", "", ""},
		"AtOnce":    {[]string{ready}, "0s", "", ""},
		"NotReady":  {[]string{"require: [{field: ready, operator: In, values: ['false']}]"}, "10m", "", ""},
		"NoLimit":   {[]string{ready}, "", "", ""},
		"NewOnly":   {[]string{"limit: 1"}, "10m", placementv1.RemediationNewOnly, "spec.clusters.leaveUnreadyAfter has no effect with remediation.mode: NewOnly"},
		"Off":       {[]string{"limit: 1"}, "10m", placementv1.RemediationOff, ""},
		"Manual":    {[]string{"limit: 1"}, "10m", placementv1.RemediationManual, ""},
		"NoCluster": {[]string{"limit: 1"}, "10m", "", ""},
	} {
		spec := placementv1.PlacementPolicySpec{Clusters: &placementv1.ClustersRule{}, Remediation: placementv1.Remediation{Mode: test.mode}}
		for _, rule := range test.rules {
			spec.Rules = append(spec.Rules, ruleFrom(t, rule))
		}
		if limit, err := time.ParseDuration(test.limit); err == nil {
			spec.Clusters.LeaveUnreadyAfter = &metav1.Duration{Duration: limit}
		}
		if got := findingsOfUnready(spec); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestQuotasOfPolicies checks which references to quotas that do not exist are found.
func TestQuotasOfPolicies(t *testing.T) {
	quotas := []placementv1.Quota{
		&placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "compute"}}, &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}},
	}
	f := &Finder{Quotas: limited{quotas: quotas}, Namespaces: labelled{"shop": nil, "bank": nil}}
	for ref, want := range map[string]string{
		`data.berth.quotas["shop"].compute`:  "",
		`data.berth.quotas["shop"].computee`: `data.berth.quotas["shop"]["computee"] is undefined until the ScopedQuota computee exists; did you mean data.berth.quotas["shop"]["compute"]?`,
		`data.berth.quotas["bank"].compute`:  `data.berth.quotas["bank"]["compute"] is undefined until the ScopedQuota compute exists`,
		// Another finding names the namespace.
		`data.berth.quotas["blog"].compute`:              "",
		`data.berth.quotas["shop"][input.metadata.name]`: "",
		`data.berth.clusterquotas.gpus`:                  "",
		`data.berth.clusterquotas.gpu`:                   `data.berth.clusterquotas["gpu"] is undefined until the ClusterScopedQuota gpu exists; did you mean data.berth.clusterquotas["gpus"]?`,
		`data.kubernetes.configmaps["shop"]["compute"]`:  "",
	} {
		spec := placementv1.PlacementPolicySpec{Rego: `package p
warnings contains "full" if ` + ref + ".used"}
		module, err := policy.Compile("p", spec.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		got := f.findingsOfQuotas(t.Context(), module)
		if !finds(got, want) || len(got) > 0 && (got[0].Row != 2 || got[0].Level != Advice) {
			t.Errorf("%s: got %+v, want %q", ref, got, want)
		}
	}
}

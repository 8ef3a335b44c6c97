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

package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// quotaFrom returns a ScopedQuota in the namespace shop, or a ClusterScopedQuota if the name begins with c, with a spec in YAML.
func quotaFrom(t *testing.T, name, spec string) placementv1.Quota {
	t.Helper()
	var out placementv1.Quota = &placementv1.ScopedQuota{}
	if strings.HasPrefix(name, "c") {
		out = &placementv1.ClusterScopedQuota{}
	} else {
		out.SetNamespace("shop")
	}
	if err := yaml.UnmarshalStrict([]byte("spec: "+spec), out); err != nil {
		t.Fatal(err)
	}
	out.SetName(name)
	return out
}

// TestUnreached checks which amounts other quotas keep the usage from reaching.
func TestUnreached(t *testing.T) {
	const retail, prod = "namespaceSelector: {matchLabels: {team: retail}}", "namespaceSelector: {matchLabels: {team: retail, env: prod}}"
	const want = "spec.hard[pods]: 500 is never reached: ScopedQuota a counts the same objects, too, and admits only 120. What a quota denies is denied, " +
		"whatever another one has left: change the amount there, or remove the name here"
	for name, test := range map[string]struct {
		name, spec string
		others     map[string]string // The specs by the names of the quotas.
		want       string
	}{
		"Higher":        {"q", "{hard: {pods: 500}}", map[string]string{"a": "{hard: {pods: 120}}"}, want},
		"Lower":         {"q", "{hard: {pods: 100}}", map[string]string{"a": "{hard: {pods: 120}}"}, ""},
		"Equal":         {"q", "{hard: {pods: 120}}", map[string]string{"a": "{hard: {pods: 120}}"}, ""},
		"OtherName":     {"q", "{hard: {pods: 500}}", map[string]string{"a": "{hard: {services: 120}}"}, ""},
		"Itself":        {"q", "{hard: {pods: 500}}", map[string]string{"q": "{hard: {pods: 120}}"}, ""},
		"Least":         {"q", "{hard: {pods: 500}}", map[string]string{"a": "{hard: {pods: 120}}", "b": "{hard: {pods: 130}}"}, want},
		"SameAmounts":   {"q", "{hard: {pods: 500}}", map[string]string{"b": "{hard: {pods: 120}}", "a": "{hard: {pods: 120}}"}, want},
		"DryRun":        {"q", "{hard: {pods: 500}, mode: DryRun}", map[string]string{"a": "{hard: {pods: 120}}"}, ""},
		"OtherInDryRun": {"q", "{hard: {pods: 500}}", map[string]string{"a": "{hard: {pods: 120}, mode: DryRun}"}, ""},
		"Scope":         {"q", "{hard: {pods: 500}, scopes: [Terminating]}", map[string]string{"a": "{hard: {pods: 120}}"}, want},
		"SameScope":     {"q", "{hard: {pods: 500}, scopes: [Terminating]}", map[string]string{"a": "{hard: {pods: 120}, scopes: [Terminating]}"}, want},
		"ScopeOfOther":  {"q", "{hard: {pods: 500}}", map[string]string{"a": "{hard: {pods: 120}, scopes: [Terminating]}"}, ""},
		"OtherScope":    {"q", "{hard: {pods: 500}, scopes: [NotTerminating]}", map[string]string{"a": "{hard: {pods: 120}, scopes: [Terminating]}"}, ""},

		"OfCluster":       {"q", "{hard: {pods: 500}}", map[string]string{"c": "{hard: {pods: 120}, " + retail + "}"}, "ClusterScopedQuota c counts the same objects, too, and admits only 120"},
		"OfAll":           {"q", "{hard: {pods: 500}}", map[string]string{"c": "{hard: {pods: 120}}"}, "ClusterScopedQuota c counts"},
		"OtherNamespaces": {"q", "{hard: {pods: 500}}", map[string]string{"c": "{hard: {pods: 120}, " + prod + "}"}, ""},
		"Total":           {"c", "{hard: {pods: 500}, " + retail + "}", map[string]string{"a": "{hard: {pods: 120}}"}, ""},
		"Wider":           {"c", "{hard: {pods: 500}, " + prod + "}", map[string]string{"c2": "{hard: {pods: 120}, " + retail + "}"}, "ClusterScopedQuota c2 counts"},
		"Narrower":        {"c", "{hard: {pods: 500}, " + retail + "}", map[string]string{"c2": "{hard: {pods: 120}, " + prod + "}"}, ""},
	} {
		var others []placementv1.Quota
		for name, spec := range test.others {
			others = append(others, quotaFrom(t, name, spec))
		}
		got := Unreached(quotaFrom(t, test.name, test.spec), others, map[string]string{"team": "retail"})
		if joined := strings.Join(got, "; "); len(got) > 1 || (joined == "") != (test.want == "") || !strings.Contains(joined, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestBeyondCapacity checks which amounts are much more than clusters and nodes have.
func TestBeyondCapacity(t *testing.T) {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1744"), corev1.ResourceMemory: resource.MustParse("7Ti")}
	e := NewEvaluators(clock.RealClock{}, Devices{})
	for _, test := range []struct{ spec, want string }{
		{"{hard: {requests.cpu: 8000}}", "spec.hard[requests.cpu]: 8k is 8000 CPUs, more than four times what all clusters and nodes have together, so that it is never " +
			"reached: a smaller number, or 8000m, is probably meant"},
		{"{hard: {cpu: 8000}}", "spec.hard[cpu]: 8k is 8000 CPUs"},
		{"{hard: {requests.memory: 32000Ti}}", "spec.hard[requests.memory]: 32000Ti is much memory, more than four times what all clusters and nodes have together"},
		{"{hard: {requests.cpu: 6000, requests.memory: 28Ti}}", ""},
		{"{hard: {limits.cpu: 8000, limits.memory: 32000Ti}}", ""},
		{"{hard: {requests.cpu: 8Gi}}", ""}, // ImplausibleAmounts tells it.
		{"{hard: {pods: 100000, requests.nvidia.com/gpu: 8000}}", ""},
	} {
		spec := quotaFrom(t, "q", test.spec).QuotaSpec()
		got := strings.Join(e.BeyondCapacity(spec, capacity), "; ")
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.spec, got, test.want)
		}
		if got := e.BeyondCapacity(spec, nil); len(got) > 0 {
			t.Errorf("%s: without a known capacity: %q", test.spec, got)
		}
	}
	// Nodes that are added with the load.
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")}
	if got := e.BeyondCapacity(quotaFrom(t, "q", "{hard: {requests.cpu: 200, requests.memory: 800Gi}}").QuotaSpec(), small); len(got) > 0 {
		t.Errorf("of few nodes: %q", got)
	}
}

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
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
)

// sourced has the sources of clusters.
type sourced []string

func (s sourced) All(context.Context) (clusters []map[string]any, idle []string, err error) {
	for _, source := range s {
		clusters = append(clusters, map[string]any{"source": source})
	}
	return clusters, nil, nil
}

// replicasTest is a policy that divides replicas, and what is found in it.
type replicasTest struct {
	delivery, rule, other string // spec.delivery, and one or two rules.
	objects               []int64
	want                  string
}

// find returns the findings of a Finder in the policy, which has the change.
func (test replicasTest) find(t *testing.T, f *Finder, change func(*placementv1.PlacementPolicySpec)) []Finding {
	t.Helper()
	spec := remediates(t, "delivery: {"+test.delivery+"}")
	for i, text := range []string{test.rule, test.other} {
		if text != "" {
			rule := ruleFrom(t, text)
			rule.Name = string(rune('a' + i))
			spec.Rules = append(spec.Rules, rule)
		}
	}
	if change != nil {
		change(&spec)
	}
	module, err := policy.Compile("p", spec.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	m, errs := match.New(spec.Match, matchPath)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	f.Catalog, f.Namespaces = serving{types: []match.ServedType{deployments, daemonSets, widgets}}, labelled{"shop": nil}
	if test.objects != nil {
		f.Objects = workloads(test.objects...)
	}
	return f.findingsOfReplicas(t.Context(), spec, m, module)
}

var (
	daemonSets = match.ServedType{
		GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, Kind: "DaemonSet", Singular: "daemonset", Namespaced: true,
	}
	widgets = match.ServedType{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Singular: "widget", Namespaced: true,
	}
)

// TestReplicas checks with which bounds objects can't be delivered or are not divided.
func TestReplicas(t *testing.T) {
	const (
		one       = "karmada: {}, replicas: {divideBy: Even, maxPerCluster: 1}"
		few       = "karmada: {}, replicas: {divideBy: Even, minPerCluster: 100}"
		when      = "when: {objectSelector: {matchLabels: {app: web}}}, limit: 1"
		maximum   = "spec.delivery.replicas.maxPerCluster: "
		undivided = "spec.delivery.replicas.minPerCluster: no matched object is divided: none has more than 25 replicas, and the first cluster gets at least 100. Set a smaller number"
	)
	for name, test := range map[string]replicasTest{
		"Few": {one, "limit: 2", "", nil, maximum + "an object of more than 2 replicas can't be delivered: Karmada runs all replicas of an object, and the clusters " +
			"that the policy gives may have no more than 2. Raise maxPerCluster, or give more clusters"},
		"Enough":      {one, "limit: 3", "", nil, ""},
		"NoLimit":     {one, "require: [{field: region, operator: In, values: [eu]}]", "", nil, ""},
		"OtherSystem": {"placementDecision: {}, replicas: {divideBy: Even, maxPerCluster: 1}", "limit: 2", "", nil, ""},
		"NoMaximum":   {"karmada: {}, replicas: {divideBy: Even}", "limit: 2", "", nil, ""},
		"Whole":       {"karmada: {}", "limit: 2", "", nil, ""},
		"Some":        {one, when, "", nil, ""},
		"Denied":      {one, "when: {objectSelector: {matchLabels: {app: web}}}, deny: no", "limit: 2", nil, "more than 2 replicas"},
		"Wider":       {one, when, "limit: 3", nil, ""},

		"Object": {one, "limit: 2", "", []int64{2, 4}, maximum + "Deployment shop/web-1 of 4 replicas can't be delivered"},
		"Objects": {one, "limit: 2", "", []int64{4, 2, 3}, maximum + "Deployment shop/web-0 of 4 replicas, and 1 more, can't be delivered: Karmada runs all " +
			"replicas of an object, and the clusters that the policy gives may have no more than 2. Raise maxPerCluster, or give more clusters"},
		"SmallObjects": {one, "limit: 2", "", []int64{2, 1}, ""},
		"AllClusters":  {one, when, "", []int64{4}, maximum + "Deployment shop/web-0 of 4 replicas can't be delivered"},

		"Undivided":    {few, "limit: 2", "", []int64{1, 2, 3, 4, 25}, undivided},
		"UndividedFew": {few, "limit: 2", "", []int64{1, 2, 3, 25}, ""},
		"Divided":      {few, "limit: 2", "", []int64{1, 2, 3, 4, 26}, ""},
		"Unreached": {"karmada: {}, replicas: {divideBy: Even, minPerCluster: 3}", "limit: 3", "", []int64{2, 3, 4, 4, 5, 6, 1}, "spec.delivery.replicas.minPerCluster: no matched " +
			"object is divided among 3 clusters, as many as the rules give, because none has 9 replicas: 5 of the 6 with several replicas run in a single cluster"},
		"OneReaches":     {"karmada: {}, replicas: {divideBy: Even, minPerCluster: 3}", "limit: 3", "", []int64{2, 3, 4, 4, 5, 9}, ""},
		"MostDivided":    {"karmada: {}, replicas: {divideBy: Even, minPerCluster: 2}", "limit: 4", "", []int64{3, 3, 4, 4, 5, 6}, ""},
		"SomeLimit":      {"karmada: {}, replicas: {divideBy: Even, minPerCluster: 3}", when, "limit: 3", []int64{2, 3, 4, 4, 5, 6}, ""},
		"UnreachedByFew": {"karmada: {}, replicas: {divideBy: Even, minPerCluster: 3}", "limit: 3", "", []int64{2, 3, 4, 1, 6}, ""},
		"Singles":        {few, "limit: 2", "", []int64{1, 1, 1, 1, 1}, ""},
		"OneCluster":     {few, "limit: 1", "", []int64{1, 2, 3, 4, 25}, ""},
		"UnknownNumber":  {few, "limit: 2", "", nil, ""},
	} {
		if got := test.find(t, &Finder{Clusters: sourced{"a", "a", "a"}}, nil); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
	inDryRun := func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeDryRun }
	selected := func(s *placementv1.PlacementPolicySpec) {
		s.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	}
	inRego := func(s *placementv1.PlacementPolicySpec) {
		s.Rules, s.Rego = nil, `package p
clusters := {"a": {"replicas": 9}}`
	}
	for name, change := range map[string]func(*placementv1.PlacementPolicySpec){"DryRun": inDryRun, "Selected": selected, "Rego": inRego} {
		if got := (replicasTest{delivery: one, rule: "limit: 2"}).find(t, &Finder{}, change); len(got) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestTypesWithoutReplicas checks for which matched types no replicas are divided.
func TestTypesWithoutReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		group     string
		resources []string
		want      string
	}{
		"DaemonSets": {"apps", []string{"daemonsets"}, "spec.delivery.replicas has no effect: daemonsets.apps have no replicas, so that each cluster gets the whole object. " +
			"Match types that have spec.replicas, such as deployments.apps, or remove replicas"},
		"Both":     {"apps", []string{"deployments", "daemonsets"}, ""},
		"Custom":   {"example.com", []string{"widgets"}, ""},
		"Unserved": {"apps", []string{"daemonsets", "gadgets"}, ""},
	} {
		change := func(s *placementv1.PlacementPolicySpec) {
			s.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{test.group}, APIVersions: []string{"v1"}, Resources: test.resources}}
		}
		divided := replicasTest{delivery: "karmada: {}, replicas: {divideBy: Even}", rule: "limit: 2"}
		if got := divided.find(t, &Finder{}, change); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestForeignClusters checks for which systems the clusters in files are those of others.
func TestForeignClusters(t *testing.T) {
	const karmada, fleet, profiles = "clusters.cluster.karmada.io", "memberclusters.cluster.kubernetes-fleet.io", "clusterprofiles.multicluster.x-k8s.io"
	for name, test := range map[string]struct {
		delivery string
		clusters sourced
		want     string
	}{
		"Foreign": {"kubeFleet: {}", sourced{karmada, karmada}, "spec.delivery.kubeFleet: no cluster in the files belongs to KubeFleet, so that it runs the objects nowhere: all are " +
			"clusters.cluster.karmada.io. Deliver to the system of these clusters, or correct the files"},
		"Own":      {"karmada: {}", sourced{karmada}, ""},
		"Some":     {"kubeFleet: {}", sourced{karmada, fleet}, ""},
		"Profiles": {"kubeFleet: {}", sourced{karmada, profiles}, ""},
		"Any":      {"placementDecision: {}", sourced{karmada}, ""},
		"None":     {"kubeFleet: {}", nil, ""},
	} {
		spec := remediates(t, "delivery: {"+test.delivery+"}")
		f := &Finder{CatalogIsPartial: true, Clusters: test.clusters}
		if got := f.findingsOfForeignClusters(t.Context(), spec.Delivery, specPath.Child("delivery")); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
		f.CatalogIsPartial = false
		if got := f.findingsOfForeignClusters(t.Context(), spec.Delivery, specPath.Child("delivery")); len(got) > 0 {
			t.Errorf("%s: of an API server: got %+v", name, got)
		}
	}
}

// TestLastSoak checks which soaks of a last stage are meant for the stage before.
func TestLastSoak(t *testing.T) {
	for name, test := range map[string]struct {
		stages string
		want   string
	}{
		"Last":     {"{name: canary, percent: 10}, {name: rest, percent: 100, soak: 24h}", `spec.rollout.stages[1].soak: no namespace waits for this soak: it begins when the objects of stage "rest" are moved, and no stage follows. To wait before stage "rest", set soak of stage "canary"`},
		"Only":     {"{name: rest, namespaceSelector: {}, soak: 24h}", `To wait before stage "rest", add a stage before it that has a soak`},
		"Both":     {"{name: canary, percent: 10, soak: 1h}, {name: rest, percent: 100, soak: 24h}", ""},
		"Approval": {"{name: canary, percent: 10}, {name: rest, percent: 100, soak: 24h, approval: true}", ""},
		"Rest":     {"{name: canary, percent: 10}, {name: half, percent: 50, soak: 24h}", ""},
		"None":     {"{name: canary, percent: 10, soak: 24h}, {name: rest, percent: 100, soak: 0s}", ""},
	} {
		spec := remediates(t, "rollout: {stages: ["+test.stages+"]}")
		m, errs := match.New(spec.Match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		f := &Finder{Catalog: serving{types: []match.ServedType{deployments}}}
		if got := f.findingsOfLastSoak(spec.Rollout.Stages, m, specPath.Child("rollout", "stages")); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
		clusterScoped := deployments
		clusterScoped.Namespaced = false
		f.Catalog = serving{types: []match.ServedType{clusterScoped}}
		if got := f.findingsOfLastSoak(spec.Rollout.Stages, m, specPath.Child("rollout", "stages")); len(got) > 0 {
			t.Errorf("%s: of cluster-scoped objects, which follow the last stage: got %+v", name, got)
		}
	}
}

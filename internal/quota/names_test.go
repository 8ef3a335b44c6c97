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

package quota_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
)

// served are the types that a name of a quota may mean.
var served = match.NewServedTypes([]match.ServedType{
	{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments"), Kind: "Deployment", Singular: "deployment", Namespaced: true},
	{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Singular: "pod", Namespaced: true},
})

func specOf(names []corev1.ResourceName, scopes ...corev1.ResourceQuotaScope) *placementv1.QuotaSpec {
	out := &placementv1.QuotaSpec{Hard: corev1.ResourceList{}, Scopes: scopes}
	for _, name := range names {
		out.Hard[name] = resource.MustParse("1")
	}
	return out
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// TestCheckSpec checks which names and scopes are refused, in which words, and that mistakes of the spec before an update may stay.
func TestCheckSpec(t *testing.T) {
	type names = []corev1.ResourceName
	const noResource = "is not a resource name for quotas, as pods and requests.cpu are: "
	for name, tc := range map[string]struct {
		spec, before *placementv1.QuotaSpec
		want         []string
	}{
		"names of all sorts": {spec: specOf(names{"pods", "requests.nvidia.com/gpu", "count/widgets.example.com", "hugepages-2Mi", "gold.storageclass.storage.k8s.io/requests.storage"})},
		"a type with its group": {spec: specOf(names{"deployments.apps"}), want: []string{
			`spec.hard[deployments.apps]: Invalid value: "deployments.apps": ` + noResource + "write count/deployments.apps, which limits how many of these objects there are"}},
		"a type without its group": {spec: specOf(names{"deployments"}), want: []string{
			`spec.hard[deployments]: Invalid value: "deployments": ` + noResource + "write count/deployments.apps, which limits how many of these objects there are"}},
		"a singular": {spec: specOf(names{"pod"}), want: []string{`spec.hard[pod]: Invalid value: "pod": ` + noResource + "did you mean pods?"}},
		"an unknown name": {spec: specOf(names{"throughput"}), want: []string{
			`spec.hard[throughput]: Invalid value: "throughput": ` + noResource + "write count/<resource>.<group> to limit how many objects of a type there are"}},
		"two slashes": {spec: specOf(names{"a/b/c"}), want: []string{`spec.hard[a/b/c]: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, ` +
			`'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is ` +
			`'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`}},
		"as before":           {spec: specOf(names{"throughput", "pods"}), before: specOf(names{"throughput"})},
		"a scope of pods":     {spec: specOf(names{"services"}, "Terminating"), want: []string{`spec.scopes: Invalid value: "Terminating": hard has a resource that this scope does not apply to (services): the scope applies to pods, cpu, memory, and requests and limits of cpu and memory`}},
		"a scope without use": {spec: specOf(names{"memory"}, "BestEffort"), want: []string{`spec.scopes: Invalid value: "BestEffort": hard has a resource that this scope does not apply to (memory): the scope applies to pods alone`}},
		"a scope as before":   {spec: specOf(names{"services"}, "Terminating"), before: specOf(names{"services"}, "Terminating")},
		"another name for it": {spec: specOf(names{"services"}, "Terminating"), before: specOf(names{"pods"}, "Terminating"), want: []string{`spec.scopes: Invalid value: "Terminating": hard has a resource that this scope does not apply to (services): the scope applies to pods, cpu, memory, and requests and limits of cpu and memory`}},
		"a scope of claims":   {spec: specOf(names{"requests.storage", "example.com/gpu"}, "VolumeAttributesClass")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := texts(quota.CheckSpec(tc.spec, tc.before, served)); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCheckLimit checks that a LimitedResource has only the scopes of its resource, and that a mistake from before an update may stay.
func TestCheckLimit(t *testing.T) {
	limit := func(group, resource string, scope corev1.ResourceQuotaScope) *placementv1.LimitedResourceSpec {
		return &placementv1.LimitedResourceSpec{APIGroup: group, Resource: resource, MatchScopes: []placementv1.ScopeRequirement{{ScopeName: scope}}}
	}
	for name, tc := range map[string]struct {
		spec, before *placementv1.LimitedResourceSpec
		refused      bool
	}{
		"pods":                 {spec: limit("", "pods", "PriorityClass")},
		"claims":               {spec: limit("", "persistentvolumeclaims", "VolumeAttributesClass")},
		"claims as pods":       {spec: limit("", "persistentvolumeclaims", "PriorityClass"), refused: true},
		"pods as claims":       {spec: limit("", "pods", "VolumeAttributesClass"), refused: true},
		"pods of another kind": {spec: limit("example.com", "pods", "PriorityClass"), refused: true},
		"as before":            {spec: limit("", "services", "BestEffort"), before: limit("", "services", "BestEffort")},
		"other than before":    {spec: limit("", "services", "BestEffort"), before: limit("", "pods", "BestEffort"), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := quota.CheckLimit(tc.spec, tc.before); (len(errs) > 0) != tc.refused || tc.refused && errs[0].Field != "spec.matchScopes" {
				t.Errorf("errors %v", errs)
			}
		})
	}
}

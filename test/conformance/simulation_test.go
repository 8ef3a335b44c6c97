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

package conformance_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/test/conformance"
)

// TestSimulation checks that the kubectl plugin's simulation decides each case as the engines do.
func TestSimulation(t *testing.T) {
	for _, theme := range load(t) {
		served := simulation.Discovery{}
		lists := map[string]*metav1.APIResourceList{}
		for _, listed := range theme.Types {
			gvr, err := listed.GroupVersionResource()
			if err != nil {
				t.Fatal(err)
			}
			if lists[listed.APIVersion] == nil {
				version := metav1.GroupVersionForDiscovery{GroupVersion: listed.APIVersion, Version: gvr.Version}
				served.Groups = append(served.Groups, &metav1.APIGroup{Name: gvr.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
				lists[listed.APIVersion] = &metav1.APIResourceList{GroupVersion: listed.APIVersion}
				served.Resources = append(served.Resources, lists[listed.APIVersion])
			}
			lists[listed.APIVersion].APIResources = append(lists[listed.APIVersion].APIResources, metav1.APIResource{
				Name: listed.Resource, Kind: listed.Kind, Namespaced: listed.Namespaced, Verbs: metav1.Verbs{"list", "watch"},
			})
		}
		for _, p := range theme.Policies {
			t.Run(theme.Name+"/"+p.Name, func(t *testing.T) {
				decided := placementv1.PlacementPolicy{
					TypeMeta: metav1.TypeMeta{APIVersion: placementv1.GroupVersion.String(), Kind: "PlacementPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec(),
				}
				encoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&decided)
				if err != nil {
					t.Fatal(err)
				}
				objects := []*unstructured.Unstructured{{Object: encoded}}
				for _, o := range theme.Objects {
					objects = append(objects, &unstructured.Unstructured{Object: o.Document})
				}
				cluster, err := simulation.NewStatic(served, replication.Known(), objects...)
				if err != nil {
					t.Fatal(err)
				}
				s, err := simulation.New(t.Context(), cluster, simulation.Options{})
				if err != nil {
					t.Fatal(err)
				}
				simulateCases(t, s.Policy(p.Name), p.Cases)
			})
		}
	}
}

func simulateCases(t *testing.T, p *simulation.Policy, cases []conformance.Case) {
	t.Helper()
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	for _, c := range cases {
		got, failed := p.Evaluator.Evaluate(placement.WithNamespace(t.Context(), "shop"), c.Object.Document)
		mismatch, err := c.Mismatch(got, failed)
		if err != nil || mismatch != "" {
			t.Errorf("%s: %s, error %v", c.Name, mismatch, err)
		}
	}
}

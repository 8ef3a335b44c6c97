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

package whatif

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/test/budget"
)

// rulesThatChoose are rules that choose clusters in various ways.
var rulesThatChoose = []string{
	`[{name: a, limit: %d}]`,
	`[{name: a, limit: %d, prefer: [{label: tier, operator: In, values: [gold], weight: 10}, {label: region, operator: In, values: [r-1], weight: 5}]}]`,
	`[{name: a, limit: %d, minGain: 7, prefer: [{label: tier, operator: In, values: [gold], weight: 10}, {label: cost, operator: Least, weight: 9}]}]`,
	`[{name: a, limit: %d, require: [{label: tier, operator: In, valueFrom: {annotation: tier, default: gold}}]}]`,
	`[{name: a, limit: %d, spread: {label: region, minDomains: 2}, prefer: [{label: tier, operator: In, values: [gold], weight: 10}]}]`,
	`[{name: a, spread: {label: region, maxDomains: %d, maxClusters: 2}}]`,
	`[{name: a, limit: 4, spread: {label: region, minDomains: %d, minClusters: 2}, otherwise: NextRule}, {name: b, limit: 1, set: {labels: {rule: b}}}]`,
	`[{name: a, limit: %d, set: {annotations: {on: "{clusters}"}}}]`,
}

// labelsOfCluster returns random labels.
func labelsOfCluster(random *rand.Rand) map[string]string {
	out := map[string]string{"region": fmt.Sprintf("r-%d", random.IntN(4)), "cost": fmt.Sprint(random.IntN(4))}
	if random.IntN(2) == 0 {
		out["tier"] = "gold"
	}
	return out
}

func newObject(apiVersion, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

func newCluster(name string, labels map[string]string) *unstructured.Unstructured {
	return newObject("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "fleet", name, labels)
}

// randomSession returns a session of a random fleet, and how many clusters it has.
func randomSession(t *testing.T, random *rand.Rand) (s *Session, clusters int) {
	t.Helper()
	p := newObject("placement.berth.dev/v1alpha1", "PlacementPolicy", "", "p", nil)
	var spec map[string]any
	text := `{mode: Enforce, match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}, rules: ` +
		fmt.Sprintf(rulesThatChoose[random.IntN(len(rulesThatChoose))], 1+random.IntN(3)) + "}"
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	p.Object["spec"] = spec
	objects := []*unstructured.Unstructured{p}
	clusters = 1 + random.IntN(15)
	for i := range clusters {
		objects = append(objects, newCluster(fmt.Sprintf("c-%d", i), labelsOfCluster(random)))
	}
	for i := range 30 {
		o := newObject("apps/v1", "Deployment", fmt.Sprintf("ns-%d", i%3), fmt.Sprintf("web-%d", i), nil)
		if i%4 == 0 {
			o.SetAnnotations(map[string]string{"tier": "gold", "other": fmt.Sprint(i)})
		}
		objects = append(objects, o)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = NewSession(t.Context(), cluster, simulation.Options{}); err != nil {
		t.Fatal(err)
	}
	return s, clusters
}

// randomChanges returns changes of clusters: one gets other labels, leaves, or joins.
func randomChanges(random *rand.Rand, clusters int) (out Changes) {
	profiles := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	name := fmt.Sprintf("c-%d", random.IntN(clusters))
	reference := Reference{profiles, types.NamespacedName{Namespace: "fleet", Name: name}}
	switch random.IntN(4) {
	case 0:
		out.Delete = []Reference{reference}
	case 1:
		out.Apply = []*unstructured.Unstructured{newCluster("new", labelsOfCluster(random))}
	default:
		for key, value := range labelsOfCluster(random) {
			out.Set = append(out.Set, Assignment{Reference: reference, Path: []string{"metadata", "labels", key}, Value: value})
		}
	}
	return out
}

// decidingAll returns a session that decides all objects again.
func decidingAll(s *Session) *Session {
	out := *s
	out.groups = newGroups()
	for p, byKey := range s.groups.byPolicy {
		out.groups.byPolicy[p] = map[any]*group{}
		for key, g := range byKey {
			out.groups.byPolicy[p][key] = &group{input: g.input, namespace: g.namespace, err: errors.New("not known"), members: g.members}
		}
	}
	return &out
}

// TestOnlyConcernedObjectsAreDecided compares what changes of clusters do with what a session says that decides all objects again.
func TestOnlyConcernedObjectsAreDecided(t *testing.T) {
	moved, open := 0, 0
	for seed := range uint64(budget.Rounds(80)) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, clusters := randomSession(t, random)
		for _, byKey := range s.groups.byPolicy {
			for _, g := range byKey {
				open += len(g.chosen)
			}
		}
		for range 4 {
			changes := randomChanges(random, clusters)
			want, err := decidingAll(s).WhatIf(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.WhatIf(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, %+v:\n%s", seed, changes, diff)
			}
			moved += got.Totals[Moved]
		}
	}
	t.Logf("%d objects have open decisions, and %d moves are told", open, moved)
	if moved < 200 || open < 800 {
		t.Error("too few")
	}
}

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// randomMatch returns what a policy matches: the Deployments, often only some of them.
func randomMatch(random *rand.Rand) map[string]any {
	out := map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{"apps"}, "apiVersions": []any{"v1"}, "resources": []any{"deployments"}}}}
	labels := func(key, value string) any { return map[string]any{"matchLabels": map[string]any{key: value}} }
	if random.IntN(3) == 0 {
		out["namespaceSelector"] = labels("kubernetes.io/metadata.name", fmt.Sprintf("ns-%d", random.IntN(3)))
	}
	if random.IntN(3) == 0 {
		out["objectSelector"] = labels("app", fmt.Sprint(random.IntN(2)))
	}
	if random.IntN(4) == 0 {
		// It fails for the objects without annotations.
		out["matchConditions"] = []any{map[string]any{"name": "gold", "expression": fmt.Sprintf("object.metadata.annotations.tier %s 'gold'", []string{"==", "!="}[random.IntN(2)])}}
	}
	return out
}

// copyOf returns an object that the other one controls, with a copy of its clusters.
func copyOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := newObject("apps/v1", "Deployment", o.GetNamespace(), "copy-of-"+o.GetName(), nil)
	out.SetAnnotations(o.GetAnnotations())
	out.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: o.GetName(), UID: o.GetUID(), Controller: new(true)}})
	return out
}

// fleet is a session of some clusters and objects, which one policy decides.
type fleet struct {
	*Session
	policy   *unstructured.Unstructured
	clusters int
}

// randomFleet returns a random fleet with one policy.
func randomFleet(t *testing.T, random *rand.Rand) fleet {
	t.Helper()
	p := newObject("placement.berth.dev/v1alpha1", "PlacementPolicy", "", "p", nil)
	var spec map[string]any
	text := "{mode: Enforce, rules: " + fmt.Sprintf(rulesThatChoose[random.IntN(len(rulesThatChoose))], 1+random.IntN(3)) + "}"
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	spec["match"] = randomMatch(random)
	p.Object["spec"] = spec
	objects := []*unstructured.Unstructured{p}
	clusters := 1 + random.IntN(15)
	for i := range clusters {
		objects = append(objects, newCluster(fmt.Sprintf("c-%d", i), labelsOfCluster(random)))
	}
	for i := range 30 {
		o := newObject("apps/v1", "Deployment", fmt.Sprintf("ns-%d", i%3), fmt.Sprintf("web-%d", i), map[string]string{"app": fmt.Sprint(i % 2)})
		if i%4 == 0 {
			o.SetAnnotations(map[string]string{"tier": "gold", "other": fmt.Sprint(i)})
		}
		if i%5 == 1 {
			o.SetUID(types.UID(o.GetName()))
			o.SetAnnotations(map[string]string{"placement.berth.dev/clusters": fmt.Sprintf("[\"c-%d\"]", random.IntN(clusters))})
			objects = append(objects, copyOf(o))
		}
		objects = append(objects, o)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSession(t.Context(), cluster, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return fleet{s, p, clusters}
}

// randomChanges returns changes of what the policy matches, or of clusters: one gets other labels, leaves, or joins.
func (f fleet) randomChanges(random *rand.Rand) (out Changes) {
	profiles := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	name := fmt.Sprintf("c-%d", random.IntN(f.clusters))
	reference := Reference{profiles, types.NamespacedName{Namespace: "fleet", Name: name}}
	switch random.IntN(6) {
	case 4, 5:
		p := f.policy.DeepCopy()
		p.Object["spec"].(map[string]any)["match"] = randomMatch(random)
		out.Apply = []*unstructured.Unstructured{p}
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

// TestOnlyConcernedObjectsAreDecided compares what changes do with what a session says that decides all objects again.
func TestOnlyConcernedObjectsAreDecided(t *testing.T) {
	moved, open := 0, 0
	for seed := range uint64(budget.Rounds(80)) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := randomFleet(t, random)
		for _, byKey := range f.groups.byPolicy {
			for _, g := range byKey {
				open += len(g.chosen)
			}
		}
		for range 4 {
			changes := f.randomChanges(random)
			want, err := decidingAll(f.Session).WhatIf(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.WhatIf(t.Context(), changes)
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

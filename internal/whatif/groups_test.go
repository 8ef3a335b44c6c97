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
	content  []*unstructured.Unstructured // the policy, the clusters, and the objects
}

// randomFleet returns a random fleet with one policy.
func randomFleet(t *testing.T, random *rand.Rand) fleet {
	t.Helper()
	p := newObject("placement.berth.dev/v1alpha1", "PlacementPolicy", "", "p", nil)
	var spec map[string]any
	mode := "Automatic"
	if random.IntN(2) == 0 {
		mode = "Approved"
	}
	text := "{mode: Enforce, remediation: {mode: " + mode + "}, rules: " + fmt.Sprintf(rulesThatChoose[random.IntN(len(rulesThatChoose))], 1+random.IntN(3)) + "}"
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
	return fleet{s, p, clusters, objects}
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

// drifted returns a session of the fleet after all objects got the values for which they wait and then one cluster changed, and the change
// that takes this back.
func (f fleet) drifted(t *testing.T, random *rand.Rand) (*Session, Changes) {
	t.Helper()
	var placed []*unstructured.Unstructured
	for _, o := range f.content {
		o = o.DeepCopy()
		key := objectKey{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
		if i, ok := f.index[key]; ok && o.GetKind() == "Deployment" {
			for value, w := range f.states[i].wanted {
				if to := w.target().value; to != nil {
					if err := unstructured.SetNestedField(o.Object, *to, "metadata", value.field, value.key); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		placed = append(placed, o)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), placed...)
	if err != nil {
		t.Fatal(err)
	}
	// The clusters follow the policy.
	changed := f.content[1+random.IntN(f.clusters)]
	reference := Reference{schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"},
		types.NamespacedName{Namespace: changed.GetNamespace(), Name: changed.GetName()}}
	drift, back := Changes{Delete: []Reference{reference}}, Changes{Apply: []*unstructured.Unstructured{changed}}
	if random.IntN(2) == 0 {
		drift, back = Changes{}, Changes{}
		for key, value := range labelsOfCluster(random) {
			path := []string{"metadata", "labels", key}
			drift.Set = append(drift.Set, Assignment{Reference: reference, Path: path, Value: value})
			if before, ok := changed.GetLabels()[key]; ok {
				back.Set = append(back.Set, Assignment{Reference: reference, Path: path, Value: before})
			}
		}
	}
	later, err := newOverlay(t.Context(), simulation.NewCached(cluster), drift)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSession(t.Context(), later, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, back
}

// wishes returns what an object gets and what it waits for, by value; empty if it stays as it is.
func wishes(s *state) map[valueKey]string {
	text := func(t *target) string {
		if t == nil || t.value == nil {
			return "none"
		}
		return *t.value
	}
	out := map[valueKey]string{}
	for key, w := range s.wanted {
		current := text(&target{value: w.From})
		if w.due != nil && text(w.due) != current || w.pending != nil && text(w.pending) != current {
			out[key] = current + " " + text(w.due) + " " + text(w.pending)
		}
	}
	return out
}

// TestOnlyDifferencesAreReported decides all objects before and after random changes, and checks that a report lists those that are decided
// otherwise, and that it says which moves become needless.
func TestOnlyDifferencesAreReported(t *testing.T) {
	counts := map[Transition]int{}
	for seed := range uint64(budget.Rounds(80)) {
		random := rand.New(rand.NewPCG(seed, 1))
		f := randomFleet(t, random)
		checkDifferences(t, seed, f.Session, f.randomChanges(random), counts)
		s, back := f.drifted(t, random)
		checkDifferences(t, seed, s, back, counts)
	}
	t.Logf("transitions: %v", counts)
	if counts[Kept] < 20 || counts[Replanned] < 20 {
		t.Error("too few")
	}
}

// checkDifferences checks what a session reports of changes, and adds the transitions to counts.
func checkDifferences(t *testing.T, seed uint64, s *Session, changes Changes, counts map[Transition]int) {
	t.Helper()
	report, err := s.WhatIf(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := newOverlay(t.Context(), s.cluster, changes)
	if err != nil {
		t.Fatal(err)
	}
	later, err := NewSession(t.Context(), changed, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reported := map[types.NamespacedName]string{}
	for _, o := range report.Objects {
		counts[o.Transition]++
		reported[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = string(o.Transition)
	}
	waiting, unchanged := map[types.NamespacedName]bool{}, 0
	for key, i := range s.index {
		before, after := s.states[i], &state{}
		if j, ok := later.index[key]; ok {
			after = later.states[j]
		}
		got := reported[key.name]
		switch {
		case got == "" && after.waiting:
			waiting[key.name] = true
		case got == "" && len(before.matched)+len(after.matched) > 0:
			unchanged++
		}
		if want := expected(before, after); want != got && want != "any" && (want != "listed" || got == "") {
			t.Errorf("seed %d, %s is %q, want %q\nbefore %v %v, after %v %v", seed, key.name, got, want, before.matched, wishes(before), after.matched, wishes(after))
		}
	}
	if report.Waiting != len(waiting) || report.Unchanged != unchanged {
		t.Errorf("seed %d: %d waiting and %d unchanged, want %d and %d", seed, report.Waiting, report.Unchanged, len(waiting), unchanged)
	}
	for _, o := range report.StillWaiting {
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		if !waiting[name] || o.Transition != Waiting || len(o.Values) == 0 {
			t.Errorf("seed %d: %+v does not wait", seed, o)
		}
		delete(waiting, name)
	}
	if len(waiting) > 0 {
		t.Errorf("seed %d: %v are not listed", seed, waiting)
	}
}

// expected returns the transition of an object with two states: "" for none, "listed" for one that only has to exist, and "any" for any or
// none.
func expected(before, after *state) string {
	was, is := wishes(before), wishes(after)
	waits := true
	for _, w := range before.wanted {
		// Without waiting, the object gets the value in any case, and then another one.
		waits = waits && w.due == nil
	}
	switch {
	case len(after.denials)+len(after.failures)+len(before.denials)+len(before.failures) > 0:
		return "any"
	case !cmp.Equal(before.matched, after.matched):
		return "listed"
	case cmp.Equal(was, is):
		return ""
	case len(is) == 0 && waits:
		return string(Kept)
	}
	return "listed"
}

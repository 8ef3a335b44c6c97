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

package delivery_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/test/budget"
)

var (
	moved   = delivery.Object{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: "shop", Name: "web", UID: "1"}
	surging = &placementv1.Surge{Timeout: &metav1.Duration{Duration: time.Minute}}
	noon    = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// carrier is a system as a test plays it.
type carrier struct {
	system delivery.System
	spec   *placementv1.Delivery
	// report returns what the system reports: the clusters that it was asked for, and where the object runs.
	report func(live *unstructured.Unstructured, requested []string, running ...string) *delivery.Observation
	// named returns the clusters in an object.
	named func(*unstructured.Unstructured) []string
}

func carriers() map[string]carrier {
	karmada := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}, Surge: surging}
	fleet := &placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}, Surge: surging}
	return map[string]carrier{
		"karmada": {
			delivery.Systems(karmada)[0], karmada,
			func(_ *unstructured.Unstructured, requested []string, running ...string) *delivery.Observation {
				return new(delivery.Systems(karmada)[0].Observe(binding(requested, running...)))
			},
			func(o *unstructured.Unstructured) []string {
				names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "placement", "clusterAffinity", "clusterNames")
				return names
			},
		},
		"kubeFleet": {
			delivery.Systems(fleet)[0], fleet,
			func(live *unstructured.Unstructured, requested []string, running ...string) *delivery.Observation {
				o := live.DeepCopy()
				o.SetGeneration(2)
				var statuses []any
				for _, name := range requested {
					available := "False"
					if slices.Contains(running, name) {
						available = "True"
					}
					statuses = append(statuses, map[string]any{"clusterName": name, "conditions": []any{
						map[string]any{"type": "Applied", "status": "True", "observedGeneration": int64(2)},
						map[string]any{"type": "Available", "status": available, "observedGeneration": int64(2), "message": "0 of 1 pods"},
					}})
				}
				o.Object["status"] = map[string]any{"placementStatuses": statuses}
				return new(delivery.Systems(fleet)[0].Observe(o))
			},
			func(o *unstructured.Unstructured) []string {
				names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "policy", "clusterNames")
				return names
			},
		},
	}
}

// binding is a ResourceBinding of moved.
func binding(requested []string, running ...string) *unstructured.Unstructured {
	var chosen, statuses, names []any
	for _, name := range requested {
		names = append(names, name)
		chosen = append(chosen, map[string]any{"name": name})
		health := "Unhealthy"
		if slices.Contains(running, name) {
			health = "Healthy"
		}
		statuses = append(statuses, map[string]any{"clusterName": name, "applied": true, "health": health})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"generation": int64(3)},
		"spec": map[string]any{
			"resource":  map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "1"},
			"clusters":  chosen,
			"placement": map[string]any{"clusterAffinity": map[string]any{"clusterNames": names}},
		},
		"status": map[string]any{"schedulerObservedGeneration": int64(3), "aggregatedStatus": statuses},
	}}
}

func to(clusters ...string) delivery.Decision { return delivery.Decision{Clusters: clusters} }

func TestHandOver(t *testing.T) {
	for name, c := range carriers() {
		t.Run(name, func(t *testing.T) {
			handOver := func(decision delivery.Decision, spec *placementv1.Delivery, live *unstructured.Unstructured, observed *delivery.Observation, now time.Time) (delivery.Handover, *unstructured.Unstructured) {
				t.Helper()
				got, err := c.system.HandOver(moved, decision, spec, live, observed, now)
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Objects) == 0 {
					return got, nil
				}
				return got, got.Objects[0].Object
			}
			expect := func(what string, o *unstructured.Unstructured, clusters ...string) {
				t.Helper()
				if diff := cmp.Diff(clusters, c.named(o)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			_, old := handOver(to("a", "c"), c.spec, nil, nil, noon)
			expect("Without a delivered object, there is nothing to leave", old, "a", "c")

			got, both := handOver(to("b", "c"), c.spec, old, c.report(old, []string{"a", "c"}, "a", "c"), noon)
			expect("The object is brought to b before it leaves a", both, "a", "b", "c")
			if diff := cmp.Diff([]string{"a"}, got.Kept); diff != "" || !got.Until.Equal(noon.Add(time.Minute)) || got.Run.State != delivery.NotRunning {
				t.Errorf("Kept until %v, %v (-want +got):\n%s", got.Until, got.Run, diff)
			}
			// The API server may refuse the clusters together. Then the object is delivered as to a new one.
			_, alone := handOver(to("b", "c"), c.spec, nil, nil, noon)
			if diff := cmp.Diff(alone, got.Alone[0].Object); diff != "" {
				t.Errorf("Alone (-want +got):\n%s", diff)
			}
			later := noon.Add(30 * time.Second)
			_, again := handOver(to("b", "c"), c.spec, both, c.report(both, []string{"a", "b", "c"}, "a", "c"), later)
			if diff := cmp.Diff(both, again); diff != "" {
				t.Errorf("Delivering twice has to write nothing (-want +got):\n%s", diff)
			}
			_, o := handOver(to("b", "c"), c.spec, both, nil, later)
			expect("Without a report, it stays", o, "a", "b", "c")

			runs := c.report(both, []string{"a", "b", "c"}, "a", "b", "c")
			got, o = handOver(to("b", "c"), c.spec, both, runs, later)
			expect("It leaves a when it runs in b", o, "b", "c")
			if len(got.Kept) > 0 || !got.Until.IsZero() {
				t.Errorf("Kept %v until %v", got.Kept, got.Until)
			}
			got, _ = handOver(to("b", "c"), c.spec, o, c.report(o, []string{"b", "c"}, "b", "c"), later)
			if got.Run != (delivery.Run{State: delivery.Running}) {
				t.Errorf("It runs in its clusters alone: %+v", got.Run)
			}
			_, o = handOver(to("b", "c"), c.spec, both, nil, noon.Add(time.Minute))
			expect("After the timeout, it leaves a anyway", o, "b", "c")
			_, o = handOver(to("a", "c"), c.spec, both, c.report(both, []string{"a", "b", "c"}, "a", "c"), later)
			expect("When the decision is taken back, it leaves the new cluster", o, "a", "c")
			_, o = handOver(to("b", "c"), &placementv1.Delivery{Karmada: c.spec.Karmada, KubeFleet: c.spec.KubeFleet}, both, nil, later)
			expect("Without surge, it leaves at once", o, "b", "c")
			if _, kept := o.GetAnnotations()[placementv1.DeliveredClustersAnnotation]; kept {
				t.Error("Without surge, there is no annotation")
			}

			foreign := both.DeepCopy()
			if err := unstructured.SetNestedStringSlice(foreign.Object, []string{"a", "b", "c", "evil"}, map[string][]string{
				"karmada": {"spec", "placement", "clusterAffinity", "clusterNames"}, "kubeFleet": {"spec", "policy", "clusterNames"},
			}[name]...); err != nil {
				t.Fatal(err)
			}
			_, o = handOver(to("b", "c"), c.spec, foreign, nil, later)
			expect("A cluster that another client added is not kept", o, "a", "b", "c")
			future := both.DeepCopy()
			future.SetAnnotations(map[string]string{placementv1.DeliveredClustersAnnotation: `{"a":"2036-01-01T00:00:00Z","c":""}`})
			got, _ = handOver(to("b", "c"), c.spec, future, nil, later)
			if !got.Until.Equal(later.Add(time.Minute)) {
				t.Errorf("A time in the future counts as now: %v", got.Until)
			}
			got, _ = handOver(to(), c.spec, both, runs, later)
			if len(got.Kept) > 0 || got.Run != (delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a", Remains: true}) {
				t.Errorf("An empty decision keeps no cluster: %+v", got)
			}
			got, _ = handOver(to(), c.spec, nil, nil, later)
			if got.Run != (delivery.Run{}) {
				t.Errorf("An object without clusters that runs nowhere is not reported: %+v", got.Run)
			}
		})
	}
}

func TestHandOverIgnoresStaleReports(t *testing.T) {
	karmada := carriers()["karmada"]
	got := func(change func(*unstructured.Unstructured)) []string {
		t.Helper()
		first, err := karmada.system.HandOver(moved, to("a"), karmada.spec, nil, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		both, err := karmada.system.HandOver(moved, to("b"), karmada.spec, first.Objects[0].Object, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		o := binding([]string{"a", "b"}, "a", "b")
		change(o)
		last, err := karmada.system.HandOver(moved, to("b"), karmada.spec, both.Objects[0].Object, new(karmada.system.Observe(o)), noon)
		if err != nil {
			t.Fatal(err)
		}
		return last.Kept
	}
	if kept := got(func(*unstructured.Unstructured) {}); kept != nil {
		t.Fatalf("Kept %v", kept)
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"another object": func(o *unstructured.Unstructured) { set(o, "2", "spec", "resource", "uid") },
		"not scheduled":  func(o *unstructured.Unstructured) { o.SetGeneration(4) },
		"an older placement": func(o *unstructured.Unstructured) {
			set(o, []any{"b"}, "spec", "placement", "clusterAffinity", "clusterNames")
		},
		"refused by b": func(o *unstructured.Unstructured) {
			set(o, []any{
				map[string]any{"clusterName": "a", "applied": true, "health": "Healthy"}, map[string]any{"clusterName": "b", "applied": false, "health": "Healthy"},
			}, "status", "aggregatedStatus")
		},
		"not applied":           func(o *unstructured.Unstructured) { set(o, []any{}, "status", "aggregatedStatus") },
		"b is not chosen":       func(o *unstructured.Unstructured) { set(o, []any{map[string]any{"name": "a"}}, "spec", "clusters") },
		"nothing is chosen yet": func(o *unstructured.Unstructured) { delete(o.Object, "status"); set(o, []any{}, "spec", "clusters") },
	} {
		if diff := cmp.Diff([]string{"a"}, got(change)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func set(o *unstructured.Unstructured, value any, path ...string) {
	_ = unstructured.SetNestedField(o.Object, value, path...)
}

// TestHandOverEndsWithTheDecision changes the decision, the reports, and the time at random: an object never loses a decided cluster, it
// keeps only clusters that were decided, and once it runs or the time is over, it is the object that the last decision gives alone.
func TestHandOverEndsWithTheDecision(t *testing.T) {
	for name, c := range carriers() {
		t.Run(name, func(t *testing.T) {
			random, all := rand.New(rand.NewPCG(1, 2)), []string{"a", "b", "c", "d"}
			some := func() []string {
				return slices.DeleteFunc(slices.Clone(all), func(string) bool { return random.IntN(2) == 0 })
			}
			for range budget.Rounds(300) {
				var live *unstructured.Unstructured
				now, decided := noon, map[string]bool{}
				step := func(decision []string, observed *delivery.Observation) delivery.Handover {
					t.Helper()
					got, err := c.system.HandOver(moved, to(decision...), c.spec, live, observed, now)
					if err != nil {
						t.Fatal(err)
					}
					live = nil
					if len(got.Objects) > 0 {
						live = got.Objects[0].Object
					}
					return got
				}
				var decision []string
				for range 1 + random.IntN(6) {
					decision = some()
					for _, cluster := range decision {
						decided[cluster] = true
					}
					var observed *delivery.Observation
					if live != nil && random.IntN(3) > 0 {
						observed = c.report(live, c.named(live), some()...)
					}
					got := step(decision, observed)
					now = now.Add(time.Duration(random.IntN(40)) * time.Second)
					if live == nil || len(decision) == 0 {
						continue
					}
					for _, cluster := range decision {
						if !slices.Contains(c.named(live), cluster) {
							t.Fatalf("Cluster %s is decided, but the object has %v", cluster, c.named(live))
						}
					}
					for _, cluster := range got.Kept {
						if !decided[cluster] || slices.Contains(decision, cluster) {
							t.Fatalf("Cluster %s was never decided, or is", cluster)
						}
					}
				}
				if random.IntN(2) == 0 {
					now = now.Add(time.Minute)
					step(decision, nil)
				} else {
					// A cluster may be over its time in the first step, so that the report concerns another placement.
					for range 2 {
						if live != nil {
							step(decision, c.report(live, c.named(live), c.named(live)...))
						}
					}
				}
				want, err := c.system.HandOver(moved, to(decision...), c.spec, nil, nil, now)
				if err != nil {
					t.Fatal(err)
				}
				if len(want.Objects) == 0 {
					continue
				}
				if diff := cmp.Diff(want.Objects[0].Object, live); diff != "" {
					t.Fatalf("The object depends on history (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestHandOverWithReplicas(t *testing.T) {
	spec := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}, Surge: surging, Replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly}}
	object, system := moved, delivery.Systems(spec)[0]
	object.Replicas = new(int64(4))
	first, err := system.HandOver(object, to("a"), spec, nil, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	both, err := system.HandOver(object, to("b"), spec, first.Objects[0].Object, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	list, _, _ := unstructured.NestedSlice(both.Objects[0].Object.Object, "spec", "placement", "replicaScheduling", "weightPreference", "staticWeightList")
	text, _ := json.Marshal(list)
	if diff := cmp.Diff(`[{"targetCluster":{"clusterNames":["a"]},"weight":2},{"targetCluster":{"clusterNames":["b"]},"weight":2}]`, string(text)); diff != "" {
		t.Errorf("While it moves, both clusters share the replicas (-want +got):\n%s", diff)
	}
	last, err := system.HandOver(object, to("b"), spec, both.Objects[0].Object, new(system.Observe(binding([]string{"a", "b"}, "a", "b"))), noon)
	if err != nil || len(last.Kept) > 0 {
		t.Errorf("Kept %v, error %v", last.Kept, err)
	}
}

func TestHandOverKeepsNothingOfAnotherObjectOfTheName(t *testing.T) {
	for name, c := range carriers() {
		t.Run(name, func(t *testing.T) {
			first, err := c.system.HandOver(moved, to("a"), c.spec, nil, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			live, created := first.Objects[0].Object, moved
			created.UID = "2"
			got, err := c.system.HandOver(created, to("b"), c.spec, live, c.report(live, []string{"a"}, "a"), noon)
			if err != nil {
				t.Fatal(err)
			}
			want := delivery.Run{State: delivery.NotRunning, Message: c.system.Title + " has not reported anything about the object", Absent: true}
			if diff := cmp.Diff([]string{"b"}, c.named(got.Objects[0].Object)); diff != "" || len(got.Kept) > 0 || got.Run != want {
				t.Errorf("Kept %v, %+v, clusters (-want +got):\n%s", got.Kept, got.Run, diff)
			}
		})
	}
}

func TestHandOverWithTooFewReplicas(t *testing.T) {
	even := &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly}
	for name, tc := range map[string]struct {
		replicas int64
		from, to []string
		kept     []string
	}{
		// Waiting does not help: no replica is left for b while a is kept, and none for a while b is decided.
		"one replica, to a later name":    {1, []string{"a"}, []string{"b"}, nil},
		"one replica, to an earlier name": {1, []string{"b"}, []string{"a"}, nil},
		// A hash of the object and the clusters selects c.
		"only clusters with a part":  {2, []string{"b", "c"}, []string{"a"}, []string{"c"}},
		"some decided clusters wait": {2, []string{"a"}, []string{"b", "c"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}, Surge: surging, Replicas: even}
			object, system := moved, delivery.Systems(spec)[0]
			object.Replicas = &tc.replicas
			first, err := system.HandOver(object, to(tc.from...), spec, nil, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			got, err := system.HandOver(object, to(tc.to...), spec, first.Objects[0].Object, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.kept, got.Kept); diff != "" {
				t.Errorf("Kept (-want +got):\n%s", diff)
			}
			named, _, _ := unstructured.NestedStringSlice(got.Objects[0].Object.Object, "spec", "placement", "clusterAffinity", "clusterNames")
			if diff := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(tc.to, tc.kept))), named); diff != "" {
				t.Errorf("Clusters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHandOverByFreeCapacity has Karmada, which chooses among the clusters, stay with the one that is left.
func TestHandOverByFreeCapacity(t *testing.T) {
	spec := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}, Surge: surging, Replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideByFreeCapacity}}
	object, system := moved, delivery.Systems(spec)[0]
	object.Replicas = new(int64(4))
	first, err := system.HandOver(object, to("a"), spec, nil, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	choseA := func(requested ...any) *delivery.Observation {
		o := binding([]string{"a"}, "a")
		set(o, requested, "spec", "placement", "clusterAffinity", "clusterNames")
		return new(system.Observe(o))
	}
	both, err := system.HandOver(object, to("b"), spec, first.Objects[0].Object, choseA("a"), noon)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, both.Kept); diff != "" {
		t.Errorf("Before Karmada chooses (-want +got):\n%s", diff)
	}
	last, err := system.HandOver(object, to("b"), spec, both.Objects[0].Object, choseA("a", "b"), noon)
	if err != nil || last.Kept != nil {
		t.Errorf("Kept %v although Karmada chose no decided cluster, error %v", last.Kept, err)
	}
}

func TestHandOverBoundsTheAnnotation(t *testing.T) {
	c := carriers()["karmada"]
	many := func(prefix string) []string {
		out := make([]string, 3000)
		for i := range out {
			out[i] = fmt.Sprintf("%s-%04d-%s", prefix, i, strings.Repeat("x", 40))
		}
		return out
	}
	live, err := c.system.HandOver(moved, to(many("a")...), c.spec, nil, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, decision := range [][]string{many("b"), {"c"}} {
		got, err := c.system.HandOver(moved, to(decision...), c.spec, live.Objects[0].Object, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decision, c.named(got.Objects[0].Object)); diff != "" || len(got.Kept) > 0 {
			t.Errorf("Kept %d, clusters (-want +got):\n%s", len(got.Kept), diff)
		}
		// The API server accepts 256 KiB in all annotations together.
		if size := len(fmt.Sprint(got.Objects[0].Object.GetAnnotations())); size > 200<<10 {
			t.Errorf("The annotations have %d bytes", size)
		}
	}
}

// TestHandOverIgnoresStaleConditions has KubeFleet report conditions that do not show that the object runs in b.
func TestHandOverIgnoresStaleConditions(t *testing.T) {
	fleet := carriers()["kubeFleet"]
	first, err := fleet.system.HandOver(moved, to("a"), fleet.spec, nil, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	both, err := fleet.system.HandOver(moved, to("b"), fleet.spec, first.Objects[0].Object, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	live := both.Objects[0].Object
	live.SetGeneration(4)
	condition := func(kind, status string, generation int64) any {
		return map[string]any{"type": kind, "status": status, "observedGeneration": generation}
	}
	for name, tc := range map[string]struct {
		conditions []any
		kept       []string
	}{
		"it runs":                             {[]any{condition("Applied", "True", 4), condition("Available", "True", 4)}, nil},
		"it is not applied":                   {[]any{condition("Applied", "False", 4), condition("Available", "True", 4)}, []string{"a"}},
		"it is not available":                 {[]any{condition("Applied", "True", 4), condition("Available", "False", 4)}, []string{"a"}},
		"it was available at an earlier time": {[]any{condition("Applied", "True", 4), condition("Available", "True", 3)}, []string{"a"}},
		"it was applied at an earlier time":   {[]any{condition("Applied", "True", 3), condition("Available", "True", 4)}, []string{"a"}},
		"it is not known":                     {nil, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := live.DeepCopy()
			set(o, []any{map[string]any{"clusterName": "b", "conditions": tc.conditions}}, "status", "placementStatuses")
			got, err := fleet.system.HandOver(moved, to("b"), fleet.spec, o, new(fleet.system.Observe(o)), noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.kept, got.Kept); diff != "" {
				t.Errorf("Kept (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSurgeTimeout(t *testing.T) {
	for name, c := range carriers() {
		live := func(annotation string) *unstructured.Unstructured {
			got, err := c.system.HandOver(moved, to("a", "b"), c.spec, nil, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			o := got.Objects[0].Object
			o.SetAnnotations(map[string]string{placementv1.DeliveredClustersAnnotation: annotation})
			return o
		}
		// The first cluster that is over its time is given up first.
		got, err := c.system.HandOver(moved, to("c"), c.spec, live(`{"a":"2026-01-02T11:59:50Z","b":"2026-01-02T11:59:30Z"}`), nil, noon)
		if want := noon.Add(30 * time.Second); err != nil || !got.Until.Equal(want) {
			t.Errorf("%s: kept until %v, error %v, want %v", name, got.Until, err, want)
		}
		spec := *c.spec
		spec.Surge = &placementv1.Surge{}
		got, err = c.system.HandOver(moved, to("c"), &spec, live(`{"a":"","b":""}`), nil, noon)
		if want := noon.Add(10 * time.Minute); err != nil || !got.Until.Equal(want) {
			t.Errorf("%s: by default, kept until %v, error %v, want %v", name, got.Until, err, want)
		}
	}
}

// TestHandOverOfObjectsDeliveredBefore moves an object that was delivered before the policy had spec.delivery.surge.
func TestHandOverOfObjectsDeliveredBefore(t *testing.T) {
	for name, c := range carriers() {
		before, err := c.system.HandOver(moved, to("a"), &placementv1.Delivery{Karmada: c.spec.Karmada, KubeFleet: c.spec.KubeFleet}, nil, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.system.HandOver(moved, to("b"), c.spec, before.Objects[0].Object, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a"}, got.Kept); diff != "" {
			t.Errorf("%s: kept (-want +got):\n%s", name, diff)
		}
	}
}

// TestRunsInOthers has a system report clusters that the object has left.
func TestRunsInOthers(t *testing.T) {
	for name, c := range carriers() {
		alone, err := c.system.HandOver(moved, to("b"), c.spec, nil, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		live := alone.Objects[0].Object
		observed := c.report(live, []string{"a", "b"}, "a", "b")
		observed.Requested = nil
		got, err := c.system.HandOver(moved, to("b"), c.spec, live, observed, noon)
		if want := (delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a", Remains: true}); err != nil || got.Run != want {
			t.Errorf("%s: %+v, error %v, want %+v", name, got.Run, err, want)
		}
	}
}

// TestAbsent checks that an object is absent if a system has not brought it to a decided cluster, and not if it only lacks something there.
func TestAbsent(t *testing.T) {
	entry := func(applied bool, health string) []any {
		return []any{map[string]any{"clusterName": "a", "applied": applied, "health": health}, map[string]any{"clusterName": "b", "applied": true, "health": "Healthy"}}
	}
	condition := func(kind, status string) map[string]any {
		return map[string]any{"type": kind, "status": status, "observedGeneration": int64(2)}
	}
	placed := func(conditions ...any) []any {
		return []any{
			map[string]any{"clusterName": "a", "conditions": conditions},
			map[string]any{"clusterName": "b", "conditions": []any{condition("Applied", "True"), condition("Available", "True")}},
		}
	}
	for what, tc := range map[string]struct {
		system string
		list   []any
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"Karmada has not applied it":       {system: "karmada", list: entry(false, "Unknown"), want: true},
		"Karmada reports one cluster":      {system: "karmada", list: entry(true, "Healthy")[1:], want: true},
		"Karmada reports none":             {system: "karmada", want: true},
		"Karmada found no clusters":        {system: "karmada", change: func(o *unstructured.Unstructured) { set(o, int64(1), "status", "schedulerObservedGeneration") }, want: true},
		"it is not healthy in Karmada":     {system: "karmada", list: entry(true, "Unhealthy")},
		"it is healthy in Karmada":         {system: "karmada", list: entry(true, "Healthy")},
		"KubeFleet could not apply it":     {system: "kubeFleet", list: placed(condition("Applied", "False")), want: true},
		"KubeFleet has not applied it":     {system: "kubeFleet", list: placed(), want: true},
		"KubeFleet reports one cluster":    {system: "kubeFleet", list: placed()[1:], want: true},
		"KubeFleet reports none":           {system: "kubeFleet", want: true},
		"it is not available in KubeFleet": {system: "kubeFleet", list: placed(condition("Applied", "True"), condition("Available", "False"))},
		"it is available in KubeFleet":     {system: "kubeFleet", list: placed(condition("Applied", "True"), condition("Available", "True"))},
	} {
		c := carriers()[tc.system]
		alone, err := c.system.HandOver(moved, to("a", "b"), c.spec, nil, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		live := alone.Objects[0].Object
		report, list := binding([]string{"a", "b"}), "aggregatedStatus"
		if tc.system == "kubeFleet" {
			report, list = live.DeepCopy(), "placementStatuses"
			report.SetGeneration(2)
		}
		set(report, tc.list, "status", list)
		if tc.change != nil {
			tc.change(report)
		}
		got, err := c.system.HandOver(moved, to("a", "b"), c.spec, live, new(c.system.Observe(report)), noon)
		if err != nil || got.Run.Absent != tc.want || got.Run.Absent && got.Run.State != delivery.NotRunning {
			t.Errorf("%s: %+v, error %v, want absent %t", what, got.Run, err, tc.want)
		}
	}
}

func TestWithoutReplicasAndClusters(t *testing.T) {
	karmada := carriers()["karmada"]
	without := func(replicas int64) delivery.Run {
		object := moved
		object.Replicas = &replicas
		// Karmada takes an object with requests and without replicas out of all clusters.
		o := binding([]string{"a"})
		o.Object["spec"].(map[string]any)["clusters"] = []any{}
		o.Object["status"].(map[string]any)["aggregatedStatus"] = []any{}
		next, err := karmada.system.HandOver(object, to("a"), karmada.spec, nil, new(karmada.system.Observe(o)), noon)
		if err != nil {
			t.Fatal(err)
		}
		return next.Run
	}
	if got := without(0); got.State != delivery.Running {
		t.Errorf("without replicas: %+v", got)
	}
	if got := without(1); got.State != delivery.NotRunning {
		t.Errorf("with a replica: %+v", got)
	}
}

func TestWorseRunCounts(t *testing.T) {
	states := []delivery.RunState{delivery.NotReported, delivery.Running, delivery.NotRunning, delivery.RunUnknown}
	for i, better := range states {
		for _, worse := range states[i:] {
			a, b := delivery.Run{State: better}, delivery.Run{State: worse}
			if got := a.And(b); got != b {
				t.Errorf("%q and %q is %q", better, worse, got.State)
			}
			if got := b.And(a); got != b {
				t.Errorf("%q and %q is %q", worse, better, got.State)
			}
		}
	}
}

// TestReportedBy checks that an object reports only a placed object in its own namespace.
func TestReportedBy(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace, of string
		ok            bool
	}{
		"its own namespace":           {"shop", "shop", true},
		"another namespace":           {"mallory", "shop", false},
		"a cluster-scoped object":     {"", "", true},
		"from a namespace to cluster": {"mallory", "", false},
	} {
		o := binding([]string{"a"}, "a")
		o.SetNamespace(tc.namespace)
		set(o, tc.of, "spec", "resource", "namespace")
		key, ok := delivery.ReportedBy(o)
		if ok != tc.ok || ok && (key.Namespace != tc.of || key.Name != "web" || key.Kind != "Deployment") {
			t.Errorf("%s: %v, %t", name, key, ok)
		}
	}
}

// TestEqualObservations changes each field of an observation.
func TestEqualObservations(t *testing.T) {
	observation := func() delivery.Observation {
		return delivery.Observation{UID: "1", Requested: []string{"a"}, Current: true, Clusters: map[string]string{"a": ""}}
	}
	if !observation().Equal(observation()) {
		t.Error("equal observations differ")
	}
	for name, change := range map[string]func(*delivery.Observation){
		"UID":       func(o *delivery.Observation) { o.UID = "2" },
		"Requested": func(o *delivery.Observation) { o.Requested = []string{"b"} },
		"Current":   func(o *delivery.Observation) { o.Current = false },
		"Clusters":  func(o *delivery.Observation) { o.Clusters = map[string]string{"a": "not ready"} },
		"Absent":    func(o *delivery.Observation) { o.Absent = []string{"a"} },
		"Present":   func(o *delivery.Observation) { o.Present = []string{"a"} },
		"Ending":    func(o *delivery.Observation) { o.Ending = []string{"a"} },
		"Revision":  func(o *delivery.Observation) { o.Revision = "1" },
		"Outdated":  func(o *delivery.Observation) { o.Outdated = true },
		"Strays":    func(o *delivery.Observation) { o.Strays = map[string]string{"b": "ResourceBinding other"} },
	} {
		other := observation()
		change(&other)
		if observation().Equal(other) {
			t.Errorf("observations with another %s are equal", name)
		}
	}
}

// TestStrays has a client bring an object to more clusters by a binding of their own.
func TestStrays(t *testing.T) {
	c := carriers()["karmada"]
	for what, tc := range map[string]struct {
		to     []string
		strays map[string]string
		want   delivery.Run
	}{
		"to a cluster that was not decided": {
			to: []string{"b"}, strays: map[string]string{"a": "ResourceBinding z"},
			want: delivery.Run{State: delivery.NotRunning, Message: "ResourceBinding z brings it to cluster a, too: delete ResourceBinding z", Remains: true},
		},
		"to a decided one":         {to: []string{"b"}, strays: map[string]string{"b": "ResourceBinding z"}, want: delivery.Run{State: delivery.Running}},
		"if it must run nowhere":   {strays: map[string]string{"a": "ResourceBinding z"}, want: delivery.Run{State: delivery.NotRunning, Message: "ResourceBinding z brings it to cluster a, too: delete ResourceBinding z", Remains: true}},
		"to none":                  {to: []string{"b"}, want: delivery.Run{State: delivery.Running}},
		"to the first one by name": {to: []string{"b"}, strays: map[string]string{"d": "ResourceBinding y", "c": "ResourceBinding z"}, want: delivery.Run{State: delivery.NotRunning, Message: "ResourceBinding z brings it to cluster c, too: delete ResourceBinding z", Remains: true}},
	} {
		t.Run(what, func(t *testing.T) {
			spec := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
			before, err := c.system.HandOver(moved, to("b"), spec, nil, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			live := before.Objects[0].Object
			observed := c.report(live, []string{"b"}, "b")
			if tc.to == nil {
				observed = &delivery.Observation{}
			}
			observed.Strays = tc.strays
			got, err := c.system.HandOver(moved, to(tc.to...), spec, live, observed, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Run); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEarlierCopies has an object come back to a cluster from which the system could not remove it, so that its earlier copy is healthy
// there until the system deletes it. The other cluster is kept until then.
func TestEarlierCopies(t *testing.T) {
	for name, c := range carriers() {
		before, err := c.system.HandOver(moved, to("a"), c.spec, nil, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		live := before.Objects[0].Object
		both, err := c.system.HandOver(moved, to("b"), c.spec, live, c.report(live, []string{"a"}, "a"), noon)
		if err != nil {
			t.Fatal(err)
		}
		live = both.Objects[0].Object
		for _, tc := range []struct {
			ending, kept []string
			message      string
		}{
			{[]string{"b"}, []string{"a"}, "it still runs in cluster a; cluster b: " + c.system.Title + " still has to remove an earlier copy of the object"},
			{nil, nil, "it still runs in cluster a"},
		} {
			observed := c.report(live, []string{"a", "b"}, "a", "b")
			observed.Present, observed.Ending = []string{"a", "b"}, tc.ending
			got, err := c.system.HandOver(moved, to("b"), c.spec, live, observed, noon)
			if err != nil {
				t.Fatal(err)
			}
			if tc.ending == nil {
				// The delivered object changes, so the report is one of an earlier one.
				tc.message = got.Run.Message
			}
			if diff := cmp.Diff([]any{tc.kept, tc.message}, []any{got.Kept, got.Run.Message}); diff != "" || got.Run.State != delivery.NotRunning {
				t.Errorf("%s, ending in %v: %s (-want +got):\n%s", name, tc.ending, got.Run.State, diff)
			}
		}
	}
}

// TestPresentInOthers has KubeFleet have an object in clusters of which it reports nothing any more, as it does while the agent of a
// cluster is down, and checks that it is asked to remove the object without waiting for other clusters.
func TestPresentInOthers(t *testing.T) {
	c := carriers()["kubeFleet"]
	for what, tc := range map[string]struct {
		to      []string
		spec    *placementv1.Delivery
		live    []string
		running []string
		present []string
		want    delivery.Run
		release bool
	}{
		"in its clusters alone":   {to: []string{"b"}, live: []string{"b"}, running: []string{"b"}, present: []string{"b"}, want: delivery.Run{State: delivery.Running}},
		"nowhere":                 {to: []string{"b"}, live: []string{"b"}, running: []string{"b"}, want: delivery.Run{State: delivery.Running}},
		"in another":              {to: []string{"b"}, live: []string{"b"}, running: []string{"b"}, present: []string{"a", "b"}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a", Remains: true}, release: true},
		"in another alone":        {to: []string{"b"}, live: []string{"b"}, present: []string{"a"}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a; cluster b: condition Available is False: 0 of 1 pods", Remains: true}, release: true},
		"without a decided one":   {to: nil, present: []string{"a"}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a", Remains: true}},
		"before it is placed":     {to: []string{"b"}, present: []string{"a"}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a; KubeFleet has not reported anything about the object", Remains: true, Absent: true}, release: true},
		"in one that is kept":     {to: []string{"b"}, spec: c.spec, live: []string{"a"}, running: []string{"a"}, present: []string{"a"}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a; cluster b: KubeFleet has not brought it there", Absent: true}},
		"in one that is given up": {to: []string{"b"}, spec: c.spec, live: []string{"a", "b"}, running: []string{"a", "b"}, present: []string{"a", "b"}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster a", Remains: true}, release: true},
	} {
		t.Run(what, func(t *testing.T) {
			if tc.spec == nil {
				tc.spec = &placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}
			}
			observed := &delivery.Observation{}
			var live *unstructured.Unstructured
			if tc.live != nil {
				before, err := c.system.HandOver(moved, to(tc.live...), tc.spec, nil, nil, noon)
				if err != nil {
					t.Fatal(err)
				}
				live = before.Objects[0].Object
				observed = c.report(live, tc.live, tc.running...)
			}
			observed.Present = tc.present
			got, err := c.system.HandOver(moved, to(tc.to...), tc.spec, live, observed, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Run); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
			for _, o := range got.Objects {
				maximum, found, _ := unstructured.NestedInt64(o.Object.Object, "spec", "strategy", "rollingUpdate", "maxUnavailable")
				if found != tc.release || found && maximum <= 200 {
					t.Errorf("maxUnavailable: %d, %t", maximum, found)
				}
			}
		})
	}
}

// TestOutdated checks that an object does not run while KubeFleet has not noticed the last change of the object. It leaves a cluster all
// the same.
func TestOutdated(t *testing.T) {
	c := carriers()["kubeFleet"]
	const outdated = "KubeFleet has not noticed the last change of the object"
	for what, tc := range map[string]struct {
		to, live, running []string
		want              string
	}{
		"it runs":               {to: []string{"a", "b"}, live: []string{"a", "b"}, running: []string{"a", "b"}, want: outdated},
		"it does not run":       {to: []string{"a", "b"}, live: []string{"a", "b"}, running: []string{"a"}, want: "cluster b: condition Available is False: 0 of 1 pods"},
		"it leaves a cluster":   {to: []string{"b"}, live: []string{"a", "b"}, running: []string{"a", "b"}, want: "it still runs in cluster a"},
		"it has to run nowhere": {live: []string{"a"}, running: []string{"a"}, want: "it still runs in cluster a"},
	} {
		t.Run(what, func(t *testing.T) {
			before, err := c.system.HandOver(moved, to(tc.live...), c.spec, nil, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			live := before.Objects[0].Object
			observed := c.report(live, tc.live, tc.running...)
			observed.Present, observed.Outdated = tc.live, true
			got, err := c.system.HandOver(moved, to(tc.to...), c.spec, live, observed, noon)
			if err != nil {
				t.Fatal(err)
			}
			message, _, _ := strings.Cut(got.Run.Message, "; ")
			if got.Run.State != delivery.NotRunning || message != tc.want {
				t.Errorf("%s: %q", got.Run.State, got.Run.Message)
			}
			if len(got.Kept) > 0 {
				t.Errorf("keeps %v", got.Kept)
			}
		})
	}
}

// TestUnjoined checks that clusters which have not joined are left out, and reported.
func TestUnjoined(t *testing.T) {
	c := carriers()["kubeFleet"]
	without := &placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}
	for what, tc := range map[string]struct {
		to, unjoined, present []string
		named                 []string
		note                  string
		run                   delivery.Run
	}{
		"all have joined":         {to: []string{"a", "b"}, present: []string{"a", "b"}, named: []string{"a", "b"}, run: delivery.Run{State: delivery.Running}},
		"one has not":             {to: []string{"a", "b"}, unjoined: []string{"b"}, present: []string{"a"}, named: []string{"a"}, note: "cluster b: it has not joined KubeFleet", run: delivery.Run{State: delivery.NotRunning, Message: "cluster b: it has not joined KubeFleet"}},
		"two have not":            {to: []string{"a", "b", "c"}, unjoined: []string{"b", "c"}, present: []string{"a"}, named: []string{"a"}, note: "clusters b, c: they have not joined KubeFleet", run: delivery.Run{State: delivery.NotRunning, Message: "cluster b: it has not joined KubeFleet"}},
		"the object is there":     {to: []string{"a", "b"}, unjoined: []string{"b"}, present: []string{"a", "b"}, named: []string{"a", "b"}, run: delivery.Run{State: delivery.Running}},
		"none has joined":         {to: []string{"a", "b"}, unjoined: []string{"a", "b"}, present: []string{}, named: []string{"a", "b"}, run: delivery.Run{State: delivery.Running}},
		"in one that is not left": {to: []string{"a", "b"}, unjoined: []string{"b"}, present: []string{"a", "c"}, named: []string{"a"}, note: "cluster b: it has not joined KubeFleet", run: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster c", Remains: true}},
	} {
		t.Run(what, func(t *testing.T) {
			before, err := c.system.HandOver(moved, to(tc.named...), without, nil, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			live := before.Objects[0].Object
			observed := c.report(live, tc.named, tc.named...)
			observed.Present = tc.present
			got, err := c.system.HandOver(moved, delivery.Decision{Clusters: tc.to, Unjoined: tc.unjoined}, without, live, observed, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tc.named, tc.note, tc.run}, []any{c.named(got.Objects[0].Object), got.Objects[0].Note, got.Run}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestContained checks which clusters an object keeps for what it contains.
func TestContained(t *testing.T) {
	namespace := delivery.Key{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: "shop"}
	definition := delivery.Key{GroupKind: schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, Name: "wells.example.com"}
	web, other := delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "shop", Name: "web"}, delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "bank", Name: "shop"}
	wide := delivery.Key{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Well"}, Name: "shop"}
	deployments, wells := schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Group: "example.com", Resource: "wells"}
	for what, tc := range map[string]struct {
		container, contained delivery.Key
		resource             schema.GroupResource
		want                 bool
	}{
		"in the namespace":        {namespace, web, deployments, true},
		"in another namespace":    {namespace, other, deployments, false},
		"without a namespace":     {namespace, wide, wells, false},
		"of the definition":       {definition, wide, wells, true},
		"of another definition":   {definition, web, deployments, false},
		"in what is no container": {web, web, deployments, false},
	} {
		if got := delivery.Contains(tc.container, tc.contained, tc.resource); got != tc.want {
			t.Errorf("%s: %t", what, got)
		}
	}
	for name, c := range carriers() {
		live, err := c.system.HandOver(moved, to("a", "b"), c.spec, nil, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		kept := func(contained []string, clusters ...string) delivery.Handover {
			t.Helper()
			got, err := c.system.HandOver(moved, delivery.Decision{Clusters: clusters, Contained: contained}, &placementv1.Delivery{Karmada: c.spec.Karmada, KubeFleet: c.spec.KubeFleet}, live.Objects[0].Object, nil, noon)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		got := kept([]string{"a", "c"}, "b")
		if diff := cmp.Diff([]any{[]string{"a"}, []string{"a", "b"}, []string{"b"}}, []any{got.Kept, c.named(got.Objects[0].Object), c.named(got.Alone[0].Object)}); diff != "" {
			t.Errorf("%s: what it contains is in a (-want +got):\n%s", name, diff)
		}
		got = kept([]string{"b", "c"}, "b")
		if diff := cmp.Diff([]any{[]string(nil), []string{"b"}}, []any{got.Kept, c.named(got.Objects[0].Object)}); diff != "" {
			t.Errorf("%s: what it contains has left a (-want +got):\n%s", name, diff)
		}
		got = kept([]string{"a"})
		if diff := cmp.Diff([]any{[]string{"a"}, []string{"a"}}, []any{got.Kept, c.named(got.Objects[0].Object)}); diff != "" {
			t.Errorf("%s: without a decided cluster (-want +got):\n%s", name, diff)
		}
	}
}

// TestCarriedBy reads Works as KubeFleet 0.3.1 (pkg/controllers/workgenerator/controller.go) and Karmada 1.18.2
// (pkg/controllers/binding/common.go, and pkg/util/names/names.go) write them, and checks that the placed object is found by what they
// name.
func TestCarriedBy(t *testing.T) {
	fleet, karmada := carriers()["kubeFleet"].system, carriers()["karmada"].system
	ofBinding := func(namespace, name string) map[string]string {
		return map[string]string{"resourcebinding.karmada.io/namespace": namespace, "resourcebinding.karmada.io/name": name}
	}
	role := delivery.Object{GroupVersionKind: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, Name: "system:View"}
	for what, tc := range map[string]struct {
		system    delivery.System
		namespace string
		metadata  map[string]string
		placed    delivery.Object
		cluster   string
		ok        bool
	}{
		"of a ResourcePlacement":           {fleet, "fleet-member-eu-1", map[string]string{"kubernetes-fleet.io/parent-CRP": delivery.NameOf(moved), "kubernetes-fleet.io/parent-placement-namespace": "shop"}, moved, "eu-1", true},
		"of a ClusterResourcePlacement":    {fleet, "fleet-member-eu-1", map[string]string{"kubernetes-fleet.io/parent-CRP": delivery.NameOf(role)}, role, "eu-1", true},
		"of no placement":                  {fleet, "fleet-member-eu-1", nil, delivery.Object{}, "", false},
		"of a placement, elsewhere":        {fleet, "shop", map[string]string{"kubernetes-fleet.io/parent-CRP": "web-1"}, delivery.Object{}, "", false},
		"of a ResourceBinding":             {karmada, "karmada-es-eu-1", ofBinding("shop", "web-deployment"), moved, "eu-1", true},
		"of a ClusterResourceBinding":      {karmada, "karmada-es-eu-1", map[string]string{"clusterresourcebinding.karmada.io/name": "system.view-clusterrole"}, role, "eu-1", true},
		"of no binding, such as Karmada's": {karmada, "karmada-es-eu-1", nil, delivery.Object{}, "", false},
		"of a binding, elsewhere":          {karmada, "shop", ofBinding("shop", "web-deployment"), delivery.Object{}, "", false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetNamespace(tc.namespace)
		o.SetLabels(tc.metadata)
		o.SetAnnotations(tc.metadata)
		got, ok := tc.system.CarriedBy(o)
		if ok != tc.ok || ok && (got.Namespace != tc.placed.Namespace || got.Name != tc.system.CarriedAs(tc.placed) || got.Cluster != tc.cluster) {
			t.Errorf("%s: %+v, %t", what, got, ok)
		}
	}
}

// TestManifestWorks checks what Berth reads of ManifestWorks: whether a ManifestWorkReplicaSet made them, for which Placement, and what the
// workload lacks to run.
func TestManifestWorks(t *testing.T) {
	conditions := func(generation int64, applied, available string) map[string]any {
		condition := func(kind, status string) any {
			return map[string]any{"type": kind, "status": status, "observedGeneration": generation, "reason": "Specs", "message": "because"}
		}
		return map[string]any{"conditions": []any{condition("Applied", applied), condition("Available", available)}}
	}
	reported := func(values map[string]any) map[string]any {
		out := conditions(2, "True", "True")
		var list []any
		for name, value := range values {
			list = append(list, map[string]any{"name": name, "fieldValue": map[string]any{"type": "Integer", "integer": value}})
		}
		out["resourceStatus"] = map[string]any{"manifests": []any{map[string]any{}, map[string]any{"statusFeedback": map[string]any{"values": list}}}}
		return out
	}
	labels := map[string]string{"work.open-cluster-management.io/manifestworkreplicaset": "shop.web.v1", "work.open-cluster-management.io/placementname": "web-1"}
	for what, tc := range map[string]struct {
		labels  map[string]string
		status  map[string]any
		deleted bool
		missing string
		absent  bool
		ok      bool
	}{
		"applied and available":                {labels: labels, status: conditions(2, "True", "True"), ok: true},
		"not reported yet":                     {labels: labels, missing: "Open Cluster Management has not reported the condition Applied yet", absent: true, ok: true},
		"of an earlier version":                {labels: labels, status: conditions(1, "True", "True"), missing: "Open Cluster Management has not reported the condition Applied yet", ok: true},
		"refused by the cluster":               {labels: labels, status: conditions(2, "False", "True"), missing: "condition Applied is False: because", absent: true, ok: true},
		"not available":                        {labels: labels, status: conditions(2, "True", "False"), missing: "condition Available is False: because", ok: true},
		"with all replicas":                    {labels: labels, status: reported(map[string]any{"Replicas": int64(2), "ReadyReplicas": int64(2)}), ok: true},
		"with one of two replicas":             {labels: labels, status: reported(map[string]any{"Replicas": int64(2), "ReadyReplicas": int64(1)}), missing: "1 of 2 replicas are ready", ok: true},
		"with no replica, which is left out":   {labels: labels, status: reported(map[string]any{"Replicas": int64(2)}), missing: "0 of 2 replicas are ready", ok: true},
		"scaled to zero":                       {labels: labels, status: reported(nil), ok: true},
		"with a status of another form":        {labels: labels, status: map[string]any{"conditions": "none"}, missing: "Open Cluster Management has not reported the condition Applied yet", absent: true, ok: true},
		"being removed":                        {labels: labels, status: conditions(2, "True", "True"), deleted: true, missing: "Open Cluster Management is removing it", ok: true},
		"of a user":                            {status: conditions(2, "True", "True")},
		"of a ManifestWorkReplicaSet, alone":   {labels: map[string]string{"work.open-cluster-management.io/manifestworkreplicaset": "shop.web"}, status: conditions(2, "True", "True")},
		"of a Placement without a namespace":   {labels: map[string]string{"work.open-cluster-management.io/placementname": "web-1"}, status: conditions(2, "True", "True")},
		"of a consumer whose name is no label": {labels: map[string]string{"work.open-cluster-management.io/manifestworkreplicaset": "shop", "work.open-cluster-management.io/placementname": "web-1"}, status: conditions(2, "True", "True")},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if tc.status != nil {
			o.Object["status"] = tc.status
		}
		o.SetNamespace("eu-1")
		o.SetGeneration(2)
		o.SetLabels(tc.labels)
		if tc.deleted {
			o.SetDeletionTimestamp(&metav1.Time{Time: noon})
		}
		s, _ := system(t, "openClusterManagement")
		got, ok := s.CarriedBy(o)
		if ok != tc.ok {
			t.Errorf("%s: %+v, %t", what, got, ok)
		}
		if want := (delivery.Carried{Namespace: "shop", Name: "web-1", Cluster: "eu-1", Missing: tc.missing, Absent: tc.absent, Ending: tc.deleted}); ok && got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
}

// TestRunsAsCarried checks what is reported of an object that a ManifestWorkReplicaSet carries to clusters.
func TestRunsAsCarried(t *testing.T) {
	s, spec := system(t, "openClusterManagement")
	const unready = "0 of 2 replicas are ready"
	for what, tc := range map[string]struct {
		to   []string
		in   map[string]string
		want delivery.Run
	}{
		"without a consumer":                       {to: []string{"a"}},
		"in its clusters":                          {to: []string{"a", "b"}, in: map[string]string{"a": "", "b": ""}, want: delivery.Run{State: delivery.Running}},
		"not in one of them":                       {to: []string{"a", "b"}, in: map[string]string{"a": ""}, want: delivery.Run{State: delivery.NotRunning, Message: "cluster b: Open Cluster Management has not brought it there", Absent: true}},
		"not ready in one of them":                 {to: []string{"a", "b"}, in: map[string]string{"a": "", "b": unready}, want: delivery.Run{State: delivery.NotRunning, Message: "cluster b: " + unready}},
		"in another one":                           {to: []string{"a"}, in: map[string]string{"a": "", "b": unready}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster b", Remains: true}},
		"in another one alone":                     {to: []string{"a"}, in: map[string]string{"b": ""}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster b; cluster a: Open Cluster Management has not brought it there", Remains: true, Absent: true}},
		"in a cluster although none is decided":    {in: map[string]string{"b": ""}, want: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster b", Remains: true}},
		"in no cluster, of which none is decided":  {},
		"in no cluster, and not in a decided one ": {to: []string{"a"}, in: map[string]string{}},
	} {
		observed := &delivery.Observation{Clusters: tc.in, Present: slices.Sorted(maps.Keys(tc.in))}
		got, err := s.HandOver(moved, delivery.Decision{Clusters: tc.to}, spec, nil, observed, noon)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got.Run); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

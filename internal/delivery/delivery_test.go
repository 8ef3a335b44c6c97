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
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
)

var update = flag.Bool("update", false, "write the golden files")

// systems are the systems of spec.delivery, by name.
var systems = map[string]func(*placementv1.Delivery){
	"karmada":               func(d *placementv1.Delivery) { d.Karmada = &placementv1.KarmadaDelivery{} },
	"kubeFleet":             func(d *placementv1.Delivery) { d.KubeFleet = &placementv1.KubeFleetDelivery{} },
	"placementDecision":     func(d *placementv1.Delivery) { d.PlacementDecision = &placementv1.PlacementDecisionDelivery{} },
	"openClusterManagement": func(d *placementv1.Delivery) { d.OpenClusterManagement = &placementv1.OpenClusterManagementDelivery{} },
}

// system returns a system of spec.delivery, and a spec with this system alone.
func system(t *testing.T, name string) (delivery.System, *placementv1.Delivery) {
	t.Helper()
	spec := &placementv1.Delivery{}
	systems[name](spec)
	found := delivery.Systems(spec)
	if len(found) != 1 || found[0].Name != name {
		t.Fatalf("Systems returns %+v, want %s", found, name)
	}
	return found[0], spec
}

func nativeSystem(t *testing.T, kind schema.GroupKind) delivery.System {
	t.Helper()
	system, ok := delivery.NativeSystem(kind)
	if !ok {
		t.Fatalf("NativeSystem does not know %s", kind)
	}
	return system
}

const uid = "8c6c4a4e-7a0d-4b0e-9a55-6b5c0f0c9d11"

func deployment(name string, replicas int64) delivery.Object {
	return delivery.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Namespace:        "shop",
		Name:             name,
		UID:              uid,
		Replicas:         &replicas,
	}
}

func configMap(name string) delivery.Object {
	return delivery.Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "shop", Name: name, UID: uid}
}

func clusterRole(name string) delivery.Object {
	return delivery.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		Name:             name,
		UID:              uid,
	}
}

func namespace() delivery.Object {
	return delivery.Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: "shop", UID: uid}
}

func ocmPlacement(name, schedulingDisabled string) delivery.Object {
	object := delivery.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Kind: "Placement"},
		Namespace:        "shop",
		Name:             name,
		UID:              uid,
	}
	if schedulingDisabled != "" {
		object.Annotations = map[string]string{delivery.SchedulingDisabledAnnotation: schedulingDisabled}
	}
	return object
}

func workload() delivery.Object {
	return delivery.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"},
		Namespace:        "shop",
		Name:             "job-train",
		UID:              uid,
	}
}

func clusters(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("cluster-%03d", i))
	}
	return names
}

// decided returns the decision for clusters that ClusterProfiles in the namespace fleet represent.
func decided(clusters ...string) delivery.Decision {
	out := delivery.Decision{Clusters: clusters, Objects: replication.Claims{}}
	for _, name := range clusters {
		out.Objects[name] = []replication.Claim{{Resource: profiles, Namespace: "fleet", Name: name}}
	}
	return out
}

var profiles = schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}

// TestReferences checks that PlacementDecisions refer to the objects that were decided, and say which clusters have none.
func TestReferences(t *testing.T) {
	s, spec := system(t, "placementDecision")
	managed := schema.GroupResource{Group: "cluster.open-cluster-management.io", Resource: "managedclusters"}
	decision := decided("ap")
	decision.Clusters = []string{"ap", "eu", "prod"}
	decision.Objects["eu"] = []replication.Claim{{Resource: profiles, Namespace: "other", Name: "eu"}}
	// Of what Open Cluster Management derives from one ManagedCluster, the one in the object's namespace counts.
	derived := func(namespace string) replication.Claim {
		return replication.Claim{Resource: profiles, Namespace: namespace, Name: "eu", Manager: "open-cluster-management"}
	}
	for _, tc := range []struct {
		in   []string
		want string
	}{{[]string{"z", "shop", "a"}, "shop"}, {[]string{"z", "fleet"}, "fleet"}} {
		several := decided("eu")
		several.Objects["eu"] = []replication.Claim{{Resource: managed, Name: "eu"}}
		for _, namespace := range tc.in {
			several.Objects["eu"] = append(several.Objects["eu"], derived(namespace))
		}
		delivered, err := s.Render(deployment("web", 3), several, spec)
		want := []any{map[string]any{"clusterProfileRef": map[string]any{"name": "eu", "namespace": tc.want}}}
		if diff := cmp.Diff(want, delivered[0].Object.Object["decisions"]); err != nil || diff != "" {
			t.Errorf("derived in %v: error %v (-want +got):\n%s", tc.in, err, diff)
		}
	}
	for name, tc := range map[string]struct {
		cluster string
		objects []replication.Claim
		want    string
	}{
		"unknown":           {"prod", nil, "no inventory has a cluster prod"},
		"another inventory": {"prod", []replication.Claim{{Resource: managed, Name: "prod"}}, "cluster prod is managedclusters.cluster.open-cluster-management.io prod, which is no ClusterProfile"},
		"ambiguous": {
			"prod", []replication.Claim{{Resource: profiles, Namespace: "us", Name: "prod"}, {Resource: profiles, Namespace: "eu", Name: "prod"}},
			"cluster prod is ambiguous: clusterprofiles.multicluster.x-k8s.io eu/prod and clusterprofiles.multicluster.x-k8s.io us/prod have this name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			decision.Objects[tc.cluster] = tc.objects
			delivered, err := s.Render(deployment("web", 3), decision, spec)
			if err != nil || len(delivered) != 1 {
				t.Fatalf("%d objects, error %v", len(delivered), err)
			}
			want := []any{
				map[string]any{"clusterProfileRef": map[string]any{"name": "ap", "namespace": "fleet"}},
				map[string]any{"clusterProfileRef": map[string]any{"name": "eu", "namespace": "other"}},
			}
			if diff := cmp.Diff(want, delivered[0].Object.Object["decisions"]); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			if delivered[0].Dangling != tc.want {
				t.Errorf("dangling: %q, want %q", delivered[0].Dangling, tc.want)
			}
		})
	}
}

func weight(n int64) delivery.Share   { return delivery.Share{Weight: &n} }
func replicas(n int64) delivery.Share { return delivery.Share{Replicas: &n} }

func by(basis placementv1.DivisionBasis) *placementv1.ReplicaDivision {
	return &placementv1.ReplicaDivision{DivideBy: basis}
}

var longName = strings.Repeat("long-name.", 24) + "end"

// goldenCase is a case of which the golden files have the objects of each system that has any.
type goldenCase struct {
	object   delivery.Object
	decision delivery.Decision
	replicas *placementv1.ReplicaDivision
	edit     func(*placementv1.Delivery)
	// only lists the systems of the case. If it is empty, these are all systems.
	only []string
}

func goldenCases() map[string]goldenCase {
	divided := decided("ap", "eu-1", "eu-2", "us")
	divided.Shares = map[string]delivery.Share{"ap": weight(0), "eu-1": weight(2), "eu-2": replicas(3), "elsewhere": weight(9)}
	all := []string{"karmada", "placementDecision", "openClusterManagement"}
	return map[string]goldenCase{
		"two":            {object: deployment("web", 3), decision: decided("eu-2", "eu-1", "eu-2")},
		"one":            {object: deployment("web", 3), decision: decided("eu-1")},
		"none":           {object: deployment("web", 3), decision: decided(), only: all},
		"divided":        {object: deployment("web", 10), decision: divided, replicas: by(placementv1.DivideByWeight), only: all},
		"even":           {object: deployment("web", 10), decision: divided, replicas: by(placementv1.DivideEvenly), only: all},
		"no-replicas":    {object: deployment("web", 0), decision: decided("eu-1", "eu-2"), replicas: by(placementv1.DivideEvenly), only: all},
		"none-divided":   {object: deployment("web", 3), decision: decided(), replicas: by(placementv1.DivideEvenly), only: []string{"karmada"}},
		"free-capacity":  {object: deployment("web", 10), decision: decided("eu-1", "eu-2"), replicas: by(placementv1.DivideByFreeCapacity), only: []string{"karmada"}},
		"cluster-scoped": {object: clusterRole("system:viewer"), decision: decided("eu-1"), replicas: by(placementv1.DivideByFreeCapacity), only: []string{"karmada", "kubeFleet"}},
		"namespace":      {object: namespace(), decision: decided("eu-1"), only: []string{"karmada", "kubeFleet"}},
		"many":           {object: deployment("web", 3), decision: decided(clusters(101)...), only: all},
		"long-name":      {object: deployment(longName, 3), decision: decided("eu-1")},
		"bounds": {
			object: deployment("web", 10), decision: divided, only: all,
			replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideByWeight, MinPerCluster: new(int32(1)), MaxPerCluster: new(int32(3))},
		},
		"not-divisible": {object: configMap("settings"), decision: divided, replicas: by(placementv1.DivideByFreeCapacity), only: all},
		"options": {
			object: deployment("web", 3), decision: decided("eu-1"), only: []string{"karmada"},
			edit: func(d *placementv1.Delivery) {
				d.Karmada.PropagateDependencies = true
			},
		},
	}
}

func TestGolden(t *testing.T) {
	written := map[string]bool{}
	for name, tc := range goldenCases() {
		for systemName := range systems {
			if len(tc.only) > 0 && !slices.Contains(tc.only, systemName) {
				continue
			}
			t.Run(systemName+"/"+name, func(t *testing.T) {
				s, spec := system(t, systemName)
				spec.Replicas = tc.replicas
				if tc.edit != nil {
					tc.edit(spec)
				}
				written[checkGolden(t, systemName+"-"+name, s, tc.object, tc.decision, spec)] = true
			})
		}
	}
	placementKind := schema.GroupKind{Group: "cluster.open-cluster-management.io", Kind: "Placement"}
	workloadKind := schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"}
	for name, decision := range map[string]delivery.Decision{"two": decided("eu-2", "eu-1"), "none": decided(), "many": decided(clusters(101)...)} {
		t.Run("native/"+name, func(t *testing.T) {
			written[checkGolden(t, "native-placement-"+name, nativeSystem(t, placementKind), ocmPlacement("batch", "true"), decision, nil)] = true
			written[checkGolden(t, "native-workload-"+name, nativeSystem(t, workloadKind), workload(), decision, nil)] = true
		})
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !written[file] {
			t.Errorf("no case has the golden file %s", file)
		}
	}
}

// checkGolden compares what Render returns with a golden file, and returns the file's path.
func checkGolden(t *testing.T, name string, s delivery.System, object delivery.Object, decision delivery.Decision, spec *placementv1.Delivery) string {
	t.Helper()
	delivered, err := s.Render(object, decision, spec)
	if err != nil {
		t.Fatal(err)
	}
	checkDelivered(t, s, object, delivered)
	var text bytes.Buffer
	for i, d := range delivered {
		if i > 0 {
			text.WriteString("---\n")
		}
		if d.Note != "" {
			fmt.Fprintf(&text, "# %s\n", d.Note)
		}
		document, err := yaml.Marshal(d.Object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(document)
	}
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("delivered objects differ from %s; run the test with -update if that is meant (-want +got):\n%s", path, diff)
	}
	return path
}

// checkDelivered checks what holds for all delivered objects.
func checkDelivered(t *testing.T, s delivery.System, object delivery.Object, delivered []delivery.Delivered) {
	t.Helper()
	seen := map[string]bool{}
	for _, d := range delivered {
		name := d.Object.GetKind() + "/" + d.Object.GetName()
		if seen[name] {
			t.Errorf("there are two objects %s", name)
		}
		seen[name] = true
		if !slices.Contains(s.Kinds, d.Kind) {
			t.Errorf("%s has a kind that System.Kinds does not have", name)
		}
		if got := d.Object.GroupVersionKind(); got != d.GroupVersion().WithKind(d.Kind.Kind) {
			t.Errorf("%s has the kind %s", name, got)
		}
		if _, ok := d.Object.Object["status"]; ok != d.Status {
			t.Errorf("%s has a status: %t, want %t", name, ok, d.Status)
		}
		if d.Namespaced && d.Object.GetNamespace() != object.Namespace || !d.Namespaced && d.Object.GetNamespace() != "" {
			t.Errorf("%s has the namespace %q", name, d.Object.GetNamespace())
		}
		for key, value := range d.Object.GetLabels() {
			if problems := validation.IsValidLabelValue(value); problems != nil {
				t.Errorf("%s has an invalid label %s: %s", name, key, problems)
			}
		}
		if d.Existing {
			continue
		}
		if problems := validation.IsDNS1123Subdomain(d.Object.GetName()); problems != nil {
			t.Errorf("%s has an invalid name: %s", name, problems)
		}
		owners := d.Object.GetOwnerReferences()
		if d.Object.GetLabels()[placementv1.DeliveredLabel] != "true" || len(owners) != 1 || owners[0].UID != object.UID || owners[0].Controller != nil {
			t.Errorf("%s has the labels %v and the owners %v", name, d.Object.GetLabels(), owners)
		}
	}
}

func TestEmptyDecisionInKubeFleet(t *testing.T) {
	s, spec := system(t, "kubeFleet")
	if delivered, err := s.Render(deployment("web", 3), decided(), spec); len(delivered) > 0 || err != nil {
		t.Errorf("Render returns %v, %v, want no objects", delivered, err)
	}
}

func TestRenderErrors(t *testing.T) {
	fixed := decided("ap", "eu")
	fixed.Shares = map[string]delivery.Share{"ap": replicas(2)}
	tooFew := decided("ap", "eu")
	tooFew.Shares = map[string]delivery.Share{"ap": replicas(2), "eu": weight(0)}
	for name, tc := range map[string]struct {
		system   string
		object   delivery.Object
		decision delivery.Decision
		replicas *placementv1.ReplicaDivision
		want     string
	}{
		"fixed numbers and free capacity": {
			system: "karmada", object: deployment("web", 5), decision: fixed, replicas: by(placementv1.DivideByFreeCapacity),
			want: "the policy gives cluster ap 2 replicas, but Karmada divides them by free capacity alone; " +
				"set spec.delivery.replicas.divideBy to Weight or Even, or let the policy give the cluster no number of replicas",
		},
		"replicas that run nowhere": {
			system: "karmada", object: deployment("web", 5), decision: tooFew, replicas: by(placementv1.DivideByWeight),
			want: "the clusters may get only 2 of the 5 replicas together, but Karmada can only deliver all of them; " +
				"raise spec.delivery.replicas.maxPerCluster, or let the policy give clusters a weight instead of a number of replicas",
		},
		"more clusters than KubeFleet selects": {
			system: "kubeFleet", object: deployment("web", 5), decision: decided(clusters(101)...),
			want: "the policy decides 101 clusters, but KubeFleet places an object in at most 100 by name; " +
				"let the policy decide fewer, or remove spec.delivery.kubeFleet",
		},
		"cluster-scoped object with PlacementDecisions": {
			system: "placementDecision", object: clusterRole("viewer"), decision: decided("eu"),
			want: "ClusterRole viewer is cluster-scoped, and the objects of SIG Multicluster are namespaced; " +
				"match only namespaced types, or remove spec.delivery.placementDecision",
		},
		"cluster-scoped object with Open Cluster Management": {
			system: "openClusterManagement", object: clusterRole("viewer"), decision: decided("eu"),
			want: "ClusterRole viewer is cluster-scoped, and the objects of Open Cluster Management are namespaced; " +
				"match only namespaced types, or remove spec.delivery.openClusterManagement",
		},
		"free capacity with PlacementDecisions": {
			system: "placementDecision", object: deployment("web", 5), decision: decided("eu"), replicas: by(placementv1.DivideByFreeCapacity),
			want: "SIG Multicluster does not know the free capacity of clusters, Karmada alone does; " +
				"set spec.delivery.replicas.divideBy to Weight or Even",
		},
		"free capacity with Open Cluster Management": {
			system: "openClusterManagement", object: deployment("web", 5), decision: decided("eu"), replicas: by(placementv1.DivideByFreeCapacity),
			want: "Open Cluster Management does not know the free capacity of clusters, Karmada alone does; " +
				"set spec.delivery.replicas.divideBy to Weight or Even",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, spec := system(t, tc.system)
			spec.Replicas = tc.replicas
			delivered, err := s.Render(tc.object, tc.decision, spec)
			if err == nil || delivered != nil {
				t.Fatalf("Render returns %v, %v, want an error", delivered, err)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderNativePlacementErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		object delivery.Object
		want   string
	}{
		"scheduled by Open Cluster Management": {ocmPlacement("batch", ""), `the scheduler of Open Cluster Management decides Placement shop/batch`},
		"annotation with another value":        {ocmPlacement("batch", "false"), `the scheduler of Open Cluster Management decides Placement shop/batch`},
		"long name":                            {ocmPlacement(strings.Repeat("a", 64), "true"), "is longer than 63 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := nativeSystem(t, tc.object.GroupKind()).Render(tc.object, decided("eu"), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Render returns the error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestNativeSystemOfOtherKinds(t *testing.T) {
	for _, kind := range []schema.GroupKind{{Group: "apps", Kind: "Deployment"}, {Group: "placement.berth.dev", Kind: "Placement"}} {
		if s, ok := delivery.NativeSystem(kind); ok {
			t.Errorf("NativeSystem returns %s for %s", s.Name, kind)
		}
	}
}

func TestSystemsAreInTheOrderOfFields(t *testing.T) {
	spec := &placementv1.Delivery{}
	for _, add := range systems {
		add(spec)
	}
	var got []string
	for _, s := range delivery.Systems(spec) {
		got = append(got, s.Name)
	}
	if diff := cmp.Diff([]string{"karmada", "kubeFleet", "placementDecision", "openClusterManagement"}, got); diff != "" {
		t.Errorf("Systems (-want +got):\n%s", diff)
	}
	if got := delivery.Systems(nil); got != nil {
		t.Errorf("Systems without spec.delivery returns %v", got)
	}
}

// TestEmptyDecisionInKarmada: an empty list of clusters would mean all clusters.
func TestEmptyDecisionInKarmada(t *testing.T) {
	if len(validation.IsDNS1123Label(clusterlist.NoCluster)) == 0 {
		t.Errorf("a cluster of Karmada can have the name %s", clusterlist.NoCluster)
	}
}

// TestNames has objects whose names could lead to the same name.
func TestNames(t *testing.T) {
	s, spec := system(t, "karmada")
	seen := map[string]delivery.Object{}
	add := func(object delivery.Object) {
		delivered, err := s.Render(object, decided("eu"), spec)
		if err != nil {
			t.Fatal(err)
		}
		name := delivered[0].Object.GetName()
		if other, ok := seen[name]; ok {
			t.Errorf("%s %q and %s %q have the name %s", other.GroupKind(), other.Name, object.GroupKind(), object.Name, name)
		}
		seen[name] = object
		if problems := validation.IsDNS1123Label(name); problems != nil {
			t.Errorf("%s %q has the invalid name %s: %s", object.GroupKind(), object.Name, name, problems)
		}
	}
	for _, name := range []string{"a", "a-b", "a.b", "A.b", "a:b", "-", "...", "system:", "a-deployment", strings.Repeat("x", 253), strings.Repeat("x", 252)} {
		for _, kind := range []string{"Deployment", "deployment", "B", "BDeployment", strings.Repeat("K", 63)} {
			for _, group := range []string{"", "apps", "example.com"} {
				object := deployment(name, 1)
				object.Group, object.Kind = group, kind
				add(object)
			}
		}
	}
	for i := range 20_000 {
		add(deployment(strings.Repeat("long-", 20)+fmt.Sprint(i), 1))
	}
}

// TestClustersKeepTheirList lets random clusters join and leave, one after the other, and many at a time.
func TestClustersKeepTheirList(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	systemOf := func(object delivery.Object, name string) (delivery.System, *placementv1.Delivery) {
		if name == "" {
			return nativeSystem(t, object.GroupKind()), nil
		}
		return system(t, name)
	}
	for name, object := range map[string]delivery.Object{
		"placementDecision": deployment("web", 3), "openClusterManagement": deployment("web", 3), "": ocmPlacement("picked", "true"),
	} {
		s, spec := systemOf(object, name)
		all, decision := clusters(450), decided()
		var objects []*unstructured.Unstructured
		before := map[string]string{}
		for round := range budget.Rounds(60) {
			changes := 1
			if round%5 == 0 {
				changes = 1 + r.IntN(300)
			}
			for range changes {
				if name := all[r.IntN(len(all))]; slices.Contains(decision.Clusters, name) {
					decision.Clusters = slices.DeleteFunc(decision.Clusters, func(other string) bool { return other == name })
				} else {
					decision.Clusters = append(decision.Clusters, name)
				}
			}
			decision.Objects = decided(decision.Clusters...).Objects
			if round%7 == 0 && len(objects) > 0 {
				// Another client deletes a list, and adds one.
				objects[r.IntN(len(objects))] = listOf(s, object, 9_999_999, "cluster-000", "cluster-449")
				before = nil
			}
			decision.Lists = s.ListsOf(object, objects)
			rendered, err := s.Render(object, decision, spec)
			if err != nil {
				t.Fatal(err)
			}
			after, written := map[string]string{}, map[string]bool{}
			objects = nil
			for _, d := range rendered {
				if d.Kind.Kind != "PlacementDecision" {
					continue
				}
				objects = append(objects, d.Object)
				listed := clustersOf(d.Object)
				if len(listed) > 100 {
					t.Fatalf("%s has %d clusters", d.Object.GetName(), len(listed))
				}
				for _, cluster := range listed {
					if after[cluster] != "" {
						t.Fatalf("%s is in %s and in %s", cluster, after[cluster], d.Object.GetName())
					}
					after[cluster] = d.Object.GetName()
				}
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(decision.Clusters)), slices.Sorted(maps.Keys(after)), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("clusters in lists (-want +got):\n%s", diff)
			}
			for cluster, list := range before {
				if now := after[cluster]; now == "" {
					written[list] = true
				} else if now != list {
					t.Fatalf("%s moved from %s to %s", cluster, list, now)
				}
			}
			for cluster, list := range after {
				if before != nil && before[cluster] == "" {
					written[list] = true
				}
			}
			if changes == 1 && len(written) > 1 {
				t.Fatalf("a change of one cluster changed %v", written)
			}
			before = after
		}
	}
}

// listOf returns a list of a system with a number, of the first clusters of a decision.
func listOf(s delivery.System, object delivery.Object, number int, clusters ...string) *unstructured.Unstructured {
	spec := &placementv1.Delivery{PlacementDecision: &placementv1.PlacementDecisionDelivery{}, OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}
	rendered, _ := s.Render(object, decided(clusters...), spec)
	for _, d := range rendered {
		if d.Kind.Kind == "PlacementDecision" {
			out := d.Object.DeepCopy()
			out.SetName(strings.TrimRight(out.GetName(), "0123456789") + fmt.Sprint(number))
			return out
		}
	}
	return nil
}

// clustersOf returns the clusters that a PlacementDecision lists.
func clustersOf(o *unstructured.Unstructured) []string {
	var out []string
	entries, found, _ := unstructured.NestedSlice(o.Object, "decisions")
	if !found {
		entries, _, _ = unstructured.NestedSlice(o.Object, "status", "decisions")
	}
	for _, entry := range entries {
		members, _ := entry.(map[string]any)
		name, found, _ := unstructured.NestedString(members, "clusterName")
		if !found {
			name, _, _ = unstructured.NestedString(members, "clusterProfileRef", "name")
		}
		out = append(out, name)
	}
	return out
}

// TestRenderIsDeterministic renders random decisions twice, the second time in another order.
func TestRenderIsDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range budget.Rounds(150) {
		decision := delivery.Decision{Clusters: clusters(r.IntN(120)), Shares: map[string]delivery.Share{}}
		for _, name := range decision.Clusters {
			switch r.IntN(3) {
			case 0:
				decision.Shares[name] = weight(r.Int64N(5))
			case 1:
				decision.Shares[name] = replicas(r.Int64N(3))
			}
		}
		shuffled := delivery.Decision{Clusters: slices.Clone(decision.Clusters), Shares: decision.Shares}
		r.Shuffle(len(shuffled.Clusters), func(i, j int) {
			shuffled.Clusters[i], shuffled.Clusters[j] = shuffled.Clusters[j], shuffled.Clusters[i]
		})
		untouched := slices.Clone(shuffled.Clusters)
		object := deployment("web", r.Int64N(200))
		for name := range systems {
			s, spec := system(t, name)
			if r.IntN(4) > 0 {
				spec.Replicas = by(placementv1.DivideByWeight)
			}
			want, wantErr := s.Render(object, decision, spec)
			got, gotErr := s.Render(object, shuffled, spec)
			if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
				t.Fatalf("%s: Render fails with %v, in another order with %v", name, wantErr, gotErr)
			}
			if diff := cmp.Diff(marshal(t, want), marshal(t, got)); diff != "" {
				t.Fatalf("%s: Render depends on the order of clusters:\n%s", name, diff)
			}
			if !slices.Equal(untouched, shuffled.Clusters) {
				t.Fatalf("%s: Render changes its argument", name)
			}
			if wantErr == nil {
				checkDelivered(t, s, object, got)
			}
		}
	}
}

func marshal(t *testing.T, delivered []delivery.Delivered) string {
	t.Helper()
	text, err := json.Marshal(delivered)
	if err != nil {
		t.Fatal(err)
	}
	// DeepCopy panics if a value is not of a type that unstructured objects may have.
	for _, d := range delivered {
		d.Object.DeepCopy()
	}
	return string(text)
}

// TestKindsFor checks that each system delivers an object as the kinds for its scope, and as all of them.
func TestKindsFor(t *testing.T) {
	for name := range systems {
		system, spec := system(t, name)
		for _, object := range []delivery.Object{deployment("web", 3), clusterRole("viewer")} {
			delivered, err := system.Render(object, decided("a"), spec)
			if kinds := system.KindsFor(object.Namespace != ""); len(kinds) > 0 != (err == nil) {
				t.Errorf("%s delivers %s as %v, error %v", name, object.Kind, kinds, err)
			}
			if err != nil {
				continue
			}
			var got []delivery.Kind
			for _, o := range delivered {
				got = append(got, o.Kind)
			}
			if diff := cmp.Diff(system.KindsFor(object.Namespace != ""), got); diff != "" {
				t.Errorf("%s delivers %s as other kinds (-want +got):\n%s", name, object.Kind, diff)
			}
		}
	}
}

func TestIsNameFor(t *testing.T) {
	deployment := delivery.Object{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Kind: "Deployment"}, Namespace: "default", Name: "web"}
	base := delivery.NameOf(deployment)
	native := delivery.Object{GroupVersionKind: schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Kind: "Placement"}, Namespace: "default", Name: "web"}
	for _, tc := range []struct {
		name   string
		placed delivery.Object
		want   bool
	}{
		{base, deployment, true},
		{base + "-0", deployment, true},
		{base + "-decision-1", deployment, true},
		{base + "-x", deployment, false},
		{base + "0", deployment, false},
		{"web", deployment, false},
		{"web-decision-12", native, true},
		{"web-decision-decision-1", native, false},
		{base + "-decision-1", native, false},
		{"web", native, false},
	} {
		if got := delivery.IsNameFor(tc.name, tc.placed); got != tc.want {
			t.Errorf("%s for %s %s: %t, want %t", tc.name, tc.placed.Kind, tc.placed.Name, got, tc.want)
		}
	}
}

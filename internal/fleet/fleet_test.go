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

package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/fleet"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

func parse(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		obj := &unstructured.Unstructured{}
		// As the API server does, this makes integers of whole numbers.
		text, err := yaml.YAMLToJSON([]byte(document))
		if err == nil {
			err = obj.UnmarshalJSON(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, obj)
	}
	return out
}

func static(t testing.TB, text string) *simulation.Static {
	t.Helper()
	out, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, text)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func simulate(t testing.TB, cluster simulation.Cluster) *simulation.Simulation {
	t.Helper()
	out, err := simulation.New(t.Context(), cluster, simulation.Options{OwnNamespace: "berth-system"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newFleet(t testing.TB, cluster simulation.Cluster) *fleet.Fleet {
	t.Helper()
	out, err := fleet.New(t.Context(), simulate(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const clusters = `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-1, labels: {region: eu}}
spec: {region: eu, zones: [eu-a, eu-b]}
status:
  conditions: [{type: Ready, status: "True"}]
  resourceSummary: {allocatable: {cpu: "64", memory: 128Gi}, allocated: {cpu: "40", memory: 32Gi}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-2, labels: {region: eu}}
spec: {region: eu, zones: [eu-c]}
status:
  conditions: [{type: Ready, status: "True"}]
  resourceSummary: {allocatable: {cpu: "16"}, allocated: {cpu: "4500m"}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: us-1, labels: {region: us}}
`

const region = `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    errors contains "no region" if not input.metadata.labels.region
status:
  moving:
  - {object: deployments.apps shop/moving, since: "2026-01-01T12:00:00Z", deadline: "2026-01-01T12:10:00Z"}
  - {object: deployments.apps shop/late, since: "2026-01-01T12:00:00Z"}
  failures: {objects: 1, sample: [{object: deployments.apps shop/refused, reason: PatchRefused, message: "no"}]}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: tier}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [statefulsets]}]}
  remediation: {mode: Manual}
  rego: "package tier\n\nclusters := {\"us-1\"}\n"
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: broken}
spec:
  match: {resourceRules: [{apiGroups: [batch], apiVersions: [v1], resources: [jobs]}]}
  rego: "package broken\n\nlabels.a := a\n"
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: labels}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [daemonsets]}]}
  rego: "package labels\n\nlabels.a := \"b\"\n"
`

// workload returns a workload with a region, replicas, and clusters, if they are not empty.
func workload(kind, name, region, clusters string) string {
	labels, annotations := "", ""
	if region != "" {
		labels = "region: " + region
	}
	if clusters != "" {
		annotations = fmt.Sprintf("placement.berth.dev/clusters: '%s'", clusters)
	}
	return fmt.Sprintf("---\napiVersion: apps/v1\nkind: %s\nmetadata: {name: %s, namespace: shop, labels: {%s}, annotations: {%s}}\nspec: {replicas: 3}\n", kind, name, labels, annotations)
}

// workloads are one object in each situation.
var workloads = workload("Deployment", "as-decided", "eu", `["eu-1","eu-2"]`) +
	workload("Deployment", "by-choice", "eu", `["eu-2"]`) +
	workload("Deployment", "denied", "", `["eu-1"]`) +
	workload("Deployment", "late", "eu", `["eu-1","eu-2"]`) +
	workload("Deployment", "leaving", "eu", `["eu-1","eu-2","us-1"]`) +
	workload("Deployment", "moving", "eu", `["eu-1","eu-2"]`) +
	workload("Deployment", "new", "eu", "") +
	workload("Deployment", "refused", "eu", `["eu-1","eu-2"]`) +
	workload("StatefulSet", "manual", "", `["eu-1","us-1"]`) +
	workload("DaemonSet", "unplaced", "", "") +
	"---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: undecided, namespace: shop}\n"

// summary is what tests compare of an object.
type summary struct {
	State             fleet.State
	Reason            string
	Clusters, Decided string
}

// TestStates checks the state of an object in each situation, with the reason, and its clusters.
func TestStates(t *testing.T) {
	got := map[string]summary{}
	for _, o := range newFleet(t, static(t, clusters+region+workloads)).Objects {
		got[o.Name] = summary{o.State, o.Reason, strings.Join(o.Clusters, " "), strings.Join(o.Decided, " ")}
	}
	want := map[string]summary{
		"as-decided": {fleet.Running, "", "eu-1 eu-2", "eu-1 eu-2"},
		"by-choice":  {fleet.Running, "", "eu-2", "eu-2"},
		"denied":     {fleet.Violating, "PlacementPolicy region denies the object: no region", "eu-1", "eu-1"},
		"late":       {fleet.Violating, "Berth moved the object at 2026-01-01T12:00:00Z, and it did not run in its clusters in time: see there why", "eu-1 eu-2", "eu-1 eu-2"},
		"leaving":    {fleet.Waiting, "PlacementPolicy region decides other values, and Berth has not patched the object yet", "eu-1 eu-2 us-1", "eu-1 eu-2"},
		"moving":     {fleet.Moving, "Berth moved the object at 2026-01-01T12:00:00Z; the move fails at 2026-01-01T12:10:00Z if the object does not run by then", "eu-1 eu-2", "eu-1 eu-2"},
		"new":        {fleet.Waiting, "PlacementPolicy region decides other values, and Berth has not patched the object yet", "", "eu-1 eu-2"},
		"refused":    {fleet.Violating, "the API server refused the last patch or eviction of the object, which counts as failed until one succeeds: no", "eu-1 eu-2", "eu-1 eu-2"},
		"manual": {fleet.Violating, `tier: annotation placement.berth.dev/clusters is ["eu-1","us-1"], should be ["us-1"]; ` +
			"it waits for an update that changes what PlacementPolicy tier reads or writes (spec.remediation.mode of PlacementPolicy tier is Manual)", "eu-1 us-1", "us-1"},
	}
	undecided := got["undecided"]
	delete(got, "undecided")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if undecided.State != fleet.Violating || !strings.HasPrefix(undecided.Reason, "PlacementPolicy broken can't decide the object: ") {
		t.Errorf("undecided: %+v", undecided)
	}
}

// TestWaiting checks the reasons why objects wait.
func TestWaiting(t *testing.T) {
	const turn = "for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of PlacementPolicy p, or for an update that changes what the policy reads or writes"
	for status, want := range map[string]string{
		`waiting: [{reason: Window, objects: 1, message: for a window}]`:        "it waits for a window",
		`waiting: [{reason: Budget, objects: 1}, {reason: Window, objects: 1}]`: "it waits " + turn,
		`paused: {change: "1"}`: "it waits until the remediation of PlacementPolicy p, which a change paused, is resumed (the policy's condition Paused has the command), and then " + strings.TrimSuffix(turn, ", or for an update that changes what the policy reads or writes"),
	} {
		policy := `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  remediation: {budget: {maxPerMinute: 1}}
  rego: "package p\n\nclusters := {\"eu-1\"}\n"
status: {` + status + "}\n"
		objects := newFleet(t, static(t, clusters+policy+workload("Deployment", "web", "", ""))).Objects
		if len(objects) != 1 || objects[0].State != fleet.Waiting || objects[0].Reason != want {
			t.Errorf("%s: %+v, want %q", status, objects, want)
		}
	}
}

// TestWorkloads checks that a Workload of Kueue moves until it says itself that it runs.
func TestWorkloads(t *testing.T) {
	for status, want := range map[string]fleet.State{
		`{clusterName: eu-1, conditions: [{type: Admitted, status: "True"}]}`: fleet.Running,
		`{clusterName: eu-1}`: fleet.Moving,
		`null`:                fleet.Running,
	} {
		const policy = `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [kueue.x-k8s.io], apiVersions: [v1beta2], resources: [workloads]}]}
  rego: "package p\n\nclusters := {\"eu-1\"}\n"
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: train, namespace: shop, annotations: {placement.berth.dev/clusters: '["eu-1"]'}}
status: `
		objects := newFleet(t, static(t, clusters+policy+status+"\n")).Objects
		if len(objects) != 1 || objects[0].State != want {
			t.Errorf("%s: %+v, want %s", status, objects, want)
		}
	}
}

// line renders a place in one line.
func line(p fleet.Place) string {
	free, _ := p.Free("cpu")
	return fmt.Sprintf("%s: %d objects %v, %d arriving, %d leaving, %d replicas, policies %v, cpu %s free, %d sites, ready %v",
		p.Name, p.Objects, p.States, p.Arriving, p.Leaving, p.Replicas, p.Policies, free, p.Sites, ptr.Deref(p.Ready, false))
}

// TestTable checks what is counted by cluster, zone, and region.
func TestTable(t *testing.T) {
	f := newFleet(t, static(t, clusters+region+workloads))
	for by, want := range map[fleet.By][]string{
		fleet.ByCluster: {
			"eu-1: 7 objects map[Moving:1 Running:1 Violating:4 Waiting:1], 1 arriving, 1 leaving, 21 replicas, policies [region tier], cpu 24 free, 0 sites, ready true",
			"eu-2: 6 objects map[Moving:1 Running:2 Violating:2 Waiting:1], 1 arriving, 0 leaving, 18 replicas, policies [region], cpu 11500m free, 0 sites, ready true",
			"us-1: 2 objects map[Violating:1 Waiting:1], 0 arriving, 1 leaving, 6 replicas, policies [region tier], cpu  free, 0 sites, ready false",
			": 2 objects map[Violating:1 Waiting:1], 0 arriving, 0 leaving, 0 replicas, policies [broken region], cpu  free, 0 sites, ready false",
		},
		fleet.ByRegion: {
			"(unknown): 2 objects map[Violating:1 Waiting:1], 0 arriving, 1 leaving, 6 replicas, policies [region tier], cpu  free, 1 sites, ready false",
			"eu: 8 objects map[Moving:1 Running:2 Violating:4 Waiting:1], 1 arriving, 1 leaving, 39 replicas, policies [region tier], cpu 35500m free, 2 sites, ready false",
			": 2 objects map[Violating:1 Waiting:1], 0 arriving, 0 leaving, 0 replicas, policies [broken region], cpu  free, 0 sites, ready false",
		},
		fleet.ByZone: {
			"(unknown): 2 objects map[Violating:1 Waiting:1], 0 arriving, 1 leaving, 6 replicas, policies [region tier], cpu  free, 1 sites, ready false",
			"eu-a: 7 objects map[Moving:1 Running:1 Violating:4 Waiting:1], 1 arriving, 1 leaving, 21 replicas, policies [region tier], cpu  free, 1 sites, ready false",
			"eu-b: 7 objects map[Moving:1 Running:1 Violating:4 Waiting:1], 1 arriving, 1 leaving, 21 replicas, policies [region tier], cpu  free, 1 sites, ready false",
			"eu-c: 6 objects map[Moving:1 Running:2 Violating:2 Waiting:1], 1 arriving, 0 leaving, 18 replicas, policies [region], cpu 11500m free, 1 sites, ready false",
			": 2 objects map[Violating:1 Waiting:1], 0 arriving, 0 leaving, 0 replicas, policies [broken region], cpu  free, 0 sites, ready false",
		},
		fleet.ByNode: nil,
	} {
		var got []string
		for _, p := range f.Table(by).Places {
			got = append(got, line(p))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
	}
}

// TestUnknownAmounts checks that what several clusters have free is not known if one of them does not report what it uses, and that a
// resource that such a report does not name, and one that no Pod of a node requests, is free.
func TestUnknownAmounts(t *testing.T) {
	const text = `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-1}
spec: {region: eu}
status: {resourceSummary: {allocatable: {cpu: "64", nvidia.com/gpu: "8"}, allocated: {cpu: "40", nvidia.com/gpu: "4"}}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-2}
spec: {region: eu}
status: {resourceSummary: {allocatable: {cpu: "16", nvidia.com/gpu: "8"}, allocated: {cpu: "1"}}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: ap-1}
spec: {region: ap}
status: {resourceSummary: {allocatable: {cpu: "64"}, allocated: {cpu: "40"}}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: ap-2}
spec: {region: ap}
status: {resourceSummary: {allocatable: {cpu: "64"}}}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: us}}
status: {allocatable: {cpu: "4", memory: 8Gi, nvidia.com/gpu: "8", pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: n1, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: tier}
spec:
  match: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
  rego: "package tier\n\nlabels.tier := \"gold\"\n"
`
	f := newFleet(t, static(t, text))
	got := map[string]string{}
	for _, p := range f.Table(fleet.ByRegion).Places {
		for name := range p.Allocatable {
			free, known := p.Free(name)
			got[p.Name+" "+string(name)] = fmt.Sprintf("%s %t", free, known)
		}
	}
	want := map[string]string{
		"ap cpu": " false", "eu cpu": "39 true", "eu nvidia.com/gpu": "12 true",
		"us cpu": "3 true", "us memory": "8Gi true", "us nvidia.com/gpu": "8 true", "us pods": "109 true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("free (-want +got):\n%s", diff)
	}
}

// TestIn checks which objects are in a place, and which come and go.
func TestIn(t *testing.T) {
	const nowhere = `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: nowhere}
spec:
  clusters: {onEmpty: Clear}
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [replicasets]}]}
  rego: "package nowhere\n\nclusters := []\n"
`
	f := newFleet(t, static(t, clusters+region+nowhere+workloads+workload("ReplicaSet", "expelled", "", `["us-1"]`)))
	for place, want := range map[string][]string{
		"us-1": {"leaving 3 Leaving", "expelled 3 Leaving", "manual 3 "},
		"eu-2": {"as-decided 3 ", "by-choice 3 ", "late 3 ", "leaving 3 ", "moving 3 ", "new none Arriving", "refused 3 "},
		"":     {"new none ", "undecided none "},
		"none": nil,
	} {
		var got []string
		for _, m := range f.In(fleet.ByCluster, place) {
			here := "none"
			if m.Here != nil {
				here = fmt.Sprint(*m.Here)
			}
			got = append(got, strings.Join([]string{m.Name, here, string(m.Change)}, " "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in %q (-want +got):\n%s", place, diff)
		}
	}
}

// TestDivision checks the replicas of objects whose replicas a policy divides.
func TestDivision(t *testing.T) {
	for by, want := range map[string]fleet.Object{
		"Even":         {Division: map[string]int64{"eu-1": 2, "eu-2": 2}},
		"FreeCapacity": {},
	} {
		policy := `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  delivery: {karmada: {}, replicas: {divideBy: ` + by + `}}
  rego: "package p\n\nclusters := {\"eu-1\", \"eu-2\"}\n"
`
		web := strings.Replace(workload("Deployment", "web", "", `["eu-1","eu-2"]`), "replicas: 3", "replicas: 4", 1)
		f := newFleet(t, static(t, clusters+policy+web))
		want.Kind, want.Resource, want.Namespace, want.Name, want.Policies = "Deployment", "deployments.apps", "shop", "web", []string{"p"}
		want.State, want.Clusters, want.Decided = fleet.Running, []string{"eu-1", "eu-2"}, []string{"eu-1", "eu-2"}
		if diff := cmp.Diff([]fleet.Object{want}, f.Objects, cmpopts.IgnoreUnexported(fleet.Object{})); diff != "" {
			t.Errorf("divided by %s (-want +got):\n%s", by, diff)
		}
		if got := f.Table(fleet.ByCluster).Places[0].Replicas; got != want.Division["eu-1"] {
			t.Errorf("divided by %s: %d replicas", by, got)
		}
	}
}

const onNodes = `apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: a, topology.kubernetes.io/region: eu}}
status: {allocatable: {cpu: "4", memory: 8Gi}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "4"}}
---
apiVersion: v1
kind: Pod
metadata: {name: running, namespace: shop, labels: {tier: gold}}
spec: {nodeName: n1, containers: [{name: a, resources: {requests: {cpu: 500m}}}, {name: b, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: finished, namespace: shop, labels: {tier: gold}}
spec: {nodeName: n1, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}
status: {phase: Succeeded}
---
apiVersion: v1
kind: Pod
metadata: {name: pending, namespace: shop}
spec: {containers: [{name: a}]}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: tier}
spec:
  match: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
  rego: "package tier\n\nlabels.tier := \"gold\"\n"
`

// TestNodes checks what is counted by node, and what Pods use.
func TestNodes(t *testing.T) {
	f := newFleet(t, static(t, onNodes))
	for by, want := range map[fleet.By][]string{
		fleet.ByNode: {
			"n1: 2 objects map[Running:2], 0 arriving, 0 leaving, 0 replicas, policies [tier], cpu 2500m free, 0 sites, ready true",
			"n2: 0 objects map[], 0 arriving, 0 leaving, 0 replicas, policies [], cpu 4 free, 0 sites, ready false",
			": 1 objects map[Waiting:1], 0 arriving, 0 leaving, 0 replicas, policies [tier], cpu  free, 0 sites, ready false",
		},
		fleet.ByRegion: {
			"(unknown): 0 objects map[], 0 arriving, 0 leaving, 0 replicas, policies [], cpu 4 free, 1 sites, ready false",
			"eu: 2 objects map[Running:2], 0 arriving, 0 leaving, 0 replicas, policies [tier], cpu 2500m free, 1 sites, ready false",
		},
		fleet.ByCluster: nil,
	} {
		var got []string
		for _, p := range f.Table(by).Places {
			got = append(got, line(p))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
	}
}

// forbidding refuses to list a type.
type forbidding struct {
	simulation.Cluster
	resource schema.GroupResource
}

func (f forbidding) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	if resource.GroupResource() == f.resource {
		return nil, fmt.Errorf("listing: %w", apierrors.NewForbidden(f.resource, "", nil))
	}
	return f.Cluster.List(ctx, resource, fields)
}

// TestForbidden checks that a user sees what they may see, and what is missing.
func TestForbidden(t *testing.T) {
	const text = clusters + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments, statefulsets]}]}
  rego: "package p\n\nclusters := {\"eu-1\"}\n"
`
	all := static(t, text+workload("Deployment", "web", "", "")+workload("StatefulSet", "db", "", ""))
	for _, test := range []struct {
		resource          schema.GroupResource
		objects, clusters int
		note              string
	}{
		{schema.GroupResource{Group: "apps", Resource: "statefulsets"}, 1, 3, "you may not list statefulsets.apps, so they are missing: ask for the right to list them"},
		{schema.GroupResource{Group: "cluster.karmada.io", Resource: "clusters"}, 2, 0, "you may not list clusters.cluster.karmada.io, so clusters without objects, and the regions, zones, and capacities that these give clusters, are missing: ask for the right to list them"},
	} {
		f := newFleet(t, forbidding{all, test.resource})
		if len(f.Objects) != test.objects || len(f.Clusters) != test.clusters {
			t.Errorf("%s: %d objects, %d clusters", test.resource, len(f.Objects), len(f.Clusters))
		}
		if diff := cmp.Diff([]string{test.note}, f.Table(fleet.ByCluster).Notes); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	}
}

// TestExplain checks why an object is in its clusters.
func TestExplain(t *testing.T) {
	const ranked = clusters + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: eu}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: eu
    require: [{label: region, operator: In, values: [eu]}]
    prefer: [{label: region, operator: Exists, weight: 1}]
    limit: 2
`
	s := simulate(t, static(t, ranked+workload("Deployment", "web", "", `["eu-1","eu-2","us-1"]`)+workload("DaemonSet", "unmatched", "", "")))
	explain := func(resource, name string) *fleet.Explained {
		gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
		content, err := s.Cluster().Get(t.Context(), gvr, "shop", name)
		if err != nil || content == nil {
			t.Fatalf("%v, error %v", content, err)
		}
		out, err := fleet.Explain(t.Context(), s, simulation.Object{Resource: gvr, Namespace: "shop", Content: content, Exists: true})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := explain("daemonsets", "unmatched"); got != nil {
		t.Errorf("unmatched: %+v", got)
	}
	got := explain("deployments", "web")
	var places []string
	for _, r := range got.Places {
		places = append(places, fmt.Sprintf("%s %s %v, %d ranks, %d against", r.Cluster, r.Change, r.By, len(r.Ranks), len(r.Against)))
	}
	want := []string{"eu-1  [{eu eu}], 1 ranks, 0 against", "eu-2  [{eu eu}], 1 ranks, 0 against", "us-1 Leaving [], 0 ranks, 1 against"}
	if diff := cmp.Diff(want, places); diff != "" || got.State != fleet.Waiting {
		t.Errorf("state %s, places (-want +got):\n%s", got.State, diff)
	}
}

// TestExplainWaitingMove checks that clusters have ranks to which an object comes only with an approval.
func TestExplainWaitingMove(t *testing.T) {
	const approved = clusters + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: eu}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  remediation: {mode: Approved}
  clusters: {developerChoice: Ignore}
  rules: [{name: eu, require: [{label: region, operator: In, values: [eu]}], limit: 2}]
`
	s := simulate(t, static(t, approved+workload("Deployment", "web", "", `["eu-1","us-1"]`)))
	gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	content, err := s.Cluster().Get(t.Context(), gvr, "shop", "web")
	if err != nil || content == nil {
		t.Fatalf("%v, error %v", content, err)
	}
	got, err := fleet.Explain(t.Context(), s, simulation.Object{Resource: gvr, Namespace: "shop", Content: content, Exists: true})
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, r := range got.Places {
		places = append(places, fmt.Sprintf("%s %s %v, %d ranks, %d against", r.Cluster, r.Change, r.By, len(r.Ranks), len(r.Against)))
	}
	want := []string{"eu-1  [{eu eu}], 1 ranks, 0 against", "eu-2 Arriving [{eu eu}], 1 ranks, 0 against", "us-1 Leaving [], 0 ranks, 1 against"}
	if diff := cmp.Diff(want, places); diff != "" || got.State != fleet.Waiting {
		t.Errorf("state %s, places (-want +got):\n%s", got.State, diff)
	}
}

// many returns a cluster with clusters, and objects that policies place into a tenth of them each.
func many(t testing.TB, clusters, objects int) simulation.Cluster {
	t.Helper()
	var text strings.Builder
	for i := range clusters {
		fmt.Fprintf(&text, "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: c-%d, labels: {group: g%d}}\n---\n", i, i%10)
	}
	text.WriteString(`apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: group}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: |
    package group

    clusters contains name if {
      some name, c in data.clusters
      c.labels.group == input.metadata.labels.group
    }
`)
	all := parse(t, text.String())
	for i := range objects {
		all = append(all, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": fmt.Sprintf("web-%d", i), "namespace": "shop", "labels": map[string]any{"group": fmt.Sprintf("g%d", i%10)}},
			"spec":     map[string]any{"replicas": int64(2)},
		}})
	}
	out, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), all...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// BenchmarkFleet measures the table of many objects in many clusters.
func BenchmarkFleet(b *testing.B) {
	s := simulate(b, many(b, 1000, 100_000))
	for b.Loop() {
		f, err := fleet.New(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		if places := f.Table(fleet.ByCluster).Places; places[0].Arriving != 10_000 {
			b.Fatalf("%+v", places[0])
		}
	}
}

// TestStateWithoutApproval checks that an object violates whose clusters no approval can change, because its developer requested others.
func TestStateWithoutApproval(t *testing.T) {
	approved := strings.Replace(region, "spec:\n  match:", "spec:\n  remediation: {mode: Approved}\n  match:", 1)
	f := newFleet(t, static(t, clusters+strings.TrimPrefix(approved, "---\n")+`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: us}, annotations: {placement.berth.dev/clusters: '["eu-1"]'}}
`))
	if len(f.Objects) != 1 || f.Objects[0].State != fleet.Violating || !strings.Contains(f.Objects[0].Reason, "no cluster is left") {
		t.Errorf("%+v", f.Objects)
	}
	if states := f.States(fleet.ByCluster); states[fleet.Violating] != 1 || len(states) != 1 {
		t.Errorf("states %v", states)
	}
}

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

// Package numerals_test searches for texts by which an object or a policy takes processor time or memory without bound: numbers that take
// forever to read.
package numerals_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/growth"
)

// What reading one cluster and deciding all of its objects may take: more than they do, with much to spare, and less than any text that
// this test searches for.
const (
	maxProcessorTime = 10 * time.Second
	maxBytes         = 1 << 30
)

// spec is that of several workloads.
const spec = `spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {size: 5Gi}}
    spec:
      overhead: {cpu: 10m}
      containers:
      - name: web
        image: web
        env:
        - {name: SIZE, value: 1Gi}
        - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
        resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: "1", example.com/gpu: "1"}}
      volumes:
      - {name: scratch, emptyDir: {sizeLimit: 1Gi}}
      - {name: data, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
      tolerations: [{key: a, operator: Gt, value: "3"}]`

// cluster has objects of each kind of which Berth reads quantities or other numbers, and policies that read them.
const cluster = `
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: rules}
spec:
  match:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments, replicasets]}
    - {apiGroups: [example.com], apiVersions: [v1], resources: [rollouts]}
  rules:
  - name: large
    when: {expression: "quantity(object.metadata.annotations['memory']).isGreaterThan(quantity('1Gi'))"}
    require:
    - {allocatable: cpu, operator: Gte, values: ["4"]}
    - {free: memory, operator: Gte, valueFrom: {annotation: memory, default: 1Gi}}
    - {label: generation, as: Number, operator: Lt, valueFrom: {annotation: generation}}
    - {label: size, as: Quantity, operator: Gt, values: [500m]}
    - {field: version, as: Version, operator: Gte, values: ["1.30"]}
    prefer: [{allocatable: cpu, operator: Gte, values: ["8"], weight: 2}]
    limit: 1
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: rego}
spec:
  match:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
    - {apiGroups: [example.com], apiVersions: [v1], resources: [rollouts]}
  rego: |
    package rego

    container := input.spec.template.spec.containers[_]

    labels.large := "yes" if k8s.quantity.compare(container.resources.requests.cpu, "1") > 0

    labels.sum := k8s.quantity.add(container.resources.requests.memory, input.metadata.annotations.memory)

    labels.number := sprintf("%v", [to_number(input.metadata.annotations.generation) + 1])

    labels.units := sprintf("%v", [units.parse_bytes(input.metadata.annotations.memory) + units.parse(container.resources.limits.cpu)])

    warnings contains "late" if time.parse_duration_ns(input.metadata.annotations.after) > 1

    warnings contains "old" if semver.compare(input.metadata.annotations.version, "1.0.0") < 0

    warnings contains name if {
      some name, c in data.clusters
      k8s.quantity.compare(c.allocatable.cpu, "1") < 0
    }
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: predicates}
spec:
  match:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
    - {apiGroups: [example.com], apiVersions: [v1], resources: [rollouts]}
  predicates: {candidates: Nodes}
  rego: |
    package predicates

    scheduling.nodeSelector.disk := "ssd"
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, annotations: {memory: 2Gi, generation: "3", after: 5m, version: 1.2.3}}
` + spec + `
---
apiVersion: example.com/v1
kind: Rollout
metadata: {name: web, namespace: shop, uid: u-1, annotations: {memory: 2Gi, generation: "3", after: 5m, version: 1.2.3}}
` + spec + `
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
  namespace: shop
  ownerReferences: [{apiVersion: example.com/v1, kind: Rollout, name: web, uid: u-1, controller: true}]
` + spec + `
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {disk: ssd, size: 4Gi}}
spec: {taints: [{key: a, value: "5", effect: NoSchedule}]}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "110", example.com/gpu: "2"}
  allocatable: {cpu: "8", memory: 32Gi, pods: "110", example.com/gpu: "2"}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: shop}
spec:
  nodeName: n1
  overhead: {memory: 1Mi}
  containers: [{name: a, image: a, resources: {requests: {cpu: "1"}}}]
status: {phase: Running, containerStatuses: [{name: a, allocatedResources: {cpu: "1"}, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: c1, namespace: fleet, labels: {generation: "2", size: 4Gi}}
spec: {displayName: c1, clusterManager: {name: m}}
status: {version: {kubernetes: 1.31.2}, properties: [{name: cpus, value: "8"}]}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c2, labels: {generation: "2", size: 4Gi}}
status:
  version: {kubernetes: 1.31.2}
  capacity: {cpu: "8", memory: 32Gi}
  allocatable: {cpu: "8", memory: 32Gi}
  clusterClaims: [{name: region, value: eu}]
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: c3, labels: {generation: "2", size: 4Gi}}
spec: {region: eu}
status:
  kubernetesVersion: 1.31.2
  resourceSummary: {allocatable: {cpu: "8", memory: 32Gi}, allocated: {cpu: "1"}, allocating: {cpu: 500m}}
---
apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata: {name: c4, labels: {generation: "2", size: 4Gi}}
status:
  properties: {cost: {value: "0.5"}}
  resourceUsage: {capacity: {cpu: "8"}, allocatable: {cpu: "8", memory: 32Gi}, available: {cpu: "2", memory: 1Gi}}
`

// numerals are texts that Kubernetes' parser of quantities reads for minutes or forever, and long ones.
var numerals = []string{
	"1e-999999999", "-1E-0000999999999", "123456789012345678901e+99999999999999999999", "1.5e-99999999Ki", strings.Repeat("9", 4096), "v1." + strings.Repeat("9", 4096),
}

// objects returns new copies of the cluster's objects.
func objects(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for text := range strings.SplitSeq(cluster, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := utilyaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, object)
	}
	return out
}

// texts yields the setters of all texts in a value.
func texts(value any) []func(string) {
	var out []func(string)
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if _, ok := v[key].(string); ok {
				out = append(out, func(text string) { v[key] = text })
			} else {
				out = append(out, texts(v[key])...)
			}
		}
	case []any:
		for i, member := range v {
			if _, ok := member.(string); ok {
				out = append(out, func(text string) { v[i] = text })
			} else {
				out = append(out, texts(member)...)
			}
		}
	}
	return out
}

// FuzzNumerals puts a text into one place of one object of the cluster, and reads the cluster and decides its objects as the manager and
// the plugin do: on admission, by remediation, and by the predicates.
func FuzzNumerals(f *testing.F) {
	places := 0
	for _, object := range objects(f) {
		places += len(texts(object.Object))
	}
	for i := range places {
		for j := range budget.Rounds(1) {
			f.Add(uint16(i), numerals[(i+j)%len(numerals)])
		}
	}
	registry, err := predicates.NewRegistry()
	if err != nil {
		f.Fatal(err)
	}
	set, err := registry.New(registry.Default())
	if err != nil {
		f.Fatal(err)
	}
	templates, err := workload.NewTemplates(workload.Template{
		GroupResource: schema.GroupResource{Group: "example.com", Resource: "rollouts"}, Kind: "Rollout", Path: []string{"spec", "template"},
	})
	if err != nil {
		f.Fatal(err)
	}
	options := simulation.Options{Predicates: set, Templates: templates}
	unchanged, err := read(f.Context(), objects(f), options)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range unchanged.Policies() {
		if p.Err != nil {
			f.Fatalf("the policy %s decides nothing: %v", p.Object.Name, p.Err)
		}
	}
	f.Fuzz(func(t *testing.T, place uint16, text string) {
		all := objects(t)
		var setters []func(string)
		for _, object := range all {
			setters = append(setters, texts(object.Object)...)
		}
		setters[int(place)%len(setters)](text)
		start, before := growth.ProcessorTime(t), allocated()
		decideAll(t.Context(), all, options)
		if took, bytes := growth.ProcessorTime(t)-start, allocated()-before; took > maxProcessorTime || bytes > maxBytes {
			shown, _ := yaml.Marshal(all)
			t.Errorf("%s of processor time and %d bytes for place %d = %.100q:\n%s", took, bytes, place, text, shown)
		}
	})
}

// read reads a cluster with the objects.
func read(ctx context.Context, all []*unstructured.Unstructured, o simulation.Options) (*simulation.Simulation, error) {
	c, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), all...)
	if err != nil {
		return nil, err
	}
	return simulation.New(ctx, c, o)
}

// decideAll reads the cluster and decides its objects. Errors are ignored: most texts are not valid.
func decideAll(ctx context.Context, all []*unstructured.Unstructured, o simulation.Options) {
	s, err := read(ctx, all, o)
	if err != nil {
		return
	}
	for _, content := range all {
		for _, exists := range []bool{false, true} {
			if object, err := s.NewObject(content, exists); err == nil {
				_, _ = s.Decide(ctx, object)
			}
		}
	}
}

// allocated returns the bytes that this process has allocated until now.
func allocated() uint64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.TotalAlloc
}

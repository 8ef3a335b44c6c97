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

package bench_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/test/growth"
)

// measure measures work, which gets the number of its call. Besides the usual figures it reports the processor time,
// garbage collection included, which depends less than the time on what else the machine does.
func measure(b *testing.B, work func(i int)) {
	b.Helper()
	b.ReportAllocs()
	runtime.GC()
	i := 0
	start := growth.ProcessorTime(b)
	for b.Loop() {
		work(i)
		i++
	}
	b.ReportMetric(float64(growth.ProcessorTime(b)-start)/float64(i), "cpu-ns/op")
}

// heap is how much the heap holds.
func heap() uint64 {
	// What finalizers hold goes with the second collection.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// served is an API server that serves the resources of fixture.
type served struct{}

var resources = []policy.Resource{
	{GroupVersionResource: fixture.ClusterProfiles, Namespaced: true},
	{GroupVersionResource: fixture.Deployments, Namespaced: true},
	{GroupVersionResource: fixture.KarmadaClusters},
}

func (served) ByPlural(plural string) (out []policy.Resource) {
	for _, r := range resources {
		if r.Resource == plural {
			out = append(out, r)
		}
	}
	return out
}

func (served) Exact(gvr schema.GroupVersionResource) (policy.Resource, bool) {
	i := slices.IndexFunc(resources, func(r policy.Resource) bool { return r.GroupVersionResource == gvr })
	if i < 0 {
		return policy.Resource{}, false
	}
	return resources[i], true
}

// Inventories are those that Berth knows.
func (served) Inventories() *replication.Inventories { return replication.Known() }

// labelled are namespaces with labels.
type labelled map[string]map[string]string

// Labels implements placement.Namespaces.
func (l labelled) Labels(_ context.Context, name string) (map[string]string, error) {
	return l[name], nil
}

// world is a replica without its controllers: policies in force over data.
type world struct {
	data     *embedded.Data
	engine   *embedded.Engine
	registry *placement.Registry
	decider  *placement.Decider
}

func newWorld(b testing.TB) *world {
	b.Helper()
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		b.Fatal(err)
	}
	w := &world{data: embedded.NewData(), registry: placement.NewRegistry()}
	w.engine = embedded.New(w.data, embedded.Options{Timeout: time.Minute, Concurrency: 8})
	w.decider = &placement.Decider{Policies: w.registry, Namespaces: labelled{}, Keyring: keyring, OwnNamespace: "berth-system"}
	return w
}

// put puts a policy in force as controllers/policyloader does.
func (w *world) put(b testing.TB, p *placementv1.PlacementPolicy) *placement.Policy {
	b.Helper()
	return w.putPrepared(b, p, func(*policy.Module) {})
}

// putPrepared does the same after prepare changed the compiled policy.
func (w *world) putPrepared(b testing.TB, p *placementv1.PlacementPolicy, prepare func(*policy.Module)) *placement.Policy {
	b.Helper()
	m, err := policy.Compile(p.Name, p.Spec)
	if err != nil {
		b.Fatal(err)
	}
	prepare(m)
	binding, err := policy.Bind(p.Name, m, p.Spec.Replicate, served{})
	if err != nil {
		b.Fatal(err)
	}
	evaluator, err := w.engine.Prepare(b.Context(), p.Name, m, binding)
	if err != nil {
		b.Fatal(err)
	}
	matcher, errs := match.New(p.Spec.Match, field.NewPath("spec", "match"))
	if len(errs) > 0 {
		b.Fatal(errs.ToAggregate())
	}
	out := &placement.Policy{
		Name: p.Name, Generation: p.Generation, Mode: p.Spec.Mode, FailurePolicy: p.Spec.FailurePolicy,
		Remediation: p.Spec.Remediation.Mode, Matcher: matcher, Evaluator: evaluator,
	}
	w.registry.Set(p.Name, &placement.PolicyState{Policy: out, Generation: p.Generation, Binding: binding})
	return out
}

func (w *world) decide(b testing.TB, evaluator placement.Evaluator, input map[string]any) placement.Decision {
	b.Helper()
	d, err := evaluator.Evaluate(b.Context(), input)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// replicate makes cluster profiles the data of the policies that are in force, as controllers/replicator does.
func (w *world) replicate(clusters []*unstructured.Unstructured) {
	w.replicateAs(fixture.ClusterProfiles, clusters)
}

// replicateAs does the same with the clusters of another inventory.
func (w *world) replicateAs(resource schema.GroupVersionResource, clusters []*unstructured.Unstructured) {
	var prepared []*unstructured.Unstructured
	for _, o := range clusters {
		o = o.DeepCopy()
		replication.Known().Prepare(resource, o)
		prepared = append(prepared, o)
	}
	w.data.Load(resource, w.fields(resource), prepared)
}

// fields are what the policies in force read of a resource type.
func (w *world) fields(resource schema.GroupVersionResource) *projection.FieldSet {
	var sets []*projection.FieldSet
	for _, state := range w.registry.All() {
		if fields, ok := state.Binding.Fields[resource]; ok {
			sets = append(sets, fields)
		}
	}
	return projection.Union(sets...)
}

func object(content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}

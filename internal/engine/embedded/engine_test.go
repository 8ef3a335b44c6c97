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

package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/budget"
)

const static = `{"acme": {"customers": ["acme"], "level": 2, "nested": {"a": {"b": "c"}}}}`

var everything = served{"pods": {pods}, "nodes": {nodes}, "clusterprofiles": {profiles}, "managedclusters": {managed}}

// worldObjects returns the objects of a fake cluster.
func worldObjects() map[policy.Resource][]*unstructured.Unstructured {
	label := func(o *unstructured.Unstructured, pairs ...string) *unstructured.Unstructured {
		labels := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			labels[pairs[i]] = pairs[i+1]
		}
		o.SetLabels(labels)
		return o
	}
	return map[policy.Resource][]*unstructured.Unstructured{
		pods: {
			document("shop", "web", "spec", map[string]any{"nodeName": "n1", "weights": []any{int64(1), int64(2)}}),
			document("shop", "db", "spec", map[string]any{"nodeName": "n2"}),
			document("bank", "web", "spec", map[string]any{"nodeName": "n1"}),
		},
		nodes: {
			label(document("", "n1", "status", map[string]any{"ready": true}), "zone", "eu-1"),
			label(document("", "n2", "status", map[string]any{"ready": false}), "zone", "us-1"),
		},
		profiles: {label(document("fleet", "eu", "status", map[string]any{"properties": []any{map[string]any{"name": "pci", "value": "1"}}}), "topology.kubernetes.io/region", "eu")},
		managed:  {document("", "us", "spec", map[string]any{})},
	}
}

func newWorld() *Data {
	d := NewData()
	for r, objects := range worldObjects() {
		d.Replace(r.GroupVersionResource, objects)
	}
	return d
}

// oracleStore returns the content of OPA's own store: all objects, whatever a policy reads.
func oracleStore(static []byte) map[string]any {
	root := map[string]any{}
	if len(static) > 0 {
		if err := json.Unmarshal(static, &root); err != nil {
			panic(err)
		}
	}
	kubernetes, resources := map[string]any{}, map[string]any{}
	for r, objects := range worldObjects() {
		table := map[string]any{}
		for _, o := range objects {
			put(table, o.GetNamespace(), o)
		}
		kubernetes[r.Resource] = table
		group, ok := resources[r.GroupVersion().String()].(map[string]any)
		if !ok {
			group = map[string]any{}
			resources[r.GroupVersion().String()] = group
		}
		group[r.Resource] = table
	}
	world := newWorld()
	all := world.inventoriesOf([]schema.GroupVersionResource{profiles.GroupVersionResource, managed.GroupVersionResource})
	clusters, err := ast.JSON(world.current.Load().clusters(all).document().clusters)
	if err != nil {
		panic(err)
	}
	root["kubernetes"], root["resources"], root["clusters"] = kubernetes, resources, clusters
	return root
}

func prepare(t testing.TB, e *Engine, spec placementv1.PlacementPolicySpec) (placement.Evaluator, *policy.Module) {
	t.Helper()
	m, err := policy.Compile("p", spec)
	// Policies whose rules violate the decision contract are evaluated too.
	if m == nil {
		t.Fatal(err)
	}
	b, err := policy.Bind("p", m, spec.Replicate, everything)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := e.Prepare(t.Context(), "p", m, b)
	if err != nil {
		t.Fatal(err)
	}
	return ev, m
}

// oracle decides with plain OPA over all data, with one query for each rule.
func oracle(ctx context.Context, m *policy.Module, static []byte, input any) (placement.Decision, error) {
	rules := map[string]any{}
	for _, name := range m.Rules {
		results, err := rego.New(
			rego.Query(fmt.Sprintf("x = %s.%s", m.Package, name)), rego.Compiler(m.Compiler),
			rego.Store(inmem.NewFromObject(oracleStore(static))), rego.Input(input),
		).Eval(ctx)
		if err != nil {
			return placement.Decision{}, err
		}
		if len(results) == 1 {
			rules[name] = results[0].Bindings["x"]
		}
	}
	return placement.ParseDecision(rules)
}

func v1(text string) placementv1.PlacementPolicySpec {
	return placementv1.PlacementPolicySpec{
		Rego: text, RegoVersion: placementv1.RegoV1, Data: &apiextensionsv1.JSON{Raw: []byte(static)},
	}
}

// corpus are policies that must decide the same over all data and over the data that the analysis finds.
var corpus = map[string]string{
	"Ground": `package p
labels := {"node": data.kubernetes.pods.shop.web.spec.nodeName}`,
	"GroundFromInput": `package p
labels := {"zone": data.kubernetes.nodes[input.spec.nodeName].metadata.labels.zone}`,
	"GroundNamespaced": `package p
labels := {"node": data.kubernetes.pods[input.metadata.namespace][input.metadata.name].spec.nodeName}`,
	"Namespace": `package p
annotations := {"pods": [n | some n, _ in data.kubernetes.pods[input.metadata.namespace]]}`,
	"NamespaceMissing": `package p
errors contains "none" if not data.kubernetes.pods.nowhere`,
	"Iteration": `package p
annotations := {"pods": [n | data.kubernetes.pods[n]]}`,
	"Deep": `package p
errors contains sprintf("%v %v %v", [ns, n, p.spec.nodeName]) if { some ns, n; p := data.kubernetes.pods[ns][n] }`,
	"ListItem": `package p
annotations := {"second": data.kubernetes.pods.shop.web.spec.weights[1]}`,
	"ListMembers": `package p
annotations := {"all": [w | some w in data.kubernetes.pods.shop.web.spec.weights]}`,
	"Prefix": `package p
errors contains n if { x := data.kubernetes.nodes; some n; x[n].status.ready == false }`,
	"PrefixRule": `package p
k := data.kubernetes.nodes
errors contains n if some n, v in k`,
	"Import": `package p
import data.kubernetes.nodes as machines
errors contains n if machines[n].status.ready`,
	"Every": `package p
errors contains "not all" if not all_ready
all_ready if every n in data.kubernetes.nodes { n.status.ready }`,
	"Walk": `package p
annotations := {"paths": [x | walk(data.kubernetes.nodes, [x, true])]}`,
	"Function": `package p
labels := {"zone": zone(input.spec.nodeName)}
zone(n) := data.kubernetes.nodes[n].metadata.labels.zone`,
	"With": `package p
labels := {"n": sprintf("%d", [n])} if n := total with data.kubernetes.nodes as {"x": 1}
total := count(data.kubernetes.nodes)`,
	"WithBelow": `package p
labels := {"n": n} if n := ready with data.kubernetes.nodes.n2.status.ready as "yes"
ready := data.kubernetes.nodes.n2.status.ready`,
	"WithInput": `package p
labels := {"n": n} if n := name with input as data.kubernetes.pods.bank.web
name := input.spec.nodeName`,
	"GroupVersion": `package p
labels := {"node": data.resources.v1.pods.shop.web.spec.nodeName}`,
	"GroupVersions": `package p
annotations := {"p": [n | data.resources["multicluster.x-k8s.io/v1alpha1"].clusterprofiles[_][n]]}`,
	"Clusters": `package p
annotations := {n: c.source | some n, c in data.clusters}`,
	"ClustersGround": `package p
labels := {"region": data.clusters.eu.region, "pci": data.clusters["eu"].properties.pci}`,
	"ClusterMissing": `package p
errors contains "no" if not data.clusters[input.metadata.name]`,
	"Static": `package p
annotations := {"c": data.acme.customers, "l": data.acme.level, "n": data.acme.nested}`,
	"StaticDynamic": `package p
labels := {k: v | some k; v := data.acme.nested[input.key][k]}`,
	"StaticAndCluster": `package p
errors contains c if { some c in data.acme.customers; not data.kubernetes.nodes[c] }`,
	"OwnPackage": `package kubernetes.placement
allowed contains n if data.kubernetes.nodes[n].status.ready
annotations := {"a": data.kubernetes.placement.allowed}`,
	"PackageOfPods": `package kubernetes.pods
errors contains x if data.kubernetes.pods.shop[x].spec`,
	"Undefined": `package p
labels := {"a": input.nothing}
annotations := {"b": data.kubernetes.nodes.nothing}
errors contains input.nothing`,
	"UndefinedOne": `package p
labels := {"a": input.nothing}
annotations := {"b": "c"}`,
	"Defaults": `package p
default labels := {"a": "b"}
labels := {"a": input.nothing}`,
	"Null": `package p
labels := null
annotations := {"a": null}`,
	"Sets": `package p
errors := {"b", "a"}
warnings := ["z", "y", "z"]`,
	"Conflict": `package p
labels := {"a": x} if some x in ["1", "2"]`,
	"WrongType":     "package p\nlabels := json.unmarshal(`[1]`)",
	"WrongMessages": "package p\nerrors contains json.unmarshal(`1`)",
	"BuiltinError": `package p
labels := {"a": sprintf("%d", [to_number("x")])}`,
	"Numbers": `package p
annotations := {"n": 12345678901234567890, "f": 1.5, "big": {"x": 1e3}}`,
	"HeadRefs": `package p
annotations["a/b"] := "x"
annotations[k] := v if some k, v in {"c": {"d": 1}}
labels.a := "b"`,
	"Partial": `package p
warnings contains sprintf("%s", [n]) if some n, _ in data.kubernetes.nodes
errors contains "no" if input.key == "b"`,
	"Template": `package p
errors contains $"zone {data.kubernetes.nodes.n1.metadata.labels.zone}"`,
	"Negated": `package p
errors contains "unscheduled" if not data.kubernetes.pods[input.metadata.namespace][input.metadata.name]`,
	"Aggregates": `package p
annotations := {"n": count(data.kubernetes.nodes), "k": object.keys(data.kubernetes.pods)}`,
	"ObjectGet": `package p
labels := {"z": object.get(data.kubernetes.nodes, [input.spec.nodeName, "metadata", "labels", "zone"], "none")}`,
}

var inputs = []string{
	`{"metadata": {"name": "web", "namespace": "shop"}, "spec": {"nodeName": "n1"}, "key": "a"}`,
	`{"metadata": {"name": "eu", "namespace": "bank"}, "spec": {"nodeName": "n2"}, "key": "b"}`,
	`{"metadata": {"name": "none"}}`,
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecisionsAreThoseOverAllData(t *testing.T) {
	e := New(newWorld(), Options{Timeout: time.Minute, Concurrency: 2})
	for name, text := range corpus {
		t.Run(name, func(t *testing.T) {
			if _, err := policy.Compile("p", v1(text)); err != nil && strings.Contains(err.Error(), "berth_unresolved_read") {
				// Rejecting the policy is safe too. The tests of the analysis verify which policies it must accept.
				return
			}
			ev, m := prepare(t, e, v1(text))
			for _, input := range inputs {
				want, wantErr := oracle(t.Context(), m, []byte(static), parse(t, input))
				got, err := ev.Evaluate(t.Context(), parse(t, input))
				if (err != nil) != (wantErr != nil) {
					t.Fatalf("error %v, want %v", err, wantErr)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("decision on %s (-over all data +by the engine):\n%s", input, diff)
				}
				again, _ := ev.Evaluate(t.Context(), parse(t, input))
				if diff := cmp.Diff(got, again); diff != "" {
					t.Errorf("equal inputs, other decision:\n%s", diff)
				}
			}
		})
	}
}

// FuzzDecisions searches for a text whose decision over the data that the analysis finds differs from that over all
// data.
func FuzzDecisions(f *testing.F) {
	for _, text := range corpus {
		f.Add(text, inputs[0])
	}
	e := New(newWorld(), Options{Timeout: 300 * time.Millisecond, Concurrency: 8})
	f.Fuzz(func(t *testing.T, text, input string) {
		var document map[string]any
		if json.Unmarshal([]byte(input), &document) != nil || document == nil || strings.Contains(text, "print") {
			t.Skip()
		}
		m, err := policy.Compile("p", v1(text))
		if err != nil {
			t.Skip()
		}
		b, err := policy.Bind("p", m, nil, everything)
		if err != nil || len(b.Missing) > 0 {
			t.Skip()
		}
		ev, err := e.Prepare(t.Context(), "p", m, b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ev.Evaluate(t.Context(), document)
		if errors.Is(err, engine.ErrDeadline) {
			t.Skip()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want, wantErr := oracle(ctx, m, []byte(static), document)
		if topdown.IsCancel(wantErr) {
			t.Skip()
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, want %v\n%s", err, wantErr, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("decision (-over all data +by the engine):\n%s\n%s", diff, text)
		}
	})
}

func TestRevision(t *testing.T) {
	d := newWorld()
	e := New(d, Options{Timeout: time.Minute, Concurrency: 1})
	readsNodes, _ := prepare(t, e, v1(`package p
errors contains n if data.kubernetes.nodes[n].x`))
	readsBoth, _ := prepare(t, e, v1(`package p
errors contains n if { data.kubernetes.nodes[n].x; data.kubernetes.pods[n] }`))
	readsNothing, _ := prepare(t, e, v1(`package p
errors contains input.x`))
	revisions := func() [3]uint64 {
		return [3]uint64{readsNodes.Revision(), readsBoth.Revision(), readsNothing.Revision()}
	}
	start := revisions()
	d.Put(nodes.GroupVersionResource, worldObjects()[nodes][0])
	if got := revisions(); got != start {
		t.Errorf("unchanged content: %v, want %v", got, start)
	}
	d.Put(pods.GroupVersionResource, document("a", "b"))
	next := revisions()
	if next[0] != start[0] || next[1] == start[1] || next[2] != start[2] || next[2] == 0 {
		t.Errorf("a pod came: %v; before: %v", next, start)
	}
	d.Put(nodes.GroupVersionResource, document("", "b"))
	last := revisions()
	if last[0] == next[0] || last[1] == next[1] {
		t.Errorf("a node came: %v; before: %v", last, next)
	}
	d.Drop(nodes.GroupVersionResource)
	if got := revisions(); got[0] != 0 || got[1] != 0 || got[2] == 0 {
		t.Errorf("nodes are gone: %v", got)
	}
}

func TestMissingData(t *testing.T) {
	d := NewData()
	e := New(d, Options{Timeout: time.Minute, Concurrency: 1})
	want := func(ev placement.Evaluator, data string) {
		t.Helper()
		_, err := ev.Evaluate(t.Context(), map[string]any{})
		missing, ok := errors.AsType[*engine.NotReplicatedError](err)
		if data == "" {
			if err != nil {
				t.Errorf("error %v", err)
			}
			return
		}
		if !ok || missing.Data != data {
			t.Errorf("error %v, want that %s is missing", err, data)
		}
	}
	ev, _ := prepare(t, e, v1(`package p
errors contains n if data.kubernetes.nodes[n].x`))
	want(ev, "nodes")
	d.Replace(nodes.GroupVersionResource, nil)
	want(ev, "")
	d.Drop(nodes.GroupVersionResource)
	want(ev, "nodes")
	unserved, _ := prepare(t, e, v1(`package p
errors contains n if { data.kubernetes.carts[n].x; data.resources.v2.pods }`))
	want(unserved, `data.kubernetes.carts, data.resources["v2"].pods`)
	if unserved.Revision() != 0 {
		t.Error("a policy whose data is missing has a revision")
	}
	clusters, _ := prepare(t, e, v1(`package p
errors contains n if data.clusters[n].ready`))
	want(clusters, "managedclusters.cluster.open-cluster-management.io")
	d.Replace(managed.GroupVersionResource, nil)
	want(clusters, "clusterprofiles.multicluster.x-k8s.io")
	d.Replace(profiles.GroupVersionResource, nil)
	want(clusters, "")
}

const (
	endless = `package p
errors contains "x" if { some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); some k in numbers.range(1, 1000); i + j + k == -1 }`
	// stubborn makes a single call that does not check the deadline while it runs.
	stubborn = `package p
annotations := {"a": count(regex.find_n("(a*)*b|a", x, -1))} if x := concat("", [y | some i in numbers.range(1, 400); y := "aaaaaaaaaa"])`
)

func TestDeadline(t *testing.T) {
	for name, text := range map[string]string{"Endless": endless, "Stubborn": stubborn} {
		t.Run(name, func(t *testing.T) {
			e := New(NewData(), Options{Timeout: 50 * time.Millisecond, Concurrency: 2})
			ev, _ := prepare(t, e, v1(text))
			start := time.Now()
			_, err := ev.Evaluate(t.Context(), map[string]any{})
			if !errors.Is(err, engine.ErrDeadline) {
				t.Errorf("error %v, want the deadline", err)
			}
			// The limit is generous for busy machines. The evaluation itself would take minutes.
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestCallersDeadlineCounts(t *testing.T) {
	e := New(NewData(), Options{Timeout: time.Hour, Concurrency: 1})
	ev, _ := prepare(t, e, v1(endless))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ev.Evaluate(ctx, map[string]any{}); !errors.Is(err, engine.ErrDeadline) {
		t.Errorf("error %v, want the deadline", err)
	}
}

// TestSlots verifies that policies which exceed their deadline occupy no more than their slots until they end, and that
// the engine decides as before afterwards.
func TestSlots(t *testing.T) {
	const concurrency = 2
	e := New(newWorld(), Options{Timeout: 100 * time.Millisecond, Concurrency: concurrency})
	runaway, _ := prepare(t, e, v1(endless))
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			_, err := runaway.Evaluate(t.Context(), map[string]any{})
			if !errors.Is(err, engine.ErrDeadline) {
				t.Errorf("error %v, want the deadline", err)
			}
		})
	}
	calls.Wait()
	// All slots are returned. Taking all of them waits for evaluations that still run.
	awaitFree(t, e, concurrency)
	idle(t, e.slots, concurrency)
	e.Timeout = time.Minute
	sane, _ := prepare(t, e, v1(`package p
labels := {"a": "b"}`))
	if got, err := sane.Evaluate(t.Context(), map[string]any{}); err != nil || got.Labels["a"] != "b" {
		t.Errorf("decision %v, %v", got, err)
	}
}

func TestWaitingForASlotEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(NewData(), Options{Timeout: time.Second, Concurrency: 1})
		ev, _ := prepare(t, e, v1(`package p
labels := {"a": "b"}`))
		e.slots.acquire(t.Context(), "another", "")
		start := time.Now()
		_, err := ev.Evaluate(t.Context(), map[string]any{})
		if !errors.Is(err, engine.ErrDeadline) || !strings.Contains(err.Error(), "waiting for other evaluations") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("waited for %s", took)
		}
		e.slots.release("another", "")
		if _, err := ev.Evaluate(t.Context(), map[string]any{}); err != nil {
			t.Error(err)
		}
	})
}

func TestNoRules(t *testing.T) {
	e := New(NewData(), Options{Timeout: time.Minute, Concurrency: 1})
	ev, _ := prepare(t, e, v1(`package p
x := 1`))
	got, err := ev.Evaluate(t.Context(), map[string]any{})
	if diff := cmp.Diff(placement.Decision{}, got); err != nil || diff != "" {
		t.Errorf("decision %v, %v", got, err)
	}
}

// TestEvaluationsAndChanges evaluates policies concurrently while the data changes. Each decision must be of one state
// of the data.
func TestEvaluationsAndChanges(t *testing.T) {
	d := NewData()
	pair := func(n int64) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{document("", "a", "n", n), document("", "b", "n", n)}
	}
	d.Replace(nodes.GroupVersionResource, pair(0))
	e := New(d, Options{Timeout: time.Minute, Concurrency: 4})
	ev, _ := prepare(t, e, v1(`package p
errors contains "torn" if data.kubernetes.nodes["a"].n != data.kubernetes.nodes["b"].n
labels := {"n": sprintf("%d", [count(data.kubernetes.nodes)])}`))
	stop := keepReading(func() bool {
		got, err := ev.Evaluate(t.Context(), map[string]any{"a": "b"})
		if err != nil || len(got.Errors) > 0 || got.Labels["n"] != "2" {
			t.Errorf("decision %v, %v", got, err)
			return false
		}
		return true
	})
	for n := range int64(budget.Rounds(300)) {
		d.Replace(nodes.GroupVersionResource, pair(n))
	}
	stop()
}

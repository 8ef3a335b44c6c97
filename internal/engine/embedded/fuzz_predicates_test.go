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
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/test/budget"
)

// judgedOracle evaluates calls with whole objects and all data, without caches.
type judgedOracle struct {
	set   *predicates.Set
	world *predicates.NodeCache
	// clusters is the current data.clusters.
	clusters map[string]any
}

func (o *judgedOracle) options() []func(*rego.Rego) {
	function := func(b *ast.Builtin, kind predicates.Candidates) func(*rego.Rego) {
		return rego.FunctionDyn(&rego.Function{Name: b.Name, Decl: b.Decl}, func(c rego.BuiltinContext, operands []*ast.Term) (*ast.Term, error) {
			term, err := o.answer(c, operands[:b.Decl.Arity()], kind)
			if err != nil {
				return nil, rego.NewHaltError(err)
			}
			return term, nil
		})
	}
	return []func(*rego.Rego){function(language.Feasible, predicates.Nodes), function(language.FeasibleClusters, predicates.Clusters)}
}

func (o *judgedOracle) answer(c rego.BuiltinContext, operands []*ast.Term, kind predicates.Candidates) (*ast.Term, error) {
	whole, err := toMap(operands[0].Value)
	if err != nil {
		return nil, err
	}
	w, err := (*workload.Templates)(nil).Of(whole)
	if err != nil {
		return nil, err
	}
	if len(operands) == 3 {
		if w.Replicas, err = positiveNumber(operands[1]); err != nil {
			return nil, err
		}
	}
	q, err := query(operands[len(operands)-1].Value)
	if err != nil {
		return nil, err
	}
	q.Kind = kind
	snapshot, err := o.world.Snapshot()
	if kind == predicates.Clusters {
		all := map[string]map[string]any{}
		for name, cluster := range o.clusters {
			all[name], _ = cluster.(map[string]any)
		}
		snapshot, err = predicates.ClusterSnapshot(all), nil
	}
	if err != nil {
		return nil, err
	}
	report, err := o.set.Evaluate(c.Context, snapshot, w, q)
	if err != nil {
		return nil, err
	}
	return ast.NewTerm(reportValue(report)), nil
}

// fuzzedNodes is a set of nodes and pods that changes.
type fuzzedNodes struct{ *predicates.NodeCache }

func newFuzzedNodes(g *policytest.Generator) fuzzedNodes {
	w := fuzzedNodes{predicates.NewNodeCache()}
	for _, plural := range []string{"nodes", "pods", "namespaces"} {
		w.Load(corev1.SchemeGroupVersion.WithResource(plural), nil)
	}
	for range 6 {
		w.change(g)
	}
	return w
}

func (w fuzzedNodes) change(g *policytest.Generator) {
	name := g.Of("a", "b", "c")
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetName(name)
	resource := corev1.SchemeGroupVersion.WithResource("nodes")
	if g.Pick(2) == 0 {
		resource = corev1.SchemeGroupVersion.WithResource("pods")
		o.SetNamespace("default")
		o.SetName(name + g.Of("1", "2"))
		o.SetLabels(map[string]string{"a": g.Of("a", "b")})
		o.Object["spec"] = map[string]any{"nodeName": name, "containers": []any{
			map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": g.Of("0", "1", "2")}}},
		}}
	} else {
		o.SetLabels(map[string]string{"a": g.Of("a", "b"), "b": g.Of("a", "b")})
		o.Object["status"] = map[string]any{"allocatable": map[string]any{"cpu": g.Of("1", "2", "4"), "pods": "5"}}
		if g.Pick(3) == 0 {
			o.Object["spec"] = map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoSchedule"}}}
		}
	}
	if g.Pick(5) == 0 {
		w.Delete(resource, o.GetNamespace(), o.GetName())
		return
	}
	w.Put(resource, o)
}

// placed adds a minimal pod template to an object.
func placed(g *policytest.Generator, object map[string]any) map[string]any {
	out := maps.Clone(object)
	out["metadata"] = map[string]any{"labels": map[string]any{"a": g.Of("a", "b")}, "annotations": map[string]any{"a": g.Of("a", "b")}}
	spec := map[string]any{"containers": []any{
		map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": g.Of("0", "1", "2")}}},
	}}
	if g.Pick(2) == 0 {
		spec["nodeSelector"] = map[string]any{g.Of("a", "b"): g.Of("a", "b")}
	}
	if g.Pick(2) == 0 {
		spec["tolerations"] = []any{map[string]any{"operator": "Exists"}}
	}
	switch g.Pick(6) {
	case 0:
		spec["affinity"] = map[string]any{"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{
			map[string]any{"topologyKey": g.Of("a", "b"), "labelSelector": map[string]any{"matchLabels": map[string]any{"a": "a"}}},
		}}}
	case 1:
		spec["topologySpreadConstraints"] = []any{map[string]any{
			"topologyKey": g.Of("a", "b"), "maxSkew": int64(1), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": map[string]any{"matchLabels": map[string]any{"a": "a"}},
		}}
	}
	out["spec"] = spec
	out["c"] = map[string]any{"spec": maps.Clone(spec)}
	return out
}

// inventory makes an inventory's object represent a cluster.
func inventory(g *policytest.Generator, o *unstructured.Unstructured) {
	o.Object["spec"] = map[string]any{}
	if g.Pick(3) == 0 {
		o.Object["spec"] = map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoSelect"}}}
	}
	status := map[string]any{"allocatable": map[string]any{"cpu": g.Of("1", "2", "4")}}
	if g.Pick(4) > 0 {
		status["conditions"] = []any{map[string]any{"type": "ManagedClusterConditionAvailable", "status": "True"}}
	}
	o.Object["status"] = status
}

// judgedDifferential compares the engine with plain OPA and an oracle of predicates, on objects, data, and nodes that
// change from round to round. It returns the number of decisions that were compared, and how many of them were not
// errors.
func judgedDifferential(t testing.TB, spec placementv1.PlacementPolicySpec, g *policytest.Generator, set *predicates.Set, seen *counts, rounds int) (compared, decided int) {
	t.Helper()
	spec.Data = &apiextensionsv1.JSON{Raw: []byte(`{"acme": {"a": {"b": "c"}, "b": ["a", 1], "c": "a"}}`)}
	spec.Replicate = []placementv1.ReplicatedResource{{Resource: "pods"}, {Resource: "nodes"}}
	m, err := policy.Compile("p", spec)
	if err != nil || !m.Nodes && !m.Clusters {
		return 0, 0
	}
	b := bound(t, spec, m)
	world := newFuzzedWorld(g, b)
	refine := func() {
		for _, o := range world.objects[managed] {
			inventory(g, o)
		}
		world.load(managed)
	}
	refine()
	nodes := newFuzzedNodes(g)
	oracle := &judgedOracle{set: set, world: nodes.NodeCache}
	ev, err := New(world.data, Options{Timeout: 10 * time.Second, Concurrency: 1, Observer: seen, Predicates: set, World: nodes.NodeCache}).Prepare(t.Context(), "p", m, b)
	if err != nil {
		t.Fatal(err)
	}
	plain := newOPA(t, spec, m, oracle.options()...)
	input := placed(g, g.Object(3))
	for round := range rounds {
		world.join(round%4 == 3)
		switch g.Pick(5) {
		case 0:
			world.change(g)
			refine()
		case 1, 2:
			nodes.change(g)
		case 3:
			input = placed(g, g.Object(3))
		default:
			if changed, ok := g.Change(input).(map[string]any); ok {
				input = changed
			}
		}
		documents := world.documents()
		oracle.clusters, _ = documents["clusters"].(map[string]any)
		// The same object twice tests the decision cache, and another identity tests the rule cache.
		for _, id := range []string{"x", "x", fmt.Sprint(round)} {
			object := maps.Clone(input)
			object["id"] = id
			want, wantErr := plain.decide(t, documents, object)
			got, gotErr := ev.Evaluate(t.Context(), object)
			if errors.Is(wantErr, errTooLong) || errors.Is(gotErr, engine.ErrDeadline) {
				return compared, decided
			}
			if compared++; wantErr == nil {
				decided++
			}
			if (wantErr != nil) != (gotErr != nil) || !want.Equal(got) {
				t.Fatalf("round %d: the engine decides\n%+v, %v\nand plain OPA\n%+v, %v\n%s\ninput %s\ndata %s",
					round, got, gotErr, want, wantErr, spec.Rego, describe(object), describe(documents))
			}
		}
	}
	return compared, decided
}

func randomJudgedDecisions(t testing.TB, bytes []byte, set *predicates.Set, seen *counts, rounds int) (compared, decided int) {
	t.Helper()
	g := &policytest.Generator{Bytes: bytes, Wide: true, Judging: true}
	spec := placementv1.PlacementPolicySpec{Rego: g.Policy(), RegoVersion: placementv1.RegoV1}
	if g.V0 {
		spec.RegoVersion = placementv1.RegoV0
	}
	return judgedDifferential(t, spec, g, set, seen, rounds)
}

func defaultSet(t testing.TB) *predicates.Set {
	t.Helper()
	registry, err := predicates.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// FuzzJudgingPolicies is FuzzRandomPolicies for policies that call predicates.
func FuzzJudgingPolicies(f *testing.F) {
	set := defaultSet(f)
	for seed := range uint64(10) {
		f.Add(policytest.RandomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { randomJudgedDecisions(t, bytes, set, &counts{}, 8) })
}

func TestDecisionsOfJudgingPolicies(t *testing.T) {
	seen, set := &counts{}, defaultSet(t)
	judging, compared, decided := 0, 0, 0
	var seed uint64
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("-first=%d", *first+seed)
		}
	})
	for seed = range uint64(*randomPrograms) {
		n, m := randomJudgedDecisions(t, policytest.RandomBytes(9_000_000+*first+seed), set, seen, 10)
		if n > 0 {
			judging++
			compared, decided = compared+n, decided+m
		}
	}
	t.Logf("%d of %d policies ask predicates; %d decisions, %d of them no errors, %d remembered", judging, *randomPrograms, compared, decided, seen.hits.Load())
	if judging < *randomPrograms/8 || decided < *randomPrograms || seen.hits.Load() < int64(*randomPrograms)/2 {
		t.Error("the test tests too little")
	}
}

// TestCachedDecisionsWithPredicates tests handwritten policies.
func TestCachedDecisionsWithPredicates(t *testing.T) {
	set := defaultSet(t)
	for name, text := range map[string]string{
		"All":      `annotations := {"a": k8s.feasible(input, "*"), "b": k8s.feasible_clusters(input, 2, "*")}`,
		"Template": `annotations := {"a": k8s.feasible(input.c, "*")}`,
		"Helper": `fits(x, y) if { some v in k8s.feasible(x, y); v.feasible }
errors contains "x" if not fits(input, {"matchLabels": {"a": "a"}})
labels := {"id": input.id}`,
		"Rule": `all := k8s.feasible(input, "*")
clusters contains n if { some n, v in all; v.feasible }
labels := {"id": input.id}`,
		"ByRule": `some_of contains n if { some n, c in data.clusters; c.labels.a == "a" }
clusters contains n if { some n, v in k8s.feasible_clusters(input, 1, some_of); v.feasible }
labels := {"id": input.id}`,
		"Replicas": `annotations := {n: v.replicas | some n, v in k8s.feasible_clusters(input, 3, "*")}`,
		"Constant": `annotations := {"a": k8s.feasible({"spec": {"nodeSelector": {"a": "a"}}}, "*")}`,
		"Under":    `annotations := {"a": x} if x := k8s.feasible(input, "*") with input as input.c`,
		"Mock":     `annotations := {"a": x} if x := k8s.feasible_clusters(input, 1, "*") with data.clusters as {"x": {}}`,
		"StandsIn": `annotations := {"a": x} if x := object.union(input, {}) with object.union as f
f(x, _) := k8s.feasible(x, "*")`,
		"Walked": `annotations := {"a": [x | walk(k8s.feasible(input, "*"), [_, x]); is_string(x)]}`,
		"Alias": `import input.c as template
annotations := {"a": k8s.feasible(template, "*")}`,
		"EveryNode": `labels := {"a": "b"} if every v in k8s.feasible(input, "*") { v.feasible }`,
	} {
		t.Run(name, func(t *testing.T) {
			seen := &counts{}
			spec := placementv1.PlacementPolicySpec{Rego: "package p\n" + text, RegoVersion: placementv1.RegoV1}
			for seed := range uint64(budget.Rounds(3)) {
				if _, decided := judgedDifferential(t, spec, &policytest.Generator{Bytes: policytest.RandomBytes(seed)}, set, seen, 20); decided == 0 {
					t.Error("nothing was decided")
				}
			}
			if name != "Under" && name != "StandsIn" && name != "Mock" && seen.hits.Load() == 0 {
				t.Error("nothing was remembered")
			}
		})
	}
}

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
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
)

var (
	randomPrograms = flag.Int("programs", budget.Rounds(300), "how many random policies TestDecisionsOfRandomPolicies tries")
	first          = flag.Uint64("first", 0, "which of the random policies is the first one")
)

// errTooLong is the error of a decision that takes longer than the test waits.
var errTooLong = errors.New("evaluation takes too long")

// opa is plain OPA: the unchanged text, compiled alone, with the whole input and OPA's own store of all data.
type opa struct {
	// Store is OPA's store with the current data.
	storage.Store
	query rego.PreparedEvalQuery
}

func newOPA(t testing.TB, spec placementv1.PlacementPolicySpec, m *policy.Module, options ...func(*rego.Rego)) *opa {
	t.Helper()
	version := ast.RegoV1
	if spec.RegoVersion == placementv1.RegoV0 {
		version = ast.RegoV0
	}
	o := &opa{Store: inmem.New()}
	query, err := ast.ParseBodyWithOpts(queryText(m), ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, rego.ParsedQuery(query), rego.Module("p.rego", spec.Rego), rego.SetRegoVersion(version), rego.Store(o))
	o.query, err = rego.New(options...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// decide returns the decision over the data. The error is errTooLong or the error of the evaluation.
func (o *opa) decide(t testing.TB, data, input map[string]any) (placement.Decision, error) {
	t.Helper()
	o.Store = inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	rules, err := evaluateQuery(ctx, &o.query, rego.EvalInput(input))
	if topdown.IsCancel(err) || ctx.Err() != nil {
		return placement.Decision{}, errTooLong
	}
	if err != nil {
		return placement.Decision{}, err
	}
	return placement.ParseDecision(rules)
}

// fuzzedWorld holds the objects in the API server, for plain OPA, and the Data that receives what a list-watch delivers
// of them, for the engine.
type fuzzedWorld struct {
	data    *Data
	objects map[policy.Resource]map[string]*unstructured.Unstructured
	// binding lists what the policy reads. If others is true, other policies read everything, so whole objects are kept.
	binding *policy.Binding
	others  bool
}

func newFuzzedWorld(g *policytest.Generator, b *policy.Binding) *fuzzedWorld {
	c := &fuzzedWorld{data: NewData(), binding: b, objects: map[policy.Resource]map[string]*unstructured.Unstructured{pods: {}, nodes: {}, managed: {}, profiles: {}}}
	c.replace(g, nodes)
	c.replace(g, pods)
	c.replace(g, managed)
	c.load(profiles)
	return c
}

// fields returns the fields that are kept of a type's objects.
func (c *fuzzedWorld) fields(r policy.Resource) *projection.FieldSet {
	fields, ok := c.binding.Fields[r.GroupVersionResource]
	if c.others || !ok {
		return projection.AllFields()
	}
	return fields
}

// cut returns an object as the list-watch delivers it.
func (c *fuzzedWorld) cut(r policy.Resource, o *unstructured.Unstructured) *unstructured.Unstructured {
	identity := &projection.FieldSet{}
	identity.AddName("metadata").AddName("name")
	identity.AddName("metadata").AddName("namespace")
	out := o.DeepCopy()
	replication.Known().Prepare(r.GroupVersionResource, out)
	out.Object = projection.Union(c.fields(r), identity.Seal()).Project(out.Object)
	return out
}

func (c *fuzzedWorld) load(r policy.Resource) {
	var list []*unstructured.Unstructured
	for _, o := range c.objects[r] {
		list = append(list, c.cut(r, o))
	}
	c.data.Load(r.GroupVersionResource, c.fields(r), list)
}

// join adds or removes other policies that read everything.
func (c *fuzzedWorld) join(others bool) {
	if c.others == others {
		return
	}
	c.others = others
	for r := range c.objects {
		c.load(r)
	}
}

func (c *fuzzedWorld) replace(g *policytest.Generator, r policy.Resource) {
	c.objects[r] = map[string]*unstructured.Unstructured{}
	for _, name := range []string{"a", "b", "c"} {
		if g.Pick(4) == 0 {
			continue
		}
		o := c.object(g, r, name)
		c.objects[r][o.GetNamespace()+"/"+name] = o
	}
	c.load(r)
}

func (*fuzzedWorld) object(g *policytest.Generator, r policy.Resource, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: g.Object(3)}
	o.SetName(name)
	if r.Namespaced {
		o.SetNamespace(g.Of("a", "b"))
	}
	labels := map[string]string{}
	for _, label := range []string{"a", "b"} {
		if g.Pick(3) > 0 {
			labels[label] = g.Of("a", "b")
		}
	}
	o.SetLabels(labels)
	return o
}

// change changes some of the data.
func (c *fuzzedWorld) change(g *policytest.Generator) {
	r := []policy.Resource{nodes, pods, managed}[g.Pick(3)]
	switch g.Pick(6) {
	case 0:
		c.replace(g, r)
	case 1:
		name := g.Of("a", "b", "c")
		for _, namespace := range []string{"", "a", "b"} {
			delete(c.objects[r], namespace+"/"+name)
			c.data.Delete(r.GroupVersionResource, namespace, name)
		}
	default:
		o := c.object(g, r, g.Of("a", "b", "c"))
		key := o.GetNamespace() + "/" + o.GetName()
		if existing, ok := c.objects[r][key]; ok && g.Pick(3) > 0 {
			changed, _ := g.Change(existing.Object).(map[string]any)
			if changed == nil {
				return
			}
			meta := o.Object["metadata"]
			o.Object = maps.Clone(changed)
			o.Object["metadata"] = meta
		}
		c.objects[r][key] = o
		c.data.Put(r.GroupVersionResource, c.cut(r, o))
	}
}

// documents returns `data` for plain OPA.
func (c *fuzzedWorld) documents() map[string]any {
	kubernetes, clusters := map[string]any{}, map[string]any{}
	for _, r := range []policy.Resource{pods, nodes} {
		table := map[string]any{}
		for _, o := range c.objects[r] {
			put(table, o.GetNamespace(), o)
		}
		kubernetes[r.Resource] = table
	}
	for _, o := range c.objects[managed] {
		clusters[o.GetName()], _ = replication.Known().Cluster(managed.GroupVersionResource, o.Object)
	}
	text, err := json.Marshal(map[string]any{
		"kubernetes": kubernetes, "clusters": clusters,
		"acme": map[string]any{"a": map[string]any{"b": "c"}, "b": []any{"a", 1}, "c": "a"},
	})
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

func describe(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// differential compares the engine with plain OPA, on objects and data that change from round to round. It returns the
// number of decisions that were compared.
func differential(t testing.TB, spec placementv1.PlacementPolicySpec, g *policytest.Generator, seen *counts, rounds int) int {
	t.Helper()
	compared, difference := firstDifference(t, spec, g, seen, rounds, func(*evaluator) {})
	if difference != "" {
		t.Fatal(difference)
	}
	return compared
}

// firstDifference compares the engine with plain OPA until they decide differently. It returns the number of decisions that
// were compared, and the difference. The function prepare may change the evaluator.
//
// The engine evaluates projections of objects and data, and uses its caches. Plain OPA evaluates whole objects and data each
// time. So a decision that depends on more than the projection, or that the caches should not have returned, is a difference.
func firstDifference(t testing.TB, spec placementv1.PlacementPolicySpec, g *policytest.Generator, seen *counts, rounds int, prepare func(*evaluator)) (compared int, difference string) {
	t.Helper()
	spec.Data = &apiextensionsv1.JSON{Raw: []byte(`{"acme": {"a": {"b": "c"}, "b": ["a", 1], "c": "a"}}`)}
	spec.Replicate = []placementv1.ReplicatedResource{{Resource: "pods"}, {Resource: "nodes"}}
	m, err := policy.Compile("p", spec)
	if err != nil {
		return 0, ""
	}
	b, err := policy.Bind("p", m, spec.Replicate, everything)
	if err != nil {
		t.Fatal(err)
	}
	world := newFuzzedWorld(g, b)
	ev, err := New(world.data, Options{Timeout: 10 * time.Second, Concurrency: 1, Observer: seen}).Prepare(t.Context(), "p", m, b)
	if err != nil {
		t.Fatal(err)
	}
	prepare(ev.(*evaluator))
	plain := newOPA(t, spec, m)
	input := g.Object(4)
	for round := range rounds {
		world.join(round%4 == 3)
		if round > 0 {
			switch g.Pick(6) {
			case 0, 1:
				world.change(g)
			case 2:
				input = g.Object(4)
			default:
				if changed, ok := g.Change(input).(map[string]any); ok {
					input = changed
				}
			}
		}
		documents := world.documents()
		// The same object twice tests the decision cache, and another identity tests the rule cache.
		for _, id := range []string{"x", "x", fmt.Sprint(round)} {
			object := maps.Clone(input)
			object["id"] = id
			want, wantErr := plain.decide(t, documents, object)
			got, gotErr := ev.Evaluate(t.Context(), object)
			if errors.Is(wantErr, errTooLong) || errors.Is(gotErr, engine.ErrDeadline) {
				return compared, ""
			}
			compared++
			if (wantErr != nil) != (gotErr != nil) || !want.Equal(got) {
				return compared, fmt.Sprintf("round %d: the engine decides\n%+v, %v\nand plain OPA\n%+v, %v\n%s\ninput %s\ndata %s",
					round, got, gotErr, want, wantErr, spec.Rego, describe(object), describe(documents))
			}
		}
	}
	return compared, ""
}

// randomDecisions compares the decisions of a policy that the bytes determine.
func randomDecisions(t testing.TB, bytes []byte, seen *counts, rounds int) int {
	t.Helper()
	g := &policytest.Generator{Bytes: bytes, Wide: true}
	spec := placementv1.PlacementPolicySpec{Rego: g.Policy(), RegoVersion: placementv1.RegoV1}
	if g.V0 {
		spec.RegoVersion = placementv1.RegoV0
	}
	return differential(t, spec, g, seen, rounds)
}

// FuzzRandomPolicies searches for a policy, objects, data, and changes on which the engine and plain OPA decide
// differently. The engine runs with all of its optimizations: projections of objects and data, and the caches for
// decisions and rules. To run it for hours, or to run the faster variant without the fuzzer's guidance:
//
//	go test -run=^$ -fuzz=FuzzRandomPolicies -fuzztime=4h -fuzzminimizetime=10x ./internal/engine/embedded
//	go test ./internal/engine/embedded -run=TestDecisionsOfRandomPolicies -timeout=0 -programs=1000000
//
// The fuzzer stores its findings in testdata/fuzz/FuzzRandomPolicies. Add policies that you think of yourself to
// internal/policy/analysis/testdata/fields.
func FuzzRandomPolicies(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(policytest.RandomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { randomDecisions(t, bytes, &counts{}, 8) })
}

// TestDecisionsOfAdversaries tests policies that were written to deceive the analysis, or that the fuzzer found.
func TestDecisionsOfAdversaries(t *testing.T) {
	files, err := filepath.Glob("../../policy/analysis/testdata/fields/*.rego")
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".rego"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			spec := placementv1.PlacementPolicySpec{Rego: string(text), RegoVersion: placementv1.RegoV1}
			if strings.HasSuffix(file, ".v0.rego") {
				spec.RegoVersion = placementv1.RegoV0
			}
			for seed := range uint64(budget.Rounds(3)) {
				if differential(t, spec, &policytest.Generator{Bytes: policytest.RandomBytes(seed)}, &counts{}, 12) == 0 {
					t.Error("nothing was compared")
				}
			}
		})
	}
}

// TestDecisionsShowWrongFields checks that the comparison of random policies finds an analysis that misses fields of the
// input: those that a policy reads, or those that its rules read. FuzzRandomPolicies relies on it.
func TestDecisionsShowWrongFields(t *testing.T) {
	for name, mistake := range map[string]func(*evaluator){"Policy": blind, "Rules": blindRules} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				g := &policytest.Generator{Bytes: policytest.RandomBytes(5_000_000 + seed), Wide: true}
				spec := placementv1.PlacementPolicySpec{Rego: g.Policy(), RegoVersion: placementv1.RegoV1}
				if g.V0 {
					continue
				}
				if _, difference := firstDifference(t, spec, g, &counts{}, 8, mistake); difference != "" {
					t.Logf("found by policy %d", seed)
					return
				}
			}
			t.Error("no difference")
		})
	}
}

func TestDecisionsOfRandomPolicies(t *testing.T) {
	seen := &counts{}
	compiled, compared := 0, 0
	var seed uint64
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("-first=%d", *first+seed)
		}
	})
	for seed = range uint64(*randomPrograms) {
		if seed > 0 && seed%10_000 == 0 {
			t.Logf("%d policies, %d of them compile; %d decisions", seed, compiled, compared)
		}
		if n := randomDecisions(t, policytest.RandomBytes(5_000_000+*first+seed), seen, 6); n > 0 {
			compiled++
			compared += n
		}
	}
	t.Logf("%d of %d policies compile; %d decisions, %d of them remembered; %d rules known, %d evaluated",
		compiled, *randomPrograms, compared, seen.hits.Load(), seen.known.Load(), seen.evaluated.Load())
	n := int64(*randomPrograms)
	if compiled < *randomPrograms/5 || seen.hits.Load() < n || seen.known.Load() < n {
		t.Error("the test tests too little")
	}
}

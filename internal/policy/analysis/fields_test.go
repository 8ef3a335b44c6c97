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

package analysis_test

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

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

var programs = flag.Int("programs", budget.Rounds(150), "how many random policies TestFieldsOfRandomPolicies tries")

// TestFieldsRead checks which fields the analysis finds: only the necessary ones for typical policies, and all fields
// if the necessary ones are unknown.
func TestFieldsRead(t *testing.T) {
	federation, err := os.ReadFile("../../../test/bench/fixture/federation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest placementv1.PlacementPolicy
	if err := yaml.Unmarshal(federation, &manifest); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		text        string
		input, data []string
	}{
		"Nothing": {text: "labels := {}"},
		"Field":   {text: `labels := {"a": input.metadata.labels.team}`, input: []string{".metadata.labels.team.**"}},
		"Exists":  {text: `errors contains "x" if not input.metadata.labels.team`, input: []string{".metadata.labels.team"}},
		"Local":   {text: `errors contains "x" if { m := input.metadata; l := m.labels; not l.team }`, input: []string{".metadata.labels.team"}},
		"Rule": {
			text: `meta := input.metadata
labels := meta.labels if meta.annotations.x`,
			input: []string{".metadata.annotations.x", ".metadata.labels.**"},
		},
		"Function": {
			text: `level(o) := to_number(o.metadata.labels.level)
errors contains "x" if level(input) > 2
errors contains n if level(data.kubernetes.nodes[n]) > 2`,
			input: []string{".metadata.labels.level.**"}, data: []string{".metadata.labels.level.**"},
		},
		"FunctionOfFunction": {
			text: `labels_of(o) := o.metadata.labels
team(o) := labels_of(o).team
errors contains "x" if not team(input)`,
			input: []string{".metadata.labels.team"},
		},
		"Iteration": {text: `errors contains c.name if { some c in input.spec.containers; not c.image }`, input: []string{".spec.containers.*.image", ".spec.containers.*.name.**"}},
		"Every":     {text: `errors contains "x" if every c in input.spec.containers { not c.resources.limits.cpu }`, input: []string{".spec.containers.*.resources.limits.cpu"}},
		"Names":     {text: `errors contains "x" if { some k; input.metadata.labels[k]; startswith(k, "a") }`, input: []string{".metadata.labels.*"}},
		"ObjectGet": {text: `errors contains "x" if object.get(input, ["metadata", "labels", "team"], "") == ""`, input: []string{".metadata.labels.team.**"}},
		"ObjectGetRule": {
			text: `labels_of := object.get(input.metadata, "labels", {})
errors contains "x" if labels_of.team == "a"`,
			input: []string{".metadata.labels.team.**"},
		},
		"Constant": {text: `key := "a/b"
labels := {"x": input.metadata.annotations[key]}`, input: []string{`.metadata.annotations["a/b"].**`}},
		"ComparedWithItself": {
			text:  `errors contains "x" if { n := input.metadata.name; lower(n) == n }`,
			input: []string{".metadata.name.**"},
		},
		"ComparedWithPartOfItself": {
			text: `part(x) := x.a
lower_is(x) if x == part(x)
errors contains "x" if lower_is(input.b)`,
			input: []string{".b.**"},
		},
		"ComparedInTurns": {
			text:  `errors contains "x" if { a := input.a; b := input.b; a.x == upper(b); b == lower(a.y); lower(b) == b }`,
			input: []string{".a.x.**", ".a.y.**", ".b.**"},
		},
		"Count": {text: `errors contains "x" if count(input.spec.containers) > 3`, input: []string{".spec.containers.*"}},
		"Data":  {text: `errors contains n if { some n, c in data.kubernetes.nodes; c.ready }`, data: []string{".ready"}},
		"Unused": {text: `labels := {}
helper := input.spec`},
		"CEL": {
			text:  `errors contains "x" if k8s.cel("object.spec.replicas > 2 && has(object.metadata.labels.tier)", input)`,
			input: []string{".metadata.labels.tier", ".spec.replicas.**"},
		},
		"CELBelow":    {text: `errors contains "x" if k8s.cel("object.a == 1", input.spec)`, input: []string{".spec.a.**"}},
		"CELWhole":    {text: `errors contains "x" if k8s.cel("size(object) > 2", input.spec)`, input: []string{".spec.**"}},
		"CELComputed": {text: `errors contains "x" if k8s.cel(input.text, input.spec)`, input: []string{".spec.**", ".text.**"}},
		"Whole":       {text: `errors contains "x" if input == {}`, input: []string{".**"}},
		"Argument":    {text: `errors contains "x" if json.marshal(input) == ""`, input: []string{".**"}},
		"AnyField":    {text: `errors contains "x" if { some k; input[k].b; k != "c" }`, input: []string{".*.b"}},
		"Mock": {text: `f(x) := x.a
g(x) := x.b
labels := {"a": f(input)} if f(input.c) with f as g`, input: []string{".**"}, data: []string{".**"}},
		"Federation": {
			text: strings.Replace(manifest.Spec.Rego, "package kubernetes.placement", "", 1),
			input: []string{
				`.metadata.annotations["federation.kubernetes.io/replica-set-preferences"].**`,
				`.metadata.annotations["policy.federation.alpha.kubernetes.io/eu-jurisdiction-required"].**`,
				`.metadata.annotations["policy.federation.alpha.kubernetes.io/pci-compliance-level"].**`,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := compileFor(placementv1.RegoV1, "package p\n"+tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.input, m.Input.Paths()); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.data, m.ObjectFields(analysis.Read{Plural: "nodes"}, false).Paths()); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if name == "Federation" {
				want := []string{`.metadata.labels["compliance.berth.dev/pci-level"].**`, `.metadata.labels["topology.berth.dev/jurisdiction"].**`}
				if diff := cmp.Diff(want, m.ObjectFields(analysis.Read{Plural: "clusterprofiles"}, true).Paths()); diff != "" {
					t.Errorf("cluster profiles (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// world is one object and the cluster data: data.kubernetes.pods[namespace][name], data.kubernetes.nodes[name], and
// data.clusters.
type world struct {
	input    map[string]any
	pods     map[string]any
	nodes    map[string]any
	clusters map[string]any
}

// tables returns the parts of a world's data, with their reads and whether their objects are namespaced.
func (w world) tables() []table {
	return []table{
		{w.pods, analysis.Read{Plural: "pods"}, true},
		{w.nodes, analysis.Read{Plural: "nodes"}, false},
		{w.clusters, analysis.Read{Clusters: true}, false},
	}
}

type table struct {
	objects    map[string]any
	read       analysis.Read
	namespaced bool
}

func newWorld(g *policytest.Generator) world {
	objects := func() map[string]any { return map[string]any{"a": g.Object(3), "b": g.Object(2)} }
	return world{
		input: g.Object(4), nodes: objects(), clusters: objects(),
		pods: map[string]any{"a": objects(), "b": map[string]any{"c": g.Object(2)}},
	}
}

// change returns a world in which the input, or one object in the data, differs.
func (w world) change(g *policytest.Generator) world {
	object := func(o any) any {
		if changed, ok := g.Change(o).(map[string]any); ok {
			return changed
		}
		return o
	}
	replace := func(objects map[string]any, name string) map[string]any {
		out := maps.Clone(objects)
		if o, ok := out[name]; ok {
			out[name] = object(o)
		}
		return out
	}
	switch g.Pick(6) {
	case 0:
		w.nodes = replace(w.nodes, g.Of("a", "b"))
	case 1:
		w.clusters = replace(w.clusters, g.Of("a", "b"))
	case 2:
		w.pods = map[string]any{"a": replace(w.pods["a"].(map[string]any), g.Of("a", "b")), "b": w.pods["b"]}
	default:
		w.input = object(w.input).(map[string]any)
	}
	return w
}

// cut returns the world cut to the fields that the module reads, and its key.
func (w world) cut(t testing.TB, m *policy.Module) (world, string) {
	t.Helper()
	key, ok := m.Input.AppendKey(nil, w.input)
	if !ok {
		t.Fatal("the input has no key")
	}
	project := func(f *projection.FieldSet, document any) any {
		value, err := f.Value(document)
		if err != nil {
			t.Fatal(err)
		}
		out, err := ast.JSON(value)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var cut [3]map[string]any
	for i, table := range w.tables() {
		fields := m.ObjectFields(table.read, table.namespaced)
		objects := func(in map[string]any) map[string]any {
			out := map[string]any{}
			for name, object := range in {
				out[name] = project(fields, object)
			}
			return out
		}
		cut[i] = map[string]any{}
		if !table.namespaced {
			cut[i] = objects(table.objects)
		} else {
			for namespace, in := range table.objects {
				cut[i][namespace] = objects(in.(map[string]any))
			}
		}
	}
	out := world{pods: cut[0], nodes: cut[1], clusters: cut[2]}
	out.input, _ = project(m.Input, w.input).(map[string]any)
	data, err := json.Marshal(cut)
	if err != nil {
		t.Fatal(err)
	}
	return out, string(key) + string(data)
}

var errTooLong = errors.New("evaluation takes too long")

// decider evaluates a module's rules on worlds.
type decider struct {
	// Store has the data of the current world.
	storage.Store
	query rego.PreparedEvalQuery
}

func newDecider(t testing.TB, m *policy.Module) *decider {
	t.Helper()
	d := &decider{Store: inmem.New()}
	var parts []string
	for _, rule := range m.Rules {
		parts = append(parts, fmt.Sprintf("%q: [x | x := %s.%s]", rule, m.Package, rule))
	}
	query := ast.MustParseBodyWithOpts("result := {"+strings.Join(parts, ", ")+"}", ast.ParserOptions{RegoVersion: ast.RegoV1})
	var err error
	if d.query, err = rego.New(rego.ParsedQuery(query), rego.Compiler(m.Compiler), rego.Store(d)).PrepareForEval(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// decide returns the values of the rules as JSON, or "error". The Go error is errTooLong.
func (d *decider) decide(t testing.TB, w world) (string, error) {
	t.Helper()
	d.Store = inmem.NewFromObjectWithOpts(map[string]any{
		"kubernetes": map[string]any{"pods": w.pods, "nodes": w.nodes}, "clusters": w.clusters,
		"acme": map[string]any{"a": map[string]any{"b": "c"}, "b": []any{"a", 1}, "c": "a"},
	}, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	results, err := d.query.Eval(ctx, rego.EvalInput(w.input))
	switch {
	case topdown.IsCancel(err) || ctx.Err() != nil:
		return "", errTooLong
	case err != nil:
		// The message may contain a position in the Rego. Only the failure itself is compared.
		return "error", nil
	}
	out, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), nil
}

func compileFor(version placementv1.RegoVersion, text string) (*policy.Module, error) {
	spec := policytest.WithData(policytest.SpecOf(version, text), `{"acme": {"a": {"b": "c"}, "b": ["a", 1], "c": "a"}}`)
	spec.Replicate = []placementv1.ReplicatedResource{{Resource: "pods"}, {Resource: "nodes"}}
	m, err := policy.Compile("p", spec)
	if m != nil {
		// Values that are not valid decisions can be compared, too.
		return m, nil
	}
	return m, err
}

// compare evaluates a policy on complete worlds and on worlds cut to the fields that it reads, and compares the
// results. It returns the number of worlds from which something was cut.
func compare(t testing.TB, m *policy.Module, text string, g *policytest.Generator, rounds int) int {
	t.Helper()
	d, w := newDecider(t, m), newWorld(g)
	decisions := map[string]string{}
	worlds := map[string]world{}
	cuts := 0
	describe := func(w world) string {
		out, _ := json.Marshal(map[string]any{"input": w.input, "pods": w.pods, "nodes": w.nodes, "clusters": w.clusters})
		return string(out)
	}
	for i := range rounds {
		if i > 0 {
			if w = w.change(g); g.Pick(4) == 0 {
				w = newWorld(g)
			}
		}
		cut, key := w.cut(t, m)
		want, err := d.decide(t, w)
		if err != nil {
			return cuts
		}
		got, err := d.decide(t, cut)
		if err != nil {
			return cuts
		}
		if got != want {
			t.Fatalf("decision on what is read:\n%s\nand on everything:\n%s\n%s\ninput %v\ndata %v\n%s\ncut to %s",
				got, want, text, m.Input.Paths(), m.Data.Paths(), describe(w), describe(cut))
		}
		if existing, ok := decisions[key]; ok && existing != want {
			t.Fatalf("equal keys, and decisions\n%s\nand\n%s\n%s\ninput %v\ndata %v\n%s\n%s", existing, want, text, m.Input.Paths(), m.Data.Paths(), describe(worlds[key]), describe(w))
		}
		decisions[key], worlds[key] = want, w
		if cmp.Diff(w.input, cut.input) != "" {
			cuts++
		}
	}
	return cuts
}

// program generates a policy from the bytes and compares its decisions. It reports whether the policy compiles.
func program(t testing.TB, bytes []byte, rounds int) (compiles bool, cuts int) {
	t.Helper()
	g := &policytest.Generator{Bytes: bytes}
	text := g.Policy()
	version := placementv1.RegoV1
	if g.V0 {
		version = placementv1.RegoV0
	}
	m, err := compileFor(version, text)
	if err != nil || m.Input.IsAll() {
		return false, 0
	}
	return true, compare(t, m, text, g, rounds)
}

// FuzzFields searches for a policy with a wrong analysis: its decision on the fields that it reads differs from its
// decision on everything, or two objects with the same key get different decisions. The bytes determine a policy,
// documents, and changes of the documents. See policytest.Generator. To run it for hours:
//
//	go test -run=^$ -fuzz=FuzzFields -fuzztime=4h -fuzzminimizetime=10x ./internal/policy/analysis
//
// Without -fuzzminimizetime, the fuzzer spends a minute on each of the many inputs that reach new code. It stores
// failing inputs in testdata/fuzz/FuzzFields. Add policies that were written by hand to testdata/fields. The following
// command runs random policies without the fuzzer's coverage guidance, which is much faster:
//
//	go test -run=TestFieldsOfRandomPolicies -programs=1000000 ./internal/policy/analysis
func FuzzFields(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(policytest.RandomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { program(t, bytes, 8) })
}

func TestFieldsOfRandomPolicies(t *testing.T) {
	compiled, cuts := 0, 0
	for seed := range uint64(*programs) {
		ok, n := program(t, policytest.RandomBytes(1_000+seed), 6)
		if ok {
			compiled++
		}
		cuts += n
	}
	t.Logf("%d of %d policies compile; %d worlds were cut", compiled, *programs, cuts)
	if compiled < *programs/5 || cuts < *programs/2 {
		t.Errorf("of %d policies %d compile, and %d worlds were cut: the test tests too little", *programs, compiled, cuts)
	}
}

// TestFieldsOfAdversaries checks policies that are written to hide reads from the analysis.
func TestFieldsOfAdversaries(t *testing.T) {
	files, err := filepath.Glob("testdata/fields/*.rego")
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".rego"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			version := placementv1.RegoV1
			if strings.HasSuffix(file, ".v0.rego") {
				version = placementv1.RegoV0
			}
			m, err := compileFor(version, string(text))
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(budget.Rounds(3)) {
				compare(t, m, string(text), &policytest.Generator{Bytes: policytest.RandomBytes(seed)}, 12)
			}
		})
	}
}

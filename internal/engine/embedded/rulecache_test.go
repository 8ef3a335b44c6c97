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
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/projection"
)

// ruleWorld returns an evaluator over nodes with one zone each, its data, and its observer.
func ruleWorld(t *testing.T, text string) (*evaluator, *Data, *counts) {
	t.Helper()
	seen, data := &counts{}, newWorld()
	ev, _ := prepare(t, New(data, Options{Timeout: time.Minute, Concurrency: 2, Observer: seen}), v1(text))
	return ev.(*evaluator), data, seen
}

func named(id string, more ...any) map[string]any {
	out := map[string]any{"id": id}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

const inZone = `package p
in_zone contains n if data.kubernetes.nodes[n].metadata.labels.zone == input.zone
labels := {"id": input.id}
annotations := {"nodes": in_zone}
`

// TestRuleCache verifies that the values of rules are cached for objects that were not decided before.
func TestRuleCache(t *testing.T) {
	ev, data, seen := ruleWorld(t, inZone)
	nodesOf := func(id, zone, want string) {
		t.Helper()
		d := decide(t, ev, named(id, "zone", zone))
		if d.Annotations["nodes"] != want || d.Labels["id"] != id {
			t.Errorf("%s in %s: %v, want %s", id, zone, d, want)
		}
	}
	rules := func(known, evaluated int64) {
		t.Helper()
		if seen.known.Load() != known || seen.evaluated.Load() != evaluated {
			t.Errorf("%d rules known and %d evaluated, want %d and %d", seen.known.Load(), seen.evaluated.Load(), known, evaluated)
		}
	}
	nodesOf("a", "eu-1", `["n1"]`)
	// The cacheable rules are annotations and in_zone. The rule labels reads fields that differ from object to object.
	rules(0, 3)
	nodesOf("b", "eu-1", `["n1"]`)
	rules(1, 4)
	nodesOf("c", "us-1", `["n2"]`)
	rules(1, 7)
	nodesOf("d", "us-1", `["n2"]`)
	rules(2, 8)
	moved := document("", "n2")
	moved.SetLabels(map[string]string{"zone": "eu-1"})
	data.Put(nodes.GroupVersionResource, moved)
	nodesOf("e", "eu-1", `["n1","n2"]`)
	nodesOf("f", "us-1", `[]`)
	rules(2, 14)
	nodesOf("g", "eu-1", `["n1","n2"]`)
	nodesOf("h", "us-1", `[]`)
	rules(4, 16)
	seen.want(t, 0, 8)
}

// TestRuleCacheTellsApart verifies that a cached value is not used where the rule has another value.
func TestRuleCacheTellsApart(t *testing.T) {
	tests := map[string]struct {
		text string
		// inputs are decided in this order, and compared with plain OPA.
		inputs []string
	}{
		"Undefined": {
			`a := 1 if input.a
errors contains "none" if not a
errors contains "one" if a`,
			[]string{`{}`, `{}`, `{"a": 1}`, `{"a": 1}`, `{}`, `{"a": false}`},
		},
		"False": {
			`a := input.a
errors contains "none" if not a
warnings contains sprintf("%v", [a])`,
			[]string{`{}`, `{"a": false}`, `{"a": null}`, `{"a": {}}`, `{}`, `{"a": false}`, `{"a": null}`},
		},
		"Default": {
			`default a := "none"
a := input.a
errors contains a`,
			[]string{`{}`, `{"a": "b"}`, `{}`, `{"a": "b"}`},
		},
		"With": {
			`a := input.a
errors contains sprintf("%v %v", [x, y]) if { x := a with input as {"a": "other"}; y := a }`,
			[]string{`{"a": "b"}`, `{"a": "b"}`, `{"a": "c"}`, `{"a": "b"}`},
		},
		"WithAfter": {
			`a := input.a
errors contains sprintf("%v %v", [x, y]) if { x := a; y := a with input as {"a": "other"} }`,
			[]string{`{"a": "b"}`, `{"a": "b"}`, `{"a": "other"}`, `{"a": "b"}`},
		},
		"WithData": {
			`n := count(data.kubernetes.nodes)
errors contains sprintf("%v %v", [x, n]) if { x := n with data.kubernetes.nodes as {} }`,
			[]string{`{}`, `{}`},
		},
		"WithRule": {
			`a := input.a
b := [a]
errors contains sprintf("%v %v", [x, b]) if { x := b with data.p.a as "other" }`,
			[]string{`{"a": "b"}`, `{"a": "b"}`, `{"a": "c"}`},
		},
		"WithBuiltin": {
			`n := count(data.kubernetes.nodes)
errors contains sprintf("%v %v", [x, n]) if { x := n with count as 7 }`,
			[]string{`{}`, `{}`},
		},
		// OPA finds a conflict only after it put the first value in the cache.
		"Conflict": {
			`a := 1 if input.a
a := 2 if input.b
errors contains "x" if a`,
			[]string{`{"a": true, "b": true}`, `{"a": true, "b": true}`, `{"a": true}`, `{"a": true}`, `{"a": true, "b": true}`},
		},
		"ConflictElsewhere": {
			`a := 1 if input.a
b := 1 if input.b
b := 2 if input.c
errors contains sprintf("%v %v", [a, b])`,
			[]string{`{"a": 1, "b": 1, "c": 1}`, `{"a": 1, "b": 1}`, `{"a": 1, "b": 1, "c": 1}`},
		},
		"Members": {
			`m contains x if some x in input.m
errors contains "one" if m[input.id]
errors contains "all" if count(m) > 1
warnings contains x if some x in m`,
			[]string{`{"m": ["0", "3"]}`, `{"m": ["0", "3"]}`, `{"m": ["1"]}`, `{"m": ["0", "3"]}`, `{"m": []}`},
		},
		"Objects": {
			`m[x] := y if some x, y in input.m
errors contains "one" if m[input.id] == 1
annotations := {"m": m}`,
			[]string{`{"m": {"0": 1}}`, `{"m": {"1": 1}}`, `{"m": {"0": 1, "3": 1}}`, `{"m": {"0": 1, "3": 1}}`},
		},
		"Sets": {
			`m := {1, input.m}
n := {2, input.n}
errors contains "x" if count(m & n) > 0
annotations := {"m": m | n, "n": m - n}`,
			[]string{`{"m": 2, "n": 1}`, `{"m": 2, "n": 1}`, `{"m": 2, "n": 3}`, `{"m": 3, "n": 1}`},
		},
		// The keys of two fields must not become equal by concatenation.
		"Lengths": {
			`m := [input.m, input.n]
annotations := {"m": m}`,
			[]string{`{"m": "a", "n": "bc"}`, `{"m": "a", "n": "bc"}`, `{"m": "ab", "n": "c"}`, `{"m": "ab\u0000", "n": "c"}`, `{"m": "ab", "n": "\u0000c"}`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := v1(`package p
labels := {"id": input.id}
` + tc.text)
			seen := &counts{}
			ev, m := prepare(t, New(newWorld(), Options{Timeout: time.Minute, Concurrency: 1, Observer: seen}), spec)
			for i, text := range tc.inputs {
				input := parse(t, text)
				input["id"] = fmt.Sprint(i)
				want, wantErr := oracle(t.Context(), m, []byte(static), input)
				got, err := ev.Evaluate(t.Context(), input)
				if (err != nil) != (wantErr != nil) {
					t.Fatalf("%s: error %v, by OPA %v", text, err, wantErr)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-OPA +got):\n%s", text, diff)
				}
			}
			// The rules of a text that replaces functions are not cached.
			if seen.known.Load() == 0 && m.CacheableRules != nil {
				t.Error("no rule is cached")
			}
		})
	}
}

// TestRuleCacheForAllOfTheInput verifies that a policy which reads all of the input has no decision cache, but has a
// rule cache.
func TestRuleCacheForAllOfTheInput(t *testing.T) {
	ev, _, seen := ruleWorld(t, inZone+`errors contains "x" if input == {}
`)
	for i := range 4 {
		decide(t, ev, named(fmt.Sprint(i), "zone", "eu-1"))
	}
	if seen.known.Load() == 0 {
		t.Error("no rule is remembered")
	}
}

// blindRules makes an evaluator assume that its rules read nothing of the input.
func blindRules(ev *evaluator) {
	if ev.ruleCache == nil {
		return
	}
	for i := range ev.ruleCache.sets {
		ev.ruleCache.sets[i] = (&projection.FieldSet{}).Seal()
	}
}

func TestRuleCacheIsBounded(t *testing.T) {
	table := &ruleTable{young: map[string]ruleValues{}}
	text := ast.StringTerm(string(make([]byte, 1000)))
	size, ok := prepareForSharing(text.Value, ruleCacheBytes)
	if !ok || size < 1000 || size > 1200 {
		t.Fatalf("size %d", size)
	}
	for i := range 10_000 {
		table.put(fmt.Appendf(nil, "key %d", i), 1, 0, text, size)
	}
	if held := (len(table.young) + len(table.old)) * 1000; held > 2*ruleCacheBytes || held < ruleCacheBytes/2 {
		t.Errorf("holds %d bytes", held)
	}
	table.put([]byte("big"), 1, 0, text, ruleCacheBytes)
	if table.get([]byte("big")) != nil {
		t.Error("a value is larger than the cache")
	}
	list := make([]*ast.Term, 1000)
	for i := range list {
		list[i] = text
	}
	nested := ast.NewObject([2]*ast.Term{ast.StringTerm("a"), ast.NewTerm(ast.NewSet(ast.NewTerm(ast.NewArray(list...))))})
	if _, ok := prepareForSharing(nested, ruleCacheBytes/2); ok {
		t.Error("a large value is small")
	}
	if _, ok := prepareForSharing(ast.Var("x"), ruleCacheBytes); ok {
		t.Error("a variable is a value")
	}
}

// TestRuleCacheLearnsWhatRepeats verifies that values which differ with each object are soon no longer cached, so that
// they don't evict values that repeat.
func TestRuleCacheLearnsWhatRepeats(t *testing.T) {
	var use fieldSetUse
	lookups := 0
	for range ruleRetrialLookups {
		if use.countLookup() {
			lookups++
		}
	}
	if lookups != ruleTrialLookups {
		t.Errorf("%d look-ups in vain", lookups)
	}
	for range 2 * ruleTrialLookups {
		if !use.countLookup() {
			t.Fatal("it can't show that it repeats")
		}
		use.hits.Add(1)
	}
}

// TestRuleCacheIsOfOneRevision verifies that values of an older revision are neither found nor stored.
func TestRuleCacheIsOfOneRevision(t *testing.T) {
	ev, _, _ := ruleWorld(t, inZone)
	input := named("a", "zone", "eu-1")
	later, sooner := ev.ruleCache.view(7, input), ev.ruleCache.view(6, input)
	if later == nil || sooner != nil {
		t.Fatal("a view of older data")
	}
	ref := ev.ruleCache.rules[0].ref
	later.Put(ref, ast.StringTerm("seven"))
	later.storeComputed()
	if got, _ := ev.ruleCache.view(7, input).Get(ref); got == nil || got.Value.Compare(ast.String("seven")) != 0 {
		t.Errorf("value %v", got)
	}
	if got, _ := ev.ruleCache.view(8, input).Get(ref); got != nil {
		t.Errorf("value %v of older data", got)
	}
}

// TestNothingIsNondeterministic verifies that policies can't call builtin functions whose result changes from call to
// call. Such results must not be cached.
func TestNothingIsNondeterministic(t *testing.T) {
	ev, m := prepare(t, New(newWorld(), Options{Timeout: time.Minute, Concurrency: 1}), v1(inZone))
	if ev == nil {
		t.Fatal("no evaluator")
	}
	for _, b := range m.Compiler.Capabilities().Builtins {
		if b.IsNondeterministic() {
			t.Errorf("%s is allowed", b.Name)
		}
	}
}

// TestRuleCacheIsShared runs many concurrent evaluations that read one cached value, including values that OPA sorts on
// first use.
func TestRuleCacheIsShared(t *testing.T) {
	ev, data, _ := ruleWorld(t, `package p
all := {n | data.kubernetes.nodes[n]}
odd contains n if { some n in all; endswith(n, "1") }
of[n] := {"n": {n, input.zone}} if some n in all
labels := {"id": input.id}
annotations := {"all": all & odd, "rest": all - odd, "of": of, "both": all | odd}
`)
	var objects []*unstructured.Unstructured
	for i := range 40 {
		objects = append(objects, document("", fmt.Sprintf("n%d", 97*i%40)))
	}
	data.Replace(nodes.GroupVersionResource, objects)
	want := decide(t, ev, named("0", "zone", "a")).Annotations["of"]
	done := make(chan string)
	for worker := range 8 {
		go func() {
			last := ""
			for i := range 50 {
				d, err := ev.Evaluate(t.Context(), named(fmt.Sprintf("%d-%d", worker, i), "zone", "a"))
				if err != nil {
					last = err.Error()
					break
				}
				last = d.Annotations["of"]
			}
			done <- last
		}()
	}
	for range 8 {
		if got := <-done; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if !json.Valid([]byte(want)) {
		t.Error(want)
	}
}

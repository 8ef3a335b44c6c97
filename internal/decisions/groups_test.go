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

package decisions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/berth-dev/berth/internal/decisions"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/ranking"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
)

// reader is a policy that looks up the field "read" of its input in the data.
type reader struct {
	fields   *projection.FieldSet
	revision uint64
	data     map[string]string
	// during is called during an evaluation, before and after it reads the data.
	during    func()
	evaluated int
	// chooses reports whether the policy chooses clusters by the name of the object, and nothing else depends on that.
	chooses bool
	// opened has the revisions at which the policy was evaluated, by the name.
	opened map[string]uint64
}

var errEvaluation = errors.New("no such data")

func readField() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("read")
	return f.Seal()
}

// some returns the fields that the policy reads if it does not read all.
func (r *reader) some() *projection.FieldSet {
	if r.chooses {
		return projection.Fields("read", "name")
	}
	return readField()
}

func newReader() *reader {
	return &reader{fields: readField(), revision: 1, data: map[string]string{}, opened: map[string]uint64{}}
}

func (r *reader) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	r.evaluated++
	if r.during != nil {
		r.during()
		defer r.during()
	}
	if name, _ := input["read"].(string); r.chooses {
		r.opened[name] = r.revision
	}
	return r.fresh(input)
}

func (r *reader) fresh(input map[string]any) (placement.Decision, error) {
	name, _ := input["read"].(string)
	if r.revision == 0 || r.data[name] == "error" {
		return placement.Decision{}, errEvaluation
	}
	if r.chooses {
		return r.openOf(name).Complete(pathOf(input)), nil
	}
	return placement.Decision{Annotations: map[string]string{"value": r.data[name]}}, nil
}

func pathOf(input map[string]any) string { return fmt.Sprint("ConfigMap/shop/", input["name"]) }

// Open implements placement.Chooser. What was evaluated before the data changed is not known any more.
func (r *reader) Open(input map[string]any) (open placement.OpenDecision, path string, ok bool) {
	name, _ := input["read"].(string)
	if !r.chooses || r.fields.IsAll() || r.opened[name] != r.revision || r.revision == 0 || r.data[name] == "error" {
		return nil, "", false
	}
	return r.openOf(name), pathOf(input), true
}

// OpenInput implements placement.Chooser.
func (r *reader) OpenInput() *projection.FieldSet { return projection.Fields("read") }

// openOf returns the open decision on objects that read a name.
func (r *reader) openOf(name string) *openDecision {
	value := len(r.data[name]) + int(strings.Compare(r.data[name], "2"))
	out := &openDecision{note: fmt.Sprint(r.data[name] == "3")}
	scores := map[string]int64{}
	for i := range 8 {
		if i != value {
			scores[fmt.Sprint("cluster-", i)] = int64(1 - i/6)
		}
	}
	out.list = ranking.NewList(scores, 1)
	return out
}

// openDecision chooses two clusters of a list.
type openDecision struct {
	note string
	list ranking.List
}

// Complete implements placement.OpenDecision.
func (d *openDecision) Complete(path string) placement.Decision {
	return placement.Decision{Annotations: map[string]string{"note": d.note}, Clusters: slices.Sorted(slices.Values(d.list.Best(path, 2)))}
}

// ChangesTo implements placement.OpenDecision.
func (d *openDecision) ChangesTo(later placement.OpenDecision) (concerns func(path string, clusters []string) bool, ok bool) {
	next, _ := later.(*openDecision)
	return d.list.ChangesTo(next.list, 2).Concern, d.note == next.note
}

func (r *reader) Revision() uint64            { return r.revision }
func (r *reader) Input() *projection.FieldSet { return r.fields }

// set changes the data.
func (r *reader) set(revision uint64, name, value string) {
	r.revision = revision
	r.data[name] = value
}

func policyOf(name string, r *reader) *placement.Policy {
	return &placement.Policy{Name: name, Evaluator: r}
}

func read(value string) map[string]any { return map[string]any{"read": value, "other": "x"} }

// decide does what the controller does with an object that the policies match.
func decide(t *testing.T, g *decisions.Groups, k remediation.Key, input map[string]any, policies ...*placement.Policy) []remediation.Key {
	t.Helper()
	var decided []*decisions.PolicyDecision
	for _, p := range policies {
		decision := g.Lookup(p, input)
		if !decision.Known {
			decision.Evaluated(p.Evaluator.Evaluate(t.Context(), input))
		}
		decided = append(decided, decision)
	}
	return g.Record(k, decided)
}

func sweep(t *testing.T, g *decisions.Groups, p *placement.Policy) (again []remediation.Key) {
	t.Helper()
	g.Sweep(p, func(_ string, input map[string]any) (placement.Decision, error) {
		return p.Evaluator.Evaluate(t.Context(), input)
	},
		func(keys []remediation.Key) { again = append(again, keys...) })
	return again
}

func numbered(i int) remediation.Key {
	return remediation.Key{Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespace: "shop", Name: fmt.Sprintf("web-%03d", i)}
}

// settle decides objects until none has to be decided again.
func settle(t *testing.T, g *decisions.Groups, p *placement.Policy, inputs map[remediation.Key]map[string]any) {
	t.Helper()
	queue := []remediation.Key{}
	for k := range inputs {
		queue = append(queue, k)
	}
	for n := 0; len(queue) > 0; n++ {
		if n > 10*len(inputs) {
			t.Fatal("it does not settle")
		}
		k := queue[0]
		queue = append(queue[1:], decide(t, g, k, inputs[k], p)...)
	}
}

// TestSweepDecidesEachProjectionOnce checks that a change of data causes one evaluation for each distinct projection,
// and that exactly the members of groups with a new decision are decided again.
func TestSweepDecidesEachProjectionOnce(t *testing.T) {
	g, r := decisions.NewGroups(), newReader()
	p := policyOf("p", r)
	inputs := map[remediation.Key]map[string]any{}
	for i := range 1000 {
		inputs[numbered(i)] = read(fmt.Sprint(i % 40))
	}
	settle(t, g, p, inputs)
	if r.evaluated > 80 {
		t.Errorf("%d evaluations to decide 40 distinct projections", r.evaluated)
	}
	r.evaluated = 0
	r.set(2, "7", "moved")
	again := sweep(t, g, p)
	if r.evaluated != 40 {
		t.Errorf("%d evaluations in a sweep of 40 distinct projections", r.evaluated)
	}
	if len(again) != 25 || !slices.ContainsFunc(again, func(k remediation.Key) bool { return k == numbered(7) }) {
		t.Errorf("called for %v", again)
	}
	for _, k := range again {
		if more := decide(t, g, k, inputs[k], p); len(more) > 0 {
			t.Errorf("%s calls for %v", k, more)
		}
	}
	if r.evaluated != 40 {
		t.Errorf("%d evaluations after the members were decided", r.evaluated)
	}
	if again := sweep(t, g, p); len(again) > 0 || r.evaluated != 40 {
		t.Errorf("without a change: %d evaluations, called for %v", r.evaluated, again)
	}
}

// TestSweepCallsForTheRest checks that objects in no group are decided again on each change: objects without an equal
// one, objects of policies that read everything, and failures.
func TestSweepCallsForTheRest(t *testing.T) {
	all := newReader()
	all.fields = projection.AllFields()
	missing := newReader()
	missing.revision = 0
	failing := newReader()
	failing.data["a"] = "error"
	for name, r := range map[string]*reader{"Alone": newReader(), "Whole": all, "Missing": missing, "Failing": failing} {
		t.Run(name, func(t *testing.T) {
			g, p := decisions.NewGroups(), policyOf("p", r)
			want := []remediation.Key{numbered(1)}
			decide(t, g, numbered(1), read("a"), p)
			if name != "Alone" {
				decide(t, g, numbered(2), read("a"), p)
				want = append(want, numbered(2))
			}
			r.set(9, "b", "x")
			if diff := cmp.Diff(want, sweep(t, g, p)); diff != "" {
				t.Errorf("called for (-want +got):\n%s", diff)
			}
			g.Forget(numbered(1))
			g.Forget(numbered(2))
			r.set(10, "b", "y")
			if again := sweep(t, g, p); len(again) > 0 || len(g.Members(p)) > 0 {
				t.Errorf("called for %v, which is forgotten", again)
			}
		})
	}
}

// TestSweepWhenDataIsMissingAgain checks that objects that were decided on data are decided again when the data
// disappears, even if no sweep happened between two absences.
func TestSweepWhenDataIsMissingAgain(t *testing.T) {
	g, r := decisions.NewGroups(), newReader()
	p := policyOf("p", r)
	r.revision = 0
	decide(t, g, numbered(1), read("a"), p)
	sweep(t, g, p)
	r.set(2, "a", "1")
	decide(t, g, numbered(1), read("a"), p)
	r.revision = 0
	want := []remediation.Key{numbered(1)}
	if diff := cmp.Diff(want, sweep(t, g, p)); diff != "" {
		t.Errorf("called for (-want +got):\n%s", diff)
	}
	decide(t, g, numbered(1), read("a"), p)
	if again := sweep(t, g, p); len(again) > 0 {
		t.Errorf("without a change: called for %v", again)
	}
}

// TestLookup checks that a decision is reused for equal objects as long as the data and the policy do not change.
func TestLookup(t *testing.T) {
	g, r := decisions.NewGroups(), newReader()
	p := policyOf("p", r)
	r.data["a"] = "1"
	settle(t, g, p, map[remediation.Key]map[string]any{numbered(1): read("a"), numbered(2): read("a")})
	if decision := g.Lookup(p, map[string]any{"read": "a", "other": "y"}); !decision.Known || decision.Decision.Annotations["value"] != "1" {
		t.Errorf("of the like: %+v", decision)
	}
	if g.Lookup(p, read("b")).Known {
		t.Error("of another input it is known")
	}
	if g.Lookup(policyOf("p", r), read("a")).Known {
		t.Error("of another policy it is known")
	}
	r.revision = 2
	if g.Lookup(p, read("a")).Known {
		t.Error("of older data it is known")
	}
}

// TestPolicyReadsMore checks that all objects of a policy are decided again, individually, if it turns out to read more
// fields.
func TestPolicyReadsMore(t *testing.T) {
	inputs := map[remediation.Key]map[string]any{numbered(1): read("a"), numbered(2): read("a"), numbered(3): read("b")}
	want := []remediation.Key{numbered(1), numbered(2), numbered(3)}
	byName := func(a, b remediation.Key) int { return strings.Compare(a.Name, b.Name) }
	for name, notice := range map[string]func(*decisions.Groups, *placement.Policy) []remediation.Key{
		"Sweep": func(g *decisions.Groups, p *placement.Policy) []remediation.Key { return sweep(t, g, p) },
		"Record": func(g *decisions.Groups, p *placement.Policy) []remediation.Key {
			return decide(t, g, numbered(1), read("a"), p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, r := decisions.NewGroups(), newReader()
			p := policyOf("p", r)
			settle(t, g, p, inputs)
			r.fields = projection.AllFields()
			if diff := cmp.Diff(want, slices.SortedFunc(slices.Values(notice(g, p)), byName)); diff != "" {
				t.Errorf("called for (-want +got):\n%s", diff)
			}
			if g.Lookup(p, read("a")).Known {
				t.Error("what another object was decided is known")
			}
			settle(t, g, p, inputs)
			r.set(2, "a", "x")
			if diff := cmp.Diff(want, slices.SortedFunc(slices.Values(sweep(t, g, p)), byName)); diff != "" {
				t.Errorf("then called for (-want +got):\n%s", diff)
			}
		})
	}
}

// world simulates a controller's queue, workers, and sweeper, the objects, and the policies. Their steps come in random
// order.
type world struct {
	t        *testing.T
	r        *rand.Rand
	groups   *decisions.Groups
	policies []*placement.Policy
	revision uint64
	inputs   map[remediation.Key]map[string]any
	// queued, working, and dirty are the state of a workqueue.
	queued, working, dirty map[remediation.Key]bool
	workers                []*worker
	// notified reports whether data has changed since the last sweep began.
	notified, sweeping bool
	depth              int
	// applied are the last decisions on objects, by policy.
	applied map[remediation.Key][]string
}

// worker is a reconcile in progress.
type worker struct {
	key       remediation.Key
	policies  []*placement.Policy
	input     map[string]any
	decisions []*decisions.PolicyDecision
}

func (w *world) enqueue(keys ...remediation.Key) {
	for _, k := range keys {
		if w.working[k] {
			w.dirty[k] = true
		} else {
			w.queued[k] = true
		}
	}
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func readerOf(p *placement.Policy) *reader { return p.Evaluator.(*reader) }

// change applies a random external change.
func (w *world) change() {
	k := numbered(w.r.IntN(12))
	switch w.r.IntN(12) {
	case 0:
		delete(w.inputs, k)
		w.enqueue(k)
	case 1, 2, 3:
		w.inputs[k] = read(fmt.Sprint(w.r.IntN(4)))
		w.inputs[k]["name"] = k.Name
		w.enqueue(k)
	case 4:
		// Load a new version of a policy, and decide its objects.
		i := w.r.IntN(len(w.policies))
		old := w.policies[i]
		r := &reader{fields: readerOf(old).fields, revision: readerOf(old).revision, data: readerOf(old).data, during: w.elsewhere, chooses: readerOf(old).chooses, opened: map[string]uint64{}}
		w.policies[i] = policyOf(old.Name, r)
		w.enqueue(w.groups.Members(old)...)
		for k := range w.inputs {
			w.enqueue(k)
		}
	case 5:
		r := readerOf(pick(w.r, w.policies))
		r.fields = pick(w.r, []*projection.FieldSet{projection.AllFields(), r.some()})
	default:
		r := readerOf(pick(w.r, w.policies))
		w.revision++
		r.set(w.revision, fmt.Sprint(w.r.IntN(4)), pick(w.r, []string{"1", "2", "3", "error"}))
		if w.r.IntN(8) == 0 {
			r.revision = 0
		}
		w.notified = true
	}
}

// work does a step of a reconcile.
func (w *world) work() {
	if len(w.workers) < 3 && len(w.queued) > 0 && w.r.IntN(2) == 0 {
		keys := []remediation.Key{}
		for k := range w.queued {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b remediation.Key) int { return strings.Compare(a.Name, b.Name) })
		k := pick(w.r, keys)
		delete(w.queued, k)
		w.working[k] = true
		if w.inputs[k] == nil {
			w.groups.Forget(k)
			delete(w.applied, k)
			w.done(k)
			return
		}
		w.workers = append(w.workers, &worker{key: k, input: w.inputs[k], policies: slices.Clone(w.policies)})
		return
	}
	if len(w.workers) == 0 {
		return
	}
	i := w.r.IntN(len(w.workers))
	at := w.workers[i]
	w.workers = slices.Delete(w.workers, i, i+1)
	if n := len(at.decisions); n < len(at.policies) {
		p := at.policies[n]
		decision := w.groups.Lookup(p, at.input)
		if !decision.Known {
			decision.Evaluated(p.Evaluator.Evaluate(w.t.Context(), at.input))
		}
		at.decisions = append(at.decisions, decision)
		w.workers = append(w.workers, at)
		return
	}
	w.enqueue(w.groups.Record(at.key, at.decisions)...)
	texts := []string{}
	for _, decision := range at.decisions {
		texts = append(texts, fmt.Sprint(decision.Decision, decision.Err))
	}
	w.applied[at.key] = texts
	w.done(at.key)
}

func (w *world) done(k remediation.Key) {
	delete(w.working, k)
	if w.dirty[k] {
		delete(w.dirty, k)
		w.queued[k] = true
	}
}

func (w *world) sweep() {
	if w.sweeping || !w.notified {
		return
	}
	w.sweeping, w.notified = true, false
	for _, p := range slices.Clone(w.policies) {
		w.groups.Sweep(p, func(_ string, input map[string]any) (placement.Decision, error) {
			return p.Evaluator.Evaluate(w.t.Context(), input)
		},
			func(keys []remediation.Key) { w.enqueue(keys...) })
	}
	w.sweeping = false
}

// elsewhere applies random steps of other goroutines during an evaluation.
func (w *world) elsewhere() {
	if w.depth > 2 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	for range w.r.IntN(4) {
		w.step()
	}
}

func (w *world) step() {
	switch w.r.IntN(6) {
	case 0:
		w.change()
	case 1:
		w.sweep()
	default:
		w.work()
	}
}

// TestNoDecisionIsLost applies changes of objects, data, and policies, decisions, and sweeps in random order. Once
// nothing is pending, the last decision on every object must be what its policies decide now.
func TestNoDecisionIsLost(t *testing.T) {
	for seed := range uint64(budget.Rounds(500)) {
		w := &world{
			t: t, r: rand.New(rand.NewPCG(seed, 1)), groups: decisions.NewGroups(), revision: 1,
			inputs: map[remediation.Key]map[string]any{}, queued: map[remediation.Key]bool{}, working: map[remediation.Key]bool{},
			dirty: map[remediation.Key]bool{}, applied: map[remediation.Key][]string{},
		}
		for _, name := range []string{"p", "q"} {
			r := newReader()
			r.during = w.elsewhere
			r.chooses = name == "q" && seed%2 == 0
			r.fields = r.some()
			w.policies = append(w.policies, policyOf(name, r))
		}
		for range 200 {
			w.step()
		}
		for _, p := range w.policies {
			readerOf(p).during = nil
		}
		for n := 0; len(w.queued)+len(w.workers) > 0 || w.notified; n++ {
			if n > 10_000 {
				t.Fatalf("seed %d: it does not settle", seed)
			}
			w.work()
			if len(w.workers) == 0 {
				w.sweep()
			}
		}
		for k, input := range w.inputs {
			var want []string
			for _, p := range w.policies {
				want = append(want, fmt.Sprint(readerOf(p).fresh(input)))
			}
			if diff := cmp.Diff(want, w.applied[k]); diff != "" {
				t.Fatalf("seed %d: %s was decided otherwise (-now +then):\n%s", seed, k, diff)
			}
		}
		if len(w.applied) != len(w.inputs) {
			t.Fatalf("seed %d: %d objects, %d decided", seed, len(w.inputs), len(w.applied))
		}
	}
}

// TestSweepOfChoices checks that a change of what clusters are chosen from causes one evaluation, and that exactly the objects are decided
// again that get other clusters.
func TestSweepOfChoices(t *testing.T) {
	g, r := decisions.NewGroups(), newReader()
	r.chooses, r.fields = true, projection.Fields("read", "name")
	r.set(1, "a", "1")
	p := policyOf("p", r)
	inputs := map[remediation.Key]map[string]any{}
	for i := range 500 {
		k := numbered(i)
		inputs[k] = read("a")
		inputs[k]["name"] = k.Name
	}
	settle(t, g, p, inputs)
	var want []remediation.Key
	before := r.openOf("a")
	r.set(2, "a", "22")
	for k, input := range inputs {
		if !before.Complete(pathOf(input)).Equal(r.openOf("a").Complete(pathOf(input))) {
			want = append(want, k)
		}
	}
	r.evaluated = 0
	again := sweep(t, g, p)
	byName := func(a, b remediation.Key) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(want, byName)
	slices.SortFunc(again, byName)
	if diff := cmp.Diff(want, again); diff != "" || len(want) < 50 || len(want) > 450 || r.evaluated != 1 {
		t.Fatalf("%d of %d objects get other clusters, %d evaluations, called for (-want +got):\n%s", len(want), len(inputs), r.evaluated, diff)
	}
	for _, k := range again {
		if more := decide(t, g, k, inputs[k], p); len(more) > 0 {
			t.Errorf("%s calls for %v", k, more)
		}
	}
	if again := sweep(t, g, p); len(again) > 0 {
		t.Errorf("without a change: called for %v", again)
	}
	r.set(3, "a", "error")
	if again := sweep(t, g, p); len(again) != len(inputs) {
		t.Errorf("after a failure: called for %d objects", len(again))
	}
	for k := range inputs {
		g.Forget(k)
	}
	if rest := g.Members(p); len(rest) > 0 {
		t.Errorf("%v are left", rest)
	}
}

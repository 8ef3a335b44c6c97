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
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
)

// fleetOf is a set of policies over one Data. The Data receives objects in the same way as in production: as
// projections to the fields that all policies together read.
type fleetOf struct {
	data     *Data
	engine   *Engine
	policies []*member
	// objects are the objects in the API server, by namespace and name. carried are the fields that the Data keeps.
	objects map[policy.Resource]map[string]*unstructured.Unstructured
	carried map[policy.Resource]*projection.FieldSet
}

// member is one policy of the fleet.
type member struct {
	text    string
	binding *policy.Binding
	placement.Evaluator
	plain plain
	// Store is OPA's store with the current data.
	storage.Store
	// seen is the data that the policy could see, by revision.
	seen map[uint64]string
}

var replicatedTypes = []policy.Resource{pods, nodes, managed, profiles}

func newFleet(g *policytest.Generator) *fleetOf {
	f := &fleetOf{data: NewData(), objects: map[policy.Resource]map[string]*unstructured.Unstructured{}, carried: map[policy.Resource]*projection.FieldSet{}}
	f.engine = New(f.data, Options{Timeout: time.Minute, Concurrency: 1})
	for _, r := range replicatedTypes {
		f.objects[r] = map[string]*unstructured.Unstructured{}
		for _, name := range []string{"a", "b"} {
			o := f.object(g, r, name)
			f.objects[r][o.GetNamespace()+"/"+name] = o
		}
	}
	return f
}

func (*fleetOf) object(g *policytest.Generator, r policy.Resource, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: g.Object(3)}
	o.SetName(name)
	if r.Namespaced {
		o.SetNamespace(g.Of("a", "b"))
	}
	labels := map[string]string{}
	for _, label := range []string{"a", "b", "c"} {
		if g.Pick(3) > 0 {
			labels[label] = g.Of("a", "b")
		}
	}
	o.SetLabels(labels)
	return o
}

// cut returns an object as the list-watch delivers it.
func (f *fleetOf) cut(r policy.Resource, o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	replication.Known().Prepare(r.GroupVersionResource, out)
	identity := &projection.FieldSet{}
	identity.AddName("metadata").AddName("name")
	identity.AddName("metadata").AddName("namespace")
	out.Object = projection.Union(f.carried[r], identity.Seal()).Project(out.Object)
	return out
}

// replicate does what the replication controller does after a change of the policies. Types whose fields are already
// kept are read again only if all is true.
func (f *fleetOf) replicate(all bool) {
	wanted := map[policy.Resource]*projection.FieldSet{}
	for _, p := range f.policies {
		for _, r := range p.binding.Resources {
			fields := p.binding.Fields[r.GroupVersionResource]
			if existing, ok := wanted[r]; ok {
				fields = projection.Union(existing, fields)
			}
			wanted[r] = fields
		}
	}
	for _, r := range replicatedTypes {
		fields, ok := wanted[r]
		if !ok {
			f.data.Drop(r.GroupVersionResource)
			delete(f.carried, r)
			continue
		}
		if carried, ok := f.carried[r]; ok && carried.Covers(fields) && !all {
			continue
		}
		f.carried[r] = fields
		var objects []*unstructured.Unstructured
		for _, o := range f.objects[r] {
			objects = append(objects, f.cut(r, o))
		}
		f.data.Load(r.GroupVersionResource, fields, objects)
	}
}

// add compiles a generated policy and adds it to the fleet. It returns false if the policy does not compile.
func (f *fleetOf) add(t testing.TB, g *policytest.Generator) bool {
	spec := placementv1.PlacementPolicySpec{
		RegoVersion: placementv1.RegoV1, Replicate: []placementv1.ReplicatedResource{{Resource: "pods"}, {Resource: "nodes"}},
		Data: &apiextensionsv1.JSON{Raw: []byte(ownDocuments)},
	}
	spec.Rego = g.Policy()
	if g.V0 {
		spec.RegoVersion = placementv1.RegoV0
	}
	m, err := policy.Compile("p", spec)
	if err != nil {
		return false
	}
	b, err := policy.Bind("p", m, spec.Replicate, everything)
	if err != nil {
		t.Fatal(err)
	}
	p := &member{text: spec.Rego, binding: b, Store: inmem.New(), seen: map[uint64]string{}}
	if p.Evaluator, err = f.engine.Prepare(t.Context(), "p", m, b); err != nil {
		t.Fatal(err)
	}
	query, err := ast.ParseBodyWithOpts(queryText(m), ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		t.Fatal(err)
	}
	p.plain.query, err = rego.New(rego.ParsedQuery(query), rego.Compiler(m.Compiler), rego.Store(p)).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.policies = append(f.policies, p)
	return true
}

const ownDocuments = `{"acme": {"a": {"b": "c"}, "b": ["a", 1], "c": "a"}}`

// documents returns `data` for plain OPA, with whole objects.
func (f *fleetOf) documents(t testing.TB) map[string]any {
	t.Helper()
	tables, clusters := map[string]any{}, map[string]any{}
	for _, r := range replicatedTypes {
		table := map[string]any{}
		for _, o := range f.objects[r] {
			put(table, o.GetNamespace(), o)
		}
		tables[r.Resource] = table
	}
	objectsOf := map[string]int{}
	for _, r := range []policy.Resource{managed, profiles} {
		for _, o := range f.objects[r] {
			clusters[o.GetName()], _ = replication.Known().Cluster(r.GroupVersionResource, o.Object)
			objectsOf[o.GetName()]++
		}
	}
	maps.DeleteFunc(clusters, func(name string, _ any) bool { return objectsOf[name] > 1 })
	text, err := json.Marshal(map[string]any{"kubernetes": tables, "clusters": clusters})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, source := range []string{string(text), ownDocuments} {
		if err := json.Unmarshal([]byte(source), &out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// visible returns everything that a policy can see of the objects, as text.
func (f *fleetOf) visible(t testing.TB, p *member) string {
	t.Helper()
	var out strings.Builder
	for _, r := range p.binding.Resources {
		for _, key := range slices.Sorted(maps.Keys(f.objects[r])) {
			o := f.objects[r][key].DeepCopy()
			replication.Known().Prepare(r.GroupVersionResource, o)
			value, err := p.binding.Fields[r.GroupVersionResource].Value(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %s %s\n", r.Resource, key, value)
		}
	}
	return out.String()
}

// compare compares the decisions of each policy with those of plain OPA over whole objects, and checks the policy's
// revision. It returns the number of decisions that it compared.
func (f *fleetOf) compare(t testing.TB, input map[string]any) int {
	t.Helper()
	documents := f.documents(t)
	compared := 0
	for _, p := range f.policies {
		revision, visible := p.Revision(), f.visible(t, p)
		if revision == 0 {
			t.Fatalf("data is missing:\n%s", p.text)
		}
		existing, known := p.seen[revision]
		if known && existing != visible {
			t.Fatalf("revision %d was of\n%s\nand is of\n%s\n%s", revision, existing, visible, p.text)
		}
		if last := slices.Max(append(slices.Collect(maps.Keys(p.seen)), 0)); !known && p.seen[last] == visible && last > 0 {
			t.Fatalf("what the policy sees has not changed, and its revision went from %d to %d\n%s\n%s", last, revision, visible, p.text)
		}
		p.seen[revision] = visible
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		p.Store = inmem.NewFromObjectWithOpts(documents, inmem.OptRoundTripOnWrite(false))
		query := p.plain.query
		rules, wantErr := evaluateQuery(ctx, &query, rego.EvalInput(input))
		late := ctx.Err() != nil
		cancel()
		var want placement.Decision
		if wantErr == nil {
			want, wantErr = placement.ParseDecision(rules)
		}
		got, gotErr := p.Evaluate(t.Context(), input)
		if late || errors.Is(gotErr, engine.ErrDeadline) {
			continue
		}
		compared++
		if (wantErr != nil) != (gotErr != nil) || !want.Equal(got) {
			in, _ := json.Marshal(input)
			all, _ := json.Marshal(documents)
			t.Fatalf("on projected data:\n%+v, %v\nby plain OPA on all of it:\n%+v, %v\n%s\ninput %s\ndata %s\nseen\n%s", got, gotErr, want, wantErr, p.text, in, all, visible)
		}
	}
	return compared
}

// change changes some of the objects, or the policies.
func (f *fleetOf) change(t testing.TB, g *policytest.Generator) {
	r := replicatedTypes[g.Pick(len(replicatedTypes))]
	switch g.Pick(8) {
	case 0:
		// Add a policy. The existing policies can decide all the while.
		before := len(f.policies)
		if len(f.policies) < 4 && f.add(t, g) {
			missing := f.policies[before].Revision() == 0
			if _, err := f.policies[before].Evaluate(t.Context(), map[string]any{}); missing != isNotReplicated(err) && err != nil {
				t.Fatalf("missing: %t, and %v", missing, err)
			}
			for _, p := range f.policies[:before] {
				if p.Revision() == 0 {
					t.Fatal("a policy misses data since another one came")
				}
			}
			f.replicate(false)
		}
	case 1:
		if len(f.policies) > 1 {
			f.policies = slices.Delete(f.policies, 0, 1)
			f.replicate(false)
		}
	case 2:
		f.replicate(true)
	case 3:
		name := g.Of("a", "b", "c")
		for _, namespace := range []string{"", "a", "b"} {
			delete(f.objects[r], namespace+"/"+name)
			f.data.Delete(r.GroupVersionResource, namespace, name)
		}
	default:
		o := f.object(g, r, g.Of("a", "b", "c"))
		key := o.GetNamespace() + "/" + o.GetName()
		if existing, ok := f.objects[r][key]; ok && g.Pick(4) > 0 {
			changed, ok := g.Change(existing.Object).(map[string]any)
			if !ok {
				return
			}
			changed = maps.Clone(changed)
			changed["metadata"] = o.Object["metadata"]
			o.Object = changed
		}
		f.objects[r][key] = o
		if f.carried[r] != nil {
			f.data.Put(r.GroupVersionResource, f.cut(r, o))
		}
	}
}

func isNotReplicated(err error) bool {
	var missing *engine.NotReplicatedError
	return errors.As(err, &missing)
}

// projected runs one fleet and returns the number of decisions that it compared.
func projected(t testing.TB, bytes []byte, rounds int) int {
	t.Helper()
	g := &policytest.Generator{Bytes: bytes}
	f := newFleet(g)
	for range 3 {
		f.add(t, &policytest.Generator{Bytes: g.Bytes[:min(len(g.Bytes), 800)]})
		g.Bytes = g.Bytes[min(len(g.Bytes), 800):]
	}
	if len(f.policies) == 0 {
		return 0
	}
	f.replicate(false)
	input := g.Object(3)
	compared := 0
	for range rounds {
		compared += f.compare(t, input)
		if f.change(t, g); g.Pick(2) == 0 {
			if changed, ok := g.Change(input).(map[string]any); ok {
				input = changed
			}
		}
	}
	return compared
}

// TestProjectedDataDecides verifies the decisions of several policies over the projections of objects to the fields
// that the policies read together, which change with the policies. The decisions must equal those of plain OPA over
// whole objects. Equal revisions must show equal data, and data that did not change must keep its revision.
func TestProjectedDataDecides(t *testing.T) {
	compared, seeds := 0, budget.Rounds(60)
	for seed := range uint64(seeds) {
		compared += projected(t, policytest.RandomBytes(9_000_000+seed), 12)
	}
	t.Logf("%d decisions compared", compared)
	if compared < 5*seeds {
		t.Errorf("only %d decisions were compared", compared)
	}
}

// FuzzProjectedData runs the test with random input.
func FuzzProjectedData(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(policytest.RandomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { projected(t, bytes, 12) })
}

// fieldsOf returns the fields of a type that a policy's text reads.
func fieldsOf(t testing.TB, text string, r policy.Resource) *projection.FieldSet {
	t.Helper()
	m, err := policy.Compile("p", v1(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.Bind("p", m, nil, everything)
	if err != nil {
		t.Fatal(err)
	}
	return b.Fields[r.GroupVersionResource]
}

const (
	zones = `package p
labels := {"zone": z} if z := data.kubernetes.nodes[input.spec.nodeName].metadata.labels.zone`
	beats = `package p
labels := {"beat": b} if b := data.kubernetes.nodes[input.spec.nodeName].status.beat`
	byName = `package p
labels := {"region": r} if r := data.clusters[input.spec.nodeName].region`
)

func beating(zone, beat string) *unstructured.Unstructured {
	o := document("", "n1", "status", map[string]any{"beat": beat})
	o.SetLabels(map[string]string{"zone": zone})
	return o
}

// TestHeartbeats verifies that a heartbeat outdates only the decisions of policies that read heartbeats.
func TestHeartbeats(t *testing.T) {
	data, seen := NewData(), &counts{}
	e := New(data, Options{Timeout: time.Minute, Concurrency: 1, Observer: seen})
	zone, _ := prepare(t, e, v1(zones))
	beat, _ := prepare(t, e, v1(beats))
	fields := projection.Union(fieldsOf(t, zones, nodes), fieldsOf(t, beats, nodes))
	data.Load(nodes.GroupVersionResource, fields, []*unstructured.Unstructured{beating("eu", "1")})
	input := onNode("n1", "a")
	before := zone.Revision()
	for i, step := range []struct {
		zone, beat   string
		hits, misses int64
	}{{"eu", "1", 0, 2}, {"eu", "2", 1, 1}, {"eu", "3", 1, 1}, {"us", "3", 1, 1}, {"us", "3", 2, 0}, {"eu", "4", 0, 2}} {
		hits, misses := seen.hits.Load(), seen.misses.Load()
		data.Put(nodes.GroupVersionResource, beating(step.zone, step.beat))
		if got := decide(t, zone, input).Labels["zone"]; got != step.zone {
			t.Errorf("step %d: zone %s", i, got)
		}
		if got := decide(t, beat, input).Labels["beat"]; got != step.beat {
			t.Errorf("step %d: beat %s", i, got)
		}
		if hits, misses = seen.hits.Load()-hits, seen.misses.Load()-misses; hits != step.hits || misses != step.misses {
			t.Errorf("step %d: %d hits and %d misses, want %d and %d", i, hits, misses, step.hits, step.misses)
		}
		if i == 2 && zone.Revision() != before {
			t.Error("a heartbeat changed the revision of a policy that does not read it")
		}
	}
	// A change of a field that no policy reads changes nothing.
	o := beating("eu", "4")
	o.SetAnnotations(map[string]string{"a": "b"})
	if data.Put(nodes.GroupVersionResource, o) {
		t.Error("what nobody reads counts as a change")
	}
}

// TestFieldsGrow verifies that a policy whose fields are not replicated yet waits alone, and that adding these fields
// does not affect the other policies.
func TestFieldsGrow(t *testing.T) {
	data := NewData()
	e := New(data, Options{Timeout: time.Minute, Concurrency: 1})
	zone, _ := prepare(t, e, v1(zones))
	data.Load(nodes.GroupVersionResource, fieldsOf(t, zones, nodes), []*unstructured.Unstructured{beating("eu", "1")})
	revision := zone.Revision()
	beat, _ := prepare(t, e, v1(beats))
	input := onNode("n1", "a")
	if _, err := beat.Evaluate(t.Context(), input); !isNotReplicated(err) || beat.Revision() != 0 {
		t.Errorf("revision %d of data that is not there; error %v", beat.Revision(), err)
	}
	if got := decide(t, zone, input).Labels["zone"]; got != "eu" {
		t.Errorf("zone %q", got)
	}
	all := projection.Union(fieldsOf(t, zones, nodes), fieldsOf(t, beats, nodes))
	if !data.Load(nodes.GroupVersionResource, all, []*unstructured.Unstructured{beating("eu", "1")}) {
		t.Error("more fields are no change")
	}
	if got := decide(t, beat, input).Labels["beat"]; got != "1" {
		t.Errorf("beat %q", got)
	}
	if zone.Revision() != revision || beat.Revision() <= revision {
		t.Errorf("revisions %d, was %d, and %d", zone.Revision(), revision, beat.Revision())
	}
	// Objects that changed before the load arrive with the new fields.
	data.Load(nodes.GroupVersionResource, fieldsOf(t, zones, nodes), []*unstructured.Unstructured{beating("us", "1")})
	if got := decide(t, zone, input).Labels["zone"]; got != "us" {
		t.Errorf("zone %q", got)
	}
	revision = zone.Revision()
	data.Load(nodes.GroupVersionResource, all, []*unstructured.Unstructured{beating("us", "1")})
	// A load with fewer fields makes the policy that misses them wait again.
	data.Load(nodes.GroupVersionResource, fieldsOf(t, zones, nodes), []*unstructured.Unstructured{beating("us", "1")})
	if zone.Revision() != revision || beat.Revision() != 0 {
		t.Errorf("revisions %d, was %d, and %d", zone.Revision(), revision, beat.Revision())
	}
}

// TestFormsAreKeptApart verifies that an inventory that is read only as clusters keeps no objects, and one that is read
// only as objects keeps no clusters.
func TestFormsAreKeptApart(t *testing.T) {
	o := document("", "eu", "spec", map[string]any{"x": "1"}, "status", map[string]any{"version": map[string]any{"kubernetes": "1.36"}})
	o.SetLabels(map[string]string{"topology.kubernetes.io/region": "eu"})
	replication.Known().Prepare(managed.GroupVersionResource, o)
	const objects = `package p
labels := {"x": x} if x := data.kubernetes.managedclusters[input.spec.nodeName].spec.x`
	shows := func(term *ast.Term) string {
		if term == nil {
			return ""
		}
		return term.String()
	}
	for name, tc := range map[string]struct{ text, own, normal string }{
		"Clusters": {byName, `{}`, `{"region": "eu"}`},
		"Objects":  {objects, `{"spec": {"x": "1"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			data := NewData()
			fields := fieldsOf(t, tc.text, managed)
			data.Load(managed.GroupVersionResource, fields, []*unstructured.Unstructured{{Object: fields.Project(o.Object)}})
			// The name is not among the fields.
			r, ok := data.current.Load().tables[managed.GroupVersionResource].records.Min()
			if !ok || shows(r.projected.terms[ownForm]) != tc.own || shows(r.projected.terms[normalForm]) != tc.normal {
				t.Errorf("kept %v and %v", r.projected.terms[ownForm], r.projected.terms[normalForm])
			}
		})
	}
}

// TestClustersAreOfOneVersion covers a policy that reads an inventory in two versions, of which one has the fields of
// clusters. An object that exists so far only in the other version must not appear as a cluster without these fields.
func TestClustersAreOfOneVersion(t *testing.T) {
	fleet := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1", Resource: "memberclusters"}
	older := fleet.GroupResource().WithVersion("v1beta1")
	const text = `package p
labels := {"open": concat(",", [name | some name, c in data.clusters; not c.labels.closed])}
annotations := {"older": v} if v := data.resources["cluster.kubernetes-fleet.io/v1beta1"].memberclusters.b.spec.v
`
	m, err := policy.Compile("p", v1(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.Bind("p", m, nil, served{"memberclusters": {{GroupVersionResource: fleet}, {GroupVersionResource: older}}})
	if err != nil {
		t.Fatal(err)
	}
	data := NewData()
	ev, err := New(data, Options{Timeout: time.Minute, Concurrency: 1}).Prepare(t.Context(), "p", m, b)
	if err != nil {
		t.Fatal(err)
	}
	closed := func(name string) *unstructured.Unstructured {
		o := document("", name, "spec", map[string]any{"v": "1"})
		o.SetLabels(map[string]string{"closed": "yes"})
		return o
	}
	for r, objects := range map[schema.GroupVersionResource][]*unstructured.Unstructured{fleet: {closed("a")}, older: {closed("a"), closed("b")}} {
		for _, o := range objects {
			replication.Known().Prepare(r, o)
			name := o.GetName()
			o.Object = b.Fields[r].Project(o.Object)
			o.SetName(name)
		}
		data.Load(r, b.Fields[r], objects)
	}
	d, err := ev.Evaluate(t.Context(), map[string]any{})
	if err != nil || d.Labels["open"] != "" || d.Annotations["older"] != "1" {
		t.Errorf("decides %+v, %v", d, err)
	}
}

// TestFieldSets verifies that equal field sets share one fieldSet, and that the index of an unused one is used again.
func TestFieldSets(t *testing.T) {
	data := newWorld()
	labels := func(name string) *projection.FieldSet {
		f := &projection.FieldSet{}
		f.AddName("metadata").AddName("labels").AddName(name).AddAll()
		return f.Seal()
	}
	a, again := data.fieldSetFor(nodes.GroupVersionResource, labels("a")), data.fieldSetFor(nodes.GroupVersionResource, labels("a"))
	if a != again {
		t.Error("two field sets of the same fields")
	}
	for i := range 20 {
		func() {
			l := data.fieldSetFor(nodes.GroupVersionResource, labels(fmt.Sprint(i)))
			if data.current.Load().revision(l) == 0 {
				t.Error("a field set on a table that is there has no revision")
			}
		}()
		// A collection takes long beside the data of other tests.
		if i%5 == 4 {
			heap()
		}
	}
	if n := len(data.fieldSets[nodes.GroupVersionResource]); n > 10 {
		t.Errorf("places for %d field sets", n)
	}
	before := data.current.Load().revision(a)
	if b := data.fieldSetFor(nodes.GroupVersionResource, labels("b")); data.current.Load().revision(b) == before || data.current.Load().revision(a) != before {
		t.Error("a new field set has another one's revision, or changes it")
	}
}

// TestFieldsGrowWhileRead runs readers, writers, and changes of fields and policies concurrently. A prepared and loaded
// policy must never miss its data, and must see a consistent state.
func TestFieldsGrowWhileRead(t *testing.T) {
	data := NewData()
	e := New(data, Options{Timeout: time.Minute, Concurrency: 4})
	zone, _ := prepare(t, e, v1(`package p
labels := {"zones": concat("-", sort([z | z := data.kubernetes.nodes[_].metadata.labels.zone]))}`))
	fields := fieldsOf(t, `package p
labels := {"zones": concat("-", sort([z | z := data.kubernetes.nodes[_].metadata.labels.zone]))}`, nodes)
	pair := func(n int) []*unstructured.Unstructured {
		var out []*unstructured.Unstructured
		for _, name := range []string{"a", "b"} {
			o := beating(fmt.Sprint(n), fmt.Sprint(n))
			o.SetName(name)
			out = append(out, o)
		}
		return out
	}
	data.Load(nodes.GroupVersionResource, fields, pair(0))
	var round atomic.Int64
	stop := keepReading(func() bool {
		d, err := zone.Evaluate(t.Context(), onNode("n1", fmt.Sprint(round.Load())))
		first, second, _ := strings.Cut(d.Labels["zones"], "-")
		if err != nil || first != second || first == "" {
			t.Errorf("%v, %v", d, err)
			return false
		}
		return true
	})
	for n := range budget.Rounds(150) {
		round.Store(int64(n))
		beat, _ := prepare(t, e, v1(beats))
		grown := fields
		if n%2 == 0 {
			grown = projection.Union(fields, fieldsOf(t, beats, nodes))
		}
		data.Load(nodes.GroupVersionResource, grown, pair(n))
		if _, err := beat.Evaluate(t.Context(), onNode("a", "x")); isNotReplicated(err) == (n%2 == 0) {
			t.Errorf("round %d: %v", n, err)
		}
		data.Put(pods.GroupVersionResource, document("x", "p"))
		if n%10 == 0 {
			data.Drop(pods.GroupVersionResource)
			data.Load(pods.GroupVersionResource, projection.AllFields(), nil)
		}
	}
	stop()
}

// TestSecretsAreNotKept verifies that the confidential parts of Secrets are not kept in memory, even if a policy reads
// all fields.
func TestSecretsAreNotKept(t *testing.T) {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	o := document("x", "s", "data", map[string]any{"password": "aHVudGVyMg=="}, "stringData", map[string]any{"password": "hunter2"}, "type", "Opaque")
	o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "a": "b"})
	o.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "hunter2"}}
	replication.Known().Prepare(secrets, o)
	data := NewData()
	data.Load(secrets, projection.AllFields(), []*unstructured.Unstructured{o})
	whole := data.current.Load().tables[secrets].documents[ownForm]().String()
	if want := `{"x": {"s": {"metadata": {"annotations": {"a": "b"}, "name": "s", "namespace": "x"}, "type": "Opaque"}}}`; whole != want {
		t.Errorf("kept %s, want %s", whole, want)
	}
}

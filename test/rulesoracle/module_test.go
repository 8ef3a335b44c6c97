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

package rulesoracle

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
)

var (
	sets = flag.Int("sets", budget.Rounds(100), "how many sets of rules are compared")
	seed = flag.Uint64("seed", 1, "seed of the first set of rules; the others have the next ones")
)

// Objects and lists of clusters for each set of rules.
const (
	objectsOfSet  = 5
	clustersOfSet = 3
)

// inventory maps the resource type of the inventories to how their objects represent clusters: a document of data.clusters is at
// "document".
func inventory(resource string) replication.Declaration {
	return replication.Declaration{Group: "fleet.example.com", Version: "v1", Resource: resource, Fields: replication.DeclaredFields{
		Labels: "document.labels", Properties: "document.properties", Taints: "document.taints", Region: "document.region",
		Zones: "document.zones", Provider: "document.provider", Version: "document.version", Allocatable: "document.allocatable",
		Allocated: "document.allocated", Ready: &replication.DeclaredReady{Field: "document.ready"},
	}}
}

// served has the types that policies read.
type served struct {
	inventories *replication.Inventories
}

var namespaceResource = policy.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces")}

var scoresResource = policy.Resource{GroupVersionResource: replication.AddOnPlacementScores, Namespaced: true}

func newServed(t *testing.T) served {
	t.Helper()
	inventories, errs := replication.NewInventories(nil, inventory("sites"), inventory("halls"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return served{inventories}
}

func resourceOf(source string) schema.GroupVersionResource {
	return schema.ParseGroupResource(source).WithVersion("v1")
}

func (s served) ByPlural(plural string) []policy.Resource {
	if plural == "namespaces" {
		return []policy.Resource{namespaceResource}
	}
	return nil
}

func (s served) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	for _, one := range []policy.Resource{namespaceResource, scoresResource} {
		if r == one.GroupVersionResource {
			return one, true
		}
	}
	return policy.Resource{GroupVersionResource: r, Namespaced: true}, r.Group == "fleet.example.com"
}

func (s served) Inventories() *replication.Inventories { return s.inventories }

// module is a compiled set of rules with the data that it reads.
type module struct {
	served
	data      *embedded.Data
	engine    *embedded.Engine
	uses      *cacheUses
	binding   *policy.Binding
	evaluator placement.Evaluator
}

func newModule(t *testing.T, s served, rules []placementv1.Rule) (*module, error) {
	t.Helper()
	out := &module{served: s, data: embedded.NewData(), uses: &cacheUses{}}
	out.engine = embedded.New(out.data, embedded.Options{Timeout: time.Minute, Concurrency: 2, Observer: out.uses})
	var err error
	out.evaluator, out.binding, err = out.prepare(t, rules)
	return out, err
}

// prepare returns the evaluator of rules on the data of the module.
func (m *module) prepare(t *testing.T, rules []placementv1.Rule) (placement.Evaluator, *policy.Binding, error) {
	t.Helper()
	compiled, err := policy.Compile("p", placementv1.PlacementPolicySpec{Rules: rules})
	if err != nil {
		return nil, nil, err
	}
	b, err := policy.Bind("p", compiled, nil, m.served)
	if err != nil {
		return nil, nil, err
	}
	if len(b.Missing) > 0 {
		t.Fatalf("the module reads %v", b.Missing)
	}
	evaluator, err := m.engine.Prepare(t.Context(), "p", compiled, b)
	return evaluator, b, err
}

// load replaces what the module reads. The objects are loaded in the order of the names.
func (m *module) load(t *testing.T, namespaces map[string]map[string]string, clusters map[string]map[string]any, order []string) {
	t.Helper()
	objects := map[schema.GroupVersionResource][]*unstructured.Unstructured{}
	for name, set := range namespaces {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		o.SetName(name)
		o.SetLabels(set)
		objects[namespaceResource.GroupVersionResource] = append(objects[namespaceResource.GroupVersionResource], o)
	}
	for _, o := range m.objects(t, clusters, order) {
		resource := resourceOf(o.Object["document"].(map[string]any)["source"].(string))
		objects[resource] = append(objects[resource], o)
	}
	for _, name := range order {
		resource := scoresResource.GroupVersionResource
		objects[resource] = append(objects[resource], scoresOf(clusters[name])...)
	}
	for _, r := range m.binding.Resources {
		for i, o := range objects[r.GroupVersionResource] {
			objects[r.GroupVersionResource][i] = o.DeepCopy()
			m.inventories.Prepare(r.GroupVersionResource, objects[r.GroupVersionResource][i])
		}
		m.data.Load(r.GroupVersionResource, m.binding.Fields[r.GroupVersionResource], objects[r.GroupVersionResource])
	}
}

// objects returns the objects of the inventories that represent clusters, in the order of the names.
func (s served) objects(t *testing.T, clusters map[string]map[string]any, order []string) (out []*unstructured.Unstructured) {
	t.Helper()
	var documents []map[string]any
	for _, name := range order {
		document := maps.Clone(clusters[name])
		if twin, ok := document[Twin].(map[string]any); ok {
			twin = maps.Clone(twin)
			delete(twin, addOnScores)
			documents = append(documents, twin)
			delete(document, Twin)
		}
		documents = append(documents, document)
	}
	for _, document := range documents {
		document = maps.Clone(document)
		delete(document, addOnScores)
		meta := map[string]any{"name": document["name"], "annotations": document["annotations"]}
		if document["namespace"] != "" {
			meta["namespace"] = document["namespace"]
		}
		if document["terminating"] == true {
			meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}
		resource := resourceOf(document["source"].(string))
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "fleet.example.com/v1", "kind": kindOf[resource.Resource], "metadata": meta, "document": document}}
		if read, _ := s.inventories.Cluster(resource, o.Object); !cmp.Equal(read, document) {
			t.Fatalf("the inventory reads another cluster: %s", cmp.Diff(document, read))
		}
		out = append(out, o)
	}
	return out
}

// kindOf are the kinds of the objects of the inventories, by plural.
var kindOf = map[string]string{"sites": "Site", "halls": "Hall"}

// scoresOf returns the AddOnPlacementScores of a cluster.
func scoresOf(document map[string]any) (out []*unstructured.Unstructured) {
	scores, _ := document[addOnScores].(map[string]any)
	byObject := map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		object, score, _ := strings.Cut(name, "/")
		byObject[object] = append(byObject[object], map[string]any{"name": score, "value": scores[name]})
	}
	for _, object := range slices.Sorted(maps.Keys(byObject)) {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": scoresResource.GroupVersion().String(), "kind": "AddOnPlacementScore", "status": map[string]any{"scores": byObject[object]},
		}}
		o.SetName(object)
		o.SetNamespace(document["name"].(string))
		out = append(out, o)
	}
	return out
}

// example is a set of rules and what they decide.
type example struct {
	rules      []placementv1.Rule
	namespaces map[string]map[string]string
	objects    []map[string]any
	clusters   []map[string]map[string]any
	nodes      []Node
}

func newExample(seed uint64) example {
	g := NewGenerator(seed)
	out := example{rules: g.Rules(), namespaces: g.Namespaces(), nodes: g.Nodes()}
	for range objectsOfSet {
		out.objects = append(out.objects, g.Object())
	}
	for range clustersOfSet {
		out.clusters = append(out.clusters, g.Clusters())
	}
	return out
}

// decide returns the oracle's decision.
func (e example) decide(object map[string]any, clusters map[string]map[string]any) Decision {
	return Decide(e.rules, object, e.namespaces[metadataText(object, "namespace")], clusters)
}

// print returns a text of what was decided, for failures.
func (e example) print(object map[string]any, clusters map[string]map[string]any) string {
	text, _ := yaml.Marshal(e.rules)
	for _, part := range []any{e.namespaces, object} {
		line, _ := json.Marshal(part)
		text = append(append(text, line...), '\n')
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		line, _ := json.Marshal(clusters[name])
		text = append(append(text, line...), '\n')
	}
	return string(text)
}

// TestModules compares the compiled modules with the oracle.
func TestModules(t *testing.T) {
	s := newServed(t)
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newExample(seed)
		m, err := newModule(t, s, e.rules)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, e.print(nil, nil))
		}
		for _, clusters := range e.clusters {
			m.load(t, e.namespaces, clusters, slices.Sorted(maps.Keys(clusters)))
			for _, object := range e.objects {
				want := e.decide(object, clusters)
				got, err := m.evaluator.Evaluate(t.Context(), object)
				if diff := e.differs(t, object, want, got, err); diff != "" {
					t.Fatalf("seed %d: %s\n%s", seed, diff, e.print(object, clusters))
				}
			}
		}
	})
}

// TestRenamedObjects compares the compiled modules with the oracle for objects that differ in what clusters are chosen by: the engine
// remembers the rest of the decision for them.
func TestRenamedObjects(t *testing.T) {
	s := newServed(t)
	var found, evaluated atomic.Int64
	t.Run("Seeds", func(t *testing.T) {
		forEachSeed(t, func(t *testing.T, seed uint64) {
			e := newExample(seed)
			m, err := newModule(t, s, e.rules)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, e.print(nil, nil))
			}
			m.load(t, e.namespaces, e.clusters[0], slices.Sorted(maps.Keys(e.clusters[0])))
			for _, original := range e.objects {
				for i := range 4 {
					object := renamed(original, i)
					want := e.decide(object, e.clusters[0])
					got, err := m.evaluator.Evaluate(t.Context(), object)
					if diff := e.differs(t, object, want, got, err); diff != "" {
						t.Fatalf("seed %d: %s\n%s", seed, diff, e.print(object, e.clusters[0]))
					}
				}
			}
			found.Add(int64(m.uses.found))
			evaluated.Add(int64(m.uses.evaluated))
		})
	})
	if found.Load() < evaluated.Load()/4 {
		t.Errorf("%d decisions were found, and %d evaluated", found.Load(), evaluated.Load())
	}
}

// renamed returns an object with another name, and with other names of its owners.
func renamed(object map[string]any, i int) map[string]any {
	out := runtime.DeepCopyJSON(object)
	meta, _ := out["metadata"].(map[string]any)
	for _, name := range []string{"name", "generateName"} {
		if text, ok := meta[name].(string); ok {
			meta[name] = fmt.Sprintf("%s%d", text, i)
		}
	}
	references, _ := meta["ownerReferences"].([]any)
	for _, reference := range references {
		owner, _ := reference.(map[string]any)
		owner["name"] = fmt.Sprintf("v%d-%s", i, owner["name"])
	}
	return out
}

// forEachSeed calls test with each seed, on all processors. Each ends at its first failure.
func forEachSeed(t *testing.T, test func(t *testing.T, seed uint64)) {
	processors := uint64(goruntime.GOMAXPROCS(0))
	for first := range processors {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			for n := first; n < uint64(*sets); n += processors {
				test(t, *seed+n)
			}
		})
	}
}

// differs returns how a module's decision differs from the oracle's; empty if it does not.
func (e example) differs(t *testing.T, object map[string]any, want Decision, got placement.Decision, err error) string {
	t.Helper()
	invalid := want.Undecidable
	for _, value := range want.Labels {
		invalid = invalid || len(validation.IsValidLabelValue(value)) > 0
	}
	switch {
	case invalid && err != nil:
		return ""
	case invalid:
		return "the module decides what can't be decided"
	case err != nil:
		return err.Error()
	}
	// The engine may return the same decision again.
	got.Scheduling = maps.Clone(got.Scheduling)
	affinity, selectors := got.Scheduling[podscheduling.Affinity], takeSelectors(t, got.Scheduling)
	delete(got.Scheduling, podscheduling.Affinity)
	if want := expected(t, want); !want.Equal(got) {
		return cmp.Diff(want, got)
	}
	i := slices.IndexFunc(e.rules, func(r placementv1.Rule) bool {
		return r.Name == want.Rule && r.Candidates == placementv1.RuleCandidatesNodes
	})
	if i < 0 || want.Errors != nil {
		if affinity != "" {
			return "the module gives an affinity"
		}
		return ""
	}
	if diff := selectorsDiffer(t, selectors, object); diff != "" {
		return diff
	}
	return affinityDiffers(t, &e.rules[i], object, affinity, e.nodes)
}

// expected returns the oracle's decision in the form of the modules.
func expected(t *testing.T, d Decision) placement.Decision {
	t.Helper()
	out := placement.Decision{Annotations: maps.Clone(d.Annotations), Labels: d.Labels, Clusters: d.Clusters, Errors: d.Errors, Warnings: d.Warnings, Rule: d.Rule}
	if d.Shares != nil {
		shares := map[string]map[string]int64{}
		for name, weight := range d.Shares {
			shares[name] = map[string]int64{"weight": weight}
		}
		text, err := json.Marshal(shares)
		if err != nil {
			t.Fatal(err)
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[placementv1.ClusterSharesAnnotation] = string(text)
	}
	var err error
	if out.Scheduling, err = podscheduling.Flatten(d.Scheduling); err != nil {
		t.Fatal(err)
	}
	return out
}

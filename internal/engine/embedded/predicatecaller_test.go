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
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/replication"
)

// ownPredicate is a predicate whose results a test chooses.
type ownPredicate func(ctx context.Context, node string) *fwk.Status

const ownName = "Own"

func (ownPredicate) Name() string { return ownName }

func (p ownPredicate) Filter(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	return p(ctx, info.Node().Name)
}

// judgedWorld is an engine with predicates, together with the nodes and pods that they are evaluated on.
type judgedWorld struct {
	*Engine
	nodes *predicates.NodeCache
	seen  *counts
	// asked counts the calls of the test's own predicate, and says is its implementation.
	asked atomic.Int64
	says  atomic.Pointer[ownPredicate]
}

// newJudgedWorld returns a world with the clusters eu, us, and down, the nodes a and b, and no pods. Node a has 4 CPUs,
// and b has 2 CPUs and a taint.
func newJudgedWorld(t testing.TB, whitelist ...string) *judgedWorld {
	t.Helper()
	w := &judgedWorld{nodes: predicates.NewNodeCache(), seen: &counts{}}
	registry, err := predicates.NewRegistry(predicates.Predicate{
		Name: ownName, Candidates: predicates.Nodes | predicates.Clusters, Local: true,
		New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return ownPredicate(func(ctx context.Context, node string) *fwk.Status {
				w.asked.Add(1)
				if says := w.says.Load(); says != nil {
					return (*says)(ctx, node)
				}
				return nil
			}), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(whitelist) == 0 {
		whitelist = nil
	}
	set, err := registry.New(whitelist)
	if err != nil {
		t.Fatal(err)
	}
	data := NewData()
	data.Replace(profiles.GroupVersionResource, nil)
	var inventory []*unstructured.Unstructured
	for _, text := range []string{
		`{metadata: {name: eu, labels: {tier: gold}}, spec: {}, status: {allocatable: {cpu: "10"}, conditions: [{type: ManagedClusterConditionAvailable, status: "True"}]}}`,
		`{metadata: {name: us, labels: {tier: base}}, spec: {taints: [{key: closed, effect: NoSelect}]}, status: {allocatable: {cpu: "10"}, conditions: [{type: ManagedClusterConditionAvailable, status: "True"}]}}`,
		`{metadata: {name: down, labels: {tier: base}}, spec: {}, status: {allocatable: {cpu: "10"}}}`,
	} {
		inventory = append(inventory, readObject(t, text))
	}
	data.Replace(managed.GroupVersionResource, inventory)
	w.Engine = New(data, Options{Timeout: time.Minute, Concurrency: 2, Observer: w.seen, Predicates: set, World: w.nodes})
	w.load(t, "nodes", `{metadata: {name: a, labels: {disk: ssd}}, status: {allocatable: {cpu: "4", pods: "10"}}}`,
		`{metadata: {name: b, labels: {disk: hdd}}, spec: {taints: [{key: closed, effect: NoSchedule}]}, status: {allocatable: {cpu: "2", pods: "10"}}}`)
	w.load(t, "pods")
	w.load(t, "namespaces")
	return w
}

func readObject(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// load sets the complete content of a type.
func (w *judgedWorld) load(t testing.TB, plural string, texts ...string) {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, text := range texts {
		objects = append(objects, readObject(t, text))
	}
	w.nodes.Load(corev1.SchemeGroupVersion.WithResource(plural), objects)
}

func (w *judgedWorld) put(t testing.TB, plural, text string) {
	t.Helper()
	w.nodes.Put(corev1.SchemeGroupVersion.WithResource(plural), readObject(t, text))
}

// web is a Deployment of 3 pods with 1 CPU each.
const web = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web, resources: {requests: {cpu: "1"}}}]}}}}`

func input(t testing.TB, text string) map[string]any { return readObject(t, text).Object }

// verdict is the result for one candidate as policies see it.
type verdict struct {
	Feasible   bool     `json:"feasible"`
	Reasons    []string `json:"reasons"`
	Predicate  string   `json:"predicate"`
	Preemption bool     `json:"preemption"`
	Replicas   int      `json:"replicas"`
}

func fits(replicas int) verdict {
	return verdict{Feasible: true, Reasons: []string{}, Replicas: replicas}
}

func TestFeasible(t *testing.T) {
	tainted := verdict{Reasons: []string{"node(s) had untolerated taint(s)"}, Predicate: "TaintToleration"}
	pod := `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: c, image: c, resources: {requests: {cpu: "3"}}}], tolerations: [{operator: Exists}]}}`
	cpu := verdict{Reasons: []string{"Insufficient cpu"}, Predicate: "NodeResourcesFit"}
	tests := map[string]struct {
		call, input string
		want        map[string]verdict
	}{
		"All":           {`k8s.feasible(input, "*")`, web, map[string]verdict{"a": fits(3), "b": tainted}},
		"Pod":           {`k8s.feasible(input, "*")`, pod, map[string]verdict{"a": fits(1), "b": cpu}},
		"BareTemplate":  {`k8s.feasible(input.spec.template, "*")`, web, map[string]verdict{"a": fits(1), "b": tainted}},
		"MadeUp":        {`k8s.feasible({"spec": {"containers": [], "tolerations": [{"operator": "Exists"}]}}, ["b"])`, web, map[string]verdict{"b": fits(1)}},
		"Names":         {`k8s.feasible(input, ["b", "a", "b"])`, web, map[string]verdict{"a": fits(3), "b": tainted}},
		"SetOfNames":    {`k8s.feasible(input, {"b"})`, web, map[string]verdict{"b": tainted}},
		"NoNames":       {`k8s.feasible(input, [])`, web, map[string]verdict{}},
		"NoNamesInASet": {`k8s.feasible(input, set())`, web, map[string]verdict{}},
		"Selector":      {`k8s.feasible(input, {"matchLabels": {"disk": "ssd"}})`, web, map[string]verdict{"a": fits(3)}},
		"Expressions":   {`k8s.feasible(input, {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]})`, web, map[string]verdict{"b": tainted}},
		"EmptySelector": {`k8s.feasible(input, {})`, web, map[string]verdict{"a": fits(3), "b": tainted}},
		"Changed":       {`k8s.feasible(object.union(input, {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}), "*")`, web, map[string]verdict{"a": fits(3), "b": fits(2)}},
		"InAHelper":     {"f(input)", web, map[string]verdict{"a": fits(3), "b": tainted}},
		"InComprehension": {
			`{n: v | some n, v in k8s.feasible(input, "*"); v.feasible}`, web, map[string]verdict{"a": fits(3)},
		},
		"Clusters":           {`k8s.feasible_clusters(input, 20, "*")`, web, map[string]verdict{"eu": fits(10), "us": tainted, "down": tainted}},
		"ClustersByName":     {`k8s.feasible_clusters(input.spec.template, 2, ["eu"])`, web, map[string]verdict{"eu": fits(2)}},
		"ClustersBySelector": {`k8s.feasible_clusters(input, 1, {"matchLabels": {"tier": "base"}})`, web, map[string]verdict{"us": tainted, "down": tainted}},
	}
	for name, tc := range tests {
		for _, version := range []placementv1.RegoVersion{placementv1.RegoV1, placementv1.RegoV0} {
			t.Run(name+"/"+string(version), func(t *testing.T) {
				w := newJudgedWorld(t)
				spec := v1(`package p
import rego.v1
f(x) := k8s.feasible(x, "*")
annotations := {"got": ` + tc.call + "}")
				if version == placementv1.RegoV0 {
					spec = v1(`package p
import future.keywords
f(x) = k8s.feasible(x, "*")
annotations = {"got": ` + tc.call + "}")
					spec.RegoVersion = version
				}
				ev, _ := prepare(t, w.Engine, spec)
				d := decide(t, ev, input(t, tc.input))
				var got map[string]verdict
				if err := json.Unmarshal([]byte(d.Annotations["got"]), &got); err != nil {
					t.Fatal(err)
				}
				// Whether preemption could help is tested with the predicates.
				for name, v := range got {
					v.Preemption = false
					got[name] = v
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("verdicts (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestNamesThatThereAreNot(t *testing.T) {
	w := newJudgedWorld(t)
	ev, _ := prepare(t, w.Engine, v1(`package p
annotations := {"nodes": k8s.feasible(input, ["nowhere"]), "clusters": k8s.feasible_clusters(input, 1, {"nowhere"})}`))
	d := decide(t, ev, input(t, web))
	for _, key := range []string{"nodes", "clusters"} {
		var got map[string]verdict
		if err := json.Unmarshal([]byte(d.Annotations[key]), &got); err != nil {
			t.Fatal(err)
		}
		if v, ok := got["nowhere"]; !ok || v.Feasible || len(v.Reasons) != 1 || v.Predicate != "" {
			t.Errorf("%s: %+v", key, got)
		}
	}
}

// TestCallsThatAreRefused verifies that a call with invalid operands ends the evaluation, however the policy uses the
// call.
func TestCallsThatAreRefused(t *testing.T) {
	tests := map[string]struct{ call, want string }{
		"NoObject":         {`k8s.feasible(input.metadata.name, "*")`, "operand 1 (pod_or_template): must be an object"},
		"NoTemplate":       {`k8s.feasible({"metadata": {}}, "*")`, "operand 1 (pod_or_template): spec is missing"},
		"NoWorkload":       {`k8s.feasible({"apiVersion": "v1", "kind": "ConfigMap"}, "*")`, "operand 1 (pod_or_template): ConfigMap has no pod template"},
		"OneName":          {`k8s.feasible(input, "a")`, `operand 2 (nodes): must be "*", an array or a set of names, or a label selector`},
		"NumberAsName":     {`k8s.feasible(input, [input.spec.replicas])`, `operand 2 (nodes): must be "*"`},
		"Null":             {`k8s.feasible(input, input.none)`, `operand 2 (nodes): must be "*"`},
		"UnknownField":     {`k8s.feasible(input, {"matchLabel": {}})`, `operand 2 (nodes): must be "*"`},
		"UnknownOperator":  {`k8s.feasible(input, {"matchExpressions": [{"key": "a", "operator": "Is"}]})`, `operand 2 (nodes): "Is" is not a valid label selector operator`},
		"NoReplicas":       {`k8s.feasible_clusters(input, 0, "*")`, "operand 2 (replicas): must be a whole number from 1 to 2147483647, and is 0"},
		"HalfAReplica":     {`k8s.feasible_clusters(input, 1.5, "*")`, "operand 2 (replicas): must be"},
		"TooManyReplicas":  {`k8s.feasible_clusters(input, 2147483648, "*")`, "operand 2 (replicas): must be"},
		"ClusterByNumber":  {`k8s.feasible_clusters(input, 1, [input.spec.replicas])`, `operand 3 (clusters): must be "*"`},
		"TooLargeAnObject": {`k8s.feasible({"spec": {"x": numbers.range(1, 600000), "y": numbers.range(1, 600000)}}, "*")`, "operand 1 has"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newJudgedWorld(t)
			ev, _ := prepare(t, w.Engine, v1(`package p
x := `+tc.call+`
errors contains "none" if not x`))
			object := input(t, web)
			object["none"] = nil
			_, err := ev.Evaluate(t.Context(), object)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

// TestTypesOfCalls verifies that wrong uses of a call's result are found when the policy is compiled.
func TestTypesOfCalls(t *testing.T) {
	for text, want := range map[string]string{
		`x := k8s.feasible(input, "*").a.feasable`:     "undefined ref",
		`x := k8s.feasible(input, 1)`:                  "invalid argument",
		`x := k8s.feasible("web", "*")`:                "invalid argument",
		`x := k8s.feasible(input)`:                     "arity mismatch",
		`x := k8s.feasible_clusters(input, "1", "*")`:  "invalid argument",
		`x := k8s.feasible(input, "*").a.replicas + 1`: "",
	} {
		_, err := policy.Compile("p", v1(`package p
errors contains "x" if x
`+text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func filtered(candidates placementv1.PredicateCandidates, text string, names ...string) placementv1.PlacementPolicySpec {
	return placementv1.PlacementPolicySpec{
		Rego: text, RegoVersion: placementv1.RegoV1, Predicates: &placementv1.Predicates{Candidates: candidates, Names: names},
	}
}

// TestPredicatesFail verifies that no object is admitted because predicates can't be evaluated.
func TestPredicatesFail(t *testing.T) {
	policies := map[string]placementv1.PlacementPolicySpec{
		"Call": v1(`package p
x := k8s.feasible(input, "*")
errors contains "none" if count(x) == 0`),
		"Clusters": v1(`package p
x := k8s.feasible_clusters(input, 1, "*")
errors contains "none" if count(x) == 0`),
		"Filter":           filtered(placementv1.PredicateCandidatesNodes, ""),
		"FilterOfClusters": filtered(placementv1.PredicateCandidatesClusters, ""),
	}
	plugin := func(err error) bool {
		e, ok := errors.AsType[*predicates.PluginError](err)
		return ok && e.Predicate == ownName
	}
	tests := map[string]struct {
		breaks func(t *testing.T, w *judgedWorld) context.Context
		is     func(error) bool
		nodes  bool
	}{
		"PluginError": {
			breaks: func(t *testing.T, w *judgedWorld) context.Context {
				w.says.Store(new(ownPredicate(func(context.Context, string) *fwk.Status { return fwk.AsStatus(errors.New("broken")) })))
				return t.Context()
			},
			is: plugin,
		},
		"Panic": {
			breaks: func(t *testing.T, w *judgedWorld) context.Context {
				w.says.Store(new(ownPredicate(func(context.Context, string) *fwk.Status { panic("broken") })))
				return t.Context()
			},
			is: plugin,
		},
		"Deadline": {
			breaks: func(t *testing.T, w *judgedWorld) context.Context {
				ctx, cancel := context.WithCancel(t.Context())
				w.says.Store(new(ownPredicate(func(ctx context.Context, _ string) *fwk.Status {
					cancel()
					<-ctx.Done()
					return nil
				})))
				return ctx
			},
			is: func(err error) bool { return errors.Is(err, engine.ErrDeadline) },
		},
		"Incomplete": {
			breaks: func(t *testing.T, w *judgedWorld) context.Context {
				w.nodes.Drop(corev1.SchemeGroupVersion.WithResource("pods"))
				return t.Context()
			},
			is: func(err error) bool {
				e, ok := errors.AsType[*engine.NotReplicatedError](err)
				return ok && e.Data == "pods"
			},
			nodes: true,
		},
		"NoPredicates": {
			breaks: func(t *testing.T, w *judgedWorld) context.Context {
				w.Predicates = nil
				return t.Context()
			},
			is: func(err error) bool { return errors.Is(err, errNoPredicates) },
		},
		"NoWorld": {
			breaks: func(t *testing.T, w *judgedWorld) context.Context {
				w.World = nil
				return t.Context()
			},
			is:    func(err error) bool { return errors.Is(err, errNoNodes) },
			nodes: true,
		},
	}
	for name, tc := range tests {
		for about, spec := range policies {
			if tc.nodes && strings.Contains(about, "Clusters") {
				continue
			}
			t.Run(name+"/"+about, func(t *testing.T) {
				w := newJudgedWorld(t)
				ctx := tc.breaks(t, w)
				ev, _ := prepare(t, w.Engine, spec)
				if d, err := ev.Evaluate(ctx, input(t, web)); err == nil || !tc.is(err) {
					t.Errorf("decision %+v, error %v", d, err)
				}
			})
		}
	}
}

func TestCallsAreBounded(t *testing.T) {
	text := `package p
labels := {"n": sprintf("%%d", [count([x | some i in numbers.range(1, %d); x := k8s.feasible({"metadata": {"labels": {"i": sprintf("%%d", [i %% %d])}}, "spec": {}}, "*")])])}`
	w := newJudgedWorld(t)
	ev, _ := prepare(t, w.Engine, v1(fmt.Sprintf(text, maxPredicateCalls+1, maxPredicateCalls)))
	if got := decide(t, ev, input(t, web)).Labels["n"]; got != "1001" {
		t.Errorf("%s results", got)
	}
	ev, _ = prepare(t, w.Engine, v1(fmt.Sprintf(text, maxPredicateCalls+1, maxPredicateCalls+1)))
	_, err := ev.Evaluate(t.Context(), input(t, web))
	if limit, ok := errors.AsType[*engine.LimitError](err); !ok || limit.Limit != maxPredicateCalls {
		t.Errorf("error %v", err)
	}
}

// TestOneWorldForOneEvaluation verifies that all calls of an evaluation see one snapshot, even if the nodes change
// meanwhile, and that the next evaluation sees the next snapshot. That includes calls with constant operands.
func TestOneWorldForOneEvaluation(t *testing.T) {
	w := newJudgedWorld(t)
	ev, _ := prepare(t, w.Engine, v1(`package p
first := k8s.feasible({"spec": {"containers": []}}, "*")
second := k8s.feasible({"metadata": {}, "spec": {"containers": []}}, "*") if first
annotations := {"first": object.keys(first), "second": object.keys(second)}`))
	var once atomic.Bool
	w.says.Store(new(ownPredicate(func(context.Context, string) *fwk.Status {
		if once.CompareAndSwap(false, true) {
			w.put(t, "nodes", `{metadata: {name: c}, status: {allocatable: {cpu: "4", pods: "10"}}}`)
		}
		return nil
	})))
	want := map[string]string{"first": `["a","b"]`, "second": `["a","b"]`}
	if diff := cmp.Diff(want, decide(t, ev, input(t, web)).Annotations); diff != "" {
		t.Errorf("while the world changes (-want +got):\n%s", diff)
	}
	want = map[string]string{"first": `["a","b","c"]`, "second": `["a","b","c"]`}
	if diff := cmp.Diff(want, decide(t, ev, input(t, web)).Annotations); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// TestMocksOfPredicates verifies that a `with` can replace a function, and that replacing data does not change the
// candidates of predicates.
func TestMocksOfPredicates(t *testing.T) {
	w := newJudgedWorld(t)
	ev, m := prepare(t, w.Engine, v1(`package p
f(x, y) := {"mock": y}
mocked := x if x := k8s.feasible(input, "*") with k8s.feasible as f
clusters contains name if {
	some name, v in k8s.feasible_clusters(input, 1, "*") with data.clusters as {}
	v.feasible
}
annotations := {"mocked": mocked}`))
	if !m.Nodes || !m.Clusters || !m.Input.IsAll() || len(m.CacheableRules) > 0 {
		t.Errorf("nodes %t, clusters %t, all of the input %t, %d helpers", m.Nodes, m.Clusters, m.Input.IsAll(), len(m.CacheableRules))
	}
	d := decide(t, ev, input(t, web))
	if diff := cmp.Diff(placement.Decision{Annotations: map[string]string{"mocked": `{"mock":"*"}`}, Clusters: []string{"eu"}}, d); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

// TestFieldsOfClusters verifies that predicates read no more fields of a cluster than are replicated for policies that
// call them.
func TestFieldsOfClusters(t *testing.T) {
	known := replication.Known().Resources()
	all := map[string]map[string]any{}
	for _, o := range []struct {
		resource policy.Resource
		text     string
	}{
		{managed, `{metadata: {name: ocm, labels: {a: b}, annotations: {a: b}}, spec: {taints: [{key: k, value: v, effect: NoSelect}]}, status: {capacity: {cpu: "7"}, version: {kubernetes: v1.36.0}, clusterClaims: [{name: c, value: d}], conditions: [{type: ManagedClusterConditionAvailable, status: "True"}]}}`},
		{policy.Resource{GroupVersionResource: known[2]}, `{metadata: {name: karmada, labels: {a: b}}, spec: {region: r, zones: [z], provider: p, taints: [{key: k, effect: NoExecute}]}, status: {resourceSummary: {allocatable: {cpu: "4"}, allocated: {cpu: "1"}}}}`},
		{policy.Resource{GroupVersionResource: known[3]}, `{metadata: {name: fleet, labels: {}}, status: {properties: {x: {value: y}}, resourceUsage: {capacity: {cpu: "4"}, allocatable: {cpu: "3"}}}}`},
	} {
		object := readObject(t, o.text)
		all[object.GetName()], _ = replication.Known().Cluster(o.resource.GroupVersionResource, object.Object)
	}
	cut := map[string]map[string]any{}
	for name, cluster := range all {
		cut[name] = analysis.ClusterFields().Project(cluster)
	}
	show := func(s *predicates.Snapshot) []*corev1.Node {
		infos, err := s.NodeInfos().List()
		if err != nil {
			t.Fatal(err)
		}
		var out []*corev1.Node
		for _, info := range infos {
			out = append(out, info.Node())
		}
		return out
	}
	if diff := cmp.Diff(show(predicates.ClusterSnapshot(all)), show(predicates.ClusterSnapshot(cut))); diff != "" {
		t.Errorf("as replicated clusters look otherwise (-whole +cut):\n%s", diff)
	}
}

func compiled(t testing.TB, spec placementv1.PlacementPolicySpec) *policy.Module {
	t.Helper()
	m, err := policy.Compile("p", spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func bound(t testing.TB, spec placementv1.PlacementPolicySpec, m *policy.Module) *policy.Binding {
	t.Helper()
	b, err := policy.Bind("p", m, spec.Replicate, everything)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

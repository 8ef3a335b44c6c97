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
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

const preferencesKey = placement.PreferencesAnnotation

func prefers(text string) map[string]string { return map[string]string{preferencesKey: text} }

// large is web with a size that fits no node.
var large = strings.ReplaceAll(web, `cpu: "1"`, `cpu: "8"`)

func TestFilter(t *testing.T) {
	nodes, clusters := placementv1.PredicateCandidatesNodes, placementv1.PredicateCandidatesClusters
	preferred := func(text string) string {
		return `package p
annotations["` + preferencesKey + `"] := ` + text
	}
	const taint, tainted = "node(s) had untolerated taint(s)", "cluster(s) had untolerated taint(s)"
	tests := map[string]struct {
		spec  placementv1.PlacementPolicySpec
		input string
		want  placement.Decision
	}{
		"Nodes":         {filtered(nodes, ""), web, placement.Decision{}},
		"NoNode":        {filtered(nodes, ""), large, placement.Decision{Errors: []string{"0/2 nodes fit: 1 Insufficient cpu, 1 " + taint}}},
		"NoNodeOfFewer": {filtered(nodes, "", "NodeResourcesFit"), large, placement.Decision{Errors: []string{"0/2 nodes fit: 2 Insufficient cpu"}}},
		"NodesAndRules": {
			filtered(nodes, `package p
labels := {"a": "b"}
errors contains "z"
clusters := ["us"]`), large,
			placement.Decision{Labels: map[string]string{"a": "b"}, Clusters: []string{"us"}, Errors: []string{"0/2 nodes fit: 1 Insufficient cpu, 1 " + taint, "z"}},
		},
		"Scheduled": {
			filtered(nodes, `package p
scheduling := {"nodeSelector": {"disk": "tape"}, "tolerations": [{"operator": "Exists"}]}`), web,
			placement.Decision{
				Scheduling: map[string]string{"nodeSelector/disk": "tape", `tolerations/{"operator":"Exists"}`: "present"},
				Errors:     []string{"0/2 nodes fit: 2 node(s) didn't match Pod's node affinity/selector"},
			},
		},
		"ScheduledClusters": {
			filtered(clusters, `package p
scheduling := {"tolerations": [{"key": "closed", "operator": "Exists"}]}`), web,
			placement.Decision{Scheduling: map[string]string{`tolerations/{"key":"closed","operator":"Exists"}`: "present"}, Clusters: []string{"eu", "us"}},
		},
		"AllClusters": {filtered(clusters, ""), web, placement.Decision{Clusters: []string{"eu"}}},
		"NamedClusters": {filtered(clusters, `package p
clusters := ["us", "eu"]`), web, placement.Decision{Clusters: []string{"eu"}}},
		"NoPredicateInWay": {filtered(clusters, `package p
clusters := {"us", "eu"}`, "NodeAffinity"), web, placement.Decision{Clusters: []string{"eu", "us"}}},
		"NoneOfTheNamed": {filtered(clusters, `package p
clusters := ["us", "down"]`), web, placement.Decision{Clusters: []string{"down", "us"}, Errors: []string{"0/2 clusters fit: 2 " + tainted + " (down: node.kubernetes.io/not-ready:NoSchedule, us: closed:NoSchedule)"}}},
		"NoClusterNamed": {filtered(clusters, `package p
clusters := []`), web, placement.Decision{Clusters: []string{}, Errors: []string{"0/0 clusters fit"}}},
		"NoCluster": {filtered(clusters, ""), strings.ReplaceAll(web, `cpu: "1"`, `cpu: "80"`), placement.Decision{Errors: []string{"0/3 clusters fit: 1 Insufficient cpu, 2 " + tainted + " (down: node.kubernetes.io/not-ready:NoSchedule, us: closed:NoSchedule)"}}},
		"ErrorsOfRulesStay": {filtered(clusters, `package p
errors contains "z"`), web, placement.Decision{Clusters: []string{"eu"}, Errors: []string{"z"}}},
		"Preferred": {
			filtered(clusters, preferred(`{"rebalance": true, "clusters": {"us": {"weight": 1}, "eu": {"weight": 2}}}`)), web,
			placement.Decision{Clusters: []string{"eu"}, Annotations: prefers(`{"clusters":{"eu":{"weight":2}},"rebalance":true}`)},
		},
		"NonePreferred": {
			filtered(clusters, preferred(`{"clusters": {"us": {"weight": 1}}}`)), web,
			placement.Decision{Annotations: prefers(`{"clusters":{"us":{"weight":1}}}`), Errors: []string{"0/1 clusters fit: 1 " + tainted + " (us: closed:NoSchedule)"}},
		},
		"AnyPreferred": {
			filtered(clusters, preferred(`{"clusters": {"*": {"weight": 1}, "us": {"weight": 3}}}`)), web,
			placement.Decision{Clusters: []string{"eu"}, Annotations: prefers(`{"clusters":{"*":{"weight":1},"down":{"maxReplicas":0},"us":{"maxReplicas":0}}}`)},
		},
		"AnyPreferredOfNamed": {
			filtered(clusters, preferred(`{"clusters": {"*": {"weight": 1}}}`)+`
clusters := ["eu"]`), web,
			placement.Decision{Clusters: []string{"eu"}, Annotations: prefers(`{"clusters":{"*":{"weight":1},"down":{"maxReplicas":0},"us":{"maxReplicas":0}}}`)},
		},
		"OthersPreferredThanNamed": {
			filtered(clusters, preferred(`{"clusters": {"eu": {}, "us": {}}}`)+`
clusters := ["eu", "down"]`), web,
			placement.Decision{Clusters: []string{"eu"}, Annotations: prefers(`{"clusters":{"eu":{}}}`)},
		},
		"NoPreferences": {
			filtered(clusters, preferred(`"none"`)), web,
			placement.Decision{Clusters: []string{"eu"}, Annotations: prefers("none")},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newJudgedWorld(t)
			ev, _ := prepare(t, w.Engine, tc.spec)
			// The second decision comes from the cache.
			for range 2 {
				got := decide(t, ev, input(t, tc.input))
				if !got.Equal(tc.want) {
					t.Errorf("decision (-want +got):\n%s", cmp.Diff(tc.want, got))
				}
			}
		})
	}
}

// TestFilterOfOtherKinds verifies that an object without pods is an error, because it can't be checked.
func TestFilterOfOtherKinds(t *testing.T) {
	w := newJudgedWorld(t)
	ev, _ := prepare(t, w.Engine, filtered(placementv1.PredicateCandidatesNodes, ""))
	_, err := ev.Evaluate(t.Context(), input(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`))
	if err == nil || !strings.Contains(err.Error(), "spec.predicates: the object can't be checked: ConfigMap") {
		t.Errorf("error %v", err)
	}
}

func TestNamesThatAreNotAllowed(t *testing.T) {
	w := newJudgedWorld(t, "TaintToleration", "NodeAffinity")
	spec := filtered(placementv1.PredicateCandidatesNodes, "", "NodeAffinity", "NodePorts")
	m := compiled(t, spec)
	want := `spec.predicates.names[1]: berth_predicate_error: "NodePorts" is none of the predicates that the manager allows, which are TaintToleration, NodeAffinity`
	if err := w.Check(m); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := w.Prepare(t.Context(), "p", m, bound(t, spec, m)); err == nil {
		t.Error("a policy widens the white-list")
	}
	if err := New(NewData(), Options{}).Check(m); err != nil {
		t.Errorf("without predicates: %v", err)
	}
}

// podOn returns a pod on a node. Only its CPU request differs from other pods.
func podOn(node, name, cpu string) string {
	return fmt.Sprintf(`{metadata: {name: %s, namespace: shop, labels: {app: other}}, spec: {nodeName: %s, containers: [{name: c, resources: {requests: {cpu: %q}}}]}}`, name, node, cpu)
}

// TestDecisionCacheOfNodePredicates verifies that a decision stays cached while the predicates' reports stay the same,
// whatever else changes.
func TestDecisionCacheOfNodePredicates(t *testing.T) {
	replicas := `package p
annotations := {"replicas": {n: v.replicas | some n, v in k8s.feasible(input, "*")}}`
	for name, spec := range map[string]placementv1.PlacementPolicySpec{
		"Call":   v1(replicas),
		"Filter": filtered(placementv1.PredicateCandidatesNodes, ""),
		"Both":   filtered(placementv1.PredicateCandidatesNodes, replicas),
	} {
		t.Run(name, func(t *testing.T) {
			w := newJudgedWorld(t)
			ev, m := prepare(t, w.Engine, spec)
			if len(m.CacheableRules) > 0 {
				t.Errorf("%d helpers", len(m.CacheableRules))
			}
			hits, misses := int64(0), int64(0)
			expectCached := func(what string, known bool) {
				t.Helper()
				if known {
					hits++
				} else {
					misses++
				}
				decide(t, ev, input(t, web))
				if w.seen.hits.Load() != hits || w.seen.misses.Load() != misses {
					t.Fatalf("%s: %d decisions known and %d not, want %d and %d", what, w.seen.hits.Load(), w.seen.misses.Load(), hits, misses)
				}
			}
			expectCached("at first", false)
			expectCached("again", true)
			revision := ev.Revision()
			w.put(t, "pods", podOn("b", "unrelated", "1"))
			if next := ev.Revision(); next <= revision {
				t.Errorf("revision %d after %d", next, revision)
			}
			expectCached("a pod on a node that is not feasible anyway", true)
			w.put(t, "pods", podOn("a", "small", "500m"))
			expectCached("a pod that leaves as much room", true)
			w.put(t, "pods", podOn("a", "large", "1"))
			expectCached("a pod that leaves less room", false)
			expectCached("again", true)
			w.put(t, "nodes", `{metadata: {name: b, labels: {disk: ssd}}, spec: {taints: [{key: closed, effect: NoSchedule}]}, status: {allocatable: {cpu: "2", pods: "10"}}}`)
			expectCached("a node that is not feasible in any case", true)
			w.put(t, "nodes", `{metadata: {name: b}, status: {allocatable: {cpu: "2", pods: "10"}}}`)
			expectCached("a node that opens", false)
			w.put(t, "nodes", `{metadata: {name: c}, status: {allocatable: {cpu: "2", pods: "10"}}}`)
			expectCached("a new node", false)
			// Predicates ignore the pods of the workload itself.
			w.put(t, "pods", `{metadata: {name: web-0, namespace: shop, labels: {app: web}}, spec: {nodeName: c, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}`)
			expectCached("a pod of its own", true)
			w.load(t, "nodes")
			expectCached("no node at all", false)
		})
	}
}

// TestDecisionCacheOfClusterPredicates verifies that a change of clusters is a change of the data.
func TestDecisionCacheOfClusterPredicates(t *testing.T) {
	w := newJudgedWorld(t)
	ev, m := prepare(t, w.Engine, v1(`package p
clusters contains n if { some n, v in k8s.feasible_clusters(input, 1, "*"); v.feasible }`))
	if m.Nodes {
		t.Error("nodes are asked about")
	}
	for range 2 {
		if diff := cmp.Diff([]string{"eu"}, decide(t, ev, input(t, web)).Clusters); diff != "" {
			t.Error(diff)
		}
	}
	w.seen.want(t, 1, 1)
	w.load(t, "nodes")
	decide(t, ev, input(t, web))
	w.seen.want(t, 2, 1)
	w.data.Put(managed.GroupVersionResource, prepared(managed, readObject(t, `{metadata: {name: us, labels: {tier: base}, annotations: {a: b}}, spec: {}, status: {conditions: [{type: ManagedClusterConditionAvailable, status: "True"}]}}`)))
	if diff := cmp.Diff([]string{"eu", "us"}, decide(t, ev, input(t, web)).Clusters); diff != "" {
		t.Error(diff)
	}
	w.seen.want(t, 2, 2)
}

// TestDecisionCacheOfReportsIsBounded verifies that the reports count towards the size of the decision cache.
func TestDecisionCacheOfReportsIsBounded(t *testing.T) {
	w := newJudgedWorld(t)
	var nodes []string
	const n = 1000
	for i := range n {
		nodes = append(nodes, fmt.Sprintf(`{metadata: {name: node-%d}, status: {allocatable: {cpu: "4", pods: "10"}}}`, i))
	}
	w.load(t, "nodes", nodes...)
	ev, _ := prepare(t, w.Engine, filtered(placementv1.PredicateCandidatesNodes, ""))
	cache := ev.(*evaluator).decisionCache
	if cache.limit != reportsCacheBytes {
		t.Errorf("the limit is %d bytes", cache.limit)
	}
	cache.limit /= 8
	decide(t, ev, input(t, web))
	each := cache.size
	if each < 40*n || each > 80*n {
		t.Errorf("a decision on %d nodes takes %d bytes", n, each)
	}
	for i := range 3 * cache.limit / each {
		decide(t, ev, input(t, strings.ReplaceAll(web, "name: web,", fmt.Sprintf("name: web-%d,", i))))
	}
	if held := (len(cache.young) + len(cache.old)) * each; held > 2*cache.limit+cache.limit/10 || held < cache.limit/2 {
		t.Errorf("holds %d bytes", held)
	}
}

// TestDecisionCacheCountsReports verifies that a cached report counts with the snapshot and the workload that it refers
// to, even if it has few candidates.
func TestDecisionCacheCountsReports(t *testing.T) {
	w := newJudgedWorld(t)
	var nodes []string
	const n = 1000
	for i := range n {
		nodes = append(nodes, fmt.Sprintf(`{metadata: {name: n%d}, status: {allocatable: {cpu: "4", pods: "10"}}}`, i))
	}
	w.load(t, "nodes", nodes...)
	ev, _ := prepare(t, w.Engine, v1(`package p
errors contains "none" if {
	some i in numbers.range(1, 50)
	n := sprintf("n%d", [i])
	not k8s.feasible(input, [n])[n].feasible
}`))
	cache := ev.(*evaluator).decisionCache
	decide(t, ev, input(t, web))
	small := cache.size
	if snapshot := 16 * n; small < snapshot || small > 3*snapshot {
		t.Errorf("a decision takes %d bytes, and a snapshot about %d", small, snapshot)
	}
	const containers = 100
	decide(t, ev, input(t, strings.Replace(web, "containers: [", "containers: ["+strings.Repeat("{name: a},", containers), 1)))
	if large, pod := cache.size-2*small, containers<<10; large < pod || large > 3*pod {
		t.Errorf("a decision on a large pod takes %d bytes more than one on a small one, and the pod about %d", large, pod)
	}
}

// TestEveryWorldAnew verifies that a decision does not depend on earlier evaluations.
func TestEveryWorldAnew(t *testing.T) {
	w := newJudgedWorld(t)
	text := `package p
annotations := {"n": k8s.feasible(input, "*")}`
	ev, _ := prepare(t, w.Engine, filtered(placementv1.PredicateCandidatesNodes, text))
	for i := range 40 {
		w.put(t, "pods", podOn([]string{"a", "b"}[i%2], fmt.Sprint("p", i%5), fmt.Sprint(i%3)))
		got := decide(t, ev, input(t, web))
		fresh, _ := prepare(t, New(w.data, Options{Timeout: time.Minute, Concurrency: 1, Predicates: w.Predicates, World: w.nodes}), filtered(placementv1.PredicateCandidatesNodes, text))
		if want := decide(t, fresh, input(t, web)); !got.Equal(want) {
			t.Fatalf("round %d (-want +got):\n%s", i, cmp.Diff(want, got))
		}
	}
	var verdicts map[string]verdict
	if err := json.Unmarshal([]byte(decide(t, ev, input(t, web)).Annotations["n"]), &verdicts); err != nil || len(verdicts) != 2 {
		t.Errorf("%v, %v", verdicts, err)
	}
	if w.seen.hits.Load() == 0 || w.seen.misses.Load() < 5 {
		t.Error("the test tests too little")
	}
}

// TestDocumentedPolicy verifies that the example of the documentation works as described.
func TestDocumentedPolicy(t *testing.T) {
	text, err := os.ReadFile("../../../docs/predicates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```rego\n")
	example, _, ends := strings.Cut(after, "```")
	if !found || !ends {
		t.Fatal("no example")
	}
	w := newJudgedWorld(t)
	ev, _ := prepare(t, w.Engine, v1(example))
	for replicas, want := range map[string]placement.Decision{
		"replicas: 3":  {Clusters: []string{"eu"}},
		"replicas: 30": {Clusters: []string{"eu"}},
	} {
		if got := decide(t, ev, input(t, strings.Replace(web, "replicas: 3", replicas, 1))); !got.Equal(want) {
			t.Errorf("%s (-want +got):\n%s", replicas, cmp.Diff(want, got))
		}
	}
	d := decide(t, ev, input(t, strings.ReplaceAll(web, `cpu: "1"`, `cpu: "80"`)))
	if len(d.Errors) != 3 || !strings.Contains(d.Errors[1], "eu: Insufficient cpu") || len(d.Clusters) > 0 {
		t.Errorf("what fits nowhere: %+v", d)
	}
}

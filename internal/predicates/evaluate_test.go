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

package predicates

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/workload"
)

// snapshotWith returns a snapshot of nodes, pods, and namespaces in YAML; see put.
func snapshotWith(t testing.TB, objects ...string) *Snapshot {
	t.Helper()
	return current(t, worldWith(t, objects...))
}

func current(t testing.TB, w *NodeCache) *Snapshot {
	t.Helper()
	snapshot, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func worldWith(t testing.TB, objects ...string) *NodeCache {
	t.Helper()
	w := NewNodeCache()
	for resource := range Reads() {
		w.Load(resource, nil)
	}
	for _, text := range objects {
		put(t, w, text)
	}
	return w
}

// podOf returns the workload of one pod in YAML, in namespace default.
func podOf(t testing.TB, text string) workload.Workload {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	pod.Namespace = "default"
	return workload.Workload{Pod: pod, Replicas: 1}
}

func setOf(t testing.TB, names []string, others ...Predicate) *Set {
	t.Helper()
	r, err := NewRegistry(others...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.New(names)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func judge(t testing.TB, s *Set, world *Snapshot, w workload.Workload, q Query) *Report {
	t.Helper()
	if q.Kind == 0 {
		q.Kind = Nodes
	}
	r, err := s.Evaluate(t.Context(), world, w, q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func diff(t testing.TB, reason string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Report{})); d != "" {
		t.Errorf("%s: -want, +got:\n%s", reason, d)
	}
}

// big returns a node with room for pods.
func big(name, more string) string {
	return fmt.Sprintf(`{metadata: {name: %s, labels: {kubernetes.io/hostname: %[1]s}}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}%s}`, name, more)
}

func TestEvaluateByDefault(t *testing.T) {
	const plain = `{spec: {containers: [{name: c}]}}`
	no := func(predicate string, preemption bool, reasons ...string) []Verdict {
		return []Verdict{{Name: "a", Outcome: &Outcome{Predicate: predicate, Reasons: reasons, Preemption: preemption}}}
	}
	yes := []Verdict{{Name: "a", Outcome: &Outcome{Feasible: true, Replicas: 1}}}
	cases := map[string]struct {
		reason string
		world  []string
		pod    string
		want   []Verdict
	}{
		"Fits": {
			reason: "What nothing objects to is feasible.",
			world:  []string{big("a", "")}, pod: plain, want: yes,
		},
		"NodeUnschedulable": {
			reason: "A cordoned node is nothing that preemption helps.",
			world:  []string{big("a", ", spec: {unschedulable: true}")}, pod: plain,
			want: no("NodeUnschedulable", false, "node(s) were unschedulable"),
		},
		"NodeName": {
			reason: "A pod that names its node runs nowhere else.",
			world:  []string{big("a", "")}, pod: `{spec: {nodeName: b, containers: [{name: c}]}}`,
			want: no("NodeName", false, "node(s) didn't match the requested node name"),
		},
		"TaintToleration": {
			reason: "A taint that is not tolerated keeps a pod off.",
			world:  []string{big("a", ", spec: {taints: [{key: k, value: v, effect: NoSchedule}]}")}, pod: plain,
			want: no("TaintToleration", false, "node(s) had untolerated taint(s)"),
		},
		"TaintTolerated": {
			reason: "A taint that is tolerated does not.",
			world:  []string{big("a", ", spec: {taints: [{key: k, value: v, effect: NoSchedule}]}")},
			pod:    `{spec: {tolerations: [{key: k, operator: Exists}], containers: [{name: c}]}}`,
			want:   yes,
		},
		"NodeSelector": {
			reason: "A node selector has to match.",
			world:  []string{big("a", "")}, pod: `{spec: {nodeSelector: {disk: ssd}, containers: [{name: c}]}}`,
			want: no("NodeAffinity", false, "node(s) didn't match Pod's node affinity/selector"),
		},
		"NodeAffinityByName": {
			reason: "PreFilter leaves only the nodes that are named, and the scheduler says so of the others.",
			world:  []string{big("a", "")},
			pod: `{spec: {containers: [{name: c}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
				{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}}}}}`,
			want: no("NodeAffinity", false, "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
		},
		"NodeAffinityContradiction": {
			reason: "PreFilter refuses what names no node.",
			world:  []string{big("a", "")},
			pod: `{spec: {containers: [{name: c}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
				{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b]}, {key: metadata.name, operator: In, values: [c]}]}]}}}}}`,
			want: no("NodeAffinity", false, "pod affinity terms conflict"),
		},
		"NodePorts": {
			reason: "A host port is there once; whoever has it could be preempted.",
			world: []string{big("a", ""),
				`{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]}}`},
			pod:  `{spec: {containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]}}`,
			want: no("NodePorts", true, "node(s) didn't have free ports for the requested pod ports"),
		},
		"NodeResourcesFit": {
			reason: "All that there is too little of is said at once; preemption could help as the node is large enough.",
			world: []string{big("a", ""),
				`{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: 6, memory: 6Gi}}}]}}`},
			pod:  `{spec: {containers: [{name: c, resources: {requests: {cpu: 4, memory: 4Gi}}}]}}`,
			want: no("NodeResourcesFit", true, "Insufficient cpu", "Insufficient memory"),
		},
		"NodeResourcesNeverFit": {
			reason: "Preemption does not help on a node that is too small.",
			world:  []string{big("a", "")}, pod: `{spec: {containers: [{name: c, resources: {requests: {cpu: 9}}}]}}`,
			want: no("NodeResourcesFit", false, "Insufficient cpu"),
		},
		"ExtendedResource": {
			reason: "An extended resource is judged by what the node says of it, with nothing that manages devices.",
			world:  []string{big("a", "")}, pod: `{spec: {containers: [{name: c, resources: {requests: {example.com/gpu: 1}}}]}}`,
			want: no("NodeResourcesFit", false, "Insufficient example.com/gpu"),
		},
		"TooManyPods": {
			reason: "Pods are a resource, too.",
			world: []string{`{metadata: {name: a}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 1}}}`,
				`{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c}]}}`},
			pod: plain, want: no("NodeResourcesFit", true, "Too many pods"),
		},
		"PodTopologySpread": {
			reason: "What would be too uneven does not fit.",
			world: []string{big("a", ""), big("b", ""),
				`{metadata: {name: p, labels: {app: x}}, spec: {nodeName: a, containers: [{name: c}]}}`},
			pod: `{metadata: {labels: {app: x}}, spec: {containers: [{name: c}], topologySpreadConstraints: [{maxSkew: 1,
				topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}}]}}`,
			want: append(no("PodTopologySpread", true, "node(s) didn't match pod topology spread constraints"),
				Verdict{Name: "b", Outcome: &Outcome{Feasible: true, Replicas: 1}}),
		},
		"PodTopologySpreadWithoutLabel": {
			reason: "A node that is in no domain does not fit.",
			world:  []string{big("a", "")},
			pod: `{metadata: {labels: {app: x}}, spec: {containers: [{name: c}], topologySpreadConstraints: [{maxSkew: 1,
				topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}}]}}`,
			want: no("PodTopologySpread", false, "node(s) didn't match pod topology spread constraints (missing required label)"),
		},
		"InterPodAffinity": {
			reason: "A pod that has to be near another one is nowhere else.",
			world:  []string{big("a", "")},
			pod: `{spec: {containers: [{name: c}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
				[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}]}}}}`,
			want: no("InterPodAffinity", false, "node(s) didn't match pod affinity rules"),
		},
		"InterPodAntiAffinity": {
			reason: "A pod keeps off those that it does not like.",
			world: []string{big("a", ""),
				`{metadata: {name: p, labels: {app: x}}, spec: {nodeName: a, containers: [{name: c}]}}`},
			pod: `{spec: {containers: [{name: c}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
				[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}]}}}}`,
			want: no("InterPodAffinity", true, "node(s) didn't match pod anti-affinity rules"),
		},
		"ExistingAntiAffinity": {
			reason: "A pod that is there keeps off others, in namespaces that have the labels that it says.",
			world: []string{big("a", ""), `{metadata: {name: default, labels: {kubernetes.io/metadata.name: default, team: red}}}`,
				`{metadata: {name: p, namespace: other}, spec: {nodeName: a, containers: [{name: c}], affinity: {podAntiAffinity:
					{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname,
					labelSelector: {matchLabels: {app: x}}, namespaceSelector: {matchLabels: {team: red}}}]}}}}`},
			pod:  `{metadata: {labels: {app: x}}, spec: {containers: [{name: c}]}}`,
			want: no("InterPodAffinity", true, "node(s) didn't satisfy existing pods anti-affinity rules"),
		},
		"AffinityByNamespaceLabels": {
			reason: "The namespaces that a pod speaks of by their labels are those of the snapshot.",
			world: []string{big("a", ""), `{metadata: {name: other, labels: {kubernetes.io/metadata.name: other, team: red}}}`,
				`{metadata: {name: p, namespace: other, labels: {app: x}}, spec: {nodeName: a, containers: [{name: c}]}}`},
			pod: `{spec: {containers: [{name: c}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
				[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}, namespaceSelector: {matchLabels: {team: red}}}]}}}}`,
			want: yes,
		},
	}
	s := setOf(t, nil)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := judge(t, s, snapshotWith(t, tc.world...), podOf(t, tc.pod), Query{})
			diff(t, tc.reason, tc.want, r.Verdicts)
		})
	}
}

func TestCandidates(t *testing.T) {
	world := snapshotWith(t, big("c", ""), big("a", ""), big("b", ", spec: {unschedulable: true}"))
	selector, err := labels.Parse("kubernetes.io/hostname in (a, b)")
	if err != nil {
		t.Fatal(err)
	}
	a, c := Verdict{Name: "a", Outcome: &Outcome{Feasible: true, Replicas: 1}}, Verdict{Name: "c", Outcome: &Outcome{Feasible: true, Replicas: 1}}
	b := Verdict{Name: "b", Outcome: &Outcome{Predicate: "NodeUnschedulable", Reasons: []string{"node(s) were unschedulable"}}}
	x := Verdict{Name: "x", Outcome: &Outcome{Reasons: []string{"node(s) didn't exist"}}}
	cases := map[string]struct {
		reason  string
		query   Query
		want    []Verdict
		summary string
	}{
		"All":      {"No names stand for all, sorted.", Query{}, []Verdict{a, b, c}, "2/3 nodes fit: 1 node(s) were unschedulable"},
		"Named":    {"Names may be unknown, and there twice.", Query{Names: []string{"x", "c", "b", "c"}}, []Verdict{b, c, x}, "1/3 nodes fit: 1 node(s) didn't exist, 1 node(s) were unschedulable"},
		"None":     {"No candidates are no error.", Query{Names: []string{}}, nil, "0/0 nodes fit"},
		"Selected": {"Labels select.", Query{Selector: selector}, []Verdict{a, b}, "1/2 nodes fit: 1 node(s) were unschedulable"},
		"Both":     {"Labels select among names.", Query{Names: []string{"a", "c"}, Selector: selector}, []Verdict{a}, "1/1 nodes fit"},
	}
	s := setOf(t, nil)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := judge(t, s, world, podOf(t, `{spec: {containers: [{name: c}]}}`), tc.query)
			diff(t, tc.reason, tc.want, r.Verdicts)
			diff(t, tc.reason, tc.summary, r.Summary())
		})
	}
}

// fake is a user's plugin.
type fake struct {
	name   string
	filter func(node string) *fwk.Status
}

func (f fake) Name() string { return f.name }

func (f fake) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	return f.filter(info.Node().Name)
}

func predicate(name string, filter func(node string) *fwk.Status) Predicate {
	return Predicate{Name: name, Candidates: Nodes, New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return fake{name, filter}, nil
	}}
}

func TestOrder(t *testing.T) {
	var asked atomic.Int64
	dear := predicate("Dear", func(string) *fwk.Status {
		asked.Add(1)
		return fwk.NewStatus(fwk.Unschedulable, "too dear")
	})
	s := setOf(t, []string{"NodeUnschedulable", "Dear"}, dear)
	world := snapshotWith(t, big("a", ", spec: {unschedulable: true}"), big("b", ""))
	r := judge(t, s, world, podOf(t, `{spec: {containers: [{name: c}]}}`), Query{})
	diff(t, "What is on the white-list first objects first.", "0/2 nodes fit: 1 node(s) were unschedulable, 1 too dear", r.Summary())
	if n := asked.Load(); n != 1 {
		t.Errorf("a predicate is asked only where none before it objects, not %d times", n)
	}
}

func TestPluginsFail(t *testing.T) {
	world := snapshotWith(t, big("a", ""), big("b", ""))
	cases := map[string]struct {
		reason string
		make   Factory
		want   string
	}{
		"Panic": {"A panic is the predicate's error.",
			predicate("", func(string) *fwk.Status { panic("oh") }).New, "predicate Mine: it panicked: oh"},
		"Error": {"An error is no verdict.",
			predicate("", func(string) *fwk.Status { return fwk.AsStatus(errors.New("oh")) }).New, "predicate Mine: oh"},
		"Unexpected": {"Nor is a status that says nothing.",
			predicate("", func(string) *fwk.Status { return fwk.NewStatus(fwk.Skip) }).New,
			"predicate Mine: its plugin returned the unexpected status Skip"},
		"Missing": {"What is not there of the scheduler is said.",
			func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				return predicate("Mine", func(string) *fwk.Status { h.ClientSet(); return nil }).New(ctx, nil, nil)
			},
			"predicate Mine: it panicked: runtime error: invalid memory address or nil pointer dereference; " +
				"Berth offers plugins only nodes, their pods, and namespaces: the plugin may use something else of the scheduler"},
		"Make": {"A plugin may panic when it is made.",
			func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) { panic("oh") },
			"predicate Mine: it panicked: oh"},
		"NotMade": {"It may not be made at all.",
			func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, errors.New("oh") },
			"predicate Mine: creating its plugin: oh"},
		"NoFilter": {"It may be no filter.",
			func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return named("Mine"), nil },
			"predicate Mine: its plugin is a predicates.named, which is no filter plugin"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := setOf(t, []string{"Mine"}, Predicate{Name: "Mine", New: tc.make, Candidates: Nodes})
			_, err := s.Evaluate(t.Context(), world, podOf(t, `{spec: {containers: [{name: c}]}}`), Query{Kind: Nodes})
			if failed := (*PluginError)(nil); !errors.As(err, &failed) || failed.Predicate != "Mine" {
				t.Fatalf("%s: not the predicate's: %v", tc.reason, err)
			}
			diff(t, tc.reason, tc.want, err.Error())
		})
	}
}

type named string

func (n named) Name() string { return string(n) }

// TestVolumesOfPodsWithoutAName checks a new pod whose name is generated after admission. Its volume claims must count
// nevertheless.
func TestVolumesOfPodsWithoutAName(t *testing.T) {
	w := podOf(t, `{spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}}`)
	s, world := setOf(t, []string{"VolumeBinding"}), snapshotWith(t, big("a", ""))
	diff(t, "The claims of a template are not there yet.", "1/1 nodes fit", judge(t, s, world, w, Query{}).Summary())
	w.Single = true
	if _, err := s.Evaluate(t.Context(), world, w, Query{Kind: Nodes}); !errors.Is(err, errClaims) {
		t.Errorf("a pod whose claims nobody knows is judged: %v", err)
	}
}

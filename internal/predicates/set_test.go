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
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestRegistry(t *testing.T) {
	mine := predicate("Mine", nil)
	r, err := NewRegistry(mine)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "All are in the scheduler's order.", []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
		"NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "Mine",
	}, r.Names())
	diff(t, "Volumes are not judged by default.", []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread",
		"InterPodAffinity", "Mine",
	}, r.Default())
	for reason, p := range map[string]Predicate{
		"a predicate has no name: set Name in app.Predicate":                   {New: mine.New, Candidates: Nodes},
		"predicate NodeName: a built-in or another predicate has this name":    {Name: "NodeName", New: mine.New, Candidates: Nodes},
		"predicate Mine: New is required":                                      {Name: "Mine", Candidates: Nodes},
		"predicate Mine: Candidates must be Nodes, Clusters, or both":          {Name: "Mine", New: mine.New},
		`predicate "A,B": a name must not have commas, blanks, or line breaks`: {Name: "A,B", New: mine.New, Candidates: Nodes},
	} {
		if _, err := NewRegistry(p); err == nil || err.Error() != reason {
			t.Errorf("%v instead of %s", err, reason)
		}
	}
}

func TestWhitelist(t *testing.T) {
	r, err := NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		names []string
		want  []string
		err   string
	}{
		"Default": {nil, r.Default(), ""},
		"Order":   {[]string{"NodeResourcesFit", "NodeName"}, []string{"NodeResourcesFit", "NodeName"}, ""},
		"None":    {[]string{}, nil, ""},
		"Unknown": {[]string{"NodeNames"}, nil, `there is no predicate "NodeNames": known are NodeUnschedulable, NodeName, TaintToleration, ` +
			"NodeAffinity, NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, " +
			"PodTopologySpread, InterPodAffinity"},
		"Twice": {[]string{"NodeName", "NodePorts", "NodeName"}, nil, "predicate NodeName is listed twice: remove one of the entries"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := r.New(tc.names)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("%v instead of %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "The white-list is kept as it is.", tc.want, s.Names())
		})
	}
}

func TestNamesOf(t *testing.T) {
	registry, err := NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.New([]string{"NodePorts", "TaintToleration", "NodeAffinity"})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "Ports are those of nodes.", []string{"TaintToleration", "NodeAffinity"}, set.NamesOf(Clusters))
	diff(t, "All judge nodes.", set.Names(), set.NamesOf(Nodes))
}

func TestNarrow(t *testing.T) {
	s := setOf(t, []string{"NodeResourcesFit", "NodeName", "NodePorts"})
	few, err := s.Narrow([]string{"NodePorts", "NodeResourcesFit", "NodePorts"})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "The order is that of the white-list.", []string{"NodeResourcesFit", "NodePorts"}, few.Names())
	again, err := s.Narrow([]string{"NodeResourcesFit", "NodePorts"})
	if err != nil || again != few {
		t.Errorf("sets of equal names are not the same: %v", err)
	}
	if all, err := s.Narrow([]string{"NodeName", "NodePorts", "NodeResourcesFit"}); err != nil || all != s {
		t.Errorf("all names are not the set itself: %v", err)
	}
	if all, err := s.Narrow(nil); err != nil || all != s {
		t.Errorf("no names are not the set itself: %v", err)
	}
	const want = `predicate "NodePorts" is not in use: the manager uses NodeResourcesFit`
	one, err := few.Narrow([]string{"NodeResourcesFit"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Narrow([]string{"NodePorts"}); err == nil || err.Error() != want {
		t.Errorf("%v instead of %s: nothing widens a set, not even what it was narrowed from", err, want)
	}
}

// TestNothingIsMade checks that plugins are created for the first evaluation that needs them, and reused afterwards.
func TestNothingIsMade(t *testing.T) {
	made := map[string]int{}
	counted := func(name string, judges Candidates) Predicate {
		p := predicate(name, func(string) *fwk.Status { return nil })
		p.Candidates = judges
		make := p.New
		p.New = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			made[name]++
			return make(ctx, args, h)
		}
		return p
	}
	s := setOf(t, []string{"OfNodes", "OfBoth", "OfClusters"}, counted("OfNodes", Nodes), counted("OfBoth", Nodes|Clusters),
		counted("OfClusters", Clusters))
	few, err := s.Narrow([]string{"OfNodes"})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "Nothing is made for what nobody asks.", map[string]int{}, made)
	w := podOf(t, `{metadata: {labels: {app: x}}, spec: {containers: [{name: c}]}}`)
	w.Own = labels.Everything()
	for range 3 {
		judge(t, s, snapshotWith(t, big("a", ""), `{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c}]}}`), w, Query{})
	}
	diff(t, "What judges nodes is made once for them.", map[string]int{"OfNodes": 1, "OfBoth": 1}, made)
	judge(t, s, ClusterSnapshot(nil), w, Query{Kind: Clusters})
	diff(t, "What judges clusters is made for them.", map[string]int{"OfNodes": 1, "OfBoth": 2, "OfClusters": 1}, made)
	judge(t, few, snapshotWith(t), w, Query{})
	diff(t, "A set has plugins of its own.", 2, made["OfNodes"])
}

// TestFailedIsDropped checks that a plugin that failed is created again.
func TestFailedIsDropped(t *testing.T) {
	var made int
	s := setOf(t, []string{"Mine"}, Predicate{Name: "Mine", Candidates: Nodes,
		New: func(ctx context.Context, _ runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			made++
			broken := made == 1
			return predicate("Mine", func(string) *fwk.Status {
				if broken {
					panic("broken")
				}
				return nil
			}).New(ctx, nil, nil)
		}})
	world, w := snapshotWith(t, big("a", "")), podOf(t, `{spec: {containers: [{name: c}]}}`)
	if _, err := s.Evaluate(t.Context(), world, w, Query{Kind: Nodes}); err == nil {
		t.Fatal("it did not fail")
	}
	diff(t, "What failed is not asked again.", "1/1 nodes fit", judge(t, s, world, w, Query{}).Summary())
}

func TestCancelled(t *testing.T) {
	var nodes []string
	for i := range 200 {
		nodes = append(nodes, big(fmt.Sprintf("n%d", i), ""))
	}
	world, w := snapshotWith(t, nodes...), podOf(t, `{spec: {containers: [{name: c}]}}`)
	for reason, answer := range map[string]*fwk.Status{
		"It ends though no predicate minds.":          nil,
		"What a predicate makes of it is not its own": fwk.AsStatus(errors.New("cancelled")),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan struct{})
		var asked atomic.Int64
		s := setOf(t, []string{"Mine"}, predicate("Mine", func(string) *fwk.Status {
			switch n := asked.Add(1); {
			case n < 5:
				return nil
			case n == 5:
				cancel()
				close(cancelled)
			}
			// Do not let other workers overtake the one that cancels. ctx.Done is closed before the contexts derived from ctx
			// are cancelled.
			<-cancelled
			return answer
		}))
		for range 2 {
			if _, err := s.Evaluate(ctx, world, w, Query{Kind: Nodes}); !errors.Is(err, context.Canceled) || errors.As(err, new(*PluginError)) {
				t.Errorf("%s: %v is not the context's error", reason, err)
			}
		}
		if n := asked.Load(); n > 150 {
			t.Errorf("%s: %d of 200 nodes were judged once it was cancelled", reason, n)
		}
	}
}

// preparing is a plugin with a PreFilter.
type preparing struct {
	fake

	prepare func(ctx context.Context, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status)
}

func (p preparing) PreFilter(
	ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	return p.prepare(ctx, nodes)
}

func (p preparing) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func TestPreFilter(t *testing.T) {
	status := func(code fwk.Code, reason string) func(context.Context, fwk.Handle) (*fwk.PreFilterResult, *fwk.Status) {
		return func(context.Context, fwk.Handle) (*fwk.PreFilterResult, *fwk.Status) {
			return nil, fwk.NewStatus(code, reason)
		}
	}
	names := func(names ...string) func(context.Context, fwk.Handle) (*fwk.PreFilterResult, *fwk.Status) {
		return func(context.Context, fwk.Handle) (*fwk.PreFilterResult, *fwk.Status) {
			return &fwk.PreFilterResult{NodeNames: sets.New(names...)}, nil
		}
	}
	type prepares = []func(context.Context, fwk.Handle) (*fwk.PreFilterResult, *fwk.Status)
	cases := map[string]struct {
		reason  string
		prepare prepares
		want    string
		verdict *Verdict
		err     string
	}{
		"Skip": {"What skips is not asked.", prepares{status(fwk.Skip, "")}, "2/2 nodes fit", nil, ""},
		"Unschedulable": {"What preemption may help is said of all nodes.", prepares{status(fwk.Unschedulable, "busy")},
			"0/2 nodes fit: busy", &Verdict{Name: "a", Outcome: &Outcome{Predicate: "P0", Reasons: []string{"busy"}, Preemption: true}}, ""},
		"Unresolvable": {"The worse one is said.",
			prepares{status(fwk.Unschedulable, "busy"), status(fwk.UnschedulableAndUnresolvable, "never"), status(fwk.Error, "not asked")},
			"0/2 nodes fit: never", &Verdict{Name: "a", Outcome: &Outcome{Predicate: "P1", Reasons: []string{"never"}}}, ""},
		"Names": {"Others than the named are out.", prepares{status(fwk.Skip, ""), names("b", "z")},
			"0/2 nodes fit: 1 no, 1 node(s) didn't satisfy plugin(s) [P1]",
			&Verdict{Name: "a", Outcome: &Outcome{Predicate: "P1", Reasons: []string{"node(s) didn't satisfy plugin(s) [P1]"}}}, ""},
		"NamesOfTwo": {"The first that leaves a node out is named, and all that could.", prepares{names("a", "b"), names("b")},
			"0/2 nodes fit: 1 no, 1 node(s) didn't satisfy plugin(s) [P0 P1]",
			&Verdict{Name: "a", Outcome: &Outcome{Predicate: "P1", Reasons: []string{"node(s) didn't satisfy plugin(s) [P0 P1]"}}}, ""},
		"Nowhere": {"No name is none.", prepares{names()}, "0/2 nodes fit: node(s) didn't satisfy plugin P0",
			&Verdict{Name: "a", Outcome: &Outcome{Predicate: "P0", Reasons: []string{"node(s) didn't satisfy plugin P0"}}}, ""},
		"NowhereOfTwo": {"No name is left.", prepares{names("a"), names("b")},
			"0/2 nodes fit: node(s) didn't satisfy plugin(s) [P0 P1] simultaneously",
			&Verdict{Name: "a", Outcome: &Outcome{Predicate: "P1", Reasons: []string{"node(s) didn't satisfy plugin(s) [P0 P1] simultaneously"}}}, ""},
		"Error": {"An error is no verdict.", prepares{status(fwk.Error, "oh")}, "", nil, "predicate P0: oh"},
		"Panic": {"A panic is the predicate's error.",
			prepares{func(context.Context, fwk.Handle) (*fwk.PreFilterResult, *fwk.Status) { panic("oh") }}, "", nil,
			"predicate P0: it panicked: oh"},
		"PanicAtOnce": {"So is one in a goroutine of the Parallelizer.",
			prepares{func(ctx context.Context, h fwk.Handle) (*fwk.PreFilterResult, *fwk.Status) {
				h.Parallelizer().Until(ctx, 100, func(int) { panic("oh") }, "")
				return nil, nil
			}}, "", nil, "predicate P0: it panicked: oh"},
		"Informers": {"There are no informers.",
			prepares{func(_ context.Context, h fwk.Handle) (*fwk.PreFilterResult, *fwk.Status) {
				h.SharedInformerFactory().Core().V1().ConfigMaps()
				return nil, nil
			}}, "", nil, "predicate P0: it panicked: runtime error: invalid memory address or nil pointer dereference; " +
				"Berth offers plugins only nodes, their pods, and namespaces: the plugin may use something else of the scheduler"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var others []Predicate
			var whitelist []string
			for i, prepare := range tc.prepare {
				name := fmt.Sprintf("P%d", i)
				whitelist = append(whitelist, name)
				others = append(others, Predicate{Name: name, Candidates: Nodes,
					New: func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
						objects := func(string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "no") }
						return preparing{fake{name, objects}, func(ctx context.Context, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
							return prepare(ctx, h)
						}}, nil
					}})
			}
			s := setOf(t, whitelist, others...)
			r, err := s.Evaluate(t.Context(), snapshotWith(t, big("a", ""), big("b", "")), podOf(t, `{spec: {containers: [{name: c}]}}`), Query{Kind: Nodes})
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("%s: %v instead of %s", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, tc.reason, tc.want, r.Summary())
			if tc.verdict != nil {
				diff(t, tc.reason, *tc.verdict, r.Verdicts[0])
			}
		})
	}
}

// TestHandle checks that a plugin's handle shows the world of the current evaluation, even to parts that the plugin
// stored earlier.
func TestHandle(t *testing.T) {
	s := setOf(t, []string{"Mine"}, Predicate{Name: "Mine", Candidates: Nodes,
		New: func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			infos, storage := h.SnapshotSharedLister().NodeInfos(), h.SnapshotSharedLister().StorageInfos()
			namespaces := h.SharedInformerFactory().Core().V1().Namespaces().Lister()
			return fake{"Mine", func(node string) *fwk.Status {
				all, err := infos.List()
				info, missing := infos.Get(node)
				red, listed := namespaces.List(labels.SelectorFromSet(labels.Set{"team": "red"}))
				_, known := namespaces.Get("default")
				return fwk.NewStatus(fwk.Unschedulable, strings.TrimSpace(fmt.Sprintln(len(all), err, info.Node().Name, missing,
					len(red), listed, known, storage.IsPVCUsedByPods("default/v"), args)))
			}}, nil
		}})
	w := podOf(t, `{spec: {containers: [{name: c}]}}`)
	first := snapshotWith(t, big("a", ""))
	second := snapshotWith(t, big("a", ""), big("b", ""), `{metadata: {name: default, labels: {kubernetes.io/metadata.name: default, team: red}}}`,
		`{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]}}`)
	for range 2 {
		diff(t, "An empty world", []string{`1 <nil> a <nil> 0 <nil> namespaces "default" not found false <nil>`},
			judge(t, s, first, w, Query{Names: []string{"a"}}).Verdicts[0].Reasons)
		diff(t, "Another world", []string{"2 <nil> b <nil> 1 <nil> <nil> true <nil>"},
			judge(t, s, second, w, Query{Names: []string{"b"}}).Verdicts[0].Reasons)
	}
}

func TestClusters(t *testing.T) {
	world := ClusterSnapshot(map[string]map[string]any{
		"big":   {"ready": true, "allocatable": map[string]any{"cpu": "100"}, "allocated": map[string]any{"cpu": "40"}, "labels": map[string]any{"tier": "gold"}},
		"small": {"ready": true, "allocatable": map[string]any{"cpu": "1"}, "labels": map[string]any{"tier": "gold"}},
		"any":   {"ready": true, "labels": map[string]any{"tier": "gold"}},
		"away":  {"ready": false, "labels": map[string]any{"tier": "gold"}},
		"iron":  {"ready": true},
	})
	w := podOf(t, `{spec: {nodeName: elsewhere, nodeSelector: {tier: gold}, containers: [{name: c, resources: {requests: {cpu: 4, example.com/gpu: 0}}}],
		topologySpreadConstraints: [{maxSkew: 1, topologyKey: none, whenUnsatisfiable: DoNotSchedule}]}}`)
	w.Replicas = 20
	r := judge(t, setOf(t, nil), world, w, Query{Kind: Clusters, Names: []string{"any", "away", "big", "gone", "iron", "small"}})
	diff(t, "Clusters are judged like nodes, by what can be said of clusters.", []Verdict{
		{Name: "any", Outcome: &Outcome{Feasible: true, Replicas: 20}},
		{Name: "away", Outcome: &Outcome{Predicate: "TaintToleration", Reasons: []string{"node(s) had untolerated taint(s)"}, Taint: "node.kubernetes.io/not-ready:NoSchedule"}},
		{Name: "big", Outcome: &Outcome{Feasible: true, Replicas: 15}},
		{Name: "gone", Outcome: &Outcome{Reasons: []string{"cluster(s) didn't exist"}}},
		{Name: "iron", Outcome: &Outcome{Predicate: "NodeAffinity", Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}}},
		{Name: "small", Outcome: &Outcome{Predicate: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}}},
	}, r.Verdicts)
	diff(t, "They are called clusters.", "2/6 clusters fit: 1 Insufficient cpu, 1 cluster(s) didn't exist, 1 cluster(s) didn't match Pod's node affinity/selector, "+
		"1 cluster(s) had untolerated taint(s) (away: node.kubernetes.io/not-ready:NoSchedule)", r.Summary())
}

func TestVolumes(t *testing.T) {
	const disk = `volumes: [{name: v, awsElasticBlockStore: {volumeID: d}}]`
	world := snapshotWith(t, big("a", ""), `{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c}], `+disk+`}}`)
	const claim = `volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]`
	all := []string{"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
	cases := map[string]struct {
		reason     string
		predicates []string
		volumes    string
		name       string
		want       string
	}{
		"None":    {"A pod that has none runs anywhere.", all, "volumes: []", "q", "1/1 nodes fit"},
		"Mounted": {"A disk is mounted once.", all[:1], disk, "q", "0/1 nodes fit: 1 node(s) had no available disk"},
		"Limits": {"Nobody knows how many disks a node may have.", all[1:2], disk, "q", "predicate NodeVolumeLimits: it panicked: runtime error: " +
			"invalid memory address or nil pointer dereference; Berth offers plugins only nodes, their pods, and namespaces: " +
			"the plugin may use something else of the scheduler"},
		"Template":  {"A template's are not judged.", all, claim + ", " + "hostname: h", "", "1/1 nodes fit"},
		"Claim":     {"Nobody knows of claims.", all, claim, "q", "predicate VolumeRestrictions: " + errClaims.Error()},
		"Zone":      {"Nobody knows of claims.", all[3:], claim, "q", "predicate VolumeZone: " + errClaims.Error()},
		"Ephemeral": {"A claim is made of it.", all[2:], "volumes: [{name: v, ephemeral: {}}]", "q", "predicate VolumeBinding: " + errClaims.Error()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := podOf(t, "{spec: {containers: [{name: c}], "+tc.volumes+"}}")
			w.Name = tc.name
			r, err := setOf(t, tc.predicates).Evaluate(t.Context(), world, w, Query{Kind: Nodes})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = r.Summary()
			}
			diff(t, tc.reason, tc.want, got)
		})
	}
}

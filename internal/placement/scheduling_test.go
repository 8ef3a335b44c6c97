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

package placement_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/test/budget"
)

// says is an evaluator that always returns the same decision on scheduling.
type says map[string]string

func (s says) Evaluate(_ context.Context, _ map[string]any) (placement.Decision, error) {
	return placement.Decision{Scheduling: s}, nil
}

func (says) Revision() uint64 { return 1 }

func (says) Input() *projection.FieldSet { return projection.AllFields() }

// everything returns a matcher for kinds with pod templates, and for some without.
func everything(t testing.TB) *match.Matcher {
	t.Helper()
	m, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
		APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"},
	}}}, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return m
}

// scheduling returns the parsed rule scheduling, by merge key.
func scheduling(t testing.TB, rule string) map[string]string {
	t.Helper()
	d, err := placement.ParseDecision(parseJSON(t, `{"scheduling": `+rule+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return d.Scheduling
}

func schedules(m *match.Matcher, name string, decision map[string]string) *placement.Policy {
	return &placement.Policy{
		Name: name, Matcher: m, Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail,
		Remediation: placementv1.RemediationAutomatic, Schedules: true, Evaluator: says(decision),
	}
}

func decideAs(t testing.TB, resource schema.GroupVersionResource, obj, old *unstructured.Unstructured, all ...*placement.Policy) *placement.Outcome {
	t.Helper()
	k, err := placement.NewKeyring([]byte(strings.Repeat("k", placement.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	known, err := workload.NewTemplates(workload.Template{
		GroupResource: schema.GroupResource{Group: "example.com", Resource: "trainings"}, Kind: "Training", Path: []string{"spec", "worker", "pod"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &placement.Decider{Policies: policies(all), Namespaces: namespaces{}, Keyring: k, Templates: known}
	before := obj.DeepCopy()
	out, err := d.Decide(t.Context(), placement.Request{Resource: resource, Namespace: "default", Object: obj, Old: old})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, obj) {
		t.Fatalf("deciding changed its input (-before +after):\n%s", cmp.Diff(before, obj))
	}
	return out
}

// made returns a Deployment with the pod spec.
func made(t testing.TB, spec corev1.PodSpec) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "default"},
		"spec": map[string]any{"replicas": int64(1), "template": map[string]any{"spec": content}},
	}}
}

func specOf(t testing.TB, obj *unstructured.Unstructured, path ...string) corev1.PodSpec {
	t.Helper()
	content, ok, err := unstructured.NestedMap(obj.Object, path...)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	var out corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

var template = []string{"spec", "template", "spec"}

// world generates random affinities, and nodes with which they can be distinguished.
type world struct{ *rand.Rand }

func (w world) pick(options ...string) string { return options[w.IntN(len(options))] }

func (w world) requirement() corev1.NodeSelectorRequirement {
	out := corev1.NodeSelectorRequirement{Key: w.pick("zone", "disk", "gen"), Operator: corev1.NodeSelectorOpIn}
	switch w.IntN(4) {
	case 0:
		out.Operator = corev1.NodeSelectorOpExists
	case 1:
		out.Operator, out.Key, out.Values = corev1.NodeSelectorOpGt, "gen", []string{w.pick("1", "2")}
	default:
		for range 1 + w.IntN(2) {
			out.Values = append(out.Values, w.pick("a", "b", "1", "2"))
		}
	}
	return out
}

func (w world) term() corev1.NodeSelectorTerm {
	var out corev1.NodeSelectorTerm
	for range w.IntN(3) {
		out.MatchExpressions = append(out.MatchExpressions, w.requirement())
	}
	if w.IntN(5) == 0 {
		out.MatchFields = append(out.MatchFields, corev1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{w.pick("n0", "n1")},
		})
	}
	return out
}

func (w world) podTerms() []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	for range w.IntN(3) {
		out = append(out, corev1.PodAffinityTerm{
			TopologyKey: w.pick("zone", "disk"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.pick("a", "b")}},
		})
	}
	return out
}

func (w world) affinity() *corev1.Affinity {
	out := &corev1.Affinity{}
	if w.IntN(4) > 0 {
		out.NodeAffinity = &corev1.NodeAffinity{}
		if w.IntN(4) > 0 {
			terms := []corev1.NodeSelectorTerm{w.term()}
			for range w.IntN(3) {
				terms = append(terms, w.term())
			}
			out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
		}
		for range w.IntN(2) {
			out.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(out.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: 1 + w.Int32N(9), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{w.requirement()}}})
		}
	}
	if w.IntN(3) == 0 {
		out.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: w.podTerms()}
	}
	if w.IntN(3) == 0 {
		out.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: w.podTerms()}
	}
	return out
}

func (w world) spec() corev1.PodSpec {
	var out corev1.PodSpec
	out.Containers = []corev1.Container{{Name: "a", Image: "a"}}
	if w.IntN(2) == 0 {
		out.NodeSelector = map[string]string{w.pick("zone", "disk"): w.pick("a", "b")}
	}
	if w.IntN(3) > 0 {
		out.Affinity = w.affinity()
	}
	for range w.IntN(3) {
		toleration := corev1.Toleration{Key: w.pick("x", "y"), Operator: corev1.TolerationOperator(w.pick("Exists", "")), Effect: corev1.TaintEffect(w.pick("NoSchedule", ""))}
		if !slices.Contains(out.Tolerations, toleration) {
			out.Tolerations = append(out.Tolerations, toleration)
		}
	}
	if w.IntN(2) == 0 {
		out.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1 + w.Int32N(2), TopologyKey: w.pick("zone", "disk"), WhenUnsatisfiable: corev1.DoNotSchedule}}
	}
	out.PriorityClassName, out.SchedulerName = w.pick("", "high"), w.pick("", "default-scheduler")
	return out
}

// decision returns a random rule as it is parsed.
func (w world) decision(t testing.TB) map[string]string {
	t.Helper()
	spec := w.spec()
	rule := map[string]any{}
	set := func(name string, value any, there bool) {
		if there && w.IntN(3) > 0 {
			rule[name] = value
		}
	}
	set("nodeSelector", spec.NodeSelector, len(spec.NodeSelector) > 0)
	set("affinity", spec.Affinity, spec.Affinity != nil)
	set("tolerations", spec.Tolerations, len(spec.Tolerations) > 0)
	set("topologySpreadConstraints", spec.TopologySpreadConstraints, len(spec.TopologySpreadConstraints) > 0)
	set("priorityClassName", spec.PriorityClassName, spec.PriorityClassName != "")
	set("schedulerName", spec.SchedulerName, spec.SchedulerName != "")
	text, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	return scheduling(t, string(text))
}

// nodes returns nodes of all kinds that the requirements can distinguish.
func nodes() []*corev1.Node {
	var out []*corev1.Node
	for _, zone := range []string{"", "a", "b", "1"} {
		for _, disk := range []string{"", "a", "2"} {
			for _, gen := range []string{"", "1", "2", "3"} {
				labels := map[string]string{}
				for key, value := range map[string]string{"zone": zone, "disk": disk, "gen": gen} {
					if value != "" {
						labels[key] = value
					}
				}
				for _, name := range []string{"n0", "n1"} {
					out = append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
				}
			}
		}
	}
	return out
}

// fits reports for each node whether the required node affinity allows it.
func fits(t testing.TB, a *corev1.Affinity) []bool {
	t.Helper()
	required := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: corev1.PodSpec{Affinity: a}})
	var out []bool
	for _, n := range nodes() {
		ok, err := required.Match(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ok)
	}
	return out
}

// appliedByClient returns the object after kubectl applied the developer's manifest: it replaces the lists that the
// manifest contains, and leaves the others as they are.
func appliedByClient(manifest, object *unstructured.Unstructured) *unstructured.Unstructured {
	out := object.DeepCopy()
	at := append(slices.Clone(template), "affinity")
	for _, kind := range []string{"nodeAffinity", "podAffinity", "podAntiAffinity"} {
		members, _, _ := unstructured.NestedMap(manifest.Object, append(slices.Clone(at), kind)...)
		for name, value := range members {
			if err := unstructured.SetNestedField(out.Object, value, append(slices.Clone(at), kind, name)...); err != nil {
				panic(err)
			}
		}
	}
	return out
}

// withoutRecord returns a copy of the object without its record.
func withoutRecord(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", placementv1.RequestedAnnotation)
	if len(out.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	return out
}

// checkTemplateReturns checks that an undo of a rollout changes nothing if policies made all differences: the object as it is now gets
// the pod template that it had before.
func checkTemplateReturns(t *testing.T, before, now *unstructured.Unstructured, all ...*placement.Policy) {
	t.Helper()
	now = viaJSON(t, now)
	undone := now.DeepCopy()
	undone.Object["spec"].(map[string]any)["template"] = before.Object["spec"].(map[string]any)["template"]
	got := viaJSON(t, decideAs(t, deployments, undone, now, all...).Object)
	if diff := cmp.Diff(now.Object, got.Object, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the template that policies made is requested (-want +got):\n%s\ntemplate: %v", diff, before.Object["spec"])
	}
}

// TestScheduling checks that the decisions of several policies on scheduling are merged with the requested state by
// Kubernetes' own rules. The result does not depend on the order of the policies, and is stable. It allows exactly the
// nodes that all affinities allow. When the policies stop deciding, the developer's original object returns.
func TestScheduling(t *testing.T) {
	m := everything(t)
	seeds, conflicts, silent, restricted := budget.Rounds(100), 0, 0, 0
	for seed := range uint64(seeds) {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		developer := made(t, w.spec())
		var all, quiet []*placement.Policy
		for i := range 1 + w.IntN(3) {
			name := fmt.Sprintf("p%d", i)
			p := schedules(m, name, w.decision(t))
			p.Priority = int32(w.IntN(2))
			all, quiet = append(all, p), append(quiet, schedules(m, name, nil))
		}
		out := decideAs(t, deployments, developer, nil, all...)
		for _, v := range out.Verdicts {
			if v.Err != nil {
				t.Fatal(v.Err)
			}
			conflicts += len(v.Conflicts)
		}

		// Compare with the patched object, as the API server applies the patch.
		result := applyPatch(t, developer, placement.Patch(developer, out.Object, out.Paths))
		if diff := cmp.Diff(viaJSON(t, out.Object).Object, result.Object); diff != "" {
			t.Fatalf("seed %d: the patch does not yield the object (-want +got):\n%s", seed, diff)
		}
		for _, v := range out.Verdicts {
			for _, c := range v.Changes {
				if !c.Done(result) {
					t.Fatalf("seed %d: not done: %s", seed, c.Action())
				}
				if c.Done(developer) {
					t.Fatalf("seed %d: done before: %s", seed, c.Action())
				}
			}
		}
		if len(placement.Patch(developer, out.Object, out.Paths)) == 0 {
			silent++
		}

		slices.Reverse(all)
		if diff := cmp.Diff(out.Object, decideAs(t, deployments, developer, nil, all...).Object); diff != "" {
			t.Fatalf("seed %d: the object depends on the order of the policies:\n%s", seed, diff)
		}
		for _, old := range []*unstructured.Unstructured{nil, result} {
			again := decideAs(t, deployments, result, old, all...)
			if diff := cmp.Diff(result.Object, viaJSON(t, again.Object).Object); diff != "" {
				t.Fatalf("seed %d: the second decision changes the object (-first +second):\n%s", seed, diff)
			}
			for _, v := range again.Verdicts {
				if len(v.Changes) > 0 {
					t.Fatalf("seed %d: still to do: %s", seed, v.Changes[0].Action())
				}
			}
		}
		applied := developer.DeepCopy()
		if diff := cmp.Diff(result.Object, viaJSON(t, decideAs(t, deployments, applied, result, all...).Object).Object); diff != "" {
			t.Fatalf("seed %d: the developer's manifest applied once more makes another object:\n%s", seed, diff)
		}
		partly := appliedByClient(developer, result)
		for _, old := range []*unstructured.Unstructured{nil, result} {
			if diff := cmp.Diff(result.Object, viaJSON(t, decideAs(t, deployments, partly, old, all...).Object).Object); diff != "" {
				t.Fatalf("seed %d: the developer's manifest applied by a client once more makes another object:\n%s", seed, diff)
			}
		}
		back := decideAs(t, deployments, result, result, quiet...).Object
		if diff := cmp.Diff(viaJSON(t, developer).Object, viaJSON(t, withoutRecord(back)).Object); diff != "" {
			t.Fatalf("seed %d: the developer's object does not return (-want +got):\n%s", seed, diff)
		}
		checkTemplateReturns(t, result, back, quiet...)
		var others []*placement.Policy
		for _, p := range all {
			others = append(others, schedules(m, p.Name, w.decision(t)))
		}
		checkTemplateReturns(t, result, decideAs(t, deployments, result, result, others...).Object, others...)

		// Check affinities against Kubernetes' own implementation.
		got := specOf(t, result, template...)
		want := fits(t, specOf(t, developer, template...).Affinity)
		before := slices.Clone(want)
		for _, p := range all {
			var a *corev1.Affinity
			if text := p.Evaluator.(says)["affinity"]; text != "" {
				a = &corev1.Affinity{}
				if err := json.Unmarshal([]byte(text), a); err != nil {
					t.Fatal(err)
				}
			}
			for i, ok := range fits(t, a) {
				want[i] = want[i] && ok
			}
		}
		if diff := cmp.Diff(want, fits(t, got.Affinity)); diff != "" {
			t.Fatalf("seed %d: the merged affinity matches other nodes (-want +got):\n%s", seed, diff)
		}
		if slices.Contains(want, true) && !slices.Equal(before, want) {
			restricted++
		}
	}
	if conflicts < seeds/15 || silent > seeds/2 || restricted < seeds/15 {
		t.Errorf("%d conflicts, %d objects as they were, %d restricted to fewer nodes", conflicts, silent, restricted)
	}
}

const (
	inA   = `{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}`
	hasGo = `{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "go", "operator": "Exists"}]}]}}}`
)

// expressions returns the keys in each required term.
func expressions(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	a := specOf(t, obj, template...).Affinity
	if a == nil || a.NodeAffinity == nil {
		return ""
	}
	var out []string
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var keys []string
		for _, e := range term.MatchExpressions {
			keys = append(keys, e.Key)
		}
		out = append(out, strings.Join(keys, "+"))
	}
	return strings.Join(out, " ")
}

// TestAffinityByPolicy checks that a policy's addition to an affinity follows the policy's decision. It stays if
// nothing decides, and is not part of the requested state.
func TestAffinityByPolicy(t *testing.T) {
	m := everything(t)
	a, b := schedules(m, "a", scheduling(t, `{"affinity": `+inA+`}`)), schedules(m, "b", scheduling(t, `{"affinity": `+hasGo+`}`))
	none := func(name string) *placement.Policy { return schedules(m, name, nil) }
	developer := made(t, corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "own", Operator: corev1.NodeSelectorOpExists}}},
		}},
	}}})
	both := decideAs(t, deployments, developer, nil, a, b).Object
	other := made(t, corev1.PodSpec{})
	manual := schedules(m, "a", nil)
	manual.Remediation = placementv1.RemediationManual
	failing := schedules(m, "a", nil)
	failing.Evaluator = &fakeEvaluator{err: errFake}
	tests := map[string]struct {
		obj  *unstructured.Unstructured
		all  []*placement.Policy
		want string
	}{
		"Both":            {both, []*placement.Policy{a, b}, "own+zone+go"},
		"OneChangesMind":  {both, []*placement.Policy{none("a"), b}, "own+go"},
		"OneIsGone":       {both, []*placement.Policy{b}, "own+go"},
		"NoneGives":       {both, []*placement.Policy{none("c")}, "own+zone+go"},
		"OneFails":        {both, []*placement.Policy{failing, b}, "own+zone+go"},
		"AnotherOneSays":  {both, []*placement.Policy{a, b, schedules(m, "c", scheduling(t, `{"affinity": `+inA+`}`))}, "own+zone+go"},
		"NobodySays":      {both, []*placement.Policy{none("a"), none("b")}, "own"},
		"DeveloperHasNew": {withRecord(other, both), []*placement.Policy{a, b}, "zone+go"},
		"NewIsIntent":     {decideAs(t, deployments, withRecord(other, both), both, a, b).Object, []*placement.Policy{none("a"), none("b")}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out := decideAs(t, deployments, tc.obj, both, tc.all...)
			if got := expressions(t, out.Object); got != tc.want {
				t.Errorf("terms %q, want %q", got, tc.want)
			}
			for _, v := range out.Verdicts {
				if len(v.Conflicts) > 0 {
					t.Errorf("conflicts %v", v.Conflicts)
				}
			}
		})
	}
	t.Run("OneIsManual", func(t *testing.T) {
		k, err := placement.NewKeyring([]byte(strings.Repeat("k", placement.KeySize)))
		if err != nil {
			t.Fatal(err)
		}
		d := &placement.Decider{Policies: policies{manual, none("b")}, Namespaces: namespaces{}, Keyring: k}
		out, err := d.Remediate(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: both, Old: both}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := expressions(t, out.Object); got != "own+zone" {
			t.Errorf("terms %q", got)
		}
	})
}

func withRecord(obj, from *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	setRecord(out, recordOf(from))
	return out
}

func TestTooManyTerms(t *testing.T) {
	m := everything(t)
	terms := func(n int, key string) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(`{"matchExpressions": [{"key": %q, "operator": "In", "values": ["v%d"]}]}`, key, i))
		}
		return `{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [` + strings.Join(out, ", ") + `]}}}}`
	}
	a, b := schedules(m, "a", scheduling(t, terms(9, "a"))), schedules(m, "b", scheduling(t, terms(8, "b")))
	out := decideAs(t, deployments, made(t, corev1.PodSpec{}), nil, a, b)
	if v := out.Verdicts[1]; v.Err == nil || !strings.Contains(v.Err.Error(), "more than 64 terms") || out.Verdicts[0].Err != nil {
		t.Errorf("errors %v, %v", out.Verdicts[0].Err, v.Err)
	}
	if got := strings.Count(expressions(t, out.Object), " "); got != 8 {
		t.Errorf("%d terms", got+1)
	}
	b = schedules(m, "b", scheduling(t, terms(7, "b")))
	out = decideAs(t, deployments, made(t, corev1.PodSpec{}), nil, a, b)
	if got := strings.Count(expressions(t, out.Object), " "); got != 62 || out.Verdicts[1].Err != nil {
		t.Errorf("%d terms, %v", got+1, out.Verdicts[1].Err)
	}
}

// TestNeedlessAffinity checks that what the developer's affinity already contains is neither added nor recorded.
func TestNeedlessAffinity(t *testing.T) {
	var a corev1.Affinity
	if err := json.Unmarshal([]byte(inA), &a); err != nil {
		t.Fatal(err)
	}
	obj := made(t, corev1.PodSpec{Affinity: &a})
	out := decideAs(t, deployments, obj, nil, schedules(everything(t), "p", scheduling(t, `{"affinity": `+inA+`}`)))
	if patch := placement.Patch(obj, out.Object, out.Paths); len(patch) > 0 || len(out.Verdicts[0].Changes) > 0 {
		t.Errorf("patch %v, changes %v", patch, out.Verdicts[0].Changes)
	}
}

// TestEditedAffinity checks edits of an affinity to which policies added terms. The policies' additions do not become
// part of the requested state, and the developer's new terms are not lost.
func TestEditedAffinity(t *testing.T) {
	m := everything(t)
	terms := func(keys ...[]string) *unstructured.Unstructured {
		selector := &corev1.NodeSelector{}
		for _, term := range keys {
			var requirements []corev1.NodeSelectorRequirement
			for _, key := range term {
				requirements = append(requirements, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists})
			}
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: requirements})
		}
		if len(keys) == 0 {
			return made(t, corev1.PodSpec{})
		}
		return made(t, corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}})
	}
	exists := func(key string) *placement.Policy {
		return schedules(m, "p", scheduling(t, `{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
			{"matchExpressions": [{"key": "`+key+`", "operator": "Exists"}]}]}}}}`))
	}
	tests := map[string]struct {
		before, edited, want *unstructured.Unstructured
	}{
		"OneMore":      {terms([]string{"own"}), terms([]string{"own", "old", "more"}), terms([]string{"own", "more", "new"})},
		"Another":      {terms([]string{"own"}), terms([]string{"own", "old"}, []string{"more"}), terms([]string{"own", "new"}, []string{"more", "new"})},
		"FromNone":     {terms(), terms([]string{"old", "more"}), terms([]string{"more", "new"})},
		"Removed":      {terms([]string{"own"}), terms([]string{"old"}), terms([]string{"new"})},
		"Reset":        {terms([]string{"own"}), terms([]string{"own"}), terms([]string{"own", "new"})},
		"AskedForBoth": {terms([]string{"own", "old"}, []string{"b"}), terms([]string{"own", "old"}, []string{"more"}), terms([]string{"own", "old", "new"}, []string{"more", "new"})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stands := viaJSON(t, decideAs(t, deployments, tc.before, nil, exists("old")).Object)
			edited := withRecord(tc.edited, stands)
			// Decide with the version in force first, and with another version later.
			next := viaJSON(t, decideAs(t, deployments, edited, stands, exists("old")).Object)
			next = viaJSON(t, decideAs(t, deployments, next, next, exists("new")).Object)
			if diff := cmp.Diff(specOf(t, tc.want, template...).Affinity, specOf(t, next, template...).Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			// If the policy does not exist any more, nothing changes until another one gives the object something.
			other := schedules(m, "q", nil)
			kept := decideAs(t, deployments, edited, stands, other).Object
			if diff := cmp.Diff(fits(t, specOf(t, edited, template...).Affinity), fits(t, specOf(t, kept, template...).Affinity)); diff != "" {
				t.Errorf("nodes that fit without the policy (-want +got):\n%s", diff)
			}
		})
	}
}

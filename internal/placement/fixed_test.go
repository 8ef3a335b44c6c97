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
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/projection"
)

func fromYAML(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestImmutable checks that changes which the API server would reject are reported, but neither patched nor recorded.
func TestImmutable(t *testing.T) {
	m := everything(t)
	rule := scheduling(t, `{"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a"}], "schedulerName": "mine", "affinity": `+inA+`}`)
	podAffinity := scheduling(t, `{"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}}}`)
	const (
		pod       = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeSelector: {disk: hdd}, priorityClassName: low, priority: 5, preemptionPolicy: Never}}"
		job       = "{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {template: {spec: {nodeSelector: {disk: hdd}}}}}"
		suspended = "{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {suspend: true, template: {spec: {nodeSelector: {disk: hdd}}}}}"
		started   = "{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {suspend: true, template: {spec: {nodeSelector: {disk: hdd}}}}, status: {startTime: 2026-01-01T00:00:00Z}}"
		pods      = "immutable: delete the pod so that it is created again"
		jobs      = "immutable: delete the job so that it is created again"
	)
	tests := map[string]struct {
		text, resource string
		exists         bool
		rule           map[string]string
		// want are the reasons why keys cannot be changed, by subject.
		want map[string]string
	}{
		"NewPod":            {pod, "pods", false, rule, map[string]string{"nodeSelector disk": "", "toleration": "", "schedulerName": "", "affinity": ""}},
		"Pod":               {pod, "pods", true, rule, map[string]string{"nodeSelector disk": pods, "toleration": pods, "schedulerName": pods, "affinity": pods}},
		"NewJob":            {job, "jobs.batch", false, rule, map[string]string{"nodeSelector disk": "", "toleration": "", "schedulerName": "", "affinity": ""}},
		"Job":               {job, "jobs.batch", true, rule, map[string]string{"nodeSelector disk": jobs, "toleration": jobs, "schedulerName": jobs, "affinity": jobs}},
		"SuspendedJob":      {suspended, "jobs.batch", true, rule, map[string]string{"nodeSelector disk": "", "toleration": "", "schedulerName": jobs, "affinity": ""}},
		"SuspendedAffinity": {suspended, "jobs.batch", true, podAffinity, map[string]string{"affinity": jobs}},
		"StartedJob":        {started, "jobs.batch", true, rule, map[string]string{"nodeSelector disk": jobs, "toleration": jobs, "schedulerName": jobs, "affinity": jobs}},
		"ReplicaSet":        {"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {template: {spec: {}}}}", "replicasets.apps", true, rule, map[string]string{"nodeSelector disk": "", "toleration": "", "schedulerName": "", "affinity": ""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := fromYAML(t, tc.text)
			old := obj
			if !tc.exists {
				old = nil
			}
			resource := schema.ParseGroupResource(tc.resource).WithVersion("v1")
			p := schedules(m, "p", tc.rule)
			out := decideAs(t, resource, obj, old, p)
			got := map[string]string{}
			for _, c := range out.Verdicts[0].Changes {
				subject, _, _ := strings.Cut(c.Subject(), " {")
				got[subject] = c.Immutable
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			result := applyPatch(t, obj, placement.Patch(obj, out.Object, out.Paths))
			for _, c := range out.Verdicts[0].Changes {
				if c.Done(result) != (c.Immutable == "") {
					t.Errorf("%s: done is %t", c.Action(), c.Done(result))
				}
			}
			if !slices.ContainsFunc(out.Verdicts[0].Changes, func(c placement.Change) bool { return c.Immutable == "" }) && recordOf(result) != "" {
				t.Errorf("record %s", recordOf(result))
			}
			if again := decideAs(t, resource, result, old, p); len(placement.Patch(result, again.Object, again.Paths)) > 0 {
				t.Error("not settled")
			}
		})
	}
}

// TestPodPriority checks that a Pod whose priority class changes loses the fields that the API server derived from the
// old class, and that the patch only contains changed members.
func TestPodPriority(t *testing.T) {
	obj := fromYAML(t, "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {priorityClassName: low, priority: 5, preemptionPolicy: Never, tolerations: [{key: b}]}}")
	patched := func(rule string) []string {
		out := decideAs(t, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, obj, nil, schedules(everything(t), "p", scheduling(t, rule)))
		var got []string
		for _, op := range placement.Patch(obj, out.Object, out.Paths) {
			got = append(got, op.Operation+" "+op.Path)
		}
		return got
	}
	if diff := cmp.Diff([]string{"add /metadata/annotations", "replace /spec/priorityClassName", "remove /spec/priority", "remove /spec/preemptionPolicy"},
		patched(`{"priorityClassName": "high"}`)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"add /metadata/annotations", "add /spec/nodeSelector", "add /spec/tolerations/1"},
		patched(`{"priorityClassName": "low", "nodeSelector": {"a": "b"}, "tolerations": [{"key": "b"}, {"key": "a"}]}`)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	if got := patched(`{"priorityClassName": "low"}`); got != nil {
		t.Errorf("patch %v", got)
	}
}

// TestOrderOfLists checks that lists keep their order, and that the additions of policies come last.
func TestOrderOfLists(t *testing.T) {
	obj := made(t, corev1.PodSpec{
		Tolerations: []corev1.Toleration{{Key: "z"}, {Key: "m", Operator: corev1.TolerationOpEqual, Value: "v"}, {Key: "b"}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "z", WhenUnsatisfiable: corev1.DoNotSchedule}, {MaxSkew: 1, TopologyKey: "a", WhenUnsatisfiable: corev1.ScheduleAnyway},
		},
	})
	out := decideAs(t, deployments, obj, nil, schedules(everything(t), "p", scheduling(t, `{
		"tolerations": [{"key": "a"}, {"key": "m", "value": "v"}],
		"topologySpreadConstraints": [{"maxSkew": 3, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]}`)))
	spec := specOf(t, out.Object, template...)
	var got []string
	for _, toleration := range spec.Tolerations {
		got = append(got, toleration.Key)
	}
	for _, c := range spec.TopologySpreadConstraints {
		got = append(got, c.TopologyKey+string('0'+rune(c.MaxSkew)))
	}
	if diff := cmp.Diff([]string{"z", "m", "b", "a", "z3", "a1", "a2"}, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}

// TestUnknownPods checks that a policy fails if it decides on scheduling for an object whose pod template is unknown or
// missing.
func TestUnknownPods(t *testing.T) {
	tests := map[string]struct{ text, resource, want string }{
		"Unknown":  {"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}, spec: {template: {spec: {}}}}", "gadgets.example.com", "rule scheduling: Gadget.example.com has no pod template that is known: declare it in the manager's configuration, under podTemplates"},
		"Declared": {"{apiVersion: example.com/v1, kind: Training, metadata: {name: a}, spec: {worker: {pod: {spec: {}}}}}", "trainings.example.com", ""},
		"Missing":  {"{apiVersion: example.com/v1, kind: Training, metadata: {name: a}, spec: {worker: {}}}", "trainings.example.com", "rule scheduling: spec.worker.pod is not an object"},
		"Odd":      {"{apiVersion: example.com/v1, kind: Training, metadata: {name: a}, spec: {worker: {pod: {spec: {tolerations: {}}}}}}", "trainings.example.com", "rule scheduling: spec.worker.pod.spec.tolerations is not a list"},
		"OddPart":  {"{apiVersion: example.com/v1, kind: Training, metadata: {name: a}, spec: {worker: {pod: {spec: {affinity: {nodeAffinity: []}}}}}}", "trainings.example.com", "affinity: the object's own nodeAffinity is not an object: correct it in the object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := fromYAML(t, tc.text)
			p := schedules(everything(t), "p", scheduling(t, `{"nodeSelector": {"disk": "ssd"}, "affinity": `+inA+`}`))
			out := decideAs(t, schema.ParseGroupResource(tc.resource).WithVersion("v1"), obj, nil, p)
			got := ""
			if err := out.Verdicts[0].Err; err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("error %s, want %s", got, tc.want)
			}
			if patch := placement.Patch(obj, out.Object, out.Paths); (len(patch) > 0) != (tc.want == "") {
				t.Errorf("patch %v", patch)
			}
		})
	}
	p := schedules(everything(t), "p", scheduling(t, `{"schedulerName": "mine"}`))
	p.Schedules = false
	if v := decideAs(t, deployments, made(t, corev1.PodSpec{}), nil, p).Verdicts[0]; v.Err == nil {
		t.Error("a policy says what it is not known to say")
	}
}

// reading is an evaluator that decides by the object's node selector.
type reading struct{ says }

func (reading) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	disk, _, _ := unstructured.NestedString(input, "spec", "template", "spec", "nodeSelector", "disk")
	return placement.Decision{Scheduling: map[string]string{"nodeSelector/disk": "not-" + disk}}, nil
}

func (reading) Input() *projection.FieldSet { return projection.AllFields() }

// TestInputIsTheDevelopers checks that a policy gets the requested state and not its own earlier output, so that it
// settles.
func TestInputIsTheDevelopers(t *testing.T) {
	p := schedules(everything(t), "p", nil)
	p.Evaluator = reading{}
	obj := made(t, corev1.PodSpec{NodeSelector: map[string]string{"disk": "hdd"}})
	for range 3 {
		next := decideAs(t, deployments, obj, obj, p).Object
		if got := specOf(t, next, template...).NodeSelector["disk"]; got != "not-hdd" {
			t.Fatalf("disk %s", got)
		}
		obj = viaJSON(t, next)
	}
}

func TestSchedulingActions(t *testing.T) {
	text := func(s string) *string { return &s }
	tests := map[string]struct {
		change placement.Change
		want   string
	}{
		"Selector":   {placement.Change{Key: "nodeSelector/example.com/disk", From: text("hdd"), To: text("ssd")}, "set nodeSelector example.com/disk to ssd (was hdd)"},
		"Gone":       {placement.Change{Key: "nodeSelector/disk", From: text("hdd")}, "remove nodeSelector disk"},
		"Toleration": {placement.Change{Key: `tolerations/{"key":"a"}`, To: text("present")}, `add toleration {"key":"a"}`},
		"Untolerate": {placement.Change{Key: `tolerations/{"key":"a"}`, From: text("present")}, `remove toleration {"key":"a"}`},
		"Constraint": {placement.Change{Key: "topologySpreadConstraints/a/b/DoNotSchedule", To: text("{}")}, "set topologySpreadConstraint a/b/DoNotSchedule to {}"},
		"Affinity":   {placement.Change{Key: "affinity/p", To: text("{}")}, "set affinity to {}"},
		"Class":      {placement.Change{Key: "priorityClassName", To: text("a"), Immutable: "immutable: b"}, "set priorityClassName to a (immutable: b)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.change.Field = "scheduling"
			if got := tc.change.Action(); got != tc.want {
				t.Errorf("action %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSchedule checks that Schedule merges the decision of a single policy as Decide does, but without a record.
func TestSchedule(t *testing.T) {
	obj := made(t, corev1.PodSpec{NodeSelector: map[string]string{"disk": "hdd", "own": "1"}, SchedulerName: "default-scheduler"})
	before := obj.DeepCopy()
	got, err := podscheduling.Merge(obj.Object, template, scheduling(t, `{"nodeSelector": {"disk": "ssd"}, "affinity": `+inA+`}`))
	if err != nil {
		t.Fatal(err)
	}
	want := decideAs(t, deployments, obj, nil, schedules(everything(t), "p", scheduling(t, `{"nodeSelector": {"disk": "ssd"}, "affinity": `+inA+`}`))).Object
	setRecord(want, "")
	unstructured.RemoveNestedField(want.Object, "metadata", "annotations")
	if diff := cmp.Diff(want.Object, got); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, obj); diff != "" {
		t.Errorf("the object was changed:\n%s", diff)
	}
	if _, err := podscheduling.Merge(map[string]any{}, template, nil); err == nil {
		t.Error("no error without pods")
	}
}

// TestFixedAppliedAgain checks that applying a manifest again is not rejected because of values that policies set and
// that can no longer be changed, whatever the policies decide now.
func TestFixedAppliedAgain(t *testing.T) {
	m := everything(t)
	said := `{"nodeSelector": {"disk": "ssd", "new": "1"}, "tolerations": [{"key": "a"}], "affinity": ` + inA + `}`
	tests := map[string]struct{ manifest, resource string }{
		"Pod": {"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeSelector: {disk: hdd}}}", "pods"},
		"Job": {"{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {template: {spec: {nodeSelector: {disk: hdd}}}}}", "jobs.batch"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resource := schema.ParseGroupResource(tc.resource).WithVersion("v1")
			manifest := fromYAML(t, tc.manifest)
			stands := viaJSON(t, decideAs(t, resource, manifest, nil, schedules(m, "p", scheduling(t, said))).Object)
			for _, rule := range []string{said, `{"nodeSelector": {"disk": "nvme"}}`, `{}`} {
				for _, again := range []*unstructured.Unstructured{manifest, withRecord(manifest, stands)} {
					out := decideAs(t, resource, again, stands, schedules(m, "p", scheduling(t, rule)))
					if diff := cmp.Diff(stands.Object["spec"], viaJSON(t, out.Object).Object["spec"]); diff != "" {
						t.Errorf("%s: spec (-before +after):\n%s", rule, diff)
					}
					if recordOf(out.Object) != recordOf(stands) {
						t.Errorf("%s: record %s, want %s", rule, recordOf(out.Object), recordOf(stands))
					}
				}
			}
			// The API server must reject other values that the developer requests.
			other := fromYAML(t, strings.ReplaceAll(tc.manifest, "hdd", "tape"))
			out := decideAs(t, resource, other, stands, schedules(m, "p", scheduling(t, `{}`)))
			if text := recordOf(out.Object); strings.Contains(text, "nodeSelector/disk") {
				t.Errorf("record %s", text)
			}
		})
	}
}

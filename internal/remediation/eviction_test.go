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

package remediation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

const fixedPod = "immutable: delete the pod so that it is created again"

// ownedBy returns the reference to a controller of a kind.
func ownedBy(version schema.GroupVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version.String(), Kind: kind, Name: "owner", UID: "owner", Controller: new(true)}}
}

// newPod returns a running Pod of a ReplicaSet, with the fields that evictions read and no others; change may be nil.
func newPod(t *testing.T, change func(*corev1.Pod)) *unstructured.Unstructured {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web", CreationTimestamp: metav1.NewTime(midnight), OwnerReferences: ownedBy(appsv1.SchemeGroupVersion, "ReplicaSet")},
		Spec:       corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(pod)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{Object: remediation.EvictionFields().Project(content)}
	out.SetAPIVersion("v1")
	out.SetKind("Pod")
	// The watch has these of every object, and remediation the annotations.
	out.SetNamespace(pod.Namespace)
	out.SetName(pod.Name)
	out.SetUID(pod.UID)
	out.SetDeletionTimestamp(pod.DeletionTimestamp)
	out.SetAnnotations(pod.Annotations)
	return out
}

// evicting returns the verdict of a policy with evictions on a Pod that lacks a node selector and an annotation.
func evicting(policy string, with ...func(*placement.Verdict)) *placement.Verdict {
	return enforced(policy, append([]func(*placement.Verdict){func(v *placement.Verdict) {
		v.Policy.Evict, v.Policy.Schedules = true, true
		v.Changes = []placement.Change{
			{Field: "annotations", Key: "a", To: new("x")},
			{Field: "scheduling", Key: "nodeSelector/disk", To: new("ssd"), Immutable: fixedPod},
		}
	}}, with...)...)
}

// TestQualifyEvictions checks which Pods are evicted, and what is said of the others.
func TestQualifyEvictions(t *testing.T) {
	const none = "not evicted: "
	for name, tc := range map[string]struct {
		pod      func(*corev1.Pod)
		verdicts []*placement.Verdict
		// evicts are the policies for which the Pod is evicted, and reason is why the scheduling does not change.
		evicts []string
		reason string
	}{
		"ReplicaSet":  {evicts: []string{"p"}},
		"StatefulSet": {pod: func(p *corev1.Pod) { p.OwnerReferences = ownedBy(appsv1.SchemeGroupVersion, "StatefulSet") }, evicts: []string{"p"}},
		"ReplicationController": {
			pod: func(p *corev1.Pod) { p.OwnerReferences = ownedBy(corev1.SchemeGroupVersion, "ReplicationController") }, evicts: []string{"p"},
		},
		"Pending":     {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, evicts: []string{"p"}},
		"Bare":        {pod: func(p *corev1.Pod) { p.OwnerReferences = nil }, reason: none + "no controller will create another Pod; delete the Pod and create it again"},
		"OnlyOwned":   {pod: func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, reason: none + "no controller will create another Pod; delete the Pod and create it again"},
		"DaemonSet":   {pod: func(p *corev1.Pod) { p.OwnerReferences = ownedBy(appsv1.SchemeGroupVersion, "DaemonSet") }, reason: none + "the Pod's DaemonSet might create no other Pod, or only one on the same node"},
		"Job":         {pod: func(p *corev1.Pod) { p.OwnerReferences = ownedBy(batchv1.SchemeGroupVersion, "Job") }, reason: none + "the Pod's Job might create no other Pod, or only one on the same node"},
		"AnotherKind": {pod: func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }, reason: none + "the Pod's ReplicaSet might create no other Pod, or only one on the same node"},
		"Static":      {pod: func(p *corev1.Pod) { p.OwnerReferences = ownedBy(corev1.SchemeGroupVersion, "Node") }, reason: none + "the Pod is a static Pod"},
		"Mirror":      {pod: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, reason: none + "the Pod is a static Pod"},
		"Succeeded":   {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, reason: none + "the Pod has finished"},
		"Failed":      {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, reason: none + "the Pod has finished"},
		"Unbound":     {pod: func(p *corev1.Pod) { p.Spec.NodeName = "" }, reason: none + "the Pod is not bound to a node yet; Berth may evict it once it is"},
		"Gated": {
			pod: func(p *corev1.Pod) {
				p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
			},
			reason: none + "the Pod has scheduling gates; Berth may evict it once it is bound to a node",
		},
		"Terminating":    {pod: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(midnight)) }, reason: fixedPod},
		"WithoutEvict":   {verdicts: []*placement.Verdict{evicting("p", func(v *placement.Verdict) { v.Policy.Evict = false })}, reason: fixedPod},
		"Manual":         {verdicts: []*placement.Verdict{evicting("p", func(v *placement.Verdict) { v.Policy.Remediation = placementv1.RemediationManual })}},
		"NotEnforced":    {verdicts: []*placement.Verdict{evicting("p", func(v *placement.Verdict) { v.Policy.Mode = placementv1.ModeDryRun })}},
		"OnlyAnnotation": {verdicts: []*placement.Verdict{evicting("p", func(v *placement.Verdict) { v.Changes = v.Changes[:1] })}},
		"Denied":         {verdicts: []*placement.Verdict{evicting("p"), enforced("q", refuse)}},
		"DeniedIfNew": {
			verdicts: []*placement.Verdict{evicting("p"), enforced("q", func(v *placement.Verdict) { v.DeniesNew, v.Changes = true, nil })},
			reason:   none + "a policy would deny the Pod that takes the place of this one",
		},
		"TakesBack": {verdicts: []*placement.Verdict{evicting("p", func(v *placement.Verdict) { v.Policy.Schedules = false })}, reason: fixedPod},
		"NoClusterLeft": {
			verdicts: []*placement.Verdict{evicting("p"), enforced("q", func(v *placement.Verdict) { v.Changes[0].Immutable = "no cluster is left" })},
			reason:   none + "a policy would deny the Pod that takes the place of this one",
		},
		"BesideAnother": {
			verdicts: []*placement.Verdict{evicting("p", func(v *placement.Verdict) { v.Policy.Evict = false }), evicting("q", func(v *placement.Verdict) { v.Changes = v.Changes[1:] })},
			evicts:   []string{"p", "q"}, reason: fixedPod,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.verdicts == nil {
				tc.verdicts = []*placement.Verdict{evicting("p")}
			}
			feasibility.Qualify(newPod(t, tc.pod), tc.verdicts)
			due := remediation.DueOf(tc.verdicts)
			var evicts []string
			if due.Evicts(podKey("web").Resource.GroupResource()) {
				evicts = remediation.Names(due)
			}
			if diff := cmp.Diff(tc.evicts, evicts); diff != "" {
				t.Errorf("evicted for (-want +got):\n%s", diff)
			}
			changes := tc.verdicts[0].Changes
			if last := changes[len(changes)-1]; last.Immutable != tc.reason {
				t.Errorf("reason %q, want %q", last.Immutable, tc.reason)
			}
		})
	}
}

// TestQualifyOtherKinds checks that only Pods are evicted.
func TestQualifyOtherKinds(t *testing.T) {
	obj, v := newPod(t, nil), evicting("p")
	obj.SetAPIVersion("batch/v1")
	obj.SetKind("Job")
	feasibility.Qualify(obj, []*placement.Verdict{v})
	if v.Changes[1].Immutable != fixedPod {
		t.Errorf("a Job is evicted: %q", v.Changes[1].Immutable)
	}
}

// TestQualifyReleased checks that what an approval would release is qualified, too.
func TestQualifyReleased(t *testing.T) {
	approved := func(v *placement.Verdict) { v.Policy.Remediation = placementv1.RemediationApproved }
	for name, tc := range map[string]struct {
		pod   func(*corev1.Pod)
		moves int
	}{
		"Running":     {moves: 1},
		"Terminating": {pod: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(midnight)) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := evicting("p", approved)
			v.Released = evicting("p", approved)
			feasibility.Qualify(newPod(t, tc.pod), []*placement.Verdict{v})
			l := remediation.NewLedger()
			l.Record(podKey("web"), "web", "1", []*placement.Verdict{v}, false)
			if got := l.Report("p").Outstanding; got != tc.moves {
				t.Errorf("%d moves, want %d", got, tc.moves)
			}
			for _, m := range l.Moves("p") {
				if want := "evict: set annotation a to x; set nodeSelector disk to ssd"; m.Action() != want {
					t.Errorf("action %q, want %q", m.Action(), want)
				}
			}
		})
	}
}

// TestPodReadiness checks which Pods count as ready.
func TestPodReadiness(t *testing.T) {
	ready := func(status corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"Ready":     {func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionTrue) }, true},
		"NotReady":  {func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionFalse) }, false},
		"Pending":   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		"Succeeded": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, true},
		"Failed":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"Gated":     {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} }, true},
		"Terminating": {func(p *corev1.Pod) {
			p.Status.Conditions, p.DeletionTimestamp = ready(corev1.ConditionTrue), new(metav1.NewTime(midnight))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			tc.change(pod)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
			if err != nil {
				t.Fatal(err)
			}
			obj := &unstructured.Unstructured{Object: remediation.RolloutFields().Project(content)}
			obj.SetAPIVersion("v1")
			obj.SetKind("Pod")
			if diff := cmp.Diff(remediation.Rollout{Ready: tc.want}, remediation.RolloutOf(obj)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// evictingCase returns a scheduler with a policy that evicts and matches all Pods, whose readiness is known.
func evictingCase(t *testing.T, bounds placementv1.RemediationBudget, matched int) (*budgetCase, remediation.Due) {
	t.Helper()
	due := remediation.Due{evicting("p", func(v *placement.Verdict) { v.Changes[1].Immutable = ""; v.Policy.Budget = bounds })}
	c := newBudgetCase(t, remediation.Limits{})
	c.all, c.matched = []string{"p"}, matched
	c.Begin(midnight)
	c.changed("p", due[0].Policy)
	c.settlePods(due[0].Policy)
	return c, due
}

func (c *budgetCase) settlePods(p *placement.Policy, more ...schema.GroupVersionResource) {
	_, epoch := c.Settled(p.Name)
	c.Settle(c.now, p, append(more, podKey("").Resource), epoch)
}

// delay returns the delay after which a Pod may be evicted.
func (c *budgetCase) delay(pod *unstructured.Unstructured, due remediation.Due) time.Duration {
	ok, retry := c.Ask(c.now, podKey(pod.GetName()), pod, due, remediation.Carrier{})
	if ok {
		c.Done(c.now, podKey(pod.GetName()), due, remediation.Patch{})
	}
	return retry
}

// evict evicts a Pod if it may be. It returns the age that the next ones need.
func (c *budgetCase) evict(pod *unstructured.Unstructured, due remediation.Due) time.Duration {
	c.Helper()
	key := podKey(pod.GetName())
	if ok, retry := c.Ask(c.now, key, pod, due, remediation.Carrier{}); !ok {
		c.Errorf("%s is held for %s", pod.GetName(), retry)
	}
	result := c.Done(c.now, key, due, remediation.Patch{Ending: remediation.Made, Object: pod, UID: pod.GetUID()})
	c.Forget(c.now, key)
	return result.Age
}

// TestEvictionsAreMoves checks that an evicted Pod takes a slot until it is gone.
func TestEvictionsAreMoves(t *testing.T) {
	for name, tc := range map[string]struct {
		// observe is what is observed after the eviction, and free whether the slot is free then.
		observe func(c *budgetCase, key remediation.Key)
		free    bool
	}{
		"Nothing": {func(*budgetCase, remediation.Key) {}, false},
		"BeforeTheEviction": {func(c *budgetCase, key remediation.Key) {
			c.Observe(c.now, key, remediation.Rollout{UID: "u", Generation: 7, Ready: true})
		}, false},
		"Terminating": {func(c *budgetCase, key remediation.Key) {
			c.Observe(c.now, key, remediation.Rollout{UID: "u", Generation: 8})
		}, false},
		"DecidedAgain": {func(c *budgetCase, key remediation.Key) { c.Decided(key, nil) }, false},
		"Gone":         {func(c *budgetCase, key remediation.Key) { c.Unobserve(key, false) }, true},
		"Forgotten":    {func(c *budgetCase, key remediation.Key) { c.Forget(c.now, key) }, true},
		"AnotherOfTheName": {func(c *budgetCase, key remediation.Key) {
			c.Observe(c.now, key, remediation.Rollout{UID: "v", Generation: 1})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, due := evictingCase(t, placementv1.RemediationBudget{MaxConcurrent: 1, MaxUnavailable: new(intstr.FromInt32(100))}, 10)
			first, second := podKey("a"), podKey("b")
			c.spends(first, due, true)
			c.spends(second, due, false)
			c.done(first, due, remediation.Patch{Ending: remediation.Made, UID: "u"})
			if got := c.waiting("p").Rollouts; got != 1 {
				t.Errorf("%d evicted Pods are not gone, want 1", got)
			}
			tc.observe(c, first)
			next := c.next()
			if free := len(next.keys) == 1; free != tc.free {
				t.Errorf("next are %v, want the slot to be free: %v", next.keys, tc.free)
			}
			if got := c.waiting("p").Failures; len(got) > 0 {
				t.Errorf("failures %v, want none", got)
			}
		})
	}
}

// TestEvictionsAndAvailability checks that a Pod in place of an evicted one has to be ready before another one is evicted.
func TestEvictionsAndAvailability(t *testing.T) {
	c, due := evictingCase(t, placementv1.RemediationBudget{MaxUnavailable: new(intstr.FromString("10%"))}, 10)
	c.spends(podKey("a"), due, true)
	c.done(podKey("a"), due, remediation.Patch{Ending: remediation.Made, UID: "a"})
	c.spends(podKey("b"), due, false)
	// The ReplicaSet creates another one before the first one is gone.
	c.observe(podKey("new"), remediation.Rollout{UID: "new"})
	c.Unobserve(podKey("a"), false)
	c.spends(podKey("b"), due, false)
	if diff := cmp.Diff(1, c.waiting("p").Unavailable); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]remediation.Key{podKey("b")}, c.observe(podKey("new"), remediation.Rollout{UID: "new", Ready: true}).keys); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
	c.spends(podKey("b"), due, true)
}

// TestReadinessOfPodsAndOtherPolicies checks that Pods whose readiness is known because a policy evicts are not counted by a
// policy that does not.
func TestReadinessOfPodsAndOtherPolicies(t *testing.T) {
	evicts := evicting("p", func(v *placement.Verdict) { v.Policy.Budget.MaxUnavailable = new(intstr.FromInt32(1)) }).Policy
	rolls := enforced("q", func(v *placement.Verdict) {
		v.Policy.Schedules, v.Policy.Budget.MaxUnavailable = true, new(intstr.FromInt32(1))
		v.Changes = []placement.Change{{Field: "scheduling", Key: "nodeSelector/disk", To: new("ssd")}}
	})
	c := newBudgetCase(t, remediation.Limits{})
	c.all, c.matched = []string{"p", "q"}, 10
	deployment := remediation.Key{Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespace: "default", Name: "web"}
	for _, p := range []*placement.Policy{evicts, rolls.Policy} {
		c.changed(p.Name, p)
		c.settlePods(p, deployment.Resource)
	}
	c.observe(podKey("a"), remediation.Rollout{UID: "a"})
	if c.ask(podKey("b"), remediation.Due{{Policy: evicts, Changes: rolls.Changes}}, remediation.Carrier{}) {
		t.Error("a Pod is evicted while another one is not ready")
	}
	if !c.ask(deployment, remediation.Due{rolls}, remediation.Carrier{}) {
		t.Error("a Deployment waits for a Pod of a policy that does not evict")
	}
}

// TestNewLeaderCountsUnreadyPods checks that a new leader takes Pods that are not ready as evicted by its predecessor.
func TestNewLeaderCountsUnreadyPods(t *testing.T) {
	due := remediation.Due{evicting("p", func(v *placement.Verdict) { v.Changes[1].Immutable, v.Policy.Budget.MaxConcurrent = "", 1 })}
	p := due[0].Policy
	c := newBudgetCase(t, remediation.Limits{})
	c.all, c.matched, c.requires = []string{"p"}, 100, true
	c.Resume(c.now, "p", remediation.Left{Generation: p.Generation, Moving: true})
	c.Begin(c.now)
	c.changed("p", p)
	c.observe(podKey("terminating"), remediation.Rollout{UID: "t", Generation: 2})
	c.settlePods(p)
	if c.ask(podKey("b"), due, remediation.Carrier{}) {
		t.Error("a Pod is evicted while one of the predecessor is not gone")
	}
	c.Unobserve(podKey("terminating"), false)
	if diff := cmp.Diff([]remediation.Key{podKey("b")}, c.next().keys); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}

// TestProtectedPods checks that a Pod waits longer and longer for its PodDisruptionBudget, alone.
func TestProtectedPods(t *testing.T) {
	c, due := evictingCase(t, placementv1.RemediationBudget{MaxConcurrent: 1}, 100)
	pod, other := newPod(t, nil), newPod(t, func(p *corev1.Pod) { p.Name = "other" })
	c.now = midnight.Add(time.Hour)
	var delays []time.Duration
	for range 8 {
		c.spends(podKey("web"), due, true)
		delays = append(delays, c.Done(c.now, podKey("web"), due, remediation.Patch{Ending: remediation.Protected}).Retry)
		if got := c.delay(pod, due); got != delays[len(delays)-1] {
			t.Errorf("held for %s, want %s", got, delays[len(delays)-1])
		}
		if got := c.delay(other, due); got != 0 {
			t.Errorf("another Pod is held for %s", got)
		}
		c.now = c.now.Add(delays[len(delays)-1])
	}
	seconds := func(n ...time.Duration) (out []time.Duration) {
		for _, s := range n {
			out = append(out, s*time.Second)
		}
		return out
	}
	if diff := cmp.Diff(seconds(5, 10, 20, 40, 80, 160, 300, 300), delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(remediation.Waiting{Protected: 1}, c.waiting("p")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	c.decided(podKey("web"), due)
	if got := c.waiting("p").Protected; got != 1 {
		t.Errorf("%d wait after a decision that evicts, want 1", got)
	}
	c.decided(podKey("web"), nil)
	if diff := cmp.Diff(remediation.Waiting{}, c.waiting("p")); diff != "" {
		t.Errorf("waiting after a decision that does not evict (-want +got):\n%s", diff)
	}
}

// TestProtectedPodsLeaveThePace checks that an eviction that a PodDisruptionBudget does not allow does not use up the pace.
func TestProtectedPodsLeaveThePace(t *testing.T) {
	c, due := evictingCase(t, placementv1.RemediationBudget{MaxPerMinute: 1}, 100)
	c.now = midnight.Add(time.Hour)
	spend := func(name string, want bool, result remediation.Patch) {
		t.Helper()
		c.spends(podKey(name), due, want)
		if want {
			c.done(podKey(name), due, result)
		}
	}
	spend("a", true, remediation.Patch{Ending: remediation.Protected})
	spend("b", true, remediation.Patch{Ending: remediation.Made, UID: "b"})
	spend("c", false, remediation.Patch{})
	c.now = c.now.Add(time.Minute)
	spend("c", true, remediation.Patch{Ending: remediation.Protected})
	spend("d", true, remediation.Patch{})
}

// TestRepeatedEvictions checks that a controller whose Pods always violate the decision loses them less and less often.
func TestRepeatedEvictions(t *testing.T) {
	c, due := evictingCase(t, placementv1.RemediationBudget{}, 10)
	podAt := func(name string, created time.Time, owner types.UID) *unstructured.Unstructured {
		return newPod(t, func(p *corev1.Pod) {
			p.Name, p.CreationTimestamp, p.OwnerReferences[0].UID = name, metav1.NewTime(created), owner
		})
	}
	c.now = midnight.Add(24 * time.Hour)
	old := podAt("old", midnight, "loops")
	if age := c.evict(old, due); age != 0 {
		t.Errorf("new Pods need an age of %s after an old one was evicted", age)
	}
	var ages []time.Duration
	for range 8 {
		c.now = c.now.Add(time.Second)
		pod := podAt("new", c.now, "loops")
		delay := c.delay(pod, due)
		ages = append(ages, delay)
		if delay := c.delay(old, due); delay != 0 {
			t.Errorf("an old Pod is held for %s", delay)
		}
		if delay := c.delay(podAt("other", c.now, "other"), due); delay != 0 {
			t.Errorf("a Pod of another controller is held for %s", delay)
		}
		c.now = c.now.Add(delay)
		if age := c.evict(pod, due); age != min(2*delay, time.Hour) {
			t.Errorf("evicted at an age of %s: the next ones need %s", delay, age)
		}
	}
	minutes := func(n ...time.Duration) (out []time.Duration) {
		for _, m := range n {
			out = append(out, m*time.Minute)
		}
		return out
	}
	if diff := cmp.Diff(minutes(1, 2, 4, 8, 16, 32, 60, 60), ages); diff != "" {
		t.Errorf("ages (-want +got):\n%s", diff)
	}
	// The decision changes long after that.
	c.now = c.now.Add(3 * time.Hour)
	c.evict(podAt("later", c.now.Add(-time.Second), "loops"), due)
}

// TestEvictionsOfLoopingControllers checks how many Pods a controller loses in twelve hours whose Pods always violate the decision, however
// fast they are evicted and however long they take to terminate.
func TestEvictionsOfLoopingControllers(t *testing.T) {
	for name, tt := range map[string]struct {
		pods        int
		pace, grace time.Duration
	}{
		"ten Pods, one a minute":      {10, time.Minute, time.Second},
		"ten Pods at once":            {10, 10 * time.Second, time.Second},
		"one Pod that ends slowly":    {1, 10 * time.Second, 3 * time.Minute},
		"three Pods, one in an hour":  {3, time.Hour, time.Second},
		"three Pods that end at once": {3, 10 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, due := evictingCase(t, placementv1.RemediationBudget{}, tt.pods)
			created, pods := make([]time.Time, tt.pods), make([]*unstructured.Unstructured, tt.pods)
			create := func(i int, at time.Time) {
				created[i], pods[i] = at, newPod(t, func(p *corev1.Pod) {
					p.Name, p.CreationTimestamp, p.OwnerReferences[0].UID = fmt.Sprint("pod", i), metav1.NewTime(at.Truncate(time.Second)), "loops"
				})
			}
			evictions := 0
			c.now = midnight.Add(time.Hour)
			for i := range pods {
				create(i, midnight)
			}
			for end := c.now.Add(12 * time.Hour); c.now.Before(end); c.now = c.now.Add(tt.pace) {
				for i, pod := range pods {
					if !created[i].After(c.now) && c.delay(pod, due) == 0 {
						c.evict(pod, due)
						create(i, c.now.Add(tt.grace))
						evictions++
						break
					}
				}
			}
			// Each of the Pods that were there, and ten new ones in the first eight hours.
			if evictions > tt.pods+20 {
				t.Errorf("%d evictions", evictions)
			}
		})
	}
	// A decision that changes is no loop.
	c, due := evictingCase(t, placementv1.RemediationBudget{}, 1)
	c.now = midnight.Add(time.Hour)
	for i := range 10 {
		due[0].Changes = []placement.Change{{Field: "scheduling", Key: "nodeSelector/disk", To: new(fmt.Sprint(i))}}
		c.evict(newPod(t, func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(c.now) }), due)
	}
}

// TestSiblingsOfEvictedPods checks that Pods that were created before the first eviction do not wait, however young they are.
func TestSiblingsOfEvictedPods(t *testing.T) {
	c, due := evictingCase(t, placementv1.RemediationBudget{}, 10)
	c.now = midnight.Add(2 * time.Second)
	for _, name := range []string{"a", "b", "c"} {
		if age := c.evict(newPod(t, func(p *corev1.Pod) { p.Name = name }), due); age != 0 {
			t.Errorf("new Pods need an age of %s after %s", age, name)
		}
	}
}

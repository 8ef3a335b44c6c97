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

// Package feasibility finds out which changes of existing objects remediation can make.
package feasibility

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
)

// PodKind is the kind of Pods.
var PodKind = schema.GroupKind{Kind: "Pod"}

// terminating is the reason why a terminating object is reported and not patched.
const terminating = "the object is being deleted, so Berth does not patch it; if the object stays, see which finalizers hold it"

// Qualify corrects Immutable of the changes in the verdicts on an existing object. Before, it says why an update can't make the change.
// Afterwards, it says why remediation can't, and is "" if an eviction can: remediation can change the scheduling of a Pod by an eviction,
// if the policy allows evictions and another Pod takes the place of the evicted one.
//
// Remediation can't change a terminating object: each change whose Immutable is "" gets that as the reason, and the others keep theirs. The
// owner of a finalizer may depend on the content of the object. Besides, a patch would have no effect:
// Berth sends a patch that changes nothing, so that the webhook decides the object, and the webhook does not decide such patches of
// terminating objects.
func Qualify(obj *unstructured.Unstructured, verdicts []*placement.Verdict) {
	verdicts = slices.Clone(verdicts)
	for _, v := range verdicts {
		if v.Released != nil {
			// It is what the policy requires with an approval.
			verdicts = append(verdicts, v.Released)
		}
	}
	if obj.GetDeletionTimestamp() == nil {
		qualifyEvictions(obj, verdicts)
		return
	}
	for _, v := range verdicts {
		for i := range v.Changes {
			v.Changes[i].Immutable = cmp.Or(v.Changes[i].Immutable, terminating)
		}
	}
}

// qualifyEvictions sets Immutable of the changes that an eviction makes, for policies that allow one and decide scheduling: to "", or to
// why it is impossible.
func qualifyEvictions(obj *unstructured.Unstructured, verdicts []*placement.Verdict) {
	// Without the rule scheduling, a policy only takes back what it set before. That is no reason to evict Pods.
	evicting := slices.DeleteFunc(slices.Clone(verdicts), func(v *placement.Verdict) bool { return !v.Policy.Evict || !v.Policy.Schedules })
	if obj.GroupVersionKind().GroupKind() != PodKind || len(evicting) == 0 {
		return
	}
	reason := notEvicted(obj)
	if reason == "" && slices.ContainsFunc(verdicts, deniesNew) {
		reason = "a policy would deny the Pod that takes the place of this one"
	}
	if reason != "" {
		reason = "not evicted: " + reason
	}
	for _, v := range evicting {
		for i := range v.Changes {
			if v.Changes[i].ChangesPods() {
				v.Changes[i].Immutable = reason
			}
		}
	}
}

// deniesNew reports whether an enforced policy that does not deny a Pod, because the Pod exists, would deny one that takes its place:
// because its remediation.mode is NewOnly, or because no cluster is left.
func deniesNew(v *placement.Verdict) bool {
	denied := func(c placement.Change) bool { return !moveset.Possible(c) && !c.ChangesPods() }
	return v.Policy.Mode == placementv1.ModeEnforce && (v.DeniesNew || slices.ContainsFunc(v.Changes, denied))
}

// recreating are the kinds of controllers that replace an evicted Pod by one that may run on another node. The new Pod of a DaemonSet is
// bound to the same node, and a Job counts an eviction as a failure, after which it may fail.
var recreating = []schema.GroupKind{{Group: "apps", Kind: "ReplicaSet"}, {Group: "apps", Kind: "StatefulSet"},
	{Kind: "ReplicationController"}}

// notEvicted returns why a Pod must not be evicted; "" if it may be.
func notEvicted(pod *unstructured.Unstructured) string {
	node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	owner := metav1.GetControllerOfNoCopy(pod)
	_, static := pod.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	switch {
	case Finished(pod):
		return "the Pod has finished"
	case Gated(pod):
		return "the Pod has scheduling gates; Berth may evict it once it is bound to a node"
	case node == "":
		return "the Pod is not bound to a node yet; Berth may evict it once it is"
	case static || owner != nil && owner.Kind == "Node":
		return "the Pod is a static Pod"
	case owner == nil:
		return "no controller will create another Pod; delete the Pod and create it again"
	case !slices.Contains(recreating, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()):
		return fmt.Sprintf("the Pod's %s might create no other Pod, or only one on the same node", owner.Kind)
	}
	return ""
}

// Finished reports whether no container of a Pod runs or will run again.
func Finished(pod *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
}

// Gated reports whether a Pod has scheduling gates.
func Gated(pod *unstructured.Unstructured) bool {
	gates, _, _ := unstructured.NestedFieldNoCopy(pod.Object, "spec", "schedulingGates")
	list, _ := gates.([]any)
	return len(list) > 0
}

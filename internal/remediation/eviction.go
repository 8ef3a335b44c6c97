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

package remediation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

var (
	podResource = schema.GroupResource{Resource: "pods"}
	podKind     = schema.GroupKind{Kind: "Pod"}
)

// EvictionFields returns the fields of Pods that Qualify and Budget.HoldEviction read. The field set is sealed.
func EvictionFields() *projection.FieldSet {
	f := &projection.FieldSet{}
	metadata := f.AddName("metadata")
	metadata.AddName("creationTimestamp")
	metadata.AddName("ownerReferences").AddAll()
	spec := f.AddName("spec")
	spec.AddName("nodeName")
	spec.AddName("schedulingGates").AddAll()
	f.AddName("status").AddName("phase")
	return f.Seal()
}

// EvictsFrom reports whether remediation of a policy may evict objects of a type.
func EvictsFrom(p *placement.Policy, resource schema.GroupResource) bool {
	return p.Evict && resource == podResource
}

// Evicts reports whether the verdicts on an object of a type require an eviction: they change the scheduling of a Pod, which
// can't be patched. The other changes are then left to the admission of the Pod that takes its place.
func (d Due) Evicts(resource schema.GroupResource) bool {
	return evicts(resource, d.changes())
}

// evicts reports whether possible changes of an object of a type require an eviction.
func evicts(resource schema.GroupResource, changes []placement.Change) bool {
	return resource == podResource && slices.ContainsFunc(changes, placement.Change.ChangesPods)
}

// qualifyEvictions marks the changes that an eviction of the object makes as possible, for policies with evictions. If there
// can be none, the changes say why.
func qualifyEvictions(obj *unstructured.Unstructured, verdicts []*placement.Verdict) {
	// Without the rule scheduling, a policy only takes back what it set before. That is no reason to evict Pods.
	mayEvict := func(v *placement.Verdict) bool { return v.Policy.Evict && v.Policy.Schedules }
	if obj.GroupVersionKind().GroupKind() != podKind || !slices.ContainsFunc(verdicts, mayEvict) {
		return
	}
	reason := notEvicted(obj)
	if reason == "" && slices.ContainsFunc(verdicts, deniesNew) {
		reason = "no other Pod would be admitted"
	}
	if reason != "" {
		reason = "not evicted: " + reason
	}
	for _, v := range verdicts {
		if !mayEvict(v) {
			continue
		}
		for i := range v.Changes {
			if v.Changes[i].ChangesPods() {
				v.Changes[i].Immutable = reason
			}
		}
	}
}

// deniesNew reports whether a policy that leaves an existing Pod as it is would deny another one, because it is for new objects
// only, or because no cluster is left.
func deniesNew(v *placement.Verdict) bool {
	return v.Policy.Mode == placementv1.ModeEnforce && (v.DeniesNew || slices.ContainsFunc(v.Changes, func(c placement.Change) bool { return !possible(c) && !c.ChangesPods() }))
}

// recreating are the kinds of controllers that create another Pod in place of one that was evicted, which may run on another
// node. DaemonSets are not among them: their new Pod is bound to the same node. Nor are Jobs: they count an eviction as a
// failure, after which they may fail.
var recreating = []schema.GroupKind{{Group: "apps", Kind: "ReplicaSet"}, {Group: "apps", Kind: "StatefulSet"}, {Kind: "ReplicationController"}}

// notEvicted returns why a Pod must not be evicted; "" if it may be.
func notEvicted(pod *unstructured.Unstructured) string {
	node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	owner := metav1.GetControllerOfNoCopy(pod)
	_, static := pod.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	switch {
	case finished(pod):
		return "it has finished"
	case gated(pod):
		return "it has scheduling gates"
	case node == "":
		return "it does not run yet"
	case static || owner != nil && owner.Kind == "Node":
		return "it is a static Pod"
	case owner == nil:
		return "no controller will create another one"
	case !slices.Contains(recreating, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()):
		return fmt.Sprintf("its %s may create no other one, or only for the same node", owner.Kind)
	}
	return ""
}

// finished reports whether no container of a Pod runs or will run again.
func finished(pod *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
}

// gated reports whether a Pod has scheduling gates.
func gated(pod *unstructured.Unstructured) bool {
	gates, _, _ := unstructured.NestedFieldNoCopy(pod.Object, "spec", "schedulingGates")
	list, _ := gates.([]any)
	return len(list) > 0
}

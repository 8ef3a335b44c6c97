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
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// Rollout is the progress of an object's rollout, and whether the object is ready.
type Rollout struct {
	// UID identifies the object.
	UID types.UID
	// Generation is the generation of the object's spec that was observed.
	Generation int64
	// Ready reports whether the rollout is complete and the object is ready.
	Ready bool
	// Failure is the reason why the rollout failed; empty if it did not fail.
	Failure string
	// Version is the resource version of the object on which a multi-cluster system reports. Then Ready reports whether the object runs in its
	// clusters. It is empty if Ready is what the object's own status says.
	Version string
	// Serves reports whether the object is available although it is not ready: it is still in clusters that it leaves. Missing says what is
	// missing, for a message. Both are only set for reports.
	Serves  bool
	Missing string
}

// onDelete is the update strategy of StatefulSets and DaemonSets whose pods stay as they are until they are deleted.
const onDelete = "OnDelete"

// rolls reports whether the pods of an object are replaced without a user when its pod template changes.
func rolls(obj *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "updateStrategy", "type")
	if (obj.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused")
		return !paused
	}
	return strategy != onDelete
}

// RolloutOf returns the progress of an object's rollout by the conventions of kstatus. The object must have the fields of
// RolloutFields. If its status is malformed, the object is not ready.
func RolloutOf(obj *unstructured.Unstructured) Rollout {
	out := Rollout{UID: obj.GetUID(), Generation: obj.GetGeneration()}
	if obj.GroupVersionKind().GroupKind() == podKind {
		out.Ready = podReady(obj)
		return out
	}
	if !rolls(obj) && obj.GetDeletionTimestamp() == nil {
		// kstatus has this rule for StatefulSets alone.
		out.Ready = true
		return out
	}
	result, err := status.Compute(obj)
	if err != nil {
		return out
	}
	switch result.Status {
	case status.CurrentStatus:
		out.Ready = true
	case status.FailedStatus:
		out.Failure = result.Message
	}
	return out
}

// podReady reports whether a Pod counts as ready. One that has finished, or that its owner keeps from being scheduled, is not
// missed. A Pod has no rollout, so none can fail.
func podReady(pod *unstructured.Unstructured) bool {
	if pod.GetDeletionTimestamp() == nil && (finished(pod) || gated(pod)) {
		return true
	}
	result, err := status.Compute(pod)
	return err == nil && result.Status == status.CurrentStatus
}

// RolloutFields returns the fields that RolloutOf reads, for all types. The field set is sealed.
func RolloutFields() *projection.FieldSet {
	f := &projection.FieldSet{}
	metadata := f.AddName("metadata")
	metadata.AddName("generation")
	metadata.AddName("deletionTimestamp")
	spec := f.AddName("spec")
	spec.AddName("replicas")
	spec.AddName("paused")
	spec.AddName("progressDeadlineSeconds")
	spec.AddName("updateStrategy").AddAll()
	spec.AddName("schedulingGates").AddAll()
	f.AddName("status").AddAll()
	return f.Seal()
}

// notRolled are the types whose running pods stay as they are when the pod template changes.
var notRolled = sets.New(
	schema.GroupResource{Resource: "pods"},
	schema.GroupResource{Group: "apps", Resource: "replicasets"},
	schema.GroupResource{Resource: "podtemplates"},
	schema.GroupResource{Resource: "replicationcontrollers"},
	schema.GroupResource{Group: "batch", Resource: "jobs"},
	schema.GroupResource{Group: "batch", Resource: "cronjobs"},
)

// Rolls reports whether objects of a type with a pod template replace their pods when the template changes.
func Rolls(resource schema.GroupResource) bool { return !notRolled.Has(resource) }

// Observes reports whether remediation of a policy has to know which objects of a type are ready, because it may replace their
// pods or evict them.
func Observes(p *placement.Policy, resource schema.GroupResource) bool {
	return p.WatchesRollouts() && (Rolls(resource) || EvictsFrom(p, resource))
}

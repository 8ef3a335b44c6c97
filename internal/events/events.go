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

// Package events records the Kubernetes events that Berth emits on objects, policies, and quotas. All events of Berth
// are created here.
package events

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/printable"
)

// Controller is the name of the reporting controller in all events of Berth.
const Controller = "berth"

// Actions of events.
const (
	actionAdmit     = "Admit"
	actionAsk       = "Ask"
	actionReport    = "Report"
	actionRemediate = "Remediate"
	actionRollOut   = "RollOut"
	actionDeliver   = "Deliver"
	actionSum       = "Sum"
)

// Kind is a kind of Event: the values of its fields type, reason, and action. hack/reference writes the list of kinds from the comments
// of the declarations below.
type Kind struct{ Type, Reason, Action string }

// Events on objects.
var (
	// Denied: a policy denied the object.
	Denied = Kind{corev1.EventTypeWarning, "PlacementDenied", actionAdmit}
	// EvaluationFailed: the object could not be decided.
	EvaluationFailed = Kind{corev1.EventTypeWarning, "PlacementEvaluationFailed", actionAdmit}
	// QuotaUnchecked: the object was admitted without a quota check.
	QuotaUnchecked = Kind{corev1.EventTypeWarning, "QuotaUnchecked", actionAdmit}
	// Remediated: Berth patched the object. The message has the cause, and who approved it.
	Remediated = Kind{corev1.EventTypeNormal, "PlacementRemediated", actionRemediate}
	// Evicted: the same, if Berth evicted a running Pod.
	Evicted = Kind{corev1.EventTypeNormal, "PlacementEvicted", actionRemediate}
	// RemediationFailed: the object could not be patched or evicted.
	RemediationFailed = Kind{corev1.EventTypeWarning, "PlacementRemediationFailed", actionRemediate}
	// RemediationStopped: patches or evictions of the object have no lasting effect, so Berth stops for now. On a policy: Berth can't store
	// the approved plan.
	RemediationStopped = Kind{corev1.EventTypeWarning, "PlacementRemediationStopped", actionRemediate}
)

// Events on quotas and LimitedResources.
var (
	// QuotaDenied: a request was denied.
	QuotaDenied = Kind{corev1.EventTypeWarning, "QuotaDenied", actionAdmit}
)

// sumTexts are the formats of the messages of sums, by the kind of the events; other kinds have no sums. Each takes the number of events
// that were not emitted.
var sumTexts = map[Kind]string{
	Remediated:        "%d more objects were patched",
	Evicted:           "%d more Pods were evicted",
	RemediationFailed: "%d more patches or evictions failed, possibly for other reasons than those in the Events on the first objects",
	RemediationStopped: "%d more objects are not patched or evicted for now, possibly for other reasons than those in the Events on the " +
		"first objects",
}

// onObjects are the reasons of Events on objects that policies match. An Event that sums up such Events has the same reason as these.
var onObjects = sets.New(
	Denied.Reason, EvaluationFailed.Reason, QuotaUnchecked.Reason, Remediated.Reason, Evicted.Reason, RemediationFailed.Reason,
	RemediationStopped.Reason,
)

// OnObjects reports whether Berth emits Events with this reporting controller and reason on the objects that policies match. Such an Event
// may still come from another client, because any client that may create Events chooses both.
func OnObjects(controller, reason string) bool {
	return controller == Controller && onObjects.Has(reason)
}

// Events on policies.
var (
	// PolicyReady: the policy decides.
	PolicyReady = Kind{corev1.EventTypeNormal, "PolicyReady", actionReport}
	// PolicyNotReady: it does not, and a user has to act.
	PolicyNotReady = Kind{corev1.EventTypeWarning, "PolicyNotReady", actionReport}
	// PolicyUndecided: some existing objects can't be decided. Before, all could.
	PolicyUndecided = Kind{corev1.EventTypeWarning, "PolicyUndecided", actionReport}
	// PolicyDecided: all can be decided again.
	PolicyDecided = Kind{corev1.EventTypeNormal, "PolicyDecided", actionReport}
	// PolicyViolated: some existing objects differ from their decision. Before, none did.
	PolicyViolated = Kind{corev1.EventTypeWarning, "PolicyViolated", actionReport}
	// ClustersAmbiguous: several objects of the inventories have the name of one cluster.
	ClustersAmbiguous = Kind{corev1.EventTypeWarning, "ClustersAmbiguous", actionReport}
	// DeliveryFailed: objects of a multi-cluster system could not be written.
	DeliveryFailed = Kind{corev1.EventTypeWarning, "PlacementDeliveryFailed", actionDeliver}
	// RemoteFailing: the remote engine does not answer a replica, or the circuit breaker opens.
	RemoteFailing = Kind{corev1.EventTypeWarning, "RemoteEngineFailing", actionAsk}
	// RemoteRecovered: it answers again.
	RemoteRecovered = Kind{corev1.EventTypeNormal, "RemoteEngineRecovered", actionAsk}
)

// Events on policies, of remediation. See docs/existing-objects.md.
var (
	// RemediationPaused: a change would harm too many objects, or too many failed.
	RemediationPaused = Kind{corev1.EventTypeWarning, "PlacementRemediationPaused", actionRemediate}
	// RemediationResumed: remediation goes on after a pause.
	RemediationResumed = Kind{corev1.EventTypeNormal, "PlacementRemediationResumed", actionRemediate}
	// PlanStarted: Berth begins to move objects.
	PlanStarted = Kind{corev1.EventTypeNormal, "PlacementPlanStarted", actionRemediate}
	// PlanCompleted: no object of the plan has to be moved.
	PlanCompleted = Kind{corev1.EventTypeNormal, "PlacementPlanCompleted", actionRemediate}
	// PlanWaits: a plan waits for its approval.
	PlanWaits = Kind{corev1.EventTypeNormal, "PlacementPlanWaiting", actionRemediate}
	// PlanApproved: a user approved the plan.
	PlanApproved = Kind{corev1.EventTypeNormal, "PlacementPlanApproved", actionRemediate}
	// PlanNotApproved: the annotation approves another plan.
	PlanNotApproved = Kind{corev1.EventTypeWarning, "PlacementPlanNotApproved", actionRemediate}
)

// Events on policies, of rollouts. See docs/rollout.md.
var (
	// StageReached: the new version decides in another stage.
	StageReached = Kind{corev1.EventTypeNormal, "PlacementStageReached", actionRollOut}
	// StageWaits: the next stage waits for its approval.
	StageWaits = Kind{corev1.EventTypeNormal, "PlacementStageWaiting", actionRollOut}
	// RolloutPaused: too many objects failed, or remediation is paused.
	RolloutPaused = Kind{corev1.EventTypeWarning, "PlacementRolloutPaused", actionRollOut}
	// RolloutCompleted: the new version decides everywhere.
	RolloutCompleted = Kind{corev1.EventTypeNormal, "PlacementRolloutCompleted", actionRollOut}
	// RolledBack: the revision in spec.rollout.revision decides everywhere.
	RolledBack = Kind{corev1.EventTypeNormal, "PlacementRolledBack", actionRollOut}
)

// steps are the reasons of events of which each message tells of another step, such as a move with its cause. So Events of these are
// combined to a series only if their messages are equal.
var steps = sets.New(
	Remediated.Reason, Evicted.Reason, PlanStarted.Reason, PlanCompleted.Reason, PlanWaits.Reason, PlanApproved.Reason,
	PlanNotApproved.Reason, StageReached.Reason, StageWaits.Reason, RolloutCompleted.Reason, RolledBack.Reason,
)

// maxNote is the maximum length of a note in the events API, in bytes.
const maxNote = 1024

// Recorder emits Events. It is safe for concurrent use.
type Recorder struct {
	recorder events.EventRecorder
}

// New returns a recorder that emits Events through r, which adds the name of the reporting controller.
func New(r events.EventRecorder) *Recorder {
	return &Recorder{recorder: r}
}

// QuotaDenied emits an Event on by, the quota or LimitedResource by which a request in a namespace was denied; none if by is nil. The
// Event is not on the denied object, because that was not created. Controllers that create objects, such as that of ReplicaSets, emit
// Events about the denial themselves. The Event on an object without a namespace contains neither the namespace nor the message.
func (r *Recorder) QuotaDenied(by runtime.Object, namespace, message string) {
	if by == nil {
		return
	}
	note := fmt.Sprintf("in namespace %s: %s", namespace, message)
	if of, err := meta.Accessor(by); err != nil || of.GetNamespace() == "" {
		note = "a request was denied because of this object; the response to the request names the namespace and the amounts"
	}
	r.On(by, QuotaDenied, note)
}

// OnPolicy emits an Event on the policy with a name, unless the reader can't get the policy, such as because it was deleted. The Event is
// in the namespace default, so the message must not name objects in other namespaces, which its readers may not be allowed to read.
func (r *Recorder) OnPolicy(ctx context.Context, reader client.Reader, name string, kind Kind, message string) {
	policy := &placementv1.PlacementPolicy{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, policy); err == nil {
		r.On(policy, kind, message)
	}
}

// OnObject emits an Event on an object in a namespace; "" for a cluster-scoped one. An object that has no name yet is named by its
// generateName.
func (r *Recorder) OnObject(obj *unstructured.Unstructured, namespace string, kind Kind, message string) {
	// An object that is being created may have no name yet, but the event's reference needs one.
	name := cmp.Or(obj.GetName(), strings.TrimSuffix(obj.GetGenerateName(), "-"))
	apiVersion, objectKind := obj.GroupVersionKind().ToAPIVersionAndKind()
	r.On(&corev1.ObjectReference{
		APIVersion: apiVersion, Kind: objectKind, Namespace: namespace, Name: name,
		// Omit the resource version. With it, repeated events on an object would not be combined to a series.
		UID: obj.GetUID(),
	}, kind, message)
}

// OnSum emits an Event that sums up Events on objects. It is on the namespace of the objects, and in it, so that its users can read it.
// That of objects without a namespace is on the policy sum.Policy, unless the reader can't get the policy.
func (r *Recorder) OnSum(ctx context.Context, reader client.Reader, sum Sum) {
	message, kind := sum.Policies+": "+fmt.Sprintf(sumTexts[sum.Kind], sum.Events), Kind{sum.Kind.Type, sum.Kind.Reason, actionSum}
	if sum.Cause != "" {
		message += "; cause: " + sum.Cause
	}
	if sum.OtherCauses {
		message += ", and others"
	}
	if name := sum.Namespace; name != "" {
		r.On(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: name, Name: name}, kind, message)
	} else {
		r.OnPolicy(ctx, reader, sum.Policy, kind, message)
	}
}

// On emits an Event on an object of the API server, given as the object or as a reference. The Event on an object without a namespace is in
// the namespace default, where users can read it who may not read other namespaces. So its message must not name objects in namespaces, nor
// contain their values. The API server client combines Events of one kind on one object within some minutes to a series with the message of
// the first one; Events of steps, and sums, only if their messages are equal.
func (r *Recorder) On(about runtime.Object, kind Kind, message string) {
	note, action := printable.Truncate(printable.Text(message), maxNote), kind.Action
	if steps.Has(kind.Reason) || kind.Action == actionSum {
		// The recorder combines events that are equal but for the note.
		hash := fnv.New32a()
		hash.Write([]byte(note))
		action = fmt.Sprintf("%s-%08x", action, hash.Sum32())
	}
	r.recorder.Eventf(about, nil, kind.Type, kind.Reason, action, "%s", note)
}

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

// Reasons and actions of events.
const (
	ReasonDenied             = "PlacementDenied"
	ReasonEvaluationFailed   = "PlacementEvaluationFailed"
	ReasonQuotaDenied        = "QuotaDenied"
	ReasonQuotaUnchecked     = "QuotaUnchecked"
	ReasonRemediated         = "PlacementRemediated"
	ReasonEvicted            = "PlacementEvicted"
	ReasonRemediationFailed  = "PlacementRemediationFailed"
	ReasonRemediationStopped = "PlacementRemediationStopped"
	ReasonPolicyReady        = "PolicyReady"
	ReasonPolicyNotReady     = "PolicyNotReady"
	ReasonPolicyUndecided    = "PolicyUndecided"
	ReasonPolicyDecided      = "PolicyDecided"
	ReasonPolicyViolated     = "PolicyViolated"
	ReasonClustersAmbiguous  = "ClustersAmbiguous"
	ReasonRemediationPaused  = "PlacementRemediationPaused"
	ReasonRemediationResumed = "PlacementRemediationResumed"
	ReasonPlanStarted        = "PlacementPlanStarted"
	ReasonPlanCompleted      = "PlacementPlanCompleted"
	ReasonPlanWaits          = "PlacementPlanWaiting"
	ReasonPlanApproved       = "PlacementPlanApproved"
	ReasonPlanNotApproved    = "PlacementPlanNotApproved"
	ReasonStageReached       = "PlacementStageReached"
	ReasonStageWaits         = "PlacementStageWaiting"
	ReasonRolloutPaused      = "PlacementRolloutPaused"
	ReasonRolloutCompleted   = "PlacementRolloutCompleted"
	ReasonRolledBack         = "PlacementRolledBack"
	ReasonDeliveryFailed     = "PlacementDeliveryFailed"
	ReasonRemoteFailing      = "RemoteEngineFailing"
	ReasonRemoteRecovered    = "RemoteEngineRecovered"

	actionAdmit     = "Admit"
	actionAsk       = "Ask"
	actionReport    = "Report"
	actionRemediate = "Remediate"
	actionRollOut   = "RollOut"
	actionDeliver   = "Deliver"
	actionSum       = "Sum"
)

// Kind is a kind of Event: the values of its fields type, reason, and action.
type Kind struct{ Type, Reason, Action string }

// Kinds of events on objects.
var (
	// Denied means that a policy denied an object.
	Denied = Kind{corev1.EventTypeWarning, ReasonDenied, actionAdmit}
	// EvaluationFailed means that an object could not be decided.
	EvaluationFailed = Kind{corev1.EventTypeWarning, ReasonEvaluationFailed, actionAdmit}
	// QuotaUnchecked means that an object was admitted without a quota check.
	QuotaUnchecked = Kind{corev1.EventTypeWarning, ReasonQuotaUnchecked, actionAdmit}
	// Remediated means that an existing object was brought into line.
	Remediated = Kind{corev1.EventTypeNormal, ReasonRemediated, actionRemediate}
	// Evicted means that a running Pod was evicted, so that its controller creates one that is in line.
	Evicted = Kind{corev1.EventTypeNormal, ReasonEvicted, actionRemediate}
	// RemediationFailed means that an existing object could not be brought into line.
	RemediationFailed = Kind{corev1.EventTypeWarning, ReasonRemediationFailed, actionRemediate}
	// RemediationStopped means that an object's decision does not settle, so that the object is no longer patched.
	RemediationStopped = Kind{corev1.EventTypeWarning, ReasonRemediationStopped, actionRemediate}
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
	ReasonDenied, ReasonEvaluationFailed, ReasonQuotaUnchecked, ReasonRemediated, ReasonEvicted, ReasonRemediationFailed,
	ReasonRemediationStopped,
)

// OnObjects reports whether Berth emits Events with this reporting controller and reason on the objects that policies match. Such an Event
// may still come from another client, because any client that may create Events chooses both.
func OnObjects(controller, reason string) bool {
	return controller == Controller && onObjects.Has(reason)
}

// Kinds of events on policies.
var (
	// PolicyReady means that the policy is in force.
	PolicyReady = Kind{corev1.EventTypeNormal, ReasonPolicyReady, actionReport}
	// PolicyNotReady means that the policy is not in force, for a reason that is not a normal step after it was created
	// or changed.
	PolicyNotReady = Kind{corev1.EventTypeWarning, ReasonPolicyNotReady, actionReport}
	// PolicyUndecided means that the policy can't decide some existing objects, and could decide all before.
	PolicyUndecided = Kind{corev1.EventTypeWarning, ReasonPolicyUndecided, actionReport}
	// PolicyDecided means that the policy can decide all existing objects again.
	PolicyDecided = Kind{corev1.EventTypeNormal, ReasonPolicyDecided, actionReport}
	// PolicyViolated means that some existing objects now differ from the policy's decision, and none did before.
	PolicyViolated = Kind{corev1.EventTypeWarning, ReasonPolicyViolated, actionReport}
	// ClustersAmbiguous means that several objects of the inventories that the policy reads have the name of one cluster.
	ClustersAmbiguous = Kind{corev1.EventTypeWarning, ReasonClustersAmbiguous, actionReport}
	// RemediationPaused means that a change of the policy or of its data would harm too many objects, so that remediation
	// is paused.
	RemediationPaused = Kind{corev1.EventTypeWarning, ReasonRemediationPaused, actionRemediate}
	// RemediationResumed means that the policy's remediation continues after a pause.
	RemediationResumed = Kind{corev1.EventTypeNormal, ReasonRemediationResumed, actionRemediate}
	// PlanStarted means that existing objects have to be moved, and that Berth begins to move them.
	PlanStarted = Kind{corev1.EventTypeNormal, ReasonPlanStarted, actionRemediate}
	// PlanCompleted means that no object of the plan has to be moved any more.
	PlanCompleted = Kind{corev1.EventTypeNormal, ReasonPlanCompleted, actionRemediate}
	// PlanWaits means that a plan waits for its approval, PlanApproved that it has it, and PlanNotApproved that an annotation
	// approves another plan, which there is not.
	PlanWaits       = Kind{corev1.EventTypeNormal, ReasonPlanWaits, actionRemediate}
	PlanApproved    = Kind{corev1.EventTypeNormal, ReasonPlanApproved, actionRemediate}
	PlanNotApproved = Kind{corev1.EventTypeWarning, ReasonPlanNotApproved, actionRemediate}
	// StageReached means that a new version of the policy decides in another stage of its rollout, and StageWaits that a stage
	// waits for its approval.
	StageReached = Kind{corev1.EventTypeNormal, ReasonStageReached, actionRollOut}
	StageWaits   = Kind{corev1.EventTypeNormal, ReasonStageWaits, actionRollOut}
	// RolloutPaused means that the rollout does not go on, because too many objects failed or remediation is paused.
	RolloutPaused = Kind{corev1.EventTypeWarning, ReasonRolloutPaused, actionRollOut}
	// RolloutCompleted means that a new version of the policy decides everywhere.
	RolloutCompleted = Kind{corev1.EventTypeNormal, ReasonRolloutCompleted, actionRollOut}
	// RolledBack means that the revision in spec.rollout.revision decides everywhere.
	RolledBack = Kind{corev1.EventTypeNormal, ReasonRolledBack, actionRollOut}
	// DeliveryFailed means that objects of a multi-cluster system could not be written, for example because one of the same name
	// belongs to another client.
	DeliveryFailed = Kind{corev1.EventTypeWarning, ReasonDeliveryFailed, actionDeliver}
	// RemoteFailing means that the policy's remote engine does not answer.
	RemoteFailing = Kind{corev1.EventTypeWarning, ReasonRemoteFailing, actionAsk}
	// RemoteRecovered means that the policy's remote engine answers again.
	RemoteRecovered = Kind{corev1.EventTypeNormal, ReasonRemoteRecovered, actionAsk}
)

// steps are the reasons of events of which each message tells of another step, such as a move with its cause. So Events of these are
// combined to a series only if their messages are equal.
var steps = sets.New(
	ReasonRemediated, ReasonEvicted, ReasonPlanStarted, ReasonPlanCompleted, ReasonPlanWaits, ReasonPlanApproved, ReasonPlanNotApproved,
	ReasonStageReached, ReasonStageWaits, ReasonRolloutCompleted, ReasonRolledBack,
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
	r.On(by, Kind{corev1.EventTypeWarning, ReasonQuotaDenied, actionAdmit}, note)
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

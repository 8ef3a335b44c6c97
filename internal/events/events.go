// Package events tells users what became of their objects. Every event that Berth emits is made here.
package events

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
)

// Reasons and actions of events.
const (
	ReasonDenied             = "PlacementDenied"
	ReasonEvaluationFailed   = "PlacementEvaluationFailed"
	ReasonQuotaDenied        = "QuotaDenied"
	ReasonQuotaUnchecked     = "QuotaUnchecked"
	ReasonRemediated         = "PlacementRemediated"
	ReasonRemediationFailed  = "PlacementRemediationFailed"
	ReasonRemediationStopped = "PlacementRemediationStopped"
	ReasonPolicyReady        = "PolicyReady"
	ReasonPolicyNotReady     = "PolicyNotReady"
	ReasonPolicyUndecided    = "PolicyUndecided"
	ReasonPolicyDecided      = "PolicyDecided"
	ReasonPolicyViolated     = "PolicyViolated"
	ReasonRemediationPaused  = "PlacementRemediationPaused"
	ReasonRemediationResumed = "PlacementRemediationResumed"
	ReasonRemoteFailing      = "RemoteEngineFailing"
	ReasonRemoteRecovered    = "RemoteEngineRecovered"

	actionAdmit     = "Admit"
	actionAsk       = "Ask"
	actionReport    = "Report"
	actionRemediate = "Remediate"
)

// maxNote is what the events API admits.
const maxNote = 1024

// Recorder emits events. It is safe for concurrent use.
type Recorder struct {
	recorder events.EventRecorder
}

// New returns a recorder on top of one that is bound to a controller name.
func New(r events.EventRecorder) *Recorder {
	return &Recorder{recorder: r}
}

// Denied says that a policy denied an object.
func (r *Recorder) Denied(obj *unstructured.Unstructured, namespace, message string) {
	r.emit(obj, namespace, corev1.EventTypeWarning, ReasonDenied, actionAdmit, message)
}

// EvaluationFailed says that an object could not be decided.
func (r *Recorder) EvaluationFailed(obj *unstructured.Unstructured, namespace, message string) {
	r.emit(obj, namespace, corev1.EventTypeWarning, ReasonEvaluationFailed, actionAdmit, message)
}

// QuotaDenied says that a quota or a limit denied a request in a namespace. The event is about the quota, since the
// object does not come to be; who creates objects of its own, as a ReplicaSet does, tells of the denial itself.
func (r *Recorder) QuotaDenied(by runtime.Object, namespace, message string) {
	if by == nil {
		return
	}
	r.recorder.Eventf(by, nil, corev1.EventTypeWarning, ReasonQuotaDenied, actionAdmit, "%s", short(fmt.Sprintf("in namespace %s: %s", namespace, message)))
}

// QuotaUnchecked says that an object was admitted that no quota was asked for.
func (r *Recorder) QuotaUnchecked(obj *unstructured.Unstructured, namespace, message string) {
	r.emit(obj, namespace, corev1.EventTypeWarning, ReasonQuotaUnchecked, actionAdmit, message)
}

// Remediated says that an existing object was brought into line.
func (r *Recorder) Remediated(obj *unstructured.Unstructured, message string) {
	r.emit(obj, obj.GetNamespace(), corev1.EventTypeNormal, ReasonRemediated, actionRemediate, message)
}

// RemediationFailed says that an existing object could not be brought into line.
func (r *Recorder) RemediationFailed(obj *unstructured.Unstructured, message string) {
	r.emit(obj, obj.GetNamespace(), corev1.EventTypeWarning, ReasonRemediationFailed, actionRemediate, message)
}

// RemediationStopped says that an object's decision does not settle and that it is left as it is.
func (r *Recorder) RemediationStopped(obj *unstructured.Unstructured, message string) {
	r.emit(obj, obj.GetNamespace(), corev1.EventTypeWarning, ReasonRemediationStopped, actionRemediate, message)
}

// PolicyReady tells on a policy that it decides.
func (r *Recorder) PolicyReady(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonPolicyReady, actionReport, message)
}

// PolicyNotReady tells on a policy that it does not decide.
func (r *Recorder) PolicyNotReady(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonPolicyNotReady, actionReport, message)
}

// PolicyUndecided tells on a policy that it can't decide some existing objects.
func (r *Recorder) PolicyUndecided(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonPolicyUndecided, actionReport, message)
}

// PolicyDecided tells on a policy that it can decide all existing objects again.
func (r *Recorder) PolicyDecided(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonPolicyDecided, actionReport, message)
}

// PolicyViolated tells on a policy that existing objects differ from what it decides.
func (r *Recorder) PolicyViolated(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonPolicyViolated, actionReport, message)
}

// RemediationPaused says, of a policy, that a change of it or of its data would harm too many objects and is not carried out.
func (r *Recorder) RemediationPaused(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonRemediationPaused, actionRemediate, message)
}

// RemediationResumed says, of a policy, that its remediation goes on after a pause.
func (r *Recorder) RemediationResumed(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonRemediationResumed, actionRemediate, message)
}

// RemoteFailing says, of a policy, that the engine which decides it gives no answers.
func (r *Recorder) RemoteFailing(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonRemoteFailing, actionAsk, message)
}

// RemoteRecovered says, of a policy, that the engine which decides it answers again.
func (r *Recorder) RemoteRecovered(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonRemoteRecovered, actionAsk, message)
}

func (r *Recorder) emitOnPolicy(policy runtime.Object, eventType, reason, action, message string) {
	r.recorder.Eventf(policy, nil, eventType, reason, action, "%s", short(message))
}

func (r *Recorder) emit(obj *unstructured.Unstructured, namespace, eventType, reason, action, message string) {
	message = short(message)
	// An object that is being created may have no name yet, and an event needs one to be about.
	name := obj.GetName()
	if name == "" {
		name = strings.TrimSuffix(obj.GetGenerateName(), "-")
	}
	apiVersion, kind := obj.GroupVersionKind().ToAPIVersionAndKind()
	about := &corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name,
		// Without a version, by which what happens to an object again and again would be an Event each time, and not a series.
		UID: types.UID(obj.GetUID()),
	}
	r.recorder.Eventf(about, nil, eventType, reason, action, "%s", message)
}

// short cuts a message to what the events API admits.
func short(message string) string {
	if len(message) <= maxNote {
		return message
	}
	return strings.ToValidUTF8(message[:maxNote-3], "") + "..."
}

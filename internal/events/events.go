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

// maxNote is the maximum length of a note in the events API, in bytes.
const maxNote = 1024

// Recorder emits events. It is safe for concurrent use.
type Recorder struct {
	recorder events.EventRecorder
}

// New returns a recorder that emits events through r, which is bound to a controller name.
func New(r events.EventRecorder) *Recorder {
	return &Recorder{recorder: r}
}

// Denied emits an event that a policy denied an object.
func (r *Recorder) Denied(obj *unstructured.Unstructured, namespace, message string) {
	r.emit(obj, namespace, corev1.EventTypeWarning, ReasonDenied, actionAdmit, message)
}

// EvaluationFailed emits an event that an object could not be decided.
func (r *Recorder) EvaluationFailed(obj *unstructured.Unstructured, namespace, message string) {
	r.emit(obj, namespace, corev1.EventTypeWarning, ReasonEvaluationFailed, actionAdmit, message)
}

// QuotaDenied emits an event that a quota or a limit denied a request in a namespace. The event is on the quota,
// because the object was not created. Controllers that create objects, such as that of ReplicaSets, emit events about
// the denial themselves. QuotaDenied does nothing if by is nil.
func (r *Recorder) QuotaDenied(by runtime.Object, namespace, message string) {
	if by == nil {
		return
	}
	r.recorder.Eventf(by, nil, corev1.EventTypeWarning, ReasonQuotaDenied, actionAdmit, "%s", short(fmt.Sprintf("in namespace %s: %s", namespace, message)))
}

// QuotaUnchecked emits an event that an object was admitted without a quota check.
func (r *Recorder) QuotaUnchecked(obj *unstructured.Unstructured, namespace, message string) {
	r.emit(obj, namespace, corev1.EventTypeWarning, ReasonQuotaUnchecked, actionAdmit, message)
}

// Remediated emits an event that an existing object was brought into line.
func (r *Recorder) Remediated(obj *unstructured.Unstructured, message string) {
	r.emit(obj, obj.GetNamespace(), corev1.EventTypeNormal, ReasonRemediated, actionRemediate, message)
}

// RemediationFailed emits an event that an existing object could not be brought into line.
func (r *Recorder) RemediationFailed(obj *unstructured.Unstructured, message string) {
	r.emit(obj, obj.GetNamespace(), corev1.EventTypeWarning, ReasonRemediationFailed, actionRemediate, message)
}

// RemediationStopped emits an event that an object's decision does not settle, so that the object is no longer patched.
func (r *Recorder) RemediationStopped(obj *unstructured.Unstructured, message string) {
	r.emit(obj, obj.GetNamespace(), corev1.EventTypeWarning, ReasonRemediationStopped, actionRemediate, message)
}

// PolicyReady emits an event on a policy that it is in force.
func (r *Recorder) PolicyReady(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonPolicyReady, actionReport, message)
}

// PolicyNotReady emits an event on a policy that it is not in force.
func (r *Recorder) PolicyNotReady(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonPolicyNotReady, actionReport, message)
}

// PolicyUndecided emits an event on a policy that it cannot decide some existing objects.
func (r *Recorder) PolicyUndecided(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonPolicyUndecided, actionReport, message)
}

// PolicyDecided emits an event on a policy that it can decide all existing objects again.
func (r *Recorder) PolicyDecided(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonPolicyDecided, actionReport, message)
}

// PolicyViolated emits an event on a policy that existing objects violate its decisions.
func (r *Recorder) PolicyViolated(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonPolicyViolated, actionReport, message)
}

// RemediationPaused emits an event on a policy that a change of it or of its data would harm too many objects, so that
// remediation is paused.
func (r *Recorder) RemediationPaused(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonRemediationPaused, actionRemediate, message)
}

// RemediationResumed emits an event on a policy that its remediation continues after a pause.
func (r *Recorder) RemediationResumed(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonRemediationResumed, actionRemediate, message)
}

// RemoteFailing emits an event on a policy that its remote engine does not answer.
func (r *Recorder) RemoteFailing(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeWarning, ReasonRemoteFailing, actionAsk, message)
}

// RemoteRecovered emits an event on a policy that its remote engine answers again.
func (r *Recorder) RemoteRecovered(policy runtime.Object, message string) {
	r.emitOnPolicy(policy, corev1.EventTypeNormal, ReasonRemoteRecovered, actionAsk, message)
}

func (r *Recorder) emitOnPolicy(policy runtime.Object, eventType, reason, action, message string) {
	r.recorder.Eventf(policy, nil, eventType, reason, action, "%s", short(message))
}

func (r *Recorder) emit(obj *unstructured.Unstructured, namespace, eventType, reason, action, message string) {
	message = short(message)
	// An object that is being created may have no name yet, but the event's reference needs one.
	name := obj.GetName()
	if name == "" {
		name = strings.TrimSuffix(obj.GetGenerateName(), "-")
	}
	apiVersion, kind := obj.GroupVersionKind().ToAPIVersionAndKind()
	about := &corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name,
		// Omit the resource version. With it, repeated events on an object would not be combined to a series.
		UID: types.UID(obj.GetUID()),
	}
	r.recorder.Eventf(about, nil, eventType, reason, action, "%s", message)
}

// short truncates a message to the length that the events API accepts.
func short(message string) string {
	if len(message) <= maxNote {
		return message
	}
	return strings.ToValidUTF8(message[:maxNote-3], "") + "..."
}

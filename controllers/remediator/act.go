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

package remediator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

const (
	// undeliveredDelay is the delay before an object is tried again that has not been delivered yet.
	undeliveredDelay = time.Second
	// conflictDelay is the delay before an object is tried again that others changed. The watch usually delivers it before that.
	conflictDelay = time.Second
)

// errNotTaken is the error of a patch that changed nothing.
var errNotTaken = errors.New("the API server did not take the placement over; the webhook configuration may be missing, or a replica may not have the newest data yet")

// act patches or evicts the object unless it must wait. An object that waits is enqueued again once it may be patched.
func (c *Controller) act(ctx context.Context, s *scope) (proceed bool, err error) {
	s.asked = true
	if !c.ask(s) {
		return false, nil
	}
	send, made, outcome := c.patch, events.Remediated, metrics.RemediationPatched
	if s.due.Evicts(s.key.Resource.GroupResource()) {
		send, made, outcome = c.evict, events.Evicted, metrics.RemediationEvicted
	}
	patch, err := send(ctx, s)
	patch.Object = s.object
	result := c.Scheduler.Done(c.Clock.Now(), s.key, s.due, patch)
	s.retryWithin(result.Retry)
	switch {
	case patch.Ending == remediation.Made:
		c.count(ctx, s, outcome)
		c.emit(s, made, s.due.String())
		if result.Unsettled {
			c.emit(s, events.RemediationStopped, s.due.Policies()+": its decision keeps changing after its own patch")
		}
		if result.Age > 0 {
			c.emit(s, events.RemediationStopped, fmt.Sprintf("%s: its controller keeps creating Pods that violate the decision; Berth evicts the next one when it is %s old", s.due.Policies(), result.Age))
		}
		c.Ledger.Remediated(s.key, s.object.GetResourceVersion(), remediation.Names(s.due)...)
		c.changed(remediation.Names(s.due))
	case patch.Ending == remediation.Overtaken:
		c.count(ctx, s, metrics.RemediationConflict)
		s.retryWithin(conflictDelay)
	case apierrors.IsConflict(err):
		c.count(ctx, s, metrics.RemediationConflict)
		c.obstruct(s, "another client updated it at the same time; Berth tries again each second", false)
		s.retryWithin(conflictDelay)
	case patch.Ending == remediation.Protected:
		c.changed(remediation.Names(s.due))
	case patch.Ending != remediation.Unmade:
		c.failed(ctx, s, err, result.Report)
	}
	return true, nil
}

// ask reports whether the object may be patched or evicted now. If not, it is enqueued again.
func (c *Controller) ask(s *scope) bool {
	carrier := c.carrierOf(s.key)
	switch {
	case !c.Ledger.Permits(s.key, s.object.GetUID(), s.due):
		// An approval was withdrawn, or another plan was made, meanwhile. The object is decided again without it.
		c.Scheduler.Yield(s.key)
		c.objects.enqueue(s.key)
		return false
	case s.due.MovesClusters() && !carrier.Reports && c.Deliveries.Pending(s.key.Resource, s.key.Namespace, s.key.Name):
		// It is delivered first, which is no event for this controller.
		c.Scheduler.Yield(s.key)
		s.retryWithin(undeliveredDelay)
		return false
	}
	ok, retry := c.Scheduler.Ask(c.Clock.Now(), s.key, s.object, s.due, carrier)
	if !ok {
		s.retryWithin(retry)
		c.changed(remediation.Names(s.due))
	}
	return ok
}

// patch patches the object for the verdicts that are due.
//
// The patch contains only the UID and the resource version that was decided, and changes nothing. The API server then calls Berth's own
// webhook, which decides the object as it decides every other update. So there is one way by which placements get into objects, the
// fields keep their owners, and a developer who applies the same manifest again gets no conflict with Berth. The API server may not call
// the webhook: it may not know of it yet, or the webhook's failure may be ignored. Then the object stays as it is. If the patch contained
// the placement, the next record of the developer's requested values would contain it as if the developer had requested it.
func (c *Controller) patch(ctx context.Context, s *scope) (remediation.Patch, error) {
	ctrllog.FromContext(ctx).V(2).Info("Patching")
	patch := remediation.Patch{Data: remediation.DataOf(s.decisions), Ending: remediation.Failed}
	options := metav1.PatchOptions{FieldManager: remediation.FieldManagerFor(s.key, s.object.GetUID(), s.due)}
	got, err := c.Client.Resource(s.key.Resource).Namespace(s.key.Namespace).Patch(ctx, s.key.Name, types.MergePatchType, patchBody(s.object), options)
	switch {
	case err != nil:
		patch.Ending, patch.Reason = endingOf(err), err.Error()
	case got.GetResourceVersion() == s.object.GetResourceVersion():
		err = errNotTaken
	default:
		// If it has another placement, the webhook decided with newer data, or another webhook changed the object. The watch will deliver the
		// newer object. The scheduler stops an object that never settles.
		patch.UID, patch.Generation, patch.Version, patch.Ending = got.GetUID(), got.GetGeneration(), got.GetResourceVersion(), remediation.Overtaken
		if s.due.Placed(got) {
			patch.Ending = remediation.Made
		}
	}
	return patch, err
}

func patchBody(obj *unstructured.Unstructured) []byte {
	return fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"uid":%q}}`, obj.GetResourceVersion(), obj.GetUID())
}

// evict evicts the Pod for the verdicts that are due. Its controller creates another one, which the webhook places.
func (c *Controller) evict(ctx context.Context, s *scope) (remediation.Patch, error) {
	ctrllog.FromContext(ctx).V(2).Info("Evicting")
	if err := c.postEviction(ctx, s.object); err != nil {
		return remediation.Patch{Ending: endingOf(err), Reason: err.Error()}, err
	}
	return remediation.Patch{Ending: remediation.Made, UID: s.object.GetUID()}, nil
}

// postEviction evicts a Pod through the Eviction API, in the version that was decided.
func (c *Controller) postEviction(ctx context.Context, pod *unstructured.Unstructured) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(pod.GetUID()), ResourceVersion: new(pod.GetResourceVersion())}},
	}
	var status metav1.Status
	// The client would wait and retry when a PodDisruptionBudget does not allow the eviction, and so block a worker.
	err := c.Core.Post().MaxRetries(0).Namespace(pod.GetNamespace()).Resource("pods").Name(pod.GetName()).SubResource("eviction").Body(eviction).Do(ctx).Into(&status)
	if err == nil && status.Status == metav1.StatusFailure {
		// The API server returns a failure as the result if several PodDisruptionBudgets select the Pod.
		err = &apierrors.StatusError{ErrStatus: status}
	}
	if s, ok := err.(apierrors.APIStatus); ok && s.Status().Code == http.StatusInternalServerError && s.Status().Reason == metav1.StatusReasonUnknown {
		// The reason is the Pod's own, unlike that of other internal errors.
		return apierrors.NewForbidden(policyv1.Resource("evictions"), pod.GetName(), err)
	}
	return err
}

// isProtected reports whether a PodDisruptionBudget does not allow an eviction now. Other requests are refused as too many, too,
// if the API server is overloaded.
func isProtected(err error) bool {
	return apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

// endingOf returns how a patch or an eviction ended with an error.
func endingOf(err error) remediation.Ending {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return remediation.Unmade
	case isProtected(err):
		return remediation.Protected
	case refused(err):
		return remediation.Refused
	}
	return remediation.Failed
}

// failed counts and reports a failed patch. report reports whether it is news.
func (c *Controller) failed(ctx context.Context, s *scope, err error, report bool) {
	if !errors.Is(err, errNotTaken) {
		c.emit(s, events.RemediationFailed, fmt.Sprintf("%s: %v", s.due.Policies(), err))
	}
	c.count(ctx, s, metrics.RemediationFailed)
	c.obstruct(s, err.Error(), unauthorized(err))
	log := ctrllog.FromContext(ctx)
	if !report {
		log = log.V(1)
	}
	// The failure is not an error of Berth, which would be logged with a stack trace.
	log.Info("Patching failed; it is tried again later", "object", s.key.String(), "policies", s.due.Policies(), "reason", err.Error())
}

// obstruct has the reports of policies say why the patch of the object failed, and whether Berth lacks the permission for it.
func (c *Controller) obstruct(s *scope, why string, unauthorized bool) {
	c.changed(c.Ledger.Obstruct(s.key, why, unauthorized, remediation.Names(s.due)...))
}

// emit emits an Event on the object.
func (c *Controller) emit(s *scope, kind events.Kind, message string) {
	c.Events.OnObject(s.object, s.key.Namespace, kind, message)
}

// count counts how the patch of the object ended.
func (c *Controller) count(ctx context.Context, s *scope, outcome string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(tracing.Outcome.String(outcome))
	}
	for _, v := range s.due {
		c.Metrics.Remediation(v.Policy.Name, outcome)
	}
}

// changed reports policies whose account in the ledger changed.
func (c *Controller) changed(policies []string) {
	for _, name := range policies {
		c.Changed(name)
	}
}

// refused reports whether the API server refused a patch for a reason of the object's own, such as a denial by another
// webhook. Other reasons, such as a missing permission or an unavailable webhook, may concern other objects, too.
func refused(err error) bool {
	switch reason := apierrors.ReasonForError(err); reason {
	case metav1.StatusReasonUnknown, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonUnauthorized, metav1.StatusReasonMethodNotAllowed:
		return false
	}
	return !unauthorized(err)
}

// unauthorized reports whether the API server refused a patch or an eviction because Berth lacks a permission. Only the message
// distinguishes such a refusal from a denial by an admission plugin.
func unauthorized(err error) bool {
	return apierrors.IsForbidden(err) &&
		(strings.Contains(err.Error(), "cannot patch resource") || strings.Contains(err.Error(), `cannot create resource "pods/eviction"`))
}

// clockCheck is the maximum time for which the controller relies on the clock to run evenly. Windows open by the time of day,
// which may be set.
const clockCheck = time.Minute

// schedule enqueues the objects that may be patched, when something changes that kept them back and when its time is over, until ctx ends. It
// reports policies whose patches stopped because too many failed.
func (c *Controller) schedule(ctx context.Context) {
	for {
		next := c.Scheduler.Schedule(c.Clock.Now())
		c.objects.enqueue(next.Keys...)
		for _, name := range next.Unsettled {
			c.settleReadiness(name)
		}
		c.changed(next.Changed)
		for _, name := range next.Paused {
			waiting := c.Scheduler.Waiting(c.Clock.Now(), name)
			ctrllog.FromContext(ctx).Info("Remediation is paused: too many objects failed", "policy", name, "where", waiting.PausedIn.String(), "objects", len(waiting.Failures))
			c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationPaused, waiting.PauseNote(name))
			c.Changed(name)
		}
		wake := clockCheck
		if !next.Wake.IsZero() {
			wake = min(wake, max(next.Wake.Sub(c.Clock.Now()), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return
		case <-c.Scheduler.Changes():
		case <-c.Clock.After(wake):
		}
	}
}

// Recognize returns a function that reports whether a request is a patch by this controller, on any replica. If the patch
// makes moves that need an approval, permits reports whether verdicts on the object require just those; otherwise it is nil.
func Recognize(identity authenticationv1.UserInfo) func(*admissionv1.AdmissionRequest) (ok bool, permits func([]*placement.Verdict) bool) {
	return func(req *admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) {
		if req.Operation != admissionv1.Update || req.UserInfo.Username != identity.Username {
			return false, nil
		}
		var options metav1.PatchOptions
		var old metav1.PartialObjectMetadata
		if json.Unmarshal(req.Options.Raw, &options) != nil {
			return false, nil
		}
		ok, permits := remediation.ParseFieldManager(options.FieldManager, remediation.Key{}, "")
		if permits == nil || json.Unmarshal(req.OldObject.Raw, &old) != nil {
			return ok, nil
		}
		resource := req.Resource
		if req.RequestResource != nil {
			resource = *req.RequestResource
		}
		// A request for a Namespace has the object's own name as its namespace.
		key := remediation.Key{Resource: schema.GroupVersionResource(resource), Namespace: old.Namespace, Name: req.Name}
		return remediation.ParseFieldManager(options.FieldManager, key, old.UID)
	}
}

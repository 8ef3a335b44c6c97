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
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

// errNotTaken is the error of a patch that changed nothing.
var errNotTaken = errors.New("the API server did not take the placement over; the webhook configuration may be missing, or a replica may not have the newest data yet")

// act patches or evicts the object unless it must wait. An object that waits is enqueued again once it may be patched.
func (c *Controller) act(ctx context.Context, s *scope) (proceed bool, err error) {
	if s.due.Evicts(s.key.Resource.GroupResource()) {
		c.evict(ctx, s)
		return true, nil
	}
	if s.waits = c.remoteQueue.takePatch(ctx, s); s.waits {
		return false, nil
	}
	s.asked = true
	s.result, err = c.patch(ctx, s.key, s.object, s.due, remediation.DataOf(s.decisions))
	return true, err
}

// patch patches an object for the verdicts that are due. data identifies what they are based on.
//
// The patch contains only the UID and the resource version that was decided, and changes nothing. The API server then
// calls Berth's own webhook, which decides the object as it decides every other update. So there is one way by which
// placements get into objects, the fields keep their owners, and a developer who applies the same manifest again gets
// no conflict with Berth. The API server may not call the webhook: it may not know of it yet, or the webhook's failure
// may be ignored. Then the object stays as it is. If the patch contained the placement, the next record of the
// developer's requested values would contain the old placement as if the developer had requested it.
func (c *Controller) patch(ctx context.Context, key remediation.Key, obj *unstructured.Unstructured, due remediation.Due, data uint64) (reconcile.Result, error) {
	body, err := patchBody(obj)
	if err != nil {
		return reconcile.Result{}, err
	}
	if ok, retry := c.ask(key, obj, due); !ok {
		return reconcile.Result{RequeueAfter: retry}, nil
	}
	ctrllog.FromContext(ctx).V(2).Info("Patching")
	got, err := c.Client.Resource(key.Resource).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: remediation.FieldManagerFor(key, obj.GetUID(), due)})
	patch := remediation.Patch{Object: obj, Data: data}
	switch {
	case err != nil:
		patch.Ending, patch.Reason = endingOf(err), err.Error()
	case got.GetResourceVersion() == obj.GetResourceVersion():
		err = errNotTaken
		patch.Ending = remediation.Failed
	default:
		// If it has another placement, the webhook decided with newer data, or another webhook changed the object. The watch will deliver the
		// newer object. The scheduler stops an object that never settles.
		patch.UID, patch.Generation, patch.Version, patch.Ending = got.GetUID(), got.GetGeneration(), got.GetResourceVersion(), remediation.Overtaken
		if due.Placed(got) {
			patch.Ending = remediation.Made
		}
	}
	result := c.Scheduler.Done(c.Clock.Now(), key, due, patch)
	if patch.Ending == remediation.Made {
		c.Events.OnObject(got, got.GetNamespace(), events.Remediated, due.String())
		if result.Unsettled {
			c.Events.OnObject(got, got.GetNamespace(), events.RemediationStopped, fmt.Sprintf("%s: its decision keeps changing after its own patch", due.Policies()))
		}
	}
	return c.conclusionOf(ctx, key, obj, due, patch, result, err), nil
}

// ask reports whether an object may be patched or evicted now. If not, it is enqueued again, after a delay if retry is not 0.
func (c *Controller) ask(key remediation.Key, obj *unstructured.Unstructured, due remediation.Due) (ok bool, retry time.Duration) {
	carrier := c.carrierOf(key)
	switch {
	case !c.Ledger.Permits(key, obj.GetUID(), due):
		// An approval was withdrawn, or another plan was made, while the object waited. It is decided again without it.
		c.Scheduler.Yield(key)
		c.objects.enqueue(key)
		return false, 0
	case due.MovesClusters() && !carrier.Reports && c.Deliveries.Pending(key.Resource, key.Namespace, key.Name):
		// It is delivered first, which is no event for this controller.
		c.Scheduler.Yield(key)
		return false, undeliveredDelay
	}
	if ok, retry = c.Scheduler.Ask(c.Clock.Now(), key, obj, due, carrier); !ok {
		c.changed(remediation.Names(due))
	}
	return ok, retry
}

// conclusionOf reports how a patch or an eviction ended that had an error, or that the scheduler knows of. It returns when the object must be
// decided again even if nothing changes.
func (c *Controller) conclusionOf(ctx context.Context, key remediation.Key, obj *unstructured.Unstructured, due remediation.Due, patch remediation.Patch, result remediation.Result, err error) reconcile.Result {
	policies := remediation.Names(due)
	switch patch.Ending {
	case remediation.Made:
		outcome := metrics.RemediationPatched
		if due.Evicts(key.Resource.GroupResource()) {
			outcome = metrics.RemediationEvicted
		}
		c.count(ctx, due, outcome)
		c.Ledger.Remediated(key, obj.GetResourceVersion(), policies...)
		c.changed(policies)
	case remediation.Overtaken:
		c.count(ctx, due, metrics.RemediationConflict)
		return reconcile.Result{RequeueAfter: time.Second}
	case remediation.Unmade:
		if !apierrors.IsConflict(err) {
			break
		}
		// Another client updated the object. The watch will deliver the newer object; the requeue is for the case that
		// it does not.
		c.obstruct(key, "another client updated it at the same time; Berth tries again each second", false, policies)
		c.count(ctx, due, metrics.RemediationConflict)
		return reconcile.Result{RequeueAfter: time.Second}
	case remediation.Protected:
		c.changed(policies)
	default:
		if !errors.Is(err, errNotTaken) {
			c.Events.OnObject(obj, obj.GetNamespace(), events.RemediationFailed, fmt.Sprintf("%s: %v", due.Policies(), err))
		}
		c.failed(ctx, key, due, err, result.Report)
	}
	return reconcile.Result{RequeueAfter: result.Retry}
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

// changed reports policies whose account in the ledger changed.
func (c *Controller) changed(policies []string) {
	for _, name := range policies {
		c.Changed(name)
	}
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
		timer := c.Clock.NewTimer(wake)
		select {
		case <-ctx.Done():
		case <-c.Scheduler.Changes():
		case <-timer.C():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func patchBody(obj *unstructured.Unstructured) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.GetResourceVersion(),
		"uid":             obj.GetUID(),
	}})
}

// failed counts and reports a failed patch. report reports whether it is news.
func (c *Controller) failed(ctx context.Context, key remediation.Key, due remediation.Due, err error, report bool) {
	c.count(ctx, due, metrics.RemediationFailed)
	c.obstruct(key, err.Error(), unauthorized(err), remediation.Names(due))
	log := ctrllog.FromContext(ctx)
	if !report {
		log = log.V(1)
	}
	// The failure is not an error of Berth, which would be logged with a stack trace.
	log.Info("Patching failed; it is tried again later", "object", key.String(), "policies", due.Policies(), "reason", err.Error())
}

// obstruct has the reports of policies say why the patch of an object failed, and whether Berth lacks the permission for it.
func (c *Controller) obstruct(key remediation.Key, why string, unauthorized bool, policies []string) {
	c.changed(c.Ledger.Obstruct(key, why, unauthorized, policies...))
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

func (c *Controller) count(ctx context.Context, due remediation.Due, outcome string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(tracing.Outcome.String(outcome))
	}
	for _, v := range due {
		c.Metrics.Remediation(v.Policy.Name, outcome)
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

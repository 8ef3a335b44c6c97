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
	policies := remediation.Names(s.due)
	if c.Ledger.Hold(c.Clock.Now(), s.key, policies...) {
		return false, nil
	}
	evicts := s.due.Evicts(s.key.Resource.GroupResource())
	if evicts {
		if delay := c.Budget.HoldEviction(c.Clock.Now(), s.key, s.object, s.due); delay > 0 {
			s.retryWithin(delay)
			return false, nil
		}
	}
	held, at := c.gate.Hold(c.Clock.Now(), s.key, policies...)
	c.openLater(at)
	if held {
		return false, nil
	}
	if evicts {
		c.evict(ctx, s)
		return true, nil
	}
	if s.waits = c.remoteQueue.takePatch(ctx, s); s.waits {
		return false, nil
	}
	s.result, err = c.patch(ctx, s.key, s.object, s.due, remediation.DataOf(s.decisions))
	return true, err
}

// openLater enqueues the objects that wait at a place of the gate when the gate opens it.
func (c *Controller) openLater(at remediation.Place) {
	if at.Delay == 0 {
		return
	}
	time.AfterFunc(at.Delay, func() {
		keys, again := c.gate.Open(c.Clock.Now(), at)
		c.openLater(again)
		c.objects.enqueue(keys...)
	})
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
	policies := remediation.Names(due)
	body, err := patchBody(obj)
	if err != nil || !c.allowed(ctx, key, obj, due) {
		return reconcile.Result{}, err
	}
	ctrllog.FromContext(ctx).V(2).Info("Patching")
	got, err := c.Client.Resource(key.Resource).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: remediation.FieldManagerFor(key, obj.GetUID(), due)})
	c.advance(ctx, c.Budget.Finish(c.Clock.Now(), key, due, resultOf(obj, got, err)))
	switch {
	case apierrors.IsNotFound(err):
		c.gate.Leave(key, policies...)
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		// Another client updated the object. The watch will deliver the newer object; the requeue is for the case that
		// it does not.
		c.gate.Leave(key, policies...)
		c.obstruct(key, "another client updated it at the same time; Berth tries again each second", false, policies)
		c.count(ctx, due, metrics.RemediationConflict)
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		c.Events.OnObject(obj, obj.GetNamespace(), events.RemediationFailed, fmt.Sprintf("%s: %v", due.Policies(), err))
		return c.failed(ctx, key, due, err), nil
	case got.GetResourceVersion() == obj.GetResourceVersion():
		return c.failed(ctx, key, due, errNotTaken), nil
	case !due.Placed(got):
		// The webhook decided with newer data, or another webhook changed the object. The watch will deliver the newer
		// object. The gate stops an object that never settles.
		c.gate.Leave(key, policies...)
		c.gate.Patched(c.Clock.Now(), key, obj, due, data, got.GetResourceVersion())
		c.count(ctx, due, metrics.RemediationConflict)
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	c.succeeded(ctx, key, obj.GetResourceVersion(), due, metrics.RemediationPatched)
	c.gate.Patched(c.Clock.Now(), key, obj, due, data, got.GetResourceVersion())
	c.Events.OnObject(got, got.GetNamespace(), events.Remediated, due.String())
	if !c.gate.Settles(c.Clock.Now(), key) {
		c.Events.OnObject(got, got.GetNamespace(), events.RemediationStopped, fmt.Sprintf("%s: its decision keeps changing after its own patch", due.Policies()))
	}
	return reconcile.Result{}, nil
}

// allowed reports whether the plans and the budgets of the policies allow to patch or evict an object now. If not, the object is
// enqueued again.
func (c *Controller) allowed(ctx context.Context, key remediation.Key, obj *unstructured.Unstructured, due remediation.Due) bool {
	policies := remediation.Names(due)
	if !c.Ledger.Permits(key, obj.GetUID(), due) {
		// An approval was withdrawn, or another plan was made, while the object waited. It is decided again without it.
		c.gate.Leave(key, policies...)
		c.advance(ctx, c.Budget.Leave(c.Clock.Now(), key))
		c.objects.enqueue(key)
		return false
	}
	if !c.spend(ctx, key, due) {
		c.gate.Leave(key, policies...)
		return false
	}
	return true
}

// succeeded records that an object was patched or evicted that had a resource version.
func (c *Controller) succeeded(ctx context.Context, key remediation.Key, version string, due remediation.Due, outcome string) {
	policies := remediation.Names(due)
	c.count(ctx, due, outcome)
	c.objects.enqueue(c.gate.Succeed(key, policies...)...)
	c.Ledger.Remediated(key, version, policies...)
	for _, policy := range policies {
		c.Changed(policy)
	}
}

// resultOf returns what the budgets have to know of a patch of an object.
func resultOf(obj, got *unstructured.Unstructured, err error) remediation.Patch {
	switch {
	case err == nil:
		return remediation.Patch{Done: got.GetResourceVersion() != obj.GetResourceVersion(), UID: got.GetUID(), Generation: got.GetGeneration(), Version: got.GetResourceVersion()}
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && refused(err):
		return remediation.Patch{Refusal: err.Error()}
	}
	return remediation.Patch{}
}

// spend reports whether the budgets of the policies allow a patch now. If not, the object is enqueued again once they may
// allow it.
func (c *Controller) spend(ctx context.Context, key remediation.Key, due remediation.Due) bool {
	carrier := c.carrierOf(key)
	if due.MovesClusters() && !carrier.Reports && c.Deliveries.Pending(key.Resource, key.Namespace, key.Name) {
		// It is delivered first, which is no event for this controller.
		c.objects.enqueueAfter(key, undeliveredDelay)
		return false
	}
	for _, v := range due {
		if v.Policy.WatchesRollouts() || carrier.Reports {
			c.settleBudget(ctx, v.Policy)
		}
	}
	ok, next := c.Budget.Spend(c.Clock.Now(), key, due, carrier)
	c.advance(ctx, next)
	if !ok {
		for _, v := range due {
			c.Changed(v.Policy.Name)
		}
	}
	return ok
}

// advance does what the budgets require: it enqueues the objects that may be patched now, and those that may be patched later
// once the time comes. It reports policies whose patches stopped because too many failed.
func (c *Controller) advance(ctx context.Context, next remediation.Next) {
	c.objects.enqueue(next.Keys...)
	c.openBudget(next.Wake)
	for _, name := range next.Changed {
		c.Changed(name)
	}
	for _, name := range next.Paused {
		waiting := c.Budget.Waiting(name)
		ctrllog.FromContext(ctx).Info("Remediation is paused: too many objects failed", "policy", name, "where", waiting.PausedIn.String(), "objects", len(waiting.Failures))
		c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationPaused, waiting.PauseNote(name))
		c.Changed(name)
	}
}

// clockCheck is the maximum time for which the controller relies on the clock to run evenly. Windows open by the time of day,
// which may be set.
const clockCheck = time.Minute

// openBudget enqueues, after a delay, the objects that wait for the budget and may be patched then. A delay of 0 means
// never.
func (c *Controller) openBudget(wake time.Duration) {
	if wake == 0 {
		return
	}
	at := c.Clock.Now().Add(wake).Round(0)
	time.AfterFunc(min(wake, clockCheck), func() {
		if rest := at.Sub(c.Clock.Now()); rest > 0 {
			c.openBudget(rest)
			return
		}
		c.advance(context.Background(), c.Budget.Open(c.Clock.Now()))
	})
}

func patchBody(obj *unstructured.Unstructured) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.GetResourceVersion(),
		"uid":             obj.GetUID(),
	}})
}

// failed counts a failed patch and returns when to requeue the object. If the reason is not the object's own, the gate
// probes with one object for all that the policy must patch in the namespace.
func (c *Controller) failed(ctx context.Context, key remediation.Key, due remediation.Due, err error) (result reconcile.Result) {
	c.count(ctx, due, metrics.RemediationFailed)
	c.obstruct(key, err.Error(), unauthorized(err), remediation.Names(due))
	var report bool
	if policies := remediation.Names(due); refused(err) {
		report, result.RequeueAfter = c.gate.Refuse(c.Clock.Now(), key, policies...)
	} else {
		var at remediation.Place
		report, at = c.gate.Fail(c.Clock.Now(), key, policies...)
		c.openLater(at)
	}
	log := ctrllog.FromContext(ctx)
	if !report {
		log = log.V(1)
	}
	// The failure is not an error of Berth, which would be logged with a stack trace.
	log.Info("Patching failed; it is tried again later", "object", key.String(), "policies", due.Policies(), "reason", err.Error())
	return result
}

// obstruct has the reports of policies say why the patch of an object failed, and whether Berth lacks the permission for it.
func (c *Controller) obstruct(key remediation.Key, why string, unauthorized bool, policies []string) {
	for _, policy := range c.Ledger.Obstruct(key, why, unauthorized, policies...) {
		c.Changed(policy)
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

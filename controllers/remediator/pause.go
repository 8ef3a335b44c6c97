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
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// automatic returns the names of those policies that are in force and patch existing objects automatically.
func (c *Controller) automatic(policies []*placement.Policy) []string {
	var out []string
	for _, p := range policies {
		moves := p.Mode == placementv1.ModeEnforce && p.Remediation == placementv1.RemediationAutomatic
		if state := c.Registry.Get(p.Name); moves && state != nil && state.Policy == p {
			out = append(out, p.Name)
		}
	}
	return out
}

func policiesOf(verdicts []*placement.Verdict) []*placement.Policy {
	out := make([]*placement.Policy, len(verdicts))
	for i, v := range verdicts {
		out[i] = v.Policy
	}
	return out
}

// objectsChanged enqueues objects that were added, changed or deleted. More than one object is the content of a type.
func (c *Controller) objectsChanged(keys ...remediation.Key) {
	c.mu.Lock()
	started := c.queue != nil
	c.mu.Unlock()
	if len(keys) > 1 && started {
		var policies []*placement.Policy
		for _, p := range c.Registry.InForce() {
			if p.Matcher.SelectsResource(keys[0].Resource) {
				policies = append(policies, p)
			}
		}
		assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic(policies)...)
		assessment.Add(keys...)
		defer c.complete(context.Background(), assessment)
	}
	c.enqueue(keys...)
}

// complete records that an assessment has all of its objects.
func (c *Controller) complete(ctx context.Context, assessment *remediation.Assessment) {
	assessment.Complete()
	c.concludeAssessments(ctx)
}

// concludeAssessments pauses the policies whose change exceeds their blast radius. It enqueues the objects of other
// policies that waited for their assessment.
func (c *Controller) concludeAssessments(ctx context.Context) {
	ruling := c.Ledger.ConcludeAssessments(c.Clock.Now())
	for _, name := range ruling.Paused {
		if pause := c.Ledger.Report(name).Pause; pause != nil {
			ctrllog.FromContext(ctx).Info("Remediation is paused: a change would harm too many objects", "policy", name, "change", pause.Change, "objects", pause.Objects(), "matched", pause.Matched)
			c.emitEvent(ctx, name, c.Events.RemediationPaused, pause.Message(name))
		}
	}
	for _, name := range ruling.Resumed {
		c.emitEvent(ctx, name, c.Events.RemediationResumed, "remediation goes on: what the change would do is within the bound again")
	}
	c.report(ruling.Changed)
	c.enqueue(ruling.Released...)
	if ruling.Unconcluded {
		c.concludeLater()
	}
}

// concludeLater calls concludeAssessments after the maximum duration of an assessment.
func (c *Controller) concludeLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil || c.scheduled.judged {
		return
	}
	c.scheduled.judged = true
	time.AfterFunc(remediation.AssessmentLimit(), func() {
		c.mu.Lock()
		c.scheduled.judged = false
		c.mu.Unlock()
		c.concludeAssessments(context.Background())
	})
}

// emitEvent emits an Event on a policy.
func (c *Controller) emitEvent(ctx context.Context, policy string, emit func(of runtime.Object, message string), message string) {
	of := &placementv1.PlacementPolicy{}
	// There is no Event on a policy that was deleted meanwhile.
	if err := c.Policies.Get(ctx, client.ObjectKey{Name: policy}, of); err == nil {
		emit(of, message)
	}
}

// held reports whether an object must not be patched now. It is enqueued again once it may be patched.
func (c *Controller) held(key remediation.Key, due remediation.Due) bool {
	policies := remediation.Names(due)
	if c.Ledger.Hold(c.Clock.Now(), key, policies...) {
		return true
	}
	held, at := c.gate.Hold(c.Clock.Now(), key, policies...)
	c.openLater(at)
	return held
}

// openLater enqueues the objects that wait at a place of the gate when the gate opens it.
func (c *Controller) openLater(at remediation.Place) {
	if at.Delay == 0 {
		return
	}
	time.AfterFunc(at.Delay, func() {
		keys, again := c.gate.Open(c.Clock.Now(), at)
		c.openLater(again)
		c.enqueue(keys...)
	})
}

// failed counts a failed patch and returns when to requeue the object. If the reason is not the object's own, the gate
// probes with one object for all that the policy must patch in the namespace.
func (c *Controller) failed(ctx context.Context, key remediation.Key, due remediation.Due, err error) reconcile.Result {
	c.count(ctx, due, metrics.RemediationFailed)
	var result reconcile.Result
	var report bool
	if refused(err) {
		report, result.RequeueAfter = c.gate.Refuse(c.Clock.Now(), key, remediation.Names(due)...)
	} else {
		var at remediation.Place
		report, at = c.gate.Fail(c.Clock.Now(), key, remediation.Names(due)...)
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

// refused reports whether the API server refused a patch for a reason of the object's own, such as a denial by another
// webhook. Other reasons, such as a missing permission or an unavailable webhook, may concern other objects, too.
func refused(err error) bool {
	switch reason := apierrors.ReasonForError(err); reason {
	case metav1.StatusReasonUnknown, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonUnauthorized, metav1.StatusReasonMethodNotAllowed:
		return false
	case metav1.StatusReasonForbidden:
		// Only the message distinguishes a refusal by the authorizer from a denial by an admission plugin.
		return !strings.Contains(err.Error(), "cannot patch resource")
	}
	return true
}

// succeeded counts a patch that succeeded, and enqueues the objects that waited for it.
func (c *Controller) succeeded(ctx context.Context, key remediation.Key, due remediation.Due) {
	c.count(ctx, due, metrics.RemediationPatched)
	c.enqueue(c.gate.Succeed(key, remediation.Names(due)...)...)
}

// resume restores the pauses of an earlier leader from the policies' status. It returns false if ctx ended.
func (c *Controller) resume(ctx context.Context) bool {
	for {
		policies := &placementv1.PlacementPolicyList{}
		err := c.Policies.List(ctx, policies)
		if err == nil {
			var paused []string
			for _, p := range policies.Items {
				if p.Status.Paused != nil {
					c.Ledger.Resume(p.Name, p.Status.Paused.Change, int(p.Status.Paused.Before))
					paused = append(paused, p.Name)
				}
			}
			c.resumed.Store(true)
			if len(paused) > 0 {
				go c.settlePauses(ctx, paused)
			}
			return true
		}
		ctrllog.FromContext(ctx).Info("Reading the policies failed; it is tried again", "reason", err.Error())
		if !sleep(ctx, readyInterval) {
			return false
		}
	}
}

// Resuming reports whether it is not known yet which policies an earlier leader paused.
func (c *Controller) Resuming() bool { return !c.resumed.Load() }

// settlePauses ends the pauses of an earlier leader once all objects of their policies have been decided, if the result
// allows that.
func (c *Controller) settlePauses(ctx context.Context, policies []string) {
	for len(policies) > 0 && sleep(ctx, settleInterval) {
		policies = slices.DeleteFunc(policies, func(name string) bool {
			state := c.Registry.Get(name)
			if state == nil {
				return apierrors.IsNotFound(c.Policies.Get(ctx, client.ObjectKey{Name: name}, &placementv1.PlacementPolicy{}))
			}
			return c.MatchedState(state.Policy).Synced && !c.HasUndecided(state.Policy) && c.Ledger.Settle(name)
		})
		c.concludeAssessments(ctx)
	}
}

// releases reconciles policies to release the changes that their annotations name.
type releases struct{ *Controller }

// SetupWithManager adds the controller to a manager.
func (r releases) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("release").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Complete(r)
}

// Reconcile releases the change that a policy's annotation names.
func (r releases) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &placementv1.PlacementPolicy{}
	if err := r.Policies.Get(ctx, req.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	change, ok := p.Annotations[placementv1.ReleaseBlastRadiusAnnotation]
	if !ok {
		return reconcile.Result{}, nil
	}
	if r.Resuming() {
		// A pause of an earlier leader can't be released before it is restored.
		return reconcile.Result{RequeueAfter: settleInterval}, nil
	}
	free, ok := r.Ledger.Release(r.Clock.Now(), p.Name, change)
	if !ok {
		if paused := r.Ledger.Report(p.Name).Pause; paused != nil {
			r.Events.RemediationPaused(p, fmt.Sprintf("the annotation %s names the change %s, but the policy is paused for the change %s", placementv1.ReleaseBlastRadiusAnnotation, change, paused.Change))
		}
		return reconcile.Result{}, nil
	}
	r.Events.RemediationResumed(p, fmt.Sprintf("remediation goes on: change %s was released", change))
	r.Changed(p.Name)
	r.enqueue(free...)
	return reconcile.Result{}, nil
}

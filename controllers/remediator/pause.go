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
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// settleDelay is how long a leader waits after progress before it checks whether all objects of policies that an earlier
// leader paused are decided.
const settleDelay = time.Second

// resumeLimit is how long a leader tries to find out which objects an earlier leader was moving.
const resumeLimit = 10 * time.Minute

// enqueueTogether enqueues objects that must be decided again because of one change. A change that concerns several
// objects is assessed.
func (c *Controller) enqueueTogether(cause remediation.Cause, policies []*placement.Policy, keys []remediation.Key) {
	if len(keys) > 1 {
		c.assess(context.Background(), cause, policies, func(enqueue func([]remediation.Key)) { enqueue(keys) })
	} else {
		c.objects.enqueue(keys...)
	}
}

// assess enqueues the objects that find passes to its argument. Patches for the policies wait until all these objects are
// decided. Then the ledger knows what the change that causes the decisions requires, and whether it would harm too many
// objects.
func (c *Controller) assess(ctx context.Context, cause remediation.Cause, policies []*placement.Policy, find func(enqueue func([]remediation.Key))) {
	assessment := c.Ledger.Assess(c.Clock.Now(), cause, c.remediated(policies)...)
	find(func(keys []remediation.Key) {
		assessment.Add(keys...)
		c.objects.enqueue(keys...)
	})
	assessment.Complete()
	c.conclude(ctx)
}

// remediated returns the names of those policies that are in force and evaluate existing objects.
func (c *Controller) remediated(policies []*placement.Policy) []string {
	var out []string
	for _, p := range policies {
		if state := c.Registry.Get(p.Name); p.RemediatesExisting() && state != nil && state.Policy == p {
			out = append(out, p.Name)
		}
	}
	return out
}

// conclude reports policies whose account in the ledger changed. Then it pauses the policies whose change exceeds their
// blast radius, and enqueues the objects of other policies that waited for their assessment.
func (c *Controller) conclude(ctx context.Context, changed ...string) {
	result := c.Ledger.ConcludeAssessments(c.Clock.Now())
	for _, name := range result.Paused {
		if pause := c.Ledger.Report(name).Pause; pause != nil {
			ctrllog.FromContext(ctx).Info("Remediation is paused: a change would harm too many objects", "policy", name, "change", pause.Change, "objects", pause.Objects(), "matched", pause.Matched)
			c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationPaused, pause.Message(name))
		}
	}
	for _, name := range result.Resumed {
		c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationResumed, "remediation goes on: what the change would do is within the bound again")
	}
	for _, name := range append(changed, result.Changed...) {
		c.Changed(name)
	}
	c.objects.enqueue(result.Released...)
	if result.Unconcluded {
		c.overdue.request(remediation.AssessmentLimit, func() { c.conclude(context.Background()) })
	}
	if result.Unplanned {
		c.unplanned.request(remediation.PlanInterval, func() { c.conclude(context.Background()) })
	}
	c.progress.Notify()
}

// resume restores the pauses of an earlier leader from the policies' status. It returns false if ctx ended.
func (c *Controller) resume(ctx context.Context) bool {
	for {
		policies := &placementv1.PlacementPolicyList{}
		err := c.Policies.List(ctx, policies)
		if err == nil {
			var paused []string
			for _, p := range policies.Items {
				c.Budget.Resume(c.Clock.Now(), p.Name, p.Status.GenerationInForce, carriesOut(p.Status.Plan), failuresOf(p.Status.Failures), pauseOf(p.Status.Failures))
				if p.Status.Paused != nil {
					c.Ledger.Resume(p.Name, p.Status.Paused.Change, int(p.Status.Paused.Before))
					paused = append(paused, p.Name)
				}
			}
			close(c.resumed)
			go c.settle(ctx, paused)
			return true
		}
		ctrllog.FromContext(ctx).Info("Reading the policies failed; it is tried again", "reason", err.Error())
		if !sleep(ctx, readyInterval) {
			return false
		}
	}
}

// carriesOut reports whether a leader was carrying out a plan.
func carriesOut(p *placementv1.RemediationPlan) bool {
	return p != nil && (p.State == placementv1.PlanInProgress || p.Rollouts > 0)
}

// failuresOf returns the objects that failed under an earlier leader, as far as the status names them.
func failuresOf(f *placementv1.MoveFailures) (out []remediation.Failure) {
	if f == nil {
		return nil
	}
	for _, o := range f.Sample {
		key := remediation.Key{Resource: schema.ParseGroupResource(o.Resource).WithVersion(""), Namespace: o.Namespace, Name: o.Name}
		out = append(out, remediation.Failure{Key: key, Reason: o.Message, Rollout: o.Reason == placementv1.RolloutFailed})
	}
	return out
}

// pauseOf returns the pause because of failures under an earlier leader; "" if there is none.
func pauseOf(f *placementv1.MoveFailures) string {
	if f == nil {
		return ""
	}
	return f.Pause
}

// Resuming reports whether it is not known yet which policies an earlier leader paused.
func (c *Controller) Resuming() bool {
	select {
	case <-c.resumed:
		return false
	default:
		return true
	}
}

// settle ends the pauses of an earlier leader once all objects of their policies have been decided, if the result allows that.
// It also finds out which objects that leader was moving.
func (c *Controller) settle(ctx context.Context, policies []string) {
	began := c.Clock.Now()
	for len(policies)+len(c.Budget.Resuming()) > 0 && sleep(ctx, settleDelay) {
		c.settleResuming(ctx)
		if c.Clock.Since(began) >= resumeLimit {
			c.advance(ctx, c.Budget.StopResuming(c.Clock.Now()))
		}
		before := len(policies)
		policies = slices.DeleteFunc(policies, func(name string) bool {
			state := c.Registry.Get(name)
			if state == nil {
				return apierrors.IsNotFound(c.Policies.Get(ctx, client.ObjectKey{Name: name}, &placementv1.PlacementPolicy{}))
			}
			return c.MatchedState(state.Policy).Synced && !c.HasUndecided(state.Policy) && c.Ledger.Settle(name)
		})
		if len(policies) < before {
			c.conclude(ctx)
		}
		select {
		case <-ctx.Done():
		case <-c.progress:
		case <-c.Clock.After(resumeLimit):
		}
	}
}

// releases reconciles policies to release the changes, and to approve the plans, that their annotations name.
type releases struct{ *Controller }

// SetupWithManager adds the controller to a manager.
func (r releases) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("release").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Complete(r)
}

// Reconcile approves the plan and releases the change that a policy's annotations name.
func (r releases) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// A pause of an earlier leader can't be released before it is restored.
	select {
	case <-ctx.Done():
		return reconcile.Result{}, ctx.Err()
	case <-r.resumed:
	}
	p := &placementv1.PlacementPolicy{}
	if err := r.Policies.Get(ctx, req.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.objects.enqueue(r.Ledger.Approve(p.Name, approvalOf(p))...)
	r.Changed(p.Name)
	if pause, set := p.Annotations[placementv1.ResumeAfterFailuresAnnotation]; set {
		if next, ok := r.Budget.Release(r.Clock.Now(), p.Name, pause); ok {
			r.Events.On(p, events.RemediationResumed, "remediation goes on: the pause "+pause+" after failures was released")
			r.advance(ctx, next)
			r.Changed(p.Name)
		}
	}
	change, ok := p.Annotations[placementv1.ReleaseBlastRadiusAnnotation]
	if !ok {
		return reconcile.Result{}, nil
	}
	free, ok := r.Ledger.Release(r.Clock.Now(), p.Name, change)
	if !ok {
		if paused := r.Ledger.Report(p.Name).Pause; paused != nil {
			r.Events.On(p, events.RemediationPaused, fmt.Sprintf("the annotation %s names the change %s, but the policy is paused for the change %s", placementv1.ReleaseBlastRadiusAnnotation, change, paused.Change))
		}
		return reconcile.Result{}, nil
	}
	r.Events.On(p, events.RemediationResumed, fmt.Sprintf("remediation goes on: change %s was released", change))
	r.Changed(p.Name)
	r.objects.enqueue(free...)
	return reconcile.Result{}, nil
}

// approvalOf returns the approval in a policy's annotations, or nil if there is none.
func approvalOf(p *placementv1.PlacementPolicy) *remediation.Approval {
	digest, ok := p.Annotations[placementv1.ApproveAnnotation]
	if !ok {
		return nil
	}
	var by placementv1.Approver
	plan := p.Status.Plan
	out := &remediation.Approval{Digest: digest, Used: plan != nil && plan.Digest == digest && *plan.Done == plan.Moves}
	if err := json.Unmarshal([]byte(p.Annotations[placementv1.ApprovedByAnnotation]), &by); err == nil && by.Digest == digest {
		out.By, out.At = by.User, by.Time.Time
	}
	// Otherwise the webhook did not see the request that approved the plan.
	return out
}

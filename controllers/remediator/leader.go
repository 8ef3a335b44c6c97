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
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/status"
)

const (
	// readyInterval is the interval at which a new leader checks whether it is ready. Readiness has many parts, among them caches and files,
	// and no signal for their sum: probes and webhooks also compute it when they need it.
	readyInterval = 200 * time.Millisecond
	// settleInterval is the interval at which a leader checks whether all objects of policies are decided that an earlier leader paused.
	settleInterval = time.Second
)

// lead waits until this leader is ready, and then watches and decides objects until ctx ends.
//
// No object may be decided before all policies and data are loaded. So lead begins no watch before that: policies that are loaded later
// would need other fields, and the types would be listed again.
func (c *Controller) lead(ctx context.Context) {
	var left []string
	err := wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (ready bool, err error) {
		if !c.Ready(ctx) {
			return false, nil
		}
		if left, err = c.restore(ctx); err != nil {
			ctrllog.FromContext(ctx).Info("Reading the pauses and approved plans that an earlier leader stored failed; Berth patches no "+
				"existing object until it succeeds; trying again", "reason", err.Error())
		}
		return err == nil, nil
	})
	if err != nil {
		// ctx ended.
		return
	}
	close(c.resumed)
	go c.settle(ctx, left)
	go c.follow(ctx)
	go c.schedule(ctx)
	c.watch(ctx)
}

// restore restores what an earlier leader left: from the policies' status its pauses, failures, and unfinished moves, and from the plan
// store the approved plans that it was carrying out. It returns the names of the policies with a pause because of a change, or such a plan.
func (c *Controller) restore(ctx context.Context) (left []string, err error) {
	policies := &placementv1.PlacementPolicyList{}
	if err := c.Policies.List(ctx, policies); err != nil {
		return nil, err
	}
	plans, err := c.Plans.Load(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range policies.Items {
		c.Scheduler.Resume(c.Clock.Now(), p.Name, status.LeftOf(p.Status))
		approval := approvalOf(&p)
		c.Ledger.Approve(p.Name, approval)
		if p.Status.Paused != nil {
			c.Ledger.Resume(p.Name, p.Status.Paused.Change, int(p.Status.Paused.Before), p.Status.Paused.Namespaces)
			left = append(left, p.Name)
		}
		stored := plans[p.Name]
		delete(plans, p.Name)
		if approval == nil || approval.Used || approval.Digest != stored.Digest || p.UID != stored.UID ||
			p.Spec.WithDefaults().Remediation.Mode != placementv1.RemediationApproved {
			continue
		}
		if plan, err := moveset.DecodeSet(stored.Digest, stored.Moves); err != nil {
			ctrllog.FromContext(ctx).Info("An approved plan can't be read; its rest has to be approved again", "policy",
				p.Name, "reason", err.Error())
		} else {
			c.Ledger.Continue(p.Name, plan)
			left = append(left, p.Name)
		}
	}
	// The rest belongs to policies that were deleted.
	c.enqueueReleases(slices.Collect(maps.Keys(plans))...)
	return left, nil
}

// Resuming reports whether this replica does not know yet which policies an earlier leader paused. It returns true before this replica is
// the leader.
func (c *Controller) Resuming() bool {
	select {
	case <-c.resumed:
		return false
	default:
		return true
	}
}

// settle resumes the work of an earlier leader. left are the names of the policies that it paused, or whose approved plans it was carrying
// out. Once all objects of such a policy have been decided, settle ends the pause if the result allows that, and continues the plan. It
// also finds out which objects that leader was moving.
func (c *Controller) settle(ctx context.Context, left []string) {
	began := c.Clock.Now()
	// The poll returns an error only if ctx ends.
	_ = wait.PollUntilContextCancel(ctx, settleInterval, false, func(ctx context.Context) (settled bool, err error) {
		for _, name := range c.Scheduler.Resuming() {
			c.settleReadiness(name)
		}
		late := c.Clock.Since(began) >= remediation.ResumeLimit
		left = slices.DeleteFunc(left, func(name string) bool {
			decided, gone := c.decided(ctx, name)
			// Objects that can't be decided do not hold up the rest of a plan for ever.
			return c.Ledger.Settle(name, decided, late) || gone
		})
		c.conclude(ctx)
		return len(left)+len(c.Scheduler.Resuming()) == 0, nil
	})
}

// decided reports whether the objects of all types that a policy matches are known, none of them is in the workqueue, and the ledger has a
// decision on each. It is false while this replica has not loaded the policy. gone reports whether the policy is neither loaded nor in the
// cache of PlacementPolicies, such as after its deletion.
func (c *Controller) decided(ctx context.Context, name string) (decided, gone bool) {
	state := c.Registry.Get(name)
	if state == nil {
		return false, apierrors.IsNotFound(c.Policies.Get(ctx, client.ObjectKey{Name: name}, &placementv1.PlacementPolicy{}))
	}
	queued, unrecorded := c.pending(state.Versions()...)
	return queued+unrecorded == 0 && c.MatchedState(state.Versions()...).Synced, false
}

// settleReadiness tells the Scheduler once it is known which objects of a policy are ready: the objects with rollouts have been decided by
// the versions in force, and their rollouts are observed.
func (c *Controller) settleReadiness(name string) {
	settled, epoch := c.Scheduler.Settled(name)
	if settled {
		return
	}
	state := c.Registry.Get(name)
	if state == nil || state.Policy == nil {
		// No version of the policy is in force, so nothing is observed for it.
		c.Scheduler.PolicyChanged(c.Clock.Now(), name, nil)
		return
	}
	var rolled []schema.GroupVersionResource
	for _, version := range state.Versions() {
		if c.backlog.has(version) {
			return
		}
		for _, resource := range c.types.matched(version) {
			objects, _ := c.watches.StateOfFields(resource, version.FieldsRead())
			rollouts, _ := c.rollouts.StateOfFields(resource, rolloutFields)
			rolls := c.rolls(version, resource)
			reported, delivered := c.Deliveries.Reporting(resource)
			if rolls && (!objects.Settled() || !rollouts.Settled()) || reported && !delivered {
				return
			}
			if (rolls || reported) && !slices.Contains(rolled, resource) {
				rolled = append(rolled, resource)
			}
		}
	}
	if _, unrecorded := c.objects.Pending(rolled); unrecorded == 0 && c.Ledger.Assessed(name) {
		c.Scheduler.Settle(c.Clock.Now(), budgeted(state.Versions()), rolled, epoch)
	}
}

// rolls reports whether the rollouts of a type's objects are watched for a version of a policy: the objects are Pods that it may evict, or
// have a pod template that Berth knows, and a patch for the policy may replace their pods.
func (c *Controller) rolls(p *placement.Policy, resource schema.GroupVersionResource) bool {
	_, templated := c.Decider.Templates.Path(resource.GroupResource())
	return templated && remediation.Observes(p, resource.GroupResource())
}

// setUpReleases adds a controller to the manager that calls the method release for each policy whose annotations, or whose state of the
// plan in status, changed.
func (c *Controller) setUpReleases(mgr ctrl.Manager) error {
	planState := func(o client.Object) placementv1.PlanState {
		return ptr.Deref(o.(*placementv1.PlacementPolicy).Status.Plan, placementv1.RemediationPlan{}).State
	}
	// A completed plan need not be stored.
	planStateChanged := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return planState(e.ObjectOld) != planState(e.ObjectNew) }}
	queue := func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return c.releases
	}
	return builder.ControllerManagedBy(mgr).
		Named("release").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.Or(predicate.AnnotationChangedPredicate{}, planStateChanged))).
		WithOptions(controller.Options{NewQueue: queue}).
		Complete(reconcile.Func(c.release))
}

// enqueueReleases enqueues policies, by name, for the method release. That method carries out the approvals and releases in the policy's
// annotations, and stores an approved plan in ControllerRevisions in Berth's namespace, or deletes a stored one.
func (c *Controller) enqueueReleases(policies ...string) {
	for _, name := range policies {
		c.releases.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
}

// release approves the plan, and releases the change and the pause after failures, that the annotations of a policy name. It also stores an
// approved plan, and deletes a stored plan that is no longer needed, such as that of a policy that was deleted.
func (c *Controller) release(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// A pause of an earlier leader can't be released before it is restored.
	select {
	case <-ctx.Done():
		return reconcile.Result{}, ctx.Err()
	case <-c.resumed:
	}
	p := &placementv1.PlacementPolicy{}
	if err := c.Policies.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, c.Plans.Remove(ctx, req.Name)
		}
		return reconcile.Result{}, err
	}
	c.objects.Enqueue(c.Ledger.Approve(p.Name, approvalOf(p))...)
	c.Changed(p.Name)
	c.conclude(ctx)
	// A plan that can't be stored does not keep what follows from taking effect.
	saved := c.savePlan(ctx, p)
	if pause := p.Annotations[placementv1.ResumeAfterFailuresAnnotation]; pause != "" && c.Scheduler.Release(p.Name, pause) {
		c.Events.On(p, events.RemediationResumed, fmt.Sprintf("remediation resumes: pause %s, which failed patches or rollouts caused, "+
			"was released", pause))
		c.Changed(p.Name)
	}
	if change, set := p.Annotations[placementv1.ReleaseBlastRadiusAnnotation]; set {
		if c.Ledger.Release(c.Clock.Now(), p.Name, change) {
			c.Events.On(p, events.RemediationResumed, fmt.Sprintf("remediation resumes: change %s, which exceeded spec.remediation.blastRadius, "+
				"was released", change))
			c.Changed(p.Name)
			c.Scheduler.Reconsider()
		} else if paused := c.Ledger.Report(p.Name).Pause; paused != nil {
			c.Events.On(p, events.RemediationPaused, fmt.Sprintf("annotation %s names change %s, but the policy is paused because of change %s: "+
				"to release the latter, set the annotation to it", placementv1.ReleaseBlastRadiusAnnotation, change, paused.Change))
		}
	}
	return reconcile.Result{}, saved
}

// savePlan stores the plan of a policy if it is approved, and deletes a stored plan that is no longer needed.
func (c *Controller) savePlan(ctx context.Context, p *placementv1.PlacementPolicy) error {
	if c.Ledger.Unsave(p.Name, p.Status.UsedApproval) {
		if err := c.Plans.Remove(ctx, p.Name); err != nil {
			return err
		}
	}
	plan := c.Ledger.Unsaved(p.Name)
	if plan == nil {
		return nil
	}
	if err := c.Plans.Save(ctx, p, plan); err != nil {
		c.Events.On(p, events.RemediationStopped, fmt.Sprintf("the approved plan %s is not carried out, because it can't be stored in "+
			"namespace %s; Berth tries again: %v",
			plan.Digest, c.Plans.Namespace, err))
		return err
	}
	c.objects.Enqueue(c.Ledger.Saved(p.Name, plan.Digest)...)
	return nil
}

// approvalOf returns the approval of a plan in a policy's annotations: the plan's digest and, if known, the user and the time; nil if there
// is none. Its field Used is set if status says that a plan with this digest was already carried out.
func approvalOf(p *placementv1.PlacementPolicy) *remediation.Approval {
	digest, ok := p.Annotations[placementv1.ApproveAnnotation]
	if !ok {
		return nil
	}
	var by placementv1.Approver
	out := &remediation.Approval{Digest: digest, Used: p.Status.UsedApproval == digest}
	if err := json.Unmarshal([]byte(p.Annotations[placementv1.ApprovedByAnnotation]), &by); err == nil && by.Digest == digest {
		out.By, out.At = by.User, by.Time.Time
	}
	// Otherwise the webhook did not see the request that approved the plan.
	return out
}

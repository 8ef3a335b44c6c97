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
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// settleDelay is how long a leader waits after progress before it checks whether all objects of policies that an earlier
// leader paused are decided.
const settleDelay = time.Second

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
		if p.RemediatesExisting() && c.Registry.Get(p.Name).Decides(p) {
			out = append(out, p.Name)
		}
	}
	// Two versions of a policy may decide.
	slices.Sort(out)
	return slices.Compact(out)
}

// conclude reports policies whose account in the ledger changed. Then it pauses the policies whose change exceeds their
// blast radius, and enqueues the objects of other policies that waited for their assessment.
func (c *Controller) conclude(ctx context.Context, changed ...string) {
	result := c.Ledger.ConcludeAssessments(c.Clock.Now())
	for _, name := range result.Paused {
		if pause := c.Ledger.Report(name).Pause; pause != nil {
			ctrllog.FromContext(ctx).Info("Remediation is paused: a change would harm too many objects", "policy", name, "where", pause.Scope.String(), "change", pause.Change, "objects", pause.Objects(), "matched", pause.Matched)
			c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationPaused, pause.Note(name))
		}
	}
	for _, name := range result.Resumed {
		c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationResumed, "remediation goes on: what the change would do is within the bound again")
	}
	for _, name := range append(changed, result.Changed...) {
		c.Changed(name)
	}
	c.objects.enqueue(result.Released...)
	if result.Freed {
		c.Scheduler.Reconsider()
	}
	c.releases.enqueue(result.Unsaved...)
	if result.Unconcluded {
		c.overdue.request(remediation.AssessmentLimit, func() { c.conclude(context.Background()) })
	}
	if result.Unplanned {
		c.unplanned.request(remediation.PlanInterval, func() { c.conclude(context.Background()) })
	}
	c.progress.Notify()
}

// resume restores the pauses and the approved plans of an earlier leader. It returns false if ctx ended.
func (c *Controller) resume(ctx context.Context) bool {
	for {
		paused, continued, err := c.restore(ctx)
		if err == nil {
			close(c.resumed)
			go c.settle(ctx, paused, continued)
			return true
		}
		ctrllog.FromContext(ctx).Info("Reading what an earlier leader left failed; it is tried again", "reason", err.Error())
		if !sleep(ctx, readyInterval) {
			return false
		}
	}
}

// restore restores the pauses of an earlier leader from the policies' status, and the approved plans that it was carrying out. It
// returns the names of the policies that have either.
func (c *Controller) restore(ctx context.Context) (paused, continued []string, err error) {
	policies := &placementv1.PlacementPolicyList{}
	if err := c.Policies.List(ctx, policies); err != nil {
		return nil, nil, err
	}
	plans, err := c.Plans.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range policies.Items {
		pause, namespaces := pauseOf(p.Status.Failures)
		c.Scheduler.Resume(c.Clock.Now(), p.Name, remediation.Left{
			Generation: p.Status.GenerationInForce, Moving: carriesOut(p.Status.Plan), Moves: movesOf(p.Status.Moving),
			Failed: failuresOf(p.Status.Failures), Pause: pause, PausedIn: namespaces,
		})
		if p.Status.Paused != nil {
			c.Ledger.Resume(p.Name, p.Status.Paused.Change, int(p.Status.Paused.Before), p.Status.Paused.Namespaces)
			paused = append(paused, p.Name)
		}
		stored, ok := plans[p.Name]
		approval := approvalOf(&p)
		c.Ledger.Approve(p.Name, approval)
		if ok && approval != nil && !approval.Used && approval.Digest == stored.plan.Digest && p.UID == stored.uid &&
			p.Spec.WithDefaults().Remediation.Mode == placementv1.RemediationApproved {
			c.Ledger.Continue(p.Name, stored.plan)
			continued = append(continued, p.Name)
		}
		delete(plans, p.Name)
	}
	// What is left belongs to policies that were deleted.
	c.releases.enqueue(slices.Collect(maps.Keys(plans))...)
	return paused, continued, nil
}

// carriesOut reports whether a leader was carrying out a plan.
func carriesOut(p *placementv1.RemediationPlan) bool {
	return p != nil && (p.State == placementv1.PlanInProgress || p.Rollouts > 0)
}

// movesOf returns the objects that an earlier leader moved to other clusters, as far as the status names them.
func movesOf(moving []placementv1.MovingObject) (out []remediation.Move) {
	for _, o := range moving {
		out = append(out, remediation.Move{Key: keyIn(o.Resource, o.Namespace, o.Name), Since: o.Since.Time, Deadline: ptr.Deref(o.Deadline, metav1.Time{}).Time})
	}
	return out
}

// keyIn returns the object that a status names, without the version of its resource.
func keyIn(resource, namespace, name string) remediation.Key {
	return remediation.Key{Resource: schema.ParseGroupResource(resource).WithVersion(""), Namespace: namespace, Name: name}
}

// failuresOf returns the objects that failed under an earlier leader, as far as the status names them.
func failuresOf(f *placementv1.MoveFailures) (out []remediation.Failure) {
	if f == nil {
		return nil
	}
	for _, o := range f.Sample {
		out = append(out, remediation.Failure{Key: keyIn(o.Resource, o.Namespace, o.Name), Reason: o.Message, Rollout: o.Reason == placementv1.RolloutFailed})
	}
	return out
}

// pauseOf returns the pause because of failures under an earlier leader, "" if there is none, and where it stops patches.
func pauseOf(f *placementv1.MoveFailures) (pause string, namespaces containment.Scope) {
	if f == nil {
		return "", nil
	}
	return f.Pause, f.PausedNamespaces
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

// settle ends the pauses of an earlier leader once all objects of their policies have been decided, if the result allows that, and
// goes on with the approved plans of that leader. It also finds out which objects that leader was moving.
func (c *Controller) settle(ctx context.Context, paused, continued []string) {
	began := c.Clock.Now()
	for len(paused)+len(continued)+len(c.Scheduler.Resuming()) > 0 && sleep(ctx, settleDelay) {
		for _, name := range c.Scheduler.Resuming() {
			c.settleReadiness(name)
		}
		late := c.Clock.Since(began) >= remediation.ResumeLimit
		before := len(paused) + len(continued)
		paused = slices.DeleteFunc(paused, func(name string) bool {
			decided, gone := c.decided(ctx, name)
			return gone || decided && c.Ledger.Settle(name)
		})
		continued = slices.DeleteFunc(continued, func(name string) bool {
			decided, gone := c.decided(ctx, name)
			decided = decided && c.Ledger.Assessed(name)
			// Objects that can't be decided do not hold up the rest of a plan for ever.
			return gone || (decided || late) && c.Ledger.Proceed(name, decided)
		})
		if len(paused)+len(continued) < before {
			c.conclude(ctx)
		}
		select {
		case <-ctx.Done():
		case <-c.progress:
		case <-c.Clock.After(remediation.ResumeLimit):
		}
	}
}

// decided reports whether all existing objects that a policy matches are decided, or whether the policy does not exist.
func (c *Controller) decided(ctx context.Context, name string) (decided, gone bool) {
	state := c.Registry.Get(name)
	if state == nil {
		return false, apierrors.IsNotFound(c.Policies.Get(ctx, client.ObjectKey{Name: name}, &placementv1.PlacementPolicy{}))
	}
	versions := state.Versions()
	unrecorded := func(p *placement.Policy) bool { return !c.objects.allRecorded(c.matched.ofPolicy(p)) }
	return c.MatchedState(versions...).Synced && !c.HasUndecided(versions...) && !slices.ContainsFunc(versions, unrecorded), false
}

// releases reconciles policies to release the changes, and to approve and store the plans, that their annotations name.
type releases struct {
	*Controller

	mu sync.Mutex
	// queue is nil until the controller starts. early are the policies that are enqueued then.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	early []string
}

// SetupWithManager adds the controller to a manager.
func (r *releases) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("release").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.Or(predicate.AnnotationChangedPredicate{}, planStateChanged))).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.mu.Lock()
			r.queue = queue
			early := r.early
			r.mu.Unlock()
			r.enqueue(early...)
			return nil
		})).
		Complete(r)
}

// planStateChanged selects updates of a policy that change the state of its plan: a completed plan need not be stored.
var planStateChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return stateOfPlan(e.ObjectOld) != stateOfPlan(e.ObjectNew)
}}

func stateOfPlan(o client.Object) placementv1.PlanState {
	if p, ok := o.(*placementv1.PlacementPolicy); ok && p.Status.Plan != nil {
		return p.Status.Plan.State
	}
	return ""
}

// enqueue has policies reconciled.
func (r *releases) enqueue(policies ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		r.early = append(r.early, policies...)
		return
	}
	for _, name := range policies {
		r.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
}

// Reconcile approves the plan and releases the change that a policy's annotations name.
func (r *releases) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// A pause of an earlier leader can't be released before it is restored.
	select {
	case <-ctx.Done():
		return reconcile.Result{}, ctx.Err()
	case <-r.resumed:
	}
	p := &placementv1.PlacementPolicy{}
	if err := r.Policies.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, r.Plans.remove(ctx, req.Name)
		}
		return reconcile.Result{}, err
	}
	r.objects.enqueue(r.Ledger.Approve(p.Name, approvalOf(p))...)
	r.Changed(p.Name)
	r.conclude(ctx)
	// A plan that can't be stored does not keep what follows from taking effect.
	saved := r.save(ctx, p)
	if pause, set := p.Annotations[placementv1.ResumeAfterFailuresAnnotation]; set {
		if r.Scheduler.Release(p.Name, pause) {
			r.Events.On(p, events.RemediationResumed, "remediation goes on: the pause "+pause+" after failures was released")
			r.Changed(p.Name)
		}
	}
	change, ok := p.Annotations[placementv1.ReleaseBlastRadiusAnnotation]
	if !ok {
		return reconcile.Result{}, saved
	}
	if !r.Ledger.Release(r.Clock.Now(), p.Name, change) {
		if paused := r.Ledger.Report(p.Name).Pause; paused != nil {
			r.Events.On(p, events.RemediationPaused, fmt.Sprintf("the annotation %s names the change %s, but the policy is paused for the change %s", placementv1.ReleaseBlastRadiusAnnotation, change, paused.Change))
		}
		return reconcile.Result{}, saved
	}
	r.Events.On(p, events.RemediationResumed, fmt.Sprintf("remediation goes on: change %s was released", change))
	r.Changed(p.Name)
	r.Scheduler.Reconsider()
	return reconcile.Result{}, saved
}

// save stores the plan of a policy if it is approved, and removes a stored plan that is of no more use.
func (r *releases) save(ctx context.Context, p *placementv1.PlacementPolicy) error {
	if r.Ledger.Unsave(p.Name, p.Status.UsedApproval) {
		if err := r.Plans.remove(ctx, p.Name); err != nil {
			return err
		}
	}
	plan := r.Ledger.Unsaved(p.Name)
	if plan == nil {
		return nil
	}
	if err := r.Plans.save(ctx, p, plan); err != nil {
		r.Events.On(p, events.RemediationStopped, fmt.Sprintf("plan %s is approved, but it is not carried out before it is stored in namespace %s; Berth tries again: %v", plan.Digest, r.Plans.Namespace, err))
		return err
	}
	r.objects.enqueue(r.Ledger.Saved(p.Name, plan.Digest)...)
	return nil
}

// approvalOf returns the approval in a policy's annotations, or nil if there is none.
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

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
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

const (
	// readyInterval is the interval at which a new leader checks whether it is ready. Readiness has many parts, among them caches and files,
	// and no signal for their sum: probes and webhooks also compute it when they need it.
	readyInterval = 200 * time.Millisecond
	// settleInterval is the interval at which a leader checks whether all objects of policies are decided that an earlier leader paused.
	settleInterval = time.Second
)

// lead begins to watch and to decide objects once this leader is ready, until ctx ends.
//
// No object may be decided before all policies and data are loaded. So lead begins no watch before that: policies that are loaded later
// would need other fields, and the types would be listed again.
func (c *Controller) lead(ctx context.Context) {
	var paused, continued []string
	err := wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (ready bool, err error) {
		if !c.Ready(ctx) {
			return false, nil
		}
		if paused, continued, err = c.restore(ctx); err != nil {
			ctrllog.FromContext(ctx).Info("Reading what an earlier leader left failed; it is tried again", "reason", err.Error())
		}
		return err == nil, nil
	})
	if err != nil {
		// ctx ended.
		return
	}
	close(c.resumed)
	go c.settle(ctx, paused, continued)
	go c.follow(ctx)
	go c.schedule(ctx)
	c.watch(ctx)
}

// restore restores the pauses of an earlier leader from the policies' status, and the approved plans that it was carrying out. It returns
// the names of the policies that have either.
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
		c.Scheduler.Resume(c.Clock.Now(), p.Name, leftOf(&p))
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

// leftOf returns what an earlier leader left of a policy, as far as the status names it.
func leftOf(p *placementv1.PlacementPolicy) remediation.Left {
	plan := p.Status.Plan
	out := remediation.Left{Generation: p.Status.GenerationInForce, Moving: plan != nil && (plan.State == placementv1.PlanInProgress || plan.Rollouts > 0)}
	// The status names objects without the version of their resource.
	keyOf := func(resource, namespace, name string) remediation.Key {
		return remediation.Key{Resource: schema.ParseGroupResource(resource).WithVersion(""), Namespace: namespace, Name: name}
	}
	for _, o := range p.Status.Moving {
		out.Moves = append(out.Moves, remediation.Move{
			Key: keyOf(o.Resource, o.Namespace, o.Name), Since: o.Since.Time, Deadline: ptr.Deref(o.Deadline, metav1.Time{}).Time,
		})
	}
	if f := p.Status.Failures; f != nil {
		out.Pause, out.PausedIn = f.Pause, f.PausedNamespaces
		for _, o := range f.Sample {
			failure := remediation.Failure{Key: keyOf(o.Resource, o.Namespace, o.Name), Reason: o.Message, Rollout: o.Reason == placementv1.RolloutFailed}
			out.Failed = append(out.Failed, failure)
		}
	}
	return out
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

// settle ends the pauses of an earlier leader once all objects of their policies have been decided, if the result allows that, and goes on
// with the approved plans of that leader. It also finds out which objects that leader was moving.
func (c *Controller) settle(ctx context.Context, paused, continued []string) {
	began := c.Clock.Now()
	// The poll returns an error only if ctx ends.
	_ = wait.PollUntilContextCancel(ctx, settleInterval, false, func(ctx context.Context) (settled bool, err error) {
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
		left := len(paused) + len(continued)
		if left < before {
			c.conclude(ctx)
		}
		return left+len(c.Scheduler.Resuming()) == 0, nil
	})
}

// decided reports whether all existing objects that a policy matches are decided, or whether the policy does not exist.
func (c *Controller) decided(ctx context.Context, name string) (decided, gone bool) {
	state := c.Registry.Get(name)
	if state == nil {
		return false, apierrors.IsNotFound(c.Policies.Get(ctx, client.ObjectKey{Name: name}, &placementv1.PlacementPolicy{}))
	}
	for _, p := range state.Versions() {
		if queued, unrecorded := c.objects.pending(c.types.matched(p)); queued+unrecorded > 0 {
			return false, false
		}
	}
	return c.MatchedState(state.Versions()...).Synced, false
}

// settleReadiness finds out whether it is known which objects of a policy are ready: those with rollouts have been decided by its versions
// in force, and their rollouts are observed.
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
			rolls, reported := c.rolls(version, resource), c.reported(resource)
			if rolls && !c.observed(version, resource) || reported && !c.Deliveries.Settled(c.delivering(resource)...) {
				return
			}
			if (rolls || reported) && !slices.Contains(rolled, resource) {
				rolled = append(rolled, resource)
			}
		}
	}
	if _, unrecorded := c.objects.pending(rolled); unrecorded == 0 && c.Ledger.Assessed(name) {
		c.Scheduler.Settle(c.Clock.Now(), budgeted(state.Versions()), rolled, epoch)
	}
}

// rolls reports whether a policy watches the rollouts of the objects of a type.
func (c *Controller) rolls(p *placement.Policy, resource schema.GroupVersionResource) bool {
	_, templated := c.Decider.Templates.Path(resource.GroupResource())
	return templated && remediation.Observes(p, resource.GroupResource())
}

// observed reports whether the objects of a type that a policy matches, and their rollouts, have been read, as far as Berth can read them.
func (c *Controller) observed(p *placement.Policy, resource schema.GroupVersionResource) bool {
	objects, _ := c.watches.StateOfFields(resource, fieldsOf(p))
	rollouts, _ := c.rollouts.StateOfFields(resource, rolloutFields)
	return objects.Settled() && rollouts.Settled()
}

// reported reports whether a multi-cluster system reports where objects of a type run.
func (c *Controller) reported(resource schema.GroupVersionResource) bool {
	kind := schema.GroupKind{Group: resource.Group, Kind: c.Catalog.Kind(resource)}
	return slices.ContainsFunc(c.delivering(resource), func(p *placement.Policy) bool {
		return slices.ContainsFunc(delivery.SystemsOf(p, kind), delivery.System.Reports)
	})
}

// delivering returns the policies that may deliver objects of a type.
func (c *Controller) delivering(resource schema.GroupVersionResource) []*placement.Policy {
	return slices.DeleteFunc(c.selecting(resource), func(p *placement.Policy) bool { return !delivery.MayDeliver(p) })
}

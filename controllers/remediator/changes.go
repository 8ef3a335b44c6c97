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
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/datacauses"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/remediation"
)

const (
	// predicateSettle is how long changes of nodes and pods are collected before predicates are evaluated again, and changes of remote
	// engines' data before those are queried again. In a busy cluster hundreds of pods come and go in a second. Admission does not wait.
	predicateSettle = time.Second
	// settle is the minimum time between two sweeps, and between two updates of the watches: policies are often created together.
	settle = 20 * time.Millisecond
)

// sweepers is how many policies are swept concurrently after a change of data: one for each processor, and at least four, so that a slow
// policy does not delay all others.
var sweepers = max(4, runtime.GOMAXPROCS(0))

// backlog collects the changes of policies and data that follow has not processed yet. It is safe for concurrent use.
type backlog struct {
	due notify.Signal // Wakes Controller.follow when there are changes.

	mu      sync.Mutex
	changes changes // What has been collected and not taken yet.
}

// changes are changes after which objects must be decided again: of the versions of policies in force, of replica data, by resource type,
// of the nodes and pods for predicates, and of the data of remote engines.
type changes struct {
	// policies are the versions of policies that came into force or went out of force, and whose objects have not been enqueued since.
	policies []*placement.Policy
	types    sets.Set[schema.GroupVersionResource] // The types of the replicated objects that changed.
	// predicateData is set once nodes or pods changed, and remoteRevision once the data of a remote engine changed, each predicateSettle
	// after the change. all is set when every policy must be evaluated again.
	predicateData, remoteRevision, all bool
}

// add has a function add a change to those collected, and wakes Controller.follow.
func (b *backlog) add(change func(*changes)) {
	b.mu.Lock()
	change(&b.changes)
	b.mu.Unlock()
	b.due.Notify()
}

// policies returns the versions of policies among the collected changes, the oldest change first, and does not remove them; none if there
// are none. The caller must not change the result.
func (b *backlog) policies() []*placement.Policy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes.policies
}

// has reports whether one of the versions of policies is among the collected changes.
func (b *backlog) has(policies ...*placement.Policy) bool {
	changed := b.policies()
	return slices.ContainsFunc(policies, func(p *placement.Policy) bool { return slices.Contains(changed, p) })
}

// take returns all collected changes, and removes them. It leaves the versions of policies after the first n for the next call, too: they
// were added after the caller processed the first n.
func (b *backlog) take(n int) changes {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.changes
	b.changes = changes{types: sets.New[schema.GroupVersionResource](), policies: append([]*placement.Policy{}, out.policies[n:]...)}
	return out
}

// concern reports whether a version of a policy must be evaluated again now, given that some data that it reads changed, which the caller
// has checked. That is so for most policies, but one with predicates waits for predicateSettle after nodes or pods changed, and one with a
// remote engine for remoteRevision. It is also so if all is set, or the version is no longer in force. names are the names of the policy's
// data among the changes; datacauses.Unknown if there is none.
func (b *changes) concern(p *placement.Policy, state *placement.PolicyState) (names []string, concerned bool) {
	binding, data := state.BindingOf(p), sets.New[string]()
	if binding != nil {
		for _, r := range binding.Resources {
			if b.types.Has(r.GroupVersionResource) {
				data.Insert(r.GroupResource().String())
			}
		}
	}
	concerned = b.predicateData || !usesPredicates(binding) || len(data) > 0
	if _, remote := p.Remote(); remote {
		concerned = b.remoteRevision
	}
	if b.predicateData && usesPredicates(binding) {
		data.Insert(datacauses.Predicates)
	}
	if len(data) == 0 {
		data.Insert(datacauses.Unknown)
	}
	return sets.List(data), concerned || b.all || !state.Decides(p)
}

// usesPredicates reports whether a version of a policy, given by its binding, evaluates predicates; false for nil.
func usesPredicates(b *policy.Binding) bool { return b != nil && len(b.PredicateReads) > 0 }

// after calls do after a delay. Requests with the same name until then cause no other call. It is safe for concurrent use.
func (c *Controller) after(name string, delay time.Duration, do func()) {
	if _, scheduled := c.scheduled.LoadOrStore(name, true); !scheduled {
		time.AfterFunc(delay, func() {
			// do may miss whatever happens from now on, so that must schedule another call.
			c.scheduled.Delete(name)
			do()
		})
	}
}

// FieldsReadChanged requests that all policies are evaluated again on existing objects, and that more fields of these are fetched, because
// some policy reads fields that the analysis of its rules missed.
func (c *Controller) FieldsReadChanged() {
	c.types.fieldsChanged()
	c.rewatch.Notify()
	c.backlog.add(func(b *changes) { b.all = true })
}

// DataChanged requests that the policies that read a type are evaluated again on existing objects. It does not block.
func (c *Controller) DataChanged(resource schema.GroupVersionResource) {
	c.backlog.add(func(b *changes) { b.types.Insert(resource) })
}

// PredicateDataChanged requests that the policies with predicates are evaluated again on existing objects, because nodes or pods changed:
// once for all changes within predicateSettle.
func (c *Controller) PredicateDataChanged() {
	c.after("predicates", predicateSettle, func() { c.backlog.add(func(b *changes) { b.predicateData = true }) })
}

// RemoteRevisionChanged requests that policies whose remote engine has other data than before are evaluated again on existing objects: once
// for all changes within predicateSettle.
func (c *Controller) RemoteRevisionChanged() {
	c.after("revisions", predicateSettle, func() { c.backlog.add(func(b *changes) { b.remoteRevision = true }) })
}

// policyChanged tells the ledger if the policy has no version in force any more, and the scheduler which version is in force now. If this
// replica already watches objects, it also requests that those that the policy matched before or matches now are decided again. It does
// nothing if the versions in force are the same.
func (c *Controller) policyChanged(p placement.PolicyChange) {
	if slices.Equal(p.After, p.Before) {
		return
	}
	if len(p.After) == 0 {
		c.Ledger.ForgetPolicy(p.Name)
	}
	c.types.fieldsChanged(p.Before...)
	// settleReadiness must find it here when the scheduler knows of it.
	if c.objects.Started() {
		c.backlog.add(func(b *changes) { b.policies = append(append(b.policies, p.Before...), p.After...) })
	}
	c.Scheduler.PolicyChanged(c.Clock.Now(), p.Name, budgeted(p.After))
	c.rewatch.Notify()
}

// budgeted returns, of the deciding versions of one policy, the one whose settings the Scheduler applies; nil if there is none. All have
// the same budget, so it is one that may change pod templates, if any may.
func budgeted(versions []*placement.Policy) *placement.Policy {
	if i := slices.IndexFunc(versions, (*placement.Policy).WatchesRollouts); i >= 0 {
		return versions[i]
	}
	if len(versions) == 0 {
		return nil
	}
	return versions[0]
}

// NamespaceChanged enqueues the cached objects in a namespace because the labels of the namespace changed, so that policies may select it
// now, or no longer. If there are several, no policy in force patches before all of them are decided.
func (c *Controller) NamespaceChanged(namespace string) {
	fact := remediation.Fact{Namespace: namespace, Text: printable.Text(fmt.Sprintf("the labels of namespace %s changed", namespace))}
	c.enqueueTogether(remediation.Cause{Facts: []remediation.Fact{fact}}, c.Registry.InForce(), c.objects.Within(namespace))
}

// listed enqueues the objects of a type that were added, changed, or deleted since the type was listed before, without a known cause. If
// there are several, the policies that select the type patch nothing before all of them are decided.
func (c *Controller) listed(resource schema.GroupVersionResource, keys []remediation.Key) {
	c.enqueueTogether(remediation.Cause{}, c.Registry.Selecting(resource), keys)
}

// follow calls catchUp each time that changes of policies or data were collected, until ctx ends.
func (c *Controller) follow(ctx context.Context) {
	c.causes.Swept(c.Data.State())
	onSignal(ctx, c.backlog.due, c.catchUp)
}

// onSignal calls do after each notification of a signal until ctx ends. At least the duration settle passes between two calls.
func onSignal(ctx context.Context, signal notify.Signal, do func(context.Context)) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-signal:
			do(ctx)
		}
	}, settle)
}

// catchUp processes the changes that the backlog has collected, and removes them from it. It enqueues the objects of the policies in it,
// and then evaluates the policies whose data changed and enqueues the objects that get another decision.
func (c *Controller) catchUp(ctx context.Context) {
	policies := c.backlog.policies()
	c.policiesChanged(ctx, policies)
	changes := c.backlog.take(len(policies))
	// Until the sweep ends, what changed since the sweep before may be the cause of a decision.
	state := c.Data.State()
	c.sweep(ctx, &changes)
	c.causes.Swept(state)
}

// policiesChanged enqueues the objects that the versions of policies may match, by their types, namespaces, and labels. It also lets
// objects of these types be patched again that did not settle before.
func (c *Controller) policiesChanged(ctx context.Context, policies []*placement.Policy) {
	if len(policies) == 0 {
		return
	}
	selects := func(r schema.GroupVersionResource) bool {
		return slices.ContainsFunc(policies, func(p *placement.Policy) bool { return p.Matcher.SelectsResource(r) })
	}
	// An object that did not settle under the earlier policy may settle under the new one.
	c.Scheduler.ForgetPatches(func(key remediation.Key) bool { return selects(key.Resource) })
	c.assess(ctx, remediation.Cause{Policy: true}, policies, func(enqueue func([]remediation.Key)) {
		for resource, byNamespace := range c.objects.Idle(selects) {
			for namespace, keys := range byNamespace {
				matchers := c.matchers(ctx, policies, resource, namespace)
				if len(matchers) == 0 {
					continue
				}
				enqueue(slices.DeleteFunc(keys, func(key remediation.Key) bool {
					labels := c.objects.Labels(key)
					return !slices.ContainsFunc(matchers, func(m *match.Matcher) bool { return m.SelectsLabels(labels) })
				}))
			}
		}
	})
}

// matchers returns the matchers of those policies that may select objects of a type in a namespace. If the namespace's labels are unknown,
// the decision finds out. A Namespace, which has no namespace either, is matched by its own labels.
func (c *Controller) matchers(ctx context.Context, policies []*placement.Policy, resource schema.GroupVersionResource,
	namespace string) []*match.Matcher {
	var out []*match.Matcher
	var labels map[string]string
	var unknown error
	if namespace != "" {
		labels, unknown = c.Decider.Namespaces.Labels(ctx, namespace)
	}
	for _, p := range policies {
		if p.Matcher.SelectsResource(resource) && (namespace == "" || unknown != nil || p.Matcher.SelectsNamespace(namespace, labels)) {
			out = append(out, p.Matcher)
		}
	}
	return out
}

// sweep evaluates each policy in force whose data changed, once for each group of objects with the same projection, and enqueues the
// objects of the groups that get another decision than before. Patches for the policy wait until these are decided.
func (c *Controller) sweep(ctx context.Context, changes *changes) {
	var group errgroup.Group
	group.SetLimit(sweepers)
	for _, p := range c.Registry.InForce() {
		if !c.groups.Stale(p) {
			continue
		}
		state := c.Registry.Get(p.Name)
		names, concerned := changes.concern(p, state)
		if !concerned {
			continue
		}
		group.Go(func() error {
			ctx, span := c.Tracing.Root(ctx, "remediation sweep")
			defer span.End()
			c.Scheduler.DataChanged(p.Name)
			evaluate := func(namespace string, input map[string]any) (placement.Decision, error) {
				return c.evaluate(placement.WithNamespace(ctx, namespace), p, input)
			}
			find := func(enqueue func([]remediation.Key)) { c.groups.Sweep(p, evaluate, enqueue) }
			c.assess(ctx, c.causes.Of(state.BindingOf(p), names...), []*placement.Policy{p}, find)
			return nil
		})
	}
	_ = group.Wait()
}

// enqueueTogether enqueues the objects that must be decided again because of one change. If there are several, it does so by assess.
func (c *Controller) enqueueTogether(cause remediation.Cause, policies []*placement.Policy, keys []remediation.Key) {
	if len(keys) > 1 {
		c.assess(context.Background(), cause, policies, func(enqueue func([]remediation.Key)) { enqueue(keys) })
		return
	}
	if !cause.Unknown() {
		c.Ledger.Blame(c.Clock.Now(), cause, c.remediating(policies), keys...)
	}
	c.objects.Enqueue(keys...)
}

// remediating returns the names, sorted, of the policies whose given versions are in force and evaluate existing objects.
func (c *Controller) remediating(policies []*placement.Policy) []string {
	names := sets.New[string]()
	for _, p := range policies {
		if p.RemediatesExisting() && c.Registry.Get(p.Name).Decides(p) {
			names.Insert(p.Name)
		}
	}
	return sets.List(names)
}

// assess enqueues the objects that find passes to its argument. Patches for the policies wait until all these objects are decided. Then the
// ledger knows what the change requires, and whether it would harm too many objects.
func (c *Controller) assess(ctx context.Context, cause remediation.Cause, policies []*placement.Policy,
	find func(enqueue func([]remediation.Key))) {
	assessment := c.Ledger.Assess(c.Clock.Now(), cause, c.remediating(policies)...)
	find(func(keys []remediation.Key) {
		assessment.Add(keys...)
		c.objects.Enqueue(keys...)
	})
	assessment.Complete()
	c.conclude(ctx)
}

// conclude ends the assessments whose objects are all decided. It pauses and resumes policies by their blast radius, enqueues the objects
// of plans that may be carried out now, or no longer, and has the Scheduler grant patches that waited for the end. It reports the policies
// whose account in the ledger changed, among them those of the argument.
func (c *Controller) conclude(ctx context.Context, changed ...string) {
	result := c.Ledger.ConcludeAssessments(c.Clock.Now())
	for _, name := range result.Paused {
		if pause := c.Ledger.Report(name).Pause; pause != nil {
			ctrllog.FromContext(ctx).Info("Remediation is paused: a change would leave too many objects denied, undecided, or without clusters",
				"policy", name,
				"where", pause.Scope.String(), "change", pause.Change, "objects", pause.Objects(), "matched", pause.Matched)
			c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationPaused, pause.Message(name, false))
		}
	}
	for _, name := range result.Resumed {
		c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationResumed,
			"remediation resumes: the change now affects no more objects than spec.remediation.blastRadius allows")
	}
	c.changed(changed)
	c.changed(result.Changed)
	c.objects.Enqueue(result.Released...)
	if result.Freed {
		c.Scheduler.Reconsider()
	}
	c.enqueueReleases(result.Unsaved...)
	again := func() { c.conclude(context.Background()) }
	if result.Unconcluded {
		c.after("overdue", remediation.AssessmentLimit, again)
	}
	if result.Unplanned {
		c.after("unplanned", remediation.PlanInterval, again)
	}
}

// blame tells the ledger that the changes that verdicts require of an object may be due to a change of data that no sweep has processed
// yet. It leaves out verdicts that require none, and policies that do not evaluate existing objects.
func (c *Controller) blame(key remediation.Key, verdicts []*placement.Verdict) {
	for _, v := range verdicts {
		if len(v.Changes) == 0 || !v.Policy.RemediatesExisting() {
			continue
		}
		if cause := c.dataCause(v.Policy); !cause.Unknown() {
			c.Ledger.Blame(c.Clock.Now(), cause, []string{v.Policy.Name}, key)
		}
	}
}

// dataCause returns the changes of a policy's data that no sweep has processed yet, as a Cause; the zero Cause if there are none.
func (c *Controller) dataCause(p *placement.Policy) remediation.Cause {
	cause := c.causes.Of(c.Registry.Get(p.Name).BindingOf(p))
	if cause.Unknown() && c.groups.Stale(p) {
		cause.Data = sets.New(datacauses.Unknown)
	}
	return cause
}

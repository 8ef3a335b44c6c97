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
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/remediation"
)

// predicateSettle is how long changes of nodes and pods are collected before predicates are evaluated again, and changes of
// remote engines' data before those are queried again. In a busy cluster hundreds of pods come and go in a second, and
// each sweep evaluates everything that a decision depends on. Remediation can wait that long to find a violation;
// admission does not wait.
const predicateSettle = time.Second

// backlog holds the changes that no sweep has processed yet.
type backlog struct {
	// policies holds policies that came into force or are no longer in force.
	policies map[*placement.Policy]bool
	// types holds the types of the replicated objects that changed.
	types map[schema.GroupVersionResource]bool
	// predicateData is set when nodes or pods changed at least predicateSettle ago.
	predicateData bool
	// remoteRevision is set when policies with a remote engine must be decided again. The change was at least
	// predicateSettle ago.
	remoteRevision bool
	// all is set when every policy must be decided again.
	all bool
}

func newBacklog() backlog {
	return backlog{policies: map[*placement.Policy]bool{}, types: map[schema.GroupVersionResource]bool{}}
}

// take returns the backlog and replaces it with an empty one.
func (c *Controller) take() backlog {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.backlog
	c.backlog = newBacklog()
	return out
}

// concerns reports whether a policy must be decided again because of the backlog. A policy that evaluates predicates
// waits for predicateSettle, unless other data that it reads changed. A policy with a remote engine is concerned only by
// remoteRevision.
func (b *backlog) concerns(p *placement.Policy, state *placement.PolicyState) bool {
	if b.all || state == nil || state.Policy != p {
		return true
	}
	if _, ok := p.Remote(); ok {
		return b.remoteRevision
	}
	return b.predicateData || !usesPredicates(state) ||
		slices.ContainsFunc(state.Binding.Resources, func(r policy.Resource) bool { return b.types[r.GroupVersionResource] })
}

func usesPredicates(s *placement.PolicyState) bool {
	return s != nil && s.Binding != nil && len(s.Binding.PredicateReads) > 0
}

// FieldsReadChanged requests that all policies are decided again because some read more than the analysis found.
func (c *Controller) FieldsReadChanged() {
	c.mu.Lock()
	c.backlog.all = true
	c.mu.Unlock()
	notify(c.due)
}

// DataChanged requests that the policies that read a type are decided again. It does not block.
func (c *Controller) DataChanged(resource schema.GroupVersionResource) {
	c.mu.Lock()
	c.backlog.types[resource] = true
	c.mu.Unlock()
	notify(c.due)
}

// PredicateDataChanged requests that the policies that evaluate predicates are decided again, once for all changes within
// predicateSettle.
func (c *Controller) PredicateDataChanged() {
	c.schedule(&c.scheduled.world, func(b *backlog) { b.predicateData = true })
}

// RemoteRevisionChanged requests that the policies with a remote engine whose revision changed are decided again, once
// for all changes within predicateSettle.
func (c *Controller) RemoteRevisionChanged() {
	c.schedule(&c.scheduled.revised, func(b *backlog) { b.remoteRevision = true })
}

// schedule records a kind of change in the backlog after predicateSettle. It does nothing if that is already scheduled.
func (c *Controller) schedule(gathering *bool, note func(*backlog)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil || *gathering {
		return
	}
	*gathering = true
	time.AfterFunc(predicateSettle, func() {
		c.mu.Lock()
		// A change from now on may be missing in the next sweep, so it must schedule another one.
		*gathering = false
		note(&c.backlog)
		c.mu.Unlock()
		notify(c.due)
	})
}

// decideAgain enqueues objects that must be decided again after the decision on one of them. If that object itself was
// overtaken by a change, and predicates or a remote engine took part, it waits for predicateSettle; otherwise continuous
// changes would cause continuous decisions. If an engine failed, it is retried anyway, with the backoff of failures.
func (c *Controller) decideAgain(decided remediation.Key, verdicts []*placement.Verdict, again []remediation.Key) {
	settles := func(v *placement.Verdict) bool { return isRemote(v) || usesPredicates(c.Registry.Get(v.Policy.Name)) }
	if slices.Contains(again, decided) && slices.ContainsFunc(verdicts, settles) {
		again = slices.DeleteFunc(again, func(key remediation.Key) bool { return key == decided })
		if !slices.ContainsFunc(verdicts, isTemporary) {
			c.enqueueAfter(decided, predicateSettle)
		}
	}
	if len(again) > 1 {
		// This change of data was found before the sweep that it causes.
		assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic(policiesOf(verdicts))...)
		defer c.complete(context.Background(), assessment)
		assessment.Add(again...)
	}
	c.enqueue(again...)
}

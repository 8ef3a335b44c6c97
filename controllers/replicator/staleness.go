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

package replicator

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// maxGrace is the longest grace that graceOf returns.
const maxGrace = 5 * time.Second

// graceOf returns a grace for data that the API server has not confirmed for longer than bound: after one grace, Berth reopens the watch,
// and after a second one, the data is too old. It is a quarter of bound, but at most maxGrace.
func graceOf(bound time.Duration) time.Duration { return min(bound/4, maxGrace) }

// stalenessInterval is the interval at which the controller checks the age of data, which grows without any event.
const stalenessInterval = time.Second

// staleness is the result of one check of the age of data: for which versions of policies, and which policies, it is too old. It is
// immutable.
type staleness struct {
	// versions has an entry for each version that was in force or still deciding at the check; nil if its data is not too old.
	versions map[*placement.Policy]*engine.StaleError
	// policies has, by name, the policies with a version in force whose data is too old.
	policies map[string]*engine.StaleError
}

// of returns the error of a version; nil if its data is not too old. A version that came into force after the check gets that of the
// versions before it. s may be nil.
func (s *staleness) of(p *placement.Policy) *engine.StaleError {
	if s == nil {
		return nil
	}
	if err, checked := s.versions[p]; checked {
		return err
	}
	return s.policies[p.Name]
}

// Stale returns a *engine.StaleError if, at the last check, the API server had not confirmed data that a version of a policy reads for
// longer than its spec.maxStaleness plus twice graceOf that; nil otherwise. It takes no lock.
func (c *Controller) Stale(p *placement.Policy) error {
	if err := c.stale.Load().of(p); err != nil {
		return err
	}
	return nil
}

// followAge calls checkAge every stalenessInterval until ctx ends.
func (c *Controller) followAge(ctx context.Context) {
	ticker := time.NewTicker(stalenessInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			c.checkAge(now)
		}
	}
}

// checkAge sets stale: the versions of policies that must not decide because their data is too old. It reopens watches that have received
// no event or bookmark for too long, and publishes the types of each version whose staleness has changed.
func (c *Controller) checkAge(now time.Time) {
	before, next := c.stale.Load(), &staleness{versions: map[*placement.Policy]*engine.StaleError{}, policies: map[string]*engine.StaleError{}}
	bindings := map[*placement.Policy]*policy.Binding{}
	for _, state := range c.registry.InUse() {
		for _, p := range state.Versions() {
			if b := state.BindingOf(p); b != nil {
				bindings[p], next.versions[p] = b, nil
			}
		}
	}
	for _, f := range c.feeds() {
		silent := map[schema.GroupVersionResource]bool{}
		for p, b := range bindings {
			if err := f.oldest(b, now, silent); err != nil {
				next.versions[p] = err
				if c.registry.Get(p.Name).Decides(p) {
					next.policies[p.Name] = err
				}
			}
		}
		for resource := range silent {
			f.watches.Reopen(resource)
		}
	}
	c.stale.Store(next)
	for p, b := range bindings {
		if (before.of(p) == nil) != (next.of(p) == nil) {
			c.tell(b)
		}
	}
}

// tell publishes in states each type that a version of a policy or its predicates read.
func (c *Controller) tell(b *policy.Binding) {
	for _, f := range c.feeds() {
		for resource := range f.reads(b) {
			f.states.Publish(resource)
		}
	}
}

// oldest returns an error that names the oldest data of a version of a policy if that is too old; nil otherwise, and without
// spec.maxStaleness. It adds to silent the types whose watches have to be reopened to confirm their data.
func (f *feed) oldest(b *policy.Binding, now time.Time, silent map[schema.GroupVersionResource]bool) (oldest *engine.StaleError) {
	if b.MaxStaleness == 0 {
		return nil
	}
	grace := graceOf(b.MaxStaleness)
	for resource := range f.reads(b) {
		confirmed := f.watches.LastConfirmed(resource)
		if confirmed.IsZero() {
			// The data has never been complete. The evaluation reports that with an error of its own.
			continue
		}
		age := now.Sub(confirmed)
		if age > b.MaxStaleness+grace {
			silent[resource] = true
		}
		if age > b.MaxStaleness+2*grace && (oldest == nil || confirmed.Before(oldest.Confirmed)) {
			oldest = &engine.StaleError{Resource: resource, Confirmed: confirmed, Max: b.MaxStaleness}
		}
	}
	return oldest
}

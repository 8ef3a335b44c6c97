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

package policyloader

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
)

// preparedVersion is a version of a policy that comes into force in stages, ready to decide.
type preparedVersion struct {
	compiled
	binding   *policy.Binding
	evaluator placement.Evaluator
}

// isLost reports whether the version is one that always fails.
func (v *preparedVersion) isLost() bool { return v.binding == nil }

// errNotStored means that a revision that has to decide is not stored, or not in the cache yet.
var errNotStored = errors.New("the revision is not stored")

// isLost reports whether an error means that a revision can't be loaded: it is not stored, or this version of Berth refuses it.
func isLost(err error) bool {
	_, refused := errors.AsType[*policy.CompileError](err)
	return refused || errors.Is(err, errNotStored)
}

var stagesPath = field.NewPath("spec", "rollout", "stages")

// loadStaged returns the registry entry of a policy with spec.rollout. next is its newest version. binding is nil, and reason says
// why, if that version can't decide.
//
// The policy's status says which version decides where. While it does not mention the newest version, what is in force stays in
// force, and the entry reports the version as the candidate of the next rollout. So this replica is never ahead of the status.
func (c *Controller) loadStaged(ctx context.Context, obj *placementv1.PlacementPolicy, next compiled, binding *policy.Binding, reason error) (state *placement.PolicyState, err error) {
	stages, _ := rollout.NewStages(obj.Name, obj.Spec.Rollout.Stages, stagesPath)
	l := &stagedLoad{Controller: c, obj: obj, staged: placement.StagedVersions{Stages: stages}, reason: reason}
	if reason == nil {
		l.staged.Candidate, l.candidate = rollout.Digest(obj.Spec), binding
		c.remember(obj, next, false)
	}
	defer func() {
		if err == nil {
			c.keepPrepared(obj.Name, l.used)
		}
	}()
	position := rollout.PositionOf(obj.Status.Rollout)
	switch number := obj.Spec.Rollout.Revision; {
	case number != 0:
		return l.rolledBack(ctx, number)
	case reason == nil && position.Concerns(l.staged.Candidate):
		return l.newestInStages(ctx, next, position)
	default:
		return l.stay(ctx, position)
	}
}

// stagedLoad builds the registry entry of a policy with spec.rollout.
type stagedLoad struct {
	*Controller

	obj    *placementv1.PlacementPolicy
	staged placement.StagedVersions
	// reason says why the newest version can't decide. candidate is the binding of that version; nil if it can't.
	reason    error
	candidate *policy.Binding
	// used are the versions that the entry uses.
	used []preparedVersion
}

// rolledBack returns the entry of a policy whose revision number is in force everywhere.
func (l *stagedLoad) rolledBack(ctx context.Context, number int64) (*placement.PolicyState, error) {
	version, err := l.stored(ctx, number)
	if isLost(err) {
		l.reason = fmt.Errorf("spec.rollout.revision: %w; status.rollout.revisions has the revisions that are stored", err)
		return l.stay(ctx, rollout.PositionOf(l.obj.Status.Rollout))
	}
	if err != nil {
		return nil, err
	}
	l.staged.InForce = rollout.InForce{Digest: rollout.VersionDigest(version.Spec), Complete: true, Revision: number}
	state := l.entry(version, nil)
	state.Next = l.candidate
	return state, nil
}

// newestInStages returns the entry of a policy whose newest version is rolled out as far as the status says.
func (l *stagedLoad) newestInStages(ctx context.Context, next compiled, position rollout.Position) (*placement.PolicyState, error) {
	target, err := l.prepare(ctx, next, l.candidate)
	if err != nil {
		return nil, err
	}
	if position.Complete {
		l.remember(l.obj, next, true)
	}
	return l.inStages(ctx, target, position)
}

// inStages returns the entry of a policy of which a version is rolled out as far as the status says.
func (l *stagedLoad) inStages(ctx context.Context, target preparedVersion, position rollout.Position) (*placement.PolicyState, error) {
	l.staged.InForce = rollout.InForce{Digest: position.Digest, Reached: position.Reached, Complete: position.Complete}
	if position.Complete || position.Previous == 0 {
		return l.entry(target, nil), nil
	}
	before, err := l.stored(ctx, position.Previous)
	if isLost(err) {
		l.reason = fmt.Errorf("%w; it decides in stages that are not reached: set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout", err)
		if current := l.current(); current != nil && (current.Staged == nil || current.Staged.InForce.Digest != position.Digest) {
			return l.stay(ctx, position)
		}
		return l.entry(target, new(l.lost(target.compiled, position.Previous))), nil
	}
	if err != nil {
		return nil, err
	}
	return l.entry(target, &before), nil
}

// lost returns a version that always fails, in place of a revision that can't be loaded and whose decisions are not known.
func (l *stagedLoad) lost(next compiled, number int64) preparedVersion {
	for _, known := range l.preparedOf(l.obj.Name) {
		if known.isLost() && known.UID == l.obj.UID && known.Generation == number && known.module == next.module {
			l.used = append(l.used, known)
			return known
		}
	}
	out := preparedVersion{compiled: next, evaluator: placement.NewFailing(l.reason)}
	out.Generation = number
	l.used = append(l.used, out)
	return out
}

// current returns what this replica has in force of the policy; nil if it has nothing yet, or a revision is lost.
func (l *stagedLoad) current() *placement.PolicyState {
	if slices.ContainsFunc(l.preparedOf(l.obj.Name), func(v preparedVersion) bool { return v.isLost() }) {
		return nil
	}
	if state := l.Registry.Get(l.obj.Name); state != nil && !state.Broken && state.Loaded.UID == l.obj.UID {
		return state
	}
	return nil
}

// stay returns the entry of a policy whose newest version is not being rolled out. What this replica has in force stays in force.
// If it has nothing yet, the versions of the status decide as far as the status says. If their stages are no longer in the spec, the
// version that was in force everywhere last decides everywhere.
func (l *stagedLoad) stay(ctx context.Context, position rollout.Position) (*placement.PolicyState, error) {
	if current := l.current(); current != nil {
		kept := *current
		kept.Generation, kept.Err = l.obj.Generation, l.reason
		if !reflect.DeepEqual(kept.Next, l.candidate) {
			kept.Next = l.candidate
		}
		kept.Staged = heldStages(current.Staged, &l.staged)
		if current.Staged != nil {
			l.used = l.preparedOf(l.obj.Name)
			return &kept, nil
		}
		for _, v := range l.versions(l.obj) {
			if v.Generation == current.Policy.Generation {
				kept.Staged.Unstaged = &v.Revision
			}
		}
		return &kept, nil
	}
	reached := 0
	if position.IsOfStages(rollout.Digest(l.obj.Spec)) {
		target, err := l.stored(ctx, position.Revision)
		if err == nil {
			state, err := l.inStages(ctx, target, position)
			if err == nil {
				state.Next = l.candidate
			}
			return state, err
		}
		if !isLost(err) {
			return nil, err
		}
		if reached = position.Reached; l.reason != nil {
			l.reason = fmt.Errorf("%w; %w", l.reason, err)
		}
	}
	version, err := l.lastInForce(ctx, position)
	if isLost(err) {
		return broken(l.obj, fmt.Errorf("%w; it was in force everywhere: set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout to put the version in the spec in force everywhere", err)), nil
	}
	if err != nil {
		return nil, err
	}
	if version != nil {
		l.staged.InForce = rollout.InForce{Digest: rollout.VersionDigest(version.Spec), Complete: true}
		state := l.entry(*version, nil)
		state.Next = l.candidate
		return state, nil
	}
	// No version was ever in force everywhere, and none is ahead of the status.
	if l.reason != nil {
		state, stages := broken(l.obj, l.reason), l.staged.Stages
		state.Policy.Matcher = state.Policy.Matcher.Within(func(namespace string, labels map[string]string) bool { return stages.Of(namespace, labels) < reached })
		return state, nil
	}
	next, _, err := l.newest(ctx, l.obj)
	if err != nil {
		return nil, err
	}
	target, err := l.prepare(ctx, next, l.candidate)
	if err != nil {
		return nil, err
	}
	return l.entry(target, nil), nil
}

// lastInForce returns the version that was in force everywhere last; nil if there was none. isLost reports whether it can't be
// loaded.
func (l *stagedLoad) lastInForce(ctx context.Context, position rollout.Position) (*preparedVersion, error) {
	number := position.Everywhere()
	if number == 0 && position != (rollout.Position{}) {
		return nil, nil
	}
	var lost error
	if number != 0 {
		version, err := l.stored(ctx, number)
		if !isLost(err) {
			return &version, err
		}
		lost = err
	}
	kept, ok, err := l.storedVersion(ctx, l.obj)
	if err != nil {
		return nil, err
	}
	// The version that was in force before a rollback is stored, too.
	if !ok || number != 0 && kept.Generation != number && rollout.VersionDigest(kept.Spec) != position.Version() {
		return nil, lost
	}
	version, err := l.prepare(ctx, kept, nil)
	return &version, err
}

// stored returns a stored revision.
func (l *stagedLoad) stored(ctx context.Context, number int64) (preparedVersion, error) {
	for _, known := range l.preparedOf(l.obj.Name) {
		if known.UID == l.obj.UID && known.Generation == number && !known.isLost() {
			return l.prepare(ctx, known.compiled, nil)
		}
	}
	revision, ok, err := l.readRevision(ctx, l.obj, policy.NumberedRevisionName(l.obj.Name, number))
	if err != nil {
		return preparedVersion{}, err
	}
	if !ok {
		return preparedVersion{}, fmt.Errorf("revision %d: %w", number, errNotStored)
	}
	// This version of Berth may refuse a source that an older one accepted.
	out, err := l.compile(ctx, l.obj.Name, revision)
	if out.module == nil {
		return preparedVersion{}, fmt.Errorf("revision %d: %w", number, err)
	}
	return l.prepare(ctx, out, nil)
}

// prepare returns a version that is ready to decide. If binding is nil, it binds the version.
func (l *stagedLoad) prepare(ctx context.Context, version compiled, binding *policy.Binding) (preparedVersion, error) {
	if binding == nil {
		var err error
		if binding, err = l.bind(ctx, l.obj.Name, version); err != nil {
			return preparedVersion{}, err
		}
	}
	for _, known := range l.preparedOf(l.obj.Name) {
		if known.module == version.module && reflect.DeepEqual(known.binding, binding) {
			l.used = append(l.used, known)
			return known, nil
		}
	}
	evaluator, err := l.evaluatorOf(ctx, l.obj.Name, version.module, binding)
	if err != nil {
		return preparedVersion{}, err
	}
	out := preparedVersion{compiled: version, binding: binding, evaluator: evaluator}
	l.used = append(l.used, out)
	return out, nil
}

// entry returns the registry entry with the version that decides in the stages that are reached, and with the version before,
// which may be nil. Both have the rest of the newest spec, which applies at once.
func (l *stagedLoad) entry(target preparedVersion, before *preparedVersion) *placement.PolicyState {
	stages, at := l.staged.Stages, l.staged.InForce
	reached := func(namespace string, labels map[string]string) bool {
		return stages.Of(namespace, labels) < at.Reached
	}
	within := func(m *match.Matcher) *match.Matcher { return m.Within(reached) }
	if at.Complete {
		within = func(m *match.Matcher) *match.Matcher { return m }
	}
	current := l.Registry.Get(l.obj.Name)
	out := &placement.PolicyState{
		Policy: l.policyOf(target, within), Generation: l.obj.Generation, Err: l.reason, Binding: target.binding, Staged: &l.staged,
		Warnings: slices.Concat(target.module.Warnings, target.binding.AmbiguousNames(l.Catalog)), DecidesNothing: target.module.DecidesNothing(),
		ModuleDigest: target.module.RulesDigest(),
	}
	if l.reason == nil {
		out.Err = target.invalid
	}
	if before != nil {
		l.staged.BeforeBinding = before.binding
		l.staged.Before = l.policyOf(*before, func(m *match.Matcher) *match.Matcher {
			return m.Within(func(namespace string, labels map[string]string) bool { return !reached(namespace, labels) })
		})
	}
	if current != nil && sameVersions(current, out) {
		out.Policy = current.Policy
		l.staged.Before = current.Staged.Before
	}
	return out
}

// policyOf returns a version as the decider needs it.
func (l *stagedLoad) policyOf(v preparedVersion, within func(*match.Matcher) *match.Matcher) *placement.Policy {
	return placement.NewPolicy(l.obj.Name, l.obj.Generation, rollout.Effective(v.Spec, l.obj.Spec), within(v.matcher), v.evaluator, v.module.Schedules())
}

// sameVersions reports whether the versions of an entry decide the same objects in the same way as those of the entry before, so
// that they can stay.
func sameVersions(old, next *placement.PolicyState) bool {
	return old.Staged != nil && old.Loaded.Generation == next.Generation && old.Staged.InForce == next.Staged.InForce && same(old.Policy, next.Policy) && same(old.Staged.Before, next.Staged.Before)
}

func same(a, b *placement.Policy) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Generation == b.Generation && a.Evaluator == b.Evaluator)
}

// heldStages returns the stages of an entry that stays in force while the next one waits for its data.
func heldStages(old, next *placement.StagedVersions) *placement.StagedVersions {
	if next == nil {
		return old
	}
	out := placement.StagedVersions{InForce: rollout.InForce{Complete: true}}
	if old != nil {
		out = *old
	}
	out.Candidate, out.Stages = next.Candidate, next.Stages
	return &out
}

// sameStages reports whether two entries have the same rollout.
func sameStages(old, next *placement.StagedVersions) bool {
	if old == nil || next == nil {
		return old == next
	}
	return old.InForce == next.InForce && old.Candidate == next.Candidate && old.Before == next.Before
}

func (c *Controller) preparedOf(name string) []preparedVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.staged[name]
}

// keepPrepared keeps the versions that a registry entry uses, so that they need not be prepared again, and drops all others.
func (c *Controller) keepPrepared(name string, versions []preparedVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.staged[name] = versions
}

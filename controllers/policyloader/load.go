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
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/compilation"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/rollout"
)

// version is a compiled version of a policy. Its spec has the default values.
type version struct {
	policy.Revision
	module  *policy.Module
	matcher *match.Matcher
	// invalid lists the clauses of contract rules that can never have a valid value; nil if there are none. Such a
	// version is refused unless it is in force already.
	invalid error
	// binding is nil before the first binding, and evaluator while the version is not prepared to decide.
	binding   *policy.Binding
	evaluator placement.Evaluator
	// lost reports whether the version stands for another one that can't be loaded. It always fails, and has no binding.
	lost bool
}

// entry is what a replica keeps of a policy. The zero value stands for a policy that was never loaded. Only the reconcile of the policy
// writes it, and reconciles of one policy never overlap.
type entry struct {
	uid types.UID
	// newest is the newest version that compiled, and complete the last one in force of which all types were served.
	newest, complete *version
	// used are the versions that decide. inStages reports whether the policy had spec.rollout when they came into force.
	used     []*version
	inStages bool
	// next is the state that comes into force once the data that it reads are complete, or at the time until; nil if none waits.
	next  *placement.PolicyState
	until time.Time
	// pending reports whether the policy existed at the start and is not loaded yet.
	pending bool
	// state is the state by which the policy is counted; empty before it is loaded.
	state string
}

// keep keeps the entry for the next load.
func (l *loading) keep() { l.update(l.obj.Name, func(e *entry) { *e = l.entry }) }

// compiled returns the versions to which the policy can go back, the last complete one first.
func (e *entry) compiled() []*version {
	known := slices.DeleteFunc([]*version{e.complete, e.newest}, func(v *version) bool { return v == nil })
	return slices.Compact(known)
}

// loading is one load of a policy.
type loading struct {
	*Controller
	entry

	obj     *placementv1.PlacementPolicy
	current *placement.PolicyState
	// stages are those of the spec; nil for a policy without spec.rollout.
	stages *rollout.Stages
	facts  rollout.ChoiceFacts
	// versions are those that are loaded.
	versions map[rollout.Ref]*version
}

var (
	matchPath  = field.NewPath("spec", "match")
	stagesPath = field.NewPath("spec", "rollout", "stages")
)

func (c *Controller) newLoading(obj *placementv1.PlacementPolicy) *loading {
	l := &loading{Controller: c, entry: c.entryOf(obj.Name), obj: obj, versions: map[rollout.Ref]*version{}}
	if l.uid != obj.UID {
		// A policy that was deleted and created again under the same name has no earlier versions.
		l.entry = entry{uid: obj.UID, pending: l.pending, state: l.state}
	}
	l.facts = rollout.ChoiceFacts{Versions: map[rollout.Ref]rollout.VersionFacts{}, Now: c.clock.Now()}
	if current := c.Registry.Get(obj.Name); current != nil && !current.Broken && current.Loaded.UID == obj.UID {
		l.current = current
		l.facts.Kept = rollout.KeptFacts{Exists: true, Lost: slices.ContainsFunc(l.used, func(v *version) bool { return v.lost })}
		if current.Staged != nil {
			l.facts.Kept.Staged, l.facts.Kept.Digest = true, current.Staged.InForce.Digest
		}
	}
	if r := obj.Spec.Rollout; r != nil {
		l.stages, _ = rollout.NewStages(obj.Name, r.Stages, stagesPath)
		l.facts.Staged, l.facts.Digest, l.facts.Revision, l.facts.Position = true, rollout.Digest(obj.Spec), r.Revision, rollout.PositionOf(obj.Status.Rollout)
	}
	return l
}

// run returns the state that is to be in force, and whether another one waits for its data. An error means that the caller must retry.
func (l *loading) run(ctx context.Context) (state *placement.PolicyState, waits bool, err error) {
	if err := l.findNewest(ctx); err != nil {
		return nil, false, err
	}
	choice, err := l.choose(ctx)
	if err != nil {
		return nil, false, err
	}
	held := l.heldStages()
	l.remember(choice)
	state, waits = l.await(l.stateOf(choice, held), held)
	l.keep()
	return state, waits, nil
}

// choose finds and prepares versions until it is known which of them decide.
func (l *loading) choose(ctx context.Context) (rollout.Choice, error) {
	for {
		choice := rollout.Choose(l.facts)
		ref, step := choice.Load, l.find
		if ref == rollout.None {
			ref, step = l.unprepared(choice), l.prepare
		}
		if ref == rollout.None {
			return choice, nil
		}
		if err := step(ctx, ref); err != nil {
			return choice, err
		}
	}
}

// named returns the versions that a choice names. Where no version decides, the newest one is in force in no stage.
func named(c rollout.Choice) []rollout.Ref {
	switch {
	case c.Target == rollout.None:
		return []rollout.Ref{rollout.Newest}
	case c.Target == rollout.Kept || c.Target == rollout.Lost:
		return nil
	case c.Before == rollout.None || c.Before == rollout.Lost:
		return []rollout.Ref{c.Target}
	default:
		return []rollout.Ref{c.Target, c.Before}
	}
}

// unprepared returns a version of a choice that is not prepared to decide; None if there is none.
func (l *loading) unprepared(c rollout.Choice) rollout.Ref {
	for _, ref := range named(c) {
		if l.versions[ref].evaluator == nil {
			return ref
		}
	}
	return rollout.None
}

// prepare prepares the evaluator of a version. It takes over what the versions before have decided, as far as that still holds.
func (l *loading) prepare(ctx context.Context, ref rollout.Ref) error {
	v := l.versions[ref]
	evaluator, err := l.Engine.Prepare(ctx, l.obj.Name, v.module, v.binding)
	if err != nil {
		facts := l.facts.Versions[ref]
		facts.Err, facts.Incomplete = err, false
		return l.record(ref, facts)
	}
	if to, ok := evaluator.(placement.Successor); ok {
		for _, state := range []*placement.PolicyState{l.Registry.Get(l.obj.Name), l.next} {
			if state == nil || state.Broken {
				continue
			}
			for _, earlier := range state.Versions() {
				to.TakeOver(ctx, earlier.Evaluator)
			}
		}
	}
	v.evaluator = evaluator
	return nil
}

// record records what came of loading a version. It returns an error if the caller must retry, because it says nothing about the version.
func (l *loading) record(ref rollout.Ref, facts rollout.VersionFacts) error {
	_, refused := errors.AsType[*policy.CompileError](facts.Err)
	if facts.Err != nil && !refused && !errors.Is(facts.Err, rollout.ErrNotStored) && (l.facts.Staged || ref == rollout.Newest) {
		return facts.Err
	}
	l.facts.Versions[ref] = facts
	return nil
}

// found binds a version and records it.
func (l *loading) found(ctx context.Context, ref rollout.Ref, v *version) error {
	l.versions[ref] = v
	var facts rollout.VersionFacts
	if ref > rollout.None || ref == rollout.LastInForce {
		facts.Number, facts.Version = v.Generation, rollout.VersionDigest(v.Spec)
	}
	binding, err := l.bind(ctx, v)
	if err != nil {
		facts.Err = err
		return l.record(ref, facts)
	}
	if !reflect.DeepEqual(v.binding, binding) {
		v.binding, v.evaluator = binding, nil
	}
	v.Bindings, facts.Incomplete = binding.Bindings, len(binding.Missing) > 0
	return l.record(ref, facts)
}

// bind binds a version to the types that the API server serves.
func (l *loading) bind(ctx context.Context, v *version) (*policy.Binding, error) {
	if err := l.Engine.Check(v.module); err != nil {
		return nil, err
	}
	binding, err := policy.BindToCurrent(ctx, l.obj.Name, v.module, v.Spec.Replicate, l.Catalog, v.Bindings)
	if err != nil {
		return nil, err
	}
	if v.module.Nodes {
		binding.PredicateReads = predicates.Reads()
	}
	binding.MaxStaleness = defaultMaxStaleness
	if v.Spec.MaxStaleness != nil {
		binding.MaxStaleness = v.Spec.MaxStaleness.Duration
	}
	return binding, nil
}

// findNewest loads the version in the spec. It compiles the version unless that was done before.
func (l *loading) findNewest(ctx context.Context) (err error) {
	var newest *version
	var reason error
	known := slices.IndexFunc(l.compiled(), func(v *version) bool {
		return v.Generation == l.obj.Generation && equality.Semantic.DeepEqual(v.Spec, l.obj.Spec.WithDefaults())
	})
	if known >= 0 {
		newest = l.compiled()[known]
	} else if newest, reason = l.compile(ctx, policy.Revision{UID: l.obj.UID, Generation: l.obj.Generation, Spec: l.obj.Spec}); ctx.Err() != nil {
		return ctx.Err()
	}
	if reason == nil && newest.invalid != nil {
		inForce, err := l.regoInForce(ctx)
		if err != nil {
			return err
		}
		if !inForce {
			reason = newest.invalid
		}
	}
	if reason != nil {
		l.facts.Versions[rollout.Newest] = rollout.VersionFacts{Err: reason}
		return nil
	}
	if newest.Bindings == nil && newest.module.ReadsByPluralOnly() {
		if newest.Bindings, err = l.recorded(ctx, newest.module); err != nil {
			return err
		}
	}
	if err := l.found(ctx, rollout.Newest, newest); err != nil {
		return err
	}
	facts := l.facts.Versions[rollout.Newest]
	if facts.Incomplete {
		facts.Err = &policy.NotServedError{Missing: newest.binding.Missing}
		l.facts.Versions[rollout.Newest] = facts
	}
	if facts.Err == nil || facts.Incomplete {
		l.newest = newest
	}
	return nil
}

// find loads an earlier version.
func (l *loading) find(ctx context.Context, ref rollout.Ref) error {
	var v *version
	var reason error
	switch ref {
	case rollout.LastComplete:
		v = l.complete
	case rollout.LastCompiled:
		if l.newest != l.complete {
			v = l.newest
		}
	case rollout.LastInForce:
		revision, ok, err := l.last(ctx)
		if err != nil {
			return err
		}
		if ok {
			v, reason = l.lastInForce(ctx, revision)
		}
	default:
		v, reason = l.numbered(ctx, int64(ref))
	}
	switch {
	case reason != nil:
		return l.record(ref, rollout.VersionFacts{Err: reason})
	case v == nil || ref < rollout.None && v.Generation == l.obj.Generation:
		return l.record(ref, rollout.VersionFacts{Err: rollout.ErrNotStored})
	}
	return l.found(ctx, ref, v)
}

// numbered returns a stored revision.
func (l *loading) numbered(ctx context.Context, number int64) (*version, error) {
	for _, v := range l.used {
		// Of a version that came into force without stages, it is not known whether it is stored.
		if l.inStages && v.Generation == number && !v.lost {
			return v, nil
		}
	}
	revision, ok, err := l.read(ctx, policy.NumberedRevisionName(l.obj.Name, number))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("revision %d: %w", number, rollout.ErrNotStored)
	}
	// This version of Berth may refuse a source that an older one accepted.
	v, err := l.compile(ctx, revision)
	if v == nil {
		return nil, fmt.Errorf("revision %d: %w", number, err)
	}
	return v, nil
}

// lastInForce returns the version that was in force everywhere last, given its revision; nil if it is not older than the version in the spec.
func (l *loading) lastInForce(ctx context.Context, revision policy.Revision) (*version, error) {
	if revision.Generation >= l.obj.Generation {
		return nil, nil
	}
	v, err := l.compile(ctx, revision)
	if v == nil {
		return nil, fmt.Errorf("the version that was in force last: %w", err)
	}
	v.Bindings = l.bindingsOf(revision, v.module)
	return v, nil
}

// compile compiles a version. If only spec.match is invalid, it returns a result besides the error. That result leaves out the invalid
// parts of the match, so it matches more objects and never fewer.
func (l *loading) compile(ctx context.Context, source policy.Revision) (*version, error) {
	out := &version{Revision: source}
	out.Spec = source.Spec.WithDefaults()
	var err error
	out.module, err = l.Compiler.Compile(ctx, l.obj.Name, out.Spec)
	if errors.Is(err, compilation.ErrBusy) {
		err = policy.Unfinished(l.obj.Name, out.Spec, err.Error()+"; Berth tries again")
	}
	if err != nil {
		if list, ok := errors.AsType[*policy.CompileError](err); !ok || !list.ContractOnly() {
			return nil, err
		}
		out.invalid = err
	}
	var errs field.ErrorList
	if out.matcher, errs = match.New(out.Spec.Match, matchPath); len(errs) > 0 {
		return out, errs.ToAggregate()
	}
	return out, nil
}

// regoInForce reports whether the policy's source was accepted before: by this replica, or by an older version of Berth
// that did not check the values of contract rules, as the stored revision shows. Such a version remains in force, and
// the policy's status reports the errors.
func (l *loading) regoInForce(ctx context.Context) (bool, error) {
	spec := l.obj.Spec.WithDefaults()
	if versions := l.compiled(); len(versions) > 0 {
		return slices.ContainsFunc(versions, func(v *version) bool { return policy.SameRegoAndData(v.Spec, spec) }), nil
	}
	revision, ok, err := l.last(ctx)
	return ok && policy.SameRegoAndData(revision.Spec.WithDefaults(), spec), err
}

// recorded returns the groups that the policy's source was bound to before, in this replica or in another one, as the leader recorded
// it. It returns nil for a source that was never bound.
func (l *loading) recorded(ctx context.Context, m *policy.Module) (policy.Bindings, error) {
	for _, v := range l.compiled() {
		if v.Bindings != nil && policy.SameRegoAndReplicate(v.Spec, l.obj.Spec) {
			return v.Bindings, nil
		}
	}
	revision, ok, err := l.last(ctx)
	if err != nil || !ok || !policy.SameRegoAndReplicate(revision.Spec, l.obj.Spec) {
		return nil, err
	}
	return l.bindingsOf(revision, m), nil
}

// bindingsOf returns the bindings of a stored revision. Older versions of Berth recorded bindings only in the policy's
// status.
func (l *loading) bindingsOf(revision policy.Revision, m *policy.Module) policy.Bindings {
	if revision.Bindings != nil {
		return revision.Bindings
	}
	return m.BindingsFromStatus(l.obj.Status.Dependencies)
}

// last returns the last version of a policy that was in force everywhere, as the leader stored it. ok is false if there is none.
func (l *loading) last(ctx context.Context) (revision policy.Revision, ok bool, err error) {
	return l.read(ctx, policy.RevisionName(l.obj.Name))
}

// read returns the version of a policy in a stored object. ok is false if there is none.
func (l *loading) read(ctx context.Context, name string) (revision policy.Revision, ok bool, err error) {
	object := &appsv1.ControllerRevision{}
	if err := l.Revisions.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: name}, object); err != nil {
		return policy.Revision{}, false, client.IgnoreNotFound(err)
	}
	revision, err = policy.DecodeRevision(object.Data.Raw)
	// Ignore a revision that can't be decoded or that belongs to another policy.
	return revision, err == nil && revision.UID == l.obj.UID, nil
}

// remember keeps the versions of a choice for the next load, and those to which the policy can go back, and drops all others.
func (l *loading) remember(c rollout.Choice) {
	if c.Target != rollout.Kept {
		kept := l.used
		l.used, l.inStages = nil, l.facts.Staged
		for _, ref := range named(c) {
			l.used = append(l.used, l.versions[ref])
		}
		if c.Before == rollout.Lost {
			l.used = append(l.used, l.lostVersion(c, kept))
		}
	}
	if v, ok := l.versions[c.Target]; ok && c.InForce.Complete && (!l.facts.Staged || c.Target == rollout.Newest) {
		if len(v.binding.Missing) > 0 {
			l.newest = v
		} else {
			l.complete = v
		}
	}
	for _, v := range l.compiled() {
		if !slices.Contains(l.used, v) {
			v.evaluator = nil
		}
	}
}

// lostVersion returns the version that fails in place of the one before. It stays the same while that one is lost.
func (l *loading) lostVersion(c rollout.Choice, kept []*version) *version {
	out := *l.versions[c.Target]
	out.Generation = l.facts.Position.Previous
	for _, v := range kept {
		if v.lost && v.Generation == out.Generation && v.module == out.module {
			return v
		}
	}
	out.lost, out.binding, out.evaluator = true, nil, placement.NewFailing(c.Err)
	return &out
}

// stateOf returns the state of a policy in which the versions of a choice decide. held has the stages of what is in force now.
func (l *loading) stateOf(c rollout.Choice, held *placement.StagedVersions) *placement.PolicyState {
	var out placement.PolicyState
	switch c.Target {
	case rollout.Kept:
		out = *l.current
		out.Err, out.Next, out.Staged = c.Err, l.candidate(), held
	case rollout.Lost:
		out = l.failing(c)
	default:
		out = l.deciding(c)
	}
	out.Generation, out.Loaded = l.obj.Generation, placement.LoadedVersion{UID: l.obj.UID, Generation: l.obj.Generation}
	return &out
}

// failing returns the state of a policy of which no version can be loaded.
func (l *loading) failing(c rollout.Choice) placement.PolicyState {
	spec := l.obj.Spec.WithDefaults()
	// The errors of the match were reported before. Without the invalid parts the policy matches, and denies, more
	// objects.
	matcher, _ := match.New(spec.Match, matchPath)
	if !c.InForce.Complete {
		matcher = matcher.Within(l.reached(c))
	}
	evaluator := placement.NewFailing(fmt.Errorf("the policy does not compile: %w", c.Err))
	return placement.PolicyState{Policy: placement.NewPolicy(l.obj.Name, l.obj.Generation, spec, matcher, evaluator, false), Err: c.Err, Broken: true}
}

// deciding returns the state of a policy in which the versions of a choice decide. The policies stay the same if they decide as before.
func (l *loading) deciding(c rollout.Choice) placement.PolicyState {
	target, reached := l.versions[named(c)[0]], l.reached(c)
	if c.InForce.Complete {
		reached = nil
	}
	out := placement.PolicyState{
		Policy: l.policyOf(target, reached), Err: cmp.Or(c.Err, target.invalid), Binding: target.binding,
		Warnings:       slices.Concat(target.module.Warnings, target.binding.AmbiguousNames(l.Catalog)),
		DecidesNothing: target.module.DecidesNothing(), ModuleDigest: target.module.RulesDigest(),
	}
	if l.stages != nil {
		out.Staged = l.staged(placement.StagedVersions{InForce: c.InForce})
		if c.Target != rollout.Newest && c.Target != rollout.None {
			out.Next = l.candidate()
		}
	}
	if c.Before != rollout.None {
		before := l.used[len(l.used)-1]
		out.Staged.BeforeBinding = before.binding
		out.Staged.Before = l.policyOf(before, func(namespace string, labels map[string]string) bool { return !reached(namespace, labels) })
	}
	if l.current != nil && l.decidesAlike(&out) {
		out.Policy = l.current.Policy
		if out.Staged != nil {
			out.Staged.Before = l.current.Staged.Before
		}
	}
	return out
}

// reached returns a function that reports whether a namespace is in a stage that a choice has reached.
func (l *loading) reached(c rollout.Choice) func(namespace string, labels map[string]string) bool {
	// The function stays as long as the policy is in force, so it must not refer to the load, which has what was in force before.
	stages, reached := l.stages, c.InForce.Reached
	return func(namespace string, labels map[string]string) bool { return stages.Of(namespace, labels) < reached }
}

// policyOf returns a version as the decider needs it, in the namespaces for which within returns true, or in all if it is nil. A version
// of a policy with spec.rollout has those parts of the newest spec that apply at once.
func (l *loading) policyOf(v *version, within func(namespace string, labels map[string]string) bool) *placement.Policy {
	generation, spec, matcher := v.Generation, v.Spec, v.matcher
	if l.stages != nil {
		generation, spec = l.obj.Generation, rollout.Effective(v.Spec, l.obj.Spec)
	}
	if within != nil {
		matcher = matcher.Within(within)
	}
	return placement.NewPolicy(l.obj.Name, generation, spec, matcher, v.evaluator, v.module.Schedules())
}

// decidesAlike reports whether the versions of a state decide the same objects in the same way as those that are in force.
func (l *loading) decidesAlike(next *placement.PolicyState) bool {
	same := func(a, b *placement.Policy) bool {
		return a == b || a != nil && b != nil && a.Generation == b.Generation && a.Evaluator == b.Evaluator
	}
	old, staged := l.current.Staged, next.Staged
	if old == nil || staged == nil {
		return old == nil && staged == nil && same(l.current.Policy, next.Policy)
	}
	return l.current.Loaded.Generation == l.obj.Generation && old.InForce == staged.InForce && same(l.current.Policy, next.Policy) && same(old.Before, staged.Before)
}

// candidate returns the data that the newest version of a policy with spec.rollout reads; nil if that version can't decide.
func (l *loading) candidate() *policy.Binding {
	if l.stages == nil || l.facts.Versions[rollout.Newest].Err != nil {
		return nil
	}
	return l.versions[rollout.Newest].binding
}

// staged sets what a state has of the spec, whichever versions decide.
func (l *loading) staged(s placement.StagedVersions) *placement.StagedVersions {
	s.Candidate, s.Stages = "", l.stages
	if l.facts.Versions[rollout.Newest].Err == nil {
		s.Candidate = l.facts.Digest
	}
	return &s
}

// heldStages returns the stages of a state in which what is in force stays in force.
func (l *loading) heldStages() *placement.StagedVersions {
	switch {
	case l.current == nil:
		return nil
	case l.stages == nil:
		return l.current.Staged
	case l.current.Staged != nil:
		return l.staged(*l.current.Staged)
	}
	out := l.staged(placement.StagedVersions{InForce: rollout.InForce{Complete: true}})
	for _, v := range l.used {
		if v.Generation == l.current.Policy.Generation {
			out.Unstaged = &v.Revision
		}
	}
	return out
}

// await returns the state that is to be in force: next, or what is in force while the data that next reads are incomplete. In the second
// case the state records what next waits for. A new version that reads more must not cause denied requests until its data are complete.
//
// The registry has what next reads before await checks the data. Otherwise data that the version before last left behind could be
// complete at the check, and be dropped right after. And next counts as waiting before that, so that DataChanged finds it.
func (l *loading) await(next *placement.PolicyState, staged *placement.StagedVersions) (state *placement.PolicyState, waits bool) {
	old, until := l.current, l.until
	if l.next == nil {
		until = l.facts.Now.Add(maxWait)
	}
	l.facts.Data = rollout.DataFacts{Until: until, Held: l.Settled != nil && old != nil && old.Policy != next.Policy && bound(old) && bound(next) && l.Settled(old.Binding)}
	if !rollout.Choose(l.facts).Waits {
		l.next = nil
		return next, false
	}
	l.next, l.until = next, until
	l.keep()
	held := *old
	held.Next, held.Loaded, held.Staged = next.Binding, next.Loaded, staged
	if !old.Reads(next.Binding) {
		l.Registry.Set(l.obj.Name, &held)
	}
	if l.facts.Data.Complete = l.Settled(next.Binding); rollout.Choose(l.facts).Waits {
		return &held, true
	}
	l.next = nil
	return next, false
}

// bound reports whether the policy of a registry entry can decide once its data is complete.
func bound(s *placement.PolicyState) bool { return !s.Broken && len(s.Binding.Missing) == 0 }

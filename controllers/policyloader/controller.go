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

// Package policyloader provides the controllers that load PlacementPolicies, and store their versions for later loads.
//
// Controller loads policies into this replica. It compiles each policy on its own, finds out what the policy reads, and puts it in force.
// It runs on every replica and writes nothing to the API server. On the leader, RevisionStore stores versions, and the status controller
// reports the results.
package policyloader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/rollout"
)

// Catalog has the types that the API server serves. It reads them again on request, and calls its subscribers when they change.
type Catalog interface {
	policy.Catalog
	// Invalidate requests a new discovery soon. Subscribe registers a callback for when a discovery finds a change.
	Invalidate()
	Subscribe(f func())
}

// Engine checks compiled policies, and prepares them for evaluation. Its methods are safe for concurrent use.
type Engine interface {
	// Check verifies that the engine provides everything that a policy refers to by name. The error is a *policy.CompileError.
	Check(m *policy.Module) error
	// Prepare returns an evaluator for one policy. The controller drops it when it no longer needs it.
	Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error)
}

const (
	// missingInterval is how often the controller runs discovery while a policy reads a type that is not served. An extension
	// API server can become available without a change of any object that Berth watches.
	missingInterval = 2 * time.Second
	// maxWait is how long a new version waits at most for the data that it reads. The earlier version decides meanwhile.
	maxWait = 30 * time.Second
	// dataInterval is how often the controller checks at first whether the data of a version that waits are complete.
	dataInterval = 50 * time.Millisecond
	// defaultMaxStaleness is how long data may be unconfirmed if a policy does not set spec.maxStaleness. The API server
	// confirms a watch without events about once a minute.
	defaultMaxStaleness = time.Minute
)

// Deps holds the dependencies of a Controller: what it reads policies and stored versions from, how it compiles and prepares them, the
// registry that it fills, and the check of replica data.
type Deps struct {
	// Policies reads PlacementPolicies. The controller puts them into Registry.
	Policies client.Reader
	Registry *placement.Registry
	// Revisions reads the ControllerRevisions that store versions of policies in Namespace, maybe in another cluster than the policies.
	Revisions client.Reader
	Namespace string
	// Compiler compiles within a deadline. If it is nil, compilation has no deadline.
	Compiler *policy.BoundedCompiler
	Engine   Engine
	Catalog  Catalog
	Metrics  *metrics.Metrics
	// Settled reports whether all data that a version of a policy reads is replicated or known to be unavailable. Until then, the version
	// before stays in force if it can decide. If Settled is nil, no version waits.
	Settled func(*policy.Binding) bool
}

// Controller loads PlacementPolicies into the registry. Create it with New.
type Controller struct {
	Deps
	clock clock.PassiveClock

	// loaded reports whether there was a time after the start at which all existing policies had been loaded.
	loaded atomic.Bool
	// entries has an entry by the name of each policy.
	entries sync.Map
}

// New returns a controller.
func New(d Deps) *Controller {
	return &Controller{Deps: d, clock: clock.RealClock{}}
}

// SetupWithManager adds the controller to a manager, in which it runs on every replica. It loads a policy when the spec or how far it is
// rolled out changes, and all policies when a discovery finds other types. A change of a CustomResourceDefinition requests a discovery.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	definitions := &metav1.PartialObjectMetadata{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	changed := predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
	// A type that a policy reads may be served or not served from now on, or another group may have a type of the same name.
	invalidate := func(context.Context, client.Object) []reconcile.Request {
		c.Catalog.Invalidate()
		return nil
	}
	subscribe := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.Catalog.Subscribe(func() {
			for name := range c.Registry.All() {
				queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			}
		})
		return nil
	}
	return builder.ControllerManagedBy(mgr).
		Named("policy").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, positionChanged))).
		Watches(definitions, handler.EnqueueRequestsFromMapFunc(invalidate), builder.OnlyMetadata, builder.WithPredicates(changed)).
		WatchesRawSource(source.Func(subscribe)).
		WithOptions(controller.Options{NeedLeaderElection: new(false), MaxConcurrentReconciles: Workers()}).
		Complete(c)
}

// positionChanged passes, of updates, only those that change how far a policy is rolled out, or replace it by another one of the same name.
var positionChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*placementv1.PlacementPolicy), e.ObjectNew.(*placementv1.PlacementPolicy)
	return before.UID != after.UID || rollout.PositionOf(before.Status.Rollout) != rollout.PositionOf(after.Status.Rollout)
}}

// Workers returns how many policies are loaded at once: at least two, because one that waits for the API server must not block all others.
func Workers() int { return max(2, runtime.GOMAXPROCS(0)) }

// +kubebuilder:rbac:groups=placement.berth.dev,resources=placementpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// Reconcile loads one policy, or removes a deleted one from the registry.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := &placementv1.PlacementPolicy{}
	if err := c.Policies.Get(ctx, req.NamespacedName, obj); apierrors.IsNotFound(err) {
		c.entries.Delete(req.Name)
		if c.Registry.Get(req.Name) != nil {
			c.Registry.Remove(req.Name)
		}
		c.Metrics.ForgetPolicy(req.Name)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	l := c.newLoading(obj)
	state, err := l.run(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.Metrics.AddPolicy(req.Name)
	if before := c.Registry.Get(req.Name); before == nil || !slices.Equal(before.Versions(), state.Versions()) ||
		!reflect.DeepEqual(before, state) {
		// States that decide alike share their policies. Others are not compared further, because evaluators change.
		c.Registry.Set(req.Name, state)
	}
	c.entries.Store(req.Name, l.entry)
	return reconcile.Result{RequeueAfter: l.again(state)}, nil
}

// again returns after which time a policy with the state s has to be loaded again although no watched object changes: soon while a version
// waits for its data; missingInterval while it lacks a type, a stored version, or the end of a compilation, or while a name in it is
// ambiguous; 0 for never.
func (l *loading) again(s *placement.PolicyState) time.Duration {
	_, notServed := errors.AsType[*policy.NotServedError](s.Err)
	switch {
	case l.waits():
		return max(dataInterval, (maxWait-l.until.Sub(l.facts.Now))/10)
	case notServed, policy.IsAmbiguous(s.Err), policy.IsUnfinished(s.Err), errors.Is(s.Err, rollout.ErrNotStored),
		slices.ContainsFunc(s.InForce(), lacksTypes):
		// A missing type may be served, the leader may record what the policy's types are bound to, a compilation may end, or the cache
		// may get a stored revision.
		return missingInterval
	}
	return 0
}

// entryOf returns the entry of the policy with a name; the zero value if there is none.
func (c *Controller) entryOf(name string) (out entry) {
	kept, _ := c.entries.Load(name)
	out, _ = kept.(entry)
	return out
}

// Loaded reports whether, at some time since the start of this replica, all policies that existed at that time had been processed, also
// those that do not compile. Once true, it stays true.
func (c *Controller) Loaded(ctx context.Context) bool {
	list, unknown := &placementv1.PlacementPolicyList{}, func(p placementv1.PlacementPolicy) bool { return c.entryOf(p.Name).uid == "" }
	if !c.loaded.Load() && c.Policies.List(ctx, list) == nil && !slices.ContainsFunc(list.Items, unknown) {
		c.loaded.Store(true)
	}
	return c.loaded.Load()
}

// version is a policy version, with its compiled module and match and, once prepare has bound it, its binding and evaluator. Absent fields
// of its spec have their defaults.
type version struct {
	policy.Revision
	module    *policy.Module
	matcher   *match.Matcher
	binding   *policy.Binding     // Nil before prepare, and if the version is lost.
	evaluator placement.Evaluator // Nil before prepare.
	stored    bool                // Whether the version was read from a ControllerRevision that has its generation in the name.
	lost      error               // Why the version, of the spec or stored, that this one stands for can't be loaded; nil if it is loaded.
}

// entry is what a replica keeps of a policy between two loads: the versions that decide, the one that decided everywhere last, and until
// when a version waits for its data. The zero value stands for a policy that was never loaded. Only the reconcile of the policy writes it,
// and reconciles of one policy never overlap.
type entry struct {
	uid  types.UID
	used []*version // The versions that decide: one, or that of the reached stages and that of all other namespaces.
	// earlier is the version that decided in all namespaces last, even if it is the newest; the first one that decided at all before there is
	// one; nil for none. If the newest version of a policy without spec.rollout can't decide, this one does (rollout.Earlier).
	earlier *version
	known   []*version // The versions of used, earlier, and those of the last load, which the next load need not compile again.
	until   time.Time  // When the version that waits for its data comes into force at the latest; zero if none waits.
}

// waits reports whether a version waits for its data.
func (e entry) waits() bool { return !e.until.IsZero() }

// loading is one load of a policy: the policy, what was in force before, and what the load has found so far.
type loading struct {
	*Controller
	entry

	obj      *placementv1.PlacementPolicy
	current  *placement.PolicyState   // The registry's state of the policy before this load; nil for none.
	stages   *rollout.Stages          // The stages of the spec; nil for a policy without spec.rollout.
	facts    rollout.ChoiceFacts      // What this load knows so far, for rollout.Choose.
	versions map[rollout.Ref]*version // The versions that this load has found and prepared.
}

// newLoading returns a load of a policy with the facts that are known before any version is loaded: those in its spec and status, in the
// registry, and in the entry of its last load.
func (c *Controller) newLoading(obj *placementv1.PlacementPolicy) *loading {
	l := &loading{Controller: c, entry: c.entryOf(obj.Name), obj: obj, versions: map[rollout.Ref]*version{}}
	if l.uid != obj.UID {
		// A policy that was deleted and created again under the same name has no earlier versions.
		l.entry = entry{uid: obj.UID}
	}
	l.facts = rollout.ChoiceFacts{Versions: map[rollout.Ref]rollout.VersionFacts{}, Now: c.clock.Now()}
	if r := obj.Spec.Rollout; r != nil {
		l.stages, _ = rollout.NewStages(obj.Name, r.Stages, field.NewPath("spec", "rollout", "stages"))
		l.facts.Staged, l.facts.Digest, l.facts.Revision, l.facts.Position = true, rollout.Digest(obj.Spec), r.Revision,
			rollout.PositionOf(obj.Status.Rollout)
	}
	if s := c.Registry.Get(obj.Name); s != nil && s.Loaded.UID == obj.UID {
		l.current = s
		lost, kept := slices.ContainsFunc(l.used, func(v *version) bool { return v.lost != nil }), &l.facts.Kept
		*kept = rollout.KeptFacts{Exists: !s.Broken, InForce: rollout.InForce{Complete: true}, Lost: lost}
		switch {
		case s.Staged != nil:
			kept.InForce = s.Staged.InForce
			kept.Exists = kept.Exists && kept.InForce != (rollout.InForce{})
		case l.stages != nil && !s.Broken:
			kept.InForce.Digest = rollout.VersionDigest(l.used[0].Spec)
		}
	}
	return l
}

// run loads the versions that rollout.Choose needs, and returns the policy's state for the registry: the one in which the chosen versions
// decide or, while their data is incomplete, the one of before. The caller retries after an error.
func (l *loading) run(ctx context.Context) (*placement.PolicyState, error) {
	choice := rollout.Choose(l.facts)
	for ; choice.Load != rollout.None; choice = rollout.Choose(l.facts) {
		if err := l.find(ctx, choice.Load); err != nil {
			return nil, err
		}
	}
	versions := l.deciding(choice)
	state := l.stateOf(choice, versions)
	if held := l.await(choice, state); held != nil {
		state = held
	} else {
		l.use(choice, versions)
		l.setStored(choice, state)
	}
	l.known = nil
	for _, v := range slices.Concat(l.used, []*version{l.earlier}, slices.Collect(maps.Values(l.versions))) {
		if v != nil && !slices.Contains(l.known, v) {
			l.known = append(l.known, v)
		}
	}
	return state, nil
}

// find loads a version and adds the result to the facts. It returns only errors of which a retry may decide, such as of the API server.
func (l *loading) find(ctx context.Context, ref rollout.Ref) error {
	v, err := l.version(ctx, ref)
	if err == nil {
		err = l.prepare(ctx, v)
	}
	_, refused := errors.AsType[*policy.CompileError](err)
	_, invalid := errors.AsType[utilerrors.Aggregate](err)
	facts := rollout.VersionFacts{Err: err}
	switch {
	case err == nil:
		l.versions[ref] = v
		facts.Number, facts.Version, facts.Incomplete = v.Generation, rollout.VersionDigest(v.Spec), len(v.binding.Missing) > 0
	case !refused && !invalid && !errors.Is(err, rollout.ErrNotStored):
		return err
	}
	if ref == rollout.Newest && facts.Incomplete {
		facts.Err = &policy.NotServedError{Missing: v.binding.Missing}
	}
	l.facts.Versions[ref] = facts
	return nil
}

// version returns the version to which ref refers, compiled. It may not be bound to types yet, and then has no evaluator. The error is
// ErrNotStored if there is no such version; it can also be that of the compiler or of the API server.
func (l *loading) version(ctx context.Context, ref rollout.Ref) (*version, error) {
	generation, stored := int64(ref), ref != rollout.Newest
	if !stored {
		generation = l.obj.Generation
	}
	for _, v := range l.known {
		if v.Generation == generation && v.stored == stored && v.lost == nil {
			return v, nil
		}
	}
	switch ref {
	case rollout.Newest:
		return l.newest(ctx)
	case rollout.Earlier:
		if l.earlier == nil || l.earlier.Generation == l.obj.Generation {
			return nil, rollout.ErrNotStored
		}
		return l.earlier, nil
	case rollout.LastInForce:
		last, err := l.read(ctx, policy.RevisionName(l.obj.Name))
		if err != nil || last.Generation == l.obj.Generation {
			return nil, cmp.Or(err, rollout.ErrNotStored)
		}
		v, err := l.compile(ctx, last)
		if err != nil {
			err = fmt.Errorf("compiling the version that was in force last: %w", err)
		}
		return v, err
	}
	revision, err := l.read(ctx, policy.NumberedRevisionName(l.obj.Name, generation))
	var v *version
	if err == nil {
		v, err = l.compile(ctx, revision)
	}
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", generation, err)
	}
	v.stored = true
	return v, nil
}

// newest compiles the version in the spec, at each call. If an earlier version with the same Rego and spec.replicate was bound to types, in
// this replica or before it was stored as a ControllerRevision, the types that the version names by their plural alone keep the API groups
// of then.
func (l *loading) newest(ctx context.Context) (*version, error) {
	v, err := l.compile(ctx, policy.Revision{UID: l.obj.UID, Generation: l.obj.Generation, Spec: l.obj.Spec})
	if err != nil || !v.module.ReadsByPluralOnly() {
		return v, err
	}
	last, err := l.read(ctx, policy.RevisionName(l.obj.Name))
	if err != nil && !errors.Is(err, rollout.ErrNotStored) {
		return nil, err
	}
	for _, earlier := range slices.Concat([]*version{{Revision: last}}, l.known) {
		if earlier.Bindings != nil && policy.SameRegoAndReplicate(earlier.Spec, v.Spec) {
			v.Bindings = earlier.Bindings
		}
	}
	return v, nil
}

// compile compiles the module and the match of a version at each call, and reuses no earlier result. The result is not bound to types, and
// has no evaluator. The error is that of the compiler, or lists what is invalid in spec.match.
func (l *loading) compile(ctx context.Context, source policy.Revision) (*version, error) {
	out := &version{Revision: source}
	out.Spec = source.Spec.WithDefaults()
	var err error
	if out.module, err = l.Compiler.Compile(ctx, l.obj.Name, out.Spec); errors.Is(err, policy.ErrBusy) {
		err = policy.Unfinished(l.obj.Name, out.Spec, "too many other policies are being compiled; Berth tries again")
	}
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	if out.matcher, errs = match.New(out.Spec.Match, field.NewPath("spec", "match")); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return out, nil
}

// read returns the version in the ControllerRevision with a name. The error is ErrNotStored if there is none, if it can't be decoded, or if
// it belongs to a policy with another UID; it can also be that of the API server.
func (l *loading) read(ctx context.Context, name string) (policy.Revision, error) {
	object := &appsv1.ControllerRevision{}
	err := l.Revisions.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: name}, object)
	if err != nil && !apierrors.IsNotFound(err) {
		return policy.Revision{}, err
	}
	revision, invalid := policy.DecodeRevision(object.Data.Raw)
	if err != nil || invalid != nil || revision.UID != l.obj.UID {
		return policy.Revision{}, rollout.ErrNotStored
	}
	return revision, nil
}

// prepare binds a version to the types that the API server serves now, and prepares its evaluator, unless it is already bound to the same.
func (l *loading) prepare(ctx context.Context, v *version) error {
	if err := l.Engine.Check(v.module); err != nil {
		return err
	}
	binding, err := policy.BindToCurrent(ctx, l.obj.Name, v.module, v.Spec.Replicate, l.Catalog, v.Bindings)
	if err != nil {
		return err
	}
	if v.module.Nodes {
		binding.PredicateReads = predicates.Reads()
	}
	binding.MaxStaleness = ptr.Deref(v.Spec.MaxStaleness, metav1.Duration{Duration: defaultMaxStaleness}).Duration
	if reflect.DeepEqual(v.binding, binding) {
		return nil
	}
	evaluator, err := l.Engine.Prepare(ctx, l.obj.Name, v.module, binding)
	if err != nil {
		return err
	}
	if to, ok := evaluator.(placement.Successor); ok {
		// It takes over what these versions have decided, as far as that still holds.
		for _, earlier := range l.known {
			to.TakeOver(ctx, earlier.evaluator)
		}
	}
	v.binding, v.evaluator, v.Bindings = binding, evaluator, binding.Bindings
	return nil
}

// deciding returns the versions of a choice that decide: that of the reached stages, and that of all other namespaces, if there is one. If
// no version decides, it returns the newest one, which is then in force in no stage.
func (l *loading) deciding(c rollout.Choice) []*version {
	switch target := l.versions[c.Target]; {
	case c.Target == rollout.Kept:
		return l.used
	case c.Target == rollout.None:
		return []*version{l.versions[rollout.Newest]}
	case c.Target == rollout.Lost:
		// Without the invalid parts of its match, the policy matches, and denies, more objects.
		spec := l.obj.Spec.WithDefaults()
		matcher, _ := match.New(spec.Match, field.NewPath("spec", "match"))
		lost := version{Revision: policy.Revision{Generation: l.obj.Generation, Spec: spec}, matcher: matcher}
		return []*version{l.lost(lost, fmt.Errorf("the policy does not compile: %w", c.Err))}
	case c.Before == rollout.Lost:
		before := *target
		before.Generation, before.stored, before.binding = l.facts.Position.Previous, false, nil
		return []*version{target, l.lost(before, c.Err)}
	case c.Before != rollout.None:
		return []*version{target, l.versions[c.Before]}
	default:
		return []*version{target}
	}
}

// lost returns v as a version that always fails with an error. Its evaluator stays the same for as long as the text of the error does.
func (l *loading) lost(v version, err error) *version {
	v.lost, v.evaluator = err, placement.NewFailing(err)
	for _, before := range l.used {
		if before.lost != nil && before.lost.Error() == err.Error() {
			v.evaluator = before.evaluator
		}
	}
	return &v
}

// stateOf returns the state of a policy in which the versions of a choice decide. The caller has to set the fields Last and Numbered.
func (l *loading) stateOf(c rollout.Choice, versions []*version) *placement.PolicyState {
	// The function stays as long as the policy is in force, so it must not refer to the load, which has what was in force before.
	target, stages, n := versions[0], l.stages, c.InForce.Reached
	reached := func(namespace string, labels map[string]string) bool { return stages.Of(namespace, labels) < n }
	if c.InForce.Complete {
		reached = nil
	}
	var out placement.PolicyState
	var staged placement.StagedVersions
	if c.Target == rollout.Kept {
		if out = *l.current; out.Staged != nil {
			staged = *out.Staged
		}
	} else {
		out.Policy, out.Binding, out.Broken = l.policyOf(versions, 0, c, reached), target.binding, target.lost != nil
		if m := target.module; m != nil {
			out.Warnings = slices.Concat(m.Warnings, target.binding.AmbiguousNames(l.Catalog))
			out.DecidesNothing, out.ModuleDigest = m.DecidesNothing(), m.RulesDigest()
		}
		if len(versions) > 1 {
			staged.Before = l.policyOf(versions, 1, c, func(namespace string, labels map[string]string) bool { return !reached(namespace, labels) })
			staged.BeforeBinding = versions[1].binding
		}
	}
	out.Err, out.Generation, out.Next = c.Err, l.obj.Generation, nil
	out.Loaded = placement.LoadedVersion{UID: l.obj.UID, Generation: l.obj.Generation}
	if l.stages != nil {
		staged.InForce, staged.Stages, staged.Candidate = c.InForce, l.stages, ""
		if newest := l.versions[rollout.Newest]; l.facts.Versions[rollout.Newest].Err == nil {
			staged.Candidate = l.facts.Digest
			if newest != target {
				out.Next = []*policy.Binding{newest.binding}
			}
		}
		out.Staged = &staged
	}
	return &out
}

// policyOf returns version i of a choice as the decider needs it, for the namespaces for which within returns true, or for all if within is
// nil. If the policy has spec.rollout, it takes remediation and rollout from the newest spec. If the version has decided the same objects
// until now, policyOf returns the same Policy, so that no object is decided again.
func (l *loading) policyOf(versions []*version, i int, c rollout.Choice, within func(string, map[string]string) bool) *placement.Policy {
	v := versions[i]
	generation, spec := v.Generation, v.Spec
	if l.stages != nil {
		generation, spec = l.obj.Generation, rollout.Effective(v.Spec, l.obj.Spec)
	}
	s := l.current
	if s != nil && (s.Staged == nil) == (l.stages == nil) && (l.stages == nil || s.Loaded.Generation == generation &&
		s.Staged.InForce == c.InForce) {
		if before := s.Versions(); i < len(before) && before[i].Generation == generation && before[i].Evaluator == v.evaluator {
			return before[i]
		}
	}
	schedules := v.module != nil && v.module.Schedules()
	return placement.NewPolicy(l.obj.Name, generation, spec, v.matcher.Within(within), v.evaluator, schedules)
}

// await returns the state that stays in force while data is incomplete that next reads, with that data in its field Next; nil if next comes
// into force now. So a version that reads more than the one before causes no denied requests.
//
// The registry has what next reads before await checks the data. Otherwise data that the version before last left behind could be
// complete at the check, and be dropped right after.
func (l *loading) await(c rollout.Choice, next *placement.PolicyState) *placement.PolicyState {
	old, until := l.current, l.until
	if !l.waits() {
		until = l.facts.Now.Add(maxWait)
	}
	// The wait of the same generation goes on although old lacks something meanwhile, as while the leader replaces the modules in a remote
	// engine. Another generation may be there to end that.
	goesOn := l.waits() && old != nil && old.Loaded.Generation == l.obj.Generation
	l.facts.Data = rollout.DataFacts{Until: until, Held: l.Settled != nil && old != nil && !slices.Equal(old.Versions(), next.Versions()) &&
		canDecide(old) && canDecide(next) && (goesOn || l.settled(old))}
	if !rollout.Choose(l.facts).Waits {
		return nil
	}
	l.until = until
	held := *old
	held.Loaded, held.Next = next.Loaded, slices.Concat(next.InForce(), next.Next)
	if staged := next.Staged; staged != nil {
		held.Staged = &placement.StagedVersions{InForce: l.facts.Kept.InForce, Candidate: staged.Candidate, Stages: staged.Stages}
		if old.Staged != nil {
			held.Staged.Before, held.Staged.BeforeBinding = old.Staged.Before, old.Staged.BeforeBinding
		}
	}
	c.Waits = true
	l.setStored(c, &held)
	if slices.ContainsFunc(held.Next, func(b *policy.Binding) bool { return !old.Reads(b) }) {
		l.Registry.Set(l.obj.Name, &held)
	}
	if l.facts.Data.Complete = l.settled(next); rollout.Choose(l.facts).Waits {
		return &held
	}
	return nil
}

// settled reports whether all data that the versions of a state read is replicated or known to be unavailable.
func (l *loading) settled(s *placement.PolicyState) bool {
	return !slices.ContainsFunc(s.InForce(), func(b *policy.Binding) bool { return !l.Settled(b) })
}

// canDecide reports whether all versions of a state can decide once their data is complete: each of them was loaded, and the API server
// serves all types that they read.
func canDecide(s *placement.PolicyState) bool {
	return !s.Broken && !slices.ContainsFunc(s.InForce(), lacksTypes)
}

// lacksTypes reports whether a version reads a type that the API server does not serve.
func lacksTypes(b *policy.Binding) bool { return len(b.Missing) > 0 }

// use records that the versions of a choice come into force, and which one counts as rollout.Earlier from now on.
func (l *loading) use(c rollout.Choice, versions []*version) {
	l.until = time.Time{}
	if c.Target == rollout.Kept {
		return
	}
	l.used = versions
	isEverywhere := c.InForce.Complete && (!l.facts.Staged || c.Target == rollout.Newest)
	target := versions[0]
	if target.lost == nil && (l.earlier == nil || isEverywhere && (len(target.binding.Missing) == 0 || len(l.earlier.binding.Missing) > 0)) {
		l.earlier = target
	}
}

// setStored sets two fields of a state, from which the leader stores versions as ControllerRevisions. Last is the newest version, to store
// under the name of the policy, if it decides in all namespaces; otherwise nil, and the version that is stored there stays. Numbered are
// the versions to store under their generations; none without spec.rollout.
func (l *loading) setStored(c rollout.Choice, s *placement.PolicyState) {
	last, numbered := l.facts.Stores(c)
	s.Last, s.Numbered = nil, nil
	if last {
		s.Last = &l.versions[rollout.Newest].Revision
	}
	if l.stages == nil {
		return
	}
	for _, v := range l.used {
		if v.lost == nil {
			s.Numbered = append(s.Numbered, &v.Revision)
		}
	}
	if newest := l.versions[rollout.Newest]; numbered && !slices.Contains(l.used, newest) {
		s.Numbered = append(s.Numbered, &newest.Revision)
	}
}

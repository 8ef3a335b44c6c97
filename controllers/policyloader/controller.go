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

// Package policyloader provides the controller that loads PlacementPolicies into this replica. It compiles each policy on its
// own, finds out what the policy reads, and puts it in force. It runs on every replica and writes nothing to the API
// server. The leader's status controller reports the results.
package policyloader

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
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
	"github.com/berth-dev/berth/internal/compilation"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/rollout"
)

// Catalog knows the types that the API server serves, and can read them from the API server again.
type Catalog interface {
	policy.Catalog
	// Invalidate requests a new discovery soon. Subscribe registers a callback for when discovery finds a change.
	Invalidate()
	Subscribe(f func())
}

// Engine prepares compiled policies for evaluation. Its methods are safe for concurrent use.
type Engine interface {
	// Check verifies that the engine provides everything that a policy refers to by name. The error is a
	// *policy.CompileError.
	Check(m *policy.Module) error
	// Prepare returns an evaluator for one policy. The controller drops it when it no longer needs it.
	Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error)
}

// missingInterval is how often the controller runs discovery while a policy reads a type that is not served. An extension
// API server can become available without a change of any object that Berth watches.
const missingInterval = 2 * time.Second

const (
	// maxWait is how long a new version waits at most for the data that it reads. The earlier version decides
	// meanwhile.
	maxWait = 30 * time.Second
	// remoteInterval is the interval at which the controller checks whether a remote engine has what a version needs. No
	// event reports that: the engine is asked when the result is needed.
	remoteInterval = 50 * time.Millisecond
	// dataInterval is the interval at which the controller checks replicated data besides the calls of DataChanged. No
	// call reports that a type failed so often that it counts as unavailable, or that maxWait is over.
	dataInterval = time.Second
)

// Deps holds the dependencies of a Controller.
type Deps struct {
	// Policies reads PlacementPolicies. The controller puts them into Registry.
	Policies client.Reader
	Registry *placement.Registry
	// Revisions reads the ControllerRevisions of policies that compiled from Namespace. It may be in another cluster than
	// the policies.
	Revisions client.Reader
	Namespace string
	// Compiler compiles within a deadline. If it is nil, there is none.
	Compiler *compilation.Compiler
	Engine   Engine
	Catalog  Catalog
	Metrics  *metrics.Metrics
	// Settled reports whether all data that a policy reads is replicated or known to be unavailable. Until then the
	// version that is in force and can decide remains in force. If it is nil, no version waits.
	Settled func(*policy.Binding) bool
}

// Controller loads PlacementPolicies into the registry. Create it with New.
type Controller struct {
	Deps
	// served receives an event when the API server serves other types than before, and data when replicated data changed
	// while a version waits.
	served, data chan event.GenericEvent

	// compiled holds the newest version of each policy that compiled. good holds the last version in force of which all
	// types were served. waiting holds the versions that wait for their data. mu guards all three. Reconciles of one
	// policy never overlap.
	mu       sync.Mutex
	compiled map[string]compiled
	good     map[string]compiled
	waiting  map[string]waiting
	// staged holds the versions of each policy that comes into force in stages.
	staged map[string][]preparedVersion

	states *stateCounts
	clock  clock.PassiveClock

	// pending holds the policies that existed at the start and are not loaded yet. It is nil before they are listed.
	pendingMu sync.Mutex
	pending   sets.Set[string]
}

// compiled is a compiled version of a policy. Its spec has the default values. Its bindings are nil before the first
// binding.
type compiled struct {
	policy.Revision
	module  *policy.Module
	matcher *match.Matcher
	// invalid lists the clauses of contract rules that can never have a valid value; nil if there are none. Such a
	// version is refused unless it is in force already.
	invalid error
}

// waiting is a version that comes into force once the data that it reads is complete, or at the time until.
type waiting struct {
	state *placement.PolicyState
	until time.Time
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{
		Deps: d, served: make(chan event.GenericEvent, 1), data: make(chan event.GenericEvent, 1),
		compiled: map[string]compiled{}, good: map[string]compiled{}, waiting: map[string]waiting{}, staged: map[string][]preparedVersion{}, states: newStateCounts(d.Metrics.Policies), clock: clock.RealClock{},
	}
	d.Catalog.Subscribe(func() { wake(c.served) })
	return c
}

// DataChanged enqueues the policies with versions that wait for their data, because the state of replicated data
// changed. It does not block.
func (c *Controller) DataChanged() {
	if len(c.waitingPolicies(context.Background(), nil)) > 0 {
		wake(c.data)
	}
}

// wake sends an event to a channel, unless an event is pending.
func wake(events chan<- event.GenericEvent) {
	select {
	case events <- event.GenericEvent{Object: &placementv1.PlacementPolicy{}}:
	default:
	}
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	definitions := &metav1.PartialObjectMetadata{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return builder.ControllerManagedBy(mgr).
		Named("policy").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(specChanged)).
		Watches(definitions, c.invalidate(), builder.OnlyMetadata).
		WatchesRawSource(source.Channel(c.served, handler.EnqueueRequestsFromMapFunc(c.allPolicies))).
		WatchesRawSource(source.Channel(c.data, handler.EnqueueRequestsFromMapFunc(c.waitingPolicies))).
		WithOptions(controller.Options{NeedLeaderElection: new(false), MaxConcurrentReconciles: Workers()}).
		Complete(c)
}

// specChanged passes events that change a policy's spec, or how far it is rolled out. It compares specs and not only generations:
// after a restore of the API server's store from a backup, two specs can have the same generation.
var specChanged = predicate.TypedFuncs[client.Object]{UpdateFunc: func(e event.UpdateEvent) bool {
	before, known := e.ObjectOld.(*placementv1.PlacementPolicy)
	after, ok := e.ObjectNew.(*placementv1.PlacementPolicy)
	return !known || !ok || before.UID != after.UID || before.Generation != after.Generation || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		rollout.PositionOf(before.Status.Rollout) != rollout.PositionOf(after.Status.Rollout)
}}

// defaultMaxStaleness is how long data may be unconfirmed if a policy does not set spec.maxStaleness. The API server
// confirms a watch without events about once a minute.
const defaultMaxStaleness = time.Minute

// Workers returns how many policies are loaded at once. Compilation keeps a processor busy, and a policy that waits for
// the API server must not block all others.
func Workers() int { return max(2, runtime.GOMAXPROCS(0)) }

// invalidate returns an event handler that requests a new discovery when a CustomResourceDefinition changes. A type
// that a policy reads may be served or not served from then on, or another group may have a type of the same name.
func (c *Controller) invalidate() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
			if !e.IsInInitialList {
				c.Catalog.Invalidate()
			}
		},
		UpdateFunc: func(context.Context, event.UpdateEvent, queue) { c.Catalog.Invalidate() },
		DeleteFunc: func(context.Context, event.DeleteEvent, queue) { c.Catalog.Invalidate() },
	}
}

func (c *Controller) allPolicies(context.Context, client.Object) []reconcile.Request {
	var out []reconcile.Request
	for name := range c.Registry.All() {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// waitingPolicies returns the policies with versions that wait for their data.
func (c *Controller) waitingPolicies(context.Context, client.Object) []reconcile.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []reconcile.Request
	for name := range c.waiting {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// +kubebuilder:rbac:groups=placement.berth.dev,resources=placementpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// Reconcile loads one policy. It takes a request instead of the object because it also removes deleted policies from
// the registry.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if err := c.expectPending(ctx); err != nil {
		return reconcile.Result{}, err
	}
	obj := &placementv1.PlacementPolicy{}
	err := c.Policies.Get(ctx, req.NamespacedName, obj)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil {
		c.forget(req.Name)
		c.loaded(req.Name)
		return reconcile.Result{}, nil
	}
	// versions ignores the versions of a deleted policy of the same name.
	known := len(c.versions(obj)) > 0
	state, err := c.load(ctx, obj)
	if err != nil {
		return reconcile.Result{}, err
	}
	state.Loaded = placement.LoadedVersion{UID: obj.UID, Generation: obj.Generation}
	waits := false
	if known {
		state, waits = c.awaitData(req.Name, state)
	}
	c.Metrics.AddPolicy(req.Name)
	if differs(c.Registry.Get(req.Name), state) {
		c.Registry.Set(req.Name, state)
		c.states.set(req.Name, stateOf(state))
	}
	c.loaded(req.Name)
	var again time.Duration
	switch {
	case waits && state.Next.Remote != nil:
		again = remoteInterval
	case waits:
		again = dataInterval
	case mayRecover(state):
		again = missingInterval
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// mayRecover reports whether the policy's state may improve without a change of any object that Berth watches. A missing
// type may be served, the leader may record what the policy's types are bound to, the cache may get a stored revision, or a
// compilation may end.
func mayRecover(s *placement.PolicyState) bool {
	_, notServed := errors.AsType[*policy.NotServedError](s.Err)
	return notServed || policy.IsAmbiguous(s.Err) || policy.IsUnfinished(s.Err) || errors.Is(s.Err, errNotStored) || slices.ContainsFunc(s.InForce(), func(b *policy.Binding) bool { return len(b.Missing) > 0 })
}

// awaitData returns the registry entry that is to be in force: next, or the current entry while the data that next reads
// is incomplete. In the second case the entry records what next waits for. A new version that reads more must not cause
// denied requests until its data is complete.
//
// The registry has what next reads before awaitData checks the data. Otherwise data that the version before last left behind could be
// complete at the check, and be dropped right after.
func (c *Controller) awaitData(name string, next *placement.PolicyState) (state *placement.PolicyState, waits bool) {
	old := c.Registry.Get(name)
	mayWait := c.Settled != nil && old != nil && old.Policy != next.Policy && bound(old) && bound(next) && c.Settled(old.Binding)
	if !c.wait(name, next, mayWait) {
		return next, false
	}
	held := *old
	held.Next, held.Loaded = next.Binding, next.Loaded
	held.Staged = heldStages(old.Staged, next.Staged)
	if !old.Reads(next.Binding) {
		c.Registry.Set(name, &held)
	}
	if c.Settled(next.Binding) {
		c.wait(name, next, false)
		return next, false
	}
	return &held, true
}

// wait records whether a version waits for its data. It returns false if it does not, or has waited for too long.
func (c *Controller) wait(name string, next *placement.PolicyState, waits bool) bool {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	w, waited := c.waiting[name]
	if !waited {
		w.until = now.Add(maxWait)
	}
	if !waits || !now.Before(w.until) {
		delete(c.waiting, name)
		return false
	}
	w.state = next
	c.waiting[name] = w
	return true
}

// bound reports whether the policy of a registry entry can decide once its data is complete.
func bound(s *placement.PolicyState) bool { return !s.Broken && len(s.Binding.Missing) == 0 }

// load compiles and binds a policy. If that fails, it falls back to an earlier version that compiled and whose types
// are served. An error means that the caller must retry.
func (c *Controller) load(ctx context.Context, obj *placementv1.PlacementPolicy) (*placement.PolicyState, error) {
	known := len(c.versions(obj)) > 0
	next, binding, reason, err := c.candidate(ctx, obj)
	if err != nil {
		return nil, err
	}
	if obj.Spec.Rollout != nil {
		return c.loadStaged(ctx, obj, next, binding, reason)
	}
	if reason == nil {
		return c.putInForce(ctx, obj, next, binding)
	}
	state, err := c.fallBack(ctx, obj, reason, binding == nil)
	if state != nil || err != nil {
		return state, err
	}
	if binding != nil {
		return c.putInForce(ctx, obj, next, binding)
	}
	if state := c.Registry.Get(obj.Name); state != nil && !state.Broken && known {
		// The version in force compiles but can't be bound any more. It remains in force with its bindings.
		kept := *state
		kept.Generation, kept.Err, kept.Next = obj.Generation, reason, nil
		return &kept, nil
	}
	return broken(obj, reason), nil
}

// candidate returns the newest version of a policy with its binding. reason says why it can't decide; nil if it can. If it only
// reads types that are not served, it has a binding all the same. An error means that the caller must retry.
func (c *Controller) candidate(ctx context.Context, obj *placementv1.PlacementPolicy) (next compiled, binding *policy.Binding, reason, err error) {
	if next, reason, err = c.newest(ctx, obj); err != nil {
		return next, nil, nil, err
	}
	if reason == nil && next.invalid != nil {
		inForce, err := c.regoInForce(ctx, obj)
		if err != nil {
			return next, nil, nil, err
		}
		if !inForce {
			reason = next.invalid
		}
	}
	if reason != nil {
		return next, nil, reason, nil
	}
	binding, err = c.bindNewest(ctx, obj, next)
	if _, refused := errors.AsType[*policy.CompileError](err); refused {
		return next, nil, err, nil
	}
	if err != nil {
		return next, nil, nil, err
	}
	next.Bindings = binding.Bindings
	if len(binding.Missing) > 0 {
		c.remember(obj, next, false)
		return next, binding, &policy.NotServedError{Missing: binding.Missing}, nil
	}
	return next, binding, nil, nil
}

// newest returns the compiled newest version of a policy. It compiles the version unless that was done before. reason says why the
// version does not compile. An error means that the caller must retry.
func (c *Controller) newest(ctx context.Context, obj *placementv1.PlacementPolicy) (version compiled, reason, err error) {
	for _, known := range c.versions(obj) {
		if known.Generation == obj.Generation && equality.Semantic.DeepEqual(known.Spec, obj.Spec.WithDefaults()) {
			return known, nil, nil
		}
	}
	version, reason = c.compile(ctx, obj.Name, policy.Revision{UID: obj.UID, Generation: obj.Generation, Spec: obj.Spec})
	return version, reason, ctx.Err()
}

// fallBack puts an earlier version in force because of an error of the newest one. It returns nil if there is none.
// Among the versions that this replica knows, it prefers the last one of which all types are served. If anyhow is true,
// the newest version can't be in force at all, and any version that compiled will do.
func (c *Controller) fallBack(ctx context.Context, obj *placementv1.PlacementPolicy, reason error, anyhow bool) (*placement.PolicyState, error) {
	candidates := slices.DeleteFunc(c.versions(obj), func(v compiled) bool { return v.Generation == obj.Generation })
	if len(candidates) == 0 {
		kept, ok, err := c.storedVersion(ctx, obj)
		if err != nil {
			return nil, err
		}
		if ok {
			candidates = append(candidates, kept)
		}
	}
	for _, complete := range []bool{true, false} {
		for _, v := range candidates {
			binding, err := c.bind(ctx, obj.Name, v)
			if err != nil || (len(binding.Missing) > 0) == complete {
				continue
			}
			state, err := c.putInForce(ctx, obj, v, binding)
			if err != nil {
				continue
			}
			state.Generation, state.Err = obj.Generation, reason
			return state, nil
		}
		if !anyhow {
			break
		}
	}
	return nil, nil
}

// bindNewest binds a version to the groups that its source was bound to before, in this replica or in another one, as
// the leader recorded it.
func (c *Controller) bindNewest(ctx context.Context, obj *placementv1.PlacementPolicy, text compiled) (*policy.Binding, error) {
	if text.Bindings == nil && text.module.ReadsByPluralOnly() {
		var err error
		if text.Bindings, err = c.recorded(ctx, obj, text.module); err != nil {
			return nil, err
		}
	}
	return c.bind(ctx, obj.Name, text)
}

// recorded returns the bindings that are recorded for a policy's source. It returns nil for a source that was never
// bound.
func (c *Controller) recorded(ctx context.Context, obj *placementv1.PlacementPolicy, text *policy.Module) (policy.Bindings, error) {
	for _, known := range c.versions(obj) {
		if known.Bindings != nil && policy.SameRegoAndReplicate(known.Spec, obj.Spec) {
			return known.Bindings, nil
		}
	}
	revision, ok, err := c.revision(ctx, obj)
	if err != nil || !ok || !policy.SameRegoAndReplicate(revision.Spec, obj.Spec) {
		return nil, err
	}
	return bindingsOf(revision, obj, text), nil
}

// bindingsOf returns the bindings of a stored revision. Older versions of Berth recorded bindings only in the policy's
// status.
func bindingsOf(revision policy.Revision, obj *placementv1.PlacementPolicy, text *policy.Module) policy.Bindings {
	if revision.Bindings != nil {
		return revision.Bindings
	}
	return text.BindingsFromStatus(obj.Status.Dependencies)
}

// compile compiles one generation of a policy. If only spec.match is invalid, it returns a result besides the error.
// That result leaves out the invalid parts of the match, so it matches more objects and never fewer.
func (c *Controller) compile(ctx context.Context, name string, source policy.Revision) (compiled, error) {
	out := compiled{Revision: source}
	out.Spec = source.Spec.WithDefaults()
	var err error
	out.module, err = c.Compiler.Compile(ctx, name, out.Spec)
	if errors.Is(err, compilation.ErrBusy) {
		err = policy.Unfinished(name, out.Spec, err.Error()+"; Berth tries again")
	}
	if err != nil {
		if list, ok := errors.AsType[*policy.CompileError](err); !ok || !list.ContractOnly() {
			return compiled{}, err
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
func (c *Controller) regoInForce(ctx context.Context, obj *placementv1.PlacementPolicy) (bool, error) {
	spec := obj.Spec.WithDefaults()
	if versions := c.versions(obj); len(versions) > 0 {
		return slices.ContainsFunc(versions, func(v compiled) bool { return policy.SameRegoAndData(v.Spec, spec) }), nil
	}
	revision, ok, err := c.revision(ctx, obj)
	return ok && policy.SameRegoAndData(revision.Spec.WithDefaults(), spec), err
}

var matchPath = field.NewPath("spec", "match")

// revision returns the last version of a policy that was in force everywhere, as the leader stored it. ok is false if there is none.
func (c *Controller) revision(ctx context.Context, obj *placementv1.PlacementPolicy) (revision policy.Revision, ok bool, err error) {
	return c.readRevision(ctx, obj, policy.RevisionName(obj.Name))
}

// readRevision returns the version of a policy in a stored object. ok is false if there is none.
func (c *Controller) readRevision(ctx context.Context, obj *placementv1.PlacementPolicy, name string) (revision policy.Revision, ok bool, err error) {
	object := &appsv1.ControllerRevision{}
	if err := c.Revisions.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, object); err != nil {
		return policy.Revision{}, false, client.IgnoreNotFound(err)
	}
	revision, err = policy.DecodeRevision(object.Data.Raw)
	// Ignore a revision that can't be decoded or that belongs to another policy.
	return revision, err == nil && revision.UID == obj.UID, nil
}

// storedVersion returns the last version that compiled before this replica started. It returns false if none is stored
// or it does not compile any more.
func (c *Controller) storedVersion(ctx context.Context, obj *placementv1.PlacementPolicy) (compiled, bool, error) {
	revision, ok, err := c.revision(ctx, obj)
	if err != nil || !ok || revision.Generation >= obj.Generation {
		// A revision that is not older than the newest version, which can't be in force, does not help.
		return compiled{}, false, err
	}
	// This version of Berth may refuse a source that an older one accepted.
	out, _ := c.compile(ctx, obj.Name, revision)
	if out.module == nil {
		return compiled{}, false, nil
	}
	out.Bindings = bindingsOf(revision, obj, out.module)
	return out, true, nil
}

// putInForce returns the registry entry for a compiled version and its binding.
func (c *Controller) putInForce(ctx context.Context, obj *placementv1.PlacementPolicy, text compiled, binding *policy.Binding) (*placement.PolicyState, error) {
	// After a restore of the API server's store from a backup, two sources can have the same generation.
	known := slices.ContainsFunc(c.versions(obj), func(v compiled) bool { return v.module == text.module })
	text.Bindings = binding.Bindings
	c.remember(obj, text, len(binding.Missing) == 0)
	warnings := slices.Concat(text.module.Warnings, binding.AmbiguousNames(c.Catalog))
	if known {
		for _, old := range c.prepared(obj.Name) {
			if old.Policy.Generation == text.Generation && reflect.DeepEqual(old.Binding, binding) {
				same := *old
				same.Generation, same.Err, same.Next, same.Warnings = obj.Generation, text.invalid, nil, warnings
				return &same, nil
			}
		}
	}
	evaluator, err := c.evaluatorOf(ctx, obj.Name, text.module, binding)
	if err != nil {
		return nil, err
	}
	return &placement.PolicyState{
		Policy:     placement.NewPolicy(obj.Name, text.Generation, text.Spec, text.matcher, evaluator, text.module.Schedules()),
		Generation: obj.Generation,
		Err:        text.invalid,
		Binding:    binding,
		Warnings:   warnings,

		DecidesNothing: text.module.DecidesNothing(),
		ModuleDigest:   text.module.RulesDigest(),
	}, nil
}

// evaluatorOf prepares the evaluator of a version. It takes over what the versions before have decided, as far as that still holds.
func (c *Controller) evaluatorOf(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	out, err := c.Engine.Prepare(ctx, name, m, b)
	if next, ok := out.(placement.Successor); ok && err == nil {
		for _, state := range c.prepared(name) {
			for _, earlier := range state.Versions() {
				next.TakeOver(ctx, earlier.Evaluator)
			}
		}
	}
	return out, err
}

func (c *Controller) bind(ctx context.Context, name string, text compiled) (*policy.Binding, error) {
	if err := c.Engine.Check(text.module); err != nil {
		return nil, err
	}
	binding, err := policy.BindToCurrent(ctx, name, text.module, text.Spec.Replicate, c.Catalog, text.Bindings)
	if err == nil && text.module.Nodes {
		binding.PredicateReads = predicates.Reads()
	}
	if err == nil {
		binding.MaxStaleness = defaultMaxStaleness
		if text.Spec.MaxStaleness != nil {
			binding.MaxStaleness = text.Spec.MaxStaleness.Duration
		}
	}
	return binding, err
}

// broken returns the registry entry of a policy of which no version ever compiled.
func broken(obj *placementv1.PlacementPolicy, err error) *placement.PolicyState {
	spec := obj.Spec.WithDefaults()
	// The errors of the match were reported before. Without the invalid parts the policy matches, and denies, more
	// objects.
	matcher, _ := match.New(spec.Match, matchPath)
	return &placement.PolicyState{
		Policy:     placement.NewPolicy(obj.Name, obj.Generation, spec, matcher, placement.NewFailing(fmt.Errorf("the policy does not compile: %w", err)), false),
		Generation: obj.Generation,
		Err:        err,
		Broken:     true,
	}
}

// differs reports whether subscribers must be notified of a new registry entry. Entries of the same generation in force
// share the Policy pointer.
func differs(old, next *placement.PolicyState) bool {
	if old == nil {
		return true
	}
	if old.Broken && next.Broken {
		return old.Loaded != next.Loaded || old.Err.Error() != next.Err.Error()
	}
	return old.Policy != next.Policy || old.Loaded != next.Loaded || old.Next != next.Next || !sameStages(old.Staged, next.Staged) || old.Generation != next.Generation || (old.Err == nil) != (next.Err == nil) || !slices.Equal(old.Warnings, next.Warnings)
}

// prepared returns a policy's registry entry, unless it is broken, and the entry that waits for its data.
func (c *Controller) prepared(name string) []*placement.PolicyState {
	var out []*placement.PolicyState
	if s := c.Registry.Get(name); s != nil && !s.Broken {
		out = append(out, s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.waiting[name]; ok {
		out = append(out, w.state)
	}
	return out
}

// versions returns the versions of a policy that this replica knows: the last one in force of which all types were
// served, and the newest one that compiled, if it is another one.
func (c *Controller) versions(obj *placementv1.PlacementPolicy) []compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []compiled
	for _, all := range []map[string]compiled{c.good, c.compiled} {
		// A policy that was deleted and created again under the same name has no earlier versions.
		if v, ok := all[obj.Name]; ok && v.UID == obj.UID && !slices.ContainsFunc(out, func(o compiled) bool { return o.module == v.module }) {
			out = append(out, v)
		}
	}
	return out
}

// remember stores a compiled version. complete means that the version is in force and that all types that it reads are
// served.
func (c *Controller) remember(obj *placementv1.PlacementPolicy, text compiled, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text.Generation == obj.Generation || !complete {
		c.compiled[obj.Name] = text
	}
	if complete {
		c.good[obj.Name] = text
	}
}

func (c *Controller) forget(name string) {
	c.mu.Lock()
	delete(c.compiled, name)
	delete(c.good, name)
	delete(c.waiting, name)
	delete(c.staged, name)
	c.mu.Unlock()
	if c.Registry.Get(name) != nil {
		c.Registry.Remove(name)
	}
	c.Metrics.ForgetPolicy(name)
	c.states.set(name, "")
}

func stateOf(state *placement.PolicyState) string {
	switch {
	case state.Broken:
		return metrics.StateBroken
	case state.Err != nil:
		return metrics.StateLastGood
	default:
		return metrics.StateInForce
	}
}

// stateCounts counts policies by state and publishes the counts. It is safe for concurrent use.
type stateCounts struct {
	publish func(byState map[string]int)

	mu      sync.Mutex
	states  map[string]string
	byState map[string]int
}

func newStateCounts(publish func(byState map[string]int)) *stateCounts {
	return &stateCounts{publish: publish, states: map[string]string{}, byState: map[string]int{}}
}

// set records the state of a policy. An empty state removes the policy.
func (t *stateCounts) set(policy, state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, known := t.states[policy]; known {
		t.byState[before]--
	}
	if state == "" {
		delete(t.states, policy)
	} else {
		t.states[policy] = state
		t.byState[state]++
	}
	t.publish(t.byState)
}

// expectPending lists, once, the policies that must be loaded before this replica may decide.
//
// It lists without holding the lock. A list waits until the cache is filled, and a caller that waited for the lock
// could not give up at its own deadline. If several lists run at once, the first to finish counts. It may be older than
// the others: every policy in it is still to be loaded, because no policy is loaded before a list has finished.
func (c *Controller) expectPending(ctx context.Context) error {
	if c.expected() {
		return nil
	}
	list := &placementv1.PlacementPolicyList{}
	if err := c.Policies.List(ctx, list); err != nil {
		return fmt.Errorf("listing policies: %w", err)
	}
	names := sets.New[string]()
	for _, p := range list.Items {
		names.Insert(p.Name)
	}
	c.pendingMu.Lock()
	defer c.pendingMu.Unlock()
	if c.pending == nil {
		c.pending = names
	}
	return nil
}

// expected reports whether expectPending has listed the policies.
func (c *Controller) expected() bool {
	c.pendingMu.Lock()
	defer c.pendingMu.Unlock()
	return c.pending != nil
}

func (c *Controller) loaded(name string) {
	c.pendingMu.Lock()
	defer c.pendingMu.Unlock()
	c.pending.Delete(name)
}

// Loaded reports whether every policy that existed when this replica started has been processed.
func (c *Controller) Loaded(ctx context.Context) bool {
	if err := c.expectPending(ctx); err != nil {
		return false
	}
	c.pendingMu.Lock()
	defer c.pendingMu.Unlock()
	return len(c.pending) == 0
}

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
	"runtime"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
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

	// mu guards what follows. entries has what this replica keeps of each policy; it is nil before the policies are listed that existed at
	// the start. waiting is the number of entries that wait for data, and byState the number in each state.
	mu      sync.Mutex
	entries map[string]entry
	waiting int
	byState map[string]int

	clock clock.PassiveClock
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{
		Deps: d, served: make(chan event.GenericEvent, 1), data: make(chan event.GenericEvent, 1),
		byState: map[string]int{}, clock: clock.RealClock{},
	}
	d.Catalog.Subscribe(func() { wake(c.served) })
	return c
}

// DataChanged enqueues the policies with versions that wait for their data, because the state of replicated data
// changed. It does not block.
func (c *Controller) DataChanged() {
	c.mu.Lock()
	waiting := c.waiting
	c.mu.Unlock()
	if waiting > 0 {
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
	for name, e := range c.entries {
		if e.next != nil {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
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
		return reconcile.Result{}, nil
	}
	state, waits, err := c.newLoading(obj).run(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.Metrics.AddPolicy(req.Name)
	if differs(c.Registry.Get(req.Name), state) {
		c.Registry.Set(req.Name, state)
	}
	c.update(req.Name, func(e *entry) { e.state, e.pending = stateOf(state), false })
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
	return notServed || policy.IsAmbiguous(s.Err) || policy.IsUnfinished(s.Err) || errors.Is(s.Err, rollout.ErrNotStored) || slices.ContainsFunc(s.InForce(), func(b *policy.Binding) bool { return len(b.Missing) > 0 })
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

// sameStages reports whether two states have the same rollout.
func sameStages(old, next *placement.StagedVersions) bool {
	if old == nil || next == nil {
		return old == next
	}
	return old.InForce == next.InForce && old.Candidate == next.Candidate && old.Before == next.Before
}

func (c *Controller) entryOf(name string) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[name]
}

// update changes the entry of a policy, and counts.
func (c *Controller) update(name string, change func(*entry)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, after := c.entries[name], c.entries[name]
	change(&after)
	c.entries[name] = after
	if after.uid == "" && !after.pending {
		delete(c.entries, name)
	}
	switch waited := before.next != nil; {
	case waited && after.next == nil:
		c.waiting--
	case !waited && after.next != nil:
		c.waiting++
	}
	if before.state != after.state {
		c.byState[before.state]--
		c.byState[after.state]++
		// A policy that was never loaded has no state.
		delete(c.byState, "")
		c.Metrics.Policies(c.byState)
	}
}

func (c *Controller) forget(name string) {
	c.update(name, func(e *entry) { *e = entry{} })
	if c.Registry.Get(name) != nil {
		c.Registry.Remove(name)
	}
	c.Metrics.ForgetPolicy(name)
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

// expectPending lists, once, the policies that must be loaded before this replica may decide.
//
// It lists without holding the lock. A list waits until the cache is filled, and a caller that waited for the lock
// could not give up at its own deadline. If several lists run at once, the first to finish counts. It may be older than
// the others: every policy in it is still to be loaded, because no policy is loaded before a list has finished.
func (c *Controller) expectPending(ctx context.Context) error {
	if c.isListed() {
		return nil
	}
	list := &placementv1.PlacementPolicyList{}
	if err := c.Policies.List(ctx, list); err != nil {
		return fmt.Errorf("listing policies: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]entry{}
		for _, p := range list.Items {
			c.entries[p.Name] = entry{pending: true}
		}
	}
	return nil
}

func (c *Controller) isListed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries != nil
}

// Loaded reports whether every policy that existed when this replica started has been processed.
func (c *Controller) Loaded(ctx context.Context) bool {
	if err := c.expectPending(ctx); err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if e.pending {
			return false
		}
	}
	return true
}

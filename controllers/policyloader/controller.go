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
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// dataInterval is the interval at which the controller checks whether the data of a version that waits are complete. It becomes
	// longer with the wait.
	dataInterval = 50 * time.Millisecond
	// defaultMaxStaleness is how long data may be unconfirmed if a policy does not set spec.maxStaleness. The API server
	// confirms a watch without events about once a minute.
	defaultMaxStaleness = time.Minute
)

// Deps holds the dependencies of a Controller.
type Deps struct {
	// Policies reads PlacementPolicies. The controller puts them into Registry.
	Policies client.Reader
	Registry *placement.Registry
	// Revisions reads the ControllerRevisions of policies that compiled from Namespace. It may be in another cluster than the policies.
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
	clock clock.PassiveClock

	// loaded reports whether all policies were loaded that existed at some time after the start.
	loaded atomic.Bool
	// entries has the entry of each policy by name.
	entries sync.Map
}

// New returns a controller.
func New(d Deps) *Controller {
	return &Controller{Deps: d, clock: clock.RealClock{}}
}

// SetupWithManager adds the controller to a manager.
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

// positionChanged passes updates that change how far a policy is rolled out, or replace it by another one of the same name.
var positionChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*placementv1.PlacementPolicy), e.ObjectNew.(*placementv1.PlacementPolicy)
	return before.UID != after.UID || rollout.PositionOf(before.Status.Rollout) != rollout.PositionOf(after.Status.Rollout)
}}

// Workers returns how many policies are loaded at once. Compilation keeps a processor busy, and a policy that waits for
// the API server must not block all others.
func Workers() int { return max(2, runtime.GOMAXPROCS(0)) }

// +kubebuilder:rbac:groups=placement.berth.dev,resources=placementpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// Reconcile loads one policy. It takes a request instead of the object because it also removes deleted policies from the registry.
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
	if before := c.Registry.Get(req.Name); before == nil || !slices.Equal(before.Versions(), state.Versions()) || !reflect.DeepEqual(before, state) {
		// States that decide alike share their policies. Others are not compared further, because evaluators change.
		c.Registry.Set(req.Name, state)
	}
	c.entries.Store(req.Name, l.entry)
	return reconcile.Result{RequeueAfter: l.again(state)}, nil
}

// again returns after which time a policy has to be loaded again although no object changes that Berth watches; 0 for never.
func (l *loading) again(s *placement.PolicyState) time.Duration {
	lacksTypes := func(b *policy.Binding) bool { return len(b.Missing) > 0 }
	_, notServed := errors.AsType[*policy.NotServedError](s.Err)
	switch {
	case l.waits():
		waited := maxWait - l.until.Sub(l.facts.Now)
		return max(dataInterval, waited/10)
	case notServed, policy.IsAmbiguous(s.Err), policy.IsUnfinished(s.Err), errors.Is(s.Err, rollout.ErrNotStored), slices.ContainsFunc(s.InForce(), lacksTypes):
		// A missing type may be served, the leader may record what the policy's types are bound to, a compilation may end, or the cache
		// may get a stored revision.
		return missingInterval
	}
	return 0
}

// entryOf returns what this replica keeps of a policy.
func (c *Controller) entryOf(name string) (out entry) {
	if kept, known := c.entries.Load(name); known {
		out = kept.(entry)
	}
	return out
}

// Loaded reports whether every policy that existed when this replica started has been processed.
func (c *Controller) Loaded(ctx context.Context) bool {
	if c.loaded.Load() {
		return true
	}
	list := &placementv1.PlacementPolicyList{}
	if err := c.Policies.List(ctx, list); err != nil {
		return false
	}
	if !slices.ContainsFunc(list.Items, func(p placementv1.PlacementPolicy) bool { return c.entryOf(p.Name).uid == "" }) {
		c.loaded.Store(true)
	}
	return c.loaded.Load()
}

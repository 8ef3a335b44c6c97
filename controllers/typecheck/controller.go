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

// Package typecheck provides the controller that checks the types of PlacementPolicies against the schemas that the API
// server publishes. It repeats a check when those schemas change. It runs on the leader and writes nothing to the API
// server; the status controller reads the results with Controller.State.
package typecheck

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

const (
	// pollPeriod is the interval between two reads of the index of published schemas. Extension API servers publish
	// schemas without a change of any object that could be watched.
	pollPeriod = 30 * time.Second
	// retryPeriod is the delay before a check is repeated that failed, for example because schemas could not be read.
	retryPeriod = 10 * time.Second
	// comparePeriod is the interval after which a policy is compared again with the namespaces and clusters that there are. They
	// change all the time, and what a policy decides does not depend on the comparison.
	comparePeriod = 5 * time.Minute
	// recentPeriod is how old the clusters, nodes, quotas, and definitions may be with which policies are compared again: all policies are
	// compared at about the same time after a change of the served types.
	recentPeriod = time.Minute
	// namespaceDelay is how long changes of namespaces are collected before policies are compared with them.
	namespaceDelay = 2 * time.Second
	// comparison is the namespace of requests to have Finder look at a policy again (see compare).
	comparison = "comparison"
)

// publishDelays are the times after a change of a CustomResourceDefinition at which the index is read. The API server
// publishes the schema a while after it serves the type, and policies are often applied together with their types.
var publishDelays = []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}

// poll is the request for the periodic read of the index of schemas. A request with a namespace and without a name reads it once.
var poll = reconcile.Request{}

// pollAfterChange enqueues reads of the index of schemas, one after each of publishDelays, after a change of a CustomResourceDefinition.
func pollAfterChange(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, delay := range publishDelays {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: delay.String()}}, delay)
	}
}

// Deps holds the dependencies of a Controller: what it reads policies and schemas from, how policies in force are bound to API groups, what
// finds other mistakes, and what it calls after a check.
type Deps struct {
	Client  client.Reader
	Checker *schemas.Checker
	// Bound returns the API groups to which a generation of a policy binds the types that it reads, or nil if that generation is not in force.
	Bound func(name string, uid types.UID, generation int64) policy.Bindings
	// Finder finds what else is probably wrong with a policy. If it is nil, only types are checked.
	Finder *findings.Finder
	Clock  clock.PassiveClock
	// Changed is called with a policy after each check of it, and after each compare that finds something else. It must not block.
	Changed func(policy string)
}

// Controller checks the types of policies, and finds what else is probably wrong with them. Create it with New. Its methods are safe for
// concurrent use.
type Controller struct {
	Deps

	mu      sync.Mutex
	checked map[string]checked // By policy, the result of its last check; none for a policy that does not compile.
	// unbound has the names of the policies that can't be checked yet: they name a type that several API groups have, and are not loaded, so
	// that it is not known which group they read.
	unbound sets.Set[string]
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request] // Nil before the controller is started.
	served  notify.Signal                                           // ServedChanged notifies it: Reconcile checks all in checked again.
	// recent caches, for recentPeriod each, the clusters, scores, nodes, quotas, and paths of replicas that comparisons (see compare) read
	// from the API server.
	recent recent
}

// checked is the result of the check of one generation of a policy: that of the type checker, or why it failed, and the findings of Finder.
type checked struct {
	uid        types.UID
	generation int64
	report     *schemas.Report    // The findings of the type checker; nil if err is set.
	others     []findings.Finding // The findings of Finder.
	namespaces bool               // Whether others depends on which namespaces exist.
	err        error              // Why the types could not be checked, which is tried again after retryPeriod; nil if they were.
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, checked: map[string]checked{}, unbound: sets.New[string](), served: notify.NewSignal()}
	if d.Finder != nil {
		c.recent = recent{source: d.Finder, clock: d.Clock, paths: map[schema.GroupVersionResource]kept[replicasPath]{}}
	}
	return c
}

// ServedChanged has all policies with a result of a check checked again, because the API server serves other types than before.
func (c *Controller) ServedChanged() { c.served.Notify() }

// PolicyLoaded enqueues the check of a policy if its last check could not tell which of several API groups it reads a type of, since that
// may be known now. It does nothing for any other policy.
func (c *Controller) PolicyLoaded(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil && c.unbound.Has(name) {
		c.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}

// State returns the result of the check of a generation of a policy, or nil if that generation is not checked yet.
func (c *Controller) State(name string, uid types.UID, generation int64) *status.TypeState {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.checked[name]
	if !ok || known.uid != uid || known.generation != generation {
		return nil
	}
	out := &status.TypeState{Err: known.err, Others: known.others}
	if known.report != nil {
		out.Result = known.report.Result
	}
	return out
}

// SetupWithManager adds the controller to a manager, in which it runs on the leader. It checks a policy when its spec changes, and all
// policies when the API server serves other types. It reads the index of schemas at each pollPeriod, and after changes of
// CustomResourceDefinitions.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	definitions := &metav1.PartialObjectMetadata{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	polls := handler.TypedFuncs[client.Object, reconcile.Request]{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			pollAfterChange(q)
		},
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			pollAfterChange(q)
		},
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			pollAfterChange(q)
		},
	}
	return builder.ControllerManagedBy(mgr).
		Named("typecheck").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(definitions, polls, builder.OnlyMetadata).
		WatchesRawSource(watches.OnSignal(c.served, c.allPolicies)).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			c.mu.Lock()
			c.queue = queue
			c.mu.Unlock()
			queue.AddAfter(poll, pollPeriod)
			return nil
		})).
		Complete(c)
}

// allPolicies returns a request to check each policy in checked again.
func (c *Controller) allPolicies(context.Context, client.Object) []reconcile.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]reconcile.Request, 0, len(c.checked))
	for name := range c.checked {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// Reconcile checks one policy, compares one (see compare), or checks all policies whose schemas changed, as the request says.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		result, err := c.poll(ctx)
		if req != poll {
			result = reconcile.Result{}
		}
		return result, err
	}
	if req.Namespace == comparison {
		return reconcile.Result{}, c.compare(ctx, req.Name)
	}
	return c.check(ctx, req.Name)
}

// poll reads the index of schemas, and checks the policies whose schemas have changed. If the index can't be read, it checks none, and
// returns no error. The result asks for the next call after pollPeriod.
func (c *Controller) poll(ctx context.Context) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: pollPeriod}
	c.mu.Lock()
	known := len(c.checked)
	c.mu.Unlock()
	if known == 0 {
		return again, nil
	}
	index, err := c.Checker.Index()
	if err != nil {
		return again, nil //nolint:nilerror // The next poll asks again; policies are checked with the schemas of before.
	}
	for _, name := range c.outdated(index) {
		if _, err := c.check(ctx, name); err != nil {
			return reconcile.Result{}, err
		}
	}
	return again, nil
}

// outdated returns the policies that were checked with a schema of which the index has another version, or none any more, and those whose
// check lacked a schema that the index has now.
func (c *Controller) outdated(index schemas.Index) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for name, known := range c.checked {
		if known.report != nil && known.report.Outdated(index) {
			out = append(out, name)
		}
	}
	return out
}

// check checks the policy with a name, stores the result for State, and calls Changed. It drops the result of a policy that does not exist
// or does not compile. If the types can't be checked, it returns no error, and a result that asks for another check after retryPeriod.
func (c *Controller) check(ctx context.Context, name string) (reconcile.Result, error) {
	obj := &placementv1.PlacementPolicy{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.checked, name)
		c.unbound.Delete(name)
		return reconcile.Result{}, nil
	}
	report, err := c.Checker.Check(ctx, name, obj.Spec.WithDefaults(), c.Bound(name, obj.UID, obj.Generation))
	next := checked{uid: obj.UID, generation: obj.Generation, report: report, err: err}
	var unfound error
	next.others, next.namespaces, unfound = c.find(ctx, obj)
	c.mu.Lock()
	if known := c.checked[name]; unfound != nil && known.uid == obj.UID && known.generation == obj.Generation {
		// What was found before stays.
		next.others, next.namespaces = known.others, known.namespaces
	}
	if c.unbound.Delete(name); policy.IsAmbiguous(err) {
		c.unbound.Insert(name)
	}
	_, broken := errors.AsType[*policy.CompileError](err)
	if broken {
		// The Compiled condition reports the error. A policy with an ambiguous reference stays in unbound: it may be
		// bound but not loaded yet.
		delete(c.checked, name)
	} else {
		c.checked[name] = next
	}
	c.mu.Unlock()
	c.Changed(name)
	if broken && !policy.IsAmbiguous(err) && !policy.IsUnfinished(err) {
		// Only another version of the policy can compile.
		return reconcile.Result{}, nil
	}
	if err != nil || unfound != nil {
		return reconcile.Result{RequeueAfter: retryPeriod}, nil //nolint:nilerror // It is told in the policy's status.
	}
	c.compareLater(name, wait.Jitter(comparePeriod, 0.1))
	return reconcile.Result{}, nil
}

// find returns the findings of Finder in a policy. The result namespaces reports whether they depend on which namespaces exist. For a
// generation that was checked before, or an older policy that was not, what find reads from the API server may be as old as recentPeriod.
// An error may pass.
func (c *Controller) find(ctx context.Context, obj *placementv1.PlacementPolicy) (list []findings.Finding, namespaces bool, err error) {
	if c.Finder == nil {
		return nil, false, nil
	}
	c.mu.Lock()
	known, ok := c.checked[obj.Name]
	c.mu.Unlock()
	// After a start, all policies are compared.
	isOld := !ok && c.Clock.Since(obj.CreationTimestamp.Time) > recentPeriod
	finder := c.finder(isOld || known.uid == obj.UID && known.generation == obj.Generation)
	return finder.All(ctx, obj.Name, obj.Spec, c.Bound(obj.Name, obj.UID, obj.Generation))
}

// finder returns a copy of Finder, which must not be nil. If isRecent is set, the copy reads from recent instead of the API server:
// clusters, scores, nodes, quotas, and the fields that scale subresources set.
func (c *Controller) finder(isRecent bool) *findings.Finder {
	out := *c.Finder
	if !isRecent {
		return &out
	}
	out.Clusters, out.Scales = &c.recent, &c.recent
	if out.Scores != nil {
		out.Scores = recentScores{&c.recent}
	}
	if out.Nodes != nil {
		out.Nodes = recentNodes{&c.recent}
	}
	if out.Quotas != nil {
		out.Quotas = recentQuotas{&c.recent}
	}
	return &out
}

// compareLater enqueues a comparison (see compare) of the policy with a name, after the duration after. Without a Finder, and before the
// controller is started, it does nothing.
func (c *Controller) compareLater(name string, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil && c.Finder != nil {
		c.queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: comparison, Name: name}}, after)
	}
}

// compare has Finder look at a policy again, because its findings depend on existing objects such as namespaces and clusters. If they
// differ from those of the last check of this generation, it stores them, and calls Changed. It enqueues the next comparison. It does not
// check types.
func (c *Controller) compare(ctx context.Context, name string) error {
	obj := &placementv1.PlacementPolicy{}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: name}, obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	others, namespaces, err := c.find(ctx, obj)
	if err != nil {
		// What was found before stays.
		c.compareLater(name, retryPeriod)
		return nil //nolint:nilerror // It is tried again.
	}
	c.mu.Lock()
	known, ok := c.checked[name]
	ok = ok && known.uid == obj.UID && known.generation == obj.Generation
	changed := ok && !slices.Equal(known.others, others)
	if ok {
		known.others, known.namespaces = others, namespaces
		c.checked[name] = known
	}
	c.mu.Unlock()
	if changed {
		c.Changed(name)
	}
	c.compareLater(name, wait.Jitter(comparePeriod, 0.1))
	return nil
}

// NamespaceChanged enqueues comparisons of the policies whose findings depend on which namespaces exist. before and after are the labels of
// a namespace; nil means that it did not, or does not, exist.
func (c *Controller) NamespaceChanged(_ string, before, after map[string]string) {
	if maps.Equal(before, after) && (before == nil) == (after == nil) {
		return
	}
	c.mu.Lock()
	var names []string
	for name, known := range c.checked {
		if known.namespaces {
			names = append(names, name)
		}
	}
	c.mu.Unlock()
	for _, name := range names {
		c.compareLater(name, namespaceDelay)
	}
}

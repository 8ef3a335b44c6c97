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

// Package policystatus provides the controller that writes the status of PlacementPolicies. It is the only writer of
// that status. It runs on the leader.
//
// The controller collects Facts. Compute returns a new status for them, and does not write it. Equal facts give an equal status, so the
// controller skips writes that change nothing.
package policystatus

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

// Pusher pushes data and modules to remote engines, and knows how far that is and why it fails.
type Pusher interface {
	// State returns the state of the watch on a type that a policy needs in its remote engine, and how many objects of
	// the type are there.
	State(policy string, resource schema.GroupVersionResource) (watches.State, int)
	// Failure returns the reason why the data or modules of a policy do not reach its remote engine. It returns nil if
	// no failure is known.
	Failure(policy string) error
	// Ambiguous returns the names of clusters that more than one object has, in the inventories among the types.
	Ambiguous(types []policy.Resource) []replication.Ambiguity
}

// Replication knows the state of Berth's copies of the objects that policies and their predicates read: by type, whether the copy is
// complete, and by policy version, whether its data is stale.
type Replication interface {
	// State returns the watch state of some fields of a type that policies read, and the number of its objects. PredicateState returns
	// the same for a type that predicates read.
	State(schema.GroupVersionResource, *projection.FieldSet) (watches.State, int)
	PredicateState(schema.GroupVersionResource, *projection.FieldSet) (watches.State, int)
	// Stale returns an error while data that a version of a policy reads is too old for a decision.
	Stale(*placement.Policy) error
}

// Clusters knows which names of clusters are ambiguous: that more than one object of the inventories has.
type Clusters interface {
	// Ambiguous returns the names of clusters that more than one object has, in some inventories.
	Ambiguous(inventories []schema.GroupVersionResource) []replication.Ambiguity
}

// RemoteEngines knows which remote engines have all data and modules that their policies need there. It does not know their errors.
type RemoteEngines interface {
	// DataReady reports whether a policy's remote engine is known to have everything that the policy needs there.
	DataReady(*policy.Binding) bool
}

// Webhooks knows for which generation of a policy its rules were last written to the webhook configurations, and whether the API server
// refused them.
type Webhooks interface {
	// State returns the state of a policy's rules there.
	State(policy string) status.WebhookState
}

// Remediator knows how far the decisions on existing objects have come: whether the matched objects are read and decided, and whether a new
// leader knows what was paused. It has no results, such as numbers of objects or plans.
type Remediator interface {
	// MatchedState returns the state of the watches on the types that versions of a policy match.
	MatchedState(...*placement.Policy) watches.State
	// HasUndecided reports whether existing objects of the types that versions of a policy match still wait for their decision.
	HasUndecided(...*placement.Policy) bool
	// Assessed reports whether all existing objects that versions of a policy match have been decided since the versions came into
	// force. It is used only for policies that come into force in stages.
	Assessed(...*placement.Policy) bool
	// Resuming reports whether it is not known yet which policies an earlier leader paused.
	Resuming() bool
}

// Deliverer delivers objects to multi-cluster systems, and reports on that for each policy.
type Deliverer interface {
	// Settled reports whether Report has all existing objects that versions of a policy deliver. Call Report after it.
	Settled(...*placement.Policy) bool
	Report(policy string) delivery.Report
}

// Catalog knows the types that the API server serves, and the groups that discovery could not list.
type Catalog interface {
	// Served returns nil if they are not known.
	Served() *match.ServedTypes
}

// Revisions reads the stored versions of policies that come into force in stages.
type Revisions interface {
	// Numbered returns the numbered revisions of a policy, and the last version that was in force everywhere.
	Numbered(context.Context, *placementv1.PlacementPolicy) (numbered []rollout.Revision, last rollout.Revision, err error)
}

// TypeChecker checks policies against the schemas of types.
type TypeChecker interface {
	// State returns the result for a generation of a policy, or nil while there is none.
	State(policy string, uid types.UID, generation int64) *status.TypeState
}

// Deps holds the dependencies of a Controller, from which it reads its facts.
type Deps struct {
	Client        client.Client
	Registry      *placement.Registry
	Replication   Replication
	Clusters      Clusters
	Pusher        Pusher
	RemoteEngines RemoteEngines
	Webhooks      Webhooks
	Remediator    Remediator
	Ledger        *remediation.Ledger
	// Scheduler knows how many objects wait to be patched and why, which are being moved, and which failed. It does not count patches.
	Scheduler   *remediation.Scheduler
	Deliverer   Deliverer
	Catalog     Catalog
	Revisions   Revisions
	TypeChecker TypeChecker
	Metrics     *metrics.Metrics
	Events      *events.Recorder
	Clock       clock.PassiveClock
	// OwnNamespace is Berth's own namespace, in which no object is matched. It is empty if the served cluster has none.
	OwnNamespace string
}

// Controller writes the status of PlacementPolicies. Create it with New.
type Controller struct {
	Deps

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// before has, by policy, the number of patches and evictions before this process became the leader.
	before map[string]remediatedBefore
	// writes bounds the status writes of each policy.
	writes map[string]flowcontrol.PassiveRateLimiter
	// nowhere has true for the policies whose namespace selectors selected no existing namespace at the last check.
	nowhere map[string]bool
}

// remediatedBefore is the total number of patches and evictions of a policy that earlier leaders made, and, while it is not known how many
// of the moves of a plan that number lacks, the plan.
type remediatedBefore struct {
	uid   types.UID // The UID of the policy, since a new policy of that name begins at 0.
	count int64     // The number of patches and evictions.
	// plan is the plan that an earlier leader was carrying out when it last wrote the status. It is nil if there was none, or once count
	// includes the moves that the leader made after that write.
	plan       *placementv1.RemediationPlan
	generation int64 // The generation that was in force when plan was written.
}

// before returns the number of patches and evictions, and the plan in progress, that the status has from an earlier leader.
func before(obj *placementv1.PlacementPolicy) remediatedBefore {
	out := remediatedBefore{uid: obj.UID, count: ptr.Deref(obj.Status.Remediated, 0), generation: obj.Status.GenerationInForce}
	if p := obj.Status.Plan; p != nil && p.State == placementv1.PlanInProgress {
		out.plan = p.DeepCopy()
	}
	return out
}

// New returns a controller that writes a policy's status when the registry's entry for the policy changes.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, before: map[string]remediatedBefore{}, writes: map[string]flowcontrol.PassiveRateLimiter{},
		nowhere: map[string]bool{}}
	d.Registry.Subscribe(func(change placement.PolicyChange) { c.Changed(change.Name) })
	return c
}

// settle is how long the controller collects changes before it writes a status, so that a burst of changes is one
// write.
const settle = 200 * time.Millisecond

// writeInterval and writeBurst bound the writes of one policy's status: while a plan is carried out, its numbers change
// all the time, and each write is a new revision of the policy in etcd and an event for each client that watches policies.
const (
	writeInterval = time.Second
	writeBurst    = 10
)

// predicateDelay is the minimum interval between status updates that only change the numbers of nodes and pods. Pods come
// and go all the time, and nothing depends on their number.
const predicateDelay = time.Minute

// settledDelay is the interval at which the controller checks facts whose changes cause no event: whether an engine has
// everything that a policy needs, and whether the last object is decided.
const settledDelay = time.Second

// world is the request that stands for all policies that evaluate predicates.
var world = reconcile.Request{}

// Changed enqueues a policy because facts in its status changed.
func (c *Controller) Changed(policy string) {
	c.enqueueAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: policy}}, settle)
}

// enqueueAfter adds a request to the workqueue after some time. It does nothing before the controller is started.
func (c *Controller) enqueueAfter(request reconcile.Request, after time.Duration) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue != nil {
		queue.AddAfter(request, after)
	}
}

// PredicateDataChanged enqueues the policies that evaluate predicates, after predicateDelay, because nodes, pods or namespaces changed.
func (c *Controller) PredicateDataChanged() { c.enqueueAfter(world, predicateDelay) }

// PredicateStateChanged enqueues each policy that evaluates predicates, by its name and without predicateDelay, because the state of the
// watches on nodes, pods or namespaces changed.
func (c *Controller) PredicateStateChanged() {
	for name, state := range c.Registry.All() {
		if state.Binding != nil && len(state.Binding.PredicateReads) > 0 {
			c.Changed(name)
		}
	}
}

// ServedChanged enqueues all policies because the API server serves other types than before.
func (c *Controller) ServedChanged() {
	for name := range c.Registry.All() {
		c.Changed(name)
	}
}

// NamespaceChanged enqueues the policies whose namespace selectors selected the namespace before and no longer select it, and those that
// selected no existing namespace and now select this one. before and after are the namespace's labels; nil means that it did not, or does
// not, exist.
func (c *Controller) NamespaceChanged(name string, before, after map[string]string) {
	for policy, state := range c.Registry.All() {
		selects := func(labels map[string]string) bool {
			return labels != nil && state.Policy.Matcher.SelectsByLabels(name, labels)
		}
		c.mu.Lock()
		nowhere := c.nowhere[policy]
		c.mu.Unlock()
		// If a policy still selects other namespaces, one more does not change its status.
		if nowhere && selects(after) || selects(before) && !selects(after) {
			c.Changed(policy)
		}
	}
}

// selectsNone reports whether a policy has a namespace selector that selects no existing namespace.
func (c *Controller) selectsNone(ctx context.Context, p *placement.Policy) (bool, error) {
	if !p.Matcher.SelectsNamespaces() {
		return false, nil
	}
	all, err := (&watches.Namespaces{Cached: c.Client}).All(ctx)
	if err != nil {
		return false, err
	}
	return p.Matcher.SelectsNoneOf(all, c.OwnNamespace), nil
}

// DataChanged enqueues the policies that read a replicated type because the state of its replica changed.
func (c *Controller) DataChanged(resource schema.GroupVersionResource) {
	for name, state := range c.Registry.All() {
		if state.Binding != nil && slices.ContainsFunc(state.Binding.Resources,
			func(r policy.Resource) bool { return r.GroupVersionResource == resource }) {
			c.Changed(name)
		}
	}
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("policystatus").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{},
			predicate.AnnotationChangedPredicate{}))).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.queue = queue
			return nil
		})).
		Complete(c)
}

// +kubebuilder:rbac:groups=placement.berth.dev,resources=placementpolicies/status,verbs=get;patch;update

// Reconcile computes one policy's status and patches it if it changed, emits Events about the change, and sets the policy's metrics. For
// world, it enqueues the policies that evaluate predicates.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req == world {
		c.PredicateStateChanged()
		return reconcile.Result{}, nil
	}
	obj := &placementv1.PlacementPolicy{}
	if err := c.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	facts := c.facts(obj)
	if err := c.coverage(ctx, obj.Name, &facts); err != nil {
		return reconcile.Result{}, err
	}
	again, err := c.rollOut(ctx, obj, &facts)
	if err != nil {
		return reconcile.Result{}, err
	}
	next := Compute(obj.Status, facts)
	if facts.State != nil {
		c.measure(obj, next, facts)
	}
	result := reconcile.Result{RequeueAfter: again}
	if facts.Health != nil && !facts.Settled || facts.Held(next.Undecided) || c.countIsOpen(obj.Name) {
		// No event reports that the engine has everything, or that the last object is decided. So the controller polls.
		result.RequeueAfter = settledDelay
	}
	if equality.Semantic.DeepEqual(obj.Status, next) {
		return result, nil
	}
	if !c.reserveWrite(obj.Name) {
		return reconcile.Result{RequeueAfter: writeInterval}, nil
	}
	base := obj.DeepCopy()
	obj.Status = next
	// The optimistic lock prevents a status that was computed from an older object from replacing lists of a newer one.
	switch err := c.Client.Status().Patch(ctx, obj, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); {
	case apierrors.IsConflict(err):
		// The cache does not have the newest version yet, such as one with another annotation.
		return reconcile.Result{RequeueAfter: settle}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	for _, n := range Notifications(base.Status, next) {
		c.Events.On(obj, n.Kind, n.Message)
		if n.Kind == events.PlanCompleted {
			c.Metrics.PlanCompleted(obj.Name, c.Clock.Since(next.Plan.StartTime.Time))
		}
	}
	return result, nil
}

// measure sets the metrics of a policy by its next status and the facts: of ambiguous clusters, violations, rules, pauses, waiting objects,
// the plan, the rollout, and delivery.
func (c *Controller) measure(obj *placementv1.PlacementPolicy, next placementv1.PlacementPolicyStatus, facts Facts) {
	c.Metrics.AmbiguousClusters(obj.Name, len(facts.Ambiguous))
	c.Metrics.Violations(obj.Name, facts.Report.Violations)
	before, now := objectsByRule(obj.Status.Rules), objectsByRule(next.Rules)
	c.Metrics.Rules(obj.Name, slices.Collect(maps.Keys(before)), now)
	c.Metrics.Paused(obj.Name, facts.Report.Pause.Everywhere() || facts.Waiting.Paused(), facts.PausedNamespaces())
	c.Metrics.Waiting(obj.Name, objectsByReason(next))
	moves, done := CarriedOut(next.Plan)
	c.Metrics.Plan(obj.Name, moves, done)
	c.Metrics.Rollout(obj.Name, rolloutOf(next.Rollout))
	switch {
	case next.Delivery == nil:
		c.Metrics.Delivery(obj.Name, nil)
	case facts.DeliverySettled:
		d := facts.Delivery
		c.Metrics.Delivery(obj.Name, &metrics.Delivery{
			Placed: d.Placed, Delivered: d.Delivered, Failed: d.Failed, Running: d.Running, Reported: d.Reported, Runs: d.Runs(),
		})
	}
}

// countIsOpen reports whether it is not known yet how many moves an earlier leader made after it last wrote the policy's status, so that
// status.remediated may still lack them.
func (c *Controller) countIsOpen(policy string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.before[policy].plan != nil
}

// reserveWrite counts a write of a policy's status if it may be made now, by writeInterval and writeBurst, and reports whether it may.
func (c *Controller) reserveWrite(policy string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	limiter, ok := c.writes[policy]
	if !ok {
		limiter = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(time.Second)/float32(writeInterval), writeBurst, c.Clock)
		c.writes[policy] = limiter
	}
	return limiter.TryAccept()
}

// forget drops what the controller has in memory for a deleted policy: patches by earlier leaders, the limit on status writes, and whether
// it selected no namespace. It leaves the metrics.
func (c *Controller) forget(policy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.before, policy)
	delete(c.writes, policy)
	delete(c.nowhere, policy)
}

var matchPath = field.NewPath("spec", "match")

// coverage adds to the facts of the policy with a name which of the types that it matches are served, suggestions for types that it reads
// and that are not served, and whether its namespace selector selects no existing namespace. It adds nothing if the policy is not loaded,
// and returns an error only if namespaces can't be listed.
func (c *Controller) coverage(ctx context.Context, name string, f *Facts) error {
	if f.State == nil {
		return nil
	}
	served := c.Catalog.Served()
	f.Unresponsive = served.Undiscovered()
	f.Coverage = new(f.State.Policy.Matcher.Coverage(served, matchPath, c.OwnNamespace))
	f.Meant = map[string]string{}
	for _, read := range missing(f.State) {
		if read.Plural != "" {
			f.Meant[read.Plural] = served.SuggestPlural(read.Plural)
		}
	}
	none, err := c.selectsNone(ctx, f.State.Policy)
	if err != nil {
		return err
	}
	f.NoNamespaces = none
	c.mu.Lock()
	defer c.mu.Unlock()
	if none {
		c.nowhere[name] = true
	} else {
		delete(c.nowhere, name)
	}
	return nil
}

// missing returns the types that the version in force or the newest version of a policy reads and that the API server does not serve. It
// returns a type twice if both versions read it.
func missing(s *placement.PolicyState) (out []analysis.Read) {
	if s.Binding != nil {
		out = append(out, s.Binding.Missing...)
	}
	if waits, ok := errors.AsType[*policy.NotServedError](s.Err); ok {
		out = append(out, waits.Missing...)
	}
	return out
}

// facts returns what the status of a policy is computed from, without what coverage and rollOut add: which of the types that it matches are
// served, whether its namespace selector selects a namespace, and its rollout.
func (c *Controller) facts(obj *placementv1.PlacementPolicy) Facts {
	f := Facts{
		Generation: obj.Generation, State: c.Registry.Get(obj.Name), Webhook: c.Webhooks.State(obj.Name), Resuming: c.Remediator.Resuming(),
	}
	if obj.Spec.Rollout != nil {
		f.State = c.Registry.Published(obj.Name)
	}
	if f.State != nil {
		f.MatchedWatches = c.Remediator.MatchedState(f.State.Versions()...)
		f.Deciding = c.Remediator.HasUndecided(f.State.Versions()...)
	}
	// Read the report after Resuming and Deciding: once Resuming returns false, the report contains what an earlier leader paused, and
	// once Deciding does, it contains all objects.
	f.Report = c.Ledger.Report(obj.Name)
	f.Waiting = c.Scheduler.Waiting(c.Clock.Now(), obj.Name)
	if f.State != nil {
		c.loaded(obj, &f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	earlier, known := c.before[obj.Name]
	if !known || earlier.uid != obj.UID {
		earlier = before(obj)
	}
	if earlier.plan != nil {
		if moves, known := f.MovesBefore(earlier.plan, earlier.generation); known {
			earlier.count, earlier.plan = earlier.count+moves, nil
		}
	}
	c.before[obj.Name] = earlier
	f.RemediatedBefore = earlier.count
	return f
}

// loaded adds to f what is known only of a policy whose state f.State is set: whether its data is stale, the remote engine and what is
// pushed to it, the replicas of its data, ambiguous clusters, the delivery, and the result of the type checker.
func (c *Controller) loaded(obj *placementv1.PlacementPolicy, f *Facts) {
	f.Stale = c.Replication.Stale(f.State.Policy)
	remote, isRemote := f.State.Policy.Remote()
	if isRemote {
		f.Health = new(remote.Health())
		f.PushErr, f.Settled = c.Pusher.Failure(obj.Name), c.RemoteEngines.DataReady(f.State.Binding)
	}
	if b := f.State.Binding; b != nil {
		c.reads(obj.Name, b, f)
		if isRemote {
			f.Ambiguous = c.Pusher.Ambiguous(b.PushedTypes)
		} else {
			f.Ambiguous = c.Clusters.Ambiguous(b.Clusters)
		}
	}
	// Read the report after Settled: once that returns true, the report has all objects.
	f.DeliverySettled = c.Deliverer.Settled(f.State.Versions()...)
	f.Delivery = c.Deliverer.Report(obj.Name)
	f.Types = c.TypeChecker.State(obj.Name, obj.UID, f.State.Generation)
}

// reads sets f.Replicated, f.World, and f.Pushed: the state and the number of objects of the types that the policy with a name reads, that
// only its predicates read, and that are pushed to its remote engine.
func (c *Controller) reads(name string, b *policy.Binding, f *Facts) {
	replica := func(state watches.State, objects int) Replica {
		return Replica{State: state, Objects: objects}
	}
	f.Replicated, f.World, f.Pushed = map[schema.GroupVersionResource]Replica{}, map[schema.GroupVersionResource]Replica{},
		map[schema.GroupVersionResource]Replica{}
	for _, r := range b.Resources {
		f.Replicated[r.GroupVersionResource] = replica(c.Replication.State(r.GroupVersionResource, b.Fields[r.GroupVersionResource]))
	}
	for r, fields := range b.PredicateReads {
		f.World[r] = replica(c.Replication.PredicateState(r, fields))
	}
	for _, r := range b.PushedTypes {
		f.Pushed[r.GroupVersionResource] = replica(c.Pusher.State(name, r.GroupVersionResource))
	}
}

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

// Package remediator provides the controller that decides existing objects again when a policy, its data or the object changes. It patches
// objects that violate their placement. It runs on the leader.
//
// Each object passes the phases gather, decide, record, and act in phases.go. The other files contain what runs beside them: the watches,
// the sweeps after changes, what a new leader restores and administrators release, and the queues for remote engines.
package remediator

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-dev/berth/internal/datacauses"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/decisions"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/objectcache"
	"github.com/berth-dev/berth/internal/patching"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/planstore"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
	"github.com/berth-dev/berth/internal/watches"
)

// Catalog knows the types that the API server serves: those that a function selects, and the kind of a type, "" if it is not known.
type Catalog interface {
	Select(func(schema.GroupVersionResource) bool) []policy.Resource
	Kind(schema.GroupVersionResource) string
}

// Deliveries tells how the delivery of objects to multi-cluster systems goes: the result for an object, whether it must be delivered before
// it is patched, and which types the systems report on.
type Deliveries interface {
	// Result returns the newest result of an object; the zero value if it is not delivered. Pending: it may be delivered, and has not been.
	Result(resource schema.GroupVersionResource, namespace, name string) delivery.Result
	Pending(resource schema.GroupVersionResource, namespace, name string) bool
	// Reporting reports whether a system reports where objects of a type run, and whether the policies that deliver this type have delivered
	// all existing objects.
	Reporting(resource schema.GroupVersionResource) (reports, settled bool)
}

// Deps holds the dependencies of a Controller.
type Deps struct {
	Patcher    *patching.Patcher // Patches and evicts objects.
	Watches    *watches.Hub      // Shares watches with other controllers.
	Registry   *placement.Registry
	Decider    *placement.Decider
	Catalog    Catalog
	Ledger     *remediation.Ledger    // Records what policies decided on existing objects.
	Scheduler  *remediation.Scheduler // Decides when objects may be patched, by budgets, windows, and failures, but not by approvals.
	Data       *embedded.Data         // The data that the engine has replicated.
	Decisions  *decisionlog.Log       // The log of decisions. It may be nil.
	Deliveries Deliveries             // Tells which objects must be delivered before a patch, and of which a system reports where they run.
	Events     *events.Recorder
	Metrics    *metrics.Metrics
	Clock      clock.Clock
	Identity   authenticationv1.UserInfo  // Berth's own user. Match conditions see existing objects as if this user updated them.
	Tracing    *tracing.Provider          // Starts a trace for each decided object. It may be nil.
	Ready      func(context.Context) bool // Whether everything that decisions need is loaded.
	Changed    func(policy string)        // Called with the name of each policy whose status may have changed.
	Policies   client.Reader              // Reads PlacementPolicies from a cache.
	Plans      *planstore.Store           // Stores approved plans, so that the next leader continues to carry them out.
}

// Controller patches existing objects that differ from what the policies decide for them, and evicts Pods. It works only while this replica
// is the leader. Create it with New.
type Controller struct {
	Deps
	objects *objectcache.Cache // The existing objects of the types that policies match, if these evaluate existing objects.
	watches *watches.Consumer  // Watches the types that policies match, and passes their objects to the field objects.
	// rollouts tells the Scheduler which matched objects are ready: those with pods that remediation of a policy may replace or evict.
	rollouts    *watches.Consumer
	types       *typeCache        // The types that are watched, with the fields.
	groups      *decisions.Groups // The groups of objects with the same projection for a policy, which are decided once.
	remoteQueue *remoteQueue
	backlog     *backlog        // The changes of policies and data that follow has to process.
	limiter     *events.Limiter // Bounds the Events on objects that are alike. It counts those beyond, for an Event with their sum.
	rewatch     notify.Signal   // Wakes the method watch when the set of watched types or fields may change.
	// resumed is closed once this leader has read from the policies' status which of them an earlier leader paused.
	resumed chan struct{}
	// releases is the queue of the policies, by name, whose annotations may approve a plan or end a pause of remediation, or whose approved
	// plan must be stored or deleted. It exists before the controller that processes it starts, because conclude may enqueue policies.
	releases  workqueue.TypedRateLimitingInterface[reconcile.Request]
	causes    *datacauses.Causes // The changes of data that no sweep has processed yet.
	scheduled sync.Map           // The names of the calls that the method after has scheduled and that have not begun.
}

// New returns a controller that watches, decides, and patches nothing before a manager has started it, and this replica is the leader.
func New(d Deps) *Controller {
	c := &Controller{
		Deps: d, limiter: events.NewLimiter(d.Clock), groups: decisions.NewGroups(), rewatch: notify.NewSignal(), resumed: make(chan struct{}),
		causes: datacauses.New(d.Data, d.Catalog.Kind), releases: priorityqueue.New[reconcile.Request]("release"),
		backlog: &backlog{due: notify.NewSignal(), changes: changes{types: sets.New[schema.GroupVersionResource]()}},
		types: &typeCache{
			Deps: d, scheduled: sets.New[schema.GroupVersionResource](), needed: map[schema.GroupVersionResource]*projection.FieldSet{},
			byPolicy: map[*placement.Policy][]schema.GroupVersionResource{},
		},
	}
	c.objects = objectcache.New(trim, c.listed)
	c.remoteQueue = newRemoteQueue(c.objects, c.reconcileRemote)
	c.watches = d.Watches.NewConsumer(c.objects, func(resource schema.GroupVersionResource) {
		for _, p := range c.Registry.Selecting(resource) {
			c.Changed(p.Name)
		}
	})
	c.rollouts = d.Watches.NewConsumer(rollouts{c}, func(schema.GroupVersionResource) {})
	d.Registry.Subscribe(c.policyChanged)
	return c
}

// workers is how many objects are decided concurrently: one less than there are processors, so that requests for a namespace find a free
// evaluation slot while its objects are decided. There are at least four, because a patch waits for the API server.
var workers = max(4, runtime.GOMAXPROCS(0)-1)

// SetupWithManager adds the controller to a manager, with workers that decide objects once this replica is the leader. It also adds the
// controller that follows the annotations of policies.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	ctl, err := controller.NewTyped("remediation", mgr, controller.TypedOptions[remediation.CompactKey]{
		Reconciler:              c,
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.CompactKey](100*time.Millisecond, time.Minute),
	})
	if err != nil {
		return err
	}
	start := func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[remediation.CompactKey]) error {
		c.Scheduler.Begin(c.Clock.Now())
		c.remoteQueue.ctx = ctx
		c.objects.Start(queue)
		go c.lead(ctx)
		return nil
	}
	if err := ctl.Watch(source.TypedFunc[remediation.CompactKey](start)); err != nil {
		return err
	}
	return c.setUpReleases(mgr)
}

// scope holds what is known of one object while it passes the phases gather, decide, record, and act.
type scope struct {
	key     remediation.Key            // Identifies the object.
	object  *unstructured.Unstructured // The newest version of the object; nil if it does not exist. gather sets it.
	fields  *projection.FieldSet       // The fields that the cache has. Decisions that need more wait until it has them. gather sets it.
	outcome *placement.Outcome         // The verdicts of all policies that match the object. decide sets it.
	// mu protects decisions and responses, because policies are evaluated concurrently.
	mu sync.Mutex
	// decisions are the decisions that the verdicts are made of, one for each evaluated policy, with the revision of the data that it is based
	// on. decide sets them, and record gives them to Controller.groups.
	decisions []*decisions.PolicyDecision
	due       remediation.Due // The verdicts that require a patch, as far as its plan may be carried out. record sets it.
	// task is the task of the remoteQueue that runs the phases; nil if a worker of the controller does.
	task      *remoteTask
	responses map[*placement.Policy]*decisions.PolicyDecision // The responses of remote engines to the task, by policy; nil without a task.
	// waits is set if this pass makes no decision that counts, because a task of the remoteQueue will make it, or this task has to be
	// repeated. decide sets it. asked is set once act has asked the Scheduler whether the object may be patched now.
	waits, asked bool
	// delay is the delay after which the object must be decided again even if nothing changes; 0 for never. Every phase may set it.
	delay time.Duration
	err   error // Why the object has no verdicts; nil if it has. The error of a single policy is in its verdict. decide sets it.
}

// retryWithin lowers delay to the given one, so that the object is decided again by then. It ignores 0.
func (s *scope) retryWithin(delay time.Duration) {
	if delay > 0 && (s.delay == 0 || delay < s.delay) {
		s.delay = delay
	}
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile decides one object and patches it if the policies require that. It returns an error, so that the object is retried with
// backoff, only if the object could not be decided as a whole. After a failed patch, or the error of a single policy, the object is decided
// again after RequeueAfter.
func (c *Controller) Reconcile(ctx context.Context, id remediation.CompactKey) (reconcile.Result, error) {
	s := &scope{key: id.Key()}
	c.pass(ctx, s)
	return reconcile.Result{RequeueAfter: s.delay}, s.err
}

// reconcileRemote decides the object of a task, for which it queries remote engines, and patches the object if the policies require that.
// It returns the delay before the object must be decided again even if nothing changes, which is retryDelay if it could not be decided as a
// whole; 0 for none.
func (c *Controller) reconcileRemote(ctx context.Context, t *remoteTask) time.Duration {
	s := &scope{key: t.key, task: t, responses: map[*placement.Policy]*decisions.PolicyDecision{}}
	if c.pass(ctx, s); s.err != nil {
		ctrllog.FromContext(ctx).Error(s.err, "Deciding an object with remote engines failed; it is decided again later",
			"object", t.key.String())
		return retryDelay
	}
	return s.delay
}

// pass runs the phases gather, decide, record, and act for the object of a scope. Each of the first three may end it.
func (c *Controller) pass(ctx context.Context, s *scope) {
	// An object that may be patched now, and is not, leaves that to others.
	defer func() {
		if !s.waits && !s.asked {
			c.Scheduler.Yield(s.key)
		}
	}()
	if !c.gather(ctx, s) {
		return
	}
	// There is no trace of objects that are not decided.
	ctx, span := c.Tracing.Root(ctx, "remediation")
	defer span.End()
	if span.IsRecording() {
		resource := tracing.Resource.String(tracing.ResourceName(s.key.Resource))
		span.SetAttributes(resource, tracing.Namespace.String(s.key.Namespace), tracing.Object.String(s.key.Name))
	}
	if c.decide(ctx, s) && c.record(ctx, s) {
		c.act(ctx, s)
	}
}

// pending counts the existing objects of the types that versions of a policy match: those in the workqueue, and those without a recorded
// decision. It counts the objects of a type once for each version that matches the type.
func (c *Controller) pending(versions ...*placement.Policy) (queued, unrecorded int) {
	for _, p := range versions {
		q, u := c.objects.Pending(c.types.matched(p))
		queued, unrecorded = queued+q, unrecorded+u
	}
	return queued, unrecorded
}

// HasUndecided reports whether the workqueue has existing objects, of the types that versions of a policy match, that no worker has begun
// to decide.
func (c *Controller) HasUndecided(versions ...*placement.Policy) bool {
	queued, _ := c.pending(versions...)
	return queued > 0
}

// Assessed reports whether all existing objects that versions of one policy match have been decided since the versions came into force. It
// is false while any object of a matched type is in the workqueue. It does not wait for objects that can't be decided for now, or for the
// watches.
func (c *Controller) Assessed(versions ...*placement.Policy) bool {
	return !c.backlog.has(versions...) && !c.HasUndecided(versions...) && c.Ledger.Assessed(versions[0].Name)
}

// Settled reports whether the ledger has a decision on every existing object that a policy in force matches. It does not wait for types
// that can't be read. It is false until this replica is the leader and watches the types.
func (c *Controller) Settled() bool {
	return !c.Resuming() && !slices.ContainsFunc(c.Registry.InForce(), func(p *placement.Policy) bool {
		state := c.MatchedState(p)
		_, unrecorded := c.pending(p)
		return !state.Synced && state.Err == nil || unrecorded > 0
	})
}

// UID returns the UID of an existing object of a type that policies match, as this replica's cache has it; "" if there is no such object.
func (c *Controller) UID(key remediation.Key) types.UID {
	if object, _ := c.objects.Get(key); object != nil {
		return object.GetUID()
	}
	return ""
}

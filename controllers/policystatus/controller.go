// Package policystatus writes the status of PlacementPolicies. It is the only writer, and the leader runs it.
package policystatus

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

// Supply keeps engines elsewhere supplied with data and modules.
type Supply interface {
	// State says how a type fares that a policy wants in its engine, and how many objects it has there.
	State(policy string, resource schema.GroupVersionResource) (watches.State, int)
	// Failure is why what a policy wants does not come to its engine; nil if nothing is known against it.
	Failure(policy string) error
}

// Deps is where a Controller takes its facts from.
type Deps struct {
	Client client.Client
	// Engine is where policies are evaluated, and RemoteEngine where those are that are decided elsewhere.
	Engine       string
	RemoteEngine string

	Registry    *placement.Registry
	Replication func(schema.GroupVersionResource, *projection.Fields) (watches.State, int)
	World       func(schema.GroupVersionResource, *projection.Fields) (watches.State, int)
	// Stale returns an error while data that a policy reads is too old to decide by; nil for never.
	Stale func(policy string) error
	// Supply is what engines elsewhere are kept supplied by, and Settled says whether one is seen to have what a policy
	// wants there.
	Supply  Supply
	Settled func(*policy.Binding) bool
	Hook    func(policy string) status.HookState
	Targets func(*placement.Policy) watches.State
	// Deciding reports whether existing objects of the types that a policy matches are about to be decided.
	Deciding func(*placement.Policy) bool
	// Resuming reports whether remediation does not know yet what an earlier leader paused.
	Resuming func() bool
	Ledger   *remediation.Ledger
	Metrics  *metrics.Metrics
	Events   *events.Recorder
	// Served returns what the API server serves; nil where that is not known.
	Served func() *match.Served
	// OwnNamespace is Berth's own, where nothing is matched; empty where the served cluster has none.
	OwnNamespace string
	// Types returns what the type checker says of a generation of a policy; nil while it has not said anything. A nil
	// function stands for never.
	Types func(policy string, uid types.UID, generation int64) *status.TypeState
}

// Controller writes status. Create it with New.
type Controller struct {
	Deps

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// before is each policy's remediated count when this process first saw it.
	before map[types.UID]int64
	// nowhere are the policies whose namespace selectors selected none when last looked at.
	nowhere map[string]bool
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, before: map[types.UID]int64{}, nowhere: map[string]bool{}}
	d.Registry.Subscribe(func(name string, _, _ *placement.Policy) { c.Changed(name) })
	return c
}

// settle is how long facts are gathered before a status is written, so that a wave of changes is one write.
const settle = 200 * time.Millisecond

// worldPace is how often at most a status says anew how many nodes and pods there are. Pods come and go all the time, and
// nothing hangs on their number.
const worldPace = time.Minute

// settledPace is how often is looked whether an engine has what a policy wants there.
const settledPace = time.Second

// world stands in the queue for all policies that ask predicates.
var world = reconcile.Request{}

// Changed says that facts of a policy changed.
func (c *Controller) Changed(policy string) {
	c.later(reconcile.Request{NamespacedName: types.NamespacedName{Name: policy}}, settle)
}

func (c *Controller) later(request reconcile.Request, after time.Duration) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue != nil {
		queue.AddAfter(request, after)
	}
}

// WorldChanged says that there are other nodes, pods or namespaces than before.
func (c *Controller) WorldChanged() { c.later(world, worldPace) }

// WorldStateChanged says that reading them fares differently.
func (c *Controller) WorldStateChanged() {
	for name, standing := range c.Registry.All() {
		if standing.Binding != nil && len(standing.Binding.World) > 0 {
			c.Changed(name)
		}
	}
}

// ServedChanged says that the API server serves other types than before.
func (c *Controller) ServedChanged() {
	for name := range c.Registry.All() {
		c.Changed(name)
	}
}

// NamespaceChanged says that a namespace has other labels than before; nil stands for those of one that is not there.
func (c *Controller) NamespaceChanged(name string, before, after map[string]string) {
	for policy, standing := range c.Registry.All() {
		selects := func(labels map[string]string) bool {
			return labels != nil && standing.Policy.Matcher.SelectsNamespace(name, labels)
		}
		c.mu.Lock()
		nowhere := c.nowhere[policy]
		c.mu.Unlock()
		// Where others are selected, one more changes nothing.
		if nowhere && selects(after) || selects(before) && !selects(after) {
			c.Changed(policy)
		}
	}
}

// selectsNone reports whether a policy's namespace selector selects none of the namespaces that there are.
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

// DataChanged says that facts of a replicated type changed.
func (c *Controller) DataChanged(resource schema.GroupVersionResource) {
	for name, standing := range c.Registry.All() {
		if standing.Binding == nil {
			continue
		}
		for _, r := range standing.Binding.Resources {
			if r.GroupVersionResource == resource {
				c.Changed(name)
				break
			}
		}
	}
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("policystatus").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.queue = queue
			return nil
		})).
		Complete(c)
}

// +kubebuilder:rbac:groups=placement.berth.dev,resources=placementpolicies/status,verbs=get;patch;update

// Reconcile writes one policy's status, if it differs.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req == world {
		c.WorldStateChanged()
		return reconcile.Result{}, nil
	}
	obj := &placementv1.PlacementPolicy{}
	if err := c.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	facts := c.facts(obj)
	if err := c.coverage(ctx, obj.Name, &facts); err != nil {
		return reconcile.Result{}, err
	}
	next := status.Compute(obj.Status, facts)
	if facts.Standing != nil {
		c.Metrics.Violations(obj.Name, facts.Report.Violations)
		c.Metrics.Paused(obj.Name, facts.Report.Pause != nil)
	}
	result := reconcile.Result{}
	if facts.Supply != nil && !facts.Settled || facts.Held(next.Undecided) {
		// Nobody reports when the engine has it all, or when the last object is decided.
		result.RequeueAfter = settledPace
	}
	if equality.Semantic.DeepEqual(obj.Status, next) {
		return result, nil
	}
	base := obj.DeepCopy()
	obj.Status = next
	// The lock keeps a status that was computed from an older object from replacing a newer one's lists.
	if err := c.Client.Status().Patch(ctx, obj, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	c.tell(obj, status.Changes(base.Status, next))
	return result, nil
}

var matchPath = field.NewPath("spec", "match")

// coverage finds out what there is to be matched.
func (c *Controller) coverage(ctx context.Context, name string, f *status.Facts) error {
	if f.Standing == nil || c.Served == nil {
		return nil
	}
	served := c.Served()
	f.Coverage = new(f.Standing.Policy.Matcher.Coverage(served, matchPath, c.OwnNamespace))
	f.Meant = served.MeantPlural
	none, err := c.selectsNone(ctx, f.Standing.Policy)
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

// tell emits Events on a policy.
func (c *Controller) tell(obj *placementv1.PlacementPolicy, news []status.News) {
	for _, n := range news {
		switch n.Topic {
		case status.TopicReady:
			c.Events.PolicyReady(obj, n.Message)
		case status.TopicNotReady:
			c.Events.PolicyNotReady(obj, n.Message)
		case status.TopicUndecided:
			c.Events.PolicyUndecided(obj, n.Message)
		case status.TopicDecided:
			c.Events.PolicyDecided(obj, n.Message)
		case status.TopicViolated:
			c.Events.PolicyViolated(obj, n.Message)
		}
	}
}

func (c *Controller) facts(obj *placementv1.PlacementPolicy) status.Facts {
	f := status.Facts{
		Spec:        obj.Spec,
		Generation:  obj.Generation,
		Engine:      c.Engine,
		Standing:    c.Registry.Get(obj.Name),
		Replication: c.Replication,
		World:       c.World,
		Hook:        c.Hook(obj.Name),
		Resuming:    c.Resuming(),
	}
	// After Resuming: what an earlier leader paused is in the report once that is false.
	f.Report = c.Ledger.Report(obj.Name)
	if c.Stale != nil {
		f.Stale = c.Stale(obj.Name)
	}
	if f.Standing != nil {
		if _, remote := f.Standing.Policy.Remote(); remote {
			f.Engine = c.RemoteEngine
			f.Supply = func(r schema.GroupVersionResource) (watches.State, int) { return c.Supply.State(obj.Name, r) }
			f.SupplyErr = c.Supply.Failure(obj.Name)
			f.Settled = c.Settled(f.Standing.Binding)
		}
		f.Targets = c.Targets(f.Standing.Policy)
		f.Deciding = c.Deciding(f.Standing.Policy)
		if c.Types != nil {
			f.Types = c.Types(obj.Name, obj.UID, f.Standing.Generation)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.before[obj.UID]; !known {
		c.before[obj.UID] = 0
		if obj.Status.Remediated != nil {
			c.before[obj.UID] = *obj.Status.Remediated
		}
	}
	f.RemediatedBefore = c.before[obj.UID]
	return f
}

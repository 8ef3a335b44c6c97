// Package policystatus writes the status of PlacementPolicies. It is the only writer, and the leader runs it.
package policystatus

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
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
	// Supply is what engines elsewhere are kept supplied by, and Settled says whether one is seen to have what a policy
	// wants there.
	Supply  Supply
	Settled func(*policy.Binding) bool
	Hook    func(policy string) status.HookState
	Targets func(*placement.Policy) watches.State
	Ledger  *remediation.Ledger
	Metrics *metrics.Metrics
}

// Controller writes status. Create it with New.
type Controller struct {
	Deps

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// before is each policy's remediated count when this process first saw it.
	before map[types.UID]int64
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, before: map[types.UID]int64{}}
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
	next := status.Compute(obj.Status, facts)
	if facts.Standing != nil {
		c.Metrics.Violations(obj.Name, facts.Report.Violations)
	}
	result := reconcile.Result{}
	if facts.Supply != nil && !facts.Settled {
		// Who sees whether the engine has it all looks when it is asked.
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
	return result, nil
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
		Report:      c.Ledger.Report(obj.Name),
	}
	if f.Standing != nil {
		if _, remote := f.Standing.Policy.Remote(); remote {
			f.Engine = c.RemoteEngine
			f.Supply = func(r schema.GroupVersionResource) (watches.State, int) { return c.Supply.State(obj.Name, r) }
			f.SupplyErr = c.Supply.Failure(obj.Name)
			f.Settled = c.Settled(f.Standing.Binding)
		}
		f.Targets = c.Targets(f.Standing.Policy)
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

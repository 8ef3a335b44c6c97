// Package typecheck checks the types of PlacementPolicies against the schemas that the API server publishes, again when
// those change. The leader runs it. It writes nothing to the API server: the status controller asks for what it finds.
package typecheck

import (
	"context"
	"errors"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/status"
)

const (
	// pollPeriod is how often the index of the published schemas is read. Extension API servers publish theirs without any
	// object that could be watched.
	pollPeriod = 30 * time.Second
	// retryPeriod is after what time schemas are read again that could not be read.
	retryPeriod = 10 * time.Second
)

// publishDelays are after what times the index is read when a CustomResourceDefinition changes: the API server publishes
// the schema a while after it serves the type, and policies are often applied together with their types.
var publishDelays = []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}

// poll stands in the queue for the index, which is read periodically. A request that has a namespace, and no name either,
// reads it once more.
var poll = reconcile.Request{}

// pollAfterChange queues polls for a CustomResourceDefinition that changed.
func pollAfterChange(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, delay := range publishDelays {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: delay.String()}}, delay)
	}
}

// Deps are what a Controller needs.
type Deps struct {
	Client  client.Reader
	Checker *schemas.Checker
	// Bound returns the groups that a generation of a policy is bound to; nil if that generation is not in force.
	Bound func(name string, uid types.UID, generation int64) policy.Bindings
	// Changed is called with policies of which something else is known than before. It must not block.
	Changed func(policy string)
}

// Controller checks policies. Create it with New. Its methods are safe for concurrent use.
type Controller struct {
	Deps

	mu      sync.Mutex
	checked map[string]checked
	// unbound are policies that could not be checked before it is known what they are bound to, and queue is nil before the
	// start.
	unbound sets.Set[string]
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	served  chan event.GenericEvent
}

// checked is what is known of one generation of a policy.
type checked struct {
	uid        types.UID
	generation int64
	report     *schemas.Report
	err        error
}

// New returns a controller.
func New(d Deps) *Controller {
	return &Controller{Deps: d, checked: map[string]checked{}, unbound: sets.New[string](), served: make(chan event.GenericEvent, 1)}
}

// ServedChanged has all policies checked again, since the API server serves other types.
func (c *Controller) ServedChanged() {
	select {
	case c.served <- event.GenericEvent{Object: &placementv1.PlacementPolicy{}}:
	default:
	}
}

// PolicyLoaded has a policy checked if that takes what its text is bound to, which may be known now.
func (c *Controller) PolicyLoaded(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil && c.unbound.Has(name) {
		c.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}

// State returns what is known of a generation of a policy; nil while it is not checked.
func (c *Controller) State(name string, uid types.UID, generation int64) *status.TypeState {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.checked[name]
	if !ok || known.uid != uid || known.generation != generation {
		return nil
	}
	out := &status.TypeState{Err: known.err}
	if known.report != nil {
		out.Result = known.report.Result
	}
	return out
}

// SetupWithManager adds the controller to a manager.
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
		WatchesRawSource(source.Channel(c.served, handler.EnqueueRequestsFromMapFunc(c.allPolicies))).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			c.mu.Lock()
			c.queue = queue
			c.mu.Unlock()
			queue.AddAfter(poll, pollPeriod)
			return nil
		})).
		Complete(c)
}

// allPolicies names the policies that were checked.
func (c *Controller) allPolicies(context.Context, client.Object) []reconcile.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]reconcile.Request, 0, len(c.checked))
	for name := range c.checked {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// Reconcile checks one policy, or those whose schemas changed.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		result, err := c.poll(ctx)
		if req != poll {
			result = reconcile.Result{}
		}
		return result, err
	}
	return c.check(ctx, req.Name)
}

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

// outdated names the policies whose schemas the index has in another version.
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
	c.mu.Lock()
	if c.unbound.Delete(name); policy.IsAmbiguous(err) {
		c.unbound.Insert(name)
	}
	if _, broken := errors.AsType[*policy.CompileError](err); broken {
		// The Compiled condition tells. One that is ambiguous may be bound, and not be loaded yet.
		delete(c.checked, name)
	} else {
		c.checked[name] = next
	}
	c.mu.Unlock()
	c.Changed(name)
	if err != nil {
		return reconcile.Result{RequeueAfter: retryPeriod}, nil //nolint:nilerror // It is told in the policy's status.
	}
	return reconcile.Result{}, nil
}

// Package policy loads PlacementPolicies into this replica: it compiles each by itself, finds out what it reads, and
// puts it in force. It runs on every replica and writes nothing to the API server; what it finds is reported by the
// leader's status controller.
package policy

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
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
)

// Catalog tells what the API server serves, and asks it again.
type Catalog interface {
	policy.Served
	Refresh(ctx context.Context) error
	// Invalidate has the API server asked soon, and Subscribe tells when that found something new.
	Invalidate()
	Subscribe(f func())
}

// While a policy reads a type that is not served, it is asked for anew at this pace; an extension API server can come
// up without any object of ours changing.
const missingPace = 2 * time.Second

const (
	// maxWait is how long at most a version waits for what it reads, while the one before it goes on deciding.
	maxWait = 30 * time.Second
	// waitingPace is how often is looked whether it is there.
	waitingPace = 50 * time.Millisecond
)

// Controller loads policies. Create it with New.
type Controller struct {
	reader client.Reader
	// revisions reads what is in namespace, which may be in another cluster than the policies.
	revisions client.Reader
	engine    engine.Engine
	registry  *placement.Registry
	catalog   Catalog
	metrics   *metrics.Metrics
	// namespace holds the revisions of policies that compiled.
	namespace string
	// Settled says whether all is replicated that a policy reads, or known not to be to be had. Until it is, a version
	// that is in force, and decides, stays. Set it before the start; without it nobody waits.
	Settled func(*policy.Binding) bool
	// served says that what the API server serves changed.
	served chan event.GenericEvent

	// compiled holds the last text of each policy that compiled, and waiting the versions that wait for what they read.
	// Reconciles of one policy never overlap.
	mu       sync.Mutex
	compiled map[string]compiled
	waiting  map[string]waiting

	states *tally
	clock  clock.PassiveClock

	// pending are the policies that existed at the start and are not loaded yet; nil before they are known.
	pendingMu sync.Mutex
	pending   sets.Set[string]
}

// compiled is a policy's text that compiled, and the spec that it came with.
type compiled struct {
	generation int64
	uid        types.UID
	spec       placementv1.PlacementPolicySpec
	module     *policy.Module
	matcher    *match.Matcher
}

// waiting is a version that takes over once what it reads is there.
type waiting struct {
	standing *placement.Standing
	until    time.Time
}

// New returns a controller that reads policies from reader and puts them into registry.
//
// Revisions of policies that compiled are read by revisions from namespace.
func New(reader, revisions client.Reader, e engine.Engine, registry *placement.Registry, catalog Catalog, m *metrics.Metrics, namespace string) *Controller {
	c := &Controller{
		reader: reader, revisions: revisions, engine: e, registry: registry, catalog: catalog, metrics: m, namespace: namespace,
		served: make(chan event.GenericEvent, 1), compiled: map[string]compiled{}, waiting: map[string]waiting{}, states: newTally(m.Policies), clock: clock.RealClock{},
	}
	catalog.Subscribe(func() {
		select {
		case c.served <- event.GenericEvent{Object: &placementv1.PlacementPolicy{}}:
		default:
		}
	})
	return c
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	definitions := &metav1.PartialObjectMetadata{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return builder.ControllerManagedBy(mgr).
		Named("policy").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(definitions, c.invalidate(), builder.OnlyMetadata).
		WatchesRawSource(source.Channel(c.served, handler.EnqueueRequestsFromMapFunc(c.allPolicies))).
		WithOptions(controller.Options{NeedLeaderElection: new(false), MaxConcurrentReconciles: workers()}).
		Complete(c)
}

// workers is how many policies are loaded at once: compilation keeps a processor busy, and one that waits for the API
// server is not to hold up all others.
func workers() int { return max(2, runtime.GOMAXPROCS(0)) }

// invalidate has the API server asked what it serves when a CustomResourceDefinition changes: a type that a policy
// reads may have come, gone, or got a namesake in another group.
func (c *Controller) invalidate() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
			if !e.IsInInitialList {
				c.catalog.Invalidate()
			}
		},
		UpdateFunc: func(context.Context, event.UpdateEvent, queue) { c.catalog.Invalidate() },
		DeleteFunc: func(context.Context, event.DeleteEvent, queue) { c.catalog.Invalidate() },
	}
}

func (c *Controller) allPolicies(context.Context, client.Object) []reconcile.Request {
	var out []reconcile.Request
	for name := range c.registry.All() {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// +kubebuilder:rbac:groups=placement.berth.dev,resources=placementpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// Reconcile loads one policy. It takes a request and not the object because a policy that is gone has to leave this
// replica's memory.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if err := c.expectPending(ctx); err != nil {
		return reconcile.Result{}, err
	}
	obj := &placementv1.PlacementPolicy{}
	err := c.reader.Get(ctx, req.NamespacedName, obj)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil {
		c.forget(req.Name)
		c.loaded(req.Name)
		return reconcile.Result{}, nil
	}
	// One that was deleted and created anew has no past.
	_, known := c.lastCompiled(obj)
	standing, err := c.load(ctx, obj)
	if err != nil {
		return reconcile.Result{}, err
	}
	waits := false
	if known {
		standing, waits = c.takeTurn(req.Name, standing)
	}
	c.metrics.AddPolicy(req.Name)
	if differs(c.registry.Get(req.Name), standing) {
		c.registry.Set(req.Name, standing)
		c.states.set(req.Name, stateOf(standing))
	}
	c.loaded(req.Name)
	if waits {
		return reconcile.Result{RequeueAfter: waitingPace}, nil
	}
	if standing.Binding != nil && len(standing.Binding.Missing) > 0 {
		return reconcile.Result{RequeueAfter: missingPace}, nil
	}
	return reconcile.Result{}, nil
}

// takeTurn returns next, or, while what that reads is on its way, the standing that decides, with a note of what is
// awaited: a new version that reads more must not refuse requests for as long as it takes to read that.
func (c *Controller) takeTurn(name string, next *placement.Standing) (standing *placement.Standing, waits bool) {
	old := c.registry.Get(name)
	wait := c.Settled != nil && old != nil && old.Policy != next.Policy && bound(old) && bound(next) && c.Settled(old.Binding) && !c.Settled(next.Binding)
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	w, waited := c.waiting[name]
	if !waited {
		w.until = now.Add(maxWait)
	}
	if !wait || !now.Before(w.until) {
		delete(c.waiting, name)
		return next, false
	}
	w.standing = next
	c.waiting[name] = w
	held := *old
	held.Next = next.Binding
	return &held, true
}

// bound says whether a standing can decide once what it reads is there.
func bound(s *placement.Standing) bool { return !s.Broken && len(s.Binding.Missing) == 0 }

// load compiles and binds a policy, and falls back to what compiled before. An error means to try again.
func (c *Controller) load(ctx context.Context, obj *placementv1.PlacementPolicy) (*placement.Standing, error) {
	last, known := c.lastCompiled(obj)
	var next compiled
	var compileErr error
	if known && last.generation == obj.Generation {
		next = last
	} else {
		next, compileErr = compile(obj.Name, obj.UID, obj.Generation, obj.Spec)
	}
	if compileErr == nil {
		standing, err := c.putInForce(ctx, obj, next)
		if err == nil || !isCompileError(err) {
			return standing, err
		}
		compileErr = err
	}
	if !known {
		var err error
		if last, known, err = c.kept(ctx, obj); err != nil {
			return nil, err
		}
	}
	if known && last.generation != obj.Generation {
		standing, err := c.putInForce(ctx, obj, last)
		if err == nil {
			standing.Generation, standing.Err = obj.Generation, compileErr
			return standing, nil
		}
	}
	if standing := c.registry.Get(obj.Name); standing != nil && !standing.Broken && known {
		// The text in force compiles, and what it reads has become ambiguous: it goes on with what it was bound to.
		kept := *standing
		kept.Generation, kept.Err, kept.Next = obj.Generation, compileErr, nil
		return &kept, nil
	}
	return broken(obj, compileErr), nil
}

// compile compiles one generation of a policy. Where nothing but the match is wrong there is a result besides the error:
// without what does not compile the policy matches more, and never less.
func compile(name string, uid types.UID, generation int64, spec placementv1.PlacementPolicySpec) (compiled, error) {
	out := compiled{generation: generation, uid: uid, spec: spec.WithDefaults()}
	var err error
	if out.module, err = policy.Compile(name, out.spec); err != nil {
		return compiled{}, err
	}
	var errs field.ErrorList
	if out.matcher, errs = match.New(out.spec.Match, matchPath); len(errs) > 0 {
		return out, errs.ToAggregate()
	}
	return out, nil
}

var matchPath = field.NewPath("spec", "match")

// kept returns the last version that compiled before this replica started, if one is kept and still compiles.
func (c *Controller) kept(ctx context.Context, obj *placementv1.PlacementPolicy) (compiled, bool, error) {
	object := &appsv1.ControllerRevision{}
	err := c.revisions.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: policy.RevisionName(obj.Name)}, object)
	if err != nil {
		return compiled{}, false, client.IgnoreNotFound(err)
	}
	revision, err := policy.DecodeRevision(object.Data.Raw)
	if err != nil || revision.UID != obj.UID || revision.Generation >= obj.Generation {
		// It is another policy's, or not older than what does not compile: of no use.
		return compiled{}, false, nil
	}
	// A newer Berth may refuse what an older one took.
	out, _ := compile(obj.Name, revision.UID, revision.Generation, revision.Spec)
	return out, out.module != nil, nil
}

// putInForce binds a compiled text and makes it decidable.
func (c *Controller) putInForce(ctx context.Context, obj *placementv1.PlacementPolicy, text compiled) (*placement.Standing, error) {
	binding, err := c.bind(ctx, obj.Name, text)
	if err != nil {
		return nil, err
	}
	_, known := c.lastCompiled(obj)
	c.remember(obj.Name, text)
	if known {
		for _, old := range c.prepared(obj.Name) {
			if old.Policy.Generation == text.generation && reflect.DeepEqual(old.Binding, binding) {
				same := *old
				same.Generation, same.Err, same.Next = obj.Generation, nil, nil
				return &same, nil
			}
		}
	}
	evaluator, err := c.engine.Prepare(ctx, obj.Name, text.module, binding)
	if err != nil {
		return nil, err
	}
	return &placement.Standing{
		Policy:     inForce(obj.Name, text.generation, text.spec, text.matcher, evaluator, slices.Contains(text.module.Rules, policy.RuleScheduling)),
		Generation: obj.Generation,
		Binding:    binding,
		Warnings:   text.module.Warnings,
	}, nil
}

func (c *Controller) bind(ctx context.Context, name string, text compiled) (*policy.Binding, error) {
	if err := c.engine.Check(text.module); err != nil {
		return nil, err
	}
	binding, err := policy.Bind(name, text.module, text.spec.Replicate, c.catalog)
	if err == nil && len(binding.Missing) > 0 {
		if err := c.catalog.Refresh(ctx); err != nil {
			return nil, err
		}
		binding, err = policy.Bind(name, text.module, text.spec.Replicate, c.catalog)
	}
	if err == nil && text.module.Nodes {
		binding.World = predicates.Reads()
	}
	return binding, err
}

func inForce(name string, generation int64, spec placementv1.PlacementPolicySpec, matcher *match.Matcher, e placement.Evaluator, schedules bool) *placement.Policy {
	return &placement.Policy{
		Name:          name,
		Generation:    generation,
		Priority:      spec.Priority,
		Mode:          spec.Mode,
		FailurePolicy: spec.FailurePolicy,
		Remediation:   spec.Remediation.Mode,
		Matcher:       matcher,
		Schedules:     schedules,
		Evaluator:     e,
	}
}

// broken is the standing of a policy of which no text ever compiled.
func broken(obj *placementv1.PlacementPolicy, err error) *placement.Standing {
	failing := failing{fmt.Errorf("the policy does not compile: %w", err)}
	spec := obj.Spec.WithDefaults()
	// What does not compile of the match was reported before; without it the policy matches more, and denies it.
	matcher, _ := match.New(spec.Match, matchPath)
	return &placement.Standing{
		Policy:     inForce(obj.Name, obj.Generation, spec, matcher, failing, false),
		Generation: obj.Generation,
		Err:        err,
		Broken:     true,
	}
}

// failing is the evaluator of a policy that can't decide.
type failing struct{ err error }

// Evaluate implements placement.Evaluator.
func (f failing) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	return placement.Decision{}, f.err
}

// Revision implements placement.Evaluator.
func (failing) Revision() uint64 { return 0 }

// Input implements placement.Evaluator.
func (failing) Input() *projection.Fields { return projection.Everything() }

// differs says whether a standing has to be told to anyone. Equal generations of a policy in force share the Policy.
func differs(old, next *placement.Standing) bool {
	if old == nil {
		return true
	}
	if old.Broken && next.Broken {
		return old.Generation != next.Generation || old.Err.Error() != next.Err.Error()
	}
	return old.Policy != next.Policy || old.Next != next.Next || old.Generation != next.Generation || (old.Err == nil) != (next.Err == nil)
}

func (c *Controller) lastCompiled(obj *placementv1.PlacementPolicy) (compiled, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.compiled[obj.Name]
	// A policy that was deleted and created anew has no past.
	return last, ok && last.uid == obj.UID
}

// prepared returns what there is of a policy: what decides, and what waits.
func (c *Controller) prepared(name string) []*placement.Standing {
	var out []*placement.Standing
	if s := c.registry.Get(name); s != nil && !s.Broken {
		out = append(out, s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.waiting[name]; ok {
		out = append(out, w.standing)
	}
	return out
}

func (c *Controller) remember(name string, text compiled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compiled[name] = text
}

func (c *Controller) forget(name string) {
	c.mu.Lock()
	delete(c.compiled, name)
	delete(c.waiting, name)
	c.mu.Unlock()
	if c.registry.Get(name) != nil {
		c.registry.Remove(name)
	}
	c.metrics.ForgetPolicy(name)
	c.states.set(name, "")
}

func stateOf(standing *placement.Standing) string {
	switch {
	case standing.Broken:
		return metrics.StateBroken
	case standing.Err != nil:
		return metrics.StateLastGood
	default:
		return metrics.StateInForce
	}
}

// tally counts policies by state. It is safe for concurrent use.
type tally struct {
	publish func(byState map[string]int)

	mu      sync.Mutex
	states  map[string]string
	byState map[string]int
}

func newTally(publish func(byState map[string]int)) *tally {
	return &tally{publish: publish, states: map[string]string{}, byState: map[string]int{}}
}

// set notes the state of a policy; "" for one that is gone.
func (t *tally) set(policy, state string) {
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

// expectPending notes, once, which policies have to be loaded before this replica may decide.
//
// It lists without the lock. Until the cache is filled a list waits, and whoever waited for the lock meanwhile could
// not give up at its own deadline. Of several lists at once the first to arrive counts, and it needs to be no newer
// than the others: every policy in it is still to be loaded, because nothing is loaded before a list has arrived.
func (c *Controller) expectPending(ctx context.Context) error {
	if c.expected() {
		return nil
	}
	list := &placementv1.PlacementPolicyList{}
	if err := c.reader.List(ctx, list); err != nil {
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

// expected says whether it is known which policies have to be loaded.
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

// Loaded says whether every policy that existed when this replica started has been looked at.
func (c *Controller) Loaded(ctx context.Context) bool {
	if err := c.expectPending(ctx); err != nil {
		return false
	}
	c.pendingMu.Lock()
	defer c.pendingMu.Unlock()
	return len(c.pending) == 0
}

func isCompileError(err error) bool {
	var compileError *policy.CompileError
	return errors.As(err, &compileError)
}

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

	// compiled holds the newest version of each policy that compiled, good the last one in force of which all types were
	// served, and waiting the versions that wait for what they read. Reconciles of one policy never overlap.
	mu       sync.Mutex
	compiled map[string]compiled
	good     map[string]compiled
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
	// bindings are what the text was bound to; nil before it was.
	bindings policy.Bindings
	// invalid says which clauses of contract rules can never have a valid value; nil if none. Such a text is refused unless
	// it is in force already.
	invalid error
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
		served: make(chan event.GenericEvent, 1), compiled: map[string]compiled{}, good: map[string]compiled{}, waiting: map[string]waiting{}, states: newTally(m.Policies), clock: clock.RealClock{},
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
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(specChanged)).
		Watches(definitions, c.invalidate(), builder.OnlyMetadata).
		WatchesRawSource(source.Channel(c.served, handler.EnqueueRequestsFromMapFunc(c.allPolicies))).
		WithOptions(controller.Options{NeedLeaderElection: new(false), MaxConcurrentReconciles: workers()}).
		Complete(c)
}

// specChanged passes what changes a policy's spec. Where the API server's store went back to an earlier state, two specs
// may have the same generation.
var specChanged = predicate.TypedFuncs[client.Object]{UpdateFunc: func(e event.UpdateEvent) bool {
	before, known := e.ObjectOld.(*placementv1.PlacementPolicy)
	after, ok := e.ObjectNew.(*placementv1.PlacementPolicy)
	return !known || !ok || before.UID != after.UID || before.Generation != after.Generation || !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}}

// defaultMaxStaleness is for how long data may be unconfirmed where a policy does not say. The API server confirms a watch
// on which nothing happens about once a minute.
const defaultMaxStaleness = time.Minute

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
	// One that was deleted and created again has no past.
	known := len(c.versions(obj)) > 0
	standing, err := c.load(ctx, obj)
	if err != nil {
		return reconcile.Result{}, err
	}
	standing.Loaded = placement.Loaded{UID: obj.UID, Generation: obj.Generation}
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
	if mayHeal(standing) {
		return reconcile.Result{RequeueAfter: missingPace}, nil
	}
	return reconcile.Result{}, nil
}

// mayHeal reports whether the policy may come to decide, or its newest version to be in force, without any object of
// ours changing: a type may be served, or the leader may tell what the text was bound to.
func mayHeal(s *placement.Standing) bool {
	_, notServed := errors.AsType[*policy.NotServedError](s.Err)
	return notServed || policy.IsAmbiguous(s.Err) || s.Binding != nil && len(s.Binding.Missing) > 0
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
	held.Next, held.Loaded = next.Binding, next.Loaded
	return &held, true
}

// bound says whether a standing can decide once what it reads is there.
func bound(s *placement.Standing) bool { return !s.Broken && len(s.Binding.Missing) == 0 }

// load compiles and binds a policy, and falls back to what compiled before, and whose types are served. An error means to
// try again.
func (c *Controller) load(ctx context.Context, obj *placementv1.PlacementPolicy) (*placement.Standing, error) {
	known := len(c.versions(obj)) > 0
	next, reason := c.newest(obj)
	var incomplete *policy.Binding
	if reason == nil && next.invalid != nil {
		inForce, err := c.textInForce(ctx, obj)
		if err != nil {
			return nil, err
		}
		if !inForce {
			reason = next.invalid
		}
	}
	if reason == nil {
		binding, err := c.bindNewest(ctx, obj, next)
		switch {
		case err == nil && len(binding.Missing) == 0:
			return c.putInForce(ctx, obj, next, binding)
		case err == nil:
			reason, incomplete = &policy.NotServedError{Missing: binding.Missing}, binding
			next.bindings = binding.Bindings
			c.remember(obj, next, false)
		case isCompileError(err):
			reason = err
		default:
			return nil, err
		}
	}
	standing, err := c.fallBack(ctx, obj, reason, incomplete == nil)
	if standing != nil || err != nil {
		return standing, err
	}
	if incomplete != nil {
		return c.putInForce(ctx, obj, next, incomplete)
	}
	if standing := c.registry.Get(obj.Name); standing != nil && !standing.Broken && known {
		// The text in force compiles, and can't be bound any more: it goes on with what it was bound to.
		kept := *standing
		kept.Generation, kept.Err, kept.Next = obj.Generation, reason, nil
		return &kept, nil
	}
	return broken(obj, reason), nil
}

// newest compiles a policy's newest version, unless it was compiled before.
func (c *Controller) newest(obj *placementv1.PlacementPolicy) (compiled, error) {
	for _, known := range c.versions(obj) {
		if known.generation == obj.Generation && equality.Semantic.DeepEqual(known.spec, obj.Spec.WithDefaults()) {
			return known, nil
		}
	}
	return compile(obj.Name, obj.UID, obj.Generation, obj.Spec)
}

// fallBack puts an earlier version in force because of an error of the newest one; nil if there is none. Of those that
// this replica knows, it takes the last of which all types are served, and otherwise, if the newest version can't be in
// force at all, whatever compiled.
func (c *Controller) fallBack(ctx context.Context, obj *placementv1.PlacementPolicy, reason error, anyhow bool) (*placement.Standing, error) {
	candidates := slices.DeleteFunc(c.versions(obj), func(v compiled) bool { return v.generation == obj.Generation })
	if len(candidates) == 0 {
		kept, ok, err := c.kept(ctx, obj)
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
			standing, err := c.putInForce(ctx, obj, v, binding)
			if err != nil {
				continue
			}
			standing.Generation, standing.Err = obj.Generation, reason
			return standing, nil
		}
		if !anyhow {
			break
		}
	}
	return nil, nil
}

// bindNewest binds a version to the groups that its text was bound to before: in this replica, or, as the leader recorded
// it, in another one.
func (c *Controller) bindNewest(ctx context.Context, obj *placementv1.PlacementPolicy, text compiled) (*policy.Binding, error) {
	if text.bindings == nil && text.module.ByPluralAlone() {
		var err error
		if text.bindings, err = c.recorded(ctx, obj, text.module); err != nil {
			return nil, err
		}
	}
	return c.bind(ctx, obj.Name, text)
}

// recorded returns what a policy's text is known to have been bound to; nil for a text that was not bound yet.
func (c *Controller) recorded(ctx context.Context, obj *placementv1.PlacementPolicy, text *policy.Module) (policy.Bindings, error) {
	for _, known := range c.versions(obj) {
		if known.bindings != nil && policy.SameText(known.spec, obj.Spec) {
			return known.bindings, nil
		}
	}
	revision, ok, err := c.revision(ctx, obj)
	if err != nil || !ok || !policy.SameText(revision.Spec, obj.Spec) {
		return nil, err
	}
	return bindingsOf(revision, obj, text), nil
}

// bindingsOf returns what the text of a kept revision was bound to. Older versions of Berth recorded that in the status alone.
func bindingsOf(revision policy.Revision, obj *placementv1.PlacementPolicy, text *policy.Module) policy.Bindings {
	if revision.Bindings != nil {
		return revision.Bindings
	}
	return text.BindingsShown(obj.Status.Dependencies)
}

// compile compiles one generation of a policy. Where nothing but the match is wrong there is a result besides the error:
// without what does not compile the policy matches more, and never less.
func compile(name string, uid types.UID, generation int64, spec placementv1.PlacementPolicySpec) (compiled, error) {
	out := compiled{generation: generation, uid: uid, spec: spec.WithDefaults()}
	var err error
	if out.module, err = policy.Compile(name, out.spec); err != nil {
		if list, ok := errors.AsType[*policy.CompileError](err); !ok || !list.ContractOnly() {
			return compiled{}, err
		}
		out.invalid = err
	}
	var errs field.ErrorList
	if out.matcher, errs = match.New(out.spec.Match, matchPath); len(errs) > 0 {
		return out, errs.ToAggregate()
	}
	return out, nil
}

// textInForce reports whether the policy's text was taken before: by this replica, or, as the kept revision tells, by one
// of a version of Berth that did not judge what contract rules hold. It goes on deciding, and its status says what is wrong.
func (c *Controller) textInForce(ctx context.Context, obj *placementv1.PlacementPolicy) (bool, error) {
	spec := obj.Spec.WithDefaults()
	if versions := c.versions(obj); len(versions) > 0 {
		return slices.ContainsFunc(versions, func(v compiled) bool { return policy.SameTextAndData(v.spec, spec) }), nil
	}
	revision, ok, err := c.revision(ctx, obj)
	return ok && policy.SameTextAndData(revision.Spec.WithDefaults(), spec), err
}

var matchPath = field.NewPath("spec", "match")

// revision returns the version that the leader keeps of a policy; ok is false if it keeps none.
func (c *Controller) revision(ctx context.Context, obj *placementv1.PlacementPolicy) (revision policy.Revision, ok bool, err error) {
	object := &appsv1.ControllerRevision{}
	if err := c.revisions.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: policy.RevisionName(obj.Name)}, object); err != nil {
		return policy.Revision{}, false, client.IgnoreNotFound(err)
	}
	revision, err = policy.DecodeRevision(object.Data.Raw)
	// What can't be read, or is another policy's, is of no use.
	return revision, err == nil && revision.UID == obj.UID, nil
}

// kept returns the last version that compiled before this replica started, if one is kept and still compiles.
func (c *Controller) kept(ctx context.Context, obj *placementv1.PlacementPolicy) (compiled, bool, error) {
	revision, ok, err := c.revision(ctx, obj)
	if err != nil || !ok || revision.Generation >= obj.Generation {
		// One that is not older than what can't be in force is of no use.
		return compiled{}, false, err
	}
	// A newer Berth may refuse what an older one took.
	out, _ := compile(obj.Name, revision.UID, revision.Generation, revision.Spec)
	if out.module == nil {
		return compiled{}, false, nil
	}
	out.bindings = bindingsOf(revision, obj, out.module)
	return out, true, nil
}

// putInForce makes a compiled text decidable that was bound.
func (c *Controller) putInForce(ctx context.Context, obj *placementv1.PlacementPolicy, text compiled, binding *policy.Binding) (*placement.Standing, error) {
	// Another text of the same generation is from a history that the API server's store went back from.
	known := slices.ContainsFunc(c.versions(obj), func(v compiled) bool { return v.module == text.module })
	text.bindings = binding.Bindings
	c.remember(obj, text, len(binding.Missing) == 0)
	warnings := slices.Concat(text.module.Warnings, binding.Namesakes(c.catalog))
	if known {
		for _, old := range c.prepared(obj.Name) {
			if old.Policy.Generation == text.generation && reflect.DeepEqual(old.Binding, binding) {
				same := *old
				same.Generation, same.Err, same.Next, same.Warnings = obj.Generation, text.invalid, nil, warnings
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
		Err:        text.invalid,
		Binding:    binding,
		Warnings:   warnings,
	}, nil
}

func (c *Controller) bind(ctx context.Context, name string, text compiled) (*policy.Binding, error) {
	if err := c.engine.Check(text.module); err != nil {
		return nil, err
	}
	binding, err := policy.BindRecorded(name, text.module, text.spec.Replicate, c.catalog, text.bindings)
	if err == nil && len(binding.Missing) > 0 {
		if err := c.catalog.Refresh(ctx); err != nil {
			return nil, err
		}
		binding, err = policy.BindRecorded(name, text.module, text.spec.Replicate, c.catalog, text.bindings)
	}
	if err == nil && text.module.Nodes {
		binding.World = predicates.Reads()
	}
	if err == nil {
		binding.MaxStaleness = defaultMaxStaleness
		if text.spec.MaxStaleness != nil {
			binding.MaxStaleness = text.spec.MaxStaleness.Duration
		}
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
		Clusters:      spec.Clusters.WithDefaults(),
		BlastRadius:   spec.Remediation.BlastRadius.WithDefaults(),
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
		return old.Loaded != next.Loaded || old.Err.Error() != next.Err.Error()
	}
	return old.Policy != next.Policy || old.Loaded != next.Loaded || old.Next != next.Next || old.Generation != next.Generation || (old.Err == nil) != (next.Err == nil) || !slices.Equal(old.Warnings, next.Warnings)
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

// versions returns the versions of a policy that this replica knows: the last in force of which all types were served,
// and the newest that compiled, if that is another one.
func (c *Controller) versions(obj *placementv1.PlacementPolicy) []compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []compiled
	for _, all := range []map[string]compiled{c.good, c.compiled} {
		// A policy that was deleted and created again has no past.
		if v, ok := all[obj.Name]; ok && v.uid == obj.UID && !slices.ContainsFunc(out, func(o compiled) bool { return o.module == v.module }) {
			out = append(out, v)
		}
	}
	return out
}

// remember keeps a version that compiled; complete says that it is in force and that all types are served that it reads.
func (c *Controller) remember(obj *placementv1.PlacementPolicy, text compiled, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text.generation == obj.Generation || !complete {
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

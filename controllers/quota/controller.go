// Package quota counts what the namespaces of quotas take and keeps their status. The leader runs it.
package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

// Catalog tells which types the API server serves.
type Catalog interface {
	ByPlural(plural string) []policy.Resource
	// Served returns all types that are served; nil where that is not known.
	Served() *match.Served
}

// Classes knows the classes of a kind.
type Classes interface {
	// Names returns the names of all of them.
	Names(ctx context.Context) ([]string, error)
}

// Deps is what a Controller works with.
type Deps struct {
	// Client reads from a cache and writes; Live reads from the API server.
	Client     client.Client
	Live       client.Reader
	Dynamic    dynamic.Interface
	Catalog    Catalog
	Compiler   *quota.Compiler
	Evaluators *quota.Evaluators
	Metrics    *metrics.Metrics
	Clock      clock.PassiveClock
	// Hook says how an object's part in the webhook configuration fares.
	Hook func(quota.Key) status.HookState
	// History tells when the API server's store has gone back to an earlier state; nil for never.
	History *watches.History
	// Classes are the priority classes, which scopes may name, and StorageClasses those that names of hard may have; nil for
	// a controller that does not look at them.
	Classes, StorageClasses Classes
	// OwnNamespace is Berth's own, where nothing is counted; empty for none.
	OwnNamespace string
}

// Controller keeps status. Create it with New.
type Controller struct {
	Deps
	meter   *quota.Meter
	watches *watches.Manager
	wake    chan struct{}

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[quota.Key]
	// last is what each quota's last count was made from.
	last map[quota.Key]basis
	// settled is when each quota's status was last written here.
	settled map[quota.Key]time.Time
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, meter: quota.NewMeter(d.Evaluators, d.Clock), wake: make(chan struct{}, 1), last: map[quota.Key]basis{}, settled: map[quota.Key]time.Time{}}
	c.watches = watches.NewManager(d.Dynamic, &sink{meter: c.meter, changed: c.objectsChanged}, c.watchChanged)
	// What the last leader has settled must be in what this one counts.
	c.watches.Consistent, c.watches.History = true, d.History
	return c
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	ctl, err := controller.NewTyped("quota", mgr, controller.TypedOptions[quota.Key]{
		Reconciler:              c,
		MaxConcurrentReconciles: 2,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[quota.Key](20*time.Millisecond, time.Minute),
	})
	if err != nil {
		return err
	}
	changes := &changes{controller: c}
	for _, object := range []client.Object{&placementv1.ScopedQuota{}, &placementv1.ClusterScopedQuota{}, &placementv1.LimitedResource{}} {
		if err := ctl.Watch(source.TypedKind(mgr.GetCache(), object, changes)); err != nil {
			return err
		}
	}
	var namespaces client.Object = watches.NewNamespace()
	if err := ctl.Watch(source.TypedKind(mgr.GetCache(), namespaces, &joins{controller: c})); err != nil {
		return err
	}
	for _, class := range []client.Object{watches.NewPriorityClass(), watches.NewStorageClass()} {
		if err := ctl.Watch(source.TypedKind(mgr.GetCache(), class, &classChanges{controller: c})); err != nil {
			return err
		}
	}
	return ctl.Watch(source.TypedFunc[quota.Key](c.start))
}

// start is the controller's source: it keeps the watches on what quotas count.
func (c *Controller) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[quota.Key]) error {
	c.mu.Lock()
	c.queue = queue
	c.mu.Unlock()
	go func() {
		for {
			if wanted, err := c.wanted(ctx); err == nil {
				c.watches.Set(ctx, wanted)
			} else if ctx.Err() == nil {
				ctrllog.FromContext(ctx).Error(err, "Listing quotas")
			}
			select {
			case <-ctx.Done():
				c.mu.Lock()
				c.queue = nil
				c.mu.Unlock()
				return
			case <-c.wake:
			}
		}
	}()
	return nil
}

// ServedChanged has everything looked at that depends on what the API server serves.
func (c *Controller) ServedChanged() {
	c.Rewatch()
	limits := &placementv1.LimitedResourceList{}
	if err := c.Client.List(context.Background(), limits, client.UnsafeDisableDeepCopy); err != nil {
		// Nothing is read before the caches are started, and then everything is.
		return
	}
	for i := range limits.Items {
		key, _ := quota.KeyOf(&limits.Items[i])
		c.enqueue(key)
	}
}

// Rewatch has the watched types computed anew: quotas or what the API server serves have changed.
func (c *Controller) Rewatch() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// wanted are the types that quotas count and the API server serves, whole.
func (c *Controller) wanted(ctx context.Context) (map[schema.GroupVersionResource]*projection.Fields, error) {
	quotas, err := c.all(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupVersionResource]*projection.Fields{}
	for _, q := range quotas {
		types, _ := c.Evaluators.Types(q.QuotaSpec())
		for t := range types {
			if served, ok := c.served(t); ok {
				out[served] = nil
			}
		}
	}
	return out, nil
}

// served is the version in which objects of a type are counted; ok is false if there are none in any namespace.
func (c *Controller) served(t schema.GroupResource) (schema.GroupVersionResource, bool) {
	for _, r := range c.Catalog.ByPlural(t.Resource) {
		if r.Group == t.Group && r.Namespaced {
			return r.GroupVersionResource, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// all returns every quota of both kinds, to read; of ScopedQuotas those of one namespace, if it is given.
func (c *Controller) all(ctx context.Context, namespace string) ([]placementv1.Quota, error) {
	var out []placementv1.Quota
	scoped := &placementv1.ScopedQuotaList{}
	if err := c.Client.List(ctx, scoped, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range scoped.Items {
		out = append(out, &scoped.Items[i])
	}
	cluster := &placementv1.ClusterScopedQuotaList{}
	if err := c.Client.List(ctx, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range cluster.Items {
		out = append(out, &cluster.Items[i])
	}
	return out, nil
}

// gather is how long changes are gathered before a recount, so that a wave of them is one.
const gather = 50 * time.Millisecond

func (c *Controller) enqueue(key quota.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		c.queue.AddAfter(key, gather)
	}
}

// HookChanged says that an object's part in the webhook configuration fares differently.
func (c *Controller) HookChanged(key quota.Key) { c.enqueue(key) }

// objectsChanged has the quotas recounted that count objects of a type, in one namespace or, if that is empty, in all.
func (c *Controller) objectsChanged(t schema.GroupResource, namespace string) {
	// A cache that is synced answers at once, and the context of the watch ends with the process.
	quotas, err := c.all(context.Background(), namespace)
	if err != nil {
		return
	}
	for _, q := range quotas {
		if types, _ := c.Evaluators.Types(q.QuotaSpec()); types[t] != nil {
			key, _ := quota.KeyOf(q)
			c.enqueue(key)
		}
	}
}

// watchChanged has the quotas recounted that count objects of a type whose watch fares differently.
func (c *Controller) watchChanged(r schema.GroupVersionResource) {
	c.objectsChanged(r.GroupResource(), "")
}

// namespacesChanged has the quotas recounted that select namespaces.
func (c *Controller) namespacesChanged(ctx context.Context) {
	cluster := &placementv1.ClusterScopedQuotaList{}
	if err := c.Client.List(ctx, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range cluster.Items {
		key, _ := quota.KeyOf(&cluster.Items[i])
		c.enqueue(key)
	}
}

// +kubebuilder:rbac:groups=placement.berth.dev,resources=scopedquotas;clusterscopedquotas;limitedresources,verbs=get;list;watch
// +kubebuilder:rbac:groups=placement.berth.dev,resources=scopedquotas/status;clusterscopedquotas/status;limitedresources/status,verbs=get;patch;update

// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch

// fullRecount is how often a quota is counted even if nothing is known to have changed.
const fullRecount = 5 * time.Minute

// Reconcile brings one object's status up to date.
func (c *Controller) Reconcile(ctx context.Context, key quota.Key) (reconcile.Result, error) {
	if key.Kind == quota.KindLimitedResource {
		return reconcile.Result{}, c.reconcileLimit(ctx, key)
	}
	// At first as the cache has it; who lost a race reads what the winner wrote.
	from := client.Reader(c.Client)
	late := map[string]bool{}
	var next time.Time
	err := retry.OnError(contended, apierrors.IsConflict, func() error {
		var err error
		next, err = c.recount(ctx, from, key, late)
		from = c.Live
		return err
	})
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	again := fullRecount
	if !next.IsZero() {
		again = min(again, max(next.Sub(c.Clock.Now()), gather))
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// basis is what a count is made from: where it is the same, usage that differs is drift.
type basis struct {
	uid        types.UID
	generation int64
	revision   uint64
	next       time.Time
	selected   selection
}

// explains says whether something known may have changed what is used since an earlier count.
func (b basis) explains(earlier basis, now time.Time) bool {
	lapsed := !earlier.next.IsZero() && !now.Before(earlier.next)
	return b.uid != earlier.uid || b.generation != earlier.generation || b.revision != earlier.revision || lapsed || !maps.Equal(b.selected, earlier.selected)
}

// contended is how a recount tries again while webhooks charge.
var contended = wait.Backoff{Steps: 20, Duration: 5 * time.Millisecond, Factor: 1.15, Jitter: 1}

func (c *Controller) recount(ctx context.Context, from client.Reader, key quota.Key, late map[string]bool) (time.Time, error) {
	q := newQuota(key)
	if err := from.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, q); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(key)
		}
		return time.Time{}, err
	}
	rules, err := c.Compiler.Quota(ctx, q)
	if err != nil {
		return time.Time{}, err
	}
	selected, err := c.selected(ctx, q)
	if err != nil {
		return time.Time{}, err
	}
	c.ask(ctx, q, selected, late)
	counted, err := c.meter.Recount(ctx, q, rules, quota.World{
		Selects: selected.has,
		Absent: func(t schema.GroupResource) bool {
			_, served := c.served(t)
			return !served
		},
		Late: late,
	})
	if err != nil {
		return time.Time{}, err
	}
	states := map[schema.GroupResource]watches.State{}
	for _, t := range counted.Missing {
		served, _ := c.served(t)
		states[t], _ = c.watches.State(served)
		if states[t].Err == nil && q.QuotaStatus().ObservedGeneration == q.GetGeneration() {
			// The watch's first content brings the quota back; until then what the last leader counted holds.
			return time.Time{}, nil
		}
	}
	reach, err := c.reach(ctx, q, selected)
	if err != nil {
		return time.Time{}, err
	}
	return c.write(ctx, key, selected, status.QuotaFacts{
		Reach: reach, Served: c.Catalog.Served(),
		Quota: q, Rules: rules, Recount: counted, Untracked: c.untracked(q), Types: states,
		Hook: c.Hook(key), Exempt: key.Namespace != "" && key.Namespace == c.OwnNamespace,
	})
}

// reach returns what of a quota's scopes and selector there is not.
func (c *Controller) reach(ctx context.Context, q placementv1.Quota, selected selection) (*status.QuotaReach, error) {
	out := &status.QuotaReach{}
	if cluster, ok := q.(*placementv1.ClusterScopedQuota); ok && cluster.Spec.NamespaceSelector != nil {
		if why := match.ExcludesAll(cluster.Spec.NamespaceSelector.Upstream(), c.OwnNamespace); why != "" {
			out.Impossible = "spec.namespaceSelector: " + why
		}
		out.NoNamespaces = len(selected) == 0
	}
	if out.Impossible == "" {
		out.Impossible = c.Evaluators.Scoping(q.QuotaSpec()).Nothing
	}
	types, _ := c.Evaluators.Types(q.QuotaSpec())
	for t := range types {
		if _, served := c.served(t); served {
			out.Served = true
		} else {
			out.Unserved = append(out.Unserved, t)
		}
	}
	slices.SortFunc(out.Unserved, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return out, c.unknownClasses(ctx, q.QuotaSpec(), out)
}

// unknownClasses adds the classes that a quota names and that do not exist.
func (c *Controller) unknownClasses(ctx context.Context, spec *placementv1.QuotaSpec, out *status.QuotaReach) error {
	if c.Classes != nil && len(priorityClasses(spec, nil)) > 0 {
		known, err := c.Classes.Names(ctx)
		if err != nil {
			return err
		}
		out.UnknownClasses = priorityClasses(spec, known)
	}
	if c.StorageClasses != nil && len(quota.UnknownStorageClasses(spec, nil)) > 0 {
		known, err := c.StorageClasses.Names(ctx)
		if err != nil {
			return err
		}
		out.UnknownStorageClasses = quota.UnknownStorageClasses(spec, known)
	}
	return nil
}

// priorityClasses returns the priority classes that a quota's scopes name, without the known ones.
func priorityClasses(spec *placementv1.QuotaSpec, known []string) []string {
	if spec.ScopeSelector == nil {
		return nil
	}
	return quota.UnknownClasses(corev1.ResourceQuotaScopePriorityClass, spec.ScopeSelector.MatchExpressions, known)
}

// classesChanged has the quotas looked at that name a class.
func (c *Controller) classesChanged(ctx context.Context, name string) {
	quotas, err := c.all(ctx, metav1.NamespaceAll)
	if err != nil {
		return
	}
	for _, q := range quotas {
		spec := q.QuotaSpec()
		if slices.Contains(priorityClasses(spec, nil), name) || slices.Contains(quota.UnknownStorageClasses(spec, nil), name) {
			key, _ := quota.KeyOf(q)
			c.enqueue(key)
		}
	}
}

// forget drops what is kept of a quota that is gone.
func (c *Controller) forget(key quota.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, key)
	delete(c.settled, key)
}

// Unsettled returns a quota's reservations whose objects are not counted yet; all of them if this replica does not lead.
// It is for who is about to write them, and saves the controller a write that does nothing else.
func (c *Controller) Unsettled(q placementv1.Quota) []placementv1.Reservation {
	all := q.QuotaStatus().Reservations
	if !c.leads() {
		return all
	}
	// The cache answers at once.
	selected, err := c.selected(context.Background(), q)
	if err != nil {
		return all
	}
	return c.meter.Unsettled(all, selected.has)
}

// leads says whether this replica counts.
func (c *Controller) leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue != nil
}

// maxAsking bounds how many reservations are asked about at once.
const maxAsking = 16

// ask asks the API server about reservations that have expired: whether their changes are there all the same, or may be.
// A watch that is so far behind must not make room that is taken. late has the answers by their uids, and gets the new
// ones.
func (c *Controller) ask(ctx context.Context, q placementv1.Quota, selected selection, late map[string]bool) {
	now := c.Clock.Now()
	var open []placementv1.Reservation
	for _, r := range q.QuotaStatus().Reservations {
		if _, asked := late[r.UID]; !asked && quota.Expired(r, now) && selected.has(r.Namespace) {
			open = append(open, r)
		}
	}
	there := make([]bool, len(open))
	// Whoever is not asked about would count as gone: the end of ctx is an error of each, which does not.
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), maxAsking, len(open), func(i int) { there[i] = c.there(ctx, open[i]) })
	for i, r := range open {
		late[r.UID] = there[i]
	}
}

// there says whether the API server has the change that a reservation is for, or may have it.
func (c *Controller) there(ctx context.Context, r placementv1.Reservation) bool {
	served, ok := c.served(schema.ParseGroupResource(r.Resource))
	if !ok || r.Name == "" {
		return false
	}
	o, err := c.Dynamic.Resource(served).Namespace(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		// Who may list and watch but not get would keep the charge for ever.
		return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)
	}
	if r.ObjectUID == "" {
		// Creates of several objects share it: one that the meter does not know may be any of theirs.
		return !c.meter.Has(served.GroupResource(), r.Namespace, r.Name, o.GetUID())
	}
	return string(o.GetUID()) == r.ObjectUID && o.GetResourceVersion() != r.ObjectVersion
}

func (c *Controller) untracked(q placementv1.Quota) []string {
	_, names := c.Evaluators.Types(q.QuotaSpec())
	var out []string
	for _, name := range names {
		out = append(out, string(name))
	}
	return out
}

// settlePace is how often a status is written for no other reason than that reservations are settled: that changes
// nothing that is used, and each write makes those try again who charge.
const settlePace = time.Second

// write writes the status if it differs, and returns when the quota is to be counted again; zero for no sooner than
// others are.
func (c *Controller) write(ctx context.Context, key quota.Key, selected selection, facts status.QuotaFacts) (time.Time, error) {
	q, next := facts.Quota, facts.Recount.Next
	before, _ := q.DeepCopyObject().(placementv1.Quota)
	*q.QuotaStatus() = status.ComputeQuota(facts)
	if cluster, ok := q.(*placementv1.ClusterScopedQuota); ok {
		cluster.Status.Namespaces = status.ComputeNamespaces(facts.Recount)
		cluster.Status.SelectedNamespaces = new(int32(len(selected)))
	}
	if !equality.Semantic.DeepEqual(before, q) {
		if wait := c.settledAgo(key, before, q); wait > 0 {
			return c.Clock.Now().Add(wait), nil
		}
		if err := c.Client.Status().Update(ctx, q); err != nil {
			return next, err
		}
		c.mu.Lock()
		c.settled[key] = c.Clock.Now()
		c.mu.Unlock()
	}
	now := basis{uid: q.GetUID(), generation: q.GetGeneration(), revision: facts.Recount.Revision, next: next, selected: selected}
	c.mu.Lock()
	earlier, known := c.last[key]
	c.last[key] = now
	c.mu.Unlock()
	was, is := before.QuotaStatus(), q.QuotaStatus()
	if known && !now.explains(earlier, c.Clock.Now()) && sameReservations(was.Reservations, is.Reservations) && !equality.Semantic.DeepEqual(was.Used, is.Used) {
		ctrllog.FromContext(ctx).Info("Corrected usage that nothing known had changed", "was", was.Used, "is", is.Used)
		c.Metrics.QuotaDrift(key)
	}
	return next, nil
}

// settledAgo is how long a write is to wait that changes neither what is used nor what is in force: since the last one
// of this controller, so that it comes due however often others write.
func (c *Controller) settledAgo(key quota.Key, before, after placementv1.Quota) time.Duration {
	was, is := before.QuotaStatus(), after.QuotaStatus()
	same := was.ObservedGeneration == is.ObservedGeneration && equality.Semantic.DeepEqual(was.Used, is.Used) &&
		equality.Semantic.DeepEqual(was.Hard, is.Hard) && equality.Semantic.DeepEqual(was.Conditions, is.Conditions)
	if !same || crowded(after, was.Reservations) {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return settlePace - c.Clock.Since(c.settled[key])
}

// sameReservations reports whether two lists have the same reservations, each of them as it was.
func sameReservations(a, b []placementv1.Reservation) bool {
	return slices.EqualFunc(a, b, func(x, y placementv1.Reservation) bool { return x.UID == y.UID })
}

// crowded reports whether reservations are half of what a quota, or a namespace in a quota that several share, may have.
func crowded(q placementv1.Quota, reservations []placementv1.Reservation) bool {
	if len(reservations) >= placementv1.MaxReservations/2 {
		return true
	}
	if _, shared := q.(*placementv1.ClusterScopedQuota); !shared {
		return false
	}
	byNamespace := map[string]int{}
	for _, r := range reservations {
		if byNamespace[r.Namespace]++; byNamespace[r.Namespace] >= placementv1.MaxNamespaceReservations/2 {
			return true
		}
	}
	return false
}

func newQuota(key quota.Key) placementv1.Quota {
	if key.Kind == quota.KindClusterScopedQuota {
		return &placementv1.ClusterScopedQuota{}
	}
	return &placementv1.ScopedQuota{}
}

// selection is a set of namespaces.
type selection map[string]bool

func (s selection) has(namespace string) bool { return s[namespace] }

// selected returns the namespaces whose objects a quota counts.
func (c *Controller) selected(ctx context.Context, q placementv1.Quota) (selection, error) {
	cluster, ok := q.(*placementv1.ClusterScopedQuota)
	if !ok {
		return selection{q.GetNamespace(): q.GetNamespace() != c.OwnNamespace}, nil
	}
	selector := labels.Everything()
	if cluster.Spec.NamespaceSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(cluster.Spec.NamespaceSelector.Upstream()); err != nil {
			return nil, fmt.Errorf("spec.namespaceSelector: %w", err)
		}
	}
	list := watches.NewNamespaceList()
	if err := c.Client.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	out := selection{}
	for i := range list.Items {
		out[list.Items[i].Name] = true
	}
	delete(out, match.NamespaceSystem)
	delete(out, c.OwnNamespace)
	return out, nil
}

func (c *Controller) reconcileLimit(ctx context.Context, key quota.Key) error {
	limit := &placementv1.LimitedResource{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: key.Name}, limit); err != nil {
		return client.IgnoreNotFound(err)
	}
	rules, err := c.Compiler.Limit(ctx, limit)
	if err != nil {
		return err
	}
	never := match.Never(schema.GroupResource{Group: limit.Spec.APIGroup, Resource: limit.Spec.Resource})
	_, served := c.served(schema.GroupResource{Group: limit.Spec.APIGroup, Resource: limit.Spec.Resource})
	next := status.ComputeLimit(limit, rules, c.Hook(key), status.LimitedType{
		Never: never, Served: served, Impossible: c.Evaluators.Parts(&limit.Spec).Nothing,
	})
	if equality.Semantic.DeepEqual(limit.Status, next) {
		return nil
	}
	limit.Status = next
	return client.IgnoreNotFound(c.Client.Status().Update(ctx, limit))
}

// Usage returns the quotas as the cache has them, for metrics; nil if this replica is not the leader.
func (c *Controller) Usage() []placementv1.Quota {
	if !c.leads() {
		return nil
	}
	quotas, err := c.all(context.Background(), metav1.NamespaceAll)
	if err != nil {
		return nil
	}
	return quotas
}

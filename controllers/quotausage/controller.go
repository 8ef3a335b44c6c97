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

// Package quotausage provides the controller that counts the usage of quotas and writes the status of quotas and
// LimitedResources. It runs on the leader.
package quotausage

import (
	"context"
	"fmt"
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
	"k8s.io/apimachinery/pkg/util/sets"
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
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

// Catalog knows the types that the API server serves, the preferred version of each, and which are namespaced.
type Catalog interface {
	// Namespaced returns the preferred version of a type. ok is false if the type is not served or not namespaced.
	Namespaced(schema.GroupResource) (_ schema.GroupVersionResource, ok bool)
	// Served returns all types that the API server serves, or nil if they are not known.
	Served() *match.ServedTypes
}

// Classes lists the classes of one kind, such as PriorityClass or StorageClass.
type Classes interface {
	// Names returns the names of all classes.
	Names(ctx context.Context) ([]string, error)
}

// Nodes reads the nodes of the served cluster.
type Nodes interface {
	// ExtendedResources returns the names of the extended resources that nodes have. ok is false if there are no nodes, or too many to read.
	ExtendedResources(ctx context.Context) (names []string, ok bool, err error)
}

// Capacity reads what pods can request of all clusters and nodes together.
type Capacity interface {
	// All returns the amounts of CPU and memory. One that is not known of each cluster and node is missing.
	All(ctx context.Context) (corev1.ResourceList, error)
}

// Deps holds the dependencies of a Controller. If Classes, StorageClasses, Nodes, or Capacity is nil, the checks that need it are left out.
type Deps struct {
	Client     client.Client // Reads from a cache, and writes.
	Live       client.Reader // Reads from the API server.
	Dynamic    dynamic.Interface
	Watches    *watches.Hub
	Catalog    Catalog
	Compiler   *quota.Compiler
	Evaluators *quota.Evaluators
	Metrics    *metrics.Metrics
	Clock      clock.PassiveClock
	// WebhookState returns the state of the rules of a quota or LimitedResource in the webhook configuration.
	WebhookState func(quota.Key) status.WebhookState
	// Classes lists the priority classes that scopes may name. StorageClasses lists the storage classes that names in
	// spec.hard may contain. If one is nil, the controller does not check for unknown classes of that kind.
	Classes, StorageClasses Classes
	// Nodes reads the nodes. If it is nil, the controller does not check whether nodes have the extended resources that quotas and
	// LimitedResources name.
	Nodes Nodes
	// Capacity reads what clusters and nodes have. If it is nil, the controller does not compare amounts with it.
	Capacity Capacity
	// OwnNamespace is Berth's own namespace, in which nothing is counted. It is empty if there is none.
	OwnNamespace string
}

// Controller counts usage and writes the status of quotas and LimitedResources. Create it with New.
type Controller struct {
	Deps
	meter   *quota.Meter      // Measures the counted objects.
	watches *watches.Consumer // Watches the counted types.
	wake    notify.Signal     // Its Notify makes start compute the watched types again.

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[quota.Key] // Nil while this replica is not the leader.
	// last has the inputs of the last recount of each quota.
	last map[quota.Key]recountBasis
	// written has the time at which this controller last wrote the status of each quota. A write that only removes settled reservations waits
	// until settleInterval after it.
	written map[quota.Key]time.Time
	// resources are the extended resources of nodes, as they were last read.
	resources recent[nodeResources]
	// capacity is the allocatable CPU and memory of all clusters and nodes together, as they were last read.
	capacity recent[corev1.ResourceList]
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, meter: quota.NewMeter(d.Evaluators, d.Clock), wake: notify.NewSignal(), last: map[quota.Key]recountBasis{},
		written: map[quota.Key]time.Time{}}
	c.watches = d.Watches.NewConsumer(&sink{meter: c.meter, changed: c.objectsChanged}, c.watchChanged)
	// Read at least as new a state as the previous leader did: objects whose reservations it removed must be in the
	// first count.
	c.watches.Consistent = true
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
	for object, handler := range map[client.Object]events{
		&placementv1.ScopedQuota{}:                 c.quotaEvents(),
		&placementv1.ClusterScopedQuota{}:          c.quotaEvents(),
		&placementv1.LimitedResource{}:             c.quotaEvents(),
		watches.NewNamespace():                     c.namespaceEvents(),
		watches.NewMetadata(watches.PriorityClass): c.classEvents(),
		watches.NewMetadata(watches.StorageClass):  c.classEvents(),
	} {
		if err := ctl.Watch(source.TypedKind(mgr.GetCache(), object, handler)); err != nil {
			return err
		}
	}
	return ctl.Watch(source.TypedFunc[quota.Key](c.start))
}

// start is a source of the controller's events, which begins when this replica becomes the leader. It starts the watches on the types that
// quotas count. When ctx ends, they end, and this replica no longer counts as the leader.
func (c *Controller) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[quota.Key]) error {
	c.mu.Lock()
	c.queue = queue
	c.mu.Unlock()
	go func() {
		for {
			if wanted, err := c.wantedTypes(ctx); err == nil {
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

// ServedChanged updates the watches and enqueues all LimitedResources because the API server serves other types than
// before.
func (c *Controller) ServedChanged() {
	c.Rewatch()
	limits := &placementv1.LimitedResourceList{}
	if err := c.Client.List(context.Background(), limits, client.UnsafeDisableDeepCopy); err != nil {
		// The caches are not started. When they are, the controller reconciles every object.
		return
	}
	for i := range limits.Items {
		key, _ := quota.KeyOf(&limits.Items[i])
		c.enqueue(key)
	}
}

// DeviceClassesChanged updates the watches and enqueues the quotas that count devices, or may start or stop to do so,
// because a DeviceClass changed.
func (c *Controller) DeviceClassesChanged() {
	c.meter.ClassesChanged()
	c.Rewatch()
	quotas, err := c.listQuotas(context.Background(), metav1.NamespaceAll)
	if err != nil {
		// The caches are not started. When they are, the controller reconciles every object.
		return
	}
	for _, q := range quotas {
		if c.Evaluators.MayCountDevices(q.QuotaSpec()) {
			key, _ := quota.KeyOf(q)
			c.enqueue(key)
		}
	}
}

// Rewatch has the set of watched types computed again because quotas or the served types changed. It does not block.
func (c *Controller) Rewatch() { c.wake.Notify() }

// wantedTypes returns the types that quotas count and that the API server serves, with all fields.
func (c *Controller) wantedTypes(ctx context.Context) (map[schema.GroupVersionResource]*projection.FieldSet, error) {
	quotas, err := c.listQuotas(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, q := range quotas {
		types, _ := c.Evaluators.Types(q.QuotaSpec())
		for t := range types {
			if served, ok := c.served(t); ok {
				out[served] = projection.AllFields()
			}
		}
	}
	return out, nil
}

// served returns the preferred version of a type. ok is false if it is not served as a namespaced type, or Berth can't measure objects of
// that version.
func (c *Controller) served(t schema.GroupResource) (_ schema.GroupVersionResource, ok bool) {
	served, ok := c.Catalog.Namespaced(t)
	return served, ok && quota.CanRead(served)
}

// listQuotas returns the ScopedQuotas of a namespace, or of all if namespace is empty, and all ClusterScopedQuotas. The caller must not
// change them.
func (c *Controller) listQuotas(ctx context.Context, namespace string) ([]placementv1.Quota, error) {
	var out []placementv1.Quota
	scoped := &placementv1.ScopedQuotaList{}
	if err := c.Client.List(ctx, scoped, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range scoped.Items {
		out = append(out, &scoped.Items[i])
	}
	cluster, err := c.listClusterQuotas(ctx)
	return append(out, cluster...), err
}

// listClusterQuotas returns all ClusterScopedQuotas. The caller must not change them.
func (c *Controller) listClusterQuotas(ctx context.Context) ([]placementv1.Quota, error) {
	list := &placementv1.ClusterScopedQuotaList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	out := make([]placementv1.Quota, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// recountDelay is how long the controller collects changes before a recount, so that a burst of changes causes one
// recount.
const recountDelay = 50 * time.Millisecond

// enqueue has a quota or a LimitedResource reconciled after recountDelay. It does nothing while this replica is not the leader.
func (c *Controller) enqueue(key quota.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		c.queue.AddAfter(key, recountDelay)
	}
}

// WebhookStateChanged enqueues an object because the state of its rules in the webhook configuration changed.
func (c *Controller) WebhookStateChanged(key quota.Key) { c.enqueue(key) }

// objectsChanged enqueues the quotas that count objects of a type: the ScopedQuotas of a namespace, or of all if namespace is empty, and
// all ClusterScopedQuotas.
func (c *Controller) objectsChanged(t schema.GroupResource, namespace string) {
	// A synced cache answers immediately, and the watch's context ends with the process.
	quotas, err := c.listQuotas(context.Background(), namespace)
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

// watchChanged enqueues the quotas that count a type because the state of its watch changed.
func (c *Controller) watchChanged(r schema.GroupVersionResource) {
	c.objectsChanged(r.GroupResource(), "")
}

// namespacesChanged enqueues all ClusterScopedQuotas because they may select other namespaces than before. It does nothing if the cache
// can't list them.
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
// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses,verbs=get;list;watch

// fullRecount is the maximum time between two recounts of a quota, even without any known change.
const fullRecount = 5 * time.Minute

// Reconcile recounts one quota, or computes the status of one LimitedResource, and writes the status. It recounts no quota before the
// DeviceClasses are known.
func (c *Controller) Reconcile(ctx context.Context, key quota.Key) (reconcile.Result, error) {
	if key.Kind == quota.KindLimitedResource {
		again, err := c.reconcileLimit(ctx, key)
		return reconcile.Result{RequeueAfter: again}, err
	}
	if !c.Evaluators.Settled() {
		// DeviceClassesChanged enqueues the quota when the types that it counts are known.
		return reconcile.Result{}, nil
	}
	// The first attempt reads from the cache. After a conflict, the retry reads the newer version from the API server.
	from := client.Reader(c.Client)
	keepExpired := map[string]bool{}
	var next time.Time
	err := retry.OnError(conflictBackoff, apierrors.IsConflict, func() error {
		var err error
		next, err = c.recount(ctx, from, key, keepExpired)
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
		again = min(again, max(next.Sub(c.Clock.Now()), recountDelay))
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// recountBasis identifies the inputs of a recount of a quota, except its reservations. If a recount has the basis of the one before, and
// changes the usage but no reservations, the change is drift.
type recountBasis struct {
	uid        types.UID
	generation int64
	revision   uint64           // The revision of the meter's data.
	next       time.Time        // When time alone changes the usage; zero for never.
	selected   sets.Set[string] // The namespaces that the quota counts.
}

// explains reports whether inputs differ from those of an earlier recount, so that the usage may differ, too. now is the time of this one.
func (b recountBasis) explains(earlier recountBasis, now time.Time) bool {
	lapsed := !earlier.next.IsZero() && !now.Before(earlier.next)
	return b.uid != earlier.uid || b.generation != earlier.generation || b.revision != earlier.revision || lapsed ||
		!b.selected.Equal(earlier.selected)
}

// conflictBackoff is the backoff for retries of a recount that conflicts with charges by webhooks.
var conflictBackoff = wait.Backoff{Steps: 20, Duration: 5 * time.Millisecond, Factor: 1.15, Jitter: 1}

// recount computes the usage of a quota and writes it to the status. It reads the quota by from. keepExpired has the results of
// lookUpExpired from earlier attempts, and gets those of this one. recount returns when the quota has to be counted again; zero if
// fullRecount is enough. While a counted type is not read yet, the status that an earlier leader wrote for the generation stays.
func (c *Controller) recount(ctx context.Context, from client.Reader, key quota.Key, keepExpired map[string]bool) (time.Time, error) {
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
	c.lookUpExpired(ctx, q, selected, keepExpired)
	counted, err := c.meter.Recount(ctx, q, rules, quota.RecountInput{
		Selects: selected.Has,
		NotServed: func(t schema.GroupResource) bool {
			_, served := c.served(t)
			return !served
		},
		Removed: func(t schema.GroupResource) bool {
			served := c.Catalog.Served()
			return served != nil && !served.Namespaced(t)
		},
		KeepExpired: keepExpired,
	})
	if err != nil {
		return time.Time{}, err
	}
	states := map[schema.GroupResource]watches.State{}
	for _, t := range counted.Missing {
		served, _ := c.served(t)
		states[t], _ = c.watches.State(served)
		if states[t].Err == nil && q.QuotaStatus().ObservedGeneration == q.GetGeneration() {
			// The quota is enqueued again when the watch has its first content. Until then the previous leader's count
			// remains.
			return time.Time{}, nil
		}
	}
	reach, err := c.reach(ctx, q, selected)
	if err != nil {
		return time.Time{}, err
	}
	return c.write(ctx, key, selected, quotaFacts{
		Reach: reach, Served: c.Catalog.Served(),
		Quota: q, Rules: rules, Recount: counted, Untracked: c.untracked(q), Types: states,
		Webhook: c.WebhookState(key), Exempt: key.Namespace != "" && key.Namespace == c.OwnNamespace,
	})
}

// reach returns what a quota's spec refers to and does not exist, or can't match: types, classes, extended resources, and namespaces; and
// probable mistakes in its amounts. Names in spec.hard under which Berth never counts an object are not among these. selected are the
// namespaces that the quota counts.
func (c *Controller) reach(ctx context.Context, q placementv1.Quota, selected sets.Set[string]) (*quotaReach, error) {
	out := &quotaReach{}
	if cluster, ok := q.(*placementv1.ClusterScopedQuota); ok && cluster.Spec.NamespaceSelector != nil {
		if why := match.ReasonSelectsNone(cluster.Spec.NamespaceSelector.Upstream(), c.OwnNamespace); why != "" {
			out.Impossible = "spec.namespaceSelector: " + why
		}
		out.NoNamespaces = len(selected) == 0
	}
	unreached, err := c.unreached(ctx, q)
	if err != nil {
		return nil, err
	}
	out.Doubts = slices.Concat(c.Evaluators.ImplausibleAmounts(q.QuotaSpec()), c.beyondCapacity(ctx, q.QuotaSpec()), unreached)
	if out.Impossible == "" {
		out.Impossible = c.Evaluators.CheckScopes(q.QuotaSpec()).CountsNothing
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
	var extended []string
	for _, name := range c.Evaluators.Extended(q.QuotaSpec()) {
		extended = append(extended, strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
	}
	out.AbsentResources = c.absentResources(ctx, extended, func(known, name string) bool { return known == name })
	return out, c.unknownClasses(ctx, q.QuotaSpec(), out)
}

// unreached returns messages about amounts in a quota's spec.hard that other quotas of Berth, which count the same objects, keep the usage
// from reaching. It compares a ScopedQuota with the ScopedQuotas of its namespace and all ClusterScopedQuotas, and a ClusterScopedQuota
// with the other ClusterScopedQuotas. Kubernetes' ResourceQuotas do not matter.
func (c *Controller) unreached(ctx context.Context, q placementv1.Quota) ([]string, error) {
	if q.GetNamespace() == "" {
		others, err := c.listClusterQuotas(ctx)
		return quota.Unreached(q, others, nil), err
	}
	others, err := c.listQuotas(ctx, q.GetNamespace())
	if err != nil || len(others) < 2 {
		return nil, err
	}
	namespace := watches.NewNamespace()
	if err := c.Client.Get(ctx, client.ObjectKey{Name: q.GetNamespace()}, namespace); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return quota.Unreached(q, others, namespace.GetLabels()), nil
}

// unknownClasses adds to out the priority classes, storage classes, and device classes that a quota names and that do not exist.
func (c *Controller) unknownClasses(ctx context.Context, spec *placementv1.QuotaSpec, out *quotaReach) error {
	var err error
	if out.UnknownClasses, err = unknownNames(ctx, spec, c.Classes, priorityClasses); err != nil {
		return err
	}
	out.UnknownDeviceClasses = c.Evaluators.UnknownDeviceClasses(spec)
	out.UnknownStorageClasses, err = unknownNames(ctx, spec, c.StorageClasses, quota.UnknownStorageClasses)
	return err
}

// unknownNames returns the classes of one kind that a quota names and that do not exist; none if classes is nil. unknown returns those that
// the quota names and that are not among the known ones.
func unknownNames(ctx context.Context, spec *placementv1.QuotaSpec, classes Classes, unknown func(_ *placementv1.QuotaSpec,
	known []string) []string) ([]string, error) {
	if classes == nil || len(unknown(spec, nil)) == 0 {
		return nil, nil
	}
	known, err := classes.Names(ctx)
	if err != nil {
		return nil, err
	}
	return unknown(spec, known), nil
}

// priorityClasses returns the priority classes that a quota's scopes name and that are not in known.
func priorityClasses(spec *placementv1.QuotaSpec, known []string) []string {
	if spec.ScopeSelector == nil {
		return nil
	}
	return quota.UnknownClasses(corev1.ResourceQuotaScopePriorityClass, spec.ScopeSelector.MatchExpressions, known)
}

// classesChanged enqueues the quotas that name a priority class or storage class with a name. It does nothing if the cache can't list the
// quotas.
func (c *Controller) classesChanged(ctx context.Context, name string) {
	quotas, err := c.listQuotas(ctx, metav1.NamespaceAll)
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

// forget removes what the controller has in memory for a deleted quota: the inputs of its last recount, and the time of the last write of
// its status. It leaves the metrics.
func (c *Controller) forget(key quota.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, key)
	delete(c.written, key)
}

// Unsettled returns those of a quota's reservations whose objects are not counted yet, or all if this replica is not the leader. A webhook
// that writes a charge to the status keeps only these there, which saves the controller a write that removes the others.
func (c *Controller) Unsettled(q placementv1.Quota) []placementv1.Reservation {
	all := q.QuotaStatus().Reservations
	if !c.isLeader() {
		return all
	}
	// The cache answers immediately.
	selected, err := c.selected(context.Background(), q)
	if err != nil {
		return all
	}
	return c.meter.Unsettled(all, selected.Has)
}

// isLeader reports whether this replica is the leader and counts.
func (c *Controller) isLeader() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue != nil
}

// maxLookups is the maximum number of concurrent requests about reservations.
const maxLookups = 16

// lookUpExpired queries the API server for the objects of expired reservations in the selected namespaces that are not in keepExpired yet,
// and adds the results to it, by the UID of the reservation: true if the change that was charged may be stored there and is not counted
// yet. So a watch that is far behind can't free quota that is in use.
func (c *Controller) lookUpExpired(ctx context.Context, q placementv1.Quota, selected sets.Set[string], keepExpired map[string]bool) {
	now := c.Clock.Now()
	var expired []placementv1.Reservation
	for _, r := range q.QuotaStatus().Reservations {
		if _, known := keepExpired[r.UID]; !known && quota.Expired(r, now) && selected.Has(r.Namespace) {
			expired = append(expired, r)
		}
	}
	exists := make([]bool, len(expired))
	// An object that is not looked up would count as gone. Without cancellation each lookup runs, and an error counts
	// as present.
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), maxLookups, len(expired),
		func(i int) { exists[i] = c.changeMayExist(ctx, expired[i]) })
	for i, r := range expired {
		keepExpired[r.UID] = exists[i]
	}
}

// changeMayExist reports whether the change for which a reservation was made is stored in the API server, or may be, and is not counted
// yet. It returns false if the reservation has no name of an object, the type is not served, or Berth may not get its objects.
func (c *Controller) changeMayExist(ctx context.Context, r placementv1.Reservation) bool {
	served, ok := c.served(schema.ParseGroupResource(r.Resource))
	if !ok || r.Name == "" {
		return false
	}
	o, err := c.Dynamic.Resource(served).Namespace(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		// If Berth may list and watch the type but not get it, an error would otherwise keep the charge for ever.
		return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)
	}
	if r.ObjectUID == "" {
		// Several creates of the same name share this reservation. An object that the meter does not know may belong to
		// any of them.
		return !c.meter.Has(served.GroupResource(), r.Namespace, r.Name, o.GetUID())
	}
	return string(o.GetUID()) == r.ObjectUID && o.GetResourceVersion() != r.ObjectVersion
}

// untracked returns the names in a quota's spec.hard under which Berth never counts an object, such as misspelt names, sorted. Names that
// count a type that the API server does not serve now are not among them.
func (c *Controller) untracked(q placementv1.Quota) []string {
	_, names := c.Evaluators.Types(q.QuotaSpec())
	var out []string
	for _, name := range names {
		out = append(out, string(name))
	}
	return out
}

// settleInterval is the minimum interval between status writes that only remove settled reservations. Such a write does
// not change the usage, and each write makes concurrent charges conflict and retry.
const settleInterval = time.Second

// write updates the status of a quota if it changed, unless settleDelay delays that. It returns when the quota has to be counted again;
// zero if fullRecount is enough. It also logs and counts drift of the usage.
func (c *Controller) write(ctx context.Context, key quota.Key, selected sets.Set[string], facts quotaFacts) (time.Time, error) {
	q, next := facts.Quota, facts.Recount.Next
	before, _ := q.DeepCopyObject().(placementv1.Quota)
	*q.QuotaStatus() = computeQuota(facts)
	if cluster, ok := q.(*placementv1.ClusterScopedQuota); ok {
		cluster.Status.Namespaces = computeNamespaces(facts.Recount)
		cluster.Status.SelectedNamespaces = new(int32(len(selected)))
	}
	if !equality.Semantic.DeepEqual(before, q) {
		if wait := c.settleDelay(key, before, q); wait > 0 {
			return c.Clock.Now().Add(wait), nil
		}
		if err := c.Client.Status().Update(ctx, q); err != nil {
			return next, err
		}
		c.mu.Lock()
		c.written[key] = c.Clock.Now()
		c.mu.Unlock()
	}
	now := recountBasis{uid: q.GetUID(), generation: q.GetGeneration(), revision: facts.Recount.Revision, next: next, selected: selected}
	c.mu.Lock()
	earlier, known := c.last[key]
	c.last[key] = now
	c.mu.Unlock()
	was, is := before.QuotaStatus(), q.QuotaStatus()
	if known && !now.explains(earlier, c.Clock.Now()) && sameReservations(was.Reservations, is.Reservations) &&
		!equality.Semantic.DeepEqual(was.Used, is.Used) {
		ctrllog.FromContext(ctx).Info("Corrected status.used of a quota, which differed from the counted usage for an unknown reason",
			"quota", key.String(), "was", was.Used, "is", is.Used)
		c.Metrics.QuotaDrift(metrics.QuotaKey(key))
	}
	return next, nil
}

// settleDelay returns how long to delay a write that changes neither the usage, the limits in force, nor the conditions: until
// settleInterval after the last write of this controller. It returns 0 or less for no delay, as for any other write, and while the
// reservations are crowded.
func (c *Controller) settleDelay(key quota.Key, before, after placementv1.Quota) time.Duration {
	was, is := before.QuotaStatus(), after.QuotaStatus()
	same := was.ObservedGeneration == is.ObservedGeneration && equality.Semantic.DeepEqual(was.Used, is.Used) &&
		equality.Semantic.DeepEqual(was.Hard, is.Hard) && equality.Semantic.DeepEqual(was.Conditions, is.Conditions)
	if !same || crowded(after, was.Reservations) {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return settleInterval - c.Clock.Since(c.written[key])
}

// sameReservations reports whether two lists have the same reservations, by their UIDs, in the same order.
func sameReservations(a, b []placementv1.Reservation) bool {
	return slices.EqualFunc(a, b, func(x, y placementv1.Reservation) bool { return x.UID == y.UID })
}

// crowded reports whether the number of reservations reaches half of the maximum of a quota, or of one namespace of a ClusterScopedQuota.
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

// newQuota returns an empty quota of the kind of a key.
func newQuota(key quota.Key) placementv1.Quota {
	if key.Kind == quota.KindClusterScopedQuota {
		return &placementv1.ClusterScopedQuota{}
	}
	return &placementv1.ScopedQuota{}
}

// selected returns the namespaces whose objects a quota counts. Berth's own namespace is not among them, nor is kube-system for a
// ClusterScopedQuota.
func (c *Controller) selected(ctx context.Context, q placementv1.Quota) (sets.Set[string], error) {
	return quota.CountedNamespaces(q, c.OwnNamespace, func(selector labels.Selector) ([]string, error) {
		list := watches.NewNamespaceList()
		if err := c.Client.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, fmt.Errorf("listing namespaces: %w", err)
		}
		var names []string
		for _, namespace := range list.Items {
			names = append(names, namespace.Name)
		}
		return names, nil
	})
}

// reconcileLimit computes the status of a LimitedResource, and writes it if it changed. It returns after which time the status has to be
// computed again: fullRecount if spec.matchContains names extended resources, since nodes may get other ones; 0 for never.
func (c *Controller) reconcileLimit(ctx context.Context, key quota.Key) (again time.Duration, err error) {
	limit := &placementv1.LimitedResource{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: key.Name}, limit); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	rules, err := c.Compiler.Limit(ctx, limit)
	if err != nil {
		return 0, err
	}
	never := match.NeverMatched(schema.GroupResource{Group: limit.Spec.APIGroup, Resource: limit.Spec.Resource})
	_, served := c.served(schema.GroupResource{Group: limit.Spec.APIGroup, Resource: limit.Spec.Resource})
	parts := slices.DeleteFunc(c.Evaluators.ExtendedParts(&limit.Spec), func(part string) bool { return part == "" })
	next := computeLimit(limit, rules, c.WebhookState(key), limitedType{
		Never: never, Served: served, Impossible: c.Evaluators.CheckMatchContains(&limit.Spec).LimitsNothing,
		AbsentResources: c.absentResources(ctx, parts, strings.Contains),
	})
	if c.Nodes != nil && len(parts) > 0 {
		again = fullRecount
	}
	if equality.Semantic.DeepEqual(limit.Status, next) {
		return again, nil
	}
	limit.Status = next
	return again, client.IgnoreNotFound(c.Client.Status().Update(ctx, limit))
}

// Usage returns the quotas from the cache, for metrics. It returns nil if this replica is not the leader.
func (c *Controller) Usage() []placementv1.Quota {
	if !c.isLeader() {
		return nil
	}
	quotas, err := c.listQuotas(context.Background(), metav1.NamespaceAll)
	if err != nil {
		return nil
	}
	return quotas
}

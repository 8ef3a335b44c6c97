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

// Package deliverer provides the controller that keeps the objects of multi-cluster systems which carry placed objects to their
// clusters. It runs on the leader. A placed object is one that a policy in mode Enforce delivers: by spec.delivery, or because the object
// itself has fields for its clusters, such as Kueue's Workload. A system is Karmada, KubeFleet, Open Cluster Management, or MultiKueue.
// Delivered objects, such as Karmada's PropagationPolicy, are those that Berth keeps in a system for a placed object. A type is a resource
// type in one version.
//
// An object is reconciled when it changes, when an object that is delivered for it changes, when the labels of its controller change, and
// when a policy, the labels of its namespace, or the served types change. What has to exist follows from the object and the policies alone
// (internal/delivery). The controller compares it with what exists, and writes the difference.
package deliverer

import (
	"context"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// FieldManager is the field manager of delivered objects.
const FieldManager = "berth-delivery"

// Catalog knows the types that the API server serves: it selects among them, and returns the kind of one, "" if it is not served. It also
// has the inventories. Subscribe registers a function to call when other types are served.
type Catalog interface {
	Select(func(schema.GroupVersionResource) bool) []policy.Resource
	Kind(schema.GroupVersionResource) string
	Inventories() *replication.Inventories
	Subscribe(f func())
}

// Deps holds the dependencies of a Controller: what it reads and writes with, and functions of other controllers that it calls.
type Deps struct {
	Client   dynamic.Interface
	Watches  *watches.Hub
	Registry *placement.Registry
	Decider  *placement.Decider
	Catalog  Catalog
	Account  *delivery.Account
	Clock    clock.Clock
	// Identity is Berth's own user. Match conditions see existing objects as if this user updated them.
	Identity authenticationv1.UserInfo
	// Ready reports whether all policies are loaded.
	Ready func(context.Context) bool
	// Changed is called with each policy whose account changed.
	Changed func(policy string)
	// Misplaced reports whether policies deny an object now, or decide other clusters for it than it has, so that remediation has to patch it.
	Misplaced func(resource schema.GroupVersionResource, namespace, name string) bool
	// Undecided reports whether one of the policies has not decided an object yet since this process became the leader, so that Misplaced
	// does not know. policies are names of policies that decide existing objects. resources are the versions of the object's type in which it
	// is read.
	Undecided func(policies []string, namespace, name string, resources ...schema.GroupVersionResource) bool
}

// Controller keeps delivered objects as the decisions require. Create it with New.
type Controller struct {
	Deps
	placed    *placedObjects    // The existing objects of the types that policies deliver.
	delivered *deliveredObjects // The existing objects that Berth wrote for placed objects.
	reports   *reports          // What systems report of placed objects.
	works     *works            // To which clusters systems carry placed objects.
	clusters  *clusters         // Which objects of inventories represent which clusters.
	// Each of these fills the field of that name: placedWatches fills placed, and so on.
	placedWatches, deliveredWatches, reportWatches, workWatches, clusterWatches *watches.Consumer
	// rewatch wakes watch when the set of watched types may change.
	rewatch notify.Signal
	// results publishes each object that was reconciled, with its result.
	results  notify.Topic[delivery.Reconciled]
	contests *contests       // The objects that other clients change back after Berth's writes.
	foreign  *foreignObjects // Objects of other clients with names of objects that Berth has to write.
	// changes are the changes of placed objects that systems may not have taken up.
	changes changes
	// absences tells since when systems have not brought placed objects to all of their clusters. After takingTimeout, such an object does not
	// count as delivered any more, but not as failed either.
	absences absences

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[delivery.Key] // Nil before the controller is started.

	// unsearched are the types that may have delivered objects of an earlier leader, and leftBehind those of them that had some when
	// findLeftBehind searched them, which are watched from then on. Both have true for each type. Only watch uses them.
	unsearched, leftBehind map[schema.GroupVersionResource]bool
}

const (
	// readyInterval is the interval at which a new leader checks whether it is ready.
	readyInterval = 200 * time.Millisecond
	// settle is how long changes of policies are collected before the watched types are computed again.
	settle = 200 * time.Millisecond
	// minBackoff and maxBackoff bound the delay before a write that failed is tried again.
	minBackoff, maxBackoff = time.Second, 5 * time.Minute
	// retryInterval is the interval at which deliveries are tried again that failed for a reason in the status.
	retryInterval = time.Minute
	// unreadableInterval is the interval at which objects are reconciled again that need a type which Berth fails to read.
	unreadableInterval = 5 * time.Second
	// misplacedInterval is the interval at which objects are reconciled again that get no status because they are misplaced, or not decided:
	// not all that ends this is a change of the object, or a decision on it.
	misplacedInterval = 5 * time.Second
	// takingTimeout is how long a system may take to follow a delivered object, and to bring the placed object to its clusters. After that,
	// the placed object does not count as delivered.
	takingTimeout = 20 * time.Second
	// workers is the number of objects that are delivered at the same time.
	workers = 4
)

// placedFields are the fields of placed objects that delivery and the selectors of policies read. nativeFields are those of
// placement objects, which Berth also writes.
var (
	placedFields = projection.Fields("metadata.labels.**", "metadata.annotations.**", "metadata.generateName", "metadata.ownerReferences.**",
		"metadata.generation", "spec.replicas", "status.observedGeneration")
	nativeFields = projection.Fields("metadata.generation", "metadata.labels.**", "metadata.annotations.**", "metadata.generateName",
		"metadata.ownerReferences.**", "status.**")
	workFields = projection.Fields("metadata.labels.**", "metadata.annotations.**", "metadata.generation", "status.conditions.**",
		"status.resourceStatus.**")
	reportFields = projection.Fields("metadata.generation", "spec.resource.**", "spec.clusters.**", "spec.placement.**", "status.**")
)

// New returns a controller that is not started. It subscribes to changes of policies and of the served types.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, rewatch: notify.NewSignal(), unsearched: map[schema.GroupVersionResource]bool{},
		leftBehind: map[schema.GroupVersionResource]bool{}, contests: newContests(d.Clock), foreign: &foreignObjects{}}
	for _, resource := range delivery.Resources() {
		c.unsearched[resource] = true
	}
	c.placed, c.delivered = newPlacedObjects(c.enqueue, c.typeChanged), newDeliveredObjects(c.enqueue, c.foreign)
	c.placedWatches = d.Watches.NewConsumer(c.placed, c.placedWatchChanged)
	c.deliveredWatches = d.Watches.NewConsumer(c.delivered, c.systemWatchChanged)
	c.deliveredWatches.Prepare = dropManagedFields
	// Systems also report objects that no policy matches.
	c.reports = newReports(func(keys ...delivery.Key) { c.enqueue(c.placed.among(keys)...) })
	c.reportWatches = d.Watches.NewConsumer(c.reports, c.systemWatchChanged)
	c.works = newWorks(c.enqueue)
	c.workWatches = d.Watches.NewConsumer(c.works, c.systemWatchChanged)
	c.clusters = newClusters(c.enqueueAll)
	c.clusterWatches = d.Watches.NewConsumer(c.clusters, c.systemWatchChanged)
	c.clusterWatches.Prepare = d.Catalog.Inventories().Prepare
	d.Registry.Subscribe(c.policyChanged)
	d.Catalog.Subscribe(c.servedChanged)
	return c
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	ctl, err := controller.NewTyped("deliverer", mgr, controller.TypedOptions[delivery.Key]{
		Reconciler:              c,
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[delivery.Key](minBackoff, maxBackoff),
	})
	if err != nil {
		return err
	}
	return ctl.Watch(source.TypedFunc[delivery.Key](c.start))
}

// start is the source of the controller's events. It starts watch once all policies are loaded.
func (c *Controller) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[delivery.Key]) error {
	c.mu.Lock()
	c.queue = queue
	c.mu.Unlock()
	go func() {
		// The poll returns an error only if ctx ends.
		if wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) { return c.Ready(ctx), nil }) != nil {
			return
		}
		c.watch(ctx)
	}()
	return nil
}

// watch keeps the watches on the types that the policies in force need until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	for {
		again := c.findLeftBehind(ctx)
		placed, delivered := c.wanted()
		c.reportWatches.Set(ctx, c.servedOf(delivery.System.ReportKinds, reportFields))
		c.workWatches.Set(ctx, c.servedOf(delivery.System.WorkKinds, workFields))
		c.clusterWatches.Set(ctx, c.referenced())
		c.deliveredWatches.Set(ctx, delivered)
		c.placedWatches.Set(ctx, placed)
		if !notify.Sleep(ctx, settle) || !c.awaitRewatch(ctx, again) {
			return
		}
	}
}

// awaitRewatch waits until the watched types may have changed, or, if again is set, at most for retryInterval. It returns false if ctx
// ended.
func (c *Controller) awaitRewatch(ctx context.Context, again bool) bool {
	var retry <-chan time.Time
	if again {
		timer := c.Clock.NewTimer(retryInterval)
		defer timer.Stop()
		retry = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-retry:
	case <-c.rewatch:
	}
	return ctx.Err() == nil
}

// wanted returns the types to watch, with the fields to read: in placed those whose objects policies deliver, and in delivered those of
// the objects that Berth writes for them, or has written before.
func (c *Controller) wanted() (placed, delivered map[schema.GroupVersionResource]*projection.FieldSet) {
	placed, delivered = map[schema.GroupVersionResource]*projection.FieldSet{}, map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.deliveredBy(p) {
			fields := placedFields
			if _, native := delivery.NativeSystem(c.kindOf(r.GroupVersionResource)); native {
				fields = nativeFields
			}
			if p.Matcher.Conditional() {
				fields = projection.AllFields()
			}
			if before, known := placed[r.GroupVersionResource]; !known || fields.Covers(before) {
				placed[r.GroupVersionResource] = fields
			}
			for _, system := range delivery.SystemsOf(p, c.kindOf(r.GroupVersionResource)) {
				for _, kind := range system.Kinds {
					if !kind.Existing {
						delivered[kind.GroupVersionResource] = projection.AllFields()
					}
				}
			}
		}
	}
	// What is not needed any more is deleted before its type is no longer watched.
	for _, resource := range c.delivered.resources() {
		delivered[resource] = projection.AllFields()
	}
	for resource := range c.leftBehind {
		delivered[resource] = projection.AllFields()
	}
	for resource, state := range c.deliveredWatches.States() {
		if !state.Synced {
			delivered[resource] = projection.AllFields()
		}
	}
	for resource := range delivered {
		if c.Catalog.Kind(resource) == "" {
			delete(delivered, resource)
		}
	}
	return placed, delivered
}

// servedOf returns the served types of the kinds that the function kinds returns for each system that policies deliver to, all with fields.
func (c *Controller) servedOf(kinds func(delivery.System) []delivery.Kind,
	fields *projection.FieldSet) map[schema.GroupVersionResource]*projection.FieldSet {
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, p := range c.Registry.InForce() {
		if !delivery.MayDeliver(p) {
			continue
		}
		systems := delivery.Systems(p.Delivery)
		for _, r := range c.deliveredBy(p) {
			// Placement objects are delivered to their own system.
			systems = append(systems, delivery.SystemsOf(p, c.kindOf(r.GroupVersionResource))...)
		}
		for _, system := range systems {
			for _, kind := range kinds(system) {
				if c.Catalog.Kind(kind.GroupVersionResource) != "" {
					out[kind.GroupVersionResource] = fields
				}
			}
		}
	}
	return out
}

// inventories returns the resource types of the inventories that the API server serves, each in one version.
func (c *Controller) inventories() []schema.GroupVersionResource {
	return c.Catalog.Inventories().Served(func(r schema.GroupVersionResource) bool { return c.Catalog.Kind(r) != "" })
}

// referenced returns the inventories to watch, with the fields to read. For each system that policies deliver to, these are those to whose
// objects it refers, that of its members, and those that tell which clusters are gone.
func (c *Controller) referenced() map[schema.GroupVersionResource]*projection.FieldSet {
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	inventories := c.inventories()
	for _, p := range c.Registry.InForce() {
		for _, r := range c.deliveredBy(p) {
			for _, system := range delivery.SystemsOf(p, c.kindOf(r.GroupVersionResource)) {
				for _, inventory := range inventories {
					switch group := inventory.GroupResource(); {
					case group == system.Members || group == system.Leaving:
						out[inventory] = memberFields
					case (system.References || system.Leaving.Resource != "") && out[inventory] == nil:
						out[inventory] = clusterFields
					}
				}
			}
		}
	}
	return out
}

// kindOf returns the kind of a served type; one with an empty Kind if the type is not served.
func (c *Controller) kindOf(resource schema.GroupVersionResource) schema.GroupKind {
	return schema.GroupKind{Group: resource.Group, Kind: c.Catalog.Kind(resource)}
}

// deliveredBy returns the served types whose objects a policy, in this version, may deliver.
func (c *Controller) deliveredBy(p *placement.Policy) []policy.Resource {
	if !delivery.MayDeliver(p) {
		return nil
	}
	return slices.DeleteFunc(c.Catalog.Select(p.Matcher.SelectsResource), func(r policy.Resource) bool {
		return len(delivery.SystemsOf(p, c.kindOf(r.GroupVersionResource))) == 0
	})
}

// enqueue adds placed objects to the workqueue. It does nothing before the controller is started.
func (c *Controller) enqueue(keys ...delivery.Key) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue == nil {
		return
	}
	for _, key := range keys {
		queue.Add(key)
	}
}

// ObjectDecided enqueues a placed object that policies have just decided, if it is of a type of which Berth may hold back the status until
// then, because the status starts the object in clusters.
func (c *Controller) ObjectDecided(resource schema.GroupVersionResource, namespace, objectName string) {
	if delivery.StartsByStatus(resource.GroupResource()) {
		c.enqueue(delivery.Key{GroupKind: c.kindOf(resource), Namespace: namespace, Name: objectName})
	}
}

// policyChanged enqueues the placed objects of the types that a policy may deliver now or may have delivered before, and has watch compute
// the watched types again.
func (c *Controller) policyChanged(change placement.PolicyChange) {
	versions := slices.DeleteFunc(slices.Concat(change.Before, change.After),
		func(p *placement.Policy) bool { return !delivery.MayDeliver(p) })
	if len(versions) == 0 {
		return
	}
	c.rewatch.Notify()
	c.enqueue(c.placed.keys(func(resource schema.GroupVersionResource, _ delivery.Key) bool {
		return slices.ContainsFunc(versions, func(p *placement.Policy) bool { return p.Matcher.SelectsResource(resource) })
	})...)
}

// NamespaceChanged enqueues the placed objects in the namespace with a name, because its labels changed, which the namespace selectors of
// policies read.
func (c *Controller) NamespaceChanged(name string) {
	c.enqueue(c.placed.keys(func(_ schema.GroupVersionResource, key delivery.Key) bool { return key.Namespace == name })...)
}

// servedChanged enqueues all placed objects, and has watch compute the watched types again, because the API server serves other types than
// before.
func (c *Controller) servedChanged() {
	c.rewatch.Notify()
	c.enqueue(c.placed.keys(func(schema.GroupVersionResource, delivery.Key) bool { return true })...)
}

// placedWatchChanged enqueues all placed objects, the owners of all delivered objects, and the objects with a result, because the state of
// the watch on a type of placed objects changed. Once all objects of the type are known, this deletes what was delivered for those that no
// longer exist. It calls Changed with the policies that deliver the type.
func (c *Controller) placedWatchChanged(resource schema.GroupVersionResource) {
	c.enqueueAll()
	c.enqueue(c.Account.Keys()...)
	c.typeChanged(resource)
}

// typeChanged calls Changed with the policies that deliver objects of a type because Settled may return true for them now.
func (c *Controller) typeChanged(resource schema.GroupVersionResource) {
	for _, p := range c.delivering(resource) {
		c.Changed(p.Name)
	}
}

// delivering returns the versions of policies in force that may deliver objects of a type; not those that wait for their data.
func (c *Controller) delivering(resource schema.GroupVersionResource) []*placement.Policy {
	return slices.DeleteFunc(c.Registry.Selecting(resource), func(p *placement.Policy) bool { return !delivery.MayDeliver(p) })
}

// Report returns how many of the existing objects that a policy delivers are delivered, failed, and run, with an example of each fault.
func (c *Controller) Report(policy string) delivery.Report { return c.Account.Report(policy) }

// Settled reports whether all existing objects of the types that versions of a policy deliver have been reconciled since the controller
// began to watch them, with everything read that delivery needs of the systems. It is true if the versions deliver nothing, and false while
// the objects of such a type are not known.
func (c *Controller) Settled(versions ...*placement.Policy) bool {
	for _, p := range versions {
		for _, r := range c.deliveredBy(p) {
			if !c.placed.isSettled(r.GroupVersionResource) {
				return false
			}
		}
	}
	return true
}

// Reporting reports whether a system to which policies deliver objects of a type reports where they run, even if Berth can't read that, and
// whether Settled is true for all policies that deliver this type.
func (c *Controller) Reporting(resource schema.GroupVersionResource) (reports, settled bool) {
	policies := c.delivering(resource)
	reports = slices.ContainsFunc(policies, func(p *placement.Policy) bool {
		return slices.ContainsFunc(delivery.SystemsOf(p, c.kindOf(resource)), delivery.System.Reports)
	})
	return reports, c.Settled(policies...)
}

// systemWatchChanged enqueues all objects because the state of a watch on a type of a system or an inventory changed.
func (c *Controller) systemWatchChanged(schema.GroupVersionResource) { c.enqueueAll() }

// enqueueAll enqueues all placed objects, and the owners of all delivered objects, which may not exist any more.
func (c *Controller) enqueueAll() {
	c.enqueue(c.placed.keys(func(schema.GroupVersionResource, delivery.Key) bool { return true })...)
	for _, resource := range c.delivered.resources() {
		c.enqueue(c.delivered.owners(resource)...)
	}
}

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

package deliverer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/watches"
)

// withdrawalManager is the field manager of withdrawals: statuses that make a system take a placed object out of clusters that are not
// decided any more. With the field manager of other statuses, the next status would remove what a withdrawal wrote and no client changed
// since, such as a time that the system writes again within the same second.
const withdrawalManager = FieldManager + "-withdrawal"

// hashAnnotation has the hash of what Berth applied last, so that fields which Berth no longer sets are removed.
const hashAnnotation = "placement.berth.dev/delivered-hash"

// need is what one reconcile finds out of a placed object: which objects have to exist for it in systems, and how far its delivery is.
type need struct {
	policies, systems []string                      // By name, the policies that deliver the object, and the systems to which they do.
	resources         []schema.GroupVersionResource // The versions of the object's type in which it is read.
	decidedBy         []string                      // Those of policies whose remediation.mode is Automatic, Approved, or Manual.
	objects           []wanted                      // The objects that have to exist.
	// existing are the objects that Berth has delivered for the placed object, and orphans that have names for it.
	existing map[name]*unstructured.Unstructured
	// kept has true for the types whose delivered objects are neither changed nor deleted, because it is not known which have to exist.
	kept map[schema.GroupVersionResource]bool

	// pending reports whether a type is not read yet that delivery of the object to some system needs. Other systems may get the object
	// meanwhile.
	pending bool
	// unobserved reports whether reading a type in which a system reports where the object runs has neither succeeded yet nor failed so
	// often that the type counts as unavailable.
	unobserved bool
	// unreadable reports whether reading a type that delivery of the object, or reports on it, need fails in a way that may end soon: Berth
	// tries again after unreadableInterval. Of a type of delivered objects or of reports, a missing permission does not count.
	unreadable bool
	// ending reports whether a delivered object is being deleted. Berth writes a new one when it is gone. Until then, finalizers may hold it,
	// which Berth does not remove.
	ending  bool
	failure *delivery.Failure // The first failure; nil if there is none.
	retry   time.Duration     // After which time to reconcile again if there is a failure; never 0.
	recheck time.Duration     // After which time to reconcile again if there is no failure; 0 for never.

	run     delivery.Run // Whether the object runs in its clusters.
	reports bool         // Whether a system reports where the object runs, and Berth may read that; false if undecided is set.
	surges  bool         // Whether a policy wants the object to stay in clusters that it leaves until it runs in its new ones.
	note    string       // Which part of the decision a system does not get; "" if each system gets all of it.
	// undecided reports whether the object has no valid list of clusters, or, according to its record, one that no policy decided. What is
	// delivered then stays as it is. A policy that can't decide now does not matter if the record has its earlier decision.
	undecided bool
}

// wanted is an object that has to exist in a system for a placed object: a delivered object or, if Existing is set, the placed object
// itself with a status that Berth applies.
type wanted struct {
	delivery.Delivered
	system delivery.System
	kept   []string  // The clusters in which the placed object stays for now although they are not decided (delivery.Handover.Kept).
	until  time.Time // When it leaves the first of kept in any case; zero for never, or if kept is empty.
	// alone is the object to write in place of Delivered if the API server refuses that: without the clusters of kept. It is nil if kept is
	// empty.
	alone *delivery.Delivered
}

// lookAgain has the object reconciled again at the latest after the duration after, if nothing fails. It never delays an earlier time.
func (n *need) lookAgain(after time.Duration) {
	if n.recheck == 0 || after < n.recheck {
		n.recheck = after
	}
}

// fail records a failure, unless there is one already.
func (n *need) fail(reason, format string, args ...any) {
	if n.failure == nil {
		n.failure = &delivery.Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
}

// Reconcile writes the objects that have to exist for a placed object, deletes those that no longer have to, and records the result.
func (c *Controller) Reconcile(ctx context.Context, key delivery.Key) (reconcile.Result, error) {
	versions, complete := c.placed.get(key)
	if len(versions) == 0 && !c.isGone(key, complete) {
		return reconcile.Result{}, nil
	}
	n := &need{existing: c.delivered.of(key), kept: map[schema.GroupVersionResource]bool{}, retry: retryInterval}
	for _, v := range versions {
		n.resources = append(n.resources, v.resource)
	}
	var object *unstructured.Unstructured
	var resource schema.GroupResource
	if len(versions) > 0 {
		object, resource = versions[0].object, versions[0].resource.GroupResource()
		if object.GetDeletionTimestamp() != nil {
			// The garbage collector deletes what was delivered for it. A finalizer may hold the object, so it does not count.
			c.record(key, nil, delivery.Result{}, versions)
			c.placed.reconciled(versions, key)
			return reconcile.Result{}, nil
		}
		if current, err := c.addOrphans(ctx, key, versions[0], n); err != nil || !current {
			return reconcile.Result{}, err
		}
		if read, err := c.needOf(ctx, versions, n); err != nil || !read {
			return reconcile.Result{}, err
		}
	} else {
		c.contests.forget(key)
		c.changes.forget(key)
		c.works.forget(key)
	}
	err := c.converge(ctx, object, n)
	if err != nil {
		n.fail(placementv1.ReasonDeliveryFailed, "%v", err)
	}
	result := delivery.Result{
		Resource: resource, Systems: strings.Join(n.systems, ","), Pending: n.pending || n.ending, Failure: n.failure,
		Run: n.run, Reports: n.reports, Surges: n.surges, Kept: strings.Join(n.surging(), ","), Note: n.note, Undecided: n.undecided,
	}
	if left := c.absences.left(key, n.run.Absent && n.failure == nil && !result.Pending, c.Clock.Now()); left > 0 {
		// Every new object, and every move, takes a moment.
		result.Run.Absent = false
		n.lookAgain(left)
	}
	c.record(key, n.policies, result, versions)
	if !n.pending && !n.unobserved {
		c.placed.reconciled(versions, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: c.again(n)}, nil
}

// addOrphans adds to n.existing the orphans that have names for a placed object. current is false if the placed object is being deleted, or
// was deleted and created again, of which an event follows: the garbage collector removes the owners before it deletes the placed object,
// and would delete delivered objects that got this owner back.
func (c *Controller) addOrphans(ctx context.Context, key delivery.Key, placed placedVersion, n *need) (current bool, err error) {
	orphans := c.delivered.orphansOf(key)
	if len(orphans) == 0 {
		return true, nil
	}
	// Unlike get, list is a permission that watching the type needs, too.
	list, err := c.Client.Resource(placed.resource).Namespace(key.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()})
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool {
		return o.GetUID() == placed.object.GetUID() && o.GetDeletionTimestamp() == nil
	}) {
		return false, nil
	}
	maps.Copy(orphans, n.existing)
	n.existing = orphans
	return true, nil
}

// record records the result of an object for the policies that deliver it, and calls Changed with each policy for which it differs from
// before. It publishes the result once for each of versions, with the object as it was read.
func (c *Controller) record(key delivery.Key, policies []string, result delivery.Result, versions []placedVersion) {
	for _, name := range c.Account.Record(key, policies, result) {
		c.Changed(name)
	}
	for _, v := range versions {
		c.results.Publish(delivery.Reconciled{Resource: v.resource, Object: v.object, Result: result})
	}
}

// Subscribe registers f, which is called with each existing object that was reconciled, and its result, once for each version in which the
// object is read. f must return quickly.
func (c *Controller) Subscribe(f func(delivery.Reconciled)) { c.results.Subscribe(f) }

// Result returns the newest result of an object's delivery, also if it failed; the zero value if no policy delivers the object, or it has
// not been reconciled.
func (c *Controller) Result(resource schema.GroupVersionResource, namespace, objectName string) delivery.Result {
	return c.Account.Result(delivery.Key{GroupKind: c.kindOf(resource), Namespace: namespace, Name: objectName})
}

// Pending reports whether Result may be old for an object of a type that policies deliver, because the object is not known, or was not
// reconciled since it became known. A change of an object that was reconciled before does not count, even if it is enqueued.
func (c *Controller) Pending(resource schema.GroupVersionResource, namespace, objectName string) bool {
	return slices.ContainsFunc(c.Registry.InForce(), func(p *placement.Policy) bool {
		return delivery.MayDeliver(p) && p.Matcher.SelectsResource(resource)
	}) &&
		!c.placed.isReconciled(resource, delivery.Key{GroupKind: c.kindOf(resource), Namespace: namespace, Name: objectName})
}

// again returns after which time an object has to be reconciled again without an event: unreadableInterval if Berth can't read what it
// needs, or else n.retry after a failure, or else the time set by lookAgain; in all cases, no later than the object leaves a cluster in
// which it stays only for now. It returns 0 for never.
func (c *Controller) again(n *need) time.Duration {
	out := n.recheck
	if n.failure != nil {
		// What failed may be corrected without an event for this controller.
		out = n.retry
	}
	if n.unreadable {
		// It counts as a failure after some attempts, which is no event.
		out = unreadableInterval
	}
	for _, want := range n.objects {
		if want.until.IsZero() {
			continue
		}
		if timeout := max(want.until.Sub(c.Clock.Now()), time.Second); out == 0 || timeout < out {
			out = timeout
		}
	}
	return out
}

// surging returns the clusters in which the object stays for now although they are not decided, sorted: until it runs in its new ones, or
// until the objects that it contains have left; nil if there are none.
func (n *need) surging() []string {
	var out []string
	for _, want := range n.objects {
		out = append(out, want.kept...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isGone reports whether it is certain that an object, which is in none of the complete types, does not exist or is delivered by no policy:
// its kind is served, and each type of this kind whose objects a policy may deliver is complete. So nothing is deleted while a type is
// unavailable.
func (c *Controller) isGone(key delivery.Key, complete map[schema.GroupVersionResource]bool) bool {
	served := false
	for _, r := range c.Catalog.Select(func(r schema.GroupVersionResource) bool { return r.Group == key.Group }) {
		served = served || c.kindOf(r.GroupVersionResource) == key.GroupKind
	}
	if !served {
		return false
	}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.deliveredBy(p) {
			if c.kindOf(r.GroupVersionResource) == key.GroupKind && !complete[r.GroupVersionResource] {
				return false
			}
		}
	}
	return true
}

// needOf finds out what has to exist for an object, and records it in n. read is false if the object, as it was read, lacks fields that
// match conditions read. It is enqueued again when it has them.
func (c *Controller) needOf(ctx context.Context, versions []placedVersion, n *need) (read bool, err error) {
	object := versions[0].object
	if _, own := ownerOf(object); own && slices.ContainsFunc(delivery.Resources(), func(r schema.GroupVersionResource) bool {
		return r.GroupResource() == versions[0].resource.GroupResource()
	}) {
		// What Berth delivers is not delivered itself.
		return true, nil
	}
	matching, unknown, read, err := c.matching(ctx, versions)
	if err != nil || !read {
		return false, err
	}
	kind := object.GroupVersionKind().GroupKind()
	for _, p := range unknown {
		c.leave(p, kind, "the policy's match conditions can't be evaluated for the object", n)
	}
	decision, placed, invalid := delivery.DecisionOf(object)
	n.undecided = !placed || invalid != nil || !c.Decider.Decided(object, object.GetNamespace())
	for _, p := range matching {
		if s := c.Registry.Get(p.Name); s != nil && s.Broken {
			c.leave(p, kind, "the policy has no version that can decide (see its Ready condition)", n)
		}
	}
	if matching, read, err = c.deliverersOf(ctx, object, slices.Compact(matching), n); err != nil || !read {
		return false, err
	}
	routes, names := delivery.RoutesOf(matching, kind)
	n.policies, n.decidedBy = names, remediating(matching, names)
	for _, route := range routes {
		n.systems = append(n.systems, route.Name)
		n.reports = n.reports || !n.undecided && c.mayRead(route.System, object.GetNamespace() != "")
		n.surges = n.surges || route.Spec != nil && route.Spec.Surge != nil
		if n.undecided {
			// The list is the developer's. What was delivered stays: the policies may decide the object again.
			n.keep(route.System)
			continue
		}
		if !n.kept[route.Kinds[0].GroupVersionResource] {
			c.needIn(route, object, decision, n)
		}
	}
	slices.Sort(n.systems)
	return true, nil
}

// remediating returns those of the names whose policies have existing objects decided: remediation.mode is neither Off nor NewOnly. A name
// without a policy among policies is left out.
func remediating(policies []*placement.Policy, names []string) (out []string) {
	for _, p := range policies {
		if p.RemediatesExisting() && slices.Contains(names, p.Name) {
			out = append(out, p.Name)
		}
	}
	return out
}

// matching returns the policies that match an object in one of its versions, in order of precedence, and in unknown those whose match
// conditions can't be evaluated for it. Policies that match several versions are repeated. read is false if the object, as it was read,
// lacks fields that match conditions read.
func (c *Controller) matching(ctx context.Context, versions []placedVersion) (matching, unknown []*placement.Policy, read bool, err error) {
	for _, v := range versions {
		of, failed, err := c.Decider.Matching(ctx, c.request(v))
		if err != nil {
			return nil, nil, false, err
		}
		// Another version of a policy may have come into force in the meantime, so this comes last.
		if c.readsMore(v) {
			return nil, nil, false, nil
		}
		matching, unknown = append(matching, of...), append(unknown, failed...)
	}
	slices.SortFunc(matching, placement.ByPrecedence)
	return matching, unknown, true, nil
}

// leave makes converge neither change nor delete what a policy may have delivered, and records a failure. why says why it is not known
// whether the policy delivers the object.
func (c *Controller) leave(p *placement.Policy, kind schema.GroupKind, why string, n *need) {
	for _, system := range delivery.SystemsOf(p, kind) {
		n.keep(system)
		n.fail(placementv1.ReasonDeliveryFailed, "it is not known whether PlacementPolicy %s delivers the object, because %s: correct "+
			"the policy; until then, Berth leaves the delivered objects as they are", p.Name, why)
	}
}

// readsMore reports whether a policy that may deliver an object has match conditions, although the object was read without all of its
// fields.
func (c *Controller) readsMore(v placedVersion) bool {
	return !v.fields.IsAll() && slices.ContainsFunc(c.Registry.InForce(), func(p *placement.Policy) bool {
		return p.Matcher.Conditional() && delivery.MayDeliver(p) && p.Matcher.SelectsResource(v.resource)
	})
}

// request returns the request that decides which policies match an existing object: an update by Berth without a change.
func (c *Controller) request(v placedVersion) placement.Request {
	namespace := v.object.GetNamespace()
	return placement.Request{
		Resource: v.resource, Namespace: namespace, Object: v.object, Old: v.object,
		Admission: placement.AdmissionOf(admissionv1.Update, v.resource, namespace, v.object, c.Identity),
	}
}

// needIn finds out what has to exist for an object in one system, and records it in n.
func (c *Controller) needIn(route delivery.Route, object *unstructured.Unstructured, decision delivery.Decision, n *need) {
	system := route.System
	if !c.resolve(system, &decision, n) {
		n.keep(system)
		return
	}
	if !c.findUnjoined(system, &decision, n) {
		n.keep(system)
		return
	}
	live, observed, unread := c.observe(system, object, n)
	if n.unobserved && live != nil {
		// What Berth asks of the system depends on where the object is.
		n.pending = true
		n.keep(system)
		return
	}
	placed := delivery.ObjectOf(object)
	if holder := system.HeldBy(placed); holder != "" {
		n.fail(placementv1.ReasonDeliveryFailed, "%s holds the placed object in %s, so that the object that Berth delivers has no effect: "+
			"delete %[1]s, or change it so that it no longer selects the placed object", holder, system.Title)
	}
	if unread == nil {
		c.awaitTaking(system, placed, live, n)
	}
	if !c.findContained(system, object, live, &decision, n) {
		n.keep(system)
		return
	}
	decision.Lists = system.ListsOf(placed, slices.Collect(maps.Values(n.existing)))
	next, err := system.HandOver(placed, decision, route.Spec, live, observed, c.Clock.Now())
	objects := next.Objects
	if err != nil {
		n.fail(placementv1.ReasonDeliveryFailed, "%v", err)
		n.keep(system)
	}
	if !c.checkTypes(system, objects, n) {
		n.keep(system)
		return
	}
	for i, o := range objects {
		want := wanted{Delivered: o, system: system, kept: next.Kept, until: next.Until}
		if len(next.Kept) > 0 && i < len(next.Alone) {
			want.alone = &next.Alone[i]
		}
		n.objects = append(n.objects, want)
		n.note = cmp.Or(n.note, o.Note)
		if o.Dangling != "" {
			n.fail(placementv1.ReasonDeliveryFailed, "PlacementDecision %s leaves out a decided cluster: %s", o.Object.GetName(), o.Dangling)
		}
	}
	if unread != nil && (next.Run.State != delivery.NotReported || !system.Reports() && len(decision.Clusters) > 0) {
		next.Run = *unread
	}
	n.run = n.run.And(next.Run).And(system.RunOf(object, decision))
}

// awaitTaking records a failure if the delivered object live has existed for takingTimeout, and the system still follows neither it nor
// another one for the placed object. Before that, or if live is nil, because it does not exist yet, it has the placed object reconciled
// again when the time is over. It does nothing if the system follows one.
func (c *Controller) awaitTaking(system delivery.System, placed delivery.Object, live *unstructured.Unstructured, n *need) {
	if !system.IsFree(placed) {
		return
	}
	left := takingTimeout
	if live != nil {
		left -= c.Clock.Since(live.GetCreationTimestamp().Time)
	}
	// The creation of the delivered object by this controller is no event for it.
	if left > 0 {
		n.lookAgain(left)
		return
	}
	n.fail(placementv1.ReasonDeliveryFailed, "%[1]s does not follow %[2]s: the controllers of %[1]s may be down, or %[1]s prefers "+
		"another object of the same priority that selects the placed object; see the Events of the placed object, and delete the object that "+
		"they name",
		system.Title, live.GetKind()+" "+qualified(live))
}

// checkTypes reports whether the types of objects of a system have been read, so that it is known which exist. If a type is not served,
// forbidden, or unavailable, it records a failure in n; if it is only not read yet, it sets n.pending. Objects with Existing do not count.
func (c *Controller) checkTypes(system delivery.System, objects []delivery.Delivered, n *need) bool {
	for _, o := range objects {
		if o.Existing {
			continue
		}
		switch state, watched := c.deliveredWatches.State(o.GroupVersionResource); {
		case c.Catalog.Kind(o.GroupVersionResource) == "":
			n.fail(placementv1.ReasonNotServed, "the API server does not serve %s: install %s, or remove it from spec.delivery",
				o.GroupResource(), system.Title)
			return false
		case apierrors.IsForbidden(state.Err):
			n.fail(placementv1.ReasonForbidden, "%v%s", state.Err, advice(system))
			return false
		case !state.Synced && watched && state.Settled():
			n.fail(placementv1.ReasonDeliveryFailed, "Berth can't read %s: %v", o.GroupResource(), state.Err)
			return false
		case !state.Synced:
			n.pending, n.unreadable = true, n.unreadable || state.Err != nil
			return false
		}
	}
	return true
}

// resolve adds to a decision the objects of the inventories to which the system refers, and removes the clusters that the system must not
// get, because they are being deleted or no inventory has them; n.note says so. It returns false while inventories that it needs have not
// been read: n.pending is then set, or, if Berth can't read an inventory to which delivered objects refer, n has a failure.
func (c *Controller) resolve(system delivery.System, decision *delivery.Decision, n *need) bool {
	own, unread := false, false
	for _, resource := range c.inventories() {
		switch state, watched := c.clusterWatches.State(resource); {
		case state.Synced:
			own = own || resource.GroupResource() == system.Leaving
		case !system.References && system.Leaving.Resource == "":
		case watched && state.Settled() && !system.References:
			// It is not known which clusters are gone.
			unread = true
		case watched && state.Settled():
			n.fail(placementv1.ReasonDeliveryFailed, "Berth can't read %s, to which the delivered object has to refer: %v; if a permission is "+
				"missing, grant get, list and watch by a ClusterRole labelled placement.berth.dev/aggregate-to-manager=true",
				resource.GroupResource(), state.Err)
			n.unreadable = true
			return false
		default:
			n.pending, n.unreadable = true, n.unreadable || state.Err != nil
			return false
		}
	}
	if system.References {
		decision.Objects = c.clusters.claims()
	}
	leaveOut := func(names []string, why string) {
		if len(names) == 0 {
			return
		}
		decision.Clusters = slices.DeleteFunc(slices.Clone(decision.Clusters), func(name string) bool { return slices.Contains(names, name) })
		n.note = cmp.Or(n.note, fmt.Sprintf("%s does not get clusters that %s: %s", system.Title, why, strings.Join(names, ", ")))
	}
	leaveOut(c.clusters.leaving(system.Leaving, decision.Clusters), "are being deleted")
	if own && !unread {
		leaveOut(c.clusters.gone(system.Leaving, decision.Clusters), "no inventory has")
	}
	return true
}

// findUnjoined sets decision.Unjoined, the decided clusters that are not ready, for a system whose members are the objects of an inventory.
// It returns false while that inventory has not been read, unless it is known to be unavailable.
func (c *Controller) findUnjoined(system delivery.System, decision *delivery.Decision, n *need) bool {
	for _, resource := range c.inventories() {
		if resource.GroupResource() != system.Members {
			continue
		}
		switch state, watched := c.clusterWatches.State(resource); {
		case state.Synced:
			decision.Unjoined = slices.DeleteFunc(slices.Clone(decision.Clusters),
				func(cluster string) bool { return c.clusters.isReady(resource, cluster) })
		case watched && state.Settled():
			// The system itself says what it can't place.
		default:
			n.pending, n.unreadable = true, n.unreadable || state.Err != nil
			return false
		}
	}
	return true
}

// observe returns in live the delivered object of an object in a system, and in observed what the system reports of the object; each is nil
// if there is none. live is also nil for a system that itself does not report where objects run (System.Reports). unread says why Berth
// can't read the reports; nil if it can.
func (c *Controller) observe(system delivery.System, object *unstructured.Unstructured, n *need) (live *unstructured.Unstructured,
	observed *delivery.Observation, unread *delivery.Run) {
	key, placed := keyOf(object), delivery.ObjectOf(object)
	if !system.Reports() {
		observed, unread = c.observeWorks(system, key, nil, n)
		return nil, observed, unread
	}
	live = liveIn(system, delivery.NameOf(placed), n.existing)
	if len(system.ReportKinds()) == 0 && live != nil {
		observed = new(system.Observe(live))
		if left := c.changes.left(object, observed.Revision, c.Clock.Now()); observed.Revision != "" && left > 0 {
			observed.Outdated = true
			n.lookAgain(left)
		}
	}
	for _, kind := range system.ReportKinds() {
		if kind.Namespaced == (key.Namespace != "") {
			if unread = c.unread(system, kind, c.reportWatches, n); unread != nil {
				return live, nil, unread
			}
			observed = c.reports.of(kind.GroupVersionResource, key)
		}
	}
	observed, unread = c.observeWorks(system, key, observed, n)
	return live, observed, unread
}

// observeWorks adds to observed, which may be nil, in which clusters a placed object is, and from which it is being removed, as the objects
// of WorkKinds tell. Only of a system that reports nothing else, it also adds by cluster what the object lacks to run; of such a system, it
// adds nothing if these kinds are not served. The second result says why Berth can't read them; nil if it can.
func (c *Controller) observeWorks(system delivery.System, key delivery.Key, observed *delivery.Observation,
	n *need) (*delivery.Observation, *delivery.Run) {
	for _, kind := range system.WorkKinds() {
		if !system.Reports() && c.Catalog.Kind(kind.GroupVersionResource) == "" {
			return observed, nil
		}
		if unread := c.unread(system, kind, c.workWatches, n); unread != nil {
			return observed, unread
		}
		if observed == nil {
			observed = &delivery.Observation{}
		}
		carried := c.works.of(kind.GroupVersionResource, key)
		observed.Present, observed.Ending = append([]string{}, slices.Sorted(maps.Keys(carried))...), nil
		missing := map[string]string{}
		for name, at := range carried {
			if missing[name] = at.Missing; at.Ending {
				observed.Ending = append(observed.Ending, name)
			}
			if at.Absent && !system.Reports() {
				observed.Absent = append(observed.Absent, name)
			}
		}
		slices.Sort(observed.Ending)
		if !system.Reports() {
			slices.Sort(observed.Absent)
			c.addUnavailable(system, missing)
			observed.Clusters = missing
		}
	}
	return observed, nil
}

// addUnavailable adds a text to carried, which has what an object lacks by cluster, for each cluster that is not ready and has none: the
// system does not know whether the object runs there.
func (c *Controller) addUnavailable(system delivery.System, carried map[string]string) {
	for _, resource := range c.inventories() {
		state, _ := c.clusterWatches.State(resource)
		if resource.GroupResource() != system.Leaving || !state.Synced {
			continue
		}
		for name, missing := range carried {
			if missing == "" && !c.clusters.isReady(resource, name) {
				carried[name] = system.Title + " does not know whether the object runs there, because the cluster is not available"
			}
		}
	}
}

// mayRead reports whether a system reports where objects run, and Berth may read these reports: the API server serves all of their types,
// and no permission is missing. namespaced tells whether the objects have a namespace. It is true also if reading fails now for another
// reason.
func (c *Controller) mayRead(system delivery.System, namespaced bool) bool {
	readable := func(kind delivery.Kind, consumer *watches.Consumer) bool {
		state, _ := consumer.State(kind.GroupVersionResource)
		return c.Catalog.Kind(kind.GroupVersionResource) != "" && !apierrors.IsForbidden(state.Err)
	}
	return system.Reports() &&
		!slices.ContainsFunc(system.ReportKinds(), func(kind delivery.Kind) bool {
			return kind.Namespaced == namespaced && !readable(kind, c.reportWatches)
		}) &&
		!slices.ContainsFunc(system.WorkKinds(), func(kind delivery.Kind) bool { return !readable(kind, c.workWatches) })
}

// unread returns why Berth can't read objects of a kind in which a system reports where objects run; nil if it can.
func (c *Controller) unread(system delivery.System, kind delivery.Kind, consumer *watches.Consumer, n *need) *delivery.Run {
	state, watched := consumer.State(kind.GroupVersionResource)
	out := &delivery.Run{State: delivery.RunUnknown}
	switch {
	case c.Catalog.Kind(kind.GroupVersionResource) == "":
		out.Reason, out.Message = placementv1.ReasonNotServed,
			fmt.Sprintf("the API server does not serve %s, in which %s reports where objects run", kind.GroupResource(), system.Title)
	case apierrors.IsForbidden(state.Err):
		out.Reason, out.Message = placementv1.ReasonForbidden, state.Err.Error()+advice(system)
	case watched && state.Synced:
		return nil
	default:
		// Until it is certain that the type can't be read, the status of an earlier leader counts.
		n.unobserved, n.unreadable = n.unobserved || !state.Settled(), n.unreadable || state.Err != nil
		out.Reason, out.Message = placementv1.ReasonWatchFailed, fmt.Sprintf("Berth has not read %s yet, in which %s reports where objects run",
			kind.GroupResource(), system.Title)
		if state.Err != nil {
			out.Message = fmt.Sprintf("Berth can't read %s, in which %s reports where objects run: %v", kind.GroupResource(),
				system.Title, state.Err)
		}
	}
	return out
}

// liveIn returns the existing object with a name that is delivered to a system and is not being deleted, or nil. It ignores copies of other
// clients with other names.
func liveIn(system delivery.System, objectName string, existing map[name]*unstructured.Unstructured) *unstructured.Unstructured {
	for _, kind := range system.Kinds {
		for id, o := range existing {
			if id.GroupVersionResource == kind.GroupVersionResource && id.name == objectName && o.GetDeletionTimestamp() == nil {
				return o
			}
		}
	}
	return nil
}

// keep makes converge neither change nor delete the delivered objects of a system. If the system reports where objects run, the placed
// object then counts as NotRunning, unless that is unknown.
func (n *need) keep(system delivery.System) {
	if system.Reports() {
		n.run = n.run.And(delivery.Run{State: delivery.NotRunning, Message: "Berth does not deliver the object to " + system.Title + " now"})
	}
	for _, kind := range system.Kinds {
		n.kept[kind.GroupVersionResource] = true
	}
}

// converge writes the objects that have to exist for a placed object, and deletes the other ones that Berth delivered for it, except for
// those of n.kept, those without Berth's label, and, if it has to have none of their type, those for which delivery.Stays is true. object
// is nil if the placed object does not exist any more.
func (c *Controller) converge(ctx context.Context, object *unstructured.Unstructured, n *need) error {
	existing := n.existing
	var errs []error
	// In a system, objects refer to those before them, and are not written without these.
	incomplete, needed := map[string]bool{}, map[schema.GroupVersionResource]bool{}
	for i := range n.objects {
		want := &n.objects[i]
		needed[want.GroupVersionResource] = true
		id := name{want.GroupVersionResource, want.Object.GetNamespace(), want.Object.GetName()}
		live := existing[id]
		delete(existing, id)
		if live != nil && live.GetDeletionTimestamp() != nil {
			// A new one is written when it is gone, of which an event follows. A finalizer may hold it, and the system ignores it.
			n.ending, incomplete[want.system.Name] = true, true
		}
		if incomplete[want.system.Name] {
			continue
		}
		var written bool
		var err error
		if want.Existing {
			written, err = c.applyStatus(ctx, *want, object, n)
		} else {
			written, err = c.apply(ctx, want, live, n)
		}
		if err != nil {
			errs = append(errs, err)
		}
		incomplete[want.system.Name] = !written
	}
	for _, id := range slices.SortedFunc(maps.Keys(existing), func(a, b name) int {
		return strings.Compare(b.Resource+"/"+b.name, a.Resource+"/"+a.name)
	}) {
		if n.kept[id.GroupVersionResource] || existing[id].GetDeletionTimestamp() != nil {
			continue
		}
		if !needed[id.GroupVersionResource] && delivery.Stays(id.GroupVersionResource) {
			continue
		}
		if !isLabeled(existing[id]) {
			// Its label was removed when Berth was taken out.
			c.delivered.disown(id)
			continue
		}
		err := c.client(id.GroupVersionResource, id.namespace).Delete(ctx, id.name, metav1.DeleteOptions{Preconditions: sameUID(existing[id])})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting %s %s, which the placed object does not need any more: %w", existing[id].GetKind(),
				qualified(existing[id]), err))
		}
	}
	return errors.Join(errs...)
}

// client returns the client for objects of a type in a namespace, or for cluster-scoped ones if namespace is empty.
func (c *Controller) client(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Client.Resource(resource)
	}
	return c.Client.Resource(resource).Namespace(namespace)
}

// apply writes an object if it differs. live is the existing object, or nil if none is known. If the API server refuses the object, it
// writes want.alone instead, if that is set. It records in n failures that trying again does not correct, and returns others. written
// reports whether the object now is as wanted.
func (c *Controller) apply(ctx context.Context, want *wanted, live *unstructured.Unstructured, n *need) (written bool, err error) {
	id := name{want.GroupVersionResource, want.Object.GetNamespace(), want.Object.GetName()}
	subject := fmt.Sprintf("%s %s", want.Kind.Kind, qualified(want.Object))
	if live == nil {
		var free bool
		if live, free, err = c.find(ctx, id, want, subject, n); !free || err != nil {
			return false, err
		}
	}
	body, status := split(want.Delivered)
	next := content{body, status, c.delivered.answerTo(id, body)}
	excess := live != nil && c.exceeds(want.Kind, id, live, body)
	if live != nil && !excess && next.isIn(live) {
		return true, nil
	}
	if live != nil && live.GetAnnotations()[hashAnnotation] == body.GetAnnotations()[hashAnnotation] {
		if wait := c.contests.wait(id); wait > 0 {
			n.fail(placementv1.ReasonContested, "another client changed %s back each time that Berth wrote it: Berth writes it again in %s", subject,
				wait.Round(time.Second))
			n.retry = wait
			return false, nil
		}
	}
	if live == nil || excess || !next.bodyIsIn(live) {
		got, err := c.write(ctx, want.Kind, id, live, body)
		if want.alone != nil && isRefusal(err) {
			*want = wanted{Delivered: *want.alone, system: want.system}
			return c.apply(ctx, want, live, n)
		}
		if err != nil {
			return false, refused(err, subject, want.system, n)
		}
		c.delivered.put(id.GroupVersionResource, got)
		live = got
	}
	if !next.statusIsIn(live) {
		got, err := c.client(id.GroupVersionResource, id.namespace).ApplyStatus(ctx, id.name, status, forced)
		if err != nil {
			return false, refused(err, subject, want.system, n)
		}
		c.delivered.put(id.GroupVersionResource, got)
		live = got
	}
	if (content{body: body, status: status}).isIn(live) {
		live = nil
	}
	c.delivered.setAnswer(id, live)
	return true, nil
}

// find reads an object that is not known: the cache has only objects that Berth delivered. live is nil if it does not exist. free is false
// if an object of another client has the name, or it can't be read. The former, and a refusal by the API server, are recorded in n as
// failures of subject. Other errors are returned.
func (c *Controller) find(ctx context.Context, id name, want *wanted, subject string, n *need) (live *unstructured.Unstructured,
	free bool, err error) {
	owner, _ := ownerOf(want.Object)
	found, err := c.client(id.GroupVersionResource, id.namespace).Get(ctx, id.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, false, refused(err, subject, want.system, n)
	case !deliveredFor(found, owner):
		c.foreign.block(id, owner)
		n.fail(placementv1.ReasonForeignObject, "%s exists and was last written by %s: Berth does not change it; delete that object, or "+
			"rename the placed object", subject, managerOf(found))
		return nil, false, nil
	}
	return found, true, nil
}

// content is what an existing object has to have: body, and status for the status subresource, or nil if there is none. answer is the
// object as the system changed it when Berth last wrote this content; nil if the system kept all of it.
type content struct{ body, status, answer *unstructured.Unstructured }

// isIn reports whether an existing object has the body and the status: in each of the two, all fields that Berth sets, with those values or
// with the ones that the system set in their place when Berth last wrote them.
func (d content) isIn(live *unstructured.Unstructured) bool {
	return d.bodyIsIn(live) && d.statusIsIn(live)
}

// bodyIsIn reports whether an existing object has all fields of the body, each with the value that Berth sets, or each with the value that
// the system set when Berth last wrote the body. Fields that the body does not have do not count.
func (d content) bodyIsIn(live *unstructured.Unstructured) bool {
	return covers(live.Object, d.body.Object) || d.answer != nil && agrees(live.Object, d.answer.Object, d.body.Object)
}

// statusIsIn reports whether an existing object has the status, or what the system made of it.
func (d content) statusIsIn(live *unstructured.Unstructured) bool {
	if d.status == nil {
		return true
	}
	want := d.status.Object["status"]
	return covers(live.Object["status"], want) || d.answer != nil && agrees(live.Object["status"], d.answer.Object["status"], want)
}

// awaitsDecision reports whether an object must not get a status that lets clusters start it yet: its clusters are those of an earlier
// decision, or may be. ObjectDecided enqueues it after the next decision.
func (c *Controller) awaitsDecision(object *unstructured.Unstructured, n *need) bool {
	return c.Undecided(n.decidedBy, object.GetNamespace(), object.GetName(), n.resources...) ||
		slices.ContainsFunc(n.resources, func(r schema.GroupVersionResource) bool {
			return c.Misplaced(r, object.GetNamespace(), object.GetName())
		})
}

// applyStatus applies the decision to the status of the placed object itself, if it differs and may be applied now. written is false if
// that failed, or has to wait because another client changes the status back; it is true if nothing is to be applied now.
func (c *Controller) applyStatus(ctx context.Context, want wanted, object *unstructured.Unstructured, n *need) (written bool, err error) {
	if covers(object.Object["status"], want.Object.Object["status"]) || !want.MayApplyStatus(object) {
		return true, nil
	}
	id := name{want.GroupVersionResource, want.Object.GetNamespace(), want.Object.GetName()}
	body := want.Withdrawal(object, c.Clock.Now())
	if body == nil && delivery.StartsByStatus(want.GroupResource()) && c.awaitsDecision(object, n) {
		// A cluster would start the object before remediation has decided and patched it, which may take minutes in a long queue.
		n.lookAgain(misplacedInterval)
		return true, nil
	}
	if body == nil && c.contests.recordStatus(keyOf(object), want.Object.Object["status"]) {
		if wait := c.contests.wait(id); wait > 0 {
			n.fail(placementv1.ReasonContested, "another client changed the status of %s %s back each time that Berth wrote it: Berth writes it "+
				"again in %s", want.Kind.Kind, qualified(want.Object), wait.Round(time.Second))
			n.retry = wait
			return false, nil
		}
	}
	// The API server refuses the status of another object of that name, and of a version that is not the newest.
	manager := withdrawalManager
	if body == nil {
		body, manager = want.Object.DeepCopy(), FieldManager
	}
	body.SetResourceVersion(object.GetResourceVersion())
	_, err = c.client(want.GroupVersionResource, body.GetNamespace()).
		ApplyStatus(ctx, body.GetName(), body, metav1.ApplyOptions{FieldManager: manager, Force: true})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// The object is gone, or a newer version of it will be reconciled.
		return false, nil
	case err != nil:
		return false, refused(err, want.Kind.Kind+" "+qualified(want.Object), want.system, n)
	}
	return true, nil
}

// deliveredFor reports whether Berth delivered the object o, which has a name for the placed object owner, for that one, or for an earlier
// one of its name: o has the label of delivered objects, and owner as its owner or no owner references any more. If another client has
// changed the label or the owners, the managed fields tell that Berth applied the object. Only a user who may write an object of another
// client can make it look like that.
func deliveredFor(o *unstructured.Unstructured, owner delivery.Key) bool {
	switch key, ok := ownerOf(o); {
	case ok && key == owner, isOrphan(o):
		return true
	case ok && isNameFor(o.GetName(), key):
		return false
	}
	return slices.ContainsFunc(o.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
	})
}

// split returns the object to write, with the hash of its content as an annotation, and apart from it the status to write to the
// subresource; nil if there is none.
func split(want delivery.Delivered) (body, status *unstructured.Unstructured) {
	body = want.Object.DeepCopy()
	if want.Status {
		status = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": body.GetAPIVersion(), "kind": body.GetKind(), "status": body.Object["status"],
			"metadata": map[string]any{"name": body.GetName(), "namespace": body.GetNamespace()},
		}}
		delete(body.Object, "status")
	}
	hashed := body.Object
	if status != nil {
		// What changes the status is no change by another client either.
		hashed = maps.Clone(hashed)
		hashed["status"] = status.Object["status"]
	}
	if text, found := body.GetAnnotations()[placementv1.DeliveredClustersAnnotation]; found {
		// If another client removes the annotation, it is written again with later times, which is no other content.
		copied := body.DeepCopy()
		_ = unstructured.SetNestedField(copied.Object, delivery.WithoutTimes(text), "metadata", "annotations",
			placementv1.DeliveredClustersAnnotation)
		hashed = copied.Object
	}
	// Marshaling does not fail: the content is that of decoded JSON.
	text, _ := json.Marshal(hashed)
	sum := sha256.Sum256(text)
	// The annotations are a map, if there are any, so this does not fail either.
	_ = unstructured.SetNestedField(body.Object, hex.EncodeToString(sum[:8]), "metadata", "annotations", hashAnnotation)
	return body, status
}

// covers reports whether live has all that want has. Lists have to be equal, except that a list of owner references may have more.
func covers(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		members, ok := live.(map[string]any)
		for name, value := range want {
			if !ok || !covers(members[name], value) {
				return false
			}
		}
		return ok
	case []any:
		items, ok := live.([]any)
		if !ok || len(items) < len(want) {
			return false
		}
		for i, value := range want {
			if isOwner(value) {
				if !slices.ContainsFunc(items, func(item any) bool { return covers(item, value) }) {
					return false
				}
			} else if len(items) != len(want) || !covers(items[i], value) {
				return false
			}
		}
		return len(want) > 0 || len(items) == 0
	}
	return live == want
}

// agrees reports whether live has the values of answered in all fields that want has.
func agrees(live, answered, want any) bool {
	wanted, ok := want.(map[string]any)
	if !ok {
		return equality.Semantic.DeepEqual(live, answered)
	}
	members, _ := live.(map[string]any)
	answers, _ := answered.(map[string]any)
	for name, value := range wanted {
		if !agrees(members[name], answers[name], value) {
			return false
		}
	}
	return true
}

// isOwner reports whether a list item is an owner reference: a map with a uid and a kind.
func isOwner(value any) bool {
	members, _ := value.(map[string]any)
	return members["uid"] != nil && members["kind"] != nil
}

// qualified returns the namespace and the name of an object, such as "shop/web", or the name alone if it has no namespace.
func qualified(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// managerOf returns the name of the field manager with the newest time in managedFields; "another client" if no entry has a time.
func managerOf(o *unstructured.Unstructured) string {
	manager, last := "another client", time.Time{}
	for _, entry := range o.GetManagedFields() {
		if entry.Time != nil && !entry.Time.Time.Before(last) {
			manager, last = entry.Manager, entry.Time.Time
		}
	}
	return manager
}

// isRefusal reports whether an error is that the API server, or an admission webhook, refuses the content of a request, or that a
// permission is missing: status 400, 403, or 422. It is false for conflicts, for timeouts, and for nil.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// refused records in n the failure of a request that trying again does not correct, and returns nil: Forbidden, Invalid, or BadRequest. It
// returns other errors, with subject in front.
func refused(err error, subject string, system delivery.System, n *need) error {
	switch {
	case apierrors.IsForbidden(err):
		n.fail(placementv1.ReasonForbidden, "%s: %v%s, unless an admission webhook or a quota denied the request", subject, err, advice(system))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		n.fail(placementv1.ReasonDeliveryFailed, "the API server refused %s: %v; what was delivered before stays, and Berth tries again "+
			"each minute", subject, err)
	default:
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// advice returns the end of a message that a permission is missing: it names the ClusterRole to apply for a system.
func advice(system delivery.System) string {
	return fmt.Sprintf("; apply the ClusterRole %s, which has the rights that delivery to %s needs", system.ClusterRole, system.Title)
}

// findLeftBehind searches the types of unsearched for objects that an earlier leader delivered. It removes the types that it could list,
// and adds to leftBehind those with such objects, so that objects which no policy needs any more are deleted. again reports whether listing
// a served type failed for another reason than a missing permission, so that it has to be tried again.
func (c *Controller) findLeftBehind(ctx context.Context) (again bool) {
	for resource := range c.unsearched {
		if c.Catalog.Kind(resource) == "" {
			continue
		}
		list, err := c.Client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: placementv1.DeliveredLabel + "=true", Limit: 1})
		switch {
		case err == nil:
			delete(c.unsearched, resource)
			if len(list.Items) > 0 {
				c.leftBehind[resource] = true
			}
		case !apierrors.IsForbidden(err):
			again = true
		}
	}
	return again
}

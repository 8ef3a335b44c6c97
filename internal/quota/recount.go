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

package quota

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Recount is the usage that a quota's status should report.
type Recount struct {
	// Used are the amounts that existing objects and the remaining reservations take. If the meter does not know all objects that a
	// name counts, the name keeps its amount in the status if that was counted for the newest spec, and is absent otherwise.
	Used corev1.ResourceList
	// Reservations are the remaining reservations: those whose changes may still come.
	Reservations []placementv1.Reservation
	// Namespaces are the amounts that existing objects take, by namespace, without the names that keep their amount in the status.
	// Namespaces without any are absent.
	Namespaces map[string]corev1.ResourceList
	// Next is the earliest time at which the count changes without an event, because a reservation expires or the grace period of a pod ends;
	// zero if there is none.
	Next time.Time
	// Revision changes whenever the amounts change that the objects of the counted types take, in any namespace.
	Revision uint64
	// Unserved are counted types that the API server does not serve now, if something was counted for them before. That amount stays.
	Unserved []schema.GroupResource
	// Missing are counted types whose complete content the meter does not have, although the API server may serve them.
	Missing []schema.GroupResource
}

// tally is a recount in progress.
type tally struct {
	Recount
	// fromZero reports for each name whether it is counted from zero: the meter knows each type that it counts, or the type is not served
	// and nothing was counted for it.
	fromZero map[corev1.ResourceName]bool
}

// RecountInput says, for a recount, which namespaces the quota counts, which types the API server does not serve or no longer has, and
// which expired reservations to keep.
type RecountInput struct {
	// Selects reports whether the quota counts a namespace.
	Selects func(namespace string) bool
	// NotServed reports whether the API server is known to lack a type.
	NotServed func(schema.GroupResource) bool
	// Removed reports whether the API server no longer has a type, as after the deletion of its CustomResourceDefinition. If
	// it is nil, no type is removed.
	Removed func(schema.GroupResource) bool
	// KeepExpired are the ids of reservations that are kept although they have expired. Their objects exist, but the meter
	// has not received them yet.
	KeepExpired map[string]bool
}

// Recount counts what a quota's namespaces take. It returns an error if the module could not be evaluated.
func (m *Meter) Recount(ctx context.Context, q placementv1.Quota, rules *Rules, w RecountInput) (*Recount, error) {
	types, _ := m.evaluators.Types(q.QuotaSpec())
	now := m.clock.Now()
	out := &tally{Recount: Recount{Used: corev1.ResourceList{}, Namespaces: map[string]corev1.ResourceList{}},
		fromZero: map[corev1.ResourceName]bool{}}
	entries, taken := m.snapshot(q, types, w, now, out)
	matches := map[Scopes]bool{}
	for _, found := range entries {
		match, decided := matches[found.scopes]
		if !decided {
			var err error
			if match, err = rules.counts(ctx, found.scopes); err != nil {
				return nil, fmt.Errorf("quota %s: %w", q.GetName(), err)
			}
			matches[found.scopes] = match
		}
		if match {
			out.addObject(found, types[found.scopes.resource], now)
		}
		if creates, ok := taken[found.objectEntry]; ok {
			if match {
				creates = upstream.SubtractWithNonNegativeResult(creates, upstream.Mask(found.takes, upstream.ResourceNames(creates)))
			}
			out.reserve(creates)
		}
	}
	return &out.Recount, nil
}

// reserve adds the amounts of reservations for the names that are counted from zero.
func (t *tally) reserve(amounts corev1.ResourceList) {
	for name, amount := range amounts {
		if t.fromZero[name] {
			add(t.Used, name, amount)
		}
	}
}

// foundObject is an object in a namespace that the quota counts, with what it takes now.
type foundObject struct {
	namespace string
	*objectEntry
	takes corev1.ResourceList // All amounts that it takes now, also under names that the quota does not count.
}

// snapshot returns the objects to count, and sets in out the initial amounts and the remaining reservations, all of them for one state of
// the meter. taken are the amounts, not included in out.Used, of reservations for creates of objects whose names existing objects have, by
// the existing object.
func (m *Meter) snapshot(q placementv1.Quota, types map[schema.GroupResource][]corev1.ResourceName, w RecountInput, now time.Time,
	out *tally) (entries []foundObject, taken map[*objectEntry]corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t, names := range types {
		fromZero := out.beginType(q, t, names, m.types[t] != nil, w)
		for _, name := range names {
			others, known := out.fromZero[name]
			out.fromZero[name] = fromZero && (others || !known)
		}
	}
	for _, names := range types {
		out.beginNames(q, names)
	}
	slices.SortFunc(out.Missing, compareTypes)
	slices.SortFunc(out.Unserved, compareTypes)
	taken = m.reservations(q, out, types, w, now)
	claimUsage := m.claimUsage(now)
	for t := range types {
		if m.types[t] == nil {
			continue
		}
		out.Revision = max(out.Revision, m.types[t].revision)
		for namespace, objects := range m.types[t].objects {
			if !w.Selects(namespace) {
				continue
			}
			for _, e := range objects {
				found := foundObject{namespace, e, e.usageAt(now)}
				if e.claim != nil {
					found.takes = claimUsage(e.claim)
				}
				entries = append(entries, found)
			}
		}
	}
	return entries, taken
}

// beginType reports whether the amounts of a type are counted from zero: the meter has the type (metered), or it is not served and nothing
// was counted for it. Otherwise it adds the type to Unserved, or to Missing if it may be served. A type may only seem to be not served
// because its API server does not respond now. So what was counted for it stays.
func (r *Recount) beginType(q placementv1.Quota, t schema.GroupResource, names []corev1.ResourceName, metered bool,
	w RecountInput) (fromZero bool) {
	status := q.QuotaStatus()
	absent := !metered && w.NotServed(t)
	fromZero = metered || absent && !slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		before, counted := status.Used[name]
		return counted && !before.IsZero()
	})
	switch {
	case !metered && !absent:
		r.Missing = append(r.Missing, t)
	case !fromZero:
		r.Unserved = append(r.Unserved, t)
	}
	return fromZero
}

// beginNames sets the initial amounts of names in Used: 0 for a name that is counted from zero, and otherwise its amount in the quota's
// status, if that was counted for the newest spec. If it was not, the name is left out.
func (t *tally) beginNames(q placementv1.Quota, names []corev1.ResourceName) {
	status := q.QuotaStatus()
	for _, name := range names {
		before, counted := status.Used[name]
		switch {
		case t.fromZero[name]:
			t.Used[name] = resource.Quantity{Format: resource.DecimalSI}
		case counted && status.ObservedGeneration == q.GetGeneration():
			t.Used[name] = before.DeepCopy()
		}
	}
}

// reservations adds to out those of the quota's reservations whose change may still come, and their amounts. The amounts under a name that
// is not counted from zero are in Used already. They stay there, because the outcome is unknown until the type can be counted again.
//
// No change of an object comes after its type was removed.
//
// A create with a name that is in use can succeed only after the object with that name has been deleted. So both together take the larger
// of the two amounts. The amounts of such creates are returned by object. Since Used includes only a part of them, no request may release
// them.
func (m *Meter) reservations(q placementv1.Quota, out *tally, types map[schema.GroupResource][]corev1.ResourceName, w RecountInput,
	now time.Time) map[*objectEntry]corev1.ResourceList {
	taken := map[*objectEntry]corev1.ResourceList{}
	for _, r := range q.QuotaStatus().Reservations {
		of := schema.ParseGroupResource(r.Resource)
		kept := w.KeepExpired[r.UID] && w.Selects(r.Namespace)
		if _, counts := types[of]; !counts || Expired(r, now) && !kept || m.trackSettled(&r, w.Selects) || m.types[of] == nil &&
			w.Removed != nil && w.Removed(of) {
			continue
		}
		holder := m.nameHolder(&r, w)
		if holder != nil {
			markKept(&r)
		}
		out.Reservations = append(out.Reservations, r)
		if !kept {
			out.setNext(r.Expires.Time)
		}
		if holder != nil {
			taken[holder] = upstream.Add(taken[holder], r.Delta)
		} else {
			out.reserve(r.Delta)
		}
	}
	return taken
}

// nameHolder returns the existing object, in a counted namespace, with the name of the object that a reservation's create is for; nil if
// there is none.
func (m *Meter) nameHolder(r *placementv1.Reservation, w RecountInput) *objectEntry {
	t := m.types[schema.ParseGroupResource(r.Resource)]
	if t == nil || r.ObjectVersion != "" || r.Name == "" || !w.Selects(r.Namespace) {
		return nil
	}
	return t.objects[r.Namespace][r.Name]
}

// trackSettled reports whether the amounts of a reservation are counted with an object, or its change can no longer come because its object
// was deleted. It is false while the meter does not have the type, and in a namespace that the quota does not select, maybe only not yet:
// namespaces and objects come from different watches, and an object there is not counted. It updates awaited as trackArrival does.
func (m *Meter) trackSettled(r *placementv1.Reservation, selects func(namespace string) bool) bool {
	t := m.types[schema.ParseGroupResource(r.Resource)]
	return t != nil && selects(r.Namespace) && t.trackArrival(r)
}

// Expired reports whether the reservation has expired, so that its change can no longer come.
func Expired(r placementv1.Reservation, now time.Time) bool { return !now.Before(r.Expires.Time) }

// addObject adds what an object takes under the names that are counted from zero to Used and to the amounts of its namespace.
func (t *tally) addObject(o foundObject, names []corev1.ResourceName, now time.Time) {
	if o.lapses.After(now) {
		t.setNext(o.lapses)
	}
	for _, name := range names {
		amount, ok := o.takes[name]
		if !ok || amount.IsZero() || !t.fromZero[name] {
			continue
		}
		if t.Namespaces[o.namespace] == nil {
			t.Namespaces[o.namespace] = corev1.ResourceList{}
		}
		add(t.Namespaces[o.namespace], name, amount)
		add(t.Used, name, amount)
	}
}

// add adds an amount to one resource of a list. Kubernetes' Add adds whole lists.
func add(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	sum, ok := list[name]
	if !ok {
		list[name] = amount.DeepCopy()
		return
	}
	sum.Add(amount)
	list[name] = sum
}

// setNext sets Next to t if t is sooner, or Next is zero.
func (r *Recount) setNext(t time.Time) {
	if r.Next.IsZero() || t.Before(r.Next) {
		r.Next = t
	}
}

// equal reports whether two lists have the same resources with equal amounts.
func equal(a, b corev1.ResourceList) bool { return upstream.Equals(a, b) }

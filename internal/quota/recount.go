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
	// Used are the amounts that existing objects and the remaining reservations take. If the objects that a name counts
	// are unknown, the name keeps the amount that was counted for the newest spec, or is absent.
	Used corev1.ResourceList
	// Reservations are the remaining reservations: those whose changes may still come.
	Reservations []placementv1.Reservation
	// Namespaces are the amounts that existing objects take, by namespace. Namespaces without any are absent.
	Namespaces map[string]corev1.ResourceList
	// Next is the time at which the count changes without an event; zero if it does not.
	Next time.Time
	// Revision changes whenever the amounts change that the objects of the counted types take.
	Revision uint64
	// Unserved are counted types that the API server does not serve now. What was counted for them stays.
	Unserved []schema.GroupResource
	// Missing are counted types whose complete content the meter does not have.
	Missing []schema.GroupResource
}

// RecountInput is the input of a recount in addition to the meter's content.
type RecountInput struct {
	// Selects reports whether the quota counts a namespace.
	Selects func(namespace string) bool
	// NotServed reports whether the API server is known to lack a type.
	NotServed func(schema.GroupResource) bool
	// KeepExpired are the ids of reservations that are kept although they have expired. Their objects exist, but the meter
	// has not received them yet.
	KeepExpired map[string]bool
}

// Recount counts what a quota's namespaces take. It returns an error if the module could not be evaluated.
func (m *Meter) Recount(ctx context.Context, q placementv1.Quota, rules *Rules, w RecountInput) (*Recount, error) {
	types, _ := m.evaluators.Types(q.QuotaSpec())
	now := m.clock.Now()
	out := &Recount{Used: corev1.ResourceList{}, Namespaces: map[string]corev1.ResourceList{}}
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
			out.addObject(found.namespace, found.objectEntry, types[found.scopes.resource], now)
		}
		if creates, ok := taken[found.objectEntry]; ok {
			if match {
				creates = upstream.SubtractWithNonNegativeResult(creates, upstream.Mask(found.usageAt(now), upstream.ResourceNames(creates)))
			}
			out.reserve(creates)
		}
	}
	return out, nil
}

// reserve adds the amounts of reservations for the names that are counted.
func (r *Recount) reserve(amounts corev1.ResourceList) {
	r.Used = upstream.Add(r.Used, upstream.Mask(amounts, upstream.ResourceNames(r.Used)))
}

// foundObject is an object in a namespace that the quota counts.
type foundObject struct {
	namespace string
	*objectEntry
}

// snapshot returns the objects to count and settles the reservations, atomically. taken are the amounts of reservations
// for creates whose names existing objects have. They are not included in out.Used.
func (m *Meter) snapshot(q placementv1.Quota, types map[schema.GroupResource][]corev1.ResourceName, w RecountInput, now time.Time, out *Recount) (entries []foundObject, taken map[*objectEntry]corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[schema.GroupResource]bool{}
	for t, names := range types {
		known[t] = out.beginType(q, t, names, m.types[t] != nil, w)
	}
	slices.SortFunc(out.Missing, compareTypes)
	slices.SortFunc(out.Unserved, compareTypes)
	taken = m.reservations(q, out, known, w, now)
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
				entries = append(entries, foundObject{namespace, e})
			}
		}
	}
	return entries, taken
}

// beginType sets the initial amounts of a type's names. It reports whether these are zero. A type may only seem to be
// not served because its API server does not respond now. So what was counted for it stays. Once the spec has changed,
// it is unknown.
func (r *Recount) beginType(q placementv1.Quota, t schema.GroupResource, names []corev1.ResourceName, metered bool, w RecountInput) (fromZero bool) {
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
	for _, name := range names {
		before, counted := status.Used[name]
		switch {
		case fromZero:
			r.Used[name] = resource.Quantity{Format: resource.DecimalSI}
		case counted && status.ObservedGeneration == q.GetGeneration():
			r.Used[name] = before.DeepCopy()
		}
	}
	return fromZero
}

// reservations keeps those reservations whose change may still come. The amounts for a type that is not counted from
// zero are in Used already. They stay there, because the outcome is unknown until the type can be counted again.
//
// A create with a name that is in use can succeed only after the object with that name has been deleted. So both
// together take the larger of the two amounts. The amounts of such creates are returned by object. Since Used includes
// only a part of them, no request may release them.
func (m *Meter) reservations(q placementv1.Quota, out *Recount, fromZero map[schema.GroupResource]bool, w RecountInput, now time.Time) map[*objectEntry]corev1.ResourceList {
	taken := map[*objectEntry]corev1.ResourceList{}
	for _, r := range q.QuotaStatus().Reservations {
		of := schema.ParseGroupResource(r.Resource)
		kept := w.KeepExpired[r.UID] && w.Selects(r.Namespace)
		if _, counted := fromZero[of]; !counted || Expired(r, now) && !kept || m.settled(&r, w.Selects) {
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
		switch {
		case holder != nil:
			taken[holder] = upstream.Add(taken[holder], r.Delta)
		case fromZero[of]:
			out.reserve(r.Delta)
		}
	}
	return taken
}

// nameHolder returns the counted object whose name a reservation's create needs; nil if there is none.
func (m *Meter) nameHolder(r *placementv1.Reservation, w RecountInput) *objectEntry {
	t := m.types[schema.ParseGroupResource(r.Resource)]
	if t == nil || r.ObjectVersion != "" || r.Name == "" || !w.Selects(r.Namespace) {
		return nil
	}
	return t.objects[r.Namespace][r.Name]
}

// settled reports whether the amounts of a reservation are counted with an object, or its change can no longer come.
// Namespaces and objects come from different watches. So objects in a namespace that the quota does not select yet are
// not counted yet.
func (m *Meter) settled(r *placementv1.Reservation, selects func(namespace string) bool) bool {
	t := m.types[schema.ParseGroupResource(r.Resource)]
	return t != nil && selects(r.Namespace) && t.hasArrived(r)
}

// Expired reports whether the reservation has expired, so that its change can no longer come.
func Expired(r placementv1.Reservation, now time.Time) bool { return !now.Before(r.Expires.Time) }

// addObject adds what an object takes.
func (r *Recount) addObject(namespace string, e *objectEntry, names []corev1.ResourceName, now time.Time) {
	if e.lapses.After(now) {
		r.setNext(e.lapses)
	}
	taken := e.usageAt(now)
	for _, name := range names {
		amount, ok := taken[name]
		if !ok || amount.IsZero() {
			continue
		}
		if r.Namespaces[namespace] == nil {
			r.Namespaces[namespace] = corev1.ResourceList{}
		}
		add(r.Namespaces[namespace], name, amount)
		add(r.Used, name, amount)
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

// setNext sets Next to t if t is sooner.
func (r *Recount) setNext(t time.Time) {
	if r.Next.IsZero() || t.Before(r.Next) {
		r.Next = t
	}
}

func equal(a, b corev1.ResourceList) bool { return upstream.Equals(a, b) }

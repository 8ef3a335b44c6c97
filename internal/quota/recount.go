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

// Recount is what a quota's status should say of usage.
type Recount struct {
	// Used is what existing objects take, and the reservations that are left. A name whose objects are not known is
	// as it was counted for the newest spec, or absent.
	Used corev1.ResourceList
	// Reservations are those whose objects are not there yet.
	Reservations []placementv1.Reservation
	// Namespaces is what existing objects take by namespace, of those where anything is taken.
	Namespaces map[string]corev1.ResourceList
	// Next is when the count changes by itself; zero for never.
	Next time.Time
	// Revision changes whenever what the objects of the counted types take does.
	Revision uint64
	// Unserved are counted types that the API server does not serve now; what was counted of them stays.
	Unserved []schema.GroupResource
	// Missing are counted types of which the meter has no complete content.
	Missing []schema.GroupResource
}

// World is what a recount is told besides what the meter knows.
type World struct {
	// Selects says which namespaces the quota counts.
	Selects func(namespace string) bool
	// Absent says of a type that the API server does not serve it, as far as is known.
	Absent func(schema.GroupResource) bool
	// Late are the uids of reservations that are not dropped although they have expired: their objects are there, and
	// the meter is behind.
	Late map[string]bool
}

// Recount counts what a quota's namespaces take. An error says that the module could not be evaluated.
func (m *Meter) Recount(ctx context.Context, q placementv1.Quota, rules *Rules, w World) (*Recount, error) {
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
			out.count(found.namespace, found.entry, types[found.scopes.resource], now)
		}
		if creates, ok := taken[found.entry]; ok {
			if match {
				creates = upstream.SubtractWithNonNegativeResult(creates, upstream.Mask(found.at(now), upstream.ResourceNames(creates)))
			}
			out.reserve(creates)
		}
	}
	return out, nil
}

// reserve adds what reservations take, as far as it is counted.
func (r *Recount) reserve(amounts corev1.ResourceList) {
	r.Used = upstream.Add(r.Used, upstream.Mask(amounts, upstream.ResourceNames(r.Used)))
}

// found is an object in a namespace that the quota counts.
type found struct {
	namespace string
	*entry
}

// snapshot returns the objects to count and settles the reservations, both as of one moment. taken is what reservations
// take for creates under the names of objects; it is not in out.Used.
func (m *Meter) snapshot(q placementv1.Quota, types map[schema.GroupResource][]corev1.ResourceName, w World, now time.Time, out *Recount) (entries []found, taken map[*entry]corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[schema.GroupResource]bool{}
	for t, names := range types {
		known[t] = out.begin(q, t, names, m.types[t] != nil, w)
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
				entries = append(entries, found{namespace, e})
			}
		}
	}
	return entries, taken
}

// begin sets what a type's names are before any object is counted, and says whether that is zero. A type that is not
// served may only seem so, since its API server does not answer now: what was counted of it stays and, once the spec is
// another one, is not known.
func (r *Recount) begin(q placementv1.Quota, t schema.GroupResource, names []corev1.ResourceName, metered bool, w World) (fromZero bool) {
	status := q.QuotaStatus()
	absent := !metered && w.Absent(t)
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

// reservations keeps those whose change may still come. What one took of a type that is not counted from zero is in
// Used already, and stays there: nobody knows what became of it until the type can be counted again.
//
// A create under a name that is taken can succeed only after the object of that name is deleted. So both together take
// the larger of the two, and what such creates take is returned by the object. Since used has only a part of it then, no
// request may give it back.
func (m *Meter) reservations(q placementv1.Quota, out *Recount, fromZero map[schema.GroupResource]bool, w World, now time.Time) map[*entry]corev1.ResourceList {
	taken := map[*entry]corev1.ResourceList{}
	for _, r := range q.QuotaStatus().Reservations {
		of := schema.ParseGroupResource(r.Resource)
		late := w.Late[r.UID] && w.Selects(r.Namespace)
		if _, counted := fromZero[of]; !counted || Expired(r, now) && !late || m.settled(&r, w.Selects) {
			continue
		}
		holder := m.holder(&r, w)
		if holder != nil {
			keep(&r)
		}
		out.Reservations = append(out.Reservations, r)
		if !late {
			out.after(r.Expires.Time)
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

// holder is the object that has the name which a reservation's create wants; nil if there is none that is counted.
func (m *Meter) holder(r *placementv1.Reservation, w World) *entry {
	t := m.types[schema.ParseGroupResource(r.Resource)]
	if t == nil || r.ObjectVersion != "" || r.Name == "" || !w.Selects(r.Namespace) {
		return nil
	}
	return t.objects[r.Namespace][r.Name]
}

// settled says whether what a reservation took is counted as an object's, or can't come any more. The namespaces that
// a quota selects are known from another watch than the objects: what came in one of which that is not known yet is
// not counted yet.
func (m *Meter) settled(r *placementv1.Reservation, selects func(namespace string) bool) bool {
	t := m.types[schema.ParseGroupResource(r.Resource)]
	return t != nil && selects(r.Namespace) && t.arrived(r)
}

// Expired says whether the change that a reservation is for can't come any more.
func Expired(r placementv1.Reservation, now time.Time) bool { return !now.Before(r.Expires.Time) }

// count adds what an object takes.
func (r *Recount) count(namespace string, e *entry, names []corev1.ResourceName, now time.Time) {
	if e.lapses.After(now) {
		r.after(e.lapses)
	}
	taken := e.at(now)
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

// add adds to one amount of a list, as upstream's Add does to all.
func add(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	sum, ok := list[name]
	if !ok {
		list[name] = amount.DeepCopy()
		return
	}
	sum.Add(amount)
	list[name] = sum
}

// after sets Next to a time, if that is sooner.
func (r *Recount) after(t time.Time) {
	if r.Next.IsZero() || t.Before(r.Next) {
		r.Next = t
	}
}

func equal(a, b corev1.ResourceList) bool { return upstream.Equals(a, b) }

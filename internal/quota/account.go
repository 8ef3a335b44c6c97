package quota

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Account is one quota while requests are charged to it: a copy whose status is to be written if it changed. It is not
// safe for concurrent use.
type Account struct {
	quota placementv1.Quota
	read  *placementv1.QuotaStatus
	rules *Rules
}

// NewAccount returns an account that begins with the quota's status as it was read.
func NewAccount(q placementv1.Quota, rules *Rules) *Account {
	copied, _ := q.DeepCopyObject().(placementv1.Quota)
	return &Account{quota: copied, read: q.QuotaStatus(), rules: rules}
}

// Quota is the quota as it is to be written.
func (a *Account) Quota() placementv1.Quota { return a.quota }

// Changed says whether the status differs from what was read.
func (a *Account) Changed() bool {
	status := a.quota.QuotaStatus()
	return !slices.EqualFunc(a.read.Reservations, status.Reservations, func(x, y placementv1.Reservation) bool {
		return x.UID == y.UID && x.Expires.Equal(&y.Expires)
	}) || !equality.Semantic.DeepEqual(a.read.Used, status.Used)
}

// GiveBack takes back the charges whose ids charge reports true for, as if they had never been made. What another request
// for the same change stands on is charged to that one.
func (a *Account) GiveBack(charge func(id string) bool) {
	status := a.quota.QuotaStatus()
	var kept, back []placementv1.Reservation
	for _, r := range status.Reservations {
		if charge(r.UID) {
			back = append(back, r)
		} else {
			kept = append(kept, r)
		}
	}
	for _, r := range back {
		if heir := slices.IndexFunc(kept, func(k placementv1.Reservation) bool { return sameChange(k, r) }); heir >= 0 {
			kept[heir].Delta = upstream.Add(kept[heir].Delta, r.Delta)
			continue
		}
		status.Used = subtract(status.Used, r.Delta)
		status.Summary = Summary(a.quota.QuotaSpec().Hard, status.Used)
	}
	status.Reservations = kept
}

// sameChange says whether two reservations are for the same change of the same object.
func sameChange(a, b placementv1.Reservation) bool {
	return a.ObjectUID != "" && a.ObjectUID == b.ObjectUID && a.ObjectVersion == b.ObjectVersion && a.Resource == b.Resource
}

// Settle keeps the reservations that unsettled returns. What the others took stays used: objects take it now.
func (a *Account) Settle(unsettled func(placementv1.Quota) []placementv1.Reservation) {
	a.quota.QuotaStatus().Reservations = unsettled(a.quota)
}

// mode is how the quota answers; that of an object that was never defaulted too.
func (a *Account) mode() placementv1.Mode {
	if mode := a.quota.QuotaSpec().Mode; mode != "" {
		return mode
	}
	return placementv1.ModeEnforce
}

// current says whether used is counted for the newest spec.
func (a *Account) current() bool {
	return a.quota.QuotaStatus().ObservedGeneration == a.quota.GetGeneration()
}

// standing is what is charged already for the very change that the request is about: an API server may ask more than
// once about one, and of several updates that start from one version only one succeeds.
func (a *Account) standing(r *Request) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := range a.quota.QuotaStatus().Reservations {
		if reserved := &a.quota.QuotaStatus().Reservations[i]; r.isFor(reserved) {
			out = upstream.Add(out, reserved.Delta)
		}
	}
	return out
}

// charge adds what the request takes beyond what stands already.
func (a *Account) charge(r *Request, requested, standing corev1.ResourceList, expires time.Time) {
	a.prolong(r, expires)
	more := upstream.RemoveZeros(upstream.SubtractWithNonNegativeResult(requested, upstream.Mask(standing, upstream.ResourceNames(requested))))
	if len(more) == 0 && len(standing) == 0 {
		return
	}
	// A request that stands on another's charge is noted without one, to take that over if it is given back.
	status := a.quota.QuotaStatus()
	status.Used = upstream.Add(status.Used, more)
	status.Summary = Summary(a.quota.QuotaSpec().Hard, status.Used)
	next := placementv1.Reservation{
		UID: r.ChargeID, Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.object.name,
		ObjectUID: r.object.uid, ObjectVersion: r.object.version, Delta: more, Expires: metav1.NewTime(expires),
	}
	status.Reservations = append(merge(status.Reservations, &next), next)
}

// merge returns the reservations without those for creates of other objects of the same name as next's, and makes next
// stand for them too: only one of the objects can exist at a time, so that next holds the largest of them. It then has
// no object's uid, since it must outlast each of the objects, and no request gives it back.
func merge(reservations []placementv1.Reservation, next *placementv1.Reservation) []placementv1.Reservation {
	if !slices.ContainsFunc(reservations, func(r placementv1.Reservation) bool {
		return createsOneName(&r, next) && (r.ObjectUID != next.ObjectUID || r.ObjectUID == "")
	}) {
		return reservations
	}
	var kept []placementv1.Reservation
	for _, r := range reservations {
		if !createsOneName(&r, next) {
			kept = append(kept, r)
			continue
		}
		next.Delta = upstream.Add(next.Delta, r.Delta)
		if next.Expires.Before(&r.Expires) {
			next.Expires = r.Expires
		}
	}
	next.ObjectUID = ""
	keep(next)
	return kept
}

// createsOneName reports whether both reservations are for creates of objects with one and the same name.
func createsOneName(a, b *placementv1.Reservation) bool {
	return a.Name != "" && a.ObjectVersion == "" && b.ObjectVersion == "" && a.Name == b.Name && a.Namespace == b.Namespace && a.Resource == b.Resource
}

// keptPrefix begins the ids of reservations that no request gives back. No charge has such an id.
const keptPrefix = "kept-"

// maxID is the schema's limit on an id.
const maxID = 64

// keep has no request give a reservation back. It lasts until its object is there or until it expires.
func keep(r *placementv1.Reservation) {
	if !strings.HasPrefix(r.UID, keptPrefix) {
		r.UID = keptPrefix + r.UID[:min(len(r.UID), maxID-len(keptPrefix))]
	}
}

// prolong keeps what stands for as long as the newest request that it stands for may be under way. A creation is one
// request, however often it is asked about; an update may be tried again later, from the same version.
func (a *Account) prolong(r *Request, expires time.Time) {
	// Times are stored in seconds.
	until := metav1.NewTime(expires.Truncate(time.Second))
	for i := range a.quota.QuotaStatus().Reservations {
		if standing := &a.quota.QuotaStatus().Reservations[i]; r.object.version != "" && r.isFor(standing) && standing.Expires.Before(&until) {
			standing.Expires = until
		}
	}
}

// isFor reports whether a reservation is for the very change that the request is about, or for the create of an object
// with the name of the one that the request creates: at most one of the changes can be.
func (r *Request) isFor(reserved *placementv1.Reservation) bool {
	own := placementv1.Reservation{Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.object.name, ObjectVersion: r.object.version}
	return createsOneName(&own, reserved) || r.object.uid != "" && reserved.ObjectUID == r.object.uid && reserved.ObjectVersion == r.object.version && reserved.Resource == r.Resource.String()
}

// crowded reports whether a namespace has as many charges under way as it may have in a quota that it shares with others.
func (a *Account) crowded(namespace string) bool {
	if _, shared := a.quota.(*placementv1.ClusterScopedQuota); !shared {
		return false
	}
	n := 0
	for _, r := range a.quota.QuotaStatus().Reservations {
		if r.Namespace == namespace {
			n++
		}
	}
	return n >= placementv1.MaxNamespaceReservations
}

// full says that no more charges can be under way.
func (a *Account) full() bool {
	return len(a.quota.QuotaStatus().Reservations) >= placementv1.MaxReservations
}

// subtract takes away what is there, and leaves nothing below zero.
func subtract(from, what corev1.ResourceList) corev1.ResourceList {
	return upstream.SubtractWithNonNegativeResult(from, upstream.Mask(what, upstream.ResourceNames(from)))
}

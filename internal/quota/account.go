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
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Account is a working copy of one quota that requests are charged to. The caller must write the status if it changed.
// An Account is not safe for concurrent use.
type Account struct {
	quota placementv1.Quota        // A copy, whose status has the charges.
	read  *placementv1.QuotaStatus // The status before any charge.
	rules *Rules
}

// NewAccount returns an account that starts with a copy of the quota. rules are the quota's compiled rules.
func NewAccount(q placementv1.Quota, rules *Rules) *Account {
	copied, _ := q.DeepCopyObject().(placementv1.Quota)
	return &Account{quota: copied, read: q.QuotaStatus(), rules: rules}
}

// Quota returns the quota with the status to write.
func (a *Account) Quota() placementv1.Quota { return a.quota }

// Changed reports whether the usage or the reservations in the status differ from those that were read.
func (a *Account) Changed() bool {
	status := a.quota.QuotaStatus()
	return !slices.EqualFunc(a.read.Reservations, status.Reservations, func(x, y placementv1.Reservation) bool {
		return x.UID == y.UID && x.Expires.Equal(&y.Expires)
	}) || !equality.Semantic.DeepEqual(a.read.Used, status.Used)
}

// ReleaseCharges reverts the charges that the function charge selects by their ids, as if they had never been made. If another
// request for the same change of an object relies on a reverted charge, the charge moves to that request's reservation.
func (a *Account) ReleaseCharges(charge func(id string) bool) {
	status := a.quota.QuotaStatus()
	var kept, released []placementv1.Reservation
	for _, r := range status.Reservations {
		if charge(r.UID) {
			released = append(released, r)
		} else {
			kept = append(kept, r)
		}
	}
	for _, r := range released {
		if heir := slices.IndexFunc(kept, func(k placementv1.Reservation) bool { return sameChange(k, r) }); heir >= 0 {
			kept[heir].Delta = upstream.Add(kept[heir].Delta, r.Delta)
			continue
		}
		status.Used = subtract(status.Used, r.Delta)
		status.Summary = Summary(a.quota.QuotaSpec().Hard, status.Used)
	}
	status.Reservations = kept
}

// sameChange reports whether two reservations are for the same change of the same object, by its type, its UID, and the version from which
// an update starts. It is false if the UID is not known.
func sameChange(a, b placementv1.Reservation) bool {
	return a.ObjectUID != "" && a.ObjectUID == b.ObjectUID && a.ObjectVersion == b.ObjectVersion && a.Resource == b.Resource
}

// Settle replaces the reservations in the status by those that unsettled returns. The amounts of the removed ones stay in status.used,
// because existing objects take them now.
func (a *Account) Settle(unsettled func(placementv1.Quota) []placementv1.Reservation) {
	a.quota.QuotaStatus().Reservations = unsettled(a.quota)
}

// mode returns the quota's mode; Enforce, the default, if it is not set.
func (a *Account) mode() placementv1.Mode {
	if mode := a.quota.QuotaSpec().Mode; mode != "" {
		return mode
	}
	return placementv1.ModeEnforce
}

// current reports whether status.used was counted for the newest spec.
func (a *Account) current() bool {
	return a.quota.QuotaStatus().ObservedGeneration == a.quota.GetGeneration()
}

// alreadyCharged returns the sum of what is already charged for the change that the request makes, or for creates of objects with the name
// of the one that it creates; an empty list if nothing is. The API server may send several requests for one change. Of several updates that
// start from the same version, and of several creates with one name, only one can succeed.
func (a *Account) alreadyCharged(r *Request) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := range a.quota.QuotaStatus().Reservations {
		if reserved := &a.quota.QuotaStatus().Reservations[i]; r.sameChangeAs(reserved) {
			out = upstream.Add(out, reserved.Delta)
		}
	}
	return out
}

// charge charges the quota for a request: it adds the amounts by which requested exceeds alreadyCharged to status.used, and a reservation
// of these amounts, which expires at expires, to the status.
func (a *Account) charge(r *Request, requested, alreadyCharged corev1.ResourceList, expires time.Time) {
	a.extendReservations(r, expires)
	more := upstream.RemoveZeros(upstream.SubtractWithNonNegativeResult(requested,
		upstream.Mask(alreadyCharged, upstream.ResourceNames(requested))))
	if len(more) == 0 && len(alreadyCharged) == 0 {
		return
	}
	// A request that relies on another's charge gets a reservation with an empty delta. It takes over the charge if the
	// other request releases it.
	status := a.quota.QuotaStatus()
	status.Used = upstream.Add(status.Used, more)
	status.Summary = Summary(a.quota.QuotaSpec().Hard, status.Used)
	next := placementv1.Reservation{
		UID: r.ChargeID, Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.object.name,
		ObjectUID: r.object.uid, ObjectVersion: r.object.version, Delta: more, Expires: metav1.NewTime(expires),
	}
	status.Reservations = append(merge(status.Reservations, &next), next)
}

// merge merges the reservations for creates of other objects with the same name as next's into next, and returns the
// remaining reservations. Only one of these objects can exist at a time. Before, next has what its object takes beyond them, so that it
// holds the largest amounts afterwards. If merge merges anything, next gets the latest expiry, an id that no request can release, and no
// object UID, because it must outlast each of the objects.
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
	markKept(next)
	return kept
}

// createsOneName reports whether both reservations are for creates of objects with the same name.
func createsOneName(a, b *placementv1.Reservation) bool {
	return a.Name != "" && a.ObjectVersion == "" && b.ObjectVersion == "" && a.Name == b.Name && a.Namespace == b.Namespace &&
		a.Resource == b.Resource
}

// keptPrefix is the prefix of the ids of reservations that no request can release. No charge has such an id.
const keptPrefix = "kept-"

// maxID is the maximum length of an id in the CRD's schema.
const maxID = 64

// markKept changes a reservation's id so that no request can release the reservation. It then lasts until its object
// exists, or it expires.
func markKept(r *placementv1.Reservation) {
	if !strings.HasPrefix(r.UID, keptPrefix) {
		r.UID = keptPrefix + r.UID[:min(len(r.UID), maxID-len(keptPrefix))]
	}
}

// extendReservations extends the reservations of an update for as long as the newest request for it may be in progress.
// Clients may try an update again later from the same version. A create is one request, however often the API server
// calls the webhook, so its reservation is not extended.
func (a *Account) extendReservations(r *Request, expires time.Time) {
	// The API stores times in seconds.
	until := metav1.NewTime(expires.Truncate(time.Second))
	for i := range a.quota.QuotaStatus().Reservations {
		if reservation := &a.quota.QuotaStatus().Reservations[i]; r.object.version != "" && r.sameChangeAs(reservation) &&
			reservation.Expires.Before(&until) {
			reservation.Expires = until
		}
	}
}

// sameChangeAs reports whether a reservation is for the change that the request makes, or for the create of an object
// with the same name as the one that the request creates. At most one of these changes can happen.
func (r *Request) sameChangeAs(reserved *placementv1.Reservation) bool {
	own := placementv1.Reservation{Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.object.name, ObjectVersion: r.object.version}
	return createsOneName(&own, reserved) || r.object.uid != "" && reserved.ObjectUID == r.object.uid &&
		reserved.ObjectVersion == r.object.version && reserved.Resource == r.Resource.String()
}

// crowded reports whether a namespace has the maximum number of reservations in the quota, if that is a ClusterScopedQuota, which
// namespaces share.
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

// full reports whether the quota has the maximum number of reservations.
func (a *Account) full() bool {
	return len(a.quota.QuotaStatus().Reservations) >= placementv1.MaxReservations
}

// subtract returns from without the amounts in what, of the resources that from has. No result is negative.
func subtract(from, what corev1.ResourceList) corev1.ResourceList {
	return upstream.SubtractWithNonNegativeResult(from, upstream.Mask(what, upstream.ResourceNames(from)))
}

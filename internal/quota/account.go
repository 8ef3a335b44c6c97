package quota

import (
	"slices"
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
	return !slices.EqualFunc(a.read.Reservations, status.Reservations, func(x, y placementv1.Reservation) bool { return x.UID == y.UID }) ||
		!equality.Semantic.DeepEqual(a.read.Used, status.Used)
}

// GiveBack takes back the charges of requests, as if they had never been made.
func (a *Account) GiveBack(request func(uid string) bool) {
	status := a.quota.QuotaStatus()
	var kept []placementv1.Reservation
	for _, r := range status.Reservations {
		if !request(r.UID) {
			kept = append(kept, r)
			continue
		}
		status.Used = subtract(status.Used, r.Delta)
	}
	status.Reservations = kept
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
	if r.object.uid == "" {
		return out
	}
	for _, reserved := range a.quota.QuotaStatus().Reservations {
		if reserved.ObjectUID == r.object.uid && reserved.ObjectVersion == r.object.version && reserved.Resource == r.Resource.String() {
			out = upstream.Add(out, reserved.Delta)
		}
	}
	return out
}

// charge adds what the request takes beyond what stands already.
func (a *Account) charge(r *Request, requested, standing corev1.ResourceList, expires time.Time) {
	more := upstream.RemoveZeros(upstream.SubtractWithNonNegativeResult(requested, upstream.Mask(standing, upstream.ResourceNames(requested))))
	if len(more) == 0 || a.full() {
		// Only a quota that denies nothing gets here when it is full; the recount counts what is not charged.
		return
	}
	status := a.quota.QuotaStatus()
	status.Used = upstream.Add(status.Used, more)
	status.Reservations = append(status.Reservations, placementv1.Reservation{
		UID: r.UID, Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.object.name,
		ObjectUID: r.object.uid, ObjectVersion: r.object.version, Delta: more, Expires: metav1.NewTime(expires),
	})
}

// full says that no more charges can be under way.
func (a *Account) full() bool {
	return len(a.quota.QuotaStatus().Reservations) >= placementv1.MaxReservations
}

// subtract takes away what is there, and leaves nothing below zero.
func subtract(from, what corev1.ResourceList) corev1.ResourceList {
	return upstream.SubtractWithNonNegativeResult(from, upstream.Mask(what, upstream.ResourceNames(from)))
}

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
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
)

// Meter stores the amounts that every existing object of the counted types takes. It is safe for concurrent use.
type Meter struct {
	evaluators *Evaluators
	clock      clock.PassiveClock

	mu    sync.Mutex
	types map[schema.GroupResource]*typeObjects // The types whose objects the meter has.
	// revisions is the number of the last revision that was given to a type.
	revisions uint64
}

// typeObjects holds the objects of one type.
type typeObjects struct {
	// objects are by namespace and name.
	objects map[string]map[string]*objectEntry
	// deleted has the UIDs of objects that were deleted lately, which end the reservations for these objects, each with the time when it may
	// be forgotten.
	deleted map[types.UID]time.Time
	// revision changes whenever the amounts that the objects take change. No two states of any types have the same revision.
	revision uint64
	// awaited are the UIDs of objects for which a reservation expects an update that the meter has not seen. A newer version of the object
	// settles the reservation.
	awaited map[types.UID]bool
}

// objectEntry has what one object takes.
type objectEntry struct {
	uid     types.UID
	version string // The resource version.
	measurement
	// lapses is, for a pod that is being deleted, its deletionTimestamp plus its deletionGracePeriodSeconds: from then on, it only takes the
	// amounts in lapsed. It is zero for all other objects.
	lapses time.Time
	// lapsed has the amounts that a pod takes from lapses on: those that it would take in phase Failed. It is nil if lapses is zero.
	lapsed corev1.ResourceList
	// claim is set if the object is a ResourceClaim. What it takes depends on DeviceClasses and a pod too, so the recount
	// measures it, and usage is empty.
	claim *resourcev1.ResourceClaim
	// extendedClaim is the name of the ResourceClaim for the extended resources of a pod; nil if the object is no pod or
	// the pod has none.
	extendedClaim *corev1.PodExtendedResourceClaimStatus
}

// takesAsMuchAs reports whether two versions of an object have the same effect on every recount.
func (e *objectEntry) takesAsMuchAs(other *objectEntry) bool {
	return e.uid == other.uid && e.scopes == other.scopes && e.lapses.Equal(other.lapses) && equal(e.usage, other.usage) &&
		equality.Semantic.DeepEqual(e.claim, other.claim) && equality.Semantic.DeepEqual(e.extendedClaim, other.extendedClaim)
}

// deletedRetention is how long the UID of a deleted object is kept. It is longer than any reservation lasts.
const deletedRetention = 10 * time.Minute

// NewMeter returns a meter without any types.
func NewMeter(e *Evaluators, c clock.PassiveClock) *Meter {
	return &Meter{evaluators: e, clock: c, types: map[schema.GroupResource]*typeObjects{}}
}

// maxErrors is the maximum number of objects that an error of Replace names. The error has the number of the others.
const maxErrors = 10

// Replace replaces all objects of a type, which the meter has from then on. It omits objects that cannot be measured, and returns the
// errors of the first maxErrors of them.
func (m *Meter) Replace(resource schema.GroupResource, objects []*unstructured.Unstructured) error {
	var failed []error
	next := &typeObjects{objects: map[string]map[string]*objectEntry{}, deleted: map[types.UID]time.Time{}, awaited: map[types.UID]bool{}}
	for _, o := range objects {
		e, err := m.newEntry(resource, o)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		next.put(o.GetNamespace(), o.GetName(), e)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, ok := m.types[resource]; ok {
		next.awaited = before.awaited
		next.deleted = before.deleted
		for namespace, objects := range before.objects {
			for name, e := range objects {
				if now := next.objects[namespace][name]; now == nil || now.uid != e.uid {
					next.deleted[e.uid] = m.clock.Now().Add(deletedRetention)
				}
			}
		}
	}
	m.types[resource] = next
	m.revise(next)
	if more := len(failed) - maxErrors; more > 0 {
		failed = append(failed[:maxErrors], fmt.Errorf("the usage of %d more objects of %s can't be computed", more, resource))
	}
	return errors.Join(failed...)
}

// Put adds or updates one object. It reports whether quotas of the object's namespace must be recounted: the object takes other amounts
// than before, or this version may settle a reservation. It ignores objects of types that the meter does not have. If the object can't be
// measured, Put returns an error, and the meter keeps the version that it has.
func (m *Meter) Put(resource schema.GroupResource, o *unstructured.Unstructured) (bool, error) {
	e, err := m.newEntry(resource, o)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.types[resource]
	if !ok {
		return false, nil
	}
	before := t.objects[o.GetNamespace()][o.GetName()]
	if before != nil && before.uid != e.uid {
		t.deleted[before.uid] = m.clock.Now().Add(deletedRetention)
	}
	t.put(o.GetNamespace(), o.GetName(), e)
	if before != nil && before.takesAsMuchAs(e) {
		return t.awaited[e.uid], nil
	}
	m.revise(t)
	return true, nil
}

// Delete removes one object. It reports whether quotas of the object's namespace must be recounted: whether the meter had the object.
func (m *Meter) Delete(resource schema.GroupResource, namespace, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.types[resource]
	if !ok || t.objects[namespace][name] == nil {
		return false
	}
	now := m.clock.Now()
	for uid, until := range t.deleted {
		if now.After(until) {
			delete(t.deleted, uid)
		}
	}
	uid := t.objects[namespace][name].uid
	t.deleted[uid] = now.Add(deletedRetention)
	delete(t.awaited, uid)
	m.revise(t)
	delete(t.objects[namespace], name)
	if len(t.objects[namespace]) == 0 {
		delete(t.objects, namespace)
	}
	return true
}

// Drop removes a type with all its objects. The meter then ignores its objects until Replace.
func (m *Meter) Drop(resource schema.GroupResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.types, resource)
}

// ClassesChanged gives the ResourceClaims a new revision: DeviceClasses have changed, so that claims may take other amounts.
func (m *Meter) ClassesChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.types[deviceClaims]; ok {
		m.revise(t)
	}
}

// revise gives a type a new revision, which no type of the meter had before. The caller must hold m.mu.
func (m *Meter) revise(t *typeObjects) {
	m.revisions++
	t.revision = m.revisions
}

// put stores the entry of an object, in place of the one with its namespace and name, if there is one. It changes nothing else in t.
func (t *typeObjects) put(namespace, name string, e *objectEntry) {
	if t.objects[namespace] == nil {
		t.objects[namespace] = map[string]*objectEntry{}
	}
	t.objects[namespace][name] = e
}

// newEntry measures an object. Of a ResourceClaim, it only keeps what the recount measures. It returns an error if the object can't be read
// or measured.
func (m *Meter) newEntry(resource schema.GroupResource, o *unstructured.Unstructured) (*objectEntry, error) {
	object := newObject(resource)
	if _, special := m.evaluators.special[resource]; special {
		if err := numeral.FromUnstructured(o.Object, object); err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", resource, o.GetNamespace(), o.GetName(), err)
		}
	}
	if claim, ok := object.(*resourcev1.ResourceClaim); ok {
		return &objectEntry{uid: claim.UID, version: claim.ResourceVersion, measurement: measurement{scopes: Scopes{resource: resource}},
			claim: measuredClaim(claim)}, nil
	}
	measured, err := m.evaluators.measure(resource, object)
	if err != nil {
		return nil, fmt.Errorf("computing the usage of %s %s/%s: %w", resource, o.GetNamespace(), o.GetName(), err)
	}
	e := &objectEntry{uid: o.GetUID(), version: o.GetResourceVersion(), measurement: measured}
	pod, isPod := object.(*corev1.Pod)
	if isPod && pod.Status.ExtendedResourceClaimStatus != nil {
		e.extendedClaim = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: pod.Status.ExtendedResourceClaimStatus.ResourceClaimName}
	}
	if !isPod || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return e, nil
	}
	// Like Kubernetes, stop counting a pod that should be gone by now, for example a pod on a lost node.
	e.lapses = pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	e.lapsed, err = m.evaluators.evaluatorFor(resource).Usage(ended)
	return e, err
}

// usageAt returns what the object takes at the given time.
func (e *objectEntry) usageAt(now time.Time) corev1.ResourceList {
	if !e.lapses.IsZero() && !now.Before(e.lapses) {
		return e.lapsed
	}
	return e.usage
}

// Has reports whether the meter has the object with this name and UID.
func (m *Meter) Has(resource schema.GroupResource, namespace, name string, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.types[resource]
	return t != nil && t.objects[namespace][name] != nil && t.objects[namespace][name].uid == uid
}

// Unsettled returns those of a quota's reservations whose changes of objects the meter has not seen yet, expired reservations included, and
// all those for types that the meter does not have and for namespaces that selects excludes. The amounts of the other ones are counted with
// the existing objects, or their objects have been deleted. selects reports whether the quota counts a namespace. From now on, Put reports
// the next version of each object whose change has not come.
func (m *Meter) Unsettled(reservations []placementv1.Reservation, selects func(namespace string) bool) []placementv1.Reservation {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []placementv1.Reservation
	for i := range reservations {
		if !m.trackSettled(&reservations[i], selects) {
			out = append(out, reservations[i])
		}
	}
	return out
}

// trackArrival reports whether the meter has seen the change that a reservation is for, or the deletion of its object, after which the
// change can no longer come. It is false for a reservation without the UID of an object. trackArrival adds an object to awaited whose
// update is yet to come, and removes it once the update has come.
func (t *typeObjects) trackArrival(r *placementv1.Reservation) bool {
	uid := types.UID(r.ObjectUID)
	if uid == "" {
		return false
	}
	if _, gone := t.deleted[uid]; gone {
		return true
	}
	e := t.objects[r.Namespace][r.Name]
	if e == nil || e.uid != uid {
		return false
	}
	if r.ObjectVersion == "" {
		return true
	}
	// An update that starts from a version either creates the next version or fails.
	order, err := resourceversion.CompareResourceVersion(e.version, r.ObjectVersion)
	if err != nil {
		return e.version != r.ObjectVersion
	}
	if order <= 0 {
		t.awaited[uid] = true
		return false
	}
	delete(t.awaited, uid)
	return true
}

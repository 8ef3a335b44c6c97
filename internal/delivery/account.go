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

package delivery

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// Key identifies a placed object. It is independent of the API version.
type Key struct {
	schema.GroupKind
	Namespace, Name string
}

// compare orders keys by group, kind, namespace, and name.
func (k Key) compare(other Key) int {
	return cmp.Or(strings.Compare(k.Group, other.Group), strings.Compare(k.Kind, other.Kind),
		strings.Compare(k.Namespace, other.Namespace), strings.Compare(k.Name, other.Name))
}

// Failure says why the delivery of an object failed.
type Failure struct {
	// Reason is a reason of the condition Delivered of the policy.
	Reason string
	// Message says what happened to which object, and what to do next.
	Message string
}

// Result is the state of the delivery of one placed object, to all of its systems together: whether it is pending or failed, and whether
// the object runs. It does not have the generation of the object. The zero value is that of an object that is not delivered.
type Result struct {
	// Resource is the resource type of the placed object.
	Resource schema.GroupResource
	// Systems are the names of the systems that the object is delivered to, separated by commas.
	Systems string
	// Pending reports whether the delivery is not complete yet, although nothing failed: Berth has not read a type that it needs, or a
	// delivered object is being deleted, after which a new one is written.
	Pending bool
	// Run reports whether the object runs in its clusters. Its field Absent is false until the object has been absent for a while.
	Run Run
	// Reports reports whether System.Reports is true for one of the systems, and Berth may read its reports. If it is false, Run may still be
	// known, from the object's own status or from objects of WorkKinds.
	Reports bool
	// Surges reports whether a policy that delivers the object has spec.delivery.surge.
	Surges bool
	// Kept has the clusters in which the object stays for now, although they are not decided, separated by commas; "" for none. It stays until
	// it runs in its new ones or the timeout of spec.delivery.surge has passed, or until the objects that it contains have left.
	Kept string
	// Note says which part of the decision a system can't follow, and why; "" for none.
	Note string
	// Undecided reports whether no policy decided the clusters of the object. Such an object is not delivered; what was delivered before
	// stays.
	Undecided bool
	// Failure is why the delivery failed; nil if it did not.
	Failure *Failure
}

// Reconciled is an object with the result of its last delivery. Object is as it was read then, in the version of Resource.
type Reconciled struct {
	Resource schema.GroupVersionResource
	Object   *unstructured.Unstructured
	Result
}

// Arrived reports whether Run.State is Running or NotReported, and the result is of the newest version of the object: its status has no
// observedGeneration, which only some systems set, or one that is not below its generation. So it is true also for an object that has to
// run nowhere, or of which no system reports where it runs. It does not look at Failure and Pending.
func (r Reconciled) Arrived() bool {
	observed, reports, _ := unstructured.NestedInt64(r.Object.Object, "status", "observedGeneration")
	return (r.Run.State == Running || r.Run.State == NotReported) && (!reports || observed >= r.Object.GetGeneration())
}

// Account has the results of the delivery of objects, for each policy that delivers them. It is safe for concurrent use.
type Account struct {
	mu       sync.Mutex
	byPolicy map[string]map[Key]Result // results by the name of the policy
	policies map[Key][]string          // the names of the policies that deliver each object
}

// NewAccount returns an account without results.
func NewAccount() *Account {
	return &Account{byPolicy: map[string]map[Key]Result{}, policies: map[Key][]string{}}
}

// Record sets the result of an object for the policies with the given names, and removes it from all other policies; without names, from
// all. It returns the names of the policies whose Report may have changed: for which the result was added, removed, or differs from before.
func (a *Account) Record(key Key, policies []string, result Result) (changed []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.policies[key] {
		if !slices.Contains(policies, name) {
			delete(a.byPolicy[name], key)
			changed = append(changed, name)
		}
	}
	for _, name := range policies {
		of := a.byPolicy[name]
		if of == nil {
			of = map[Key]Result{}
			a.byPolicy[name] = of
		}
		if before, known := of[key]; !known || !before.equal(result) {
			changed = append(changed, name)
		}
		of[key] = result
	}
	if len(policies) == 0 {
		delete(a.policies, key)
	} else {
		a.policies[key] = policies
	}
	return changed
}

// equal reports whether all fields of two results are equal. Failures are compared by their reasons and messages.
func (r Result) equal(other Result) bool {
	same := ptr.Equal(r.Failure, other.Failure)
	r.Failure, other.Failure = nil, nil
	return same && r == other
}

// Result returns the result of an object; the zero value if it has none.
func (a *Account) Result(key Key) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	if names := a.policies[key]; len(names) > 0 {
		// All policies have the same result.
		return a.byPolicy[names[0]][key]
	}
	return Result{}
}

// Keys returns the keys of the objects that have a result, in no order.
func (a *Account) Keys() []Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.policies))
}

// Report has the numbers of the objects that one policy delivers, by their results, and for some of the numbers the object that sorts
// first.
type Report struct {
	Placed    int // objects with a result, without those that are only Undecided
	Delivered int // objects whose delivery did not fail and is complete: as far as is known, in all decided clusters and in no others
	Failed    int // objects whose delivery failed
	Running   int // objects that run in their clusters
	Reported  int // objects of which a system reports whether they run, or would if Berth could read the reports
	Surging   int // objects that stay in clusters that are not decided, for the reasons of Result.Kept
	Remaining int // objects that are still in a cluster that was neither decided nor kept
	Absent    int // objects that a system has not brought to all of their clusters for a while
	Noted     int // objects of whose decision a system can't follow a part
	Undecided int // objects whose clusters no policy decided; the other numbers count them only if their delivery failed
	// Systems are the names of the systems that the objects are delivered to, sorted.
	Systems []string
	// Each is the object that sorts first of those that the number of this name counts; nil if there are none.
	FirstFailed, FirstSurging, FirstRemaining, FirstNoted, FirstUndecided, FirstAbsent *ReportedObject
	// FirstNotRunning is the first object that does not run, and FirstUnknown the first one whose reports Berth can't read.
	FirstNotRunning, FirstUnknown *ReportedObject
}

// Runs reports whether the number Running can be told: some system reports which objects run, and Berth can read all reports.
func (r Report) Runs() bool { return r.Reported > 0 && r.FirstUnknown == nil }

// ReportedObject is an object in a Report, with its result.
type ReportedObject struct {
	Key
	Result
}

// Report returns the report on the objects that the policy with a name delivers; all numbers are 0 if it delivers none.
func (a *Account) Report(policy string) Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out Report
	systems := sets.New[string]()
	for key, result := range a.byPolicy[policy] {
		if result.Undecided {
			out.Undecided++
			first(&out.FirstUndecided, key, result)
			if result.Failure == nil {
				continue
			}
		}
		out.Placed++
		systems.Insert(strings.Split(result.Systems, ",")...)
		switch {
		case result.Failure != nil:
			out.Failed++
			first(&out.FirstFailed, key, result)
		case !result.Pending && result.Kept == "" && !result.Run.Remains && !result.Run.Absent:
			out.Delivered++
		}
		if result.Run.Remains {
			out.Remaining++
			first(&out.FirstRemaining, key, result)
		}
		if result.Run.Absent {
			out.Absent++
			first(&out.FirstAbsent, key, result)
		}
		if result.Kept != "" {
			out.Surging++
			first(&out.FirstSurging, key, result)
		}
		if result.Note != "" {
			out.Noted++
			first(&out.FirstNoted, key, result)
		}
		if result.Run.State != NotReported {
			out.Reported++
		}
		switch result.Run.State {
		case Running:
			out.Running++
		case NotRunning:
			first(&out.FirstNotRunning, key, result)
		case RunUnknown:
			first(&out.FirstUnknown, key, result)
		}
	}
	out.Systems = sets.List(systems.Delete(""))
	return out
}

// first sets *found to an object if the object sorts before it, or *found is nil.
func first(found **ReportedObject, key Key, result Result) {
	if *found == nil || key.compare((*found).Key) < 0 {
		*found = &ReportedObject{key, result}
	}
}

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

// Key identifies a placed object, in whatever version it is read.
type Key struct {
	schema.GroupKind
	Namespace, Name string
}

// compare orders keys by kind, namespace, and name.
func (k Key) compare(other Key) int {
	return cmp.Or(strings.Compare(k.Group, other.Group), strings.Compare(k.Kind, other.Kind),
		strings.Compare(k.Namespace, other.Namespace), strings.Compare(k.Name, other.Name))
}

// Failure says why the delivery of an object failed.
type Failure struct {
	// Reason is a reason of the condition Delivered.
	Reason string
	// Message says what happened to which object, and what to do.
	Message string
}

// Result is the result of the delivery of one object.
type Result struct {
	// Resource is the resource type of the placed object.
	Resource schema.GroupResource
	// Systems are the names of the systems that the object is delivered to, separated by commas.
	Systems string
	// Pending reports whether the delivery is not complete, although nothing failed.
	Pending bool
	// Run reports whether the object runs in its clusters. Reports reports whether one of the systems says so, as far as
	// Berth may read that, and Surges whether the
	// object stays in clusters that it leaves until it runs in its new ones.
	Run             Run
	Reports, Surges bool
	// Kept has the clusters that the object leaves and keeps until it runs in its new ones, separated by commas.
	Kept string
	// Note says which part of the decision a system does not get, and why. It is usually empty.
	Note string
	// Undecided reports whether no policy decided the clusters of the object. Then it is not delivered, and what was delivered before stays.
	Undecided bool
	// Failure is nil if nothing failed.
	Failure *Failure
}

// Reconciled is an object whose delivery was reconciled, as it was read in one version of its type.
type Reconciled struct {
	Resource schema.GroupVersionResource
	Object   *unstructured.Unstructured
	Result
}

// Arrived reports whether the object runs where it was decided, in its newest version, or has to run nowhere. Some systems report how
// far they are with the object itself in its status.observedGeneration.
func (r Reconciled) Arrived() bool {
	observed, reports, _ := unstructured.NestedInt64(r.Object.Object, "status", "observedGeneration")
	return (r.Run.State == Running || r.Run.State == NotReported) && (!reports || observed >= r.Object.GetGeneration())
}

// Account has the results of delivery by policy and object. It is safe for concurrent use.
type Account struct {
	mu       sync.Mutex
	byPolicy map[string]map[Key]Result
	policies map[Key][]string
}

// NewAccount returns an account without results.
func NewAccount() *Account {
	return &Account{byPolicy: map[string]map[Key]Result{}, policies: map[Key][]string{}}
}

// Record replaces the result of an object for all policies: it is result for those in policies, and none for all others. It
// returns the policies whose report changed.
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

// Keys returns the objects with a result.
func (a *Account) Keys() []Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.policies))
}

// Report is the account of one policy.
type Report struct {
	// Placed is the number of objects with a result. Delivered is the number of those whose delivery is complete, and Failed of
	// those whose delivery failed.
	Placed, Delivered, Failed int
	// Running is the number of objects that run in their clusters, and Reported of those of which a system reports it, or would
	// if Berth could read the reports.
	Running, Reported int
	// Surging is the number of objects that keep clusters until they run in their new ones.
	Surging int
	// Remaining is the number of objects that are still in a cluster that was neither decided nor kept, and Absent of those that a system has
	// not brought to all of their clusters for a while.
	Remaining, Absent int
	// Noted is the number of objects of whose decision a system does not get a part.
	Noted int
	// Undecided is the number of objects whose clusters no policy decided. They are not counted elsewhere, unless their delivery failed.
	Undecided int
	// Systems are the names of the systems that the objects are delivered to, sorted.
	Systems []string
	// First is the failed object that sorts first, with Failure as its result; nil if none failed. FirstSurging is the first one
	// that keeps clusters, FirstRemaining the first one that is still in another one, FirstNoted the first one with a note, FirstNotRunning
	// the first one that does not run, and FirstUnknown the first one whose reports Berth can't read.
	First, FirstSurging, FirstRemaining, FirstNoted, FirstNotRunning, FirstUnknown *ReportedObject
	// FirstUndecided is the first one whose clusters no policy decided, and FirstAbsent the first one that is not in all of its clusters.
	FirstUndecided, FirstAbsent *ReportedObject
}

// Runs reports whether it is known how many objects run: a system reports it, and Berth can read the reports.
func (r Report) Runs() bool { return r.Reported > 0 && r.FirstUnknown == nil }

// ReportedObject is an object with its result.
type ReportedObject struct {
	Key
	Result
}

// Report returns the account of a policy.
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
			first(&out.First, key, result)
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

// first keeps the object that sorts first.
func first(found **ReportedObject, key Key, result Result) {
	if *found == nil || key.compare((*found).Key) < 0 {
		*found = &ReportedObject{key, result}
	}
}

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

package whatif

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/simulation"
)

// Transition says what happens to an object because of changes, such as Denied or Moved; of several things, the most serious one.
type Transition string

const (
	// Denied means that a policy denies the object after the changes, and did not before. An existing object stays, and its
	// next update is denied.
	Denied Transition = "Denied"
	// Undecidable means that a policy can't decide the object after the changes, and could before.
	Undecidable Transition = "Undecidable"
	// Allowed means that policies no longer deny the object, or that all can decide it again.
	Allowed Transition = "Allowed"
	// Moved means that the object's clusters or the scheduling fields of its pods change.
	Moved Transition = "Moved"
	// Changed means that only other labels or annotations change.
	Changed Transition = "Changed"
	// Pending means that policies decide other values for the object, which it gets only with an approval, or at an update, and for which it
	// does not wait without the changes.
	Pending Transition = "Pending"
	// Replanned means that the object waits without the changes, too, but for other values, or in another way.
	Replanned Transition = "Replanned"
	// Kept means that the object stays as it is, and waits for another value without the changes.
	Kept Transition = "Kept"
	// Matched means that policies match the object that did not before, and that nothing changes.
	Matched Transition = "Matched"
	// Unmatched means that fewer policies match the object, and that nothing changes.
	Unmatched Transition = "Unmatched"
	// Unenforced means that a policy that matches the object was enforced and is not any more, and that nothing changes.
	Unenforced Transition = "Unenforced"
	// Waiting means that the object waits for other values, the same with the changes as without them. Such objects are in
	// Report.StillWaiting, and neither in Report.Objects nor in Report.Totals.
	Waiting Transition = "Waiting"
)

// Transitions returns all transitions, the most serious first.
func Transitions() []Transition {
	return []Transition{Denied, Undecidable, Allowed, Moved, Changed, Pending, Replanned, Kept, Matched, Unmatched, Unenforced, Waiting}
}

// MaxStillWaiting is the maximum number of objects in Report.StillWaiting. As many may wait as there are in the cluster.
const MaxStillWaiting = 1000

// Report says what changes would do to the objects that policies match, without making them: which objects get other values or decisions,
// how many for each transition, and errors and warnings about the changes.
type Report struct {
	// Objects are the objects to which something happens, by transition, type, namespace, and name.
	Objects []Object `json:"objects"`
	// Totals has the number of Objects for each transition that happens to at least one.
	Totals map[Transition]int `json:"totals"`
	// Namespaces has the number of Objects for each transition, by namespace; "" stands for cluster-scoped objects.
	Namespaces map[string]map[Transition]int `json:"namespaces"`
	// Waiting is the number of objects that wait for other values, the same with the changes as without them. They are not among Objects.
	Waiting int `json:"waiting,omitempty"`
	// StillWaiting are the first MaxStillWaiting of the objects that Waiting counts, type by type. Their Values are those for which they
	// wait.
	StillWaiting []Object `json:"-"`
	// Unchanged is the number of objects that policies match, to which nothing happens, and that wait for no other values.
	Unchanged int `json:"unchanged"`
	// Rules has how many objects a rule decides before and after. It has all rules of each policy that changes, and all rules of each other
	// policy of which at least one rule decides more or fewer objects than before. It has no rules of policies that the changes delete.
	Rules []RuleCount `json:"rules,omitempty"`
	// Findings are errors and warnings about the changes.
	Findings []Finding `json:"findings,omitempty"`
	// Missing are the types of objects that policies may match and that the user may not list, so that the report lacks them.
	Missing []string `json:"missing,omitempty"`
}

// Moves returns the number of objects, with any transition, that get another label, annotation, scheduling field, or list of clusters
// without an approval and without another update, although they may wait, for example for a window.
func (r *Report) Moves() int {
	out := 0
	for _, o := range r.Objects {
		if slices.ContainsFunc(o.Values, func(v Value) bool { return !v.Pending }) {
			out++
		}
	}
	return out
}

// Object is an object to which the changes make something happen or, in Report.StillWaiting, one that waits for the same values with the
// changes as without them.
type Object struct {
	Kind       string     `json:"kind"`
	Resource   string     `json:"resource"`
	Namespace  string     `json:"namespace,omitempty"`
	Name       string     `json:"name"`
	Transition Transition `json:"transition"`
	// Values are the labels, annotations, scheduling fields, and lists of clusters that change, apart from those for which the object waits
	// in the same way without the changes.
	Values []Value `json:"values,omitempty"`
	// Reasons are messages of policies if Transition is Denied, Undecidable, or Allowed, and names of policies if it is Matched, Unmatched, or
	// Unenforced.
	Reasons []string `json:"reasons,omitempty"`
	// Dropped are the values for which the object waits only without the changes: From is the value that it has and keeps.
	Dropped []Value `json:"dropped,omitempty"`
}

// Value is a value of an object that changes.
type Value struct {
	Field string  `json:"field"` // labels, annotations, scheduling, or clusters
	Key   string  `json:"key"`   // the key, such as nodeSelector/pool for scheduling; for clusters, the path of the list in the object
	From  *string `json:"from"`  // the old value; nil for none
	To    *string `json:"to"`    // the new value; nil for none
	// Policy is the policy that sets the new value or, if none does, that set the old one.
	Policy string `json:"policy"`
	// Pending reports whether the object gets the value only after an approval, or at its next update.
	Pending bool `json:"pending,omitempty"`
	// Waits says what the object waits for before it gets the value, in the words of the policy's status; "" if remediation sets it at once.
	Waits string `json:"waits,omitempty"`
	// Planned is the value for which the object waits without the changes; nil if it waits for none.
	Planned *Planned `json:"planned,omitempty"`
}

// Planned is a value for which an object waits without the changes.
type Planned struct {
	To      *string `json:"to"`                // the new value; nil for none
	Pending bool    `json:"pending,omitempty"` // whether the object gets the value only after an approval, or at its next update
	Waits   string  `json:"waits,omitempty"`   // what the object waits for before it gets the value; "" for nothing
}

// RuleCount has how many existing objects a rule in spec.rules of a policy decides before and after the changes.
type RuleCount struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	Before int    `json:"before"` // the number of objects before the changes; 0 for a rule that they add
	After  int    `json:"after"`  // the number of objects after the changes; 0 for a rule that they remove from the policy
}

// Finding is an error or a warning about the changes. It concerns an object that changes, or one that they affect, such as a quota.
type Finding struct {
	// Object is the kind and name of the object that the finding concerns, for example "PlacementPolicy data-residency". The name of a
	// namespaced object follows its namespace, as in "Deployment shop/web".
	Object  string `json:"object"`
	Error   bool   `json:"error"` // whether it is an error, and not a warning
	Message string `json:"message"`
}

// newReport returns a report on the results that has only Objects, Totals, and Namespaces. Results to which nothing happens (Object is nil)
// are left out. The objects are sorted by transition, type, namespace, and name.
func newReport(results []result) *Report {
	out := &Report{Objects: []Object{}, Totals: map[Transition]int{}, Namespaces: map[string]map[Transition]int{}}
	for _, r := range results {
		if r.Object == nil {
			continue
		}
		out.Objects = append(out.Objects, *r.Object)
		out.Totals[r.Transition]++
		if out.Namespaces[r.Namespace] == nil {
			out.Namespaces[r.Namespace] = map[Transition]int{}
		}
		out.Namespaces[r.Namespace][r.Transition]++
	}
	transitions := Transitions()
	slices.SortFunc(out.Objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(slices.Index(transitions, a.Transition), slices.Index(transitions, b.Transition)),
			strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// addUnchanged counts an object to which nothing happens, and whose state after the changes is s. If the object waits for other values, it
// is counted in Waiting, and is among the first MaxStillWaiting of these in StillWaiting. Otherwise, also if it is denied, it is counted in
// Unchanged.
func (r *Report) addUnchanged(o simulation.Object, s *state) {
	if !s.waiting {
		r.Unchanged++
		return
	}
	if r.Waiting++; r.Waiting <= MaxStillWaiting {
		r.StillWaiting = append(r.StillWaiting, Object{
			Kind: o.Content.GetKind(), Resource: o.Resource.GroupResource().String(), Namespace: o.Namespace, Name: o.Content.GetName(),
			Transition: Waiting, Values: s.awaited(),
		})
	}
}

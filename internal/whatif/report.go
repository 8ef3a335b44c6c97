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
)

// Transition is what changes do to an object.
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
	// Pending means that policies decide other values for the object, which it gets only with an approval, or at an update.
	Pending Transition = "Pending"
	// Matched means that policies match the object that did not before, and that nothing changes.
	Matched Transition = "Matched"
	// Unmatched means that fewer policies match the object, and that nothing changes.
	Unmatched Transition = "Unmatched"
)

// Transitions returns all transitions, the gravest first.
func Transitions() []Transition {
	return []Transition{Denied, Undecidable, Allowed, Moved, Changed, Pending, Matched, Unmatched}
}

// Report is what changes would do.
type Report struct {
	// Objects are the objects to which something happens, by transition, type, namespace, and name.
	Objects []Object `json:"objects"`
	// Totals count them.
	Totals map[Transition]int `json:"totals"`
	// Namespaces count them by namespace; cluster-scoped objects are under "".
	Namespaces map[string]map[Transition]int `json:"namespaces"`
	// Unchanged is the number of other objects that policies match.
	Unchanged int `json:"unchanged"`
	// Rules are the numbers of objects by rule, for the policies that change, and those of which another rule decides objects.
	Rules []RuleCount `json:"rules,omitempty"`
	// Findings are errors and warnings about the changes.
	Findings []Finding `json:"findings,omitempty"`
	// Missing are the types of matched objects that the user may not list, so that the report lacks them.
	Missing []string `json:"missing,omitempty"`
}

// Moves returns the number of objects of which labels, annotations, or scheduling fields change at once, whatever else
// happens to them.
func (r *Report) Moves() int {
	out := 0
	for _, o := range r.Objects {
		if slices.ContainsFunc(o.Values, func(v Value) bool { return !v.Pending }) {
			out++
		}
	}
	return out
}

// Object is an object to which something happens.
type Object struct {
	Kind       string     `json:"kind"`
	Resource   string     `json:"resource"`
	Namespace  string     `json:"namespace,omitempty"`
	Name       string     `json:"name"`
	Transition Transition `json:"transition"`
	// Values are the annotations, labels, and scheduling fields that change.
	Values []Value `json:"values,omitempty"`
	// Reasons are messages of policies for Denied, Undecidable, and Allowed, and names of policies for Matched and Unmatched.
	Reasons []string `json:"reasons,omitempty"`
}

// Value is a value that changes; nil stands for an absent one.
type Value struct {
	Field string  `json:"field"`
	Key   string  `json:"key"`
	From  *string `json:"from"`
	To    *string `json:"to"`
	// Policy is the policy that sets the new value, or that set the old one.
	Policy string `json:"policy"`
	// Pending means that the object does not get the value without an approval, or before its next update.
	Pending bool `json:"pending,omitempty"`
	// Waits says what the object waits for before it gets the value, as the status of the policy does; empty if remediation sets it at once.
	Waits string `json:"waits,omitempty"`
}

// RuleCount is the number of existing objects that a rule of spec.rules decides before and after the changes.
type RuleCount struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	Before int    `json:"before"`
	After  int    `json:"after"`
}

// Finding is an error or a warning about an object that changes.
type Finding struct {
	// Object is the kind and name of the object, for example "PlacementPolicy data-residency".
	Object  string `json:"object"`
	Error   bool   `json:"error"`
	Message string `json:"message"`
}

// newReport returns the report on the results.
func newReport(results []result) *Report {
	out := &Report{Objects: []Object{}, Totals: map[Transition]int{}, Namespaces: map[string]map[Transition]int{}}
	for _, r := range results {
		if r.unmatched {
			continue
		}
		if r.Object == nil {
			out.Unchanged++
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

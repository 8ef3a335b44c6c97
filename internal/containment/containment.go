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

// Package containment decides how far failures reach. The objects of a namespace are those of one tenant, who can make all of
// them fail. So failures in one or two namespaces stop something for these namespaces alone. It takes failures in three to stop
// it for all.
package containment

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespaces is the number of namespaces that must have failures before an activity, such as the remediation of a policy, stops in all
// namespaces. A limit of 0 failures is an exception.
const Namespaces = 3

// Scope has the namespaces, sorted, in which an activity is stopped, such as the remediation of a policy. An empty Scope is all namespaces.
// The element "" stands for cluster-scoped objects.
type Scope []string

// All reports whether the scope is all namespaces.
func (s Scope) All() bool { return len(s) == 0 }

// Includes reports whether the activity is stopped in a namespace, "" for cluster-scoped objects.
func (s Scope) Includes(namespace string) bool { return s.All() || slices.Contains(s, namespace) }

// String says where the activity is stopped: "in all namespaces", or for example "in namespaces a and b", followed by "and without a
// namespace" if cluster-scoped objects are among them.
func (s Scope) String() string {
	named := slices.DeleteFunc(slices.Clone(s), func(namespace string) bool { return namespace == "" })
	switch {
	case s.All():
		return "in all namespaces"
	case len(named) == 0:
		return "without a namespace"
	}
	out := "in namespace " + named[0]
	if len(named) > 1 {
		out = "in namespaces " + strings.Join(named, " and ")
	}
	if len(named) < len(s) {
		out += " and without a namespace"
	}
	return out
}

// Join returns the union of two scopes: all namespaces (nil) if one of them is.
func (s Scope) Join(other Scope) Scope {
	if s.All() || other.All() {
		return nil
	}
	out := slices.Concat(s, other)
	slices.Sort(out)
	return slices.Compact(out)
}

// Covers reports whether the scope has all namespaces of another one.
func (s Scope) Covers(other Scope) bool {
	return s.All() || !other.All() && !slices.ContainsFunc(other, func(namespace string) bool { return !s.Includes(namespace) })
}

// Never is the limit with which failures, however many, stop nothing.
const Never = -1

// LimitOf returns the limit for Of that the API field pauseAfterFailures sets: its number, Never if it is the string "Never", or the
// parameter unset if it is nil.
func LimitOf(pauseAfterFailures *intstr.IntOrString, unset int) int {
	switch {
	case pauseAfterFailures == nil:
		return unset
	case pauseAfterFailures.Type == intstr.String:
		return Never
	}
	return pauseAfterFailures.IntValue()
}

// Of returns in which namespaces failures stop an activity; stops is false if they stop it nowhere. failures has the number of failures in
// each namespace with any. limit is the number of failures from which on they stop anything, or Never. A limit of 0 tolerates no failure:
// the first one stops the activity in all namespaces.
//
// It stops in all namespaces if at least three have failures, and the failures reach the limit when each namespace counts for at most a
// third of the limit. Otherwise, if all failures reach the limit, it stops in the namespaces that have a third of the limit or more: at
// most two. So there are always fewer failures than the limit in namespaces where it goes on.
func Of(failures map[string]int, limit int) (scope Scope, stops bool) {
	switch {
	case limit < 0:
		return nil, false
	case limit == 0:
		return nil, len(failures) > 0
	}
	share := (limit + Namespaces - 1) / Namespaces
	total, bounded := 0, 0
	for namespace, n := range failures {
		total += n
		if bounded += min(n, share); bounded >= limit && len(failures) >= Namespaces {
			return nil, true
		}
		if n >= share {
			scope = append(scope, namespace)
		}
	}
	if total < limit {
		return nil, false
	}
	slices.Sort(scope)
	return scope, true
}

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

package remediation

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// Outcome is in what way an object violates a policy.
type Outcome string

const (
	// Denied means that the policy denies the object.
	Denied Outcome = "Denied"
	// Differs means that the policy decides other values than the object has.
	Differs Outcome = "Differs"
	// Undecided means that the policy can't decide the object.
	Undecided Outcome = "Undecided"
)

// Violation is an object that violates one policy, or that the policy can't decide.
type Violation struct {
	Key
	Policy  string
	Outcome Outcome
	// Message says why. A long message is truncated as in the status of a policy.
	Message string
}

// Violations are the violations of all policies in one namespace. An object counts once for each policy.
type Violations struct {
	// Total is the number of violations by outcome. It includes those that are not listed.
	Total map[Outcome]int
	// First are the first violations, by object and policy.
	First []Violation
}

// SubscribeViolations registers f, which is called with the namespace when violations in it may have changed; "" stands for
// the objects without a namespace. The ledger is locked meanwhile: f must return quickly and must not call the ledger.
func (l *Ledger) SubscribeViolations(f func(namespace string)) { l.violations.Subscribe(f) }

// Violations returns the violations in a namespace, of which it lists at most limit; "" stands for the objects without a
// namespace. It leaves out objects for which omit returns true. It takes time in proportion to the number of matched objects of all namespaces.
func (l *Ledger) Violations(namespace string, limit int, omit func(Key) bool) Violations {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Violations{Total: map[Outcome]int{}}
	for policy, a := range l.accounts {
		for key := range a.objects {
			if key.Namespace != namespace || omit(key) {
				continue
			}
			f := a.objects[key]
			if outcome, message := f.outcome(); outcome != "" {
				out.Total[outcome]++
				out.First = keepFirst(out.First, Violation{key, policy, outcome, truncate(message)}, limit, compareViolations)
			}
		}
	}
	return out
}

// ViolatedNamespaces returns the namespaces with violations. "" stands for the objects without a namespace.
func (l *Ledger) ViolatedNamespaces() sets.Set[string] {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := sets.New[string]()
	for _, a := range l.accounts {
		for key, f := range a.objects {
			if f.violates() {
				out.Insert(key.Namespace)
			}
		}
	}
	return out
}

// Misplaced reports whether a policy that is enforced denies an object, or decides other clusters than the object has, according to the newest
// decisions. It is known before the object is patched.
func (l *Ledger) Misplaced(key Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.byKey[key], func(policy string) bool {
		effect := l.accounts[policy].objects[key].result()
		return effect.enforced && (effect.denied || slices.ContainsFunc(decodeChanges(effect.changes), func(c placement.Change) bool { return c.Key == placementv1.ClustersAnnotation }))
	})
}

// Undecided reports whether the ledger has no finding yet of one of some policies, which look at existing objects, on an object. keys are the
// object in the versions of its type in which it is read. An object that can't be decided for now does not count: it may never be.
func (l *Ledger) Undecided(policies []string, keys ...Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(keys, l.skipped.Has) {
		return false
	}
	return slices.ContainsFunc(policies, func(policy string) bool {
		return !slices.ContainsFunc(keys, func(key Key) bool { return slices.Contains(l.byKey[key], policy) })
	})
}

// SubscribeDecided registers f, which is called with each object whose findings were recorded. The ledger is locked meanwhile: f must return
// quickly and must not call the ledger.
func (l *Ledger) SubscribeDecided(f func(Key)) { l.recorded.Subscribe(f) }

func compareViolations(a, b Violation) int {
	return cmp.Or(compareKeys(a.Key, b.Key), cmp.Compare(a.Policy, b.Policy))
}

// outcome returns in what way the object violates the policy, and why; "" if it does not.
func (f finding) outcome() (Outcome, string) {
	effect := f.result()
	switch {
	case f.failure != "":
		return Undecided, f.failure
	case effect.denied:
		return Denied, effect.violation
	case effect.violation != "":
		return Differs, effect.violation
	}
	return "", ""
}

// violates reports whether the object violates the policy, or can't be decided.
func (f finding) violates() bool {
	outcome, _ := f.outcome()
	return outcome != ""
}

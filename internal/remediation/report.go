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
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/rollout"
)

// Key identifies one object.
type Key struct {
	Resource  schema.GroupVersionResource
	Namespace string
	Name      string
}

// String returns resource, namespace, and name, for example "deployments.apps default/web".
func (k Key) String() string {
	return k.Resource.GroupResource().String() + " " + strings.TrimPrefix(k.Namespace+"/"+k.Name, "/")
}

func compareKeys(a, b Key) int {
	if a.Resource != b.Resource {
		if c := cmp.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Report summarizes the objects that one policy matches.
type Report struct {
	Matched int
	// Violations is the number of objects that violate the decision or could not be decided: Denied + Moved + Failed.
	Violations int
	// Denied is the number of objects that the policy would deny now, and Moved of those that it would change.
	Denied, Moved int
	// Conflicted is the number of objects with a key that another policy sets to another value.
	Conflicted int
	// Sample are the first violations by object.
	Sample []placementv1.Violation
	// Failed is the number of objects that could not be decided. FailedMessage is the error of the first of them.
	Failed        int
	FailedMessage string
	// Conflicts are the names of the policies that set a key of the same object to another value, sorted.
	Conflicts []string
	// Unsettled are the names of the objects that are no longer patched because they do not settle, sorted.
	Unsettled []string
	// Contested are the names of the objects that are no longer patched because other clients change them back, with the names of
	// those, sorted.
	Contested []string
	// Obstacle says of one object that has to be moved why its last patch failed; "" if there is none. Unauthorized reports whether Berth
	// lacks the permission for it.
	Obstacle     string
	Unauthorized bool
	// Remediated is the number of patches and evictions since the ledger began to track the policy, of objects that were decided since.
	Remediated int64
	// Pause describes why remediation is paused; nil if it is not.
	Pause *Pause
	// Assessing reports whether objects are being decided again because of a change. Until then, the numbers mix findings
	// from before and after the change. It is false if changes follow one another for longer than AssessmentLimit.
	Assessing bool
	// Plan is the newest plan; nil if no object ever had to be moved. Approval is the newest approval, of whatever plan; nil
	// if there is none.
	Plan     *Plan
	Approval *Approval
	// Outstanding is the number of objects that have to be moved, planned or not.
	Outstanding int
}

// Ledger records the findings of all policies on existing objects. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
	byKey    map[Key][]string

	guards map[string]*policyGuard
	// assessments are those that are not concluded, in the order of their start. concluded reports whether Judge has
	// something to do.
	assessments []*Assessment
	concluded   bool
	// late reports whether an assessment may have ended before all of its objects were decided.
	late bool
	// skipped are the objects that can't be decided for now.
	skipped sets.Set[Key]
	// contested are the objects that others change back. They are unsettled in the findings.
	contested map[Key]contest
	// unplanned reports whether some policy's plan has to be made again, which ConcludeAssessments does at most once in
	// planInterval. planned is when it did last.
	unplanned bool
	planned   time.Time
	// violations has the namespaces whose violations change.
	violations notify.Topic[string]
	// recorded has the objects whose findings were recorded.
	recorded notify.Topic[Key]
}

// account holds the findings of one policy, by object.
type account struct {
	objects map[Key]finding
	// types are the numbers of objects by type.
	types      map[schema.GroupVersionResource]int
	remediated int64
	// unseen are the objects that were patched or evicted and not decided since, with the resource version before.
	unseen map[Key]string
	// obstacle is why the last patch of an object failed.
	obstacle obstacle
	planning
}

// obstacle is an object whose last patch failed, and why.
type obstacle struct {
	key          Key
	why          string
	unauthorized bool
}

// seen declares that an object was decided in a version.
func (a *account) seen(key Key, version string) {
	if before, unseen := a.unseen[key]; unseen && before != version {
		delete(a.unseen, key)
	}
}

// finding is the result of one policy for one object.
type finding struct {
	// effect is what the policy would do to the object; zero for nothing. Objects to which the same happens share it.
	effect unique.Handle[effect]
	// failure is the reason why the object could not be decided.
	failure   string
	conflicts []string
	unsettled bool
	harm      harm
	// move identifies the move that the policy requires of the object; zero for none. If the object can't be decided, it is the
	// move that the plan has. planned says what the move is to the policy's plan.
	move    moveID
	planned share
	// version is the resource version of the object that was decided.
	version string
}

// effect is what a policy would do to an object.
type effect struct {
	// violation describes the violation. denied reports whether it is a denial by the policy.
	violation string
	denied    bool
	// enforced reports whether the policy is enforced.
	enforced bool
	// changes are the changes that a patch can make, as encodeChanges returns them.
	changes string
}

// result returns what the policy would do to the object.
func (f finding) result() effect {
	if f.effect == (unique.Handle[effect]{}) {
		return effect{}
	}
	return f.effect.Value()
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{accounts: map[string]*account{}, byKey: map[Key][]string{}, guards: map[string]*policyGuard{}, skipped: sets.New[Key](), contested: map[Key]contest{}}
}

// Record replaces the findings on an object by those of the verdicts. uid and version are the UID and the resource
// version of the object that was decided. It returns the policies whose findings changed.
func (l *Ledger) Record(key Key, uid types.UID, version string, verdicts []*placement.Verdict, unsettled bool) []string {
	patched, approved := rulingOf(verdicts), rulingOf(released(verdicts))
	verdicts = slices.DeleteFunc(slices.Clone(verdicts), func(v *placement.Verdict) bool { return !v.Policy.RemediatesExisting() })
	names, findings, rulings := Names(verdicts), make([]finding, len(verdicts)), make([]ruling, len(verdicts))
	for i, v := range verdicts {
		rulings[i] = patched
		if v.Policy.NeedsApproval() {
			// What needs an approval is what an approved patch would do.
			v, rulings[i] = cmp.Or(v.Released, v), approved
		}
		findings[i] = findingOf(v, version, unsettled)
		findings[i].identify(key, uid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.assessed(key)
	var changed []string
	violates := false
	for _, name := range l.byKey[key] {
		if !slices.Contains(names, name) {
			g, a := l.guard(name), l.accounts[name]
			violates = violates || a.objects[key].violates()
			g.heal(l, key)
			g.unwell -= a.objects[key].harm.weight()
			a.track(a.objects[key], finding{})
			delete(a.objects, key)
			delete(a.unseen, key)
			a.types[key.Resource]--
			if a.refused && a.permitted() {
				g.dirty, l.concluded = true, true
			}
			changed = append(changed, name)
		}
	}
	for i, now := range findings {
		a := l.account(names[i])
		before, known := a.objects[key]
		now.unsettled = now.unsettled && l.unsettles(key, names[i])
		a.types[key.Resource] += count(!known)
		l.count(key, verdicts[i], before, known, now)
		now.plan(before, rulings[i])
		a.track(before, now)
		a.objects[key] = now
		a.seen(key, version)
		switch g := l.guard(names[i]); {
		case a.refused && a.permitted():
			g.dirty, l.concluded = true, true
		case !verdicts[i].Policy.Automatic() && a.strays() > 0:
			// A plan that waits for a decision of a user must have all that has to be done.
			g.unplanned, l.unplanned = true, true
		}
		if !known || !equal(before, now) {
			changed = append(changed, names[i])
			violates = violates || before.violates() || now.violates()
		}
	}
	l.byKey[key] = names
	if len(names) == 0 {
		delete(l.byKey, key)
	}
	l.decided(key, unsettled)
	l.recorded.Publish(key)
	if violates {
		l.violations.Publish(key.Namespace)
	}
	return changed
}

// decided forgets what was known of an object until it was decided. The caller holds mu.
func (l *Ledger) decided(key Key, unsettled bool) {
	l.punctual(key)
	l.skipped.Delete(key)
	if !unsettled {
		delete(l.contested, key)
	}
}

// Forget removes an object from the findings of all policies. It returns the policies whose findings changed.
func (l *Ledger) Forget(key Key) []string { return l.Record(key, "", "", nil, false) }

// contest is an object that others change back.
type contest struct {
	// by names those who do, and policies are the policies whose changes do not last.
	by       string
	policies []string
}

// Contest declares that others change back what policies require of an object. by names them. It lasts until Record declares that
// the object settles.
func (l *Ledger) Contest(key Key, by string, policies ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contested[key] = contest{by, policies}
}

// unsettles reports whether an object that does not settle does so because of a policy. The caller holds mu.
func (l *Ledger) unsettles(key Key, policy string) bool {
	c, contested := l.contested[key]
	return !contested || slices.Contains(c.policies, policy)
}

// Remediated counts the patch or the eviction of an object for policies. version is the resource version that was patched. Reports have
// the count once the object has been decided in another version, so that the count and the plan agree at any time.
func (l *Ledger) Remediated(key Key, version string, policies ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, policy := range policies {
		a := l.account(policy)
		a.remediated++
		if a.obstacle.key == key {
			a.obstacle = obstacle{}
		}
		if f, known := a.objects[key]; known && f.version == version {
			a.unseen[key] = version
		}
	}
}

// Obstruct declares that the patch of an object for policies failed, why, and whether Berth lacks the permission for it. Of several
// objects, the first one counts until it is as the policy decides, so that reports do not alternate between them. It returns the policies
// whose report changed.
func (l *Ledger) Obstruct(key Key, why string, unauthorized bool, policies ...string) (changed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, policy := range policies {
		a, next := l.account(policy), obstacle{key, truncate(why), unauthorized}
		if a.obstacle == next || a.obstacle.key != key && a.obstructed() {
			continue
		}
		a.obstacle = next
		changed = append(changed, policy)
	}
	return changed
}

// obstructed reports whether the object whose patch failed still has to be moved.
func (a *account) obstructed() bool {
	outcome, _ := a.objects[a.obstacle.key].outcome()
	return outcome == Differs
}

// Matching implements Matches.
func (l *Ledger) Matching(key Key) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.byKey[key])
}

// Matched implements Matches.
func (l *Ledger) Matched(policy string, types []schema.GroupVersionResource) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[policy]; a != nil {
		for _, t := range types {
			n += a.types[t]
		}
	}
	return n
}

// Requires implements Matches. It takes time in proportion to the number of matched objects if the key has no version.
func (l *Ledger) Requires(policy string, key Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[policy]
	switch {
	case a == nil:
		return false
	case key.Resource.Version != "":
		return a.objects[key].move != moveID{}
	}
	for k, f := range a.objects {
		if unversioned(k) == key {
			return f.move != moveID{}
		}
	}
	return false
}

// ForgetPolicy removes all findings of a policy.
func (l *Ledger) ForgetPolicy(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.guards, name)
	a, ok := l.accounts[name]
	if !ok {
		return
	}
	violated := sets.New[string]()
	for key, f := range a.objects {
		l.byKey[key] = slices.DeleteFunc(l.byKey[key], func(n string) bool { return n == name })
		if len(l.byKey[key]) == 0 {
			delete(l.byKey, key)
		}
		if f.violates() {
			violated.Insert(key.Namespace)
		}
	}
	delete(l.accounts, name)
	for namespace := range violated {
		l.violations.Publish(namespace)
	}
}

func (l *Ledger) account(name string) *account {
	a, ok := l.accounts[name]
	if !ok {
		a = &account{objects: map[Key]finding{}, types: map[schema.GroupVersionResource]int{}, unseen: map[Key]string{}}
		l.accounts[name] = a
	}
	return a
}

// Limits for a policy's status.
const (
	maxSample  = 10
	maxMessage = 256
)

// Report returns a summary of a policy's findings.
func (l *Ledger) Report(policy string) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out Report
	if g, ok := l.guards[policy]; ok {
		out.Pause, out.Assessing = g.report(), g.open > 0 && !g.long
	}
	a, ok := l.accounts[policy]
	if !ok {
		return out
	}
	out.Matched, out.Remediated, out.Plan, out.Approval, out.Outstanding = len(a.objects), a.remediated-int64(len(a.unseen)), a.progress(), a.approval, a.moves
	conflicts := map[string]bool{}
	// There may be far more objects than the report names, so do not sort all of them.
	var failed, sample, unsettled []Key
	for key, f := range a.objects {
		switch outcome, _ := f.outcome(); outcome {
		case Undecided:
			out.Failed++
			failed = keepFirst(failed, key, 1, compareKeys)
		case Denied:
			out.Denied++
		case Differs:
			out.Moved++
		}
		if f.violates() {
			sample = keepFirst(sample, key, maxSample, compareKeys)
		}
		if len(f.conflicts) > 0 {
			out.Conflicted++
		}
		if f.unsettled {
			unsettled = append(unsettled, key)
		}
		for _, name := range f.conflicts {
			conflicts[name] = true
		}
	}
	out.Violations = out.Denied + out.Moved + out.Failed
	if a.obstructed() {
		out.Obstacle, out.Unauthorized = a.obstacle.key.String()+": "+a.obstacle.why, a.obstacle.unauthorized
	}
	for _, key := range failed {
		out.FailedMessage = key.String() + ": " + a.objects[key].failure
	}
	for _, key := range sample {
		message := a.objects[key].result().violation
		if failure := a.objects[key].failure; failure != "" {
			message = "can't be decided: " + failure
		}
		out.Sample = append(out.Sample, placementv1.Violation{
			Resource: key.Resource.GroupResource().String(), Namespace: key.Namespace, Name: key.Name,
			Message: truncate(message),
		})
	}
	slices.SortFunc(unsettled, compareKeys)
	for _, key := range unsettled {
		if c, contested := l.contested[key]; contested {
			out.Contested = append(out.Contested, fmt.Sprintf("%s (%s)", key, c.by))
		} else {
			out.Unsettled = append(out.Unsettled, key.String())
		}
	}
	out.Conflicts = slices.Sorted(maps.Keys(conflicts))
	return out
}

var namespacesResource = corev1.Resource("namespaces")

// RolloutCounts returns the numbers of a policy's matched objects by group, of which there are n. groupOf returns the group of the
// objects in a namespace, and of the Namespace itself; it may return n for none. waiting has the objects whose patch or rollout failed. Objects
// that have to be moved in namespaces in which alone remediation is paused have failed, too: the others do not wait for them. It takes
// time in proportion to the number of matched objects.
func (l *Ledger) RolloutCounts(policy string, n int, groupOf func(namespace string) int, waiting Waiting) []rollout.Counts {
	unmoved := sets.New[Key]()
	for _, f := range waiting.Failures {
		unmoved.Insert(unversioned(f.Key))
	}
	out, groups := make([]rollout.Counts, n), map[string]int{}
	for i := range out {
		out[i] = rollout.Counts{Failed: map[string]int{}, Denied: map[string]int{}}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[policy]
	if a == nil {
		return out
	}
	var paused containment.Scope
	if g := l.guards[policy]; g != nil && g.pause != nil {
		paused = append(paused, g.pause.Scope...)
	}
	if waiting.Pause != "" {
		paused = append(paused, waiting.PausedIn...)
	}
	for key, f := range a.objects {
		namespace := key.Namespace
		if key.Resource.GroupResource() == namespacesResource {
			namespace = key.Name
		}
		group, known := groups[namespace]
		if !known {
			group = groupOf(namespace)
			groups[namespace] = group
			if group < n {
				out[group].Namespaces++
			}
		}
		if group >= n {
			continue
		}
		c := &out[group]
		c.Matched++
		switch {
		case f.failure != "" || f.unsettled || unmoved.Has(unversioned(key)):
			c.Failed[namespace]++
		case f.result().denied:
			c.Denied[namespace]++
		case !f.violates():
			c.Moved++
		case f.move == moveID{}:
		case slices.Contains(paused, key.Namespace):
			c.Failed[namespace]++
		default:
			c.Pending++
		}
	}
	return out
}

// keepFirst inserts an item into a sorted list of at most limit items, which keeps those that sort first.
func keepFirst[T any](list []T, item T, limit int, compare func(a, b T) int) []T {
	i, _ := slices.BinarySearchFunc(list, item, compare)
	if i == limit {
		return list
	}
	list = slices.Insert(list, i, item)
	return list[:min(len(list), limit)]
}

// findingOf converts a verdict to a finding.
func findingOf(v *placement.Verdict, version string, unsettled bool) finding {
	f := finding{harm: harmOf(v), version: version, unsettled: unsettled && len(v.Changes) > 0}
	if v.Err != nil {
		f.failure = truncate(v.Err.Error())
		return f
	}
	e, parts := effect{denied: len(v.Decision.Errors) > 0}, slices.Clone(v.Decision.Errors)
	if !e.denied {
		// A denied object is not changed.
		for _, c := range v.Changes {
			parts = append(parts, c.Violation())
		}
		e.changes = encodeChanges(v.Changes)
	}
	if e.violation = strings.Join(parts, "; "); e != (effect{}) {
		e.enforced = v.Policy.Mode == placementv1.ModeEnforce
		f.effect = unique.Make(e)
	}
	for _, c := range v.Conflicts {
		f.conflicts = append(f.conflicts, c.With)
	}
	slices.Sort(f.conflicts)
	f.conflicts = slices.Compact(f.conflicts)
	return f
}

// equal reports whether two findings are equal, except for their resource versions.
func equal(a, b finding) bool {
	return a.effect == b.effect && a.move == b.move && a.failure == b.failure && a.unsettled == b.unsettled && a.harm == b.harm && slices.Equal(a.conflicts, b.conflicts)
}

func truncate(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-3], "") + "..."
}

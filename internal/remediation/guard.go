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
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
)

const (
	// blastWindow is how long harmed objects count together: clusters that are deleted one after the other within it count as one change.
	// expiryInterval is the minimum time between two searches for older ones.
	blastWindow    = 5 * time.Minute
	expiryInterval = time.Second
	// AssessmentLimit is the time after which an assessment is concluded even if objects are not decided, such as those of an unreadable type.
	AssessmentLimit = 30 * time.Second
	// assessmentGap is how long no assessment of a policy is open before the next one does not follow those before.
	assessmentGap = time.Second
	// PlanInterval is the minimum time between two plans without an assessment. Objects may change one by one, and a plan looks at all of
	// them.
	PlanInterval = time.Second
	// maxExamples is the number of objects that a pause names.
	maxExamples = 3
)

// harm is the way in which a policy leaves an object without a placement.
type harm uint8

const (
	unharmed harm = iota
	denied
	emptied
	undecided
)

// harmOf returns how the verdict's policy leaves the object without a placement. Only policies whose remediation is automatic do.
func harmOf(v *placement.Verdict) harm {
	switch {
	case !v.Policy.Automatic():
		return unharmed
	case v.Err != nil:
		return undecided
	case v.OwnClusters:
		// Its developer chose clusters that are not allowed. No change of a policy may count for that.
		return unharmed
	case len(v.Decision.Errors) > 0:
		return denied
	case v.Decision.Empty() || RemovesAllClusters(v):
		return emptied
	}
	return unharmed
}

// Harms reports whether a verdict's policy patches existing objects, and leaves the object without a placement: it denies it, can't decide
// it, or names no cluster. An object that is denied only because of its own list of clusters does not count.
func Harms(v *placement.Verdict) bool { return harmOf(v) != unharmed }

// RemovesAllClusters reports whether a verdict removes all clusters from the object.
func RemovesAllClusters(v *placement.Verdict) bool {
	return slices.ContainsFunc(v.Changes, placement.Change.Empties)
}

// Pause describes why remediation of a policy is paused.
type Pause struct {
	// Change identifies the change that is not carried out, and Scope is where it is not.
	Change string
	Scope  containment.Scope
	// Denied, Emptied (without clusters), and Undecided are the numbers of objects that the change would newly leave so. Matched is that of
	// all.
	Denied, Emptied, Undecided, Matched int
	// Before is the number of objects that were denied, without clusters, or undecided before the change.
	Before int
	// Percent is the limit that the change exceeds.
	Percent int32
	// Examples are the names of some of the objects that are not moved, sorted. Ledger.Report sets it.
	Examples []string
}

// Everywhere reports whether remediation is paused in all namespaces. It is not if there is no pause.
func (p *Pause) Everywhere() bool { return p != nil && p.Scope.All() }

// Objects returns the number of objects that the change would harm.
func (p *Pause) Objects() int { return p.Denied + p.Emptied + p.Undecided }

// Message describes what would happen to the objects of a policy, and how to release the change. It names some of the objects if named is
// set, which it must not be for an Event on the policy.
func (p *Pause) Message(policy string, named bool) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{p.Emptied, "left without clusters"}, {p.Denied, "denied"}, {p.Undecided, "undecided"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	var where, examples string
	if !p.Scope.All() {
		where = " " + p.Scope.String()
	}
	if named {
		examples = ", such as " + strings.Join(p.Examples, ", ")
	}
	return fmt.Sprintf("a change of the policy or of its data would affect %d of the %d matched objects at once (%s)%s; "+
		"that is more than %d %%, so Berth moves no object of this policy%s. Take the change back, or release it: "+
		"kubectl annotate plpol %s --overwrite %s=%s",
		p.Objects(), p.Matched, strings.Join(parts, ", "), examples,
		p.Percent, where, policy, placementv1.ReleaseBlastRadiusAnnotation, p.Change)
}

// guard counts the objects that changes harm for one policy, and holds patches. The Ledger's mutex protects it.
type guard struct {
	bound      placementv1.BlastRadius
	generation int64
	// harmed are the objects that were unharmed before a change, and kinds their numbers by kind of harm.
	harmed tally[harmed]
	kinds  [undecided + 1]int
	// fresh are the harmed objects found since the last judgment. swept is the time when old ones were last removed.
	fresh []Key
	swept time.Time
	// unwell is the number of all harmed objects, including those that were harmed before the change.
	unwell int
	// open is the number of assessments that are not concluded. began is when the first of them began after a time without any, and ended when
	// the last one was concluded. long reports whether one began so much later that they may go on for ever.
	open         int
	began, ended time.Time
	long         bool
	pause        *Pause
	// allowed is the number of harmed objects that an earlier leader found harmed before the change.
	allowed int
	// resuming reports whether an earlier leader paused the policy and some objects have not been decided since. Then objects that are harmed
	// when they are first seen count. They do not count if released is true: the change was released. settled reports whether all objects have
	// been decided, so that ConcludeAssessments may end the pause.
	resuming, released, settled bool
	// Without an assessment, dirty has ConcludeAssessments check the policy, and unplanned has it make a new plan.
	dirty, unplanned bool
}

// harmed is an object that a change harms.
type harmed struct {
	harm harm
	// since is the time of the first judgment that counted the object; zero before it.
	since time.Time
}

// Assessment is the set of objects that must be decided again because of one change. Patches for its policies are held until all objects
// that these policies may match are decided. It is safe for concurrent use.
type Assessment struct {
	ledger *Ledger
	// accounts are those of the policies that still wait for objects.
	accounts map[string]*account
	since    time.Time
	// pending are the undecided objects, with the policies that match them, or unknown. waits are their numbers by policy.
	pending map[Key][]string
	waits   map[string]int
	// complete reports whether all objects have been added.
	complete bool
	// occasion is the change.
	occasion *occasion
}

// unknown are the policies that match a pending object if these are not known yet.
var unknown = []string{""}

// Assess begins an assessment of the effects of a change on the objects of some policies.
func (l *Ledger) Assess(now time.Time, cause Cause, policies ...string) *Assessment {
	defer l.lock()()
	out := &Assessment{ledger: l, accounts: map[string]*account{}, since: now, pending: map[Key][]string{}, waits: map[string]int{}}
	out.occasion = &occasion{cause: cause, since: now}
	for _, name := range policies {
		a := l.account(name)
		if a.open == 0 && now.Sub(a.ended) >= assessmentGap {
			a.began = now
		}
		a.open++
		a.long = now.Sub(a.began) >= AssessmentLimit
		if cause.Policy {
			a.inForce = out.occasion
		}
		out.accounts[name] = a
	}
	l.assessments = append(l.assessments, out)
	return out
}

// Add adds objects to the assessment. The caller must have them decided afterwards.
func (a *Assessment) Add(keys ...Key) {
	defer a.ledger.lock()()
	for _, key := range keys {
		a.remove(key)
		a.add(key, unknown)
	}
}

func (a *Assessment) add(key Key, policies []string) {
	a.pending[key] = policies
	for _, name := range policies {
		a.waits[name]++
	}
}

func (a *Assessment) remove(key Key) (pending bool) {
	policies, pending := a.pending[key]
	for _, name := range policies {
		a.waits[name]--
	}
	delete(a.pending, key)
	return pending
}

// Complete declares that all objects have been added. The caller must call ConcludeAssessments afterwards.
func (a *Assessment) Complete() {
	defer a.ledger.lock()()
	a.complete = true
}

// Skip declares that an object cannot be decided for now. No assessment waits for it.
func (l *Ledger) Skip(key Key) {
	defer l.lock()()
	l.assessed(key)
	l.skipped.Insert(key)
}

// Await declares that the decision on an object takes time, and which policies match it. Assessments of other policies do not wait for it.
// The caller must call ConcludeAssessments afterwards.
func (l *Ledger) Await(key Key, policies ...string) {
	defer l.lock()()
	for _, a := range l.assessments {
		if a.remove(key) {
			a.add(key, policies)
		}
	}
}

// assessed removes an object from the assessments that wait for it.
func (l *Ledger) assessed(key Key) {
	for _, a := range l.assessments {
		a.remove(key)
	}
}

// count records whether a policy's decision harms an object. before is the last finding on the object; known is false if there is none. If
// the object has changed since that finding, it only counts if an assessment waits for it, or ended before it was decided. Changes that the
// object's owner makes are not changes of the policy or its data, and must not hold patches of other objects.
func (l *Ledger) count(key Key, v *placement.Verdict, a *account, before finding, known bool, now finding) {
	a.bound, a.generation = v.Policy.BlastRadius.WithDefaults(), v.Policy.Generation
	assessed := l.late[key].Has(v.Policy.Name) || slices.ContainsFunc(l.assessments, func(of *Assessment) bool {
		_, waits := of.pending[key]
		return waits && of.accounts[v.Policy.Name] != nil
	})
	entry, counted := a.harmed.objects[key]
	switch {
	case now.harm == unharmed:
		a.heal(key)
	case counted:
		a.kinds[entry.harm]--
		a.kinds[now.harm]++
		a.harmed.put(key, harmed{now.harm, entry.since})
	case a.bound.Percent >= 100:
		// At 100 percent, the guard is disabled.
	case known && before.harm == unharmed && (assessed || before.version == now.version),
		!known && !a.released && (a.resuming || assessed && RemovesAllClusters(v)):
		a.harmed.put(key, harmed{harm: now.harm})
		a.kinds[now.harm]++
		a.fresh = append(a.fresh, key)
		a.dirty = a.dirty || a.open == 0
	}
}

// heal removes an object from the harmed ones.
func (g *guard) heal(key Key) {
	g.dirty = g.drop(key) && g.pause != nil || g.dirty
}

func (g *guard) drop(key Key) (counted bool) {
	entry := g.harmed.objects[key]
	if counted = g.harmed.remove(key); counted {
		g.kinds[entry.harm]--
	}
	return counted
}

// pauses reports whether remediation is paused for the objects of a namespace.
func (g *guard) pauses(namespace string) bool {
	return g.pause != nil && g.pause.Scope.Includes(namespace)
}

// assessing reports whether an assessment is open. It ignores assessments that follow one another for longer than AssessmentLimit.
func (g *guard) assessing() bool { return g.open > 0 && !g.long }

// Holds implements Matches.
func (l *Ledger) Holds(policy, namespace string) (assessed time.Time, paused bool) {
	defer l.lock()()
	a := l.accounts[policy]
	if a == nil {
		return time.Time{}, false
	}
	if a.open > 0 {
		assessed = a.began
	}
	return assessed, a.pauses(namespace)
}

// AssessmentResult is the result of ConcludeAssessments.
type AssessmentResult struct {
	// Released are objects to decide again because of a plan or its approval. Freed reports whether Holds holds back fewer patches than
	// before.
	Released []Key
	Freed    bool
	// Paused are the policies whose remediation was paused, in all namespaces or in some, and Resumed those whose remediation was resumed.
	Paused, Resumed []string
	// Changed are the policies whose pause changed, or of which an assessment ended.
	Changed []string
	// Unsaved are the policies with an approved plan that the caller must store before it is carried out. See Ledger.Unsaved.
	Unsaved []string
	// Unconcluded reports whether an assessment is not concluded, and Unplanned whether a plan is to be made: the caller must call
	// ConcludeAssessments again after AssessmentLimit or PlanInterval.
	Unconcluded, Unplanned bool
}

// ConcludeAssessments concludes assessments whose objects are all decided, and those that exceed the time limit.
func (l *Ledger) ConcludeAssessments(now time.Time) (out AssessmentResult) {
	defer l.lock()()
	ended, plan := sets.New[string](), now.Sub(l.planned) >= PlanInterval
	l.assessments = slices.DeleteFunc(l.assessments, func(of *Assessment) bool { return l.end(of, now, ended) })
	out.Unconcluded = len(l.assessments) > 0
	for name, a := range l.accounts {
		if plan && a.unplanned && !a.assessing() {
			l.planned, a.dirty = now, true
		}
		if ended.Has(name) || a.dirty {
			l.conclude(name, a, ended.Has(name), now, &out)
		}
		out.Unplanned = out.Unplanned || a.unplanned && !a.assessing()
	}
	return out
}

// end ends an assessment for policies that wait for no object any more, which it adds to ended. It reports whether those are all.
func (l *Ledger) end(of *Assessment, now time.Time, ended sets.Set[string]) bool {
	over, known := now.Sub(of.since) >= AssessmentLimit, of.waits[unknown[0]] == 0
	if !of.complete || !over && !known {
		return of.complete && len(of.accounts) == 0
	}
	for name, a := range of.accounts {
		decided := known && of.waits[name] == 0
		if !over && !decided {
			continue
		}
		if !decided {
			for key := range of.pending {
				l.late[key] = l.late[key].Union(sets.New(name))
				l.blame(key, blame{[]string{name}, of.occasion})
			}
		}
		a.open--
		a.ended = now
		ended.Insert(name)
		delete(of.accounts, name)
	}
	return len(of.accounts) == 0
}

// ExceedsBlastRadius returns whether and where a change pauses remediation, by the numbers of matched objects that it harms in each
// namespace. allowed is the number of objects that it may harm beyond the limit, of which all fields are set.
func ExceedsBlastRadius(limit placementv1.BlastRadius, harmed map[string]int, matched, allowed int) (scope containment.Scope, pauses bool) {
	if limit.Percent >= 100 {
		return nil, false
	}
	return containment.Of(harmed, max(int(limit.MinObjects), int(limit.Percent)*matched/100+1)+allowed)
}

// conclude pauses or resumes remediation of a policy. assessed reports whether an assessment of it ended: after the last one, it gets a
// plan.
func (l *Ledger) conclude(name string, a *account, assessed bool, now time.Time, out *AssessmentResult) {
	a.dirty = false
	a.sweep(now)
	before := a.pause
	over, wider := a.judge(now, &Pause{
		Percent: a.bound.Percent, Matched: len(a.objects), Before: a.unwell - len(a.harmed.objects),
		Denied: a.kinds[denied], Emptied: a.kinds[emptied], Undecided: a.kinds[undecided],
	})
	resumed := before != nil && a.pause == nil
	if wider {
		out.Paused = append(out.Paused, name)
	}
	if resumed {
		out.Resumed = append(out.Resumed, name)
	}
	if a.settled {
		a.settled, a.resuming, a.released = false, false, false
	}
	if over || resumed {
		out.Changed = append(out.Changed, name)
	}
	a.plan(name, assessed, now, out)
	narrower := before != nil && a.pause != nil && !a.pause.Scope.Covers(before.Scope)
	out.Freed = out.Freed || a.open == 0 && (a.pause == nil || assessed || narrower)
}

// judge begins, continues, or ends the pause. next has the present numbers of harmed objects. over reports whether they exceed the limit,
// and wider whether objects are paused now that were not before.
func (g *guard) judge(now time.Time, next *Pause) (over, wider bool) {
	before := g.pause
	next.Scope, over = ExceedsBlastRadius(g.bound, g.harmed.namespaces, next.Matched, g.allowed)
	unsure := g.resuming && !g.settled || g.open > 0
	wider = over && (before == nil || !g.resuming && !before.Scope.Covers(next.Scope))
	switch {
	case wider, over && !g.resuming && next.Objects()-g.allowed >= 2*before.Objects():
		// This is a different change. A release of the earlier change must not release it.
		next.Change = pauseID(g.generation, now)
		g.pause = next
	case before != nil && (over || unsure):
		next.Change, next.Before = before.Change, before.Before
		if !over {
			next.Scope = before.Scope
		} else if unsure {
			next.Scope = before.Scope.Join(next.Scope)
		}
		g.pause = next
	case before != nil:
		g.resume(now)
	}
	return over, wider
}

// sweep stops counting harmed objects that were found longer than blastWindow ago, unless the policy is paused because of them. It looks
// for them at most once in expiryInterval, because objects may be judged one by one.
func (g *guard) sweep(now time.Time) {
	for _, key := range g.fresh {
		if entry, counted := g.harmed.objects[key]; counted && entry.since.IsZero() {
			g.harmed.put(key, harmed{entry.harm, now})
		}
	}
	g.fresh = nil
	if g.pause != nil || now.Sub(g.swept) < expiryInterval {
		return
	}
	g.swept = now
	for key, entry := range g.harmed.objects {
		if now.Sub(entry.since) > blastWindow {
			g.drop(key)
		}
	}
}

// resume ends the pause. Afterwards, patches only wait for assessments.
func (g *guard) resume(now time.Time) {
	g.pause, g.allowed, g.resuming, g.dirty, g.began = nil, 0, false, false, now
}

// report returns a copy of the pause with the names of some objects; nil if there is no pause.
func (g *guard) report() *Pause {
	if g.pause == nil {
		return nil
	}
	var examples []Key
	for key := range g.harmed.objects {
		if g.pauses(key.Namespace) {
			examples = keepFirst(examples, key, maxExamples, compareKeys)
		}
	}
	out := *g.pause
	for _, key := range examples {
		out.Examples = append(out.Examples, key.String())
	}
	return &out
}

// Assessed reports whether no assessment of a policy waits for objects, and none ended before all of its objects were decided. It ignores
// objects that can't be decided for now, and assessments that follow one another for longer than AssessmentLimit.
func (l *Ledger) Assessed(policy string) bool {
	defer l.lock()()
	return l.allDecided(policy)
}

func (l *Ledger) allDecided(policy string) bool {
	if l.find(policy).assessing() {
		return false
	}
	for key, policies := range l.late {
		if policies.Has(policy) && !l.skipped.Has(key) {
			return false
		}
	}
	return true
}

// Resume keeps a policy paused that an earlier leader paused, and where. The pause lasts at least until Settle declares that all of the
// policy's objects are decided. Call Resume before any object is decided.
func (l *Ledger) Resume(policy, change string, before int, scope containment.Scope) {
	defer l.lock()()
	a := l.account(policy)
	a.pause, a.allowed, a.resuming = &Pause{Change: change, Scope: scope, Before: before}, before, true
}

// Settle ends what Resume and Continue began. decided reports whether all objects of the policy are decided. A pause and the wait for the
// rest of an approved plan end once that is so, and no assessment of the policy is open. If overdue is set, the wait ends although some
// objects are not decided, and the approval remains for them. Settle returns false if the caller must call it again later. The caller must
// call ConcludeAssessments afterwards.
func (l *Ledger) Settle(policy string, decided, overdue bool) bool {
	defer l.lock()()
	a, complete := l.find(policy), decided && l.allDecided(policy)
	if decided && a.open == 0 && (a.resuming || a.released) {
		a.settled, a.dirty = true, true
	}
	if a.continuing && (complete || overdue) && !a.assessing() {
		a.continuing, a.partial = false, !complete || len(a.objects) == 0 || l.skipped.Len() > 0
		a.settle()
		a.unplanned, a.dirty = true, true
	}
	return decided && !a.continuing && (a.settled || !a.resuming && !a.released)
}

// Release allows a change that paused a policy. It returns false if the policy is not paused because of that change.
func (l *Ledger) Release(now time.Time, policy, change string) bool {
	defer l.lock()()
	a := l.find(policy)
	if a.pause == nil || a.pause.Change != change {
		return false
	}
	a.released = a.resuming
	a.resume(now)
	for key, entry := range a.harmed.objects {
		// Objects that an unfinished assessment found are not part of the released change.
		if a.released || !entry.since.IsZero() {
			a.drop(key)
		}
	}
	return true
}

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
	// AssessmentLimit is the time after which a complete assessment ends even if objects are not decided, such as those of an unreadable type.
	AssessmentLimit = 30 * time.Second
	// assessmentGap is how long no assessment of a policy is open before the next one does not follow those before.
	assessmentGap = time.Second
	// PlanInterval is the minimum time between two plans without an assessment. Objects may change one by one, and a plan looks at all of
	// them.
	PlanInterval = time.Second
	// maxExamples is the number of objects that a pause names.
	maxExamples = 3
)

// harm says how a policy leaves an object without a placement: it denies the object, leaves it no cluster, or can't decide it.
type harm uint8

const (
	unharmed harm = iota
	denied
	emptied
	undecided
)

// harmOf returns how the verdict's policy leaves the object without a placement: it can't decide it, denies it, or allows it no cluster. It
// returns unharmed for policies whose remediation is not automatic, and for an object that is denied because of its own list of clusters.
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

// Harms reports whether a verdict's policy remediates automatically and leaves the object without a placement: it denies the object, can't
// decide it, or allows it no cluster. An object that is denied only because of its own list of clusters does not count.
func Harms(v *placement.Verdict) bool { return harmOf(v) != unharmed }

// RemovesAllClusters reports whether a change of a verdict removes the last cluster from an object that has some: from its clusters
// annotation, from the cluster preferences of Federation v1, or from the list of clusters of a placement object.
func RemovesAllClusters(v *placement.Verdict) bool {
	return slices.ContainsFunc(v.Changes, placement.Change.Empties)
}

// Pause describes why remediation of a policy is paused: a change of the policy or of its data would harm more objects than the blast
// radius allows. It has the ID of the change, the namespaces, and the numbers of objects, and not when the pause began. A pause because of
// failures is in Waiting.
type Pause struct {
	Change string            // The ID of the change that is not carried out. A release names it.
	Scope  containment.Scope // In which namespaces the change is not carried out; empty for all.
	// Denied, Emptied, and Undecided are how many objects the change would newly leave denied, without clusters, and undecided. Matched is
	// the number of all matched objects.
	Denied, Emptied, Undecided, Matched int
	// Before is the number of objects that were already denied, without clusters, or undecided before the change.
	Before int
	// Percent is spec.remediation.blastRadius.percent of the policy, with its default: the percentage of the matched objects above which
	// remediation pauses, and not the percentage that the change would harm. It is 0 for an earlier leader's pause until
	// ConcludeAssessments has checked that.
	Percent  int32
	Examples []string // The names of some objects that the change would harm, sorted. Only Ledger.Report sets it.
}

// Everywhere reports whether remediation is paused in all namespaces. It returns false for nil.
func (p *Pause) Everywhere() bool { return p != nil && p.Scope.All() }

// Objects returns the number of objects that the change would harm.
func (p *Pause) Objects() int { return p.Denied + p.Emptied + p.Undecided }

// Message describes why remediation of a policy is paused, and how to release the change. It names some of the objects if named is true,
// which it must not be for an Event on the policy.
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

// guard counts, for one policy, the objects that changes harm, and pauses remediation if they are too many. The Ledger's mutex protects it.
type guard struct {
	bound      placementv1.BlastRadius // The limit of the policy's version that was recorded last.
	generation int64                   // The generation of the policy's version that was recorded last, for new plans and IDs of pauses.
	harmed     tally[harmed]           // The objects that were unharmed before a change and are harmed now, unless sweep dropped them.
	kinds      [undecided + 1]int      // The numbers of the objects in harmed, by kind of harm.
	fresh      []Key                   // The objects that were added to harmed since the last call of sweep, and have no since yet.
	swept      time.Time               // When sweep last removed old objects from harmed.
	unwell     int                     // The number of matched objects with a harm, including those that had it before the change.
	open       int                     // The number of assessments of the policy that are not concluded.
	// began is when the present series of assessments began, each of which began before or soon after the end of another. ended is when the
	// last assessment was concluded.
	began, ended time.Time
	long         bool   // Whether the present series of assessments is so long that nothing should wait for its end.
	pause        *Pause // Nil if no change pauses remediation.
	// allowed is how many objects may be harmed beyond the limit, because they were harmed before the change for which an earlier leader
	// paused.
	allowed int
	// resuming reports whether an earlier leader paused the policy, and some objects have not been decided since. Then objects that are
	// harmed when they are decided first count as harmed by the change, unless released is set. released is set once that change was
	// released. settled is set once all objects have been decided, so that ConcludeAssessments may end the pause.
	resuming, released, settled bool
	// dirty has ConcludeAssessments check the policy, and unplanned has it make a new plan, although no assessment ended.
	dirty, unplanned bool
}

// harmed is an object that a change harms: in which way, and since when.
type harmed struct {
	harm  harm      // How it is harmed now.
	since time.Time // When sweep first saw the object among the harmed ones, from which blastWindow counts; zero before that.
}

// Assessment is the set of objects that must be decided again because of one change. Patches for its policies are held until Complete has
// been called, and all objects that these policies may match are decided or AssessmentLimit has passed. It is safe for concurrent use.
type Assessment struct {
	ledger   *Ledger
	accounts map[string]*account // The accounts of the policies for which the assessment has not ended, by name.
	since    time.Time           // When the assessment began.
	// pending are the objects that have not been decided, each with the names of the policies that match it, or with unknown.
	pending  map[CompactKey][]string
	waits    map[string]int // The numbers of pending objects by policy; by "" those whose policies are unknown.
	complete bool           // Whether all objects have been added. Until then, the assessment does not end, not even after AssessmentLimit.
	occasion *occasion      // Why the objects must be decided again: the change.
}

// unknown is used in Assessment.pending for an object if the policies that match it are not known yet.
var unknown = []string{""}

// Assess begins an assessment of the effects of a change on the objects of some policies. Patches for these policies wait until it ends.
// The caller must add the objects, and then call Complete: without that, the assessment never ends, not even after AssessmentLimit.
func (l *Ledger) Assess(now time.Time, cause Cause, policies ...string) *Assessment {
	defer l.lock()()
	out := &Assessment{ledger: l, accounts: map[string]*account{}, since: now, pending: map[CompactKey][]string{}, waits: map[string]int{}}
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

// Add adds objects to the assessment. All of its policies wait for each object until the object is decided, or until Await records which
// policies match it. The caller must then have the objects decided.
func (a *Assessment) Add(keys ...Key) {
	defer a.ledger.lock()()
	for _, key := range keys {
		id := key.Compact()
		a.remove(id)
		a.add(id, unknown)
	}
}

// add makes an object pending. policies are the names of those that match it, or the variable unknown.
func (a *Assessment) add(id CompactKey, policies []string) {
	a.pending[id] = policies
	for _, name := range policies {
		a.waits[name]++
	}
}

// remove removes an object, and reports whether it was pending.
func (a *Assessment) remove(id CompactKey) (pending bool) {
	policies, pending := a.pending[id]
	for _, name := range policies {
		a.waits[name]--
	}
	delete(a.pending, id)
	return pending
}

// Complete declares that all objects have been added. The assessment ends only after that. The caller must call ConcludeAssessments
// afterwards.
func (a *Assessment) Complete() {
	defer a.ledger.lock()()
	a.complete = true
}

// Skip records that an object cannot be decided for now, so that no assessment waits for it.
func (l *Ledger) Skip(key Key) {
	defer l.lock()()
	l.assessed(key.Compact())
	l.skipped.Insert(key)
}

// Await records which policies match an object whose decision takes time, so that assessments of other policies do not wait for it. The
// caller must call ConcludeAssessments afterwards.
func (l *Ledger) Await(key Key, policies ...string) {
	defer l.lock()()
	id := key.Compact()
	for _, a := range l.assessments {
		if a.remove(id) {
			a.add(id, policies)
		}
	}
}

// assessed removes an object from the assessments that wait for it.
func (l *Ledger) assessed(id CompactKey) {
	for _, a := range l.assessments {
		a.remove(id)
	}
}

// count updates whether an object counts as harmed for a policy. before and now are the last and the new finding on the object; known is
// false if there was none. If the object itself has changed since the last finding, a new harm only counts if an assessment waits for the
// object, or ended before the object was decided: changes that the object's owner makes are not changes of the policy or its data, and must
// not hold patches of other objects. A harm that the first finding has counts only if an assessed change removes all clusters, or while a
// pause of an earlier leader is resumed.
func (l *Ledger) count(key Key, v *placement.Verdict, a *account, before finding, known bool, now finding) {
	a.bound, a.generation = v.Policy.BlastRadius.WithDefaults(), v.Policy.Generation
	id := key.Compact()
	assessed := l.late[id].has(v.Policy.Name) || slices.ContainsFunc(l.assessments, func(of *Assessment) bool {
		_, waits := of.pending[id]
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

// heal removes an object from the harmed objects. If it was among them and there is a pause, it requests a check whether the pause ends.
func (g *guard) heal(key Key) {
	g.dirty = g.drop(key) && g.pause != nil || g.dirty
}

// drop removes an object from the harmed objects, and reports whether it was among them.
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

// assessing reports whether an assessment of the policy is open, so that no plan is made yet. It is false in a series of assessments that
// lasts longer than AssessmentLimit, although patches may still wait then.
func (g *guard) assessing() bool { return g.open > 0 && !g.long }

// Holds implements Matches. It returns when the present series of assessments of a policy began, zero if none is open, and whether
// remediation of the policy is paused in a namespace.
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

// AssessmentResult is what ConcludeAssessments did, and what its caller must do now.
type AssessmentResult struct {
	Released []Key // The objects that must be decided again: an approval permits their patches now, or a new plan no longer does.
	Freed    bool  // Whether Ledger.Holds may hold back fewer patches than before.
	// Paused are the policies for which remediation was paused, in all namespaces or in more than before. Resumed are those whose pause
	// ended.
	Paused, Resumed []string
	Changed         []string // The policies whose pause or plan changed, or of which an assessment ended; some may be there twice.
	// Unsaved are the policies with an approved plan that the caller must store before it is carried out. See Ledger.Unsaved.
	Unsaved []string
	// Unconcluded reports whether an assessment is still open: the caller must call ConcludeAssessments again after AssessmentLimit.
	// Unplanned reports whether a plan must still be made: the caller must call again after PlanInterval.
	Unconcluded, Unplanned bool
}

// ConcludeAssessments ends the complete assessments (see Assessment.Complete) whose objects are all decided, or that have lasted for
// AssessmentLimit. It then pauses or resumes remediation of policies, and makes their plans.
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

// end ends an assessment for those of its policies that wait for no object any more, or for all after AssessmentLimit, and adds their names
// to ended. It does nothing before all objects have been added. It reports whether the assessment has ended for all of its policies.
func (l *Ledger) end(of *Assessment, now time.Time, ended sets.Set[string]) bool {
	over, known := now.Sub(of.since) >= AssessmentLimit, of.waits[unknown[0]] == 0
	if !of.complete || !over && !known {
		return of.complete && len(of.accounts) == 0
	}
	var late []string
	for name, a := range of.accounts {
		decided := known && of.waits[name] == 0
		if !over && !decided {
			continue
		}
		if !decided {
			late = append(late, name)
		}
		a.open--
		a.ended = now
		ended.Insert(name)
		delete(of.accounts, name)
	}
	if len(late) > 0 {
		l.miss(of, late)
	}
	return len(of.accounts) == 0
}

// missed are assessments that ended before certain objects were decided. All objects that the same assessments missed share one.
type missed struct {
	policies sets.Set[string] // The names of the policies for which they ended then.
	blames   []blame          // Why the objects must be decided again for these policies; at most maxFacts for each.
}

// has reports whether one of the assessments ended for a policy. A nil *missed has none.
func (m *missed) has(policy string) bool { return m != nil && m.policies.Has(policy) }

// and returns the assessments of m, which may be nil, and one more, which ended for the policies of b.
func (m *missed) and(b blame) *missed {
	out := &missed{policies: sets.New(b.policies...)}
	if m != nil {
		out.policies, out.blames = out.policies.Union(m.policies), m.blames
	}
	full := func(policy string) bool {
		n := 0
		for _, known := range out.blames {
			n += count(slices.Contains(known.policies, policy))
		}
		return n >= maxFacts
	}
	if slices.ContainsFunc(b.policies, func(policy string) bool { return !full(policy) }) {
		out.blames = append(slices.Clip(out.blames), b)
	}
	return out
}

// miss makes the pending objects of an assessment late for policies, for which it ends.
func (l *Ledger) miss(of *Assessment, policies []string) {
	if l.late == nil {
		l.late = make(map[CompactKey]*missed, len(of.pending))
	}
	joined := map[*missed]*missed{}
	for id := range of.pending {
		before := l.late[id]
		if joined[before] == nil {
			joined[before] = before.and(blame{policies, of.occasion})
		}
		l.late[id] = joined[before]
	}
}

// ExceedsBlastRadius returns whether a change pauses remediation, and in which namespaces. harmed are the numbers of objects that it harms,
// by namespace, and matched is that of all matched objects. It may harm allowed objects more than limit, whose fields are all set. If
// pauses is true, an empty scope is all namespaces. A limit of 100 percent or more never pauses.
func ExceedsBlastRadius(limit placementv1.BlastRadius, harmed map[string]int, matched, allowed int) (scope containment.Scope, pauses bool) {
	if limit.Percent >= 100 {
		return nil, false
	}
	return containment.Of(harmed, max(int(limit.MinObjects), int(limit.Percent)*matched/100+1)+allowed)
}

// conclude pauses or resumes remediation of a policy, and makes a plan if one is needed. assessed reports whether an assessment of the
// policy ended.
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

// judge begins, continues, or ends the pause. next is a pause with the present numbers, which judge completes. over reports whether the
// numbers exceed the limit, and wider whether the pause now includes objects that were not paused before.
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

// sweep sets since of the fresh objects, and removes objects from harmed that were added longer than blastWindow ago, unless the policy is
// paused. It searches for these at most once in expiryInterval, because objects may be judged one by one.
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

// resume ends the pause, and does not forget the objects that are harmed. Patches of the policy that wait for open assessments go on
// waiting, as if the series of assessments had begun now.
func (g *guard) resume(now time.Time) {
	g.pause, g.allowed, g.resuming, g.dirty, g.began = nil, 0, false, false, now
}

// report returns a copy of the pause with the names of some harmed objects; nil if there is no pause.
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

// Assessed reports whether no assessment of a policy is open, and all objects that were undecided when one ended have been decided since.
// It ignores objects that can't be decided for now, and a series of assessments that lasts longer than AssessmentLimit.
func (l *Ledger) Assessed(policy string) bool {
	defer l.lock()()
	return l.allDecided(policy)
}

// allDecided reports whether no assessment of a policy is open, and all objects that were undecided when one ended have been decided since,
// with the exceptions of Assessed. Callers hold mu.
func (l *Ledger) allDecided(policy string) bool {
	if l.find(policy).assessing() {
		return false
	}
	for id, by := range l.late {
		if by.has(policy) && !l.skipped.Has(id.Key()) {
			return false
		}
	}
	return true
}

// Resume continues the pause of a policy by an earlier leader. change is the ID of the change, before the number of objects that were
// harmed before it, and scope where it is not carried out. The pause lasts at least until Settle is called with decided. Call Resume before
// any object is decided.
func (l *Ledger) Resume(policy, change string, before int, scope containment.Scope) {
	defer l.lock()()
	a := l.account(policy)
	a.pause, a.allowed, a.resuming = &Pause{Change: change, Scope: scope, Before: before}, before, true
}

// Settle ends what Resume and Continue began for a policy. decided reports whether all of its objects are decided. Once they are, and no
// assessment of the policy is open, the pause may end, and the wait for the rest of an approved plan ends. If overdue is true, that wait
// ends although some objects are not decided, and the approval remains for them. Settle returns false if the caller must call it again
// later. The caller must call ConcludeAssessments afterwards.
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

// Release ends the pause of a policy because of a change, and allows that change. It returns false if the policy is not paused because of
// that change.
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

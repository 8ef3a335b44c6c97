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
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
)

// blastWindow is the time for which harmed objects count together. Clusters that are deleted one after the other within
// it count as one change.
const blastWindow = 5 * time.Minute

// expiryInterval is the minimum time between two searches for objects that are older than blastWindow.
const expiryInterval = time.Second

// harm is the way in which a policy leaves an object without a placement.
type harm uint8

const (
	unharmed harm = iota
	denied
	emptied
	undecided
)

// harmOf returns how the verdict's policy leaves the object without a placement. A policy that is not enforced, or
// whose remediation is not automatic, harms no object.
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

// Harms reports whether a verdict's policy patches existing objects, and leaves the object without a placement: it denies it,
// can't decide it, or names no cluster. An object that is denied only because of its own list of clusters does not count.
func Harms(v *placement.Verdict) bool { return harmOf(v) != unharmed }

// RemovesAllClusters reports whether a verdict removes all clusters from the object.
func RemovesAllClusters(v *placement.Verdict) bool {
	return slices.ContainsFunc(v.Changes, placement.Change.Empties)
}

// weight is 1 if an object is harmed, and 0 otherwise.
func (h harm) weight() int { return int(min(h, 1)) }

// Pause describes why remediation of a policy is paused.
type Pause struct {
	// Change identifies the change that is not carried out.
	Change string
	// Scope is where it is not carried out.
	Scope containment.Scope
	// Denied, Emptied, and Undecided are the numbers of objects that the change would newly leave denied, without
	// clusters, or undecided. Matched is the number of all matched objects.
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

// Message describes what would happen to the objects of a policy, and how to release the change. It names some of the objects.
func (p *Pause) Message(policy string) string {
	return p.message(policy, ", such as "+strings.Join(p.Examples, ", "))
}

// Note is Message without the names of objects, for an Event on the policy.
func (p *Pause) Note(policy string) string { return p.message(policy, "") }

func (p *Pause) message(policy, examples string) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{p.Emptied, "left without clusters"}, {p.Denied, "denied"}, {p.Undecided, "undecided"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	var where string
	if !p.Scope.All() {
		where = " " + p.Scope.String()
	}
	return fmt.Sprintf("a change of the policy or of its data would affect %d of the %d matched objects at once (%s)%s; "+
		"that is more than %d %%, so Berth moves no object of this policy%s. Take the change back, or release it: "+
		"kubectl annotate placementpolicy %s --overwrite %s=%s",
		p.Objects(), p.Matched, strings.Join(parts, ", "), examples,
		p.Percent, where, policy, placementv1.ReleaseBlastRadiusAnnotation, p.Change)
}

// policyGuard counts the objects that changes harm for one policy, and holds patches. The Ledger's mutex protects it.
type policyGuard struct {
	bound      placementv1.BlastRadius
	generation int64
	// harmed are the objects that were unharmed before a change. kinds are their numbers by kind of harm, and namespaces those by
	// namespace.
	harmed     map[Key]harmed
	kinds      [undecided + 1]int
	namespaces map[string]int
	// fresh are the harmed objects found since the last judgment. swept is the time when old ones were last removed.
	fresh []Key
	swept time.Time
	// unwell is the number of all harmed objects, including those that were harmed before the change.
	unwell int
	// late are the objects that were not decided when an assessment that includes them ended.
	late sets.Set[Key]
	// open is the number of assessments that are not concluded. began is when the first of them began after a time without
	// any, and ended when the last one was concluded. long reports whether one began so much later that they may go on for ever.
	open         int
	began, ended time.Time
	long         bool
	pause        *Pause
	// allowed is the number of harmed objects that an earlier leader found harmed before the change.
	allowed int
	// resuming reports whether an earlier leader paused the policy and some objects have not been decided since. Then
	// objects that are harmed when they are first seen count. They do not count if released is true: the change was
	// released.
	resuming, released bool
	// settled reports whether all objects have been decided, so that ConcludeAssessments may end the pause of an
	// earlier leader.
	settled bool
	// dirty reports whether ConcludeAssessments must check the policy although no assessment was concluded. unplanned reports
	// whether it must make a new plan although none was.
	dirty, unplanned bool
}

// harmed is an object that a change harms.
type harmed struct {
	harm harm
	// since is the time of the first judgment that counted the object; zero before it.
	since time.Time
}

// Assessment is the set of objects that must be decided again because of one change. Patches for its policies are held
// until all objects that these policies may match are decided. It is safe for concurrent use.
type Assessment struct {
	ledger *Ledger
	// guards are the guards of the policies that still wait for objects.
	guards map[string]*policyGuard
	since  time.Time
	// pending are the undecided objects, with the policies that match them; nil if these are not known yet.
	pending map[Key][]string
	// unknown is the number of pending objects whose matching policies are not known. waits are the numbers of the
	// others by policy.
	unknown int
	waits   map[string]int
	// complete reports whether all objects have been added.
	complete bool
}

// AssessmentLimit is the time after which ConcludeAssessments concludes an assessment even if not all objects are decided,
// such as those of a type that can no longer be read.
const AssessmentLimit = 30 * time.Second

// assessmentGap is how long no assessment of a policy is open before the next one does not follow those before.
const assessmentGap = time.Second

// Assess begins an assessment of the effects of a change on the objects of some policies.
func (l *Ledger) Assess(now time.Time, cause Cause, policies ...string) *Assessment {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &Assessment{ledger: l, guards: map[string]*policyGuard{}, since: now, pending: map[Key][]string{}, waits: map[string]int{}}
	for _, name := range policies {
		g := l.guard(name)
		if g.open == 0 && now.Sub(g.ended) >= assessmentGap {
			g.began = now
		}
		g.open++
		g.long = now.Sub(g.began) >= AssessmentLimit
		a.guards[name] = g
		l.account(name).causes.add(cause)
	}
	l.assessments = append(l.assessments, a)
	return a
}

// Add adds objects to the assessment. The caller must have them decided afterwards.
func (a *Assessment) Add(keys ...Key) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for _, key := range keys {
		a.remove(key)
		a.pending[key] = nil
		a.unknown++
	}
}

// remove removes an object if it is pending. The caller holds mu.
func (a *Assessment) remove(key Key) {
	policies, pending := a.pending[key]
	switch {
	case !pending:
		return
	case policies == nil:
		a.unknown--
	}
	for _, name := range policies {
		a.waits[name]--
	}
	delete(a.pending, key)
}

// decided reports whether all objects that the policy may match are decided. The caller holds mu.
func (a *Assessment) decided(policy string) bool {
	return a.complete && a.unknown == 0 && a.waits[policy] == 0
}

// Complete declares that all objects have been added. The caller must call ConcludeAssessments afterwards.
func (a *Assessment) Complete() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.complete = true
	a.ledger.conclude(a)
}

// Skip declares that an object cannot be decided for now. No assessment waits for it.
func (l *Ledger) Skip(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.assessed(key)
	l.skipped.Insert(key)
}

// Await declares that the decision on an object takes time, and which policies match it. Assessments of other policies
// do not wait for it. The caller must call ConcludeAssessments afterwards.
func (l *Ledger) Await(key Key, policies ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.assessments {
		if _, pending := a.pending[key]; !pending {
			continue
		}
		a.remove(key)
		a.pending[key] = append([]string{}, policies...)
		for _, name := range policies {
			a.waits[name]++
		}
		l.conclude(a)
	}
}

// assessed removes an object from the assessments that wait for it. The caller holds mu.
func (l *Ledger) assessed(key Key) {
	for _, a := range l.assessments {
		if _, pending := a.pending[key]; pending {
			a.remove(key)
			l.conclude(a)
		}
	}
}

// conclude makes ConcludeAssessments check an assessment if one of its policies no longer waits for objects. The caller
// holds mu.
func (l *Ledger) conclude(a *Assessment) {
	for name := range a.guards {
		if a.decided(name) {
			l.concluded = true
			return
		}
	}
}

func (l *Ledger) guard(name string) *policyGuard {
	g, ok := l.guards[name]
	if !ok {
		g = &policyGuard{
			bound: (*placementv1.BlastRadius)(nil).WithDefaults(), harmed: map[Key]harmed{}, namespaces: map[string]int{}, late: sets.New[Key](),
		}
		l.guards[name] = g
	}
	return g
}

// count records whether a policy's decision harms an object. before is the last finding on the object; known is false if
// there is none.
// If the object has changed since that finding, it only counts if an assessment waits for it. Changes that the object's
// owner makes are not changes of the policy or its data, and must not hold patches of other objects. The caller holds
// mu.
func (l *Ledger) count(key Key, v *placement.Verdict, before finding, known bool, now finding) {
	name := v.Policy.Name
	g := l.guard(name)
	g.unwell += now.harm.weight() - before.harm.weight()
	g.bound, g.generation = v.Policy.BlastRadius.WithDefaults(), v.Policy.Generation
	assessed := l.assesses(name, key) || g.overdue(key)
	entry, counted := g.harmed[key]
	switch {
	case now.harm == unharmed:
		g.heal(l, key)
	case counted:
		g.kinds[entry.harm]--
		g.kinds[now.harm]++
		g.harmed[key] = harmed{now.harm, entry.since}
	case g.bound.Percent >= 100:
		// At 100 percent, the guard is disabled.
	case known && before.harm == unharmed && (assessed || before.version == now.version),
		!known && !g.released && (g.resuming || assessed && RemovesAllClusters(v)):
		g.harmed[key] = harmed{harm: now.harm}
		g.kinds[now.harm]++
		g.namespaces[key.Namespace]++
		g.fresh = append(g.fresh, key)
		if g.open == 0 {
			g.dirty, l.concluded = true, true
		}
	}
}

// assesses reports whether an assessment for a policy waits for an object. The caller holds mu.
func (l *Ledger) assesses(policy string, key Key) bool {
	return slices.ContainsFunc(l.assessments, func(a *Assessment) bool {
		_, waits := a.pending[key]
		return waits && a.guards[policy] != nil
	})
}

// overdue reports whether an assessment ended before the object was decided. It forgets that, because the object is
// decided now.
func (g *policyGuard) overdue(key Key) bool {
	late := g.late.Has(key)
	g.late.Delete(key)
	return late
}

// punctual forgets that assessments ended before an object was decided. The caller holds mu.
func (l *Ledger) punctual(key Key) {
	if !l.late {
		return
	}
	l.late = false
	for _, g := range l.guards {
		g.late.Delete(key)
		l.late = l.late || g.late.Len() > 0
	}
}

// heal removes an object from the harmed ones.
func (g *policyGuard) heal(l *Ledger, key Key) {
	if entry, counted := g.harmed[key]; counted {
		g.drop(key, entry)
		if g.pause != nil {
			g.dirty, l.concluded = true, true
		}
	}
}

func (g *policyGuard) drop(key Key, entry harmed) {
	g.kinds[entry.harm]--
	if g.namespaces[key.Namespace]--; g.namespaces[key.Namespace] == 0 {
		delete(g.namespaces, key.Namespace)
	}
	delete(g.harmed, key)
}

// pauses reports whether remediation is paused for the objects of a namespace.
func (g *policyGuard) pauses(namespace string) bool {
	return g.pause != nil && g.pause.Scope.Includes(namespace)
}

// Holds implements Matches.
func (l *Ledger) Holds(policy, namespace string) (assessed time.Time, paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.guards[policy]
	if g == nil {
		return time.Time{}, false
	}
	if g.open > 0 {
		assessed = g.began
	}
	return assessed, g.pauses(namespace)
}

// AssessmentResult is the result of ConcludeAssessments.
type AssessmentResult struct {
	// Released are the objects to decide again because of their policy's plan or its approval.
	Released []Key
	// Freed reports whether Holds no longer holds back patches that it held back before.
	Freed bool
	// Paused are the policies whose remediation was paused, in all namespaces or in some, and Resumed those whose remediation was
	// resumed.
	Paused, Resumed []string
	// Changed are the policies whose pause changed, or of which an assessment ended.
	Changed []string
	// Unsaved are the policies with an approved plan that the caller must store before it is carried out. See Ledger.Unsaved.
	Unsaved []string
	// Unconcluded reports whether an assessment is not concluded, and Unplanned whether a plan is to be made: the caller must
	// call ConcludeAssessments again after AssessmentLimit or PlanInterval.
	Unconcluded, Unplanned bool
}

// ConcludeAssessments concludes assessments whose objects are all decided, and those that exceed the time limit. It is
// cheap if there are none.
func (l *Ledger) ConcludeAssessments(now time.Time) AssessmentResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out AssessmentResult
	plan := l.unplanned && now.Sub(l.planned) >= PlanInterval
	if !l.concluded && !plan && (len(l.assessments) == 0 || now.Sub(l.assessments[0].since) < AssessmentLimit) {
		out.Unconcluded, out.Unplanned = len(l.assessments) > 0, l.unplanned
		return out
	}
	l.concluded = false
	if plan {
		l.unplanned, l.planned = false, now
	}
	judged := map[string]bool{}
	l.assessments = slices.DeleteFunc(l.assessments, func(a *Assessment) bool {
		over := a.complete && now.Sub(a.since) >= AssessmentLimit
		for name, g := range a.guards {
			decided := a.decided(name)
			if !over && !decided {
				continue
			}
			if !decided {
				g.late.Insert(slices.Collect(maps.Keys(a.pending))...)
				l.late = true
			}
			g.open--
			g.ended, judged[name] = now, true
			delete(a.guards, name)
		}
		return a.complete && len(a.guards) == 0
	})
	for name, g := range l.guards {
		if judged[name] || g.dirty || plan && g.unplanned {
			l.concludePolicy(name, g, judged[name], now, &out)
		}
	}
	out.Unconcluded, out.Unplanned = len(l.assessments) > 0, l.unplanned
	return out
}

// PlanInterval is the minimum time between two new plans that are not due to an assessment. Objects may change one by one, and
// to make a plan takes time in proportion to the number of all objects.
const PlanInterval = time.Second

// ExceedsBlastRadius returns where a change pauses remediation of a policy, by the numbers of matched objects that it harms in
// each namespace. pauses reports whether it does. allowed is the number of objects that it may harm besides those that the limit
// allows. All fields of the limit are set.
func ExceedsBlastRadius(limit placementv1.BlastRadius, harmed map[string]int, matched, allowed int) (scope containment.Scope, pauses bool) {
	if limit.Percent >= 100 {
		return nil, false
	}
	return containment.Of(harmed, max(int(limit.MinObjects), int(limit.Percent)*matched/100+1)+allowed)
}

// concludePolicy pauses or resumes remediation of a policy. assessed reports whether an assessment of the policy ended. After
// the last one, what remains to be done is known, and becomes the policy's plan.
func (l *Ledger) concludePolicy(name string, g *policyGuard, assessed bool, now time.Time, out *AssessmentResult) {
	g.dirty = false
	g.sweep(now)
	before := g.pause
	over, wider := g.judge(now, l.summarize(name, g))
	if wider {
		out.Paused = append(out.Paused, name)
	}
	if before != nil && g.pause == nil {
		out.Resumed = append(out.Resumed, name)
	}
	if g.settled {
		g.settled, g.resuming, g.released = false, false, false
	}
	if over || slices.Contains(out.Resumed, name) {
		out.Changed = append(out.Changed, name)
	}
	l.plan(name, g, assessed, now, out)
	narrower := before != nil && g.pause != nil && !g.pause.Scope.Covers(before.Scope)
	out.Freed = out.Freed || g.open == 0 && (g.pause == nil || assessed || narrower)
}

// judge begins, continues, or ends the pause. next has the present numbers of harmed objects. over reports whether they exceed the
// limit, and wider whether objects are paused now that were not before.
func (g *policyGuard) judge(now time.Time, next *Pause) (over, wider bool) {
	before := g.pause
	next.Scope, over = ExceedsBlastRadius(g.bound, g.namespaces, next.Matched, g.allowed)
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
		g.end(now)
	}
	return over, wider
}

// plan makes a new plan of a policy if that is needed, and releases objects that the plan's approval concerns.
func (l *Ledger) plan(name string, g *policyGuard, assessed bool, now time.Time, out *AssessmentResult) {
	if g.open > 0 && !g.long {
		return
	}
	a := l.account(name)
	was := a.approval != nil && a.approval.Known
	made := (assessed || g.unplanned) && a.replan(now, g.generation)
	g.unplanned = false
	if !a.recognize() || a.permitted() {
		a.unsaved = ""
	} else if a.unsaved != a.current.Digest {
		a.unsaved = a.current.Digest
		out.Unsaved = append(out.Unsaved, name)
	}
	if a.permitted() && a.refused || made && was {
		// The objects may be moved now, or no longer.
		a.refused = false
		out.Released = append(out.Released, a.outstanding()...)
	}
	if made || assessed {
		out.Changed = append(out.Changed, name)
	}
}

// sweep stops counting harmed objects that were found longer than blastWindow ago, unless the policy is paused because of
// them. It looks for them at most once in expiryInterval, because objects may be judged one by one.
func (g *policyGuard) sweep(now time.Time) {
	for _, key := range g.fresh {
		if entry, counted := g.harmed[key]; counted && entry.since.IsZero() {
			g.harmed[key] = harmed{entry.harm, now}
		}
	}
	g.fresh = nil
	if g.pause != nil || now.Sub(g.swept) < expiryInterval {
		return
	}
	g.swept = now
	for key, entry := range g.harmed {
		if now.Sub(entry.since) > blastWindow {
			g.drop(key, entry)
		}
	}
}

// end ends a pause. Afterwards, patches only wait for assessments.
func (g *policyGuard) end(now time.Time) {
	g.pause, g.allowed, g.resuming, g.dirty, g.began = nil, 0, false, false, now
}

// maxExamples is the number of objects that a pause names.
const maxExamples = 3

// summarize returns a pause with the numbers of objects that are currently harmed.
func (l *Ledger) summarize(name string, g *policyGuard) *Pause {
	return &Pause{
		Percent: g.bound.Percent, Matched: len(l.account(name).objects), Before: g.unwell - len(g.harmed),
		Denied: g.kinds[denied], Emptied: g.kinds[emptied], Undecided: g.kinds[undecided],
	}
}

// report returns a copy of the pause with the names of some objects; nil if there is no pause.
func (g *policyGuard) report() *Pause {
	if g.pause == nil {
		return nil
	}
	var examples []Key
	for key := range g.harmed {
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

// Assessed reports whether no assessment of a policy waits for objects, and none ended before all of its objects were decided.
// It ignores objects that can't be decided for now, and assessments that follow one another for longer than AssessmentLimit.
func (l *Ledger) Assessed(policy string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.guards[policy]
	return g == nil || (g.open == 0 || g.long) && l.skipped.IsSuperset(g.late)
}

// Resume keeps a policy paused that an earlier leader paused, and where. The pause lasts at least until Settle declares that all
// of the policy's objects are decided again. Call Resume before any object is decided.
func (l *Ledger) Resume(policy, change string, before int, scope containment.Scope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.guard(policy)
	g.pause, g.allowed, g.resuming = &Pause{Change: change, Scope: scope, Before: before}, before, true
}

// Settle declares that all objects of a policy that an earlier leader paused have been decided. It returns false if an
// assessment of the policy is not concluded; then the caller must try again later. Otherwise the caller must call
// ConcludeAssessments.
func (l *Ledger) Settle(policy string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, ok := l.guards[policy]
	if !ok || !g.resuming && !g.released {
		return true
	}
	if g.open > 0 {
		return false
	}
	g.settled, g.dirty, l.concluded = true, true, true
	return true
}

// Release allows a change that paused a policy. It returns false if the policy is not paused because of that change.
func (l *Ledger) Release(now time.Time, policy, change string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.guards[policy]
	if g == nil || g.pause == nil || g.pause.Change != change {
		return false
	}
	g.released = g.resuming
	g.end(now)
	for key, entry := range g.harmed {
		// Objects that an unfinished assessment found are not part of the released change.
		if g.released || !entry.since.IsZero() {
			g.drop(key, entry)
		}
	}
	return true
}

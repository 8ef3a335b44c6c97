package remediation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// blastWindow is for how long objects that changes harmed are counted together: clusters that are deleted one after the
// other are one change.
const blastWindow = 5 * time.Minute

// sweepPace is how often at most is looked for objects that are older than that.
const sweepPace = time.Second

// harm is how a policy leaves an object without a placement.
type harm uint8

const (
	unharmed harm = iota
	denied
	emptied
	undecided
)

// harmOf returns how the policy of a verdict leaves the object without a placement. A policy that is not enforced or
// whose remediation is not automatic moves nothing.
func harmOf(v *placement.Verdict) harm {
	switch {
	case v.Policy.Mode != placementv1.ModeEnforce || v.Policy.Remediation != placementv1.RemediationAutomatic:
		return unharmed
	case v.Err != nil:
		return undecided
	case len(v.Decision.Errors) > 0:
		return denied
	case v.Decision.Empty() || empties(v):
		return emptied
	}
	return unharmed
}

func empties(v *placement.Verdict) bool {
	return slices.ContainsFunc(v.Changes, placement.Change.Empties)
}

// Pause says why remediation of a policy is paused.
type Pause struct {
	// Change identifies what is not carried out.
	Change string
	// Denied, Emptied and Undecided are how many of the Matched objects would be denied, without clusters, and undecided
	// that were none of these before.
	Denied, Emptied, Undecided, Matched int
	// Before is how many objects were denied, without clusters, or undecided before.
	Before int
	// Percent is the bound.
	Percent int32
	// Examples names some of the objects, sorted. Ledger.Report fills it in.
	Examples []string
}

// Objects is the number of objects that the change would harm.
func (p *Pause) Objects() int { return p.Denied + p.Emptied + p.Undecided }

// Message says what would happen to the objects of a policy, and how to release it.
func (p *Pause) Message(policy string) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{p.Emptied, "left without clusters"}, {p.Denied, "denied"}, {p.Undecided, "undecided"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return fmt.Sprintf("a change of the policy or of its data would affect %d of the %d matched objects at once (%s), such as %s; "+
		"that is more than %d %%, so Berth moves no object of this policy. Take the change back, or release it: "+
		"kubectl annotate placementpolicy %s --overwrite %s=%s",
		p.Objects(), p.Matched, strings.Join(parts, ", "), strings.Join(p.Examples, ", "),
		p.Percent, policy, placementv1.ReleaseBlastRadiusAnnotation, p.Change)
}

// guard counts, for one policy, the objects that changes harm, and keeps patches back. The Ledger's mutex protects it.
type guard struct {
	bound      placementv1.BlastRadius
	generation int64
	// harmed are the objects that were unharmed before a change, and kinds their number by harm.
	harmed map[Key]harmed
	kinds  [undecided + 1]int
	// fresh are those that were found since the last judgment, and swept is when old ones were last removed.
	fresh []Key
	swept time.Time
	// unwell is the number of all objects that are harmed, also of those that were harmed before.
	unwell int
	// late are the objects that were not decided when an assessment of them ended.
	late map[Key]struct{}
	// held are the objects whose patch waits, and waited those that waited and have not been patched, with the time when
	// that began.
	held, waited map[Key]time.Time
	// open is the number of assessments that are not concluded.
	open  int
	pause *Pause
	// allowed is how many of the harmed objects an earlier leader had found harmed before the change.
	allowed int
	// resuming says that an earlier leader paused the policy and that some objects have not been decided since. What is
	// harmed when it is seen first counts then, unless the change was released: its objects do not count.
	resuming, released bool
	// settled says that all objects have been decided: Judge may end the pause of an earlier leader.
	settled bool
	// dirty says that Judge has to look at the policy though no assessment was concluded.
	dirty bool
}

// harmed is an object that a change harms.
type harmed struct {
	harm harm
	// since is the time of the judgment that found it; zero before it.
	since time.Time
}

// Assessment is a set of objects that one change causes to be decided again. No object of its policies is patched before all of
// them are decided, but those that a policy does not match. It is safe for concurrent use.
type Assessment struct {
	ledger *Ledger
	// guards are of the policies that wait for objects.
	guards map[string]*guard
	since  time.Time
	// pending are the objects that are not decided, with the policies that match them; nil where these are not known.
	pending map[Key][]string
	// unknown is the number of pending objects of which it is not known which policies match them, and waits the number of
	// the others by policy.
	unknown int
	waits   map[string]int
	// complete says that no objects are added any more.
	complete bool
}

// assessmentLimit is how long an assessment waits for objects that nobody can decide, such as those of a type that can't be
// read any more.
const assessmentLimit = 30 * time.Second

// AssessmentLimit is after what time Judge concludes an assessment whose objects are not all decided.
func AssessmentLimit() time.Duration { return assessmentLimit }

// holdLimit is how long the patch of an object waits for assessments, of which a new one may begin whenever data changes.
const holdLimit = 2 * assessmentLimit

// Assess begins an assessment of what a change does to the objects of some policies.
func (l *Ledger) Assess(now time.Time, policies ...string) *Assessment {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &Assessment{ledger: l, guards: map[string]*guard{}, since: now, pending: map[Key][]string{}, waits: map[string]int{}}
	for _, name := range policies {
		g := l.guard(name)
		g.open++
		a.guards[name] = g
	}
	l.assessments = append(l.assessments, a)
	return a
}

// Add adds objects. They must be decided afterwards.
func (a *Assessment) Add(keys ...Key) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for _, key := range keys {
		a.remove(key)
		a.pending[key] = nil
		a.unknown++
	}
}

// remove removes an object that is pending, if it is. The caller holds mu.
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

// decided reports whether all objects are decided that concern a policy. The caller holds mu.
func (a *Assessment) decided(policy string) bool {
	return a.complete && a.unknown == 0 && a.waits[policy] == 0
}

// Complete says that no objects are added any more. The caller then calls Judge.
func (a *Assessment) Complete() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.complete = true
	a.ledger.conclude(a)
}

// Skip says that an object can't be decided for now: no assessment waits for it.
func (l *Ledger) Skip(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.assessed(key)
}

// Await says that the decision on an object takes time, and which policies match it: assessments of other policies do not
// wait for it. The caller then calls Judge.
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

// conclude has Judge look at an assessment in which a policy waits for nothing. The caller holds mu.
func (l *Ledger) conclude(a *Assessment) {
	for name := range a.guards {
		if a.decided(name) {
			l.concluded = true
			return
		}
	}
}

func (l *Ledger) guard(name string) *guard {
	g, ok := l.guards[name]
	if !ok {
		g = &guard{
			bound: (*placementv1.BlastRadius)(nil).WithDefaults(), harmed: map[Key]harmed{}, late: map[Key]struct{}{},
			held: map[Key]time.Time{}, waited: map[Key]time.Time{},
		}
		l.guards[name] = g
	}
	return g
}

// count counts an object that a policy decided. before is what was found earlier, if known. An object whose content has
// changed since then counts only if an assessment waits for it: what its owner changes is no change of the policy or of its
// data, and must not hold up the objects of others. The caller holds mu.
func (l *Ledger) count(key Key, v *placement.Verdict, before finding, known bool, now finding) {
	name := v.Policy.Name
	g := l.guard(name)
	g.bound, g.generation = v.Policy.BlastRadius.WithDefaults(), v.Policy.Generation
	if v.Err != nil || len(v.Decision.Errors) > 0 || len(v.Changes) == 0 {
		// There is nothing to be patched.
		delete(g.waited, key)
	}
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
		// The guard is off.
	case known && before.harm == unharmed && (assessed || before.version == now.version),
		!known && !g.released && (g.resuming || assessed && empties(v)):
		g.harmed[key] = harmed{harm: now.harm}
		g.kinds[now.harm]++
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

// misses remembers the objects for which an assessment did not wait any longer.
func (g *guard) misses(pending map[Key][]string) {
	for key := range pending {
		g.late[key] = struct{}{}
	}
}

// overdue reports whether an assessment has ended without the object, which is decided now.
func (g *guard) overdue(key Key) bool {
	_, late := g.late[key]
	delete(g.late, key)
	return late
}

// heal removes an object from those that were harmed.
func (g *guard) heal(l *Ledger, key Key) {
	if entry, counted := g.harmed[key]; counted {
		g.drop(key, entry)
		if g.pause != nil {
			g.dirty, l.concluded = true, true
		}
	}
}

func (g *guard) drop(key Key, entry harmed) {
	g.kinds[entry.harm]--
	delete(g.harmed, key)
}

// weigh counts that what is known of an object has changed.
func (g *guard) weigh(before, now harm) {
	if before != unharmed {
		g.unwell--
	}
	if now != unharmed {
		g.unwell++
	}
}

// Hold reports whether an object must not be patched now for what the policies decide. Judge returns the object once it may.
func (l *Ledger) Hold(now time.Time, key Key, policies ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range policies {
		g, ok := l.guards[name]
		if !ok || g.open == 0 && g.pause == nil {
			continue
		}
		since := g.waiting(key, now)
		if g.pause == nil && now.Sub(since) >= holdLimit {
			continue
		}
		g.held[key] = since
		delete(g.waited, key)
		return true
	}
	for _, name := range policies {
		if g, ok := l.guards[name]; ok {
			delete(g.held, key)
			delete(g.waited, key)
		}
	}
	return false
}

// waiting returns since when an object's patch waits.
func (g *guard) waiting(key Key, now time.Time) time.Time {
	if since, ok := g.held[key]; ok {
		return since
	}
	if since, ok := g.waited[key]; ok {
		return since
	}
	return now
}

// Ruling is what Judge found.
type Ruling struct {
	// Free are the objects that are to be looked at again, since nothing holds their patch any more.
	Free []Key
	// Paused are the policies whose remediation was paused, and Resumed those whose remediation goes on.
	Paused, Resumed []string
	// Changed are the policies whose pause is another one now.
	Changed []string
	// Waiting says that some assessment is not concluded.
	Waiting bool
}

// Judge concludes the assessments whose objects are all decided, and those that took too long. It costs nothing if there
// are none.
func (l *Ledger) Judge(now time.Time) Ruling {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out Ruling
	if !l.concluded && (len(l.assessments) == 0 || now.Sub(l.assessments[0].since) < assessmentLimit) {
		out.Waiting = len(l.assessments) > 0
		return out
	}
	l.concluded = false
	judged := map[string]bool{}
	l.assessments = slices.DeleteFunc(l.assessments, func(a *Assessment) bool {
		over := a.complete && now.Sub(a.since) >= assessmentLimit
		for name, g := range a.guards {
			decided := a.decided(name)
			if !over && !decided {
				continue
			}
			if !decided {
				g.misses(a.pending)
			}
			g.open--
			judged[name] = true
			delete(a.guards, name)
		}
		return a.complete && len(a.guards) == 0
	})
	for name, g := range l.guards {
		if judged[name] || g.dirty {
			l.judge(name, g, now, &out)
		}
	}
	out.Waiting = len(l.assessments) > 0
	return out
}

// judge pauses a policy, or lets it go on.
func (l *Ledger) judge(name string, g *guard, now time.Time, out *Ruling) {
	g.dirty = false
	g.sweep(now)
	next := l.summarize(name, g)
	harmed := next.Objects() - g.allowed
	over := g.bound.Percent < 100 && harmed >= int(g.bound.MinObjects) && harmed*100 > int(g.bound.Percent)*next.Matched
	identity := func() string { return fmt.Sprintf("%d-%s", g.generation, strconv.FormatInt(now.UnixMilli(), 36)) }
	switch {
	case over && g.pause == nil:
		next.Change = identity()
		g.pause = next
		out.Paused = append(out.Paused, name)
	case over && !g.resuming && harmed >= 2*g.pause.Objects():
		// That is another change, and not the one that somebody may be about to release.
		next.Change = identity()
		g.pause = next
	case g.pause != nil && (over || g.resuming && !g.settled || g.open > 0):
		next.Change, next.Before = g.pause.Change, g.pause.Before
		g.pause = next
	case g.pause != nil:
		g.end(now)
		out.Resumed = append(out.Resumed, name)
	}
	if g.settled {
		g.settled, g.resuming, g.released = false, false, false
	}
	if over || slices.Contains(out.Resumed, name) {
		out.Changed = append(out.Changed, name)
	}
	if g.pause == nil && g.open == 0 {
		out.Free = append(out.Free, g.free(now)...)
	}
}

// sweep removes the harmed objects that are older than blastWindow, unless they are why the policy is paused. Its cost is
// bounded where objects are judged one by one.
func (g *guard) sweep(now time.Time) {
	for _, key := range g.fresh {
		if entry, counted := g.harmed[key]; counted && entry.since.IsZero() {
			g.harmed[key] = harmed{entry.harm, now}
		}
	}
	g.fresh = nil
	if g.pause != nil || now.Sub(g.swept) < sweepPace {
		return
	}
	g.swept = now
	for key, entry := range g.harmed {
		if now.Sub(entry.since) > blastWindow {
			g.drop(key, entry)
		}
	}
}

// end ends a pause. From now on, patches wait for assessments alone.
func (g *guard) end(now time.Time) {
	g.pause, g.allowed, g.resuming, g.dirty = nil, 0, false, false
	for key := range g.held {
		g.held[key] = now
	}
}

// free returns the objects that waited.
func (g *guard) free(now time.Time) []Key {
	maps.DeleteFunc(g.waited, func(_ Key, since time.Time) bool { return now.Sub(since) >= 2*holdLimit })
	out := slices.Collect(maps.Keys(g.held))
	maps.Copy(g.waited, g.held)
	clear(g.held)
	return out
}

// maxExamples is how many objects a pause names.
const maxExamples = 3

// summarize says what the change would do that is being assessed.
func (l *Ledger) summarize(name string, g *guard) *Pause {
	return &Pause{
		Percent: g.bound.Percent, Matched: len(l.account(name).objects), Before: g.unwell - len(g.harmed),
		Denied: g.kinds[denied], Emptied: g.kinds[emptied], Undecided: g.kinds[undecided],
	}
}

// report returns the pause with the names of some objects; nil if there is none.
func (g *guard) report() *Pause {
	if g.pause == nil {
		return nil
	}
	var examples []Key
	for key := range g.harmed {
		examples = keepFirst(examples, key, maxExamples)
	}
	out := *g.pause
	for _, key := range examples {
		out.Examples = append(out.Examples, key.String())
	}
	return &out
}

// Resume has a policy stay paused that an earlier leader paused, until Settle has said that all of its objects are decided
// again. Call it before anything is decided.
func (l *Ledger) Resume(policy, change string, before int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.guard(policy)
	g.pause, g.allowed, g.resuming = &Pause{Change: change, Before: before}, before, true
}

// Settle says that all objects of a policy that an earlier leader paused have been decided. It returns false if an
// assessment of the policy is not concluded: then say it again later. The caller then calls Judge.
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

// Release lets a change through that paused a policy. It returns the objects that are to be looked at again; ok is false
// if the policy is not paused by that change.
func (l *Ledger) Release(now time.Time, policy, change string) (free []Key, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.guards[policy]
	if g == nil || g.pause == nil || g.pause.Change != change {
		return nil, false
	}
	g.released = g.resuming
	g.end(now)
	for key, entry := range g.harmed {
		// What an assessment has found that is not concluded is not part of the change.
		if g.released || !entry.since.IsZero() {
			g.drop(key, entry)
		}
	}
	if g.open > 0 {
		return nil, true
	}
	return g.free(now), true
}

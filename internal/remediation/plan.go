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
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/printable"
)

// A policy with mode Approved makes only the moves of an approved plan: the leader permits no others (Ledger.Permit), and names those in
// the field manager of its patch, because the webhook, which makes the changes, may know newer data (PermitsOf). If several such policies
// move an object, it waits until the plans of all of them are approved: what one of them moves alone may differ from what the plans say.

// Plan describes the moves that a policy required when all objects that a change concerns had been decided, before the first patch.
// Policies in every mode get plans; only those with remediation mode Approved wait for an approval.
type Plan struct {
	Digest     string    // Identifies the set of moves: equal moves have the same digest, in any process.
	Cause      Cause     // Why the plan was made.
	Causes     []string  // Texts that describe the cause, at least one and at most MaxCauses.
	Generation int64     // The generation of the policy that decided the objects.
	Since      time.Time // When the plan was made.
	// Moves is the number of moves in the plan, one for each object. Done is the number of those that are no longer required.
	Moves, Done int
	Undecided   int          // The number of objects that the policy could not decide when the plan was made.
	Approval    *Approval    // The approval of the plan; nil if the plan is not approved.
	Transitions []Transition // The most frequent changes in the plan, at most maxTransitions.
}

// Transition is one change that a plan makes to one or several objects.
type Transition struct {
	placement.Change
	Objects int // The number of objects that the plan changes in this way.
}

// PlannedMove is an object that has to be moved for a policy, and the changes that the move makes. Ledger.Moves also returns those that are
// not in the plan; a PlannedMove does not say whether it is.
type PlannedMove struct {
	Key
	Changes []placement.Change // The changes that the move makes.
}

// Action describes the changes as instructions, joined by semicolons, and whether the object is evicted for them: "evict: set nodeSelector
// disk to ssd".
func (m PlannedMove) Action() string {
	if m.Evicts() {
		return "evict: " + actions(m.Changes)
	}
	return actions(m.Changes)
}

// Evicts reports whether the changes require an eviction: the object is a Pod, and they change its scheduling.
func (m PlannedMove) Evicts() bool { return evicts(m.Resource.GroupResource(), m.Changes) }

// Approval is the approval of a plan of a policy.
type Approval struct {
	Digest string    // The digest of the approved plan.
	By     string    // The user who approved the plan; "" if that is not known.
	At     time.Time // When the user approved the plan; zero if that is not known.
	// Known reports whether the policy has, or had, a plan with the digest since the approval. Used reports whether that plan was
	// completed: an equal plan that is made later needs another approval.
	Known, Used bool
}

// identify returns the ID of the move that makes encoded changes to an object.
func identify(key Key, uid types.UID, changes string) moveset.ID {
	return moveset.Identify(key.Resource.GroupResource(), key.Namespace, key.Name, uid, changes)
}

// planRelation is how the move that a policy requires of an object relates to the policy's plan: it is part of the plan, the plan has
// another move of the object, or neither, which is the zero value. An object without a required move also has the zero value.
type planRelation uint8

const (
	unplanned planRelation = iota // The move is not part of the plan, or there is none.
	asPlanned                     // The move is part of the plan.
	otherwise                     // The plan has another move of the object.
)

// plan sets f.planned, given the last finding before, and removes a move if policies would deny the patch, as r says. An object that can't
// be decided keeps the move of the plan, because a failure is no progress.
func (f *finding) plan(before finding, r ruling) {
	planned := before.planned != unplanned
	switch {
	case f.failure != "" && planned:
		f.move, f.effect = before.move, before.effect
	case r.blocked && (!r.failing || !planned || before.move != f.move):
		f.move = moveset.ID{}
	}
	switch {
	case !planned || f.move == moveset.ID{}:
		f.planned = unplanned
	case before.move == f.move:
		f.planned = before.planned
	default:
		f.planned = otherwise
	}
}

// planning is the state of the plan of one policy. The Ledger's mutex protects it.
type planning struct {
	current *Plan        // The newest plan, also once none of its moves is left, without Done and Approval; nil if none was made.
	content *moveset.Set // All moves of current, also those that are done, which the caller stores once it is approved.
	saved   string       // The digest of the plan that is stored; "" for none.
	// moves counts the objects with a move: planned those whose move is part of the plan, and changed those for which the plan has another
	// move. undecided counts the objects that can't be decided now, and unseen those that were patched and not decided since.
	moves, planned, changed, undecided, unseen int
	// refused reports whether Permit refused a move of the plan, so that its objects must be decided again once it may be carried out.
	refused bool
	// inForce is the occasion that a generation came into force, until objects have been assessed for it; nil for none. shared is the
	// occasion that occasionOf last combined, so that moves with the same occasions share one.
	inForce, shared *occasion
	approval        *Approval // The newest approval of any plan; nil for none.
	unsaved         string    // The digest of the plan that ConcludeAssessments last returned as unsaved; "" for none.
	// continued is the approved plan that an earlier leader was carrying out; nil for none, and once a plan has other moves.
	continued *moveset.Set
	// continuing is set until it is known which moves of continued are left. partial is set if some objects may never be decided, so that
	// it can't be known whether continued is complete.
	continuing, partial bool
}

// track updates the counters when the finding on an object changes. It uses up the approval when the last move of the plan is done.
func (p *planning) track(before, now finding) {
	none := moveset.ID{}
	p.moves += count(now.move != none) - count(before.move != none)
	p.planned += count(now.planned == asPlanned) - count(before.planned == asPlanned)
	p.changed += count(now.planned == otherwise) - count(before.planned == otherwise)
	p.undecided += count(now.failure != "") - count(before.failure != "")
	p.unseen += count(now.unseen) - count(before.unseen)
	if p.continued == nil && p.approved() && p.moves == 0 && before.planned == asPlanned {
		p.approval = p.approval.with(true, p.approval.Known)
	}
	p.settle()
}

// settle marks the approval of a plan that an earlier leader was carrying out as used once no object requires a move and none is undecided,
// unless some objects may never be decided: that leader may not have reported the last move.
func (p *planning) settle() {
	if p.continued != nil && !p.continuing && !p.partial && p.undecided == 0 && p.moves == 0 && p.approval != nil {
		p.approval, p.continued = p.approval.with(true, p.approval.Known), nil
	}
}

// with returns a copy of the approval with other values of Used and Known. Reports share the approval, so it must not be changed.
func (a Approval) with(used, known bool) *Approval {
	a.Used, a.Known = used, known
	return &a
}

// strays returns the number of objects with a move that is not part of the plan.
func (p *planning) strays() int { return p.moves - p.planned }

// approved reports whether the current plan is approved and contains all moves that are required. It may be carried out once it is stored.
func (p *planning) approved() bool {
	return p.approval != nil && !p.approval.Used && p.current != nil && p.approval.Digest == p.current.Digest && p.strays() == 0
}

// permitted reports whether the current plan is approved and stored, so that it may be carried out.
func (p *planning) permitted() bool { return p.approved() && p.saved == p.current.Digest }

// recognize sets Known of the newest approval if that is unused and has the digest of the current plan, and if no move outside of the plan
// is required.
func (p *planning) recognize() {
	if p.approved() {
		p.approval = p.approval.with(false, true)
	}
}

// progress returns a copy of the current plan with Done and Approval; nil if there is no plan.
func (p *planning) progress() *Plan {
	if p.current == nil {
		return nil
	}
	out := *p.current
	out.Done = out.Moves - p.planned - p.changed
	if p.approved() || p.approval != nil && p.approval.Used && p.approval.Digest == out.Digest && out.Done == out.Moves {
		out.Approval = p.approval
	}
	return &out
}

// plan makes a new plan of a policy if needed, and adds to out the objects that must be decided again because of the plan or its approval.
func (a *account) plan(name string, assessed bool, now time.Time, out *AssessmentResult) {
	if a.assessing() {
		return
	}
	was := a.approval != nil && a.approval.Known
	made := (assessed || a.unplanned) && a.replan(now)
	a.unplanned = false
	a.recognize()
	if !a.approved() || a.permitted() {
		a.unsaved = ""
	} else if a.unsaved != a.current.Digest {
		a.unsaved = a.current.Digest
		out.Unsaved = append(out.Unsaved, name)
	}
	if a.permitted() && a.refused || made && was {
		// The objects may be moved now, or no longer.
		out.Released = append(out.Released, a.release()...)
	}
	if made || assessed {
		out.Changed = append(out.Changed, name)
	}
}

// release returns the objects of the plan that still have to be moved. They must be decided again, because from now on the plan may be
// carried out, or may not be any more: it was approved and stored, replaced, or lost its approval. It does not end the pause.
func (a *account) release() (out []Key) {
	a.refused = false
	for id, f := range a.objects {
		if f.planned != unplanned {
			out = append(out, id.Key())
		}
	}
	return out
}

// replan makes a new plan of all required moves, and reports whether it made one. It makes none if the current plan contains them all, if
// no object is decided, or while it is not known what is left of the plan that an earlier leader was carrying out.
func (a *account) replan(now time.Time) bool {
	if len(a.objects) == 0 || a.continuing {
		// The objects of a type that nothing watched before, or of the earlier plan, are still to come.
		return false
	}
	a.inForce = nil
	if a.strays() == 0 {
		return false
	}
	cause, causes := a.causeOfStrays()
	plan, kinds := &Plan{Cause: cause, Causes: causes, Generation: a.generation, Since: now, Moves: a.moves}, map[string]int{}
	ids := make([]moveset.ID, 0, a.moves)
	for id, f := range a.objects {
		if f.move != (moveset.ID{}) {
			f.planned = asPlanned
			a.objects[id] = f
			ids = append(ids, f.move)
			kinds[f.result().changes]++
		}
		if f.failure != "" {
			plan.Undecided++
		}
	}
	a.current, a.content, a.planned, a.changed = plan, moveset.New(ids), a.moves, 0
	if a.continued != nil && a.continued.Includes(a.content) {
		// It is the rest of the plan that an earlier leader was carrying out.
		a.content, plan.Moves = a.continued, a.continued.Len()
	} else {
		a.continued = nil
	}
	plan.Digest, plan.Transitions = a.content.Digest, transitions(kinds)
	return true
}

// transitions returns at most maxTransitions changes, those of the most objects first. kinds are the numbers of objects by encoded changes.
func transitions(kinds map[string]int) (out []Transition) {
	byChange := map[string]int{}
	for changes, objects := range kinds {
		for _, c := range moveset.Decode(changes) {
			byChange[moveset.Encode([]placement.Change{c})] += objects
		}
	}
	for change, objects := range byChange {
		out = append(out, Transition{moveset.Decode(change)[0], objects})
	}
	slices.SortFunc(out, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key),
			cmp.Compare(ptr.Deref(a.From, ""), ptr.Deref(b.From, "")), cmp.Compare(ptr.Deref(a.To, ""), ptr.Deref(b.To, "")))
	})
	return out[:min(len(out), maxTransitions)]
}

// Moves returns all objects that have to be moved for a policy, sorted, whether or not they are in the plan.
func (l *Ledger) Moves(policy string) (out []PlannedMove) {
	defer l.lock()()
	for id, f := range l.find(policy).objects {
		if f.move != (moveset.ID{}) {
			out = append(out, PlannedMove{id.Key(), moveset.Decode(f.result().changes)})
		}
	}
	slices.SortFunc(out, func(a, b PlannedMove) int { return compareKeys(a.Key, b.Key) })
	return out
}

// Approve sets the newest approval of a policy; nil for none. It keeps an earlier approval of the same digest. It returns the objects that
// must be decided again because they may be patched now, or no longer. A plan that is approved now must be stored first: see Unsaved.
func (l *Ledger) Approve(policy string, approval *Approval) []Key {
	defer l.lock()()
	a := l.account(policy)
	if before := a.approval; before != nil && approval != nil && before.Digest == approval.Digest {
		return nil
	}
	if a.continued != nil && (approval == nil || approval.Used || approval.Digest != a.continued.Digest) {
		a.unplanned = a.unplanned || a.continuing
		a.continued, a.continuing = nil, false
	}
	was := a.permitted()
	a.approval = approval
	a.settle()
	if a.recognize(); !a.permitted() && !was {
		return nil
	}
	return a.release()
}

// Permit returns the verdicts for which an object may be patched now: all that are due, if each move that needs an approval is part of an
// approved and stored plan, and otherwise only those of policies that need no approval.
func (l *Ledger) Permit(key Key, uid types.UID, verdicts []*placement.Verdict) Due {
	defer l.lock()()
	due := DueOf(released(verdicts))
	needs := due.needing(true)
	refused := slices.ContainsFunc(needs, func(v *placement.Verdict) bool {
		a := l.account(v.Policy.Name)
		f := a.objects[key.Compact()]
		return !a.permitted() || f.planned != asPlanned || f.move != identify(key, uid, moveset.Encode(v.Changes))
	})
	if len(needs) > 0 && !refused {
		return due
	}
	// Whichever of the plans is approved last, the object must be decided again then.
	for _, v := range needs {
		l.account(v.Policy.Name).refused = true
	}
	return DueOf(verdicts).needing(false)
}

// Unsaved returns the approved plan of a policy that is not stored yet; nil for none. The caller must store it, and call Saved afterwards.
func (l *Ledger) Unsaved(policy string) *moveset.Set {
	defer l.lock()()
	if a := l.find(policy); a.approved() && !a.permitted() {
		return a.content
	}
	return nil
}

// Saved records that the plan with a digest is stored. It returns the objects that must be decided again because they may be patched now.
func (l *Ledger) Saved(policy, digest string) []Key {
	defer l.lock()()
	a := l.find(policy)
	if a.saved = digest; !a.permitted() {
		return nil
	}
	return a.release()
}

// Unsave reports whether a stored plan of a policy is no longer needed, because it is completed or no longer approved. The plan can then
// not be carried out until it is stored again, and the caller should delete it. reported is the digest of the last plan that the policy's
// status reports as completed: until a plan is reported, a later leader needs the stored plan.
func (l *Ledger) Unsave(policy, reported string) bool {
	defer l.lock()()
	a := l.find(policy)
	approval := ptr.Deref(a.approval, Approval{})
	continues := a.continued != nil && (a.approval == nil || !approval.Used && approval.Digest == a.continued.Digest)
	if a.permitted() || continues || approval.Used && approval.Digest == a.saved && reported != a.saved {
		return false
	}
	a.saved = ""
	return true
}

// Continue records that an earlier leader was carrying out an approved plan of a policy. The policy gets no plan before Settle is called
// after all of its objects have been decided. If all moves that are required then are part of the approved plan, they are the rest of that
// plan. Call Continue before any object is decided.
func (l *Ledger) Continue(policy string, plan *moveset.Set) {
	defer l.lock()()
	a := l.account(policy)
	a.continued, a.continuing, a.saved = plan, true, plan.Digest
}

// MaxCauses is the maximum number of texts that describe a cause. maxFacts is that of the facts of joined causes, of an object's blames,
// and of a policy's among the blames of missed assessments.
const (
	MaxCauses = 5
	maxFacts  = 2 * MaxCauses
)

// Cause is why objects have to be decided again. The zero value stands for changes of objects or of namespaces.
type Cause struct {
	Policy bool             // Set if another generation of the policy came into force.
	Data   sets.Set[string] // The types of objects that changed, such as clusterprofiles.multicluster.x-k8s.io, or texts for other data.
	Facts  []Fact           // Some of the changes of single objects that are the cause.
}

// Fact describes, in one line of text, the change of one object that a policy reads. It also has the type and the namespace of the object,
// and whether that represents a cluster, which decide who may see the text.
type Fact struct {
	// Resource is the type of the object, such as clusterprofiles.multicluster.x-k8s.io; "" for a namespace whose labels changed. Namespace is
	// the object's namespace, or the name of that namespace. Text describes the change on one line.
	Resource, Namespace, Text string
	// Cluster reports whether the object represents a cluster. All users who see placements may read the names and values of clusters.
	Cluster bool
}

// Unknown reports whether the cause is the zero Cause, so that nothing is known but that objects or namespaces changed.
func (c Cause) Unknown() bool { return !c.Policy && len(c.Data) == 0 && len(c.Facts) == 0 }

// and returns a cause that combines both, with at most maxFacts facts.
func (c Cause) and(other Cause) Cause {
	out := Cause{Policy: c.Policy || other.Policy, Data: c.Data.Union(other.Data), Facts: slices.Clone(c.Facts)}
	for _, fact := range other.Facts {
		if len(out.Facts) < maxFacts && !slices.Contains(out.Facts, fact) {
			out.Facts = append(out.Facts, fact)
		}
	}
	return out
}

// Explain describes the cause in a few words, without names of objects. generation is that of the policy.
func (c Cause) Explain(generation int64) string {
	switch {
	case c.Policy:
		return fmt.Sprintf("generation %d of the policy came into force", generation)
	case len(c.Data) > 0:
		return strings.Join(sets.List(c.Data), ", ") + " changed"
	default:
		return "objects or namespaces changed"
	}
}

// texts returns texts that describe the cause. It describes the facts for which seen returns true, and only names the types of the others.
// generation is the text that another generation came into force, and otherwise that of the zero Cause.
func (c Cause) texts(generation, otherwise string, seen func(Fact) bool) (out []string) {
	if c.Policy {
		out = append(out, generation)
	}
	described := sets.New[string]()
	for _, fact := range c.Facts {
		if seen(fact) {
			out = append(out, printable.Truncate(fact.Text, maxMessage))
			described.Insert(fact.Resource)
		}
	}
	for _, data := range sets.List(c.Data.Difference(described)) {
		out = append(out, printable.Truncate(data+" changed", maxMessage))
	}
	if len(out) == 0 {
		out = append(out, otherwise)
	}
	return out
}

// bounded returns the texts without repetitions. If these are more than MaxCauses, it returns the first MaxCauses-1, and then "and other
// changes".
func bounded(texts []string) []string {
	var out []string
	for _, text := range texts {
		switch {
		case slices.Contains(out, text):
		case len(out) == MaxCauses:
			out[MaxCauses-1] = "and other changes"
			return out
		default:
			out = append(out, text)
		}
	}
	return out
}

// occasion is one occurrence of a cause. The moves that it makes necessary share it.
type occasion struct {
	cause      Cause       // What happened.
	since      time.Time   // When the leader noticed the cause; zero if that is not known.
	generation int64       // The policy's generation at the decision, whatever the cause; 0 for the occasion of an assessment or of a blame.
	of         []*occasion // The occasions that this one combines; nil for the occasion of an assessment or of a blame.
}

// blame is why an object is decided again for some policies, outside of an assessment or after its end.
type blame struct {
	policies []string // The names of the policies.
	occasion *occasion
}

// Blame records why objects that are in no assessment are decided again for policies. The record lasts until the objects are decided.
func (l *Ledger) Blame(now time.Time, cause Cause, policies []string, keys ...Key) {
	defer l.lock()()
	b := blame{policies, &occasion{cause: cause, since: now}}
	for _, key := range keys {
		l.blame(key, b)
	}
}

// blame adds a blame of an object, unless the object has maxFacts blames already.
func (l *Ledger) blame(key Key, b blame) {
	if len(l.blamed[key]) < maxFacts {
		l.blamed[key] = append(l.blamed[key], b)
	}
}

// occasionOf returns why an object is decided again for a policy, whose generation is given: the occasions of the open assessments that
// wait for the object, and of its blames, combined; nil if there are none, because the object or its namespace changed. known is false if
// the policy has not decided the object before. Then inForce, unless it is nil, is the only occasion.
func (l *Ledger) occasionOf(key Key, policy string, generation int64, a *account, known bool) *occasion {
	var of []*occasion
	id := key.Compact()
	for _, assessment := range l.assessments {
		if _, waits := assessment.pending[id]; waits && assessment.accounts[policy] == a {
			of = append(of, assessment.occasion)
		}
	}
	blames := l.blamed[key]
	if late := l.late[id]; late != nil {
		blames = slices.Concat(blames, late.blames)
	}
	for _, b := range blames {
		if slices.Contains(b.policies, policy) && !slices.Contains(of, b.occasion) {
			of = append(of, b.occasion)
		}
	}
	if !known && a.inForce != nil {
		// The types that a new policy matches may be listed only after it has come into force.
		of = []*occasion{a.inForce}
	}
	if len(of) == 0 {
		return nil
	}
	// The objects that wait for the same assessments share one.
	if a.shared == nil || a.shared.generation != generation || !slices.Equal(a.shared.of, of) {
		a.shared = &occasion{of[0].cause, of[0].since, generation, of}
		for _, o := range of[1:] {
			a.shared.cause, a.shared.since = a.shared.cause.and(o.cause), earliest(a.shared.since, o.since)
		}
	}
	return a.shared
}

// causeOfStrays returns why moves that are not in the plan are required. cause combines the causes of all of these moves; texts describe
// them, at most MaxCauses, beginning with the cause of the most moves.
func (a *account) causeOfStrays() (cause Cause, texts []string) {
	moves := map[*occasion]int{}
	for _, f := range a.objects {
		if f.move != (moveset.ID{}) && f.planned != asPlanned {
			moves[f.why]++
		}
	}
	type part struct {
		cause Cause
		texts []string
		moves int
	}
	var parts []part
	for why, n := range moves {
		var c Cause
		generation := ""
		if why != nil {
			c, generation = why.cause, Cause{Policy: true}.Explain(why.generation)
		}
		parts = append(parts, part{c, c.texts(generation, Cause{}.Explain(0), allFacts), n})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(b.moves, a.moves), slices.Compare(a.texts, b.texts)) })
	for _, p := range parts {
		cause, texts = cause.and(p.cause), append(texts, p.texts...)
	}
	return cause, bounded(texts)
}

// allFacts returns true: every fact may be seen.
func allFacts(Fact) bool { return true }

// Reasons describes why policies move an object, for all of these policies together: the causes, the plans that contain the move, and who
// approved them.
type Reasons struct {
	// Causes describe all causes. Shown describe only what all users who may read the object may see: changes of clusters, and of objects in
	// its namespace. Of other changed objects, Shown only names the types. Each has at most MaxCauses texts.
	Causes, Shown []string
	Since         time.Time // When the leader noticed the earliest of the causes; zero if that is not known.
	// Plans are the digests of the plans that contain the move. ApprovedBy are the users of the newest approvals of the policies that need
	// one; "unknown" for a user who is not known. Each has at most MaxCauses entries.
	Plans, ApprovedBy []string
}

// Reasons returns why policies move an object. Call it before the object is recorded as moved.
func (l *Ledger) Reasons(key Key, due Due) (out Reasons) {
	defer l.lock()()
	seen := func(f Fact) bool { return f.Cluster || f.Namespace != "" && f.Namespace == key.Namespace }
	for _, v := range due {
		a := l.find(v.Policy.Name)
		f, why := a.objects[key.Compact()], &occasion{}
		if f.why != nil {
			why = f.why
		}
		generation, otherwise := fmt.Sprintf("generation %d of PlacementPolicy %q came into force", why.generation, v.Policy.Name),
			"the object or its namespace changed"
		out.Causes = append(out.Causes, why.cause.texts(generation, otherwise, allFacts)...)
		out.Shown = append(out.Shown, why.cause.texts(generation, otherwise, seen)...)
		if !why.since.IsZero() && (out.Since.IsZero() || why.since.Before(out.Since)) {
			out.Since = why.since
		}
		if f.planned == asPlanned && a.current != nil {
			out.Plans = append(out.Plans, a.current.Digest)
		}
		if v.Policy.NeedsApproval() && a.approval != nil {
			out.ApprovedBy = append(out.ApprovedBy, cmp.Or(a.approval.By, "unknown"))
		}
	}
	out.Causes, out.Shown, out.Plans, out.ApprovedBy = bounded(out.Causes), bounded(out.Shown), bounded(out.Plans), bounded(out.ApprovedBy)
	return out
}

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
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/internal/placement"
)

// Plan is what remediation of a policy had to do when all objects that a change concerns were decided, before the first of
// them was patched.
type Plan struct {
	// Digest identifies the moves: the same moves have the same digest, also if another program computes it.
	Digest string
	// Cause is why the objects were decided, Generation the policy's generation that decided them, and Since when that was
	// done.
	Cause      Cause
	Generation int64
	Since      time.Time
	// Moves is the number of objects to patch, and Done the number of those that no longer have to be patched.
	Moves, Done int
	// Denied, Undecided, and LeftAlone are the numbers of objects that the plan does not move although they violate the
	// decision: the policy denies them, can't decide them, or a patch can't make the changes or would be denied.
	Denied, Undecided, LeftAlone int
	// Approval approves the plan; nil if it is not approved.
	Approval *Approval
	// Transitions are the most frequent changes of the plan, and Sample the first objects by name.
	Transitions []Transition
	Sample      []PlannedMove
}

// Transition is a change that a plan makes to a number of objects.
type Transition struct {
	placement.Change
	Objects int
}

// PlannedMove is an object that a plan moves.
type PlannedMove struct {
	Key
	Changes []placement.Change
}

// Action describes the changes, and whether the object is evicted for them.
func (m PlannedMove) Action() string {
	out := make([]string, len(m.Changes))
	for i, c := range m.Changes {
		out[i] = c.Action()
	}
	text := strings.Join(out, "; ")
	if m.Evicts() {
		return "evict: " + text
	}
	return text
}

// Evicts reports whether the object is evicted for the changes.
func (m PlannedMove) Evicts() bool { return evicts(m.Resource.GroupResource(), m.Changes) }

// Cause is why objects have to be decided again. The zero value stands for changes of objects or of namespaces.
type Cause struct {
	// Policy is set if another generation of the policy came into force.
	Policy bool
	// Data are the names of the data that changed and that the policy reads.
	Data sets.Set[string]
}

// add adds another cause.
func (c *Cause) add(other Cause) {
	c.Policy = c.Policy || other.Policy
	if len(other.Data) > 0 {
		c.Data = c.Data.Union(other.Data)
	}
}

// moveID identifies a move: an object with the changes that a policy requires.
type moveID [16]byte

// encodeChanges returns those changes that a patch can make, in a form that equal changes share; "" for none. The form is
// that of appendText, for the field, the key, and the values of each change, by field and key. It is not JSON, because it is
// made for each object that has to be moved, and what encoding/json allocates for that costs more than all else in Record.
func encodeChanges(changes []placement.Change) string {
	order := func(a, b placement.Change) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key))
	}
	if !slices.IsSortedFunc(changes, order) {
		changes = slices.SortedFunc(slices.Values(changes), order)
	}
	var buffer [keyBytes]byte
	out := buffer[:0]
	for i := range changes {
		if c := &changes[i]; possible(*c) {
			out = appendText(appendText(appendText(appendText(out, &c.Field), &c.Key), c.From), c.To)
		}
	}
	return string(out)
}

// appendText appends a text: its length and 1 as a varint, and its bytes. Nil is a 0.
func appendText(out []byte, text *string) []byte {
	if text == nil {
		return append(out, 0)
	}
	return append(binary.AppendUvarint(out, uint64(len(*text))+1), *text...)
}

// cutText is the inverse of appendText. It returns the rest, too.
func cutText(in string) (text *string, rest string) {
	n, size := binary.Uvarint([]byte(in[:min(len(in), binary.MaxVarintLen64)]))
	if rest = in[size:]; n == 0 {
		return nil, rest
	}
	return new(rest[:n-1]), rest[n-1:]
}

// decodeChanges is the inverse of encodeChanges.
func decodeChanges(encoded string) []placement.Change {
	var out []placement.Change
	for encoded != "" {
		var texts [4]*string
		for i := range texts {
			texts[i], encoded = cutText(encoded)
		}
		out = append(out, placement.Change{Field: *texts[0], Key: *texts[1], From: texts[2], To: texts[3]})
	}
	return out
}

// identify returns the ID of a move. The version of the resource is not part of it, because all versions show the same
// object.
func identify(key Key, uid types.UID, changes string) moveID {
	var buffer [2 * keyBytes]byte
	text := buffer[:0]
	for _, part := range []string{key.Resource.Group, key.Resource.Resource, key.Namespace, key.Name, string(uid), changes} {
		text = appendText(text, &part)
	}
	sum := sha256.Sum256(text)
	return moveID(sum[:len(moveID{})])
}

// identify sets the move that makes an object what its policy decides.
func (f *finding) identify(key Key, uid types.UID) {
	if changes := f.result().changes; changes != "" {
		f.move = identify(key, uid, changes)
	}
}

// plan sets the move that is required of an object, and what it is to the policy's plan. If the object can't be decided for
// now, that is the move in the plan: a failure is not progress.
func (f *finding) plan(before finding, r ruling) {
	planned := before.planned != unplanned
	switch {
	case f.failure != "" && planned:
		f.move, f.effect = before.move, before.effect
	case r.blocked && (!r.failing || !planned || before.move != f.move):
		f.move = moveID{}
	}
	f.planned = before.planned.after(before.move, f.move)
}

// share says what an object's move is to a plan.
type share uint8

const (
	// unplanned means that the move is not part of the plan, or that there is none.
	unplanned share = iota
	// asPlanned means that the move is part of the plan.
	asPlanned
	// otherwise means that the plan has another move of the object.
	otherwise
)

// after returns the share of an object's next move.
func (s share) after(before, next moveID) share {
	switch {
	case s == unplanned || next == (moveID{}):
		return unplanned
	case before == next:
		return s
	default:
		return otherwise
	}
}

// planning is what the ledger knows of the plan of one policy. The Ledger's mutex protects it.
type planning struct {
	// current is the newest plan; nil if there is none. Its Done is not set.
	current *Plan
	// moves is the number of objects with a move. planned is the number of those whose move is part of the plan, and changed of
	// those of which the plan has another move.
	moves, planned, changed int
	// refused reports whether Permit refused a move of the plan, so that its objects must be decided again once they may be
	// moved.
	refused bool
	// causes are why objects have been decided since the newest plan.
	causes Cause
	// approval is the newest approval, of whatever plan; nil if there is none.
	approval *Approval
	// content is all moves of the current plan. saved is the digest of the plan that is stored.
	content *ApprovedPlan
	saved   string
	// continued is the approved plan that an earlier leader was carrying out; nil if there is none, or if something else has to be
	// moved. continuing reports whether it is not known yet what is left of it, and partial whether some objects may never be
	// decided, so that the plan is not known to be completed. undecided is the number of objects that can't be decided now.
	continued           *ApprovedPlan
	continuing, partial bool
	undecided           int
	// unsaved is the digest of the plan that the caller of ConcludeAssessments was told to store.
	unsaved string
}

// track updates the numbers of moves when the finding on an object changes.
func (p *planning) track(before, now finding) {
	p.moves += count(now.move != moveID{}) - count(before.move != moveID{})
	p.planned += count(now.planned == asPlanned) - count(before.planned == asPlanned)
	p.changed += count(now.planned == otherwise) - count(before.planned == otherwise)
	p.undecided += count(now.failure != "") - count(before.failure != "")
	if p.continued == nil && p.approved() && p.moves == 0 && before.planned == asPlanned {
		p.use()
	}
	p.settle()
}

// use marks the approval as used: it is for carrying out the plan once.
func (p *planning) use() {
	used := *p.approval
	used.Used, p.approval = true, &used
}

// strays returns the number of objects with a move that is not part of the plan.
func (p *planning) strays() int { return p.moves - p.planned }

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// replan makes all moves that are required the plan, unless the present plan has them all. generation is the policy's
// generation that decided the objects. It reports whether there is a new plan.
func (a *account) replan(now time.Time, generation int64) bool {
	if len(a.objects) == 0 {
		// The objects of a type that nothing watched before are still to come.
		return false
	}
	if a.continuing {
		return false
	}
	cause := a.causes
	a.causes = Cause{}
	if a.strays() == 0 {
		return false
	}
	a.current, a.content = newPlan(func(yield func(move) bool) {
		for key, f := range a.objects {
			if f.move == (moveID{}) {
				continue
			}
			f.planned = asPlanned
			a.objects[key] = f
			yield(move{key, f.move, f.result().changes})
		}
	})
	a.planned, a.changed = a.moves, 0
	a.proceed()
	a.current.Cause, a.current.Generation, a.current.Since = cause, generation, now
	for _, f := range a.objects {
		switch result := f.result(); {
		case f.failure != "":
			a.current.Undecided++
		case result.denied:
			a.current.Denied++
		case result.violation != "" && f.move == moveID{}:
			a.current.LeftAlone++
		}
	}
	return true
}

// progress returns a copy of the plan with the number of moves that are done; nil if there is no plan.
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

// move is an object that a plan moves.
type move struct {
	key     Key
	id      moveID
	changes string
}

// maxTransitions is the number of transitions that a plan lists.
const maxTransitions = 10

// digestOf returns the digest of moves: the SHA-256 hash over their sorted IDs, cut to 16 bytes, in hexadecimal digits. It sorts
// its argument.
func digestOf(ids []moveID) string {
	slices.SortFunc(ids, compareMoves)
	hash := sha256.New()
	for _, id := range ids {
		hash.Write(id[:])
	}
	return hex.EncodeToString(hash.Sum(nil)[:len(moveID{})])
}

// newPlan returns the plan with the moves, and all of its moves.
func newPlan(moves iter.Seq[move]) (*Plan, *ApprovedPlan) {
	var ids []moveID
	var sample []move
	kinds := map[string]int{}
	for m := range moves {
		ids = append(ids, m.id)
		kinds[m.changes]++
		sample = keepFirst(sample, m, maxSample, func(a, b move) int { return compareKeys(a.key, b.key) })
	}
	out := &Plan{Digest: digestOf(ids), Moves: len(ids), Transitions: transitions(kinds)}
	for _, m := range sample {
		out.Sample = append(out.Sample, PlannedMove{m.key, decodeChanges(m.changes)})
	}
	return out, &ApprovedPlan{out.Digest, ids}
}

// Moves returns all objects that have to be moved for a policy, sorted.
func (l *Ledger) Moves(policy string) []PlannedMove {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []PlannedMove
	for key, f := range l.account(policy).objects {
		if f.move != (moveID{}) {
			out = append(out, PlannedMove{key, decodeChanges(f.result().changes)})
		}
	}
	slices.SortFunc(out, func(a, b PlannedMove) int { return compareKeys(a.Key, b.Key) })
	return out
}

// transitions returns the most frequent changes, given the numbers of objects by encoded changes.
func transitions(kinds map[string]int) []Transition {
	byChange := map[string]*Transition{}
	for changes, objects := range kinds {
		for _, c := range decodeChanges(changes) {
			id := encodeChanges([]placement.Change{c})
			if byChange[id] == nil {
				byChange[id] = &Transition{Change: c}
			}
			byChange[id].Objects += objects
		}
	}
	all := slices.SortedFunc(maps.Values(byChange), func(a, b *Transition) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key),
			cmp.Compare(ptr.Deref(a.From, ""), ptr.Deref(b.From, "")), cmp.Compare(ptr.Deref(a.To, ""), ptr.Deref(b.To, "")))
	})
	var out []Transition
	for _, t := range all[:min(len(all), maxTransitions)] {
		out = append(out, *t)
	}
	return out
}

// Explain describes the cause for a policy of which a generation decides.
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

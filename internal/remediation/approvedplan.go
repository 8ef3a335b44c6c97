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
	"bytes"
	"fmt"
	"slices"
)

// ApprovedPlan is all moves of an approved plan. The leader stores it before it makes the first move. A later leader sees only
// what is left to do, and must know that it is part of what was approved.
type ApprovedPlan struct {
	// Digest is the digest of the plan.
	Digest string
	// moves are the IDs of the moves, sorted.
	moves []moveID
}

// MoveBytes is the size of an encoded move.
const MoveBytes = len(moveID{})

// Encode returns the moves in the form that DecodeApprovedPlan reads, MoveBytes for each.
func (p *ApprovedPlan) Encode() []byte {
	out := make([]byte, 0, len(p.moves)*MoveBytes)
	for _, id := range p.moves {
		out = append(out, id[:]...)
	}
	return out
}

// DecodeApprovedPlan returns the plan with a digest and with moves that Encode returned. It returns an error if the moves do not
// have that digest, for example because they are incomplete.
func DecodeApprovedPlan(digest string, encoded []byte) (*ApprovedPlan, error) {
	if len(encoded)%MoveBytes != 0 {
		return nil, fmt.Errorf("the moves of plan %s have %d bytes, which is no multiple of %d", digest, len(encoded), MoveBytes)
	}
	out := &ApprovedPlan{Digest: digest}
	for id := range slices.Chunk(encoded, MoveBytes) {
		out.moves = append(out.moves, moveID(id))
	}
	if got := digestOf(out.moves); got != digest {
		return nil, fmt.Errorf("the moves of plan %s have the digest %s", digest, got)
	}
	return out, nil
}

// covers reports whether all of the moves are part of the plan.
func (p *ApprovedPlan) covers(moves []moveID) bool {
	return !slices.ContainsFunc(moves, func(id moveID) bool {
		_, found := slices.BinarySearchFunc(p.moves, id, compareMoves)
		return !found
	})
}

func compareMoves(a, b moveID) int { return bytes.Compare(a[:], b[:]) }

// Unsaved returns the plan of a policy that is approved, but can't be carried out because it is not stored; nil if there is none.
// The caller must store it, and call Saved afterwards.
func (l *Ledger) Unsaved(policy string) *ApprovedPlan {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[policy]; a != nil && a.approved() && !a.permitted() {
		return a.content
	}
	return nil
}

// Saved declares that the plan with a digest is stored. It returns the objects to decide again because they may be patched now.
func (l *Ledger) Saved(policy, digest string) []Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[policy]
	if a == nil {
		return nil
	}
	if a.saved = digest; !a.permitted() {
		return nil
	}
	a.refused = false
	return a.outstanding()
}

// Unsave reports whether a stored plan of a policy is of no more use, because it is completed or no longer approved. Then the
// plan can't be carried out until it is stored again, and the caller should delete it. reported is the digest of the last approved
// plan that the policy's status reports as completed: before that, a later leader needs the stored plan to know it.
func (l *Ledger) Unsave(policy, reported string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[policy]
	switch {
	case a == nil:
		return true
	case a.permitted(), a.continued != nil && (a.approval == nil || !a.approval.Used && a.approval.Digest == a.continued.Digest):
		return false
	case a.approval != nil && a.approval.Used && a.approval.Digest == a.saved && reported != a.saved:
		return false
	}
	a.saved = ""
	return true
}

// Continue declares that an earlier leader was carrying out an approved plan of a policy. The policy gets no plan before Proceed
// declares that all of its objects are decided. If what has to be moved then is part of the approved plan, it is the rest of
// that plan. Call Continue before any object is decided.
func (l *Ledger) Continue(policy string, plan *ApprovedPlan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(policy)
	a.continued, a.continuing, a.saved = plan, true, plan.Digest
}

// Proceed declares that all objects of a policy have been decided of which an earlier leader was carrying out an approved plan.
// complete is false if some can't be decided: then the approval remains for them. Proceed returns false if an assessment of the
// policy is not concluded; then the caller must try again later. Otherwise the caller must call ConcludeAssessments.
func (l *Ledger) Proceed(policy string, complete bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[policy]
	if a == nil || !a.continuing {
		return true
	}
	g := l.guard(policy)
	if g.open > 0 && !g.long {
		return false
	}
	a.continuing, a.partial = false, !complete || len(a.objects) == 0 || l.skipped.Len() > 0
	a.settle()
	g.unplanned, g.dirty, l.concluded = true, true, true
	return true
}

// settle uses up the approval of a plan that an earlier leader was carrying out if nothing is left of it. That leader may have
// made the last move and not have reported it.
func (p *planning) settle() {
	if p.continued != nil && !p.continuing && !p.partial && p.undecided == 0 && p.moves == 0 && p.approval != nil {
		p.use()
		p.continued = nil
	}
}

// proceed makes the plan a continuation of the one that an earlier leader was carrying out, if that has all of the moves.
func (a *account) proceed() {
	if a.continued == nil {
		return
	}
	if !a.continued.covers(a.content.moves) {
		a.continued = nil
		return
	}
	a.content = a.continued
	a.current.Digest, a.current.Moves = a.content.Digest, len(a.content.moves)
}

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
	"encoding/hex"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/placement"
)

// A policy with mode Approved makes only the moves of an approved plan. Two checks see to it:
//
//   - The leader patches an object for the policy only while the approved digest is that of the plan, the plan has all moves
//     that are required, and the required move of the object is the one in the plan. See Ledger.Permit.
//   - The webhook, which makes the changes, may know newer data than the leader. So the patch names the move that the leader
//     means, in its field manager, and the webhook makes no other changes for the policy. See ParseFieldManager.

// Approval is the approval of a plan.
type Approval struct {
	// Digest is the digest of the approved plan.
	Digest string
	// By is the user who approved it, and At is when. Both are empty if that is not known.
	By string
	At time.Time
	// Known reports whether the digest is, or was, that of a plan since it was approved.
	Known bool
}

// approved reports whether the plan is approved, and has all moves that are required.
func (p *planning) approved() bool {
	return p.approval != nil && p.current != nil && p.approval.Digest == p.current.Digest && p.moves == p.planned
}

// outstanding returns the objects of the plan that have to be moved.
func (a *account) outstanding() []Key {
	var out []Key
	for key, f := range a.objects {
		if f.planned {
			out = append(out, key)
		}
	}
	return out
}

// Approve sets the newest approval of a policy; nil for none. It keeps an earlier approval of the same digest. It returns the objects to decide again, because they may be
// patched now.
func (l *Ledger) Approve(policy string, approval *Approval) []Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(policy)
	if before := a.approval; before != nil && approval != nil && before.Digest == approval.Digest {
		return nil
	}
	if a.approval = approval; !a.recognize() {
		return nil
	}
	return a.outstanding()
}

// recognize reports whether the plan is approved. If so, it marks the approval as known.
func (p *planning) recognize() bool {
	if !p.approved() {
		return false
	}
	// Reports share the approval.
	known := *p.approval
	known.Known, p.approval = true, &known
	return true
}

// Permit returns those verdicts for which an object may be patched now: those of policies that need no approval, and those
// whose move is part of an approved plan.
func (l *Ledger) Permit(key Key, uid types.UID, due Due) Due {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out Due
	permits := 0
	for _, v := range due {
		if v.Policy.NeedsApproval() {
			a := l.account(v.Policy.Name)
			f := a.objects[key]
			if permits == maxPermits || !a.approved() || !f.planned || f.move != moveBy(key, uid, v) {
				continue
			}
			permits++
		}
		out = append(out, v)
	}
	return out
}

// moveBy returns the ID of the move that a verdict requires.
func moveBy(key Key, uid types.UID, v *placement.Verdict) moveID {
	return identify(key, uid, encodeChanges(v.Changes))
}

const (
	// permitSeparator separates the permits from FieldManager, and from each other.
	permitSeparator = ":"
	// permitBytes is how many bytes of a move's ID a permit has. maxPermits is how many permits fit into a field manager, which
	// has at most 128 characters.
	permitBytes = 8
	maxPermits  = 6
)

func (id moveID) permit() string { return hex.EncodeToString(id[:permitBytes]) }

// FieldManagerFor returns the field manager of the patch of an object. It names the moves that need an approval.
func FieldManagerFor(key Key, uid types.UID, due Due) string {
	out := FieldManager
	for _, v := range due {
		if v.Policy.NeedsApproval() {
			out += permitSeparator + moveBy(key, uid, v).permit()
		}
	}
	return out
}

// ParseFieldManager reports whether a field manager is that of remediation. If the patch names moves that need an approval,
// permits reports whether a verdict on the object requires one of them; otherwise permits is nil.
func ParseFieldManager(manager string, key Key, uid types.UID) (ok bool, permits func(*placement.Verdict) bool) {
	name, list, named := strings.Cut(manager, permitSeparator)
	if name != FieldManager || !named {
		return name == FieldManager, nil
	}
	permitted := sets.New(strings.Split(list, permitSeparator)...)
	return true, func(v *placement.Verdict) bool {
		return v.Err == nil && permitted.Has(moveBy(key, uid, v).permit())
	}
}

// IsFieldManager reports whether a field manager is that of remediation.
func IsFieldManager(manager string) bool {
	ok, _ := ParseFieldManager(manager, Key{}, "")
	return ok
}

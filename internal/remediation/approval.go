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
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/placement"
)

// A policy with mode Approved makes only the moves of an approved plan. Two checks see to it:
//
//   - The leader patches an object for the policy only while the approved digest is that of the plan, the plan is stored, it has
//     all moves that are required, and the required move of the object is the one in the plan. See Ledger.Permit.
//   - The webhook, which makes the changes, may know newer data than the leader. So the patch names the move that the leader
//     means, in its field manager, and the webhook makes no other changes for the policy. See ParseFieldManager.
//
// A leader that takes over in the midst of an approved plan goes on with it if what is left to do is part of what is stored. See
// Ledger.Continue.
//
// If several policies with mode Approved move an object, it waits until the plans of all of them are approved: what one of
// them moves alone may differ from what the plans say.

// Approval is the approval of a plan.
type Approval struct {
	// Digest is the digest of the approved plan.
	Digest string
	// By is the user who approved it, and At is when. Both are empty if that is not known.
	By string
	At time.Time
	// Known reports whether the digest is, or was, that of a plan since it was approved. Used reports whether that plan was
	// completed; an equal plan that is made later needs another approval.
	Known, Used bool
}

// approved reports whether the plan is approved, and has all moves that are required. It can be carried out once it is stored.
func (p *planning) approved() bool {
	return p.approval != nil && !p.approval.Used && p.current != nil && p.approval.Digest == p.current.Digest && p.strays() == 0
}

// permitted reports whether the plan may be carried out.
func (p *planning) permitted() bool { return p.approved() && p.saved == p.current.Digest }

// outstanding returns the objects of the plan that have to be moved.
func (a *account) outstanding() []Key {
	var out []Key
	for key, f := range a.objects {
		if f.planned != unplanned {
			out = append(out, key)
		}
	}
	return out
}

// Approve sets the newest approval of a policy; nil for none. It keeps an earlier approval of the same digest. It returns the
// objects to decide again, because they may be patched now, or no longer. If the plan is approved now, see Unsaved.
func (l *Ledger) Approve(policy string, approval *Approval) []Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(policy)
	if before := a.approval; before != nil && approval != nil && before.Digest == approval.Digest {
		return nil
	}
	if a.continued != nil && (approval == nil || approval.Used || approval.Digest != a.continued.Digest) {
		if a.continued = nil; a.continuing {
			a.continuing = false
			l.guard(policy).unplanned, l.unplanned = true, true
		}
	}
	was := a.permitted()
	a.approval = approval
	a.settle()
	if a.recognize(); !a.permitted() && !was {
		return nil
	}
	a.refused = false
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

// Permit returns the verdicts for which an object may be patched now. If all moves of the object that need an approval are part
// of approved plans, it returns those with the others. Otherwise it returns only verdicts of policies that need none.
func (l *Ledger) Permit(key Key, uid types.UID, verdicts []*placement.Verdict) Due {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := DueOf(released(verdicts))
	if needs := due.needApproval(); len(needs) > 0 && l.permits(key, uid, needs) {
		return due
	}
	return DueOf(verdicts).needNoApproval()
}

// Permits reports whether an object may be patched for verdicts that Permit returned before.
func (l *Ledger) Permits(key Key, uid types.UID, due Due) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.permits(key, uid, due.needApproval())
}

// permits reports whether the moves of an object that verdicts require are part of approved plans. The caller holds mu.
func (l *Ledger) permits(key Key, uid types.UID, needs Due) bool {
	refused := slices.ContainsFunc(needs, func(v *placement.Verdict) bool {
		a := l.account(v.Policy.Name)
		f := a.objects[key]
		return !a.permitted() || f.planned != asPlanned || f.move != moveBy(key, uid, v)
	})
	if refused {
		// Whichever of the plans is approved last, the object must be decided again then.
		for _, v := range needs {
			l.account(v.Policy.Name).refused = true
		}
	}
	return !refused
}

// moveBy returns the ID of the move that a verdict requires.
func moveBy(key Key, uid types.UID, v *placement.Verdict) moveID {
	return identify(key, uid, encodeChanges(v.Changes))
}

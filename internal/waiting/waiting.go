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

// Package waiting says in words what existing objects wait for before remediation gives them what policies decide, when they go on, and
// which command lets them go on. The status of policies and all commands of the plugin use these words.
package waiting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// Reasons that only Wait has: no object that Berth has to patch waits for them in the status.
const (
	// Update means that remediation leaves existing objects to their updates.
	Update placementv1.WaitingReason = "Update"
	// Release means that a change exceeds the blast radius.
	Release placementv1.WaitingReason = "Release"
	// StageApproval means that the next stage of a rollout is not approved.
	StageApproval placementv1.WaitingReason = "StageApproval"
	// Soak means that a stage of a rollout has to pass without failures for a time.
	Soak placementv1.WaitingReason = "Soak"
	// Running means that a system has not reported yet that moved objects run in their new clusters.
	Running placementv1.WaitingReason = "Running"
)

// Wait is one thing for which an existing object, or the rollout of a policy, waits.
type Wait struct {
	Reason placementv1.WaitingReason
	// Policy is the name of the policy whose remediation or rollout waits.
	Policy string
	// Until is when the next window opens, if Reason is a window, or when the move counts as failed, if it is Running; zero for never.
	Until time.Time
	// Group is the name of the group that shares the policy's budget; empty for none.
	Group string
	// Mode is spec.remediation.mode of the policy: Manual, NewOnly, or Off. It is used only for Update, to say which update of the object is
	// decided.
	Mode placementv1.RemediationMode
	// Pause is the ID of the pause after failed patches or rollouts; empty if it is not known. It is used only for WaitingAfterFailures.
	Pause string
}

// orUpdate is appended to the words for a wait that an update of the object ends, too.
const orUpdate = ", or for an update that changes what the policy reads or writes"

// String returns the words that follow "it waits", such as `for an approval of the plan of PlacementPolicy p (kubectl berth approve p)`.
func (w Wait) String() string {
	if w.passes() {
		return w.phrase() + orUpdate
	}
	return w.phrase()
}

// passes reports whether an update of the object that changes what the policy reads or writes need not wait, so that it moves the object.
// It is true of waits for an approval of the plan, for a window, and for the budget.
func (w Wait) passes() bool {
	return slices.Contains([]placementv1.WaitingReason{placementv1.WaitingForApproval, placementv1.WaitingForWindow,
		placementv1.WaitingForBudget}, w.Reason)
}

// phrase returns the words of String, without those about updates that need not wait.
func (w Wait) phrase() string {
	of := "PlacementPolicy " + w.Policy
	switch w.Reason {
	case placementv1.WaitingForApproval:
		return fmt.Sprintf("for an approval of the plan of %s (kubectl berth approve %s)", of, w.Policy)
	case placementv1.WaitingForWindow:
		opens := "none of which ever opens"
		if !w.Until.IsZero() {
			opens = fmt.Sprintf("the next of which opens at %s", w.Until.UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("for a window of %s, %s", of, opens)
	case placementv1.WaitingForBudget:
		shared := ""
		if w.Group != "" {
			shared = fmt.Sprintf(", which the policies of the group %s share", w.Group)
		}
		return fmt.Sprintf("for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of %s%s", of, shared)
	case placementv1.WaitingForAvailability:
		return fmt.Sprintf("until fewer objects of %s are unavailable (spec.remediation.budget.maxUnavailable)", of)
	case placementv1.WaitingAfterFailures:
		command := "the policy's condition Paused has the command"
		if w.Pause != "" {
			command = fmt.Sprintf("kubectl annotate plpol %s --overwrite %s=%s", w.Policy, placementv1.ResumeAfterFailuresAnnotation, w.Pause)
		}
		return fmt.Sprintf("until the patches of %s, of which too many failed, are resumed (%s)", of, command)
	case placementv1.WaitingForDisruptionBudget:
		return "until a PodDisruptionBudget allows the Pod's eviction"
	case Release:
		return fmt.Sprintf("until the remediation of %s, which a change paused, is resumed (the policy's condition Paused has the command)", of)
	case StageApproval:
		return fmt.Sprintf("for an approval of the next stage of %s (kubectl berth approve %s)", of, w.Policy)
	case Running:
		text := fmt.Sprintf("until a system of spec.delivery of %s reports that the object runs in its new clusters", of)
		if !w.Until.IsZero() {
			text += "; without such a report, the move fails at " + w.Until.UTC().Format(time.RFC3339)
		}
		return text
	case Soak:
		return fmt.Sprintf("until a stage of %s has soaked (status.rollout.message says until when)", of)
	}
	return w.update(of)
}

// update returns the words of phrase for the reason Update. They say which update of the object ends the wait: in mode Manual, one that
// changes what the policy reads or writes; in NewOnly, one that changes what it writes; in Off, the next one. of is the policy, as text.
func (w Wait) update(of string) string {
	update := fmt.Sprintf("an update that changes what %s reads or writes", of)
	switch w.Mode {
	case placementv1.RemediationNewOnly:
		update = fmt.Sprintf("an update that changes what %s writes", of)
	case placementv1.RemediationOff:
		update = "its next update"
	}
	return fmt.Sprintf("for %s (spec.remediation.mode of %s is %s)", update, of, w.Mode)
}

// Waits are all that an object waits for, in the order in which it does.
type Waits []Wait

// String returns the words that follow "it waits", those of each wait joined by ", and then "; "" if the object waits for nothing. If an
// update of the object need not wait for any of them, they say so.
func (w Waits) String() string {
	texts, passes := make([]string, len(w)), len(w) > 0
	for i, one := range w {
		texts[i], passes = one.phrase(), passes && one.passes()
	}
	out := strings.Join(texts, ", and then ")
	if passes {
		out += orUpdate
	}
	return out
}

// Of returns what an existing object of a namespace waits for at the time now, before remediation of a policy patches it; nil for nothing.
// In mode Manual, NewOnly, or Off, that is an update of the object alone. Otherwise it is, in this order, those that apply of the approval
// of the plan, the end of a pause, a window, and a turn within the budget. s is the status of the policy, which tells of approvals and
// pauses. Stages of a rollout do not count, and neither does what only the leader knows, such as which objects are unavailable.
func Of(p *placement.Policy, s placementv1.PlacementPolicyStatus, namespace string, now time.Time) (out Waits) {
	switch p.Remediation {
	case placementv1.RemediationManual, placementv1.RemediationNewOnly, placementv1.RemediationOff:
		return Waits{{Reason: Update, Policy: p.Name, Mode: p.Remediation}}
	case placementv1.RemediationApproved:
		if s.Plan == nil || s.Plan.Approval == nil || s.Plan.State != placementv1.PlanInProgress {
			out = append(out, Wait{Reason: placementv1.WaitingForApproval, Policy: p.Name})
		}
	}
	if s.Paused != nil && within(s.Paused.Namespaces, namespace) {
		out = append(out, Wait{Reason: Release, Policy: p.Name})
	}
	if f := s.Failures; f != nil && f.Pause != "" && within(f.PausedNamespaces, namespace) {
		out = append(out, Wait{Reason: placementv1.WaitingAfterFailures, Policy: p.Name, Pause: f.Pause})
	}
	if open, opens := p.Windows.Open(now); !open {
		out = append(out, Wait{Reason: placementv1.WaitingForWindow, Policy: p.Name, Until: opens})
	}
	if b := p.Budget; b.Group != "" || b.MaxPerMinute+b.MaxConcurrent+b.PerNamespace > 0 {
		out = append(out, Wait{Reason: placementv1.WaitingForBudget, Policy: p.Name, Group: b.Group})
	}
	return out
}

// within reports whether a pause includes a namespace, "" for cluster-scoped objects. namespaces are those of the pause; none stands for
// all.
func within(namespaces []string, namespace string) bool {
	return len(namespaces) == 0 || slices.Contains(namespaces, namespace)
}

// OfRollout returns what the rollout of a policy waits for: an approval or the time of a stage. It returns nil if the rollout waits for
// neither.
func OfRollout(policy string, r *placementv1.RolloutStatus) Waits {
	switch {
	case r == nil:
		return nil
	case r.State == placementv1.RolloutWaitingForApproval:
		return Waits{{Reason: StageApproval, Policy: policy}}
	case r.State == placementv1.RolloutSoaking:
		return Waits{{Reason: Soak, Policy: policy}}
	}
	return nil
}

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

package policystatus

import (
	"fmt"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/waiting"
)

// maxWaitsFor is the maximum number of bytes of status.waitsFor. It equals the schema's limit.
const maxWaitsFor = 256

// waiting sets status.waiting: for each reason, how many objects that Berth has to patch wait, and a message.
func (s *setter) waiting(f Facts) {
	s.out.Waiting = waitingObjects(f.Waiting, s.out.Plan)
	for i := range s.out.Waiting {
		entry := &s.out.Waiting[i]
		entry.Message = printable.Truncate(f.wait(entry.Reason).String(), maxFindingMessage)
	}
}

// wait returns what the objects wait for that status.waiting counts for a reason. It has the reason and the policy, or the other policy
// whose window is closed or whose spec.remediation.budget.maxUnavailable is reached. By the reason, it also has the time at which the
// window opens, spec.remediation.budget.group, or the pause after failures.
func (f Facts) wait(reason placementv1.WaitingReason) waiting.Wait {
	out := waiting.Wait{Reason: reason, Policy: f.State.Policy.Name}
	other := func(policy string) {
		if policy != "" {
			out.Policy = policy
		}
	}
	switch w := f.Waiting; reason {
	case placementv1.WaitingForWindow:
		out.Until = w.Opens
		other(w.ClosedFor)
	case placementv1.WaitingForAvailability:
		other(w.UnavailableFor)
	case placementv1.WaitingForBudget:
		out.Group = f.State.Policy.Budget.Group
	case placementv1.WaitingAfterFailures:
		out.Pause = w.Pause
	}
	return out
}

// waitsFor returns status.waitsFor, a summary of what objects and the rollout of a policy wait for, such as "Budget (3), Approval (2)".
// That may be the release of a change, too.
func waitsFor(status placementv1.PlacementPolicyStatus, policy string) string {
	var out []string
	for _, w := range status.Waiting {
		out = append(out, fmt.Sprintf("%s (%d)", w.Reason, w.Objects))
	}
	if status.Paused != nil {
		out = append(out, string(waiting.Release))
	}
	if n := len(status.Moving); n > 0 {
		out = append(out, fmt.Sprintf("%s (%d)", waiting.Running, n))
	}
	for _, w := range waiting.OfRollout(policy, status.Rollout) {
		out = append(out, string(w.Reason))
	}
	return printable.Truncate(strings.Join(out, ", "), maxWaitsFor)
}

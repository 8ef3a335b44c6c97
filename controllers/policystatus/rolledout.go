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
	"cmp"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/status"
)

// rolledOut returns the condition RolledOut: True once the newest version decides everywhere, and False before, and while
// spec.rollout.revision puts another one in force. It returns nil if the policy has no rollout.
func rolledOut(s *placementv1.RolloutStatus, f Facts) *metav1.Condition {
	reasons := map[placementv1.RolloutState]string{
		placementv1.RolloutPaused: placementv1.ReasonRolloutPaused, placementv1.RolloutWaitingForApproval: placementv1.ReasonWaitingForApproval,
		// These have a message if the rollout of the next version can't begin.
		placementv1.RolloutComplete: placementv1.ReasonRolloutPaused, placementv1.RolloutRolledBack: placementv1.ReasonRolloutPaused,
	}
	switch {
	case s == nil && !f.RolloutPending:
		return nil
	case f.State.Err != nil && s != nil:
		why := "the rollout does not go on, because a version of the policy can't be loaded: see the Compiled condition; "
		if _, waits := errors.AsType[*policy.NotServedError](f.State.Err); waits {
			why = "the rollout does not go on, because the newest version reads a type that the API server does not serve: see the Replicated " +
				"condition; "
		}
		return status.False(placementv1.ReasonRollingOut, why+whereDecided(s))
	case f.RolloutPending:
		return status.False(placementv1.ReasonRollingOut, "the newest version is in force nowhere: Berth has to store it, or the version "+
			"before, as a ControllerRevision first; if Berth can't, remove spec.rollout to put the newest version in force everywhere")
	case s.State == placementv1.RolloutComplete && s.Message == "":
		return status.True(placementv1.ReasonRolledOut, whereDecided(s))
	case s.State == placementv1.RolloutRolledBack && s.Message == "":
		return status.False(placementv1.ReasonRolledBack, whereDecided(s)+", because spec.rollout.revision says so: remove it to roll out the "+
			"version in the spec")
	default:
		return status.False(cmp.Or(reasons[s.State], placementv1.ReasonRollingOut), whereDecided(s)+": "+s.Message)
	}
}

// whereDecided describes which revision decides in which stages, such as "revision 7 decides everywhere".
func whereDecided(s *placementv1.RolloutStatus) string {
	if rollout.PositionOf(s).IsSingle() {
		return fmt.Sprintf("revision %d decides everywhere", s.Revision)
	}
	everywhere := "no version decides"
	if s.PreviousRevision != 0 {
		everywhere = fmt.Sprintf("revision %d decides", s.PreviousRevision)
	}
	if n := number(s.Reached); n > 0 {
		return fmt.Sprintf("revision %d decides in the first %d of %d stages, and %s everywhere else", s.Revision, n, len(s.Stages), everywhere)
	}
	return fmt.Sprintf("revision %d decides in no stage yet, and %s everywhere", s.Revision, everywhere)
}

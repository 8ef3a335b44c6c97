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
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/status"
)

// unreachable returns the condition Replicated, which is False, for a remote engine that does not decide: the reason says why it does not,
// such as CircuitOpen, Unauthorized, or NotAnswering, whatever else is missing. It keeps the message of old if that differs only in the
// error of the engine. data is the condition as far as it concerns data, as Facts.data returns it.
func (f Facts) unreachable(old placementv1.PlacementPolicyStatus, data *metav1.Condition) *metav1.Condition {
	reason, what := trouble(*f.Health)
	var besides string
	switch {
	case data.Reason == placementv1.ReasonPushFailed:
		// An Event has this message, and the error may name objects.
		besides = "Berth can't push what the policy needs to the engine; "
	case data.Status != metav1.ConditionTrue && data.Reason != placementv1.ReasonReplicating:
		besides = data.Message + "; "
	}
	message := besides + fmt.Sprintf("since %s, %s; a request for what the policy matches is %s: ",
		f.Health.Since.UTC().Format(time.RFC3339), what,
		undecided(f.State.Policy))
	if before := meta.FindStatusCondition(old.Conditions, placementv1.ConditionReplicated); before != nil && before.Reason == reason &&
		strings.HasPrefix(before.Message, message) {
		// Keep the first error of an outage. Later ones differ only in port numbers or in the number of attempts,
		// and each would be a new status.
		return status.False(reason, before.Message)
	}
	return status.False(reason, message+fmt.Sprint(f.Health.Err))
}

// lacks reports whether the remote engine does not decide because it lacks what Berth pushes: it says so itself or, if reason is
// ReasonPushFailed, it refuses the request or has no decision. It is false while the circuit breaker is open. reason is that of the
// condition that Facts.data returns.
func (f Facts) lacks(reason string) bool {
	fault, ok := errors.AsType[*engine.RemoteError](f.Health.Err)
	if !ok || f.Health.BreakerOpen {
		return false
	}
	return fault.Fault == engine.FaultIncomplete ||
		reason == placementv1.ReasonPushFailed && (fault.Fault == engine.FaultUndefined || fault.Fault == engine.FaultRefused)
}

// asked describes for a message an engine without a known failure: that it answers, or that this leader has not queried it yet.
func (f Facts) asked() string {
	if !f.Health.Queried {
		return fmt.Sprintf("the leader has not queried the engine %s yet", f.Health.Endpoint)
	}
	return fmt.Sprintf("the engine %s answers", f.Health.Endpoint)
}

// trouble returns the reason of the condition Replicated, and a description, for a remote engine that is known to be unable to decide.
// Neither is ever empty: for an error of no known kind, the reason is NotAnswering.
func trouble(h placement.RemoteHealth) (reason, what string) {
	if h.BreakerOpen {
		return placementv1.ReasonCircuitOpen, "the circuit breaker of the engine is open, because requests kept failing"
	}
	if fault, ok := errors.AsType[*engine.RemoteError](h.Err); ok {
		switch fault.Fault {
		case engine.FaultUnauthorized:
			return placementv1.ReasonUnauthorized, "the engine refuses Berth's token or certificate"
		case engine.FaultCredentials:
			return placementv1.ReasonCredentialsUnusable, "a Secret for the engine is missing or can't be used"
		case engine.FaultCircuitOpen:
			return placementv1.ReasonCircuitOpen, "the circuit breaker of the engine is open, because requests kept failing"
		case engine.FaultIncomplete:
			return placementv1.ReasonNotAnswering, "the engine lost what Berth pushed"
		case engine.FaultUndefined, engine.FaultRefused:
			return placementv1.ReasonNotAnswering, "the engine returns no decision for this policy"
		}
	}
	return placementv1.ReasonNotAnswering, "the engine gives no answer, or none that can be read"
}

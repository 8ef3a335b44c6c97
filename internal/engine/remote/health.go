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

package remote

import (
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

// recoveryPeriod is the time without a fault after which a failed policy or endpoint counts as healthy again. It keeps
// the state from changing with each request.
const recoveryPeriod = 10 * time.Second

// health is the result of a series of attempts to query an engine: the present fault, since when there have been faults, and whether the
// last attempt succeeded. The zero value means no attempts.
type health struct {
	// attempted reports whether there was an attempt.
	attempted bool
	// fault is the last fault; nil if there was none, or if the policy or endpoint counts as healthy again.
	fault *engine.RemoteError
	// since is the time of the first fault while the policy or endpoint does not count as healthy, and last the time of the last fault. Both
	// keep their values after fault becomes nil.
	since, last time.Time
	// answering reports whether the last attempt succeeded. Only then fault expires, recoveryPeriod after last.
	answering bool
}

// failed records an attempt that failed with a fault.
func (h *health) failed(fault *engine.RemoteError, now time.Time) {
	if h.fault == nil {
		h.since = now
	}
	h.attempted, h.fault, h.last, h.answering = true, fault, now, false
}

// answered records an attempt that succeeded. It removes the fault only if the last one is at least recoveryPeriod old.
func (h *health) answered(now time.Time) {
	h.attempted, h.answering = true, true
	h.expire(now)
}

// expire removes the fault if the last attempt succeeded and the last fault is at least recoveryPeriod old.
func (h *health) expire(now time.Time) {
	if h.answering && now.Sub(h.last) >= recoveryPeriod {
		h.fault = nil
	}
}

// kind returns the kind of the fault; empty for none.
func (h *health) kind() engine.Fault {
	if h.fault == nil {
		return ""
	}
	return h.fault.Fault
}

// differs reports whether two states of a policy's health differ in whether the engine was queried, whether the circuit breaker is open, or
// the kind of the fault. Other fields, such as the text of the error and since when there have been faults, do not count.
func differs(x, y placement.RemoteHealth) bool {
	return x.Queried != y.Queried || x.BreakerOpen != y.BreakerOpen || engine.FaultOf(x.Err) != engine.FaultOf(y.Err)
}

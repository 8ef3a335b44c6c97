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

package embedded

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/engine"
)

const (
	// quarantineAfter is the number of consecutive evaluations that must exceed their deadline before a quarantine begins.
	quarantineAfter = 3
	// quarantinePause is the time without evaluations before the first trial. It doubles with each trial that fails.
	quarantinePause = 10 * time.Second
	// maxQuarantinePause is the maximum of that time.
	maxQuarantinePause = 5 * time.Minute
)

// outcome is the result of an evaluation, as far as the quarantine considers it.
type outcome int

const (
	// outcomeUnknown is the outcome of an evaluation that did not take place, or whose caller gave it up early.
	outcomeUnknown outcome = iota
	// outcomeEnded is the outcome of an evaluation that finished in time, with a decision or an error.
	outcomeEnded
	// outcomeTimedOut is the outcome of an evaluation that used all of its time and did not finish.
	outcomeTimedOut
)

// quarantine stops evaluations of a policy that keep exceeding their deadline. After a pause it admits one trial at a
// time, and only when all abandoned evaluations have ended. So a policy that can't be interrupted takes no more slots
// than it already had. It is safe for concurrent use.
type quarantine struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// timeouts counts consecutive evaluations that exceeded their deadline.
	timeouts int
	// since is the start of the quarantine; zero if there is none. until is the earliest time of the next trial, and pause
	// the current waiting time.
	since, until time.Time
	pause        time.Duration
	// trial reports whether a trial is running.
	trial bool
	// abandoned is the number of evaluations that were abandoned and still run.
	abandoned int
}

// admit admits an evaluation. The caller must call recordOutcome for each admitted evaluation. trial reports whether
// the evaluation is a trial. The error is an *engine.QuarantinedError.
func (q *quarantine) admit() (trial bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since.IsZero() {
		return false, nil
	}
	if q.trial || q.abandoned > 0 || q.clock.Now().Before(q.until) {
		return false, q.refusal()
	}
	q.trial = true
	return true, nil
}

// inForceError returns an error if a quarantine is in force; else nil. It is for evaluations that were admitted before.
func (q *quarantine) inForceError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since.IsZero() {
		return nil
	}
	return q.refusal()
}

func (q *quarantine) refusal() *engine.QuarantinedError {
	return &engine.QuarantinedError{After: quarantineAfter, Since: q.since, Until: q.until}
}

// recordOutcome records the outcome of an admitted evaluation. It returns whether that began or ended the quarantine.
func (q *quarantine) recordOutcome(trial bool, o outcome) (began, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if trial {
		q.trial = false
		switch o {
		case outcomeEnded:
			q.timeouts, q.since, q.pause = 0, time.Time{}, 0
			return false, true
		case outcomeTimedOut:
			q.pause = min(2*q.pause, maxQuarantinePause)
			q.until = q.clock.Now().Add(q.pause)
		}
		return false, false
	}
	switch {
	case o == outcomeUnknown || !q.since.IsZero():
		// The evaluation began before the quarantine, so its outcome is no news.
		return false, false
	case o == outcomeEnded:
		q.timeouts = 0
		return false, false
	}
	if q.timeouts++; q.timeouts < quarantineAfter {
		return false, false
	}
	q.since, q.pause = q.clock.Now(), quarantinePause
	q.until = q.since.Add(q.pause)
	return true, false
}

// count adds n to the number of evaluations that were abandoned and still run.
func (q *quarantine) count(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.abandoned += n
}

// quarantined returns since when the policy has been in quarantine.
func (q *quarantine) quarantined() (since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.since, !q.since.IsZero()
}

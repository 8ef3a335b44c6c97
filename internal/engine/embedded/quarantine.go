package embedded

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/engine"
)

const (
	// quarantineAfter is how many evaluations in a row have to run into their deadline.
	quarantineAfter = 3
	// quarantinePause is how long a policy is then not evaluated. It doubles with each trial that fails.
	quarantinePause = 10 * time.Second
	// maxQuarantinePause bounds it.
	maxQuarantinePause = 5 * time.Minute
)

// outcome is how an evaluation went, as far as it tells of the policy.
type outcome int

const (
	// untold is that of an evaluation that did not take place, or that its caller gave up early.
	untold outcome = iota
	// ended is that of one which came to an end in time, be it an error.
	ended
	// overdue is that of one which had all of its time and did not come to an end.
	overdue
)

// quarantine keeps a policy from being evaluated that keeps running into its deadline. After a pause one evaluation is
// tried, at a time, and not before those that were given up have ended: a policy that can't be cut off takes no more
// slots than it had. It is safe for concurrent use.
type quarantine struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// overdue counts evaluations in a row.
	overdue int
	// since is zero for a policy that is not in quarantine; until is when the next trial may be, and pause what was
	// waited for that.
	since, until time.Time
	pause        time.Duration
	// trial says that one is under way.
	trial bool
	// abandoned are evaluations that were given up and run on.
	abandoned int
}

// admit lets an evaluation take place. Each that is admitted has to settle. trial says that it is one. The error is an
// *engine.QuarantinedError.
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

// stands is the error of a policy that is in quarantine, for evaluations that were admitted before.
func (q *quarantine) stands() error {
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

// settle says how an evaluation that was admitted went, and returns whether that began or ended the quarantine.
func (q *quarantine) settle(trial bool, o outcome) (began, left bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if trial {
		q.trial = false
		switch o {
		case ended:
			q.overdue, q.since, q.pause = 0, time.Time{}, 0
			return false, true
		case overdue:
			q.pause = min(2*q.pause, maxQuarantinePause)
			q.until = q.clock.Now().Add(q.pause)
		}
		return false, false
	}
	switch {
	case o == untold || !q.since.IsZero():
		// What was under way when the quarantine began says nothing new.
		return false, false
	case o == ended:
		q.overdue = 0
		return false, false
	}
	if q.overdue++; q.overdue < quarantineAfter {
		return false, false
	}
	q.since, q.pause = q.clock.Now(), quarantinePause
	q.until = q.since.Add(q.pause)
	return true, false
}

// count changes the number of evaluations that were given up and run on.
func (q *quarantine) count(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.abandoned += n
}

// quarantined says since when the policy is.
func (q *quarantine) quarantined() (since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.since, !q.since.IsZero()
}

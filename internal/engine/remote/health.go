package remote

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

// steady is how long there has to be no fault for what failed to count as healthy, so that its state is not written at
// each request.
const steady = 10 * time.Second

// health is how a series of attempts fares. The zero value is that of none.
type health struct {
	// asked says that there was one.
	asked bool
	// fault is the last one, for as long as it counts; nil for none.
	fault *engine.RemoteError
	// since is when the first fault of those that count was, and last when the last one was.
	since, last time.Time
	// answering says that the last attempt succeeded.
	answering bool
}

func (h *health) failed(fault *engine.RemoteError, now time.Time) {
	if h.fault == nil {
		h.since = now
	}
	h.asked, h.fault, h.last, h.answering = true, fault, now, false
}

func (h *health) answered(now time.Time) {
	h.asked, h.answering = true, true
	h.settle(now)
}

// settle forgets the fault once it is long enough ago, if there was a success since.
func (h *health) settle(now time.Time) {
	if h.answering && now.Sub(h.last) >= steady {
		h.fault = nil
	}
}

// recovered forgets the fault.
func (h *health) recovered() { h.fault = nil }

// kind is that of the fault; empty for none.
func (h *health) kind() engine.Fault {
	if h.fault == nil {
		return ""
	}
	return h.fault.Fault
}

// differs says whether a policy's health changed in more than words.
func differs(x, y placement.RemoteHealth) bool {
	return x.Asked != y.Asked || x.Open != y.Open || faultOf(x.Err) != faultOf(y.Err)
}

func faultOf(err error) engine.Fault {
	if fault, ok := errors.AsType[*engine.RemoteError](err); ok {
		return fault.Fault
	}
	return ""
}

package remediation

import (
	"container/list"
	"context"
	"sync"
)

// laneWidth is how many errands are run at once in a lane. An engine has requests of admission to answer as well.
const laneWidth = 8

// lanes run beside the workers what waits for somebody else: in each lane a few errands at once, and the others after
// them in their order. So one who is slow holds up his own lane, and nothing else. It is safe for concurrent use.
type lanes struct {
	mu sync.Mutex
	// ctx is nil before start.
	ctx    context.Context
	byName map[string]*lane
}

// lane is one with something to do.
type lane struct {
	name    string
	waiting list.List
	running int
}

// errand is what is to be run once.
type errand struct {
	run func(context.Context)
	in  *lane
	// at is its place among those that wait; nil once it runs.
	at *list.Element
}

func newLanes() *lanes { return &lanes{byName: map[string]*lane{}} }

// start has errands run until ctx ends. Those that wait then are never run.
func (l *lanes) start(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
	for _, in := range l.byName {
		l.staff(in)
	}
}

// add has an errand run in a lane. It does not wait.
func (l *lanes) add(name string, run func(context.Context)) *errand {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byName[name]
	if in == nil {
		in = &lane{name: name}
		l.byName[name] = in
	}
	e := &errand{run: run, in: in}
	e.at = in.waiting.PushBack(e)
	l.staff(in)
	return e
}

// drop has an errand not run, if it is not too late.
func (l *lanes) drop(e *errand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.at != nil {
		e.in.waiting.Remove(e.at)
		e.at = nil
	}
}

// staff has as many run what waits in a lane as there may be. The caller holds mu.
func (l *lanes) staff(in *lane) {
	for l.ctx != nil && l.ctx.Err() == nil && in.running < laneWidth && in.waiting.Len() > 0 {
		in.running++
		e := in.next()
		go func() {
			for ; e != nil; e = l.done(in) {
				e.run(l.ctx)
			}
		}()
	}
}

// next takes the first that waits; nil if none does. The caller holds mu.
func (in *lane) next() *errand {
	first := in.waiting.Front()
	if first == nil {
		return nil
	}
	e := in.waiting.Remove(first).(*errand)
	e.at = nil
	return e
}

// done says that an errand of a lane was run, and returns the next for the same goroutine; nil if it may go.
func (l *lanes) done(in *lane) *errand {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil {
		if e := in.next(); e != nil {
			return e
		}
	}
	in.running--
	if in.running == 0 && in.waiting.Len() == 0 {
		delete(l.byName, in.name)
	}
	return nil
}

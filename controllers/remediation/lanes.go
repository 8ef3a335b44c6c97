package remediation

import (
	"container/list"
	"context"
	"sync"
)

// laneWidth is how many tasks of one queue run concurrently. The limit leaves capacity of an engine for admission
// requests.
const laneWidth = 8

// lanes runs tasks that wait for a remote engine, outside of the controller's workers. Each lane is a first-in,
// first-out queue with a limit on running tasks. So a slow engine delays only its own queue. It is safe for concurrent
// use.
type lanes struct {
	mu sync.Mutex
	// ctx is nil before start.
	ctx    context.Context
	byName map[string]*lane
}

// lane is a queue that has waiting or running tasks.
type lane struct {
	name    string
	waiting list.List
	running int
}

// errand is a task that runs once.
type errand struct {
	run func(context.Context)
	in  *lane
	// at is the task's place in the queue, or nil once it runs or is dropped.
	at *list.Element
}

func newLanes() *lanes { return &lanes{byName: map[string]*lane{}} }

// start runs tasks until ctx ends. Tasks that still wait then never run.
func (l *lanes) start(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
	for _, in := range l.byName {
		l.staff(in)
	}
}

// add enqueues a task. It does not block.
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

// drop removes a task from its queue unless it has started.
func (l *lanes) drop(e *errand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.at != nil {
		e.in.waiting.Remove(e.at)
		e.at = nil
	}
}

// staff starts goroutines for waiting tasks, up to laneWidth. The caller holds mu.
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

// next removes the first waiting task and returns it, or nil if there is none. The caller holds mu.
func (in *lane) next() *errand {
	first := in.waiting.Front()
	if first == nil {
		return nil
	}
	e := in.waiting.Remove(first).(*errand)
	e.at = nil
	return e
}

// done records the end of a task. It returns the next task for the same goroutine, or nil if the goroutine must end.
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

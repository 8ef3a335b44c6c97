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

package remediator

import (
	"container/list"
	"context"
	"sync"
)

// maxRunningTasks is how many tasks of one queue run concurrently. The limit leaves capacity of an engine for admission
// requests.
const maxRunningTasks = 8

// taskQueues runs tasks that wait for a remote engine, outside of the controller's workers. Each taskQueue is a first-in,
// first-out queue with a limit on running tasks. So a slow engine delays only its own queue. It is safe for concurrent
// use.
type taskQueues struct {
	mu sync.Mutex
	// ctx is nil before start.
	ctx    context.Context
	byName map[string]*taskQueue
}

// taskQueue is a queue that has waiting or running tasks.
type taskQueue struct {
	name    string
	waiting list.List
	running int
}

// task is a task that runs once.
type task struct {
	run func(context.Context)
	in  *taskQueue
	// at is the task's place in the queue, or nil once it runs or is dropped.
	at *list.Element
}

func newTaskQueues() *taskQueues { return &taskQueues{byName: map[string]*taskQueue{}} }

// start runs tasks until ctx ends. Tasks that still wait then never run.
func (l *taskQueues) start(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
	for _, in := range l.byName {
		l.staff(in)
	}
}

// add enqueues a task. It does not block.
func (l *taskQueues) add(name string, run func(context.Context)) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byName[name]
	if in == nil {
		in = &taskQueue{name: name}
		l.byName[name] = in
	}
	e := &task{run: run, in: in}
	e.at = in.waiting.PushBack(e)
	l.staff(in)
	return e
}

// drop removes a task from its queue unless it has started.
func (l *taskQueues) drop(e *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.at != nil {
		e.in.waiting.Remove(e.at)
		e.at = nil
	}
}

// staff starts goroutines for waiting tasks, up to maxRunningTasks. The caller holds mu.
func (l *taskQueues) staff(in *taskQueue) {
	for l.ctx != nil && l.ctx.Err() == nil && in.running < maxRunningTasks && in.waiting.Len() > 0 {
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
func (in *taskQueue) next() *task {
	first := in.waiting.Front()
	if first == nil {
		return nil
	}
	e := in.waiting.Remove(first).(*task)
	e.at = nil
	return e
}

// done records the end of a task. It returns the next task for the same goroutine, or nil if the goroutine must end.
func (l *taskQueues) done(in *taskQueue) *task {
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

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
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/objectcache"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

const (
	// queryTimeout is how long a remote engine may take for one object, the same as in admission.
	queryTimeout = 4 * time.Second
	// failureDelay is the first delay before an object is decided again whose decision failed temporarily, and failureDelayMax the longest.
	// Recovered shortens both.
	failureDelay    = 30 * time.Second
	failureDelayMax = 5 * time.Minute
	// failureJitter is the maximum jitter, as a fraction of the delay. It spreads objects that failed at the same time.
	failureJitter = 0.5
	// maxRunningTasks is how many tasks of one queue run concurrently, and how many queries to one engine. The limits leave capacity of an
	// engine for admission requests.
	maxRunningTasks = 8
)

// errPending is the error of a policy whose remote engine has not been queried. Then the object is decided again in the remoteQueue.
var errPending = errors.New("the remote engine has not been queried yet")

// endpointsOf returns the endpoints of the remote engines that decide an object, sorted and separated by spaces; "" for none.
func endpointsOf(verdicts []*placement.Verdict) string {
	var out []string
	for _, v := range verdicts {
		if engine, ok := v.Policy.Remote(); ok {
			out = append(out, engine.Health().Endpoint)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// isTemporary reports whether a policy could not decide an object for a reason that may go away without a change of the cluster: its engine
// does not respond, an evaluation exceeded its deadline, or its data was too old.
func isTemporary(v *placement.Verdict) bool {
	_, unavailable := errors.AsType[*engine.RemoteError](v.Err)
	_, stale := errors.AsType[*engine.StaleError](v.Err)
	return unavailable || stale || errors.Is(v.Err, engine.ErrDeadline)
}

// remoteQueue decides and patches the objects that remote engines decide, so that no worker of the controller waits for an engine. A patch
// waits for engines as well, because the API server calls the webhook, which queries them. Objects that the same engines decide share a
// first-in, first-out queue, so a slow engine delays no others. The remoteQueue is safe for concurrent use.
type remoteQueue struct {
	objects *objectcache.Cache // Enqueues objects for the workers.
	// reconcile passes a task's object through the phases. It returns the delay before the object must be decided again anyway, or 0.
	reconcile func(context.Context, *remoteTask) time.Duration
	failures  workqueue.TypedRateLimiter[remediation.Key] // The backoff after temporary failures to decide, also without an engine.

	// ctx is the context of the tasks. When it ends, tasks that still wait never run. It is set before any task is added.
	ctx   context.Context
	slots sync.Map // A *semaphore.Weighted for each endpoint, which limits the concurrent queries to it.

	mu sync.Mutex
	// tasks holds the task of each object that waits or runs, at most one. A task is removed when it ends, whether or not the object must be
	// decided again, or when other engines have to decide the object.
	tasks map[remediation.Key]*remoteTask
	// queues holds the queue of each set of engines that has waiting or running tasks, by the text that endpointsOf returns.
	queues map[string]*taskQueue
	// undecided holds, for each object, the names of the policies that could not decide it at the last attempt for a temporary reason, with
	// or without a remote engine. Recovered enqueues the objects of a policy again.
	undecided map[remediation.Key][]string
}

// taskQueue has the tasks of the objects that one set of remote engines decides, of which at most maxRunningTasks run at the same time. It
// exists while it has tasks.
type taskQueue struct {
	waiting []*remoteTask // The tasks that have not begun to run, the oldest first. Some may have been dropped.
	running int           // The number of goroutines that run tasks of the queue.
}

// remoteTask decides and patches an object in a taskQueue. It holds neither the object nor responses of engines.
type remoteTask struct {
	key       remediation.Key // The object.
	endpoints string          // What endpointsOf returns for the object.
	// running is set once the task runs, and decided once commit has accepted its decision.
	running, decided bool
	again            atomic.Bool // Set if the object must be enqueued once the task has ended.
}

// newRemoteQueue returns an empty queue, whose ctx must be set before it is used.
func newRemoteQueue(objects *objectcache.Cache, reconcile func(context.Context, *remoteTask) time.Duration) *remoteQueue {
	return &remoteQueue{
		objects: objects, reconcile: reconcile,
		failures: workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](failureDelay, failureDelayMax),
		tasks:    map[remediation.Key]*remoteTask{}, queues: map[string]*taskQueue{}, undecided: map[remediation.Key][]string{},
	}
}

// takeOver adds a task for an object if engines at the endpoints decide it. It drops a task for other endpoints, whose decision then does
// not count, unless that decision was already accepted. It reports whether the queue decides or patches the object, by a new or an existing
// task, so that a worker must not.
func (r *remoteQueue) takeOver(key remediation.Key, endpoints string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tasks[key]; t != nil {
		if t.decided || t.endpoints == endpoints {
			t.again.Store(t.running)
			return true
		}
		delete(r.tasks, key)
	}
	if endpoints == "" {
		return false
	}
	q := r.queues[endpoints]
	if q == nil {
		q = &taskQueue{}
		r.queues[endpoints] = q
	}
	t := &remoteTask{key: key, endpoints: endpoints}
	q.waiting, r.tasks[key] = append(q.waiting, t), t
	if q.running < maxRunningTasks {
		q.running++
		go func() {
			for t := r.next(endpoints); t != nil; t = r.next(endpoints) {
				r.run(t)
			}
		}()
	}
	return true
}

// next removes the oldest waiting task from the queue for the engines at some endpoints, and returns it. It returns nil if no task waits,
// or the context of the tasks has ended. Then the calling goroutine must end.
func (r *remoteQueue) next(endpoints string) *remoteTask {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[endpoints]
	for len(q.waiting) > 0 && r.ctx.Err() == nil {
		t := q.waiting[0]
		if q.waiting[0], q.waiting = nil, q.waiting[1:]; r.tasks[t.key] == t {
			t.running = true
			return t
		}
	}
	if q.running--; q.running == 0 && len(q.waiting) == 0 {
		delete(r.queues, endpoints)
	}
	return nil
}

// run runs a task. Unless the task was dropped meanwhile, it enqueues the object again: at once if the task says so, and after the delay of
// the task's reconcile, or after failureDelay if that panicked. It recovers a panic, as controller-runtime does for its workers.
func (r *remoteQueue) run(t *remoteTask) {
	delay := failureDelay
	defer func() {
		if v := recover(); v != nil {
			for _, handle := range runtime.PanicHandlers {
				handle(r.ctx, v)
			}
		}
		r.mu.Lock()
		current := r.tasks[t.key] == t
		if current {
			delete(r.tasks, t.key)
		}
		r.mu.Unlock()
		if current && r.ctx.Err() == nil {
			if delay > 0 {
				r.objects.EnqueueAfter(t.key, delay)
			}
			if t.again.Load() {
				r.objects.Enqueue(t.key)
			}
		}
	}()
	delay = r.reconcile(r.ctx, t)
}

// commit reports whether the decision of a task on a version of its object counts: the task was not dropped, and the object has not
// changed. If it does not count, the object is decided again.
func (r *remoteQueue) commit(t *remoteTask, obj *unstructured.Unstructured) bool {
	unchanged := r.objects.Is(t.key, obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	t.decided = r.tasks[t.key] == t && unchanged && r.ctx.Err() == nil
	if !t.decided {
		t.again.Store(true)
	}
	return t.decided
}

// decided records which policies failed to decide an object for a temporary reason. It returns the delay before the object must be decided
// again, which grows with each failure in a row. If none failed, it forgets earlier failures and returns 0.
func (r *remoteQueue) decided(key remediation.Key, verdicts []*placement.Verdict) time.Duration {
	var failed []string
	for _, v := range verdicts {
		if isTemporary(v) {
			failed = append(failed, v.Policy.Name)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(failed) == 0 {
		delete(r.undecided, key)
		r.failures.Forget(key)
		return 0
	}
	r.undecided[key] = failed
	return wait.Jitter(r.failures.When(key), failureJitter)
}

// forget drops all tasks and state of an object.
func (r *remoteQueue) forget(key remediation.Key) {
	r.decided(key, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, key)
}

// Recovered enqueues the objects that a policy could not decide for a temporary reason, because the policy's remote engine responds again.
func (c *Controller) Recovered(policy string) {
	r := c.remoteQueue
	r.mu.Lock()
	var keys []remediation.Key
	for key, failed := range r.undecided {
		if slices.Contains(failed, policy) {
			keys = append(keys, key)
		}
	}
	r.mu.Unlock()
	r.objects.Enqueue(keys...)
}

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
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

const (
	// queryTimeout is how long a remote engine may take for one object, the same as in admission.
	queryTimeout = 4 * time.Second
	// failureDelay is the first delay before an object is decided again whose decision failed temporarily.
	// failureDelayMax is the longest delay after repeated failures. Recovered shortens both.
	failureDelay    = 30 * time.Second
	failureDelayMax = 5 * time.Minute
	// failureJitter is the maximum jitter, as a fraction of the delay. It spreads objects that failed at the same time.
	failureJitter = 0.5
	// patchRetryDelay and patchRetryDelayMax are the first and the longest delay before a failed patch in a queue of its own is
	// retried.
	patchRetryDelay    = 100 * time.Millisecond
	patchRetryDelayMax = time.Minute
)

// errPending is the error of a policy whose remote engine is being queried. The response enqueues the object again.
var errPending = errors.New("another engine is being asked")

func isPending(v *placement.Verdict) bool { return errors.Is(v.Err, errPending) }

func isRemote(v *placement.Verdict) bool {
	_, ok := v.Policy.Remote()
	return ok
}

// isTemporary reports whether a policy could not decide an object for a temporary reason, which may go away without a
// change of the cluster: its engine does not respond, an evaluation exceeded its deadline or is quarantined, or its
// data was too old.
func isTemporary(v *placement.Verdict) bool {
	_, unavailable := errors.AsType[*engine.RemoteError](v.Err)
	_, quarantined := errors.AsType[*engine.QuarantinedError](v.Err)
	_, stale := errors.AsType[*engine.StaleError](v.Err)
	return unavailable || quarantined || stale || errors.Is(v.Err, engine.ErrDeadline)
}

// remoteQueue does the work for objects with policies that remote engines decide, so that no worker waits for an engine.
// It queues the queries to each engine. It also queues the patches of such objects, because the API server calls the
// webhook for a patch, and the webhook queries the engines. It retries what failed. It is safe for concurrent use.
type remoteQueue struct {
	objects *objectCache
	// query has a policy's engine decide an object, and returns the version that it decided. It returns nil if there is
	// nothing to decide any more.
	query func(context.Context, *placement.Policy, remediation.Key) (*remediation.PolicyDecision, *unstructured.Unstructured)
	// patch patches an object.
	patch   patchFunc
	tracing *tracing.Provider

	tasks *taskQueues
	// failures is the backoff of objects that could not be decided. patchFailures is the backoff of objects whose patch
	// failed.
	failures, patchFailures workqueue.TypedRateLimiter[remediation.Key]

	mu sync.Mutex
	// queries holds the queries for each object: waiting, running or answered. A decided object has none.
	queries map[remediation.Key][]*remoteQuery
	// patches holds the patches that wait or run.
	patches map[remediation.Key]*pendingPatch
	// undecided holds, for each object, the policies that could not decide it for a temporary reason.
	undecided map[remediation.Key][]string
}

type patchFunc = func(context.Context, remediation.Key, *unstructured.Unstructured, remediation.Due, uint64) (reconcile.Result, error)

// remoteQuery is a query for one policy and one object. While it waits it holds no copy of the object. It reads the
// current object when it runs.
type remoteQuery struct {
	policy *placement.Policy
	key    remediation.Key
	task   *task
	// decision is the response and object the object that was decided. Both are nil until there is a response.
	decision *remediation.PolicyDecision
	object   *unstructured.Unstructured
}

// pendingPatch is a patch that waits or runs.
type pendingPatch struct {
	task *task
	// again is set if the object must be decided after the patch.
	again bool
}

func newRemoteQueue(objects *objectCache, query func(context.Context, *placement.Policy, remediation.Key) (*remediation.PolicyDecision, *unstructured.Unstructured), patch patchFunc, traces *tracing.Provider) *remoteQueue {
	return &remoteQueue{
		objects: objects, query: query, patch: patch, tracing: traces, tasks: newTaskQueues(),
		failures:      workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](failureDelay, failureDelayMax),
		patchFailures: workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](patchRetryDelay, patchRetryDelayMax),
		queries:       map[remediation.Key][]*remoteQuery{}, patches: map[remediation.Key]*pendingPatch{},
		undecided: map[remediation.Key][]string{},
	}
}

// start runs the queued work until ctx ends.
func (r *remoteQueue) start(ctx context.Context) { r.tasks.start(ctx) }

// decision returns the decision of a policy's engine on an object, or nil if it is not known. In that case it enqueues
// a query to the endpoint unless there is one. The response enqueues the object again.
func (r *remoteQueue) decision(p *placement.Policy, endpoint string, key remediation.Key, obj *unstructured.Unstructured) *remediation.PolicyDecision {
	r.mu.Lock()
	defer r.mu.Unlock()
	var q *remoteQuery
	if i := slices.IndexFunc(r.queries[key], func(q *remoteQuery) bool { return q.policy == p }); i >= 0 {
		q = r.queries[key][i]
		if q.decision == nil || q.object == obj {
			return q.decision
		}
		q.decision, q.object = nil, nil
	} else {
		q = &remoteQuery{policy: p, key: key}
		r.queries[key] = append(r.queries[key], q)
	}
	q.task = r.tasks.add(endpoint, func(ctx context.Context) { r.guarded(ctx, key, func() { r.runQuery(ctx, q) }) })
	return nil
}

// guarded runs do for an object in a queue and recovers a panic, as controller-runtime does for its workers. After a
// panic the object is enqueued again later.
func (r *remoteQueue) guarded(ctx context.Context, key remediation.Key, do func()) {
	defer func() {
		if v := recover(); v != nil {
			for _, handle := range runtime.PanicHandlers {
				handle(ctx, v)
			}
			r.forget(key)
			r.objects.enqueueAfter(key, failureDelay)
		}
	}()
	do()
}

// runQuery runs a query, stores its response, and enqueues the object if the response is still needed.
func (r *remoteQueue) runQuery(ctx context.Context, q *remoteQuery) {
	decision, obj := r.query(ctx, q.policy, q.key)
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	wanted := slices.Contains(r.queries[q.key], q)
	if wanted && decision == nil {
		r.queries[q.key] = slices.DeleteFunc(r.queries[q.key], func(other *remoteQuery) bool { return other == q })
	}
	q.decision, q.object = decision, obj
	r.mu.Unlock()
	if wanted {
		r.objects.enqueue(q.key)
	}
}

// decided records that an object is decided, and drops its queries and their responses. It returns the delay before
// the object must be decided again, or 0 if only a change requires that.
func (r *remoteQueue) decided(key remediation.Key, verdicts []*placement.Verdict) time.Duration {
	var failed []string
	for _, v := range verdicts {
		if isTemporary(v) {
			failed = append(failed, v.Policy.Name)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queries[key] {
		r.tasks.drop(q.task)
	}
	delete(r.queries, key)
	delete(r.undecided, key)
	if len(failed) == 0 {
		r.failures.Forget(key)
		return 0
	}
	r.undecided[key] = failed
	return wait.Jitter(r.failures.When(key), failureJitter)
}

// forget drops all work and state for an object.
func (r *remoteQueue) forget(key remediation.Key) {
	r.decided(key, nil)
	r.patchFailures.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.patches[key]; p != nil {
		r.tasks.drop(p.task)
		delete(r.patches, key)
	}
}

// Recovered enqueues the objects that a policy's engine could not decide, because the engine responds again.
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
	r.objects.enqueue(keys...)
}

// patching reports whether an object is being patched. In that case the object is enqueued again after the patch.
func (r *remoteQueue) patching(key remediation.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.patches[key]
	if p != nil {
		p.again = true
	}
	return p != nil
}

// takePatch enqueues the patch of an object if remote engines decide it, because the patch takes as long as those. It
// reports whether they do; if not, the caller patches the object.
func (r *remoteQueue) takePatch(ctx context.Context, s *scope) bool {
	var endpoints []string
	for _, v := range s.outcome.Verdicts {
		if engine, ok := v.Policy.Remote(); ok {
			endpoints = append(endpoints, engine.Health().Endpoint)
		}
	}
	if len(endpoints) == 0 {
		return false
	}
	slices.Sort(endpoints)
	// The waiting patch does not keep the rest of the scope.
	key, obj, due, data, log := s.key, s.object, s.due, remediation.DataOf(s.decisions), ctrllog.FromContext(ctx)
	p := &pendingPatch{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patches[key] = p
	// The patch waits for all these engines. So it has a queue apart from the queues of queries to each of them.
	p.task = r.tasks.add("patch "+strings.Join(slices.Compact(endpoints), " "), func(ctx context.Context) {
		r.guarded(ctx, key, func() { r.runPatch(ctrllog.IntoContext(ctx, log), key, p, obj, due, data) })
	})
	return true
}

// runPatch patches an object, and enqueues it again if needed.
func (r *remoteQueue) runPatch(ctx context.Context, key remediation.Key, p *pendingPatch, obj *unstructured.Unstructured, due remediation.Due, data uint64) {
	ctx, span := startTrace(ctx, r.tracing, "remediation patch", key)
	defer span.End()
	result, err := r.patch(ctx, key, obj, due, data)
	tracing.Fail(span, err)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		ctrllog.FromContext(ctx).Error(err, "Patching")
		result.RequeueAfter = r.patchFailures.When(key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := r.patches[key] == p
	if wanted {
		delete(r.patches, key)
	}
	if err == nil || !wanted {
		r.patchFailures.Forget(key)
	}
	switch {
	case !wanted:
		// The object does not exist any more.
	case result.RequeueAfter > 0:
		r.objects.enqueueAfter(key, result.RequeueAfter)
	case p.again:
		r.objects.enqueue(key)
	}
}

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

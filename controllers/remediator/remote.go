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
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

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
	if _, ok := errors.AsType[*engine.RemoteError](v.Err); ok || errors.Is(v.Err, engine.ErrDeadline) {
		return true
	}
	if _, ok := errors.AsType[*engine.QuarantinedError](v.Err); ok {
		return true
	}
	_, ok := errors.AsType[*engine.StaleError](v.Err)
	return ok
}

// remoteQueue holds the work for objects with policies that remote engines decide, so that no worker waits for an engine. It
// queues the queries to each engine. It also queues the patches of such objects, because the API server calls the
// webhook for a patch, and the webhook queries the engines. It is safe for concurrent use.
type remoteQueue struct {
	taskQueues *taskQueues
	// failures is the backoff of objects that could not be decided. patches is the backoff of objects whose patch
	// failed.
	failures, patches workqueue.TypedRateLimiter[remediation.Key]

	mu sync.Mutex
	// queries holds the queries for each object: waiting, running or answered. A decided object has none.
	queries map[remediation.Key][]*remoteQuery
	// patching holds the objects that are being patched or wait for that.
	patching map[remediation.Key]*pendingPatch
	// undecided holds, for each object, the policies that could not decide it for a temporary reason.
	undecided map[remediation.Key][]string
}

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

func newRemoteQueue() *remoteQueue {
	return &remoteQueue{
		taskQueues: newTaskQueues(),
		failures:   workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](failureDelay, failureDelayMax),
		patches:    workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](patchRetryDelay, patchRetryDelayMax),
		queries:    map[remediation.Key][]*remoteQuery{}, patching: map[remediation.Key]*pendingPatch{},
		undecided: map[remediation.Key][]string{},
	}
}

// remoteDecision returns the decision of a remote engine on an object, or nil if it is not known. In that case it
// enqueues a query unless there is one. The response enqueues the object again.
func (c *Controller) remoteDecision(p *placement.Policy, endpoint string, key remediation.Key, obj *unstructured.Unstructured) *remediation.PolicyDecision {
	a := c.remoteQueue
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.queries[key]
	var q *remoteQuery
	if i := slices.IndexFunc(asked, func(q *remoteQuery) bool { return q.policy == p }); i >= 0 {
		q = asked[i]
		if q.decision == nil {
			return nil
		}
		if q.object == obj {
			return q.decision
		}
		q.decision, q.object = nil, nil
	} else {
		q = &remoteQuery{policy: p, key: key}
		a.queries[key] = append(asked, q)
	}
	q.task = a.taskQueues.add(endpoint, func(ctx context.Context) { c.guarded(ctx, key, func() { c.runQuery(ctx, q) }) })
	return nil
}

// guarded runs do for an object in a queue and recovers a panic, as controller-runtime does for its workers. After a
// panic the object is enqueued again later.
func (c *Controller) guarded(ctx context.Context, key remediation.Key, do func()) {
	defer func() {
		if r := recover(); r != nil {
			for _, handle := range runtime.PanicHandlers {
				handle(ctx, r)
			}
			c.remoteQueue.forget(key)
			c.enqueueAfter(key, failureDelay)
		}
	}()
	do()
}

// runQuery runs a query, stores its response, and enqueues the object if the response is still needed.
func (c *Controller) runQuery(ctx context.Context, q *remoteQuery) {
	decision, obj := c.queryEngine(ctx, q)
	if ctx.Err() != nil {
		return
	}
	a := c.remoteQueue
	a.mu.Lock()
	wanted := slices.Contains(a.queries[q.key], q)
	if wanted && decision == nil {
		a.queries[q.key] = slices.DeleteFunc(a.queries[q.key], func(other *remoteQuery) bool { return other == q })
	}
	q.decision, q.object = decision, obj
	a.mu.Unlock()
	if wanted {
		c.enqueue(q.key)
	}
}

// queryEngine returns the decision of a policy on the current object, and that object. It returns nil if there is nothing
// to decide any more.
//
// It decides the object as the workers do, but with all other policies pending. So the policy gets the same input as
// there, which is not kept while the query waits.
func (c *Controller) queryEngine(ctx context.Context, q *remoteQuery) (*remediation.PolicyDecision, *unstructured.Unstructured) {
	obj, fields := c.objects.get(q.key)
	state := c.Registry.Get(q.policy.Name)
	if obj == nil || state == nil || state.Policy != q.policy || !covers(fields, q.policy.Evaluator.Input()) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	ctx, span := c.Tracing.Root(ctx, "remediation question")
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(described(q.key)...)
	}
	decision := remediation.NewPolicyDecision(q.policy)
	outcome, err := c.Decider.Decide(ctx, c.request(q.key, obj, func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		if p != q.policy {
			return placement.Decision{}, errPending
		}
		return c.evaluate(ctx, p, input)
	}))
	tracing.Fail(span, err)
	if err != nil {
		// The workers will get the same error and retry.
		return nil, nil
	}
	i := slices.IndexFunc(outcome.Verdicts, func(v *placement.Verdict) bool { return v.Policy == q.policy })
	if i < 0 {
		return nil, nil
	}
	decision.Decision, decision.Err = outcome.Verdicts[i].Decision, outcome.Verdicts[i].Err
	return decision, obj
}

// finishDecision records that an object is decided, and drops its queries and their responses. It returns the delay
// before the object must be decided again, or 0 if only a change requires that.
func (a *remoteQueue) finishDecision(key remediation.Key, verdicts []*placement.Verdict) time.Duration {
	a.dropQueries(key)
	var by []string
	for _, v := range verdicts {
		if isTemporary(v) {
			by = append(by, v.Policy.Name)
		}
	}
	a.setUndecided(key, by)
	if len(by) == 0 {
		a.failures.Forget(key)
		return 0
	}
	return wait.Jitter(a.failures.When(key), failureJitter)
}

// forget drops all work and state for an object.
func (a *remoteQueue) forget(key remediation.Key) {
	a.dropQueries(key)
	a.setUndecided(key, nil)
	a.failures.Forget(key)
	a.patches.Forget(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.patching[key]; p != nil {
		a.taskQueues.drop(p.task)
		delete(a.patching, key)
	}
}

// setUndecided records the policies that could not decide an object for a temporary reason. An empty list removes the
// record.
func (a *remoteQueue) setUndecided(key remediation.Key, by []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(by) == 0 {
		delete(a.undecided, key)
		return
	}
	a.undecided[key] = by
}

// Recovered enqueues the objects that a policy's engine could not decide, because the engine responds again.
func (c *Controller) Recovered(policy string) {
	c.remoteQueue.mu.Lock()
	var keys []remediation.Key
	for key, by := range c.remoteQueue.undecided {
		if slices.Contains(by, policy) {
			keys = append(keys, key)
		}
	}
	c.remoteQueue.mu.Unlock()
	c.enqueue(keys...)
}

func (a *remoteQueue) dropQueries(key remediation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.queries[key] {
		a.taskQueues.drop(q.task)
	}
	delete(a.queries, key)
}

// held reports whether an object is being patched. In that case the object is enqueued again after the patch.
func (a *remoteQueue) held(key remediation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.patching[key]
	if p != nil {
		p.again = true
	}
	return p != nil
}

// enqueuePatch enqueues the patch of an object, if remote engines decide it, because the patch takes as long as those. It
// reports whether they do; if not, the caller patches the object.
func (c *Controller) enqueuePatch(ctx context.Context, key remediation.Key, obj *unstructured.Unstructured, verdicts []*placement.Verdict, due remediation.Due) bool {
	var endpoints []string
	for _, v := range verdicts {
		if r, ok := v.Policy.Remote(); ok {
			endpoints = append(endpoints, r.Health().Endpoint)
		}
	}
	if len(endpoints) == 0 {
		return false
	}
	slices.Sort(endpoints)
	log := ctrllog.FromContext(ctx)
	a := c.remoteQueue
	p := &pendingPatch{}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patching[key] = p
	// The patch waits for all these engines. So it has a queue apart from the queues of queries to each of them.
	p.task = a.taskQueues.add("patch "+strings.Join(slices.Compact(endpoints), " "), func(ctx context.Context) {
		c.guarded(ctx, key, func() { c.patch(ctrllog.IntoContext(ctx, log), key, p, obj, due) })
	})
	return true
}

// patch patches an object, and enqueues it again if needed.
func (c *Controller) patch(ctx context.Context, key remediation.Key, p *pendingPatch, obj *unstructured.Unstructured, due remediation.Due) {
	ctx, span := c.Tracing.Root(ctx, "remediation patch")
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(described(key)...)
	}
	result, err := c.remediate(ctx, key, obj, due)
	tracing.Fail(span, err)
	if ctx.Err() != nil {
		return
	}
	a := c.remoteQueue
	if err == nil {
		a.patches.Forget(key)
	} else {
		ctrllog.FromContext(ctx).Error(err, "Patching")
		result.RequeueAfter = a.patches.When(key)
	}
	a.mu.Lock()
	wanted := a.patching[key] == p
	if wanted {
		delete(a.patching, key)
	}
	a.mu.Unlock()
	switch {
	case !wanted:
		// The object does not exist any more.
		a.patches.Forget(key)
	case result.RequeueAfter > 0:
		c.enqueueAfter(key, result.RequeueAfter)
	case p.again:
		c.enqueue(key)
	}
}

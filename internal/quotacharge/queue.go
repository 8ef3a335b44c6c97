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

package quotacharge

import (
	"context"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/tracing"
)

// waiter is a request that waits for its decision. Without a request it stands for a charge that must be released.
type waiter struct {
	// context is the caller's context. When it ends, the caller does not need the decision any more.
	context   context.Context
	charge    string // The ID of the charge (Request.ChargeID): random, and new for each call of the webhook.
	namespace string
	request   *quota.Request // Nil for a charge that must be released.
	// verdict and err belong to the goroutine that processes the queue until it closes done.
	verdict *quota.Verdict
	err     error
	done    chan struct{} // Closed when verdict and err are final.
}

// queueKey returns the key of the queue of a namespace's requests: the UIDs of the ClusterScopedQuotas that select the namespace, or the
// name of the namespace if there are none.
func (c *Charger) queueKey(ctx context.Context, namespace string) (string, error) {
	shared, err := c.beginRound(cached, nil).clusterQuotas(ctx, namespace)
	if err != nil || len(shared) == 0 {
		return namespace, err
	}
	uids := make([]string, len(shared))
	for i, q := range shared {
		uids[i] = string(q.GetUID())
	}
	slices.Sort(uids)
	// A comma can't occur in the name of a namespace.
	return "," + strings.Join(uids, ","), nil
}

// enqueue adds a waiter to a queue, and starts to process the queue if it is new.
func (c *Charger) enqueue(ctx context.Context, key string, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting, processed := c.queues[key]
	if c.queues == nil {
		c.queues = map[string][]*waiter{}
	}
	c.queues[key] = append(waiting, w)
	if !processed {
		// The goroutine works for all requests in the queue, so its context must not end with that of the first one.
		go c.processQueue(tracing.Detach(context.WithoutCancel(ctx)), key)
	}
}

// processQueue decides what waits in a queue, batch by batch, until nothing waits. Then it removes the queue and returns.
func (c *Charger) processQueue(ctx context.Context, key string) {
	for !c.closeIfEmpty(key) {
		b := &batch{Charger: c, queue: key, charges: map[string]bool{}}
		for _, release := range b.process(ctx) {
			// No client will retry these, so they go to the queue again.
			c.enqueue(ctx, key, release)
		}
	}
}

// closeIfEmpty removes a queue if nothing waits in it, and reports whether it did.
func (c *Charger) closeIfEmpty(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queues[key]) > 0 {
		return false
	}
	delete(c.queues, key)
	return true
}

// dequeue removes up to room waiters from a queue.
func (c *Charger) dequeue(key string, room int) []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.queues[key]
	n := min(len(waiting), room)
	c.queues[key] = waiting[n:]
	return waiting[:n:n]
}

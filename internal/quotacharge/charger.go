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
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

// errContended marks that a request was not decided in time, such as because of concurrent charges, so that the client retries.
var errContended = errors.New("quotas could not be charged in time, such as because too many other requests change them")

// errUnreachable marks an error of reading or writing quotas, such as one of the API server, so that the client retries.
var errUnreachable = errors.New("quotas can't be read or charged now")

// errModule marks that the module of a quota or LimitedResource does not compile. No spec that the schema admits leads to it.
var errModule = errors.New("an internal error of Berth: generated rules can't be evaluated")

// Transient reports whether a request that failed with this error may succeed if the client tries it again: it was not decided in time, or
// quotas could not be read or written.
func Transient(err error) bool { return errors.Is(err, errContended) || errors.Is(err, errUnreachable) }

// unreachable marks an error of reading quotas, which must not be nil, as errUnreachable, so that the client retries. It returns an
// errModule as it is: a quota whose rules can't be evaluated can't be evaluated by a retry either.
func unreachable(err error) error {
	if errors.Is(err, errModule) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnreachable, err)
}

// panicError logs the value of a panic and returns the error for the client, which does not have the value.
func panicError(ctx context.Context, panicked any) error {
	ctrllog.FromContext(ctx).Error(fmt.Errorf("panic: %v", panicked), "Deciding", "stack", string(debug.Stack()))
	return errors.New("an internal error of Berth; the log of Berth's manager has more")
}

// Namespaces reads the labels of a namespace, by its name. One implementation reads them from a cache, another one from the API server.
type Namespaces interface {
	Labels(ctx context.Context, name string) (map[string]string, error)
}

// Charger decides requests against quotas and LimitedResources, and charges them. Objects that it has read are never
// modified. It is safe for concurrent use. Set its fields before the first use.
type Charger struct {
	// Cached reads quotas and LimitedResources from a cache, which may be stale.
	Cached client.Reader
	// Live reads quotas and LimitedResources from the API server.
	Live client.Reader
	// Writer writes the status of quotas.
	Writer client.StatusWriter
	// Namespaces reads the labels of namespaces from a cache, or a namespace that this lacks from the API server. LiveNamespaces reads all
	// from the API server; it is used in rounds that also list quotas and LimitedResources there.
	Namespaces, LiveNamespaces Namespaces
	// Compiler compiles and caches the modules of quotas and LimitedResources.
	Compiler *quota.Compiler
	// Clock is the clock for the expiry of reservations.
	Clock clock.PassiveClock
	// ReservationTTL is how long a charge is reserved for its object. It must be longer than the API server's timeout
	// of a request.
	ReservationTTL time.Duration
	// OwnNamespace is Berth's own namespace, in which nothing is counted. It is empty if there is none.
	OwnNamespace string
	// Unsettled returns those of a quota's reservations whose changes are not counted yet. On a replica that does not
	// count, it returns all. A nil Unsettled means all. Fewer reservations make a smaller and faster write.
	Unsettled func(placementv1.Quota) []placementv1.Reservation
	// OnConflict is called after each round whose writes conflicted.
	OnConflict func()

	// mu guards the fields below. Methods of Charger hold it only to read or change them, never during a call of the API
	// server or of a field above.
	mu sync.Mutex
	// queues holds the waiters of each queue, by its key. A queue exists while a goroutine processes it.
	queues map[string][]*waiter
	// written holds quotas as this process wrote them, until the cache contains that version.
	written map[types.UID]placementv1.Quota
}

// Charge decides a request. A denial is in the verdict, and no error. If the request is allowed and no dry run, its charges are stored when
// Charge returns. Transient reports whether a retry may help after an error. If Charge fails or ctx ends before, charges that were stored
// are released.
func (c *Charger) Charge(ctx context.Context, r *quota.Request) (*quota.Verdict, error) {
	key, err := c.queueKey(ctx, r.Namespace)
	if err != nil {
		return nil, unreachable(err)
	}
	w := &waiter{context: ctx, charge: r.ChargeID, namespace: r.Namespace, request: r, done: make(chan struct{})}
	c.enqueue(ctx, key, w)
	select {
	case <-w.done:
		return w.verdict, w.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errContended, ctx.Err())
	}
}

// Forget drops the written version of a deleted quota.
func (c *Charger) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, uid)
}

// recordWritten stores a quota as this process wrote it, so that newest returns it until the cache has that version.
func (c *Charger) recordWritten(q placementv1.Quota) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written = map[types.UID]placementv1.Quota{}
	}
	c.written[q.GetUID()] = q
}

// newest returns the version of a quota that this process wrote if that is newer than read, the version in the cache. Otherwise it returns
// read, and forgets the other.
func (c *Charger) newest(read placementv1.Quota) placementv1.Quota {
	c.mu.Lock()
	defer c.mu.Unlock()
	written, ok := c.written[read.GetUID()]
	if !ok {
		return read
	}
	order, err := resourceversion.CompareResourceVersion(written.GetResourceVersion(), read.GetResourceVersion())
	if err != nil || order <= 0 {
		delete(c.written, read.GetUID())
		return read
	}
	return written
}

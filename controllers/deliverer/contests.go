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

package deliverer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/delivery"
)

const (
	// maxContest bounds the delay of writes to an object that another client changes back each time.
	minContest, maxContest = time.Second, time.Minute
	// tolerated is the delay up to which such an object is still written at once, and is no failure.
	tolerated = 4 * time.Second
)

// contests delays writes of objects that other clients change back each time: delivered objects, and the status of placed ones. It is safe
// for concurrent use.
type contests struct {
	clock   clock.Clock
	backoff *flowcontrol.Backoff // The delay by object. It doubles with each write that wait counts.

	mu sync.Mutex
	// statuses has the last status that Berth applied, or was about to apply, to each placed object.
	statuses map[delivery.Key]any
}

func newContests(c clock.Clock) *contests {
	backoff := flowcontrol.NewBackOff(minContest, maxContest)
	backoff.Clock = c
	return &contests{clock: c, backoff: backoff, statuses: map[delivery.Key]any{}}
}

// wait returns how long to wait before Berth writes an object again that another client changed back. It returns 0 if Berth may write now,
// and counts the write: each one doubles the delay before the next, up to maxContest. Delays of at most tolerated are skipped.
func (c *contests) wait(id name) time.Duration {
	key, now := id.String()+"/"+id.namespace+"/"+id.name, c.clock.Now()
	if c.backoff.Get(key) > tolerated && c.backoff.IsInBackOffSinceUpdate(key, now) {
		return c.backoff.Get(key)
	}
	c.backoff.GC()
	c.backoff.Next(key, now)
	return 0
}

// recordStatus records the status that is about to be applied to a placed object, and reports whether it equals the one of the call before.
func (c *contests) recordStatus(key delivery.Key, status any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.statuses[key]
	c.statuses[key] = status
	return known && equality.Semantic.DeepEqual(before, status)
}

// forget drops the last status that was applied to a placed object, which no longer exists. The delays of writes stay until they expire.
func (c *contests) forget(key delivery.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.statuses, key)
}

// foreignObjects are objects of other clients that have the names of objects that Berth has to write. It is safe for concurrent
// use.
type foreignObjects struct {
	mu     sync.Mutex
	owners map[name]delivery.Key // By foreign object, the placed object that Berth can't deliver because of it.
}

// block records that the foreign object with a name keeps Berth from delivering the placed object owner, in place of the one that was
// recorded for that name before.
func (f *foreignObjects) block(id name, owner delivery.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owners == nil {
		f.owners = map[name]delivery.Key{}
	}
	f.owners[id] = owner
}

// unblock drops a foreign object that was deleted, and returns the placed object that can be delivered now. ok is false if there is none.
func (f *foreignObjects) unblock(id name) (owner delivery.Key, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	owner, ok = f.owners[id]
	delete(f.owners, id)
	return owner, ok
}

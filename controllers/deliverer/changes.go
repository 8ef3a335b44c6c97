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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/delivery"
)

// takeUpTimeout is how long a system may take to take up a change of a placed object. KubeFleet 0.3.1 does so 15 to 30 seconds after a
// change. When its leader is killed, a minute passes in addition. It never takes up a change that is undone before.
const takeUpTimeout = 2 * time.Minute

// changes knows until when systems may still report of earlier versions of placed objects: each change of an object's generation begins a
// timeout, which ends early if the system names another version. It is safe for concurrent use.
type changes struct {
	mu   sync.Mutex
	last map[delivery.Key]change // What the last call of left saw of each object.
}

// change is what the last look at a placed object found: its generation, the version of it that the system has, and until when the system
// may still have to take up the object's last change.
type change struct {
	uid        types.UID
	generation int64
	revision   string // The system's name for the version of the object that it brings to clusters.
	// until is when the system must have taken up the object's last change. It is zero if the object has not changed since it was first
	// seen, or if the system has another version since the change.
	until time.Time
}

// left returns for how long a system's report of a placed object may still concern a version before its last change; 0 if it does not.
// revision is what the system calls its version. Changes before the first call for an object are not known.
func (c *changes) left(object *unstructured.Unstructured, revision string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, next := keyOf(object), change{uid: object.GetUID(), generation: object.GetGeneration(), revision: revision}
	switch before, known := c.last[key]; {
	case !known || before.uid != next.uid || before.revision != revision:
	case before.generation != next.generation:
		next.until = now.Add(takeUpTimeout)
	default:
		next.until = before.until
	}
	if c.last == nil {
		c.last = map[delivery.Key]change{}
	}
	c.last[key] = next
	return max(next.until.Sub(now), 0)
}

// forget drops what is known of a placed object that no longer exists.
func (c *changes) forget(key delivery.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, key)
}

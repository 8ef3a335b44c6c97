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

package remediation

import (
	"maps"
	"sync"
	"time"
)

// Limits of the patches of one object. An object that was patched maxPatches times within patchWindow does not settle. A decision
// that depends on its own output is patched many times a second. Changes of the cluster's data that cause as many
// patches of one object are very rare.
const (
	maxPatches  = 100
	patchWindow = time.Minute
)

// PatchLimiter stops patching objects whose decision changes again after each patch. It is safe for concurrent use.
type PatchLimiter struct {
	mu      sync.Mutex
	patched map[Key][]time.Time
}

// NewPatchLimiter returns a limiter without any patches.
func NewPatchLimiter() *PatchLimiter {
	return &PatchLimiter{patched: map[Key][]time.Time{}}
}

// Allows reports whether the object may be patched now.
func (b *PatchLimiter) Allows(key Key, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.recent(key, now)) < maxPatches
}

// Patched records a patch of the object at time now.
func (b *PatchLimiter) Patched(key Key, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.patched[key] = append(b.recent(key, now), now)
}

// Forget removes the object.
func (b *PatchLimiter) Forget(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.patched, key)
}

// ForgetAll removes the objects for which forgotten returns true.
func (b *PatchLimiter) ForgetAll(forgotten func(Key) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.patched, func(key Key, _ []time.Time) bool { return forgotten(key) })
}

func (b *PatchLimiter) recent(key Key, now time.Time) []time.Time {
	times := b.patched[key]
	for len(times) > 0 && now.Sub(times[0]) > patchWindow {
		times = times[1:]
	}
	if len(times) == 0 {
		delete(b.patched, key)
	}
	return times
}

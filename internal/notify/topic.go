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

// Package notify passes notifications between components that do not know each other. A Topic carries events, and a
// Signal wakes one goroutine.
package notify

import (
	"slices"
	"sync"
)

// Topic delivers events to subscribers. The zero value is ready to use. A Topic is safe for concurrent use and must not
// be copied.
type Topic[E any] struct {
	mu          sync.Mutex
	subscribers []func(E) // in the order in which they subscribed
}

// Subscribe registers f, which is called with each event that is published from then on. Earlier events are not
// repeated, so a subscriber that needs all events subscribes before the publisher starts. There is no way to
// unsubscribe: a subscriber lives as long as its topic.
//
// f is called by the publisher and delays it, so f must return quickly and must not wait. Calls are concurrent if
// publishers are. The topic holds no lock during a call, so f may subscribe and publish. If a publisher holds a lock of
// its own, its documentation says what f must not call.
func (t *Topic[E]) Subscribe(f func(E)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The copy protects the list that a concurrent Publish iterates over.
	t.subscribers = append(slices.Clip(t.subscribers), f)
}

// Publish calls the subscribers with an event, in the order in which they subscribed, and returns after the last call.
// Events of one goroutine arrive in order. Concurrent publishers that need an order hold a lock of their own.
func (t *Topic[E]) Publish(event E) {
	t.mu.Lock()
	subscribers := t.subscribers
	t.mu.Unlock()
	for _, f := range subscribers {
		f(event)
	}
}

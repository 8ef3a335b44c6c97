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

package webhookconfiguration

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/status"
)

// states holds whether the API server accepted the webhook rules of each policy, or of each quota and LimitedResource, by key. It is safe
// for concurrent use.
type states[K comparable] struct {
	// changes publishes the keys whose state changed.
	changes notify.Topic[K]

	mu      sync.Mutex
	current map[K]status.WebhookState
}

// get returns the state of a key; the zero value if there is none.
func (s *states[K]) get(k K) status.WebhookState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current[k]
}

// set replaces all states, and publishes the keys of next whose state changed. Subscribers are called without the lock, so they may call
// get.
func (s *states[K]) set(next map[K]status.WebhookState) {
	s.mu.Lock()
	before := s.current
	s.current = next
	s.mu.Unlock()
	for k, state := range next {
		if before[k] != state {
			s.changes.Publish(k)
		}
	}
}

// writeAccepted calls write with webhooks, and again without each webhook that the API server rejects, for which it calls rejected. So an
// invalid rule of one object does not affect other objects. It returns any other error of write.
func writeAccepted[W any](webhooks []W, write func([]W) error, rejected func(w W, reason string)) error {
	for {
		err := write(webhooks)
		i, reason := rejectedWebhook(err)
		if i < 0 || i >= len(webhooks) {
			return err
		}
		rejected(webhooks[i], reason)
		webhooks = slices.Delete(webhooks, i, i+1)
	}
}

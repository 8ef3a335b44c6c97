package webhookconfiguration

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/internal/status"
)

// states holds the state of the rules of each policy or quota. It is safe for concurrent use.
type states[K comparable] struct {
	mu          sync.Mutex
	current     map[K]status.WebhookState
	subscribers []func(K)
}

// subscribe registers f, which is called with each key whose state changes.
func (s *states[K]) subscribe(f func(K)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, f)
}

func (s *states[K]) get(k K) status.WebhookState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current[k]
}

// set replaces all states and notifies the subscribers of those that changed. Subscribers are called without the lock,
// so they may call get.
func (s *states[K]) set(next map[K]status.WebhookState) {
	s.mu.Lock()
	before, subscribers := s.current, s.subscribers
	s.current = next
	s.mu.Unlock()
	for k, state := range next {
		if before[k] == state {
			continue
		}
		for _, f := range subscribers {
			f(k)
		}
	}
}

// writeAccepted calls write with the webhooks that the API server accepts. It calls rejected for each other webhook. So
// an invalid rule of one object does not affect other objects.
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

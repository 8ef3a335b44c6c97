package webhookconfiguration

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/internal/status"
)

// states are how the rules of those that ask for webhooks fare. It is safe for concurrent use.
type states[K comparable] struct {
	mu          sync.Mutex
	current     map[K]status.HookState
	subscribers []func(K)
}

// subscribe has f called when the state of one changed.
func (s *states[K]) subscribe(f func(K)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, f)
}

func (s *states[K]) get(k K) status.HookState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current[k]
}

// set makes next the states of all.
func (s *states[K]) set(next map[K]status.HookState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current
	s.current = next
	for k, state := range next {
		if before[k] == state {
			continue
		}
		for _, f := range s.subscribers {
			f(k)
		}
	}
}

// writeAccepted writes webhooks, without those that the API server refuses, so that one's mistake is not another's.
// rejected is told of each of those.
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

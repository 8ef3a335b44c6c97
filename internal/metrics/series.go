package metrics

import "sync"

// owners are those that have series of their own, such as policies. What is still under way for one that is gone must
// not bring its series back. It is safe for concurrent use.
type owners[K comparable] struct {
	mu    sync.RWMutex
	known map[K]bool
}

// add lets k have series.
func (o *owners[K]) add(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[K]bool{}
	}
	o.known[k] = true
}

// touch calls f, which touches the series of k, if k may have any.
func (o *owners[K]) touch(k K, f func()) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.known[k] {
		f()
	}
}

// forget calls f, which removes the series of k.
func (o *owners[K]) forget(k K, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, k)
	f()
}

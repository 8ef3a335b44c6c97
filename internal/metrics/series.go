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

package metrics

import "sync"

// owners is the set of objects, such as policies, that may have series. It prevents that work in progress for a deleted object creates its
// series again. It is safe for concurrent use.
type owners[K comparable] struct {
	mu    sync.RWMutex
	known map[K]bool // the members of the set
}

// add adds k, so that touch calls its functions for k.
func (o *owners[K]) add(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[K]bool{}
	}
	o.known[k] = true
}

// touch calls f, which updates the series of k, if k is in the set.
func (o *owners[K]) touch(k K, f func()) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.known[k] {
		f()
	}
}

// forget removes k and calls f, which removes the series of k.
func (o *owners[K]) forget(k K, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, k)
	f()
}

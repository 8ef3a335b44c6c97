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

	"github.com/berth-dev/berth/internal/delivery"
)

// absences knows since when systems have not brought placed objects to all of their clusters, as far as this process saw it. It is safe for
// concurrent use. The zero value is empty.
type absences struct {
	mu    sync.Mutex
	since map[delivery.Key]time.Time // When the first absence was seen of each object that is still absent.
}

// left returns how much longer a placed object may be absent from one of its clusters before it counts as not delivered: takingTimeout
// after the first call in a row with absent; 0 if the time is over, or if absent is false. absent reports whether it is absent at the time
// now.
func (a *absences) left(key delivery.Key, absent bool, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !absent {
		delete(a.since, key)
		return 0
	}
	if a.since == nil {
		a.since = map[delivery.Key]time.Time{}
	}
	since, known := a.since[key]
	if !known {
		since = now
		a.since[key] = since
	}
	return max(since.Add(takingTimeout).Sub(now), 0)
}

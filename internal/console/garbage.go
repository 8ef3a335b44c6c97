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

package console

import (
	"net/http"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// readingTime is how long no request is served before garbage is collected: the user looks at the answer.
	readingTime = 200 * time.Millisecond
	// minGarbage is how much was allocated since the last collection at least, in bytes. Less is not worth a collection.
	minGarbage = 64 << 20
)

// collector runs a garbage collection while the user reads an answer, so that the next question rarely has to share the processors with
// one, which takes longer than an answer if there are 100,000 workloads: when no request has been served for readingTime, and minGarbage
// was allocated since the last time. Those that Go itself begins remain. It is safe for concurrent use.
type collector struct {
	collect func() // runs a collection if minGarbage was allocated since the last one

	mu      sync.Mutex
	serving int         // how many requests to endpoints other than /api/updates are being served
	timer   *time.Timer // calls collect; nil before the first request has ended
}

// newCollector returns a collector of the garbage of the process. Until its first collection, all that the process has allocated since it
// started counts.
func newCollector() *collector {
	var before uint64
	return &collector{collect: func() {
		if allocated := allocatedBytes(); allocated-before >= minGarbage {
			runtime.GC()
			before = allocated
		}
	}}
}

// allocatedBytes returns how many bytes the process has allocated in its life.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// during returns a handler that calls another one. The collector begins no collection meanwhile, nor for readingTime after the last of
// several calls has ended.
func (c *collector) during(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.begin()
		defer c.end()
		handler.ServeHTTP(w, r)
	})
}

func (c *collector) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving++
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *collector) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving--; c.serving == 0 {
		c.timer = time.AfterFunc(readingTime, c.collect)
	}
}

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
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCollectorWaitsForTheUser checks that garbage is collected once after the requests that come at once, and not before all have ended.
func TestCollectorWaitsForTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collections atomic.Int32
		c := &collector{collect: func() { collections.Add(1) }}
		request := func(takes time.Duration) {
			handler := c.during(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(takes) }))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		after := func(d time.Duration, want int32) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if got := collections.Load(); got != want {
				t.Fatalf("%d collections, not %d", got, want)
			}
		}
		go request(time.Minute)
		request(time.Second)
		after(30*time.Second, 0)
		after(29*time.Second+readingTime+time.Millisecond, 1)
		for range 3 {
			request(0)
			after(readingTime/2, 1)
		}
		after(readingTime, 2)
		after(time.Hour, 2)
	})
}

// TestCollectorNeedsGarbage checks that little garbage is left to the collector of Go.
func TestCollectorNeedsGarbage(t *testing.T) {
	c := newCollector()
	collections := func() uint32 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.NumForcedGC
	}
	before := collections()
	sink = make([]byte, minGarbage)
	c.collect()
	if got := collections() - before; got != 1 {
		t.Errorf("%d collections of much garbage", got)
	}
	sink = nil
	c.collect()
	if got := collections() - before; got != 1 {
		t.Errorf("%d collections after little garbage", got-1)
	}
}

var sink []byte // what a test allocates

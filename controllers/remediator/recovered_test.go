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

package remediator

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

// TestRecovered checks that objects that an engine could not decide are decided as soon as the engine is known to
// respond again.
func TestRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		e := newDistant("https://e", time.Millisecond)
		var well atomic.Bool
		e.says = func(map[string]any) (placement.Decision, error) {
			if !well.Load() {
				return placement.Decision{}, &engine.RemoteError{Endpoint: "https://e", Fault: engine.FaultNetwork, Err: errors.New("no")}
			}
			return placement.Decision{Errors: []string{"no"}}, nil
		}
		l.put("p", "a", manual, e)
		l.start()
		l.fill(deployments, many(3, "a"))
		pass(t, time.Second)
		l.expect("before", "p", 3, 0, 3)
		l.Recovered("another")
		pass(t, time.Second)
		if n := e.all(); n != 3 {
			t.Errorf("asked %d times", n)
		}
		well.Store(true)
		l.Recovered("p")
		pass(t, time.Second)
		l.expect("after", "p", 3, 3, 0)
		if n := len(l.remoteQueue.undecided); n != 0 {
			t.Errorf("%d objects are still undecided", n)
		}
	})
}

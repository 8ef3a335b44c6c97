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
	"context"
	"testing"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// TestPanicInLane checks that after a panic in a queue, where no worker recovers it, the process runs on and the object
// is retried.
func TestPanicInLane(t *testing.T) {
	r := newRemoteQueue(newObjectCache(nil), nil, nil, nil)
	r.start(t.Context())
	key := remediation.Key{Name: "web"}
	q := &remoteQuery{policy: &placement.Policy{Name: "p"}, key: key, task: &task{}}
	r.queries[key] = []*remoteQuery{q}
	over := make(chan struct{})
	r.tasks.add("e", func(ctx context.Context) {
		defer close(over)
		r.guarded(ctx, key, func() { panic("of a test") })
	})
	<-over
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queries) > 0 {
		t.Error("the object waits for an answer for ever")
	}
}

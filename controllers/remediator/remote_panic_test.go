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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/objectcache"
	"github.com/berth-dev/berth/internal/remediation"
)

// TestPanicOfTask checks that after a panic in a task, where no worker recovers it, the process runs on and the object is decided again.
func TestPanicOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, work := objectcache.New(nil, nil), &queue{in: map[remediation.Key]bool{}}
		objects.Start(work)
		r := newRemoteQueue(objects, func(context.Context, *remoteTask) time.Duration { panic("of a test") })
		r.ctx = t.Context()
		key := remediation.Key{Name: "web"}
		if !r.takeOver(key, "https://e") {
			t.Error("the task was not taken over")
		}
		synctest.Wait()
		if len(r.tasks)+len(r.queues) > 0 {
			t.Errorf("left are %d tasks in %d queues", len(r.tasks), len(r.queues))
		}
		if diff := cmp.Diff([]time.Duration{failureDelay}, work.after[key]); diff != "" {
			t.Errorf("decided again after (-want +got):\n%s", diff)
		}
	})
}

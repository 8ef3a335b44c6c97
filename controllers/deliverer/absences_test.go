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
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/delivery"
)

// TestAbsences checks that an object which a system does not bring to its clusters counts as delivered for a while, and no longer.
func TestAbsences(t *testing.T) {
	var known absences
	now := time.Unix(1_700_000_000, 0)
	key, other := delivery.Key{Name: "web"}, delivery.Key{Name: "db"}
	for _, step := range []struct {
		key    delivery.Key
		after  time.Duration
		absent bool
		left   time.Duration
	}{
		{key, 0, true, takingTimeout},
		{key, 15 * time.Second, true, 5 * time.Second},
		{other, 0, true, takingTimeout},
		{key, 5 * time.Second, true, 0},
		{key, time.Hour, true, 0},
		{key, 0, false, 0},
		{key, 0, true, takingTimeout},
		{other, 0, true, 0},
	} {
		now = now.Add(step.after)
		if left := known.left(step.key, step.absent, now); left != step.left {
			t.Errorf("%s, absent %t: %s are left, want %s", step.key.Name, step.absent, left, step.left)
		}
	}
}

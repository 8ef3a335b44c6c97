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

package webhookconfiguration

import (
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/status"
)

// TestSubscribersReadStates checks that subscribers are called for changed states only, and without the lock, so that
// they can read the states.
func TestSubscribersReadStates(t *testing.T) {
	s := &states[string]{}
	var got []int64
	s.changes.Subscribe(func(k string) {
		if !s.mu.TryLock() {
			t.Fatal("a subscriber is called with the lock held")
		}
		s.mu.Unlock()
		got = append(got, s.get(k).Generation)
	})
	for _, generation := range []int64{1, 1, 2} {
		s.set(map[string]status.WebhookState{"p": {Generation: generation}})
	}
	if want := []int64{1, 2}; !slices.Equal(got, want) {
		t.Errorf("subscribers read the generations %v, want %v", got, want)
	}
}

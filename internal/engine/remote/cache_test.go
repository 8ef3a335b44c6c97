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

package remote

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestCache verifies that a decision is cached for the same object while the policy allows it and the data does not
// change, and that errors are never cached.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, asked := &switched{}, 0
		server.to(says(eu))
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			server.ServeHTTP(w, r)
		})
		p := f.put(t, "p", placementv1.Remote{CacheSeconds: 30, Retry: noRetry})
		expect := func(note string, want int) {
			t.Helper()
			if asked != want {
				t.Errorf("%s: asked %d times, want %d", note, asked, want)
			}
		}
		first := decides(t, p)
		if diff := cmp.Diff(first, decides(t, p)); diff != "" {
			t.Error(diff)
		}
		expect("again", 1)
		if _, err := p.Evaluate(t.Context(), map[string]any{"kind": "Other"}); err != nil {
			t.Error(err)
		}
		expect("another object", 2)
		decides(t, f.put(t, "q", placementv1.Remote{CacheSeconds: 30}))
		expect("another policy", 3)
		f.engine.PushedDataChanged("p")
		decides(t, p)
		expect("other data", 4)
		pass(30*time.Second - time.Millisecond)
		decides(t, p)
		expect("in time", 4)
		pass(2 * time.Millisecond)
		server.to(rejects(500))
		inVain(t, p)
		inVain(t, p)
		expect("too late, and errors", 6)
		server.to(says(eu))
		decides(t, p)
		expect("after an error", 7)

		never := f.put(t, "never", placementv1.Remote{})
		decides(t, never)
		decides(t, never)
		expect("never", 9)

		server.to(says(`{"result": {"annotations": {"region": "` + strings.Repeat("e", maxCachedResponse) + `"}}}`))
		large := f.put(t, "large", placementv1.Remote{CacheSeconds: 30})
		decides(t, large)
		decides(t, large)
		expect("too large", 11)
	})
}

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

package attempts_test

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/attempts"
)

// TestDelaysGrow checks that the delays of single objects double up to a limit, and begin again after a success.
func TestDelaysGrow(t *testing.T) {
	now := time.Unix(0, 0)
	for name, tt := range map[string]struct {
		fail    func(a *attempts.Attempts[string]) time.Duration
		succeed func(a *attempts.Attempts[string])
		first   time.Duration
	}{
		"refused": {
			func(a *attempts.Attempts[string]) time.Duration { return a.Refused("web") },
			func(a *attempts.Attempts[string]) { a.Succeeded("web") }, 10 * time.Second,
		},
		"protected": {
			func(a *attempts.Attempts[string]) time.Duration { return a.Protected(now, "web", []string{"p"}) },
			func(a *attempts.Attempts[string]) { a.Decided("web", []string{"p"}, false) }, 5 * time.Second,
		},
		"forgotten": {
			func(a *attempts.Attempts[string]) time.Duration { return a.Refused("web") },
			func(a *attempts.Attempts[string]) { a.Forget("web") }, 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, want := attempts.New[string](), tt.first
			for range 10 {
				if got := tt.fail(a); got != want {
					t.Errorf("waits %s, want %s", got, want)
				}
				want = min(2*want, 5*time.Minute)
			}
			tt.succeed(a)
			if got := tt.fail(a); got != tt.first {
				t.Errorf("waits %s after a success", got)
			}
		})
	}
}

// TestProtectedFor checks that a protected Pod counts for the policies that require its eviction now.
func TestProtectedFor(t *testing.T) {
	a := attempts.New[string]()
	expect := func(what string, p, q int) {
		t.Helper()
		if gotP, gotQ := a.ProtectedFor("p"), a.ProtectedFor("q"); gotP != p || gotQ != q {
			t.Errorf("%s: %d and %d Pods, want %d and %d", what, gotP, gotQ, p, q)
		}
	}
	a.Protected(time.Unix(0, 0), "web-0", []string{"p"})
	a.Protected(time.Unix(0, 0), "web-1", []string{"p", "q"})
	expect("at first", 2, 1)
	a.Decided("web-0", []string{"q"}, true)
	a.Decided("web-2", []string{"q"}, true)
	expect("for another policy", 1, 2)
	a.Forget("web-1")
	expect("without one", 0, 1)
}

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

package budget

import "testing"

func TestRounds(t *testing.T) {
	for value, want := range map[string]int{"1": 7, "20": 140} {
		t.Setenv(Variable, value)
		if got := Rounds(7); got != want {
			t.Errorf("%s=%s: got %d, want %d", Variable, value, got, want)
		}
	}
	for value, want := range map[string]int{"1": 7, "2": 50, "20": 50} {
		t.Setenv(Variable, value)
		if got := Size(7, 50); got != want {
			t.Errorf("%s=%s: got the size %d, want %d", Variable, value, got, want)
		}
	}
	for _, bad := range []string{"", "0", "-1", "many"} {
		t.Setenv(Variable, bad)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s=%q is accepted", Variable, bad)
				}
			}()
			Rounds(7)
		}()
	}
}

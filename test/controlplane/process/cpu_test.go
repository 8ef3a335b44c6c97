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

package process

import (
	"testing"
	"time"
)

func TestCPUOf(t *testing.T) {
	got, err := cpuOf([]byte("4711 (a (b) c) S 1 4711 4711 0 -1 4194560 1 2 3 4 150 25 9 9 20 0 8 0 100 1000 10 18446744073709551615\n"))
	if want := 1750 * time.Millisecond; err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "4711 (x) S 1 2", "1 (x) S 1 1 1 0 -1 0 1 2 3 4 a 25 9"} {
		if _, err := cpuOf([]byte(bad)); err == nil {
			t.Errorf("%q has a time", bad)
		}
	}
}

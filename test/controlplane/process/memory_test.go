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

import "testing"

func TestPeakMemoryIn(t *testing.T) {
	got, err := peakMemoryIn([]byte("Name:\ta\nVmPeak:\t  300 kB\nVmHWM:\t   200 kB\nVmRSS:\t  100 kB\n"))
	if want := int64(200 << 10); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "Name:\ta\n", "Name:\ta\nVmHWM:\t x kB\n"} {
		if _, err := peakMemoryIn([]byte(bad)); err == nil {
			t.Errorf("%q has a peak", bad)
		}
	}
}

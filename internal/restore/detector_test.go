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

package restore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// TestDetector checks that only a lower version ends the process, and that it does so for good.
func TestDetector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDetector()
		ended := make(chan error, 1)
		go func() { ended <- d.Start(t.Context()) }()
		for _, versions := range [][2]string{{"", "7"}, {"7", "7"}, {"7", "8"}, {"9", "10"}, {"8", ""}, {"8", "unknown"}} {
			if err := d.Compare(Served, versions[0], versions[1]); err != nil {
				t.Errorf("%q: %v", versions, err)
			}
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("ended by %v", err)
		default:
		}
		first := d.Compare(Host, "100", "99")
		if first == nil || !strings.Contains(first.Error(), "host cluster went back from resource version 100 to 99") {
			t.Errorf("got %v", first)
		}
		if err := <-ended; !errors.Is(err, first) {
			t.Errorf("ended by %v", err)
		}
		if err := d.Compare(Served, "99", "100"); !errors.Is(err, first) {
			t.Errorf("a later comparison returns %v", err)
		}
	})
}

func TestDetectorEndsWithItsManager(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewDetector().Start(ctx); err != nil {
		t.Error(err)
	}
}

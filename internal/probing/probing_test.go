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

package probing

import (
	"testing"
	"time"
)

// TestForget checks that nothing is kept of objects that do not exist any more.
func TestForget(t *testing.T) {
	var f Failures[string]
	now := time.Unix(0, 0)
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		f.Fail(now, key[:1], key)
	}
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		if !f.Has(key[:1], key) {
			t.Errorf("%s did not fail", key)
		}
		f.Forget(key[:1], key)
	}
	if f.Any() || len(f.objects)+len(f.namespaces) > 0 {
		t.Errorf("remembers %+v", f)
	}
}

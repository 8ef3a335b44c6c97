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

package moveset_test

import (
	"cmp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
)

// FuzzChanges checks that changes have a form from which they can be read again, whatever their texts are, that does not depend
// on their order, and that leaves out what no patch can change.
func FuzzChanges(f *testing.F) {
	f.Add("annotations", "k", "a", "b", "labels", "l", true)
	f.Add("", "", "", "", "", "", false)
	f.Add("scheduling", strings.Repeat("k", 300), "\x00", "\x01\xff", "scheduling", "k", true)
	f.Fuzz(func(t *testing.T, field, k, from, to, otherField, otherKey string, absent bool) {
		one, two := placement.Change{Field: field, Key: k, From: &from, To: &to}, placement.Change{Field: otherField, Key: otherKey, To: &from}
		if absent {
			one.To = nil
		}
		fixed := one
		fixed.Immutable = "because"
		encoded := moveset.Encode([]placement.Change{one, fixed, two})
		got := moveset.Decode(encoded)
		want := []placement.Change{one, two}
		if cmp.Or(cmp.Compare(field, otherField), cmp.Compare(k, otherKey)) > 0 {
			want = []placement.Change{two, one}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if field == otherField && k == otherKey {
			// One object has one change of a key.
			return
		}
		if other := moveset.Encode([]placement.Change{two, one}); other != encoded {
			t.Errorf("the order of changes matters: %q, %q", encoded, other)
		}
	})
}

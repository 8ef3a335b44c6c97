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

package audit_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-dev/berth/internal/audit"
)

func TestValue(t *testing.T) {
	if got, want := audit.Value([]string{"a", "b"}, ","), "a,b"; got != want {
		t.Errorf("value %q, want %q", got, want)
	}
	if got := audit.Value(nil, ","); got != "" {
		t.Errorf("value %q of nothing", got)
	}
	// The text may be cut within a character.
	for i := range 4 {
		got := audit.Value([]string{strings.Repeat("x", i), strings.Repeat("€", 2000)}, "")
		if len(got) > 4096 || len(got) < 4090 || !utf8.ValidString(got) || !strings.HasSuffix(got, "€...") {
			t.Errorf("%d bytes, valid %t, ends in %q", len(got), utf8.ValidString(got), got[len(got)-8:])
		}
	}
}

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

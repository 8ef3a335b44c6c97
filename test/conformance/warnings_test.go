package conformance

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/policy"
)

// No policy of the corpus is warned of, but for reading data that it is meant not to have, and for deciding nothing.
func TestNoPolicyIsWarnedOf(t *testing.T) {
	themes, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, theme := range themes {
		for _, p := range theme.Policies {
			m, err := policy.Compile(p.Name, p.Spec())
			if err != nil {
				t.Errorf("%s/%s: %v", theme.Name, p.Name, err)
				continue
			}
			for _, w := range m.Warnings {
				if !strings.Contains(w, "which spec.data does not have") && !strings.HasSuffix(w, "the policy decides nothing") {
					t.Errorf("%s/%s: %s", theme.Name, p.Name, w)
				}
			}
		}
	}
}

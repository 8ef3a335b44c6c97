package conformance_test

import (
	"testing"

	"github.com/berth-dev/berth/test/conformance"
)

func load(t *testing.T) []conformance.Theme {
	t.Helper()
	themes, err := conformance.Load()
	if err != nil {
		t.Fatal(err)
	}
	return themes
}

func TestEmbedded(t *testing.T) {
	for _, theme := range load(t) {
		world, err := theme.World()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range theme.Policies {
			evaluator, _, _, err := world.Embedded(t.Context(), theme.Name+"-"+p.Name, p)
			if err != nil {
				t.Errorf("%s/%s: %v", theme.Name, p.Name, err)
				continue
			}
			for _, c := range p.Cases {
				t.Run(theme.Name+"/"+p.Name+"/"+c.Name, func(t *testing.T) {
					got, failed := evaluator.Evaluate(t.Context(), c.Object.Document)
					mismatch, err := c.Mismatch(got, failed)
					if err != nil || mismatch != "" {
						t.Error(err, mismatch)
					}
				})
			}
		}
	}
}

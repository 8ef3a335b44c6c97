package growth_test

import (
	"testing"

	"github.com/berth-dev/berth/test/growth"
)

// TestRatio: linear work passes, and quadratic work does not.
func TestRatio(t *testing.T) {
	linear := growth.Ratio(t, 1<<20, func(n int) func() {
		return func() { spin(n) }
	})
	if linear > growth.Limit {
		t.Errorf("linear work has a ratio of %.1f", linear)
	}
	quadratic := growth.Ratio(t, 1<<11, func(n int) func() {
		return func() { spin(n * n) }
	})
	if quadratic <= growth.Limit {
		t.Errorf("quadratic work has a ratio of %.1f", quadratic)
	}
}

var sink int

func spin(n int) {
	for i := range n {
		sink += i ^ sink
	}
}

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

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

package bench_test

import (
	"runtime"
	"testing"

	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/test/budget"
)

// many is how many policies of different texts a start compiles.
const many = 1000

// BenchmarkCompile is what it takes until policies decide: compiled, analysed, bound, prepared and in force.
//
//   - policies=1000 is the start with as many policies of different texts.
//   - change=1/present=1 and change=1/present=1000 are one policy that gets a new text, with as many others present.
func BenchmarkCompile(b *testing.B) {
	b.Run("policies=1000", func(b *testing.B) {
		texts := 0
		measure(b, func(int) {
			w := newWorld(b)
			for range many {
				// A text of an earlier start would not have to be compiled again.
				texts++
				w.put(b, fixture.Variant(texts))
			}
		})
	})
	for _, present := range []struct {
		name string
		n    int
	}{{"change=1/present=1", 1}, {"change=1/present=1000", many}} {
		b.Run(present.name, func(b *testing.B) {
			w := newWorld(b)
			for i := range present.n {
				w.put(b, fixture.Variant(i))
			}
			changed := fixture.Variant(0)
			name := changed.Name
			measure(b, func(i int) {
				changed = fixture.Variant(present.n + i)
				changed.Name = name
				w.put(b, changed)
			})
		})
	}
}

// BenchmarkHeap is what the memory of a replica grows by.
//
//   - per=policy is one policy of a text of its own, in force.
//   - per=workload/projections=distinct and per=workload/projections=40 are one replicated Deployment of which a policy
//     reads three fields, where no two are alike there and where there are 40 different ones.
func BenchmarkHeap(b *testing.B) {
	b.Run("per=policy", func(b *testing.B) {
		for b.Loop() {
			w := newWorld(b)
			before := heap()
			const enough = 200
			for i := range enough {
				w.put(b, fixture.Variant(i))
			}
			b.ReportMetric(float64(heap()-before)/enough, "heap-B/policy")
			runtime.KeepAlive(w)
		}
	})
	enough := budget.Size(30_000, workloads)
	for _, c := range []struct {
		name     string
		distinct int
	}{{"per=workload/projections=distinct", enough}, {"per=workload/projections=40", 40}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b)
				w.put(b, reader(b))
				before := heap()
				w.fill(b, enough, c.distinct)
				b.ReportMetric(float64(heap()-before)/float64(enough), "heap-B/object")
				runtime.KeepAlive(w)
			}
		})
	}
}

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

// Package growth measures how the processor time of some work grows with its input. Tests use it to find code whose cost
// is not linear in the size of an object that any user may write.
package growth

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

const (
	// Factor is how much larger the larger input is.
	Factor = 4
	// Limit is the largest ratio of processor times that passes for linear. Linear work has a ratio near Factor, quadratic
	// work one near Factor squared. The margin is for caches, garbage collection, and sorting.
	Limit = 2 * Factor

	// attempts is how often a ratio above the limit is measured again: noise goes away, a superlinear cost does not.
	attempts = 5
	// enough is for how long work is repeated for one figure.
	enough = 2 * time.Millisecond
	// floor is what work on the smaller input is taken to cost at least. Fixed costs and the clock's resolution hide
	// anything below it.
	floor = 100 * time.Microsecond
)

// Linear fails the test if the processor time of work on an input of size Factor*n is more than Limit times that on an
// input of size n. prepare builds an input, which is not measured, and returns the work on it. The test must not run in
// parallel with others, since the processor time is that of the whole process.
func Linear(t testing.TB, n int, prepare func(n int) (work func())) {
	t.Helper()
	if ratio := Ratio(t, n, prepare); ratio > Limit {
		t.Errorf("an input of %d times the size takes %.1f times the processor time, want at most %d times", Factor, ratio, Limit)
	}
}

// Ratio returns the smallest ratio of several attempts, as soon as one is within the limit.
func Ratio(t testing.TB, n int, prepare func(n int) (work func())) float64 {
	t.Helper()
	small, large := prepare(n), prepare(Factor*n)
	lowest := 0.0
	for i := range attempts {
		least := max(costOf(t, small), floor)
		ratio := float64(costOf(t, large)) / float64(least)
		if i == 0 || ratio < lowest {
			lowest = ratio
		}
		if lowest <= Limit {
			break
		}
	}
	return lowest
}

// costOf is the processor time that one call of work takes, on average. Garbage of work before it is not counted.
func costOf(t testing.TB, work func()) time.Duration {
	t.Helper()
	runtime.GC()
	start := ProcessorTime(t)
	for calls := time.Duration(1); ; calls++ {
		work()
		if total := ProcessorTime(t) - start; total >= enough {
			return total / calls
		}
	}
}

// ProcessorTime returns the processor time that this process has taken until now, with all that runs in it.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

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

// Package admission_test searches for requests by which an object comes to exist that a policy denies, or that lose what a
// developer wrote. It sends random requests to a real API server: each one to a namespace that policies match, and to
// another one, its shadow, that none matches. What is stored must be the same, but for what the policies decide.
//
// These must hold:
//   - No object exists that an enforced policy denies.
//   - A stored object differs from its shadow only in what the policies decide.
//   - A policy refuses only what it denies. Any other refusal is the same one in the shadow.
//   - Remediation patches nothing that admission accepted.
//
// `go test ./test/fuzz/admission` runs the known attacks alone, `make fuzz FUZZ=Admission FUZZ_RUNS=8000` searches for ten minutes,
// and `go test ./test/fuzz/admission -run=FuzzAdmission/NAME` replays the file NAME in testdata/fuzz/FuzzAdmission. A failure
// prints its input as Go. Add it to seeds_test.go with a name that says what it tries, and delete the file. Policies are in
// features_test.go, and ways to write objects in recipe_test.go.
//
// The first process starts the cluster, and workers of native fuzzing share it. So a run needs no start for each worker.
package admission_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"
)

// Native fuzzing ends a worker that takes 10 seconds for an input.
const (
	recipeTimeout  = 6 * time.Second
	cleanUpTimeout = 3 * time.Second
)

// FuzzAdmission runs recipes. A failure prints the recipe as Go, to be added to seeds_test.go.
func FuzzAdmission(f *testing.F) {
	if testing.Short() {
		f.Skip("needs a control plane")
	}
	c := newCluster(f)
	runner, err := newRunner(f.Context(), c)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range seeds {
		for i := range remediations {
			// The largest objects take seconds, whatever the mode is.
			if i == 0 || !seed.steps.isLarge() {
				f.Add(seed.steps.under(i).encode())
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), recipeTimeout)
		defer cancel()
		steps := decode(text)
		err := runner.run(ctx, steps)
		if ctx.Err() != nil || errors.Is(err, errTimedOut) || errors.Is(err, context.DeadlineExceeded) {
			t.Skip("the machine is too slow for this recipe")
		}
		if err != nil {
			t.Fatalf("%s: %v\n\nTo replay it, add it to the seeds:\n%v", cmp.Or(seedName(text), "no seed"), err, steps)
		}
	})
}

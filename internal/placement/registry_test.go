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

package placement_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
)

// heldEvaluator decides nothing. It holds each evaluation until the test ends it.
type heldEvaluator struct {
	fakeEvaluator
	began, proceed chan struct{}
}

func newHeldEvaluator() *heldEvaluator {
	return &heldEvaluator{began: make(chan struct{}), proceed: make(chan struct{})}
}

func (e *heldEvaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	e.began <- struct{}{}
	<-e.proceed
	return e.fakeEvaluator.Evaluate(ctx, input)
}

// generationsInUse returns the generations of the versions in use, by policy and in order.
func generationsInUse(r *placement.Registry) map[string][]int64 {
	out := map[string][]int64{}
	for name, s := range r.InUse() {
		for _, p := range s.Versions() {
			out[name] = append(out[name], p.Generation)
		}
	}
	return out
}

// TestInUse checks that an earlier version is in use until the last decision that began with it has ended, whatever became of its
// policy meanwhile.
func TestInUse(t *testing.T) {
	held := newHeldEvaluator()
	version := func(name string, generation int64) *placement.Policy {
		return &placement.Policy{Name: name, Generation: generation, Matcher: allDeployments(t), Evaluator: &fakeEvaluator{}}
	}
	first, other := version("p", 1), &placement.PolicyState{Policy: version("q", 1)}
	first.Evaluator = held
	inFirstStage := &placement.PolicyState{Policy: version("p", 2), Staged: &placement.StagedVersions{Before: first}}
	// No object matches the new version in this stage.
	inFirstStage.Policy.Matcher = inFirstStage.Policy.Matcher.Within(func(string, map[string]string) bool { return false })

	tests := map[string]struct {
		before *placement.PolicyState
		change func(*placement.Registry)
		// during and after are the versions in use while the decision is held, and afterwards.
		during, after map[string][]int64
	}{
		"Changed": {
			&placement.PolicyState{Policy: first},
			func(r *placement.Registry) { r.Set("p", &placement.PolicyState{Policy: version("p", 2)}) },
			map[string][]int64{"p": {1, 2}, "q": {1}}, map[string][]int64{"p": {2}, "q": {1}},
		},
		"ChangedTwice": {
			&placement.PolicyState{Policy: first},
			func(r *placement.Registry) {
				r.Set("p", &placement.PolicyState{Policy: version("p", 2)})
				r.Set("p", &placement.PolicyState{Policy: version("p", 3)})
			},
			map[string][]int64{"p": {1, 3}, "q": {1}}, map[string][]int64{"p": {3}, "q": {1}},
		},
		"Removed": {
			&placement.PolicyState{Policy: first},
			func(r *placement.Registry) { r.Remove("p") },
			map[string][]int64{"p": {1}, "q": {1}}, map[string][]int64{"q": {1}},
		},
		"NextStage": {
			inFirstStage,
			func(r *placement.Registry) { r.Set("p", &placement.PolicyState{Policy: inFirstStage.Policy}) },
			map[string][]int64{"p": {2, 1, 2}, "q": {1}}, map[string][]int64{"p": {2}, "q": {1}},
		},
		"AnotherPolicy": {
			&placement.PolicyState{Policy: first},
			func(r *placement.Registry) { r.Set("q", &placement.PolicyState{Policy: version("q", 2)}) },
			map[string][]int64{"p": {1}, "q": {1, 2}}, map[string][]int64{"p": {1}, "q": {2}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := placement.NewRegistry()
			var releases atomic.Int64
			r.SubscribeReleased(func() { releases.Add(1) })
			d := &placement.Decider{Policies: r, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
			r.Set("p", tc.before)
			r.Set("q", other)
			var decisions sync.WaitGroup
			for range 2 {
				decisions.Go(func() {
					request := placement.Request{Resource: deployments, Namespace: "default", Object: newObject("web", newMetadata())}
					if out, err := d.Decide(t.Context(), request); err != nil || !slices.ContainsFunc(out.Verdicts, func(v *placement.Verdict) bool { return v.Policy == first }) {
						t.Errorf("%+v, %v", out, err)
					}
				})
				<-held.began
			}
			expect := func(want map[string][]int64, released int64) {
				t.Helper()
				if diff := cmp.Diff(want, generationsInUse(r)); diff != "" {
					t.Errorf("in use (-want +got):\n%s", diff)
				}
				if got := releases.Load(); got != released {
					t.Errorf("%d releases, want %d", got, released)
				}
			}
			tc.change(r)
			expect(tc.during, 0)
			held.proceed <- struct{}{}
			expect(tc.during, 0)
			held.proceed <- struct{}{}
			decisions.Wait()
			expect(tc.after, 1)
		})
	}
}

// TestBeginDuringChange checks that a decision does not begin with a state that a change has replaced meanwhile.
func TestBeginDuringChange(t *testing.T) {
	r := placement.NewRegistry()
	r.Set("p", &placement.PolicyState{Policy: sets(t, "p", 0, "k", "v")})
	if !r.BeginAfter(func() {}) {
		t.Error("no decision without a change")
	}
	if r.BeginAfter(func() { r.Remove("p") }) {
		t.Error("a decision began with an earlier state")
	}
}

// TestBeginCostsLittle checks that a decision allocates nothing to begin and end, and publishes no release while no policy changes.
func TestBeginCostsLittle(t *testing.T) {
	r := placement.NewRegistry()
	r.SubscribeReleased(func() { t.Error("released") })
	r.Set("p", &placement.PolicyState{Policy: sets(t, "p", 0, "k", "v")})
	allocations := testing.AllocsPerRun(10, func() {
		_, end := r.Begin()
		end()
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	r.Set("p", &placement.PolicyState{Policy: sets(t, "p", 0, "k", "w")})
}

// TestDataOutlivesDecisions checks, with decisions and changes in random order, that the data of no version is dropped before the
// last decision that began with the version has ended, and that the data of every earlier version is dropped in the end.
func TestDataOutlivesDecisions(t *testing.T) {
	const changes, deciders = 3000, 4
	names := []string{"a", "b", "c"}
	r := placement.NewRegistry()
	changed := notify.NewSignal()
	r.Subscribe(func(placement.PolicyChange) { changed.Notify() })
	r.SubscribeReleased(changed.Notify)
	// dropped reports by generation whether the data of a version is dropped. A version is never in force again.
	var dropped [changes]atomic.Bool
	matcher := allDeployments(t)

	stop := make(chan struct{})
	var deciding, dropping sync.WaitGroup
	for range deciders {
		deciding.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for {
				select {
				case <-stop:
					return
				default:
				}
				index, end := r.Begin()
				policies := index.CandidatesFor(deployments).Matching(match.Object{Resource: deployments, Namespace: "default", Content: newObject("web", newMetadata())})
				for range random.IntN(10) {
					runtime.Gosched()
				}
				for _, p := range policies {
					if dropped[p.Generation].Load() {
						t.Errorf("the data of generation %d was dropped during a decision", p.Generation)
					}
				}
				end()
			}
		})
	}
	kept := map[string][]int64{}
	dropping.Go(func() {
		for range changed {
			inUse := generationsInUse(r)
			for name, generations := range kept {
				for _, generation := range generations {
					dropped[generation].Store(!slices.Contains(inUse[name], generation))
				}
			}
			kept = inUse
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	for generation := range int64(changes) {
		name := names[random.IntN(len(names))]
		if random.IntN(5) == 0 {
			r.Remove(name)
		} else {
			r.Set(name, &placement.PolicyState{Policy: &placement.Policy{Name: name, Generation: generation, Matcher: matcher}})
		}
		if random.IntN(3) == 0 {
			runtime.Gosched()
		}
	}
	close(stop)
	deciding.Wait()
	close(changed)
	dropping.Wait()
	inForce := map[string][]int64{}
	for _, p := range r.InForce() {
		inForce[p.Name] = []int64{p.Generation}
	}
	if diff := cmp.Diff(inForce, kept); diff != "" {
		t.Errorf("kept in the end (-in force +kept):\n%s", diff)
	}
}

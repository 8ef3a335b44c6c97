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

package placementmutator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

// distant is a fake remote engine that responds after a delay, unless the request's deadline comes first.
type distant struct {
	answer
	endpoint string
	takes    time.Duration
}

func (d distant) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	over := time.NewTimer(d.takes)
	defer over.Stop()
	select {
	case <-over.C:
		return d.answer.Evaluate(ctx, input)
	case <-ctx.Done():
		return placement.Decision{}, &engine.RemoteError{Endpoint: d.endpoint, Fault: engine.FaultTimeout, Err: errors.New("no answer in time")}
	}
}

func (d distant) Health() placement.RemoteHealth {
	return placement.RemoteHealth{Endpoint: d.endpoint, Queried: true}
}

func remotePolicy(t *testing.T, name string, failure placementv1.FailurePolicy, a answer, takes time.Duration) *placement.Policy {
	t.Helper()
	p := policyOf(t, name, placementv1.ModeEnforce, failure, a)
	p.Evaluator = distant{answer: a, endpoint: "https://" + name + ".example:8181", takes: takes}
	return p
}

func sets(key string) answer {
	return answer{Decision: placement.Decision{Labels: map[string]string{key: "x"}}}
}

// TestHandleEngineThatHangs checks that a hanging engine uses up the request's time but not the verdicts of the other
// policies, and that the response names the engine.
func TestHandleEngineThatHangs(t *testing.T) {
	for _, failure := range []placementv1.FailurePolicy{placementv1.FailurePolicyFail, placementv1.FailurePolicyIgnore} {
		t.Run(string(failure), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(t,
					remotePolicy(t, "a-hangs", failure, deciding, time.Hour),
					remotePolicy(t, "b-slow", placementv1.FailurePolicyFail, sets("b"), 3*time.Second),
					remotePolicy(t, "c-slow", placementv1.FailurePolicyFail, sets("c"), 3*time.Second),
					policyOf(t, "d-here", placementv1.ModeEnforce, placementv1.FailurePolicyFail, sets("d")),
					remotePolicy(t, "e-warns", placementv1.FailurePolicyIgnore, answer{Decision: placement.Decision{Warnings: []string{"of e"}}}, time.Second),
				)
				start := time.Now()
				got := h.Handle(t.Context(), request(deployment))
				if took := time.Since(start); took != 4*time.Second {
					t.Errorf("answered after %v", took)
				}
				const message = `PlacementPolicy "a-hangs" can't decide: engine https://a-hangs.example:8181: no answer in time (timeout)`
				if failure == placementv1.FailurePolicyFail {
					if got.Allowed || got.Result.Message != message {
						t.Errorf("answer %+v", got)
					}
					if diff := cmp.Diff([]string{"PlacementEvaluationFailed: " + message}, h.notes.lines); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					return
				}
				if !got.Allowed {
					t.Fatalf("answer %+v", got)
				}
				if diff := cmp.Diff([]string{message + "; ignored, as its failurePolicy says", "of e"}, got.Warnings); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
				patched := fmt.Sprint(got.Patches)
				for _, key := range []string{"b", "c", "d"} {
					if !strings.Contains(patched, "/labels/"+key) {
						t.Errorf("label %s is not among %s", key, patched)
					}
				}
			})
		})
	}
}

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

package tracing_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/tracing"
)

// fixed is an evaluator that always returns the same.
type fixed struct {
	placement.Evaluator
	decision placement.Decision
	err      error
}

func (f fixed) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	return f.decision, f.err
}

// TestEvaluate checks that an evaluation is counted by its outcome, and that its result is returned as it is.
func TestEvaluate(t *testing.T) {
	oh := errors.New("oh")
	for want, evaluator := range map[string]fixed{
		metrics.OutcomeUnchanged: {},
		metrics.OutcomeChanged:   {decision: placement.Decision{Labels: map[string]string{"a": "b"}}},
		metrics.OutcomeDenied:    {decision: placement.Decision{Labels: map[string]string{"a": "b"}, Errors: []string{"no"}}},
		metrics.OutcomeError:     {err: oh},
	} {
		t.Run(want, func(t *testing.T) {
			r := prometheus.NewRegistry()
			m, err := metrics.New(r)
			if err != nil {
				t.Fatal(err)
			}
			m.AddPolicy("p")
			decision, err := tracing.Evaluate(t.Context(), clock.RealClock{}, m, metrics.SourceAdmission, &placement.Policy{Name: "p", Evaluator: evaluator}, nil)
			if !decision.Equal(evaluator.decision) || !errors.Is(err, evaluator.err) {
				t.Errorf("returned %v, %v", decision, err)
			}
			families, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			counted := map[string]bool{}
			for _, family := range families {
				for _, series := range family.GetMetric() {
					for _, label := range series.GetLabel() {
						counted[family.GetName()+" "+label.GetValue()] = true
					}
				}
			}
			if !counted["berth_decisions_total "+want] || !counted["berth_decisions_total "+metrics.SourceAdmission] {
				t.Errorf("not counted as %s: %v", want, counted)
			}
		})
	}
}

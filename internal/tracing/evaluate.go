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

package tracing

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
)

// Evaluate evaluates a policy on an input, and returns the decision and error of its evaluator. It counts the evaluation in the metrics, as
// of a source such as metrics.SourceAdmission, and records it as a span.
func Evaluate(ctx context.Context, c clock.PassiveClock, m *metrics.Metrics, source string, p *placement.Policy,
	input map[string]any) (placement.Decision, error) {
	ctx, span := Start(ctx, "evaluate")
	start := c.Now()
	decision, err := p.Evaluator.Evaluate(ctx, input)
	outcome := outcomeOf(decision, err)
	m.Decision(p.Name, source, outcome, c.Since(start))
	Evaluated(span, p, outcome, err)
	return decision, err
}

// outcomeOf returns the outcome of an evaluation for metrics and spans: metrics.OutcomeError if err is not nil, OutcomeDenied if the
// decision denies the object, OutcomeChanged if it sets anything, even to values that the object has, and OutcomeUnchanged otherwise.
func outcomeOf(decision placement.Decision, err error) string {
	switch {
	case err != nil:
		return metrics.OutcomeError
	case len(decision.Errors) > 0:
		return metrics.OutcomeDenied
	case len(decision.Annotations)+len(decision.Labels)+len(decision.Scheduling) > 0 || decision.Clusters != nil:
		return metrics.OutcomeChanged
	default:
		return metrics.OutcomeUnchanged
	}
}

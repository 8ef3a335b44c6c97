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

package mistakes

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Observed is the status of one of Berth's objects.
type Observed struct {
	Generation, ObservedGeneration int64
	Conditions                     []metav1.Condition
	// Findings is the number of findings in the status.
	Findings int
}

// passing are the reasons of conditions that change by themselves in a moment.
var passing = []string{
	placementv1.ReasonNotInForce, placementv1.ReasonWebhookPending, placementv1.ReasonReplicating, placementv1.ReasonEvaluating,
	placementv1.ReasonCounting,
}

// Settled reports whether the status is that of the newest generation, and no condition is about to change by itself.
func (o Observed) Settled() bool {
	return o.ObservedGeneration == o.Generation && meta.FindStatusCondition(o.Conditions, placementv1.ConditionReady) != nil &&
		!slices.ContainsFunc(o.Conditions, func(c metav1.Condition) bool { return slices.Contains(passing, c.Reason) })
}

// bad are the statuses of conditions that tell people that something is wrong. Enforced is not among them: it is False in
// a mode that the author chose. Neither is Replicated, nor Compiled: Ready sums them up.
var bad = map[string]metav1.ConditionStatus{
	placementv1.ConditionCompliant: metav1.ConditionFalse,
	placementv1.ConditionStalled:   metav1.ConditionTrue,
	"Degraded":                     metav1.ConditionTrue,
}

// remarks are the reasons of conditions that are as they should be, and tell people of a mistake all the same.
var remarks = []string{placementv1.ReasonConflict, placementv1.ReasonAmbiguousClusters, placementv1.ReasonTypeErrors}

// Green reports whether a person who looks at the status sees nothing wrong.
func (o Observed) Green() bool {
	return meta.IsStatusConditionTrue(o.Conditions, placementv1.ConditionReady) && o.Findings == 0 &&
		!slices.ContainsFunc(o.Conditions, func(c metav1.Condition) bool { return bad[c.Type] == c.Status || slices.Contains(remarks, c.Reason) })
}

// Shows reports whether the status has a condition about the newest generation as it is wanted.
func (o Observed) Shows(want Condition) bool {
	c := meta.FindStatusCondition(o.Conditions, want.Condition)
	return c != nil && o.ObservedGeneration == o.Generation && c.Status == want.Status &&
		(want.Reason == "" || c.Reason == want.Reason) && strings.Contains(c.Message, want.Message)
}

// Warnings returns the warnings in what kubectl apply printed. Those that kubectl gives by itself are left out.
func Warnings(output string) []string {
	var out []string
	for line := range strings.Lines(output) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), "Warning: ")
		if found && !strings.Contains(text, "missing the kubectl.kubernetes.io/last-applied-configuration annotation") {
			out = append(out, text)
		}
	}
	return out
}

// Missing returns the texts that are not in the output. Line breaks and runs of spaces count as one space.
func Missing(output string, says []string) []string {
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	output = flat(output)
	return slices.DeleteFunc(slices.Clone(says), func(text string) bool { return strings.Contains(output, flat(text)) })
}

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

package findings

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// hugeNumber is a number of objects that hardly any policy matches.
const hugeNumber = 100_000

// findingsOfNumbers finds numbers of objects in spec.remediation and in stages that bound nothing while the policy matches few objects. A
// finding with Finding.Below holds while the policy matches many objects, but fewer than that, and any other one always. findingsOfNumbers
// does not read objects.
func findingsOfNumbers(spec placementv1.PlacementPolicySpec) []Finding {
	return slices.Concat(findingsOfUnavailable(spec), findingsOfMinObjects(spec), findingsOfFailures(spec))
}

// findingsOfLargeNumbers finds numbers of objects in spec.remediation and in stages that are too large for the policy. A finding with
// Finding.Below is left out unless the policy matches at least manyObjects objects, and fewer than Below. The number of matched objects is
// that of the existing ones, if f can read them and the policy has no match conditions. Otherwise, it is known, which is 0 for an unknown
// number.
func (f *Finder) findingsOfLargeNumbers(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher, known int) []Finding {
	list := findingsOfNumbers(spec)
	if len(list) == 0 {
		return nil
	}
	// The comparison with labels of objects reports an error.
	if objects, err := f.matchedObjects(ctx, m); err == nil && f.Objects != nil && !m.Conditional() {
		known = len(objects)
	}
	return slices.DeleteFunc(list, func(found Finding) bool { return found.Below > 0 && (known < manyObjects || known >= int(found.Below)) })
}

// ofFew returns a finding of level Advice with a formatted message that holds while the policy matches many objects, but no more than a
// quarter of a number, which then bounds nothing. It holds always for a number that hardly any policy reaches.
func ofFew(number int32, format string, args ...any) Finding {
	out := advice(format, args...)
	if number < hugeNumber {
		out.Below, out.Until = number/4+1, number
	}
	return out
}

// findingsOfMinObjects finds a spec.remediation.blastRadius.minObjects above the default in an enforced policy with automatic remediation,
// which never pauses while the policy matches fewer objects. The finding holds while the policy matches many objects, but no more than a
// quarter of the number, and always for a number that hardly any policy reaches. With percent: 100, there is no finding.
func findingsOfMinObjects(spec placementv1.PlacementPolicySpec) []Finding {
	spec = spec.WithDefaults()
	b := spec.Remediation.BlastRadius.WithDefaults()
	if spec.Mode != placementv1.ModeEnforce || spec.Remediation.Mode != placementv1.RemediationAutomatic || b.Percent >= maxPercent ||
		b.MinObjects <= placementv1.DefaultBlastRadiusMinObjects {
		return nil
	}
	return []Finding{ofFew(b.MinObjects, "spec.remediation.blastRadius.minObjects: the blast radius never pauses remediation while the "+
		"policy matches fewer than %d objects: one change may leave all of them denied or without clusters. Set a smaller number, or percent: "+
		"100 to disable the guard", b.MinObjects)}
}

// findingsOfFailures finds numbers in pauseAfterFailures of the budget, and of stages that another stage follows, that stop nothing while
// the policy matches fewer objects. The findings hold while the policy matches many objects, but no more than a quarter of the number, and
// always for a number that hardly any policy reaches.
func findingsOfFailures(spec placementv1.PlacementPolicySpec) []Finding {
	var out []Finding
	find := func(limit *intstr.IntOrString, path, what string) {
		if limit != nil && limit.Type == intstr.Int && limit.IntVal > placementv1.DefaultPauseAfterFailures {
			out = append(out, ofFew(limit.IntVal, "%s: failures never stop %s while the policy matches fewer than %d objects. Set a smaller "+
				"number, or Never", path, what, limit.IntVal))
		}
	}
	r := spec.WithDefaults().Remediation
	if acts := r.Mode == placementv1.RemediationAutomatic || r.Mode == placementv1.RemediationApproved; acts && r.Budget != nil {
		find(r.Budget.PauseAfterFailures, "spec.remediation.budget.pauseAfterFailures", "patches")
	}
	if spec.Rollout == nil {
		return out
	}
	for i, s := range spec.Rollout.Stages[:max(0, len(spec.Rollout.Stages)-1)] {
		find(s.PauseAfterFailures, specPath.Child("rollout", "stages").Index(i).Child("pauseAfterFailures").String(), "the rollout")
	}
	return out
}

// percentages are numbers in spec.remediation.budget.maxUnavailable that may be meant as percentages.
var percentages = []int32{20, 25, 30, 33, 40, 50, 60, 70, 75, 80, 90, 100}

// findingsOfUnavailable finds a number in budget.maxUnavailable that an author may have meant as a percentage. The finding holds while the
// policy matches many objects, but no more than half the number (Finding.Below), such as 25 objects for the number 50, which then bounds
// nothing. With more objects, there is no finding. findingsOfUnavailable does not read objects.
func findingsOfUnavailable(spec placementv1.PlacementPolicySpec) []Finding {
	b := spec.Remediation.Budget
	if b == nil || b.MaxUnavailable == nil || b.MaxUnavailable.Type != intstr.Int || !slices.Contains(percentages, b.MaxUnavailable.IntVal) {
		return nil
	}
	number := b.MaxUnavailable.IntVal
	out := advice(`spec.remediation.budget.maxUnavailable: %d bounds nothing while the policy matches no more than %d objects: all of them `+
		`may be unavailable at the same time. For a percentage, write "%d%%"`, number, number, number)
	out.Below, out.Until = number/2+1, number+1
	return []Finding{out}
}

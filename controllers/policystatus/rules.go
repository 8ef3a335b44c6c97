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

package policystatus

import (
	"maps"
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/status"
)

const (
	// maxRules limits status.rules. It equals the schema's limit.
	maxRules = 64
	// manyObjects is the number of matched objects from which on a rule that decides none of them may be a mistake.
	manyObjects = 5
	// someObjects is the number of matched objects down to which a finding stays that was made for manyObjects or more.
	someObjects = 3
)

// decided sets status.matched and status.rules: how many existing objects the policy matches and each rule decides. Until the leader has
// decided all of them, it keeps the numbers of the old status. Both are absent if the policy does not decide existing objects.
func (s *setter) decided(old placementv1.PlacementPolicyStatus, f Facts) {
	switch {
	case !f.State.Policy.RemediatesExisting():
	case f.Report.Assessing:
		s.out.Matched, s.out.Rules = old.Matched, old.Rules
	default:
		s.out.Matched, s.out.Rules = new(int32(f.Report.Matched)), f.rules()
	}
}

// rules returns status.rules, each with its number of objects: the rules of spec.rules of the version in force, and those of an earlier
// version that still decide objects during a rollout, at most maxRules. It is nil if there are none.
func (f Facts) rules() []placementv1.RuleStatus {
	names := slices.Clone(f.State.Policy.Rules)
	for _, name := range slices.Sorted(maps.Keys(f.Report.Rules)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var out []placementv1.RuleStatus
	for _, name := range names[:min(len(names), maxRules)] {
		out = append(out, placementv1.RuleStatus{Name: name, Objects: new(int32(f.Report.Rules[name]))})
	}
	return out
}

// idle reports whether the rule of a finding, and the rules in found.Instead, which may decide its objects in its place, decide no object
// although the policy matches at least manyObjects.
func (s *setter) idle(found findings.Finding) bool {
	others, known := strings.Split(found.Instead, ","), false
	for _, r := range s.out.Rules {
		known = known || r.Name == found.Rule
		if (r.Name == found.Rule || slices.Contains(others, r.Name)) && number(r.Objects) > 0 {
			return false
		}
	}
	return known && number(s.out.Matched) >= manyObjects
}

// few reports whether the policy matches at least manyObjects, but fewer than found.Below. For a finding that is among told, the findings
// of the old status, other limits apply, so that it stays until the number differs clearly.
func (s *setter) few(found findings.Finding, told []string) bool {
	matched, from, below := number(s.out.Matched), int32(manyObjects), found.Below
	if slices.Contains(told, textOf(found.Position, found.Message)) {
		from, below = someObjects, max(found.Below, found.Until)
	}
	return matched >= from && matched < below
}

// holding returns a copy of t without the findings that depend on the existing objects and do not hold for them: for a rule that decides
// objects, for a number of matched objects that is too low or too high, or for none being matched. Those whose numbers are not known yet
// are left out, too. t is not nil.
func (s *setter) holding(old placementv1.PlacementPolicyStatus, t *status.TypeState) *status.TypeState {
	out := *t
	out.Others = slices.DeleteFunc(slices.Clone(t.Others), func(found findings.Finding) bool {
		return found.Rule != "" && !s.idle(found) || found.Below > 0 && !s.few(found, old.Findings) ||
			found.Unmatched && (s.out.Matched == nil || *s.out.Matched > 0)
	})
	return &out
}

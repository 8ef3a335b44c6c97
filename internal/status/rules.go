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

package status

import (
	"maps"
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
)

const (
	// maxRules limits status.rules. It equals the schema's limit.
	maxRules = 64
	// manyObjects is the number of matched objects from which on a rule that decides none of them may be a mistake.
	manyObjects = 5
	// someObjects is the number of matched objects from which on a finding stays that holds for many.
	someObjects = 3
)

// decided sets how many objects the policy matches and each rule decides. Until the leader has decided all of them, these are the numbers
// of an earlier leader.
func (s *setter) decided(old placementv1.PlacementPolicyStatus, f Facts) {
	switch {
	case !f.State.Policy.RemediatesExisting():
	case f.Report.Assessing:
		s.out.Matched, s.out.Rules = old.Matched, old.Rules
	default:
		s.out.Matched, s.out.Rules = new(int32(f.Report.Matched)), f.rules()
	}
}

// rules returns how many objects each rule decides: the rules of the version in force, and those that only an earlier version of a rollout
// has.
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

// idle reports whether the rule of a finding, and those that may decide its objects in its place, decide none of many objects.
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

// few reports whether the policy matches many objects, but fewer than a finding says. A finding that was told stays until the number is
// clearly another one.
func (s *setter) few(found findings.Finding, told []string) bool {
	matched, from, below := number(s.out.Matched), int32(manyObjects), found.Below
	if slices.Contains(told, textOf(found.Position, found.Message)) {
		from, below = someObjects, max(found.Below, found.Until)
	}
	return matched >= from && matched < below
}

// holding returns the findings without those that do not hold for the matched objects, or of which it is not known.
func (s *setter) holding(old placementv1.PlacementPolicyStatus, t *TypeState) *TypeState {
	out := *t
	out.Others = slices.DeleteFunc(slices.Clone(t.Others), func(found findings.Finding) bool {
		return found.Rule != "" && !s.idle(found) || found.Below > 0 && !s.few(found, old.Findings) ||
			found.Unmatched && (s.out.Matched == nil || *s.out.Matched > 0)
	})
	return &out
}

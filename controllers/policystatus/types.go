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
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/status"
)

// maxFindingMessage is the maximum number of bytes of an entry of status.findings and of a message in status.waiting. Longer texts are cut.
// It equals the schema's limit.
const maxFindingMessage = 512

// maxFindings limits status.findings. It equals the schema's limit.
const maxFindings = 10

// compiled returns the condition Compiled, and sets status.findings, which do not make the condition False. Until this leader has checked
// the generation, it keeps the findings of an earlier leader.
func (s *setter) compiled(old placementv1.PlacementPolicyStatus, f Facts) *metav1.Condition {
	compiles := f.compiles()
	if f.Types == nil {
		return s.checkedBefore(old, compiles)
	}
	switch reason, message := s.checked(old, f); {
	case reason == "" || compiles.Status != metav1.ConditionTrue:
		return compiles
	case reason == placementv1.ReasonTypeChecked:
		return status.True(reason, compiles.Message+"; "+message)
	default:
		return status.True(reason, message+"; "+compiles.Message)
	}
}

// checkedBefore returns the condition Compiled while this leader has not checked the generation. If that of old is for another generation,
// it returns compiles, and the status has no findings. Otherwise it keeps the findings of old, and returns the condition of old if that has
// a result of the type checker and both conditions are True, and compiles if not.
func (s *setter) checkedBefore(old placementv1.PlacementPolicyStatus, compiles *metav1.Condition) *metav1.Condition {
	kept := meta.FindStatusCondition(old.Conditions, placementv1.ConditionCompiled)
	if kept == nil || kept.ObservedGeneration != s.Generation {
		return compiles
	}
	s.out.Findings = old.Findings
	s.impossible = conditionOf(old, placementv1.ConditionReady).Reason == placementv1.ReasonTypeErrors
	if compiles.Status != metav1.ConditionTrue || kept.Status != metav1.ConditionTrue || kept.Reason == placementv1.ReasonCompiled {
		return compiles
	}
	return kept
}

// checked sets status.findings. It returns the reason and a message for the condition Compiled of a policy that compiles: TypeErrors for
// probable mistakes, SchemasUnavailable or NotChecked if the types are not checked, or else TypeChecked. Both are "" for a policy with a
// remote engine without mistakes.
func (s *setter) checked(old placementv1.PlacementPolicyStatus, f Facts) (reason, message string) {
	total, mistakes, impossible := s.findings(s.holding(old, f.Types))
	s.impossible = len(impossible) > 0
	var found string
	switch {
	case mistakes > 0:
		found = fmt.Sprintf("%s (status.findings, such as %s)", countOf(mistakes, "probable mistake"), s.out.Findings[0])
	case total > 0:
		found = fmt.Sprintf("%s (status.findings, such as %s)", countOf(total, "remark"), s.out.Findings[0])
	}
	besides := func(message string) string {
		if found == "" {
			return message
		}
		return message + "; " + found
	}
	switch {
	case s.impossible:
		return placementv1.ReasonTypeErrors, "the policy's rules for " + strings.Join(impossible, ", ") + " can never have a value: " + found
	case f.Types.Err != nil:
		return placementv1.ReasonSchemasUnavailable, besides("the schemas could not be read, so the types are not checked: " +
			f.Types.Err.Error())
	case f.Types.Unchecked != "":
		return placementv1.ReasonNotChecked, besides("the types are not checked: " + f.Types.Unchecked)
	case mistakes > 0:
		return placementv1.ReasonTypeErrors, found
	case f.Health != nil:
		return "", ""
	}
	return placementv1.ReasonTypeChecked, besides("the type checker finds nothing wrong")
}

// findings sets status.findings to the first maxFindings, mistakes first. It returns the number of all findings, the number of mistakes
// among them, and the names of the contract rules that can never have a value.
func (s *setter) findings(t *status.TypeState) (total, mistakes int, impossible []string) {
	add := func(at lint.Position, message string) {
		if len(s.out.Findings) < maxFindings {
			s.out.Findings = append(s.out.Findings, textOf(at, message))
		}
	}
	for _, found := range t.Findings {
		add(found.Position, found.Message)
	}
	total, mistakes, impossible = t.Total, t.Total, slices.Clone(t.Impossible)
	for _, level := range []findings.Level{findings.Mistake, findings.Advice} {
		for _, found := range t.Others {
			if found.Level != level {
				continue
			}
			add(found.Position, found.Message)
			total++
			if level == findings.Mistake {
				mistakes++
			}
			if found.Impossible != "" && !slices.Contains(impossible, found.Impossible) {
				impossible = append(impossible, found.Impossible)
			}
		}
	}
	return total, mistakes, impossible
}

// textOf returns the text of a finding for status.findings, cut to maxFindingMessage. It begins with its line and column in spec.rego, such
// as "rego:3:5: ", if it has them.
func textOf(at lint.Position, message string) string {
	if at.Row > 0 {
		message = fmt.Sprintf("rego:%d:%d: %s", at.Row, at.Col, message)
	}
	return printable.Truncate(message, maxFindingMessage)
}

// countOf returns a number with a noun, such as "1 object" or "2 objects".
func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

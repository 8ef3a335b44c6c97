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
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/typecheck"
)

// TypeState is the type checker's result for a policy.
type TypeState struct {
	typecheck.Result
	// Err is the reason why the policy could not be checked; nil if it was checked.
	Err error
}

// maxFindingMessage limits a finding's message. It equals the schema's limit.
const maxFindingMessage = 512

// typeChecked returns the condition TypeChecked, or nil for none, and sets the findings. Until the generation is
// checked, it keeps the result in the old status if that is for the same generation.
func (s *setter) typeChecked(old placementv1.PlacementPolicyStatus, f Facts) *metav1.Condition {
	_, remote := f.State.Policy.Remote()
	kept := meta.FindStatusCondition(old.Conditions, placementv1.ConditionTypeChecked)
	switch {
	case remote, f.Types == nil && (kept == nil || kept.ObservedGeneration != s.generation):
		return nil
	case f.Types == nil:
		s.out.Findings, s.out.FindingCount = old.Findings, old.FindingCount
		ready := meta.FindStatusCondition(old.Conditions, placementv1.ConditionReady)
		s.impossible = ready != nil && ready.Reason == placementv1.ReasonTypeErrors
		return kept
	case f.Types.Err != nil:
		return isUnknown(placementv1.ReasonSchemasUnavailable,
			"the schemas could not be read, so the types are not checked: "+f.Types.Err.Error())
	case f.Types.Unchecked != "":
		return isUnknown(placementv1.ReasonNotChecked, "the types are not checked: "+f.Types.Unchecked)
	case f.Types.Total == 0:
		return isTrue(placementv1.ReasonTypeChecked, "the type checker finds nothing wrong")
	}
	for _, finding := range f.Types.Findings {
		s.out.Findings = append(s.out.Findings, placementv1.Finding{
			Line: int32(finding.Row), Column: int32(finding.Col), Message: truncate(finding.Message, maxFindingMessage),
		})
	}
	s.out.FindingCount = int32(f.Types.Total)
	first := f.Types.Findings[0]
	message := fmt.Sprintf("%s (status.findings, such as rego:%d:%d: %s)", countOf(f.Types.Total), first.Row, first.Col, first.Message)
	if impossible := f.Types.Impossible; len(impossible) > 0 {
		message = strings.Join(impossible, ", ") + " can never have a value: " + message
		s.impossible = true
	}
	return isFalse(placementv1.ReasonTypeErrors, message)
}

func countOf(findings int) string {
	if findings == 1 {
		return "1 finding of the type checker"
	}
	return fmt.Sprintf("%d findings of the type checker", findings)
}

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

package policyvalidator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/typecheck"
)

// checkTypes returns the findings of the type checker: in errs if the policy is strict, and otherwise in warnings, without those that the
// warnings of the compilation have. If the types can't be checked because the schemas can't be read, it returns an error in err, for which
// the client retries, for a strict policy, and a warning for any other.
func (v *Validator) checkTypes(ctx context.Context, name string, spec placementv1.PlacementPolicySpec,
	bound policy.Bindings) (warnings admission.Warnings, errs field.ErrorList, err error) {
	if v.Types == nil {
		return nil, nil, nil
	}
	report, err := v.Types.Check(ctx, name, spec, bound)
	if err != nil {
		if spec.Strict {
			return nil, nil, apierrors.NewServiceUnavailable(fmt.Sprintf("spec.strict: the types of the policy can't be checked: %v; try again",
				err))
		}
		return admission.Warnings{fmt.Sprintf("the types of the policy are not checked: %v; the condition Compiled shows the result later", err)},
			nil, nil
	}
	checked := "spec.rego"
	if len(spec.Rules) > 0 {
		checked = "spec.rules"
	}
	add := func(text string) {
		if spec.Strict {
			errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: checked, BadValue: field.OmitValueType{}, Detail: text})
		} else {
			warnings = append(warnings, text)
		}
	}
	if report.Unchecked != "" {
		add(fmt.Sprintf("the types of the policy are not checked: %s; split expressions that compare or merge whole objects, or read single "+
			"fields instead", report.Unchecked))
	}
	for _, finding := range report.Findings {
		if finding.Warned && !spec.Strict {
			continue
		}
		text := finding.Text(name)
		if finding.Rule != "" {
			text += fmt.Sprintf(" (so this definition of the rule %s never has a value)", finding.Rule)
		}
		add(text)
	}
	if more := report.Total - len(report.Findings); more > 0 && !spec.Strict {
		warnings = append(warnings, fmt.Sprintf("the type checker has %d more findings than the first %d", more, typecheck.MaxFindings))
	}
	return warnings, errs, nil
}

// lenient returns the spec, with strict set to false if the policy was strict before, too, and the update does not change what the type
// checker checks: a schema that changed since must not prevent a change of the policy's mode or labels. old is nil for a new policy.
func lenient(old *placementv1.PlacementPolicy, spec placementv1.PlacementPolicySpec) placementv1.PlacementPolicySpec {
	if old == nil {
		return spec
	}
	before := old.Spec.WithDefaults()
	if before.Strict && before.Rego == spec.Rego && before.RegoVersion == spec.RegoVersion &&
		equality.Semantic.DeepEqual(before.Rules, spec.Rules) &&
		equality.Semantic.DeepEqual(before.Data, spec.Data) &&
		equality.Semantic.DeepEqual(before.Match, spec.Match) &&
		equality.Semantic.DeepEqual(before.Replicate, spec.Replicate) {
		spec.Strict = false
	}
	return spec
}

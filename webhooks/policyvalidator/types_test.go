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

package policyvalidator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/typecheck"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// checked is the type checker's result for every policy.
type checked struct {
	result typecheck.Result
	err    error
}

func (c checked) Check(context.Context, string, placementv1.PlacementPolicySpec, policy.Bindings) (*schemas.Report, error) {
	return &schemas.Report{Result: c.result}, c.err
}

func TestFindingsOfTheTypeChecker(t *testing.T) {
	const text = "p.rego:3:7: input.spek is undefined (so this definition of the rule labels never has a value)"
	found := typecheck.Result{Findings: []typecheck.Finding{{Position: lint.Position{Row: 3, Col: 7}, Message: "input.spek is undefined", Rule: "labels"}}, Total: 1}
	v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}, Types: checked{result: found}}
	p := newPolicy(`package p
labels := {}`)
	warnings, err := v.ValidateCreate(t.Context(), p)
	if err != nil || len(warnings) != 1 || warnings[0] != text {
		t.Errorf("warnings %q, error %v", warnings, err)
	}

	p.Spec.Strict = true
	if _, err := v.ValidateCreate(t.Context(), p); err == nil || !strings.Contains(err.Error(), "spec.rego: Invalid value: "+text) {
		t.Errorf("a strict policy: error %v", err)
	}
	labelled := p.DeepCopy()
	labelled.Spec.Mode = placementv1.ModeWarn
	if warnings, err := v.ValidateUpdate(t.Context(), p, labelled); err != nil || len(warnings) != 1 {
		t.Errorf("an update that leaves the text alone: warnings %q, error %v", warnings, err)
	}
	labelled.Spec.Rego += "\n"
	if _, err := v.ValidateUpdate(t.Context(), p, labelled); err == nil {
		t.Error("an update of the text of a strict policy is accepted")
	}

	v.Types = checked{result: typecheck.Result{Unchecked: "rego_compile_error: too many steps"}}
	const unchecked = "the types of the policy are not checked: rego_compile_error: too many steps; split expressions that compare or merge whole objects, or read single fields instead"
	if _, err := v.ValidateCreate(t.Context(), p); err == nil || !strings.Contains(err.Error(), "spec.rego: Invalid value: "+unchecked) {
		t.Errorf("a strict policy whose types take too much work to check: error %v", err)
	}
	lax := p.DeepCopy()
	lax.Spec.Strict = false
	if warnings, err := v.ValidateCreate(t.Context(), lax); err != nil || !slices.Equal(warnings, []string{unchecked}) {
		t.Errorf("a policy whose types take too much work to check: warnings %q, error %v", warnings, err)
	}

	v.Types = checked{result: typecheck.Result{Findings: []typecheck.Finding{{Position: lint.Position{Row: 2, Col: 1}, Message: "the rule deny decides nothing", Warned: true}}, Total: 1}}
	if _, err := v.ValidateCreate(t.Context(), p); err == nil || !strings.Contains(err.Error(), "p.rego:2:1: the rule deny decides nothing") {
		t.Errorf("a strict policy with a finding that is warned of: error %v", err)
	}
	if warnings, err := v.ValidateCreate(t.Context(), lax); err != nil || len(warnings) > 0 {
		t.Errorf("a finding that is warned of is told twice: warnings %q, error %v", warnings, err)
	}

	v.Types = checked{err: errors.New("no schemas")}
	if warnings, err := v.ValidateCreate(t.Context(), lax); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "the types of the policy are not checked: no schemas; the condition Compiled") {
		t.Errorf("without schemas: warnings %q, error %v", warnings, err)
	}
	if _, err := v.ValidateCreate(t.Context(), p); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "no schemas; try again") {
		t.Errorf("a strict policy without schemas: error %v", err)
	}
	modeChanged := p.DeepCopy()
	modeChanged.Spec.Mode = placementv1.ModeWarn
	if warnings, err := v.ValidateUpdate(t.Context(), p, modeChanged); err != nil || len(warnings) != 1 {
		t.Errorf("an update that leaves the text of a strict policy alone, without schemas: warnings %q, error %v", warnings, err)
	}
}

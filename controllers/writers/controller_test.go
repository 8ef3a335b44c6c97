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

package writers

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// rights are the virtual subresources that a user may update.
type rights []string

func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for _, subresource := range r {
		if a.GetVerb() == "update" && a.GetResource() == "placementpolicies" && a.GetSubresource() == subresource {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// allows evaluates an expression of an admission policy on a request for a PlacementPolicy.
func allows(t *testing.T, expression string, by rights, before, after map[string]any) bool {
	t.Helper()
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		t.Fatal(err)
	}
	env, err = env.Extend(cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("authorizer", library.AuthorizerType))
	if err != nil {
		t.Fatal(err)
	}
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	operation, old := "CREATE", any(nil)
	if before != nil {
		operation, old = "UPDATE", any(before)
	}
	value, _, err := program.Eval(map[string]any{
		"object": after, "oldObject": old, "authorizer": library.NewAuthorizerVal(&user.DefaultInfo{Name: "alice"}, by),
		"request": map[string]any{"operation": operation, "resource": map[string]any{"group": "placement.berth.dev", "resource": "placementpolicies"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return value.Value().(bool)
}

// policyWith is a PlacementPolicy with a priority and annotations.
func policyWith(priority int64, annotations map[string]any) map[string]any {
	metadata := map[string]any{"name": "p"}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return map[string]any{"metadata": metadata, "spec": map[string]any{"priority": priority}}
}

// TestApprovers checks who may approve, by the admission policy that Berth maintains, and by the one of the example that keeps authors from
// it.
func TestApprovers(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/approvers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := yaml.Unmarshal(bytes.SplitN(text, []byte("---\n"), 2)[0], example); err != nil {
		t.Fatal(err)
	}
	builtIn, separate := spec().Validations[0].Expression, example.Spec.Validations[0].Expression
	author, approver, reader := rights{"spec"}, rights{"approval"}, rights{}
	approved := policyWith(1, map[string]any{placementv1.ApproveAnnotation: "d", placementv1.ApprovedByAnnotation: "x"})
	for name, test := range map[string]struct {
		before, after map[string]any
		// These say who may do it, by the admission policy of Berth, and with that of the example.
		author, approver, authorOfExample bool
	}{
		"Create":          {nil, policyWith(1, nil), true, false, true},
		"CreateApproved":  {nil, approved, true, false, false},
		"ChangeSpec":      {policyWith(1, nil), policyWith(2, nil), true, false, true},
		"Approve":         {policyWith(1, nil), approved, true, true, false},
		"ApproveStage":    {policyWith(1, map[string]any{"a": "b"}), policyWith(1, map[string]any{"a": "b", placementv1.ApproveStageAnnotation: "s"}), true, true, false},
		"ApproveAndWrite": {policyWith(1, nil), policyWith(2, map[string]any{placementv1.ApproveAnnotation: "d"}), true, false, false},
		"OtherAnnotation": {approved, policyWith(1, map[string]any{placementv1.ApproveAnnotation: "d", placementv1.ApprovedByAnnotation: "x", "a": "b"}), true, false, true},
		"Release":         {policyWith(1, nil), policyWith(1, map[string]any{placementv1.ResumeAfterFailuresAnnotation: "3"}), true, false, true},
		"ChangeApproved":  {approved, policyWith(2, map[string]any{placementv1.ApproveAnnotation: "d", placementv1.ApprovedByAnnotation: "x"}), true, false, true},
		"TakeBack":        {approved, policyWith(1, nil), true, true, true},
	} {
		for _, one := range []struct {
			what, expression string
			by               rights
			want             bool
		}{
			{"the author", builtIn, author, test.author}, {"the approver", builtIn, approver, test.approver}, {"a reader", builtIn, reader, false},
			{"the author with the example", separate, author, test.authorOfExample}, {"the approver with the example", separate, approver, true},
		} {
			if got := allows(t, one.expression, one.by, test.before, test.after); got != one.want {
				t.Errorf("%s by %s: allowed is %t, want %t", name, one.what, got, one.want)
			}
		}
	}
}

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

package remediation_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// enforced returns the verdict of a policy that is enforced and patches existing objects.
func enforced(policy string, with ...func(*placement.Verdict)) *placement.Verdict {
	v := verdict(policy, change("a"))
	v.Policy.Mode, v.Policy.Remediation, v.Policy.FailurePolicy = placementv1.ModeEnforce, placementv1.RemediationAutomatic, placementv1.FailurePolicyFail
	for _, f := range with {
		f(v)
	}
	return v
}

// TestDue checks which verdicts require a patch.
func TestDue(t *testing.T) {
	impossible := func(v *placement.Verdict) { v.Changes[0].Immutable = "immutable" }
	lenient := func(v *placement.Verdict) { v.Policy.FailurePolicy = placementv1.FailurePolicyIgnore }
	tests := map[string]struct {
		verdicts []*placement.Verdict
		want     []string
	}{
		"Nothing":          {nil, []string{}},
		"Change":           {[]*placement.Verdict{enforced("p")}, []string{"p"}},
		"NoChange":         {[]*placement.Verdict{enforced("p", func(v *placement.Verdict) { v.Changes = nil })}, []string{}},
		"Impossible":       {[]*placement.Verdict{enforced("p", impossible), enforced("q")}, []string{"q"}},
		"NotEnforced":      {[]*placement.Verdict{enforced("p", func(v *placement.Verdict) { v.Policy.Mode = placementv1.ModeDryRun })}, []string{}},
		"Manual":           {[]*placement.Verdict{enforced("p", func(v *placement.Verdict) { v.Policy.Remediation = placementv1.RemediationManual })}, []string{}},
		"DeniedByAnother":  {[]*placement.Verdict{enforced("p"), enforced("q", refuse)}, []string{}},
		"DeniedInDryRun":   {[]*placement.Verdict{enforced("p"), enforced("q", refuse, func(v *placement.Verdict) { v.Policy.Mode = placementv1.ModeDryRun })}, []string{"p"}},
		"DeniedLeniently":  {[]*placement.Verdict{enforced("p"), enforced("q", refuse, lenient)}, []string{}},
		"FailureOfAnother": {[]*placement.Verdict{enforced("p"), enforced("q", fail)}, []string{}},
		"FailureIgnored":   {[]*placement.Verdict{enforced("p"), enforced("q", fail, lenient)}, []string{"p"}},
		"Two":              {[]*placement.Verdict{enforced("p"), enforced("q")}, []string{"p", "q"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, remediation.Names(remediation.DueOf(tc.verdicts))); diff != "" {
				t.Errorf("due (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQualifyTerminating checks that the changes of a terminating object are reported and not patched.
func TestQualifyTerminating(t *testing.T) {
	obj, v := &unstructured.Unstructured{}, enforced("p")
	feasibility.Qualify(obj, []*placement.Verdict{v})
	if len(remediation.DueOf([]*placement.Verdict{v})) != 1 {
		t.Error("an object that exists is not patched")
	}
	obj.SetDeletionTimestamp(new(metav1.Now()))
	failed := enforced("q", func(v *placement.Verdict) { v.Err = errors.New("no"); v.Changes = nil })
	feasibility.Qualify(obj, []*placement.Verdict{v, failed})
	if len(remediation.DueOf([]*placement.Verdict{v})) != 0 || v.Changes[0].Immutable == "" {
		t.Errorf("a terminating object is patched: %+v", v.Changes)
	}
	reason := v.Changes[0].Immutable
	v.Changes[0].Immutable = "another reason"
	feasibility.Qualify(obj, []*placement.Verdict{v})
	if got := v.Changes[0].Immutable; got != "another reason" {
		t.Errorf("reason %q replaced by %q, want the first one", got, reason)
	}
}

// TestPlaced checks that an object is placed if all changes that can be made are made.
func TestPlaced(t *testing.T) {
	v := enforced("p", func(v *placement.Verdict) {
		v.Changes = []placement.Change{change("a"), change("b"), {Field: "annotations", Key: "c", To: new("x"), Immutable: "immutable"}}
	})
	due, obj := remediation.DueOf([]*placement.Verdict{v}), &unstructured.Unstructured{Object: map[string]any{}}
	for _, step := range []struct {
		annotations map[string]string
		want        bool
	}{
		{nil, false},
		{map[string]string{"a": "x"}, false},
		{map[string]string{"a": "x", "b": "y"}, false},
		{map[string]string{"a": "x", "b": "x"}, true},
	} {
		obj.SetAnnotations(step.annotations)
		if got := due.Placed(obj); got != step.want {
			t.Errorf("placed with %v: %t", step.annotations, got)
		}
	}
	if got, want := due.String(), `PlacementPolicy "p": set annotation a to x; set annotation b to x`; got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
	if got, want := remediation.DueOf([]*placement.Verdict{v, enforced("q")}).Policies(), `PlacementPolicy "p", PlacementPolicy "q"`; got != want {
		t.Errorf("policies %q, want %q", got, want)
	}
}

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

package whatif

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
)

// Violation is an existing object with one policy, in any mode: the object differs from what the policy decides, or the policy denies it or
// can't decide it.
type Violation struct {
	Policy    string `json:"policy"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID is that of the object; empty for one in a manifest.
	UID types.UID `json:"uid,omitempty"`
	// Messages list the differences, say why the policy denies the object, or say why it can't decide it.
	Messages []string `json:"messages"`
	// Waits says what the object waits for before remediation changes it, such as an approval or a window, in the words of the policy's
	// status. Apart from that, nothing has to be done about the violation. It is "" if the object does not wait.
	Waits string `json:"waits,omitempty"`
	// Note says of an object that differs, and neither waits nor gets patched, why; "" otherwise, or if Messages say it.
	Note string `json:"-"`
}

// Violations returns the violations of the policy of a name, or of all policies for "", in any mode, by type, namespace, and name. Policies
// that apply only to new objects have none. It is an error if there is no policy of the name.
func Violations(ctx context.Context, s *simulation.Simulation, policy string) ([]Violation, error) {
	if policy != "" && s.Policy(policy) == nil {
		return nil, fmt.Errorf("there is no PlacementPolicy %q", policy)
	}
	out := []Violation{}
	for o, err := range s.Matched(ctx) {
		if err != nil {
			return nil, err
		}
		verdicts, err := s.Verdicts(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
		}
		feasibility.Qualify(o.Content, verdicts)
		for _, v := range verdicts {
			if policy != "" && v.Policy.Name != policy || v.Policy.Remediation == placementv1.RemediationNewOnly {
				continue
			}
			violation := Violation{Policy: v.Policy.Name, Resource: o.Resource.GroupResource().String(), Namespace: o.Namespace,
				Name: o.Content.GetName(), UID: o.Content.GetUID()}
			if v.Err != nil {
				violation.Messages = append(violation.Messages, "can't be decided: "+v.Err.Error())
			}
			for _, text := range v.Decision.Errors {
				violation.Messages = append(violation.Messages, "denied: "+text)
			}
			changes := v.Changes
			if len(v.Decision.Errors) > 0 {
				changes = nil // An object that is denied is not changed.
			}
			for _, c := range changes {
				violation.Messages = append(violation.Messages, c.Violation())
			}
			if len(remediation.DueOf([]*placement.Verdict{v})) > 0 {
				violation.Waits = s.Waits(v.Policy, o.Namespace).String()
			}
			if len(changes) > 0 && violation.Waits == "" {
				violation.Note = noteOn(s, o, v, remediation.Blocks(verdicts))
			}
			if len(violation.Messages) > 0 {
				out = append(out, violation)
			}
		}
	}
	return out, nil
}

// noteOn returns why Berth does not patch an object that differs from what the policy of a verdict decides, and that does not wait; "" if
// it does, or if the changes can't be made, which Messages say. blocked reports whether policies deny a patch of the object.
func noteOn(s *simulation.Simulation, o simulation.Object, v *placement.Verdict, blocked bool) string {
	switch {
	case v.Policy.Mode != placementv1.ModeEnforce:
		return fmt.Sprintf("Berth does not patch the object, because spec.mode of the policy is %s", v.Policy.Mode)
	case !v.Policy.PatchesExisting():
		return fmt.Sprintf("Berth does not patch the object; it waits %s", s.Waits(v.Policy, o.Namespace))
	case blocked:
		return "Berth does not patch the object, because a policy denies the patch"
	}
	return ""
}

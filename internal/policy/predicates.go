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

package policy

import (
	"fmt"
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
)

// nothing is the Rego used for a policy that has only spec.predicates: a package without rules.
const nothing = "package " + language.RootKubernetes + ".placement"

// checksCandidates reports whether spec.predicates sets candidates, so that the predicates check the policy's decisions. The policy then
// has an effect even without Rego.
func checksCandidates(spec placementv1.PlacementPolicySpec) bool {
	return spec.Predicates != nil && spec.Predicates.Candidates != ""
}

// usePredicates sets Predicates and Candidates to those of spec.predicates, adds what candidates read to Dependencies, and warns if the
// names have no effect. It does nothing if p is nil.
func (m *Module) usePredicates(p *placementv1.Predicates) {
	if p == nil {
		return
	}
	m.Predicates, m.Candidates = slices.Clone(p.Names), p.Candidates
	if len(p.Names) > 0 && p.Candidates == "" && !m.Nodes && !m.Clusters {
		m.Warnings = append(m.Warnings, "spec.predicates.names has no effect: nothing evaluates the predicates. Set spec.predicates.candidates "+
			"to Nodes or Clusters, or call k8s.feasible or k8s.feasible_clusters in spec.rego")
	}
	m.Dependencies = m.WithCandidates(p.Candidates)
	if len(m.Rules) == 0 && m.Candidates != "" {
		// With candidates, a policy without rules has an effect, so the warning does not apply.
		m.Warnings = slices.DeleteFunc(m.Warnings, func(w string) bool { return strings.HasSuffix(w, decidesNothing) })
	}
}

// CheckPredicates returns a *CompileError if spec.predicates names predicates that are not in allowed.
func (m *Module) CheckPredicates(allowed []string) error {
	var wrong []Diagnostic
	for i, name := range m.Predicates {
		if slices.Contains(allowed, name) {
			continue
		}
		wrong = append(wrong, Diagnostic{
			Field: fmt.Sprintf("spec.predicates.names[%d]", i), Code: codePredicate,
			Message: fmt.Sprintf("%q is none of the predicates that the manager allows, which are %s", name, strings.Join(allowed, ", ")),
		})
	}
	return errorOf(wrong)
}

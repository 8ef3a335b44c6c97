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
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
)

// warnOfPredicates warns about predicates that evaluate only nodes in a policy that evaluates predicates only on
// clusters. judging lists the predicates that evaluate clusters.
func warnOfPredicates(module *policy.Module, judging []string) admission.Warnings {
	if module.Nodes || !module.Clusters {
		return nil
	}
	var out admission.Warnings
	for i, name := range module.Predicates {
		if !slices.Contains(judging, name) {
			out = append(out, fmt.Sprintf("spec.predicates.names[%d]: %s has no effect: it judges nodes, and the policy asks about clusters. "+
				"Clusters are judged by %s", i, name, strings.Join(judging, ", ")))
		}
	}
	return out
}

// maxUnused is the maximum number of unused rules for which there are warnings.
const maxUnused = 5

// warnOfUnused warns about rules that no rule that Berth evaluates uses. name is the name of the policy.
func warnOfUnused(name string, module *policy.Module) admission.Warnings {
	var out admission.Warnings
	for i, f := range module.Unused {
		if i == maxUnused {
			return append(out, fmt.Sprintf("%s.rego: %d more rules have no effect", name, len(module.Unused)-i))
		}
		out = append(out, fmt.Sprintf("%s.rego:%d:%d: %s", name, f.Row, f.Col, f.Message))
	}
	return out
}

// warnOfRemediation warns about bounds of remediation other than the defaults in a mode that does not patch existing
// objects automatically.
func warnOfRemediation(spec placementv1.PlacementPolicySpec) admission.Warnings {
	r := spec.WithDefaults().Remediation
	if r.Mode == placementv1.RemediationAutomatic {
		return nil
	}
	approved := r.Mode == placementv1.RemediationApproved
	var out admission.Warnings
	for _, bound := range []struct {
		field, bounds string
		set           bool
	}{
		{"blastRadius", "mode Automatic does", r.BlastRadius != nil && *r.BlastRadius != (*placementv1.BlastRadius)(nil).WithDefaults()},
		{"budget", "the modes Automatic and Approved do", r.Budget != nil && !approved},
		{"windows", "the modes Automatic and Approved do", len(r.Windows) > 0 && !approved},
	} {
		if bound.set {
			out = append(out, fmt.Sprintf("spec.remediation.%s has no effect in mode %s: it bounds what %s", bound.field, r.Mode, bound.bounds))
		}
	}
	return out
}

// warnOfEviction warns about remediation.evict in a policy that evicts no Pods.
func warnOfEviction(spec placementv1.PlacementPolicySpec, m *match.Matcher, module *policy.Module) admission.Warnings {
	r := spec.WithDefaults().Remediation
	if !r.Evict {
		return nil
	}
	const noEffect = "spec.remediation.evict has no effect"
	switch {
	case r.Mode != placementv1.RemediationAutomatic && r.Mode != placementv1.RemediationApproved:
		return admission.Warnings{fmt.Sprintf("%s in mode %s: Berth evicts Pods in the modes Automatic and Approved", noEffect, r.Mode)}
	case !m.SelectsResource(corev1.SchemeGroupVersion.WithResource("pods")):
		return admission.Warnings{noEffect + ": no rule in spec.match.resourceRules matches pods. Match pods, too, or remove evict"}
	case !module.Schedules():
		return admission.Warnings{noEffect + ": the policy does not define the rule scheduling, and Berth evicts Pods only to change their scheduling"}
	}
	return nil
}

// warnOfAbsentLabels warns about a policy that decides only objects without a label, and whose match requires that
// label. It ignores policies with match conditions, which may be meant for updates that remove the label. name is the
// name of the policy.
func warnOfAbsentLabels(name string, m *match.Matcher, module *policy.Module) admission.Warnings {
	if m.Conditional() {
		return nil
	}
	var out admission.Warnings
	for _, label := range lint.AbsentLabels(module.Compiler) {
		if m.RequiresLabel(label.Key) {
			out = append(out, fmt.Sprintf("%s.rego:%d:%d: spec.match.objectSelector requires the label %s: objects without it are not matched, so that "+
				"the policy decides nothing but updates that remove the label. Remove the label from objectSelector", name, label.Row, label.Col, label.Key))
		}
	}
	return out
}

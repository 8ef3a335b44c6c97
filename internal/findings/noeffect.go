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

package findings

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/rules"
	"github.com/berth-dev/berth/internal/suggest"
)

// findingsOfPredicates finds predicates that evaluate only nodes in a policy that evaluates predicates only on
// clusters. judging are the names of the predicates that evaluate clusters.
func findingsOfPredicates(module *policy.Module, judging []string) []Finding {
	if module.Nodes || !module.Clusters {
		return nil
	}
	var out []Finding
	for i, name := range module.Predicates {
		if !slices.Contains(judging, name) {
			out = append(out, mistake("spec.predicates.names[%d]: %s has no effect: it evaluates only nodes, and the policy evaluates predicates "+
				"only on clusters. Remove it; the predicates that evaluate clusters are %s", i, name, strings.Join(judging, ", ")))
		}
	}
	return out
}

// maxUnused is the maximum number of unused Rego rules with a finding each. One more finding counts the others.
const maxUnused = 5

// findingsOfUnused returns a finding of level Advice for each of the first maxUnused Rego rules that have no effect, and one for the number
// of the others. Berth does not evaluate these rules, and no rule that it evaluates uses them. An author may keep them for other purposes.
func findingsOfUnused(module *policy.Module) []Finding {
	var out []Finding
	for i, f := range module.Unused {
		if i == maxUnused {
			return append(out, advice("spec.rego: %d more rules have no effect: remove the unused rules that are named, to see these",
				len(module.Unused)-i))
		}
		out = append(out, Finding{Position: f.Position, Message: f.Message, Level: Advice})
	}
	return out
}

// findingsOfRemediation finds blastRadius, budget, and windows in spec.remediation without effect because of the mode of the policy or of
// its remediation, blastRadius.minObjects without effect, pauseAfterFailures of stages without effect, and windows that open at other times
// than they seem to. It does not check evict.
func findingsOfRemediation(spec placementv1.PlacementPolicySpec) []Finding {
	spec = spec.WithDefaults()
	r := spec.Remediation
	enforced := spec.Mode == placementv1.ModeEnforce
	automatic, approved := enforced && r.Mode == placementv1.RemediationAutomatic, enforced && r.Mode == placementv1.RemediationApproved
	var out []Finding
	for _, bound := range []struct {
		field, bounds string
		set           bool
	}{
		{"blastRadius", "mode Automatic does", r.BlastRadius != nil && *r.BlastRadius != (*placementv1.BlastRadius)(nil).WithDefaults() &&
			!automatic},
		{"budget", "the modes Automatic and Approved do", r.Budget != nil && !automatic && !approved},
		{"windows", "the modes Automatic and Approved do", len(r.Windows) > 0 && !automatic && !approved},
	} {
		switch {
		case !bound.set:
		case enforced:
			out = append(out, advice("spec.remediation.%s has no effect in mode %s: it bounds what %s", bound.field, r.Mode, bound.bounds))
		default:
			out = append(out, advice("spec.remediation.%s has no effect in mode %s: Berth patches no object before spec.mode is Enforce",
				bound.field, spec.Mode))
		}
	}
	if b := r.BlastRadius; b != nil && b.Percent == maxPercent && b.MinObjects != (*placementv1.BlastRadius)(nil).WithDefaults().MinObjects {
		out = append(out, advice("spec.remediation.blastRadius.minObjects has no effect: with percent: 100, the blast radius never pauses "+
			"remediation. Lower percent, or remove minObjects"))
	}
	return slices.Concat(out, findingsOfStageFailures(spec), findingsOfWindows(r.Windows))
}

// findingsOfStageFailures finds pauseAfterFailures of stages, other than the default, in a policy with remediation.mode NewOnly or Off:
// Berth does not evaluate existing objects then, so that none fails. It finds nothing with the other modes of remediation.
func findingsOfStageFailures(spec placementv1.PlacementPolicySpec) []Finding {
	mode := spec.Remediation.Mode
	if spec.Rollout == nil || mode != placementv1.RemediationNewOnly && mode != placementv1.RemediationOff {
		return nil
	}
	var out []Finding
	for i, s := range spec.Rollout.Stages {
		if s.PauseAfterFailures != nil && *s.PauseAfterFailures != intstr.FromInt32(placementv1.DefaultStagePauseAfterFailures) {
			out = append(out, advice("%s has no effect with remediation.mode: %s: no object fails, because existing objects are not evaluated. Set "+
				"another mode, such as Manual, or hold the stage by soak or approval",
				specPath.Child("rollout", "stages").Index(i).Child("pauseAfterFailures"), mode))
		}
	}
	return out
}

// maxPercent is 100 percent: as blastRadius.percent, it keeps remediation from pausing; as that of a stage, it selects all namespaces.
const maxPercent = 100

// minMoveTimeout is a time in which hardly any workload starts to run in another cluster: its system takes up the decision, pulls images,
// and reports.
const minMoveTimeout = 10 * time.Second

// findingsOfBudget finds values in spec.remediation.budget of the named policy that its author probably does not mean: perNamespace above
// maxConcurrent, a moveTimeout of less than 10 seconds, and a group that no other policy has, but one with a similar name.
func (f *Finder) findingsOfBudget(name string, spec placementv1.PlacementPolicySpec) []Finding {
	b := spec.Remediation.Budget
	if b == nil {
		return nil
	}
	const path = "spec.remediation.budget"
	var out []Finding
	if b.MaxConcurrent > 0 && b.PerNamespace > b.MaxConcurrent {
		out = append(out, advice("%s.perNamespace: %d has no effect, because maxConcurrent allows %d in all namespaces together. Set a smaller "+
			"number, or remove it", path, b.PerNamespace, b.MaxConcurrent))
	}
	if b.MoveTimeout != nil && b.MoveTimeout.Duration < minMoveTimeout {
		out = append(out, advice("%s.moveTimeout: hardly any workload starts in another cluster within %s, so that moves fail that only take "+
			"longer. Set some minutes", path, b.MoveTimeout.Duration))
	}
	if f.Groups != nil && b.Group != "" {
		// A group that nothing is similar to may be the first of its policies.
		if near, similar := suggest.Nearest(b.Group, f.Groups(name)); similar && len(b.Group) >= minSimilar {
			out = append(out, notice("%s.group: no other policy has the group %q; did you mean %q?", path, b.Group, near))
		}
	}
	return out
}

// findingsOfGroup finds a group in spec.remediation.budget of the named policy whose policies have no bound that they could share. Of
// policies that are applied one after another, the first one may have such a group for a while.
func (f *Finder) findingsOfGroup(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) []Finding {
	b := spec.Remediation.Budget
	if f.Policies == nil || b == nil || b.Group == "" || sharesBound(*b) {
		return nil
	}
	policies, err := f.Policies(ctx)
	if err != nil || slices.ContainsFunc(policies, func(p placementv1.PlacementPolicy) bool {
		other := p.Spec.Remediation.Budget
		return p.Name != name && other != nil && other.Group == b.Group && sharesBound(*other)
	}) {
		// The comparison with other policies reports the error.
		return nil
	}
	return []Finding{advice("spec.remediation.budget.group has no effect: no policy of the group %q sets maxPerMinute, maxConcurrent, or "+
		"perNamespace, which the policies of a group share. Set one of these, or remove group", b.Group)}
}

// sharesBound reports whether a budget has a bound that applies to the policies of its group together: maxPerMinute, maxConcurrent, or
// perNamespace.
func sharesBound(b placementv1.RemediationBudget) bool {
	return b.MaxPerMinute > 0 || b.MaxConcurrent > 0 || b.PerNamespace > 0
}

// findingsOfMoves finds limits in spec.remediation.budget, other than the defaults, that apply to moves between clusters only if Karmada or
// KubeFleet reports where objects run. It finds them in a policy that gives clusters and patches existing objects, and whose spec.delivery
// has neither of these systems.
func findingsOfMoves(spec placementv1.PlacementPolicySpec, module *policy.Module) []Finding {
	r := spec.WithDefaults().Remediation
	acts := r.Mode == placementv1.RemediationAutomatic || r.Mode == placementv1.RemediationApproved
	if !acts || r.Budget == nil || module.Remote != nil || !givesClusters(module) || slices.ContainsFunc(delivery.Systems(spec.Delivery),
		delivery.System.Reports) {
		return nil
	}
	budget, defaults := r.Budget.WithDefaults(), (*placementv1.RemediationBudget)(nil).WithDefaults()
	var set []string
	for _, bound := range []struct {
		field string
		set   bool
	}{
		{"maxConcurrent", budget.MaxConcurrent > 0}, {"perNamespace", budget.PerNamespace > 0},
		{"maxUnavailable", *budget.MaxUnavailable != *defaults.MaxUnavailable}, {"moveTimeout", *budget.MoveTimeout != *defaults.MoveTimeout},
	} {
		if bound.set {
			set = append(set, bound.field)
		}
	}
	if len(set) == 0 {
		return nil
	}
	return []Finding{advice("spec.remediation.budget: moves between clusters are not limited by %s: only Karmada and KubeFleet tell "+
		"Berth when a workload runs in its new clusters. Without them, a move ends with its patch, and only maxPerMinute limits moves. Deliver "+
		"the objects to one of these two, in this policy or in another one", strings.Join(set, ", "))}
}

// findingsOfVolatile finds preferences because of which existing objects move whenever a pod starts or ends, or a score is reported. With
// remediation.mode NewOnly or Off, it finds nothing.
func findingsOfVolatile(spec placementv1.PlacementPolicySpec) []Finding {
	mode := spec.WithDefaults().Remediation.Mode
	if mode == placementv1.RemediationNewOnly || mode == placementv1.RemediationOff {
		return nil
	}
	var out []Finding
	for _, c := range rules.Volatile(spec.Rules) {
		changes := "free quantities change with each pod"
		if c.Score != "" {
			changes = "scores change with each report"
		}
		out = append(out, advice("%s: %s, so that the placement of an existing object changes whenever another cluster is a little better. "+
			"Set minGain, such as a fifth of the weight, or remediation.mode: NewOnly; a rule with weights needs the latter", c.Field, changes))
	}
	return out
}

// findingsOfEviction finds spec.remediation.evict in a policy that never evicts Pods.
func findingsOfEviction(spec placementv1.PlacementPolicySpec, m *match.Matcher, module *policy.Module) []Finding {
	r := spec.WithDefaults().Remediation
	if !r.Evict {
		return nil
	}
	const noEffect = "spec.remediation.evict has no effect"
	switch {
	case r.Mode != placementv1.RemediationAutomatic && r.Mode != placementv1.RemediationApproved:
		return []Finding{advice("%s in mode %s: Berth evicts Pods in the modes Automatic and Approved", noEffect, r.Mode)}
	case !m.SelectsResource(corev1.SchemeGroupVersion.WithResource("pods")):
		return []Finding{mistake(noEffect + ": no rule in spec.match.resourceRules matches pods. Match pods, too, or remove evict")}
	case !module.Schedules():
		return []Finding{mistake(noEffect + ": the policy sets no scheduling fields of pods, and Berth evicts Pods only to change these")}
	}
	return nil
}

// findingsOfAbsentLabels finds a policy that decides only objects without a label, and whose match requires that
// label. It ignores policies with match conditions, which may be meant for updates that remove the label.
func findingsOfAbsentLabels(m *match.Matcher, module *policy.Module) []Finding {
	if m.Conditional() {
		return nil
	}
	var out []Finding
	for _, label := range lint.AbsentLabels(module.Compiler) {
		if m.RequiresLabel(label.Key) {
			out = append(out, mistakeAt(label.Position, fmt.Sprintf("spec.match.objectSelector requires the label %s: objects without it are not "+
				"matched, so that the policy decides nothing but updates that remove the label. Remove the label from objectSelector", label.Key)))
		}
	}
	return out
}

// findingsOfNeededKeys finds a Rego rule clusters that is the empty set for matched objects without a label or annotation, in a policy
// without a rule that says why such an object is denied.
func findingsOfNeededKeys(m *match.Matcher, module *policy.Module) []Finding {
	if m.Conditional() || module.FromRules() {
		return nil
	}
	var out []Finding
	for _, k := range lint.NeededKeys(module.Compiler) {
		if k.Field == "labels" && m.RequiresLabel(k.Key) {
			continue
		}
		found := advice("clusters is the empty set for an object without %s, which is then denied unless spec.clusters.onEmpty is Clear. To "+
			"leave it undecided, match only objects that have it, or write clusters := {...} if ...; to deny it, say why in errors",
			documents[k.Field]+" "+k.Key)
		found.Position = k.Position
		out = append(out, found)
	}
	return out
}

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
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfClusters finds spec.clusters in a policy that does not give clusters, and leaveUnreadyAfter without effect: in a policy without
// spec.rules, with remediation.mode: NewOnly, or if each rule for clusters requires that they are ready.
func findingsOfClusters(spec placementv1.PlacementPolicySpec, module *policy.Module) []Finding {
	switch {
	case spec.Clusters == nil:
		return nil
	case givesClusters(module) && spec.Clusters.LeaveUnreadyAfter != nil && !module.Tolerant:
		return []Finding{mistake("spec.clusters.leaveUnreadyAfter has no effect: only rules that give clusters honor it. Decide by " +
			"cluster.ready and cluster.taints what a cluster that is not ready means, or remove spec.clusters.leaveUnreadyAfter")}
	case givesClusters(module):
		return findingsOfUnready(spec)
	}
	if module.FromRules() {
		return []Finding{mistake("spec.clusters has no effect: no rule gives clusters. Set require, prefer, tolerate, spread or limit in a " +
			"rule for clusters, or remove spec.clusters")}
	}
	return []Finding{mistake("spec.clusters has no effect: the policy has no Rego rule named clusters. Write the names of the clusters that " +
		"it allows there, as in clusters := {\"eu-1\"}, or remove spec.clusters")}
}

// findingsOfUnready finds spec.clusters.leaveUnreadyAfter in a policy that leaves existing objects where they are, or of which each rule
// for clusters requires that a cluster is ready, so that objects leave any other one at once.
func findingsOfUnready(spec placementv1.PlacementPolicySpec) []Finding {
	limit := spec.Clusters.LeaveUnreadyAfter
	if limit != nil && spec.Remediation.Mode == placementv1.RemediationNewOnly {
		return []Finding{advice("spec.clusters.leaveUnreadyAfter has no effect with remediation.mode: NewOnly: Berth then moves no " +
			"existing object, and leaveUnreadyAfter does not apply to new ones. Set another mode, such as Automatic, or remove leaveUnreadyAfter")}
	}
	if limit == nil || limit.Duration == 0 || len(spec.Rules) == 0 {
		return nil
	}
	var first string
	for i, rule := range spec.Rules {
		if !rules.GivesClusters(rule) {
			continue
		}
		j := slices.IndexFunc(rule.Require, func(q placementv1.Requirement) bool {
			return q.Field == placementv1.ClusterFieldReady && q.Operator == placementv1.OperatorIn && slices.Equal(q.Values, []string{"true"})
		})
		if j < 0 {
			return nil
		}
		first = cmp.Or(first, specPath.Child("rules").Index(i).Child("require").Index(j).String())
	}
	return []Finding{advice("spec.clusters.leaveUnreadyAfter has no effect: %s makes objects leave a cluster as soon as it is not ready. "+
		"Remove this requirement, or leaveUnreadyAfter. Without the requirement, new objects stay away only from clusters that Karmada or Open "+
		"Cluster Management taints as not ready", first)}
}

// givesClusters reports whether a policy can give clusters: by rules, by the Rego rule clusters, or by a remote engine, whatever that does.
func givesClusters(module *policy.Module) bool {
	return module.Remote != nil || module.Candidates == placementv1.PredicateCandidatesClusters ||
		slices.Contains(module.Rules, language.RuleClusters)
}

// maxListed is the maximum number of names or values, such as names of clusters, that a finding lists. If there are more, most findings
// list none of them, and some only the first ones.
const maxListed = 8

// findingsOfConstants finds names, keys, and values in a policy that no cluster has, comparisons that can't read the values that clusters
// have, and rules whose requirements no cluster meets; none of these if no cluster is known. It also finds sources of clusters in the
// manager's configuration that select nothing, if the policy reads clusters.
func (f *Finder) findingsOfConstants(ctx context.Context, spec placementv1.PlacementPolicySpec, module *policy.Module,
	binding *policy.Binding) []Finding {
	mentioned := mentionsIn(spec, module)
	names := len(mentioned.comparisons)+len(mentioned.keys) > 0
	if f.Clusters == nil || !names && len(binding.Clusters) == 0 {
		return nil
	}
	clusters, idle, err := f.Clusters.All(ctx)
	if err != nil && !names {
		return nil
	}
	if err != nil {
		what := "clusters"
		if len(mentioned.comparisons) == 0 {
			what = mentioned.keys[0].Document + " of clusters"
		}
		return []Finding{notice("cannot check that the %s that the policy names exist: %v", what, err)}
	}
	var out []Finding
	for _, text := range idle {
		out = append(out, advice("%s, so that the policy gets no cluster from there. Correct the namespaces or the selector", text))
	}
	if len(clusters) == 0 {
		return out
	}
	clusters, notices := f.withScores(ctx, &mentioned, clusters)
	out = append(out, notices...)
	all := population{"cluster", clusters}
	out = slices.Concat(out, all.findings(mentioned), all.tolerations(spec.Rules, false), all.taintKeys(spec.Rules, false),
		findingsOfEligible(spec.Rules, clusters))
	return append(out, noticesOfUnready(spec, module, clusters)...)
}

// isScore reports whether a key is the name of a score of clusters.
func isScore(k key) bool { return k.Document == rules.DocumentScores }

// withScores returns the clusters with their scores, if m has the name of a score. If the scores can't be read, or f.Scores is nil, it
// removes the names of scores from m, so that they are not compared. For an error in reading them, it also returns a notice.
func (f *Finder) withScores(ctx context.Context, m *mentions, clusters []map[string]any) ([]map[string]any, []Finding) {
	if !slices.ContainsFunc(m.keys, isScore) {
		return clusters, nil
	}
	var scores map[string]map[string]any
	var err error
	if f.Scores != nil {
		scores, err = f.Scores.All(ctx)
	}
	switch {
	case err != nil:
		m.keys = slices.DeleteFunc(m.keys, isScore)
		return clusters, []Finding{notice("cannot check that the scores that the policy names exist: %v", err)}
	case f.Scores == nil:
		m.keys = slices.DeleteFunc(m.keys, isScore)
		return clusters, nil
	}
	out := make([]map[string]any, len(clusters))
	for i, cluster := range clusters {
		name, _ := cluster["name"].(string)
		out[i] = maps.Clone(cluster)
		out[i][rules.DocumentScores] = scores[name]
	}
	return out, nil
}

// noticesOfUnready returns a notice that names the clusters that their fleet manager marks as not ready by a taint, if the policy gives
// clusters by rules and sets no spec.clusters.leaveUnreadyAfter, so that it leaves existing objects there without a time limit.
func noticesOfUnready(spec placementv1.PlacementPolicySpec, module *policy.Module, clusters []map[string]any) []Finding {
	if !module.Tolerant || spec.Clusters.WithDefaults().LeaveUnreadyAfter != nil {
		return nil
	}
	var names []string
	for _, cluster := range clusters {
		taints, _ := cluster["taints"].([]any)
		if slices.ContainsFunc(taints, func(t any) bool {
			taint, _ := t.(map[string]any)
			key, _ := taint["key"].(string)
			effect, _ := taint["effect"].(string)
			return replication.MarksUnready(key, effect)
		}) {
			name, _ := cluster["name"].(string)
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []Finding{notice("existing objects stay in clusters that their fleet manager marks as not ready, now %s, and new ones are not "+
		"placed there, unless a rule requires field ready or tolerates the taint. To move existing ones after a time, set "+
		"spec.clusters.leaveUnreadyAfter, such as 10m", strings.Join(names[:min(len(names), maxListed)], ", "))}
}

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
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/rules"
	"github.com/berth-dev/berth/internal/suggest"
)

// findingsOfClusters finds spec.clusters in a policy that does not decide clusters, and what only rules honor in a policy without them.
func findingsOfClusters(spec placementv1.PlacementPolicySpec, module *policy.Module) []Finding {
	switch {
	case spec.Clusters == nil:
		return nil
	case givesClusters(module) && spec.Clusters.LeaveUnreadyAfter != nil && !module.Tolerant:
		return []Finding{mistake("spec.clusters.leaveUnreadyAfter has no effect: only rules that give clusters honor it. Decide by cluster.ready and cluster.taints what a cluster that is not " +
			"ready means, or remove spec.clusters.leaveUnreadyAfter")}
	case givesClusters(module):
		return nil
	}
	if module.FromRules() {
		return []Finding{mistake("spec.clusters has no effect: no rule gives clusters. Set require, prefer, tolerate, spread or limit in a rule for clusters, or remove spec.clusters")}
	}
	return []Finding{mistake("spec.clusters has no effect: the policy has no rule clusters. Write the names of the clusters that it allows there, " +
		"as in clusters := {\"eu-1\"}, or remove spec.clusters")}
}

// givesClusters reports whether a policy can give clusters.
func givesClusters(module *policy.Module) bool {
	return module.Remote != nil || module.Candidates == placementv1.PredicateCandidatesClusters || slices.Contains(module.Rules, language.RuleClusters)
}

// maxListed is the maximum number of clusters for which a warning lists the names.
const maxListed = 8

// mentions are the names and values of clusters in a policy.
type mentions struct {
	constants []constant
	keys      []key
}

// constant is the name of a cluster or the value of a cluster's field.
type constant struct {
	lint.ClusterConstant
	at place
}

// key is the name of a member of a document of clusters, such as labels or properties.
type key struct {
	at             place
	document, name string
	// noEffect is what follows if no cluster has a label, or "" if that can be meant.
	noEffect string
}

// place is the field of a rule, or a position in the Rego.
type place struct {
	field string
	lint.Position
}

// mentionsIn returns the names and values of clusters in a policy with rules or Rego.
func mentionsIn(spec placementv1.PlacementPolicySpec, module *policy.Module) mentions {
	var out mentions
	if len(spec.Rules) > 0 {
		constants, keys := rules.Constants(spec.Rules)
		for _, c := range constants {
			out.constants = append(out.constants, constant{lint.ClusterConstant{Value: c.Value, Field: c.Path}, place{field: c.Field.String()}})
		}
		for _, k := range keys {
			out.keys = append(out.keys, key{place{field: k.Field.String()}, k.Document, k.Name, k.NoEffect})
		}
		return out
	}
	for _, c := range lint.ClusterConstants(module.Compiler) {
		out.constants = append(out.constants, constant{c, place{Position: c.Position}})
	}
	for _, p := range lint.ClusterProperties(module.Compiler) {
		out.keys = append(out.keys, key{at: place{Position: p.Position}, document: "properties", name: p.Name})
	}
	return out
}

// findingsOfConstants finds names in the policy's rule `clusters` that no cluster has. It also finds constants that differ
// only in spelling from the clusters' values of the compared field, and properties that no cluster has, if some cluster is known. And it
// finds sources of the manager's configuration that select nothing, if the policy reads clusters.
func (f *Finder) findingsOfConstants(ctx context.Context, spec placementv1.PlacementPolicySpec, module *policy.Module, binding *policy.Binding) []Finding {
	mentioned := mentionsIn(spec, module)
	names := len(mentioned.constants)+len(mentioned.keys) > 0
	if f.Clusters == nil || !names && len(binding.Clusters) == 0 {
		return nil
	}
	clusters, idle, err := f.Clusters.All(ctx)
	if err != nil && !names {
		return nil
	}
	if err != nil {
		what := "clusters"
		if len(mentioned.constants) == 0 {
			what = mentioned.keys[0].document + " of clusters"
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
	add := func(at place, text string) {
		switch {
		case text == "":
		case at.field != "":
			out = append(out, mistake("%s: %s", at.field, text))
		default:
			out = append(out, mistakeAt(at.Position, text))
		}
	}
	known := valuesOf(clusters, []string{"name"})
	for _, c := range mentioned.constants {
		add(c.at, unknownConstant(c.ClusterConstant, clusters, known))
	}
	for _, k := range mentioned.keys {
		add(k.at, unknownKey(k, keysOf(clusters, k.document)))
	}
	return append(out, noticesOfUnready(spec, module, clusters)...)
}

// noticesOfUnready says in which clusters existing objects stay although they are not ready, if that has no end.
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
	return []Finding{notice("existing objects stay in clusters that their fleet manager marks as not ready, now %s, and new ones are not placed there: set spec.clusters.leaveUnreadyAfter to the time "+
		"after which existing ones move", strings.Join(names[:min(len(names), maxListed)], ", "))}
}

// unknownConstant returns the problem with a constant, or "" if there is none.
func unknownConstant(c lint.ClusterConstant, clusters []map[string]any, names []string) string {
	switch {
	case c.Given:
		return unknownCluster(c.Value, names)
	case len(c.Field) == 0:
		if near := misspelt(c.Value, names); near != "" {
			return fmt.Sprintf("no cluster has the name %q; did you mean %q?", c.Value, near)
		}
	default:
		if near := misspelt(c.Value, valuesOf(clusters, c.Field)); near != "" {
			return fmt.Sprintf("no cluster has %q in the field %s; did you mean %q?", c.Value, strings.Join(c.Field, "."), near)
		}
	}
	return ""
}

// unknownKey returns the problem with a key, or "" if there is none. Clusters may get a label later, so an unknown one is a problem
// only if its spelling is like that of another one, if it is the name of a field, or if no object is denied without it.
func unknownKey(k key, known []string) string {
	if k.document == "labels" {
		return unknownLabel(k, known)
	}
	if k.document != "properties" || slices.Contains(known, k.name) {
		return ""
	}
	return fmt.Sprintf("no cluster has the property %q%s", k.name, suggestion(k.name, known))
}

// clusterFields are the fields of clusters that rules compare.
var clusterFields = []placementv1.ClusterField{
	placementv1.ClusterFieldName, placementv1.ClusterFieldRegion, placementv1.ClusterFieldZone, placementv1.ClusterFieldProvider,
	placementv1.ClusterFieldVersion, placementv1.ClusterFieldReady,
}

// unknownLabel returns the problem with the key of a label, or "" if there is none.
func unknownLabel(k key, known []string) string {
	if slices.Contains(known, k.name) {
		return ""
	}
	unknown := fmt.Sprintf("no cluster has the label %q", k.name)
	near := cmp.Or(misspelt(k.name, known), similarLabel(k.name, known))
	switch {
	case near != "":
		return fmt.Sprintf("%s; did you mean %q?", unknown, near)
	case slices.Contains(clusterFields, placementv1.ClusterField(k.name)):
		return fmt.Sprintf("%s; did you mean field: %s?", unknown, k.name)
	case k.noEffect != "":
		return fmt.Sprintf("%s, so that this %s", unknown, k.noEffect)
	}
	return ""
}

// minSimilar is the length from which names with other characters count as misspelt: cpu and gpu are two names.
const minSimilar = 4

// similarLabel returns the label with the same prefix whose name is the most similar one, or "" if none is similar.
func similarLabel(label string, known []string) string {
	prefix, name := splitLabel(label)
	if len(name) < minSimilar {
		return ""
	}
	var names []string
	for _, k := range known {
		if p, n := splitLabel(k); p == prefix {
			names = append(names, n)
		}
	}
	near, _ := suggest.Nearest(name, names)
	if near == "" {
		return ""
	}
	return prefix + near
}

// splitLabel splits the key of a label after the slash.
func splitLabel(label string) (prefix, name string) {
	i := strings.LastIndex(label, "/") + 1
	return label[:i], label[i:]
}

// keysOf returns the sorted names of the members that a document of clusters has.
func keysOf(clusters []map[string]any, document string) []string {
	seen := sets.New[string]()
	for _, cluster := range clusters {
		members, _ := cluster[document].(map[string]any)
		for name := range members {
			seen.Insert(name)
		}
	}
	return sets.List(seen)
}

// unknownCluster returns the problem with the name of a cluster, or "" if the cluster exists.
func unknownCluster(name string, names []string) string {
	if slices.Contains(names, name) {
		return ""
	}
	text := suggestion(name, names)
	if text == "" && len(names) <= maxListed {
		text = ", but " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("the inventories have no cluster %q%s", name, text)
}

// suggestion returns a question that suggests a known name in place of an unknown one, for example `; did you mean
// "eu-1"?`. It returns "" if none is similar.
func suggestion(name string, known []string) string {
	near := misspelt(name, known)
	if near == "" {
		near, _ = suggest.Nearest(name, known)
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// misspelt returns the known value that differs from a constant only in case and separators. It returns "" if there is
// not exactly one such value, or if the constant itself is known. Names that differ in other characters don't count:
// us-east-1 and us-west-1 are two regions.
func misspelt(constant string, known []string) string {
	if slices.Contains(known, constant) {
		return ""
	}
	near := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return spelling(k) != spelling(constant) })
	if len(near) != 1 {
		return ""
	}
	return near[0]
}

// spelling returns a text in lower case without separators.
func spelling(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. /", r) {
			return -1
		}
		return r
	}, strings.ToLower(text))
}

// valuesOf returns the sorted strings that clusters have at a path. If there is an array, it returns the array's
// strings.
func valuesOf(clusters []map[string]any, path []string) []string {
	seen := sets.New[string]()
	for _, cluster := range clusters {
		var value any = cluster
		for _, name := range path {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		members, isArray := value.([]any)
		if !isArray {
			members = []any{value}
		}
		for _, member := range members {
			if text, ok := member.(string); ok {
				seen.Insert(text)
			}
		}
	}
	return sets.List(seen)
}

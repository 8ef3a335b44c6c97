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
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
)

// findingsOfDelivery finds what has no effect in spec.delivery, such as a system that can't deliver the matched objects, and in the weights
// of rules. It finds nothing without spec.delivery, whose path is path.
func (f *Finder) findingsOfDelivery(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher, module *policy.Module,
	path *field.Path) []Finding {
	if spec.Delivery == nil {
		return nil
	}
	types := m.Served(f.Catalog.Served())
	unserved := m.Coverage(f.Catalog.Served(), matchPath, f.OwnNamespace).Unserved
	if len(types) > 0 && len(unserved) == 0 && !slices.ContainsFunc(types, func(t match.ServedType) bool { return !isPlacement(t) }) {
		return []Finding{mistake("%s has no effect: the policy matches only objects that are placements themselves, such as %s, "+
			"and Berth writes their clusters into them. Match the workloads, or remove %s", path, types[0].GroupResource(), path)}
	}
	var out []Finding
	if mode := spec.WithDefaults().Mode; mode != placementv1.ModeEnforce {
		out = append(out, advice("%s has no effect in mode %s: nothing is delivered before mode is Enforce", path, mode))
	}
	if !givesClusters(module) {
		gap := "the policy has no Rego rule named clusters"
		if module.FromRules() {
			gap = "no rule gives clusters"
		}
		out = append(out, advice("%s: %s, so the policy delivers only objects to which other policies give clusters", path, gap))
	} else if r := spec.Delivery.Replicas; r != nil && r.DivideBy == placementv1.DivideByWeight && module.FromRules() &&
		!givesWeights(spec.Rules) {
		out = append(out, mistake("%s: no rule gives weights, so that each cluster has the weight 1. Set weights: Score in a rule with prefer, "+
			"or divideBy: Even", path.Child("replicas", "divideBy")))
	}
	out = slices.Concat(out, findingsOfWeights(spec, path), findingsOfSurge(spec.Delivery.Surge, path.Child("surge")))
	namespaced, clusterScoped := f.deliveredScopes(m)
	for _, system := range delivery.Systems(spec.Delivery) {
		if text := f.undelivered(system, namespaced, clusterScoped); text != "" {
			out = append(out, advice("%s: %s", path.Child(system.Name), text))
		}
	}
	return append(out, f.findingsOfForeignClusters(ctx, spec.Delivery, path)...)
}

// ownClusters has the inventories of the own clusters of systems, by the names of the fields of spec.delivery.
var ownClusters = map[string]string{
	"karmada": "clusters.cluster.karmada.io", "kubeFleet": "memberclusters.cluster.kubernetes-fleet.io",
	"openClusterManagement": "managedclusters.cluster.open-cluster-management.io",
}

// findingsOfForeignClusters finds systems to which a policy delivers although all clusters in files are those of other systems. It finds
// none if the clusters are read from an API server, because it is known whether that serves the types of a system. path is the path of
// spec.delivery.
func (f *Finder) findingsOfForeignClusters(ctx context.Context, spec *placementv1.Delivery, path *field.Path) (out []Finding) {
	if !f.CatalogIsPartial || f.Clusters == nil {
		return nil
	}
	clusters, _, err := f.Clusters.All(ctx)
	if err != nil {
		// The comparison with clusters reports the error.
		return nil
	}
	sources := sets.New[string]()
	for _, cluster := range clusters {
		source, _ := cluster["source"].(string)
		sources.Insert(source)
	}
	systems := sets.New(slices.Collect(maps.Values(ownClusters))...)
	for _, system := range delivery.Systems(spec) {
		own := ownClusters[system.Name]
		if own == "" || sources.Len() == 0 || sources.Has(own) || !systems.IsSuperset(sources) {
			continue
		}
		out = append(out, advice("%s: no cluster in the files belongs to %s, so that it runs the objects nowhere: all are %s. Deliver to "+
			"the system of these clusters, or correct the files", path.Child(system.Name), system.Title, strings.Join(sets.List(sources), ", ")))
	}
	return out
}

// isPlacement reports whether Berth writes the decided clusters into the objects of a type themselves: placements of Karmada and KubeFleet,
// such as PropagationPolicies, Placements of Open Cluster Management, PlacementDecisions, and Workloads of Kueue.
func isPlacement(t match.ServedType) bool {
	_, native := delivery.NativeSystem(schema.GroupKind{Group: t.Group, Kind: t.Kind})
	return native || (*clusterlist.Kinds)(nil).Of(t.GroupResource()) != nil
}

// findingsOfWeights finds rules that give clusters weights in a policy that does not divide replicas by weight. path is the path of
// spec.delivery.
func findingsOfWeights(spec placementv1.PlacementPolicySpec, path *field.Path) (out []Finding) {
	why := fmt.Sprintf("%s is not set, so that each cluster gets all replicas", path.Child("replicas"))
	if r := spec.Delivery.Replicas; r != nil {
		if r.DivideBy == placementv1.DivideByWeight {
			return nil
		}
		why = fmt.Sprintf("%s is %s", path.Child("replicas", "divideBy"), r.DivideBy)
	}
	for i, rule := range spec.Rules {
		if rule.Weights != "" {
			out = append(out, advice("%s: no replicas are divided by the weights: %s. Set %s: {divideBy: Weight}, or remove weights",
				specPath.Child("rules").Index(i).Child("weights"), why, path.Child("replicas")))
		}
	}
	return out
}

// findingsOfSurge finds a timeout of a surge in which no workload starts to run in another cluster. path is the path of the surge.
func findingsOfSurge(s *placementv1.Surge, path *field.Path) []Finding {
	if s == nil || s.Timeout == nil || s.Timeout.Duration >= minMoveTimeout {
		return nil
	}
	return []Finding{advice("%s: hardly any workload starts in another cluster within %s, so that objects leave a cluster before they run "+
		"elsewhere. Set some minutes, or remove surge", path.Child("timeout"), s.Timeout.Duration)}
}

// givesWeights reports whether any of the rules gives its clusters weights (weights: Score).
func givesWeights(rules []placementv1.Rule) bool {
	return slices.ContainsFunc(rules, func(r placementv1.Rule) bool { return r.Weights != "" })
}

// deliveredScopes reports whether the matched types that the API server serves are namespaced, cluster-scoped, or both. It leaves out the
// Placement of Open Cluster Management and the Workload of Kueue, which have fields for their own clusters, and does not consider which
// systems spec.delivery has. Both are false if no other type is known.
func (f *Finder) deliveredScopes(m *match.Matcher) (namespaced, clusterScoped bool) {
	for _, t := range m.Served(f.Catalog.Served()) {
		if _, native := delivery.NativeSystem(schema.GroupKind{Group: t.Group, Kind: t.Kind}); native {
			continue
		}
		namespaced, clusterScoped = namespaced || t.Namespaced, clusterScoped || !t.Namespaced
	}
	return namespaced, clusterScoped
}

// undelivered returns why a system can't deliver matched objects, which are namespaced, cluster-scoped, or both; "" if it can deliver them
// all. The reason is that the system delivers only namespaced objects, and none is matched, or that the API server does not serve a kind as
// which it delivers them. The latter does not count if the catalog is partial. If neither scope is known to be matched, there is a text
// only if the system can deliver the objects of neither.
func (f *Finder) undelivered(system delivery.System, namespaced, clusterScoped bool) string {
	unknown := !namespaced && !clusterScoped
	var scopes int
	var unserved []delivery.Kind
	for _, scope := range []struct{ namespaced, matched bool }{{true, namespaced}, {false, clusterScoped}} {
		kinds := system.KindsFor(scope.namespaced)
		if len(kinds) == 0 || !scope.matched && !unknown {
			continue
		}
		scopes++
		if i := slices.IndexFunc(kinds, func(kind delivery.Kind) bool {
			_, served := f.Catalog.Exact(kind.GroupVersionResource)
			return !served && !f.CatalogIsPartial
		}); i >= 0 {
			unserved = append(unserved, kinds[i])
		}
	}
	subject := "nothing"
	switch {
	case scopes == 0:
		return fmt.Sprintf("the policy matches only cluster-scoped types, and the objects of %[1]s are namespaced: nothing is delivered "+
			"to %[1]s. Match namespaced types, or remove this field", system.Title)
	case len(unserved) == 0, unknown && len(unserved) < scopes:
		return ""
	case len(unserved) < scopes && unserved[0].Namespaced:
		subject = "no namespaced object"
	case len(unserved) < scopes:
		subject = "no cluster-scoped object"
	}
	return fmt.Sprintf("the API server does not serve %s in version %s: %s is delivered to %s before its CRDs are installed",
		unserved[0].GroupResource(), unserved[0].Version, subject, system.Title)
}

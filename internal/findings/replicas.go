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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfReplicas finds spec.delivery.replicas that divides nothing, that divides objects among fewer clusters than the rules give, or
// that keeps objects from being delivered to Karmada.
func (f *Finder) findingsOfReplicas(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher,
	module *policy.Module) []Finding {
	if spec.Delivery == nil || spec.Delivery.Replicas == nil || spec.WithDefaults().Mode != placementv1.ModeEnforce {
		return nil
	}
	path := specPath.Child("delivery", "replicas")
	if types, all := m.Types(f.Catalog.Served()); all && len(types) > 0 && !slices.ContainsFunc(types, mayHaveReplicas) {
		return []Finding{mistake("%s has no effect: %s have no replicas, so that each cluster gets the whole object. Match types that have "+
			"spec.replicas, such as deployments.apps, or remove replicas", path, plurals(types))}
	}
	if !module.FromRules() {
		// Rego may give a cluster a number of replicas, whatever the bounds are.
		return nil
	}
	objects, err := f.replicasOf(ctx, m)
	if err != nil {
		// The comparison with labels of objects reports the error.
		return nil
	}
	var out []Finding
	by, most := spec.Delivery.Replicas, f.mostClusters(ctx, spec.Rules)
	if by.MaxPerCluster != nil && most > 0 && spec.Delivery.Karmada != nil {
		out = append(out, findingsOfMaximum(*by.MaxPerCluster, most, objects, m, path.Child("maxPerCluster"))...)
	}
	if by.MinPerCluster != nil && most != 1 {
		out = append(out, findingsOfMinimum(*by.MinPerCluster, objects, path.Child("minPerCluster"))...)
		if limit := limitOf(spec.Rules); len(out) == 0 && limit > 1 {
			out = append(out, findingsOfUnreachedLimit(*by.MinPerCluster, limit, objects, path.Child("minPerCluster"))...)
		}
	}
	return out
}

// mayHaveReplicas reports whether objects of a type may have spec.replicas. It is true for custom resources, of which this is not known.
func mayHaveReplicas(t match.ServedType) bool {
	_, scales := match.BuiltinReplicasPath(t.GroupResource())
	return scales || strings.Contains(t.Group, ".")
}

// mostClusters returns the maximum number of clusters that an object may have: that of the rules if each of them gives a limited number of
// clusters or denies, and if they decide each object; otherwise, that of all clusters. It is 0 if it is not known.
func (f *Finder) mostClusters(ctx context.Context, list []placementv1.Rule) int {
	limits := func(r placementv1.Rule) bool { return r.Deny != "" || r.Limit > 0 }
	if n := len(list); n > 0 && list[n-1].When == nil && !slices.ContainsFunc(list, func(r placementv1.Rule) bool { return !limits(r) }) {
		return int(slices.MaxFunc(list, func(a, b placementv1.Rule) int { return int(a.Limit - b.Limit) }).Limit)
	}
	if f.Clusters == nil || f.Objects == nil {
		return 0
	}
	clusters, _, err := f.Clusters.All(ctx)
	if err != nil {
		// The comparison with clusters reports the error.
		return 0
	}
	return len(clusters)
}

// replicated is an object that has spec.replicas.
type replicated struct {
	name     string // The kind, the namespace, and the name of the object.
	replicas int64
}

// replicasOf returns the existing objects with replicas that a policy matches; none for a policy with match conditions, or if
// Finder.Objects or Finder.Namespaces is nil.
func (f *Finder) replicasOf(ctx context.Context, m *match.Matcher) ([]replicated, error) {
	objects, err := f.matchedObjects(ctx, m)
	if err != nil || m.Conditional() {
		return nil, err
	}
	var out []replicated
	for _, o := range objects {
		if n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); found {
			out = append(out, replicated{describe(o), n})
		}
	}
	return out, nil
}

// fewReplicas is the number of replicas that hardly any workload exceeds that needs no more than one in each of two clusters.
const fewReplicas = 2

// findingsOfMaximum finds objects that can't be delivered to Karmada, because the clusters may not have all of their replicas. Without
// objects to compare, it finds a maximum with which hardly any object can be delivered, unless the policy is for selected objects. at
// is the path of the maximum of each cluster, and most the maximum number of clusters.
func findingsOfMaximum(maximum int32, most int, objects []replicated, m *match.Matcher, at *field.Path) []Finding {
	all := int64(maximum) * int64(most)
	over := slices.DeleteFunc(slices.Clone(objects), func(o replicated) bool { return o.replicas <= all })
	var which string
	switch {
	case len(over) == 1:
		which = fmt.Sprintf("%s of %d replicas", over[0].name, over[0].replicas)
	case len(over) > 1:
		which = fmt.Sprintf("%s of %d replicas, and %d more,", over[0].name, over[0].replicas, len(over)-1)
	case len(objects) == 0 && all <= fewReplicas && m.SelectsLabels(nil) && !m.Conditional():
		which = fmt.Sprintf("an object of more than %d replicas", all)
	default:
		return nil
	}
	return []Finding{advice("%s: %s can't be delivered: Karmada runs all replicas of an object, and the clusters that the policy gives may "+
		"have no more than %d. Raise maxPerCluster, or give more clusters", at, which, all)}
}

// findingsOfMinimum finds a minimum of each cluster that is at least four times the largest number of replicas of the matched objects, so
// that none of them is divided. It finds nothing if fewer than manyObjects objects are known, or if none has several replicas. at is the
// path of the minimum.
func findingsOfMinimum(minimum int32, objects []replicated, at *field.Path) []Finding {
	if len(objects) < manyObjects {
		return nil
	}
	largest := slices.MaxFunc(objects, func(a, b replicated) int { return int(a.replicas - b.replicas) }).replicas
	if largest < 2 || int64(minimum) < 4*largest {
		return nil
	}
	return []Finding{advice("%s: no matched object is divided: none has more than %d replicas, and the first cluster gets at least %d. Set a "+
		"smaller number", at, largest, minimum)}
}

// limitOf returns the limit that all rules of a policy have that give clusters; 0 if they have none, or different ones.
func limitOf(list []placementv1.Rule) (limit int32) {
	for _, r := range list {
		if !rules.GivesClusters(r) {
			continue
		}
		if r.Limit == 0 || limit != 0 && r.Limit != limit {
			return 0
		}
		limit = r.Limit
	}
	return limit
}

// findingsOfUnreachedLimit finds a minimum of each cluster with which no matched object is divided among as many clusters as the limit of
// the rules, and with which most of the objects with several replicas run in a single one. It finds nothing if these are fewer than
// manyObjects. at is the path of the minimum.
func findingsOfUnreachedLimit(minimum, limit int32, objects []replicated, at *field.Path) []Finding {
	several := slices.DeleteFunc(slices.Clone(objects), func(o replicated) bool { return o.replicas < 2 })
	if len(several) < manyObjects {
		return nil
	}
	undivided := 0
	for _, o := range several {
		if o.replicas >= int64(minimum)*int64(limit) {
			return nil
		}
		if o.replicas < 2*int64(minimum) {
			undivided++
		}
	}
	if 2*undivided <= len(several) {
		return nil
	}
	return []Finding{advice("%s: no matched object is divided among %d clusters, as many as the rules give, because none has %d replicas: %d "+
		"of the %d with several replicas run in a single cluster. Set a smaller number, or a smaller limit", at, limit, minimum*limit,
		undivided, len(several))}
}

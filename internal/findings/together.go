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
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rules"
)

// giver is an enforced policy that gives clusters by rules.
type giver struct {
	name  string // The name of the policy.
	spec  placementv1.PlacementPolicySpec
	gives []source // The rules that give clusters, without those that are certain to decide no object.
	// decided returns the index of the rule that decides each existing object, by the kind, namespace, and name of the object; nil if it is
	// not known. The first call reads the objects.
	decided func() map[string]int
}

// giverOf returns the policy of the name with a spec that has its defaults. ok is false if no rule of the policy gives clusters, or if the
// policy is not enforced or is rolled back.
func (f *Finder) giverOf(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) (out giver, ok bool) {
	if spec.Mode != placementv1.ModeEnforce || spec.Remote != nil || isRolledBack(spec) {
		return giver{}, false
	}
	gives := slices.DeleteFunc(decidingRules(spec), func(s source) bool { return !rules.GivesClusters(spec.Rules[s.index]) })
	return giver{name, spec, gives, sync.OnceValue(func() map[string]int { return f.decisionsOf(ctx, spec) })}, len(gives) > 0
}

// decisionsOf returns the index of the rule that decides each existing object that a policy matches, by the kind, namespace, and name of
// the object. It lacks objects that no rule decides. It returns nil if Finder.Objects is nil, or if the policy has match conditions or
// expressions in conditions of rules.
func (f *Finder) decisionsOf(ctx context.Context, spec placementv1.PlacementPolicySpec) map[string]int {
	m, errs := match.New(spec.Match, matchPath)
	if len(errs) > 0 || f.Objects == nil || m.Conditional() ||
		slices.ContainsFunc(spec.Rules, func(r placementv1.Rule) bool { return r.When != nil && r.When.Expression != "" }) {
		return nil
	}
	// The comparison with labels of objects reports an error.
	objects, err := f.matchedObjects(ctx, m)
	if err != nil || len(objects) == 0 {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return nil
	}
	labelsOf, out := maps.Collect(namespaces), map[string]int{}
	for _, o := range objects {
		if i := slices.IndexFunc(spec.Rules, func(r placementv1.Rule) bool { return appliesTo(r.When, o, labelsOf[o.GetNamespace()]) }); i >= 0 {
			out[describe(o)] = i
		}
	}
	return out
}

// appliesTo reports whether a condition without an expression applies to an object in a namespace that has the labels in of; true for nil.
func appliesTo(when *placementv1.RuleCondition, o *unstructured.Unstructured, of map[string]string) bool {
	if when == nil {
		return true
	}
	if !mayApply(when, o) || when.NamespaceSelector == nil {
		return mayApply(when, o)
	}
	selector, err := metav1.LabelSelectorAsSelector(when.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(of))
}

// givesToAllOf reports whether the policy is certain to give clusters to each object to which another one gives clusters, or to deny it. If
// that is not certain, it reports whether the policy does so with every existing object to which the other one gives clusters, and there
// are at least manyObjects of these.
func (g giver) givesToAllOf(other giver) bool {
	certain := func(i int) bool {
		rule := g.spec.Rules[i]
		return rule.Deny != "" || rules.GivesClusters(rule) && rule.Otherwise != placementv1.RuleOtherwiseNextRule
	}
	if !slices.ContainsFunc(other.gives, func(narrow source) bool {
		return !slices.ContainsFunc(g.gives, func(wide source) bool { return certain(wide.index) && narrow.meets(wide, true) })
	}) {
		return true
	}
	given := 0
	for object, i := range other.decided() {
		if !rules.GivesClusters(other.spec.Rules[i]) {
			continue
		}
		if j, decides := g.decided()[object]; !decides || !certain(j) {
			return false
		}
		given++
	}
	return given >= manyObjects
}

// bothDecide reports whether a rule of the policy is certain to decide each object that a rule of another policy decides, or the other way
// around, or whether both decide many existing objects. That objects can exist that both decide is not enough: there may be none.
func (g giver) bothDecide(our source, other giver, their source) bool {
	if our.decidesAll(their) || their.decidesAll(our) {
		return true
	}
	both := 0
	for object, i := range g.decided() {
		if j, decides := other.decided()[object]; decides && i == our.index && j == their.index {
			both++
		}
	}
	return both >= manyObjects
}

// findingsOfTogether finds what has no effect, or another one than it seems to have, because the named policy and another one decide the
// same objects: developerChoice and onEmpty of spec.clusters, the choice of clusters by rules, and fields of spec.delivery.
func (f *Finder) findingsOfTogether(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) []Finding {
	spec = spec.WithDefaults()
	if f.Policies == nil || spec.Mode != placementv1.ModeEnforce || isRolledBack(spec) {
		return nil
	}
	ours, gives := f.giverOf(ctx, name, spec)
	if !gives && spec.Delivery == nil {
		return nil
	}
	others, err := f.Policies(ctx)
	if err != nil {
		return []Finding{notice("cannot compare the policy with other policies: %v", err)}
	}
	// The findings are the same each time.
	others = slices.SortedFunc(slices.Values(others), func(a, b placementv1.PlacementPolicy) int { return cmp.Compare(a.Name, b.Name) })
	here := selectedBy(spec.Match, nil)
	var givers []giver
	var out []Finding
	for _, other := range others {
		theirs := other.Spec.WithDefaults()
		there := selectedBy(theirs.Match, nil)
		if other.Name == name || other.DeletionTimestamp != nil || theirs.Mode != placementv1.ModeEnforce || isRolledBack(theirs) ||
			!resourcesShared(spec.Match.ResourceRules, theirs.Match.ResourceRules) || !rules.MayOverlap(&here, &there) {
			continue
		}
		out = append(out, findingsOfDelivered(spec, other.Name, theirs)...)
		if their, ok := f.giverOf(ctx, other.Name, theirs); ok && gives {
			givers = append(givers, their)
		}
	}
	out = append(out, findingsOfDevelopers(ours, givers)...)
	clusters := sync.OnceValue(func() []map[string]any { return f.knownClusters(ctx) })
	for _, their := range givers {
		out = append(out, findingsOfChoices(ours, their, clusters)...)
	}
	return out
}

// knownClusters returns the existing clusters; none if they are not known.
func (f *Finder) knownClusters(ctx context.Context) []map[string]any {
	if f.Clusters == nil {
		return nil
	}
	// The comparison with clusters reports an error.
	clusters, _, _ := f.Clusters.All(ctx)
	return clusters
}

// strictness orders the values of onEmpty: if several policies give clusters to an object, the one of their values that comes first counts.
var strictness = []placementv1.OnEmpty{placementv1.OnEmptyDeny, placementv1.OnEmptyClear, placementv1.OnEmptyPolicyClusters}

// findingsOfDevelopers finds developerChoice: Override and onEmpty that have no effect, because another policy gives clusters to all of the
// same objects and has Narrow, while none of these policies has Ignore, or has onEmpty: Deny.
func findingsOfDevelopers(ours giver, others []giver) []Finding {
	set := ours.spec.Clusters
	if set == nil {
		return nil
	}
	find := func(differs func(theirs placementv1.ClustersRule) bool) (name string, found bool) {
		i := slices.IndexFunc(others, func(other giver) bool { return differs(other.spec.Clusters.WithDefaults()) && other.givesToAllOf(ours) })
		if i < 0 {
			return "", false
		}
		return others[i].name, true
	}
	var out []Finding
	if set.DeveloperChoice == placementv1.DeveloperChoiceOverride {
		name, found := find(func(theirs placementv1.ClustersRule) bool {
			return theirs.DeveloperChoice == placementv1.DeveloperChoiceNarrow
		})
		_, ignored := find(func(theirs placementv1.ClustersRule) bool {
			return theirs.DeveloperChoice == placementv1.DeveloperChoiceIgnore
		})
		if found && !ignored {
			out = append(out, advice("spec.clusters.developerChoice has no effect: policy %s gives clusters to the same objects and has Narrow, "+
				"and Override counts only if all policies have it that give an object clusters. Set Override there, too, or Ignore here, which counts "+
				"by itself", name))
		}
	}
	rank := func(e placementv1.OnEmpty) int { return slices.Index(strictness, e) }
	if rank(set.OnEmpty) > 0 {
		name, found := find(func(theirs placementv1.ClustersRule) bool { return theirs.OnEmpty == placementv1.OnEmptyDeny })
		if found {
			out = append(out, advice("spec.clusters.onEmpty has no effect: policy %s gives clusters to the same objects and has Deny, and %s "+
				"counts only if all policies have it that give an object clusters. Set %s there, too, or remove it here", name,
				set.OnEmpty, set.OnEmpty))
		}
	}
	return out
}

// findingsOfChoices finds rules that choose some of the clusters in one order although a rule of another policy chooses for the same
// objects in another order. clusters returns the existing ones; none if they are not known.
func findingsOfChoices(ours, theirs giver, clusters func() []map[string]any) []Finding {
	var out []Finding
	for _, our := range ours.gives {
		i := slices.IndexFunc(theirs.gives, func(their source) bool {
			return chooseApart(ours.spec.Rules[our.index], theirs.spec.Rules[their.index]) && ours.bothDecide(our, theirs, their) &&
				chooses(ours.spec.Rules, our.index, clusters()) && chooses(theirs.spec.Rules, their.index, clusters())
		})
		if i < 0 {
			continue
		}
		field := "limit"
		if ours.spec.Rules[our.index].Limit == 0 {
			field = "spread"
		}
		out = append(out, advice("%s: rule %s of policy %s chooses clusters for the same objects in another order, and an object gets only "+
			"clusters that both rules choose, which may be few or none. Choose in one of the policies, and require in the other one what all "+
			"clusters have to meet", specPath.Child("rules").Index(our.index).Child(field), theirs.gives[i].rule, theirs.name))
	}
	return out
}

// chooseApart reports whether both rules have a limit or a spread, and their prefer, minGain, or spread differ, so that they may choose
// some of the clusters in different orders. Two rules with neither prefer nor spread have the same order: by a hash of the names of the
// object and the cluster.
func chooseApart(a, b placementv1.Rule) bool {
	may := func(r placementv1.Rule) bool { return r.Limit > 0 || r.Spread != nil }
	order := func(r placementv1.Rule) placementv1.Rule {
		return placementv1.Rule{Prefer: r.Prefer, MinGain: r.MinGain, Spread: r.Spread}
	}
	return may(a) && may(b) && !equality.Semantic.DeepEqual(order(a), order(b))
}

// chooses reports whether the i-th rule of a list, which has a limit or a spread, may choose fewer clusters than are eligible. With a
// spread, it always may. With a limit, it may if more of clusters than the limit may meet its requirements, or if clusters is empty because
// they are not known, but not if it requires one of no more names than the limit.
func chooses(list []placementv1.Rule, i int, clusters []map[string]any) bool {
	rule := list[i]
	if rule.Spread != nil {
		return true
	}
	if slices.ContainsFunc(rule.Require, func(q placementv1.Requirement) bool {
		return q.Field == placementv1.ClusterFieldName && q.Operator == placementv1.OperatorIn && q.Values != nil &&
			len(q.Values) <= int(rule.Limit)
	}) {
		return false
	}
	required := rules.Required(list, i)
	eligible := slices.DeleteFunc(slices.Clone(clusters), func(cluster map[string]any) bool {
		return slices.ContainsFunc(required, func(c rules.Compared) bool { return !mayMeet(c, cluster) })
	})
	return len(clusters) == 0 || len(eligible) > int(rule.Limit)
}

// findingsOfDelivered finds fields of spec.delivery that have no effect, because the policy other, whose priority is higher, is certain to
// match all objects that this one matches, delivers to all systems to which this one delivers, and has another value of the field. theirs
// is the spec of that policy.
func findingsOfDelivered(spec placementv1.PlacementPolicySpec, other string, theirs placementv1.PlacementPolicySpec) []Finding {
	named := func(s *placementv1.Delivery) (out []string) {
		for _, system := range delivery.Systems(s) {
			out = append(out, system.Name)
		}
		return out
	}
	if spec.Delivery == nil || theirs.Delivery == nil || spec.Priority >= theirs.Priority || !matchesWithin(spec.Match, theirs.Match) ||
		slices.ContainsFunc(named(spec.Delivery), func(system string) bool { return !slices.Contains(named(theirs.Delivery), system) }) {
		return nil
	}
	var out []Finding
	for _, part := range []struct {
		field       string
		isSet, same bool
	}{
		{"replicas", spec.Delivery.Replicas != nil, equality.Semantic.DeepEqual(spec.Delivery.Replicas, theirs.Delivery.Replicas)},
		{"surge", spec.Delivery.Surge != nil, equality.Semantic.DeepEqual(spec.Delivery.Surge, theirs.Delivery.Surge)},
		{"karmada.propagateDependencies", spec.Delivery.Karmada != nil && spec.Delivery.Karmada.PropagateDependencies,
			equality.Semantic.DeepEqual(spec.Delivery.Karmada, theirs.Delivery.Karmada)},
	} {
		if part.isSet && !part.same {
			out = append(out, advice("spec.delivery.%s has no effect: policy %s delivers the same objects, and its spec.priority is %d and that of "+
				"this policy %d, so that the other spec.delivery counts. Set the field there, or a higher priority here", part.field, other,
				theirs.Priority, spec.Priority))
		}
	}
	return out
}

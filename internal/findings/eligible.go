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
	"fmt"
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfEligible finds rules whose requirements no cluster meets, although their values exist, rules that spread objects over more
// domains than there are, and preferences by order that no cluster meets. A requirement with valueFrom counts as met by each cluster that
// has any value there, whatever its default is.
func findingsOfEligible(list []placementv1.Rule, clusters []map[string]any) []Finding {
	var out []Finding
	for i, rule := range list {
		required := rules.Required(list, i)
		var eligible []map[string]any
		for _, cluster := range clusters {
			if !slices.ContainsFunc(required, func(c rules.Compared) bool { return !mayMeet(c, cluster) }) {
				eligible = append(eligible, cluster)
			}
		}
		path := specPath.Child("rules").Index(i)
		switch {
		case len(eligible) > 0 && rule.Spread != nil:
			out = append(out, placeOf(path.Child("spread")).findingsOfDomains(*rule.Spread, eligible)...)
		case len(eligible) == 0 && rules.CanBeMet(rule.Require):
			out = append(out, findingsOfUnmet(placeOf(path.Child("require")), required, clusters)...)
		}
	}
	for _, c := range rules.Comparisons(list) {
		if as, ordered := c.Ordered(); c.Preferred && !c.OfNodes && !c.Proportional() && ordered {
			out = append(out, findingsOfUnmetOrder(c, as, noneBetter, clusters)...)
		}
	}
	return out
}

// findingsOfUnmetOrder returns a finding for a comparison by order that no cluster meets, although some have a value that it can read as
// the type. none is a clause about what follows.
func findingsOfUnmetOrder(c rules.Compared, as placementv1.ValueType, none string, clusters []map[string]any) []Finding {
	if slices.ContainsFunc(clusters, func(cluster map[string]any) bool { return mayMeet(c, cluster) }) ||
		!slices.ContainsFunc(valuesOf(clusters, c.Path()), func(v string) bool { return rules.Reads(as, v) }) ||
		slices.ContainsFunc(c.Values, func(v string) bool { return rules.ExceedsClusters(c.Requirement, v) }) {
		return nil
	}
	return []Finding{placeOf(c.Field).finding(Advice, unmetText(c, none, clusters))}
}

// unmetText returns the message that no cluster meets a comparison. none is a clause about what follows.
func unmetText(c rules.Compared, none string, clusters []map[string]any) string {
	switch {
	case c.Free != "":
		return fmt.Sprintf("no cluster meets this now, not even while nothing runs there, %s", none)
	case c.Allocatable != "":
		// Amounts change with each node.
		return fmt.Sprintf("no cluster meets this now, %s", none)
	}
	return fmt.Sprintf("no cluster meets this now, %s; clusters have the values %s of %s", none,
		absent.Quoted(valuesOf(clusters, c.Path()), ", "), c.Noun())
}

// mayMeet reports whether a cluster may meet a requirement, by the values that it has now; false only if it certainly does not.
func mayMeet(c rules.Compared, cluster map[string]any) bool {
	return c.MayMeet(valuesOf([]map[string]any{cluster}, c.Path()))
}

// findingsOfUnmet returns the finding on requirements of a rule that no cluster meets together, which callers have found before. If no
// cluster meets one of them, the finding is on the first such requirement; it is left out if another finding names its value, label, or
// property, which no cluster has. If some cluster meets each of them, the finding is on all of them together, and at is their place.
func findingsOfUnmet(at place, required []rules.Compared, clusters []map[string]any) []Finding {
	for _, c := range required {
		if slices.ContainsFunc(clusters, func(cluster map[string]any) bool { return mayMeet(c, cluster) }) {
			continue
		}
		if as, ordered := c.Ordered(); ordered {
			return findingsOfUnmetOrder(c, as, noneEligible, clusters)
		}
		if c.Operator == placementv1.OperatorNotIn {
			return []Finding{placeOf(c.Field).finding(Advice, unmetText(c, noneEligible, clusters))}
		}
		return nil
	}
	return []Finding{at.finding(Advice, fmt.Sprintf("no cluster meets all of these requirements now, %s", noneEligible))}
}

// findingsOfDomains finds a spread that demands more domains, or more clusters in them, than eligible has, the clusters that meet the
// requirements.
func (at place) findingsOfDomains(s placementv1.RuleSpread, eligible []map[string]any) []Finding {
	q := rules.Compared{Requirement: placementv1.Requirement{Subject: placementv1.Subject{Field: s.Field, Label: s.Label,
		Property: s.Property}}}
	sizes := map[string]int{}
	for _, cluster := range eligible {
		if values := valuesOf([]map[string]any{cluster}, q.Path()); len(values) > 0 {
			sizes[values[0]]++
		}
	}
	var used []string
	for domain, size := range sizes {
		if size >= max(int(s.MinClusters), 1) {
			used = append(used, domain)
		}
	}
	if len(sizes) == 0 || len(used) >= max(int(s.MinDomains), 1) {
		return nil
	}
	slices.Sort(used)
	which := "none"
	if len(used) > 0 {
		which = absent.Quoted(used, ", ")
	}
	return []Finding{at.finding(Advice, fmt.Sprintf("the clusters that meet the requirements now have too few domains by %s for "+
		"minDomains: %d and minClusters: %d, so that the rule finds too few clusters. Domains with enough clusters: %s",
		strings.TrimPrefix(q.Noun(), "field "), max(s.MinDomains, 1), max(s.MinClusters, 1), which))}
}

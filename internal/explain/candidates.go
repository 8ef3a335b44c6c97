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

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/simulation"
)

// Candidate is a cluster or node that policies choose among.
type Candidate struct {
	Name string `json:"name"`
	// Chosen reports whether the object should be in the cluster, by what policies decide and its developer requested. No cluster is chosen
	// for an object that policies deny. A node is chosen if it passes the predicates.
	Chosen bool `json:"chosen"`
	// Current reports whether the list of clusters of the existing object has the cluster today; false for nodes.
	Current bool `json:"current,omitempty"`
	// Waits says what an existing object waits for before it comes to a chosen cluster, or leaves one that is not chosen; empty if it does
	// neither, or does it at once.
	Waits string `json:"waits,omitempty"`
	// Ranks has the rank of the cluster in the rule of each policy that decides the object, if the rule has limit, spread, or weights, and the
	// cluster is eligible; empty for nodes.
	Ranks []Rank `json:"ranks,omitempty"`
	// Reasons say why the candidate is not chosen; none for a chosen one. For a cluster in which the object is today, they say why it has to
	// leave.
	Reasons []Reason `json:"reasons,omitempty"`
}

// Rank is the rank of an eligible cluster in the rule of a policy that decides the object.
type Rank struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	Rank   int    `json:"rank"`  // 1 for the best of the eligible clusters
	Of     int    `json:"of"`    // the number of eligible clusters
	Score  int    `json:"score"` // the sum of the scores in Preferences
	Level  int    `json:"level"` // by how many steps of the rule's minGain Score is below the best score
	// Preferences are the preferences of the rule, in its order, with what the cluster has and scores for each.
	Preferences []Preference `json:"preferences,omitempty"`
}

// Preference is the value that an eligible cluster has for one preference of a rule, and its score for that, from 0 to Weight. Whether the
// cluster meets the preference is only visible in the score.
type Preference struct {
	Subject string  `json:"subject"`         // what the preference compares, such as "property cost"
	Value   *string `json:"value,omitempty"` // the cluster's value of Subject; nil if it has none
	Score   int     `json:"score"`           // the score of the cluster for the preference
	Weight  int     `json:"weight"`          // the highest score that a cluster can have for the preference
}

// Candidates has one list of clusters or nodes among which policies choose, the chosen ones and others, and counts all of them, also those
// that the list leaves out.
type Candidates struct {
	// Total is the number of candidates, and Chosen that of the chosen ones. They count candidates that are not listed, too. A node counts
	// once for each evaluation of predicates by a policy.
	Total  int `json:"total"`
	Chosen int `json:"chosen"`
	// Listed are, of clusters, the chosen ones, those in which the object is today and, as far as the limit allows, the others, sorted by
	// name; of nodes, the chosen ones and, as far as the limit allows, the others. With Options.WhyNot, it is only the one with that name.
	Listed []Candidate `json:"listed"`
}

// Options say which candidates are listed: with WhyNot, the cluster or node of that name alone; otherwise the chosen ones, the clusters in
// which the object is today, and at most Limit other clusters and Limit other nodes. The zero value lists no others.
type Options struct {
	// WhyNot is the name of the only cluster or node to explain, whatever Limit is; empty for all. A name that is neither of a cluster nor of
	// a node is an error.
	WhyNot string
	// Limit is the most clusters, and the most nodes, that are not chosen but listed with reasons. Those in which the object is today do not
	// count. It is 0 for none.
	Limit int
}

// explainer explains one object.
type explainer struct {
	simulation *simulation.Simulation
	options    Options
	object     simulation.Object
	requested  *unstructured.Unstructured      // the object with the values that the developer requested
	outcome    *placement.Outcome              // what policies decide for object
	denied     bool                            // whether policies deny the object (Explanation.Denied)
	keys       []Key                           // what policies set, restore, or compete for (Explanation.Keys)
	searches   map[string]*search              // what searchIn has returned so far, also nil, by the name of the policy
	reports    map[string][]*predicates.Report // those made so far by reportsOf, by the name of the policy
}

// clusters explains the clusters. It returns nil if no policy restricts them, unless WhyNot names one. It is an error if WhyNot is neither
// a cluster nor one of nodes, the explained nodes.
func (e *explainer) clusters(ctx context.Context, nodes *Candidates) (*Candidates, error) {
	restricts := func(v *placement.Verdict) bool {
		return v.Err == nil && v.Decision.Clusters != nil || e.findsTooFew(ctx, v)
	}
	restricted, isNode := slices.ContainsFunc(e.outcome.Verdicts, restricts), nodes != nil && len(nodes.Listed) > 0
	if !restricted && (e.options.WhyNot == "" || isNode) {
		return nil, nil
	}
	names, err := e.simulation.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range e.outcome.Verdicts {
		names = append(names, v.Decision.Clusters...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if e.options.WhyNot != "" && !slices.Contains(names, e.options.WhyNot) && !isNode {
		return nil, unknownCluster(e.options.WhyNot, names)
	}
	return e.explainClusters(ctx, names), nil
}

// explainClusters explains the clusters with some names, which must be sorted. It counts all of them, and lists the chosen ones, those in
// which the object is today, and as many others as Options.Limit allows; with Options.WhyNot, only that one. Each listed cluster that is
// not chosen has reasons.
func (e *explainer) explainClusters(ctx context.Context, names []string) *Candidates {
	out, explained := &Candidates{Total: len(names)}, 0
	chosen, current := e.chosen(), e.current()
	for _, name := range names {
		candidate := Candidate{Name: name, Chosen: slices.Contains(chosen, name), Current: slices.Contains(current, name)}
		if candidate.Chosen {
			out.Chosen++
		}
		switch {
		case e.options.WhyNot != "" && name != e.options.WhyNot:
			continue
		case candidate.Chosen:
		case candidate.Current:
			candidate.Reasons = e.against(ctx, name)
		case explained == e.options.Limit && e.options.WhyNot == "":
			continue
		default:
			explained++
			candidate.Reasons = e.lost(ctx, name)
		}
		if k := e.clustersKey(); k != nil && candidate.Chosen != candidate.Current {
			candidate.Waits = k.Waits
		}
		candidate.Ranks = e.ranksOf(ctx, name)
		out.Listed = append(out.Listed, candidate)
	}
	return out
}

// chosen returns the names of the clusters in which the object should be, also if it waits before it gets them; none if policies deny it.
func (e *explainer) chosen() []string {
	if e.denied {
		return nil
	}
	if k := e.clustersKey(); k != nil && k.Kept == "" {
		return e.outcome.NamesIn(k.Decided)
	}
	return e.outcome.ClusterNames(cmp.Or(e.outcome.Object, e.object.Content))
}

// current returns the names in the list of clusters of the existing object, which is an annotation or, for a placement object such as a
// PropagationPolicy, a field; none for an object that does not exist.
func (e *explainer) current() []string {
	if !e.object.Exists {
		return nil
	}
	return e.outcome.ClusterNames(e.object.Content)
}

// clustersKey returns the key with the object's list of clusters, which is an annotation or, for a placement object such as a
// PropagationPolicy, the list in a field; nil if no enforced policy decides it.
func (e *explainer) clustersKey() *Key {
	field, name, _ := e.outcome.ClustersIn(e.object.Content)
	i := slices.IndexFunc(e.keys, func(k Key) bool { return k.Field == field && k.Key == name })
	if i < 0 {
		return nil
	}
	return &e.keys[i]
}

// unknownCluster returns the error for a name in --why-not that is none of names, the clusters that policies read. It lists some of names
// or, if there are none, says why.
func unknownCluster(name string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("--why-not: cluster %q is not known: no policy reads an inventory, or the inventories that policies read have "+
			"no clusters", name)
	}
	return fmt.Errorf("--why-not: no inventory that policies read has a cluster %q; there are %s", name, shortList(names))
}

// maxNames is the maximum number of names that a message lists.
const maxNames = 10

// shortList returns at most maxNames names as text, with the number of the others; "none" if there are no names.
func shortList(names []string) string {
	if len(names) > maxNames {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// lost returns why a cluster is not chosen, at least one reason: those of all policies that can't decide the object or do not allow the
// cluster. If there is no such policy, the first of these that applies is the only reason: an enforced policy denies the object, the
// developer requested other clusters, or a policy that is not enforced allows the cluster; or else the reason of kept.
func (e *explainer) lost(ctx context.Context, name string) []Reason {
	var out []Reason
	for _, v := range e.outcome.Verdicts {
		switch {
		case v.Err != nil:
			out = append(out, Reason{Policy: v.Policy.Name, Message: "can't decide: " + v.Err.Error()})
		case v.Decision.Clusters != nil && !slices.Contains(v.Decision.Clusters, name), e.findsTooFew(ctx, v):
			out = append(out, e.notAllowed(ctx, v, name)...)
		}
	}
	for _, v := range e.outcome.Verdicts {
		if len(out) == 0 && v.Err == nil && v.Policy.Mode == placementv1.ModeEnforce && len(v.Decision.Errors) > 0 {
			out = append(out, Reason{Policy: v.Policy.Name, Message: "denies the object in all clusters: " + v.Decision.Errors[0]})
		}
	}
	requested := e.outcome.ClusterNames(e.requested)
	if len(out) == 0 && len(requested) > 0 && !slices.Contains(requested, name) {
		out = append(out, Reason{Message: "the developer requested only " + shortList(requested)})
	}
	for _, v := range e.outcome.Verdicts {
		if len(out) == 0 && v.Err == nil && v.Decision.Clusters != nil && v.Policy.Mode != placementv1.ModeEnforce {
			out = append(out, Reason{Policy: v.Policy.Name, Message: "allows the cluster, but changes nothing in mode " + string(v.Policy.Mode)})
		}
	}
	if len(out) == 0 {
		out = append(out, Reason{Message: e.kept()})
	}
	return out
}

// against returns why the object has to leave a cluster in which it is today: the reasons of the enforced policies that do not allow the
// cluster or, if all allow it, those of lost.
func (e *explainer) against(ctx context.Context, name string) []Reason {
	var out []Reason
	for _, v := range e.outcome.Verdicts {
		if v.Err == nil && v.Policy.Mode == placementv1.ModeEnforce && v.Decision.Clusters != nil && !slices.Contains(v.Decision.Clusters, name) {
			out = append(out, e.notAllowed(ctx, v, name)...)
		}
	}
	if len(out) == 0 {
		return e.lost(ctx, name)
	}
	return out
}

// kept returns the reason why an object should not be in a cluster that all policies allow: none of them chooses clusters, or the object
// has those of its controller, or keeps its current ones.
func (e *explainer) kept() string {
	chooses := func(v *placement.Verdict) bool { return v.Err == nil && v.Decision.Clusters != nil }
	if len(e.outcome.Verdicts) == 0 {
		return "no policy matches the object, so that none chooses clusters for it"
	}
	for _, v := range e.outcome.Verdicts {
		if v.Follows != "" {
			return fmt.Sprintf("the object has the clusters of %s, which controls it", v.Follows)
		}
	}
	if !slices.ContainsFunc(e.outcome.Verdicts, chooses) {
		return "no policy chooses clusters for the object"
	}
	out := "the object keeps its current clusters"
	if len(e.outcome.ClusterNames(e.object.Content)) == 0 {
		out = "the object has no clusters yet"
	}
	if k := e.clustersKey(); k != nil && cmp.Or(k.Kept, k.Waits) != "" {
		out += ": " + cmp.Or(k.Kept, k.Waits)
	}
	return out
}

// findsTooFew reports whether a policy denies the object and gives no clusters, although the rule that decides the object, or the policy's
// Rego, is for clusters: it found too few.
func (e *explainer) findsTooFew(ctx context.Context, v *placement.Verdict) bool {
	if v.Err != nil || len(v.Decision.Errors) == 0 || v.Decision.Clusters != nil {
		return false
	}
	s := e.searchIn(v.Policy)
	return s != nil && s.choosesClusters(ctx)
}

// ranksOf returns the rank of a cluster in the deciding rule of each policy, if the rule ranks clusters and this one is eligible.
func (e *explainer) ranksOf(ctx context.Context, name string) (out []Rank) {
	for _, v := range e.outcome.Verdicts {
		s := e.searchIn(v.Policy)
		if v.Err != nil || s == nil {
			continue
		}
		rule, ranking := s.ranking(ctx)
		if i := slices.IndexFunc(ranking, func(r ranked) bool { return r.Name == name }); i >= 0 {
			r := ranking[i]
			out = append(out, Rank{v.Policy.Name, rule, i + 1, len(ranking), r.Score, r.Level, r.Preferences})
		}
	}
	return out
}

// notAllowed returns why a policy that does not choose a cluster does not choose it; at least one reason. The first of these that applies
// gives them: the cluster's name is ambiguous, the policy's rules or Rego exclude the cluster, or a predicate does. Otherwise, the reason
// says only that the Rego rule clusters does not contain the cluster.
func (e *explainer) notAllowed(ctx context.Context, v *placement.Verdict, name string) []Reason {
	if binding := e.simulation.Policy(v.Policy.Name).VersionOf(v.Policy).Binding; binding != nil {
		for _, a := range e.simulation.Ambiguous(binding) {
			if a.Cluster == name {
				return []Reason{{Policy: v.Policy.Name, Message: a.Reason()}}
			}
		}
	}
	s := e.searchIn(v.Policy)
	if s != nil {
		if reasons := s.notChosen(ctx, name); len(reasons) > 0 {
			return reasons
		}
	}
	for _, report := range e.reportsOf(ctx, v.Policy) {
		if report.Kind != predicates.Clusters {
			continue
		}
		for _, verdict := range report.Verdicts {
			if verdict.Name == name && !verdict.Feasible {
				return []Reason{{Policy: v.Policy.Name, Message: fmt.Sprintf("predicate %s: %s", verdict.Predicate,
					strings.Join(verdict.Reasons, "; "))}}
			}
		}
	}
	return []Reason{{Policy: v.Policy.Name, Message: "its Rego rule named clusters does not contain the cluster"}}
}

// searchIn returns the search for failing expressions in the version of a policy that decides the object; nil if the version has no Rego
// that can be inspected, as with a remote engine. It makes each search once.
func (e *explainer) searchIn(p *placement.Policy) *search {
	if s, ok := e.searches[p.Name]; ok {
		return s
	}
	e.searches[p.Name] = nil
	inspectable, ok := p.Evaluator.(embedded.Inspectable)
	own := e.simulation.Policy(p.Name).VersionOf(p)
	if !ok || own.Module == nil || own.Module.Text == "" {
		return nil
	}
	module, err := policy.ParseRego(p.Name+".rego", own.Module.Text, own.Module.RegoVersion)
	if err != nil {
		return nil
	}
	inspection, err := inspectable.Inspect(e.requested.Object)
	if err != nil {
		return nil
	}
	e.searches[p.Name] = newSearch(inspection, p.Name, own, module, e.requested.Object)
	return e.searches[p.Name]
}

// reportsOf returns the reports of the predicates that a policy evaluates for the object: which candidates pass, and why others do
// not. There are none if the policy evaluates no predicates.
func (e *explainer) reportsOf(ctx context.Context, p *placement.Policy) []*predicates.Report {
	if known, ok := e.reports[p.Name]; ok {
		return known
	}
	e.reports[p.Name] = nil
	own := e.simulation.Policy(p.Name).VersionOf(p)
	inspectable, ok := p.Evaluator.(embedded.Inspectable)
	if !ok || own.Module == nil || !own.Module.Nodes && !own.Module.Clusters {
		return nil
	}
	inspection, err := inspectable.Inspect(e.requested.Object)
	if err != nil {
		return nil
	}
	// If the evaluation fails, the policy's verdict has the error, and the reports before it remain.
	e.reports[p.Name], _ = inspection.Reports(ctx)
	return e.reports[p.Name]
}

// nodes explains the nodes on which the policies evaluated predicates; nil if they evaluated none.
func (e *explainer) nodes(ctx context.Context) *Candidates {
	var out *Candidates
	explained := 0
	for _, v := range e.outcome.Verdicts {
		for _, report := range e.reportsOf(ctx, v.Policy) {
			if report.Kind != predicates.Nodes {
				continue
			}
			if out == nil {
				out = &Candidates{}
			}
			for _, verdict := range report.Verdicts {
				candidate := Candidate{Name: verdict.Name, Chosen: verdict.Feasible}
				out.Total++
				switch {
				case verdict.Feasible:
					out.Chosen++
				case explained == e.options.Limit && e.options.WhyNot == "":
					continue
				default:
					explained++
					candidate.Reasons = []Reason{{Policy: v.Policy.Name, Message: fmt.Sprintf("predicate %s: %s", verdict.Predicate,
						strings.Join(verdict.Reasons, "; "))}}
				}
				if e.options.WhyNot == "" || e.options.WhyNot == verdict.Name {
					out.Listed = append(out.Listed, candidate)
				}
			}
		}
	}
	return out
}

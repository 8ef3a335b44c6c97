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

package rulesoracle

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/test/budget"
)

// matchAll matches the objects that a Generator makes of built-in types.
const matchAll = `{resourceRules: [{apiGroups: ["", apps, batch], apiVersions: [v1], resources: [namespaces, pods, deployments, replicasets, jobs, cronjobs]}]}`

// definition is the definition of a type of the inventories.
const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.%[3]s}, spec: {group: %[3]s,
  scope: Namespaced, names: {plural: %[1]s, singular: %[1]s, kind: %[2]s}, versions: [{name: %[4]s, served: true, storage: true}]}}`

// explained is an object, how it is explained, and what that is compared with.
type explained struct {
	example
	clusters map[string]map[string]any
	// simulation decides the object, and requested is the object as its developer requested it.
	simulation *simulation.Simulation
	object     simulation.Object
	requested  *unstructured.Unstructured
	// outcome and explanation are what the simulation says, and want is the oracle's decision.
	outcome     *placement.Outcome
	explanation *explain.Explanation
	want        Decision
}

// TestExplanations compares explanations of new objects, and of existing ones after the clusters changed, with what is decided of them,
// what they have, what their developers requested, and the oracle.
func TestExplanations(t *testing.T) {
	s := newServed(t)
	counts := map[string]int{}
	all := []string{"keys", "added affinities", "ranks", "reasons of the rule that decides", "reasons of rules before", "later rules", "denials"}
	isMissing := func(what string) bool { return counts[what] == 0 }
	// The first rounds of some seeds lack what is rare.
	rounds := uint64(budget.Rounds(25))
	for n := uint64(0); n < rounds || n < 10*rounds && slices.ContainsFunc(all, isMissing); n++ {
		verifyExplanations(t, s, *seed+n, counts)
	}
	t.Logf("verified %v", counts)
	for _, what := range all {
		if isMissing(what) {
			t.Errorf("no %s are verified", what)
		}
	}
}

// verifyExplanations verifies the explanations of the objects of one seed, and counts what it verifies.
func verifyExplanations(t *testing.T, s served, seed uint64, counts map[string]int) {
	t.Helper()
	e := newExample(seed)
	first, second := inOneNamespace(e.clusters[0]), inOneNamespace(e.clusters[1])
	before, after := e.simulate(t, s, first), e.simulate(t, s, second)
	for _, content := range e.objects[:2] {
		requested := &unstructured.Unstructured{Object: content}
		object, err := before.NewObject(requested, false)
		if err != nil {
			// The simulation does not know the type.
			continue
		}
		x := explained{example: e, clusters: first, simulation: before, object: object, requested: requested}
		if x.verify(t, counts); t.Failed() {
			t.Fatalf("seed %d, a new object\n%s", seed, e.print(content, first))
		}
		if x.outcome.Object == nil || len(x.want.Errors) > 0 {
			continue
		}
		x.clusters, x.simulation, x.object.Exists, x.object.Content = second, after, true, x.outcome.Object
		if x.verify(t, counts); t.Failed() {
			t.Fatalf("seed %d, an existing object\n%s", seed, e.print(x.object.Content.Object, second))
		}
	}
}

// inOneNamespace returns clusters whose objects are all in one namespace.
func inOneNamespace(clusters map[string]map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, document := range clusters {
		out[name] = maps.Clone(document)
		out[name]["namespace"] = "fleet"
		twin, ok := document[Twin].(map[string]any)
		if !ok {
			continue
		}
		other := maps.Clone(twin)
		other["namespace"] = "fleet"
		if out[name][Twin] = other; other["source"] == document["source"] {
			delete(out[name], Twin)
		}
	}
	return out
}

// simulate returns a simulation of a cluster with a policy of the rules.
func (e example) simulate(t *testing.T, s served, clusters map[string]map[string]any) *simulation.Simulation {
	t.Helper()
	p := placementv1.PlacementPolicy{Spec: placementv1.PlacementPolicySpec{Mode: placementv1.ModeEnforce, Rules: e.rules}}
	p.APIVersion, p.Kind, p.Name = placementv1.GroupVersion.String(), "PlacementPolicy", "p"
	decode(t, matchAll, &p.Spec.Match)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p)
	if err != nil {
		t.Fatal(err)
	}
	objects := append(s.objects(t, clusters, slices.Sorted(maps.Keys(clusters))), &unstructured.Unstructured{Object: content})
	for _, document := range clusters {
		objects = append(objects, scoresOf(document)...)
	}
	definitions := []string{fmt.Sprintf(definition, scoresResource.Resource, "AddOnPlacementScore", scoresResource.Group, scoresResource.Version)}
	for plural, kind := range kindOf {
		definitions = append(definitions, fmt.Sprintf(definition, plural, kind, "fleet.example.com", "v1"))
	}
	for _, text := range definitions {
		crd := &unstructured.Unstructured{}
		decode(t, text, &crd.Object)
		objects = append(objects, crd)
	}
	for name, set := range e.namespaces {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		o.SetName(name)
		o.SetLabels(set)
		objects = append(objects, o)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), s.inventories, objects...)
	if err != nil {
		t.Fatal(err)
	}
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	out, err := simulation.New(t.Context(), cluster, simulation.Options{Keyring: keyring})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verify decides and explains the object. It counts what it verifies of the explanation.
func (x *explained) verify(t *testing.T, counts map[string]int) {
	t.Helper()
	var err error
	if x.outcome, err = x.simulation.Decide(t.Context(), x.object); err != nil {
		t.Fatal(err)
	}
	if x.explanation, err = explain.Explain(t.Context(), x.simulation, x.object, explain.Options{Limit: len(x.clusters)}); err != nil {
		t.Fatal(err)
	}
	x.want = x.decide(x.requested.Object, x.clusters)
	if len(x.outcome.Verdicts)+len(x.explanation.Policies) == 0 {
		return
	}
	if len(x.outcome.Verdicts) != 1 || len(x.explanation.Policies) != 1 {
		t.Fatalf("%d policies match, and %d are explained", len(x.outcome.Verdicts), len(x.explanation.Policies))
	}
	v, p := x.outcome.Verdicts[0], x.explanation.Policies[0]
	if v.Err != nil {
		if p.Error != v.Err.Error() {
			t.Errorf("the error is %q, want %q", p.Error, v.Err)
		}
		return
	}
	if p.Error != "" || p.Rule != x.want.Rule || p.Follows != v.Follows {
		t.Errorf("rule %q decides, follows %q, error %q, want rule %q, follows %q", p.Rule, p.Follows, p.Error, x.want.Rule, v.Follows)
	}
	decision := placement.Decision{Annotations: p.Decision.Annotations, Labels: p.Decision.Labels, Scheduling: p.Decision.Scheduling, Errors: p.Decision.Errors, Warnings: p.Decision.Warnings, Rule: p.Rule}
	if p.Decision.Clusters != nil {
		decision.Clusters = *p.Decision.Clusters
	}
	if !decision.Equal(v.Decision) {
		t.Errorf("the decision (-want +got):\n%s", cmp.Diff(v.Decision, decision))
	}
	if diff := cmp.Diff(x.laterRules(), p.AlsoApply); diff != "" {
		t.Errorf("later rules that apply (-want +got):\n%s", diff)
	}
	counts["later rules"] += len(p.AlsoApply)
	counts["denials"] += len(v.Decision.Errors)
	x.verifyKeys(t, counts)
	x.verifyClusters(t, counts)
	if t.Failed() {
		text, _ := yaml.Marshal(x.explanation)
		t.Logf("the explanation is\n%s", text)
	}
}

// laterRules returns the rules with a condition that apply to the object after the one that decides it.
func (x *explained) laterRules() (out []string) {
	at := slices.IndexFunc(x.rules, func(r placementv1.Rule) bool { return r.Name == x.want.Rule })
	if at < 0 {
		return nil
	}
	for _, r := range x.rules[at+1:] {
		unconditional := r.When == nil || isEmpty(r.When.ObjectSelector) && isEmpty(r.When.NamespaceSelector) && r.When.Annotations == nil && r.When.Expression == ""
		if !unconditional && applies(r.When, x.requested.Object, x.namespaces[x.requested.GetNamespace()]) == isTrue {
			out = append(out, r.Name)
		}
	}
	return out
}

// values returns the annotations, labels, and scheduling fields of an object, by field and key. It leaves out Berth's record.
func (x *explained) values(o *unstructured.Unstructured) map[[2]string]string {
	out := map[[2]string]string{}
	for field, values := range map[string]map[string]string{"annotations": o.GetAnnotations(), "labels": o.GetLabels(), "scheduling": x.simulation.Scheduling(x.object.Resource, o)} {
		for key, value := range values {
			out[[2]string{field, key}] = value
		}
	}
	delete(out, [2]string{"annotations", placementv1.RequestedAnnotation})
	return out
}

// verifyKeys compares the explained keys with the object, as it is requested, as it is, and as it becomes.
func (x *explained) verifyKeys(t *testing.T, counts map[string]int) {
	t.Helper()
	requested, current, placed := x.values(x.requested), x.values(x.object.Content), x.values(x.outcome.Object)
	at := func(values map[[2]string]string, k explain.Key) *string {
		name := [2]string{k.Field, k.Key}
		if podscheduling.IsContribution(k.Key) {
			name[1] = podscheduling.Affinity
		}
		if value, ok := values[name]; ok {
			return &value
		}
		return nil
	}
	known := map[[2]string]bool{}
	for _, k := range x.explanation.Keys {
		added := podscheduling.IsContribution(k.Key)
		if known[[2]string{k.Field, k.Key}] = true; added {
			known[[2]string{k.Field, podscheduling.Affinity}] = true
			counts["added affinities"]++
		}
		counts["keys"]++
		// The affinity of an existing Pod or Job can't be taken apart, and the template of what a controller made is the controller's.
		stays := x.object.Exists && k.Field == "scheduling" && (metav1.GetControllerOfNoCopy(x.object.Content) != nil ||
			added && slices.Contains([]string{"Pod", "Job"}, x.object.Content.GetKind()))
		if want := at(requested, k); !stays && !ptr.Equal(k.Requested, want) {
			t.Errorf("%s %s: requested %q, want %q", k.Field, k.Key, text(k.Requested), text(want))
		}
		if want := at(current, k); !ptr.Equal(k.Current, want) {
			t.Errorf("%s %s: current %q, want %q", k.Field, k.Key, text(k.Current), text(want))
		}
		becomes := at(placed, k)
		switch {
		case k.Kept != "":
			if !ptr.Equal(becomes, k.Current) {
				t.Errorf("%s %s: becomes %q, and is said to be kept", k.Field, k.Key, text(becomes))
			}
		case added && k.Decided != nil:
			if !podscheduling.Implied(becomes, *k.Decided) {
				t.Errorf("%s %s: becomes %q, which lacks %q", k.Field, k.Key, text(becomes), *k.Decided)
			}
		case !added && !ptr.Equal(becomes, k.Decided):
			t.Errorf("%s %s: becomes %q, and %q is said to be decided", k.Field, k.Key, text(becomes), text(k.Decided))
		}
		if len(k.Overrides) > 0 {
			t.Errorf("%s %s: overrides %q", k.Field, k.Key, k.Overrides)
		}
	}
	for name, value := range placed {
		if old, ok := current[name]; (!ok || old != value) && !known[name] {
			t.Errorf("%s %s: becomes %q, and is not explained", name[0], name[1], value)
		}
	}
	for name := range current {
		if _, ok := placed[name]; !ok && !known[name] {
			t.Errorf("%s %s: is removed, and is not explained", name[0], name[1])
		}
	}
}

func text(value *string) string { return ptr.Deref(value, "(none)") }

// verifyClusters compares the explained clusters with the object's and with what the oracle finds in them.
func (x *explained) verifyClusters(t *testing.T, counts map[string]int) {
	t.Helper()
	rule := ruleNamed(x.rules, x.want.Rule)
	given := rule != nil && choose(rule, x.requested.Object, x.clusters).given
	if x.explanation.Clusters == nil {
		if given && x.outcome.Verdicts[0].Follows == "" {
			t.Error("the clusters are not explained")
		}
		return
	}
	chosen := x.outcome.ClusterNames(x.outcome.Object)
	if got := x.explanation.Clusters; len(got.Listed) != len(x.clusters) || got.Total != len(x.clusters) || got.Chosen != len(chosen) {
		t.Errorf("%d of %d clusters are chosen, %d are listed, want %d of %d", got.Chosen, got.Total, len(got.Listed), len(chosen), len(x.clusters))
	}
	for _, c := range x.explanation.Clusters.Listed {
		if c.Chosen != slices.Contains(chosen, c.Name) || c.Chosen != (len(c.Reasons) == 0) {
			t.Errorf("%s is chosen: %t, reasons %+v", c.Name, c.Chosen, c.Reasons)
		}
		for i, r := range c.Ranks {
			sum := 0
			for _, p := range r.Preferences {
				sum += p.Score
			}
			if sum != r.Score && len(rule.Prefer) > 0 {
				t.Errorf("%s gets %d of the preferences, and has the score %d", c.Name, sum, r.Score)
			}
			c.Ranks[i].Preferences = nil
		}
		if diff := cmp.Diff(x.ranks(rule, c.Name), c.Ranks); diff != "" {
			t.Errorf("ranks of %s (-want +got):\n%s", c.Name, diff)
		}
		counts["ranks"] += len(c.Ranks)
		for i := range c.Reasons {
			x.verifyReason(t, rule, c.Name, &c.Reasons[i], counts)
		}
		if !c.Chosen && clusterOf(x.clusters, c.Name) != nil {
			x.verifyChain(t, c, counts)
		}
	}
}

func ruleNamed(rules []placementv1.Rule, name string) *placementv1.Rule {
	i := slices.IndexFunc(rules, func(r placementv1.Rule) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &rules[i]
}

// clusterOf returns the document of a cluster; nil for an ambiguous name.
func clusterOf(clusters map[string]map[string]any, name string) map[string]any {
	if _, ambiguous := clusters[name][Twin]; ambiguous {
		return nil
	}
	return clusters[name]
}

// ranks returns the ranks of a cluster for the rule that decides.
func (x *explained) ranks(rule *placementv1.Rule, name string) []explain.Rank {
	if rule == nil || rule.Candidates == placementv1.RuleCandidatesNodes || unreadable(rule, x.requested.Object) != nil {
		return nil
	}
	eligible := (&choice{}).eligibleClusters(rule, x.requested.Object, x.clusters)
	switch chooses := rule.Limit > 0 || rule.Spread != nil; {
	case !chooses && rule.Weights == "":
		return nil
	case !chooses:
		// Clusters of one level are sorted by name, because no choice among them depends on the object.
		for i := range eligible {
			eligible[i].rank = eligible[i].name
		}
		slices.SortFunc(eligible, better)
	}
	i := slices.IndexFunc(eligible, func(c candidate) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return []explain.Rank{{Policy: "p", Rule: rule.Name, Rank: i + 1, Of: len(eligible), Score: int(eligible[i].score), Level: int(eligible[i].level)}}
}

// fieldOfRule matches the field that a reason names.
var fieldOfRule = regexp.MustCompile(`^spec\.rules\[([0-9]+)](?:\.(require|tolerate|spread|limit)(?:\[([0-9]+)])?)?`)

// verifyReason checks that a reason for which a cluster is not chosen is the first thing that it lacks.
func (x *explained) verifyReason(t *testing.T, deciding *placementv1.Rule, name string, r *explain.Reason, counts map[string]int) {
	t.Helper()
	cluster, object := clusterOf(x.clusters, name), x.requested.Object
	if cluster == nil {
		if !strings.Contains(r.Message, "is ambiguous") {
			t.Errorf("%s: ambiguous, reason %+v", name, r)
		}
		return
	}
	parts := fieldOfRule.FindStringSubmatch(r.Field)
	if parts == nil {
		t.Errorf("%s: reason %+v", name, r)
		return
	}
	index, err := strconv.Atoi(parts[1])
	if err != nil || index >= len(x.rules) {
		t.Errorf("%s: reason %+v", name, r)
		return
	}
	rule := &x.rules[index]
	what := "reasons of rules before"
	if rule.Name == x.want.Rule {
		what = "reasons of the rule that decides"
	}
	counts[what]++
	chooses := strings.HasPrefix(r.Message, "chooses other clusters") || strings.HasPrefix(r.Message, "chooses no cluster:")
	var holds bool
	switch missing := lacks(rule, object, cluster); {
	case missing == nil:
		holds = chooses && rule.Name == deciding.Name && strings.HasPrefix(r.Message, "chooses no ") == (len(x.want.Clusters) == 0)
	case missing.terminating:
		holds = r.Message == "chooses no cluster that is being deleted"
	case missing.requirement < len(rule.Require):
		holds = parts[2] == "require" && parts[3] == strconv.Itoa(missing.requirement)
	case missing.taint != nil:
		holds = r.Message == fmt.Sprintf("does not tolerate the taint %s of the cluster", missing.taint)
	default:
		holds = parts[2] == "spread"
	}
	if !holds {
		t.Errorf("%s: the reason is not the first thing that the cluster lacks: %+v", name, r)
	}
}

// verifyChain checks that a cluster that is not chosen has a reason of each rule that left the object to the next one, as far as the
// cluster lacks something.
func (x *explained) verifyChain(t *testing.T, c explain.Candidate, counts map[string]int) {
	t.Helper()
	for i := range x.rules {
		rule := &x.rules[i]
		if rule.Name == x.want.Rule {
			return
		}
		left := rule.Otherwise == placementv1.RuleOtherwiseNextRule && applies(rule.When, x.requested.Object, x.namespaces[x.requested.GetNamespace()]) == isTrue
		if !left || lacks(rule, x.requested.Object, x.clusters[c.Name]) == nil {
			continue
		}
		field := fmt.Sprintf("spec.rules[%d]", i)
		if !slices.ContainsFunc(c.Reasons, func(r explain.Reason) bool { return strings.HasPrefix(r.Field, field) }) {
			t.Errorf("%s: no reason of rule %s: %+v", c.Name, rule.Name, c.Reasons)
		}
	}
}

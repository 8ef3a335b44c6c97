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

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

const fleet = `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-1, namespace: fleet, labels: {region: eu, pci: "2"}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-2, namespace: fleet, labels: {region: eu, pci: "1"}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: us-1, namespace: fleet, labels: {region: us, pci: "2"}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: bare, namespace: fleet}
`

const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: eu, pci: "2"}}
spec: {template: {spec: {containers: [{name: main, image: web}]}}}`

func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, obj)
	}
	return out
}

// policyOf returns a PlacementPolicy for Deployments with the text.
func policyOf(name, rego string) string {
	return fmt.Sprintf(`apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: %s}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rego: |
    %s
`, name, strings.ReplaceAll(strings.TrimSpace(rego), "\n", "\n    "))
}

func explainObject(t *testing.T, world, object string, options explain.Options) *explain.Explanation {
	t.Helper()
	return explainAs(t, world, object, false, options)
}

// explainAs explains an object that exists, or that is to be created.
func explainAs(t *testing.T, world, object string, exists bool, options explain.Options) *explain.Explanation {
	t.Helper()
	s, o := simulate(t, world, object, exists)
	out, err := explain.Explain(t.Context(), s, o, options)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// simulate returns a simulation of a cluster, and an object that exists there, or that is to be created.
func simulate(t *testing.T, world, object string, exists bool) (*simulation.Simulation, simulation.Object) {
	t.Helper()
	registry, err := predicates.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := registry.New(registry.Default())
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, world)...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulation.New(t.Context(), cluster, simulation.Options{Predicates: allowed, Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.NewObject(parse(t, object)[0], exists)
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

// lines renders the reasons of a candidate, one per line, with nested ones after a dash.
func lines(reasons []explain.Reason, prefix string) []string {
	var out []string
	for _, r := range reasons {
		text := prefix
		if r.Rule != "" {
			text += fmt.Sprintf("%s:%d ", r.Rule, r.Line)
		}
		text += r.Expression + r.Message
		for _, v := range r.Values {
			text += fmt.Sprintf(" | %s=%v", v.Reference, v.Value)
		}
		out = append(out, text)
		out = append(out, lines(r.Because, prefix+"- ")...)
	}
	return out
}

func TestReasons(t *testing.T) {
	for name, test := range map[string]struct {
		rego string
		want map[string][]string
	}{
		"a partial rule": {`
package p

clusters contains name if {
  some name, c in data.clusters
  c.labels.region == input.metadata.labels.region
  c.labels.pci == input.metadata.labels.pci
}`, map[string][]string{
			"us-1": {`clusters:5 c.labels.region == input.metadata.labels.region | c.labels.region=us | input.metadata.labels.region=eu`},
			"eu-2": {`clusters:6 c.labels.pci == input.metadata.labels.pci | c.labels.pci=1 | input.metadata.labels.pci=2`},
			"bare": {`clusters:5 c.labels.region == input.metadata.labels.region | c.labels.region=<nil> | input.metadata.labels.region=eu`},
		}},
		"an expression that iterates": {`
package p

clusters contains name if data.clusters[name].labels.region == "eu"`, map[string][]string{
			"us-1": {`clusters:3 data.clusters[name].labels.region == "eu" | data.clusters[name].labels.region=us`},
			"bare": {`clusters:3 data.clusters[name].labels.region == "eu" | data.clusters[name].labels.region=<nil>`},
		}},
		"a comprehension": {`
package p

clusters := {c.name |
  some c in data.clusters
  c.labels.region == "eu"
  c.labels.pci == "2"
}`, map[string][]string{
			"us-1": {`clusters:5 c.labels.region == "eu" | c.labels.region=us`},
			"eu-2": {`clusters:6 c.labels.pci == "2" | c.labels.pci=1`},
			"bare": {`clusters:5 c.labels.region == "eu" | c.labels.region=<nil>`},
		}},
		"a function": {`
package p

clusters contains name if {
  some name, c in data.clusters
  suitable(c)
}

suitable(c) if {
  c.labels.region == "eu"
  c.labels.pci == input.metadata.labels.pci
}`, map[string][]string{
			"us-1": {`clusters:5 suitable(c)`, `- suitable:9 c.labels.region == "eu" | c.labels.region=us`},
			"eu-2": {`clusters:5 suitable(c)`, `- suitable:10 c.labels.pci == input.metadata.labels.pci | c.labels.pci=1 | input.metadata.labels.pci=2`},
			"bare": {`clusters:5 suitable(c)`, `- suitable:9 c.labels.region == "eu" | c.labels.region=<nil>`},
		}},
		"sets that are combined": {`
package p

clusters := (european & certified) - closed

european contains name if data.clusters[name].labels.region == "eu"

certified contains name if {
  some name, c in data.clusters
  c.labels.pci == "2"
}

closed contains "eu-1"`, map[string][]string{
			"eu-1": {`clusters:3 closed contains the cluster, and is subtracted`},
			"us-1": {
				`clusters:3 (european & certified) does not contain the cluster`, `- clusters:3 european does not contain the cluster`,
				`- - european:5 data.clusters[name].labels.region == "eu" | data.clusters[name].labels.region=us`,
			},
			"eu-2": {`clusters:3 (european & certified) does not contain the cluster`, `- clusters:3 certified does not contain the cluster`, `- - certified:9 c.labels.pci == "2" | c.labels.pci=1`},
		}},
		"a negation and a condition on the object": {`
package p

clusters contains name if {
  some name, c in data.clusters
  not c.labels.region == "us"
}

clusters contains "us-1" if input.metadata.labels.region == "us"`, map[string][]string{
			"us-1": {`clusters:5 not c.labels.region == "us" | c.labels.region=us`, `clusters:8 input.metadata.labels.region == "us" | input.metadata.labels.region=eu`},
		}},
		"several clauses": {`
package p

clusters contains name if {
  some name, c in data.clusters
  c.labels.region == "eu"
}

clusters contains name if {
  some name, c in data.clusters
  c.labels.pci == "3"
}`, map[string][]string{
			"us-1": {`clusters:5 c.labels.region == "eu" | c.labels.region=us`, `clusters:10 c.labels.pci == "3" | c.labels.pci=2`},
		}},
		"a function that has a value": {`
package p

clusters contains name if {
  some name, c in data.clusters
  kind(c) == "good"
}

kind(c) := "good" if c.labels.region == "eu"

else := "bad"`, map[string][]string{"us-1": {`clusters:5 kind(c) == "good" | kind(c)=bad`}}},
		"a rule that is an object": {`
package p

regions[name] := c.labels.region if some name, c in data.clusters

clusters contains name if regions[name] == "eu"`, map[string][]string{"us-1": {`clusters:5 regions[name] == "eu" | regions[name]=us`}}},
		"an imported name": {`
package p

import data.clusters as fleet
import input.metadata.labels as wanted

clusters contains c.name if {
  c := fleet[_]
  c.labels.region == wanted.region
}`, map[string][]string{"us-1": {`clusters:8 c.labels.region == wanted.region | c.labels.region=us | wanted.region=eu`}}},
		"another input": {`
package p

clusters contains name if {
  some name, c in data.clusters
  allowed with input.region as c.labels.region
}

allowed if input.region == "eu"`, map[string][]string{"us-1": {`clusters:5 allowed with input.region as c.labels.region`}}},
		"members of a rule": {`
package p

good contains name if {
  some name, c in data.clusters
  c.labels.region == "eu"
}

clusters := {name | some name in good}`, map[string][]string{"us-1": {`clusters:8 some name in good | name=us-1`, `- good:5 c.labels.region == "eu" | c.labels.region=us`}}},
		"a constant": {`
package p

clusters := {"eu-1"} if data.clusters`, map[string][]string{"us-1": {`clusters:3 {"eu-1"} does not contain the cluster`}}},
		"a name that no inventory has": {`
package p

clusters contains name if {
  some name in ["eu-9", "eu-1"]
  data.clusters[name].labels.pci == "2"
}`, map[string][]string{"us-1": {`clusters:4 some name in ["eu-9", "eu-1"] | name=us-1`}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := explainObject(t, fleet+"---\n"+policyOf("p", test.rego), web, explain.Options{Limit: 10})
			if e.Clusters == nil {
				t.Fatalf("no clusters: %+v", e.Policies)
			}
			got := map[string][]string{}
			for _, c := range e.Clusters.Listed {
				if _, ok := test.want[c.Name]; ok {
					got[c.Name] = lines(c.Reasons, "")
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

const pinned = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: eu}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {nodeSelector: {pci: "2"}, containers: [{name: main, image: web}]}`

// TestRules checks that reasons name the fields of a policy's rules.
func TestRules(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - name: other
    when: {objectSelector: {matchLabels: {other: "true"}}}
    limit: 1
  - name: eu
    require:
    - {label: region, operator: In, values: [eu]}
    - {label: pci, operator: Gte, valueFrom: {label: pci}}
`
	const require = `    - {label: region, operator: In, values: [eu]}
    - {label: pci, operator: Gte, valueFrom: {label: pci}}
`
	region, pci := `spec.rules[1].require[0] cluster.labels.region in {"eu"}`, `spec.rules[1].require[1] number(cluster.labels.pci) >= 2`
	for name, tc := range map[string]struct {
		rule string
		want map[string][]string
	}{
		"Requirements": {require, map[string][]string{"bare": {region}, "us-1": {region}, "eu-2": {pci}}},
		"Spread": {require + "    spread: {label: region, maxClusters: 1}\n", map[string][]string{
			"bare": {region}, "us-1": {region}, "eu-2": {pci},
		}},
		"SpreadAndLimit": {require + "    spread: {label: region, maxClusters: 1}\n    limit: 1\n", map[string][]string{
			"bare": {region}, "us-1": {region}, "eu-2": {pci},
		}},
		"Weights": {require + "    prefer: [{label: pci, operator: In, values: [\"2\"], weight: 1}]\n    weights: Score\n", map[string][]string{
			"bare": {region}, "us-1": {region}, "eu-2": {pci},
		}},
		"Limit": {"    - {label: region, operator: In, values: [eu]}\n    limit: 1\n    prefer: [{label: pci, operator: In, values: [\"1\"], weight: 1}]\n", map[string][]string{
			"bare": {region}, "us-1": {region}, "eu-1": {"spec.rules[1].limit chooses other clusters: the limit is 1"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for _, c := range explainObject(t, strings.Replace(world, require, tc.rule, 1), web, explain.Options{Limit: 10}).Clusters.Listed {
				for _, r := range c.Reasons {
					got[c.Name] = append(got[c.Name], r.Field+" "+r.Expression+r.Message)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDemanded checks that a reason has the value of the object that a requirement compares clusters with, where that comes from, and what
// the cluster has, also if it can't be read.
func TestDemanded(t *testing.T) {
	world := strings.Replace(fleet, `region: eu, pci: "1"`, "region: eu, pci: one", 1) + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules: [{name: pci, require: [{label: pci, operator: Gte, valueFrom: {label: pci, default: "2"}}]}]
`
	for object, demanded := range map[string]explain.Demanded{
		web: {Source: "metadata.labels[pci]", Value: "2"},
		strings.Replace(web, `, pci: "2"`, "", 1): {Source: "metadata.labels[pci]", Value: "2", Default: true},
	} {
		got := explainObject(t, world, object, explain.Options{WhyNot: "eu-2"}).Clusters.Listed[0].Reasons
		const pci = "eligible_pci:%d number(cluster.labels.pci) >= 2 | cluster.labels.pci=one"
		if diff := cmp.Diff([]string{fmt.Sprintf(pci, got[0].Line)}, lines(got, "")); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(&demanded, got[0].Demanded); diff != "" {
			t.Errorf("demanded (-want +got):\n%s", diff)
		}
	}
}

// TestUnusableValue checks what is said of each cluster if the object lacks the value that a requirement compares with, or has one that
// can't be read: the first requirement that the cluster does not meet counts.
func TestUnusableValue(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - name: eu
    require:
    - {label: region, operator: In, values: [eu]}
    - {label: pci, operator: Gte, valueFrom: {label: pci}}
`
	const region, value = `spec.rules[0].require[0] cluster.labels.region in {"eu"}`, "spec.rules[0].require[1].valueFrom "
	for object, message := range map[string]string{
		strings.Replace(web, `pci: "2"`, "pci: two", 1): `can't read metadata.labels[pci] of the object: "two" must be a number, such as 2 or 0.5`,
		strings.Replace(web, `, pci: "2"`, "", 1):       "compares with metadata.labels[pci], which the object does not have",
	} {
		e := explainObject(t, world, object, explain.Options{Limit: 10})
		got := map[string]string{}
		for _, c := range e.Clusters.Listed {
			for _, r := range c.Reasons {
				got[c.Name] += r.Field + " " + r.Expression + r.Message
			}
		}
		want := map[string]string{"bare": region, "us-1": region, "eu-1": value + message, "eu-2": value + message}
		if diff := cmp.Diff(want, got); diff != "" || !e.Denied || e.Clusters.Chosen != 0 {
			t.Errorf("denied %t, %d chosen, reasons (-want +got):\n%s", e.Denied, e.Clusters.Chosen, diff)
		}
	}
}

// TestWaitingMove checks what is said of the clusters of an object that moves only with an approval: those that it leaves, with a reason in
// words, and those to which it comes.
func TestWaitingMove(t *testing.T) {
	const policy = `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  remediation: {mode: Approved}
  rules: [{name: pci, require: [{label: pci, operator: Gte, valueFrom: {label: pci}}]}]
`
	s, o := simulate(t, strings.Replace(fleet, `region: eu, pci: "1"`, `region: eu, pci: "2"`, 1)+policy, web, false)
	placed, err := s.Decide(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(placed.Object.Object)
	if err != nil {
		t.Fatal(err)
	}
	world := strings.Replace(fleet, "name: bare, namespace: fleet", `name: bare, namespace: fleet, labels: {pci: "3"}`, 1) + policy
	const waits = "it waits for an approval of the plan of PlacementPolicy p (kubectl berth approve p), or for an update that changes what the policy reads or writes"
	type candidate struct {
		Chosen, Current bool
		Waits, Unmet    string
	}
	want := map[string]candidate{"bare": {Chosen: true, Waits: waits}, "eu-1": {true, true, "", ""}, "eu-2": {false, true, waits, "label pci is 1, must be at least 2"}, "us-1": {true, true, "", ""}}
	e := explainAs(t, world, string(text), true, explain.Options{})
	got := map[string]candidate{}
	for _, c := range e.Clusters.Listed {
		one := candidate{Chosen: c.Chosen, Current: c.Current, Waits: c.Waits}
		for _, r := range c.Reasons {
			one.Unmet += r.Unmet
		}
		got[c.Name] = one
	}
	if diff := cmp.Diff(want, got); diff != "" || e.Clusters.Chosen != 3 || e.Clusters.Total != 4 {
		t.Errorf("%d of %d chosen, clusters (-want +got):\n%s", e.Clusters.Chosen, e.Clusters.Total, diff)
	}
}

// TestRanks checks what is said of each eligible cluster, which rule decides, and why the rules before it lost a cluster.
func TestRanks(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - name: primary
    require: [{label: region, operator: In, values: [eu]}, {label: pci, operator: In, values: ["9"]}]
    otherwise: NextRule
  - name: backup
    when: {objectSelector: {matchLabels: {region: eu}}}
    require: [{label: region, operator: Exists}]
    prefer: [{label: pci, operator: In, values: ["1"], weight: 10}]
    limit: 1
`
	e := explainObject(t, world, web, explain.Options{Limit: 10})
	type candidate struct {
		Chosen  bool
		Rank    explain.Rank
		Reasons []string
	}
	got := map[string]candidate{}
	for _, c := range e.Clusters.Listed {
		one := candidate{Chosen: c.Chosen}
		if len(c.Ranks) == 1 {
			one.Rank = c.Ranks[0]
		}
		for _, r := range c.Reasons {
			one.Reasons = append(one.Reasons, strings.TrimSpace(r.Field+" "+r.Expression+r.Message))
		}
		got[c.Name] = one
	}
	best := got["eu-2"]
	preference := explain.Preference{Subject: "label pci", Value: new("1"), Score: 10, Weight: 10}
	rank := explain.Rank{Policy: "p", Rule: "backup", Rank: 1, Of: 3, Score: 10, Level: 0, Preferences: []explain.Preference{preference}}
	if diff := cmp.Diff(rank, best.Rank); e.Policies[0].Rule != "backup" || !best.Chosen || diff != "" {
		t.Errorf("rule %q decides, and the best cluster is %+v (-want +got):\n%s", e.Policies[0].Rule, best, diff)
	}
	if diff := cmp.Diff(&explain.Selection{Limit: 1, MinGain: 1}, e.Policies[0].Selection); diff != "" {
		t.Errorf("selection (-want +got):\n%s", diff)
	}
	other := got["eu-1"]
	want := []string{`spec.rules[0].require[1] cluster.labels.pci in {"9"}`, "spec.rules[1].limit chooses other clusters: the limit is 1"}
	if diff := cmp.Diff(want, other.Reasons); diff != "" || other.Rank.Score != 0 || other.Rank.Level != 10 {
		t.Errorf("rank %+v, reasons (-want +got):\n%s", other.Rank, diff)
	}
}

// TestPreferences checks what is said of the value and the score of each preference for each eligible cluster.
func TestPreferences(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - name: cheapest
    prefer:
    - {label: pci, operator: Least, weight: 60}
    - {field: region, operator: NotIn, valueFrom: {label: region}, weight: 10}
    - {label: region, operator: Most, weight: 5}
    - {free: cpu, operator: Most, weight: 100}
    minGain: 20
    limit: 1
`
	e := explainObject(t, world, web, explain.Options{Limit: 10})
	got := map[string][]string{}
	for _, c := range e.Clusters.Listed {
		for _, r := range c.Ranks {
			got[c.Name] = append(got[c.Name], fmt.Sprintf("score %d, level %d", r.Score, r.Level))
			for _, p := range r.Preferences {
				value := "none"
				if p.Value != nil {
					value = *p.Value
				}
				got[c.Name] = append(got[c.Name], fmt.Sprintf("%s %s: %d of %d", p.Subject, value, p.Score, p.Weight))
			}
		}
	}
	want := map[string][]string{
		"eu-1": {"score 10, level 3", "label pci 2: 0 of 60", "field region none: 10 of 10", "label region eu: 0 of 5", "free cpu none: 0 of 100"},
		"eu-2": {"score 70, level 0", "label pci 1: 60 of 60", "field region none: 10 of 10", "label region eu: 0 of 5", "free cpu none: 0 of 100"},
		"us-1": {"score 10, level 3", "label pci 2: 0 of 60", "field region none: 10 of 10", "label region us: 0 of 5", "free cpu none: 0 of 100"},
		"bare": {"score 10, level 3", "label pci none: 0 of 60", "field region none: 10 of 10", "label region none: 0 of 5", "free cpu none: 0 of 100"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("preferences (-want +got):\n%s", diff)
	}
}

// TestScoresOfWeights checks that the scores are shown that a rule gives as weights.
func TestScoresOfWeights(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - name: shares
    require: [{label: pci, operator: Exists}]
    prefer: [{label: pci, operator: Most, weight: 50}]
    weights: Score
`
	got := map[string]int{}
	for _, c := range explainObject(t, world, web, explain.Options{Limit: 10}).Clusters.Listed {
		for _, r := range c.Ranks {
			got[fmt.Sprintf("%s: %d of %d", c.Name, r.Rank, r.Of)] = r.Score
		}
	}
	if diff := cmp.Diff(map[string]int{"eu-1: 1 of 3": 50, "us-1: 2 of 3": 50, "eu-2: 3 of 3": 0}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// TestDenied checks that clusters are explained to an object that a rule for clusters denies, and that an unknown one is an error.
func TestDenied(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - {name: none, require: [{label: pci, operator: In, values: ["9"]}]}
`
	e := explainObject(t, world, web, explain.Options{WhyNot: "eu-1"})
	if e.Clusters == nil || len(e.Clusters.Listed) != 1 || e.Clusters.Listed[0].Chosen || len(e.Clusters.Listed[0].Reasons) != 1 ||
		e.Clusters.Listed[0].Reasons[0].Field != "spec.rules[0].require[0]" {
		t.Errorf("clusters %+v", e.Clusters)
	}
}

// TestDeniedWithOwnClusters checks that no cluster is chosen for an object that is denied because no policy allows the clusters that its
// developer requested, and that a new one gets no value. An existing one keeps its clusters.
func TestDeniedWithOwnClusters(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules: [{name: eu, require: [{label: region, operator: In, values: [eu]}]}]
`
	const requested = `["us-1","nosuch"]`
	object := strings.Replace(web, "metadata: {", "metadata: {annotations: {placement.berth.dev/clusters: '"+requested+"'}, ", 1)
	for _, exists := range []bool{false, true} {
		e := explainAs(t, world, object, exists, explain.Options{Limit: 10})
		if !e.Denied || e.Clusters.Chosen != 0 || e.Clusters.Total != 4 {
			t.Errorf("exists: %t: denied %t, %d of %d chosen", exists, e.Denied, e.Clusters.Chosen, e.Clusters.Total)
		}
		for _, c := range e.Clusters.Listed {
			if c.Chosen || c.Current != (exists && c.Name == "us-1") || len(c.Reasons) == 0 {
				t.Errorf("exists: %t: %+v", exists, c)
			}
		}
		key := explain.Key{Field: "annotations", Key: "placement.berth.dev/clusters", Requested: new(requested), Current: new(requested)}
		if exists {
			key.Decided = new(requested)
		}
		if diff := cmp.Diff([]explain.Key{key}, e.Keys); diff != "" {
			t.Errorf("exists: %t: keys (-want +got):\n%s", exists, diff)
		}
	}
}

// TestNoNamespace checks that it is said that the namespace of a new object does not exist, if that is known.
func TestNoNamespace(t *testing.T) {
	policy := policyOf("p", `package p

labels.a := "b"`)
	namespace := func(name string) string {
		return "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
	}
	for _, tc := range []struct {
		world  string
		exists bool
		want   bool
	}{
		{policy, false, false}, {policy + namespace("other"), false, true}, {policy + namespace("other"), true, false}, {policy + namespace("other") + namespace("shop"), false, false},
	} {
		if got := explainAs(t, tc.world, web, tc.exists, explain.Options{}).NoNamespace; got != tc.want {
			t.Errorf("%t, want %t: exists: %t\n%s", got, tc.want, tc.exists, tc.world)
		}
	}
}

// TestNotRestricted checks what is said of a cluster that --why-not names if no policy restricts clusters, and that an unknown name is an
// error.
func TestNotRestricted(t *testing.T) {
	world := fleet + `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - {name: retired, when: {objectSelector: {matchLabels: {pci: "2"}}}, deny: it is retired}
  - {name: all, limit: 1}
`
	e := explainObject(t, world, web, explain.Options{WhyNot: "eu-1"})
	if e.Clusters == nil || len(e.Clusters.Listed) != 1 {
		t.Fatalf("clusters %+v", e.Clusters)
	}
	if diff := cmp.Diff([]string{"denies the object in all clusters: it is retired"}, lines(e.Clusters.Listed[0].Reasons, "")); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if e = explainObject(t, world, web, explain.Options{Limit: 1}); e.Clusters != nil {
		t.Errorf("clusters %+v", e.Clusters)
	}
	unmatched := strings.Replace(world, "match: {", "match: {objectSelector: {matchLabels: {none: x}}, ", 1)
	e = explainObject(t, unmatched, web, explain.Options{WhyNot: "eu-1"})
	if diff := cmp.Diff([]string{"no policy matches the object, so that none chooses clusters for it"}, lines(e.Clusters.Listed[0].Reasons, "")); diff != "" {
		t.Errorf("reasons of an object that no policy matches (-want +got):\n%s", diff)
	}
	for world, want := range map[string]string{
		world: "--why-not: no inventory that policies read has a cluster \"moon\"; there are bare, eu-1, eu-2, us-1",
		policyOf("p", `package p

labels.a := "b"`): "--why-not: cluster \"moon\" is not known: no policy reads an inventory, or the inventories that policies read have no clusters",
	} {
		s, o := simulate(t, world, web, false)
		if _, err := explain.Explain(t.Context(), s, o, explain.Options{WhyNot: "moon"}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestReasonsOfRules checks that reasons name a taint and a cluster that is being deleted, and that a rule that finds too few clusters is
// told from one that chooses others. It also checks which later rules are listed.
func TestReasonsOfRules(t *testing.T) {
	const clusters = `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-1, labels: {region: eu}}
spec: {taints: [{key: spot, effect: NoSchedule}, {key: gpu, value: "true", effect: NoSchedule}]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-2, labels: {region: eu}, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [example.com/keep]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-3, labels: {region: eu}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
`
	for name, tc := range map[string]struct {
		rules string
		want  map[string][]string
		later []string
	}{
		"Taint": {
			"  - {name: a, tolerate: [{key: gpu, value: x}], require: [{label: region, operator: Exists}]}\n",
			map[string][]string{"eu-1": {"does not tolerate the taint gpu=true:NoSchedule of the cluster"}, "eu-2": {"chooses no cluster that is being deleted"}, "eu-3": nil}, nil,
		},
		"TooFew": {
			"  - {name: a, spread: {label: region, minClusters: 2}}\n",
			map[string][]string{
				"eu-1": {"does not tolerate the taint gpu=true:NoSchedule of the cluster"}, "eu-2": {"chooses no cluster that is being deleted"},
				"eu-3": {"chooses no cluster: this one is eligible, but too few clusters are"},
			}, nil,
		},
		"LaterRules": {
			`  - {name: a, when: {objectSelector: {matchLabels: {region: eu}}}, require: [{field: name, operator: In, values: [eu-3]}]}
  - {name: b, when: {objectSelector: {matchLabels: {pci: "2"}}}, require: [{field: name, operator: In, values: [eu-1]}]}
  - {name: c, when: {objectSelector: {matchLabels: {pci: "3"}}}, limit: 1}
  - {name: d, limit: 1}
`,
			map[string][]string{"eu-1": {`name in {"eu-3"}`}, "eu-2": {"chooses no cluster that is being deleted"}, "eu-3": nil}, []string{"b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := explainObject(t, clusters+tc.rules, web, explain.Options{Limit: 10})
			got := map[string][]string{}
			for _, c := range e.Clusters.Listed {
				got[c.Name] = nil
				for _, r := range c.Reasons {
					got[c.Name] = append(got[c.Name], r.Expression+r.Message)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.later, e.Policies[0].AlsoApply); diff != "" {
				t.Errorf("later rules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSchedulingValues checks the requested and current values of scheduling fields, and that affinities are added and override nothing.
func TestSchedulingValues(t *testing.T) {
	const affinity = `scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms := [{"matchExpressions": [{"key": "KEY", "operator": "Exists"}]}]`
	world := policyOf("a", `package a

scheduling.nodeSelector.pci := "3"

`+strings.Replace(affinity, "KEY", "a", 1)) + "---\n" +
		policyOf("b", "package b\n\n"+strings.Replace(affinity, "KEY", "b", 1))
	text := func(value *string) string {
		if value == nil {
			return "-"
		}
		return *value
	}
	var got []string
	for _, k := range explainObject(t, world, pinned, explain.Options{}).Keys {
		got = append(got, strings.Join([]string{k.Key, k.Policy, text(k.Requested), text(k.Current), fmt.Sprint(k.Overrides)}, " "))
	}
	want := []string{"affinity/a a - - []", "affinity/b b - - []", "nodeSelector/pci a 2 2 []"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// TestPredicates checks that the reasons of predicates are explained, for clusters and for nodes.
func TestPredicates(t *testing.T) {
	policy := strings.Replace(policyOf("fits", `package fits

clusters contains name if {
  some name, c in data.clusters
  c.labels.region == "eu"
}`),
		"  mode: Enforce\n", "  mode: Enforce\n  predicates: {candidates: Clusters, names: [NodeAffinity]}\n", 1)
	e := explainObject(t, fleet+"---\n"+policy, pinned, explain.Options{Limit: 10})
	got := map[string][]string{}
	for _, c := range e.Clusters.Listed {
		got[c.Name] = lines(c.Reasons, "")
	}
	want := map[string][]string{
		"eu-1": nil, "eu-2": {"predicate NodeAffinity: node(s) didn't match Pod's node affinity/selector"},
		"us-1": {`clusters:5 c.labels.region == "eu" | c.labels.region=us`}, "bare": {`clusters:5 c.labels.region == "eu" | c.labels.region=<nil>`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}

	nodes := `apiVersion: v1
kind: Node
metadata: {name: n1, labels: {pci: "2"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {pci: "1"}}
`
	policy = strings.Replace(policyOf("nodes", `package nodes

labels.a := "b"`), "  mode: Enforce\n", "  mode: Enforce\n  predicates: {candidates: Nodes, names: [NodeAffinity]}\n", 1)
	e = explainObject(t, nodes+"---\n"+policy, pinned, explain.Options{Limit: 10})
	if e.Nodes == nil || e.Nodes.Total != 2 || e.Nodes.Chosen != 1 || len(e.Nodes.Listed) != 2 || !strings.Contains(strings.Join(lines(e.Nodes.Listed[1].Reasons, ""), ""), "NodeAffinity") {
		t.Errorf("nodes: %+v", e.Nodes)
	}
	if e = explainObject(t, nodes+"---\n"+policy, pinned, explain.Options{WhyNot: "n2"}); len(e.Nodes.Listed) != 1 || e.Nodes.Listed[0].Name != "n2" {
		t.Errorf("nodes: %+v", e.Nodes)
	}
}

// TestAmbiguousClusters checks that the objects are named that have the name of one cluster.
func TestAmbiguousClusters(t *testing.T) {
	world := policyOf("p", `package p

clusters := {name | some name, _ in data.clusters}`) + "---\n" + fleet + `---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-1, namespace: aaa, labels: {region: us}}
`
	e := explainObject(t, world, web, explain.Options{WhyNot: "eu-1"})
	const reason = "is ambiguous: clusterprofiles.multicluster.x-k8s.io aaa/eu-1 and clusterprofiles.multicluster.x-k8s.io fleet/eu-1 have this name"
	if diff := cmp.Diff([]string{"cluster eu-1 " + reason}, e.Policies[0].AmbiguousClusters); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{reason}, lines(e.Clusters.Listed[0].Reasons, "")); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestClustersThatAreNotReady checks that a cluster is named in which the object stays although it is not ready.
func TestClustersThatAreNotReady(t *testing.T) {
	world := `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: p}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  clusters: {leaveUnreadyAfter: 720h}
  rules: [{name: all, require: [{field: name, operator: Exists}]}]
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-1}
spec: {taints: [{key: cluster.karmada.io/not-ready, effect: NoSchedule, timeAdded: "2999-01-01T00:00:00Z"}]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-2}
`
	placed := strings.Replace(web, "metadata: {", `metadata: {uid: u, annotations: {placement.berth.dev/clusters: '["eu-1"]'}, `, 1)
	e := explainAs(t, world+"---\n"+placed, placed, true, explain.Options{WhyNot: "eu-2"})
	want := []string{"cluster eu-1 is marked as not ready: the object stays there until 2999-01-31T00:00:00Z at least"}
	if diff := cmp.Diff(want, e.Policies[0].Stays); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
}

// TestPoliciesAndKeys checks which policies are listed, and who determines each key.
func TestPoliciesAndKeys(t *testing.T) {
	world := policyOf("high", `package high

labels.tier := "gold"

annotations.note := "n"`) + "---\n" + policyOf("low", `package low

labels.tier := "silver"`) + "---\n" +
		strings.Replace(policyOf("payments", `package payments

labels.a := "b"`), "  mode:", "    objectSelector: {matchLabels: {team: payments}}\n  mode:", 1) + "---\n" +
		strings.Replace(policyOf("versions", `package versions

labels.a := "b"`), "apiVersions: [v1]", "apiVersions: [v2]", 1) + "---\n" +
		strings.Replace(policyOf("jobs", `package jobs

labels.a := "b"`), "resources: [deployments]", "resources: [jobs]", 1)
	world = strings.Replace(world, "match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}\n    objectSelector:", "match:\n    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]\n    objectSelector:", 1)
	e := explainObject(t, strings.Replace(world, "{name: high}\nspec:\n", "{name: high}\nspec:\n  priority: 5\n", 1), web, explain.Options{})
	type key struct{ Field, Key, Policy, Requested, Decided, Overrides string }
	text := func(value *string) string {
		if value == nil {
			return "-"
		}
		return *value
	}
	var keys []key
	for _, k := range e.Keys {
		keys = append(keys, key{k.Field, k.Key, k.Policy, text(k.Requested), text(k.Decided), strings.Join(k.Overrides, " ")})
	}
	want := []key{{"annotations", "note", "high", "-", "n", ""}, {"labels", "tier", "high", "-", "gold", "low"}}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	mismatches := []explain.Mismatch{
		{Policy: "payments", Part: "objectSelector", Reason: "requires team=payments, and the object does not have this label"},
		{Policy: "versions", Part: "resourceRules", Reason: "no rule selects deployments.apps in version v1"},
	}
	if diff := cmp.Diff(mismatches, e.Mismatches); diff != "" {
		t.Errorf("mismatches (-want +got):\n%s", diff)
	}
}

// TestWaits checks what is said of a value that an existing object does not have yet, by the remediation of the policy.
func TestWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		remediation, rego    string
		created, terminating bool
		want                 string
	}{
		"Automatic": {remediation: `{}`},
		"Approved":  {remediation: `{mode: Approved}`, want: "it waits for an approval of the plan of PlacementPolicy p (kubectl berth approve p), or for an update that changes what the policy reads or writes"},
		"Manual":    {remediation: `{mode: Manual}`, want: "it waits for an update that changes what PlacementPolicy p reads or writes (spec.remediation.mode of PlacementPolicy p is Manual)"},
		"NewOnly":   {remediation: `{mode: NewOnly}`, want: "it waits for an update that changes what PlacementPolicy p writes (spec.remediation.mode of PlacementPolicy p is NewOnly)"},
		"Off":       {remediation: `{mode: "Off"}`, want: "it waits for its next update (spec.remediation.mode of PlacementPolicy p is Off)"},
		"Window":    {remediation: `{windows: [{start: "0 3 1 1 *", duration: 1h}]}`, want: "it waits for a window of PlacementPolicy p, the next of which opens at 2027-01-01T03:00:00Z, or for an update that changes what the policy reads or writes"},
		"Budget":    {remediation: `{budget: {maxPerMinute: 1}}`, want: "it waits for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of PlacementPolicy p, or for an update that changes what the policy reads or writes"},
		"Group": {
			remediation: `{budget: {group: moves}}`, want: "it waits for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of PlacementPolicy p, which the policies of the group moves share, or for an update that changes what the policy reads or writes",
		},
		"Terminating": {
			remediation: `{budget: {maxPerMinute: 1}}`, terminating: true,
			want: "the object keeps the current value, because Berth does not patch an object that is being deleted. If no controller removes the object's finalizers, remove them",
		},
		"New": {remediation: `{mode: Approved}`, created: true},
		"Denied": {remediation: `{}`, rego: `

errors contains "no"`, want: "the object keeps the current value while PlacementPolicy p denies the object"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := strings.Replace(policyOf("p", `package p

labels.tier := "gold"

labels.region := "eu"`+tc.rego), "  mode:", "  remediation: "+tc.remediation+"\n  mode:", 1)
			object := web
			if tc.terminating {
				object = strings.Replace(web, "metadata: {", `metadata: {deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [example.com/keep], `, 1)
			}
			e := explainAs(t, policy, object, !tc.created, explain.Options{})
			got := map[string]string{}
			for _, k := range e.Keys {
				got[k.Key] = k.Waits
			}
			// The object has the region already.
			if diff := cmp.Diff(map[string]string{"tier": tc.want, "region": ""}, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEmpty checks which decisions give an object nothing.
func TestEmpty(t *testing.T) {
	for rego, want := range map[string]bool{
		`labels.tier := "gold" if input.metadata.name == "other"`:      true,
		`labels.tier := "gold" if input.metadata.name == "web"`:        false,
		`warnings contains "w"`:                                        false,
		`clusters := set() if input.metadata.name == "web"`:            false,
		`errors contains "no" if not input.metadata.labels.nonesuch`:   false,
		`annotations.a := "b" if input.metadata.labels.region == "us"`: true,
	} {
		if got := explainObject(t, policyOf("p", "package p\n\n"+rego), web, explain.Options{}).Policies[0].Decision.Empty(); got != want {
			t.Errorf("%s: %t", rego, got)
		}
	}
}

// TestPlacementObjects checks that the list of clusters in a placement object is explained in place of the annotation.
func TestPlacementObjects(t *testing.T) {
	const object = `apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, annotations: {placement.berth.dev/clusters: '["us-1"]'}}
spec: {placement: {clusterAffinity: {clusterNames: [us-1, eu-1]}}}`
	policy := strings.NewReplacer("apps", "policy.karmada.io", "deployments", "propagationpolicies", "[v1]", "[v1alpha1]").
		Replace(policyOf("eu", `package eu

clusters contains name if {
  some name, c in data.clusters
  c.labels.region == "eu"
}`))
	e := explainObject(t, fleet+"---\n"+policy+"\n---\n"+strings.Replace(object, "web", "other", 1), object, explain.Options{Limit: 10})
	want := []explain.Key{{
		Field: "clusters", Key: "spec.placement.clusterAffinity.clusterNames", Policy: "eu",
		Requested: new(`["us-1","eu-1"]`), Current: new(`["us-1","eu-1"]`), Decided: new(`["eu-1"]`),
	}}
	if diff := cmp.Diff(want, e.Keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if e.Clusters.Chosen != 1 {
		t.Errorf("%d clusters are chosen", e.Clusters.Chosen)
	}
}

// TestMoves checks what is said of moves of an object by the status of a policy.
func TestMoves(t *testing.T) {
	const object = "object: deployments.apps shop/web"
	for name, tc := range map[string]struct {
		status string
		exists bool
		want   []string
	}{
		"none": {"{}", true, nil},
		"under way": {`{moving: [{` + object + `, since: "2026-01-01T12:00:00Z", deadline: "2026-01-01T12:10:00Z"}]}`, true,
			[]string{"Berth moved the object to other clusters at 2026-01-01T12:00:00Z: it waits until a system of spec.delivery of PlacementPolicy region reports that the object runs in its new clusters; without such a report, the move fails at 2026-01-01T12:10:00Z"}},
		"failed": {`{moving: [{` + object + `, since: "2026-01-01T12:00:00Z"}], failures: {objects: 1, sample: [{` + object + `, reason: RolloutFailed, message: too late}]}}`, true,
			[]string{"Berth patched the object as policies decided, and it counts as failed until it runs: too late"}},
		"failed, and was released": {`{moving: [{` + object + `, since: "2026-01-01T12:00:00Z"}]}`, true,
			[]string{"Berth moved the object to other clusters at 2026-01-01T12:00:00Z, where the object did not run in time; it counts as being moved until it runs there or is deleted"}},
		"refused":         {`{failures: {objects: 1, sample: [{` + object + `, reason: PatchRefused, message: denied}]}}`, true, []string{"the API server refused the last patch or eviction of the object, which counts as failed until one succeeds: denied"}},
		"of another":      {`{failures: {objects: 1, sample: [{object: deployments.apps shop/other, reason: PatchRefused, message: denied}]}}`, true, nil},
		"of another type": {`{failures: {objects: 1, sample: [{object: statefulsets.apps shop/web, reason: PatchRefused, message: denied}]}}`, true, nil},
		"created anew":    {`{failures: {objects: 1, sample: [{` + object + `, reason: PatchRefused, message: denied}]}}`, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := explainAs(t, fleet+"\n---\n"+policyOf("region", newRego)+"status: "+tc.status+"\n", web, tc.exists, explain.Options{})
			if len(got.Policies) != 1 {
				t.Fatalf("policies %+v", got.Policies)
			}
			if diff := cmp.Diff(tc.want, got.Policies[0].Moves); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
		})
	}
}

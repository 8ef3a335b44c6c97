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
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/test/budget"
)

// condition is an expression of a generated policy about a cluster c, and the change of the cluster's labels that makes
// it true.
type condition struct {
	text string
	key  string
	fix  func(clusterLabels, objectLabels map[string]string)
}

var (
	labelKeys   = []string{"region", "pci", "tier"}
	labelValues = []string{"a", "b", "c"}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func generateCondition(r *rand.Rand) condition {
	key, value, other := pick(r, labelKeys), pick(r, labelValues), pick(r, labelValues)
	set := func(to string) func(clusterLabels, objectLabels map[string]string) {
		return func(clusterLabels, _ map[string]string) { clusterLabels[key] = to }
	}
	ref := "c.labels." + key
	if r.IntN(3) == 0 {
		ref = "data.clusters[name].labels." + key
	}
	remove := func(clusterLabels, _ map[string]string) { delete(clusterLabels, key) }
	return pick(r, []condition{
		{fmt.Sprintf("%s == %q", ref, value), key, set(value)},
		{fmt.Sprintf("%q == %s", value, ref), key, set(value)},
		{fmt.Sprintf("%s == input.metadata.labels.%s", ref, key), key, func(c, o map[string]string) { c[key] = o[key] }},
		{fmt.Sprintf("%s in {%q, %q}", ref, value, other), key, set(other)},
		{fmt.Sprintf("not %s == %q", ref, value), key, remove},
		{fmt.Sprintf("not %s in [%q]", ref, value), key, set(value + "w")},
		{fmt.Sprintf("%s != %q", ref, value), key, set(value + "x")},
		{fmt.Sprintf("startswith(%s, %q)", ref, value), key, set(value + "y")},
		{fmt.Sprintf("x%d := %s; x%d >= %q", len(value), ref, len(value), value), key, set(value + "z")},
	})
}

// generated is a policy whose conditions are found by their rule and line.
type generated struct {
	text       string
	conditions map[string]condition
}

// generatePolicy returns a policy with several clauses, some of which use functions.
func generatePolicy(r *rand.Rand) generated {
	out := generated{conditions: map[string]condition{}}
	lines := []string{"package p", ""}
	var functions [][]condition
	write := func(rule string, conditions []condition) {
		used := map[string]bool{}
		for _, c := range conditions {
			// A variable may be declared only once.
			if name, _, isVariable := strings.Cut(c.text, " := "); isVariable && used[name] {
				continue
			} else if isVariable {
				used[name] = true
			}
			for part := range strings.SplitSeq(c.text, "; ") {
				lines = append(lines, "  "+part)
				out.conditions[fmt.Sprintf("%s:%d", rule, len(lines))] = c
			}
		}
		lines = append(lines, "}", "")
	}
	some := func() []condition {
		var conditions []condition
		for range 1 + r.IntN(3) {
			conditions = append(conditions, generateCondition(r))
		}
		return conditions
	}
	for range 1 + r.IntN(3) {
		switch r.IntN(3) {
		case 0:
			lines = append(lines, "clusters contains c.name if {", "  some name, c in data.clusters")
		case 1:
			lines = append(lines, "clusters contains name if {", "  c := data.clusters[name]")
		case 2:
			lines = append(lines, "clusters contains name if {", "  some name, c in data.clusters")
			lines = append(lines, fmt.Sprintf("  suitable%d(name, c)", len(functions)))
			functions = append(functions, some())
		}
		write("clusters", some())
	}
	for i, conditions := range functions {
		rule := fmt.Sprintf("suitable%d", i)
		lines = append(lines, rule+"(name, c) if {", "  name == c.name")
		write(rule, conditions)
	}
	out.text = strings.Join(lines, "\n")
	return out
}

// leaves returns the reasons without further causes.
func leaves(reasons []explain.Reason) []explain.Reason {
	var out []explain.Reason
	for _, r := range reasons {
		if len(r.Because) == 0 {
			out = append(out, r)
		} else {
			out = append(out, leaves(r.Because)...)
		}
	}
	return out
}

func at(r explain.Reason) string { return fmt.Sprintf("%s:%d", r.Rule, r.Line) }

// TestReasonsGoWithTheirCause changes just the label that a reason names so that its expression is true, and checks that
// the reason goes. It also checks that every cluster that lost has a reason, and no other one.
func TestReasonsGoWithTheirCause(t *testing.T) {
	seeds, checked := budget.Rounds(15), 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 20))
		policy := generatePolicy(r)
		labels := map[string]map[string]string{}
		for i := range 4 {
			own := map[string]string{}
			for _, key := range labelKeys {
				if r.IntN(4) > 0 {
					own[key] = pick(r, labelValues)
				}
			}
			labels[fmt.Sprintf("cluster-%d", i)] = own
		}
		object := map[string]string{}
		for _, key := range labelKeys {
			object[key] = pick(r, labelValues)
		}
		before := explainGenerated(t, policy.text, labels, object)
		if before == nil {
			continue
		}
		for _, c := range before.Listed {
			if c.Chosen != (len(c.Reasons) == 0) {
				t.Fatalf("seed %d: %s is chosen: %t, reasons %v\n%s", seed, c.Name, c.Chosen, lines(c.Reasons, ""), policy.text)
			}
			for _, reason := range leaves(c.Reasons) {
				cause, ok := policy.conditions[at(reason)]
				if !ok {
					t.Fatalf("seed %d: %s: %v is no condition\n%s", seed, c.Name, lines([]explain.Reason{reason}, ""), policy.text)
				}
				if !slices.ContainsFunc(reason.Values, func(v explain.Value) bool {
					return strings.HasSuffix(v.Reference, "."+cause.key) || strings.HasPrefix(v.Reference, "x")
				}) {
					t.Errorf("seed %d: %s: %v does not name the label %s", seed, c.Name, lines([]explain.Reason{reason}, ""), cause.key)
				}
				changed := maps.Clone(labels)
				changed[c.Name] = maps.Clone(labels[c.Name])
				cause.fix(changed[c.Name], object)
				after := explainGenerated(t, policy.text, changed, object)
				i := slices.IndexFunc(after.Listed, func(other explain.Candidate) bool { return other.Name == c.Name })
				for _, left := range leaves(after.Listed[i].Reasons) {
					if at(left) == at(reason) {
						t.Fatalf("seed %d: %s: labels %v -> %v, and %v stays\n%s", seed, c.Name, labels[c.Name], changed[c.Name], lines([]explain.Reason{left}, ""), policy.text)
					}
				}
				checked++
			}
		}
	}
	t.Logf("%d reasons checked", checked)
	if checked < seeds {
		t.Errorf("checked only %d reasons", checked)
	}
}

// explainGenerated returns the clusters of the explanation of an object.
func explainGenerated(t *testing.T, text string, clusters map[string]map[string]string, object map[string]string) *explain.Candidates {
	t.Helper()
	documents := []string{policyOf("p", text)}
	encode := func(obj map[string]any) string {
		out, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		documents = append(documents, encode(map[string]any{
			"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": name, "namespace": "fleet", "labels": clusters[name]},
		}))
	}
	web := encode(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop", "labels": object}})
	return explainObject(t, strings.Join(documents, "---\n"), web, explain.Options{Limit: 10}).Clusters
}

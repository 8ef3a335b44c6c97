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

package embedded

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/policy"
)

// choosing is a module with a choice by each function.
const choosing = `package choosing

best := k8s.choose_clusters(input.object, input.scores, {"limit": input.limit, "minGain": input.minGain})

spread := k8s.spread_clusters(input.object, input.scores, input.domains, input.options)
`

// choosingInRego are the same choices in plain Rego, as rules were compiled to it before the functions existed.
const choosingInRego = `
best_in_rego := names if {
	count(input.scores) <= input.limit
	names := {name | some name, _ in input.scores}
} else := {name |
	some [_, _, name] in array.slice(sort([[level, rank(name), name] | some name, level in levels]), 0, input.limit)
}

spread_in_rego := {"clusters": clusters, "domains": {domain | some [_, _, domain] in domains}}

rank(name) := crypto.sha256(concat("/", [input.object, name]))

highest := max([score | some score in input.scores])

levels[name] := floor((highest - score) / input.minGain) if {
	some name, score in input.scores
}

members[domain] contains [level, rank(name), name] if {
	some name, level in levels
	domain := input.domains[name]
}

ordered[domain] := array.slice(sort(found), 0, object.get(input.options, "maxClusters", count(found))) if {
	some domain, found in members
	count(found) >= minimum
}

minimum := object.get(input.options, "minClusters", 1)

limit := object.get(input.options, "limit", 1000)

domains := array.slice(
	sort([[found[0][0], rank(domain), domain] | some domain, found in ordered]),
	0, min([object.get(input.options, "maxDomains", 1000), floor(limit / minimum)]),
)

default clusters := set()

clusters := {name |
	some [_, _, _, name] in array.slice(
		sort([[max([0, (turn - minimum) + 1]), level, rank, name] |
			some [_, _, domain] in domains
			some turn, [level, rank, name] in ordered[domain]
		]),
		0, limit,
	)
} if {
	count(domains) >= object.get(input.options, "minDomains", 1)
}
`

// newChoosing returns the rules of a module.
func newChoosing(t testing.TB, text string, names ...string) policy.Rules {
	t.Helper()
	module, err := policy.CompileGenerated("choosing", text, names)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := New(NewData(), Options{}).PrepareGenerated(t.Context(), "choosing", module)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// choiceInput returns clusters with few different scores, in few domains, and what limits the choice.
func choiceInput(random *rand.Rand) map[string]any {
	scores, domains := map[string]any{}, map[string]any{}
	kinds, regions := 1+random.IntN(5), 1+random.IntN(6)
	for i := range random.IntN(40) {
		name := fmt.Sprintf("cluster-%d", i)
		scores[name] = int64(10 * random.IntN(kinds))
		if random.IntN(20) > 0 {
			domains[name] = fmt.Sprintf("region-%d", random.IntN(regions))
		}
	}
	minClusters := int64(1 + random.IntN(3))
	minGain := int64(1 + random.IntN(25))
	options := map[string]any{"minClusters": minClusters, "minGain": minGain}
	for name, most := range map[string]int{"limit": 20, "minDomains": 3, "maxDomains": 5} {
		if random.IntN(2) == 0 {
			options[name] = int64(1 + random.IntN(most))
		}
	}
	if random.IntN(2) == 0 {
		options["maxClusters"] = minClusters + int64(random.IntN(4))
	}
	return map[string]any{
		"object": fmt.Sprintf("Deployment/shop/web-%d", random.Int()), "scores": scores, "domains": domains, "limit": int64(1 + random.IntN(10)),
		"minGain": minGain, "options": options,
	}
}

// TestChoicesEqualRego compares the functions with plain Rego.
func TestChoicesEqualRego(t *testing.T) {
	rules := newChoosing(t, choosing+choosingInRego, "best", "best_in_rego", "spread", "spread_in_rego")
	for seed := range uint64(1000) {
		input := choiceInput(rand.New(rand.NewPCG(seed, 0)))
		got, err := rules.Evaluate(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"best", "spread"} {
			if diff := cmp.Diff(sortedLists(got[name+"_in_rego"]), sortedLists(got[name])); diff != "" || got[name] == nil {
				text, _ := json.Marshal(input)
				t.Fatalf("seed %d: %s: %s\n%s", seed, name, diff, text)
			}
		}
	}
}

// sortedLists returns a value with its lists sorted: sets are lists in no particular order.
func sortedLists(value any) any {
	switch v := value.(type) {
	case []any:
		out := slices.Clone(v)
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return out
	case map[string]any:
		out := maps.Clone(v)
		for name := range out {
			out[name] = sortedLists(out[name])
		}
		return out
	}
	return value
}

// TestNoChoice verifies that operands which are not valid end the evaluation.
func TestNoChoice(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"Object":          {"object": int64(1)},
		"Scores":          {"scores": "a"},
		"ScoreFraction":   {"scores": map[string]any{"a": json.Number("0.5")}},
		"ScoreText":       {"scores": map[string]any{"a": "1"}},
		"ScoreTooLarge":   {"scores": map[string]any{"a": json.Number("9007199254740993")}},
		"ScoreTooLow":     {"scores": map[string]any{"a": json.Number("-9223372036854775808")}},
		"Names":           {"scores": []any{"a", int64(1)}},
		"Domains":         {"domains": []any{"a"}},
		"Domain":          {"domains": map[string]any{"a": int64(1)}},
		"Options":         {"options": []any{}},
		"UnknownOption":   {"options": map[string]any{"max": int64(1)}},
		"Zero":            {"options": map[string]any{"limit": int64(0)}},
		"TooFewClusters":  {"options": map[string]any{"minClusters": int64(2), "maxClusters": int64(1)}},
		"LimitOfTheFirst": {"limit": json.Number("1.5")},
	} {
		t.Run(name, func(t *testing.T) {
			input := map[string]any{
				"object": "Deployment/shop/web", "scores": []any{"a", "b"}, "domains": map[string]any{"a": "eu"},
				"limit": int64(1), "minGain": int64(1), "options": map[string]any{},
			}
			rules := newChoosing(t, choosing, "best", "spread")
			if got, err := rules.Evaluate(t.Context(), input); err != nil || got["best"] == nil || got["spread"] == nil {
				t.Fatalf("%v %v, want a choice", got, err)
			}
			maps.Copy(input, change)
			if got, err := rules.Evaluate(t.Context(), input); err == nil || !strings.Contains(err.Error(), "_clusters: ") {
				t.Errorf("%v %v, want an error of the function", got, err)
			}
		})
	}
}

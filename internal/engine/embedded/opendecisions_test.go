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
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/rules"
)

// TestOpenDecisions verifies which rules choose clusters for objects of other names without an evaluation, and that all of them decide
// as an engine does that knows no other object.
func TestOpenDecisions(t *testing.T) {
	const prefer = `prefer: [{label: pci, operator: Gte, values: ["1"], weight: 10}]`
	for name, tc := range map[string]struct {
		rules string
		// evaluated is how many of ten objects are evaluated.
		evaluated int64
	}{
		"Limit":         {`[{name: a, limit: 1}]`, 1},
		"Prefer":        {`[{name: a, limit: 1, ` + prefer + `, set: {labels: {tier: gold}}, warn: "{kind} {label:team}"}]`, 1},
		"Spread":        {`[{name: a, limit: 1, spread: {label: pci}, ` + prefer + `}]`, 1},
		"TooFewDomains": {`[{name: a, limit: 4, spread: {label: pci, minDomains: 4}}]`, 1},
		"NextRule":      {`[{name: a, spread: {label: pci, minDomains: 4}, otherwise: NextRule}, {name: b, limit: 2, warn: "{kind}"}]`, 1},
		"Namespace":     {`[{name: a, limit: 1, warn: "{namespace}"}]`, 10},
		"Name":          {`[{name: a, limit: 1, warn: "{name}"}]`, 10},
		"Clusters":      {`[{name: a, limit: 1, set: {annotations: {on: "{clusters}"}}}]`, 10},
		"JSON":          {`[{name: a, limit: 1, set: {annotations: {on: "{clusters:json}"}}}]`, 10},
		"Weights":       {`[{name: a, limit: 2, weights: Score, ` + prefer + `}]`, 10},
		"TextsOfOthers": {`[{name: a, limit: 1, when: {annotations: [{key: x, operator: Exists}]}}, {name: b, require: [{label: pci, operator: Exists}], set: {annotations: {on: "{clusters}"}}}]`, 1},
		"Expression":    {`[{name: a, limit: 1, when: {expression: "object.metadata.name != 'other'"}}]`, 10},
	} {
		t.Run(name, func(t *testing.T) {
			ev, seen := ruled(t, tc.rules)
			for i := range 10 {
				object := ruledObject(fmt.Sprint("web-", i))
				fresh, _ := ruled(t, tc.rules)
				if diff := cmp.Diff(decide(t, fresh, object), decide(t, ev, object), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("object %d: %s", i, diff)
				}
			}
			seen.want(t, 10-tc.evaluated, tc.evaluated)
		})
	}
}

// TestOpenDecisionsAfterTheSameName verifies that clusters are chosen for each name also if an object of the first name was decided before
// that differs in something else.
func TestOpenDecisionsAfterTheSameName(t *testing.T) {
	const text = `[{name: a, spread: {label: pci, maxDomains: 1}, otherwise: NextRule, message: "{label:team}", limit: 1}, {name: b, deny: "{label:team}"}]`
	ev, _ := ruled(t, text)
	other := ruledObject("web")
	other["metadata"].(map[string]any)["labels"] = map[string]any{"team": "bank"}
	decide(t, ev, other)
	clusters := map[string]bool{}
	for _, name := range []string{"web", "database", "cache", "queue", "search"} {
		fresh, _ := ruled(t, text)
		object := ruledObject(name)
		got := decide(t, ev, object)
		if diff := cmp.Diff(decide(t, fresh, object), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		clusters[strings.Join(got.Clusters, ",")] = true
	}
	if len(clusters) < 2 {
		t.Errorf("all objects get %v", clusters)
	}
}

// TestClosedDecisions verifies which objects are evaluated though an open decision is known.
func TestClosedDecisions(t *testing.T) {
	for name, change := range map[string]func(object map[string]any){
		"NoKind":    func(object map[string]any) { delete(object, "kind") },
		"Number":    func(object map[string]any) { object["metadata"].(map[string]any)["name"] = int64(1) },
		"Tolerated": func(object map[string]any) { object[language.InputTolerated] = []any{"eu-1"} },
		"Long":      func(object map[string]any) { object["metadata"].(map[string]any)["name"] = strings.Repeat("x", 2000) },
	} {
		t.Run(name, func(t *testing.T) {
			ev, seen := ruled(t, `[{name: a, limit: 1}]`)
			decide(t, ev, ruledObject("web"))
			object := ruledObject("database")
			change(object)
			fresh, _ := ruled(t, `[{name: a, limit: 1}]`)
			if diff := cmp.Diff(decide(t, fresh, object), decide(t, ev, object), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			seen.want(t, 0, 2)
		})
	}
	t.Run("LargeInput", func(t *testing.T) {
		e, _ := ruledEngine()
		spec := ruledBy(t, `[{name: a, limit: 1}]`)
		spec.Limits = &placementv1.Limits{InputBytes: 1024}
		ev, _ := prepare(t, e, spec)
		object := ruledObject("web")
		decide(t, ev, object)
		metadata, _ := object["metadata"].(map[string]any)
		metadata["name"] = strings.Repeat("x", 990)
		if d, err := ev.Evaluate(t.Context(), object); err == nil {
			t.Errorf("%v for an object that is too large", d)
		}
	})
}

// TestObjectPaths compares the path of objects with that of the rendered rules.
func TestObjectPaths(t *testing.T) {
	module, _, errs := rules.Render(ruledBy(t, `[{name: a, limit: 1}]`).Rules)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	paths := newChoosing(t, module.Text, language.RuleObjectPath)
	known := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		input := pathInput(random)
		got, ok := rules.ObjectPath(input)
		// An error means that a part of the path is no text.
		want, err := paths.Evaluate(t.Context(), input)
		if ok {
			known++
		}
		if ok && (err != nil || want[language.RuleObjectPath] != got) {
			t.Errorf("%v: %q, want %v, %v", input, got, want, err)
		}
	}
	if known < 500 {
		t.Errorf("only %d paths are known", known)
	}
}

// pathInput returns an object with some of the fields that its path is made of. A few of them have values that Kubernetes does not allow.
func pathInput(random *rand.Rand) map[string]any {
	pick := func(values ...any) any { return values[random.IntN(len(values))] }
	fields := func(values map[string]any) map[string]any {
		out := map[string]any{}
		for name, value := range values {
			if random.IntN(6) > 0 {
				out[name] = value
			}
		}
		return out
	}
	var owners []any
	for range random.IntN(3) {
		owners = append(owners, fields(map[string]any{
			"kind": pick("ReplicaSet", "Job", "ReplicaSet", int64(1)), "name": pick("web-5d4f", "web", "-", nil), "controller": pick(true, true, false, "true"),
		}))
	}
	if random.IntN(20) == 0 {
		owners = append(owners, pick("web", nil, int64(1)))
	}
	return fields(map[string]any{
		"kind": pick("Pod", "Pod", "ReplicaSet", "Job", "ControllerRevision", "Deployment", "", nil),
		"metadata": fields(map[string]any{
			"name": pick("web-5d4f-x2", "web", ""), "generateName": pick("", "web-5d4f-", "web-"), "namespace": pick("shop", "shop", "", false),
			"labels":          pick(map[string]any{"pod-template-hash": pick("5d4f", "", "x")}, map[string]any{}, nil),
			"ownerReferences": pick(owners, owners, owners, nil, "web"),
		}),
	})
}

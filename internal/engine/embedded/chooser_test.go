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
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy/language"
)

// TestOpen verifies that open decisions are completed to what the policy decides, and for which policies and objects there are none.
func TestOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		rules string
		open  bool
	}{
		"Limit":    {`[{name: a, limit: 1}]`, true},
		"Spread":   {`[{name: a, limit: 1, spread: {label: pci}}]`, true},
		"NextRule": {`[{name: a, spread: {label: pci, minDomains: 4}, otherwise: NextRule}, {name: b, limit: 2, warn: "{kind}"}]`, true},
		"Denial":   {`[{name: a, limit: 1, require: [{label: pci, operator: Gt, values: ["9"]}]}]`, true},
		"Clusters": {`[{name: a, limit: 1, set: {annotations: {on: "{clusters}"}}}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			ev, _ := ruled(t, tc.rules)
			fresh, _ := ruled(t, tc.rules)
			var first placement.OpenDecision
			for i := range 10 {
				object := ruledObject(fmt.Sprint("web-", i))
				if i == 0 {
					if _, _, ok := ev.Open(object); ok {
						t.Fatal("there is an open decision before an evaluation")
					}
					decide(t, ev, object)
				}
				open, path, ok := ev.Open(object)
				if ok != tc.open || (ev.OpenInput() != nil) != tc.open {
					t.Fatalf("open decision: %t, fields: %v", ok, ev.OpenInput())
				}
				if !ok {
					continue
				}
				if first == nil {
					first = open
				}
				if open != first {
					t.Errorf("object %d has another open decision", i)
				}
				if diff := cmp.Diff(decide(t, fresh, object), open.Complete(path), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("object %d: %s", i, diff)
				}
			}
		})
	}
	for name, change := range map[string]func(object map[string]any){
		"NoKind":    func(object map[string]any) { delete(object, "kind") },
		"Tolerated": func(object map[string]any) { object[language.InputTolerated] = []any{"eu-1"} },
	} {
		ev, _ := ruled(t, `[{name: a, limit: 1}]`)
		object := ruledObject("web")
		decide(t, ev, object)
		change(object)
		if _, _, ok := ev.Open(object); ok {
			t.Errorf("%s: there is an open decision", name)
		}
	}
}

// TestChangesOfOpenDecisions changes clusters at random, and compares which decisions differ with those that the changes concern.
func TestChangesOfOpenDecisions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	profile := func(i int) *unstructured.Unstructured {
		o := document("fleet", fmt.Sprintf("eu-%d", i), "status", map[string]any{})
		o.SetLabels(map[string]string{"pci": fmt.Sprint(random.IntN(3)), "zone": fmt.Sprint(random.IntN(5))})
		return o
	}
	for _, rule := range []string{
		`[{name: a, limit: 2, prefer: [{label: pci, operator: Gte, values: ["1"], weight: 10}]}]`,
		`[{name: a, limit: 3, spread: {label: zone, minDomains: 2}, prefer: [{label: pci, operator: Gte, values: ["1"], weight: 10}]}]`,
		`[{name: a, limit: 2, require: [{label: pci, operator: In, values: ["1"]}], otherwise: NextRule}, {name: b, limit: 1}]`,
	} {
		e, _ := ruledEngine()
		prepared, _ := prepare(t, e, ruledBy(t, rule))
		ev := prepared.(*evaluator)
		objects := make([]*unstructured.Unstructured, 20)
		for i := range objects {
			objects[i] = profile(i)
		}
		e.data.Replace(profiles.GroupVersionResource, objects)
		same, differ, all := 0, 0, 0
		for range 60 {
			decide(t, ev, ruledObject("web"))
			was, _, ok := ev.Open(ruledObject("web"))
			if !ok {
				t.Fatal("there is no open decision")
			}
			i := random.IntN(len(objects))
			objects[i] = profile(i)
			e.data.Replace(profiles.GroupVersionResource, slices.Clone(objects))
			decide(t, ev, ruledObject("web"))
			is, _, ok := ev.Open(ruledObject("web"))
			if !ok {
				t.Fatal("there is no open decision any more")
			}
			concerns, ok := was.ChangesTo(is)
			if !ok {
				all++
				continue
			}
			for n := range 50 {
				path := fmt.Sprintf("Deployment/shop/web-%d", n)
				before, after := was.Complete(path), is.Complete(path)
				if before.Equal(after) == concerns(path, before.Clusters) {
					t.Fatalf("%s: from %v to %v, concerned: %t", path, before.Clusters, after.Clusters, concerns(path, before.Clusters))
				}
				if before.Equal(after) {
					same++
				} else {
					differ++
				}
			}
		}
		if t.Logf("%s: %d decisions stay, %d differ, and %d times any may differ", rule, same, differ, all); same < differ || differ < 20 || all > 20 {
			t.Error("too few")
		}
	}
	one, _ := ruled(t, `[{name: a, limit: 1}]`)
	two, _ := ruled(t, `[{name: a, limit: 2}]`)
	decide(t, one, ruledObject("web"))
	decide(t, two, ruledObject("web"))
	first, _, _ := one.Open(ruledObject("web"))
	second, _, _ := two.Open(ruledObject("web"))
	if _, ok := first.ChangesTo(second); ok {
		t.Error("other limits are compared")
	}
}

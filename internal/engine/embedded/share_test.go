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
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

func prepareAs(t testing.TB, e *Engine, name string, spec placementv1.PlacementPolicySpec) *evaluator {
	t.Helper()
	m, err := policy.Compile(name, spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.Bind(name, m, spec.Replicate, everything)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := e.Prepare(t.Context(), name, m, b)
	if err != nil {
		t.Fatal(err)
	}
	return ev.(*evaluator)
}

// TestPoliciesOfOneText verifies that policies with the same text share a query, while each reads its own data and has
// its own name in messages.
func TestPoliciesOfOneText(t *testing.T) {
	const text = `package p

annotations := {"zone": data.zone, "pods": sprintf("%d", [count(data.kubernetes.pods)])}

# Two values where input.clash is set.
labels := {"a": x} if some x in input.clash
`
	e := New(newWorld(), Options{Timeout: time.Minute, Concurrency: 4})
	const n = 8
	var all []*evaluator
	for i := range n {
		all = append(all, prepareAs(t, e, fmt.Sprintf("policy-%d", i), placementv1.PlacementPolicySpec{
			Rego: text, RegoVersion: placementv1.RegoV1, Data: &apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"zone": "z%d"}`, i)},
		}))
	}
	other := prepareAs(t, e, "other", placementv1.PlacementPolicySpec{Rego: text + "\n", RegoVersion: placementv1.RegoV1, Data: &apiextensionsv1.JSON{Raw: []byte(`{"zone": "o"}`)}})
	if other.query == all[0].query {
		t.Error("policies of different texts share a query")
	}
	var running sync.WaitGroup
	for i, ev := range all {
		if ev.query != all[0].query {
			t.Errorf("policy %d has a query of its own", i)
		}
		running.Go(func() {
			for range 20 {
				d, err := ev.Evaluate(t.Context(), map[string]any{"kind": fmt.Sprint(i)})
				if err != nil || d.Annotations["zone"] != fmt.Sprintf("z%d", i) || d.Annotations["pods"] == "" {
					t.Errorf("policy %d decides %v, %v", i, d, err)
				}
				_, err = ev.Evaluate(t.Context(), map[string]any{"clash": []any{"1", "2"}})
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("policy-%d.rego:6: eval_conflict_error", i)) {
					t.Errorf("policy %d fails with %v", i, err)
				}
			}
		})
	}
	running.Wait()
}

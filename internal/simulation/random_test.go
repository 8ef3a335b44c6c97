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

package simulation_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/test/budget"
)

var randomPolicies = flag.Uint64("policies", uint64(budget.Rounds(40)), "how many random policies TestSnapshotsOfRandomPolicies tries")

// document returns a Kubernetes object with random content.
func document(t *testing.T, g *policytest.Generator, apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{Object: g.Object(3)}
	out.SetAPIVersion(apiVersion)
	out.SetKind(kind)
	out.SetNamespace(namespace)
	out.SetName(name)
	out.SetLabels(map[string]string{"a": g.Of("a", "b", "1"), g.Of("b", "c"): "a"})
	// The API server's numbers are int64 or float64.
	text, err := utiljson.Marshal(out.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := utiljson.Unmarshal(text, &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// decide returns what the policy decides on each matched object, as text.
func decide(t *testing.T, cluster simulation.Cluster) []string {
	t.Helper()
	s, err := simulation.New(t.Context(), cluster, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for o, err := range s.Matched(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		_, err := s.VerdictsBy(t.Context(), o, func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
			decision, err := p.Evaluator.Evaluate(ctx, input)
			out = append(out, fmt.Sprintf("%s: %+v %t", o.Content.GetName(), decision, err != nil))
			return decision, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// anonymous returns decisions without the names of the objects, sorted.
func anonymous(decisions []string) []string {
	out := make([]string, len(decisions))
	for i, text := range decisions {
		_, out[i], _ = strings.Cut(text, ": ")
	}
	slices.Sort(out)
	return out
}

// TestSnapshotsOfRandomPolicies checks that random policies decide random objects on a snapshot, which has only the fields
// that the analysis found, as they decide them in the cluster. To try more policies:
//
//	go test ./internal/simulation -run=RandomPolicies -args -policies=10000
func TestSnapshotsOfRandomPolicies(t *testing.T) {
	decided := 0
	for seed := range *randomPolicies {
		g := &policytest.Generator{Bytes: policytest.RandomBytes(seed), Wide: true}
		text := g.Policy()
		version := placementv1.RegoV1
		if g.V0 {
			version = placementv1.RegoV0
		}
		policy := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "placement.berth.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{
			"match": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}}}},
			"rego":  text, "regoVersion": string(version), "data": map[string]any{"acme": map[string]any{"a": int64(1)}},
		}}}
		objects := []*unstructured.Unstructured{policy}
		for _, name := range []string{"a", "b"} {
			objects = append(objects,
				document(t, g, "v1", "Node", "", name), document(t, g, "v1", "Pod", "a", name), document(t, g, "multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "fleet", name),
				document(t, g, "v1", "ConfigMap", "a", name), document(t, g, "v1", "ConfigMap", "b", name))
		}
		cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
		if err != nil {
			t.Fatal(err)
		}
		want := decide(t, cluster)
		if got := decide(t, recorded(t, cluster)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d: on the snapshot\n%q\nin the cluster\n%q\n%s", seed, got, want, text)
		}
		if got := decide(t, recorded(t, cluster, (*simulation.Simulation).Redact)); !slices.Equal(anonymous(got), anonymous(want)) {
			t.Errorf("seed %d: on the redacted snapshot\n%q\nin the cluster\n%q\n%s", seed, got, want, text)
		}
		decided += len(want)
	}
	if uint64(decided) < *randomPolicies {
		t.Errorf("only %d decisions", decided)
	}
}

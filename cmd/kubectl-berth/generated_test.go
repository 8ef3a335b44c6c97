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

package main

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/openapi/openapitest"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/mistakes/generated"
)

var (
	cases = flag.Int("cases", budget.Rounds(25), "how many policies and quotas are generated")
	seed  = flag.Uint64("seed", 1, "the seed of the first generated policy or quota")
)

// TestGeneratedWithoutMistakes checks that nothing is said of policies and quotas without a mistake: neither at apply, nor by check, nor in
// the status.
func TestGeneratedWithoutMistakes(t *testing.T) {
	wrong := 0
	for n := range *cases {
		c := generated.New(*seed + uint64(n))
		if said := said(t, c.World, c.Manifest()); len(said) > 0 {
			wrong++
			t.Errorf("seed %d: %s\n%s", *seed+uint64(n), strings.Join(said, "\n"), c.Manifest())
		}
	}
	t.Logf("seeds %d to %d: something is said of %d", *seed, *seed+uint64(*cases)-1, wrong)
}

// TestGeneratedWithMistakes checks that nearly all mistakes in the same policies and quotas are found.
func TestGeneratedWithMistakes(t *testing.T) {
	planted, silent := 0, map[string]int{}
	for n := range *cases {
		at := *seed + uint64(n)
		c := generated.New(at)
		m, ok := c.Mistake(at)
		if !ok {
			continue
		}
		planted++
		if len(said(t, c.World, m.Manifest)) == 0 {
			silent[m.What]++
			t.Logf("seed %d: nothing is said of the %s %q in place of %q\n%s", at, m.What, m.Wrong, m.Name, m.Manifest)
		}
	}
	total := 0
	for _, n := range silent {
		total += n
	}
	if t.Logf("nothing is said of %d of %d mistakes: %v", total, planted, silent); total*20 > planted {
		t.Error("more than 5 percent")
	}
}

// said returns what an author is told of a manifest in a world.
func said(t *testing.T, world []*unstructured.Unstructured, manifest string) []string {
	t.Helper()
	all := generated.Objects(manifest)
	if len(all) != 1 {
		t.Fatalf("%d objects in:\n%s", len(all), manifest)
	}
	options, inventories, err := (&simulationFlags{berthNamespace: "berth-system"}).settings()
	if err != nil {
		t.Fatal(err)
	}
	obj := all[0]
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), inventories, append(slices.Clone(world), obj)...)
	if err != nil {
		return []string{err.Error()}
	}
	c := &checker{cluster, completeValidator(t.Context(), cluster, options), completeQuotaSpecs(t.Context(), cluster, options)}
	c.policies.Types = schemas.NewChecker(cluster.Catalog(), openapitest.NewEmbeddedFileClient())
	result := c.check(t.Context(), obj)
	out := append(result.Errors, result.Warnings...)
	if len(result.Errors) > 0 || obj.GetKind() != "PlacementPolicy" {
		return out
	}
	p := &placementv1.PlacementPolicy{}
	if err := numeral.FromUnstructured(obj.Object, p); err != nil {
		t.Fatal(err)
	}
	v := c.policies
	finder := &findings.Finder{
		Catalog: v.Catalog, Scales: v.Scales, Namespaces: v.Namespaces, Clusters: v.Clusters, Scores: v.Scores, Nodes: v.Nodes, PriorityClasses: v.PriorityClasses, Quotas: v.Quotas,
		OwnNamespace: v.OwnNamespace, ClusterPredicates: v.ClusterPredicates, Templates: v.Templates, Policies: v.Policies,
	}
	matched, decided, err := decidedBy(t.Context(), cluster, options, p.Name)
	if err != nil {
		return append(out, err.Error())
	}
	found, _, err := finder.All(t.Context(), p.Name, p.Spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		// The status has the same condition for rules that decide nothing.
		idle := matched >= 5 && !slices.ContainsFunc(strings.Split(f.Rule+","+f.Instead, ","), func(rule string) bool { return decided[rule] > 0 })
		few := matched >= 5 && matched < int(f.Below)
		if (f.Rule == "" || idle) && (f.Below == 0 || few) && (!f.Unmatched || matched == 0) {
			out = append(out, "status: "+f.Text(p.Name))
		}
	}
	return out
}

// decidedBy returns how many objects a policy of a cluster matches, and how many each of its rules decides.
func decidedBy(ctx context.Context, cluster simulation.Cluster, options simulation.Options, policy string) (matched int, decided map[string]int, err error) {
	s, err := simulation.New(ctx, cluster, options)
	if err != nil {
		return 0, nil, err
	}
	decided = map[string]int{}
	for o, err := range s.Matched(ctx) {
		if err != nil {
			return 0, nil, err
		}
		verdicts, err := s.Verdicts(ctx, o)
		if err != nil {
			return 0, nil, err
		}
		for _, v := range verdicts {
			if v.Policy.Name == policy {
				matched++
				decided[v.Decision.Rule]++
			}
		}
	}
	return matched, decided, nil
}

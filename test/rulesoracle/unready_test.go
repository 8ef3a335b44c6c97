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
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	testingclock "k8s.io/utils/clock/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/budget"
)

// mark is a taint by which a fleet manager marks a cluster as not ready. added is zero if the taint does not say when it was added.
type mark struct {
	key, effect string
	added       time.Time
}

// counts reports whether existing objects stay in a cluster with the mark: it does not say that they have to leave.
func (m mark) counts() bool { return m.effect != "NoExecute" }

func (m mark) taint() any {
	out := map[string]any{"key": m.key, "effect": m.effect}
	if !m.added.IsZero() {
		out["timeAdded"] = m.added.Format(time.RFC3339)
	}
	return out
}

// marks returns marks for some of the clusters.
func (g *Generator) marks(clusters map[string]map[string]any, now time.Time) map[string][]mark {
	out := map[string][]mark{}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		for _, key := range some(g, []string{
			"cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable", "cluster.open-cluster-management.io/unavailable", "cluster.open-cluster-management.io/unreachable",
		}, 2) {
			m := mark{key: key, effect: pick(g, []string{"NoSchedule", "NoSelect", "NoSchedule", "NoExecute"})}
			if g.chance(80) {
				m.added = now.Add(-time.Duration(g.random.IntN(20)) * time.Minute)
			}
			out[name] = append(out[name], m)
		}
	}
	return out
}

// marked returns the clusters with those of their marks for which has is true.
func marked(clusters map[string]map[string]any, marks map[string][]mark, has func(cluster string, m mark) bool) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, document := range clusters {
		document = runtime.DeepCopyJSON(document)
		taints, _ := document["taints"].([]any)
		for _, m := range marks[name] {
			if has(name, m) {
				taints = append(taints, m.taint())
			}
		}
		document["taints"] = taints
		out[name] = document
	}
	return out
}

// TestClustersThatAreNotReady checks what an existing object gets when fleet managers mark clusters as not ready: what it would get if
// the clusters in which it is, and may stay, had no such mark.
func TestClustersThatAreNotReady(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	const limit = 10 * time.Minute
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s, seeds := newServed(t), budget.Rounds(120)
	compared, stayed, left := 0, 0, 0
	for seed := range uint64(seeds) {
		g, e := NewGenerator(seed), newExample(seed)
		clusters := e.clusters[0]
		m, err := newModule(t, s, e.rules)
		if err != nil {
			t.Fatal(err)
		}
		spec := placementv1.PlacementPolicySpec{Rules: e.rules, Match: placementv1.Match{
			ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
		}}.WithDefaults()
		limited := g.chance(60)
		if limited {
			spec.Clusters = &placementv1.ClustersRule{LeaveUnreadyAfter: &metav1.Duration{Duration: limit}}
		}
		matcher, errs := match.New(spec.Match, field.NewPath("match"))
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		d := &placement.Decider{
			Namespaces: byLabel{}, Keyring: keyring, Clock: testingclock.NewFakePassiveClock(now),
			Policies: byLabel{placement.NewIndex(placement.NewPolicy("p", 1, spec, matcher, m.evaluator, true))},
		}
		decide := func(o, old *unstructured.Unstructured) (*unstructured.Unstructured, *placement.Verdict) {
			out, err := d.Decide(t.Context(), placement.Request{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: o.GetNamespace(), Object: o, Old: old})
			if err != nil {
				t.Fatal(err)
			}
			return out.Object, out.Verdicts[0]
		}
		marks := g.marks(clusters, now)
		all := marked(clusters, marks, func(string, mark) bool { return true })
		for _, content := range e.objects {
			object := &unstructured.Unstructured{Object: content}
			if object.GetKind() != "Deployment" {
				continue
			}
			m.load(t, e.namespaces, clusters, slices.Sorted(maps.Keys(clusters)))
			placed, v := decide(object, nil)
			if v.Err != nil || len(v.Decision.Errors) > 0 {
				continue
			}
			stored := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(placed.Object)}
			listed, _ := clusterlist.Parse(stored.GetAnnotations()[placementv1.ClustersAnnotation])
			in, _ := listed.All()

			m.load(t, e.namespaces, all, slices.Sorted(maps.Keys(all)))
			var until time.Time
			stays := map[string]bool{}
			for _, name := range in {
				first := slices.MinFunc(append(slices.DeleteFunc(slices.Clone(marks[name]), func(m mark) bool { return !m.counts() }), mark{added: now.Add(time.Hour)}),
					func(a, b mark) int { return a.added.Compare(b.added) }).added
				if ends := first.Add(limit); !limited || ends.After(now) {
					stays[name] = true
					if limited && first.Before(now.Add(time.Hour)) && (until.IsZero() || ends.Before(until)) {
						until = ends
					}
				}
			}
			seen := marked(clusters, marks, func(name string, m mark) bool { return !m.counts() || !stays[name] })
			check := func(what string, old *unstructured.Unstructured, clusters map[string]map[string]any, until time.Time) Decision {
				want, o := e.decide(content, clusters), object
				if old != nil {
					o = old
				}
				_, v := decide(o, old)
				if diff := e.differs(t, content, want, v.Decision, v.Err); diff != "" {
					t.Fatalf("seed %d: %s: %s\n%s", seed, what, diff, e.print(content, clusters))
				}
				if diff := cmp.Diff(until, v.Until); diff != "" {
					t.Fatalf("seed %d: %s may move (-want +got):\n%s", seed, what, diff)
				}
				return want
			}
			fresh := check("a new object", nil, all, time.Time{})
			existing := check("an existing object", stored, seen, until)
			compared++
			for _, name := range in {
				switch {
				case len(marks[name]) == 0:
				case slices.Contains(existing.Clusters, name) && !slices.Contains(fresh.Clusters, name):
					stayed++
				case !slices.Contains(existing.Clusters, name):
					left++
				}
			}
		}
	}
	if compared < seeds/2 || stayed < seeds/10 || left < seeds/10 {
		t.Errorf("only %d objects were compared; %d clusters were kept, and %d left", compared, stayed, left)
	}
}

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
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

var (
	scoped  = policy.Resource{GroupVersionResource: placementv1.GroupVersion.WithResource("scopedquotas"), Namespaced: true}
	cluster = policy.Resource{GroupVersionResource: placementv1.GroupVersion.WithResource("clusterscopedquotas")}
)

func quota(namespace, name, used string, more map[string]any) *unstructured.Unstructured {
	status := map[string]any{"hard": map[string]any{"pods": "10"}, "used": map[string]any{"pods": used}}
	maps.Copy(status, more)
	o := document(namespace, name, "status", status)
	replication.Known().Prepare(scoped.GroupVersionResource, o)
	return o
}

// TestPoliciesReadQuotas verifies that policies read hard and used of quotas at data.berth, and the objects at their
// own place.
func TestPoliciesReadQuotas(t *testing.T) {
	d := NewData()
	d.Replace(scoped.GroupVersionResource, []*unstructured.Unstructured{
		quota("team-a", "gold", "3", nil), quota("team-a", "silver", "10", nil), quota("team-b", "gold", "9", nil),
		document("team-b", "new", "spec", map[string]any{}),
	})
	d.Replace(cluster.GroupVersionResource, []*unstructured.Unstructured{quota("", "all", "7", nil)})
	everything := served{"scopedquotas": {scoped}, "clusterscopedquotas": {cluster}}
	tests := map[string]struct{ body, want string }{
		"ByName":      {`x := data.berth.quotas["team-a"].gold.used.pods`, "3"},
		"ByVariables": {`x := concat(",", sort([sprintf("%s/%s", [ns, name]) | some ns, quotas in data.berth.quotas; some name, q in quotas; k8s.quantity.compare(q.used.pods, q.hard.pods) < 0]))`, "team-a/gold,team-b/gold"},
		"OneName":     {`x := concat(",", object.keys(data.berth.quotas["team-b"]))`, "gold,new"},
		"NotCounted":  {`x := json.marshal(data.berth.quotas["team-b"].new)`, `{"hard":{},"used":{}}`},
		"Cluster":     {`x := data.berth.clusterquotas.all.used.pods`, "7"},
		"Projected":   {`x := concat(",", object.keys(data.berth.quotas["team-a"].gold))`, "hard,used"},
		"Room":        {`x := k8s.quantity.sub(data.berth.quotas["team-a"].gold.hard.pods, data.berth.quotas["team-a"].gold.used.pods)`, "7"},
		"Object":      {`x := data.kubernetes.scopedquotas["team-a"].gold.metadata.name`, "gold"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", v1(`package p
annotations := {"x": x} if `+tc.body))
			if err != nil {
				t.Fatal(err)
			}
			b, err := policy.Bind("p", m, nil, everything)
			if err != nil {
				t.Fatal(err)
			}
			e := New(d, Options{Timeout: time.Minute, Concurrency: 1})
			ev, err := e.Prepare(t.Context(), "p", m, b)
			if err != nil {
				t.Fatal(err)
			}
			decision, err := ev.Evaluate(t.Context(), map[string]any{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"x": tc.want}, decision.Annotations); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBookkeepingOfQuotasIsNoChange verifies that fields which change with every charge, but which policies don't see,
// outdate no decision.
func TestBookkeepingOfQuotasIsNoChange(t *testing.T) {
	d := NewData()
	d.Replace(scoped.GroupVersionResource, []*unstructured.Unstructured{quota("n", "q", "1", nil)})
	settled := quota("n", "q", "1", map[string]any{"reservations": []any{}, "conditions": []any{}, "observedGeneration": int64(2)})
	if d.Put(scoped.GroupVersionResource, settled) {
		t.Error("reservations count as a change")
	}
	if !d.Put(scoped.GroupVersionResource, quota("n", "q", "2", nil)) {
		t.Error("used does not count as a change")
	}
}

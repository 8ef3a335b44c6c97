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

package delivery_test

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
)

// Karmada 1.18.2 writes these labels and annotations into an object before it acts by the policy that they name.
func TestKarmadaHolders(t *testing.T) {
	const (
		namespace, name, id = "propagationpolicy.karmada.io/namespace", "propagationpolicy.karmada.io/name", "propagationpolicy.karmada.io/permanent-id"
		cluster, clusterID  = "clusterpropagationpolicy.karmada.io/name", "clusterpropagationpolicy.karmada.io/permanent-id"
		claim               = "resourcetemplate.karmada.io/claimed-by"
	)
	type pairs = map[string]string
	object := func(in string, metadata pairs) delivery.Object {
		out := delivery.Object{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: in, Name: "web"}
		// The names of labels and annotations differ, so each set may have all of them.
		out.Labels, out.Annotations = maps.Clone(metadata), maps.Clone(metadata)
		return out
	}
	own := delivery.NameOf(object("shop", nil))
	byOwn := pairs{namespace: "shop", name: own, id: "1"}
	byOther := pairs{namespace: "shop", name: "by-label", id: "2"}
	byCluster := pairs{cluster: "catch-all", clusterID: "3"}
	karmada, _ := system(t, "karmada")
	for test, tc := range map[string]struct {
		in            string
		before, after pairs
		// holder is who holds the object afterwards, and taker who gets it by the update, if that is another policy than that of Berth.
		holder, taker string
	}{
		"none":                        {in: "shop"},
		"Berth's":                     {in: "shop", after: byOwn},
		"another one":                 {in: "shop", after: byOther, holder: "PropagationPolicy shop/by-label", taker: "PropagationPolicy shop/by-label"},
		"another one before":          {in: "shop", before: byOther, after: byOther, holder: "PropagationPolicy shop/by-label"},
		"another one instead":         {in: "shop", before: byOwn, after: byOther, holder: "PropagationPolicy shop/by-label", taker: "PropagationPolicy shop/by-label"},
		"Berth's instead":             {in: "shop", before: byOther, after: byOwn},
		"none instead":                {in: "shop", before: byOther},
		"a namespace alone":           {in: "shop", before: byOwn, after: pairs{namespace: "other", name: own, id: "1"}, taker: "PropagationPolicy other/" + own},
		"an ID alone":                 {in: "shop", after: pairs{id: "2"}, taker: "another PropagationPolicy"},
		"another ID of Berth's":       {in: "shop", before: byOwn, after: pairs{namespace: "shop", name: own, id: "4"}},
		"a cluster's":                 {in: "shop", after: byCluster, holder: "ClusterPropagationPolicy catch-all", taker: "ClusterPropagationPolicy catch-all"},
		"a cluster's before":          {in: "shop", before: byCluster, after: byCluster, holder: "ClusterPropagationPolicy catch-all"},
		"a cluster's ID alone":        {in: "shop", after: pairs{clusterID: "3"}, taker: "another ClusterPropagationPolicy"},
		"cluster-scoped, Berth's":     {after: pairs{cluster: own, clusterID: "1"}},
		"cluster-scoped, another one": {after: byCluster, holder: "ClusterPropagationPolicy catch-all", taker: "ClusterPropagationPolicy catch-all"},
		"cluster-scoped, namespaced":  {after: pairs{namespace: "shop", name: own, id: "1"}, taker: "PropagationPolicy shop/" + own},
		"a MultiClusterService":       {in: "shop", after: pairs{claim: "MultiClusterService"}, holder: "MultiClusterService shop/web"},
		"an unknown claim":            {in: "shop", after: pairs{claim: "someone"}, holder: "the label resourcetemplate.karmada.io/claimed-by=someone"},
	} {
		t.Run(test, func(t *testing.T) {
			before, after := object(tc.in, tc.before), object(tc.in, tc.after)
			if got := karmada.HeldBy(after); got != tc.holder {
				t.Errorf("held by %q, want %q", got, tc.holder)
			}
			if got := karmada.TakenBy(before, after); got != tc.taker {
				t.Errorf("taken by %q, want %q", got, tc.taker)
			}
		})
	}
	fleet, _ := system(t, "kubeFleet")
	if got := fleet.TakenBy(object("shop", nil), object("shop", byOther)); got != "" {
		t.Errorf("taken from KubeFleet by %q", got)
	}
}

// With Karmada 1.18.2, a binding for which no cluster fits has the condition Scheduled False, and no status.schedulerObservedGeneration.
func TestKarmadaFindsNoCluster(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	karmada, spec := system(t, "karmada")
	for test, tc := range map[string]struct {
		conditions []any
		seen       int64
		message    string
	}{
		"not seen":         {message: "Karmada has not acted on the newest placement"},
		"scheduled before": {conditions: []any{map[string]any{"type": "Scheduled", "status": "True", "reason": "Success"}}, seen: 2, message: "Karmada has not acted on the newest placement"},
		"no cluster": {
			conditions: []any{map[string]any{"type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "0/3 clusters are available"}},
			message:    "Karmada found no clusters when it last tried: NoClusterFit: 0/3 clusters are available",
		},
		"no cluster, long ago": {
			conditions: []any{map[string]any{"type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "0/3 clusters are available"}},
			seen:       3, message: "cluster a: its health is Unhealthy",
		},
	} {
		t.Run(test, func(t *testing.T) {
			o := binding([]string{"a"})
			o.Object["status"].(map[string]any)["schedulerObservedGeneration"] = tc.seen
			o.Object["status"].(map[string]any)["conditions"] = tc.conditions
			got, err := karmada.HandOver(moved, to("a"), spec, nil, new(karmada.Observe(o)), now)
			if err != nil || got.Run.Message != tc.message {
				t.Errorf("message %q, error %v; want %q", got.Run.Message, err, tc.message)
			}
		})
	}
}

// Karmada 1.18.2 takes a Deployment with one replica for healthy 0.3 s after its pod template changed: the new replica exists, and the old
// one is available.
func TestKarmadaRunsWhenTheRolloutIsComplete(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	karmada, spec := system(t, "karmada")
	for test, tc := range map[string]struct {
		kind    string
		status  map[string]any
		message string
	}{
		"complete":             {status: map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}},
		"a new one is missing": {status: map[string]any{"replicas": int64(2), "updatedReplicas": int64(1), "availableReplicas": int64(1)}, message: "cluster a: 1 of 2 replicas are from before the last rollout"},
		"an old one remains":   {status: map[string]any{"replicas": int64(6), "updatedReplicas": int64(3), "availableReplicas": int64(6)}, message: "cluster a: 3 of 6 replicas are from before the last rollout"},
		"none is updated":      {status: map[string]any{"replicas": int64(3), "availableReplicas": int64(3)}, message: "cluster a: 3 of 3 replicas are from before the last rollout"},
		"no replicas":          {status: map[string]any{}},
		"no status":            {},
		"not a Deployment":     {kind: "Rollout", status: map[string]any{"replicas": int64(2), "updatedReplicas": int64(1)}},
	} {
		t.Run(test, func(t *testing.T) {
			o := binding([]string{"a"}, "a")
			if tc.kind != "" {
				set(o, tc.kind, "spec", "resource", "kind")
			}
			if tc.status != nil {
				set(o, []any{map[string]any{"clusterName": "a", "applied": true, "health": "Healthy", "status": tc.status}}, "status", "aggregatedStatus")
			}
			got, err := karmada.HandOver(moved, to("a"), spec, nil, new(karmada.Observe(o)), now)
			if err != nil || got.Run.Message != tc.message || (got.Run.State == delivery.Running) != (tc.message == "") {
				t.Errorf("state %s, message %q, error %v; want %q", got.Run.State, got.Run.Message, err, tc.message)
			}
		})
	}
}

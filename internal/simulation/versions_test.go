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
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/simulation"
)

const staged = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: tiers, uid: policy-uid, generation: 4}
spec:
  match: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  rollout: {stages: [{name: canary, namespaceSelector: {matchLabels: {stage: canary}}}]}
  rego: |
    package tiers

    annotations.tier := "silver"
---
apiVersion: v1
kind: Namespace
metadata: {name: first, labels: {stage: canary}}
---
apiVersion: v1
kind: Namespace
metadata: {name: rest}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: rest}`

// revision returns the ControllerRevision of a version of a policy whose Rego sets the tier.
func revision(t *testing.T, obj *placementv1.PlacementPolicy, number int64, tier string) *unstructured.Unstructured {
	t.Helper()
	stored := policy.Revision{UID: obj.UID, Generation: number, Spec: obj.Spec}
	stored.Spec.Rego = strings.Replace(obj.Spec.Rego, "silver", tier, 1)
	// The namespaces that the version matches do not depend on the rollout that was stored with it.
	stored.Spec.Rollout = nil
	text, err := policy.EncodeRevision(stored)
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": data,
		"metadata": map[string]any{"name": policy.NumberedRevisionName(obj.Name, number), "namespace": "berth-system"},
	}}
}

// stagedCluster returns a cluster with a policy in two versions. change changes the policy and its status.
func stagedCluster(t *testing.T, change func(*placementv1.PlacementPolicy), tiers map[int64]string) *simulation.Static {
	t.Helper()
	objects := parse(t, staged)
	obj := &placementv1.PlacementPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, obj); err != nil {
		t.Fatal(err)
	}
	obj.Status.Rollout = &placementv1.RolloutStatus{
		State: placementv1.RolloutSoaking, Revision: 4, PreviousRevision: 2, Digest: rollout.Digest(obj.Spec), Reached: new(int32(1)),
	}
	change(obj)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	objects[0].Object = content
	for number, tier := range tiers {
		objects = append(objects, revision(t, obj, number, tier))
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// decided returns what is decided for the existing objects, by namespace.
func decided(t *testing.T, cluster simulation.Cluster) map[string]string {
	t.Helper()
	s, err := simulation.New(t.Context(), cluster, simulation.Options{OwnNamespace: "berth-system"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for o, err := range s.Matched(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		verdicts, err := s.Verdicts(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		out[o.Namespace] = "unmatched"
		for _, v := range verdicts {
			out[o.Namespace] = v.Decision.Annotations["tier"]
			if v.Err != nil {
				out[o.Namespace] = v.Err.Error()
			}
		}
	}
	return out
}

// TestRollout checks that the version decides that the status of the policy assigns to the namespace.
func TestRollout(t *testing.T) {
	stored := map[int64]string{2: "gold", 3: "bronze"}
	const missing = "revision 2 of the policy is in force, and the namespace berth-system has no ControllerRevision "
	for name, tc := range map[string]struct {
		change func(*placementv1.PlacementPolicy)
		stored map[int64]string
		want   map[string]string
	}{
		"in the midst": {func(*placementv1.PlacementPolicy) {}, stored, map[string]string{"first": "silver", "rest": "gold"}},
		"before the first stage": {func(p *placementv1.PlacementPolicy) { p.Status.Rollout.Reached = new(int32(0)) }, stored,
			map[string]string{"first": "gold", "rest": "gold"}},
		"no version before": {func(p *placementv1.PlacementPolicy) { p.Status.Rollout.PreviousRevision = 0 }, stored,
			map[string]string{"first": "silver", "rest": "unmatched"}},
		"complete": {func(p *placementv1.PlacementPolicy) {
			p.Status.Rollout.State, p.Status.Rollout.PreviousRevision = placementv1.RolloutComplete, 0
		}, nil, map[string]string{"first": "silver", "rest": "silver"}},
		"rolled back":     {func(p *placementv1.PlacementPolicy) { p.Spec.Rollout.Revision = 3 }, stored, map[string]string{"first": "bronze", "rest": "bronze"}},
		"status is older": {func(p *placementv1.PlacementPolicy) { p.Spec.Priority = 5 }, stored, map[string]string{"first": "gold", "rest": "gold"}},
		"nothing was in force": {func(p *placementv1.PlacementPolicy) { p.Spec.Priority, p.Status.Rollout.PreviousRevision = 5, 0 }, stored,
			map[string]string{"first": "unmatched", "rest": "unmatched"}},
		"from a file":    {func(p *placementv1.PlacementPolicy) { p.Status.Rollout = nil }, nil, map[string]string{"first": "silver", "rest": "silver"}},
		"not stored":     {func(*placementv1.PlacementPolicy) {}, map[int64]string{3: "bronze"}, map[string]string{"first": "silver", "rest": missing}},
		"of another one": {func(p *placementv1.PlacementPolicy) { p.UID = "" }, nil, map[string]string{"first": "silver", "rest": missing}},
		"rolled back to nothing": {func(p *placementv1.PlacementPolicy) { p.Spec.Rollout.Revision = 2 }, nil,
			map[string]string{"first": missing, "rest": missing}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decided(t, stagedCluster(t, tc.change, tc.stored))
			for namespace, text := range got {
				if strings.HasPrefix(text, missing) {
					got[namespace] = missing
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
		})
	}
}

// refusing is a cluster that refuses to return ControllerRevisions.
type refusing struct {
	simulation.Cluster
	err error
}

func (r refusing) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	if resource.Resource == "controllerrevisions" {
		return nil, r.err
	}
	return r.Cluster.Get(ctx, resource, namespace, name)
}

// TestUnreadableRevision checks that a revision that may not be read is an error of the objects that it decides, and that
// another error is one of the cluster.
func TestUnreadableRevision(t *testing.T) {
	cluster := stagedCluster(t, func(*placementv1.PlacementPolicy) {}, nil)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, "x", errors.New("no"))
	got := decided(t, refusing{cluster, forbidden})
	if want := "ask for the right to get controllerrevisions.apps in the namespace berth-system"; got["first"] != "silver" || !strings.Contains(got["rest"], want) {
		t.Errorf("decided %q, want %q", got, want)
	}
	if _, err := simulation.New(t.Context(), refusing{cluster, errors.New("timeout")}, simulation.Options{OwnNamespace: "berth-system"}); err == nil {
		t.Error("no error, although the cluster could not be read")
	}
}

// TestSnapshotOfRollout checks that a snapshot in the midst of a rollout decides as the cluster did, also if it is redacted.
func TestSnapshotOfRollout(t *testing.T) {
	cluster := stagedCluster(t, func(*placementv1.PlacementPolicy) {}, map[int64]string{2: "gold", 3: "bronze"})
	s, err := simulation.New(t.Context(), cluster, simulation.Options{OwnNamespace: "berth-system"})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Snapshot(t.Context(), simulation.KubernetesDiscovery())
	if err != nil {
		t.Fatal(err)
	}
	s.Redact(snapshot)
	recorded, err := snapshot.Cluster(replication.Known())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decided(t, cluster), decided(t, recorded)); diff != "" {
		t.Errorf("decided (-cluster +snapshot):\n%s", diff)
	}
}

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

package deliverer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

// deploymentOf returns a Deployment.
func deploymentOf(t *testing.T, namespace, objectName string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: object(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: "+namespace+", name: "+objectName+"}}")}
}

// TestEvents checks which objects an event enqueues, and whether the watched types are computed again.
func TestEvents(t *testing.T) {
	r := newRecorder()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[delivery.Key]())
	defer queue.ShutDown()
	r.queue = queue
	web, api, other := deploymentOf(t, "default", "web"), deploymentOf(t, "default", "api"), deploymentOf(t, "other", "db")
	r.placed.Replace(deployments, nil, []*unstructured.Unstructured{web, api, other})
	r.delivered.Replace(policies, nil, []*unstructured.Unstructured{deliveredObject("web-1", "web", "1"), deliveredObject("gone-1", "gone", "1")})
	old := keyOf(web)
	old.Name = "old"
	r.Account.Record(old, []string{"deliver"}, delivery.Result{})
	drain := func() (names []string) {
		for queue.Len() > 0 {
			key, _ := queue.Get()
			names = append(names, key.Name)
			queue.Done(key)
		}
		slices.Sort(names)
		return names
	}
	drain()
	step := func(what, names string, rewatches bool, changed []string, f func()) {
		t.Helper()
		r.changed = nil
		f()
		if got := strings.Join(drain(), " "); got != names {
			t.Errorf("%s: enqueued %q, want %q", what, got, names)
		}
		select {
		case <-r.rewatch:
			if !rewatches {
				t.Errorf("%s: the watched types are computed again", what)
			}
		default:
			if rewatches {
				t.Errorf("%s: the watched types are not computed again", what)
			}
		}
		if diff := cmp.Diff(changed, r.changed); diff != "" {
			t.Errorf("%s: policies (-want +got):\n%s", what, diff)
		}
	}
	set := func(mode placementv1.Mode) func() {
		return func() {
			p := delivering(t, deployments, "")
			p.Mode = mode
			r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: p})
		}
	}
	step("a policy that is not enforced", "", false, nil, set(placementv1.ModeDryRun))
	step("the policy is enforced", "api db web", true, nil, set(placementv1.ModeEnforce))
	step("the policy changes", "api db web", true, nil, set(placementv1.ModeEnforce))
	step("the labels of a namespace change", "db", false, nil, func() { r.NamespaceChanged("other") })
	step("the served types change", "api db web", true, nil, r.servedChanged)
	// What was delivered for objects that are gone is deleted, and what was reported of them is forgotten.
	step("a type of placed objects is read", "api db gone old web", false, []string{"deliver"}, func() { r.placedWatchChanged(deployments) })
	step("a type of delivered objects is read", "api db gone web", false, nil, func() { r.systemWatchChanged(policies) })
	step("a system reports an object", "web", false, nil, func() {
		r.reports.Replace(resourceBindings, nil, []*unstructured.Unstructured{reporting(t, "default", "web-deployment", "Healthy")})
	})
	step("a system reports an object that is not placed", "", false, nil, func() {
		o := reporting(t, "default", "foreign-deployment", "Healthy")
		_ = unstructured.SetNestedField(o.Object, "foreign", "spec", "resource", "name")
		r.reports.Put(resourceBindings, o)
	})
	step("the policy is not enforced any more", "api db web", true, nil, set(placementv1.ModeWarn))
	step("the policy changes again", "", false, nil, set(placementv1.ModeDryRun))
}

// TestWanted checks which types are watched.
func TestWanted(t *testing.T) {
	workloads := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
	clusterPolicies := policies.GroupVersion().WithResource("clusterpropagationpolicies")
	fleet := schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: "resourceplacements"}
	unserved := schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: "placements"}
	served := catalog{deployments: "Deployment", policies: "PropagationPolicy", clusterPolicies: "ClusterPropagationPolicy", workloads: "Workload", fleet: "ResourcePlacement", resourceBindings: "ResourceBinding"}
	for what, tc := range map[string]struct {
		placed             schema.GroupVersionResource
		condition          string
		mode               placementv1.Mode
		before             func(*recorder)
		fields             *projection.FieldSet
		delivered, reports []schema.GroupVersionResource
	}{
		"a policy":            {placed: deployments, fields: placedFields, delivered: []schema.GroupVersionResource{clusterPolicies, policies}, reports: []schema.GroupVersionResource{resourceBindings}},
		"match conditions":    {placed: deployments, condition: "object.spec.paused == true", fields: projection.AllFields(), delivered: []schema.GroupVersionResource{clusterPolicies, policies}, reports: []schema.GroupVersionResource{resourceBindings}},
		"placement objects":   {placed: workloads, fields: nativeFields, reports: []schema.GroupVersionResource{resourceBindings}},
		"mode DryRun":         {placed: deployments, mode: placementv1.ModeDryRun},
		"an earlier leader":   {placed: deployments, mode: placementv1.ModeDryRun, before: func(r *recorder) { r.leftBehind[fleet] = true }, delivered: []schema.GroupVersionResource{fleet}},
		"a policy before":     {placed: deployments, mode: placementv1.ModeDryRun, before: func(r *recorder) { r.delivered.Put(policies, deliveredObject("web-1", "web", "1")) }, delivered: []schema.GroupVersionResource{policies}},
		"a type that is gone": {placed: deployments, mode: placementv1.ModeDryRun, before: func(r *recorder) { r.leftBehind[unserved] = true }},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRecorder()
			r.Catalog = served
			p := delivering(t, tc.placed, tc.condition)
			if tc.mode != "" {
				p.Mode = tc.mode
			}
			r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: p})
			if tc.before != nil {
				tc.before(r)
			}
			placed, delivered := r.wanted()
			if got, found := placed[tc.placed]; found != (tc.fields != nil) || found && (!got.Covers(tc.fields) || !tc.fields.Covers(got)) || found && len(placed) != 1 {
				t.Errorf("placed types %v", placed)
			}
			if diff := cmp.Diff(tc.delivered, sorted(delivered)); diff != "" {
				t.Errorf("delivered types (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.reports, sorted(r.reporting())); diff != "" {
				t.Errorf("types with reports (-want +got):\n%s", diff)
			}
		})
	}
}

// sorted returns the types, sorted.
func sorted(types map[schema.GroupVersionResource]*projection.FieldSet) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for resource := range types {
		out = append(out, resource)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// TestFindLeftBehind checks that a leader finds the types of objects that an earlier one delivered.
func TestFindLeftBehind(t *testing.T) {
	foreign := deliveredObject("foreign", "web", "1")
	foreign.SetLabels(nil)
	for what, tc := range map[string]struct {
		object     *unstructured.Unstructured
		err        error
		left       bool
		again, new bool
	}{
		"delivered":          {object: deliveredObject("web-1", "web", "1"), left: true},
		"of another client":  {object: foreign},
		"without permission": {err: apierrors.NewForbidden(policies.GroupResource(), "", errors.New("no grant")), new: true},
		"not answered":       {err: apierrors.NewTimeoutError("slow", 1), again: true, new: true},
	} {
		t.Run(what, func(t *testing.T) {
			var objects []*unstructured.Unstructured
			if tc.object != nil {
				objects = append(objects, tc.object)
			}
			r := newRecorder(objects...)
			r.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return tc.err != nil, nil, tc.err })
			if got := r.findLeftBehind(t.Context()); got != tc.again {
				t.Errorf("again is %t, want %t", got, tc.again)
			}
			if r.leftBehind[policies] != tc.left || r.unsearched[policies] != tc.new {
				t.Errorf("left behind %v, unsearched %v", r.leftBehind, r.unsearched)
			}
		})
	}
}

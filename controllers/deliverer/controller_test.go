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
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// TestMain removes the library's error handlers. They wait depending on the time of the last error, which may be in the
// future of a test with fake time.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

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
			if diff := cmp.Diff(tc.reports, sorted(r.servedOf(delivery.System.ReportKinds, reportFields))); diff != "" {
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

// TestStatesOfSystems checks what a policy reports, and that nothing is deleted, while a type of a system can't be read.
func TestStatesOfSystems(t *testing.T) {
	forbidden := func(resource schema.GroupVersionResource) error {
		return apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no grant"))
	}
	const role = "apply the ClusterRole berth-delivery-karmada"
	unknown := func(reason string) delivery.Run { return delivery.Run{State: delivery.RunUnknown, Reason: reason} }
	for what, tc := range map[string]struct {
		unserved schema.GroupVersionResource
		errs     map[schema.GroupVersionResource]error
		// unwatched reports whether the watches have not begun.
		unwatched                    bool
		reason, message              string
		pending, unobserved, delayed bool
		run                          delivery.Run
		runMessage                   string
	}{
		"all can be read": {run: delivery.Run{State: delivery.NotRunning}, runMessage: "Karmada has not reported anything about the object"},
		"delivered objects are not served": {
			unserved: policies, reason: placementv1.ReasonNotServed, message: "the API server does not serve propagationpolicies.policy.karmada.io: install Karmada", run: delivery.Run{State: delivery.NotRunning},
		},
		"delivered objects are forbidden": {
			errs: map[schema.GroupVersionResource]error{policies: forbidden(policies)}, reason: placementv1.ReasonForbidden, message: role, run: delivery.Run{State: delivery.NotRunning},
		},
		"delivered objects can't be read": {
			errs: map[schema.GroupVersionResource]error{policies: errors.New("broken")}, reason: placementv1.ReasonDeliveryFailed, message: "Berth can't read propagationpolicies.policy.karmada.io: ", run: delivery.Run{State: delivery.NotRunning},
		},
		"nothing has been read yet": {unwatched: true, pending: true, unobserved: true, run: delivery.Run{State: delivery.NotRunning}},
		"reports are not served":    {unserved: resourceBindings, run: unknown(placementv1.ReasonNotServed), runMessage: "the API server does not serve resourcebindings.work.karmada.io"},
		"reports are forbidden": {
			errs: map[schema.GroupVersionResource]error{resourceBindings: forbidden(resourceBindings)}, run: unknown(placementv1.ReasonForbidden), runMessage: role,
		},
		"Works are not served": {unserved: karmadaWorks, run: unknown(placementv1.ReasonNotServed), runMessage: "the API server does not serve works.work.karmada.io"},
		"Works are forbidden": {
			errs: map[schema.GroupVersionResource]error{karmadaWorks: forbidden(karmadaWorks)}, run: unknown(placementv1.ReasonForbidden), runMessage: role,
		},
		"reports can't be read": {
			errs: map[schema.GroupVersionResource]error{resourceBindings: errors.New("broken")}, delayed: true, run: unknown(placementv1.ReasonWatchFailed), runMessage: "Berth can't read resourcebindings.work.karmada.io",
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				served := catalog{deployments: "Deployment", policies: "PropagationPolicy", resourceBindings: "ResourceBinding", karmadaWorks: "Work"}
				delete(served, tc.unserved)
				r.Catalog = served
				answer(r, tc.errs)
				if !tc.unwatched {
					ctx, cancel := context.WithCancel(t.Context())
					defer synctest.Wait()
					defer cancel()
					for consumer, resource := range map[*watches.Consumer]schema.GroupVersionResource{r.deliveredWatches: policies, r.reportWatches: resourceBindings, r.workWatches: karmadaWorks} {
						if resource != tc.unserved {
							consumer.Set(ctx, map[schema.GroupVersionResource]*projection.FieldSet{resource: projection.AllFields()})
						}
					}
					// A single failure may be temporary. The clock is that of the bubble.
					notify.Sleep(ctx, time.Minute)
					synctest.Wait()
				}
				spec := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
				n := &need{existing: map[name]*unstructured.Unstructured{}, kept: map[schema.GroupVersionResource]bool{}}
				r.needIn(delivery.Route{System: delivery.Systems(spec)[0], Spec: spec}, deploymentOf(t, "default", "web"), delivery.Decision{Clusters: []string{"a"}}, n)
				var failure delivery.Failure
				if n.failure != nil {
					failure = *n.failure
				}
				if failure.Reason != tc.reason || !strings.Contains(failure.Message, tc.message) {
					t.Errorf("failure %+v, want %s: %s", failure, tc.reason, tc.message)
				}
				if keeps := tc.reason != "" || tc.pending; n.kept[policies] != keeps || (len(n.objects) == 0) != keeps {
					t.Errorf("kept types %v, objects %v", n.kept, n.objects)
				}
				if n.pending != tc.pending || n.unobserved != tc.unobserved || n.unreadable != tc.delayed {
					t.Errorf("pending %t, unobserved %t, unreadable %t", n.pending, n.unobserved, n.unreadable)
				}
				if n.run.State != tc.run.State || n.run.Reason != tc.run.Reason || !strings.Contains(n.run.Message, tc.runMessage) {
					t.Errorf("run %+v, want %+v: %s", n.run, tc.run, tc.runMessage)
				}
				// Until it is known whether there are delivered objects of a type, it is read.
				if _, delivered := r.wanted(); (delivered[policies] != nil) != (tc.errs[policies] != nil) {
					t.Errorf("delivered types %v", delivered)
				}
			})
		})
	}
}

// TestStatesOfOpenClusterManagement checks what is delivered and reported while its inventory, another one, or ManifestWorks can't be read.
func TestStatesOfOpenClusterManagement(t *testing.T) {
	spec := &placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}
	system := delivery.Systems(spec)[0]
	works := system.WorkKinds()[0].GroupVersionResource
	managed, profiles := replication.Known().Resources()[1], replication.Known().Resources()[0]
	forbidden := func(resource schema.GroupVersionResource) map[schema.GroupVersionResource]error {
		return map[schema.GroupVersionResource]error{resource: apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no grant"))}
	}
	for what, tc := range map[string]struct {
		unserved schema.GroupVersionResource
		errs     map[schema.GroupVersionResource]error
		clusters int64
		note     string
		run      delivery.Run
	}{
		"all can be read":                    {note: "Open Cluster Management does not get clusters that no inventory has: a"},
		"ManagedClusters are not served":     {unserved: managed, clusters: 1},
		"ManagedClusters are forbidden":      {errs: forbidden(managed), clusters: 1},
		"another inventory is forbidden":     {errs: forbidden(profiles), clusters: 1},
		"another inventory is not served":    {unserved: profiles, note: "Open Cluster Management does not get clusters that no inventory has: a"},
		"ManifestWorks are not served":       {unserved: works, note: "Open Cluster Management does not get clusters that no inventory has: a"},
		"ManifestWorks are forbidden":        {errs: forbidden(works), note: "Open Cluster Management does not get clusters that no inventory has: a"},
		"ManifestWorks and ManagedClusters ": {errs: map[schema.GroupVersionResource]error{works: forbidden(works)[works], managed: forbidden(managed)[managed]}, clusters: 1, run: delivery.Run{State: delivery.RunUnknown, Reason: placementv1.ReasonForbidden}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				served := catalog{deployments: "Deployment", managed: "ManagedCluster", profiles: "ClusterProfile", works: "ManifestWork"}
				for _, kind := range system.Kinds {
					served[kind.GroupVersionResource] = kind.Kind
				}
				delete(served, tc.unserved)
				r.Catalog = served
				answer(r, tc.errs)
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				for consumer, resources := range map[*watches.Consumer][]schema.GroupVersionResource{
					r.deliveredWatches: {system.Kinds[0].GroupVersionResource, system.Kinds[1].GroupVersionResource}, r.workWatches: {works}, r.clusterWatches: {managed, profiles},
				} {
					fields := map[schema.GroupVersionResource]*projection.FieldSet{}
					for _, resource := range resources {
						if resource != tc.unserved {
							fields[resource] = projection.AllFields()
						}
					}
					consumer.Set(ctx, fields)
				}
				// A single failure may be temporary. The clock is that of the bubble.
				notify.Sleep(ctx, time.Minute)
				synctest.Wait()
				n := &need{existing: map[name]*unstructured.Unstructured{}, kept: map[schema.GroupVersionResource]bool{}}
				r.needIn(delivery.Route{System: system, Spec: spec}, deploymentOf(t, "default", "web"), delivery.Decision{Clusters: []string{"a"}}, n)
				if len(n.objects) != 2 || n.pending || n.failure != nil {
					t.Fatalf("%d objects, pending %t, failure %+v", len(n.objects), n.pending, n.failure)
				}
				if got, _, _ := unstructured.NestedInt64(n.objects[1].Object.Object, "status", "numberOfSelectedClusters"); got != tc.clusters || n.note != tc.note {
					t.Errorf("%d clusters, note %q", got, n.note)
				}
				if n.run.State != tc.run.State || n.run.Reason != tc.run.Reason || n.run.Reason != "" && !strings.Contains(n.run.Message, system.ClusterRole) {
					t.Errorf("run %+v, want %+v", n.run, tc.run)
				}
			})
		})
	}
}

// answer answers each list and watch of a type with an error, or with no objects.
func answer(r *recorder, errs map[schema.GroupVersionResource]error) {
	r.client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := errs[action.GetResource()]
		return err != nil, nil, err
	})
	r.client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if err := errs[action.GetResource()]; err != nil {
			return true, nil, err
		}
		end := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		end.SetResourceVersion("1")
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		w := watch.NewFakeWithChanSize(1, false)
		w.Action(watch.Bookmark, end)
		return true, w, nil
	})
}

// deliveredWeb returns the Deployment web, which is placed in cluster a, and its PropagationPolicy.
func deliveredWeb(t *testing.T) (web, live *unstructured.Unstructured) {
	t.Helper()
	web = deploymentOf(t, "default", "web")
	web.SetUID("2")
	web.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["a"]`})
	web = decided(t, web)
	spec := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
	rendered, err := delivery.Systems(spec)[0].Render(delivery.ObjectOf(web), delivery.Decision{Clusters: []string{"a"}}, spec)
	if err != nil {
		t.Fatal(err)
	}
	return web, stored(rendered[0].Object)
}

// taken returns a placed object as Karmada has it when it follows a policy.
func taken(o, policy *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	annotations := out.GetAnnotations()
	annotations["propagationpolicy.karmada.io/namespace"], annotations["propagationpolicy.karmada.io/name"] = policy.GetNamespace(), policy.GetName()
	out.SetAnnotations(annotations)
	return out
}

// TestReconcile reconciles the Deployment web, for which the policy deliver decides the cluster a.
func TestReconcile(t *testing.T) {
	web, live := deliveredWeb(t)
	free, started := web.DeepCopy(), time.Unix(1_700_000_000, 0)
	live.SetCreationTimestamp(metav1.NewTime(started))
	old, doomed := live.DeepCopy(), live.DeepCopy()
	old.SetCreationTimestamp(metav1.NewTime(started.Add(-20 * time.Second)))
	doomed.SetDeletionTimestamp(new(metav1.NewTime(started)))
	elsewhere := live.DeepCopy()
	if err := unstructured.SetNestedStringSlice(elsewhere.Object, []string{"elsewhere"}, "spec", "placement", "clusterAffinity", "clusterNames"); err != nil {
		t.Fatal(err)
	}
	web = taken(web, live)
	key := keyOf(web)
	ends := web.DeepCopy()
	ends.SetDeletionTimestamp(new(metav1.Unix(1, 0)))
	applies, deletes := []string{"apply propagationpolicies " + live.GetName()}, []string{"delete propagationpolicies " + live.GetName()}
	for what, tc := range map[string]struct {
		// placed is the Deployment, if it exists, and live its PropagationPolicy.
		placed, live *unstructured.Unstructured
		// unread reports whether the Deployments have not been read, and unreported whether the reports of Karmada have not.
		unread, unreported bool
		refusal            error
		requests           []string
		fails              bool
		again              time.Duration
		failure            string
		// forgotten reports whether the object has no result.
		forgotten bool
		// incomplete reports whether the delivery is not complete, although nothing failed.
		incomplete bool
		settled    bool
	}{
		"a new object":                  {placed: web, requests: applies, settled: true, again: takingTimeout},
		"delivered":                     {placed: web, live: live, settled: true, again: takingTimeout},
		"not answered":                  {placed: web, refusal: apierrors.NewTimeoutError("slow", 1), requests: applies, fails: true, failure: placementv1.ReasonDeliveryFailed, settled: true},
		"without permission":            {placed: web, refusal: apierrors.NewForbidden(policies.GroupResource(), "", errors.New("no grant")), requests: applies, again: time.Minute, failure: placementv1.ReasonForbidden, settled: true},
		"before reports are read":       {placed: web, unreported: true, requests: applies},
		"in other clusters":             {placed: web, live: elsewhere, requests: applies, settled: true, again: takingTimeout},
		"moved before reports are read": {placed: web, live: elsewhere, unreported: true, incomplete: true},
		"being deleted":                 {placed: ends, forgotten: true, settled: true},
		"delivered for the first time":  {placed: free, requests: applies, settled: true, again: 20 * time.Second},
		"delivered, not followed":       {placed: free, live: live, settled: true, again: 20 * time.Second},
		"never followed":                {placed: free, live: old, settled: true, again: time.Minute, failure: placementv1.ReasonDeliveryFailed},
		"held by a finalizer":           {placed: web, live: doomed, incomplete: true, settled: true},
		"being deleted, both":           {placed: ends, live: doomed, forgotten: true, settled: true},
		"gone, held by a finalizer":     {live: doomed, forgotten: true, settled: true},
		"being deleted, delivered":      {placed: ends, live: live, forgotten: true, settled: true},
		"gone":                          {live: live, requests: deletes, forgotten: true, settled: true},
		"gone, not deleted":             {live: live, refusal: apierrors.NewTimeoutError("slow", 1), requests: deletes, fails: true, forgotten: true, settled: true},
		"perhaps gone":                  {live: live, unread: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				r.Catalog = catalog{deployments: "Deployment", policies: "PropagationPolicy", resourceBindings: "ResourceBinding", karmadaWorks: "Work"}
				answer(r, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				every := func(resource schema.GroupVersionResource) map[schema.GroupVersionResource]*projection.FieldSet {
					return map[schema.GroupVersionResource]*projection.FieldSet{resource: projection.AllFields()}
				}
				r.deliveredWatches.Set(ctx, every(policies))
				r.workWatches.Set(ctx, every(karmadaWorks))
				if !tc.unreported {
					r.reportWatches.Set(ctx, every(resourceBindings))
				}
				synctest.Wait()
				r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: delivering(t, deployments, "")})
				if tc.live != nil {
					r.delivered.Put(policies, tc.live)
				}
				if !tc.unread {
					var content []*unstructured.Unstructured
					if tc.placed != nil {
						content = append(content, tc.placed)
					}
					r.placed.Replace(deployments, placedFields, content)
				}
				r.contests.recordStatus(key, "before")
				r.Account.Record(key, []string{"before"}, delivery.Result{})
				r.changed = nil
				r.refuse = func(string, *unstructured.Unstructured) error { return tc.refusal }

				got, err := r.Reconcile(t.Context(), key)
				if (err != nil) != tc.fails || got.RequeueAfter != tc.again {
					t.Errorf("again in %s, error %v", got.RequeueAfter, err)
				}
				if diff := cmp.Diff(tc.requests, r.requests); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if tc.unread {
					if len(r.changed) > 0 || len(r.Account.Keys()) != 1 {
						t.Errorf("an object that may exist is forgotten: policies %v", r.changed)
					}
					return
				}
				report := r.Account.Report("deliver")
				if forgotten := report.Placed == 0; forgotten != tc.forgotten || r.Account.Report("before").Placed > 0 || !slices.Contains(r.changed, "before") || !forgotten && !slices.Contains(r.changed, "deliver") {
					t.Errorf("report %+v, policies %v", report, r.changed)
				}
				if failed := ""; !tc.forgotten {
					if report.FirstFailed != nil {
						failed = report.FirstFailed.Failure.Reason
					}
					if failed != tc.failure {
						t.Errorf("failure %q, want %q", failed, tc.failure)
					}
				}
				if complete := report.Delivered == report.Placed; complete == (tc.incomplete || tc.failure != "") {
					t.Errorf("delivered %d of %d", report.Delivered, report.Placed)
				}
				if settled := r.placed.isSettled(deployments); settled != tc.settled {
					t.Errorf("settled is %t, want %t", settled, tc.settled)
				}
				if _, known := r.contests.statuses[key]; known != (tc.placed != nil) {
					t.Errorf("the status of the object is known: %t", known)
				}
			})
		})
	}
}

// TestOrphans has a delivered object whose owner the garbage collector took away, while the watch of the placed objects may lag.
func TestOrphans(t *testing.T) {
	web, orphan := deliveredWeb(t)
	orphan.SetOwnerReferences(nil)
	ends, again := web.DeepCopy(), web.DeepCopy()
	ends.SetDeletionTimestamp(new(metav1.Unix(1, 0)))
	again.SetUID("3")
	for what, tc := range map[string]struct {
		inServer []*unstructured.Unstructured
		taken    bool
	}{
		"the object exists":               {[]*unstructured.Unstructured{web}, true},
		"the object is being deleted":     {inServer: []*unstructured.Unstructured{ends}},
		"the object was created again":    {inServer: []*unstructured.Unstructured{again}},
		"the object is gone":              {},
		"another object has another name": {inServer: []*unstructured.Unstructured{deploymentOf(t, "default", "api")}},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRecorder(tc.inServer...)
			r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: delivering(t, deployments, "")})
			r.delivered.Put(policies, orphan)
			r.placed.Replace(deployments, placedFields, []*unstructured.Unstructured{web})
			n := &need{existing: map[name]*unstructured.Unstructured{}}
			versions, _ := r.placed.get(keyOf(web))
			current, err := r.addOrphans(t.Context(), keyOf(web), versions[0], n)
			if err != nil || current != tc.taken || len(n.existing) > 0 != tc.taken {
				t.Errorf("current is %t, and %d objects exist, error %v", current, len(n.existing), err)
			}
		})
	}
}

// TestPrecedenceAmongVersions has two policies match an object in different versions of its type.
func TestPrecedenceAmongVersions(t *testing.T) {
	beta := schema.GroupVersionResource{Group: "apps", Version: "v1beta2", Resource: "deployments"}
	web := deploymentOf(t, "default", "web")
	web.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["a"]`})
	web = decided(t, web)
	for _, priority := range []int32{-1, 1} {
		r := newRecorder()
		low, high := delivering(t, deployments, ""), delivering(t, beta, "")
		high.Name, high.Priority, high.Delivery = "high", priority, &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{PropagateDependencies: true}}
		for _, p := range []*placement.Policy{low, high} {
			r.Registry.Set(p.Name, &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: p})
		}
		synctest.Test(t, func(t *testing.T) {
			answer(r, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer cancel()
			r.deliveredWatches.Set(ctx, map[schema.GroupVersionResource]*projection.FieldSet{policies: projection.AllFields()})
			synctest.Wait()
			n := &need{existing: map[name]*unstructured.Unstructured{}, kept: map[schema.GroupVersionResource]bool{}}
			versions := []placedVersion{{deployments, projection.AllFields(), web}, {beta, projection.AllFields(), web}}
			if read, err := r.needOf(t.Context(), versions, n); err != nil || !read || len(n.objects) != 1 {
				t.Fatalf("read %t, error %v, objects %v", read, err, n.objects)
			}
			if got, _, _ := unstructured.NestedBool(n.objects[0].Object.Object, "spec", "propagateDeps"); got != (priority > 0) {
				t.Errorf("with priority %d, the first policy's specification counts: %t", priority, !got)
			}
			if diff := cmp.Diff([]string{"deliver", "high"}, n.policies); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForeignObjectsThatAreGone checks that an object is reconciled when the object of another client is gone that had its name.
func TestForeignObjectsThatAreGone(t *testing.T) {
	foreign := rival(karmadaPolicy("a"))
	r := newRecorder(foreign)
	var woken []delivery.Key
	r.delivered.changed = func(keys ...delivery.Key) { woken = append(woken, keys...) }
	if err := r.converge(t.Context(), nil, &need{objects: []wanted{wantedPolicy(karmadaPolicy("a"))}, existing: map[name]*unstructured.Unstructured{}}); err != nil {
		t.Fatal(err)
	}
	r.delivered.Delete(policies, foreign.GetNamespace(), foreign.GetName())
	if len(woken) != 1 || woken[0].Name != "web" {
		t.Errorf("woken %v", woken)
	}
}

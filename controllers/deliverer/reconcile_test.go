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
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// recorder is an API server that records the requests of a controller, except for get.
type recorder struct {
	*Controller
	client   *dynamicfake.FakeDynamicClient
	requests []string
	// changed are the policies whose facts changed.
	changed []string
	// misplaced is the name of an object for which policies decide other clusters now than it has.
	misplaced string
	// decidedBy are the policies that have decided all objects since the start.
	decidedBy []string
	// refuse returns the error of a write; nil if the API server accepts it.
	refuse func(verb string, body *unstructured.Unstructured) error
}

// catalog serves some types. It has the kind of each one.
type catalog map[schema.GroupVersionResource]string

func (c catalog) Select(selects func(schema.GroupVersionResource) bool) []policy.Resource {
	var out []policy.Resource
	for resource := range c {
		if selects(resource) {
			out = append(out, policy.Resource{GroupVersionResource: resource, Namespaced: true})
		}
	}
	return out
}

func (c catalog) Kind(resource schema.GroupVersionResource) string { return c[resource] }

func (c catalog) Inventories() *replication.Inventories { return replication.Known() }

func (c catalog) Subscribe(func()) {}

// newRecorder returns a controller, and the API server with some objects.
func newRecorder(objects ...*unstructured.Unstructured) *recorder {
	var stored []runtime.Object
	for _, o := range objects {
		stored = append(stored, o)
	}
	lists := map[schema.GroupVersionResource]string{deployments: "DeploymentList", policies: "PropagationPolicyList", resourceBindings: "ResourceBindingList", karmadaWorks: "WorkList"}
	ocm := delivery.Systems(&placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}})[0]
	for _, kind := range slices.Concat(ocm.Kinds, ocm.WorkKinds()) {
		lists[kind.GroupVersionResource] = kind.Kind + "List"
	}
	for _, inventory := range replication.Known().Resources() {
		lists[inventory] = "List"
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, stored...)
	r := &recorder{refuse: func(string, *unstructured.Unstructured) error { return nil }, client: client}
	registry := placement.NewRegistry()
	r.Controller = New(Deps{
		Client: client, Watches: watches.NewHub(client), Registry: registry, Decider: &placement.Decider{Policies: registry, Namespaces: namespaces{}, Keyring: testKeyring()},
		Catalog: catalog{deployments: "Deployment", policies: "PropagationPolicy"}, Account: delivery.NewAccount(),
		Clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), Changed: func(name string) { r.changed = append(r.changed, name) },
		Misplaced: func(_ schema.GroupVersionResource, _, name string) bool { return r.misplaced == name },
		Undecided: func(policies []string, _, _ string, _ ...schema.GroupVersionResource) bool {
			return slices.ContainsFunc(policies, func(name string) bool { return !slices.Contains(r.decidedBy, name) })
		},
	})
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, body := action.(clienttesting.PatchActionImpl), &unstructured.Unstructured{}
		if err := json.Unmarshal(patch.Patch, &body.Object); err != nil {
			return true, nil, err
		}
		request := fmt.Sprintf("apply %s %s", strings.TrimSuffix(patch.Resource.Resource+"/"+patch.Subresource, "/"), patch.Name)
		if version := body.GetResourceVersion(); version != "" {
			request += " at " + version
		}
		if options := patch.PatchOptions; patch.PatchType != types.ApplyPatchType || options.FieldManager != FieldManager || options.Force == nil || !*options.Force {
			request += fmt.Sprintf(" as %s with %s, force %t", options.FieldManager, patch.PatchType, options.Force != nil && *options.Force)
		}
		r.requests = append(r.requests, request)
		body.SetResourceVersion("9")
		return true, body, r.refuse("apply", body)
	})
	client.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion := action.(clienttesting.DeleteActionImpl)
		request := "delete " + deletion.Resource.Resource + " " + deletion.Name
		if p := deletion.DeleteOptions.Preconditions; p == nil || p.UID == nil || *p.UID != "1" {
			request += " of any UID"
		}
		r.requests = append(r.requests, request)
		return true, nil, r.refuse("delete", nil)
	})
	return r
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// karmadaPolicy returns the PropagationPolicy of the Deployment web with some clusters, as Berth applies it.
func karmadaPolicy(clusters ...any) *unstructured.Unstructured {
	o := deliveredObject("web-1", "web", "")
	unstructured.RemoveNestedField(o.Object, "metadata", "uid")
	unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
	o.Object["spec"] = map[string]any{"clusters": clusters}
	return o
}

// stored returns an object as the API server stores what Berth applied.
func stored(applied *unstructured.Unstructured) *unstructured.Unstructured {
	body, status := split(delivery.Delivered{Object: applied, Kind: delivery.Kind{Status: applied.Object["status"] != nil}})
	if status != nil {
		body.Object["status"] = status.Object["status"]
	}
	body.SetUID("1")
	body.SetResourceVersion("5")
	return body
}

func wantedPolicy(o *unstructured.Unstructured) wanted {
	kind := delivery.Kind{GroupVersionResource: policies, Kind: "PropagationPolicy", Namespaced: true}
	return wanted{Delivered: delivery.Delivered{Kind: kind, Object: o}, system: delivery.AllSystems()[0]}
}

// rival returns an object that another client wrote last.
func rival(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	out.SetUID("7")
	out.SetLabels(nil)
	at := func(second int64) *metav1.Time { return new(metav1.Unix(second, 0)) }
	out.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "first", Time: at(1)}, {Manager: "rival", Time: at(3)}, {Manager: "second", Time: at(2)}})
	return out
}

// unlabeled returns an object without labels.
func unlabeled(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetLabels(nil)
	return o
}

// appliedByBerth returns an object that Berth applied before other clients wrote it.
func appliedByBerth(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetManagedFields(append(o.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: new(metav1.Unix(0, 0))}))
	return o
}

func TestConverge(t *testing.T) {
	ofAnother := karmadaPolicy("a")
	ofAnother.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "api", UID: "4"}})
	ends := stored(karmadaPolicy("a"))
	ends.SetDeletionTimestamp(new(metav1.Unix(1, 0)))
	alone := wantedPolicy(karmadaPolicy("a", "b"))
	alone.alone = &delivery.Delivered{Kind: alone.Kind, Object: karmadaPolicy("b")}
	bothRefused := func(_ string, body *unstructured.Unstructured) error {
		if clusters, _, _ := unstructured.NestedSlice(body.Object, "spec", "clusters"); len(clusters) > 1 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "PropagationPolicy"}, "web-1", nil)
		}
		return nil
	}
	always := func(err error) func(string, *unstructured.Unstructured) error {
		return func(string, *unstructured.Unstructured) error { return err }
	}
	once := func(err error) func(string, *unstructured.Unstructured) error {
		return func(string, *unstructured.Unstructured) error {
			defer func() { err = nil }()
			return err
		}
	}
	recreatable := func(o *unstructured.Unstructured) wanted {
		out := wantedPolicy(o)
		out.Recreatable = true
		return out
	}
	decisions := delivery.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: "placementdecisions"}, Kind: "PlacementDecision", Namespaced: true}
	resource := policies.GroupResource()
	for what, tc := range map[string]struct {
		// inServer and known are the objects that exist, and those of them that the controller knows.
		inServer, known []*unstructured.Unstructured
		wanted          []wanted
		kept            bool
		refuse          func(string, *unstructured.Unstructured) error
		requests        []string
		reason, message string
		fails           bool
	}{
		"a new object":             {wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, requests: []string{"apply propagationpolicies web-1"}},
		"nothing differs":          {known: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}},
		"not known yet":            {inServer: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}},
		"another decision":         {known: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, wanted: []wanted{wantedPolicy(karmadaPolicy("b"))}, requests: []string{"apply propagationpolicies web-1"}},
		"not needed any more":      {known: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, requests: []string{"delete propagationpolicies web-1"}},
		"not known whether needed": {known: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, kept: true},
		"being deleted":            {known: []*unstructured.Unstructured{ends}},
		"deleted by another": {
			known: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, refuse: always(apierrors.NewNotFound(resource, "web-1")), requests: []string{"delete propagationpolicies web-1"},
		},
		"replaced by another": {
			known: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, refuse: always(apierrors.NewConflict(resource, "web-1", errors.New("UID"))), requests: []string{"delete propagationpolicies web-1"},
		},
		"not deleted": {
			known: []*unstructured.Unstructured{stored(karmadaPolicy("a"))}, refuse: always(apierrors.NewTimeoutError("slow", 1)), requests: []string{"delete propagationpolicies web-1"}, fails: true,
		},
		"of another client": {
			inServer: []*unstructured.Unstructured{rival(karmadaPolicy("a"))}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))},
			reason: placementv1.ReasonForeignObject, message: "PropagationPolicy default/web-1 exists and was last written by rival",
		},
		"of which another client removed the label": {
			known: []*unstructured.Unstructured{unlabeled(stored(karmadaPolicy("a")))}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, requests: []string{"apply propagationpolicies web-1"},
		},
		"without the label since the controller did not run": {
			inServer: []*unstructured.Unstructured{appliedByBerth(rival(karmadaPolicy("theirs")))}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, requests: []string{"apply propagationpolicies web-1"},
		},
		"with an owner of another client since the controller did not run": {
			inServer: []*unstructured.Unstructured{appliedByBerth(stored(ofAnother))}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, requests: []string{"apply propagationpolicies web-1"},
		},
		"without the label, and not needed any more": {known: []*unstructured.Unstructured{unlabeled(stored(karmadaPolicy("a")))}},
		"delivered for another object": {
			inServer: []*unstructured.Unstructured{stored(ofAnother)}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, reason: placementv1.ReasonForeignObject,
		},
		"without permission": {
			wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, refuse: always(apierrors.NewForbidden(resource, "web-1", errors.New("no grant"))), requests: []string{"apply propagationpolicies web-1"},
			reason: placementv1.ReasonForbidden, message: "apply the ClusterRole berth-delivery-karmada",
		},
		"invalid, as a new object too": {
			known: []*unstructured.Unstructured{stored(karmadaPolicy("b"))}, wanted: []wanted{recreatable(karmadaPolicy("a"))}, refuse: always(apierrors.NewBadRequest("clusters")),
			requests: []string{"apply propagationpolicies web-1", "apply propagationpolicies web-1-check"}, reason: placementv1.ReasonDeliveryFailed, message: "clusters",
		},
		"invalid as a change alone": {
			known: []*unstructured.Unstructured{stored(karmadaPolicy("b"))}, wanted: []wanted{recreatable(karmadaPolicy("a"))}, refuse: once(apierrors.NewBadRequest("clusters")),
			requests: []string{"apply propagationpolicies web-1", "apply propagationpolicies web-1-check", "delete propagationpolicies web-1", "apply propagationpolicies web-1"},
		},
		"invalid as a change alone, and not to be deleted": {
			known: []*unstructured.Unstructured{stored(karmadaPolicy("b"))}, wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, refuse: once(apierrors.NewBadRequest("clusters")),
			requests: []string{"apply propagationpolicies web-1"}, reason: placementv1.ReasonDeliveryFailed, message: "clusters",
		},
		"invalid": {
			wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, refuse: always(apierrors.NewBadRequest("clusters")), requests: []string{"apply propagationpolicies web-1"},
			reason: placementv1.ReasonDeliveryFailed, message: "the API server refused PropagationPolicy default/web-1",
		},
		"not answered": {
			wanted: []wanted{wantedPolicy(karmadaPolicy("a"))}, refuse: always(apierrors.NewTimeoutError("slow", 1)), requests: []string{"apply propagationpolicies web-1"}, fails: true,
		},
		"refused with the kept cluster": {wanted: []wanted{alone}, refuse: bothRefused, requests: []string{"apply propagationpolicies web-1", "apply propagationpolicies web-1"}},
		"of Open Cluster Management": {
			known:    []*unstructured.Unstructured{stored(placementOf("PlacementDecision", "web-1-decision-1")), stored(placementOf("Placement", "web-1"))},
			requests: []string{"delete placements web-1"},
		},
		"of a Placement of another client": {known: []*unstructured.Unstructured{stored(placementOf("PlacementDecision", "web-decision-1"))}},
		"one list too many": {
			known:    []*unstructured.Unstructured{stored(placementOf("PlacementDecision", "web-1-decision-1")), stored(placementOf("PlacementDecision", "web-1-decision-2"))},
			wanted:   []wanted{{Delivered: delivery.Delivered{Kind: decisions, Object: placementOf("PlacementDecision", "web-1-decision-1")}}},
			requests: []string{"apply placementdecisions web-1-decision-1", "delete placementdecisions web-1-decision-2"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			server := append(tc.inServer, tc.known...)
			r := newRecorder(server...)
			if tc.refuse != nil {
				r.refuse = tc.refuse
			}
			n := &need{objects: tc.wanted, existing: map[name]*unstructured.Unstructured{}, kept: map[schema.GroupVersionResource]bool{policies: tc.kept}}
			for _, o := range tc.known {
				n.existing[idOf(o)] = o
			}
			if err := r.converge(t.Context(), nil, n); (err != nil) != tc.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.requests, r.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			// What the API server answers is known before the watch reports it, so nothing is written twice.
			if r.requests = nil; tc.refuse == nil && len(tc.wanted) > 0 && tc.reason == "" && len(tc.requests) > 0 {
				again := &need{objects: tc.wanted, existing: r.delivered.of(delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "default", Name: "web"})}
				if err := r.converge(t.Context(), nil, again); err != nil || len(r.requests) > 0 || len(r.client.Actions()) > 2 {
					t.Errorf("the second time: error %v, requests %v, %v", err, r.requests, r.client.Actions())
				}
			}
			var got delivery.Failure
			if n.failure != nil {
				got = *n.failure
			}
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("failure %+v, want %s: %s", got, tc.reason, tc.message)
			}
		})
	}
}

// idOf returns what identifies a delivered object of a test.
func idOf(o *unstructured.Unstructured) name {
	resource := policies
	if o.GetKind() != "PropagationPolicy" {
		resource = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: strings.ToLower(o.GetKind()) + "s"}
	}
	return name{resource, o.GetNamespace(), o.GetName()}
}

// placementOf returns an object that delivers to Open Cluster Management.
func placementOf(kind, objectName string) *unstructured.Unstructured {
	o := deliveredObject(objectName, "web", "")
	o.SetAPIVersion("cluster.open-cluster-management.io/v1beta1")
	o.SetKind(kind)
	o.Object["status"] = map[string]any{"numberOfSelectedClusters": int64(1)}
	return o
}

func TestStatusOfDeliveredObjects(t *testing.T) {
	kind := delivery.Kind{
		GroupVersionResource: schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: "placements"},
		Kind:                 "Placement", Namespaced: true, Status: true,
	}
	want := wanted{Delivered: delivery.Delivered{Kind: kind, Object: placementOf("Placement", "web-1")}}
	r := newRecorder()
	if err := r.converge(t.Context(), nil, &need{objects: []wanted{want}, existing: map[name]*unstructured.Unstructured{}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apply placements web-1", "apply placements/status web-1"}, r.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestContestedObjects has another client change an object back each time, and remove what Berth wrote in the status of another.
func TestContestedObjects(t *testing.T) {
	contested := func(f func(*need) (bool, error)) (writes int) {
		t.Helper()
		for range 10 {
			n := &need{existing: map[name]*unstructured.Unstructured{}}
			if _, err := f(n); err != nil {
				t.Fatal(err)
			}
			if n.failure != nil {
				if n.failure.Reason != placementv1.ReasonContested || n.retry != 8*time.Second {
					t.Errorf("failure %+v, again in %s", *n.failure, n.retry)
				}
				return writes
			}
			writes++
		}
		return writes
	}
	r, changed := newRecorder(), stored(karmadaPolicy("a"))
	changed.Object["spec"] = map[string]any{"clusters": []any{"theirs"}}
	if got := contested(func(n *need) (bool, error) {
		want := wantedPolicy(karmadaPolicy("a"))
		return r.apply(t.Context(), &want, changed, n)
	}); got != 4 || len(r.requests) != got {
		t.Errorf("the object is written %d times, requests %v", got, r.requests)
	}
	r = newRecorder()
	if got := contested(func(n *need) (bool, error) { return r.applyStatus(t.Context(), nominated(t), waiting(t), n) }); got != 5 || len(r.requests) != got {
		t.Errorf("the status is written %d times, requests %v", got, r.requests)
	}
}

// nominated is the status that Berth applies to waiting.
func nominated(t *testing.T) wanted {
	t.Helper()
	system, ok := delivery.NativeSystem(schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"})
	if !ok {
		t.Fatal("a Workload of Kueue has no system")
	}
	rendered, err := system.Render(delivery.ObjectOf(waiting(t)), delivery.Decision{Clusters: []string{"a"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wanted{Delivered: rendered[0], system: system}
}

// waiting is a Workload of Kueue that waits for MultiKueue.
func waiting(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: object(t, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: default, name: train, uid: "1", resourceVersion: "5"}
status: {conditions: [{type: QuotaReserved, status: "True"}], admissionChecks: [{name: multikueue, state: Pending}]}
`)}
}

func TestStatusOfPlacedObjects(t *testing.T) {
	workloads := schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}
	for what, tc := range map[string]struct {
		change   func(*unstructured.Unstructured)
		refusal  error
		requests []string
		fails    bool
		reason   string
		// misplaced reports whether policies decide other clusters now than the object has.
		misplaced bool
	}{
		"misplaced": {misplaced: true},
		"misplacedAndNominated": {
			change:    func(o *unstructured.Unstructured) { set(o, []any{"b"}, "status", "nominatedClusterNames") },
			misplaced: true, requests: []string{"apply workloads/status train at 5 as berth-delivery-withdrawal with application/apply-patch+yaml, force true"},
		},
		// The API server compares the resourceVersion, so that another object of the name does not get the status.
		"waits":     {requests: []string{"apply workloads/status train at 5"}},
		"nominated": {change: func(o *unstructured.Unstructured) { set(o, []any{"a"}, "status", "nominatedClusterNames") }},
		"chosen":    {change: func(o *unstructured.Unstructured) { set(o, "a", "status", "clusterName") }},
		"changed":   {refusal: apierrors.NewConflict(workloads, "train", errors.New("version")), requests: []string{"apply workloads/status train at 5"}},
		"gone":      {refusal: apierrors.NewNotFound(workloads, "train"), requests: []string{"apply workloads/status train at 5"}},
		"forbidden": {refusal: apierrors.NewForbidden(workloads, "train", errors.New("no grant")), requests: []string{"apply workloads/status train at 5"}, reason: placementv1.ReasonForbidden},
		"slow":      {refusal: apierrors.NewTimeoutError("slow", 1), requests: []string{"apply workloads/status train at 5"}, fails: true},
	} {
		t.Run(what, func(t *testing.T) {
			r, placed := newRecorder(), waiting(t)
			r.refuse = func(string, *unstructured.Unstructured) error { return tc.refusal }
			if tc.change != nil {
				tc.change(placed)
			}
			if tc.misplaced {
				r.misplaced = "train"
			}
			n := &need{existing: map[name]*unstructured.Unstructured{}, objects: []wanted{nominated(t)}, resources: []schema.GroupVersionResource{workloads.WithVersion("v1beta2")}}
			if err := r.converge(t.Context(), placed, n); (err != nil) != tc.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.requests, r.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if (n.failure != nil) != (tc.reason != "") || n.failure != nil && n.failure.Reason != tc.reason {
				t.Errorf("failure %+v, want %s", n.failure, tc.reason)
			}
			if again := r.again(n); tc.misplaced && len(tc.requests) == 0 && again != misplacedInterval {
				t.Errorf("reconciled again after %s", again)
			}
		})
	}
}

// TestNominationAwaitsDecisions checks that an object gets no status that lets clusters start it before the policies have decided it that
// look at existing objects, and that no other policy holds it back.
func TestNominationAwaitsDecisions(t *testing.T) {
	workloads := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
	looking := func(mode placementv1.RemediationMode, change ...func(*placement.Policy)) *placement.Policy {
		p := delivering(t, workloads, "")
		p.Name, p.Delivery, p.Remediation = strings.ToLower(string(mode)), nil, mode
		for _, change := range change {
			change(p)
		}
		return p
	}
	in := func(mode placementv1.Mode) func(*placement.Policy) {
		return func(p *placement.Policy) { p.Mode = mode }
	}
	others := func(p *placement.Policy) { p.Matcher = delivering(t, deployments, "").Matcher }
	never := func(p *placement.Policy) { p.Matcher = delivering(t, workloads, "false").Matcher }
	for what, tc := range map[string]struct {
		policies  []*placement.Policy
		decidedBy []string
		waits     bool
	}{
		"not decided":                  {policies: []*placement.Policy{looking(placementv1.RemediationAutomatic)}, waits: true},
		"not decided, and not patched": {policies: []*placement.Policy{looking(placementv1.RemediationManual)}, waits: true},
		"not decided, nor approved":    {policies: []*placement.Policy{looking(placementv1.RemediationApproved)}, waits: true},
		"decided":                      {policies: []*placement.Policy{looking(placementv1.RemediationAutomatic)}, decidedBy: []string{"automatic"}},
		"decided by one of two":        {policies: []*placement.Policy{looking(placementv1.RemediationAutomatic), looking(placementv1.RemediationManual)}, decidedBy: []string{"manual"}, waits: true},
		"off":                          {policies: []*placement.Policy{looking(placementv1.RemediationOff)}},
		"new objects alone":            {policies: []*placement.Policy{looking(placementv1.RemediationNewOnly)}},
		"decided, and off": {
			policies: []*placement.Policy{looking(placementv1.RemediationAutomatic), looking(placementv1.RemediationOff)}, decidedBy: []string{"automatic"},
		},
		"only warns":    {policies: []*placement.Policy{looking(placementv1.RemediationOff), looking(placementv1.RemediationAutomatic, in(placementv1.ModeWarn))}},
		"only counts":   {policies: []*placement.Policy{looking(placementv1.RemediationOff), looking(placementv1.RemediationAutomatic, in(placementv1.ModeDryRun))}},
		"another type":  {policies: []*placement.Policy{looking(placementv1.RemediationOff), looking(placementv1.RemediationAutomatic, others)}},
		"other objects": {policies: []*placement.Policy{looking(placementv1.RemediationOff), looking(placementv1.RemediationAutomatic, never)}},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRecorder()
			r.Catalog.(catalog)[workloads] = "Workload"
			r.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[delivery.Key]())
			defer r.queue.ShutDown()
			for _, p := range tc.policies {
				r.Registry.Set(p.Name, &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: p})
			}
			r.decidedBy = tc.decidedBy
			o := waiting(t)
			o.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["a"]`})
			o = decided(t, o)
			r.placed.Replace(workloads, projection.AllFields(), []*unstructured.Unstructured{o})
			reconciled := func() reconcile.Result {
				t.Helper()
				key, _ := r.queue.Get()
				got, err := r.Reconcile(t.Context(), key)
				if r.queue.Done(key); err != nil {
					t.Fatal(err)
				}
				return got
			}
			got := reconciled()
			if waits := len(r.requests) == 0; waits != tc.waits || waits && got.RequeueAfter != misplacedInterval {
				t.Errorf("requests %v, reconciled again after %s", r.requests, got.RequeueAfter)
			}
			r.decidedBy = []string{"automatic", "manual", "approved"}
			if !tc.waits {
				return
			}
			r.ObjectDecided(deployments, "default", "web")
			r.ObjectDecided(workloads, "default", "train")
			if r.queue.Len() != 1 {
				t.Fatalf("%d objects are queued by the decisions", r.queue.Len())
			}
			reconciled()
			if diff := cmp.Diff([]string{"apply workloads/status train at 5"}, r.requests); diff != "" {
				t.Errorf("requests after the decision (-want +got):\n%s", diff)
			}
		})
	}
}

func set(o *unstructured.Unstructured, value any, path ...string) {
	_ = unstructured.SetNestedField(o.Object, value, path...)
}

// delivering returns a version of a policy that delivers the Deployments, or the objects of another type, to Karmada.
func delivering(t *testing.T, resource schema.GroupVersionResource, condition string) *placement.Policy {
	t.Helper()
	m := placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{resource.Group}, APIVersions: []string{resource.Version}, Resources: []string{resource.Resource}}}}
	if condition != "" {
		m.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "specs", Expression: condition}}
	}
	matcher, errs := match.New(m, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &placement.Policy{
		Name: "deliver", Generation: 1, Mode: placementv1.ModeEnforce, Matcher: matcher, Delivery: &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}},
	}
}

// decides is a policy's decision on the clusters.
type decides struct{ clusters []string }

func (d decides) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	return placement.Decision{Clusters: d.clusters}, nil
}

func (decides) Revision() uint64 { return 1 }

func (decides) Input() *projection.FieldSet { return projection.AllFields() }

// decided returns the object as it is stored after a policy decided that its clusters are those that it has.
func decided(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	decision, _, err := delivery.DecisionOf(o)
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: o.GroupVersionKind().Group, Version: o.GroupVersionKind().Version, Resource: strings.ToLower(o.GetKind()) + "s"}
	p := delivering(t, resource, "")
	p.Evaluator = decides{decision.Clusters}
	registry := placement.NewRegistry()
	registry.Set(p.Name, &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: p})
	d := &placement.Decider{Policies: registry, Namespaces: namespaces{}, Keyring: testKeyring()}
	out, err := d.Decide(t.Context(), placement.Request{Resource: resource, Namespace: o.GetNamespace(), Object: o})
	if err != nil || out.Object == nil {
		t.Fatal(out, err)
	}
	return out.Object
}

func testKeyring() *placement.Keyring {
	out, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		panic(err)
	}
	return out
}

// TestNothingIsDeletedWhileTheNeedIsUnknown checks that what was delivered stays if it is not known what has to exist.
func TestNothingIsDeletedWhileTheNeedIsUnknown(t *testing.T) {
	for what, tc := range map[string]struct {
		clusters, condition string
		broken              bool
		undecided, kept     bool
		message             string
	}{
		"a policy that does not compile":  {clusters: `["a"]`, broken: true, kept: true, message: "whether PlacementPolicy deliver delivers the object, because the policy has no version that can decide (see its Ready condition)"},
		"a condition that fails":          {clusters: `["a"]`, condition: "object.spec.missing == 1", kept: true, message: "the policy's match conditions can't be evaluated for the object"},
		"an annotation that is no list":   {clusters: `a`, undecided: true, kept: true},
		"clusters of the developer":       {clusters: `["b"]`, undecided: true, kept: true},
		"an object without clusters":      {undecided: true, kept: true},
		"a condition that does not match": {clusters: `["a"]`, condition: "false"},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRecorder()
			r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Broken: tc.broken, Policy: delivering(t, deployments, tc.condition)})
			o := &unstructured.Unstructured{Object: object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: web, uid: "2"}, spec: {}}`)}
			if tc.clusters != "" {
				o.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: tc.clusters})
			}
			if tc.clusters != "" && !tc.undecided {
				o = decided(t, o)
			}
			live := stored(karmadaPolicy("a"))
			n := &need{existing: map[name]*unstructured.Unstructured{idOf(live): live}, kept: map[schema.GroupVersionResource]bool{}}
			read, err := r.needOf(t.Context(), []placedVersion{{deployments, projection.AllFields(), o}}, n)
			if err != nil || !read {
				t.Fatalf("read %t, error %v", read, err)
			}
			if err := r.converge(t.Context(), o, n); err != nil {
				t.Fatal(err)
			}
			if deleted := len(r.requests) == 1 && r.requests[0] == "delete propagationpolicies web-1"; deleted == tc.kept || tc.kept && len(r.requests) > 0 {
				t.Errorf("requests %v, kept %t", r.requests, tc.kept)
			}
			if (n.failure != nil) != (tc.message != "") || n.failure != nil && !strings.Contains(n.failure.Message, tc.message) {
				t.Errorf("failure %+v, want %s", n.failure, tc.message)
			}
		})
	}
}

// TestDeliveredObjectsAreNotDelivered has a policy match the PropagationPolicies that Berth delivers.
func TestDeliveredObjectsAreNotDelivered(t *testing.T) {
	r := newRecorder()
	r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Broken: true, Policy: delivering(t, policies, "")})
	for label, want := range map[string][]string{"true": nil, "false": {"deliver"}} {
		o := stored(karmadaPolicy("a"))
		o.SetLabels(map[string]string{placementv1.DeliveredLabel: label})
		o.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["a"]`})
		n := &need{kept: map[schema.GroupVersionResource]bool{}}
		if read, err := r.needOf(t.Context(), []placedVersion{{policies, projection.AllFields(), o}}, n); err != nil || !read {
			t.Fatalf("read %t, error %v", read, err)
		}
		if diff := cmp.Diff(want, n.policies); diff != "" {
			t.Errorf("label %s: policies (-want +got):\n%s", label, diff)
		}
	}
}

// TestIsGone checks that an object counts as gone only if that is certain.
func TestIsGone(t *testing.T) {
	web := delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "default", Name: "web"}
	other := web
	other.Kind = "StatefulSet"
	for what, tc := range map[string]struct {
		key      delivery.Key
		complete map[schema.GroupVersionResource]bool
		policy   bool
		want     bool
	}{
		"the type is complete":                   {web, map[schema.GroupVersionResource]bool{deployments: true}, true, true},
		"the type is not complete":               {web, nil, true, false},
		"no policy delivers the type":            {web, nil, false, true},
		"the API server does not serve the type": {other, nil, false, false},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRecorder()
			if tc.policy {
				r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: delivering(t, deployments, "")})
			}
			if got := r.isGone(tc.key, tc.complete); got != tc.want {
				t.Errorf("isGone returns %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAgain(t *testing.T) {
	c := newRecorder().Controller
	in := func(d time.Duration) wanted { return wanted{until: c.Clock.Now().Add(d)} }
	failed := &delivery.Failure{Reason: placementv1.ReasonForeignObject}
	for what, tc := range map[string]struct {
		need need
		want time.Duration
	}{
		"nothing":                  {need{objects: []wanted{{}}}, 0},
		"a failure":                {need{failure: failed, retry: time.Minute}, time.Minute},
		"a type that is read soon": {need{unreadable: true}, unreadableInterval},
		"the first end":            {need{objects: []wanted{in(time.Hour), {}, in(time.Minute), in(2 * time.Hour)}}, time.Minute},
		"an end before the retry":  {need{failure: failed, retry: time.Minute, objects: []wanted{in(30 * time.Second)}}, 30 * time.Second},
		"an end that has passed":   {need{objects: []wanted{in(-time.Hour)}}, time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			if got := c.again(&tc.need); got != tc.want {
				t.Errorf("again in %s, want %s", got, tc.want)
			}
		})
	}
}

// namespaces has namespaces without labels.
type namespaces struct{}

func (namespaces) Labels(context.Context, string) (map[string]string, error) { return nil, nil }

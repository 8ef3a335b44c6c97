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

package policystatus

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/status"
)

// queue records the requests that are added to it, with their delays.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	after map[string]time.Duration
}

func (q *queue) AddAfter(r reconcile.Request, d time.Duration) { q.after[r.Name] = d }

// TestWorldIsToldNowAndThen checks that the number of pods is updated once a minute, and only in the status of policies
// that evaluate predicates. Thousands of pods may come and go.
func TestWorldIsToldNowAndThen(t *testing.T) {
	registry, q := placement.NewRegistry(), &queue{after: map[string]time.Duration{}}
	c := New(Deps{Registry: registry})
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	set := func(name string, b *policy.Binding) {
		registry.Set(name, &placement.PolicyState{Policy: &placement.Policy{Name: name}, Binding: b})
	}
	set("asks", &policy.Binding{PredicateReads: map[schema.GroupVersionResource]*projection.FieldSet{nodes: projection.AllFields()}})
	set("reads", &policy.Binding{Resources: []policy.Resource{{GroupVersionResource: nodes}}})
	set("broken", nil)
	c.queue = q

	c.PredicateDataChanged()
	if diff := cmp.Diff(map[string]time.Duration{world.Name: predicateDelay}, q.after); diff != "" {
		t.Errorf("queued for a change (-want +got):\n%s", diff)
	}
	clear(q.after)
	if _, err := c.Reconcile(t.Context(), world); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]time.Duration{"asks": settle}, q.after); diff != "" {
		t.Errorf("queued a minute later (-want +got):\n%s", diff)
	}
	clear(q.after)
	c.PredicateStateChanged()
	if diff := cmp.Diff(map[string]time.Duration{"asks": settle}, q.after); diff != "" {
		t.Errorf("queued where the state of a read changed (-want +got):\n%s", diff)
	}
}

// noWebhooks knows no webhook.
type noWebhooks struct{}

func (noWebhooks) State(string) status.WebhookState { return status.WebhookState{} }

// silent emits no Events.
type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// TestDeletedPoliciesAreForgotten checks that the controller keeps nothing of a deleted policy, and that another policy
// of the same name starts with its own count of remediated objects.
func TestDeletedPoliciesAreForgotten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	policies := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&placementv1.PlacementPolicy{}).Build()
	c := New(Deps{
		Client: policies, Registry: placement.NewRegistry(), Ledger: remediation.NewLedger(), Scheduler: remediation.NewScheduler(remediation.Limits{}, remediation.NewLedger(), func(string) bool { return false }), Events: events.New(silent{}),
		Clock:    clock.RealClock{},
		Webhooks: noWebhooks{}, Remediator: assessed{},
	})
	reconcilePolicy := func() {
		t.Helper()
		if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "p"}}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(uid types.UID, remediated int64) *placementv1.PlacementPolicy {
		t.Helper()
		p := &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}}
		if err := policies.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.Status.Remediated = &remediated
		if err := policies.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		reconcilePolicy()
		return p
	}
	p := create("first", 3)
	c.nowhere["p"] = true
	if got := c.before["p"]; got != (remediatedBefore{uid: "first", count: 3}) {
		t.Errorf("known of the first policy: %+v", got)
	}
	if err := policies.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	// The deletion may be missed.
	p = create("second", 5)
	if got := c.before["p"]; got != (remediatedBefore{uid: "second", count: 5}) {
		t.Errorf("known of the second policy: %+v", got)
	}
	if err := policies.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	reconcilePolicy()
	if len(c.before) != 0 || len(c.nowhere) != 0 || len(c.writes) != 0 {
		t.Errorf("known of the deleted policies: %v, %v, %v", c.before, c.nowhere, c.writes)
	}
}

// TestWritesAreBounded checks that a status that changes all the time is written once in an interval, after a burst, and
// that the last change is written.
func TestWritesAreBounded(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p := &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}
	writes := 0
	policies := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(p).WithObjects(p).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(subresource).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := New(Deps{
		Client: policies, Registry: placement.NewRegistry(), Ledger: remediation.NewLedger(), Scheduler: remediation.NewScheduler(remediation.Limits{}, remediation.NewLedger(), func(string) bool { return false }), Events: events.New(silent{}),
		Clock:    now,
		Webhooks: noWebhooks{}, Remediator: assessed{},
	})
	const second = 60
	var requeued time.Duration
	for range second * 5 {
		if err := policies.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		p.Status = placementv1.PlacementPolicyStatus{}
		if err := policies.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		if err != nil {
			t.Fatal(err)
		}
		requeued = result.RequeueAfter
		now.SetTime(now.Now().Add(settle))
	}
	if want := writeBurst + second; writes < want-1 || writes > want {
		t.Errorf("%d writes of the status within a minute, want %d", writes, want)
	}
	if requeued == 0 {
		t.Error("the last change is not tried again")
	}
}

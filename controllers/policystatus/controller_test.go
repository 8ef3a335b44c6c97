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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
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

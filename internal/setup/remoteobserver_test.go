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

package setup

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

const opa = "https://opa.example:8181"

// notes records the Events of policies.
type notes []string

func (n *notes) Eventf(about, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	o := about.(client.Object)
	*n = append(*n, fmt.Sprintf("%s/%s %s %s: %s", o.GetName(), o.GetUID(), eventType, reason, fmt.Sprintf(note, args...)))
}

// TestHealthChanged checks that each transition emits an Event, and that another error of a failing engine emits none.
func TestHealthChanged(t *testing.T) {
	since := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	failing := func(fault engine.Fault, open bool) placement.RemoteHealth {
		return placement.RemoteHealth{Endpoint: opa, Queried: true, Since: since, BreakerOpen: open, Err: &engine.RemoteError{Endpoint: opa, Fault: fault, Err: errors.New(string(fault))}}
	}
	well := placement.RemoteHealth{Endpoint: opa, Queried: true}
	var got notes
	var changed []string
	recovered := 0
	topics := &topics{}
	topics.policyFacts.Subscribe(func(policy string) { changed = append(changed, policy) })
	topics.remoteRecovered.Subscribe(func(string) { recovered++ })
	o := &remoteObserver{
		reader: fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(&placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}).Build(),
		events: events.New(&got), topics: topics,
	}
	steps := []placement.RemoteHealth{
		{Endpoint: opa}, well, failing(engine.FaultTimeout, false), failing(engine.FaultNetwork, false), failing(engine.FaultTimeout, false),
		failing(engine.FaultCircuitOpen, true), failing(engine.FaultTimeout, false), failing(engine.FaultCircuitOpen, true), well, well,
		failing(engine.FaultCircuitOpen, true), well,
	}
	for i := range steps[1:] {
		o.HealthChanged("p", steps[i], steps[i+1])
		o.HealthChanged("gone", steps[i], steps[i+1])
	}
	const open = "p/u Warning RemoteEngineFailing: the circuit breaker of the engine is open, because requests kept failing: engine https://opa.example:8181: circuit_open (circuit_open)"
	const answers = "p/u Normal RemoteEngineRecovered: engine https://opa.example:8181 answers again; requests to it had failed since 2026-11-21T06:00:00Z"
	want := notes{"p/u Warning RemoteEngineFailing: engine https://opa.example:8181: timeout (timeout)", open, open, answers, open, answers}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(changed) != 2*(len(steps)-1) {
		t.Errorf("status is told of %d changes", len(changed))
	}
	if recovered != 4 {
		t.Errorf("told of %d recoveries", recovered)
	}
}

// distant is the evaluator of a policy with a remote engine.
type distant string

func (distant) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	return placement.Decision{}, nil
}
func (distant) Revision() uint64                 { return 1 }
func (distant) Input() *projection.FieldSet      { return projection.AllFields() }
func (d distant) Health() placement.RemoteHealth { return placement.RemoteHealth{Endpoint: string(d)} }

// TestEndpointsHaveSeries checks that an engine has metrics while it decides a policy, even if the policy's text
// changes.
func TestEndpointsHaveSeries(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	registry := placement.NewRegistry()
	registry.Subscribe((&endpointMetrics{metrics: m.Remote, used: map[string]int{}}).changed)
	set := func(name, endpoint string) {
		registry.Set(name, &placement.PolicyState{Policy: &placement.Policy{Name: name, Evaluator: distant(endpoint)}})
	}
	counted := func() float64 {
		t.Helper()
		m.Remote.Requested(opa, "", time.Millisecond)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "berth_remote_requests_total" {
				return f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return 0
	}
	steps := []struct {
		what string
		do   func()
		want float64
	}{
		{"no policy", func() {}, 0},
		{"one", func() { set("p", opa) }, 1},
		{"a new version of it", func() { set("p", opa) }, 2},
		{"another", func() { set("q", opa) }, 3},
		{"the first asks elsewhere", func() { set("p", "https://elsewhere.example") }, 4},
		{"the other is decided here", func() { registry.Set("q", &placement.PolicyState{Policy: &placement.Policy{Name: "q"}}) }, 0},
		{"and comes back", func() { set("q", opa) }, 1},
		{"and is deleted", func() { registry.Remove("q") }, 0},
	}
	for _, s := range steps {
		s.do()
		if got := counted(); got != s.want {
			t.Errorf("%s: counted are %v, want %v", s.what, got, s.want)
		}
	}
}

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

package replicator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/replicator"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
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

var (
	nodes    = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// apiServer has two objects of each type, and counts requests. It does not support streamed lists.
type apiServer struct {
	dynamic.Interface

	mu        sync.Mutex
	forbidden map[schema.GroupVersionResource]bool
	// down makes every request fail.
	down  bool
	asked map[string]int
	open  map[schema.GroupVersionResource]*watch.FakeWatcher
}

func (s *apiServer) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return &resource{server: s, resource: r}
}

// requests returns the number of requests since the last call, by type.
func (s *apiServer) requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = map[string]int{}
	return out
}

// watching returns the types with an open watch.
func (s *apiServer) watching() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for r, w := range s.open {
		if !w.IsStopped() {
			out[r.Resource] = true
		}
	}
	return out
}

func (s *apiServer) send(r schema.GroupVersionResource, o *unstructured.Unstructured) {
	s.mu.Lock()
	w := s.open[r]
	s.mu.Unlock()
	w.Modify(o)
}

func (s *apiServer) grant(r schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden[r] = false
}

type resource struct {
	dynamic.NamespaceableResourceInterface
	server   *apiServer
	resource schema.GroupVersionResource
}

func (r *resource) ask() error {
	r.server.asked[r.resource.Resource]++
	if r.server.down {
		return apierrors.NewInternalError(errors.New("down"))
	}
	if r.server.forbidden[r.resource] {
		return apierrors.NewForbidden(r.resource.GroupResource(), "", nil)
	}
	return nil
}

func (r *resource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if err := r.ask(); err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{}
	out.SetResourceVersion("1")
	for i := range 2 {
		out.Items = append(out.Items, *object(fmt.Sprintf("o-%d", i), "1"))
	}
	return out, nil
}

func (r *resource) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if err := r.ask(); err != nil {
		return nil, err
	}
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	}
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	r.server.open[r.resource] = w
	return w, nil
}

func object(name, label string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Any", "spec": map[string]any{"nodeName": "o-0"}, "status": map[string]any{},
	}}
	o.SetName(name)
	o.SetResourceVersion("2")
	o.SetLabels(map[string]string{"a": label})
	return o
}

// replica is a running controller with its stores.
type replica struct {
	*replicator.Controller
	t        *testing.T
	server   *apiServer
	registry *placement.Registry
	world    *predicates.NodeCache

	mu           sync.Mutex
	told, states map[string]int
}

func start(t *testing.T) *replica {
	t.Helper()
	r := &replica{
		t: t, registry: placement.NewRegistry(), world: predicates.NewNodeCache(),
		server: &apiServer{asked: map[string]int{}, forbidden: map[schema.GroupVersionResource]bool{}, open: map[schema.GroupVersionResource]*watch.FakeWatcher{}},
		told:   map[string]int{}, states: map[string]int{},
	}
	r.Controller = replicator.New(watches.NewHub(r.server), r.registry, embedded.NewData(), r.world, replication.Known())
	count := func(counts map[string]int) func(schema.GroupVersionResource) {
		return func(g schema.GroupVersionResource) {
			r.mu.Lock()
			defer r.mu.Unlock()
			counts[g.Resource]++
		}
	}
	r.SubscribePredicates(count(r.told), count(r.states))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// The watches end because their context ends.
		synctest.Wait()
	})
	return r
}

// changes returns how many changes of nodes and pods were reported since the last call, by type.
func (r *replica) changes() map[string]int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := maps.Clone(r.told)
	clear(r.told)
	return out
}

func (r *replica) set(name string, binding, next *policy.Binding) {
	r.registry.Set(name, &placement.PolicyState{Policy: &placement.Policy{Name: name}, Binding: binding, Next: slices.DeleteFunc([]*policy.Binding{next}, func(b *policy.Binding) bool { return b == nil })})
	synctest.Wait()
}

func (r *replica) expect(what string, want, got any) {
	r.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var (
	asking  = &policy.Binding{PredicateReads: predicates.Reads()}
	reading = &policy.Binding{Fields: map[schema.GroupVersionResource]*projection.FieldSet{services: projection.AllFields(), nodes: projection.AllFields()}}
)

// TestWorldIsReadWhileSomebodyAsks checks that types for predicates are read only while a policy evaluates predicates,
// or a waiting version does.
func TestWorldIsReadWhileSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.set("reads", &policy.Binding{Fields: map[schema.GroupVersionResource]*projection.FieldSet{services: projection.AllFields()}}, nil)
		r.expect("asked without predicates", map[string]int{"services": 3}, r.server.requests())
		if _, err := r.world.Snapshot(); err == nil {
			t.Error("the world is complete")
		}

		r.set("asks", asking, nil)
		r.set("asks-too", asking, nil)
		r.expect("asked for predicates", map[string]int{"nodes": 3, "pods": 3, "namespaces": 3}, r.server.requests())
		r.expect("told", map[string]int{"nodes": 1, "pods": 1, "namespaces": 1}, r.changes())
		if s, err := r.world.Snapshot(); err != nil || s.Len() != 2 {
			t.Errorf("snapshot of %v: %v", s, err)
		}

		r.registry.Remove("asks")
		synctest.Wait()
		r.set("asks-too", reading, asking)
		r.server.requests()
		r.expect("watched while one that waits asks", map[string]bool{"nodes": true, "pods": true, "namespaces": true, "services": true}, r.server.watching())

		r.registry.Remove("asks-too")
		synctest.Wait()
		r.expect("watched when the last is gone", map[string]bool{"services": true}, r.server.watching())
		r.expect("told", map[string]int{"nodes": 1, "pods": 1, "namespaces": 1}, r.changes())
		r.expect("asked", map[string]int{}, r.server.requests())
		if r.world.Revision() != 0 {
			t.Error("the world is still there")
		}
	})
}

// TestSettledForWhatIsKept checks that fields which an earlier policy left behind do not count as replicated for another policy before
// they are kept for it, because the type may be read again without them.
func TestSettledForWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		labels, annotations := servicesWith("labels"), servicesWith("annotations")
		r.set("p", labels, nil)
		r.set("q", annotations, nil)
		if !r.SettledFor(labels) || !r.SettledFor(annotations) {
			t.Error("the fields of policies in force are not complete")
		}
		r.registry.Remove("p")
		synctest.Wait()
		r.server.requests()
		if r.SettledFor(labels) || !r.SettledFor(annotations) || !r.Settled() {
			t.Error("fields that are left over count as replicated")
		}
		r.set("q", annotations, labels)
		if !r.SettledFor(labels) {
			t.Error("fields that are kept again do not count as replicated")
		}
		r.expect("requests for fields that are there", map[string]int{}, r.server.requests())
	})
}

// servicesWith is the binding of a policy that reads a field of the metadata of services.
func servicesWith(name string) *policy.Binding {
	fields := &projection.FieldSet{}
	fields.AddName("metadata").AddName(name)
	return &policy.Binding{Fields: map[schema.GroupVersionResource]*projection.FieldSet{services: fields.Seal()}}
}

// TestWorldChanges checks that changes of nodes and pods are reported only if fields that predicates read changed.
func TestWorldChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.set("asks", asking, nil)
		r.changes()
		heartbeat := object("o-1", "1")
		heartbeat.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "lastHeartbeatTime": "now"}}}
		r.server.send(nodes, heartbeat)
		r.expect("told of a heartbeat", map[string]int{}, r.changes())
		r.server.send(nodes, object("o-1", "2"))
		r.expect("told of a label", map[string]int{"nodes": 1}, r.changes())
	})
}

// TestSettled checks that a policy that evaluates predicates is settled when the data of the predicates is complete.
func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.server.forbidden[pods] = true
		// The server returns nothing before the first check.
		r.server.mu.Lock()
		r.registry.Set("asks", &placement.PolicyState{Policy: &placement.Policy{Name: "asks"}, Binding: asking})
		if r.Settled() || r.SettledFor(asking) {
			t.Error("settled before anything was read")
		}
		r.server.mu.Unlock()
		synctest.Wait()
		if !r.Settled() || !r.SettledFor(asking) {
			t.Error("not settled, though pods are forbidden")
		}
		if state, _ := r.PredicateState(pods, predicates.Reads()[pods]); state.Synced || !apierrors.IsForbidden(state.Err) {
			t.Errorf("state of pods: %+v", state)
		}
		fields := predicates.Reads()[nodes]
		if state, objects := r.PredicateState(nodes, fields); !state.Synced || objects != 2 {
			t.Errorf("state of nodes: %+v, %d objects", state, objects)
		}
		if state, _ := r.State(nodes, fields); state.Synced {
			t.Error("policies are said to have what only predicates have")
		}
		r.server.grant(pods)
		r.mu.Lock()
		clear(r.states)
		r.mu.Unlock()
		pass(t)
		if state, _ := r.PredicateState(pods, predicates.Reads()[pods]); !state.Synced {
			t.Errorf("state of pods once granted: %+v", state)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.expect("told of the state", map[string]int{"pods": 1}, r.states)
	})
}

// pass waits for a minute of fake time, in which everything is retried.
func pass(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}

// TestReplicas checks that a type that both policies and predicates read has two replicas.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.set("both", &policy.Binding{Fields: reading.Fields, PredicateReads: asking.PredicateReads}, nil)
		got := map[string]int{}
		for _, replica := range r.Replicas() {
			got[replica.Resource.String()] = replica.Objects
			if replica.Confirmed.IsZero() {
				t.Errorf("%s was never confirmed", replica.Resource)
			}
		}
		r.expect("objects", map[string]int{"services": 2, "nodes": 4, "pods": 2, "namespaces": 2}, got)
	})
}

// heldDecision is a decision that a policy evaluates until the test ends it. Then it checks that what the policy reads is replicated.
type heldDecision struct {
	*replica
	binding        *policy.Binding
	began, proceed chan struct{}
}

func (d *heldDecision) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	close(d.began)
	<-d.proceed
	if !d.SettledFor(d.binding) {
		return placement.Decision{}, &engine.NotReplicatedError{}
	}
	return placement.Decision{}, nil
}

func (*heldDecision) Revision() uint64 { return 1 }

func (*heldDecision) Input() *projection.FieldSet { return projection.AllFields() }

// decide begins a decision by a policy that reads what the binding says, and puts the policy in force for that. It returns the
// function that ends the decision.
func (r *replica) decide(name string, binding *policy.Binding) (end func()) {
	r.t.Helper()
	all, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"},
	}}}, field.NewPath("match"))
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err := errors.Join(errs.ToAggregate(), err); err != nil {
		r.t.Fatal(err)
	}
	d := &heldDecision{replica: r, binding: binding, began: make(chan struct{}), proceed: make(chan struct{})}
	r.registry.Set(name, &placement.PolicyState{Policy: &placement.Policy{Name: name, Matcher: all, Evaluator: d}, Binding: binding})
	synctest.Wait()
	decided := make(chan error)
	go func() {
		decider := &placement.Decider{Policies: r.registry, Keyring: keyring, Stale: r.Stale}
		out, err := decider.Decide(r.t.Context(), placement.Request{Resource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, Object: object("o", "1")})
		if err == nil {
			err = out.Verdicts[0].Err
		}
		decided <- err
	}()
	<-d.began
	return func() {
		r.t.Helper()
		close(d.proceed)
		if err := <-decided; err != nil {
			r.t.Errorf("undecidable: %v", err)
		}
		synctest.Wait()
	}
}

// TestDataOutlivesDecision checks that what a version reads remains until the last decision ends that began with it, although the
// policy is changed or removed meanwhile, and that it goes then.
func TestDataOutlivesDecision(t *testing.T) {
	first, second, third := servicesWith("labels"), servicesWith("annotations"), servicesWith("finalizers")
	all := map[string]bool{"nodes": true, "pods": true, "namespaces": true}
	tests := map[string]struct {
		binding *policy.Binding
		change  func(*replica)
		// during and after are the types that are watched during the decision, and afterwards.
		during, after map[string]bool
		// goes is no longer complete afterwards.
		goes *policy.Binding
	}{
		"Changed": {
			reading, func(r *replica) { r.set("p", asking, nil) },
			map[string]bool{"nodes": true, "pods": true, "namespaces": true, "services": true}, all, reading,
		},
		"Removed": {
			reading, func(r *replica) { r.registry.Remove("p") },
			map[string]bool{"nodes": true, "services": true}, map[string]bool{}, reading,
		},
		"OfPredicates": {
			asking, func(r *replica) { r.registry.Remove("p") }, all, map[string]bool{}, asking,
		},
		// The replica keeps fewer fields only when it has to read the type again for others.
		"OtherFields": {
			first,
			func(r *replica) {
				r.set("p", first, second)
				r.set("p", second, nil)
				r.set("p", second, third)
				r.set("p", third, nil)
			},
			map[string]bool{"services": true}, map[string]bool{"services": true}, nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				end := r.decide("p", tc.binding)
				tc.change(r)
				synctest.Wait()
				r.expect("watched during the decision", tc.during, r.server.watching())
				end()
				r.expect("watched after the decision", tc.after, r.server.watching())
				if tc.goes != nil && r.SettledFor(tc.goes) {
					t.Error("still complete")
				}
			})
		})
	}
}

// TestStaleDuringDecision checks that a decision by an earlier version fails for data that is older than that version allows, and for
// no data of the version in force.
func TestStaleDuringDecision(t *testing.T) {
	for name, tc := range map[string]struct {
		// earlier and inForce are the bounds of the versions.
		earlier, inForce time.Duration
		want             bool
	}{
		"OfEarlier": {20 * time.Second, time.Hour, true},
		"OfInForce": {time.Hour, 20 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				earlier, inForce := *reading, *reading
				earlier.MaxStaleness, inForce.MaxStaleness = tc.earlier, tc.inForce
				end := r.decide("p", &earlier)
				version := r.registry.Get("p").Policy
				r.set("p", &inForce, nil)
				r.server.mu.Lock()
				r.server.down = true
				r.server.mu.Unlock()
				pass(t)
				if err := r.Stale(version); (err != nil) != tc.want {
					t.Errorf("earlier version: %v", err)
				}
				if err := r.Stale(r.registry.Get("p").Policy); (err != nil) == tc.want {
					t.Errorf("version in force: %v", err)
				}
				// A version that came into force after the last check counts as the one in force before it.
				if err := r.Stale(&placement.Policy{Name: "p"}); (err != nil) == tc.want {
					t.Errorf("version after the check: %v", err)
				}
				end()
				r.registry.Remove("p")
				synctest.Wait()
			})
		})
	}
}

// TestStale checks that a watch without events is confirmed when it is reopened, and that data that the API server does
// not confirm is stale.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		strict, lax := *reading, *reading
		strict.MaxStaleness, lax.MaxStaleness = 20*time.Second, time.Hour
		r.set("strict", &strict, nil)
		r.set("lax", &lax, nil)
		stale := func(name string) error { return r.Stale(r.registry.Get(name).Policy) }
		for range 5 {
			pass(t)
			if err := stale("strict"); err != nil {
				t.Errorf("a quiet watch: %v", err)
			}
		}
		down := func(down bool) {
			r.server.mu.Lock()
			defer r.server.mu.Unlock()
			r.server.down = down
		}
		down(true)
		pass(t)
		var old *engine.StaleError
		if err := stale("strict"); !errors.As(err, &old) || old.Max != 20*time.Second {
			t.Errorf("nobody confirms: %v", err)
		}
		if err := stale("lax"); err != nil {
			t.Errorf("within the bound: %v", err)
		}
		if err := r.Stale(&placement.Policy{Name: "strict"}); err == nil {
			t.Error("the next version is not as old as the one before")
		}
		down(false)
		pass(t)
		if err := stale("strict"); err != nil {
			t.Errorf("confirmed again: %v", err)
		}
		for _, name := range []string{"strict", "lax"} {
			r.registry.Remove(name)
		}
	})
}

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

package enginepusher_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"

	"github.com/berth-dev/berth/controllers/enginepusher"
	berthengine "github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

var (
	nodes    = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	services = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, Namespaced: true}
	settings = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}
)

// engine accepts all writes, stores the last manifest, and returns it.
type engine struct {
	mu       sync.Mutex
	manifest any
	requests []string
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/v1/data/berth/holdings":
		_ = json.NewDecoder(r.Body).Decode(&e.manifest)
	case r.Method == http.MethodPatch:
		var operations []struct {
			Path  string
			Value any
		}
		_ = json.NewDecoder(r.Body).Decode(&operations)
		for _, o := range operations {
			switch {
			case o.Path == "/berth/holdings":
				e.manifest = o.Value
			case o.Path == "/berth/holdings/turn" && e.manifest == nil:
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"code": "resource_not_found"}`))
				return
			case o.Path == "/berth/holdings/turn":
				e.manifest.(map[string]any)["turn"] = o.Value
			}
		}
	case r.Method == http.MethodGet && r.URL.Path == "/v1/data/berth/holdings":
		_ = json.NewEncoder(w).Encode(map[string]any{"result": e.manifest})
		return
	case r.URL.Path == "/v1/policies":
		_, _ = w.Write([]byte(`{"result": []}`))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func bindingAt(t *testing.T, address string, types ...policy.Resource) *policy.Binding {
	t.Helper()
	base, err := url.Parse(address + "/")
	if err != nil {
		t.Fatal(err)
	}
	r := &policy.Remote{Document: base.JoinPath("v1/data/p"), Base: base}
	for _, resource := range types {
		r.Spec.Replicate = append(r.Spec.Replicate, replicated(resource))
	}
	return &policy.Binding{Remote: r, PushedTypes: types}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatal(what)
		case <-tick.C:
		}
	}
}

// observer ignores all notifications.
type observer struct{}

func (observer) Pushed(string, berthengine.Fault) {}
func (observer) Loading(string)                   {}
func (observer) Pending(string, int)              {}
func (observer) Released(string)                  {}

// TestController checks that what policies need is read and pushed to their engines while this replica is the leader
// and knows all policies.
func TestController(t *testing.T) {
	before := goleak.IgnoreCurrent()
	opa := &engine{}
	server := httptest.NewServer(opa)
	scheme := runtime.NewScheme()
	node := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n"}}}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{
		nodes.GroupVersionResource: "NodeList", services.GroupVersionResource: "ServiceList", settings.GroupVersionResource: "ConfigMapList",
	}, node)
	// The fake client does not support streamed lists.
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if w, ok := a.(clienttesting.WatchActionImpl); ok && w.ListOptions.SendInitialEvents != nil {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
		}
		return false, nil, nil
	})
	registry := placement.NewRegistry()
	var loaded atomic.Bool
	c := enginepusher.New(enginepusher.Deps{
		Watches: watches.NewHub(client), Registry: registry, Clients: opaclient.NewPool(opaclient.Options{}), Inventories: replication.Known(),
		Loaded: func(context.Context) bool { return loaded.Load() }, ContentChanged: func(...string) {}, Observer: observer{},
	})
	var notified sync.Map
	c.Subscribe(func(policy string) { notified.Store(policy, true) })
	set := func(name string, b, next *policy.Binding) {
		registry.Set(name, &placement.PolicyState{Policy: &placement.Policy{Name: name}, Binding: b, Next: slices.DeleteFunc([]*policy.Binding{next}, func(b *policy.Binding) bool { return b == nil })})
	}
	set("a", bindingAt(t, server.URL, nodes), nil)
	if state, _ := c.State("a", nodes.GroupVersionResource); state.Synced || c.Failure("a") != nil {
		t.Error("who does not lead knows something")
	}

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()
	loaded.Store(true)
	synced := func(name string, r policy.Resource) func() bool {
		return func() bool {
			state, _ := c.State(name, r.GroupVersionResource)
			return state.Synced
		}
	}
	eventually(t, "nodes are not brought to the engine", synced("a", nodes))
	if _, objects := c.State("a", nodes.GroupVersionResource); objects != 1 {
		t.Errorf("%d objects", objects)
	}
	if _, ok := notified.Load("a"); !ok {
		t.Error("nobody was told")
	}
	if synced("a", services)() {
		t.Error("what nobody wants is synced")
	}
	// Data for a version that waits is pushed, too.
	set("a", bindingAt(t, server.URL, nodes), bindingAt(t, server.URL, nodes, services))
	eventually(t, "services are not brought to the engine", synced("a", services))
	// What a version reads that decides no more stays until the decisions end that began with it.
	has := func(types ...string) bool {
		opa.mu.Lock()
		defer opa.mu.Unlock()
		listed, _ := opa.manifest.(map[string]any)["types"].(map[string]any)
		return slices.Equal(types, slices.Sorted(maps.Keys(listed)))
	}
	_, end := registry.Begin()
	set("a", bindingAt(t, server.URL, services), nil)
	set("b", bindingAt(t, server.URL, settings), nil)
	eventually(t, "the engine does not have what the policies need", synced("b", settings))
	if !has("/v1/configmaps", "/v1/nodes", "/v1/services") {
		t.Error("nodes are gone before the end of a decision that reads them")
	}
	end()
	eventually(t, "nodes are still there", func() bool { return has("/v1/configmaps", "/v1/services") })

	server.CloseClientConnections()
	server.Config.Handler = http.NotFoundHandler()
	eventually(t, "no failure is told", func() bool {
		err := c.Failure("a")
		return err != nil && strings.Contains(err.Error(), server.URL)
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	server.Close()
	goleak.VerifyNone(t, before)
}

func replicated(r policy.Resource) placementv1.ReplicatedResource {
	return placementv1.ReplicatedResource{APIGroup: r.Group, Resource: r.Resource}
}

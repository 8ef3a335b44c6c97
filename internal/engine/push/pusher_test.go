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

package push

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
)

var (
	ofPods      = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}
	ofNodes     = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	ofEvents    = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "events"}, Namespaced: true}
	ofNewEvents = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, Namespaced: true}
	ofQuotas    = policy.Resource{GroupVersionResource: placementv1.GroupVersion.WithResource("scopedquotas"), Namespaced: true}
	ofProfiles  = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}, Namespaced: true}
	ofManaged   = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}}
	allTypes    = []policy.Resource{ofPods, ofNodes, ofEvents, ofNewEvents, ofQuotas, ofProfiles, ofManaged}
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pusherFixture is a Pusher together with the objects that are passed to it.
type pusherFixture struct {
	t       testing.TB
	clients *opaclient.Pool
	stop    func()
	pusher  *Pusher

	mu sync.Mutex
	// world are the objects as they were passed. known are the types that are available.
	world map[schema.GroupVersionResource]map[objectKey]*unstructured.Unstructured
	known map[schema.GroupVersionResource]bool
	// past are all contents that a type ever had, as documents.
	past map[schema.GroupVersionResource]map[string]bool
	// content counts the calls of Options.ContentChanged by policy.
	content map[string]int
	// stateChanged is called once, at the next call of Options.StateChanged; nil for nothing.
	stateChanged atomic.Pointer[func()]
	pending      int
	pushed       map[engine.Fault]int
	ctx          context.Context
}

func keep(t testing.TB, dial dialer) *pusherFixture {
	clients := opaclient.NewPool(opaclient.Options{UserAgent: "test", Dial: dial})
	k := &pusherFixture{
		t: t, clients: clients,
		world: map[schema.GroupVersionResource]map[objectKey]*unstructured.Unstructured{}, known: map[schema.GroupVersionResource]bool{},
		past: map[schema.GroupVersionResource]map[string]bool{}, content: map[string]int{}, pushed: map[engine.Fault]int{},
	}
	k.lead()
	// Hold the client, so that the garbage collector, which runs outside of the bubble, does not close connections in
	// memory.
	client, err := clients.Client(needsWith("any", nil).Remote)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.stop()
		client.CloseIdleConnections()
	})
	return k
}

// lead makes another replica the leader.
func (k *pusherFixture) lead() {
	if k.stop != nil {
		k.stop()
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.t.Context()))
	k.ctx = ctx
	k.pusher = New(Options{Clients: k.clients, Inventories: replication.Known(), Observer: k, ContentChanged: func(policies ...string) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, p := range policies {
			k.content[p]++
		}
	}, StateChanged: func(...string) {
		if f := k.stateChanged.Swap(nil); f != nil {
			(*f)()
		}
	}})
	pusher := k.pusher
	k.stop = sync.OnceFunc(func() {
		cancel()
		pusher.Wait()
	})
}

func (k *pusherFixture) Pushed(_ string, f engine.Fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pushed[f]++
}
func (k *pusherFixture) Loading(string)  {}
func (k *pusherFixture) Released(string) {}
func (k *pusherFixture) Pending(_ string, changes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = changes
}

func (k *pusherFixture) setNeeds(all ...PolicyNeeds) { k.pusher.Set(k.ctx, all) }

func prepared(r policy.Resource, o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	replication.Known().Prepare(r.GroupVersionResource, out)
	return out
}

// remember records the current content of a type in past. It must be called before the content is passed to the pusher.
func (k *pusherFixture) remember(r policy.Resource) {
	if k.past[r.GroupVersionResource] == nil {
		k.past[r.GroupVersionResource] = map[string]bool{}
	}
	k.past[r.GroupVersionResource][sorted(k.content0(r, false))] = true
}

// content0 returns the content of a type, or of its normal forms, as policies must see it.
func (k *pusherFixture) content0(r policy.Resource, normal bool) map[string]any {
	out := map[string]any{}
	for key, o := range k.world[r.GroupVersionResource] {
		document, other := replication.Parts(prepared(r, o).Object)
		if normal {
			document = other
		}
		if key.namespace == "" {
			out[key.name] = document
			continue
		}
		if out[key.namespace] == nil {
			out[key.namespace] = map[string]any{}
		}
		out[key.namespace].(map[string]any)[key.name] = document
	}
	return out
}

// replace sets the complete content of a type.
func (k *pusherFixture) replace(r policy.Resource, objects ...*unstructured.Unstructured) {
	k.mu.Lock()
	k.world[r.GroupVersionResource], k.known[r.GroupVersionResource] = map[objectKey]*unstructured.Unstructured{}, true
	var all []*unstructured.Unstructured
	for _, o := range objects {
		k.world[r.GroupVersionResource][keyOfObject(o)] = o
		all = append(all, prepared(r, o))
	}
	k.remember(r)
	k.mu.Unlock()
	k.pusher.Replace(r.GroupVersionResource, nil, all)
}

// reread passes the current content of a type to the pusher, which may be a new one.
func (k *pusherFixture) reread(r policy.Resource) {
	k.replace(r, slices.Collect(maps.Values(k.world[r.GroupVersionResource]))...)
}

func (k *pusherFixture) put(r policy.Resource, o *unstructured.Unstructured) {
	k.mu.Lock()
	k.world[r.GroupVersionResource][keyOfObject(o)] = o
	k.remember(r)
	k.mu.Unlock()
	k.pusher.Put(r.GroupVersionResource, prepared(r, o))
}

func (k *pusherFixture) delete(r policy.Resource, key objectKey) {
	k.mu.Lock()
	delete(k.world[r.GroupVersionResource], key)
	k.remember(r)
	k.mu.Unlock()
	k.pusher.Delete(r.GroupVersionResource, key.namespace, key.name)
}

func (k *pusherFixture) drop(r policy.Resource) {
	k.mu.Lock()
	delete(k.known, r.GroupVersionResource)
	delete(k.world, r.GroupVersionResource)
	k.mu.Unlock()
	k.pusher.Drop(r.GroupVersionResource)
}

// wantedDocument computes the document that an engine must have.
func (k *pusherFixture) wantedDocument(all ...PolicyNeeds) map[string]any {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]any{}
	put := func(document any, path ...string) {
		at := out
		for _, name := range path[:len(path)-1] {
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		at[path[len(path)-1]] = document
	}
	types := map[policy.Resource]bool{}
	plurals := map[string]int{}
	for _, w := range all {
		for _, r := range w.Types {
			if !types[r] {
				plurals[r.Resource]++
			}
			types[r] = true
		}
	}
	clusters := false
	for r := range types {
		if !k.known[r.GroupVersionResource] {
			continue
		}
		put(k.content0(r, false), "resources", r.GroupVersion().String(), r.Resource)
		if plurals[r.Resource] == 1 {
			put(k.content0(r, false), "kubernetes", r.Resource)
		}
		if r == ofQuotas {
			put(k.content0(r, true), "berth", "quotas")
		}
		clusters = clusters || r == ofProfiles || r == ofManaged
	}
	if clusters {
		put(map[string]any{}, "clusters")
		put(map[string]any{}, "berth", "ambiguousclusters")
	}
	documents, texts := map[string]any{}, map[string][]string{}
	for _, r := range []policy.Resource{ofManaged, ofProfiles} {
		if !types[r] {
			continue
		}
		for key, o := range k.world[r.GroupVersionResource] {
			_, documents[key.name] = replication.Parts(prepared(r, o).Object)
			texts[key.name] = append(texts[key.name], replication.Claim{Resource: r.GroupResource(), Namespace: key.namespace, Name: key.name}.String())
		}
	}
	for name, document := range documents {
		if len(texts[name]) == 1 {
			put(document, "clusters", name)
			continue
		}
		put(slices.Sorted(slices.Values(texts[name])), "berth", "ambiguousclusters", name)
	}
	return out
}

// tidy returns an engine's document without the manifest and without empty parents.
func tidy(document any) map[string]any {
	out, _ := document.(map[string]any)
	if berth, ok := out["berth"].(map[string]any); ok {
		delete(berth, "holdings")
	}
	resources, _ := out["resources"].(map[string]any)
	maps.DeleteFunc(resources, func(_ string, v any) bool { return len(v.(map[string]any)) == 0 })
	for _, name := range []string{"berth", "resources", "kubernetes"} {
		if at, ok := out[name].(map[string]any); ok && len(at) == 0 {
			delete(out, name)
		}
	}
	return out
}

func expectDocument(t *testing.T, want map[string]any, got any) {
	t.Helper()
	var wanted map[string]any
	if err := json.Unmarshal(toJSON(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, tidy(got)); diff != "" {
		t.Errorf("the engine has something else (-want +got):\n%s", diff)
	}
}

func expect(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func thing(namespace, name, value string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Any", "value": value}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// needsWith returns the needs of a policy, with modules by their texts.
func needsWith(name string, types []policy.Resource, modules ...string) PolicyNeeds {
	base := &url.URL{Scheme: "http", Host: "opa.example", Path: "/"}
	out := PolicyNeeds{Policy: name, Types: types, Remote: &policy.Remote{
		Policy: name, Document: base.JoinPath("v1/data/p"), Base: base, ModulesDigest: strings.Join(modules, "|"),
	}}
	for i, rego := range modules {
		// A text may start with the name of its module.
		module, body, ok := strings.Cut(rego, ": ")
		if !ok {
			module, body = fmt.Sprintf("m%d", i), rego
		}
		out.Remote.Modules = append(out.Remote.Modules, policy.RemoteModule{ID: policy.ModulePrefix + name + "/" + module, Text: body})
	}
	return out
}

// settle lets everything happen that is due within a duration.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestPusherLoadsAndFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a, b := needsWith("a", []policy.Resource{ofPods, ofQuotas}), needsWith("b", []policy.Resource{ofNodes})
		k.setNeeds(a, b)
		k.replace(ofPods, thing("x", "p", "1"), thing("x", "q", "1"), thing("y", "p", "1"))
		k.replace(ofNodes, thing("", "n", "1"))
		k.replace(ofQuotas, thing("x", "q", "1"))
		settle(time.Second)
		expectDocument(t, k.wantedDocument(a, b), api.document())
		for _, r := range []policy.Resource{ofPods, ofQuotas} {
			if complete, objects := k.pusher.Complete("a", r.GroupVersionResource); !complete || objects == 0 {
				t.Errorf("%s: %v, %d objects", r.Resource, complete, objects)
			}
		}
		expect(t, "told after loads", map[string]int{"a": 2, "b": 1}, k.content)

		api.sent()
		clear(k.content)
		k.put(ofPods, thing("x", "p", "2"))
		k.put(ofPods, thing("z", "new", "1"))
		k.put(ofNodes, thing("", "with/slash~and%percent", "1"))
		k.delete(ofPods, objectKey{"y", "p"})
		k.delete(ofPods, objectKey{"x", "q"})
		// An object that did not change is not sent.
		k.put(ofNodes, thing("", "n", "1"))
		settle(500 * time.Millisecond)
		expectDocument(t, k.wantedDocument(a, b), api.document())
		expect(t, "requests", []string{"PATCH /v1/data"}, api.sent())
		expect(t, "told after changes", map[string]int{"a": 1, "b": 1}, k.content)

		// Nothing is written while nothing changes.
		settle(time.Minute)
		expect(t, "requests", []string(nil), api.sent())
	})
}

// TestPusherNoticesLoss verifies that an engine that lost everything, or a part, gets a full load within seconds.
func TestPusherNoticesLoss(t *testing.T) {
	losses := map[string]func(*dataAPI){
		"Restarted":     (*dataAPI).restart,
		"DataReplaced":  func(a *dataAPI) { a.mu.Lock(); a.data = map[string]any{}; a.mu.Unlock() },
		"HoldingsGone":  func(a *dataAPI) { a.mu.Lock(); delete(a.data["berth"].(map[string]any), "holdings"); a.mu.Unlock() },
		"ModuleGone":    func(a *dataAPI) { a.mu.Lock(); clear(a.policies); a.mu.Unlock() },
		"ModuleChanged": func(a *dataAPI) { a.mu.Lock(); a.policies["placement.berth.dev/a/m0"] = "other"; a.mu.Unlock() },
		"OtherLoad": func(a *dataAPI) {
			a.mu.Lock()
			a.data["berth"].(map[string]any)["holdings"].(map[string]any)["load"] = "x"
			a.mu.Unlock()
		},
	}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newDataAPI(t)
				k := keep(t, api.serve(t))
				a := needsWith("a", []policy.Resource{ofPods}, "def f")
				k.setNeeds(a)
				k.replace(ofPods, thing("x", "p", "1"))
				settle(time.Second)
				load := api.document("berth", "holdings", "load")
				lose(api)
				settle(3 * time.Second)
				expectDocument(t, k.wantedDocument(a), api.document())
				expect(t, "modules", map[string]string{"placement.berth.dev/a/m0": "def f"}, api.policies)
				if api.document("berth", "holdings", "load") == load {
					t.Error("nobody can tell that something was missing")
				}
			})
		})
	}

	t.Run("PathMissing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := newDataAPI(t)
			k := keep(t, api.serve(t))
			a := needsWith("a", []policy.Resource{ofPods})
			k.setNeeds(a)
			k.replace(ofPods, thing("x", "p", "1"))
			settle(time.Second)
			load := api.document("berth", "holdings", "load")
			api.mu.Lock()
			delete(api.data, "kubernetes")
			api.mu.Unlock()
			k.put(ofPods, thing("x", "p", "2"))
			settle(3 * time.Second)
			expectDocument(t, k.wantedDocument(a), api.document())
			if api.document("berth", "holdings", "load") == load {
				t.Error("nobody can tell that something was missing")
			}
		})
	})
}

// TestPusherDistrustsManifest verifies that a type whose objects were lost is not listed until it is loaded again, even
// if taking the engine over fails meanwhile.
func TestPusherDistrustsManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a := needsWith("a", []policy.Resource{ofPods}, "def f")
		k.setNeeds(a)
		k.replace(ofPods, thing("x", "p", "1"))
		settle(time.Second)
		load := api.document("berth", "holdings", "load")
		api.mu.Lock()
		delete(api.data, "kubernetes")
		delete(api.data, "resources")
		refused := 0
		api.disturb = func(method, path string) disturbance {
			if method == http.MethodGet && path == "/v1/policies" {
				if refused++; refused <= 3 {
					return disturbance{status: http.StatusBadRequest}
				}
			}
			return disturbance{}
		}
		api.changed = func() {
			next, _ := get(api.data, []string{"berth", "holdings", "load"})
			listed, _ := get(api.data, []string{"berth", "holdings", "types", "/v1/pods"})
			if _, there := get(api.data, []string{"kubernetes", "pods"}); listed == true && !there && next != load {
				t.Error("a new manifest lists what was lost")
			}
		}
		api.mu.Unlock()
		settle(time.Minute)
		if refused <= 3 {
			t.Errorf("the engine was taken over %d times", refused)
		}
		expectDocument(t, k.wantedDocument(a), api.document())
		expect(t, "types", map[string]any{"/v1/pods": true}, api.document("berth", "holdings", "types"))
	})
}

// TestPusherNamesakes verifies that of two types with the same plural name neither uses the bare plural name, whichever
// came first.
func TestPusherNamesakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a, b := needsWith("a", []policy.Resource{ofEvents}), needsWith("b", []policy.Resource{ofNewEvents})
		k.replace(ofEvents, thing("x", "old", "1"))
		k.replace(ofNewEvents, thing("x", "new", "1"))
		for _, all := range [][]PolicyNeeds{{a}, {a, b}, {b}, {a, b}, {a}} {
			k.setNeeds(all...)
			settle(time.Second)
			expectDocument(t, k.wantedDocument(all...), api.document())
			if got := api.document("kubernetes", "events"); (got == nil) != (len(all) == 2) {
				t.Errorf("for %d types there is %v", len(all), got)
			}
		}
	})
}

// TestPusherClusters verifies that a name of a cluster that several objects have is ambiguous, until one object has it.
func TestPusherClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a, b := needsWith("a", []policy.Resource{ofManaged}), needsWith("b", []policy.Resource{ofProfiles})
		k.replace(ofManaged, thing("", "c", "1"), thing("", "d", "1"))
		k.replace(ofProfiles, thing("y", "c", "1"), thing("x", "c", "1"))
		source := func(name string) string {
			source, _ := api.document("clusters", name, "source").(string)
			namespace, _ := api.document("clusters", name, "namespace").(string)
			return source + " " + namespace
		}
		const inManaged, inProfiles = "managedclusters.cluster.open-cluster-management.io ", "clusterprofiles.multicluster.x-k8s.io "
		steps := []struct {
			does func()
			c, d string
		}{
			{func() { k.setNeeds(a) }, inManaged, inManaged},
			{func() { k.setNeeds(a, b) }, " ", inManaged},
			{func() { k.delete(ofProfiles, objectKey{"x", "c"}) }, " ", inManaged},
			{func() { k.delete(ofProfiles, objectKey{"y", "c"}) }, inManaged, inManaged},
			{func() { k.put(ofProfiles, thing("z", "d", "1")) }, inManaged, " "},
			{func() { k.setNeeds(a) }, inManaged, inManaged},
			{func() { k.setNeeds(b) }, " ", inProfiles + "z"},
		}
		for i, step := range steps {
			step.does()
			settle(time.Second)
			if source("c") != step.c || source("d") != step.d {
				t.Errorf("step %d: c is of %q and d of %q, want %q and %q", i, source("c"), source("d"), step.c, step.d)
			}
			if i == 1 {
				expectDocument(t, k.wantedDocument(a, b), api.document())
			}
		}
		expectDocument(t, k.wantedDocument(b), api.document())
	})
}

// TestPusherLeaves verifies that nothing remains of a policy that was deleted, and that documents and modules of others
// are not changed.
func TestPusherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		api.data = map[string]any{"kubernetes": map[string]any{"others": "x"}, "mine": "y"}
		api.policies = map[string]string{"mine": "def mine", "placement.berth.dev/old/m": "def old"}
		k := keep(t, api.serve(t))
		a, b := needsWith("a", []policy.Resource{ofPods, ofManaged}, "def f"), needsWith("b", []policy.Resource{ofPods}, "def g")
		k.replace(ofPods, thing("x", "p", "1"))
		k.replace(ofManaged, thing("", "c", "1"))
		k.setNeeds(a, b)
		settle(time.Second)
		expect(t, "modules", map[string]string{"mine": "def mine", "placement.berth.dev/a/m0": "def f", "placement.berth.dev/b/m0": "def g"}, api.policies)
		k.setNeeds(b)
		settle(time.Second)
		expect(t, "modules", map[string]string{"mine": "def mine", "placement.berth.dev/b/m0": "def g"}, api.policies)
		want := k.wantedDocument(b)
		want["mine"], want["kubernetes"].(map[string]any)["others"] = "y", "x"
		expectDocument(t, want, api.document())
		k.setNeeds()
		settle(time.Second)
		expect(t, "modules", map[string]string{"mine": "def mine"}, api.policies)
		expectDocument(t, map[string]any{"kubernetes": map[string]any{"others": "x"}, "mine": "y"}, api.document())
		if got := api.document("berth", "holdings"); got != nil {
			t.Errorf("holdings are left: %v", got)
		}
		api.sent()
		settle(time.Minute)
		expect(t, "requests", []string(nil), api.sent())
		// A policy that returns causes a full load.
		k.setNeeds(a)
		settle(time.Second)
		expect(t, "modules", map[string]string{"mine": "def mine", "placement.berth.dev/a/m0": "def f"}, api.policies)
	})
}

// TestPusherLeavesAnew verifies that an engine that was needed again and then released once more gets as much time to
// be emptied as the first time.
func TestPusherLeavesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a := needsWith("a", nil, "def f")
		failing := func(yes bool) {
			api.mu.Lock()
			defer api.mu.Unlock()
			api.disturb = nil
			if yes {
				api.disturb = func(string, string) disturbance { return disturbance{status: http.StatusInternalServerError} }
			}
		}
		k.setNeeds(a)
		settle(2 * time.Second)
		failing(true)
		k.setNeeds()
		settle(500 * time.Millisecond)
		failing(false)
		k.setNeeds(a)
		settle(2 * emptyingTimeout)
		failing(true)
		k.setNeeds()
		settle(2 * time.Second)
		failing(false)
		settle(emptyingTimeout)
		expect(t, "modules", map[string]string{}, api.policies)
		if got := api.document("berth", "holdings"); got != nil {
			t.Errorf("holdings are left: %v", got)
		}
	})
}

// TestPusherReturns verifies that an engine gets a full load if a policy needs it again at the moment when Berth gives up
// emptying it, so that a change that could not be sent until then is there too.
func TestPusherReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a := needsWith("a", []policy.Resource{ofPods})
		k.setNeeds(a)
		k.replace(ofPods, thing("x", "p", "1"))
		settle(time.Second)
		status := http.StatusInternalServerError
		api.mu.Lock()
		api.disturb = func(method, _ string) disturbance {
			if method == http.MethodPatch {
				return disturbance{status: status}
			}
			return disturbance{}
		}
		api.mu.Unlock()
		k.put(ofPods, thing("x", "p", "2"))
		settle(500 * time.Millisecond)
		k.setNeeds()
		settle(emptyingTimeout)
		api.mu.Lock()
		status = http.StatusBadGateway
		api.mu.Unlock()
		// The writer reports another error right before it gives up.
		again := func() {
			api.mu.Lock()
			api.disturb = nil
			api.mu.Unlock()
			k.setNeeds(a)
		}
		k.stateChanged.Store(&again)
		settle(time.Minute)
		if k.stateChanged.Load() != nil {
			t.Error("no other error was reported")
		}
		expectDocument(t, k.wantedDocument(a), api.document())
	})
}

// TestPusherDrops verifies that the manifest no longer lists a type that can't be read any more.
func TestPusherDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a := needsWith("a", []policy.Resource{ofPods, ofNodes})
		k.setNeeds(a)
		k.replace(ofPods, thing("x", "p", "1"))
		k.replace(ofNodes, thing("", "n", "1"))
		settle(time.Second)
		k.drop(ofNodes)
		settle(time.Second)
		expect(t, "types", map[string]any{"/v1/pods": true}, api.document("berth", "holdings", "types"))
		expectDocument(t, k.wantedDocument(a), api.document())
		if complete, _ := k.pusher.Complete("a", ofNodes.GroupVersionResource); complete {
			t.Error("what is not there is said to be held")
		}
		k.replace(ofNodes, thing("", "n", "2"))
		settle(time.Second)
		expectDocument(t, k.wantedDocument(a), api.document())
	})
}

func TestPusherModules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		texts := func() map[string]string {
			api.mu.Lock()
			defer api.mu.Unlock()
			out := map[string]string{}
			for id, text := range api.policies {
				out[strings.TrimPrefix(id, policy.ModulePrefix)] = text
			}
			return out
		}
		claimed := func(p string) any { return api.document("berth", "holdings", "modules", p) }

		// A module that calls functions of another one comes before it, and before the module of another policy.
		first := needsWith("a", nil, "call f", "def f call g")
		k.setNeeds(first, needsWith("b", nil, "def g"))
		settle(time.Second)
		expect(t, "modules", map[string]string{"a/m0": "call f", "a/m1": "def f call g", "b/m0": "def g"}, texts())
		expect(t, "claim", any(map[string]any{"digest": first.Remote.ModulesDigest}), claimed("a"))

		// An unchanged module is not sent again, and the manifest lists the older digest as superseded.
		api.sent()
		second := needsWith("a", nil, "call f and f", "def f call g")
		k.setNeeds(second, needsWith("b", nil, "def g"))
		settle(500 * time.Millisecond)
		expect(t, "requests", []string{"PATCH /v1/data", "PUT /v1/policies/placement.berth.dev/a/m0", "PATCH /v1/data"}, api.sent())
		expect(t, "claim", any(map[string]any{"digest": second.Remote.ModulesDigest, "superseded": []any{first.Remote.ModulesDigest}}), claimed("a"))

		// Modules that conflict with each other are all deleted and then put again.
		third := needsWith("a", nil, "def f call g", "call f and f")
		k.setNeeds(third, needsWith("b", nil, "def g"))
		settle(time.Second)
		expect(t, "modules", map[string]string{"a/m0": "def f call g", "a/m1": "call f and f", "b/m0": "def g"}, texts())
		if err := k.pusher.Failure("a"); err != nil {
			t.Error(err)
		}

		// The manifest does not list modules that the engine rejects, whatever modules the policy had before. It lists those
		// of other policies.
		k.setNeeds(needsWith("a", nil, "bad"), needsWith("b", nil, "def g"))
		settle(time.Second)
		if err := k.pusher.Failure("a"); err == nil || !strings.Contains(err.Error(), "module m0") || !strings.Contains(err.Error(), "invalid_parameter") {
			t.Errorf("failure: %v", err)
		}
		if err := k.pusher.Failure("b"); err != nil {
			t.Errorf("the other policy's failure: %v", err)
		}
		if claimed("a") != nil || claimed("b") == nil {
			t.Errorf("claimed of a: %v, of b: %v", claimed("a"), claimed("b"))
		}
		api.sent()
		settle(20 * time.Second)
		expect(t, "requests while it is refused", []string(nil), api.sent())
		settle(20 * time.Second)
		if got := api.sent(); count(got, "PUT /v1/policies") == 0 {
			t.Errorf("it is not tried again: %v", got)
		}
		k.setNeeds(third, needsWith("b", nil, "def g"))
		settle(time.Second)
		if err := k.pusher.Failure("a"); err != nil || claimed("a") == nil {
			t.Errorf("failure: %v, claimed %v", err, claimed("a"))
		}

		// The failure ends if the policy has no modules any more.
		k.setNeeds(needsWith("a", nil, "bad"))
		settle(time.Second)
		if err := k.pusher.Failure("a"); err == nil {
			t.Error("no failure")
		}
		k.setNeeds(needsWith("a", nil))
		settle(time.Second)
		if err := k.pusher.Failure("a"); err != nil {
			t.Errorf("failure without modules: %v", err)
		}
	})
}

// TestPusherKeepsModulesWhileNextWaits verifies that the modules of a version in force remain while a version without modules waits for its
// data.
func TestPusherKeepsModulesWhileNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		k.replace(ofNodes, thing("", "a", "1"))
		inForce, next := needsWith("p", nil, "def f"), needsWith("p", []policy.Resource{ofNodes})
		for _, step := range []struct {
			needs   []PolicyNeeds
			modules any
			types   any
		}{
			{[]PolicyNeeds{inForce}, map[string]any{"p": map[string]any{"digest": "def f"}}, nil},
			{[]PolicyNeeds{inForce, next}, map[string]any{"p": map[string]any{"digest": "def f"}}, map[string]any{"/v1/nodes": true}},
			{[]PolicyNeeds{next}, nil, map[string]any{"/v1/nodes": true}},
		} {
			k.setNeeds(step.needs...)
			settle(time.Second)
			expect(t, "modules", step.modules, api.document("berth", "holdings", "modules"))
			expect(t, "types", step.types, api.document("berth", "holdings", "types"))
		}
	})
}

// TestPusherModulesLeftBehind verifies that the manifest does not list a policy's modules while the engine refuses to
// remove an older one of the policy.
func TestPusherModulesLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		k.setNeeds(needsWith("a", nil, "x", "def f"))
		settle(time.Second)
		api.mu.Lock()
		api.policies["mine"] = "call f"
		api.mu.Unlock()
		// The second modules are put before Berth tries again to remove the old one.
		for _, text := range []string{"x", "y"} {
			k.setNeeds(needsWith("a", nil, text))
			settle(time.Second)
			if err := k.pusher.Failure("a"); err == nil || !strings.Contains(err.Error(), "module m1: the module can't be removed from the engine") {
				t.Errorf("failure with module %s: %v", text, err)
			}
			if got := api.document("berth", "holdings", "modules", "a"); got != nil {
				t.Errorf("claimed with module %s: %v", text, got)
			}
		}
		api.mu.Lock()
		delete(api.policies, "mine")
		api.mu.Unlock()
		settle(2 * refusedRetryInterval)
		if err := k.pusher.Failure("a"); err != nil || api.document("berth", "holdings", "modules", "a") == nil {
			t.Errorf("it stays unclaimed: %v", err)
		}
	})
}

// TestPusherIsHeldBack verifies that pushes respect Retry-After, and that only the last state of objects that changed
// meanwhile is sent.
func TestPusherIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a := needsWith("a", []policy.Resource{ofPods})
		k.setNeeds(a)
		k.replace(ofPods, thing("x", "p", "1"))
		settle(1200 * time.Millisecond)
		api.sent()
		api.mu.Lock()
		api.disturb = func(string, string) disturbance {
			return disturbance{status: http.StatusServiceUnavailable, retryAfter: "20"}
		}
		api.mu.Unlock()
		settle(1500 * time.Millisecond)
		for i := range 100 {
			k.put(ofPods, thing("x", "p", fmt.Sprint(i)))
			k.put(ofPods, thing("x", fmt.Sprintf("q-%d", i), "1"))
		}
		settle(15 * time.Second)
		expect(t, "requests", []string(nil), api.sent())
		if err := k.pusher.Failure("a"); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("failure: %v", err)
		}
		expect(t, "pending", 101, k.pending)
		api.mu.Lock()
		api.disturb = nil
		api.mu.Unlock()
		settle(10 * time.Second)
		expect(t, "requests", []string{"PATCH /v1/data"}, api.sent())
		expectDocument(t, k.wantedDocument(a), api.document())
		if err := k.pusher.Failure("a"); err != nil {
			t.Error(err)
		}
		expect(t, "pending", 0, k.pending)
	})
}

// TestPusherLoadsInPortions verifies that the manifest lists a type that is too large for one request only when it is
// complete.
func TestPusherLoadsInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		k.pusher.bodyLimit = 100_000
		a := needsWith("a", []policy.Resource{ofPods})
		var all []*unstructured.Unstructured
		large := strings.Repeat("x", 2_500)
		for i := range 100 {
			all = append(all, thing(fmt.Sprintf("ns-%d", i/30), fmt.Sprintf("p-%d", i), large))
		}
		claims := []string{}
		api.changed = func() {
			types, _ := get(api.data, []string{"berth", "holdings", "types"})
			content, _ := get(api.data, []string{"kubernetes", "pods"})
			objects := 0
			namespaces, _ := content.(map[string]any)
			for _, n := range namespaces {
				objects += len(n.(map[string]any))
			}
			claims = append(claims, fmt.Sprintf("%s %d", toJSON(types), objects))
		}
		k.setNeeds(a)
		k.replace(ofPods, all...)
		settle(3 * time.Second)
		expectDocument(t, k.wantedDocument(a), api.document())
		if n := len(claims); n < 5 || claims[n-1] != `{"/v1/pods":true} 100` {
			t.Errorf("claimed %v", claims)
		}
		for _, c := range claims[:len(claims)-1] {
			if strings.Contains(c, "true") {
				t.Errorf("claimed %s", c)
			}
		}
		// A type with too many changes is loaded again in the same way.
		api.mu.Lock()
		api.disturb = func(string, string) disturbance { return disturbance{status: http.StatusServiceUnavailable} }
		api.mu.Unlock()
		settle(5 * time.Second)
		for range 3 {
			for i := range all {
				k.put(ofPods, thing(fmt.Sprintf("ns-%d", i/30), fmt.Sprintf("p-%d", i), large+fmt.Sprint(rand.Int())))
			}
		}
		if k.pusher.writers["http://opa.example/"].feed.backlog.bytes > maxWindows*k.pusher.bodyLimit {
			t.Error("the backlog is not bounded")
		}
		api.mu.Lock()
		api.disturb, claims = nil, nil
		api.mu.Unlock()
		settle(time.Minute)
		expectDocument(t, k.wantedDocument(a), api.document())
		if !slices.Contains(claims, `{"/v1/pods":false} 33`) && !strings.Contains(fmt.Sprint(claims), "false") {
			t.Errorf("claimed while it was loaded: %v", claims)
		}
	})
}

// TestPusherTakesOver verifies that a new leader takes over what is in the engine, which stays in the manifest.
func TestPusherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a := needsWith("a", []policy.Resource{ofPods}, "def f")
		b := needsWith("b", []policy.Resource{ofNodes}, "def g")
		k.setNeeds(a, b)
		k.replace(ofPods, thing("x", "p", "1"))
		k.replace(ofNodes, thing("", "n", "1"))
		settle(time.Second)
		load := api.document("berth", "holdings", "load")
		api.sent()
		k.stop()
		expect(t, "requests at the end", []string(nil), api.sent())

		unclaimed := false
		api.mu.Lock()
		api.changed = func() {
			types, _ := get(api.data, []string{"berth", "holdings", "types", "/v1/pods"})
			module, _ := get(api.data, []string{"berth", "holdings", "modules", "a"})
			unclaimed = unclaimed || types != true || module == nil
		}
		api.mu.Unlock()
		k.lead()
		k.setNeeds(a)
		settle(2 * time.Second)
		k.mu.Lock()
		k.world[ofPods.GroupVersionResource][objectKey{"x", "q"}] = thing("x", "q", "1")
		k.mu.Unlock()
		k.reread(ofPods)
		settle(2 * time.Second)
		expectDocument(t, k.wantedDocument(a), api.document())
		if unclaimed {
			t.Error("what was there all the time was not claimed")
		}
		if api.document("berth", "holdings", "load") == load {
			t.Error("a full load has no nonce of its own")
		}
		expect(t, "types", map[string]any{"/v1/pods": true}, api.document("berth", "holdings", "types"))
		if got := api.sent(); count(got, "PUT /v1/policies") != 0 {
			t.Errorf("modules were sent again: %v", got)
		}
	})
}

// TestPusherBeginsOnce verifies that the first request of a load removes nothing if it is executed again, however late.
func TestPusherBeginsOnce(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodPatch} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newDataAPI(t)
				k := keep(t, api.serve(t))
				first := true
				api.disturb = func(m, _ string) disturbance {
					if m == method && first {
						first = false
						return disturbance{cut: later}
					}
					return disturbance{}
				}
				a := needsWith("a", []policy.Resource{ofPods})
				k.setNeeds(a)
				k.replace(ofPods, thing("x", "p", "1"))
				settle(1200 * time.Millisecond)
				before := api.document("berth", "holdings")
				expect(t, "types", map[string]any{"/v1/pods": true}, api.document("berth", "holdings", "types"))
				api.mu.Lock()
				for _, do := range api.late {
					do()
				}
				expect(t, "late requests", 1, len(api.late))
				api.mu.Unlock()
				expect(t, "holdings", before, api.document("berth", "holdings"))
			})
		})
	}
}

// TestPusherMissesObjects verifies that any loss of objects is noticed even if nothing changes and the manifest is
// still there. Nothing is loaded again while everything is there, or while the engine refuses to answer.
func TestPusherMissesObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newDataAPI(t)
		k := keep(t, api.serve(t))
		a := needsWith("a", allTypes)
		k.setNeeds(a)
		for _, r := range allTypes {
			namespace := ""
			if r.Namespaced {
				namespace = "ns"
			}
			k.replace(r, thing(namespace, "x/y ~1%", "1"), thing(namespace, "0", "1"))
		}
		k.replace(ofPods)
		settle(3 * time.Second)
		expectDocument(t, k.wantedDocument(a), api.document())
		load := api.document("berth", "holdings", "load")
		settle(time.Minute)
		expect(t, "load", load, api.document("berth", "holdings", "load"))
		api.mu.Lock()
		api.disturb = func(_, path string) disturbance {
			if path != "/v1/data/berth/holdings" {
				return disturbance{status: http.StatusBadRequest}
			}
			return disturbance{}
		}
		api.mu.Unlock()
		settle(time.Minute)
		expect(t, "load where nothing is said", load, api.document("berth", "holdings", "load"))
		if err := k.pusher.Failure("a"); err != nil {
			t.Error(err)
		}
		api.mu.Lock()
		api.disturb = nil
		api.mu.Unlock()
		for _, path := range [][]string{
			{"kubernetes"}, {"resources"}, {"clusters"}, {"berth", "quotas"}, {"kubernetes", "pods"}, {"kubernetes", "nodes"},
			{"resources", "v1", "pods"}, {"resources", "events.k8s.io/v1", "events", "ns"}, {"resources", "cluster.open-cluster-management.io/v1"},
		} {
			api.mu.Lock()
			parent, _ := get(api.data, path[:len(path)-1])
			delete(parent.(map[string]any), path[len(path)-1])
			api.mu.Unlock()
			settle(2 * time.Minute)
			expectDocument(t, k.wantedDocument(a), api.document())
		}
	})
}

// TestPusherReplacesManifest verifies that a foreign document in the place of the manifest is replaced.
func TestPusherReplacesManifest(t *testing.T) {
	for _, existing := range []any{
		"mine", map[string]any{}, map[string]any{"turn": "mine"}, map[string]any{"load": "x", "turn": map[string]any{"x": true, "y": true}},
	} {
		t.Run(sorted(existing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newDataAPI(t)
				api.data["berth"] = map[string]any{"holdings": existing}
				k := keep(t, api.serve(t))
				a := needsWith("a", []policy.Resource{ofPods})
				k.setNeeds(a)
				k.replace(ofPods, thing("x", "p", "1"))
				settle(1200 * time.Millisecond)
				expectDocument(t, k.wantedDocument(a), api.document())
				expect(t, "types", map[string]any{"/v1/pods": true}, api.document("berth", "holdings", "types"))
			})
		})
	}
}

// TestPusherProperty verifies under random changes that everything in the manifest is always there, and that in the end
// the engine has everything that is needed. Objects, types, and policies come and go. Requests get lost before or after
// they are executed, or are executed late. The engine loses its data, and another replica becomes the leader.
func TestPusherProperty(t *testing.T) {
	for seed := range uint64(budget.Rounds(15)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { pushProperty(t, rand.New(rand.NewPCG(seed, 0))) })
			if t.Failed() {
				t.FailNow()
			}
		})
	}
}

func pushProperty(t *testing.T, random *rand.Rand) {
	api := newDataAPI(t)
	k := keep(t, api.serve(t))
	// Some runs allow only a few objects in a request, and drop the backlog after a dozen changes.
	body := []int{1 << 20, 4000, 1500}[random.IntN(3)]
	k.pusher.bodyLimit = body
	digests := map[string]map[string]string{}
	var last *opaclient.Manifest
	api.changed = func() { last = checkClaims(t, k, api, digests, last) }
	faulty := 0.0
	faults := rand.New(rand.NewPCG(random.Uint64(), 1))
	api.disturb = func(method, path string) disturbance {
		if faults.Float64() >= faulty {
			return disturbance{}
		}
		switch faults.IntN(6) {
		case 0:
			return disturbance{status: http.StatusServiceUnavailable, retryAfter: fmt.Sprint(faults.IntN(3))}
		case 1:
			return disturbance{status: http.StatusInternalServerError}
		case 2:
			return disturbance{cut: before}
		case 3:
			return disturbance{cut: after}
		case 4:
			// OPA's policy API has no way to detect a late write of a module.
			if method != http.MethodGet && !strings.Contains(path, "policies") {
				return disturbance{cut: later}
			}
		}
		return disturbance{status: http.StatusTooManyRequests}
	}
	var wanted []PolicyNeeds
	want := func() {
		wanted = nil
		for _, name := range []string{"a", "b", "c"} {
			if random.IntN(4) == 0 {
				continue
			}
			var types []policy.Resource
			for _, r := range allTypes {
				if random.IntN(3) == 0 {
					types = append(types, r)
				}
			}
			var modules []string
			if random.IntN(2) == 0 {
				modules = [][]string{{"def " + name}, {"call " + name, "def " + name}, {"def " + name, "call " + name}}[random.IntN(3)]
			}
			w := needsWith(name, types, modules...)
			// The digests are read while the API is locked, because an earlier request may still be running.
			api.mu.Lock()
			if digests[name] == nil {
				digests[name] = map[string]string{}
			}
			digests[name][w.Remote.ModulesDigest] = strings.Join(modules, "|")
			api.mu.Unlock()
			wanted = append(wanted, w)
		}
		k.setNeeds(wanted...)
	}
	name := func() (namespace, name string) {
		return fmt.Sprintf("ns-%d", random.IntN(3)), fmt.Sprintf("o-%d", random.IntN(4))
	}
	make := func(r policy.Resource) *unstructured.Unstructured {
		namespace, name := name()
		if !r.Namespaced {
			namespace = ""
		}
		return thing(namespace, name, fmt.Sprint(random.IntN(1000)))
	}
	want()
	for range 60 {
		r := allTypes[random.IntN(len(allTypes))]
		switch n := random.IntN(40); {
		case n < 20 && k.known[r.GroupVersionResource]:
			k.put(r, make(r))
		case n < 26 && k.known[r.GroupVersionResource]:
			k.delete(r, keyOfObject(make(r)))
		case n < 30:
			var all []*unstructured.Unstructured
			for range random.IntN(6) {
				all = append(all, make(r))
			}
			k.replace(r, all...)
		case n < 31:
			k.drop(r)
		case n < 33:
			want()
		case n < 34:
			api.restart()
		case n < 35:
			k.lead()
			k.pusher.bodyLimit = body
			k.setNeeds(wanted...)
			for _, r := range allTypes {
				if k.known[r.GroupVersionResource] && random.IntN(3) > 0 {
					k.reread(r)
				} else {
					k.drop(r)
				}
			}
		case n < 37:
			api.mu.Lock()
			faulty = []float64{0, 0.2, 0.6, 1}[random.IntN(4)]
			api.mu.Unlock()
		default:
			settle(time.Duration(random.Int64N(int64(3 * time.Second))))
		}
		synctest.Wait()
		api.mu.Lock()
		for len(api.late) > 0 && random.IntN(2) == 0 {
			at := random.IntN(len(api.late))
			api.late[at]()
			api.late = slices.Delete(api.late, at, at+1)
		}
		api.mu.Unlock()
	}
	api.mu.Lock()
	faulty = 0
	for _, do := range api.late {
		do()
	}
	api.late = nil
	api.mu.Unlock()
	settle(3 * time.Minute)
	if len(wanted) == 0 {
		// A new leader does not know engines that only deleted policies used.
		return
	}
	expectDocument(t, k.wantedDocument(wanted...), api.document())
	texts := map[string]string{}
	for _, w := range wanted {
		for _, m := range w.Remote.Modules {
			texts[m.ID] = m.Text
		}
	}
	expect(t, "modules", texts, api.policies)
	for _, w := range wanted {
		h, _ := opaclient.ParseManifest(toJSON(map[string]any{"result": api.document("berth", "holdings")}))
		if missing, _ := h.Missing(&policy.Binding{Remote: w.Remote, PushedTypes: slices.DeleteFunc(slices.Clone(w.Types), func(r policy.Resource) bool { return !k.known[r.GroupVersionResource] })}); missing != "" {
			t.Errorf("%s: the engine %s", w.Policy, missing)
		}
		if err := k.pusher.Failure(w.Policy); err != nil {
			t.Errorf("%s: %v", w.Policy, err)
		}
	}
}

// checkClaims fails the test if the manifest lists something that is not there, or if something is no longer listed
// although LoadID did not change. It returns the manifest. The caller holds the API's lock.
func checkClaims(t *testing.T, k *pusherFixture, api *dataAPI, digests map[string]map[string]string, last *opaclient.Manifest) *opaclient.Manifest {
	document, _ := get(api.data, []string{"berth", "holdings"})
	h, err := opaclient.ParseManifest(toJSON(map[string]any{"result": document}))
	if err != nil || h == nil {
		return nil
	}
	if last != nil && last.LoadID == h.LoadID {
		for name, whole := range last.Types {
			if whole && !h.Types[name] {
				t.Errorf("%s is not claimed any more in the same load", name)
			}
		}
		for name, complete := range last.Modules {
			if h.Modules[name].Digest != complete.Digest {
				t.Errorf("the modules of %s are not claimed any more in the same load", name)
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, whole := range h.Types {
		r, _ := opaclient.ParseType(name)
		if !whole {
			continue
		}
		content, _ := get(api.data, []string{"resources", r.GroupVersion().String(), r.Resource})
		if !k.past[r][sorted(content)] {
			t.Errorf("%s is claimed, and never was %s", name, sorted(content))
		}
		if bare, ok := get(api.data, []string{"kubernetes", r.Resource}); ok && sorted(bare) != sorted(content) && r.Resource != "events" {
			t.Errorf("%s is claimed, and at the bare name there is %s", name, sorted(bare))
		}
	}
	for name, complete := range h.Modules {
		var texts []string
		for i := range 2 {
			if text, ok := api.policies[fmt.Sprintf("%s%s/m%d", policy.ModulePrefix, name, i)]; ok {
				texts = append(texts, text)
			}
		}
		if want, got := digests[name][complete.Digest], strings.Join(texts, "|"); want != got {
			t.Errorf("modules %s of %s are claimed, and %s is there", want, name, got)
		}
	}
	return h
}

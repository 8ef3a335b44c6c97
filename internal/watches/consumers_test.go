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

package watches

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
)

// keeping is a sink that keeps copies of what it receives. It then overwrites the objects, because it owns them.
type keeping struct {
	t *testing.T

	mu      sync.Mutex
	calling map[schema.GroupVersionResource]bool
	content map[schema.GroupVersionResource]map[string]map[string]any
	fields  map[schema.GroupVersionResource]*projection.FieldSet
}

func newKeeping(t *testing.T) *keeping {
	return &keeping{
		t: t, calling: map[schema.GroupVersionResource]bool{}, content: map[schema.GroupVersionResource]map[string]map[string]any{},
		fields: map[schema.GroupVersionResource]*projection.FieldSet{},
	}
}

// enter checks that no other goroutine calls the sink for the same type until the returned function is called.
func (k *keeping) enter(r schema.GroupVersionResource) func() {
	k.mu.Lock()
	if k.calling[r] {
		k.t.Errorf("two goroutines call the sink for %s", r.Resource)
	}
	k.calling[r] = true
	k.mu.Unlock()
	// Let other goroutines run.
	goruntime.Gosched()
	k.mu.Lock()
	return func() {
		k.calling[r] = false
		k.mu.Unlock()
	}
}

func keep(o *unstructured.Unstructured) map[string]any {
	out := runtime.DeepCopyJSON(o.Object)
	overwrite(o.Object)
	return out
}

// overwrite changes every map and list of a value.
func overwrite(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			overwrite(member)
		}
		clear(v)
		v["overwritten"] = true
	case []any:
		for i, member := range v {
			overwrite(member)
			v[i] = "overwritten"
		}
	}
}

func (k *keeping) Replace(r schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	defer k.enter(r)()
	k.fields[r], k.content[r] = fields, map[string]map[string]any{}
	for _, o := range objects {
		name := o.GetName()
		k.content[r][name] = keep(o)
	}
}

func (k *keeping) Put(r schema.GroupVersionResource, o *unstructured.Unstructured) {
	defer k.enter(r)()
	name := o.GetName()
	if k.content[r] == nil {
		k.t.Errorf("%s %s before the first list", r.Resource, name)
		return
	}
	k.content[r][name] = keep(o)
}

func (k *keeping) Delete(r schema.GroupVersionResource, _, name string) {
	defer k.enter(r)()
	delete(k.content[r], name)
}

func (k *keeping) Drop(r schema.GroupVersionResource) {
	defer k.enter(r)()
	delete(k.content, r)
	delete(k.fields, r)
}

func (k *keeping) get(r schema.GroupVersionResource) (map[string]map[string]any, *projection.FieldSet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.content[r]), k.fields[r]
}

// normalize is a Prepare function that adds, replaces, and removes fields.
func normalize(_ schema.GroupVersionResource, o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "manifest")
	unstructured.RemoveNestedField(o.Object, "status", "conditions")
	delete(o.Object, "data")
	o.Object["normal"] = map[string]any{"spec": o.Object["spec"], "annotations": o.GetAnnotations() != nil}
}

// full returns an object with everything that normalize changes.
func full(name, version, value string) *unstructured.Unstructured {
	o := object(name)
	o.SetResourceVersion(version)
	o.SetLabels(map[string]string{"read": value, "unread": value})
	o.SetAnnotations(map[string]string{"manifest": "m", "other": value})
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	o.Object["data"] = map[string]any{"password": value}
	o.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": value}}}
	o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready"}}, "phase": value}
	return o
}

// history is a fake API server that keeps every change, so that watches can continue from a version.
type history struct {
	dynamic.Interface
	t       *testing.T
	streams bool

	mu      sync.Mutex
	version int
	// oldest is the version from which watches can continue.
	oldest            int
	objects           map[schema.GroupVersionResource]map[string]*unstructured.Unstructured
	log               map[schema.GroupVersionResource][]watch.Event
	open              map[schema.GroupVersionResource][]*watch.RaceFreeFakeWatcher
	lists             map[schema.GroupVersionResource]int
	listErr, watchErr map[schema.GroupVersionResource]error
}

func newHistory(t *testing.T) *history {
	return &history{
		t: t, version: 1, objects: map[schema.GroupVersionResource]map[string]*unstructured.Unstructured{},
		log: map[schema.GroupVersionResource][]watch.Event{}, open: map[schema.GroupVersionResource][]*watch.RaceFreeFakeWatcher{},
		lists: map[schema.GroupVersionResource]int{}, listErr: map[schema.GroupVersionResource]error{}, watchErr: map[schema.GroupVersionResource]error{},
	}
}

func (h *history) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return &historyResource{server: h, resource: r}
}

// write adds or changes an object, or deletes it if value is empty.
func (h *history) write(r schema.GroupVersionResource, name, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.objects[r] == nil {
		h.objects[r] = map[string]*unstructured.Unstructured{}
	}
	before, known := h.objects[r][name]
	if value == "" && !known {
		return
	}
	h.version++
	event := watch.Event{Type: watch.Added}
	switch {
	case value == "":
		delete(h.objects[r], name)
		event.Type, event.Object = watch.Deleted, full(name, strconv.Itoa(h.version), before.GetLabels()["read"])
	case known:
		event.Type = watch.Modified
		fallthrough
	default:
		o := full(name, strconv.Itoa(h.version), value)
		h.objects[r][name], event.Object = o, o
	}
	h.log[r] = append(h.log[r], event)
	for _, w := range h.watching(r) {
		w.Action(event.Type, event.Object.DeepCopyObject())
	}
}

// watching returns the open watches of a type. The caller holds the lock.
func (h *history) watching(r schema.GroupVersionResource) []*watch.RaceFreeFakeWatcher {
	h.open[r] = slices.DeleteFunc(h.open[r], func(w *watch.RaceFreeFakeWatcher) bool { return w.IsStopped() })
	return h.open[r]
}

// watches returns the number of open watches of a type.
func (h *history) watches(r schema.GroupVersionResource) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watching(r))
}

// restart ends the watches of a type. If forget is set, watches can't continue from versions before now.
func (h *history) restart(r schema.GroupVersionResource, forget bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if forget {
		h.oldest = h.version
	}
	for _, w := range h.watching(r) {
		w.Stop()
	}
}

// fail sets the errors of lists and watches of a type.
func (h *history) fail(r schema.GroupVersionResource, list, watch error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listErr[r], h.watchErr[r] = list, watch
}

type historyResource struct {
	dynamic.NamespaceableResourceInterface
	server   *history
	resource schema.GroupVersionResource
}

func (r *historyResource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	h := r.server
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lists[r.resource]++
	if err := h.listErr[r.resource]; err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{}
	out.SetResourceVersion(strconv.Itoa(h.version))
	for _, o := range h.objects[r.resource] {
		out.Items = append(out.Items, *o.DeepCopy())
	}
	return out, nil
}

func (r *historyResource) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	h := r.server
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.watchErr[r.resource]; err != nil {
		return nil, err
	}
	streamed := o.SendInitialEvents != nil && *o.SendInitialEvents
	if streamed && !h.streams {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}
	version, _ := strconv.Atoi(o.ResourceVersion)
	if !streamed && version < h.oldest {
		return nil, apierrors.NewResourceExpired("too old")
	}
	if n := len(h.watching(r.resource)); n > 0 {
		h.t.Errorf("another watch on %s while %d are open", r.resource.Resource, n)
	}
	w := watch.NewRaceFreeFake()
	if streamed {
		h.lists[r.resource]++
		for _, o := range h.objects[r.resource] {
			w.Add(o.DeepCopy())
		}
		end := bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		end.SetResourceVersion(strconv.Itoa(h.version))
		w.Action(watch.Bookmark, end)
	} else {
		for _, event := range h.log[r.resource] {
			if at, _ := strconv.Atoi(event.Object.(*unstructured.Unstructured).GetResourceVersion()); at > version {
				w.Action(event.Type, event.Object.DeepCopyObject())
			}
		}
	}
	h.open[r.resource] = append(h.open[r.resource], w)
	return w, nil
}

// player is a consumer in a test with what it should have.
type player struct {
	*Consumer
	sink   *keeping
	ctx    context.Context
	end    context.CancelFunc
	wanted map[schema.GroupVersionResource]*projection.FieldSet
	// have holds the field sets that the sink should receive.
	have map[schema.GroupVersionResource]*projection.FieldSet
}

func join(t *testing.T, hub *Hub, prepare bool) *player {
	p := &player{sink: newKeeping(t), have: map[schema.GroupVersionResource]*projection.FieldSet{}}
	p.ctx, p.end = context.WithCancel(t.Context())
	p.Consumer = hub.NewConsumer(p.sink, func(r schema.GroupVersionResource) {
		// A callback may read states.
		p.State(r)
		p.States()
	})
	if prepare {
		p.Prepare = normalize
	}
	return p
}

// want calls Set, and updates what the player should have.
func (p *player) want(wanted map[schema.GroupVersionResource]*projection.FieldSet) {
	p.wanted = wanted
	for r, fields := range wanted {
		if have, ok := p.have[r]; !ok || !have.Covers(fields) {
			p.have[r] = fields
		}
	}
	maps.DeleteFunc(p.have, func(r schema.GroupVersionResource, _ *projection.FieldSet) bool {
		_, ok := wanted[r]
		return !ok
	})
	p.Set(p.ctx, wanted)
}

// verify checks that the sink has exactly the wanted projections of the objects.
func (p *player) verify(t *testing.T, server *history, resources ...schema.GroupVersionResource) {
	t.Helper()
	for _, r := range resources {
		content, fields := p.sink.get(r)
		wanted, ok := p.wanted[r]
		state, watched := p.StateOfFields(r, wanted)
		if !ok {
			if content != nil || watched {
				t.Errorf("%s is not wanted: content %v, watched: %t", r.Resource, content, watched)
			}
			continue
		}
		if !state.Synced || state.Err != nil {
			t.Errorf("state of %s: %+v", r.Resource, state)
		}
		if fields != p.have[r] {
			t.Errorf("%s has other fields than those that were wanted last", r.Resource)
		}
		want := map[string]map[string]any{}
		server.mu.Lock()
		for name, o := range server.objects[r] {
			o = o.DeepCopy()
			if p.Prepare != nil {
				p.Prepare(r, o)
			}
			if p.have[r] != nil {
				o.Object = projection.Union(p.have[r], identifyingFields).Project(o.Object)
			}
			want[name] = o.Object
		}
		server.mu.Unlock()
		if diff := cmp.Diff(want, content); diff != "" {
			t.Errorf("content of %s (-want +got):\n%s", r.Resource, diff)
		}
	}
}

// fieldSets are field sets that consumers want of objects that normalize prepared or that are as the API server sent
// them. Some contain whole parts of an object.
func fieldSets() []*projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("spec").AddAll()
	f.AddName("metadata").AddName("annotations").AddAll()
	g := &projection.FieldSet{}
	g.AddName("normal").AddAll()
	g.AddName("status").AddEach()
	h := &projection.FieldSet{}
	h.AddName("spec").AddName("containers").AddEach().AddName("name")
	h.AddName("metadata").AddAll()
	return []*projection.FieldSet{labels("read"), labels("read", "unread"), f.Seal(), g.Seal(), h.Seal(), projection.AllFields()}
}

// TestHubRandomly checks that, whatever consumers join, leave, and want, and whatever fails in between, each sink ends
// with exactly the wanted projections, by one list-watch for each wanted type.
func TestHubRandomly(t *testing.T) {
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	resources := []schema.GroupVersionResource{pods, nodes, services}
	for seed := range uint64(budget.Rounds(20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playRandomly(t, rand.New(rand.NewPCG(seed, 1)), resources) })
		})
	}
}

func playRandomly(t *testing.T, r *rand.Rand, resources []schema.GroupVersionResource) {
	server, sets := newHistory(t), fieldSets()
	server.streams = r.IntN(2) == 0
	hub := NewHub(server)
	var players, ended []*player
	for range 150 {
		resource := resources[r.IntN(len(resources))]
		switch r.IntN(11) {
		case 0:
			if len(players) < 5 {
				p := join(t, hub, r.IntN(2) == 0)
				p.Consistent = r.IntN(3) == 0
				players = append(players, p)
			}
		case 1:
			if i := r.IntN(10); i < len(players) {
				players[i].end()
				ended, players = append(ended, players[i]), slices.Delete(players, i, i+1)
			}
		case 2, 3, 4:
			if len(players) > 0 {
				wanted := map[schema.GroupVersionResource]*projection.FieldSet{}
				for _, resource := range resources {
					if r.IntN(3) > 0 {
						wanted[resource] = sets[r.IntN(len(sets))]
					}
				}
				players[r.IntN(len(players))].want(wanted)
			}
		case 5:
			server.restart(resource, r.IntN(2) == 0)
		case 6:
			errs := []error{nil, nil, apierrors.NewServiceUnavailable("down"), apierrors.NewForbidden(resource.GroupResource(), "", nil)}
			server.fail(resource, errs[r.IntN(4)], errs[r.IntN(4)])
		case 7:
			if len(players) > 0 {
				players[r.IntN(len(players))].Reopen(resource)
			}
		default:
			server.write(resource, fmt.Sprintf("o-%d", r.IntN(5)), []string{"", "a", "b", "c"}[r.IntN(4)])
		}
		switch r.IntN(6) {
		case 0:
			later()
		case 1, 2:
			synctest.Wait()
		}
	}
	for _, resource := range resources {
		server.fail(resource, nil, nil)
	}
	later()
	later()
	for _, resource := range resources {
		want := 0
		for _, p := range players {
			if _, ok := p.wanted[resource]; ok {
				want = 1
			}
		}
		if got := server.watches(resource); got != want {
			t.Errorf("%d watches on %s, want %d", got, resource.Resource, want)
		}
	}
	for _, p := range players {
		p.verify(t, server, resources...)
		p.end()
	}
	later()
	if len(hub.types) != 0 {
		t.Errorf("%d list-watches go on", len(hub.types))
	}
	for _, p := range append(ended, players...) {
		p.want(nil)
		p.verify(t, server, resources...)
	}
}

// play runs a test with a hub, a server with two pods, and players that have a projection of them.
func play(t *testing.T, n int, test func(t *testing.T, server *history, players []*player)) {
	for name, streams := range map[string]bool{"Listed": false, "Streamed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newHistory(t)
				server.streams = streams
				server.write(pods, "a", "1")
				server.write(pods, "b", "2")
				hub := NewHub(server)
				var players []*player
				for i := range n {
					players = append(players, join(t, hub, i == 1))
				}
				test(t, server, players)
				for _, p := range players {
					p.end()
				}
				later()
			})
		})
	}
}

// TestHubSharesAWatch checks that consumers of a type share a watch, and that a consumer that joins or leaves does not
// disturb the others.
func TestHubSharesAWatch(t *testing.T) {
	play(t, 3, func(t *testing.T, server *history, players []*player) {
		early, prepared, late := players[0], players[1], players[2]
		early.want(podsWith(labels("read")))
		prepared.want(podsWith(projection.AllFields()))
		later()
		lists := server.lists[pods]
		server.fail(pods, apierrors.NewServiceUnavailable("down"), apierrors.NewServiceUnavailable("down"))
		late.want(podsWith(projection.AllFields()))
		later()
		for _, p := range []*player{early, prepared} {
			if state, _ := p.StateOfFields(pods, p.wanted[pods]); !state.Synced {
				t.Errorf("lost its content because a consumer joined: %+v", state)
			}
		}
		if state, _ := late.State(pods); state.Synced || !late.LastConfirmed(pods).IsZero() {
			t.Errorf("synced before the type was listed: %+v", state)
		}
		server.fail(pods, nil, nil)
		later()
		lists = server.lists[pods] - lists
		if lists < 1 {
			t.Error("a consumer that joins causes no list")
		}
		server.write(pods, "a", "3")
		server.write(pods, "b", "")
		server.write(pods, "c", "4")
		later()
		for _, p := range players {
			p.verify(t, server, pods, nodes)
		}
		lists = server.lists[pods]
		late.want(nil)
		prepared.end()
		later()
		server.write(pods, "a", "5")
		later()
		early.verify(t, server, pods)
		if got := server.watches(pods); got != 1 || server.lists[pods] != lists {
			t.Errorf("%d watches, %d lists because consumers left", got, server.lists[pods]-lists)
		}
		if content, _ := late.sink.get(pods); content != nil {
			t.Errorf("left, and has %v", content)
		}
		if content, _ := prepared.sink.get(pods); len(content) != 2 || content["a"]["spec"] == nil {
			t.Errorf("ended, and has %v; want the last content", content)
		}
		early.want(nil)
		later()
		if got := server.watches(pods); got != 0 {
			t.Errorf("%d watches that nobody wants", got)
		}
	})
}

// TestHubPreparesCopies checks that a copy that is prepared equals a prepared object, for all inventories and for types
// with a form of their own, and that the object remains as it was.
func TestHubPreparesCopies(t *testing.T) {
	cases := map[schema.GroupVersionResource][]map[string]any{
		{Version: "v1", Resource: "secrets"}: {full("a", "1", "2").Object},
	}
	known := replication.Known()
	quotas := placementv1.GroupVersion.WithResource("scopedquotas")
	cases[quotas] = []map[string]any{full("a", "1", "2").Object}
	cases[quotas][0]["status"] = map[string]any{"hard": map[string]any{"pods": "1"}, "used": map[string]any{"pods": "1"}, "reservations": []any{}, "module": "m"}
	files, err := filepath.Glob("../replication/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no inventories: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = yaml.YAMLToJSON(text); err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		for _, r := range known.Resources() {
			if r.GroupVersion().String() == o.GetAPIVersion() {
				cases[r] = append(cases[r], o.Object)
			}
		}
	}
	if n := len(cases); n != len(known.Resources())+2 {
		t.Errorf("objects of %d types", n)
	}
	for r, objects := range cases {
		for _, object := range objects {
			for i, fields := range fieldSets() {
				o := &unstructured.Unstructured{Object: object}
				before, taken := o.DeepCopy(), o.DeepCopy()
				s := newSubscription(&view{consumer: &Consumer{Prepare: known.Prepare}, resource: r}, fields)
				copied := s.copy(o)
				s.take(taken)
				if diff := cmp.Diff(taken, copied); diff != "" {
					t.Errorf("%s, fields %d: copy (-want +got):\n%s", r, i, diff)
				}
				overwrite(copied.Object)
				if diff := cmp.Diff(before, o); diff != "" {
					t.Errorf("%s, fields %d: the object changed (-want +got):\n%s", r, i, diff)
				}
			}
		}
	}
}

// TestHubListsConsistently checks that lists are consistent if a consumer wants that, or if they replace content.
func TestHubListsConsistently(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		expect := func(what string, want ...string) {
			t.Helper()
			later()
			server.set(func() {
				if diff := cmp.Diff(want, server.versions); diff != "" {
					t.Errorf("versions in the lists of %s (-want +got):\n%s", what, diff)
				}
				server.versions = nil
			})
		}
		m.Set(ctx, only(pods))
		expect("the first consumer", "0")
		other := m.hub.NewConsumer(&identity{}, sink.changed)
		other.Set(ctx, only(pods))
		expect("a consumer that joins", "")
		other.Set(ctx, nil)
		m.Set(ctx, nil)
		later()
		m.Set(ctx, only(pods))
		expect("a type that nobody had", "0")
		other.Consistent = true
		other.Set(ctx, only(nodes))
		expect("a consumer that wants consistent lists", "")
		other.Set(ctx, nil)
	})
}

// blocking is a sink whose calls wait.
type blocking struct {
	Sink
	entered, release chan struct{}
	left             atomic.Bool
}

func (b *blocking) Replace(schema.GroupVersionResource, *projection.FieldSet, []*unstructured.Unstructured) {
	b.entered <- struct{}{}
	<-b.release
	goruntime.Gosched()
	b.left.Store(true)
}

func (*blocking) Drop(schema.GroupVersionResource) {}

// TestHubSetDoesNotWaitForOthers checks that Set and State return while the sink of another consumer waits, as it does
// for a lock that the caller of Set holds. It checks that a Set that removes a type waits for the consumer's own sink.
func TestHubSetDoesNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newHistory(t)
		hub := NewHub(server)
		p := join(t, hub, false)
		p.want(podsWith(labels("read")))
		later()
		slow := &blocking{entered: make(chan struct{}), release: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		c := hub.NewConsumer(slow, func(schema.GroupVersionResource) {})
		c.Set(ctx, only(pods))
		<-slow.entered
		p.want(podsWith(labels("unread")))
		p.want(nil)
		p.want(podsWith(labels("other")))
		if state, ok := c.State(pods); !ok || state.Synced {
			t.Errorf("state %+v, %t", state, ok)
		}
		go func() {
			goruntime.Gosched()
			close(slow.release)
		}()
		c.Set(ctx, nil)
		if !slow.left.Load() {
			t.Error("a type was removed while its sink was called")
		}
		later()
		p.verify(t, server, pods)
		cancel()
		p.end()
		later()
	})
}

// identity is a sink that keeps the last object that it received.
type identity struct {
	Sink
	last *unstructured.Unstructured
}

func (*identity) Replace(schema.GroupVersionResource, *projection.FieldSet, []*unstructured.Unstructured) {
}
func (i *identity) Put(_ schema.GroupVersionResource, o *unstructured.Unstructured) { i.last = o }
func (*identity) Drop(schema.GroupVersionResource)                                  {}

// TestHubCopiesForTheOthersOnly checks that objects of a type with one consumer are not copied, and that of several
// consumers, one that wants whole objects receives the original.
func TestHubCopiesForTheOthersOnly(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, _ *recording, m *Consumer) {
		whole := &identity{}
		c := m.hub.NewConsumer(whole, func(schema.GroupVersionResource) {})
		c.Set(ctx, only(pods))
		later()
		for range 2 {
			sent := object("a")
			spec := sent.Object["spec"].(map[string]any)
			server.watches(pods)[0].Add(sent)
			later()
			spec["mark"] = true
			if whole.last.Object["spec"].(map[string]any)["mark"] != true {
				t.Error("received a copy")
			}
			m.Set(ctx, podsWith(labels("read")))
			later()
		}
		c.Set(ctx, nil)
	})
}

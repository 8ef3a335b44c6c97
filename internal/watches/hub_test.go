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
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/internal/projection"
)

// TestMain removes the library's error handlers. They wait depending on the time of the last error, which may be in the
// future of a test with fake time.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

var (
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// faulty is a fake API server with faults that the test selects. It supports lists and watches. It supports streamed
// lists only if streams is set; otherwise clients list without streaming.
type faulty struct {
	dynamic.Interface

	mu      sync.Mutex
	streams bool
	// streaming is how long the server takes for a streamed list.
	streaming time.Duration
	// unfinished reports whether the server leaves out the end of a streamed list.
	unfinished bool
	listErr    map[schema.GroupVersionResource]error
	watchErr   map[schema.GroupVersionResource]error
	objects    map[schema.GroupVersionResource][]string
	open       map[schema.GroupVersionResource][]*watch.FakeWatcher
	lists      map[schema.GroupVersionResource]int
	// versions are the resource versions in the requests for lists that are not streamed.
	versions []string
}

func newFaulty() *faulty {
	return &faulty{
		listErr: map[schema.GroupVersionResource]error{}, watchErr: map[schema.GroupVersionResource]error{},
		objects: map[schema.GroupVersionResource][]string{}, open: map[schema.GroupVersionResource][]*watch.FakeWatcher{},
		lists: map[schema.GroupVersionResource]int{},
	}
}

func (f *faulty) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return &faultyResource{server: f, resource: r}
}

// set changes the server's state.
func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// watches returns the open watches of a type.
func (f *faulty) watches(r schema.GroupVersionResource) []*watch.FakeWatcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[r] = slices.DeleteFunc(f.open[r], func(w *watch.FakeWatcher) bool { return w.IsStopped() })
	return slices.Clone(f.open[r])
}

// listed returns how often a type was listed.
func (f *faulty) listed(r schema.GroupVersionResource) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists[r]
}

// end closes the open watches of a type, as a restart of the API server does.
func (f *faulty) end(r schema.GroupVersionResource) {
	for _, w := range f.watches(r) {
		w.Stop()
	}
}

type faultyResource struct {
	dynamic.NamespaceableResourceInterface
	server   *faulty
	resource schema.GroupVersionResource
}

func object(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	o.SetName(name)
	o.SetNamespace("default")
	o.SetResourceVersion("2")
	o.SetLabels(map[string]string{"read": "yes", "unread": "no"})
	o.Object["spec"] = map[string]any{"secret": "s"}
	return o
}

// bookmark returns the object of a bookmark event.
func bookmark(annotations map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	o.SetResourceVersion("3")
	o.SetAnnotations(annotations)
	return o
}

// listed returns the object of the bookmark event that ends a streamed list.
func listed() *unstructured.Unstructured {
	return bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

func (f *faultyResource) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	f.server.versions = append(f.server.versions, o.ResourceVersion)
	f.server.lists[f.resource]++
	if err := f.server.listErr[f.resource]; err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{}
	out.SetResourceVersion("1")
	for _, name := range f.server.objects[f.resource] {
		out.Items = append(out.Items, *object(name))
	}
	return out, nil
}

func (f *faultyResource) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	streamed := o.SendInitialEvents != nil && *o.SendInitialEvents
	// A streamed list starts from no version, so no version can have expired.
	if err := f.server.watchErr[f.resource]; err != nil && (!streamed || !apierrors.IsResourceExpired(err)) {
		return nil, err
	}
	if streamed && !f.server.streams {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}
	w := watch.NewFakeWithChanSize(10, false)
	if streamed {
		f.server.lists[f.resource]++
		for _, name := range f.server.objects[f.resource] {
			w.Add(object(name))
		}
		if time.Duration(*o.TimeoutSeconds)*time.Second < f.server.streaming {
			w.Stop()
			return w, nil
		}
		if !f.server.unfinished {
			w.Action(watch.Bookmark, listed())
		}
	}
	f.server.open[f.resource] = append(f.server.open[f.resource], w)
	return w, nil
}

// recording is a sink that records its content and the calls.
type recording struct {
	mu      sync.Mutex
	content map[schema.GroupVersionResource][]string
	calls   []string
	// fields is the field set of the last Replace, and last is the last object that was received.
	fields *projection.FieldSet
	last   map[string]any
	// told is how often the state of a type changed.
	told int
}

func (r *recording) changed(schema.GroupVersionResource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told++
}

func (r *recording) changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

func (r *recording) call(resource schema.GroupVersionResource, text string, change func([]string) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, text+" "+resource.Resource)
	r.content[resource] = change(r.content[resource])
}

func (r *recording) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	r.call(resource, "replace", func([]string) []string {
		r.fields = fields
		out := []string{}
		for _, o := range objects {
			r.last = o.Object
			out = append(out, o.GetName())
		}
		return out
	})
}

func (r *recording) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	r.call(resource, "put", func(all []string) []string {
		r.last = o.Object
		if slices.Contains(all, o.GetName()) {
			return all
		}
		return append(all, o.GetName())
	})
}

func (r *recording) Delete(resource schema.GroupVersionResource, _, name string) {
	r.call(resource, "delete", func(all []string) []string {
		return slices.DeleteFunc(all, func(n string) bool { return n == name })
	})
}

func (r *recording) Drop(resource schema.GroupVersionResource) {
	r.call(resource, "drop", func([]string) []string { return nil })
}

func (r *recording) names(resource schema.GroupVersionResource) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.content[resource])
}

// later waits until the hub has done what it can, including retries.
func later() {
	<-time.After(30 * time.Second)
	synctest.Wait()
}

func check(t *testing.T, m *Consumer, sink *recording, want State, names []string) {
	t.Helper()
	got, ok := m.State(pods)
	if !ok || got.Synced != want.Synced || !errors.Is(got.Err, want.Err) || (got.Err == nil) != (want.Err == nil) {
		t.Errorf("state %+v, %t; want %+v", got, ok, want)
	}
	if diff := cmp.Diff(names, sink.names(pods)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

// run runs a test with a consumer in a synctest bubble. A leaked goroutine fails the test, because a bubble ends only
// with its goroutines.
func run(t *testing.T, test func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server, sink := newFaulty(), &recording{content: map[schema.GroupVersionResource][]string{}}
		m := NewHub(server).NewConsumer(sink, sink.changed)
		test(t, ctx, server, sink, m)
		cancel()
		m.Set(ctx, nil)
		synctest.Wait()
	})
}

// only returns a set of types with whole objects.
func only(resources ...schema.GroupVersionResource) map[schema.GroupVersionResource]*projection.FieldSet {
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, r := range resources {
		out[r] = projection.AllFields()
	}
	return out
}

func TestHubFollowsObjects(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() { server.objects[pods] = []string{"a", "b"} })
		m.Set(ctx, only(pods))
		later()
		check(t, m, sink, State{Synced: true}, []string{"a", "b"})
		w := server.watches(pods)[0]
		w.Add(object("c"))
		w.Modify(object("a"))
		w.Delete(object("b"))
		later()
		check(t, m, sink, State{Synced: true}, []string{"a", "c"})
		// After an interruption everything is listed again, and no change is missed.
		server.set(func() {
			server.objects[pods] = []string{"d"}
			server.watchErr[pods] = apierrors.NewResourceExpired("too old")
		})
		server.end(pods)
		later()
		server.set(func() { delete(server.watchErr, pods) })
		later()
		check(t, m, sink, State{Synced: true}, []string{"d"})
	})
}

// TestHubRefusedForAMoment checks that the content remains when a restarted API server refuses requests for a
// moment.
func TestHubRefusedForAMoment(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() { server.objects[pods] = []string{"a"} })
		m.Set(ctx, only(pods))
		later()
		down := errors.New("connection refused")
		server.set(func() { server.listErr[pods], server.watchErr[pods] = down, down })
		server.end(pods)
		later()
		forbidden := apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no grant"))
		server.set(func() { server.listErr[pods], server.watchErr[pods] = forbidden, forbidden })
		// The next attempt comes within the longest delay.
		for listed := server.listed(pods); server.listed(pods) == listed; {
			<-time.After(100 * time.Millisecond)
		}
		server.set(func() { delete(server.listErr, pods); delete(server.watchErr, pods) })
		later()
		check(t, m, sink, State{Synced: true}, []string{"a"})
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if slices.Contains(sink.calls, "drop pods") {
			t.Errorf("calls %v: what was refused for a moment was dropped", sink.calls)
		}
	})
}

// TestHubTellsThatATypeSettled checks that a consumer is told when it need not wait for a type any more, also if each request fails with
// the same error.
func TestHubTellsThatATypeSettled(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() { server.listErr[pods] = errors.New("connection refused") })
		m.Set(ctx, only(pods))
		later()
		// The first error, and that there have been enough.
		if state, _ := m.State(pods); !state.Settled() || sink.changes() != 2 {
			t.Errorf("settled: %t; told %d times, want 2", state.Settled(), sink.changes())
		}
	})
}

func TestHubFaults(t *testing.T) {
	forbidden := apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no grant"))
	missing := apierrors.NewNotFound(pods.GroupResource(), "")
	unknown := apierrors.NewUnauthorized("no such user")
	broken := errors.New("connection refused")
	tests := map[string]struct {
		err         error
		list, watch bool
		// first is the state if the fault exists from the start, and after is the state if it occurs later.
		first, after State
		// kept is set if the content that was read before remains.
		kept bool
	}{
		"Forbidden":        {err: forbidden, list: true, watch: true, first: State{Err: forbidden}, after: State{Err: forbidden}},
		"NotFound":         {err: missing, list: true, watch: true, first: State{Err: missing}, after: State{Err: missing}},
		"Unauthorized":     {err: unknown, list: true, watch: true, first: State{Err: unknown}, after: State{Err: unknown}},
		"ListForbidden":    {err: forbidden, list: true, first: State{Err: forbidden}, after: State{Err: forbidden}},
		"WatchForbidden":   {err: forbidden, watch: true, first: State{Err: forbidden}, after: State{Err: forbidden}},
		"ConnectionBroken": {err: broken, list: true, watch: true, first: State{Err: broken}, after: State{Synced: true, Err: broken}, kept: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
				fail := func() {
					if tc.list {
						server.listErr[pods] = tc.err
					}
					if tc.watch {
						server.watchErr[pods] = tc.err
					}
				}
				heal := func() { delete(server.listErr, pods); delete(server.watchErr, pods) }
				server.set(func() { server.objects[pods] = []string{"a"}; fail() })
				m.Set(ctx, only(pods))
				later()
				check(t, m, sink, tc.first, nil)
				sink.mu.Lock()
				if slices.Contains(sink.calls, "replace pods") {
					t.Errorf("calls %v: for a moment, what can't be watched was taken for complete", sink.calls)
				}
				sink.mu.Unlock()
				// By now it has failed for a long time.
				if state, _ := m.State(pods); !state.Settled() {
					t.Errorf("still waited for, after %d times %v", state.Failures, tc.err)
				}
				server.set(heal)
				later()
				check(t, m, sink, State{Synced: true}, []string{"a"})
				// If only the list of a type is refused, the watch continues until it ends. Then everything is listed
				// again.
				server.set(func() {
					fail()
					if tc.list && !tc.watch {
						server.watchErr[pods] = apierrors.NewResourceExpired("too old")
					}
				})
				server.end(pods)
				later()
				var names []string
				if tc.kept {
					names = []string{"a"}
				}
				check(t, m, sink, tc.after, names)
				server.set(heal)
				later()
				check(t, m, sink, State{Synced: true}, []string{"a"})
			})
		})
	}
}

// TestHubAwaitsLongLists checks that a streamed list is complete although the API server takes longer for it than a watch usually lasts.
func TestHubAwaitsLongLists(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() {
			server.streams, server.streaming, server.objects[pods] = true, 20*time.Minute, []string{"a"}
		})
		m.Set(ctx, only(pods))
		later()
		check(t, m, sink, State{Synced: true}, []string{"a"})
		// Each one lasts twice as long as the one before.
		if n := server.listed(pods); n < 2 || n > 4 {
			t.Errorf("listed %d times", n)
		}
	})
}

// TestReopenLeavesAnUnfinishedList checks that a watch that still sends all objects is not ended, also if the objects that the sink has are
// old, because each watch that follows would be ended, too.
func TestReopenLeavesAnUnfinishedList(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() { server.streams, server.unfinished, server.objects[pods] = true, true, []string{"a"} })
		m.Set(ctx, only(pods))
		later()
		w := server.watches(pods)[0]
		m.Reopen(pods)
		later()
		if w.IsStopped() {
			t.Error("ended before all objects have come")
		} else {
			w.Action(watch.Bookmark, listed())
		}
		later()
		check(t, m, sink, State{Synced: true}, []string{"a"})
		m.Reopen(pods)
		later()
		if !w.IsStopped() || len(server.watches(pods)) != 1 {
			t.Errorf("the watch has ended: %t; open watches: %d", w.IsStopped(), len(server.watches(pods)))
		}
	})
}

// TestHubListsAnewWithoutAVersion checks that a withheld list is repeated without a resource version, for which the
// API server might wait until something changes.
func TestHubListsAnewWithoutAVersion(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() {
			server.objects[pods] = []string{"a"}
			server.watchErr[pods] = apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no grant"))
		})
		m.Set(ctx, only(pods))
		later()
		server.set(func() {
			delete(server.watchErr, pods)
			server.versions = nil
		})
		later()
		check(t, m, sink, State{Synced: true}, []string{"a"})
		server.set(func() {
			if n := len(server.versions); n == 0 || server.versions[n-1] != "" {
				t.Errorf("lists asked for the versions %q; want none in the last", server.versions)
			}
		})
	})
}

// TestStateSettled checks which states are settled, so that a replica may become Ready. A temporary error must not
// settle a type. An error that only an administrator can resolve must not block the replica.
func TestStateSettled(t *testing.T) {
	of := pods.GroupResource()
	forbidden := apierrors.NewForbidden(of, "", errors.New("no grant"))
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	tests := map[string]struct {
		state State
		want  bool
	}{
		"Untried":            {state: State{}},
		"Synced":             {state: State{Synced: true}, want: true},
		"SyncedAndFailing":   {state: State{Synced: true, Err: refused}, want: true},
		"Forbidden":          {state: State{Err: forbidden}, want: true},
		"Unauthorized":       {state: State{Err: apierrors.NewUnauthorized("no such user")}, want: true},
		"NotFound":           {state: State{Err: apierrors.NewNotFound(of, "")}, want: true},
		"MethodNotSupported": {state: State{Err: apierrors.NewMethodNotSupported(of, "list")}, want: true},
		"Wrapped":            {state: State{Err: fmt.Errorf("listing: %w", forbidden)}, want: true},
		"ConnectionRefused":  {state: State{Err: refused}},
		"Deadline":           {state: State{Err: context.DeadlineExceeded}},
		"Timeout":            {state: State{Err: apierrors.NewTimeoutError("slow", 0)}},
		"ServerTimeout":      {state: State{Err: apierrors.NewServerTimeout(of, "list", 0)}},
		"InternalError":      {state: State{Err: apierrors.NewInternalError(errors.New("no leader"))}},
		"ServiceUnavailable": {state: State{Err: apierrors.NewServiceUnavailable("starting")}},
		"TooManyRequests":    {state: State{Err: apierrors.NewTooManyRequests("busy", 0), Failures: maxTransientFailures - 1}},
		"DownForLong":        {state: State{Err: apierrors.NewServiceUnavailable("down"), Failures: maxTransientFailures}, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.state.Settled(); got != tc.want {
				t.Errorf("settled: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestHubSet(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		m.Set(ctx, only(pods, nodes))
		m.Set(ctx, only(pods, nodes))
		later()
		if len(server.watches(pods)) != 1 || len(server.watches(nodes)) != 1 {
			t.Errorf("%d and %d watches", len(server.watches(pods)), len(server.watches(nodes)))
		}
		if states := m.States(); len(states) != 2 || !states[nodes].Synced {
			t.Errorf("states %v", states)
		}
		m.Set(ctx, only(nodes))
		later()
		if len(server.watches(pods)) != 0 || len(server.watches(nodes)) != 1 {
			t.Errorf("%d and %d watches", len(server.watches(pods)), len(server.watches(nodes)))
		}
		if _, ok := m.State(pods); ok {
			t.Error("a type that is not watched has a state")
		}
		sink.mu.Lock()
		calls := slices.Clone(sink.calls)
		sink.mu.Unlock()
		if !slices.Contains(calls, "drop pods") || slices.Contains(calls, "drop nodes") {
			t.Errorf("calls %v", calls)
		}
		lists := server.listed(nodes)
		m.Set(ctx, only(pods, nodes))
		later()
		check(t, m, sink, State{Synced: true}, []string{})
		if server.listed(nodes) != lists {
			t.Error("a type that stayed was read anew")
		}
	})
}

// TestHubEnds checks that no watch starts once the consumer ends, and that State returns while Set waits.
func TestHubEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server, sink := newFaulty(), &recording{content: map[schema.GroupVersionResource][]string{}}
		changed := map[string]int{}
		var mu sync.Mutex
		m := NewHub(server).NewConsumer(sink, func(r schema.GroupVersionResource) {
			mu.Lock()
			defer mu.Unlock()
			changed[r.Resource]++
		})
		m.Set(ctx, only(pods))
		later()
		cancel()
		synctest.Wait()
		m.Set(ctx, only(pods, nodes))
		synctest.Wait()
		if len(server.watches(nodes)) != 0 || server.listed(nodes) != 0 {
			t.Error("a watch starts after the end")
		}
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(changed) != "map[pods:1]" {
			t.Errorf("changes told: %v", changed)
		}
	})
}

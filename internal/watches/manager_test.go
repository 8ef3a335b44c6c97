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

// The library's handlers of errors wait by the time of the last error, which in these tests may lie ahead.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

var (
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// faulty is an API server whose faults the tests choose. It knows lists and watches, and streamed lists only if it is
// told to: otherwise clients do without.
type faulty struct {
	dynamic.Interface

	mu       sync.Mutex
	streams  bool
	listErr  map[schema.GroupVersionResource]error
	watchErr map[schema.GroupVersionResource]error
	objects  map[schema.GroupVersionResource][]string
	open     map[schema.GroupVersionResource][]*watch.FakeWatcher
	lists    map[schema.GroupVersionResource]int
	// versions are those that lists, not streamed ones, asked for.
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

// set changes the server.
func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// watches returns the watches of a type that are open.
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

// end ends the open watches of a type, as a restart of the API server does.
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

// bookmark is an event that tells of no object.
func bookmark(annotations map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	o.SetResourceVersion("3")
	o.SetAnnotations(annotations)
	return o
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
	// A streamed list starts from no version that could have expired.
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
		w.Action(watch.Bookmark, bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
	}
	f.server.open[f.resource] = append(f.server.open[f.resource], w)
	return w, nil
}

// recording is a sink that keeps the content and what was called.
type recording struct {
	mu      sync.Mutex
	content map[schema.GroupVersionResource][]string
	calls   []string
	// fields are those of the last complete content; last is the last object that was given.
	fields *projection.Fields
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

func (r *recording) Replace(resource schema.GroupVersionResource, fields *projection.Fields, objects []*unstructured.Unstructured) {
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

// later waits until the manager is done with what it can do now, and for a time in which it tries again.
func later() {
	<-time.After(30 * time.Second)
	synctest.Wait()
}

func check(t *testing.T, m *Manager, sink *recording, want State, names []string) {
	t.Helper()
	got, ok := m.State(pods)
	if !ok || got.Synced != want.Synced || !errors.Is(got.Err, want.Err) || (got.Err == nil) != (want.Err == nil) {
		t.Errorf("state %+v, %t; want %+v", got, ok, want)
	}
	if diff := cmp.Diff(names, sink.names(pods)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

// Leaks fail these tests by themselves: a bubble of synctest ends only when its goroutines have.
func run(t *testing.T, test func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Manager)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server, sink := newFaulty(), &recording{content: map[schema.GroupVersionResource][]string{}}
		m := NewManager(server, sink, sink.changed)
		test(t, ctx, server, sink, m)
		cancel()
		m.Set(ctx, nil)
		synctest.Wait()
	})
}

// only are types of which whole objects are wanted.
func only(resources ...schema.GroupVersionResource) map[schema.GroupVersionResource]*projection.Fields {
	out := map[schema.GroupVersionResource]*projection.Fields{}
	for _, r := range resources {
		out[r] = nil
	}
	return out
}

func TestManagerFollowsObjects(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Manager) {
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
		// After a break everything is read anew, and nothing that was missed is lost.
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

// An API server that has just started refuses what it grants a moment later; what was read before stands meanwhile.
func TestManagerRefusedForAMoment(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Manager) {
		server.set(func() { server.objects[pods] = []string{"a"} })
		m.Set(ctx, only(pods))
		later()
		down := errors.New("connection refused")
		server.set(func() { server.listErr[pods], server.watchErr[pods] = down, down })
		server.end(pods)
		later()
		forbidden := apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no grant"))
		server.set(func() { server.listErr[pods], server.watchErr[pods] = forbidden, forbidden })
		// The next try is within the longest pause.
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

func TestManagerFaults(t *testing.T) {
	forbidden := apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no grant"))
	missing := apierrors.NewNotFound(pods.GroupResource(), "")
	unknown := apierrors.NewUnauthorized("no such user")
	broken := errors.New("connection refused")
	tests := map[string]struct {
		err         error
		list, watch bool
		// want is the state when the fault is there from the start, and when it comes later.
		first, after State
		// kept says that what was read before stays.
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
			run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Manager) {
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
				// By now it has failed for long.
				if state, _ := m.State(pods); !state.Settled() {
					t.Errorf("still waited for, after %d times %v", state.Failures, tc.err)
				}
				server.set(heal)
				later()
				check(t, m, sink, State{Synced: true}, []string{"a"})
				// The watch of a type whose list alone is refused stays until it ends; then everything is read anew.
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

// What was withheld is listed again without a version, for which the API server might wait until something changes.
func TestManagerListsAnewWithoutAVersion(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Manager) {
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

// A replica becomes Ready when its types are settled: what may come at the next try must not be missing by then, and
// what needs somebody's doing must not hold it up.
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
		"TooManyRequests":    {state: State{Err: apierrors.NewTooManyRequests("busy", 0), Failures: patience - 1}},
		"DownForLong":        {state: State{Err: apierrors.NewServiceUnavailable("down"), Failures: patience}, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.state.Settled(); got != tc.want {
				t.Errorf("settled: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestManagerSet(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Manager) {
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

// Nothing starts once the manager ends, and State answers while Set waits.
func TestManagerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server, sink := newFaulty(), &recording{content: map[schema.GroupVersionResource][]string{}}
		changed := map[string]int{}
		var mu sync.Mutex
		m := NewManager(server, sink, func(r schema.GroupVersionResource) {
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

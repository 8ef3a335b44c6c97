package watches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/projection"
)

// Sink receives the objects of the watched types. Calls for one type come from one goroutine at a time, in the order
// of the changes. The sink owns the objects that it is given.
type Sink interface {
	// Replace gives the complete content of a type: at first, and whenever a watch had to start anew. The objects, and
	// those of each Put until the next Replace, have at least the given fields; nil stands for all.
	Replace(resource schema.GroupVersionResource, fields *projection.Fields, objects []*unstructured.Unstructured)
	// Put gives one object that was added or changed.
	Put(resource schema.GroupVersionResource, object *unstructured.Unstructured)
	// Delete says that one object is gone.
	Delete(resource schema.GroupVersionResource, namespace, name string)
	// Drop says that a type is no longer watched, or no longer to be had.
	Drop(resource schema.GroupVersionResource)
}

// State is how a watched type fares.
type State struct {
	// Synced says that the sink has the complete content.
	Synced bool
	// Err is why the type can't be read, if it can't.
	Err error
	// Failures is how often in a row it could not.
	Failures int
}

// patience is how many failures in a row mean that a type is not to be had for now: some five seconds' worth.
const patience = 5

// Settled says that nothing more is to be waited for: the type is complete, or known not to be to be had. An error that
// may be gone at the next try settles nothing; one that stays, such as that of an extension API server which is down,
// must not keep everything waiting that does not need the type.
func (s State) Settled() bool { return s.Synced || gone(s.Err) || s.Failures >= patience }

// Manager keeps one list-watch for each wanted type. It is safe for concurrent use.
type Manager struct {
	// Consistent has every complete content be as new as the moment when it was asked for; without it, it may be as old
	// as the API server's cache was then. Set it before the first Set.
	Consistent bool
	// Prepare, if it is not nil, is called with each object as the API server sent it, before it is cut to the wanted
	// fields: it may take from the object, and add to it. Set it before the first Set.
	Prepare func(schema.GroupVersionResource, *unstructured.Unstructured)
	// History lists every type again when the API server's store has gone back to an earlier state; nil for never. Set
	// it before the first Set.
	History *History

	client  dynamic.Interface
	sink    Sink
	changed func(schema.GroupVersionResource)

	mu      sync.Mutex
	running map[schema.GroupVersionResource]*running
}

// running is one list-watch.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	// fields are what its objects are cut to; nil for whole objects.
	fields *projection.Fields

	mu    sync.Mutex
	state State
	// have are the fields of what the sink has, while the state is synced.
	have *projection.Fields
	// confirmed is when the API server last told anything of the content.
	confirmed time.Time
	// open is the watch that goes on; nil if none does.
	open watch.Interface
	// refused is when the API server began to say that the type is not to be had; zero if it does not.
	refused time.Time
}

// covers says whether objects have the wanted fields if they have the given ones; nil stands for all.
func covers(have, wanted *projection.Fields) bool {
	return have == nil || wanted != nil && have.Covers(wanted)
}

// identity is what every cut leaves of an object.
var identity = func() *projection.Fields {
	f := &projection.Fields{}
	f.Name("apiVersion")
	f.Name("kind")
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "deletionTimestamp"} {
		f.Name("metadata").Name(name)
	}
	return f.Seal()
}()

// NewManager returns a manager that feeds sink and calls changed whenever a type's State does. Neither may call back
// into the manager.
func NewManager(client dynamic.Interface, sink Sink, changed func(schema.GroupVersionResource)) *Manager {
	return &Manager{client: client, sink: sink, changed: changed, running: map[schema.GroupVersionResource]*running{}}
}

// Set makes wanted the set of watched types: it starts and stops list-watches until that is so. Objects are cut to the
// wanted fields, sealed, before they are kept anywhere; nil stands for the whole object, and of what identifies an
// object nothing is cut.
//
// Where more fields are wanted than before, the type is read anew. What the sink has stands until it is replaced.
// Where fewer are wanted, nothing happens until then.
//
// The watches end with ctx, which must be the same in every call.
func (m *Manager) Set(ctx context.Context, wanted map[schema.GroupVersionResource]*projection.Fields) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource, r := range m.running {
		if _, ok := wanted[resource]; ok {
			continue
		}
		r.cancel()
		<-r.done
		delete(m.running, resource)
		m.sink.Drop(resource)
	}
	for resource, fields := range wanted {
		if ctx.Err() != nil {
			return
		}
		standing, ok := m.running[resource]
		if ok && covers(standing.fields, fields) {
			continue
		}
		watchCtx, cancel := context.WithCancel(ctx)
		r := &running{cancel: cancel, done: make(chan struct{}), fields: fields}
		if ok {
			standing.cancel()
			<-standing.done
			r.state, r.have, r.confirmed = standing.state, standing.have, standing.confirmed
		}
		m.running[resource] = r
		go func() {
			defer close(r.done)
			m.run(watchCtx, resource, r)
		}()
	}
}

// State returns how a type fares; ok is false if it is not watched.
func (m *Manager) State(resource schema.GroupVersionResource) (state State, ok bool) {
	return m.StateOf(resource, projection.Union())
}

// StateOf returns how some fields of a type fare, a sealed set, nil for all: they are not synced before the sink has
// them.
func (m *Manager) StateOf(resource schema.GroupVersionResource, fields *projection.Fields) (state State, ok bool) {
	m.mu.Lock()
	r, ok := m.running[resource]
	m.mu.Unlock()
	if !ok {
		return State{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	state = r.state
	state.Synced = state.Synced && covers(r.have, fields)
	return state, true
}

// Confirmed returns when the API server last told anything of a type's content, be it that nothing changed; zero if it
// never did.
func (m *Manager) Confirmed(resource schema.GroupVersionResource) time.Time {
	m.mu.Lock()
	r, ok := m.running[resource]
	m.mu.Unlock()
	if !ok {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confirmed
}

// States returns how every watched type fares.
func (m *Manager) States() map[schema.GroupVersionResource]State {
	m.mu.Lock()
	all := maps.Clone(m.running)
	m.mu.Unlock()
	out := make(map[schema.GroupVersionResource]State, len(all))
	for resource, r := range all {
		r.mu.Lock()
		out[resource] = r.state
		r.mu.Unlock()
	}
	return out
}

// The pause between two tries to read a type grows from the first to the second of these.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// refusal is how long the API server has to say that a type is not to be had before what was read of it is dropped. One
// that has just started says so until it has read its own roles and definitions.
const refusal = time.Second

func (m *Manager) run(ctx context.Context, resource schema.GroupVersionResource, r *running) {
	log := ctrllog.FromContext(ctx).WithName("watches").WithValues("resource", resource.String())
	log.V(2).Info("Starting watch")
	client := m.client.Resource(resource)
	failed := func(err error) {
		if err == nil || ctx.Err() != nil || benign(err) {
			return
		}
		log.V(2).Info("Watch failed", "error", err.Error())
		lost := false
		m.setState(resource, r, func(s *State) {
			s.Err = err
			s.Failures++
			if lost = r.lost(err); lost {
				s.Synced = false
			}
		})
		if lost {
			// What can't be read any more must not go on deciding.
			m.sink.Drop(resource)
		}
	}
	cut := m.cutter(resource, r.fields)
	// unwatchable says that the last try to watch was refused. A list alone would be true for a moment only, so its
	// result is withheld until a watch succeeds.
	var unwatchable atomic.Bool
	// anew says that the list before was withheld. The next one asks for no version: an API server's watch cache may not
	// reach the version of the list before until something changes, and clients retry for most of a minute meanwhile.
	var anew atomic.Bool
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if anew.Swap(false) || m.Consistent && o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			list, err := client.List(ctx, o)
			failed(err)
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				cut(&list.Items[i])
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			failed(err)
			if err != nil {
				unwatchable.Store(unwatchable.Load() || gone(err))
				return nil, err
			}
			initial := ptr.Deref(o.SendInitialEvents, false)
			if unwatchable.Swap(false) && !initial {
				w.Stop()
				anew.Store(true)
				return nil, errors.New("listing anew: the list before was withheld")
			}
			r.opened(w, !initial)
			return w, nil
		},
	}
	store := &store{
		resource: resource, fields: r.fields, sink: m.sink, cut: cut, withheld: unwatchable.Load, confirmed: r.confirm,
		synced: func() {
			m.setState(resource, r, func(s *State) { *s, r.have, r.refused = State{Synced: true}, r.fields, time.Time{} })
		},
	}
	var from cache.ListerWatcher = lw
	if m.History != nil {
		from = m.History.Wrap(lw)
	}
	reflector := cache.NewReflectorWithOptions(from, &unstructured.Unstructured{}, store, cache.ReflectorOptions{
		Name:            "berth",
		TypeDescription: resource.String(),
		Backoff:         &wait.Backoff{Duration: minBackoff, Factor: 2, Jitter: 0.2, Steps: 10, Cap: maxBackoff},
	})
	reflector.RunWithContext(ctx)
	log.V(2).Info("Stopped watch")
}

// cutter returns what cuts an object of a type to the fields, in place.
func (m *Manager) cutter(resource schema.GroupVersionResource, fields *projection.Fields) func(*unstructured.Unstructured) {
	if fields != nil {
		fields = projection.Union(fields, identity)
	}
	return func(o *unstructured.Unstructured) {
		if m.Prepare != nil {
			m.Prepare(resource, o)
		}
		if fields != nil {
			o.Object = fields.Cut(o.Object)
		}
	}
}

// confirm notes that the API server told something of the content.
func (r *running) confirm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = time.Now()
}

// opened notes a watch that the API server accepted. Where it continues from what is there, the API server sends all that
// has changed since.
func (r *running) opened(w watch.Interface, continues bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = w
	if continues {
		r.confirmed = time.Now()
	}
}

// Reopen ends the watch on a type. The manager watches it again from the last version that it has, and if the API server
// accepts that, the content is confirmed.
func (m *Manager) Reopen(resource schema.GroupVersionResource) {
	m.mu.Lock()
	r, ok := m.running[resource]
	m.mu.Unlock()
	if !ok {
		return
	}
	r.mu.Lock()
	w := r.open
	r.open = nil
	r.mu.Unlock()
	if w != nil {
		w.Stop()
	}
}

// lost says, of an error, whether what was read before is not to be had any more. The caller holds the lock.
func (r *running) lost(err error) bool {
	switch {
	case !gone(err):
		r.refused = time.Time{}
		return false
	case !r.state.Synced:
		return true
	case r.refused.IsZero():
		r.refused = time.Now()
	}
	return time.Since(r.refused) >= refusal
}

// setState changes a type's state and tells, if that made a difference.
func (m *Manager) setState(resource schema.GroupVersionResource, r *running, change func(*State)) {
	r.mu.Lock()
	before, had := r.state, r.have
	change(&r.state)
	differs := !covers(had, r.have) || before.Synced != r.state.Synced || errorText(before.Err) != errorText(r.state.Err)
	r.mu.Unlock()
	if differs {
		m.changed(resource)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// benign errors are part of a watch's life: the reflector lists anew and goes on.
func benign(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err)
}

// gone errors say that the type is not to be had until somebody grants or installs it.
func gone(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// store hands what a reflector reads to the sink. Nothing keeps an object before it is cut: not a list, whose pages are
// cut as they come, and not the store in which a reflector gathers a list that is streamed.
type store struct {
	resource  schema.GroupVersionResource
	fields    *projection.Fields
	sink      Sink
	cut       func(*unstructured.Unstructured)
	withheld  func() bool
	synced    func()
	confirmed func()
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

// Transformer implements cache.TransformingStore: it is for the objects of a streamed list.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, err := asObject(obj)
		if err != nil {
			return nil, err
		}
		s.cut(o)
		return o, nil
	}
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.put(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error { return s.put(obj) }

func (s *store) put(obj any) error {
	o, err := asObject(obj)
	if err != nil {
		return err
	}
	s.cut(o)
	s.sink.Put(s.resource, o)
	s.confirmed()
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	o, err := asObject(obj)
	if err != nil {
		return err
	}
	s.sink.Delete(s.resource, o.GetNamespace(), o.GetName())
	s.confirmed()
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore: nothing has changed, says the API server.
func (s *store) Bookmark(string) error {
	s.confirmed()
	return nil
}

// Replace implements cache.ReflectorStore. The objects were cut as they came.
func (s *store) Replace(list []any, _ string) error {
	objects := make([]*unstructured.Unstructured, 0, len(list))
	for _, obj := range list {
		o, err := asObject(obj)
		if err != nil {
			return err
		}
		objects = append(objects, o)
	}
	if s.withheld() {
		return nil
	}
	s.confirmed()
	s.sink.Replace(s.resource, s.fields, objects)
	s.synced()
	return nil
}

// Resync implements cache.ReflectorStore; sinks keep what they are given.
func (*store) Resync() error { return nil }

func asObject(obj any) (*unstructured.Unstructured, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("object of type %T", obj)
	}
	return o, nil
}

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
)

// Sink receives the objects of the watched types. Calls for one type come from one goroutine at a time, in the order
// of the changes. The sink owns the objects that it is given.
type Sink interface {
	// Replace gives the complete content of a type: at first, and whenever a watch had to start anew.
	Replace(resource schema.GroupVersionResource, objects []*unstructured.Unstructured)
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

	mu    sync.Mutex
	state State
}

// NewManager returns a manager that feeds sink and calls changed whenever a type's State does. Neither may call back
// into the manager.
func NewManager(client dynamic.Interface, sink Sink, changed func(schema.GroupVersionResource)) *Manager {
	return &Manager{client: client, sink: sink, changed: changed, running: map[schema.GroupVersionResource]*running{}}
}

// Set makes wanted the set of watched types: it starts and stops list-watches until that is so. The watches end with
// ctx, which must be the same in every call.
func (m *Manager) Set(ctx context.Context, wanted map[schema.GroupVersionResource]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource, r := range m.running {
		if wanted[resource] {
			continue
		}
		r.cancel()
		<-r.done
		delete(m.running, resource)
		m.sink.Drop(resource)
	}
	for resource := range wanted {
		if _, ok := m.running[resource]; ok || ctx.Err() != nil {
			continue
		}
		watchCtx, cancel := context.WithCancel(ctx)
		r := &running{cancel: cancel, done: make(chan struct{})}
		m.running[resource] = r
		go func() {
			defer close(r.done)
			m.run(watchCtx, resource, r)
		}()
	}
}

// State returns how a type fares; ok is false if it is not watched.
func (m *Manager) State(resource schema.GroupVersionResource) (state State, ok bool) {
	m.mu.Lock()
	r, ok := m.running[resource]
	m.mu.Unlock()
	if !ok {
		return State{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, true
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

func (m *Manager) run(ctx context.Context, resource schema.GroupVersionResource, r *running) {
	log := ctrllog.FromContext(ctx).WithName("watches").WithValues("resource", resource.String())
	log.V(2).Info("Starting watch")
	client := m.client.Resource(resource)
	failed := func(err error) {
		if err == nil || ctx.Err() != nil || benign(err) {
			return
		}
		log.V(2).Info("Watch failed", "error", err.Error())
		m.setState(resource, r, func(s *State) {
			s.Err = err
			s.Failures++
			if gone(err) {
				s.Synced = false
			}
		})
		if gone(err) {
			// What can't be read any more must not go on deciding.
			m.sink.Drop(resource)
		}
	}
	// unwatchable says that the last try to watch was refused. A list alone would be true for a moment only, so its
	// result is withheld until a watch succeeds.
	var unwatchable atomic.Bool
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if m.Consistent && o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			list, err := client.List(ctx, o)
			failed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			failed(err)
			if err != nil {
				unwatchable.Store(unwatchable.Load() || gone(err))
				return nil, err
			}
			if unwatchable.Swap(false) && !ptr.Deref(o.SendInitialEvents, false) {
				w.Stop()
				return nil, errors.New("listing anew: the list before was withheld")
			}
			return w, nil
		},
	}
	store := &store{resource: resource, sink: m.sink, withheld: unwatchable.Load, synced: func() {
		m.setState(resource, r, func(s *State) { *s = State{Synced: true} })
	}}
	reflector := cache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, store, cache.ReflectorOptions{
		Name:            "berth",
		TypeDescription: resource.String(),
		Backoff:         &wait.Backoff{Duration: minBackoff, Factor: 2, Jitter: 0.2, Steps: 10, Cap: maxBackoff},
	})
	reflector.RunWithContext(ctx)
	log.V(2).Info("Stopped watch")
}

// setState changes a type's state and tells, if that made a difference.
func (m *Manager) setState(resource schema.GroupVersionResource, r *running, change func(*State)) {
	r.mu.Lock()
	before := r.state
	change(&r.state)
	differs := before.Synced != r.state.Synced || errorText(before.Err) != errorText(r.state.Err)
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

// store hands what a reflector reads to the sink.
type store struct {
	resource schema.GroupVersionResource
	sink     Sink
	withheld func() bool
	synced   func()
}

var _ cache.ReflectorStore = (*store)(nil)

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.put(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error { return s.put(obj) }

func (s *store) put(obj any) error {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("object of type %T", obj)
	}
	s.sink.Put(s.resource, o)
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("object of type %T", obj)
	}
	s.sink.Delete(s.resource, o.GetNamespace(), o.GetName())
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(list []any, _ string) error {
	objects := make([]*unstructured.Unstructured, 0, len(list))
	for _, obj := range list {
		o, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("object of type %T", obj)
		}
		objects = append(objects, o)
	}
	if s.withheld() {
		return nil
	}
	s.sink.Replace(s.resource, objects)
	s.synced()
	return nil
}

// Resync implements cache.ReflectorStore; sinks keep what they are given.
func (*store) Resync() error { return nil }

package watches

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// History detects when the API server's store was set back to an earlier state, as a restore of etcd from a backup
// does. What this process has seen since the backup then never happened. The API server accepts watches from resource
// versions that are ahead of its store, and omits every event up to them. So clients that continue their watches would
// miss changes and keep objects that do not exist.
//
// A History is safe for concurrent use. Create it with NewHistory.
type History struct {
	mu          sync.Mutex
	current     *era
	subscribers []func()
}

// era is the time between two restores.
type era struct {
	number uint64
	// context ends with the era.
	context context.Context
	end     context.CancelFunc
}

// NewHistory returns a History in its first era, in which no restore is known.
func NewHistory() *History {
	h := &History{}
	h.current = newEra(1)
	return h
}

func newEra(number uint64) *era {
	out := &era{number: number}
	out.context, out.end = context.WithCancel(context.Background())
	return out
}

// Subscribe registers f, which is called after each call of Rewound. f must return quickly.
func (h *History) Subscribe(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers = append(h.subscribers, f)
}

// Rewound begins a new era because the store was set back. All watches of wrapped ListerWatchers end, and their
// reflectors list again. A caller needs proof: a read from the API server that began after a newer version of the same
// object or list was known and that returned an older one.
func (h *History) Rewound() {
	h.mu.Lock()
	before := h.current
	h.current = newEra(before.number + 1)
	subscribers := slices.Clone(h.subscribers)
	h.mu.Unlock()
	before.end()
	for _, f := range subscribers {
		f()
	}
}

func (h *History) now() *era {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// Wrap returns a ListerWatcher for one reflector. In a new era it refuses to continue from what was listed in an
// earlier one.
func (h *History) Wrap(next cache.ListerWatcher) cache.ListerWatcher {
	out := &eraListerWatcher{next: cache.ToListerWatcherWithContext(next), history: h}
	out.listed.Store(h.now().number)
	return out
}

// eraListerWatcher is the ListerWatcher of one reflector.
type eraListerWatcher struct {
	next    cache.ListerWatcherWithContext
	history *History
	// listed is the era in which the reflector began to read its current content.
	listed atomic.Uint64
}

var (
	_ cache.ListerWatcherWithContext = (*eraListerWatcher)(nil)
	_ cache.ListerWatcher            = (*eraListerWatcher)(nil)
)

// List implements cache.ListerWatcher.
func (l *eraListerWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch implements cache.ListerWatcher.
func (l *eraListerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// fromNow reports whether a request reads the current state, independently of what the client has seen.
func fromNow(o metav1.ListOptions) bool { return o.ResourceVersion == "" || o.ResourceVersion == "0" }

// errAnotherHistory returns the error that makes a reflector list without a resource version.
func errAnotherHistory() error {
	return apierrors.NewResourceExpired("the API server's store has gone back to an earlier state")
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (l *eraListerWatcher) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	now := l.history.now()
	if !fromNow(o) && l.listed.Load() != now.number {
		return nil, errAnotherHistory()
	}
	list, err := l.next.ListWithContext(ctx, o)
	if err == nil && fromNow(o) && o.Continue == "" {
		l.listed.Store(now.number)
	}
	return list, err
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (l *eraListerWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	now := l.history.now()
	if !fromNow(o) && l.listed.Load() != now.number {
		return nil, errAnotherHistory()
	}
	w, err := l.next.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	if fromNow(o) && ptr.Deref(o.SendInitialEvents, false) {
		l.listed.Store(now.number)
	}
	return &eraWatch{Interface: w, release: context.AfterFunc(now.context, w.Stop)}, nil
}

// eraWatch is a watch that ends with its era.
type eraWatch struct {
	watch.Interface
	release func() bool
}

// Stop implements watch.Interface.
func (w *eraWatch) Stop() {
	w.release()
	w.Interface.Stop()
}

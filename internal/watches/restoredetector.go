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
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/internal/notify"
)

// RestoreDetector detects when the API server's store was set back to an earlier state, as a restore of etcd from a
// backup does. What this process has seen since the backup then never happened. The API server accepts watches from
// resource versions that are ahead of its store, and omits every event up to them. So clients that continue their
// watches would miss changes and keep objects that do not exist.
//
// A RestoreDetector is safe for concurrent use. Create it with NewRestoreDetector.
type RestoreDetector struct {
	mu       sync.Mutex
	current  *epoch
	restores notify.Topic[struct{}]
}

// epoch is the time between two restores.
type epoch struct {
	number uint64
	// context ends with the epoch.
	context context.Context
	end     context.CancelFunc
}

// NewRestoreDetector returns a RestoreDetector in its first epoch, in which no restore is known.
func NewRestoreDetector() *RestoreDetector {
	h := &RestoreDetector{}
	h.current = newEpoch(1)
	return h
}

func newEpoch(number uint64) *epoch {
	out := &epoch{number: number}
	out.context, out.end = context.WithCancel(context.Background())
	return out
}

// Subscribe registers f, which is called after each call of ReportRestore. f must return quickly.
func (h *RestoreDetector) Subscribe(f func()) { h.restores.Subscribe(func(struct{}) { f() }) }

// ReportRestore begins a new epoch because the store was set back. All watches of wrapped ListerWatchers end, and their
// reflectors list again. A caller needs proof: a read from the API server that began after a newer version of the same
// object or list was known and that returned an older one.
func (h *RestoreDetector) ReportRestore() {
	h.mu.Lock()
	before := h.current
	h.current = newEpoch(before.number + 1)
	h.mu.Unlock()
	before.end()
	h.restores.Publish(struct{}{})
}

func (h *RestoreDetector) currentEpoch() *epoch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// Wrap returns a ListerWatcher for one reflector. In a new epoch it refuses to continue from what was listed in an
// earlier one.
func (h *RestoreDetector) Wrap(next cache.ListerWatcher) cache.ListerWatcher {
	out := &epochListerWatcher{next: cache.ToListerWatcherWithContext(next), detector: h}
	out.listedEpoch.Store(h.currentEpoch().number)
	return &cache.ListWatch{ListWithContextFunc: out.list, WatchFuncWithContext: out.watch}
}

// epochListerWatcher has the functions of the ListerWatcher of one reflector.
type epochListerWatcher struct {
	next     cache.ListerWatcherWithContext
	detector *RestoreDetector
	// listedEpoch is the epoch in which the reflector began to read its current content.
	listedEpoch atomic.Uint64
}

// readsCurrentState reports whether a request reads the current state, independently of what the client has seen.
func readsCurrentState(o metav1.ListOptions) bool {
	return o.ResourceVersion == "" || o.ResourceVersion == "0"
}

// errStoreRestored returns the error that makes a reflector list without a resource version.
func errStoreRestored() error {
	return apierrors.NewResourceExpired("the API server's store has gone back to an earlier state")
}

func (l *epochListerWatcher) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	now := l.detector.currentEpoch()
	if !readsCurrentState(o) && l.listedEpoch.Load() != now.number {
		return nil, errStoreRestored()
	}
	list, err := l.next.ListWithContext(ctx, o)
	if err == nil && readsCurrentState(o) && o.Continue == "" {
		l.listedEpoch.Store(now.number)
	}
	return list, err
}

func (l *epochListerWatcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	now := l.detector.currentEpoch()
	if !readsCurrentState(o) && l.listedEpoch.Load() != now.number {
		return nil, errStoreRestored()
	}
	w, err := l.next.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	if readsCurrentState(o) && ptr.Deref(o.SendInitialEvents, false) {
		l.listedEpoch.Store(now.number)
	}
	return &epochWatch{Interface: w, release: context.AfterFunc(now.context, w.Stop)}, nil
}

// epochWatch is a watch that ends with its epoch.
type epochWatch struct {
	watch.Interface
	release func() bool
}

// Stop implements watch.Interface.
func (w *epochWatch) Stop() {
	w.release()
	w.Interface.Stop()
}

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

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/projection"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// watchedServer is an API server with objects of one type.
type watchedServer struct {
	*httptest.Server

	mu      sync.Mutex
	version int
	// objects are the versions of the objects by name.
	objects map[string]int
	// refuse is the status with which the server refuses to watch; 0 if it does not.
	refuse int
	// lists is the number of lists, and asked are the versions from which clients watched.
	lists int
	asked []string
	// open are the watches that are open.
	open map[chan string]bool
}

func newWatchedServer(t *testing.T, names ...string) *watchedServer {
	s := &watchedServer{objects: map[string]int{}, open: map[chan string]bool{}}
	for _, name := range names {
		s.put(name)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// object returns an object of a version as JSON.
func object(name string, version int) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q,"resourceVersion":"%d","labels":{"version":"%d"}}}`, name, version, version)
}

// send sends an event to all watches. The caller holds mu.
func (s *watchedServer) send(kind, object string) {
	for events := range s.open {
		events <- fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
	}
}

// put creates or changes an object.
func (s *watchedServer) put(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.objects[name] = s.version
	s.send("MODIFIED", object(name, s.version))
}

// remove removes an object.
func (s *watchedServer) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	delete(s.objects, name)
	s.send("DELETED", object(name, s.version))
}

// bookmark sends a bookmark of a new version.
func (s *watchedServer) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.send("BOOKMARK", fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"%d"}}`, s.version))
}

// status returns the Status of an error as JSON.
func status(code int) string {
	text, _ := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: map[int]metav1.StatusReason{
			http.StatusGone: metav1.StatusReasonExpired, http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		}[code],
	})
	return string(text)
}

// fail ends all watches with an error.
func (s *watchedServer) fail(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send("ERROR", status(code))
	s.hangUp()
}

// hangUp ends all watches. The caller holds mu.
func (s *watchedServer) hangUp() {
	for events := range s.open {
		close(events)
	}
	clear(s.open)
}

// ServeHTTP lists or watches the objects.
func (s *watchedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	if r.URL.Query().Get("watch") == "" {
		defer s.mu.Unlock()
		s.lists++
		_, _ = fmt.Fprintf(w, `{"apiVersion":"example.com/v1","kind":"WidgetList","metadata":{"resourceVersion":"%d"},"items":[`, s.version)
		separator := ""
		for name, version := range s.objects {
			_, _ = fmt.Fprint(w, separator, object(name, version))
			separator = ","
		}
		_, _ = fmt.Fprint(w, "]}")
		return
	}
	s.asked = append(s.asked, r.URL.Query().Get("resourceVersion"))
	if s.refuse != 0 {
		defer s.mu.Unlock()
		w.WriteHeader(s.refuse)
		_, _ = fmt.Fprint(w, status(s.refuse))
		return
	}
	events := make(chan string, 100)
	s.open[events] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.open, events)
		s.mu.Unlock()
	}()
	stream := http.NewResponseController(w)
	_ = stream.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case text, ok := <-events:
			if !ok {
				return
			}
			_, _ = fmt.Fprint(w, text)
			_ = stream.Flush()
		}
	}
}

// cluster returns a cluster that lists the objects of the server, and watches them as long as the context lasts.
func (s *watchedServer) cluster(ctx context.Context, t *testing.T) *Watched {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	out := NewWatched(&Live{client: client})
	out.pollInterval = 50 * time.Millisecond
	if got := namesIn(t, out, nil); len(got) != len(s.objects) {
		t.Fatalf("the cluster has %v", got)
	}
	out.Follow(ctx)
	return out
}

// namesIn returns the versions of the objects of a cluster by name.
func namesIn(t *testing.T, w *Watched, fields *projection.FieldSet) map[string]string {
	t.Helper()
	objects, err := w.List(t.Context(), widgets, fields)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, obj := range objects {
		out[obj.GetName()] = obj.GetLabels()["version"]
	}
	return out
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waited in vain until %s: %v", what, err)
	}
}

// watches returns the number of open watches, and of all requests to watch.
func (s *watchedServer) watches() (open, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.asked)
}

// awaitWatch waits until one watch is open.
func (s *watchedServer) awaitWatch(t *testing.T) {
	t.Helper()
	eventually(t, "one watch is open", func() bool {
		open, _ := s.watches()
		return open == 1
	})
}

// last returns the version from which a client watched last.
func (s *watchedServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

// checkNoLeak checks that nothing follows a cluster any more once the context of Follow has ended.
func checkNoLeak(t *testing.T, s *watchedServer, stop func()) {
	t.Helper()
	stop()
	eventually(t, "all watches are closed", func() bool {
		open, _ := s.watches()
		return open == 0
	})
	s.Close()
	// Connections that are idle belong to the client.
	goleak.VerifyNone(t, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("testing.(*T).Run"), goleak.IgnoreAnyFunction("testing.(*T).Parallel"))
}

// TestWatched checks that a list follows the changes of objects, goes on after the API server has closed a watch, and ends with its page.
func TestWatched(t *testing.T) {
	s := newWatchedServer(t, "a", "b")
	ctx, stop := context.WithCancel(t.Context())
	w := s.cluster(ctx, t)
	s.awaitWatch(t)
	if s.last() != "2" {
		t.Errorf("the watch began at version %s", s.last())
	}
	before, next := w.Changes()
	s.put("c")
	<-next
	s.remove("a")
	eventually(t, "the changes are known", func() bool { return fmt.Sprint(namesIn(t, w, nil)) == "map[b:2 c:3]" })
	if after, _ := w.Changes(); after != before+2 {
		t.Errorf("%d changes, and then %d", before, after)
	}

	s.bookmark()
	s.mu.Lock()
	s.hangUp()
	s.mu.Unlock()
	eventually(t, "the client watches again", func() bool { return s.last() == "5" })
	s.awaitWatch(t)
	s.put("b")
	eventually(t, "a change after the restart is known", func() bool { return namesIn(t, w, nil)["b"] == "6" })
	s.bookmark()
	eventually(t, "the bookmark is noted", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.lists[widgets].version == "7"
	})
	if s.lists != 1 {
		t.Errorf("the type was listed %d times", s.lists)
	}
	for name, want := range map[string]string{"b": "6", "a": ""} {
		got := ""
		if obj, err := w.Get(t.Context(), widgets, "", name); err != nil {
			t.Fatal(err)
		} else if obj != nil {
			got = obj.GetResourceVersion()
		}
		if got != want {
			t.Errorf("the object %s has the version %q, want %q", name, got, want)
		}
	}

	// The next page goes on from the bookmark.
	stop()
	eventually(t, "the watch ends with the page", func() bool {
		open, _ := s.watches()
		return open == 0
	})
	ctx, stop = context.WithCancel(t.Context())
	w.Follow(ctx)
	s.awaitWatch(t)
	if s.last() != "7" {
		t.Errorf("the next page watches from version %s", s.last())
	}
	checkNoLeak(t, s, stop)
}

// TestLostChanges checks that a type is read again if the API server no longer has its changes.
func TestLostChanges(t *testing.T) {
	for _, how := range []string{"an event", "a status"} {
		t.Run(how, func(t *testing.T) {
			s := newWatchedServer(t, "a")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if how == "a status" {
				s.refuse = http.StatusGone
			}
			w := s.cluster(ctx, t)
			_, next := w.Changes()
			if how == "an event" {
				s.awaitWatch(t)
				s.mu.Lock()
				s.version += 100
				s.objects["b"] = s.version
				s.mu.Unlock()
				s.fail(http.StatusGone)
			}
			select {
			case <-next:
			case <-time.After(time.Minute):
				t.Fatal("nothing says that changes are lost")
			}
			s.mu.Lock()
			s.refuse = 0
			s.mu.Unlock()
			// The list had whole objects, of which fewer fields are needed now.
			if got := namesIn(t, w, projection.Fields("metadata.labels.**")); len(got) != len(s.objects) || s.lists != 2 {
				t.Errorf("%v after %d lists", got, s.lists)
			}
			s.awaitWatch(t)
			if s.last() != strconv.Itoa(s.version) {
				t.Errorf("the client watches from version %s", s.last())
			}
		})
	}
}

// TestUnwatchable checks that a type that can be listed alone is listed at intervals, and named.
func TestUnwatchable(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusMethodNotAllowed} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			s := newWatchedServer(t, "a")
			s.refuse = code
			ctx, stop := context.WithCancel(t.Context())
			w := s.cluster(ctx, t)
			eventually(t, "the type is named", func() bool { return len(w.Polled()) == 1 })
			if got := w.Polled()[0]; got != widgets.GroupResource() {
				t.Errorf("%v is listed at intervals", got)
			}
			s.put("b")
			eventually(t, "a new object is known", func() bool { return namesIn(t, w, nil)["b"] == "2" })
			before, _ := w.Changes()
			lists := s.lists
			eventually(t, "the type is listed again", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.lists > lists+1
			})
			if after, _ := w.Changes(); after != before {
				t.Error("lists without a change count as changes")
			}
			if _, asked := s.watches(); asked != 1 {
				t.Errorf("%d requests to watch", asked)
			}
			checkNoLeak(t, s, stop)
		})
	}
}

// TestListsWithMoreFields checks that a list with more fields takes the place of the one before, whose watch ends.
func TestListsWithMoreFields(t *testing.T) {
	s := newWatchedServer(t, "a")
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatched(&Live{client: client})
	ctx, stop := context.WithCancel(t.Context())
	w.Follow(ctx)
	namesIn(t, w, projection.Fields("spec.a"))
	s.awaitWatch(t)
	namesIn(t, w, projection.Fields("spec.a", "spec.b"))
	eventually(t, "the second list is watched", func() bool {
		_, asked := s.watches()
		return asked == 2
	})
	s.awaitWatch(t)
	s.put("b")
	eventually(t, "the change is known", func() bool { return namesIn(t, w, projection.Fields("spec.b"))["b"] == "2" })
	if s.lists != 2 {
		t.Errorf("%d lists", s.lists)
	}
	checkNoLeak(t, s, stop)
}

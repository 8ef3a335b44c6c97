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

package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/simulation"
)

// changing is a cluster that changes.
type changing struct {
	simulation.Cluster

	mu      sync.Mutex
	changes int
	next    chan struct{}
	// following are the contexts of the calls of Follow.
	following []context.Context
}

// Changes returns the number of changes so far, and a channel that is closed at the next one.
func (c *changing) Changes() (int, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes, c.next
}

// Polled returns a type that the user may not watch.
func (c *changing) Polled() []schema.GroupResource {
	return []schema.GroupResource{{Group: "apps", Resource: "deployments"}}
}

// Follow follows nothing: the test changes the cluster.
func (c *changing) Follow(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.following = append(c.following, ctx)
}

func (c *changing) become(cluster simulation.Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Cluster = cluster
	c.changes++
	close(c.next)
	c.next = make(chan struct{})
}

// last returns the context of the last call of Follow.
func (c *changing) last() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.following[len(c.following)-1]
}

// updates returns the lines with data that the console sends to a page, until the context ends.
func updates(ctx context.Context, t *testing.T, b *browser) <-chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.guard.URL()+"api/updates", nil)
	if err != nil {
		t.Fatal(err)
	}
	out, started := make(chan string, 100), make(chan error, 1)
	go func() {
		response, err := b.Do(r)
		if err != nil {
			started <- err
			return
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
			started <- fmt.Errorf("%s, %s", response.Status, response.Header.Get("Content-Type"))
			return
		}
		close(started)
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data: ") {
				out <- lines.Text()
			}
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	// The first line has the latest reading, which the page may not have.
	select {
	case line := <-out:
		if at := get[struct{ ReadAt string }](t, b, "fleet").ReadAt; !strings.Contains(line, at) {
			t.Errorf("%s, but the latest reading is of %s", line, at)
		}
	case <-time.After(updateTimeout):
		t.Fatal("the console does not say which reading is the latest")
	}
	return out
}

// updateTimeout is how long an update may take.
const updateTimeout = time.Minute

func awaitUpdate(t *testing.T, from <-chan string) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(updateTimeout):
		t.Fatal("no update came")
	}
}

// TestUpdates checks that pages get a new reading when the cluster changes, and that the console follows it only while a page wants that.
func TestUpdates(t *testing.T) {
	cluster := &changing{Cluster: static(t, clusters+policies+workloads+quotas), next: make(chan struct{})}
	b := serve(t, config(cluster)).open(t)
	total := func(name string) int { return get[struct{ Total int }](t, b, "objects?q="+name).Total }
	if total("web") != 1 || len(cluster.following) > 0 {
		t.Errorf("before: %d objects, %d calls of Follow", total("web"), len(cluster.following))
	}
	if !get[struct{ Live bool }](t, b, "fleet").Live {
		t.Error("the fleet is not live")
	}
	if notes := get[struct{ Notes []string }](t, b, "fleet").Notes; len(notes) != 1 || !strings.HasPrefix(notes[0], "You may list deployments.apps, but not watch them") {
		t.Errorf("notes %q", notes)
	}
	first, leaveFirst := context.WithCancel(t.Context())
	second, leaveSecond := context.WithCancel(t.Context())
	defer leaveSecond()
	one, other := updates(first, t, b), updates(second, t, b)
	cluster.become(static(t, clusters+policies+strings.Replace(workloads, "name: web", "name: site", 1)+quotas))
	awaitUpdate(t, one)
	awaitUpdate(t, other)
	if total("web") != 0 || total("site") != 1 {
		t.Error("the console shows the old reading")
	}
	leaveFirst()
	cluster.become(static(t, clusters+policies+workloads+quotas))
	awaitUpdate(t, other)
	if cluster.last().Err() != nil {
		t.Error("the console stopped following while a page is there")
	}
	post[any](t, b, "refresh", map[string]any{})
	awaitUpdate(t, other)
	leaveSecond()
	select {
	case <-cluster.last().Done():
	case <-time.After(updateTimeout):
		t.Fatal("the console still follows the cluster")
	}
}

// TestUpdatesOfFiles checks that a page can wait for the updates of files, which come when the user reads them again.
func TestUpdatesOfFiles(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := updates(t.Context(), t, b)
	post[any](t, b, "refresh", map[string]any{})
	awaitUpdate(t, got)
	if get[struct{ Live bool }](t, b, "fleet").Live {
		t.Error("files are not live")
	}
}

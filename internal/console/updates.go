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

package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// follower is a cluster that can follow its changes, count them, and tell of the next one, such as simulation.Watched.
type follower interface {
	// Follow follows the changes until the context ends.
	Follow(ctx context.Context)
	// Changes returns the number of changes so far, and a channel that is closed at the next one.
	Changes() (n int, next <-chan struct{})
	// Polled returns the types that can't be watched, so that they are listed again at intervals.
	Polled() []schema.GroupResource
}

// The pauses between readings while pages follow the cluster: at least minPause, and so long that computing takes at most a part of the
// time.
const (
	minPause    = 2 * time.Second
	pauseFactor = 5
)

// heartbeat is how often a page gets a line without content, so that proxies keep the connection.
const heartbeat = 20 * time.Second

// updates tells pages of new readings. It is safe for concurrent use.
type updates struct {
	mu sync.Mutex
	// pages has the channel of each connected page, with room for one reading, since only the newest one counts.
	pages map[chan *state]bool
	// stop ends the context of follow; nil if no page is connected.
	stop context.CancelFunc
}

func newUpdates() *updates { return &updates{pages: map[chan *state]bool{}} }

// announce sends a reading to all pages, in place of an earlier one that a page has not received.
func (u *updates) announce(s *state) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for page := range u.pages {
		select {
		case <-page:
		default:
		}
		page <- s
	}
}

// join adds the channel of a page. For the first page, it starts follow in a goroutine; follow has to return when its context ends.
func (u *updates) join(page chan *state, follow func(context.Context)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pages[page] = true
	if u.stop == nil {
		var ctx context.Context
		ctx, u.stop = context.WithCancel(context.Background())
		go follow(ctx)
	}
}

// leave removes the channel of a page. The last one ends the context of follow.
func (u *updates) leave(page chan *state) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pages, page)
	if len(u.pages) == 0 {
		u.stop()
		u.stop = nil
	}
}

// serveUpdates sends the time of the latest reading, and then that of each new one, to a page, as server-sent events, until the page closes
// the connection. While a page is connected, the console follows the changes of the cluster.
func (c *Console) serveUpdates(w http.ResponseWriter, r *http.Request) {
	if _, err := c.current(r); err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	// Proxies such as nginx otherwise wait for more.
	w.Header().Set("X-Accel-Buffering", "no")
	stream := http.NewResponseController(w)
	send := func(text string) bool {
		_, err := fmt.Fprint(w, text)
		return err == nil && stream.Flush() == nil
	}
	sendReading := func(s *state) bool {
		// A time has a JSON form.
		text, _ := json.Marshal(refreshed{s.at})
		return send(fmt.Sprintf("data: %s\n\n", text))
	}
	page := make(chan *state, 1)
	c.updates.join(page, c.follow)
	defer c.updates.leave(page)
	c.mu.Lock()
	latest := c.latest
	c.mu.Unlock()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	// The page may show an earlier reading.
	for sent := sendReading(latest); sent; {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			sent = send(": still connected\n\n")
		case s := <-page:
			sent = sendReading(s)
		}
	}
}

// follow makes a new reading when the cluster has changed, until the context ends. Of files, it makes none.
func (c *Console) follow(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		s, replaced := c.latest, c.replaced
		c.mu.Unlock()
		cluster, ok := s.Cluster.(follower)
		if !ok {
			// The user may read the files again.
			await[struct{}](ctx, replaced, nil)
			continue
		}
		following, stop := context.WithCancel(ctx)
		cluster.Follow(following)
		c.followCluster(following, s, cluster, replaced)
		stop()
	}
}

// followCluster makes a new reading when the cluster has changed, of all changes in a pause one, until the context ends, or the user reads
// the cluster again (replaced is closed). s is the latest reading.
func (c *Console) followCluster(ctx context.Context, s *state, cluster follower, replaced <-chan struct{}) {
	pause := minPause
	for {
		changes, next := cluster.Changes()
		for changes == s.changes {
			if !await(ctx, replaced, next) {
				return
			}
			changes, next = cluster.Changes()
		}
		timer := time.NewTimer(pause)
		again := await(ctx, replaced, timer.C)
		timer.Stop()
		if !again {
			return
		}
		started := time.Now()
		again, s = c.publishChanges(ctx, s)
		if !again {
			return
		}
		pause = max(minPause, pauseFactor*time.Since(started))
	}
}

// await waits for a value of event, or for its end, and reports true. It reports false if the context ends, or the channel end is closed,
// before.
func await[T any](ctx context.Context, end <-chan struct{}, event <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case <-end:
		return false
	case <-event:
		return true
	}
}

// publishChanges makes a new reading of the followed cluster, decides its objects, announces it as the latest in place of last, and returns
// it. If the cluster can't be read, it returns last, and announces nothing. The bool is false if following has to end: the context has
// ended, or the user has read the cluster again meanwhile.
func (c *Console) publishChanges(ctx context.Context, last *state) (bool, *state) {
	s := newState(last.Reading, c.config.computing)
	// Without the rights for the fleet, other views show more than before.
	if _, err := s.fleet(ctx); ctx.Err() != nil || err != nil && !apierrors.IsForbidden(err) {
		return ctx.Err() == nil, last
	}
	c.mu.Lock()
	current := c.latest == last
	if current {
		c.latest = s
	}
	c.mu.Unlock()
	if current {
		c.updates.announce(s)
	}
	return current, s
}

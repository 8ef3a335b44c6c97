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

package push

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
)

const (
	// pollInterval is the approximate interval between checks that an engine still has everything.
	pollInterval = time.Second
	// pushDelay is how long changes wait so that more of them can be pushed together.
	pushDelay = 100 * time.Millisecond
	// pushTimeout is the timeout of one request.
	pushTimeout = 30 * time.Second
	// maxRetryAfter is the maximum delay that an engine may request with Retry-After.
	maxRetryAfter = 5 * time.Minute
	// refusedRetryInterval is the time after which something that an engine refused is tried again.
	refusedRetryInterval = 30 * time.Second
	// maxMalformed is the number of consecutive unreadable responses after which a request fails.
	maxMalformed = 5
	// maxTokenAttempts is the maximum number of consecutive attempts to take the fencing token.
	maxTokenAttempts = 5
	// emptyingTimeout is how long to keep trying to empty an engine that no policy needs any more.
	emptyingTimeout = time.Minute
	// typePatch is the media type of a JSON Patch.
	typePatch = "application/json-patch+json"
)

// errLost means that the engine lacks something that was pushed to it. errRefused means that it rejects something.
// errNothingLeft means that no work is left.
var (
	errLost        = errors.New("the engine has lost what it was given")
	errRefused     = errors.New("the engine refuses what it is given")
	errNothingLeft = errors.New("nobody wants anything of the engine")
)

// server is one engine that Berth pushes to. One goroutine does all the pushing.
type server struct {
	pusher   *Pusher
	base     *url.URL
	endpoint string
	signal   chan struct{}

	// The following are guarded by the pusher's lock.

	needs   engineNeeds
	backlog backlog
	// completeTypes are the types that the manifest lists as complete.
	completeTypes map[schema.GroupVersionResource]bool
	// err is the error that prevents all pushes. refused are the errors by type, and rejected those of modules by policy.
	err      error
	refused  map[schema.GroupVersionResource]rejectedPush
	rejected map[string]rejectedPush

	// The following belong to the goroutine.

	// loaded reports whether the fields below match the engine. trusted reports whether the engine's manifest is reliable
	// even while loaded is false.
	loaded, trusted bool
	client          *opaclient.Client
	manifest        opaclient.Manifest
	fencingToken    string
	tokenCount      int
	mirror          *mirror
	// parents are the parent documents that are known to exist.
	parents map[pointer]bool
	modules modules
	polled  time.Time
	// checkedTypes is the number of types that were checked so far.
	checkedTypes int
	// unneededSince is the time since when no policy needs the engine; zero if one does.
	unneededSince time.Time
}

// rejectedPush is the reason why an engine rejects something, and the time until which it is not pushed again.
type rejectedPush struct {
	err error
	// digest is the digest of the rejected modules.
	digest string
	until  time.Time
}

func newServer(s *Pusher, base *url.URL, endpoint string) *server {
	return &server{
		pusher: s, base: base, endpoint: endpoint, signal: make(chan struct{}, 1), backlog: newBacklog(s.bodyLimit), trusted: true,
		completeTypes: map[schema.GroupVersionResource]bool{}, refused: map[schema.GroupVersionResource]rejectedPush{}, rejected: map[string]rejectedPush{},
	}
}

// wake wakes the goroutine to look for work.
func (s *server) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// errorFor returns the error that prevents pushing what a policy needs. The caller holds the lock.
func (s *server) errorFor(name string) error {
	w, ok := s.needs.policies[name]
	switch {
	case !ok:
		return nil
	case s.err != nil:
		return s.err
	case s.rejected[name].err != nil:
		return s.rejected[name].err
	}
	for _, r := range w.Types {
		if err := s.refused[r.GroupVersionResource].err; err != nil {
			return err
		}
	}
	return nil
}

// run pushes to the engine until ctx ends or no policy needs the engine.
func (s *server) run(ctx context.Context) {
	pause := newPushBackoff()
	var begun time.Time
	for ctx.Err() == nil {
		if !s.loaded {
			// Back off, so that an engine that keeps losing its data is not loaded all the time.
			if time.Since(begun) > time.Minute {
				pause = newPushBackoff()
			} else if !s.sleep(ctx, pause.Step()) {
				return
			}
			begun = time.Now()
		}
		err := s.syncOnce(ctx)
		switch {
		case errors.Is(err, errNothingLeft):
			return
		case err != nil && ctx.Err() == nil:
			s.loaded, s.trusted = false, !errors.Is(err, errLost)
			s.setError(err)
			continue
		}
		timer := time.NewTimer(wait.Jitter(pollInterval, 0.2))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.signal:
			s.sleep(ctx, pushDelay)
		}
		timer.Stop()
	}
}

// newPushBackoff returns the backoff between attempts.
func newPushBackoff() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 15 * time.Second}
}

// sleep waits for a duration. It returns false if ctx ends first.
func (s *server) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// syncOnce does all work that is due. The error is errLost or errRefused if the engine must be loaded again, and
// errNothingLeft if no work is left.
func (s *server) syncOnce(ctx context.Context) error {
	if !s.loaded {
		if err := s.takeOver(ctx); err != nil {
			return err
		}
		s.loaded, s.trusted = true, true
	}
	for {
		did, err := s.step(ctx)
		if err != nil {
			return err
		}
		if !did {
			break
		}
	}
	if len(s.currentNeeds().policies) == 0 {
		return s.removeManifest(ctx)
	}
	s.unneededSince = time.Time{}
	if time.Since(s.polled) < pollInterval/2 {
		return nil
	}
	s.polled = time.Now()
	return s.poll(ctx)
}

// step does one piece of work. did is false if there is none.
func (s *server) step(ctx context.Context) (did bool, err error) {
	for _, step := range []func(context.Context) (bool, error){s.removeTypes, s.loadTypes, s.pushModules, s.sendChanges} {
		if did, err := step(ctx); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

func (s *server) currentNeeds() engineNeeds {
	s.pusher.mu.Lock()
	defer s.pusher.mu.Unlock()
	return s.needs
}

// takeOver takes the engine over from the previous writer. If the engine's manifest is reliable, what it lists stays
// listed until newer data replaces it.
func (s *server) takeOver(ctx context.Context) error {
	s.pusher.options.Observer.Loading(s.endpoint)
	s.pusher.mu.Lock()
	s.backlog = newBacklog(s.pusher.bodyLimit)
	s.pusher.reportPending(s.endpoint)
	s.pusher.mu.Unlock()
	s.mirror, s.parents = newMirror(), map[pointer]bool{}
	next := opaclient.Manifest{LoadID: rand.Text(), Types: map[string]bool{}, Modules: map[string]opaclient.ManifestModules{}}
	old, err := s.takeFencingToken(ctx, next.LoadID)
	if err != nil {
		return err
	}
	if err := s.listModules(ctx); err != nil {
		return err
	}
	s.pusher.mu.Lock()
	w, refused := s.needs, maps.Clone(s.refused)
	s.pusher.mu.Unlock()
	for name, whole := range old.Types {
		r, ok := opaclient.ParseType(name)
		_, wanted := w.types[r]
		_, inventory := s.pusher.ranks[r]
		// The manifest does not tell which inventories the clusters came from.
		keep := ok && whole && wanted && !inventory && !w.ambiguous[r.Resource] && s.trusted && refused[r].err == nil
		next.Types[name] = keep
		if keep {
			for _, parent := range parentsOf(r) {
				s.parents[parent] = true
			}
		}
	}
	for name, entry := range old.Modules {
		if s.trusted && w.policies[name].Remote != nil && s.modules.contain(w.policies[name].Remote.Modules) {
			next.Modules[name] = entry
		} else {
			s.modules.recordSuperseded(name, entry)
		}
	}
	return s.commit(ctx, s.change(), func(h *opaclient.Manifest) { *h = next })
}

// takeFencingToken takes the fencing token, so that all changes fail except the next one of this server. It returns the
// previous manifest. Its request replaces the token that is there and so is applied only once. If it could be applied
// again later, so could all changes after it.
func (s *server) takeFencingToken(ctx context.Context, load string) (*opaclient.Manifest, error) {
	s.tokenCount = 0
	s.fencingToken = load + ".0"
	at := pointer("").below("berth", "holdings", "turn")
	foreign := false
	for range maxTokenAttempts {
		h, err := s.readManifest(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case h == nil:
			// Write a new manifest that lists nothing, with a token that no writer has.
			h = &opaclient.Manifest{LoadID: rand.Text(), FencingToken: map[string]bool{rand.Text(): true}}
			_, err = s.sendWithRetry(ctx, opaclient.Request{Method: http.MethodPut, URL: opaclient.ManifestURL(s.base), Body: toJSON(h), IfAbsent: !foreign})
			said, ok := errors.AsType[*opaclient.Rejection](err)
			if foreign = ok && said.Status == http.StatusNotModified; foreign {
				// The existing document is not a manifest of Berth.
				continue
			}
			if err != nil {
				return nil, err
			}
		case h.FencingToken[s.fencingToken]:
			return h, nil
		}
		c := newChange()
		for token := range h.FencingToken {
			c.remove(at.below(token))
		}
		c.set(at, toJSON(map[string]bool{s.fencingToken: true}))
		_, err = s.sendWithRetry(ctx, opaclient.Request{Method: http.MethodPatch, URL: opaclient.APIURL(s.base, "data"), ContentType: typePatch, Body: c.body()})
		// Another writer may have taken the token in between.
		if said, ok := errors.AsType[*opaclient.Rejection](err); err != nil && (!ok || said.Status != http.StatusNotFound && said.Status != http.StatusBadRequest) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: somebody else keeps it supplied, or it keeps nothing", errRefused)
}

// readManifest returns the engine's manifest; nil if it has none.
func (s *server) readManifest(ctx context.Context) (*opaclient.Manifest, error) {
	answer, err := s.sendWithRetry(ctx, opaclient.Request{Method: http.MethodGet, URL: opaclient.ManifestURL(s.base), Limit: maxListing})
	var said *opaclient.Rejection
	if errors.As(err, &said) && said.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := opaclient.ParseManifest(answer)
	if err != nil {
		// The document is not a manifest of Berth.
		return nil, nil
	}
	return h, nil
}

// poll checks that the engine has what was pushed to it.
func (s *server) poll(ctx context.Context) error {
	h, err := s.readManifest(ctx)
	if err != nil {
		return err
	}
	want := s.manifest
	want.FencingToken = map[string]bool{s.fencingToken: true}
	if h == nil || !bytes.Equal(toJSON(want), toJSON(h)) {
		return errLost
	}
	if err := s.pollModule(ctx); err != nil {
		return err
	}
	return s.pollObjects(ctx)
}

// pollObjects checks that sample objects of one type are still there, of another type each time. No changes are pushed
// meanwhile.
func (s *server) pollObjects(ctx context.Context) error {
	s.checkedTypes++
	for _, names := range s.mirror.samples(s.checkedTypes) {
		answer, err := s.sendWithRetry(ctx, opaclient.Request{Method: http.MethodGet, URL: opaclient.APIURL(s.base, append([]string{"data"}, names...)...), Limit: maxListing})
		var said *opaclient.Rejection
		switch {
		case errors.As(err, &said) && said.Status == http.StatusNotFound:
			return errLost
		case errors.Is(err, errRefused):
			// An error response says nothing about the data.
			continue
		case err != nil:
			return err
		}
		var one struct {
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(answer, &one) != nil || one.Result == nil {
			return errLost
		}
	}
	return nil
}

// change begins a transaction, which must be the next one to be committed. It removes the current fencing token.
func (s *server) change() *change {
	c := newChange()
	c.remove(pointer("").below("berth", "holdings", "turn", s.fencingToken))
	return c
}

// commit sends a transaction. If edit is not nil, the transaction also changes the manifest.
func (s *server) commit(ctx context.Context, c *change, edit func(*opaclient.Manifest)) error {
	if s.mirror.writtenClusters != nil {
		s.mirror.patchClusters(c)
	}
	next := s.manifest.Clone()
	s.tokenCount++
	if edit != nil {
		edit(&next)
	}
	token := fmt.Sprintf("%s.%d", next.LoadID, s.tokenCount)
	at := pointer("").below("berth", "holdings")
	if edit != nil {
		written := next
		written.FencingToken = map[string]bool{token: true}
		c.set(at, toJSON(written))
	} else {
		c.set(at.below("turn"), toJSON(map[string]bool{token: true}))
	}
	_, err := s.sendWithRetry(ctx, opaclient.Request{Method: http.MethodPatch, URL: opaclient.APIURL(s.base, "data"), ContentType: typePatch, Body: c.body()})
	if said, ok := errors.AsType[*opaclient.Rejection](err); ok {
		// An earlier attempt of the same transaction may have succeeded although its response was lost.
		h, readErr := s.readManifest(ctx)
		switch {
		case readErr != nil:
			return readErr
		case h != nil && h.FencingToken[token]:
			err = nil
		case h == nil || !h.FencingToken[s.fencingToken] || said.Status == http.StatusNotFound:
			return errLost
		}
	}
	if err != nil {
		return err
	}
	s.fencingToken = token
	if edit != nil {
		s.manifest = next
		s.publish()
	}
	return nil
}

// publish makes the types that the manifest lists known to other goroutines.
func (s *server) publish() {
	complete := map[schema.GroupVersionResource]bool{}
	for name, whole := range s.manifest.Types {
		if r, ok := opaclient.ParseType(name); ok && whole {
			complete[r] = true
		}
	}
	s.pusher.mu.Lock()
	s.completeTypes = complete
	names := s.needs.names()
	s.pusher.mu.Unlock()
	s.pusher.options.StateChanged(names...)
}

// setError records the error that prevents all pushes; nil if there is none.
func (s *server) setError(err error) {
	s.pusher.mu.Lock()
	differs := (s.err == nil) != (err == nil) || err != nil && s.err.Error() != err.Error()
	s.err = err
	names := s.needs.names()
	s.pusher.mu.Unlock()
	if differs {
		s.pusher.options.StateChanged(names...)
	}
}

// sendWithRetry sends a request until the engine answers, with backoff. An error wraps errRefused if sending the
// request again would not help, and contains a *opaclient.Rejection if the engine sent one.
func (s *server) sendWithRetry(ctx context.Context, r opaclient.Request) ([]byte, error) {
	pause := newPushBackoff()
	for tries := 1; ; tries++ {
		answer, err := s.sendOnce(ctx, r)
		if err == nil {
			s.setError(nil)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var fault *engine.RemoteError
		errors.As(err, &fault)
		// A response that is too large stays too large.
		if fault != nil && (fault.Fault == engine.FaultRefused || fault.Fault == engine.FaultMalformed && tries == maxMalformed) {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		s.setError(err)
		if s.unneededForLong() {
			return nil, errNothingLeft
		}
		d := pause.Step()
		if fault != nil {
			d = max(d, min(fault.RetryAfter, maxRetryAfter))
		}
		if !s.sleep(ctx, d) {
			return nil, ctx.Err()
		}
	}
}

// sendOnce sends a request once.
func (s *server) sendOnce(ctx context.Context, r opaclient.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	var err error
	// The connections stay open while s.client refers to them.
	if s.client, err = s.pusher.options.Clients.Client(s.currentNeeds().remote); err != nil {
		return nil, err
	}
	answer, err := s.client.Send(ctx, r)
	if r.Method != http.MethodGet {
		var fault engine.Fault
		if remote, ok := errors.AsType[*engine.RemoteError](err); ok {
			fault = remote.Fault
		}
		s.pusher.options.Observer.Pushed(s.endpoint, fault)
	}
	return answer, err
}

// unneededForLong reports whether no policy has needed the engine for a while.
func (s *server) unneededForLong() bool {
	switch {
	case len(s.currentNeeds().policies) > 0:
		s.unneededSince = time.Time{}
	case s.unneededSince.IsZero():
		s.unneededSince = time.Now()
	}
	return !s.unneededSince.IsZero() && time.Since(s.unneededSince) > emptyingTimeout
}

// removeManifest removes the manifest, which is the last of Berth's documents in the engine.
func (s *server) removeManifest(ctx context.Context) error {
	c := s.change()
	c.remove(pointer("").below("berth", "holdings"))
	_, err := s.sendWithRetry(ctx, opaclient.Request{Method: http.MethodPatch, URL: opaclient.APIURL(s.base, "data"), ContentType: typePatch, Body: c.body()})
	s.loaded = false
	if err != nil && !errors.Is(err, errRefused) {
		return err
	}
	return errNothingLeft
}

// parentsOf returns the documents that contain the places of a type.
func parentsOf(r schema.GroupVersionResource) []pointer {
	resources := pointer("").below("resources")
	return []pointer{pointer("").below("kubernetes"), resources, resources.below(r.GroupVersion().String())}
}

// ensureParents creates the documents that contain the places of a type. A document that exists is not changed, because
// it may contain documents of others.
func (s *server) ensureParents(ctx context.Context, r schema.GroupVersionResource) error {
	paths := [][]string{{"kubernetes"}, {"resources"}, {"resources", r.GroupVersion().String()}}
	for i, parent := range parentsOf(r) {
		if s.parents[parent] {
			continue
		}
		_, err := s.sendWithRetry(ctx, opaclient.Request{Method: http.MethodPut, URL: opaclient.APIURL(s.base, append([]string{"data"}, paths[i]...)...), Body: []byte("{}"), IfAbsent: true})
		var said *opaclient.Rejection
		if err != nil && (!errors.As(err, &said) || said.Status != http.StatusNotModified) {
			return err
		}
		s.parents[parent] = true
	}
	return nil
}

// removeTypes removes a type that no policy needs or that is not served.
func (s *server) removeTypes(ctx context.Context) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(s.manifest.Types)) {
		r, ok := opaclient.ParseType(name)
		if !ok {
			if err := s.commit(ctx, s.change(), func(h *opaclient.Manifest) { delete(h.Types, name) }); err != nil {
				return false, err
			}
			return true, nil
		}
		s.pusher.mu.Lock()
		_, wanted := s.needs.types[r]
		dropped := s.pusher.dropped[r]
		s.pusher.mu.Unlock()
		if wanted && !dropped {
			continue
		}
		return true, s.removeType(ctx, r)
	}
	return false, nil
}

func (s *server) removeType(ctx context.Context, r schema.GroupVersionResource) error {
	if err := s.ensureParents(ctx, r); err != nil {
		return err
	}
	c := s.change()
	s.mirror.removeType(c, r)
	// Another type may use the bare plural name by now.
	taken := false
	for other, t := range s.mirror.tables {
		taken = taken || slices.ContainsFunc(t.places, func(p documentPlace) bool { return other.Resource == r.Resource && p.path == barePlace(r) })
	}
	for name := range s.manifest.Types {
		other, _ := opaclient.ParseType(name)
		taken = taken || other != r && other.Resource == r.Resource && s.manifest.Types[name] && s.mirror.tables[other] == nil
	}
	// It is unknown whether the places exist if another replica loaded the type. Set them empty first, so that they can be
	// removed.
	var gone []pointer
	for _, p := range placesOf(r, taken) {
		c.set(p.path, []byte("{}"))
		gone = append(gone, p.path)
	}
	if _, inventory := s.pusher.ranks[r]; inventory && !s.inventories() {
		s.mirror.endClusters(c)
		gone = append(gone, clustersPlace)
	}
	if err := s.commit(ctx, c, markIncomplete(r)); err != nil {
		return err
	}
	c = s.change()
	for _, path := range gone {
		c.remove(path)
	}
	return s.commit(ctx, c, func(h *opaclient.Manifest) { delete(h.Types, opaclient.TypeName(r)) })
}

// markIncomplete returns an edit that lists a type as incomplete.
func markIncomplete(r schema.GroupVersionResource) func(*opaclient.Manifest) {
	return func(h *opaclient.Manifest) {
		if h.Types[opaclient.TypeName(r)] {
			h.RenewLoadID()
		}
		h.Types[opaclient.TypeName(r)] = false
	}
}

// inventories reports whether the engine has any inventory.
func (s *server) inventories() bool {
	for r := range s.mirror.tables {
		if _, ok := s.pusher.ranks[r]; ok {
			return true
		}
	}
	return false
}

// loadTypes loads one type that the engine needs and whose changes it does not receive yet.
func (s *server) loadTypes(ctx context.Context) (bool, error) {
	s.pusher.mu.Lock()
	var due []schema.GroupVersionResource
	ambiguous := s.needs.ambiguous
	for r := range s.needs.types {
		t := s.mirror.tables[r]
		stale := t == nil || !s.backlog.followed[r] || len(t.places) != len(placesOf(r, ambiguous[r.Resource]))
		if s.pusher.types[r] != nil && stale && time.Now().After(s.refused[r].until) {
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		s.pusher.mu.Unlock()
		return false, nil
	}
	// Loaded types come first: one of them may have to give up the bare plural name.
	next := slices.MinFunc(due, func(a, b schema.GroupVersionResource) int {
		if (s.mirror.tables[a] == nil) != (s.mirror.tables[b] == nil) {
			if s.mirror.tables[a] != nil {
				return -1
			}
			return 1
		}
		return strings.Compare(opaclient.TypeName(a), opaclient.TypeName(b))
	})
	s.backlog.drop(next)
	s.backlog.followed[next] = true
	objects := maps.Clone(s.pusher.types[next])
	s.pusher.mu.Unlock()

	err := s.load(ctx, next, ambiguous[next.Resource], splitBySize(objects, s.pusher.bodyLimit))
	s.pusher.mu.Lock()
	delete(s.refused, next)
	if errors.Is(err, errRefused) {
		s.refused[next] = rejectedPush{err: err, until: time.Now().Add(refusedRetryInterval)}
	}
	affected := s.needs.policiesNeeding(map[schema.GroupVersionResource]bool{next: true})
	s.pusher.mu.Unlock()
	if err != nil {
		return false, err
	}
	s.pusher.options.ContentChanged(affected...)
	return true, nil
}

// load makes the portions of objects the content of a type. With several portions, the manifest lists the type as
// incomplete until the last.
func (s *server) load(ctx context.Context, r schema.GroupVersionResource, ambiguous bool, all [][]keyedRecord) error {
	if err := s.ensureParents(ctx, r); err != nil {
		return err
	}
	rank, inventory := s.pusher.ranks[r]
	existing := s.mirror.tables[r]
	if ambiguous && existing == nil {
		// It is unknown what another replica left there. Set it empty first, so that it can be removed.
		c := s.change()
		c.set(barePlace(r), []byte("{}"))
		if err := s.commit(ctx, c, markIncomplete(r)); err != nil {
			return err
		}
	}
	for i, portion := range all {
		c := s.change()
		if i == 0 {
			if inventory {
				s.mirror.beginClusters(c)
			}
			if ambiguous && (existing == nil || len(existing.places) != len(placesOf(r, true))) {
				c.remove(barePlace(r))
			}
			s.mirror.fillType(c, r, rank, ambiguous, portion)
		} else {
			for _, o := range portion {
				s.mirror.put(c, r, o.objectKey, o.record)
			}
		}
		var edit func(*opaclient.Manifest)
		switch {
		case i == len(all)-1:
			edit = func(h *opaclient.Manifest) { h.Types[opaclient.TypeName(r)] = true }
		case i == 0:
			edit = markIncomplete(r)
		}
		if err := s.commit(ctx, c, edit); err != nil {
			return err
		}
	}
	return nil
}

// sendChanges sends the oldest changes that the engine does not have.
func (s *server) sendChanges(ctx context.Context) (bool, error) {
	s.pusher.mu.Lock()
	w := s.backlog.pop()
	s.pusher.mu.Unlock()
	if w == nil {
		return false, nil
	}
	c := s.change()
	for at, o := range w.sorted() {
		s.mirror.put(c, at.resource, at.objectKey, o)
	}
	if err := s.commit(ctx, c, nil); err != nil {
		return false, err
	}
	s.pusher.mu.Lock()
	affected := s.needs.policiesNeeding(w.types())
	s.pusher.reportPending(s.endpoint)
	s.pusher.mu.Unlock()
	s.pusher.options.ContentChanged(affected...)
	return true, nil
}

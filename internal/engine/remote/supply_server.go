package remote

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
)

const (
	// pollEvery is about how often an engine is asked whether it still has everything.
	pollEvery = time.Second
	// lingering is how long changes wait for others to go out with.
	lingering = 100 * time.Millisecond
	// pushTimeout bounds one request.
	pushTimeout = 30 * time.Second
	// maxRetryAfter bounds how long an engine may have itself left alone.
	maxRetryAfter = 5 * time.Minute
	// again is after what time is tried again what an engine refused.
	again = 30 * time.Second
	// maxMalformed is how often in a row an answer may not be readable.
	maxMalformed = 5
	// maxTurns is how often in a row is tried to take the turn.
	maxTurns = 5
	// farewell is how long is tried to empty an engine of which nobody wants anything any more.
	farewell = time.Minute
	// typePatch is the media type of a JSON Patch.
	typePatch = "application/json-patch+json"
)

// errLost says that an engine does not have what it was given, errRefused that it does not take something, and errEmptied
// that nothing is left to be done.
var (
	errLost    = errors.New("the engine has lost what it was given")
	errRefused = errors.New("the engine refuses what it is given")
	errEmptied = errors.New("nobody wants anything of the engine")
)

// server is one engine that is kept supplied. One goroutine does so.
type server struct {
	supply   *Supply
	base     *url.URL
	endpoint string
	signal   chan struct{}

	// The following are guarded by the supply's lock.

	wants   wants
	backlog backlog
	// held are the types that the holdings claim.
	held map[schema.GroupVersionResource]bool
	// err is why nothing gets through, refused why a type does not, and rejected why a policy's modules don't.
	err      error
	refused  map[schema.GroupVersionResource]refusal
	rejected map[string]refusal

	// The following belong to the goroutine.

	// loaded says that the rest is true. trusted says that what the holdings claim is true even if it is not.
	loaded, trusted bool
	access          *access
	holdings        holdings
	turn            string
	turns           int
	mirror          *mirror
	// parents are documents that are known to be there.
	parents map[pointer]bool
	modules modules
	polled  time.Time
	// looked counts the types that were looked at.
	looked int
	// unwanted is since when nobody wants anything; zero if somebody does.
	unwanted time.Time
}

// refusal is why an engine does not take something, and until when it is not tried again.
type refusal struct {
	err error
	// digest is that of the modules that it does not take.
	digest string
	until  time.Time
}

func newServer(s *Supply, base *url.URL, endpoint string) *server {
	return &server{
		supply: s, base: base, endpoint: endpoint, signal: make(chan struct{}, 1), backlog: newBacklog(s.body), trusted: true,
		held: map[schema.GroupVersionResource]bool{}, refused: map[schema.GroupVersionResource]refusal{}, rejected: map[string]refusal{},
	}
}

// wake has the goroutine look for something to do.
func (s *server) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// failure is why what a policy wants does not get through. The caller holds the lock.
func (s *server) failure(name string) error {
	w, ok := s.wants.policies[name]
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

// run keeps the engine supplied until ctx ends, or nobody wants anything of it.
func (s *server) run(ctx context.Context) {
	pause := pauses()
	var begun time.Time
	for ctx.Err() == nil {
		if !s.loaded {
			// One that loses everything again and again is not to be loaded all the time.
			if time.Since(begun) > time.Minute {
				pause = pauses()
			} else if !s.sleep(ctx, pause.Step()) {
				return
			}
			begun = time.Now()
		}
		err := s.pass(ctx)
		switch {
		case errors.Is(err, errEmptied):
			return
		case err != nil && ctx.Err() == nil:
			s.loaded, s.trusted = false, !errors.Is(err, errLost)
			s.fail(err)
			continue
		}
		timer := time.NewTimer(wait.Jitter(pollEvery, 0.2))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.signal:
			s.sleep(ctx, lingering)
		}
		timer.Stop()
	}
}

// pauses are those between tries, which grow.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 15 * time.Second}
}

// sleep waits for a time; it returns false if ctx ended meanwhile.
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

// pass does all that there is to do. The error is errLost or errRefused if the engine is to be looked at anew, and
// errEmptied if nothing is left.
func (s *server) pass(ctx context.Context) error {
	if !s.loaded {
		if err := s.begin(ctx); err != nil {
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
	if len(s.wanted().policies) == 0 {
		return s.leave(ctx)
	}
	s.unwanted = time.Time{}
	if time.Since(s.polled) < pollEvery/2 {
		return nil
	}
	s.polled = time.Now()
	return s.poll(ctx)
}

// step does one thing that is to be done; did is false if there is none.
func (s *server) step(ctx context.Context) (did bool, err error) {
	for _, step := range []func(context.Context) (bool, error){s.removeTypes, s.loadTypes, s.pushModules, s.sendChanges} {
		if did, err := step(ctx); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

func (s *server) wanted() wants {
	s.supply.mu.Lock()
	defer s.supply.mu.Unlock()
	return s.wants
}

// begin takes the engine over, from whoever kept it supplied before. What the holdings claim stays claimed if that can be
// trusted, until there is better.
func (s *server) begin(ctx context.Context) error {
	s.supply.options.Observer.Loading(s.endpoint)
	s.supply.mu.Lock()
	s.backlog = newBacklog(s.supply.body)
	s.supply.tellPending(s.endpoint)
	s.supply.mu.Unlock()
	s.mirror, s.parents = newMirror(), map[pointer]bool{}
	next := holdings{Load: rand.Text(), Types: map[string]bool{}, Modules: map[string]heldModules{}}
	old, err := s.takeTurn(ctx, next.Load)
	if err != nil {
		return err
	}
	if err := s.listModules(ctx); err != nil {
		return err
	}
	s.supply.mu.Lock()
	w, refused := s.wants, maps.Clone(s.refused)
	s.supply.mu.Unlock()
	for name, whole := range old.Types {
		r, ok := parseType(name)
		_, wanted := w.types[r]
		_, inventory := s.supply.ranks[r]
		// Of clusters there is no telling from which inventories they are.
		keep := ok && whole && wanted && !inventory && !w.ambiguous[r.Resource] && s.trusted && refused[r].err == nil
		next.Types[name] = keep
		if keep {
			for _, parent := range parentsOf(r) {
				s.parents[parent] = true
			}
		}
	}
	for name, held := range old.Modules {
		if s.trusted && w.policies[name].Remote != nil && s.modules.are(w.policies[name].Remote.Modules) {
			next.Modules[name] = held
		} else {
			s.modules.superseded(name, held)
		}
	}
	return s.commit(ctx, s.change(), func(h *holdings) { *h = next })
}

// takeTurn has all other changes fail from now on but the next one of this server, and returns the holdings of before. It
// is itself a change that is made once, in the place of the turn that is there: were it made again later, all changes
// after it could be.
func (s *server) takeTurn(ctx context.Context, load string) (*holdings, error) {
	s.turns = 0
	s.turn = load + ".0"
	at := pointer("").below("berth", "holdings", "turn")
	foreign := false
	for range maxTurns {
		h, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case h == nil:
			// These claim nothing, and nobody has their turn.
			h = &holdings{Load: rand.Text(), Turn: map[string]bool{rand.Text(): true}}
			_, err = s.ask(ctx, query{method: http.MethodPut, at: holdingsAddress(s.base), body: text(h), ifAbsent: !foreign})
			said, ok := errors.AsType[*rejection](err)
			if foreign = ok && said.Status == http.StatusNotModified; foreign {
				// What is there is not Berth's.
				continue
			}
			if err != nil {
				return nil, err
			}
		case h.Turn[s.turn]:
			return h, nil
		}
		c := newChange()
		for turn := range h.Turn {
			c.remove(at.below(turn))
		}
		c.set(at, text(map[string]bool{s.turn: true}))
		_, err = s.ask(ctx, query{method: http.MethodPatch, at: below(s.base, "data"), contentType: typePatch, body: c.body()})
		// Somebody else may have had a turn in between.
		if said, ok := errors.AsType[*rejection](err); err != nil && (!ok || said.Status != http.StatusNotFound && said.Status != http.StatusBadRequest) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: somebody else keeps it supplied, or it keeps nothing", errRefused)
}

// read returns what the engine has as holdings; nil if it has none.
func (s *server) read(ctx context.Context) (*holdings, error) {
	answer, err := s.ask(ctx, query{method: http.MethodGet, at: holdingsAddress(s.base), limit: maxListing})
	var said *rejection
	if errors.As(err, &said) && said.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := parseHoldings(answer)
	if err != nil {
		// Not Berth's, then.
		return nil, nil
	}
	return h, nil
}

// poll looks whether the engine has what it was given.
func (s *server) poll(ctx context.Context) error {
	h, err := s.read(ctx)
	if err != nil {
		return err
	}
	want := s.holdings
	want.Turn = map[string]bool{s.turn: true}
	if h == nil || !bytes.Equal(text(want), text(h)) {
		return errLost
	}
	if err := s.pollModule(ctx); err != nil {
		return err
	}
	return s.pollObjects(ctx)
}

// pollObjects looks whether something is still there of one type, each time another one. No changes go out meanwhile.
func (s *server) pollObjects(ctx context.Context) error {
	s.looked++
	for _, names := range s.mirror.samples(s.looked) {
		answer, err := s.ask(ctx, query{method: http.MethodGet, at: below(s.base, append([]string{"data"}, names...)...), limit: maxListing})
		var said *rejection
		switch {
		case errors.As(err, &said) && said.Status == http.StatusNotFound:
			return errLost
		case errors.Is(err, errRefused):
			// That it does not answer tells nothing of what is there.
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

// change begins a transaction. It is to be the next.
func (s *server) change() *change {
	c := newChange()
	c.remove(pointer("").below("berth", "holdings", "turn", s.turn))
	return c
}

// commit makes a transaction, with a change of the holdings if edit is not nil.
func (s *server) commit(ctx context.Context, c *change, edit func(*holdings)) error {
	if s.mirror.shown != nil {
		s.mirror.showClusters(c)
	}
	next := s.holdings.clone()
	s.turns++
	if edit != nil {
		edit(&next)
	}
	turn := fmt.Sprintf("%s.%d", next.Load, s.turns)
	at := pointer("").below("berth", "holdings")
	if edit != nil {
		written := next
		written.Turn = map[string]bool{turn: true}
		c.set(at, text(written))
	} else {
		c.set(at.below("turn"), text(map[string]bool{turn: true}))
	}
	_, err := s.ask(ctx, query{method: http.MethodPatch, at: below(s.base, "data"), contentType: typePatch, body: c.body()})
	if said, ok := errors.AsType[*rejection](err); ok {
		// It may be one that was made already, and not heard of.
		h, readErr := s.read(ctx)
		switch {
		case readErr != nil:
			return readErr
		case h != nil && h.Turn[turn]:
			err = nil
		case h == nil || !h.Turn[s.turn] || said.Status == http.StatusNotFound:
			return errLost
		}
	}
	if err != nil {
		return err
	}
	s.turn = turn
	if edit != nil {
		s.holdings = next
		s.publish()
	}
	return nil
}

// publish has everybody know what is held.
func (s *server) publish() {
	held := map[schema.GroupVersionResource]bool{}
	for name, whole := range s.holdings.Types {
		if r, ok := parseType(name); ok && whole {
			held[r] = true
		}
	}
	s.supply.mu.Lock()
	s.held = held
	names := s.wants.names()
	s.supply.mu.Unlock()
	s.supply.options.State(names...)
}

// clone returns a copy that can be changed, with a turn of its own.
func (h *holdings) clone() holdings {
	return holdings{Load: h.Load, Types: maps.Clone(h.Types), Modules: maps.Clone(h.Modules)}
}

// lose notes that something is there no longer.
func (h *holdings) lose() { h.Load = rand.Text() }

// fail notes why nothing gets through; nil if it does.
func (s *server) fail(err error) {
	s.supply.mu.Lock()
	differs := (s.err == nil) != (err == nil) || err != nil && s.err.Error() != err.Error()
	s.err = err
	names := s.wants.names()
	s.supply.mu.Unlock()
	if differs {
		s.supply.options.State(names...)
	}
}

// ask sends a request until there is an answer to it, at a growing pace. An error wraps errRefused, with a *rejection in
// it, if there is no use in sending it again.
func (s *server) ask(ctx context.Context, q query) ([]byte, error) {
	pause := pauses()
	for tries := 1; ; tries++ {
		answer, err := s.attempt(ctx, q)
		if err == nil {
			s.fail(nil)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var fault *engine.RemoteError
		errors.As(err, &fault)
		// An answer that is too large stays so.
		if fault != nil && (fault.Fault == engine.FaultRefused || fault.Fault == engine.FaultMalformed && tries == maxMalformed) {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		s.fail(err)
		if s.deserted() {
			return nil, errEmptied
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

// attempt sends a request once.
func (s *server) attempt(ctx context.Context, q query) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	var err error
	// Connections are kept while somebody holds the access.
	if s.access, err = s.supply.engine.accessTo(s.wanted().remote); err != nil {
		return nil, err
	}
	answer, err := s.access.exchange(ctx, q)
	if q.method != http.MethodGet {
		var fault engine.Fault
		if remote, ok := errors.AsType[*engine.RemoteError](err); ok {
			fault = remote.Fault
		}
		s.supply.options.Observer.Pushed(s.endpoint, fault)
	}
	return answer, err
}

// deserted says that nobody has wanted anything of the engine for a while.
func (s *server) deserted() bool {
	switch {
	case len(s.wanted().policies) > 0:
		s.unwanted = time.Time{}
	case s.unwanted.IsZero():
		s.unwanted = time.Now()
	}
	return !s.unwanted.IsZero() && time.Since(s.unwanted) > farewell
}

// leave removes the last that an engine has of Berth.
func (s *server) leave(ctx context.Context) error {
	c := s.change()
	c.remove(pointer("").below("berth", "holdings"))
	_, err := s.ask(ctx, query{method: http.MethodPatch, at: below(s.base, "data"), contentType: typePatch, body: c.body()})
	s.loaded = false
	if err != nil && !errors.Is(err, errRefused) {
		return err
	}
	return errEmptied
}

// parentsOf are the documents below which the places of a type are.
func parentsOf(r schema.GroupVersionResource) []pointer {
	resources := pointer("").below("resources")
	return []pointer{pointer("").below("kubernetes"), resources, resources.below(r.GroupVersion().String())}
}

// ensureParents has the documents be there below which the places of a type are. They may have others' documents in them:
// one that is there is left alone.
func (s *server) ensureParents(ctx context.Context, r schema.GroupVersionResource) error {
	paths := [][]string{{"kubernetes"}, {"resources"}, {"resources", r.GroupVersion().String()}}
	for i, parent := range parentsOf(r) {
		if s.parents[parent] {
			continue
		}
		_, err := s.ask(ctx, query{method: http.MethodPut, at: below(s.base, append([]string{"data"}, paths[i]...)...), body: []byte("{}"), ifAbsent: true})
		var said *rejection
		if err != nil && (!errors.As(err, &said) || said.Status != http.StatusNotModified) {
			return err
		}
		s.parents[parent] = true
	}
	return nil
}

// removeTypes removes a type that nobody wants, or that is not to be had.
func (s *server) removeTypes(ctx context.Context) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(s.holdings.Types)) {
		r, ok := parseType(name)
		if !ok {
			if err := s.commit(ctx, s.change(), func(h *holdings) { delete(h.Types, name) }); err != nil {
				return false, err
			}
			return true, nil
		}
		s.supply.mu.Lock()
		_, wanted := s.wants.types[r]
		dropped := s.supply.dropped[r]
		s.supply.mu.Unlock()
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
	s.mirror.retract(c, r)
	// Another type may have the bare plural name by now.
	taken := false
	for other, t := range s.mirror.tables {
		taken = taken || slices.ContainsFunc(t.places, func(p place) bool { return other.Resource == r.Resource && p.path == barePlace(r) })
	}
	for name := range s.holdings.Types {
		other, _ := parseType(name)
		taken = taken || other != r && other.Resource == r.Resource && s.holdings.Types[name] && s.mirror.tables[other] == nil
	}
	// Whether they are there is not known of a type that another replica left: what is emptied is.
	var gone []pointer
	for _, p := range placesOf(r, taken) {
		c.set(p.path, []byte("{}"))
		gone = append(gone, p.path)
	}
	if _, inventory := s.supply.ranks[r]; inventory && !s.inventories() {
		s.mirror.endClusters(c)
		gone = append(gone, clustersPlace)
	}
	if err := s.commit(ctx, c, unclaim(r)); err != nil {
		return err
	}
	c = s.change()
	for _, path := range gone {
		c.remove(path)
	}
	return s.commit(ctx, c, func(h *holdings) { delete(h.Types, typeName(r)) })
}

// unclaim says that a type may be there in part.
func unclaim(r schema.GroupVersionResource) func(*holdings) {
	return func(h *holdings) {
		if h.Types[typeName(r)] {
			h.lose()
		}
		h.Types[typeName(r)] = false
	}
}

// inventories says whether the engine has any.
func (s *server) inventories() bool {
	for r := range s.mirror.tables {
		if _, ok := s.supply.ranks[r]; ok {
			return true
		}
	}
	return false
}

// loadTypes loads a type that the engine is to have and that it does not get the changes of.
func (s *server) loadTypes(ctx context.Context) (bool, error) {
	s.supply.mu.Lock()
	var due []schema.GroupVersionResource
	ambiguous := s.wants.ambiguous
	for r := range s.wants.types {
		t := s.mirror.tables[r]
		stale := t == nil || !s.backlog.follows[r] || len(t.places) != len(placesOf(r, ambiguous[r.Resource]))
		if s.supply.types[r] != nil && stale && time.Now().After(s.refused[r].until) {
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		s.supply.mu.Unlock()
		return false, nil
	}
	// One that is there may have to make room at the bare plural name.
	next := slices.MinFunc(due, func(a, b schema.GroupVersionResource) int {
		if (s.mirror.tables[a] == nil) != (s.mirror.tables[b] == nil) {
			if s.mirror.tables[a] != nil {
				return -1
			}
			return 1
		}
		return strings.Compare(typeName(a), typeName(b))
	})
	s.backlog.drop(next)
	s.backlog.follows[next] = true
	objects := maps.Clone(s.supply.types[next])
	s.supply.mu.Unlock()

	err := s.load(ctx, next, ambiguous[next.Resource], portions(objects, s.supply.body))
	s.supply.mu.Lock()
	delete(s.refused, next)
	if errors.Is(err, errRefused) {
		s.refused[next] = refusal{err: err, until: time.Now().Add(again)}
	}
	affected := s.wants.wanting(map[schema.GroupVersionResource]bool{next: true})
	s.supply.mu.Unlock()
	if err != nil {
		return false, err
	}
	s.supply.options.Content(affected...)
	return true, nil
}

// load makes portions of objects the content of a type. Unless it is one portion, the type is not claimed meanwhile.
func (s *server) load(ctx context.Context, r schema.GroupVersionResource, ambiguous bool, all [][]named) error {
	if err := s.ensureParents(ctx, r); err != nil {
		return err
	}
	rank, inventory := s.supply.ranks[r]
	standing := s.mirror.tables[r]
	if ambiguous && standing == nil {
		// What another replica left there is not known: what is emptied can be removed.
		c := s.change()
		c.set(barePlace(r), []byte("{}"))
		if err := s.commit(ctx, c, unclaim(r)); err != nil {
			return err
		}
	}
	for i, portion := range all {
		c := s.change()
		if i == 0 {
			if inventory {
				s.mirror.beginClusters(c)
			}
			if ambiguous && (standing == nil || len(standing.places) != len(placesOf(r, true))) {
				c.remove(barePlace(r))
			}
			s.mirror.fill(c, r, rank, ambiguous, portion)
		} else {
			for _, o := range portion {
				s.mirror.put(c, r, o.objectKey, o.record)
			}
		}
		var edit func(*holdings)
		switch {
		case i == len(all)-1:
			edit = func(h *holdings) { h.Types[typeName(r)] = true }
		case i == 0:
			edit = unclaim(r)
		}
		if err := s.commit(ctx, c, edit); err != nil {
			return err
		}
	}
	return nil
}

// sendChanges sends what changed first of what the engine does not know of.
func (s *server) sendChanges(ctx context.Context) (bool, error) {
	s.supply.mu.Lock()
	w := s.backlog.take()
	s.supply.mu.Unlock()
	if w == nil {
		return false, nil
	}
	c := s.change()
	for at, o := range w.all() {
		s.mirror.put(c, at.resource, at.objectKey, o)
	}
	if err := s.commit(ctx, c, nil); err != nil {
		return false, err
	}
	s.supply.mu.Lock()
	affected := s.wants.wanting(w.types())
	s.supply.tellPending(s.endpoint)
	s.supply.mu.Unlock()
	s.supply.options.Content(affected...)
	return true, nil
}

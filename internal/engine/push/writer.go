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
	"context"
	"crypto/rand"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/notify"
)

const (
	// pollInterval is the approximate interval between checks that an engine still has everything.
	pollInterval = time.Second
	// pushDelay is how long changes wait so that more of them can be pushed together.
	pushDelay = 100 * time.Millisecond
)

// writer does all the pushing to one engine. One goroutine runs it, and owns everything in it except the status and the feed, which others
// use, too.
type writer struct {
	observer Observer
	status   *status
	feed     *feed

	state   state
	session *session
	objects *objects
	modules *modules
	polled  time.Time // when poll last checked that the engine has what was pushed
}

// run pushes to the engine until ctx ends or no policy needs the engine.
func (w *writer) run(ctx context.Context) {
	pause := newBackoff()
	var begun time.Time
	for ctx.Err() == nil {
		if w.state != owned {
			// Back off, so that an engine that keeps losing its data is not loaded all the time.
			if time.Since(begun) > time.Minute {
				pause = newBackoff()
			} else if !notify.Sleep(ctx, pause.Step()) {
				return
			}
			begun = time.Now()
		}
		err := w.sync(ctx)
		if err == nil || ctx.Err() != nil {
			w.wait(ctx)
			continue
		}
		e := eventOf(err)
		if w.enter(e); e == unneeded {
			return
		}
		w.status.setError(err)
	}
}

// setNeeds replaces what policies need in the engine, and wakes the writer. The types are set first: a writer which finds that no policy
// needs the engine must not find types to keep.
func (w *writer) setNeeds(next needs) {
	w.feed.setNeeded(next.types)
	w.status.setNeeds(next)
	w.feed.signal.Notify()
}

// enter sets the state that follows from an event (see transitions), which must have a transition in the present state.
func (w *writer) enter(e event) { w.state = transitions[w.state][e] }

// wait waits until the next poll is due, or until the feed signals that there may be work, and then pushDelay longer. It returns at once
// when ctx ends.
func (w *writer) wait(ctx context.Context) {
	timer := time.NewTimer(wait.Jitter(pollInterval, 0.2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.feed.signal:
		notify.Sleep(ctx, pushDelay)
	}
}

// newBackoff returns the backoff between attempts, with delays from 200 milliseconds that double up to at most 15 seconds, and jitter.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 15 * time.Second}
}

// sync takes the engine over if the writer does not own it, does all work that is due, and polls. If no policy needs the engine, it empties
// it and returns errUnneeded. eventOf converts its error to an event.
func (w *writer) sync(ctx context.Context) error {
	if w.state != owned {
		if err := w.takeOver(ctx); err != nil {
			return err
		}
		w.enter(takenOver)
	}
	for did := true; did; {
		// The needs are read before the step, so that nothing is left to remove of an engine that no policy needs.
		needed := len(w.status.currentNeeds().policies) > 0
		var err error
		if did, err = w.step(ctx); err != nil {
			return err
		}
		if !did && !needed {
			return w.session.end(ctx)
		}
	}
	if time.Since(w.polled) < pollInterval/2 {
		return nil
	}
	w.polled = time.Now()
	return w.poll(ctx)
}

// step does the first piece of work that is due: it removes a type, loads one, pushes modules, or sends changes of objects, in this order.
// It returns false and no error if nothing is due.
func (w *writer) step(ctx context.Context) (did bool, err error) {
	for _, step := range []func(context.Context) (bool, error){w.objects.removeTypes, w.objects.loadTypes, w.modules.push,
		w.objects.sendChanges} {
		if did, err := step(ctx); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

// takeOver takes the engine over from the previous writer. Unless the engine has lost something, what its manifest lists stays listed until
// newer data replaces it.
func (w *writer) takeOver(ctx context.Context) error {
	w.observer.Loading(w.feed.endpoint)
	w.feed.reset()
	w.objects.reset()
	next := opaclient.Manifest{LoadID: rand.Text(), Types: map[string]bool{}, Modules: map[string]opaclient.ManifestModules{}}
	old, err := w.session.takeFencingToken(ctx, next.LoadID)
	if err != nil {
		return err
	}
	if err := w.modules.list(ctx); err != nil {
		return err
	}
	w.objects.keepListed(old, &next, w.state != lost)
	w.modules.keepListed(old, &next, w.state != lost)
	return w.session.commit(ctx, w.session.begin(), func(h *opaclient.Manifest) { *h = next })
}

// poll checks that the engine still has what was pushed to it. It returns errLost if it does not.
func (w *writer) poll(ctx context.Context) error {
	for _, poll := range []func(context.Context) error{w.session.poll, w.modules.poll, w.objects.poll} {
		if err := poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

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

import "errors"

// state is what a writer knows of its engine: that it has what the writer wrote, that it lacks something that its manifest may list, or
// neither. A writer that is not in the first state takes the engine over.
type state string

const (
	// unknown means that the engine's manifest is reliable, but not whether the writer's own view is up to date.
	unknown state = "Unknown"
	// lost means that the engine lacks something that its manifest may list.
	lost state = "Lost"
	// owned means that the engine has what this writer wrote.
	owned state = "Owned"
)

// event is what changes the state of a writer: it has taken the engine over, has found that the engine lost something, has failed for
// another reason, or has found that no policy needs the engine.
type event string

const (
	takenOver event = "TakenOver"
	lossFound event = "LossFound"
	failed    event = "Failed"
	unneeded  event = "Unneeded"
)

var transitions = map[state]map[event]state{
	unknown: {takenOver: owned, lossFound: lost, failed: unknown, unneeded: unknown},
	lost:    {takenOver: owned, lossFound: lost, failed: lost, unneeded: lost},
	owned:   {lossFound: lost, failed: unknown, unneeded: unknown},
}

// errLost means that the engine lacks something that was pushed to it. errRefused means that it rejects something.
// errUnneeded means that no policy needs the engine, and that it is empty or could not be emptied in time.
var (
	errLost     = errors.New("the engine has lost pushed data, which Berth pushes again")
	errRefused  = errors.New("pushing to the engine failed")
	errUnneeded = errors.New("no policy needs the engine")
)

// eventOf returns the event for the error that ended a round of a writer's work: lossFound if it wraps errLost, unneeded if it wraps
// errUnneeded, and failed for any other. A round without an error has no event, and eventOf must not be called for it.
func eventOf(err error) event {
	switch {
	case errors.Is(err, errLost):
		return lossFound
	case errors.Is(err, errUnneeded):
		return unneeded
	}
	return failed
}

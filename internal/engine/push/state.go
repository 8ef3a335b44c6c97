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

// state is what a writer knows of its engine. The package documentation explains the states, the events, and the
// transitions.
type state string

const (
	// unknown means that the engine's manifest is reliable, but not whether the writer's own view is up to date.
	unknown state = "Unknown"
	// lost means that the engine lacks something that its manifest may list.
	lost state = "Lost"
	// owned means that the engine has what this writer wrote.
	owned state = "Owned"
)

// event is the outcome of a writer's work.
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
	errLost     = errors.New("the engine has lost pushed data")
	errRefused  = errors.New("pushing to the engine failed")
	errUnneeded = errors.New("no policy needs the engine")
)

// eventOf returns the event that an error of a writer's work stands for: failed, unless it wraps errLost or errUnneeded.
func eventOf(err error) event {
	switch {
	case errors.Is(err, errLost):
		return lossFound
	case errors.Is(err, errUnneeded):
		return unneeded
	}
	return failed
}

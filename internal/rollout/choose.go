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

package rollout

import (
	"errors"
	"fmt"
	"time"
)

// Ref names a version of a policy: a stored revision by its number, or one of the constants.
type Ref int64

const (
	// None stands for no version: the policy matches nothing.
	None Ref = -iota
	// Newest is the version in the policy's spec.
	Newest
	// LastInForce is the version that was in force everywhere last, as the leader stored it.
	LastInForce
	// LastComplete is the version that this replica had in force everywhere last while all types that it reads were served. It is not
	// the version in the spec.
	LastComplete
	// LastCompiled is the last version that compiled here. It is not the version in the spec.
	LastCompiled
	// Kept stands for all that this replica has in force.
	Kept
	// Lost stands for a version that can't be loaded. It fails whenever it has to decide.
	Lost
)

// ErrNotStored means that a version is not stored, or not in the cache yet.
var ErrNotStored = errors.New("the revision is not stored")

// ChoiceFacts is what Choose needs to know of a policy.
type ChoiceFacts struct {
	// Staged reports whether the policy has spec.rollout. The following fields are only used if it has: Digest identifies the rollout
	// in the spec, Revision is spec.rollout.revision, and Position is that of the status.
	Staged   bool
	Digest   string
	Revision int64
	Position Position
	// Kept is what this replica has in force.
	Kept KeptFacts
	// Versions is what came of loading versions. It always has Newest. Choose asks for others if it needs them.
	Versions map[Ref]VersionFacts
	// Now is the time, and Data what is known of the data that the versions read.
	Now  time.Time
	Data DataFacts
}

// KeptFacts describes what a replica has in force of a policy. The zero value stands for nothing.
type KeptFacts struct {
	Exists bool
	// Staged reports whether it came into force in stages, of the rollout that Digest identifies.
	Staged bool
	Digest string
	// Lost reports whether a version of it is Lost.
	Lost bool
}

// VersionFacts is what came of loading a version.
type VersionFacts struct {
	// Err says why the version can't decide; nil if it can. Incomplete reports whether it reads types that are not served. Such a
	// version can decide if no other one can. Of Newest, Err says so, too.
	Err        error
	Incomplete bool
	// Number and Version are the number and the digest of a stored version.
	Number  int64
	Version string
}

// DataFacts describes the data that versions read. The zero value stands for versions that need not wait.
type DataFacts struct {
	// Held reports whether other versions than the chosen ones are in force and have all of their data, and Complete whether the chosen ones
	// have theirs. Until is when these come into force anyway.
	Held, Complete bool
	Until          time.Time
}

// Choice says which versions of a policy decide on a replica, and where.
type Choice struct {
	// Load is a version of which Choose has to know more. The other fields are not set then. It is None if Choose knows enough.
	Load Ref
	// Target decides in the stages that InForce says, and Before everywhere else. If Target is Lost, all fails that InForce covers.
	Target, Before Ref
	InForce        InForce
	// Err says why Newest does not decide, or which version is lost; nil if all is as the spec and the status say.
	Err error
	// Waits reports whether what is in force decides on until the data of the chosen versions are complete.
	Waits bool
}

// Choose returns which versions of a policy decide. It is the only place where that is decided.
//
// Without spec.rollout, the newest version decides everywhere, or an earlier one while it can't. With spec.rollout, versions decide as far
// as the position says, which only the leader moves, so that no replica is ahead of it. What can't be decided by the right version
// is decided by what the replica has in force, and else fails.
func Choose(f ChoiceFacts) Choice {
	var out Choice
	if f.Staged {
		out = f.staged()
	} else {
		out = f.unstaged()
	}
	out.Waits = f.Data.Held && !f.Data.Complete && f.Now.Before(f.Data.Until)
	return out
}

func load(ref Ref) Choice { return Choice{Load: ref} }

// everywhere chooses a version for all namespaces.
func (f *ChoiceFacts) everywhere(ref Ref, err error) Choice {
	out := Choice{Target: ref, InForce: InForce{Complete: true}, Err: err}
	if f.Staged {
		out.InForce.Digest = f.Versions[ref].Version
	}
	return out
}

// unstaged prefers versions of which all types are served, and the newest one over all others that lack a type.
func (f *ChoiceFacts) unstaged() Choice {
	newest, known := f.Versions[Newest], false
	if newest.Err == nil {
		return f.everywhere(Newest, nil)
	}
	earlier := []Ref{LastComplete, LastCompiled, LastInForce}
	for _, ref := range earlier {
		v, loaded := f.Versions[ref]
		switch {
		case ref == LastInForce && known:
			// What this replica knows is not older than what is stored.
		case !loaded:
			return load(ref)
		case v.Err == nil && !v.Incomplete:
			return f.everywhere(ref, newest.Err)
		}
		known = known || !errors.Is(v.Err, ErrNotStored)
	}
	if newest.Incomplete {
		return f.everywhere(Newest, nil)
	}
	for _, ref := range earlier {
		if v, loaded := f.Versions[ref]; loaded && v.Err == nil {
			return f.everywhere(ref, newest.Err)
		}
	}
	if f.Kept.Exists {
		return f.everywhere(Kept, newest.Err)
	}
	if last := f.Versions[LastInForce]; last.Err != nil && !errors.Is(last.Err, ErrNotStored) {
		return f.everywhere(Lost, fmt.Errorf("%w; %w", newest.Err, last.Err))
	}
	return f.everywhere(Lost, newest.Err)
}

func (f *ChoiceFacts) staged() Choice {
	reason := f.Versions[Newest].Err
	switch selected := Ref(f.Revision); {
	case selected != None:
		v, loaded := f.Versions[selected]
		switch {
		case !loaded:
			return load(selected)
		case v.Err != nil:
			return f.stay(fmt.Errorf("spec.rollout.revision: %w; status.rollout.revisions has the revisions that are stored", v.Err))
		}
		out := f.everywhere(selected, reason)
		out.InForce.Revision = f.Revision
		return out
	case reason == nil && f.Position.Concerns(f.Digest):
		return f.inStages(Newest, nil)
	default:
		return f.stay(reason)
	}
}

// inStages chooses a version as far as the position says.
func (f *ChoiceFacts) inStages(target Ref, reason error) Choice {
	out := Choice{Target: target, InForce: InForce{Digest: f.Position.Digest, Reached: f.Position.Reached, Complete: f.Position.Complete}, Err: reason}
	before := Ref(f.Position.Previous)
	if f.Position.Complete || before == None {
		return out
	}
	v, loaded := f.Versions[before]
	switch {
	case !loaded:
		return load(before)
	case v.Err == nil:
		out.Before = before
		return out
	}
	out.Err = fmt.Errorf("%w; it decides in stages that are not reached: set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout", v.Err)
	if reason != nil {
		out.Err = fmt.Errorf("%w; %w", reason, out.Err)
	}
	if f.Kept.Exists && !f.Kept.Lost && (!f.Kept.Staged || f.Kept.Digest != f.Position.Digest) {
		return f.everywhere(Kept, out.Err)
	}
	out.Before = Lost
	return out
}

// stay chooses what this replica has in force. If it has nothing yet, the versions of the position decide as far as that says. If
// their stages are no longer in the spec, the version that was in force everywhere last decides everywhere.
func (f *ChoiceFacts) stay(reason error) Choice {
	if f.Kept.Exists && !f.Kept.Lost {
		return f.everywhere(Kept, reason)
	}
	reached := 0
	if f.Position.IsOfStages(f.Digest) {
		target := Ref(f.Position.Revision)
		v, loaded := f.Versions[target]
		if target == None {
			// Another client wrote the status.
			v, loaded = VersionFacts{Err: fmt.Errorf("revision 0: %w", ErrNotStored)}, true
		}
		switch {
		case !loaded:
			return load(target)
		case v.Err == nil:
			return f.inStages(target, reason)
		}
		reached = f.Position.Reached
		if reason == nil {
			reason = v.Err
		} else {
			reason = fmt.Errorf("%w; %w", reason, v.Err)
		}
	}
	last, missing, lost := f.lastInForce()
	switch {
	case missing != None:
		return load(missing)
	case lost != nil:
		return f.everywhere(Lost, fmt.Errorf("%w; it was in force everywhere: set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout to put the version in the spec in force everywhere", lost))
	case last != None:
		return f.everywhere(last, reason)
	case reason != nil:
		return Choice{Target: Lost, InForce: InForce{Reached: reached}, Err: reason}
	}
	// No version was ever in force everywhere, and none is ahead of the status.
	return Choice{Target: None}
}

// lastInForce returns the version that was in force everywhere last; None if there was none. missing is a version of which it has to
// know more. lost says why the last one can't be loaded.
func (f *ChoiceFacts) lastInForce() (last, missing Ref, lost error) {
	number := Ref(f.Position.Everywhere())
	if number == None && f.Position != (Position{}) {
		return None, None, nil
	}
	if number != None {
		v, loaded := f.Versions[number]
		switch {
		case !loaded:
			return None, number, nil
		case v.Err == nil:
			return number, None, nil
		}
		lost = v.Err
	}
	v, loaded := f.Versions[LastInForce]
	// The version that was in force before a rollback is stored, too.
	isLast := number == None || v.Number == int64(number) || v.Version == f.Position.Version()
	switch {
	case !loaded:
		return None, LastInForce, nil
	case !isLast || errors.Is(v.Err, ErrNotStored):
		return None, None, lost
	case v.Err != nil:
		return None, None, v.Err
	}
	return LastInForce, None, nil
}

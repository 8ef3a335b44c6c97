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

package remediation

import (
	"hash/maphash"
	"maps"
	"time"

	"github.com/berth-dev/berth/internal/placement"
)

const (
	// An object that was patched maxPatches times within patchWindow does not settle. A decision that depends on its own
	// output is patched many times a second. Changes of the cluster's data that cause as many patches of one object are
	// very rare.
	maxPatches  = 100
	patchWindow = time.Minute
	// An object is left alone once maxRounds patches did not last within roundWindow, until the first of them is older than
	// that. Controllers that write what they want at an interval use intervals of minutes.
	maxRounds   = 3
	roundWindow = time.Hour
)

// Standing is whether an object keeps what Berth patches.
type Standing uint8

const (
	// Settling means that the object may be patched.
	Settling Standing = iota
	// NotSettling means that the decision on the object changes after each patch.
	NotSettling
	// Contested means that other clients, or an admission webhook, change the object back after each patch.
	Contested
)

// Round is a patch of an object.
type Round struct {
	// Before and Version are the resource versions before and after the patch.
	Before, Version string
	// Due are the verdicts that require the patch.
	Due Due
	// Revision is what RevisionOf returned before the patch.
	Revision uint64
}

// RevisionOf identifies the data that the policies of the verdicts read at present; 0 if some are missing.
func RevisionOf(due Due) uint64 {
	var out uint64
	for _, v := range due {
		revision := v.Policy.Evaluator.Revision()
		if revision == 0 {
			return 0
		}
		out = out*31 + revision
	}
	return out
}

// histories holds what is known of the recent patches of each object. The Gate's mutex protects it.
type histories struct {
	byKey map[Key]*history
	seed  maphash.Seed
	// swept is when old histories were last removed.
	swept time.Time
}

// history is what is known of the recent patches of one object.
type history struct {
	// times are the times of the patches within patchWindow.
	times []time.Time
	// before and version are hashes of the resource versions before and after the last patch, and wanted is a hash of each of its
	// changes, up to the array's length. at is when it was made, and revision identifies the data that it was decided on.
	before, version uint64
	wanted          [4]uint32
	revision        uint64
	at              time.Time
	// rounds are the times within roundWindow at which a patch was found not to have lasted, and standing says why the last did
	// not. judged reports whether it is known if the last patch lasted.
	rounds   []time.Time
	standing Standing
	judged   bool
}

func newHistories() histories {
	return histories{byKey: map[Key]*history{}, seed: maphash.MakeSeed()}
}

// wants returns hashes of the changes that a patch makes.
func (h *histories) wants(due Due) (out [4]uint32) {
	for i, c := range due.changes() {
		if i == len(out) {
			break
		}
		text := appendText(appendText(appendText(nil, &c.Field), &c.Key), c.To)
		// Setting the lowest bit keeps 0 free for no change.
		out[i] = uint32(maphash.Bytes(h.seed, text)) | 1
	}
	return out
}

// overlap reports whether two sets of hashes have one in common.
func overlap(a, b [4]uint32) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y && x != 0 {
				return true
			}
		}
	}
	return false
}

// Settles reports whether an object was not patched too often within a minute. Otherwise it must not be patched.
func (g *Gate) Settles(now time.Time, key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.byKey[key]
	return h == nil || len(h.recent(now)) < maxPatches
}

// Patched records a patch that changed an object.
func (g *Gate) Patched(now time.Time, key Key, r Round) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire(now)
	h := g.byKey[key]
	if h == nil {
		h = &history{}
		g.byKey[key] = h
	}
	h.times = append(h.recent(now), now)
	h.before, h.version = maphash.String(g.seed, r.Before), maphash.String(g.seed, r.Version)
	h.wanted, h.revision, h.at, h.judged = g.wants(r.Due), r.Revision, now, false
}

// Judgment is the result of Judge.
type Judgment struct {
	Standing Standing
	// Began reports whether the object had another standing before.
	Began bool
	// Again is the time after which the object must be judged again if it must not be patched now.
	Again time.Duration
}

// Judge returns the standing of an object that requires a patch because of verdicts on a resource version. It counts the last patch of the object if that did not last: if the
// same is required again although a client has written since, or although nothing has changed; or if something else is required
// although nothing has changed. A patch that is required because of other data does not count.
func (g *Gate) Judge(now time.Time, key Key, version string, verdicts []*placement.Verdict) Judgment {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.byKey[key]
	if h == nil {
		return Judgment{}
	}
	due := DueOf(verdicts)
	for len(h.rounds) > 0 && now.Sub(h.rounds[0]) >= roundWindow {
		h.rounds = h.rounds[1:]
	}
	counted := false
	if version := maphash.String(g.seed, version); version != h.before && len(due) > 0 {
		// Otherwise the watch has not delivered the object as it is after the patch.
		revision := RevisionOf(due)
		counted = h.count(now, g.wants(due), version != h.version, revision != 0 && revision == h.revision)
	}
	if len(h.rounds) < maxRounds {
		return Judgment{}
	}
	return Judgment{Standing: h.standing, Began: counted, Again: roundWindow - now.Sub(h.rounds[len(h.rounds)-maxRounds])}
}

// count counts the last patch if it did not last, and reports whether it did. written reports whether a client wrote the object
// since, and sameData whether the data are those of the patch.
func (h *history) count(now time.Time, wanted [4]uint32, written, sameData bool) bool {
	standing := NotSettling
	switch same := overlap(h.wanted, wanted); {
	case h.judged:
		return false
	case same && (written || sameData):
		standing = Contested
	case same:
		return false
	case written || !sameData:
		// Something else is required now, for a reason: earlier rounds do not count.
		h.judged, h.rounds = true, nil
		return false
	}
	h.judged, h.standing = true, standing
	h.rounds = append(h.rounds, now)
	return true
}

// recent returns the times of the patches that count, and drops earlier ones.
func (h *history) recent(now time.Time) []time.Time {
	for len(h.times) > 0 && now.Sub(h.times[0]) > patchWindow {
		h.times = h.times[1:]
	}
	return h.times
}

// expire removes old histories.
func (h *histories) expire(now time.Time) {
	if now.Sub(h.swept) < patchWindow {
		return
	}
	h.swept = now
	maps.DeleteFunc(h.byKey, func(_ Key, h *history) bool { return now.Sub(h.at) > roundWindow+patchWindow })
}

// ForgetPatches drops the patches of objects for which forgotten returns true: they may settle from now on.
func (g *Gate) ForgetPatches(forgotten func(Key) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.byKey, func(key Key, _ *history) bool { return forgotten(key) })
}

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
	"fmt"
	"maps"
	"slices"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
)

// failure is why a patch of an object, or its rollout, failed.
type failure struct {
	reason  string
	rollout bool
}

// fail records that a patch of an object for a policy, or its rollout, failed. If too many did, it pauses the policy, or some
// namespaces of it. The caller holds mu and calls update.
func (s *Scheduler) fail(now time.Time, key Key, policy string, f failure) {
	b := s.policies[policy]
	if b == nil || b.version == nil && !b.resuming {
		return
	}
	key, f.reason = unversioned(key), truncate(f.reason)
	if s.failed[key] == nil {
		s.failed[key] = map[string]failure{}
	}
	before, known := s.failed[key][policy]
	if s.failed[key][policy] = f; f != before {
		s.changed(policy)
	}
	if !known && b.failed(now, key.Namespace) {
		s.news.Paused = append(s.news.Paused, policy)
	}
}

// clearFailures records that an object's patches and rollout for some policies do not fail. The caller holds mu.
func (s *Scheduler) clearFailures(versioned Key, policies ...string) {
	key := unversioned(versioned)
	failed := s.failed[key]
	for _, policy := range policies {
		if _, known := failed[policy]; !known {
			continue
		}
		delete(failed, policy)
		s.policies[policy].recovered(key.Namespace)
		s.changed(policy)
		s.freed()
	}
	if len(failed) == 0 {
		delete(s.failed, key)
	}
	if w := s.line.byKey[versioned]; w != nil {
		s.classify(w)
	}
}

// clearRefusals forgets the refusals of an object's patches for policies that do not require one any more. The caller holds mu.
func (s *Scheduler) clearRefusals(key Key, due Due) {
	for policy, f := range s.failed[unversioned(key)] {
		if !f.rollout && !s.policies[policy].resuming && !slices.Contains(Names(due), policy) {
			s.clearFailures(key, policy)
		}
	}
}

// pardon ends a policy's pause, and forgets the failures that caused it. The caller holds mu.
func (s *Scheduler) pardon(policy string) {
	if b := s.policies[policy]; b.pause != "" {
		b.pause, b.paused = "", nil
		s.changed(policy)
		s.freed()
	}
	for key := range s.failed {
		s.clearFailures(key, policy)
	}
	s.reclassify()
}

// Release lets a policy's patches go on that stopped because too many failed. It returns false if the policy has no such pause.
func (s *Scheduler) Release(policy, pause string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.policies[policy]
	if b == nil || b.pause == "" || b.pause != pause {
		return false
	}
	s.pardon(policy)
	return true
}

// Waiting are the numbers of objects that a policy has to patch and that wait for the scheduler.
type Waiting struct {
	// Paced are the objects that wait because of the number of patches a minute, or of objects that are moved at the same
	// time.
	Paced int
	// Settling are the objects that wait until it is known which objects are ready.
	Settling int
	// Closed are the objects that wait until a window opens, and Opens is when one does; zero if none ever does.
	Closed int
	Opens  time.Time
	// Unavailable are the objects that wait because too many objects are unavailable: as many as UnavailableNow, and FirstUnavailable is one
	// of these. At most MaxUnavailable may be. This counts for the policy UnavailableFor, which may be another one that wants to patch the same
	// objects.
	Unavailable, UnavailableNow, MaxUnavailable int
	FirstUnavailable                            Key
	UnavailableFor                              string
	// Stopped are the objects that wait because too many patches failed.
	Stopped int
	// Protected are the Pods that wait because a PodDisruptionBudget does not allow their eviction.
	Protected int
	// Rollouts is the number of objects that were patched and whose rollout is not complete, and of evicted Pods that are not
	// gone. It is not known while Resuming is
	// set: an earlier leader was moving objects.
	Rollouts int
	Resuming bool
	// Moves are those of them that were moved to other clusters and do not run there yet, as far as a system reports that, sorted. While Resuming
	// is set, they include all that the earlier leader left.
	Moves []Move
	// Late are those of them that have failed because they do not run in their new clusters in time, and that count as moved in their namespace.
	Late int
	// Failures are the objects whose patch or rollout failed, and Pause identifies the pause because of them; "" for none. PausedIn
	// is where it stops patches, if there is one.
	Failures []Failure
	Pause    string
	PausedIn containment.Scope
}

// Paused reports whether patches of the whole policy stopped because too many failed.
func (w *Waiting) Paused() bool { return w.Pause != "" && w.PausedIn.All() }

// PauseMessage describes why the patches of a policy stopped, and how to let them go on; "" if they did not. It names one of the
// objects.
func (w *Waiting) PauseMessage(policy string) string {
	var example string
	if failed := w.failedThere(); len(failed) > 0 {
		example = fmt.Sprintf(", such as %s: %s", failed[0].Key, failed[0].Reason)
	}
	return w.pauseMessage(policy, example)
}

// PauseNote is PauseMessage without an object, for an Event on the policy.
func (w *Waiting) PauseNote(policy string) string { return w.pauseMessage(policy, "") }

// failedThere returns the failures where the pause stops patches.
func (w *Waiting) failedThere() []Failure {
	return slices.DeleteFunc(slices.Clone(w.Failures), func(f Failure) bool { return !w.PausedIn.Includes(f.Namespace) })
}

func (w *Waiting) pauseMessage(policy, example string) string {
	if w.Pause == "" {
		return ""
	}
	var where string
	if !w.PausedIn.All() {
		where = " " + w.PausedIn.String()
	}
	cause, correct := fmt.Sprintf("%d objects failed", len(w.failedThere())), "Correct the cause, then let"
	if len(w.failedThere()) == 0 {
		cause, correct = "objects failed that do not fail any more", "Let"
	}
	return fmt.Sprintf("%s, so Berth patches no more objects of this policy%s (spec.remediation.budget.pauseAfterFailures)%s. "+
		"%s the patches go on: kubectl annotate placementpolicy %s --overwrite %s=%s",
		cause, where, example, correct, policy, placementv1.ResumeAfterFailuresAnnotation, w.Pause)
}

// Move is an object that was moved to other clusters.
type Move struct {
	// Key is the object, without the version of its resource.
	Key
	// Since is when it was moved. Deadline is when it has failed if it does not run in its clusters by then; zero if it has failed for that
	// reason.
	Since, Deadline time.Time
}

// Failure is an object whose patch the API server refused, or whose rollout failed after a patch.
type Failure struct {
	// Key is the object, without the version of its resource.
	Key
	Reason string
	// Rollout reports whether it is the rollout that failed.
	Rollout bool
}

// Waiting returns the numbers of objects that a policy has to patch and that wait for the scheduler at a time.
func (s *Scheduler) Waiting(now time.Time, policy string) Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out Waiting
	for _, c := range s.line.classes {
		if c.wantedBy(policy) {
			w := c.first()
			blocked := s.blocked(now, w.key, w.claims, w.since, false)
			out.add(c.waiters.Len(), blocked)
			if blocked.reason == forAvailability && out.UnavailableFor == "" {
				out.UnavailableFor = blocked.policy
			}
		}
	}
	out.Protected = s.evictions.protected(policy)
	b := s.policies[policy]
	if b == nil {
		return out
	}
	if by := s.policies[out.UnavailableFor]; by != nil && by.unavailable.Len() > 0 {
		out.UnavailableNow, out.MaxUnavailable = by.unavailable.Len(), by.maxUnavailable(s.objects.Matched(by.name, by.rolled))
		out.FirstUnavailable = slices.MinFunc(by.unavailable.UnsortedList(), compareKeys)
	}
	out.Resuming = b.resuming
	moves := map[Key]Move{}
	maps.Copy(moves, b.left)
	for key := range b.moving.Set {
		m := s.moving[key]
		if !m.follows(policy) {
			continue
		}
		out.Rollouts++
		out.Late += count(b.late.Has(key))
		if !m.moved.IsZero() {
			moves[unversioned(key)] = Move{unversioned(key), m.moved, m.deadline()}
		}
	}
	out.Pause, out.PausedIn = b.pause, b.paused
	for key, reasons := range s.failed {
		if f, failed := reasons[policy]; failed {
			out.Failures = append(out.Failures, Failure{key, f.reason, f.rollout})
		}
	}
	slices.SortFunc(out.Failures, func(a, b Failure) int { return compareKeys(a.Key, b.Key) })
	out.Moves = slices.SortedFunc(maps.Values(moves), func(a, b Move) int { return compareKeys(a.Key, b.Key) })
	return out
}

// add counts objects that something keeps back.
func (w *Waiting) add(n int, by block) {
	switch by.reason {
	case forWindow:
		w.Closed += n
		w.Opens = earliest(w.Opens, by.until)
	case forAvailability:
		w.Unavailable += n
	case forRelease:
		w.Stopped += n
	case forSettling:
		w.Settling += n
	case forChange, forProbe, forData:
		// These are short, or the status has a pause.
	default:
		w.Paced += n
	}
}

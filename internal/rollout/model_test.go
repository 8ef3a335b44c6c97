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

package rollout_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/test/budget"
)

// steps is the number of steps of each random history.
const steps = 120

// versions are the versions of all histories. An empty version does not compile.
var versions = []string{"a", "b", "c"}

// TestStagesNeverRunAhead generates histories of a policy, and compares each status of its rollout with a model, which knows the
// stages in which the newest version may decide. In the end, everything is healthy and approved, and the rollout must be complete.
func TestStagesNeverRunAhead(t *testing.T) {
	seen, histories := map[string]int{}, budget.Rounds(2000)
	for seed := range uint64(histories) {
		h := newHistory(seed)
		for range steps {
			h.step()
		}
		h.finish()
		if h.failure != "" {
			t.Fatalf("seed %d: %s\n%s", seed, h.failure, strings.Join(h.log[max(0, len(h.log)-40):], "\n"))
		}
		for event, n := range h.seen {
			seen[event] += n
		}
	}
	for _, event := range []string{
		"begun", "begun again in the midst", "stage reached", "complete after its stages", "complete at once", "rolled back", "soaked", "approved", "rest approved", "approval of another wait",
		"held by failures", "held by objects that are not moved", "held by a lagging registry", "lost", "recovered", string(placementv1.RolloutPaused), string(placementv1.RolloutSoaking), string(placementv1.RolloutWaitingForApproval),
	} {
		if seen[event] < histories/100 {
			t.Errorf("%q happens only %d times in %d histories", event, seen[event], histories)
		}
	}
}

// history is one policy, its stored revisions, and what the leader has loaded of it.
type history struct {
	*rand.Rand
	now  time.Time
	log  []string
	seen map[string]int
	// failure is the first difference from the model.
	failure string

	// version is the version in the spec. It compiles unless it is empty.
	version    string
	spec       *placementv1.PolicyRollout
	generation int64
	annotation string
	status     *placementv1.RolloutStatus
	stored     []rollout.Revision
	fallback   rollout.Revision

	// loaded is the generation that the leader has loaded; 0 for none.
	loaded    int64
	inForce   rollout.InForce
	candidate string

	counts []rollout.Counts
	busy   bool
	rest   string
	paused string

	model model
}

// model knows the versions that may decide. It does not read the status that it judges.
type model struct {
	// everywhere is the version that was in force everywhere last; empty for none.
	everywhere string
	// rollout is the digest of the rollout that is not complete; empty for none. reached is the number of its stages in which its
	// version may decide, and moved is since when all their objects have been moved; zero if they were not.
	rollout string
	reached int
	moved   time.Time
	// denied are the objects of each of the first stages that the version before denied, by namespace, as far as that is known. Other
	// versions in the same stages inherit them.
	denied []map[string]int
	// shown is the ID that was shown in the present wait for an approval. used are those of all earlier waits.
	shown string
	used  map[string]bool
}

func newHistory(seed uint64) *history {
	h := &history{
		Rand: rand.New(rand.NewPCG(seed, 1)), now: now, generation: 1, version: "a", spec: &placementv1.PolicyRollout{}, seen: map[string]int{},
		model: model{used: map[string]bool{}},
	}
	h.spec.Stages = h.randomStages()
	if h.IntN(2) == 0 {
		// The policy had no rollout before.
		h.fallback = rollout.Revision{Number: 1, Version: versionDigest("a")}
		h.model.everywhere, h.generation = "a", 2
	}
	h.changed()
	return h
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) fail(format string, args ...any) {
	if h.failure == "" {
		h.failure = fmt.Sprintf(format, args...)
		h.note("%s", h.failure)
	}
}

func (h *history) randomStages() []placementv1.RolloutStage {
	out := make([]placementv1.RolloutStage, h.IntN(4))
	for i := range out {
		out[i] = placementv1.RolloutStage{Name: fmt.Sprintf("stage-%d", i), Percent: []int32{10, 20}[h.IntN(2)] * int32(i+1)}
		h.tune(&out[i])
	}
	return out
}

// tune changes the fields of a stage that can change during a rollout.
func (h *history) tune(s *placementv1.RolloutStage) {
	s.Soak, s.PauseAfterFailures, s.Approval = nil, nil, h.IntN(4) == 0
	if h.IntN(3) == 0 {
		s.Soak = &metav1.Duration{Duration: time.Duration(h.IntN(5)) * time.Second}
	}
	switch n := h.IntN(6); n {
	case 0, 1, 2:
		s.PauseAfterFailures = new(intstr.FromInt(n))
	case 3:
		s.PauseAfterFailures = new(intstr.FromString(placementv1.Never))
	}
}

// digest is that of the rollout of the version in the spec.
func (h *history) digest() string { return digestOf(h.version, h.spec) }

// changed follows a change of the spec. The counts of other stages are others.
func (h *history) changed() {
	h.generation++
	h.recount()
	h.note("generation %d: version %q, revision %d, %d stages", h.generation, h.version, h.spec.Revision, len(h.spec.Stages))
}

func (h *history) recount() {
	h.counts = make([]rollout.Counts, len(h.spec.Stages))
	for i := range h.counts {
		c := rollout.Counts{Matched: 9, Namespaces: 1 + h.IntN(4), Failed: map[string]int{}, Denied: map[string]int{}}
		if h.IntN(4) == 0 {
			for namespace := range c.Namespaces {
				name := string(rune('a' + namespace))
				switch h.IntN(3) {
				case 0:
					c.Failed[name] = 1 + h.IntN(2)
				case 1:
					c.Denied[name] = 1
				}
			}
		}
		if h.IntN(3) == 0 {
			c.Pending = h.IntN(2)
		}
		c.Moved = c.Matched - total(c.Failed) - total(c.Denied) - c.Pending
		h.counts[i] = c
	}
	h.busy, h.paused, h.rest = h.IntN(5) == 0, "", []string{"", "namespaces of no stage (1, such as z)"}[h.IntN(2)]
	if h.IntN(20) == 0 {
		h.paused = "remediation is paused"
	}
}

func (h *history) step() {
	switch n := h.IntN(100); {
	case n < 2:
		h.spec = h.spec.DeepCopy()
		h.version, h.spec.Revision = append(versions, "")[h.IntN(len(versions)+1)], 0
		h.changed()
	case n < 3:
		h.spec = &placementv1.PolicyRollout{Stages: h.randomStages(), Revision: h.spec.Revision}
		h.changed()
	case n < 6:
		h.spec = h.spec.DeepCopy()
		for i := range h.spec.Stages {
			h.tune(&h.spec.Stages[i])
		}
		h.changed()
	case n < 8:
		h.spec = h.spec.DeepCopy()
		h.spec.Revision = 0
		if len(h.stored) > 0 && h.IntN(2) == 0 {
			h.spec.Revision = h.stored[h.IntN(len(h.stored))].Number
		}
		h.changed()
	case n < 9:
		h.lose()
	case n < 20:
		h.approve()
	case n < 38:
		h.recount()
		h.note("counts %v, busy %t, paused %q", h.counts, h.busy, h.paused)
	case n < 48:
		h.now = h.now.Add(time.Duration(h.IntN(3000)) * time.Millisecond)
	case n < 58:
		h.store()
	case n < 75:
		h.load()
	default:
		h.next()
	}
}

// lose deletes stored revisions, or the leader's registry in a change of the leader.
func (h *history) lose() {
	if h.IntN(3) > 0 {
		h.loaded = 0
		h.note("another leader")
		return
	}
	if len(h.stored) > 0 {
		i := h.IntN(len(h.stored))
		h.note("revision %d is deleted", h.stored[i].Number)
		h.stored = slices.Delete(slices.Clone(h.stored), i, i+1)
		h.seen["lost"]++
	}
}

func (h *history) approve() {
	id := h.model.shown
	if used := slices.Sorted(maps.Keys(h.model.used)); len(used) > 0 && h.IntN(2) == 0 {
		id = used[h.IntN(len(used))]
	}
	h.annotation = id
	h.note("approves %q", id)
}

// store stores the last version in force, for a policy that had no rollout, and the version in the spec.
func (h *history) store() {
	for _, r := range []rollout.Revision{h.fallback, {Number: h.generation, Version: versionDigest(h.version)}} {
		known := slices.ContainsFunc(h.stored, func(s rollout.Revision) bool { return s.Version == r.Version })
		if r.Number > 0 && !known && (r == h.fallback || h.version != "" && h.loaded == h.generation) {
			h.stored = append([]rollout.Revision{r}, h.stored...)
			h.note("revision %d is stored", r.Number)
		}
	}
}

// load loads the newest spec and status on the leader.
func (h *history) load() {
	fresh := h.loaded == 0
	position := rollout.PositionOf(h.status)
	h.loaded, h.candidate = h.generation, ""
	if h.version != "" {
		h.candidate = h.digest()
	}
	i := slices.IndexFunc(h.stored, func(r rollout.Revision) bool { return r.Number == h.spec.Revision })
	switch {
	case h.spec.Revision != 0 && i >= 0:
		h.inForce = rollout.InForce{Digest: h.stored[i].Version, Complete: true, Revision: h.spec.Revision}
	case h.spec.Revision == 0 && h.candidate != "" && position.Concerns(h.candidate):
		h.inForce = rollout.InForce{Digest: position.Digest, Reached: position.Reached, Complete: position.Complete}
	case fresh:
		h.inForce = rollout.InForce{Complete: true}
	}
	h.note("loads generation %d, in force is %+v", h.loaded, h.inForce)
}

// next writes the next status and judges it.
func (h *history) next() time.Time {
	h.now = h.now.Add(time.Millisecond)
	f := rollout.Facts{
		Now: h.now, Spec: h.spec, Stored: h.stored, Fallback: h.fallback, Busy: h.busy, Paused: h.paused, Approved: h.annotation, Counts: h.counts, Rest: h.rest,
	}
	if h.loaded == h.generation {
		f.InForce, f.Candidate = new(h.inForce), h.candidate
	}
	before := h.status
	after, again := rollout.Next(before, f)
	h.status = after
	if after != nil {
		h.note("%s: %s, reached %d, revision %d after %d, approval %q: %s", h.now.Format("05.000"), after.State, *after.Reached, after.Revision, after.PreviousRevision, after.ApprovalID, after.Message)
		h.seen[string(after.State)]++
	}
	h.judge(f, after)
	return again
}

// judge compares a status with the model.
func (h *history) judge(f rollout.Facts, after *placementv1.RolloutStatus) {
	m := &h.model
	held := h.held(f)
	if m.rollout != "" && held == "" && m.moved.IsZero() {
		m.moved = h.now
	}
	if after == nil {
		if m.rollout != "" {
			h.fail("the status of the rollout is removed")
		}
		return
	}
	if f.InForce == nil || f.Spec.Revision != 0 || f.Candidate == "" {
		// No version may go on. Only a revision that is in force may take over.
		if after.State == placementv1.RolloutRolledBack && after.Revision == f.Spec.Revision && f.InForce != nil && f.InForce.Revision == f.Spec.Revision {
			if after.Digest != f.InForce.Digest {
				h.fail("version %s is rolled back to, want %s", after.Digest, f.InForce.Digest)
			}
			m.rollout, m.reached, m.shown = "", 0, ""
			for _, v := range versions {
				if versionDigest(v) == f.InForce.Digest {
					m.everywhere = v
				}
			}
			h.seen["rolled back"]++
			return
		}
		h.same(after)
		return
	}
	if after.Digest != f.Candidate || m.rollout == "" && everywhere(after) && versionDigest(m.everywhere) != versionDigest(h.version) && len(f.Spec.Stages) > 0 {
		h.same(after)
		return
	}
	if everywhere(after) && m.rollout == "" && m.everywhere == h.version {
		return
	}
	if m.rollout != f.Candidate {
		// Another rollout begins, before its first stage.
		h.seen["begun"]++
		if m.rollout != "" {
			h.seen["begun again in the midst"]++
		}
		if stagesOf(m.rollout) != stagesOf(f.Candidate) {
			m.denied = nil
		}
		m.rollout, m.reached, m.moved, m.shown = f.Candidate, 0, time.Time{}, ""
		held = h.held(f)
		if everywhere(after) {
			if m.everywhere != h.version && len(f.Spec.Stages) > 0 {
				h.fail("a version is complete before its first stage")
			}
			h.seen["complete at once"]++
			m.everywhere, m.rollout = h.version, ""
			return
		}
	}
	// The rollout may reach one more stage if nothing holds it.
	wanted := int(*after.Reached)
	if everywhere(after) {
		wanted = m.reached + 1
	}
	switch {
	case wanted == m.reached && !everywhere(after):
		if held != "" {
			h.seen["held by "+held]++
		}
	case wanted != m.reached+1:
		h.fail("reached %d, want %d or %d", wanted, m.reached, m.reached+1)
	case held != "":
		h.fail("stage %d is reached, held by %s", wanted, held)
	case m.reached > 0 && h.now.Sub(m.moved) < ptr.Deref(f.Spec.Stages[m.reached-1].Soak, metav1.Duration{}).Duration:
		h.fail("stage %d is reached %s after all objects of the one before were moved", wanted, h.now.Sub(m.moved))
	case everywhere(after):
		if m.reached != len(f.Spec.Stages) {
			h.fail("complete after %d stages", m.reached)
		}
		if f.Rest != "" && f.Spec.Stages[m.reached-1].Approval {
			if m.shown == "" || f.Approved != m.shown || m.used[m.shown] {
				h.fail("the rest is reached, approved is %q, and %q was shown", f.Approved, m.shown)
			}
			m.used[m.shown] = true
			h.seen["rest approved"]++
		}
		m.shown = ""
		h.seen["complete after its stages"]++
		m.everywhere, m.rollout = h.version, ""
		return
	default:
		if f.Spec.Stages[m.reached].Approval {
			if m.shown == "" || f.Approved != m.shown || m.used[m.shown] {
				h.fail("stage %d is reached, approved is %q, and %q was shown", wanted, f.Approved, m.shown)
			}
			h.seen["approved"]++
		}
		if m.reached > 0 && f.Spec.Stages[m.reached-1].Soak != nil {
			h.seen["soaked"]++
		}
		if m.shown != "" {
			m.used[m.shown] = true
		}
		if len(m.denied) == m.reached {
			m.denied = append(m.denied, f.Counts[m.reached].Denied)
		}
		m.reached, m.moved, m.shown = wanted, time.Time{}, ""
		h.seen["stage reached"]++
	}
	if after.ApprovalID != m.shown {
		if m.shown != "" || m.used[after.ApprovalID] {
			h.fail("approval %s is shown after %q", after.ApprovalID, m.shown)
		}
		m.shown = after.ApprovalID
	}
	if after.State == placementv1.RolloutWaitingForApproval && f.Approved != "" && f.Approved != m.shown {
		h.seen["approval of another wait"]++
	}
	h.same(after)
}

// stagesOf returns what a digest of a rollout says of its stages; empty for no rollout.
func stagesOf(digest string) string {
	_, stages, _ := strings.Cut(digest, "-")
	return stages
}

// held returns what holds the rollout of the model in its present stage, besides its soak and an approval; empty for nothing.
func (h *history) held(f rollout.Facts) string {
	reached := h.model.reached
	switch {
	case f.InForce == nil || f.Candidate == "" || f.Candidate != h.model.rollout || f.Spec.Revision != 0:
		return "another spec"
	case reached == 0 && f.Busy:
		return "objects that wait for their decision"
	case reached == 0:
		return ""
	case f.InForce.Digest != h.model.rollout || f.InForce.Reached != reached:
		return "a lagging registry"
	case f.Busy:
		return "objects that wait for their decision"
	case f.Paused != "":
		return "a pause of remediation"
	}
	for i := range reached {
		limit, c, before := ptr.Deref(f.Spec.Stages[i].PauseAfterFailures, intstr.FromInt32(1)), f.Counts[i], h.model.denied[i]
		failing := 0
		for _, name := range []string{"a", "b", "c", "d"} {
			if c.Failed[name] > 0 || c.Denied[name] > before[name] {
				failing++
			}
		}
		// No limit is above three, so that a namespace counts for one failure.
		failures := total(c.Failed) + max(0, total(c.Denied)-total(before))
		if limit.Type == intstr.Int && (limit.IntValue() > 0 && failures >= limit.IntValue() && failing >= min(3, c.Namespaces) || limit.IntValue() == 0 && failures > 0 && failing > 0) {
			return "failures"
		}
		if f.Counts[i].Pending > 0 {
			return "objects that are not moved"
		}
	}
	return ""
}

func total(objects map[string]int) (out int) {
	for _, n := range objects {
		out += n
	}
	return out
}

// same checks that a status permits in each stage what the model permits.
func (h *history) same(after *placementv1.RolloutStatus) {
	m := &h.model
	if everywhere(after) {
		if m.rollout != "" || !strings.HasPrefix(after.Digest, versionDigest(m.everywhere)) {
			h.fail("%s is in force everywhere, want %q", after.Digest, m.everywhere)
		}
		return
	}
	if after.Digest != m.rollout || int(*after.Reached) != m.reached {
		h.fail("%s has reached %d stages, want %d of %s", after.Digest, *after.Reached, m.reached, m.rollout)
	}
	i := slices.IndexFunc(h.stored, func(r rollout.Revision) bool { return r.Number == after.PreviousRevision })
	if (after.PreviousRevision == 0) != (m.everywhere == "") || i >= 0 && h.stored[i].Version != versionDigest(m.everywhere) {
		h.fail("revision %d decides in other stages, want version %q", after.PreviousRevision, m.everywhere)
	}
}

// finish makes everything healthy and approves each wait. The clock only goes on to the time at which Next has to be called again.
func (h *history) finish() {
	if h.version == "" {
		h.version = "a"
	}
	h.spec = h.spec.DeepCopy()
	h.spec.Revision = 0
	h.changed()
	h.note("everything is healthy")
	h.busy, h.paused = false, ""
	for i := range h.counts {
		h.counts[i] = rollout.Counts{Matched: 5, Moved: 5}
	}
	for range 40 {
		h.load()
		h.store()
		again := h.next()
		if s := h.status; s != nil && s.State == placementv1.RolloutComplete && strings.HasPrefix(s.Digest, versionDigest(h.version)) {
			return
		}
		if s := h.status; s != nil && strings.Contains(s.Message, "is not stored any more") {
			// A revision was deleted. The status says so, and what to do.
			h.recover()
			continue
		}
		if !again.IsZero() {
			if !again.After(h.now) {
				h.fail("has to be called again in the past")
			}
			h.now = again
		}
		h.annotation = h.model.shown
	}
	h.fail("the rollout gets stuck")
}

// recover follows the message of a status: it sets a revision, and removes it again.
func (h *history) recover() {
	h.seen["recovered"]++
	for _, revision := range []int64{h.stored[0].Number, 0} {
		h.spec = h.spec.DeepCopy()
		h.spec.Revision = revision
		h.generation++
		h.load()
		h.next()
	}
}

func everywhere(s *placementv1.RolloutStatus) bool {
	return s.State == placementv1.RolloutComplete || s.State == placementv1.RolloutRolledBack
}

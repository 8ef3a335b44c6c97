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

package policyloader

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/test/budget"
)

// replicaSteps is the number of steps of each random history.
const replicaSteps = 120

// TestReplicasNeverRunAhead generates histories of a policy with three replicas that read the policy and its stored revisions
// late, and that restart. It checks that each version that decides in a namespace was permitted there by the newest status that
// the replica has read, or by an older one. In the end, the version in the spec decides everywhere.
func TestReplicasNeverRunAhead(t *testing.T) {
	m, seen, histories := newMetrics(t), map[string]int{}, budget.Rounds(80)
	for seed := range uint64(histories) {
		w := newReplicas(t, seed, m, seen)
		for range replicaSteps {
			w.step()
		}
		w.finish()
	}
	for _, event := range []string{"stage reached", "complete", "rolled back", "restart", "lagging", "exact", "fails closed", "two versions", "no version before", "no rollout"} {
		if seen[event] < histories/40 {
			t.Errorf("%q happens only %d times in %d histories", event, seen[event], histories)
		}
	}
}

// replicas is a policy with its replicas. The first one is the leader.
type replicas struct {
	*rand.Rand
	seed     uint64
	t        *testing.T
	metrics  *metrics.Metrics
	store    *store
	replicas []*replica
	now      time.Time
	log      []string
	seen     map[string]int
	// versions is the number of versions so far. version is the version of each digest of a version or of a rollout, and stages
	// are the stages of each rollout.
	versions int32
	version  map[string]int
	stages   map[string][]placementv1.RolloutStage
	// permitted are the versions that each state of the policy permits in each of allStages.
	permitted [][][]int
	// early are the replicas that started when no version was stored.
	early map[*replica]bool
}

func newReplicas(t *testing.T, seed uint64, m *metrics.Metrics, seen map[string]int) *replicas {
	w := &replicas{
		Rand: rand.New(rand.NewPCG(seed, 2)), seed: seed, t: t, metrics: m, store: newStore(), now: time.Unix(1_800_000_000, 0), seen: seen, versions: 1,
		early: map[*replica]bool{}, version: map[string]int{}, stages: map[string][]placementv1.RolloutStage{},
	}
	if w.IntN(2) == 0 {
		w.store.policies[0].Spec.Rollout = w.randomStages()
	}
	w.permit()
	for range 3 {
		w.replicas = append(w.replicas, newReplica(t, w.store, m))
	}
	for _, r := range w.replicas {
		w.load(r)
	}
	// The leader stores the version of a policy without a rollout before the policy gets one.
	w.revise()
	return w
}

func (w *replicas) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *replicas) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.log[max(0, len(w.log)-40):], "\n"))
}

func (w *replicas) randomStages() *placementv1.PolicyRollout {
	names := []string{"0", "1", "2"}
	w.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return stagesOf(names[:w.IntN(4)]...)
}

// change changes the spec.
func (w *replicas) change(f func(*placementv1.PlacementPolicySpec)) {
	w.store.change(func(p *placementv1.PlacementPolicy) { f(&p.Spec) })
	w.permit()
	p, r := w.store.newest(), "no rollout"
	if p.Spec.Rollout != nil {
		r = fmt.Sprintf("revision %d, stages", p.Spec.Rollout.Revision)
		for _, s := range p.Spec.Rollout.Stages {
			r += " " + s.Name
		}
	}
	w.note("state %d is generation %d: version %d, %s", len(w.store.policies)-1, p.Generation, p.Spec.Priority, r)
}

// permit records the versions that the newest state of the policy permits.
func (w *replicas) permit() {
	p := w.store.newest()
	version := int(p.Spec.Priority)
	w.version[rollout.VersionDigest(p.Spec)], w.version[rollout.Digest(p.Spec)] = version, version
	if p.Spec.Rollout != nil {
		w.stages[rollout.Digest(p.Spec)] = p.Spec.Rollout.Stages
	}
	out := make([][]int, len(allStages))
	for i, stage := range allStages {
		s := p.Status.Rollout
		switch {
		case p.Spec.Rollout == nil:
			out[i] = append(out[i], version)
		case s == nil && len(w.permitted) == 0:
			out[i] = append(out[i], none)
		case s == nil:
		case everywhere(s):
			out[i] = append(out[i], w.versionOf(s.Digest))
		default:
			reached := w.stages[s.Digest][:*s.Reached]
			if slices.ContainsFunc(reached, func(r placementv1.RolloutStage) bool { return r.Name == "stage-"+stage }) {
				out[i] = append(out[i], w.versionOf(s.Digest))
			} else {
				out[i] = append(out[i], w.revision(s.PreviousRevision))
			}
		}
		if p.Spec.Rollout != nil && p.Spec.Rollout.Revision != 0 {
			out[i] = append(out[i], w.revision(p.Spec.Rollout.Revision))
		}
	}
	w.permitted = append(w.permitted, out)
}

func everywhere(s *placementv1.RolloutStatus) bool {
	return s.State == placementv1.RolloutComplete || s.State == placementv1.RolloutRolledBack
}

func (w *replicas) versionOf(digest string) int {
	if v, ok := w.version[digest]; ok {
		return v
	}
	version, _, _ := strings.Cut(digest, "-")
	return w.version[version]
}

// revision returns the version of a stored revision; none for 0.
func (w *replicas) revision(number int64) int {
	if number == 0 {
		return none
	}
	name := policy.NumberedRevisionName(staged, number)
	for _, s := range slices.Backward(w.store.revisions) {
		if r, ok := s[name]; ok {
			revision, err := policy.DecodeRevision(r.Data.Raw)
			if err != nil {
				w.t.Fatal(err)
			}
			return int(revision.Spec.Priority)
		}
	}
	w.fail("revision %d was never stored", number)
	return none
}

const compiles, compilesNot = "package p\n", `package p
x := y
`

func (w *replicas) step() {
	r := w.replicas[w.IntN(len(w.replicas))]
	switch n := w.IntN(200); {
	case n < 5:
		w.change(func(s *placementv1.PlacementPolicySpec) {
			w.versions++
			s.Rego, s.Priority = compiles, w.versions
			if w.IntN(4) == 0 {
				s.Priority = 1 + int32(w.IntN(int(w.versions)))
			}
		})
	case n < 7:
		w.change(func(s *placementv1.PlacementPolicySpec) {
			if s.Rollout != nil {
				w.versions++
				s.Rego, s.Priority = compilesNot, w.versions
			}
		})
	case n < 10:
		w.change(func(s *placementv1.PlacementPolicySpec) {
			if s.Rollout != nil || s.Rego == compiles {
				s.Rollout = w.randomStages()
			}
		})
	case n < 11:
		w.change(func(s *placementv1.PlacementPolicySpec) {
			if s.Rego == compiles {
				s.Rollout = nil
				w.seen["no rollout"]++
			}
		})
	case n < 18:
		w.change(func(s *placementv1.PlacementPolicySpec) {
			if s.Rollout == nil {
				return
			}
			s.Rollout.Revision = 0
			if of := w.store.newest().Status.Rollout; of != nil && len(of.Revisions) > 0 && w.IntN(2) == 0 {
				s.Rollout.Revision = of.Revisions[w.IntN(len(of.Revisions))]
			}
		})
		if w.IntN(2) == 0 {
			w.replicas[0].catchUp()
			w.load(w.replicas[0])
			w.next()
		}
	case n < 24:
		i := slices.Index(w.replicas, r)
		next := newReplica(w.t, w.store, w.metrics)
		// Its cache of revisions may have an older state.
		next.policy, next.revision = w.between(r.policy, len(w.store.policies)), w.IntN(len(w.store.revisions))
		w.replicas[i] = next
		w.seen["restart"]++
		w.note("replica %d restarts", i)
		w.load(next)
	case n < 60:
		r.policy = w.between(r.policy, len(w.store.policies))
	case n < 85:
		r.revision = w.between(r.revision, len(w.store.revisions))
	case n < 140:
		w.load(r)
	case n < 160:
		w.revise()
	default:
		w.next()
	}
}

// between returns from, to-1, or a number between them.
func (w *replicas) between(from, to int) int {
	if w.IntN(2) == 0 {
		return to - 1
	}
	return from + w.IntN(to-from)
}

// load loads the policy on a replica, and checks what decides there.
func (w *replicas) load(r *replica) {
	again := r.load(w.t)
	state, i := r.registry.Get(staged), slices.Index(w.replicas, r)
	got := r.everywhere(w.t)
	w.note("replica %d loads state %d, revisions %d: versions %v, error %v", i, r.policy, r.revision, got, state.Err)
	if r.policy < len(w.store.policies)-1 {
		w.seen["lagging"]++
	}
	if len(state.Versions()) == 2 {
		w.seen["two versions"]++
	}
	p := w.store.policies[r.policy]
	for at, version := range got {
		if version == failClosed {
			w.seen["fails closed"]++
			if again == 0 {
				w.fail("replica %d fails closed and is not loaded again", i)
			}
			continue
		}
		if _, kept := w.store.revisions[r.revision][policy.RevisionName(staged)]; version == none && !kept && p.Status.Rollout == nil {
			// The cache of the replica did not have the first version at the start.
			w.early[r] = true
		}
		if version == none && w.early[r] {
			continue
		}
		if !slices.ContainsFunc(w.permitted[:r.policy+1], func(state [][]int) bool { return slices.Contains(state[at], version) }) {
			w.fail("version %d decides in stage %s on replica %d, which no status permits", version, allStages[at], i)
		}
		if version == none {
			w.seen["no version before"]++
		}
		// The status has the newest version, and the replica can load it: it decides as far as the status says.
		if p.Spec.Rollout != nil && p.Spec.Rollout.Revision == 0 && state.Err == nil && rollout.PositionOf(p.Status.Rollout).Concerns(rollout.Digest(p.Spec)) {
			w.seen["exact"]++
			if !slices.Contains(w.permitted[r.policy][at], version) {
				w.fail("version %d decides in stage %s on replica %d, want %v", version, allStages[at], i, w.permitted[r.policy][at])
			}
		}
	}
}

// revise runs the leader's controller of revisions.
func (w *replicas) revise() {
	leader := w.replicas[0]
	if _, err := leader.revisions.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: staged}}); err != nil {
		w.t.Fatal(err)
	}
}

// next writes the next status, as the leader does. It fails if the leader has not read the newest state.
func (w *replicas) next() {
	leader := w.replicas[0]
	if leader.policy != len(w.store.policies)-1 {
		return
	}
	w.now = w.now.Add(time.Second)
	p := w.store.newest()
	f := rollout.Facts{Now: w.now, Spec: p.Spec.Rollout}
	var err error
	if f.Stored, f.Fallback, err = leader.revisions.Numbered(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	if s := leader.registry.Get(staged); !s.Broken && s.Staged != nil && s.Loaded.Generation == p.Generation {
		f.InForce, f.Candidate, f.Counts = &s.Staged.InForce, s.Staged.Candidate, make([]rollout.Counts, s.Staged.Stages.Len())
	}
	before := p.Status.Rollout
	after, _ := rollout.Next(before, f)
	w.store.change(func(p *placementv1.PlacementPolicy) { p.Status.Rollout = after })
	w.permit()
	if after == nil {
		return
	}
	w.note("state %d: %s of revision %d after %d, reached %d: %s", len(w.store.policies)-1, after.State, after.Revision, after.PreviousRevision, *after.Reached, after.Message)
	switch {
	case after.State == placementv1.RolloutRolledBack:
		w.seen["rolled back"]++
	case after.State == placementv1.RolloutComplete:
		w.seen["complete"]++
	case before == nil || *before.Reached != *after.Reached:
		w.seen["stage reached"]++
	}
}

// finish makes all replicas read everything. The version in the spec has to decide everywhere.
func (w *replicas) finish() {
	w.change(func(s *placementv1.PlacementPolicySpec) {
		if s.Rollout != nil {
			s.Rollout.Revision = 0
		}
		s.Rego = compiles
	})
	w.note("everything is read")
	version := int(w.store.newest().Spec.Priority)
	want := []int{version, version, version, version}
	for range 12 {
		for _, r := range w.replicas {
			r.catchUp()
			w.load(r)
		}
		w.revise()
		w.replicas[0].catchUp()
		w.next()
	}
	for i, r := range w.replicas {
		if got := r.everywhere(w.t); !slices.Equal(got, want) {
			w.fail("versions %v decide on replica %d, want %v", got, i, want)
		}
	}
	if s := w.store.newest().Status.Rollout; w.store.newest().Spec.Rollout != nil && (s == nil || s.State != placementv1.RolloutComplete) {
		w.fail("the rollout gets stuck: %+v", s)
	}
}

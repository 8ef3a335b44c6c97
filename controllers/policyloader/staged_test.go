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
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
)

// staged is the name of the policy of these tests.
const staged = "staged"

// stored are stored ControllerRevisions. A stored copy is immutable.
type stored map[string]*appsv1.ControllerRevision

// store is the API server: the policy and the revisions, in all states that they had.
type store struct {
	policies  []*placementv1.PlacementPolicy
	revisions []stored
}

func (s *store) newest() *placementv1.PlacementPolicy { return s.policies[len(s.policies)-1] }

// change writes the policy. A change of its spec is a new generation.
func (s *store) change(f func(*placementv1.PlacementPolicy)) {
	next := s.newest().DeepCopy()
	f(next)
	if rollout.VersionDigest(next.Spec) != rollout.VersionDigest(s.newest().Spec) || !equalRollout(next.Spec.Rollout, s.newest().Spec.Rollout) {
		next.Generation++
	}
	s.policies = append(s.policies, next)
}

func equalRollout(a, b *placementv1.PolicyRollout) bool {
	return rollout.Digest(placementv1.PlacementPolicySpec{Rollout: a}) == rollout.Digest(placementv1.PlacementPolicySpec{Rollout: b}) && (a == nil) == (b == nil) && (a == nil || a.Revision == b.Revision)
}

// write writes the revisions.
func (s *store) write(f func(stored)) {
	next := maps.Clone(s.revisions[len(s.revisions)-1])
	f(next)
	s.revisions = append(s.revisions, next)
}

// cache is what a replica has read of the store. It may lag.
type cache struct {
	client.Client
	store *store
	// policy and revision are indices of states of the store.
	policy, revision int
}

func (c *cache) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	switch out := out.(type) {
	case *placementv1.PlacementPolicy:
		if key.Name == staged {
			c.store.policies[c.policy].DeepCopyInto(out)
			return nil
		}
	case *appsv1.ControllerRevision:
		if r, ok := c.store.revisions[c.revision][key.Name]; ok {
			r.DeepCopyInto(out)
			return nil
		}
	}
	return apierrors.NewNotFound(appsv1.Resource("any"), key.Name)
}

func (c *cache) List(_ context.Context, out client.ObjectList, o ...client.ListOption) error {
	switch out := out.(type) {
	case *placementv1.PlacementPolicyList:
		out.Items = append(out.Items, *c.store.policies[c.policy])
	case *appsv1.ControllerRevisionList:
		options := (&client.ListOptions{}).ApplyOptions(o)
		for _, r := range c.store.revisions[c.revision] {
			if options.FieldSelector.Requirements()[0].Value == r.Annotations["placement.berth.dev/policy"] {
				out.Items = append(out.Items, *r)
			}
		}
	}
	return nil
}

func (c *cache) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if _, ok := c.store.revisions[len(c.store.revisions)-1][object.GetName()]; ok {
		return apierrors.NewAlreadyExists(appsv1.Resource("controllerrevisions"), object.GetName())
	}
	object.SetUID(types.UID(fmt.Sprint("revision-", len(c.store.revisions))))
	c.store.write(func(s stored) { s[object.GetName()] = object.(*appsv1.ControllerRevision).DeepCopy() })
	return nil
}

func (c *cache) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	if r := c.store.revisions[len(c.store.revisions)-1][object.GetName()]; r == nil || r.UID != object.GetUID() {
		return apierrors.NewNotFound(appsv1.Resource("controllerrevisions"), object.GetName())
	}
	c.store.write(func(s stored) { delete(s, object.GetName()) })
	return nil
}

// stateCluster is the cluster of the revisions.
type stateCluster struct {
	cluster.Cluster
	client client.Client
}

func (s stateCluster) GetClient() client.Client { return s.client }

// noEngine prepares versions that are never evaluated.
type noEngine struct{}

var errEvaluated = errors.New("evaluated")

func (noEngine) Check(*policy.Module) error { return nil }

func (noEngine) Prepare(context.Context, string, *policy.Module, *policy.Binding) (placement.Evaluator, error) {
	return placement.NewFailing(errEvaluated), nil
}

// replica is one replica, with the leader's controller of revisions.
type replica struct {
	*cache
	loader    *Controller
	registry  *placement.Registry
	revisions *RevisionStore
}

func newReplica(t testing.TB, s *store, m *metrics.Metrics) *replica {
	t.Helper()
	r := &replica{cache: &cache{store: s, policy: len(s.policies) - 1, revision: len(s.revisions) - 1}, registry: placement.NewRegistry()}
	r.loader = New(Deps{Policies: r.cache, Revisions: r.cache, Namespace: "berth-system", Registry: r.registry, Catalog: &policyCluster{}, Metrics: m, Engine: noEngine{}})
	r.revisions = &RevisionStore{Policies: r.cache, State: stateCluster{client: r.cache}, Registry: r.registry, Namespace: "berth-system"}
	return r
}

// catchUp makes the replica read the newest state.
func (r *replica) catchUp() {
	r.policy, r.revision = len(r.store.policies)-1, len(r.store.revisions)-1
}

func (r *replica) load(t testing.TB) time.Duration {
	t.Helper()
	result, err := r.loader.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: staged}})
	if err != nil {
		t.Fatal(err)
	}
	if !r.loader.Loaded(t.Context()) || r.registry.Get(staged) == nil {
		t.Fatal("the replica is not loaded")
	}
	return result.RequeueAfter
}

// failClosed is the version that decides where the replica fails closed, and none the one where no version decides. All other
// versions are named by their priorities.
const failClosed, none = -1, 0

// decides returns the version that decides in the namespace of a stage.
func (r *replica) decides(t testing.TB, stage string) int {
	t.Helper()
	state, out, n := r.registry.Get(staged), none, 0
	for _, p := range state.Versions() {
		if !p.Matcher.SelectsNamespace("shop", map[string]string{"stage": stage}) {
			continue
		}
		n++
		out = int(p.Priority)
		if _, err := p.Evaluator.Evaluate(t.Context(), nil); !errors.Is(err, errEvaluated) {
			out = failClosed
		}
	}
	if n > 1 {
		t.Fatalf("%d versions decide in stage %s", n, stage)
	}
	return out
}

// allStages are the names of the stages, and one for the other namespaces.
var allStages = []string{"0", "1", "2", "other"}

func (r *replica) everywhere(t testing.TB) []int {
	t.Helper()
	var out []int
	for _, stage := range allStages {
		out = append(out, r.decides(t, stage))
	}
	return out
}

// numbered returns the numbers of the versions that the leader has to store.
func (r *replica) numbered() (out []int64) {
	for _, v := range r.registry.Get(staged).Numbered {
		out = append(out, v.Generation)
	}
	return out
}

func newStore() *store {
	p := newPolicy(staged, "", "package p\n")
	p.Spec.Match.NamespaceSelector, p.Spec.Priority = nil, 1
	return &store{policies: []*placementv1.PlacementPolicy{p}, revisions: []stored{{}}}
}

func stagesOf(names ...string) *placementv1.PolicyRollout {
	out := &placementv1.PolicyRollout{}
	for _, name := range names {
		out.Stages = append(out.Stages, placementv1.RolloutStage{Name: "stage-" + name, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": name}}})
	}
	return out
}

func newMetrics(t testing.TB) *metrics.Metrics {
	t.Helper()
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// storeRevision stores the version in the spec under a number.
func (s *store) storeRevision(number int64, priority int32) {
	s.storeText(number, priority, "package p\n")
}

func (s *store) storeText(number int64, priority int32, rego string) {
	spec := s.newest().Spec.DeepCopy()
	spec.Rego, spec.Priority = rego, priority
	text, err := policy.EncodeRevision(policy.Revision{UID: s.newest().UID, Generation: number, Spec: *spec})
	if err != nil {
		panic(err)
	}
	name := policy.NumberedRevisionName(staged, number)
	s.write(func(r stored) {
		r[name] = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, Revision: number, Data: runtime.RawExtension{Raw: text}}
	})
}

// progress sets the status of a rollout of the version in the spec.
func (s *store) progress(reached int32, revision, previous int64) {
	s.change(func(p *placementv1.PlacementPolicy) {
		p.Status.Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutProgressing, Digest: rollout.Digest(p.Spec), Revision: revision, PreviousRevision: previous, Reached: &reached}
		for _, stage := range p.Spec.Rollout.Stages {
			p.Status.Rollout.Stages = append(p.Status.Rollout.Stages, placementv1.RolloutStageStatus{Name: stage.Name})
		}
	})
}

func (s *store) set(priority int32, r *placementv1.PolicyRollout) {
	s.change(func(p *placementv1.PlacementPolicy) { p.Spec.Priority, p.Spec.Rollout = priority, r })
}

func (r *replica) want(t testing.TB, want ...int) {
	t.Helper()
	if got := r.everywhere(t); !slices.Equal(got, want) {
		t.Errorf("versions %v decide in the stages %v, want %v; error %v", got, allStages, want, r.registry.Get(staged).Err)
	}
}

// TestOtherCountsDecideNothingAgain checks that a status that only has other counts changes no version in force.
func TestOtherCountsDecideNothingAgain(t *testing.T) {
	s := newStore()
	s.storeRevision(1, 1)
	s.set(2, stagesOf("0", "1"))
	s.progress(1, 2, 1)
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	r.want(t, 2, 1, 1, 1)
	before, changes := r.registry.Get(staged), 0
	r.registry.Subscribe(func(placement.PolicyChange) { changes++ })
	s.change(func(p *placementv1.PlacementPolicy) {
		p.Status.Rollout.Stages[0].Moved, p.Status.Rollout.Message = 7, "another"
	})
	r.catchUp()
	r.load(t)
	if after := r.registry.Get(staged); after != before || changes > 0 {
		t.Errorf("%d changes of the registry", changes)
	}
	s.progress(2, 2, 1)
	r.catchUp()
	r.load(t)
	if after := r.registry.Get(staged); after.Policy == before.Policy || changes != 1 {
		t.Errorf("%d changes of the registry after another stage", changes)
	}
	r.want(t, 2, 2, 1, 1)
}

// TestLostRevisions checks that a replica that can't load a revision that has to decide fails closed, reports that, and recovers
// as soon as the revision is stored.
func TestLostRevisions(t *testing.T) {
	broken := func(number int64) func(*store) {
		return func(s *store) {
			s.storeRevision(number, 1)
			name := policy.NumberedRevisionName(staged, number)
			s.write(func(r stored) {
				r[name] = r[name].DeepCopy()
				r[name].Data.Raw = []byte(strings.Replace(string(r[name].Data.Raw), `package p\n`, `package p\nx := y\n`, 1))
			})
		}
	}
	for name, tc := range map[string]struct {
		prepare func(*store)
		// lost makes the revision one that can't be loaded.
		lost func(*store)
		want []int
		// next are the versions after a further stage is reached.
		next    []int
		stored  []int
		message string
	}{
		"before, in the midst": {
			prepare: func(s *store) { s.set(2, stagesOf("0", "1")); s.progress(1, 2, 1) },
			want:    []int{2, failClosed, failClosed, failClosed}, next: []int{2, 2, failClosed, failClosed}, stored: []int{2, 2, 1, 1},
			message: "revision 1: the revision is not stored; that revision has to decide in the stages that the rollout has not reached: set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout",
		},
		"before, does not compile any more": {
			prepare: func(s *store) { s.set(2, stagesOf("0", "1")); s.progress(1, 2, 1) }, lost: broken(1),
			want: []int{2, failClosed, failClosed, failClosed}, next: []int{2, 2, failClosed, failClosed}, stored: []int{2, 2, 1, 1}, message: "revision 1: ",
		},
		"everywhere": {
			prepare: func(s *store) {
				s.set(1, stagesOf("0", "1"))
				s.change(func(p *placementv1.PlacementPolicy) {
					p.Status.Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutComplete, Digest: rollout.Digest(p.Spec), Revision: 1, Reached: new(int32(2))}
				})
				s.set(2, stagesOf("0", "1"))
			},
			want: []int{failClosed, failClosed, failClosed, failClosed}, stored: []int{1, 1, 1, 1}, message: "revision 1: the revision is not stored; that revision was in force everywhere last, and has to decide until a rollout begins: set spec.rollout.revision",
		},
		"rolled back to": {
			prepare: func(s *store) {
				s.set(2, stagesOf("0", "1"))
				s.change(func(p *placementv1.PlacementPolicy) {
					// The version before the rollback is still the last one that was in force everywhere.
					text, err := policy.EncodeRevision(policy.Revision{UID: p.UID, Generation: p.Generation, Spec: p.Spec})
					if err != nil {
						panic(err)
					}
					name := policy.RevisionName(staged)
					s.write(func(r stored) {
						r[name] = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: runtime.RawExtension{Raw: text}}
					})
					p.Spec.Rollout.Revision = 1
					version := p.Spec.DeepCopy()
					version.Priority = 1
					p.Status.Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutRolledBack, Digest: rollout.VersionDigest(*version), Revision: 1, Reached: new(int32(0))}
				})
			},
			want: []int{failClosed, failClosed, failClosed, failClosed}, stored: []int{1, 1, 1, 1}, message: "revision 1: the revision is not stored; that revision was in force everywhere last, and has to decide until a rollout begins: set spec.rollout.revision",
		},
		"selected, does not compile any more": {
			prepare: func(s *store) {
				s.storeRevision(3, 3)
				s.set(2, stagesOf("0"))
				s.progress(0, 2, 3)
				s.change(func(p *placementv1.PlacementPolicy) { p.Spec.Rollout.Revision = 1 })
			}, lost: broken(1),
			want: []int{3, 3, 3, 3}, stored: []int{1, 1, 1, 1}, message: "spec.rollout.revision: revision 1: ",
		},
		"selected": {
			prepare: func(s *store) {
				s.storeRevision(3, 3)
				s.set(2, stagesOf("0"))
				s.progress(0, 2, 3)
				s.change(func(p *placementv1.PlacementPolicy) { p.Spec.Rollout.Revision = 1 })
			},
			want: []int{3, 3, 3, 3}, stored: []int{1, 1, 1, 1}, message: "spec.rollout.revision: revision 1: the revision is not stored; status.rollout.revisions has",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			tc.prepare(s)
			if tc.lost != nil {
				tc.lost(s)
			}
			r := newReplica(t, s, newMetrics(t))
			again := r.load(t)
			r.want(t, tc.want...)
			if err := r.registry.Get(staged).Err; err == nil || !strings.HasPrefix(err.Error(), tc.message) {
				t.Errorf("error %v, want %s", err, tc.message)
			}
			if tc.lost == nil && again != missingInterval {
				t.Errorf("checked again after %s, want %s", again, missingInterval)
			}
			before := r.registry.Get(staged)
			r.load(t)
			if after := r.registry.Get(staged); after != before {
				t.Error("the registry changes although nothing else is stored")
			}
			if tc.next != nil {
				s.progress(2, 2, 1)
				r.catchUp()
				r.load(t)
				r.want(t, tc.next...)
			}
			s.storeRevision(1, 1)
			r.catchUp()
			r.load(t)
			r.want(t, tc.stored...)
			if err := r.registry.Get(staged).Err; err != nil {
				t.Errorf("error %v although the revision is stored", err)
			}
		})
	}
}

// TestWhatIsInForceStays checks that a replica that has a version in force keeps it while the version before a rollout is not
// stored, and reports that.
func TestWhatIsInForceStays(t *testing.T) {
	s := newStore()
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	s.set(2, stagesOf("0"))
	s.progress(1, 2, 1)
	r.catchUp()
	if again := r.load(t); again != missingInterval || r.registry.Get(staged).Err == nil {
		t.Errorf("checked again after %s, error %v", again, r.registry.Get(staged).Err)
	}
	r.want(t, 1, 1, 1, 1)
	s.storeRevision(1, 1)
	r.catchUp()
	r.load(t)
	r.want(t, 2, 1, 1, 1)
}

// TestUnstagedVersion checks that the version that is in force when a policy gets stages is to be stored under its number.
func TestUnstagedVersion(t *testing.T) {
	s := newStore()
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	s.set(2, stagesOf("0"))
	for range 2 {
		r.catchUp()
		r.load(t)
		r.want(t, 1, 1, 1, 1)
		if diff := cmp.Diff([]int64{1, 2}, r.numbered()); diff != "" {
			t.Errorf("versions to store: %s", diff)
		}
	}
	s.storeRevision(1, 1)
	s.progress(1, 2, 1)
	r.catchUp()
	r.load(t)
	r.want(t, 2, 1, 1, 1)
	if diff := cmp.Diff([]int64{2, 1}, r.numbered()); diff != "" {
		t.Errorf("versions to store after the rollout began: %s", diff)
	}
}

// readsClusters is a text that reads data.
const readsClusters = `package p

labels.zones := concat("", [z | z := data.clusters[_].labels.zone])
`

// TestBothVersionsWaitForData checks that what is in force decides on until the data of the version before are complete, too.
func TestBothVersionsWaitForData(t *testing.T) {
	s := newStore()
	r := newReplica(t, s, newMetrics(t))
	complete := false
	r.loader.Settled = func(b *policy.Binding) bool { return complete || len(b.Resources) == 0 }
	r.load(t)
	s.storeText(2, 2, readsClusters)
	s.set(3, stagesOf("0"))
	s.progress(1, 3, 2)
	r.catchUp()
	for range 2 {
		if again := r.load(t); again == 0 {
			t.Error("the data are not checked again")
		}
		r.want(t, 1, 1, 1, 1)
	}
	if next := r.registry.Get(staged).Next; len(next) != 2 || len(next[1].Resources) == 0 {
		t.Errorf("the registry has not what the version before reads: %v", next)
	}
	complete = true
	r.load(t)
	r.want(t, 3, 2, 2, 2)
}

// TestStagesWhileAVersionWaits checks that the version in force stays known while another one waits for its data, so that it is stored
// when the policy gets stages.
func TestStagesWhileAVersionWaits(t *testing.T) {
	s := newStore()
	r := newReplica(t, s, newMetrics(t))
	r.loader.Settled = func(b *policy.Binding) bool { return len(b.Resources) == 0 }
	r.load(t)
	s.change(func(p *placementv1.PlacementPolicy) { p.Spec.Rego, p.Spec.Priority = readsClusters, 2 })
	r.catchUp()
	r.load(t)
	s.set(3, stagesOf("0"))
	r.catchUp()
	r.load(t)
	r.want(t, 1, 1, 1, 1)
	if diff := cmp.Diff([]int64{1, 3}, r.numbered()); diff != "" {
		t.Errorf("versions to store: %s", diff)
	}
}

// TestReachedStagesOfWhatFails checks that a policy of which no version can be loaded fails in further stages as soon as these are reached.
func TestReachedStagesOfWhatFails(t *testing.T) {
	s := newStore()
	s.set(2, stagesOf("0", "1"))
	s.progress(1, 2, 0)
	s.change(func(p *placementv1.PlacementPolicy) { p.Spec.Rego = compilesNot })
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	r.want(t, failClosed, none, none, none)
	s.change(func(p *placementv1.PlacementPolicy) { *p.Status.Rollout.Reached = 2 })
	r.catchUp()
	r.load(t)
	r.want(t, failClosed, failClosed, none, none)
	before := r.registry.Get(staged)
	r.load(t)
	if r.registry.Get(staged) != before {
		t.Error("the registry changes although nothing else is reached")
	}
}

// TestAnotherStagedPolicyOfTheSameName checks that a policy that was deleted and created again uses nothing of the earlier one.
func TestAnotherStagedPolicyOfTheSameName(t *testing.T) {
	s := newStore()
	s.storeRevision(1, 1)
	s.set(2, stagesOf("0"))
	s.progress(1, 2, 1)
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	r.want(t, 2, 1, 1, 1)
	s.change(func(p *placementv1.PlacementPolicy) {
		p.UID, p.Generation, p.Spec.Priority, p.Status = "another", 1, 7, placementv1.PlacementPolicyStatus{}
	})
	r.catchUp()
	r.load(t)
	r.want(t, none, none, none, none)
	s.progress(1, 1, 0)
	r.catchUp()
	r.load(t)
	r.want(t, 7, none, none, none)
}

// TestStagesAreRemoved checks that a version is no longer limited to stages once the policy has none, even if the version in the spec
// does not compile.
func TestStagesAreRemoved(t *testing.T) {
	s := newStore()
	s.storeRevision(1, 1)
	s.set(2, stagesOf("0"))
	s.progress(1, 2, 1)
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	r.want(t, 2, 1, 1, 1)
	s.change(func(p *placementv1.PlacementPolicy) {
		p.Spec.Rego, p.Spec.Priority, p.Spec.Rollout = compilesNot, 3, nil
	})
	r.catchUp()
	r.load(t)
	r.want(t, 2, 2, 2, 2)
	if state := r.registry.Get(staged); state.Staged != nil || state.Err == nil {
		t.Errorf("the state has the stages %+v, error %v", state.Staged, state.Err)
	}
}

// TestLostRevisionIsForgotten checks that a revision that was lost in an earlier rollout does not count once another version is in
// force.
func TestLostRevisionIsForgotten(t *testing.T) {
	s := newStore()
	s.set(2, stagesOf("0"))
	s.progress(1, 2, 1)
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	r.want(t, 2, failClosed, failClosed, failClosed)
	s.set(2, nil)
	r.catchUp()
	r.load(t)
	r.want(t, 2, 2, 2, 2)
	s.set(3, stagesOf("0", "1"))
	r.catchUp()
	r.load(t)
	r.want(t, 2, 2, 2, 2)
}

// TestVersionThatLacksTypesGetsStages checks that a version that reads types that are not served counts as the one that is in force
// when the policy gets stages, so that it decides where no stage is reached.
func TestVersionThatLacksTypesGetsStages(t *testing.T) {
	s := newStore()
	s.policies[0].Spec.Rego = carts
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	s.change(func(p *placementv1.PlacementPolicy) {
		p.Spec.Rego, p.Spec.Priority, p.Spec.Rollout = compiles, 2, stagesOf("0")
	})
	r.catchUp()
	r.load(t)
	r.want(t, 1, 1, 1, 1)
	if diff := cmp.Diff([]int64{1, 2}, r.numbered()); diff != "" {
		t.Errorf("versions to store: %s", diff)
	}
}

// TestStagesAreRemovedAfterACompleteRollout checks that the version that was complete decides, and not a later one that was in force
// nowhere.
func TestStagesAreRemovedAfterACompleteRollout(t *testing.T) {
	s := newStore()
	s.storeRevision(1, 1)
	s.set(1, stagesOf("0"))
	s.progress(1, 1, 0)
	s.change(func(p *placementv1.PlacementPolicy) { p.Status.Rollout.State = placementv1.RolloutComplete })
	r := newReplica(t, s, newMetrics(t))
	r.load(t)
	s.set(2, stagesOf("0"))
	r.catchUp()
	r.load(t)
	r.want(t, 1, 1, 1, 1)
	s.change(func(p *placementv1.PlacementPolicy) {
		p.Spec.Rego, p.Spec.Priority, p.Spec.Rollout = compilesNot, 3, nil
	})
	r.catchUp()
	r.load(t)
	r.want(t, 1, 1, 1, 1)
}

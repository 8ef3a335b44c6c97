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
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
)

// revised is the name of the policy of these tests.
const revised = "p"

// revisionFixture is a RevisionStore with one policy, which is loaded in the version and as far as a test says.
type revisionFixture struct {
	*testing.T
	*RevisionStore

	policies client.Client
	obj      *placementv1.PlacementPolicy
	writes   []string
}

func newRevisionFixture(t *testing.T) *revisionFixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{placementv1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &revisionFixture{T: t, policies: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&placementv1.PlacementPolicy{}).Build()}
	changed := func(object client.Object) {
		f.writes = append(f.writes, object.GetName())
	}
	revisions := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&appsv1.ControllerRevision{}, annotationPolicy, policyOfRevision).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.CreateOption) error {
			// The fake client sets no UIDs.
			object.SetUID(types.UID(fmt.Sprint("revision-", len(f.writes))))
			err := c.Create(ctx, object, o...)
			if err == nil {
				changed(object)
			}
			return err
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.DeleteOption) error {
			err := c.Delete(ctx, object, o...)
			changed(object)
			return err
		},
	}).Build()
	f.RevisionStore = &RevisionStore{Policies: f.policies, State: stateCluster{client: revisions}, Registry: placement.NewRegistry(), Namespace: "berth-system"}
	f.create("uid")
	return f
}

// create creates the policy.
func (f *revisionFixture) create(uid types.UID) {
	f.Helper()
	f.obj = &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: revised, UID: uid, Generation: 1}}
	f.obj.Spec.Rego = "package a"
	if err := f.policies.Create(f.Context(), f.obj); err != nil {
		f.Fatal(err)
	}
}

// change changes the policy's spec, in the next generation.
func (f *revisionFixture) change(change func(*placementv1.PlacementPolicySpec)) {
	f.Helper()
	change(&f.obj.Spec)
	f.obj.Generation++
	if err := f.policies.Update(f.Context(), f.obj); err != nil {
		f.Fatal(err)
	}
}

func (f *revisionFixture) version(v string) {
	f.Helper()
	f.change(func(s *placementv1.PlacementPolicySpec) { s.Rego = "package " + v })
}

func (f *revisionFixture) stages(s *placementv1.PlacementPolicySpec) {
	s.Rollout = &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{{Name: "canary", Percent: 10}}}
}

// rollOut writes a status in which the version in the spec is rolled out.
func (f *revisionFixture) rollOut(s placementv1.RolloutState, revision, previous int64) {
	f.Helper()
	f.obj.Status.Rollout = &placementv1.RolloutStatus{State: s, Digest: rollout.Digest(f.obj.Spec), Revision: revision, PreviousRevision: previous, Reached: new(int32(0))}
	if err := f.policies.Status().Update(f.Context(), f.obj); err != nil {
		f.Fatal(err)
	}
}

// load loads the newest version, in force as far as the status says, and reconciles until nothing changes.
func (f *revisionFixture) load() {
	f.Helper()
	newest := &policy.Revision{UID: f.obj.UID, Generation: f.obj.Generation, Spec: *f.obj.Spec.DeepCopy()}
	s := &placement.PolicyState{Last: newest}
	if f.obj.Spec.Rollout != nil {
		s.Numbered = []*policy.Revision{newest}
		if position := rollout.PositionOf(f.obj.Status.Rollout); !position.Complete || !position.Concerns(rollout.Digest(f.obj.Spec)) {
			s.Last = nil
		}
	}
	f.set(s)
}

// set sets the registry's entry of the version in the spec, and reconciles until nothing changes.
func (f *revisionFixture) set(s *placement.PolicyState) {
	f.Helper()
	s.Policy, s.Loaded = &placement.Policy{Name: revised}, placement.LoadedVersion{UID: f.obj.UID, Generation: f.obj.Generation}
	f.Registry.Set(revised, s)
	f.reconcile()
}

func (f *revisionFixture) reconcile() {
	f.Helper()
	for writes := -1; writes != len(f.writes); {
		writes = len(f.writes)
		if _, err := f.Reconcile(f.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: revised}}); err != nil {
			f.Fatal(err)
		}
	}
}

// stored compares the stored objects: the last version in force as "last", and numbered ones by their numbers.
func (f *revisionFixture) stored(want map[string]string) {
	f.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := f.State.GetClient().List(f.Context(), list, client.InNamespace(f.Namespace)); err != nil {
		f.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range list.Items {
		revision, err := policy.DecodeRevision(r.Data.Raw)
		if err != nil {
			f.Fatal(err)
		}
		key := "last"
		if r.Name != policy.RevisionName(revised) {
			key = fmt.Sprint(r.Revision)
			if r.Name != policy.NumberedRevisionName(revised, r.Revision) || r.Annotations[annotationVersion] != rollout.VersionDigest(revision.Spec) || revision.Generation != r.Revision {
				f.Errorf("revision %s: name %s, annotations %v", key, r.Name, r.Annotations)
			}
		}
		got[key] = fmt.Sprintf("%d %s %s", revision.Generation, revision.UID, revision.Spec.Rego)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("stored revisions (-want +got):\n%s", diff)
	}
}

// numbers compares the numbers that Numbered returns.
func (f *revisionFixture) numbers(want ...int64) {
	f.Helper()
	numbered, _, err := f.Numbered(f.Context(), f.obj)
	if err != nil {
		f.Fatal(err)
	}
	var got []int64
	for _, r := range numbered {
		got = append(got, r.Number)
	}
	if !slices.Equal(got, want) {
		f.Errorf("revisions %v, want %v", got, want)
	}
}

// TestEachVersionIsStoredOnce follows a policy from one without stages to one with two versions, and back.
func TestEachVersionIsStoredOnce(t *testing.T) {
	f := newRevisionFixture(t)
	f.load()
	f.stored(map[string]string{"last": "1 uid package a"})

	// The version in force gets a number, once.
	first := f.Registry.Get(revised).Last
	f.change(f.stages)
	f.set(&placement.PolicyState{Numbered: []*policy.Revision{first, {UID: f.obj.UID, Generation: 2, Spec: f.obj.Spec}}})
	f.numbers(1)
	f.stored(map[string]string{"last": "1 uid package a", "1": "1 uid package a"})
	f.rollOut(placementv1.RolloutComplete, 1, 0)
	f.load()
	f.stored(map[string]string{"last": "2 uid package a", "1": "1 uid package a"})

	// The last version in force stays while another one is rolled out.
	f.version("b")
	f.load()
	f.stored(map[string]string{"last": "2 uid package a", "1": "1 uid package a", "3": "3 uid package b"})
	f.rollOut(placementv1.RolloutProgressing, 3, 1)
	f.load()
	f.stored(map[string]string{"last": "2 uid package a", "1": "1 uid package a", "3": "3 uid package b"})
	if _, last, err := f.Numbered(t.Context(), f.obj); err != nil || last.Number != 2 || last.Version != rollout.VersionDigest(placementv1.PlacementPolicySpec{Rego: "package a"}) {
		t.Errorf("the last version in force is %+v, error %v", last, err)
	}

	// Neither stages, remediation nor a version that was in the spec before are another version.
	f.change(func(s *placementv1.PlacementPolicySpec) {
		s.Rollout.Stages[0].Percent, s.Remediation.Mode = 20, placementv1.RemediationManual
	})
	f.load()
	f.version("a")
	f.load()
	f.version("b")
	f.load()
	f.numbers(3, 1)

	f.rollOut(placementv1.RolloutComplete, 3, 0)
	f.load()
	f.stored(map[string]string{"last": "6 uid package b", "1": "1 uid package a", "3": "3 uid package b"})

	f.change(func(s *placementv1.PlacementPolicySpec) { s.Rollout = nil })
	f.load()
	f.stored(map[string]string{"last": "7 uid package b"})
}

// TestAnotherSpecIsNotStored checks that nothing is stored of an entry of the registry that is that of another spec, or of another policy.
func TestAnotherSpecIsNotStored(t *testing.T) {
	f := newRevisionFixture(t)
	f.change(f.stages)
	for _, loaded := range []placement.LoadedVersion{{}, {UID: "uid", Generation: 1}, {UID: "another", Generation: 2}} {
		revision := &policy.Revision{UID: loaded.UID, Generation: loaded.Generation}
		f.Registry.Set(revised, &placement.PolicyState{Policy: &placement.Policy{Name: revised}, Loaded: loaded, Last: revision, Numbered: []*policy.Revision{revision}})
		f.reconcile()
		f.stored(map[string]string{})
	}
}

// TestPrune checks that ten revisions are kept, and those that decide or that spec.rollout.revision selects.
func TestPrune(t *testing.T) {
	f := newRevisionFixture(t)
	f.change(f.stages)
	f.load()
	f.rollOut(placementv1.RolloutComplete, 2, 0)
	f.load()
	for i := range 14 {
		f.version(fmt.Sprintf("v%d", i))
		f.rollOut(placementv1.RolloutProgressing, 3, 2)
		f.load()
	}
	f.numbers(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 3, 2)
	f.change(func(s *placementv1.PlacementPolicySpec) { s.Rollout.Revision = 3 })
	f.rollOut(placementv1.RolloutProgressing, 16, 2)
	f.load()
	f.numbers(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 3, 2)
	f.change(func(s *placementv1.PlacementPolicySpec) { s.Rollout.Revision = 0 })
	f.rollOut(placementv1.RolloutComplete, 16, 0)
	f.load()
	f.numbers(16, 15, 14, 13, 12, 11, 10, 9, 8, 7)
}

// TestRemovedWithThePolicy checks that the revisions of a policy are removed with it, even if it was deleted before this process
// started, and that another policy of the same name does not get them.
func TestRemovedWithThePolicy(t *testing.T) {
	f := newRevisionFixture(t)
	f.change(f.stages)
	f.load()
	f.rollOut(placementv1.RolloutComplete, 2, 0)
	f.load()
	if err := f.policies.Delete(t.Context(), f.obj); err != nil {
		t.Fatal(err)
	}
	f.Registry.Remove(revised)

	// A policy of the same name does not use them, and replaces them.
	f.create("another")
	f.change(f.stages)
	f.numbers()
	f.load()
	f.stored(map[string]string{"last": "2 uid package a", "2": "2 another package a"})
	f.numbers(2)
	if _, last, err := f.Numbered(t.Context(), f.obj); err != nil || last != (rollout.Revision{}) {
		t.Errorf("the last version in force is %+v, error %v", last, err)
	}

	if err := f.policies.Delete(t.Context(), f.obj); err != nil {
		t.Fatal(err)
	}
	// The initial list of the watch has the revisions.
	list, err := f.RevisionStore.stored(t.Context(), revised)
	if err != nil || len(list) != 2 {
		t.Fatalf("revisions %v, error %v", list, err)
	}
	for _, r := range list {
		if got := policyOfRevision(&r); !slices.Equal(got, []string{revised}) {
			t.Errorf("a revision enqueues %v", got)
		}
	}
	f.reconcile()
	f.stored(map[string]string{})
}

// TestAnotherVersionUnderTheSameNumber checks that a version replaces another one of its number, as after a restore of the policies from
// a backup while the revisions are in another cluster.
func TestAnotherVersionUnderTheSameNumber(t *testing.T) {
	f := newRevisionFixture(t)
	f.change(f.stages)
	f.load()
	f.rollOut(placementv1.RolloutComplete, 2, 0)
	f.load()
	backup := f.obj.DeepCopy()
	f.version("b")
	f.load()

	f.obj.Generation, f.obj.Spec = backup.Generation, backup.Spec
	if err := f.policies.Update(t.Context(), f.obj); err != nil {
		t.Fatal(err)
	}
	f.load()
	f.version("c")
	f.load()
	f.stored(map[string]string{"last": "2 uid package a", "2": "2 uid package a", "3": "3 uid package c"})
}

// TestOtherObjects checks that other ControllerRevisions in the namespace enqueue no policy.
func TestOtherObjects(t *testing.T) {
	for _, object := range []metav1.ObjectMeta{
		{Name: policy.RevisionName(revised)},
		{Name: "another", Annotations: map[string]string{annotationPolicy: revised}},
		{Name: policy.NumberedRevisionName("another", 1), Annotations: map[string]string{annotationPolicy: revised}},
	} {
		if got := policyOfRevision(&appsv1.ControllerRevision{ObjectMeta: object}); len(got) > 0 {
			t.Errorf("%s enqueues %v", object.Name, got)
		}
	}
}

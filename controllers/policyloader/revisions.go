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
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
)

// The annotations of a revision: the name and the UID of its policy, and the digest of the version. The cache has an index of the names.
const (
	annotationPolicy  = "placement.berth.dev/policy"
	annotationUID     = "placement.berth.dev/policy-uid"
	annotationVersion = "placement.berth.dev/version"
)

// RevisionStore is the controller that stores versions of policies as ControllerRevisions in Berth's own namespace, which may be in another
// cluster than the policies. It runs on the leader, and stores what rollout.ChoiceFacts.Stores says. On every replica, Controller reads the
// revisions. All fields must be set before SetupWithManager.
type RevisionStore struct {
	Policies client.Reader // Reads PlacementPolicies.
	Registry *placement.Registry
	// State is the cluster in which the revisions are stored, and Namespace the namespace there.
	State     cluster.Cluster
	Namespace string
	// Owned reports whether the policies are in the same cluster. Only then a revision gets an owner reference to its policy: otherwise the
	// garbage collector would not find the policy, and would delete the revision.
	Owned bool

	// changed publishes the names of the policies with spec.rollout whose revisions with numbers may have changed, for their status.
	changed notify.Topic[string]
}

// Subscribe registers f, which is called with each policy whose numbered revisions may have changed.
func (s *RevisionStore) Subscribe(f func(policy string)) { s.changed.Subscribe(f) }

// Numbered returns the stored revisions of a policy that have numbers, their generations, the newest first, and the version that was last
// in force everywhere; the zero value if there is none.
func (s *RevisionStore) Numbered(ctx context.Context, obj *placementv1.PlacementPolicy) (numbered []rollout.Revision,
	last rollout.Revision, err error) {
	stored, err := s.stored(ctx, obj.Name)
	for _, r := range stored {
		switch revision := (rollout.Revision{Number: r.Revision, Version: r.Annotations[annotationVersion]}); {
		case r.Annotations[annotationUID] != string(obj.UID):
		case r.Name == policy.RevisionName(obj.Name):
			last = revision
		default:
			numbered = append(numbered, revision)
		}
	}
	return numbered, last, err
}

// stored returns the ControllerRevisions of the policy with a name, and of deleted ones that had it, by descending generation.
func (s *RevisionStore) stored(ctx context.Context, policyName string) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := s.State.GetClient().List(ctx, list, client.InNamespace(s.Namespace), client.MatchingFields{annotationPolicy: policyName})
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	return list.Items, err
}

// SetupWithManager adds the controller to a manager, in which it runs on the leader. It stores versions of a policy when its spec, its
// state in the registry, or one of its revisions changes.
func (s *RevisionStore) SetupWithManager(mgr ctrl.Manager) error {
	if err := s.State.GetFieldIndexer().IndexField(context.Background(), &appsv1.ControllerRevision{}, annotationPolicy,
		policyOfRevision); err != nil {
		return err
	}
	request := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
	}
	enqueue := func(_ context.Context, revision client.Object) (out []reconcile.Request) {
		for _, name := range policyOfRevision(revision) {
			out = append(out, request(name))
		}
		return out
	}
	subscribe := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		s.Registry.Subscribe(func(change placement.PolicyChange) { queue.Add(request(change.Name)) })
		return nil
	}
	return builder.ControllerManagedBy(mgr).
		Named("policyrevision").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(subscribe)).
		// The initial list enqueues the policies of all revisions, because policies may have been deleted while no leader ran.
		WatchesRawSource(source.Kind[client.Object](s.State.GetCache(), &appsv1.ControllerRevision{},
			handler.EnqueueRequestsFromMapFunc(enqueue))).
		Complete(s)
}

// policyOfRevision returns the name of the policy of a ControllerRevision, from the annotation annotationPolicy; none if it lacks the
// annotation, or has a name that no revision of that policy has.
func policyOfRevision(revision client.Object) []string {
	name, known := revision.GetAnnotations()[annotationPolicy]
	if !known || !strings.HasPrefix(revision.GetName(), policy.RevisionName(name)) {
		return nil
	}
	return []string{name}
}

// Reconcile stores the versions in Last and Numbered of a policy's state in the registry, if that is of the newest generation. It deletes
// all revisions of a deleted policy, and the numbered ones that are no longer needed.
func (s *RevisionStore) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	stored, err := s.stored(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	obj := &placementv1.PlacementPolicy{}
	if err := s.Policies.Get(ctx, req.NamespacedName, obj); apierrors.IsNotFound(err) {
		return reconcile.Result{}, s.remove(ctx, stored...)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	state := s.Registry.Get(obj.Name)
	if state == nil || state.Loaded != (placement.LoadedVersion{UID: obj.UID, Generation: obj.Generation}) {
		// The registry sends an event when the version in the spec is loaded.
		return reconcile.Result{}, nil
	}
	if state.Last != nil {
		if err := s.store(ctx, obj, stored, policy.RevisionName(obj.Name), state.Last); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, s.storeNumbered(ctx, obj, stored, state.Numbered)
}

// storeNumbered stores versions of a policy under their generations, unless an equal version is stored. First, it deletes those that are no
// longer needed: all of a policy without spec.rollout; otherwise all but the newest ones and those that the status or the spec names.
func (s *RevisionStore) storeNumbered(ctx context.Context, obj *placementv1.PlacementPolicy, stored []appsv1.ControllerRevision,
	versions []*policy.Revision) error {
	var numbered []appsv1.ControllerRevision
	digests, staged, position := sets.New[string](), obj.Spec.Rollout, rollout.PositionOf(obj.Status.Rollout)
	named := func(number int64) bool {
		return number == position.Revision || number == position.Previous || number == staged.Revision
	}
	for _, r := range stored {
		switch {
		case r.Name == policy.RevisionName(obj.Name):
		case r.Annotations[annotationUID] == string(obj.UID) && staged != nil && (len(numbered) < rollout.MaxRevisions || named(r.Revision)):
			numbered = append(numbered, r)
			digests.Insert(r.Annotations[annotationVersion])
		default:
			if err := s.remove(ctx, r); err != nil {
				return err
			}
		}
	}
	for _, r := range versions {
		if version := rollout.VersionDigest(r.Spec); !digests.Has(version) {
			if err := s.store(ctx, obj, numbered, policy.NumberedRevisionName(obj.Name, r.Generation), r); err != nil {
				return err
			}
			digests.Insert(version)
		}
	}
	if staged != nil {
		s.changed.Publish(obj.Name)
	}
	return nil
}

// store stores a version of a policy as a ControllerRevision with a name. Since the data of that are immutable, it deletes the one among
// stored that has the name and other data.
func (s *RevisionStore) store(ctx context.Context, obj *placementv1.PlacementPolicy, stored []appsv1.ControllerRevision, name string,
	version *policy.Revision) error {
	text, err := policy.EncodeRevision(*version)
	if err != nil {
		return reconcile.TerminalError(err)
	}
	if i := slices.IndexFunc(stored, func(r appsv1.ControllerRevision) bool { return r.Name == name }); i >= 0 {
		if bytes.Equal(stored[i].Data.Raw, text) {
			return nil
		}
		if err := s.remove(ctx, stored[i]); err != nil {
			return err
		}
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name,
			Labels: map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"},
			Annotations: map[string]string{annotationPolicy: obj.Name, annotationUID: string(obj.UID),
				annotationVersion: rollout.VersionDigest(version.Spec)},
		},
		Revision: version.Generation,
		Data:     runtime.RawExtension{Raw: text},
	}
	if s.Owned {
		if err := controllerutil.SetOwnerReference(obj, revision, s.State.GetScheme()); err != nil {
			return err
		}
	}
	// If the cache does not have a revision of the name yet, its event will enqueue the policy.
	return client.IgnoreAlreadyExists(s.State.GetClient().Create(ctx, revision))
}

// remove deletes revisions. It ignores those that do not exist any more, and stops at the first other error.
func (s *RevisionStore) remove(ctx context.Context, revisions ...appsv1.ControllerRevision) error {
	for i := range revisions {
		err := s.State.GetClient().Delete(ctx, &revisions[i], client.Preconditions{UID: &revisions[i].UID})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

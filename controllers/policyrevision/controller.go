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

// Package policyrevision provides the controller that stores the last version of each policy that was in force everywhere. It
// stores the version as a ControllerRevision in Berth's own namespace, which may be in another cluster than the policies. Of a
// policy that comes into force in stages, it also stores the newest versions under their numbers. It runs on the leader. The policy
// controller on every replica reads the revisions.
package policyrevision

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
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

// annotationPolicy is the annotation of a revision that contains the name of its policy.
const annotationPolicy = "placement.berth.dev/policy"

// Options configure the controller.
type Options struct {
	// Namespace is the namespace of the revisions.
	Namespace string
	// Owned sets an owner reference from a revision to its policy, for garbage collection. Both must be in the same
	// cluster: otherwise the garbage collector would not find the policy and would delete the revision.
	Owned bool
}

const (
	// annotationVersion and annotationUID are annotations of a numbered revision: the digest of the version, and the UID of the
	// policy.
	annotationVersion = "placement.berth.dev/version"
	annotationUID     = "placement.berth.dev/policy-uid"
	// labelNumbered is the label of a numbered revision. Its value is the same for all revisions of a policy.
	labelNumbered = "placement.berth.dev/policy-revision"
	// maxNumbered is the number of numbered revisions of a policy that are kept, besides those that are in force.
	maxNumbered = rollout.MaxRevisions
)

// Controller stores the revisions of policies. Create it with New.
type Controller struct {
	policies client.Reader
	state    cluster.Cluster
	registry *placement.Registry
	options  Options
	loaded   chan event.GenericEvent
	// changed has the policies whose numbered revisions may have changed.
	changed notify.Topic[string]

	// numbered are the policies that may have numbered revisions. A list reads all revisions in the cache.
	mu       sync.Mutex
	numbered sets.Set[string]
	// versions are the digests of the numbered revisions.
	versions map[types.UID]string
}

// Subscribe registers a callback for the policies whose numbered revisions may have changed.
func (c *Controller) Subscribe(f func(policy string)) { c.changed.Subscribe(f) }

// Numbered returns the numbered revisions of a policy, the newest first, and the last version that was in force everywhere. The
// latter is the zero value if there is none.
func (c *Controller) Numbered(ctx context.Context, obj *placementv1.PlacementPolicy) (numbered []rollout.Revision, last rollout.Revision, err error) {
	list, err := c.list(ctx, obj.Name)
	if err != nil {
		return nil, last, err
	}
	for _, r := range list {
		if r.Annotations[annotationUID] == string(obj.UID) {
			numbered = append(numbered, rollout.Revision{Number: r.Revision, Version: r.Annotations[annotationVersion]})
		}
	}
	stored, ok, err := c.last(ctx, obj)
	if err != nil || !ok {
		return numbered, last, err
	}
	return numbered, rollout.Revision{Number: stored.Generation, Version: rollout.VersionDigest(stored.Spec)}, nil
}

// list returns the numbered revisions of all policies that had a name, the newest first. Their annotations have the digests that this
// version of Berth computes; another one may have stored others.
func (c *Controller) list(ctx context.Context, policyName string) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.state.GetClient().List(ctx, list, client.InNamespace(c.options.Namespace), client.MatchingLabels{labelNumbered: policy.RevisionName(policyName)})
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	for i := range list.Items {
		metav1.SetMetaDataAnnotation(&list.Items[i].ObjectMeta, annotationVersion, c.versionOf(&list.Items[i]))
	}
	return list.Items, err
}

// versionOf returns the digest of the version in a revision; empty if the revision can't be decoded. The data of a revision is
// immutable.
func (c *Controller) versionOf(r *appsv1.ControllerRevision) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, known := c.versions[r.UID]
	if !known {
		if decoded, err := policy.DecodeRevision(r.Data.Raw); err == nil {
			version = rollout.VersionDigest(decoded.Spec)
		}
		c.versions[r.UID] = version
	}
	return version
}

// last returns the last version of a policy that was in force everywhere. ok is false if there is none.
func (c *Controller) last(ctx context.Context, obj *placementv1.PlacementPolicy) (revision policy.Revision, ok bool, err error) {
	object := &appsv1.ControllerRevision{}
	if err := c.state.GetClient().Get(ctx, types.NamespacedName{Namespace: c.options.Namespace, Name: policy.RevisionName(obj.Name)}, object); err != nil {
		return revision, false, client.IgnoreNotFound(err)
	}
	revision, err = policy.DecodeRevision(object.Data.Raw)
	return revision, err == nil && revision.UID == obj.UID, nil
}

// New returns a controller that reads policies from policies and stores revisions in state.
func New(policies client.Reader, state cluster.Cluster, registry *placement.Registry, o Options) *Controller {
	out := &Controller{policies: policies, state: state, registry: registry, options: o, loaded: make(chan event.GenericEvent, 1024), numbered: sets.New[string](), versions: map[types.UID]string{}}
	registry.Subscribe(func(change placement.PolicyChange) {
		if len(change.After) == 0 {
			return
		}
		select {
		case out.loaded <- event.GenericEvent{Object: &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: change.Name}}}:
		default:
			// Only the leader reads the channel. When a replica becomes the leader, the watch enqueues every policy.
		}
	})
	return out
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("policyrevision").
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, rolledOut))).
		WatchesRawSource(source.Channel(c.loaded, &handler.EnqueueRequestForObject{})).
		// The initial list enqueues the policies of all revisions, because policies may have been deleted while no
		// leader ran.
		WatchesRawSource(source.Kind[client.Object](c.state.GetCache(), &appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(c.policyOf))).
		Complete(c)
}

// rolledOut passes updates that change how far a policy is rolled out.
var rolledOut = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, known := e.ObjectOld.(*placementv1.PlacementPolicy)
		after, ok := e.ObjectNew.(*placementv1.PlacementPolicy)
		return known && ok && rollout.PositionOf(before.Status.Rollout) != rollout.PositionOf(after.Status.Rollout)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// policyOf maps a revision to its policy, and other ControllerRevisions in the namespace to none.
func (c *Controller) policyOf(_ context.Context, revision client.Object) []reconcile.Request {
	name := revision.GetAnnotations()[annotationPolicy]
	numbered := revision.GetLabels()[labelNumbered] == policy.RevisionName(name)
	if name == "" || revision.GetName() != policy.RevisionName(name) && !numbered {
		return nil
	}
	if numbered {
		c.mu.Lock()
		c.numbered.Insert(name)
		c.mu.Unlock()
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// Reconcile stores a policy's newest version if that version is in force and all types that it reads are served. It
// deletes the revision of a policy that does not exist.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: c.options.Namespace, Name: policy.RevisionName(req.Name)}}
	err := c.state.GetClient().Get(ctx, client.ObjectKeyFromObject(revision), revision)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	exists := err == nil
	obj := &placementv1.PlacementPolicy{}
	switch err := c.policies.Get(ctx, req.NamespacedName, obj); {
	case apierrors.IsNotFound(err):
		if exists {
			err = c.remove(ctx, revision)
		}
		return reconcile.Result{}, errors.Join(client.IgnoreNotFound(err), c.removeNumbered(ctx, req.Name))
	case err != nil:
		return reconcile.Result{}, err
	}
	standing := c.registry.Get(obj.Name)
	if err := c.storeNumbered(ctx, obj, standing); err != nil {
		return reconcile.Result{}, err
	}
	if standing == nil || standing.Err != nil || standing.Policy.Generation != obj.Generation || len(standing.Binding.Missing) > 0 || !isEverywhere(obj, standing) {
		// The registry sends an event when the version is loaded and all types that it reads are served.
		return reconcile.Result{}, nil
	}
	text, err := policy.EncodeRevision(policy.Revision{UID: obj.UID, Generation: obj.Generation, Spec: obj.Spec, Bindings: standing.Binding.Bindings})
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if exists && bytes.Equal(revision.Data.Raw, text) {
		return reconcile.Result{}, nil
	}
	// The data of a ControllerRevision are immutable, so the controller deletes it and creates another one.
	if exists {
		if err := c.remove(ctx, revision); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, c.create(ctx, obj, revision.Name, obj.Generation, text, nil)
}

// isEverywhere reports whether the newest version of a policy is in force everywhere.
func isEverywhere(obj *placementv1.PlacementPolicy, state *placement.PolicyState) bool {
	if obj.Spec.Rollout == nil || state.Staged == nil {
		return obj.Spec.Rollout == nil && state.Staged == nil
	}
	position := rollout.PositionOf(obj.Status.Rollout)
	return position.Complete && position.Concerns(state.Staged.Candidate) &&
		state.Staged.InForce.Complete && state.Staged.InForce.Revision == 0 && position.Concerns(state.Staged.InForce.Digest)
}

// storeNumbered stores the newest version of a policy that comes into force in stages, if it can decide, and the version before.
// It deletes the revisions that are no longer needed.
func (c *Controller) storeNumbered(ctx context.Context, obj *placementv1.PlacementPolicy, state *placement.PolicyState) error {
	if obj.Spec.Rollout == nil {
		return c.removeNumbered(ctx, obj.Name)
	}
	numbered, err := c.list(ctx, obj.Name)
	if err != nil {
		return err
	}
	numbered = slices.DeleteFunc(numbered, func(r appsv1.ControllerRevision) bool { return r.Annotations[annotationUID] != string(obj.UID) })
	store := func(r policy.Revision) error {
		version := rollout.VersionDigest(r.Spec)
		if slices.ContainsFunc(numbered, func(n appsv1.ControllerRevision) bool {
			return n.Revision == r.Generation || n.Annotations[annotationVersion] == version
		}) {
			return nil
		}
		text, err := policy.EncodeRevision(r)
		if err != nil {
			return reconcile.TerminalError(err)
		}
		annotations := map[string]string{annotationVersion: version, annotationUID: string(obj.UID)}
		numbered = append(numbered, appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Revision: r.Generation})
		return c.create(ctx, obj, policy.NumberedRevisionName(obj.Name, r.Generation), r.Generation, text, annotations)
	}
	last, ok, err := c.last(ctx, obj)
	if err != nil {
		return err
	}
	staged := stagedOf(state)
	if !ok && staged.Unstaged != nil {
		last, ok = *staged.Unstaged, true
	}
	if ok {
		if err := store(last); err != nil {
			return err
		}
	}
	if staged.Candidate != "" && staged.Candidate == rollout.Digest(obj.Spec) {
		if numbered, err = c.removeNamesake(ctx, obj, numbered); err != nil {
			return err
		}
		if err := store(policy.Revision{UID: obj.UID, Generation: obj.Generation, Spec: obj.Spec, Bindings: state.NewestBinding().Bindings}); err != nil {
			return err
		}
	}
	err = c.pruneNumbered(ctx, obj)
	c.changed.Publish(obj.Name)
	return err
}

// stagedOf returns the versions of a policy that comes into force in stages; the zero value if they are not loaded.
func stagedOf(state *placement.PolicyState) placement.StagedVersions {
	if state == nil || state.Staged == nil {
		return placement.StagedVersions{}
	}
	return *state.Staged
}

// pruneNumbered deletes the numbered revisions of a policy but the newest ones and those that its status or its spec names.
func (c *Controller) pruneNumbered(ctx context.Context, obj *placementv1.PlacementPolicy) error {
	position, kept := rollout.PositionOf(obj.Status.Rollout), 0
	return c.prune(ctx, obj.Name, func(r appsv1.ControllerRevision) bool {
		if r.Annotations[annotationUID] != string(obj.UID) {
			return false
		}
		kept++
		return kept <= maxNumbered || r.Revision == position.Revision || r.Revision == position.Previous || r.Revision == obj.Spec.Rollout.Revision
	})
}

// removeNamesake deletes the revision that has the number of the newest version if it is another version, as after a restore of the
// policies from a backup. It returns the other revisions.
func (c *Controller) removeNamesake(ctx context.Context, obj *placementv1.PlacementPolicy, numbered []appsv1.ControllerRevision) ([]appsv1.ControllerRevision, error) {
	version := rollout.VersionDigest(obj.Spec)
	i := slices.IndexFunc(numbered, func(r appsv1.ControllerRevision) bool {
		return r.Revision == obj.Generation && r.Annotations[annotationVersion] != version
	})
	if i < 0 {
		return numbered, nil
	}
	if err := c.remove(ctx, &numbered[i]); err != nil {
		return nil, err
	}
	return slices.Delete(numbered, i, i+1), nil
}

// removeNumbered deletes the numbered revisions of a policy.
func (c *Controller) removeNumbered(ctx context.Context, policyName string) error {
	c.mu.Lock()
	may := c.numbered.Has(policyName)
	c.numbered.Delete(policyName)
	c.mu.Unlock()
	if !may {
		return nil
	}
	err := c.prune(ctx, policyName, func(appsv1.ControllerRevision) bool { return false })
	if err != nil {
		c.mu.Lock()
		c.numbered.Insert(policyName)
		c.mu.Unlock()
	}
	return err
}

// prune deletes the numbered revisions of a policy for which keep returns false. It calls keep for the newest first.
func (c *Controller) prune(ctx context.Context, policyName string, keep func(appsv1.ControllerRevision) bool) error {
	list, err := c.list(ctx, policyName)
	if err != nil {
		return err
	}
	for i := range list {
		if !keep(list[i]) {
			if err := c.remove(ctx, &list[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// create stores a revision of a policy. It does nothing if there is one of the name.
func (c *Controller) create(ctx context.Context, obj *placementv1.PlacementPolicy, name string, number int64, text []byte, annotations map[string]string) error {
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.options.Namespace, Name: name,
			Labels:      map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"},
			Annotations: map[string]string{annotationPolicy: obj.Name},
		},
		Revision: number,
		Data:     runtime.RawExtension{Raw: text},
	}
	if annotations != nil {
		revision.Labels[labelNumbered] = policy.RevisionName(obj.Name)
		maps.Copy(revision.Annotations, annotations)
	}
	if c.options.Owned {
		if err := controllerutil.SetOwnerReference(obj, revision, c.state.GetScheme()); err != nil {
			return err
		}
	}
	err := c.state.GetClient().Create(ctx, revision)
	if apierrors.IsAlreadyExists(err) {
		// The cache does not have the revision yet. Its event will enqueue the policy.
		return nil
	}
	return err
}

func (c *Controller) remove(ctx context.Context, revision *appsv1.ControllerRevision) error {
	c.mu.Lock()
	delete(c.versions, revision.UID)
	c.mu.Unlock()
	return client.IgnoreNotFound(c.state.GetClient().Delete(ctx, revision, client.Preconditions{UID: &revision.UID}))
}

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

// Package policyrevision provides the controller that stores the last version of each policy that compiled. It stores
// the version as a ControllerRevision in Berth's own namespace, which may be in another cluster than the policies. It
// runs on the leader. The policy controller on every replica reads the revisions.
package policyrevision

import (
	"bytes"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
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

// Controller stores the revisions of policies. Create it with New.
type Controller struct {
	policies client.Reader
	state    cluster.Cluster
	registry *placement.Registry
	options  Options
	loaded   chan event.GenericEvent
}

// New returns a controller that reads policies from policies and stores revisions in state.
func New(policies client.Reader, state cluster.Cluster, registry *placement.Registry, o Options) *Controller {
	out := &Controller{policies: policies, state: state, registry: registry, options: o, loaded: make(chan event.GenericEvent, 1024)}
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
		For(&placementv1.PlacementPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(c.loaded, &handler.EnqueueRequestForObject{})).
		// The initial list enqueues the policies of all revisions, because policies may have been deleted while no
		// leader ran.
		WatchesRawSource(source.Kind[client.Object](c.state.GetCache(), &appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(policyOf))).
		Complete(c)
}

// policyOf maps a revision to its policy, and other ControllerRevisions in the namespace to none.
func policyOf(_ context.Context, revision client.Object) []reconcile.Request {
	name := revision.GetAnnotations()[annotationPolicy]
	if name == "" || revision.GetName() != policy.RevisionName(name) {
		return nil
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
	case apierrors.IsNotFound(err) && exists:
		return reconcile.Result{}, c.remove(ctx, revision)
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	standing := c.registry.Get(obj.Name)
	if standing == nil || standing.Err != nil || standing.Policy.Generation != obj.Generation || len(standing.Binding.Missing) > 0 {
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
	revision.ObjectMeta = metav1.ObjectMeta{
		Namespace: c.options.Namespace, Name: revision.Name,
		Labels:      map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"},
		Annotations: map[string]string{annotationPolicy: obj.Name},
	}
	revision.Revision = obj.Generation
	revision.Data = runtime.RawExtension{Raw: text}
	if c.options.Owned {
		if err := controllerutil.SetOwnerReference(obj, revision, c.state.GetScheme()); err != nil {
			return reconcile.Result{}, err
		}
	}
	err = c.state.GetClient().Create(ctx, revision)
	if apierrors.IsAlreadyExists(err) {
		// The cache does not have the revision yet. Its event will enqueue the policy.
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

func (c *Controller) remove(ctx context.Context, revision *appsv1.ControllerRevision) error {
	return client.IgnoreNotFound(c.state.GetClient().Delete(ctx, revision, client.Preconditions{UID: &revision.UID}))
}

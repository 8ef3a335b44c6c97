// Package policyrevision keeps the last version of each policy that compiled, as a ControllerRevision in Berth's own
// namespace. The leader runs it; the loaders on every replica read it.
package policyrevision

import (
	"bytes"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Controller keeps revisions. Create it with New.
type Controller struct {
	client    client.Client
	registry  *placement.Registry
	namespace string
	loaded    chan event.GenericEvent
}

// New returns a controller that keeps revisions in namespace.
func New(c client.Client, registry *placement.Registry, namespace string) *Controller {
	out := &Controller{client: c, registry: registry, namespace: namespace, loaded: make(chan event.GenericEvent, 1024)}
	registry.Subscribe(func(name string, _, after *placement.Policy) {
		if after == nil {
			return
		}
		select {
		case out.loaded <- event.GenericEvent{Object: &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
		default:
			// Nobody reads where this replica is not the leader; one that becomes it sees every policy at the start.
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
		Complete(reconcile.AsReconciler(c.client, c))
}

// Reconcile keeps the policy's newest version if that is the one in force.
func (c *Controller) Reconcile(ctx context.Context, obj *placementv1.PlacementPolicy) (reconcile.Result, error) {
	standing := c.registry.Get(obj.Name)
	if standing == nil || standing.Err != nil || standing.Policy.Generation != obj.Generation {
		// Its loading wakes us, if it ever compiles.
		return reconcile.Result{}, nil
	}
	text, err := policy.EncodeRevision(policy.Revision{UID: obj.UID, Generation: obj.Generation, Spec: obj.Spec})
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: policy.RevisionName(obj.Name)}}
	err = c.client.Get(ctx, client.ObjectKeyFromObject(revision), revision)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err == nil && bytes.Equal(revision.Data.Raw, text) {
		return reconcile.Result{}, nil
	}
	// Its data can't be changed once it exists: the next version takes its place.
	if err == nil {
		if err := c.client.Delete(ctx, revision, client.Preconditions{UID: &revision.UID}); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
	}
	revision.ObjectMeta = metav1.ObjectMeta{
		Namespace: c.namespace, Name: revision.Name,
		Labels: map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"},
	}
	revision.Revision = obj.Generation
	revision.Data = runtime.RawExtension{Raw: text}
	// Goes with the policy.
	if err := controllerutil.SetOwnerReference(obj, revision, c.client.Scheme()); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.client.Create(ctx, revision)
}

// Package policyrevision keeps the last version of each policy that compiled, as a ControllerRevision in Berth's own
// namespace, which may be in another cluster than the policies. The leader runs it; the loaders on every replica read it.
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

// annotationPolicy names the policy that a revision is of.
const annotationPolicy = "placement.berth.dev/policy"

// Options configure the controller.
type Options struct {
	// Namespace holds the revisions.
	Namespace string
	// Owned has a revision go with its policy by garbage collection too. It takes both to be in one cluster: elsewhere
	// the policy would be taken for one that is gone.
	Owned bool
}

// Controller keeps revisions. Create it with New.
type Controller struct {
	policies client.Reader
	state    cluster.Cluster
	registry *placement.Registry
	options  Options
	loaded   chan event.GenericEvent
}

// New returns a controller that reads policies from policies and keeps revisions in state.
func New(policies client.Reader, state cluster.Cluster, registry *placement.Registry, o Options) *Controller {
	out := &Controller{policies: policies, state: state, registry: registry, options: o, loaded: make(chan event.GenericEvent, 1024)}
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
		// Those that there are at the start, too: their policies may have gone while nobody looked.
		WatchesRawSource(source.Kind[client.Object](c.state.GetCache(), &appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(policyOf))).
		Complete(c)
}

// policyOf maps a revision to its policy, and what else is in the namespace to none.
func policyOf(_ context.Context, revision client.Object) []reconcile.Request {
	name := revision.GetAnnotations()[annotationPolicy]
	if name == "" || revision.GetName() != policy.RevisionName(name) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// Reconcile keeps the policy's newest version if that is the one in force and all types are served that it reads, and
// none of a policy that is gone.
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
		// Its loading wakes us, if it ever compiles and all types are served that it reads.
		return reconcile.Result{}, nil
	}
	text, err := policy.EncodeRevision(policy.Revision{UID: obj.UID, Generation: obj.Generation, Spec: obj.Spec, Bindings: standing.Binding.Bindings})
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if exists && bytes.Equal(revision.Data.Raw, text) {
		return reconcile.Result{}, nil
	}
	// Its data can't be changed once it exists: the next version takes its place.
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
		// The cache has not seen it yet; when it does, that wakes us.
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

func (c *Controller) remove(ctx context.Context, revision *appsv1.ControllerRevision) error {
	return client.IgnoreNotFound(c.state.GetClient().Delete(ctx, revision, client.Preconditions{UID: &revision.UID}))
}

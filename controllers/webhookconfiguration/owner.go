package webhookconfiguration

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=berth-manager-role,verbs=get

// readOwner returns the reference to the ClusterRole with which the configurations go; nil if there is none to be had,
// and then the configurations stand without one: they are needed more than they are needed to go. Nothing is
// remembered: a reference to a role that has gone would have its successor's configurations removed.
func (c *Controller) readOwner(ctx context.Context) (*metav1.OwnerReference, error) {
	if c.options.Owner == "" {
		return nil, nil
	}
	kind := rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	role := &metav1.PartialObjectMetadata{}
	role.SetGroupVersionKind(kind)
	err := c.live.Get(ctx, client.ObjectKey{Name: c.options.Owner}, role)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		ctrllog.FromContext(ctx).V(1).Info("Leaving webhook configurations without an owner", "clusterRole", c.options.Owner, "reason", err.Error())
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the owner of the webhook configurations: %w", err)
	case !role.DeletionTimestamp.IsZero():
		return nil, nil
	}
	return &metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: role.Name, UID: role.UID}, nil
}

// owned returns the references that a configuration should have, of those that it has: with the owner, if there is one,
// in place of any other ClusterRole of its name, and with everybody else's.
func owned(have []metav1.OwnerReference, owner *metav1.OwnerReference) []metav1.OwnerReference {
	if owner == nil || slices.ContainsFunc(have, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
		return have
	}
	others := slices.DeleteFunc(slices.Clone(have), func(r metav1.OwnerReference) bool {
		return r.APIVersion == owner.APIVersion && r.Kind == owner.Kind && r.Name == owner.Name
	})
	return append(others, *owner)
}

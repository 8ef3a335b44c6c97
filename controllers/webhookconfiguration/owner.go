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

package webhookconfiguration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=berth-manager-role,verbs=get
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=list

// Owners selects the ClusterRoles that own the webhook configurations, so that the garbage collector deletes the configurations when the
// ClusterRoles are deleted.
type Owners struct {
	// Name is the name of the ClusterRole; empty for none. While the ClusterRole does not exist, no configuration is created. Name is not used
	// if Labels are set.
	Name string
	// Labels select the ClusterRoles in place of Name; empty for Name. While no ClusterRole has them, no configuration is created, even if the
	// one with Name exists: an installer that uses labels may not delete that one, and the webhook configurations would remain.
	Labels map[string]string
}

// errNoOwner is the reason why a configuration is not created: without an owner, nothing would ever delete it.
var errNoOwner = errors.New("the ClusterRole that would own the configuration is missing, or can't be read")

// mayCreate returns an error that wraps errNoOwner if a configuration must not be created because owners, what read returned, is empty
// although it needs one. Either the ClusterRoles are not created yet, or Berth is being uninstalled and this replica is about to end. A
// configuration without an owner would remain after the uninstallation and cause denied requests.
func (o Owners) mayCreate(configuration string, owners []metav1.OwnerReference) error {
	switch {
	case len(owners) > 0 || len(o.Labels) == 0 && o.Name == "":
		return nil
	case len(o.Labels) > 0:
		return fmt.Errorf("not creating webhook configuration %s: %w (labels %s); if Berth is still installed, check "+
			"--owner-cluster-service-version", configuration, errNoOwner, metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: o.Labels}))
	default:
		return fmt.Errorf("not creating webhook configuration %s: %w (ClusterRole %s); if Berth is still installed, create the ClusterRole or "+
			"check --owner-cluster-role",
			configuration, errNoOwner, o.Name)
	}
}

// OLMLabels returns the labels by which Owners finds the ClusterRoles that OLM v0 created for a ClusterServiceVersion. OLM deletes these
// with the ClusterServiceVersion. The webhook configurations must not have the labels: OLM would treat them as webhooks of the
// ClusterServiceVersion, and mark it as failed when it finds content that it does not know.
func OLMLabels(namespace, clusterServiceVersion string) map[string]string {
	return map[string]string{
		"olm.owner": clusterServiceVersion, "olm.owner.namespace": namespace, "olm.owner.kind": "ClusterServiceVersion",
	}
}

var clusterRole = rbacv1.SchemeGroupVersion.WithKind("ClusterRole")

// read returns references to the ClusterRoles that own the configurations and are not being deleted, sorted by name; none if they do not
// exist, or if Berth may not read them. live must not be a cache: with a reference to a deleted role, the garbage collector would delete
// configurations that the role's successor has to own.
func (o Owners) read(ctx context.Context, live client.Reader) ([]metav1.OwnerReference, error) {
	var roles []metav1.PartialObjectMetadata
	if len(o.Labels) > 0 {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleList"))
		if err := live.List(ctx, list, client.MatchingLabels(o.Labels)); err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("listing the ClusterRoles that own the webhook configurations, without which Berth updates existing "+
				"configurations, but creates none: %w", err)
		}
		roles = list.Items
	}
	if len(o.Labels) == 0 && o.Name != "" {
		role := metav1.PartialObjectMetadata{}
		role.SetGroupVersionKind(clusterRole)
		err := live.Get(ctx, client.ObjectKey{Name: o.Name}, &role)
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
			ctrllog.FromContext(ctx).V(1).Info("The ClusterRole that owns the webhook configurations is missing, or can't be read; Berth updates "+
				"existing configurations, but creates none", "clusterRole", o.Name, "reason", err.Error())
		case err != nil:
			return nil, fmt.Errorf("reading the ClusterRole that owns the webhook configurations, without which Berth updates existing "+
				"configurations, but creates none: %w", err)
		default:
			roles = append(roles, role)
		}
	}
	var out []metav1.OwnerReference
	for _, role := range roles {
		if role.DeletionTimestamp.IsZero() {
			out = append(out, metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: clusterRole.Kind,
				Name: role.Name, UID: role.UID})
		}
	}
	slices.SortFunc(out, func(a, b metav1.OwnerReference) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// owned returns the owner references that a configuration gets, given those that it has and owners, what read returned. References to
// ClusterRoles with a name among owners and another UID are replaced. So is the one to the ClusterRole with Name if Labels select the
// owners, because an object remains for as long as one owner exists. Other references stay; all do if there are no owners.
func (o Owners) owned(have, owners []metav1.OwnerReference) []metav1.OwnerReference {
	if len(owners) == 0 {
		return have
	}
	stale := func(r metav1.OwnerReference) bool {
		if r.APIVersion != rbacv1.SchemeGroupVersion.String() || r.Kind != clusterRole.Kind {
			return false
		}
		i := slices.IndexFunc(owners, func(w metav1.OwnerReference) bool { return w.Name == r.Name })
		if i < 0 {
			return r.Name == o.Name
		}
		return owners[i].UID != r.UID
	}
	out := slices.DeleteFunc(slices.Clone(have), stale)
	for _, owner := range owners {
		if !slices.ContainsFunc(out, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
			out = append(out, owner)
		}
	}
	return out
}

// Adopter makes the ClusterRoles of this replica's version owners of the existing webhook configurations before the replica is Ready. OLM
// deletes the ClusterRoles of the earlier version as soon as the replicas of the new version are Ready. The leader, which alone writes the
// configurations otherwise, may be a replica of the earlier version until then. So the garbage collector would delete the configurations,
// and requests would not be checked until the next leader creates them again. Create it with NewAdopter and add it to a manager.
type Adopter struct {
	client client.Client
	live   client.Reader
	owners Owners
	done   atomic.Bool // Whether adoption is over: all have their owners, owners has no Labels, or no owner was found in time.
}

var (
	_ manager.Runnable               = (*Adopter)(nil)
	_ manager.LeaderElectionRunnable = (*Adopter)(nil)
)

// NewAdopter returns an Adopter that writes with c and reads with live.
func NewAdopter(c client.Client, live client.Reader, owners Owners) *Adopter {
	return &Adopter{client: c, live: live, owners: owners}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. It returns false because every replica adopts.
func (a *Adopter) NeedLeaderElection() bool { return false }

// Done reports whether the configurations that existed at the start have their owners, or need none, or no owner was found in time.
func (a *Adopter) Done() bool { return a.done.Load() }

// Start implements manager.Runnable. It tries to adopt the configurations, once a second, until Done is true or ctx ends. It gives up if no
// ClusterRole has the labels after ownerTries tries, but never because of errors. Without labels for the owners, there is nothing to adopt.
func (a *Adopter) Start(ctx context.Context) error {
	if len(a.owners.Labels) == 0 {
		// A role that keeps its name in all versions remains the owner.
		a.done.Store(true)
		return nil
	}
	log := ctrllog.FromContext(ctx).WithName("webhookconfiguration-owner")
	tries := 0
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		tries++
		found, err := a.adopt(ctx)
		switch {
		case err != nil:
			log.Error(err, "Making the ClusterRoles of this version owners of the webhook configurations failed; this replica is not Ready "+
				"until it succeeds; trying again each second")
			return false, nil
		case !found && tries < ownerTries:
			return false, nil
		case !found:
			log.Info("No ClusterRole has the labels of the ClusterServiceVersion that --owner-cluster-service-version names, or Berth may not list "+
				"ClusterRoles; the webhook configurations keep their owners", "labels", a.owners.Labels)
		}
		return true, nil
	})
	// The error is that ctx ended, which is not a failure.
	a.done.Store(err == nil)
	return nil
}

// ownerTries is how many times, a second apart, the Adopter looks for roles. The API server may not allow this replica
// yet to see them, if it is behind with what OLM granted. The limit lets a replica with a wrong name become Ready in
// the end.
const ownerTries = 20

// adopt adds the owners to all existing configurations; an error with one does not stop the others. found is false if no ClusterRole has
// the labels, or if reading them fails.
func (a *Adopter) adopt(ctx context.Context) (found bool, err error) {
	owners, err := a.owners.read(ctx, a.live)
	if err != nil || len(owners) == 0 {
		return false, err
	}
	var errs []error
	for _, configuration := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: WorkloadsName}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: PoliciesName}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: QuotasName}},
	} {
		errs = append(errs, a.adoptOne(ctx, owners, configuration))
	}
	return true, errors.Join(errs...)
}

// adoptOne adds the owners to a configuration, which has a name, if it exists.
func (a *Adopter) adoptOne(ctx context.Context, owners []metav1.OwnerReference, configuration client.Object) error {
	// Read from the API server: a configuration that a stale cache lacks would never be adopted.
	err := a.live.Get(ctx, client.ObjectKeyFromObject(configuration), configuration)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	want := a.owners.owned(configuration.GetOwnerReferences(), owners)
	if equality.Semantic.DeepEqual(want, configuration.GetOwnerReferences()) {
		return nil
	}
	configuration.SetOwnerReferences(want)
	return a.client.Update(ctx, configuration)
}

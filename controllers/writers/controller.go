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

// Package writers provides the controller that maintains the ValidatingAdmissionPolicy for writes of Berth's kinds.
//
// The permissions on a kind alone are not enough to write it, because Operator Lifecycle Manager aggregates those on all kinds
// of an operator to the ClusterRoles edit and admin. The policy requires a second permission, which no such aggregation gives:
// see spec. The controller runs on the leader.
//
// The API server itself evaluates the policy, so it holds while Berth is stopped, upgraded, or uninstalled. Garbage
// collection deletes it with the last CustomResourceDefinition of these kinds.
package writers

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Name is the name of the ValidatingAdmissionPolicy and of its binding.
const Name = "berth-writers"

const scopedQuotas = "scopedquotas"

// guarded are the resources whose writes the ValidatingAdmissionPolicy restricts. Their CustomResourceDefinitions own that policy and its
// binding.
var guarded = []string{"placementpolicies", "clusterscopedquotas", "limitedresources", scopedQuotas}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=berth-writers,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create

// Cached returns options of the manager's cache that restrict it to the objects which a Controller watches, because Berth may not read
// other objects of these types.
func Cached() map[client.Object]cache.ByObject {
	only := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name)}
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingAdmissionPolicy{}:        only,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}: only,
	}
}

// Controller maintains the ValidatingAdmissionPolicy that restricts which users write policies and quotas, and its binding. Create it with
// New.
type Controller struct {
	client client.Client
	// liveReader reads the CustomResourceDefinitions that own the policy and the binding.
	liveReader client.Reader
}

// New returns a controller that writes by c, and reads CustomResourceDefinitions by live, which must not be a cache.
func New(c client.Client, live client.Reader) *Controller {
	return &Controller{client: c, liveReader: live}
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{request}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("writers").
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicy{}, enqueue).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, enqueue).
		// If the objects are missing, no event occurs. So enqueue the request at the start.
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(request)
			return nil
		})).
		Complete(c)
}

var request = reconcile.Request{NamespacedName: client.ObjectKey{Name: Name}}

// ownerRetryInterval is the delay before the controller looks again for the CustomResourceDefinitions that are missing as owners. It does
// not watch them, so no event reports that one is created.
const ownerRetryInterval = 10 * time.Second

// Reconcile creates the ValidatingAdmissionPolicy and its binding if they are missing, and updates them if they differ. If no
// CustomResourceDefinition exists that can own them, there is nothing to guard, and it writes nothing. While one is missing, it asks to be
// called again after ownerRetryInterval.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	owners, err := c.owners(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	if len(owners) < len(guarded) {
		result.RequeueAfter = ownerRetryInterval
	}
	if len(owners) == 0 {
		return result, nil
	}
	meta := metav1.ObjectMeta{
		Name:            Name,
		Labels:          map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"},
		OwnerReferences: owners,
	}
	if err := c.applyPolicy(ctx, meta); err != nil {
		return reconcile.Result{}, err
	}
	return result, c.applyBinding(ctx, meta)
}

// owners returns references to the CustomResourceDefinitions of the guarded resources, without those that are missing or being deleted.
func (c *Controller) owners(ctx context.Context) ([]metav1.OwnerReference, error) {
	var out []metav1.OwnerReference
	for _, resource := range guarded {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		name := resource + "." + placementv1.GroupVersion.Group
		err := c.liveReader.Get(ctx, client.ObjectKey{Name: name}, crd)
		if apierrors.IsNotFound(err) || err == nil && !crd.DeletionTimestamp.IsZero() {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s, an owner of ValidatingAdmissionPolicy %s, which restricts who writes "+
				"policies and quotas: %w", name, Name, err)
		}
		out = append(out, metav1.OwnerReference{APIVersion: crd.APIVersion, Kind: crd.Kind, Name: crd.Name, UID: crd.UID})
	}
	return out, nil
}

// applyPolicy writes the ValidatingAdmissionPolicy if it differs.
func (c *Controller) applyPolicy(ctx context.Context, meta metav1.ObjectMeta) error {
	want := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: spec()}
	have := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	return c.apply(ctx, want, have, func() bool { return equality.Semantic.DeepEqual(have.Spec, want.Spec) })
}

// applyBinding writes the binding of the ValidatingAdmissionPolicy if it differs.
func (c *Controller) applyBinding(ctx context.Context, meta metav1.ObjectMeta) error {
	want := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}}
	have := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	return c.apply(ctx, want, have, func() bool { return equality.Semantic.DeepEqual(have.Spec, want.Spec) })
}

// apply reads the stored object into have, and writes want unless the specs and the owner references are equal. After have is read, same
// reports whether the specs are equal.
func (c *Controller) apply(ctx context.Context, want, have client.Object, same func() bool) error {
	err := c.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		ctrllog.FromContext(ctx).Info("Creating the admission policy that restricts who writes policies and quotas", "type",
			fmt.Sprintf("%T", want))
		return c.client.Create(ctx, want)
	}
	if err != nil || same() && equality.Semantic.DeepEqual(have.GetOwnerReferences(), want.GetOwnerReferences()) {
		return err
	}
	ctrllog.FromContext(ctx).Info("Updating the admission policy that restricts who writes policies and quotas", "type",
		fmt.Sprintf("%T", want))
	want.SetResourceVersion(have.GetResourceVersion())
	return c.client.Update(ctx, want)
}

// metadataIsKept is a CEL expression that is true of an update of a PlacementPolicy if its labels, owner references, and finalizers stay as
// they are, and so do its annotations except those that approve plans and stages. It does not compare the spec.
var metadataIsKept = func() string {
	approval := fmt.Sprintf("['%s', '%s', '%s']", placementv1.ApproveAnnotation, placementv1.ApproveStageAnnotation,
		placementv1.ApprovedByAnnotation)
	const before, now = "oldObject.metadata.?annotations.orValue({})", "object.metadata.?annotations.orValue({})"
	parts := []string{fmt.Sprintf("%[1]s.all(k, k in %[3]s || k in %[2]s && %[1]s[k] == %[2]s[k]) && %[2]s.all(k, k in %[3]s || k in %[1]s)",
		before, now, approval)}
	for _, field := range []string{"labels", "ownerReferences", "finalizers"} {
		empty := "[]"
		if field == "labels" {
			empty = "{}"
		}
		parts = append(parts, fmt.Sprintf("object.metadata.?%[1]s.orValue(%[2]s) == oldObject.metadata.?%[1]s.orValue(%[2]s)", field, empty))
	}
	return strings.Join(parts, " && ")
}()

// CEL expressions of the admission policy.
const (
	isScopedQuota = "request.resource.resource == '" + scopedQuotas + "'"
	// mayWriteClusterScoped checks that the user has the permission to update the virtual subresource spec of a cluster-scoped
	// kind, for example placementpolicies/spec. Nothing serves it, so it grants nothing else. Roles on the kind do not contain
	// it, not even with all verbs.
	mayWriteClusterScoped = "authorizer.group(request.resource.group).resource(request.resource.resource)" +
		".subresource('spec').check('update').allowed()"
	// mayApprove checks that the user has the permission to update the virtual subresource approval of PlacementPolicies. approves is true of
	// an update of one that does not change its spec.
	mayApprove = "authorizer.group(request.resource.group).resource(request.resource.resource)" +
		".subresource('approval').check('update').allowed()"
	approves = "request.resource.resource == 'placementpolicies' && request.operation == 'UPDATE' && object.spec == oldObject.spec"
	// mayWriteQuotas checks that the user has the permission for a verb on ResourceQuotas in the request's namespace.
	mayWriteQuotas = "authorizer.group('').resource('resourcequotas').namespace(request.namespace).check('%s').allowed()"
	// keepsQuota is true of an update of a ScopedQuota that changes neither its spec nor its owner references, such as the
	// removal of a finalizer. A change of owner references counts because the deletion of an owner deletes the quota.
	keepsQuota = "request.operation == 'UPDATE' && object.spec == oldObject.spec && " +
		"object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([])"
)

// spec returns the spec of the ValidatingAdmissionPolicy with every default that the API server sets, so that it equals the stored one.
//
// To write a ScopedQuota, a user also needs the permission to update ResourceQuotas in its namespace, or to delete them for a deletion. The
// controller that deletes the content of a namespace has the latter. An update that changes neither the spec nor the owner references needs
// no further permission.
//
// A PlacementPolicy, ClusterScopedQuota, or LimitedResource concerns all namespaces. To write one, a user also needs the permission to
// update the virtual subresource spec, even for a write of metadata only: annotations of policies approve and release moves. A user who has
// the permission to update the virtual subresource approval instead may approve plans and stages, and change nothing else.
func spec() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{},
			ObjectSelector:    &metav1.LabelSelector{},
			MatchPolicy:       new(admissionregistrationv1.Equivalent),
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update,
					admissionregistrationv1.Delete},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{placementv1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: guarded,
					Scope: new(admissionregistrationv1.AllScopes),
				},
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{
			Expression: isScopedQuota + " || " + mayWriteClusterScoped + " || " + approves + " && " + metadataIsKept + " && " + mayApprove,
			MessageExpression: "'user ' + request.userInfo.username + ' may not write ' + request.resource.resource + ': this takes the right to " +
				"update ' + request.resource.resource + '/spec too, which the ClusterRoles of Berth for editors and admins of this kind have; ask an " +
				"administrator of the cluster'",
			Reason: new(metav1.StatusReasonForbidden),
		}, {
			Expression: "!(" + isScopedQuota + ") || " + keepsQuota + " || " + fmt.Sprintf(mayWriteQuotas, "update") +
				" || request.operation == 'DELETE' && " + fmt.Sprintf(mayWriteQuotas, "delete"),
			MessageExpression: "'user ' + request.userInfo.username + ' may not write ScopedQuotas in namespace ' + request.namespace + " +
				"': this takes the right to update resourcequotas in that namespace too; ask an administrator of the cluster'",
			Reason: new(metav1.StatusReasonForbidden),
		}},
	}
}

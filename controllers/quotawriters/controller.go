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

// Package quotawriters provides the controller that maintains the ValidatingAdmissionPolicy for writes of ScopedQuotas.
// That policy admits only users who may write ResourceQuotas in the same namespace. The controller runs on the leader.
//
// The API server itself evaluates the policy, so it holds while Berth is stopped, upgraded, or uninstalled. Garbage
// collection deletes it with the CustomResourceDefinition of ScopedQuotas, and so with the last of them.
package quotawriters

import (
	"context"
	"fmt"
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
const Name = "berth-scopedquotas"

// ownerCRD is the name of the CustomResourceDefinition that owns both.
const ownerCRD = "scopedquotas.placement.berth.dev"

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=berth-scopedquotas,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create

// Cached restricts the manager's cache to the objects that a Controller watches, because Berth may not read other
// objects of these types.
func Cached() map[client.Object]cache.ByObject {
	only := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name)}
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingAdmissionPolicy{}:        only,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}: only,
	}
}

// Controller maintains the policy and its binding. Create it with New.
type Controller struct {
	client client.Client
	// liveReader reads the CustomResourceDefinition that owns both.
	liveReader client.Reader
}

// New returns a controller that writes with c and reads CustomResourceDefinitions with live, which must not be a cache.
func New(c client.Client, live client.Reader) *Controller {
	return &Controller{client: c, liveReader: live}
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} })
	return ctrl.NewControllerManagedBy(mgr).
		Named("quotawriters").
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

// ownerRetryInterval is the delay before the controller looks for the missing owner again. No event reports that it is
// created.
const ownerRetryInterval = 10 * time.Second

// Reconcile creates the policy and its binding if they are missing, and updates them if they differ.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := c.liveReader.Get(ctx, client.ObjectKey{Name: ownerCRD}, owner)
	if apierrors.IsNotFound(err) || err == nil && !owner.DeletionTimestamp.IsZero() {
		return reconcile.Result{RequeueAfter: ownerRetryInterval}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading CustomResourceDefinition %s, the owner of ValidatingAdmissionPolicy %s: %w", ownerCRD, Name, err)
	}
	meta := metav1.ObjectMeta{
		Name:   Name,
		Labels: map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID,
		}},
	}
	if err := c.applyPolicy(ctx, meta); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.applyBinding(ctx, meta)
}

func (c *Controller) applyPolicy(ctx context.Context, meta metav1.ObjectMeta) error {
	want := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: spec()}
	have := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	return c.apply(ctx, want, have, func() bool { return equality.Semantic.DeepEqual(have.Spec, want.Spec) })
}

func (c *Controller) applyBinding(ctx context.Context, meta metav1.ObjectMeta) error {
	want := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	have := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	return c.apply(ctx, want, have, func() bool { return equality.Semantic.DeepEqual(have.Spec, want.Spec) })
}

// apply reads the stored object into have, and writes want unless the specs and the owner references are equal. same
// compares the specs.
func (c *Controller) apply(ctx context.Context, want, have client.Object, same func() bool) error {
	err := c.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		ctrllog.FromContext(ctx).Info("Creating the admission policy that protects ScopedQuotas", "type", fmt.Sprintf("%T", want))
		return c.client.Create(ctx, want)
	}
	if err != nil || same() && equality.Semantic.DeepEqual(have.GetOwnerReferences(), want.GetOwnerReferences()) {
		return err
	}
	ctrllog.FromContext(ctx).Info("Updating the admission policy that protects ScopedQuotas", "type", fmt.Sprintf("%T", want))
	want.SetResourceVersion(have.GetResourceVersion())
	return c.client.Update(ctx, want)
}

// mayWriteExpression is the CEL check that the user has permission for a verb on ResourceQuotas in the request's
// namespace.
const mayWriteExpression = "authorizer.group('').resource('resourcequotas').namespace(request.namespace).check('%s').allowed()"

// spec returns the policy with every default that the API server sets, so that it is equal to the stored one.
//
// A user who may delete ResourceQuotas may delete ScopedQuotas. So the controllers that delete the content of a
// namespace, and dependents, may do so too. An update that does not change the spec or the owner references, such as
// the removal of a finalizer, needs no permission beyond the one on ScopedQuotas. A change of owner references does,
// because the deletion of an owner deletes the quota.
func spec() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{},
			ObjectSelector:    &metav1.LabelSelector{},
			MatchPolicy:       new(admissionregistrationv1.Equivalent),
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{placementv1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"scopedquotas"},
					Scope: new(admissionregistrationv1.AllScopes),
				},
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{
			Expression: "request.operation == 'UPDATE' && object.spec == oldObject.spec && " +
				"object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([]) || " +
				fmt.Sprintf(mayWriteExpression, "update") + " || request.operation == 'DELETE' && " + fmt.Sprintf(mayWriteExpression, "delete"),
			MessageExpression: "'user ' + request.userInfo.username + ' may not write ScopedQuotas in namespace ' + request.namespace + " +
				"': this takes the right to update resourcequotas in that namespace too; ask an administrator of the cluster'",
			Reason: new(metav1.StatusReasonForbidden),
		}},
	}
}

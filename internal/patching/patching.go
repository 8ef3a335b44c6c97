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

// Package patching asks the API server to patch or evict existing objects, so that they get their placement, and says how that ended.
package patching

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/remediation"
)

// Patcher patches and evicts existing objects by clients of the API server. It keeps nothing between calls, and is safe for concurrent use.
type Patcher struct {
	Client dynamic.Interface // Patches objects, and reads who last wrote one.
	Core   rest.Interface    // A client of the core API group, which evicts Pods.
}

// ErrNotTaken is the error of a patch that the API server accepted, but after which the object has the same resource version as before.
var ErrNotTaken = errors.New("the patch did not give the object its placement; " +
	"the webhook configuration may be missing, or a replica may not have the newest data yet")

// Patch patches an object as the verdicts in due require, or evicts it if they require that. The result says how that ended, also with an
// error. The caller sets Object and Data in it.
//
// The patch contains only the UID and the resource version of the object, and changes nothing. The API server then calls Berth's own
// webhook, which decides the object as it decides every other update. So there is one way by which placements get into objects, the
// fields keep their owners, and a developer who applies the same manifest again gets no conflict with Berth. The API server may not call
// the webhook: it may not know of it yet, or the webhook's failure may be ignored. Then the object stays as it is. If the patch contained
// the placement, the next record of the developer's requested values would contain it as if the developer had requested it.
func (p *Patcher) Patch(ctx context.Context, key remediation.Key, obj *unstructured.Unstructured,
	due remediation.Due) (remediation.Patch, error) {
	if due.Evicts(key.Resource.GroupResource()) {
		return p.evict(ctx, key, obj)
	}
	ctrllog.FromContext(ctx).V(2).Info("Patching", "object", key.String())
	uid, version, patch := obj.GetUID(), obj.GetResourceVersion(), remediation.Patch{Ending: remediation.Failed}
	body := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"uid":%q}}`, version, uid)
	options := metav1.PatchOptions{FieldManager: remediation.FieldManagerFor(key, uid, due)}
	got, err := p.Client.Resource(key.Resource).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, body, options)
	switch {
	case err != nil:
		patch.Ending, patch.Reason = endingOf(err), err.Error()
	case got.GetResourceVersion() == version:
		err = ErrNotTaken
	default:
		// If it has another placement, the webhook decided with newer data, or another webhook changed the object. The watch will deliver the
		// newer object. The scheduler stops an object that never settles.
		patch.UID, patch.Generation, patch.Version, patch.Ending = got.GetUID(), got.GetGeneration(),
			got.GetResourceVersion(), remediation.Overtaken
		if due.Placed(got) {
			patch.Ending = remediation.Made
		}
	}
	return patch, err
}

// evict evicts a Pod, if it still has the resource version of pod. Its controller creates another Pod, which the webhook places.
func (p *Patcher) evict(ctx context.Context, key remediation.Key, pod *unstructured.Unstructured) (remediation.Patch, error) {
	ctrllog.FromContext(ctx).V(2).Info("Evicting", "object", key.String())
	name, uid, version := key.Name, pod.GetUID(), pod.GetResourceVersion()
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: key.Namespace, Name: name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}},
	}
	var status metav1.Status
	// The client would wait and retry when a PodDisruptionBudget does not allow the eviction, and so block a worker.
	err := p.Core.Post().MaxRetries(0).Namespace(key.Namespace).Resource("pods").Name(name).SubResource("eviction").
		Body(eviction).Do(ctx).Into(&status)
	if err == nil && status.Status == metav1.StatusFailure {
		// The API server returns a failure as the result if several PodDisruptionBudgets select the Pod.
		err = &apierrors.StatusError{ErrStatus: status}
	}
	if s, ok := err.(apierrors.APIStatus); ok && s.Status().Code == http.StatusInternalServerError &&
		s.Status().Reason == metav1.StatusReasonUnknown {
		// The reason is the Pod's own, unlike that of other internal errors.
		err = apierrors.NewForbidden(policyv1.Resource("evictions"), name, err)
	}
	if err != nil {
		return remediation.Patch{Ending: endingOf(err), Reason: err.Error()}, err
	}
	return remediation.Patch{Ending: remediation.Made, UID: uid}, nil
}

// Reverter returns, as text, which client last wrote what a patch of an object for the verdicts changes: its field manager, or "another
// client" if that is not known.
func (p *Patcher) Reverter(ctx context.Context, key remediation.Key, due remediation.Due) string {
	// Cached objects do not have the field managers.
	if live, err := p.Client.Resource(key.Resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}); err == nil {
		if manager := remediation.ManagerOf(live.GetManagedFields(), due); manager != "" {
			return fmt.Sprintf("field manager %q", manager)
		}
	}
	return "another client"
}

// endingOf returns how a patch or an eviction ended that failed with an error: Unmade if the object is gone or has changed, Protected if a
// PodDisruptionBudget does not allow it, Failed if other objects may share the reason, and Refused otherwise.
func endingOf(err error) remediation.Ending {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return remediation.Unmade
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return remediation.Protected
	case Unauthorized(err), slices.Contains(sharedReasons, apierrors.ReasonForError(err)):
		return remediation.Failed
	}
	return remediation.Refused
}

// sharedReasons are why the API server may refuse the patches of other objects, too. It refuses a patch for other reasons because of the
// object, such as a denial by another webhook. Forbidden is not among them, because it may be such a denial or a missing permission.
var sharedReasons = []metav1.StatusReason{
	metav1.StatusReasonUnknown, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTooManyRequests,
	metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonUnauthorized, metav1.StatusReasonMethodNotAllowed,
}

// Unauthorized reports whether the API server refused a patch or an eviction because Berth lacks a permission. Only the message
// distinguishes such a refusal from a denial by an admission plugin.
func Unauthorized(err error) bool {
	return apierrors.IsForbidden(err) &&
		(strings.Contains(err.Error(), "cannot patch resource") || strings.Contains(err.Error(), `cannot create resource "pods/eviction"`))
}

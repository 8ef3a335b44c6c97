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

// Package planapproval provides the mutating webhook for PlacementPolicies that records who approves a plan.
package planapproval

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

var _ admission.Handler = (*Handler)(nil)

// Handler records in a policy's annotation placement.berth.dev/approved-by which user changed its annotation placement.berth.dev/approve,
// and undoes what requests set there themselves. So it never names another user. Handler is safe for concurrent use.
type Handler struct {
	Clock clock.PassiveClock
}

// Handle answers a request that creates or updates a PlacementPolicy with a patch of the annotation approved-by: the user, the digest, and
// the time if the request sets or changes approve; otherwise, its value before. It denies only objects that can't be decoded.
func (h *Handler) Handle(_ context.Context, req admission.Request) admission.Response {
	obj, old := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(req.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if req.Operation == admissionv1.Update {
		if err := old.UnmarshalJSON(req.OldObject.Raw); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
	}
	annotations, before := obj.GetAnnotations(), old.GetAnnotations()
	digest, approves := annotations[placementv1.ApproveAnnotation]
	was, approved := before[placementv1.ApproveAnnotation]
	by, known := before[placementv1.ApprovedByAnnotation]
	switch {
	case approves && (!approved || digest != was):
		// Marshaling does not fail: all values are strings.
		text, _ := json.Marshal(placementv1.Approver{Digest: digest, User: req.UserInfo.Username, Time: metav1.NewTime(h.Clock.Now())})
		annotations[placementv1.ApprovedByAnnotation] = string(text)
	case known && annotations != nil:
		annotations[placementv1.ApprovedByAnnotation] = by
	default:
		delete(annotations, placementv1.ApprovedByAnnotation)
	}
	obj.SetAnnotations(annotations)
	next, err := obj.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, next)
}

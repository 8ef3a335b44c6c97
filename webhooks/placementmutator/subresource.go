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

package placementmutator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/review"
)

// Parents reads from the API server, without a cache, the objects whose subresource scale requests update.
type Parents struct {
	Client dynamic.Interface
	Scales Scales
}

// Scales finds the field of an object that its scale subresource sets. Implementations are safe for concurrent use.
type Scales interface {
	// ReplicasPath returns the path of the field. ok is false if the path is not known.
	ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) (path []string, ok bool, err error)
}

// errUnknownScale is returned if the field that the scale subresource sets is not known. The request is then admitted with a warning,
// whatever the failure policy is.
var errUnknownScale = errors.New("no CustomResourceDefinition names the field that the scale subresource sets")

// update is the parent object before and after a request for its subresource.
type update struct{ before, after *unstructured.Unstructured }

// decideSubresource returns the response to a request for a subresource, and its label in metrics. It denies the request if policies deny
// the parent object that results. It does not patch: a Scale has no field for what policies set on the parent. Remediation sets that
// afterwards. If it is not known which field a Scale sets, it admits the request with a warning.
func (h *Handler) decideSubresource(ctx context.Context, req admission.Request) (admission.Response, string) {
	u, err := h.updateOf(ctx, req)
	resource := schema.GroupVersionResource(req.Resource)
	if errors.Is(err, errUnknownScale) {
		warning := fmt.Sprintf("Berth does not decide this kubectl scale of %s: %v; tell the administrator of Berth",
			resource.GroupResource(), err)
		return admission.Allowed("").WithWarnings(warning), metrics.AnswerAllowed
	}
	if err != nil {
		return h.undecidable(req, u.after, err)
	}
	parent := parentRequest(req, u.after)
	outcome, err := h.decideCurrent(ctx, (*placement.Decider).Decide, placement.Request{
		Resource: resource, Namespace: req.Namespace, Object: u.after, Old: u.before, Admission: &parent, Evaluate: h.evaluate,
	})
	if err != nil {
		return h.undecidable(req, u.after, err)
	}
	outcome.Object = nil
	return h.respond(ctx, req, u.after, outcome)
}

// parentRequest returns the request as match conditions see it: an update of the parent object, without the objects themselves.
func parentRequest(req admission.Request, object *unstructured.Unstructured) admissionv1.AdmissionRequest {
	out := req.AdmissionRequest
	kind := metav1.GroupVersionKind(object.GroupVersionKind())
	out.Kind, out.RequestKind = kind, &kind
	out.RequestResource = &out.Resource
	out.SubResource, out.RequestSubResource = "", ""
	out.Object, out.OldObject = runtime.RawExtension{}, runtime.RawExtension{}
	return out
}

// updateOf returns the parent object before and after a request for its subresource: scale, resize, or ephemeralcontainers. Others are an
// error. With an error, after has only the kind and the name.
func (h *Handler) updateOf(ctx context.Context, req admission.Request) (update, error) {
	var out update
	var err error
	switch req.SubResource {
	case match.SubresourceScale:
		out, err = h.Parents.scaled(ctx, req)
	case match.SubresourceResize, match.SubresourceEphemeralContainers:
		// The request contains the whole parent object.
		var decoded *objects
		if decoded, err = decode(req, true); err == nil {
			out = update{before: decoded.old.object, after: decoded.obj.object}
		}
	default:
		err = fmt.Errorf("the subresource %s is never decided: remove its rule from the webhook configuration", req.SubResource)
	}
	if err != nil {
		return update{after: review.Named(req)}, err
	}
	return out, nil
}

// scaled returns the parent object before and after a request for its scale subresource: as the API server has it now, and the same with
// the number of replicas of the requested Scale. The error is errUnknownScale if the field with that number is not known. If the object
// changes before the API server stores the new number, the API server calls the webhook again, because it updates only the version from
// which it made the old Scale.
func (p *Parents) scaled(ctx context.Context, req admission.Request) (update, error) {
	scale := &autoscalingv1.Scale{}
	if err := json.Unmarshal(req.Object.Raw, scale); err != nil {
		return update{}, fmt.Errorf("decoding scale: %w", err)
	}
	resource := schema.GroupVersionResource(req.Resource)
	path, ok, err := p.Scales.ReplicasPath(ctx, resource)
	if err != nil {
		return update{}, err
	}
	if !ok {
		return update{}, errUnknownScale
	}
	before, err := p.Client.Resource(resource).Namespace(req.Namespace).Get(ctx, req.Name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return update{}, fmt.Errorf("the manager may not read the object to scale: grant it by a ClusterRole labelled "+
			"placement.berth.dev/aggregate-to-manager=true with the rule {apiGroups: [%q], resources: [%q], verbs: [get]}: %w", resource.Group,
			resource.Resource, err)
	}
	if err != nil {
		return update{}, fmt.Errorf("reading the object to scale: %w", err)
	}
	after := before.DeepCopy()
	if err := unstructured.SetNestedField(after.Object, int64(scale.Spec.Replicas), path...); err != nil {
		return update{}, fmt.Errorf("setting the number of replicas: %w", err)
	}
	return update{before: before, after: after}, nil
}

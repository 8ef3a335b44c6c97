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

package quota

import (
	"fmt"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	"github.com/berth-dev/berth/internal/workload"
)

// Request is an admission request that may change usage. It is immutable.
type Request struct {
	// ChargeID identifies the request's charges. It must be unique, and clients must not be able to know or choose it,
	// because charges are released by their id.
	ChargeID string
	// Namespace is the object's namespace; never empty.
	Namespace string
	// Resource is the object's type.
	Resource schema.GroupResource
	// DryRun reports whether the request is a dry run, which charges nothing.
	DryRun bool

	subresource string // "" for a request for the object itself.
	object      objectIdentity
	current     measurement // The measurement of the object that the request would store.
	// before is the measurement of the old object of an update, whether or not a quota counts it; nil for a create, also by an update that
	// creates its object.
	before    *measurement
	evaluator upstream.Evaluator
	content   runtime.Object // What the request would store: a Pod, Service, or claim, or only the metadata of another object; never nil.
	// input is the part of the input of LimitedResources' modules that does not depend on quotas: the scopes of the object that the request
	// would store, and the amounts that it takes.
	input map[string]any
}

// objectIdentity identifies a version of an object, by its name, its UID, and the version from which an update starts. It does not have the
// type and the namespace. Requests for one type and namespace with the same identity lead to at most one change: the create of the object
// with this UID, or an update that starts from this version.
type objectIdentity struct {
	// version is the resource version from which an update starts; "" for a create.
	name, uid, version string
}

// NewRequest converts an admission request. chargeID becomes the id of its charges; see Request.ChargeID. NewRequest returns nil if the
// request changes nothing that quotas count: it is no create or update, its object is in no namespace, or what it updates is not measured.
// It returns an error if an object can't be read or measured.
func (e *Evaluators) NewRequest(chargeID string, r *admissionv1.AdmissionRequest) (*Request, error) {
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	if r.Namespace == "" || (r.Operation != admissionv1.Create && r.Operation != admissionv1.Update) {
		return nil, nil
	}
	evaluator := e.evaluatorFor(resource)
	object, err := decode(resource, r.Object.Raw)
	if err != nil {
		return nil, err
	}
	var old runtime.Object
	if len(r.OldObject.Raw) > 0 {
		if old, err = decode(resource, r.OldObject.Raw); err != nil {
			return nil, err
		}
	}
	attributes := admission.NewAttributesRecord(object, old, schema.GroupVersionKind(r.Kind), r.Namespace, r.Name,
		schema.GroupVersionResource(r.Resource), r.SubResource, admission.Operation(r.Operation), nil, false, nil)
	if !evaluator.Handles(attributes) {
		return nil, nil
	}
	if pod, ok := object.(*corev1.Pod); ok {
		if err := workload.CheckResources(&pod.Spec); err != nil {
			return nil, fmt.Errorf("quota can't be decided: spec.%w", err)
		}
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	out := &Request{
		ChargeID: chargeID, Namespace: r.Namespace, Resource: resource, DryRun: r.DryRun != nil && *r.DryRun,
		subresource: r.SubResource, evaluator: evaluator, content: object,
		object: objectIdentity{name: accessor.GetName(), uid: string(accessor.GetUID())},
	}
	if r.Operation == admissionv1.Update {
		if err := out.readOld(e, old); err != nil {
			return nil, err
		}
	}
	if out.before == nil {
		// Server-side apply creates objects with the deletionTimestamp that the request has. Evaluators count little
		// for a pod whose grace period is over, so clear it.
		accessor.SetDeletionTimestamp(nil)
		accessor.SetDeletionGracePeriodSeconds(nil)
	}
	if out.current, err = e.measure(resource, object); err != nil {
		return nil, err
	}
	out.setInput()
	return out, nil
}

// readOld measures the old object of an update, and sets before and object.version. For an update that creates its object, the old object
// has no version, and both stay empty. It returns an error if there is no old object.
func (r *Request) readOld(e *Evaluators, old runtime.Object) error {
	if old == nil {
		return fmt.Errorf("quota can't be decided: the admission review of the update has no oldObject")
	}
	accessor, err := meta.Accessor(old)
	if err != nil {
		return err
	}
	if accessor.GetResourceVersion() == "" {
		return nil
	}
	r.object.version = accessor.GetResourceVersion()
	before, err := e.measure(r.Resource, old)
	if err != nil {
		return err
	}
	r.before = &before
	return nil
}

// setInput sets the field input from the scopes and the amounts, except zeros, of the object that the request would store.
func (r *Request) setInput() {
	r.input = map[string]any{
		"scopes": r.current.scopes.moduleInput(),
		"usage":  amounts(upstream.RemoveZeros(r.current.usage)),
	}
}

// delta returns the additional amounts that the object takes. The recount gives back decreases after they took effect.
func (r *Request) delta() corev1.ResourceList {
	if r.before == nil {
		return r.current.usage
	}
	return upstream.SubtractWithNonNegativeResult(r.current.usage, r.before.usage)
}

// limitInput adds the entries of the field input to more, the other input of a LimitedResource's module, and returns more: the object's
// scopes, under "scopes", and what it takes, under "usage".
func (r *Request) limitInput(more map[string]any) map[string]any {
	maps.Copy(more, r.input)
	return more
}

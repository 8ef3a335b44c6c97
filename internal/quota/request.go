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

// Request is an admission request that may change what is used. It is immutable.
type Request struct {
	// ChargeID identifies what the request charges. It is unique, and nothing that the sender of the request can know or
	// choose: a charge is given back by it.
	ChargeID string
	// Namespace is the object's.
	Namespace string
	// Resource is the object's type.
	Resource schema.GroupResource
	// DryRun says that the request changes nothing, and hence charges nothing.
	DryRun bool

	subresource string
	object      identity
	now         measurement
	// before is what the object took and how it was scoped; nil if nothing was charged for it.
	before    *measurement
	evaluator upstream.Evaluator
	content   runtime.Object
	// input is the part of the limits' input that no limit changes.
	input map[string]any
}

// identity is a version of an object. Requests of the same identity lead to one change of one object at most: one of a
// create with this uid, or one of an update that starts from this version.
type identity struct {
	name, uid, version string
}

// NewRequest reads an admission request, whose charges are to have the id chargeID; see Request.ChargeID. It returns nil
// if the request changes nothing that quotas count.
func (e *Evaluators) NewRequest(chargeID string, r *admissionv1.AdmissionRequest) (*Request, error) {
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	if r.Namespace == "" || (r.Operation != admissionv1.Create && r.Operation != admissionv1.Update) {
		return nil, nil
	}
	evaluator := e.of(resource)
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
		object: identity{name: accessor.GetName(), uid: string(accessor.GetUID())},
	}
	if r.Operation == admissionv1.Update {
		if err := out.readOld(e, old); err != nil {
			return nil, err
		}
	}
	if out.before == nil {
		// Server-side apply creates objects with any deletionTimestamp that the request names, and evaluators count little
		// of a pod whose grace period is over.
		accessor.SetDeletionTimestamp(nil)
		accessor.SetDeletionGracePeriodSeconds(nil)
	}
	if out.now, err = e.measure(resource, object); err != nil {
		return nil, err
	}
	out.setInput()
	return out, nil
}

// readOld reads what is charged already. An update that creates its object has an old object without a version.
func (r *Request) readOld(e *Evaluators, old runtime.Object) error {
	if old == nil {
		return fmt.Errorf("unable to get previous usage since prior version of object was not found")
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

func (r *Request) setInput() {
	r.input = map[string]any{
		"scopes": r.now.scopes.facts(),
		"usage":  amounts(upstream.RemoveZeros(r.now.usage)),
	}
}

// delta is what the object takes more than before; what it takes less is given back by the recount, once it is so.
func (r *Request) delta() corev1.ResourceList {
	if r.before == nil {
		return r.now.usage
	}
	return upstream.SubtractWithNonNegativeResult(r.now.usage, r.before.usage)
}

// with returns the input with more in it.
func (r *Request) with(more map[string]any) map[string]any {
	maps.Copy(more, r.input)
	return more
}

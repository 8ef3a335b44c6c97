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

package placement

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/projection"
)

// SchedulingFields returns the fields of an object that merging of decisions on scheduling reads, as a sealed set: those of the pod spec
// that decisions set, spec.suspend and status.startTime of a Job, and the owner references. podSpec is the path of the pod spec in the
// object.
func SchedulingFields(podSpec []string) *projection.FieldSet {
	f := &projection.FieldSet{}
	spec := f
	for _, name := range podSpec {
		spec = spec.AddName(name)
	}
	for _, name := range podscheduling.Members {
		spec.AddName(name).AddAll()
	}
	// These fields show whether a Job can still be changed.
	f.AddName("spec").AddName("suspend")
	f.AddName("status").AddName("startTime")
	// This field shows whether another object controls a ReplicaSet.
	f.AddName("metadata").AddName("ownerReferences").AddAll()
	return f.Seal()
}

// Reasons why an object's scheduling fields can no longer be changed.
const (
	fixedPod   = "immutable: delete the pod so that it is created again"
	fixedJob   = "immutable: delete the job so that it is created again"
	fixedOwned = "made from another object's template: let the policy match that object"
)

// fixed returns why a scheduling value of the request's object can no longer be changed; "" if it can. The rules for Jobs are those of
// ValidateJobUpdate (k8s.io/kubernetes/pkg/apis/batch/validation). values are the values of the key before and after the change.
//
// owned reports whether the object is a ReplicaSet that must keep its pod template; see Decider.keepOwnedTemplate.
func fixed(r *Request, owned bool, key string, values ...*string) string {
	old := r.Old
	if owned {
		return fixedOwned
	}
	if old == nil {
		return ""
	}
	switch r.Resource.GroupResource() {
	case pods:
		return fixedPod
	case jobs:
		suspended, _, _ := unstructured.NestedBool(old.Object, "spec", "suspend")
		if started, ok, _ := unstructured.NestedString(old.Object, "status", "startTime"); !suspended || ok && started != "" {
			return fixedJob
		}
		switch member, _, _ := strings.Cut(key, "/"); member {
		case podscheduling.NodeSelector, podscheduling.Tolerations:
			return ""
		case podscheduling.Affinity:
			if !slices.ContainsFunc(values, podscheduling.SelectsPods) {
				return ""
			}
		}
		return fixedJob
	}
	return ""
}

// mayBeFixed reports whether the API server may reject changes of scheduling fields of existing objects of a resource. The object before
// the update shows whether it does.
func mayBeFixed(resource schema.GroupResource) bool { return resource == pods || resource == jobs }

// RecordsScheduling reports whether an object that the API server has stored has a valid record of scheduling values that policies set, now
// or earlier. namespace is the object's namespace. The object may be nil.
func (d *Decider) RecordsScheduling(obj *unstructured.Unstructured, namespace string) bool {
	return mayRecordScheduling(obj) && d.Keyring.readStored(obj, identityOf(obj, namespace)).schedules()
}

// recordsScheduling reports whether the request's object, or the one before the update, has a valid record of scheduling values that
// policies set, now or earlier.
func (d *Decider) recordsScheduling(r *Request, id identity) bool {
	return mayRecordScheduling(r.Object) && d.Keyring.read(r.Object, id).schedules() ||
		mayRecordScheduling(r.Old) && d.Keyring.readStored(r.Old, id).schedules()
}

// mayRecordScheduling reports whether an object's record may contain scheduling values. It is a cheap check that does not verify the
// record, which any user may have written.
func mayRecordScheduling(obj *unstructured.Unstructured) bool {
	if obj == nil {
		return false
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", fieldAnnotations, placementv1.RequestedAnnotation)
	text, _ := value.(string)
	return strings.Contains(text, `"`+fieldScheduling+`":`) || strings.Contains(text, `"earlierScheduling":`)
}

// parseScheduling converts the value of the rule scheduling to scheduling values by merge key; nil for nil. If the value is no object, has
// an unknown or invalid member, or one with too many values, the error is a *ContractError.
func parseScheduling(value any) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, &ContractError{fieldScheduling, fmt.Sprintf("must be an object, is %s", TypeName(value))}
	}
	spec, err := podscheduling.Parse(object)
	if err != nil {
		return nil, &ContractError{fieldScheduling, err.Error()}
	}
	flat, err := podscheduling.FlattenPodSpec(spec)
	if err != nil {
		return nil, &ContractError{fieldScheduling, err.Error()}
	}
	return flat, nil
}

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
	"bytes"
	"encoding/json"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// finalizationMembers are the fields of metadata that an update may change to complete the deletion of a terminating object, such as
// finalizers and ownerReferences, and those that the API server changes itself, such as managedFields and resourceVersion. Changes of the
// deletion fields are ignored because the API server keeps the stored values.
var finalizationMembers = []string{
	"finalizers", "ownerReferences", memberManagedFields,
	"resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
}

// finalizes reports whether a request does nothing but complete the deletion of a terminating object. Such a request is
// always admitted, so that no policy blocks a deletion.
//
// Only the old object shows whether the object is terminating: server-side apply creates objects with any
// deletionTimestamp in the request.
func finalizes(req admission.Request, decoded *objects) bool {
	old := decoded.old.object
	return req.Operation == admissionv1.Update && old != nil && old.GetDeletionTimestamp() != nil &&
		equalButFinalization(req.Object.Raw, req.OldObject.Raw)
}

// equalButFinalization reports whether two objects, in JSON, differ at most in finalizationMembers. It compares encoded fields, which the
// API server encodes in the same way for both. Equal values with different encodings count as different.
func equalButFinalization(object, old []byte) bool {
	rest, metadata, ok := withoutFinalization(object)
	if !ok {
		return false
	}
	oldRest, oldMetadata, ok := withoutFinalization(old)
	equal := func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }
	return ok && maps.EqualFunc(rest, oldRest, equal) && maps.EqualFunc(metadata, oldMetadata, equal)
}

// withoutFinalization returns the encoded fields of an object in JSON without its metadata, and those of its metadata without
// finalizationMembers. ok is false if text is no JSON object with metadata.
func withoutFinalization(text []byte) (rest, metadata map[string]json.RawMessage, ok bool) {
	if rest, ok = members(text); !ok {
		return nil, nil, false
	}
	if metadata, ok = members(rest[memberMetadata]); !ok {
		return nil, nil, false
	}
	delete(rest, memberMetadata)
	for _, name := range finalizationMembers {
		delete(metadata, name)
	}
	return rest, metadata, true
}

package placement

import (
	"bytes"
	"encoding/json"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// finalizationMembers are the members of metadata that an update may change to finish off a terminating object, and those
// that the API server moves by itself. What the update says of its deletion does not count: the API server keeps what is
// stored.
var finalizationMembers = []string{
	"finalizers", "ownerReferences", memberManagedFields,
	"resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
}

// finalizes reports whether a request does nothing but finish off an object whose deletion has begun. Such a request is
// admitted whatever policies decide, so that no policy holds up a deletion.
//
// The old object alone tells whether the deletion has begun: server-side apply creates objects with any
// deletionTimestamp that the request names.
func finalizes(req admission.Request, decoded *objects) bool {
	old := decoded.old.object
	return req.Operation == admissionv1.Update && old != nil && old.GetDeletionTimestamp() != nil &&
		equalButFinalization(req.Object.Raw, req.OldObject.Raw)
}

// equalButFinalization reports whether two objects differ in finalizationMembers at most. It compares the texts of their
// members, which the API server writes in the same way for both; equal values that are written differently count as
// different, and the object is decided.
func equalButFinalization(object, old []byte) bool {
	rest, metadata, ok := withoutFinalization(object)
	if !ok {
		return false
	}
	oldRest, oldMetadata, ok := withoutFinalization(old)
	equal := func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }
	return ok && maps.EqualFunc(rest, oldRest, equal) && maps.EqualFunc(metadata, oldMetadata, equal)
}

// withoutFinalization returns the members of an object besides its metadata, and those of its metadata besides
// finalizationMembers.
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

package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxHead bounds what is read of a review to find out what it is for. The API server writes these members before the
// objects; the largest are the names, groups and extra fields of the user.
const maxHead = 1 << 20

// errNoUID says that a request can't be answered: an answer names the uid.
var errNoUID = errors.New("the AdmissionReview has no request.uid before its objects")

// readHead reads the members of a review's request that come before its objects, from a stream of which it reads no more
// than maxHead bytes.
func readHead(r io.Reader) (*admissionv1.AdmissionRequest, error) {
	d := json.NewDecoder(io.LimitReader(r, maxHead))
	if err := enter(d); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading the AdmissionReview: %w", err)
		}
		if name == "request" {
			return readRequest(d)
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return nil, fmt.Errorf("reading the AdmissionReview: %w", err)
		}
	}
	return nil, errNoUID
}

// readRequest reads the members of a request up to its objects, or to the end of what may be read.
func readRequest(d *json.Decoder) (*admissionv1.AdmissionRequest, error) {
	if err := enter(d); err != nil {
		return nil, err
	}
	out := &admissionv1.AdmissionRequest{}
	into := map[string]any{
		"uid": &out.UID, "kind": &out.Kind, "resource": &out.Resource, "subResource": &out.SubResource,
		"name": &out.Name, "namespace": &out.Namespace, "operation": &out.Operation,
	}
	for d.More() {
		token, err := d.Token()
		name, _ := token.(string)
		if err != nil || name == "object" || name == "oldObject" {
			break
		}
		var skipped json.RawMessage
		at, known := into[name]
		if !known {
			at = &skipped
		}
		if err := d.Decode(at); err != nil {
			break
		}
	}
	if out.UID == "" {
		return nil, errNoUID
	}
	return out, nil
}

// enter steps into an object.
func enter(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("reading the AdmissionReview: %w", err)
	}
	if token != json.Delim('{') {
		return fmt.Errorf("reading the AdmissionReview: %v is not an object", token)
	}
	return nil
}

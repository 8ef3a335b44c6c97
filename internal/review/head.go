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

package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxHead is the maximum number of bytes that are read of a review to identify its request. The API server writes these
// fields before the objects. The largest are the names, groups and extra fields of the user.
const maxHead = 1 << 20

// errNoUID means that no valid response is possible, because a response must contain the UID of the request. It is the error for a review
// without request.uid before its objects.
var errNoUID = errors.New("the AdmissionReview has no request.uid before its objects")

// readHead reads the fields that identify a review's request: the UID, kind, resource, subresource, name, namespace, and operation, as far
// as they come before the objects. It skips the user (userInfo) and all other fields, and leaves them empty. It reads at most maxHead
// bytes. It returns an error if it finds no UID.
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

// readRequest reads the fields of a request that identify it, until its object or oldObject, or until one that can't be read. The error is
// errNoUID if there is no UID up to there.
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

// enter reads the opening brace of a JSON object.
func enter(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("reading the AdmissionReview: %w", err)
	}
	if token != json.Delim('{') {
		return fmt.Errorf("reading the AdmissionReview: found %v where a JSON object must begin", token)
	}
	return nil
}

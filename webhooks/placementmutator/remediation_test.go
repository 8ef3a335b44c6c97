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

package placementmutator_test

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/webhooks/placementmutator"
)

// TestRecognize checks that the webhook permits a move only in a patch by Berth of the very object.
func TestRecognize(t *testing.T) {
	const berth = "system:serviceaccount:berth-system:berth-manager"
	v := &placement.Verdict{
		Policy:  &placement.Policy{Name: "p", Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationApproved},
		Changes: []placement.Change{{Field: "annotations", Key: "k", To: new("x")}},
	}
	// The API server may ask for an object in another version than the one that is patched.
	patched := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	key := remediation.Key{Resource: patched, Namespace: "shop", Name: "web"}
	manager := remediation.FieldManagerFor(key, "u1", remediation.Due{v})
	request := func(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
		out := &admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: berth}, Namespace: "shop", Name: "web",
			Resource: metav1.GroupVersionResource{Group: "other", Version: "v2", Resource: "deployments"}, RequestResource: (*metav1.GroupVersionResource)(&patched),
			OldObject: runtime.RawExtension{Raw: []byte(`{"metadata":{"namespace":"shop","uid":"u1"}}`)},
		}
		options, err := json.Marshal(metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		out.Options.Raw = options
		change(out)
		return out
	}
	options := func(text string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.Options.Raw = []byte(text) }
	}
	for name, tc := range map[string]struct {
		change        func(*admissionv1.AdmissionRequest)
		ours, permits bool
	}{
		"Permitted":   {func(*admissionv1.AdmissionRequest) {}, true, true},
		"Automatic":   {options(`{"fieldManager":"berth-remediation"}`), true, false},
		"AnotherMove": {options(`{"fieldManager":"berth-remediation:0123456789abcdef"}`), true, false},
		"AnotherUID": {func(r *admissionv1.AdmissionRequest) {
			r.OldObject.Raw = []byte(`{"metadata":{"namespace":"shop","uid":"u2"}}`)
		}, true, false},
		"NoOldObject": {func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = []byte("no") }, true, false},
		"Namespace": {func(r *admissionv1.AdmissionRequest) {
			r.RequestResource = &metav1.GroupVersionResource{Version: "v1", Resource: "namespaces"}
			r.Name, r.Namespace, r.OldObject.Raw = "shop", "shop", []byte(`{"metadata":{"name":"shop","uid":"u1"}}`)
			namespace := remediation.Key{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: "shop"}
			options(`{"fieldManager":"` + remediation.FieldManagerFor(namespace, "u1", remediation.Due{v}) + `"}`)(r)
		}, true, true},
		"AnotherName": {func(r *admissionv1.AdmissionRequest) { r.Name = "db" }, true, false},
		"AnotherUser": {func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "alice" }, false, false},
		"Created":     {func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Create }, false, false},
		"Kubectl":     {options(`{"fieldManager":"kubectl"}`), false, false},
		"NoOptions":   {options("no"), false, false},
		"OneResource": {func(r *admissionv1.AdmissionRequest) {
			r.Resource, r.RequestResource = *r.RequestResource, nil
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			ours, permits := placementmutator.Recognize(authenticationv1.UserInfo{Username: berth})(request(tc.change))
			if ours != tc.ours || (permits != nil && permits([]*placement.Verdict{v})) != tc.permits {
				t.Errorf("by remediation: %t, permits %t", ours, permits != nil && permits([]*placement.Verdict{v}))
			}
		})
	}
}

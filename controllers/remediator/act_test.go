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

package remediator

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
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
			ours, permits := Recognize(authenticationv1.UserInfo{Username: berth})(request(tc.change))
			if ours != tc.ours || (permits != nil && permits([]*placement.Verdict{v})) != tc.permits {
				t.Errorf("by remediation: %t, permits %t", ours, permits != nil && permits([]*placement.Verdict{v}))
			}
		})
	}
}

func TestApprovalOf(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const by = `{"digest":"d1","user":"alice","time":"2026-01-02T03:04:05Z"}`
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        *remediation.Approval
	}{
		"None":         {nil, nil},
		"ByAlice":      {map[string]string{placementv1.ApproveAnnotation: "d1", placementv1.ApprovedByAnnotation: by}, &remediation.Approval{Digest: "d1", By: "alice", At: at}},
		"Unrecorded":   {map[string]string{placementv1.ApproveAnnotation: "d1"}, &remediation.Approval{Digest: "d1"}},
		"Malformed":    {map[string]string{placementv1.ApproveAnnotation: "d1", placementv1.ApprovedByAnnotation: "alice"}, &remediation.Approval{Digest: "d1"}},
		"AnotherPlan":  {map[string]string{placementv1.ApproveAnnotation: "d2", placementv1.ApprovedByAnnotation: by}, &remediation.Approval{Digest: "d2"}},
		"OnlyRecorded": {map[string]string{placementv1.ApprovedByAnnotation: by}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := approvalOf(&placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}})
			if (got == nil) != (tc.want == nil) || got != nil && (got.Digest != tc.want.Digest || got.By != tc.want.By || !got.At.Equal(tc.want.At)) {
				t.Errorf("approval %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestRefusedForTheObjectsOwnSake(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), "web", errors.New(why))
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"NotTaken":       {errNotTaken, false},
		"Connection":     {errors.New("connection refused"), false},
		"WebhookDown":    {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"NoRight":        {forbidden(`User "berth" cannot patch resource "configmaps" in API group "" in the namespace "shop"`), false},
		"Denied":         {forbidden(`admission webhook "other.example.com" denied the request: no`), true},
		"Quota":          {forbidden(`exceeded quota: compute`), true},
		"Invalid":        {apierrors.NewBadRequest("no"), true},
		"TooManyAtATime": {apierrors.NewTooManyRequests("later", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := endingOf(test.err) == remediation.Refused; got != test.want {
				t.Errorf("refused: %t, want %t", got, test.want)
			}
		})
	}
}

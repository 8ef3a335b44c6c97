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

package planapproval_test

import (
	"encoding/json"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/webhooks/planapproval"
)

// TestHandle checks that the annotation names the user whose request approved the plan, whatever requests contain.
func TestHandle(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	by := func(digest, user string) string {
		return `{"digest":"` + digest + `","user":"` + user + `","time":"2026-01-02T03:04:05Z"}`
	}
	type annotations = map[string]string
	const approve, approvedBy = placementv1.ApproveAnnotation, placementv1.ApprovedByAnnotation
	for name, tc := range map[string]struct {
		old, obj annotations
		created  bool
		want     string
	}{
		"Approved":        {nil, annotations{approve: "d1"}, false, by("d1", "alice")},
		"Created":         {nil, annotations{approve: "d1", approvedBy: by("d1", "bob")}, true, by("d1", "alice")},
		"AnotherPlan":     {annotations{approve: "d1", approvedBy: by("d1", "bob")}, annotations{approve: "d2", approvedBy: by("d1", "bob")}, false, by("d2", "alice")},
		"SamePlan":        {annotations{approve: "d1", approvedBy: by("d1", "bob")}, annotations{approve: "d1", approvedBy: by("d1", "bob"), "k": "v"}, false, by("d1", "bob")},
		"Forged":          {annotations{approve: "d1", approvedBy: by("d1", "bob")}, annotations{approve: "d1", approvedBy: by("d1", "carol")}, false, by("d1", "bob")},
		"Removed":         {annotations{approve: "d1", approvedBy: by("d1", "bob")}, annotations{approve: "d1"}, false, by("d1", "bob")},
		"ForgedUnknown":   {annotations{approve: "d1"}, annotations{approve: "d1", approvedBy: by("d1", "carol")}, false, ""},
		"ForgedOnAnother": {annotations{approve: "d1"}, annotations{approve: "d2", approvedBy: by("d2", "carol")}, false, by("d2", "alice")},
	} {
		t.Run(name, func(t *testing.T) {
			raw := func(a annotations) []byte {
				text, err := json.Marshal(&placementv1.PlacementPolicy{TypeMeta: metav1.TypeMeta{APIVersion: placementv1.GroupVersion.String(), Kind: "PlacementPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: a}})
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: "alice"},
				Object: runtime.RawExtension{Raw: raw(tc.obj)}, OldObject: runtime.RawExtension{Raw: raw(tc.old)},
			}}
			if tc.created {
				request.Operation, request.OldObject = admissionv1.Create, runtime.RawExtension{}
			}
			response := (&planapproval.Handler{Clock: testingclock.NewFakePassiveClock(at)}).Handle(t.Context(), request)
			if !response.Allowed {
				t.Fatalf("response %+v", response)
			}
			patched := request.Object.Raw
			if len(response.Patches) > 0 {
				text, err := json.Marshal(response.Patches)
				if err != nil {
					t.Fatal(err)
				}
				patch, err := jsonpatch.DecodePatch(text)
				if err != nil {
					t.Fatal(err)
				}
				if patched, err = patch.Apply(patched); err != nil {
					t.Fatal(err)
				}
			}
			got := &placementv1.PlacementPolicy{}
			if err := json.Unmarshal(patched, got); err != nil {
				t.Fatal(err)
			}
			if got.Annotations[approvedBy] != tc.want || got.Annotations[approve] != tc.obj[approve] || got.Annotations["k"] != tc.obj["k"] {
				t.Errorf("annotations %v, want %s", got.Annotations, tc.want)
			}
		})
	}
	for name, request := range map[string]admissionv1.AdmissionRequest{
		"Object":    {Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte("no")}},
		"OldObject": {Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(`{"kind":"PlacementPolicy","apiVersion":"v1"}`)}, OldObject: runtime.RawExtension{Raw: []byte("no")}},
	} {
		t.Run("Malformed"+name, func(t *testing.T) {
			if response := (&planapproval.Handler{}).Handle(t.Context(), admission.Request{AdmissionRequest: request}); response.Allowed || response.Result.Code != 400 {
				t.Errorf("response %+v", response)
			}
		})
	}
}

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

package setup

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestObjectsOfReviewsAreExamined checks that no object of a review takes forever to decode. Without that, the test does not end.
func TestObjectsOfReviewsAreExamined(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, placementv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decode := admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
		if err := admission.NewDecoder(scheme).Decode(req, &placementv1.PlacementPolicy{}); err != nil {
			if err := admission.NewDecoder(scheme).Decode(req, &corev1.Pod{}); err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
		}
		return admission.Allowed("")
	})
	const quota = `{"apiVersion": "placement.berth.dev/v1alpha1", "kind": "ScopedQuota", "spec": `
	for name, tc := range map[string]struct {
		object, old string
		want        int32
	}{
		"a policy":         {object: `{"apiVersion": "placement.berth.dev/v1alpha1", "kind": "PlacementPolicy", "spec": {"data": {"n": 12345678901234567890123}}}`, want: http.StatusOK},
		"another kind":     {object: `{"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": "1e-999999999"}}}`, want: http.StatusBadRequest},
		"the old object":   {old: `{"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": "1e-999999999"}}}`, want: http.StatusBadRequest},
		"a number":         {object: `{"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": 1e-999999999}}}`, want: http.StatusBadRequest},
		"a field repeated": {object: `{"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": "1e-999999999"}}, "spec": {}}`, want: http.StatusOK},
		"a quota":          {object: quota + `{"hard": {"pods": "1e-999999999"}}}`, want: http.StatusBadRequest},
		"no kind":          {object: `{"spec": {"overhead": {"cpu": "1e-999999999"}}}`, want: http.StatusBadRequest},
		"an unknown kind":  {object: `{"apiVersion": "a/v1", "kind": "B", "spec": {}}`, want: http.StatusBadRequest},
		"no object":        {object: `[]`, want: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			var req admission.Request
			req.Object.Raw, req.OldObject.Raw = []byte(tc.object), []byte(tc.old)
			if tc.object == "" {
				req.Object.Raw = []byte(`{"apiVersion": "v1", "kind": "Pod"}`)
			}
			if got := cheap(scheme, decode).Handle(t.Context(), req); got.Result.Code != tc.want {
				t.Errorf("got %+v, want %d", got.Result, tc.want)
			}
		})
	}
}

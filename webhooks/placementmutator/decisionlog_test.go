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
	"bytes"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/placement"
)

// TestDecisionsAreLogged checks which requests have a line in the log of decisions.
func TestDecisionsAreLogged(t *testing.T) {
	const placed = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"zone": "eu"}}}`
	update := func(old string) func(*admission.Request) {
		return func(r *admission.Request) { r.Operation, r.OldObject.Raw = admissionv1.Update, []byte(old) }
	}
	created := []decisionlog.Change{{Field: "label zone", To: new("eu"), Policy: "p"}}
	for name, tc := range map[string]struct {
		mode        placementv1.Mode
		answer      answer
		remediation bool
		change      func(*admission.Request)
		action      decisionlog.Action
		want        []decisionlog.Change
	}{
		"Created":  {placementv1.ModeEnforce, labels, false, func(*admission.Request) {}, decisionlog.Created, created},
		"Updated":  {placementv1.ModeEnforce, labels, false, update(deployment), decisionlog.Updated, []decisionlog.Change{{Field: "label zone", From: new("old"), To: new("eu"), Policy: "p"}}},
		"Kept":     {placementv1.ModeEnforce, labels, false, update(placed), "", nil},
		"Warn":     {placementv1.ModeWarn, labels, false, func(*admission.Request) {}, "", nil},
		"Denied":   {placementv1.ModeEnforce, denies, false, func(*admission.Request) {}, "", nil},
		"Fails":    {placementv1.ModeEnforce, fails, false, func(*admission.Request) {}, "", nil},
		"Nothing":  {placementv1.ModeEnforce, deciding, false, func(*admission.Request) {}, "", nil},
		"DryRun":   {placementv1.ModeEnforce, labels, false, func(r *admission.Request) { r.DryRun = new(true) }, "", nil},
		"ByLeader": {placementv1.ModeEnforce, labels, true, update(deployment), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, policyOf(t, "p", tc.mode, placementv1.FailurePolicyFail, tc.answer))
			h.Remediation = func(*admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) {
				return tc.remediation, nil
			}
			var out bytes.Buffer
			h.Decisions = decisionlog.New(slog.NewJSONHandler(&out, nil))
			r := request(deployment)
			r.UserInfo = authenticationv1.UserInfo{Username: "alice"}
			tc.change(&r)
			h.Handle(t.Context(), r)
			var got []decisionlog.Entry
			for e, err := range decisionlog.Read(&out) {
				if err != nil {
					t.Fatal(err)
				}
				e.Time = h.Clock.Now()
				got = append(got, e)
			}
			var want []decisionlog.Entry
			if tc.want != nil {
				want = []decisionlog.Entry{{
					Time: h.Clock.Now(), Source: decisionlog.Admission, Action: tc.action, User: "alice",
					Object:   decisionlog.Object{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "shop", Name: "web"},
					Policies: []decisionlog.Policy{{Name: "p", Generation: 7}}, Changes: slices.Clone(tc.want),
				}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

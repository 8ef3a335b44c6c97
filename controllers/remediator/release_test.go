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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/remediation"
)

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

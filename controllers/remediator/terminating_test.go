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
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestTerminating checks that a terminating object that violates a policy is reported and never patched. The leader has
// no client, so a patch would panic.
func TestTerminating(t *testing.T) {
	l := newLeader(t)
	spec := onDeployments(`annotations["example.com/a"] := "x"`, "")
	spec.Remediation.Mode = placementv1.RemediationAutomatic
	l.apply("p", spec)
	held, fine := deployment("held", "front", ""), deployment("fine", "front", "")
	fine.SetAnnotations(map[string]string{"example.com/a": "x"})
	for _, o := range []*unstructured.Unstructured{held, fine} {
		o.SetDeletionTimestamp(new(metav1.Now()))
	}
	l.fill(deployments, []*unstructured.Unstructured{held, fine})
	l.decided()
	r := l.Ledger.Report("p")
	if r.Matched != 2 || r.Violations != 1 || len(r.Unsettled) > 0 || !strings.HasSuffix(string(r.Sample[0].Object), "/held") || !strings.Contains(r.Sample[0].Message, "being deleted") {
		t.Errorf("%+v", r)
	}
	l.objects.Delete(deployments, "shop", "held")
	l.decided()
	if r := l.Ledger.Report("p"); r.Matched != 1 || r.Violations != 0 {
		t.Errorf("after the end: %+v", r)
	}
}

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

package quota_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	limitedapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// sameAmounts and sameQuantity compare quantities by value.
var sameAmounts = cmp.Comparer(func(a, b corev1.ResourceList) bool { return upstream.Equals(a, b) })

var sameQuantity = cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })

// TestTranscribedCasesAgainstUpstream checks that Kubernetes gives the results that the transcribed cases claim.
func TestTranscribedCasesAgainstUpstream(t *testing.T) {
	text, err := os.ReadFile("testdata/upstream-admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := newOracle(clock.RealClock{}, upstreamDevices())
	for _, c := range quotatest.Cases(t, text) {
		t.Run(c.Name, func(t *testing.T) {
			if c.Source == "" || len(c.Steps) == 0 {
				t.Error("no source or no steps")
			}
			stored := c.ScopedQuotas()
			for i, q := range stored {
				if diff := cmp.Diff(q.Spec.Hard, c.Quotas[i].Status.Hard, sameAmounts); diff != "" && len(q.Spec.Hard) > 0 {
					t.Errorf("status.hard of %s is not spec.hard:\n%s", q.Name, diff)
				}
			}
			var limits []limitedapi.LimitedResource
			for i := range c.LimitedResources {
				limits = append(limits, upstreamLimit(&c.LimitedResources[i]))
			}
			used := c.Used()
			for i, step := range c.Steps {
				var quotas []corev1.ResourceQuota
				for _, q := range stored {
					if q.Namespace != step.Namespace {
						continue
					}
					q.Status.Used = used[q.Name]
					quotas = append(quotas, upstreamQuota(q))
				}
				result, err := o.check(t, quotas, limits, step.Request(t, types.UID(fmt.Sprint(i))))
				if allowed := err == nil; allowed != step.Allowed {
					t.Fatalf("step %d: allowed %v (%v), want %v", i, allowed, err, step.Allowed)
				}
				if err != nil && (step.Message == "" || !strings.Contains(err.Error(), step.Message)) {
					t.Errorf("step %d: %q is not in %q", i, step.Message, err)
				}
				if err == nil && !step.DryRun {
					for _, q := range result {
						used[q.Name] = q.Status.Used
					}
				}
				wrote := map[string]corev1.ResourceList{}
				for j, q := range quotas {
					if !upstream.Equals(q.Status.Used, used[q.Name]) {
						wrote[quotas[j].Name] = used[q.Name]
					}
				}
				if diff := cmp.Diff(maps.Collect(maps.All(step.Used)), wrote, sameAmounts); diff != "" {
					t.Errorf("step %d writes -want +got:\n%s", i, diff)
				}
			}
		})
	}
}

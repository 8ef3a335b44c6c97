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

package policystatus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/status"
)

// TestStatusFitsOnTwoScreens checks that users can read a typical status as kubectl get -o yaml prints it: a screen has 50 lines. With
// delivery, a few more are needed.
func TestStatusFitsOnTwoScreens(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*policystatus.Facts)
		most   int
	}{
		"Quickstart": {func(f *policystatus.Facts) { f.State.Policy.Rules = []string{"team", "zone"} }, 60},
		"Plan":       {withPlan, 100},
		"Delivery":   {func(f *policystatus.Facts) { withPlan(f); withDelivery(f) }, 120},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			f.Types = &status.TypeState{}
			tc.change(&f)
			out := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
			text, err := yaml.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Count(string(text), "\n")
			t.Logf("%d lines", lines)
			if lines > tc.most {
				t.Errorf("%d lines, want at most %d:\n%s", lines, tc.most, text)
			}
		})
	}
}

// since is when the plan was made, and objects were moved.
var since = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// web returns the key of a Deployment.
func web(i int) remediation.Key {
	return remediation.Key{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}
}

// withPlan makes the facts those of a policy with rules for clusters whose plan waits for an approval.
func withPlan(f *policystatus.Facts) {
	f.State.Policy.Name, f.State.Policy.Remediation = "zones", placementv1.RemediationApproved
	f.State.Policy.Rules, f.Report.Rules = []string{"eu", "us", "anywhere"}, map[string]int{"eu": 30, "us": 10}
	f.Report.Matched, f.Report.Moved, f.Report.Violations = 40, 12, 12
	f.Report.Plan = &remediation.Plan{
		Digest: "7cb1c2f6d1", Cause: remediation.Cause{Policy: true}, Causes: []string{`generation 4 of PlacementPolicy "zones" came into force`},
		Generation: 4, Since: since, Moves: 12,
		Transitions: []remediation.Transition{
			{Change: placement.Change{Field: "annotations", Key: "placement.berth.dev/clusters", From: new(`["eu-1"]`), To: new(`["eu-2"]`)}, Objects: 10},
			{Change: placement.Change{Field: "annotations", Key: "placement.berth.dev/clusters", From: new(`["us-1"]`), To: new(`["us-2"]`)}, Objects: 2},
		},
	}
	for i := range 5 {
		f.Report.Sample = append(f.Report.Sample, placementv1.Violation{
			Object: web(i).Reference(), Message: `annotation placement.berth.dev/clusters is ["eu-1"], should be ["eu-2"]`,
		})
	}
}

// withDelivery makes the facts those of a policy that delivers objects, of which some are being moved.
func withDelivery(f *policystatus.Facts) {
	f.State.Policy.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
	f.Delivery, f.DeliverySettled = delivery.Report{Placed: 40, Delivered: 40, Reported: 40, Running: 38, Systems: []string{"karmada"}}, true
	f.Waiting.Moves = []remediation.Move{{Key: web(6), Since: since, Deadline: since.Add(time.Minute)}, {Key: web(7), Since: since, Deadline: since.Add(time.Minute)}}
}

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

package metrics_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/metrics"
)

// TestRules checks how many objects the metric says that each rule decides, and that rules and policies that are gone have no series.
func TestRules(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	m.AddPolicy("p")
	expect := func(when string, want map[string]float64) {
		t.Helper()
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, one := range f.GetMetric() {
				if f.GetName() == "berth_policy_rule_objects" {
					got[one.GetLabel()[0].GetValue()+"/"+one.GetLabel()[1].GetValue()] = one.GetGauge().GetValue()
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	m.Rules("p", nil, map[string]int{"eu": 3, "rest": 0})
	expect("two rules", map[string]float64{"p/eu": 3, "p/rest": 0})
	m.Rules("p", []string{"eu", "rest"}, map[string]int{"eu": 5})
	expect("a rule is gone", map[string]float64{"p/eu": 5})
	m.ForgetPolicy("p")
	expect("the policy is gone", map[string]float64{})
}

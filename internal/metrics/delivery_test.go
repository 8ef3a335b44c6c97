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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/metrics"
)

// TestDelivery checks that each placed object counts in the states that it is in, and that series are removed with the delivery or the
// policy.
func TestDelivery(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	m.AddPolicy("p")
	m.AddPolicy("q")
	expect := func(what string, want map[string]float64) {
		t.Helper()
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			if family.GetName() != "berth_policy_delivery" {
				continue
			}
			for _, series := range family.GetMetric() {
				var labels []string
				for _, l := range series.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				got[strings.Join(labels, " ")] = series.GetGauge().GetValue()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	m.Delivery("p", nil)
	m.Delivery("unknown", &metrics.Delivery{Placed: 1})
	expect("without delivery", map[string]float64{})
	m.Delivery("p", &metrics.Delivery{})
	expect("without objects", map[string]float64{"p delivered": 0, "p delivering": 0, "p failed": 0})
	m.Delivery("p", &metrics.Delivery{Placed: 9, Delivered: 4, Failed: 3, Reported: 7, Running: 2, Runs: true})
	reported := map[string]float64{"p delivered": 4, "p delivering": 2, "p failed": 3, "p running": 2, "p not_running": 5}
	expect("with reports", reported)
	m.Delivery("p", &metrics.Delivery{Placed: 9, Delivered: 9, Reported: 7, Running: 2})
	expect("with reports that can't be read", map[string]float64{"p delivered": 9, "p delivering": 0, "p failed": 0})
	m.Delivery("q", &metrics.Delivery{Placed: 1, Delivered: 1})
	m.Delivery("p", nil)
	expect("after the end of delivery", map[string]float64{"q delivered": 1, "q delivering": 0, "q failed": 0})
	m.ForgetPolicy("q")
	expect("after the end of the policy", map[string]float64{})
}

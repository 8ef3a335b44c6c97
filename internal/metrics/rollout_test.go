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

// rolloutSeries returns the values of the series of rollouts that are not 0, by name and labels.
func rolloutSeries(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "berth_policy_rollout_") {
			continue
		}
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if value := m.GetGauge().GetValue(); value != 0 {
				out[name] = value
			}
		}
	}
	return out
}

// TestRollout checks that each state has a value of the label, and that series are removed with the rollout or the policy.
func TestRollout(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	m.AddPolicy("p")
	m.AddPolicy("q")
	expect := func(want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, rolloutSeries(t, r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	m.Rollout("p", nil)
	m.Rollout("unknown", &metrics.Rollout{State: metrics.RolloutPaused})
	expect(map[string]float64{})
	for _, state := range []string{"progressing", "soaking", "waiting_for_approval", "paused", "complete", "rolled_back"} {
		m.Rollout("p", &metrics.Rollout{State: state, Stages: 3, Reached: 1})
		expect(map[string]float64{"berth_policy_rollout_state p " + state: 1, "berth_policy_rollout_stages p": 3, "berth_policy_rollout_stages_reached p": 1})
	}
	m.Rollout("q", &metrics.Rollout{State: metrics.RolloutComplete})
	m.Rollout("p", nil)
	expect(map[string]float64{"berth_policy_rollout_state q complete": 1})
	m.ForgetPolicy("q")
	for _, s := range series(t, r) {
		if strings.Contains(s, "rollout") {
			t.Errorf("%s is left", s)
		}
	}
}

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
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/metrics"
)

// series returns the registry's series as name{label=value,...}, sorted.
func series(t *testing.T, r *prometheus.Registry) []string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := []string{}
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out = append(out, family.GetName()+"{"+strings.Join(labels, ",")+"}")
		}
	}
	slices.Sort(out)
	return out
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	touch := func(policy string) {
		m.Decision(policy, metrics.SourceAdmission, metrics.OutcomeError, time.Millisecond)
		m.Decision(policy, metrics.SourceRemediation, metrics.OutcomeChanged, time.Millisecond)
		m.Violations(policy, 3)
		m.Remediation(policy, metrics.RemediationPatched)
	}
	m.AddPolicy("p")
	m.AddPolicy("p.q")
	touch("p")
	touch("p.q")
	touch("unknown")
	m.Admission("denied", time.Second)
	r.MustRegister(metrics.NewPolicies(func() iter.Seq[string] { return slices.Values([]string{}) }))
	held := []metrics.Replica{{Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Objects: 5, Bytes: 600, Confirmed: time.Unix(7, 0)}}
	r.MustRegister(metrics.NewReplication(func() []metrics.Replica { return held }))
	ofPolicy := func(name string) []string {
		return []string{
			"berth_decision_errors_total{policy=" + name + ",source=admission}",
			"berth_decisions_total{outcome=changed,policy=" + name + ",source=remediation}",
			"berth_decisions_total{outcome=error,policy=" + name + ",source=admission}",
			"berth_remediations_total{outcome=patched,policy=" + name + "}",
			"berth_violations{policy=" + name + "}",
		}
	}
	common := []string{
		"berth_admission_duration_seconds{answer=denied}",
		"berth_decision_memo_total{result=hit}", "berth_decision_memo_total{result=miss}",
		"berth_decision_duration_seconds{source=admission}", "berth_decision_duration_seconds{source=remediation}",
		"berth_policies{state=broken}", "berth_policies{state=in_force}", "berth_policies{state=last_good}",
		"berth_quota_charge_conflicts_total{}",
		"berth_rule_memo_total{result=hit}", "berth_rule_memo_total{result=miss}",
		"berth_webhook_unauthenticated_requests_total{}",
	}
	replicated := []string{
		"berth_replicated_bytes{resource=deployments.apps}", "berth_replicated_confirmed_timestamp_seconds{resource=deployments.apps}",
		"berth_replicated_objects{resource=deployments.apps}",
	}
	expect := func(when string, parts ...[]string) {
		t.Helper()
		want := slices.Sorted(slices.Values(slices.Concat(parts...)))
		if diff := cmp.Diff(want, series(t, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("two policies", common, ofPolicy("p"), ofPolicy("p.q"), replicated)
	m.ForgetPolicy("p")
	expect("one policy is gone", common, ofPolicy("p.q"), replicated)
	// Work in progress for a deleted policy must not recreate its series.
	touch("p")
	expect("a late decision", common, ofPolicy("p.q"), replicated)
	held = nil
	m.ForgetPolicy("p.q")
	m.ForgetPolicy("unknown")
	expect("everything is gone", common)
	m.AddPolicy("p")
	touch("p")
	expect("a policy is back", common, ofPolicy("p"))

	if _, err := metrics.New(r); err == nil {
		t.Error("the metrics are registered twice")
	}
}

func TestNamesAndHelp(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	m.AddPolicy("p")
	m.Decision("p", metrics.SourceAdmission, metrics.OutcomeError, 0)
	m.Admission("allowed", 0)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "berth_") || !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: %s", f.GetName(), f.GetHelp())
		}
	}
}

func TestPolicies(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.NewPolicies(func() iter.Seq[string] {
		return slices.Values([]string{metrics.StateInForce, metrics.StateBroken, metrics.StateInForce, metrics.StateLastGood, metrics.StateBroken, metrics.StateInForce})
	}))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{metrics.StateInForce: 3, metrics.StateLastGood: 1, metrics.StateBroken: 2}, got); diff != "" {
		t.Errorf("policies by state (-want +got):\n%s", diff)
	}
}

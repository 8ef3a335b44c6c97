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
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/metrics"
)

// TestQuotaMetrics checks that a quota's series exist as long as the quota.
func TestQuotaMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	key := metrics.QuotaKey{Kind: metrics.KindScopedQuota, Namespace: "n", Name: "q"}
	q := metrics.QuotaUsage{QuotaKey: key, Hard: map[string]float64{"pods": 10, "requests.cpu": 1.5}, Used: map[string]float64{"pods": 3}}
	leads := true
	r.MustRegister(metrics.NewQuotaUsage(func() []metrics.QuotaUsage {
		if leads {
			return []metrics.QuotaUsage{q}
		}
		return nil
	}))
	touch := func() {
		m.QuotaDenial(key)
		m.QuotaDrift(key)
		m.QuotaAdmission(metrics.QuotaDenied, time.Millisecond)
	}
	ofQuotas := func() []string {
		return slices.DeleteFunc(series(t, r), func(s string) bool { return len(s) < 12 || s[:12] != "berth_quota_" })
	}
	common := []string{"berth_quota_admission_duration_seconds{answer=denied}", "berth_quota_charge_conflicts_total{}"}
	usage := []string{
		"berth_quota_hard{kind=ScopedQuota,name=q,namespace=n,resource=pods}",
		"berth_quota_hard{kind=ScopedQuota,name=q,namespace=n,resource=requests.cpu}",
		"berth_quota_used{kind=ScopedQuota,name=q,namespace=n,resource=pods}",
	}
	own := []string{"berth_quota_denials_total{kind=ScopedQuota,name=q,namespace=n}", "berth_quota_drift_total{kind=ScopedQuota,name=q,namespace=n}"}
	expect := func(when string, parts ...[]string) {
		t.Helper()
		if diff := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(parts...))), ofQuotas()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	touch()
	expect("a quota that is not known", common, usage)
	m.AddQuota(key)
	touch()
	expect("a quota", common, usage, own)
	leads = false
	expect("another replica leads", common, own)
	m.ForgetQuota(key)
	touch()
	expect("the quota is gone", common)
}

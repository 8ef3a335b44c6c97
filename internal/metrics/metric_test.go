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
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/metrics"
)

// TestAllIsWhatIsRegistered checks that the registered metrics are exactly the declared ones.
func TestAllIsWhatIsRegistered(t *testing.T) {
	r := prometheus.NewRegistry()
	if _, err := metrics.New(r); err != nil {
		t.Fatal(err)
	}
	r.MustRegister(metrics.NewReplication(func() []metrics.Replica { return nil }),
		metrics.NewCircuits(func() map[string]bool { return nil }), metrics.NewPolicies(func() iter.Seq[string] { return slices.Values([]string{}) }),
		metrics.NewQuotaUsage(func() []metrics.QuotaUsage { return nil }), metrics.NewClusters(func(int) []metrics.ClusterCount { return nil }),
		metrics.NewCertificateExpiry(func() time.Time { return time.Time{} }, metrics.ManagementSelf))
	described := make(chan *prometheus.Desc, 100)
	r.Describe(described)
	close(described)
	form := regexp.MustCompile(`^Desc{fqName: "(.*)", help: "(.*?)",.* variableLabels: ({.*})}$`)
	var got, want []string
	for d := range described {
		parts := form.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("a description of another form: %s", d)
		}
		got = append(got, strings.Join(parts[1:], " "))
	}
	for _, m := range metrics.All() {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, l.Name)
		}
		want = append(want, fmt.Sprintf("%s %s {%s}", m.Name, m.Help, strings.Join(labels, ",")))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registered (-declared +registered):\n%s", diff)
	}
}

// TestDeclarations checks that the names and units of metrics follow the conventions of Prometheus.
func TestDeclarations(t *testing.T) {
	names := map[string]bool{}
	for _, m := range metrics.All() {
		if names[m.Name] {
			t.Errorf("%s is declared twice", m.Name)
		}
		names[m.Name] = true
		if !regexp.MustCompile(`^berth_[a-z]+(_[a-z]+)*$`).MatchString(m.Name) || !strings.HasSuffix(m.Help, ".") || strings.Count(m.Help, ".") != 1 {
			t.Errorf("%s: %s", m.Name, m.Help)
		}
		if (m.Type == metrics.Counter) != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s", m.Name, m.Type)
		}
		if m.Type == metrics.Histogram && !strings.HasSuffix(m.Name, "_seconds") {
			t.Errorf("%s has no unit", m.Name)
		}
		if m.Reporter == "" {
			t.Errorf("%s: nobody reports it", m.Name)
		}
		labels := map[string]bool{}
		for _, l := range m.Labels {
			labels[l.Name] = true
		}
		if len(labels) != len(m.Labels) || slices.Contains(slices.Collect(maps.Keys(labels)), "") {
			t.Errorf("%s has labels %v", m.Name, m.Labels)
		}
	}
}

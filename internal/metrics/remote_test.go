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
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/metrics"
)

// remoteSeries returns the series of remote engines with their values. The value of a histogram is its number of
// observations.
func remoteSeries(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), "berth_remote_")
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if ok {
				out[name+" "+strings.Join(values, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

func TestRemote(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := metrics.New(r)
	if err != nil {
		t.Fatal(err)
	}
	const opa, gone = "https://opa.example", "https://gone.example"
	for _, endpoint := range []string{opa, gone} {
		m.Remote.Add(endpoint)
		m.Remote.Requested(endpoint, "", time.Millisecond)
		m.Remote.Requested(endpoint, string(engine.FaultTimeout), time.Second)
		m.Remote.Requested(endpoint, string(engine.FaultCircuitOpen), 0)
		m.Remote.Pushed(endpoint, "")
		m.Remote.Loading(endpoint)
		m.Remote.Pending(endpoint, 7)
	}
	m.Remote.Forget(gone)
	// Requests in progress do not recreate the series.
	m.Remote.Requested(gone, "", time.Millisecond)
	m.Remote.Pushed(gone, string(engine.FaultServer))
	m.Remote.Loading(gone)
	m.Remote.Pending(gone, 1)
	want := map[string]float64{
		"requests_total " + opa + " none": 1, "requests_total " + opa + " timeout": 1, "requests_total " + opa + " circuit_open": 1,
		// A request that was not sent has no duration.
		"request_duration_seconds " + opa: 2,
		"pushes_total " + opa + " none":   1, "loads_total " + opa: 1, "pending_changes " + opa: 7,
	}
	if diff := cmp.Diff(want, remoteSeries(t, r)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	m.Remote.Released(opa)
	for name := range remoteSeries(t, r) {
		if !strings.HasPrefix(name, "request") {
			t.Errorf("of an engine that is no longer supplied there is %s", name)
		}
	}
}

func TestCircuits(t *testing.T) {
	open := map[string]bool{"https://a": true, "https://b": true, "https://c": false}
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.NewCircuits(func() map[string]bool { return open }))
	want := map[string]float64{"circuit_open https://a": 1, "circuit_open https://b": 1, "circuit_open https://c": 0}
	if diff := cmp.Diff(want, remoteSeries(t, r)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	open = nil
	if got := remoteSeries(t, r); len(got) > 0 {
		t.Errorf("no policy is decided elsewhere, and there are %v", got)
	}
}

// TestFaultsAreDeclared checks that every fault is a value of the label.
func TestFaultsAreDeclared(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../engine/engine.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{metrics.NoFault}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Fault") {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, value)
		}
		return true
	})
	slices.Sort(want)
	for _, m := range metrics.All() {
		for _, l := range m.Labels {
			if l.Name != "fault" {
				continue
			}
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(l.Values))); diff != "" {
				t.Errorf("faults of %s (-want +got):\n%s", m.Name, diff)
			}
		}
	}
}

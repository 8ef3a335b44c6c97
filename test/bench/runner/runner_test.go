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

package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const output = `goos: linux
pkg: github.com/berth-dev/berth/test/bench
BenchmarkDecision/clusters=50/by=OPA-2   	 100	 4000 ns/op	 300 cpu-ns/op	 947 B/op	 16862 allocs/op
BenchmarkDecision/clusters=50/by=Seen-2  	 100	 40 ns/op	 20 cpu-ns/op
PASS
BenchmarkDecision/clusters=50/by=OPA-2   	 100	 5000 ns/op	 100 cpu-ns/op	 949 B/op	 16862 allocs/op
BenchmarkDecision/clusters=50/by=Seen-2  	 100	 90 ns/op	 1 cpu-ns/op
BenchmarkAdmission/webhook=fixed/clients=16	800	62438926 p50-ns	233.4 req/s
`

func TestRead(t *testing.T) {
	got := figures{}
	if err := got.read(strings.NewReader(output)); err != nil {
		t.Fatal(err)
	}
	want := figures{
		"Decision/clusters=50/by=OPA": {
			"ns/op": {4000, 5000}, "cpu-ns/op": {300, 100}, "B/op": {947, 949}, "allocs/op": {16862, 16862},
		},
		"Decision/clusters=50/by=Seen":       {"ns/op": {40, 90}, "cpu-ns/op": {20, 1}},
		"Admission/webhook=fixed/clients=16": {"p50-ns": {62438926}, "req/s": {233.4}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestValue(t *testing.T) {
	f := figures{}
	if err := f.read(strings.NewReader(output + "BenchmarkDecision/by=None-2 100 12 cpu-ns/op\nBenchmarkDecision/by=None-2 100 -8 cpu-ns/op\n")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		b     bounds
		want  float64
		holds bool
	}{
		{"a figure", bounds{Of: "Decision/clusters=50/by=OPA", Unit: "B/op", AtMost: 948}, 948, true},
		{"a figure that is too great", bounds{Of: "Decision/clusters=50/by=OPA", Unit: "B/op", AtMost: 947}, 948, false},
		{"the median of the rounds' ratios", bounds{Of: "Decision/clusters=50/by=OPA", To: "Decision/clusters=50/by=Seen", Unit: "cpu-ns/op", AtLeast: 50}, 57.5, true},
		{"a ratio that is too small", bounds{Of: "Decision/clusters=50/by=OPA", To: "Decision/clusters=50/by=Seen", Unit: "cpu-ns/op", AtLeast: 58}, 57.5, false},
		{"the median of the ratios of what two add to a third", bounds{Of: "Decision/clusters=50/by=OPA", To: "Decision/clusters=50/by=Seen", Less: "Decision/by=None", Unit: "cpu-ns/op", AtMost: 24}, 24, true},
		{"what adds to nothing that was measured", bounds{Of: "Decision/clusters=50/by=OPA", To: "Decision/clusters=50/by=Seen", Less: "Decision/by=Nobody", Unit: "cpu-ns/op", AtMost: 24}, math.NaN(), false},
		{"what was not measured", bounds{Of: "Decision/clusters=50/by=Nobody", Unit: "B/op", AtMost: 1}, math.NaN(), false},
	} {
		got := c.b.value(f)
		if !(got == c.want || math.IsNaN(got) && math.IsNaN(c.want)) || c.b.holds(got) != c.holds {
			t.Errorf("%s: %v, holds %v, want %v, %v", c.name, got, c.b.holds(got), c.want, c.holds)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		values []float64
		unit   string
		want   string
	}{
		{[]float64{7e5, 625e3}, "ns/op", "625–700, "},
		{[]float64{9e5, 11e5}, "ns/op", "900 µs–1.1 ms, "},
		{[]float64{4, 4}, "allocs/op", ""},
		{[]float64{3, 4}, "allocs/op", "3–4, "},
	} {
		if got := span(c.values, c.unit); got != c.want {
			t.Errorf("span of %v %s is %q, want %q", c.values, c.unit, got, c.want)
		}
	}
}

func TestFiguresOfTheRanges(t *testing.T) {
	got := measuredFor([]bounds{{Of: "B", To: "A", Unit: "ns/op"}, {Of: "B", Unit: "B/op"}, {Of: "A", Less: "B", To: "C", Unit: "ns/op"}})
	want := []figure{{"A", "ns/op"}, {"B", "B/op"}, {"B", "ns/op"}, {"C", "ns/op"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestRangesThatAreRefused(t *testing.T) {
	const whole = "what: w, target: t, of: A, unit: "
	for name, text := range map[string]string{
		"a bound on a time":       "ranges: [{name: a, " + whole + "ns/op, atMost: 5}]",
		"two of a name":           "ranges: [{name: a, " + whole + "B/op}, {name: a, " + whole + "B/op}]",
		"one without a benchmark": "ranges: [{name: a, what: w, target: t, unit: B/op}]",
		"less without a ratio":    "ranges: [{name: a, " + whole + "B/op, less: B}]",
		"an unknown field":        "ranges: [{name: a, " + whole + "B/op, most: 5}]",
	} {
		path := filepath.Join(t.TempDir(), "ranges.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRanges(path); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// What ranges.yaml names is measured by some benchmark, as the committed results show, unless it awaits something.
func TestRangesAreMeasured(t *testing.T) {
	all, err := readRanges("../ranges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	results, err := os.ReadFile("../RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if b.Awaits != "" {
			continue
		}
		for _, name := range b.benchmarks() {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` +` + regexp.QuoteMeta(b.Unit) + ` `).Match(results) {
				t.Errorf("range %s: RESULTS.md has no %s of %s", b.Name, b.Unit, name)
			}
		}
	}
}

func TestExactly(t *testing.T) {
	got, want := exactly("Decision/clusters=50/by=OPA", "Plan"), "^BenchmarkDecision$/^clusters=50$/^by=OPA$|^BenchmarkPlan$"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestByFunction(t *testing.T) {
	functions, through := byFunction([]bounds{
		{Of: "Decision/by=OPA", To: "Decision/by=Seen"}, {Of: "Plan", Package: "./controllers"}, {Of: "Decision/by=Seen", To: "Plan"},
		{Of: "Decision", Package: "./controllers"}, {Of: "Admission/webhook=berth/clients=1"},
	})
	want := []function{
		{"./test/bench", []string{"Decision/by=OPA", "Decision/by=Seen"}}, {"./controllers", []string{"Plan"}}, {"./test/bench", []string{"Plan"}},
		{"./controllers", []string{"Decision"}},
	}
	if diff := cmp.Diff(want, functions, cmp.AllowUnexported(function{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Admission/webhook=berth/clients=1"}, through); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

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
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// figures are the values of benchmarks: by name, without Benchmark and the number of processors, then by unit, in the
// order in which they were measured.
type figures map[string]map[string][]float64

// read adds what a benchmark printed.
func (f figures) read(r io.Reader) error {
	reader := benchfmt.NewReader(r, "output")
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return record
		case *benchfmt.Result:
			name := nameOf(record.Name)
			if f[name] == nil {
				f[name] = map[string][]float64{}
			}
			for _, v := range record.Values {
				value, unit := v.Value, v.Unit
				if v.OrigUnit != "" {
					value, unit = v.OrigValue, v.OrigUnit
				}
				f[name][unit] = append(f[name][unit], value)
			}
		}
	}
	return reader.Err()
}

func nameOf(name benchfmt.Name) string {
	base, parts := name.Parts()
	var out strings.Builder
	out.Write(base)
	for _, p := range parts {
		if p[0] != '-' {
			out.Write(p)
		}
	}
	return out.String()
}

// median returns the middle of values; not a number if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// ratio returns, for each round, of divided by to. What was measured in the same round was so under the same load.
func ratio(of, to []float64) []float64 {
	out := make([]float64, min(len(of), len(to)))
	for i := range out {
		out[i] = of[i] / to[i]
	}
	return out
}

// difference returns, for each round, of without less.
func difference(of, less []float64) []float64 {
	out := make([]float64, min(len(of), len(less)))
	for i := range out {
		out[i] = of[i] - less[i]
	}
	return out
}

// text shows a value with its unit as people read it.
func text(value float64, unit string) string {
	switch {
	case math.IsNaN(value):
		return "not measured"
	case unit == "" && value >= 100:
		return fmt.Sprintf("%.0f", value)
	case unit == "":
		return fmt.Sprintf("%.3g", value)
	case strings.Contains(unit, "cpu-ms"):
		return text(value*1e6, "ns")
	case strings.Contains(unit, "cpu-s/"):
		return text(value*1e9, "ns")
	case strings.Contains(unit, "ns"):
		for _, scale := range []struct {
			of   float64
			name string
		}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
			if value >= scale.of {
				return fmt.Sprintf("%.3g %s", value/scale.of, scale.name)
			}
		}
		return fmt.Sprintf("%.3g ns", value)
	case strings.HasPrefix(unit, "B/"), strings.HasPrefix(unit, "heap-B/"):
		for _, scale := range []struct {
			of   float64
			name string
		}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
			if value >= scale.of {
				return fmt.Sprintf("%.3g %s", value/scale.of, scale.name)
			}
		}
		return fmt.Sprintf("%.0f B", value)
	default:
		return fmt.Sprintf("%.4g", value)
	}
}

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
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// writeResults writes what was measured, in Markdown.
func (o options) writeResults(ctx context.Context, f figures, all []bounds) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, `# Results

Written by `+"`make bench-results`"+`: medians of rounds that measure every variant once. A ratio is the median of the rounds' ratios.

- date: %s, at the commit %s
- machine: %s, %d cores, %s
- load average at the end: %s

`, time.Now().UTC().Format(time.DateOnly), o.commit(ctx), processor(), runtime.NumCPU(), runtime.Version(), load())
	out.WriteString("To reproduce: `make bench-results` on an idle machine. CI runs `make bench-check`; [ranges.yaml](ranges.yaml) has the\n" +
		"benchmarks of each target, and what CI asserts.\n\n## Targets\n\n")
	out.WriteString("| what | target | measured |\n| --- | --- | --- |\n")
	for _, b := range all {
		measured := b.shown(b.value(f))
		if b.Awaits != "" {
			measured = "awaits " + b.Awaits
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", b.What, b.Target, measured)
	}
	writeFigures(&out, f, all)
	return os.WriteFile(filepath.Join(o.root, o.results), out.Bytes(), 0o644)
}

// writeFigures writes the figures that the ranges need, in columns.
func writeFigures(out *bytes.Buffer, f figures, all []bounds) {
	measured := slices.DeleteFunc(measuredFor(all), func(of figure) bool { return len(f[of.benchmark][of.unit]) == 0 })
	benchmarks, units := 0, 0
	for _, of := range measured {
		benchmarks, units = max(benchmarks, len(of.benchmark)), max(units, len(of.unit))
	}
	out.WriteString("\n## Figures of the targets\n\n" +
		"Median (lowest–highest value, number of rounds):\n\n```text\n")
	for _, of := range measured {
		values := f[of.benchmark][of.unit]
		fmt.Fprintf(out, "%-*s %-*s %s (%s%d)\n", benchmarks, of.benchmark, units, of.unit,
			text(median(values), of.unit), span(values, of.unit), len(values))
	}
	out.WriteString("```\n")
}

// figure is one unit of a benchmark.
type figure struct{ benchmark, unit string }

// measuredFor returns the figures that the ranges need, sorted by their names.
func measuredFor(all []bounds) []figure {
	var out []figure
	for _, b := range all {
		for _, name := range b.benchmarks() {
			out = append(out, figure{name, b.Unit})
		}
	}
	slices.SortFunc(out, func(a, b figure) int {
		return cmp.Or(strings.Compare(a.benchmark, b.benchmark), strings.Compare(a.unit, b.unit))
	})
	return slices.Compact(out)
}

// span returns the lowest and the highest of the values before a comma, without the unit if both have that of the median.
// It is empty if both are the median.
func span(values []float64, unit string) string {
	middle, low, high := text(median(values), unit), text(slices.Min(values), unit), text(slices.Max(values), unit)
	if low == middle && high == middle {
		return ""
	}
	_, of, ok := strings.Cut(middle, " ")
	if ok && strings.HasSuffix(low, " "+of) && strings.HasSuffix(high, " "+of) {
		low, high = strings.TrimSuffix(low, " "+of), strings.TrimSuffix(high, " "+of)
	}
	return low + "–" + high + ", "
}

// commit names what was measured.
func (o options) commit(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD")
	cmd.Dir = o.root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

var modelName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

// processor is the machine's, as Linux names it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if m := modelName.FindSubmatch(text); err == nil && m != nil {
		return string(m[1])
	}
	return runtime.GOARCH
}

// load are the load averages of the last 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) >= 3 {
		return strings.Join(fields[:3], ", ")
	}
	return "unknown"
}

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
	"context"
	"fmt"
	"maps"
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

Written by `+"`make bench-results`"+`: medians of the rounds, in each of which every variant was measured once. A ratio is the
median of the rounds' ratios.

- date: %s, at the commit %s
- machine: %s, %d cores, %s
- load average at the end: %s; other work makes times longer, and hardly changes ratios and sizes

`, time.Now().UTC().Format(time.DateOnly), o.commit(ctx), processor(), runtime.NumCPU(), runtime.Version(), load())
	out.WriteString("To reproduce: `make bench-results` on a machine with nothing else to do, or `make bench | tee new.txt` and then\n`benchstat new.txt`. `make bench-check` is what CI runs; [ranges.yaml](ranges.yaml) says what it asserts.\n\n## Targets\n\n")
	out.WriteString("| what | target | measured | CI asserts |\n| --- | --- | --- | --- |\n")
	for _, b := range all {
		asserts := b.asserts()
		switch {
		case b.Awaits != "":
			asserts = "awaits " + b.Awaits
		case asserts == "":
			asserts = "-"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", b.What, b.Target, b.shown(b.value(f)), asserts)
	}
	out.WriteString("\n## All figures\n\nA name and a unit, the median, and the lowest and the highest of the rounds.\n\n| benchmark | unit | median | range | rounds |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for _, unit := range slices.Sorted(maps.Keys(f[name])) {
			values := f[name][unit]
			fmt.Fprintf(&out, "| %s | %s | %s | %s to %s | %d |\n", name, unit, text(median(values), unit),
				text(slices.Min(values), unit), text(slices.Max(values), unit), len(values))
		}
	}
	return os.WriteFile(filepath.Join(o.root, o.results), out.Bytes(), 0o644)
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

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

// Command runner runs benchmarks in turns, as many rounds as asked for, and prints what they print, in the form that
// benchstat reads. With -check it runs those that ranges.yaml asserts something of, and fails where the medians are out
// of range three times; with -results it writes the medians down.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/test/controlplane"
)

const (
	// endToEnd is the package whose command measures through an API server; all others have benchmarks of go test.
	endToEnd = "./test/bench/endtoend"
	inParts  = "./test/bench"
	// admission is what the benchmarks of endToEnd are called.
	admission = "Admission/"
	// tries is how often a range is measured before it counts as failed.
	tries = 3
)

type options struct {
	root           string
	count          int
	bench          string
	benchtime      string
	timeout        string
	ranges         string
	check          bool
	only           string
	results, input string
}

func main() {
	var o options
	flag.IntVar(&o.count, "count", 6, "How many rounds.")
	flag.StringVar(&o.bench, "bench", ".", "Regular expression of the benchmarks, as for go test.")
	flag.StringVar(&o.benchtime, "benchtime", "300ms", "How long each benchmark runs in a round, as for go test.")
	flag.StringVar(&o.timeout, "timeout", "60m", "How long a package's benchmarks may take.")
	flag.StringVar(&o.ranges, "ranges", "test/bench/ranges.yaml", "File with the ranges.")
	flag.BoolVar(&o.check, "check", false, "Run what the ranges assert something of, and compare.")
	flag.StringVar(&o.only, "only", "", "With -check, regular expression of the ranges' names.")
	flag.StringVar(&o.results, "results", "", "File to write medians and ranges to.")
	flag.StringVar(&o.input, "input", "", "File with what benchmarks printed before, in place of running any.")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := o.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, packages []string) (err error) {
	if o.root, err = controlplane.RepositoryRoot(); err != nil {
		return err
	}
	all, err := readRanges(filepath.Join(o.root, o.ranges))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.check {
		return o.checkRanges(ctx, dir, all)
	}
	f := figures{}
	if o.input != "" {
		file, err := os.Open(o.input)
		if err != nil {
			return err
		}
		defer file.Close()
		err = f.read(file)
		if err != nil {
			return err
		}
	} else if err := o.measure(ctx, dir, packages, f); err != nil {
		return err
	}
	if o.results == "" {
		return nil
	}
	return o.writeResults(ctx, f, all)
}

// measure runs all benchmarks of packages.
func (o options) measure(ctx context.Context, dir string, packages []string, f figures) error {
	var binaries, commands []string
	for _, p := range packages {
		binary := filepath.Join(dir, fmt.Sprintf("%d", len(binaries)+len(commands)))
		if p == endToEnd {
			if err := o.build(ctx, "build", "-o", binary, p); err != nil {
				return err
			}
			commands = append(commands, binary)
			continue
		}
		if err := o.build(ctx, "test", "-c", "-vet=off", "-o", binary+".test", p); err != nil {
			return err
		}
		// Without tests there is none.
		if _, err := os.Stat(binary + ".test"); err == nil {
			binaries = append(binaries, binary+".test", filepath.Join(o.root, p))
		}
	}
	for range o.count {
		for pair := range slices.Chunk(binaries, 2) {
			err := o.output(ctx, f, pair[1], pair[0], "-test.run=^$", "-test.bench="+o.bench, "-test.benchtime="+o.benchtime,
				"-test.timeout="+o.timeout)
			if err != nil {
				return err
			}
		}
	}
	for _, command := range commands {
		if err := o.output(ctx, f, o.root, command, fmt.Sprintf("-rounds=%d", o.count), "-bench="+o.bench); err != nil {
			return err
		}
	}
	return nil
}

// build runs go build or go test.
func (o options) build(ctx context.Context, verb string, args ...string) error {
	// Benchmarks need no table of symbols, which takes time to link.
	cmd := exec.CommandContext(ctx, "go", append([]string{verb, "-ldflags=-s"}, args...)...)
	cmd.Dir, cmd.Env = o.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running go %s %s: %w\n%s", verb, strings.Join(args, " "), err, out)
	}
	return nil
}

// buildParts builds the test binaries of packages at once, in a directory, and returns their paths by the packages' paths.
func (o options) buildParts(ctx context.Context, dir string, packages []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pkg := range packages {
		out[pkg] = filepath.Join(dir, filepath.Base(pkg)+".test")
	}
	return out, o.build(ctx, "test", slices.Concat([]string{"-c", "-vet=off", "-o", dir + string(filepath.Separator)}, packages)...)
}

// output runs a command, passes on what it prints and reads the figures from it.
func (o options) output(ctx context.Context, f figures, dir, command string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir, cmd.Stderr, cmd.Stdout = dir, os.Stderr, io.MultiWriter(os.Stdout, &out)
	// What it has started ends with it, given the time.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", filepath.Base(command), err)
	}
	return f.read(&out)
}

// checkRanges measures the asserted values, and measures those that were out of range again.
func (o options) checkRanges(ctx context.Context, dir string, all []bounds) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(all), func(b bounds) bool { return !b.asserted() || !only.MatchString(b.Name) })
	whole := filepath.Join(dir, "endtoend")
	if err := o.build(ctx, "build", "-o", whole, endToEnd); err != nil {
		return err
	}
	var packages []string
	for _, b := range left {
		packages = append(packages, b.pkg())
	}
	slices.Sort(packages)
	parts, err := o.buildParts(ctx, dir, slices.Compact(packages))
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		f := figures{}
		if err := o.measureRanges(ctx, parts, whole, left, f); err != nil {
			return err
		}
		fmt.Printf("\n%-36s %-16s %s\n", "range", "measured", "asserted")
		var failed []bounds
		for _, b := range left {
			value, verdict := b.value(f), "holds"
			if !b.holds(value) {
				verdict = "OUT OF RANGE"
				failed = append(failed, b)
			}
			fmt.Printf("%-36s %-16s %-24s %s\n", b.Name, b.shown(value), b.asserts(), verdict)
		}
		if len(failed) == 0 {
			return nil
		}
		if try == tries {
			return outOfRange(failed, f)
		}
		fmt.Printf("\nMeasuring %d ranges again\n", len(failed))
		left = failed
	}
}

// outOfRange says which ranges failed, with figures.
func outOfRange(failed []bounds, f figures) error {
	var lines []string
	for _, b := range failed {
		parts := []string{fmt.Sprintf("range %s: %s is %s, asserted is %s", b.Name, b.What, b.shown(b.value(f)), b.asserts())}
		for _, name := range b.benchmarks() {
			parts = append(parts, fmt.Sprintf("%s %s", name, text(median(f[name][b.Unit]), b.Unit)))
		}
		lines = append(lines, strings.Join(parts, "; "))
	}
	return fmt.Errorf("%d ranges failed %d times:\n%s", len(failed), tries, strings.Join(lines, "\n"))
}

// measureRanges runs each benchmark of the ranges once a round, in a process for those of one function, which often share what they
// prepare. parts are the packages' test binaries.
func (o options) measureRanges(ctx context.Context, parts map[string]string, whole string, left []bounds, f figures) error {
	functions, through := byFunction(left)
	for range o.count {
		for _, of := range functions {
			err := o.output(ctx, f, filepath.Join(o.root, of.pkg), parts[of.pkg], "-test.run=^$", "-test.bench="+exactly(of.names...),
				"-test.benchtime="+o.benchtime, "-test.timeout="+o.timeout)
			if err != nil {
				return err
			}
		}
	}
	if len(through) == 0 {
		return nil
	}
	var variants []string
	requests := map[string]int{many: 0, single: 0}
	for _, name := range through {
		variant, clients, _ := strings.Cut(name, "/clients=")
		if variant = regexp.QuoteMeta(variant); !slices.Contains(variants, variant) {
			variants = append(variants, variant)
		}
		requests[clients] = measured[clients]
	}
	return o.output(ctx, f, o.root, whole, fmt.Sprintf("-rounds=%d", o.count), fmt.Sprintf("-single=%d", requests[single]),
		fmt.Sprintf("-requests=%d", requests[many]), "-policies=0", "-bench=("+strings.Join(variants, "|")+")$")
}

// function is a function of a package, with the names of those of its benchmarks that are measured.
type function struct {
	pkg   string
	names []string
}

// byFunction returns the benchmarks of ranges by their functions, and those that measure through an API server.
func byFunction(ranges []bounds) (functions []function, through []string) {
	for _, b := range ranges {
		for _, name := range b.benchmarks() {
			if strings.HasPrefix(name, admission) {
				through = append(through, name)
				continue
			}
			root, _, _ := strings.Cut(name, "/")
			i := slices.IndexFunc(functions, func(f function) bool {
				other, _, _ := strings.Cut(f.names[0], "/")
				return f.pkg == b.pkg() && other == root
			})
			if i < 0 {
				functions = append(functions, function{pkg: b.pkg(), names: []string{name}})
			} else if !slices.Contains(functions[i].names, name) {
				functions[i].names = append(functions[i].names, name)
			}
		}
	}
	return functions, through
}

// Numbers of clients, as the names of the end-to-end benchmarks have them.
const (
	single = "1"
	many   = "16"
)

// measured is how many requests a round of the ranges makes, by the number of clients: enough for processor times, which
// the kernel counts in hundredths of a second.
var measured = map[string]int{many: 500, single: 200}

// exactly is the regular expression by which go test runs some benchmarks and no others.
func exactly(names ...string) string {
	alternatives := make([]string, len(names))
	for i, name := range names {
		parts := strings.Split("Benchmark"+name, "/")
		for j, p := range parts {
			parts[j] = "^" + regexp.QuoteMeta(p) + "$"
		}
		alternatives[i] = strings.Join(parts, "/")
	}
	return strings.Join(alternatives, "|")
}

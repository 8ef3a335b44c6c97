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

// Command testreport prints what one run of tests has to say beside its failures: the slowest packages and specs, and a line
// FLAKY for each test that failed and then passed when it ran again alone.
//
// It reads a directory that gotestsum and the package test/suite filled: events.json has the events of go test, and the other
// JSON files are Ginkgo's reports. It writes the output of each failed run into the directory logs, the slowest ones into the file
// slowest, and the lines FLAKY into the file flaky. It exits with 0 whatever the tests did.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/berth-dev/berth/test/suite"
)

const modulePath = "github.com/berth-dev/berth/"

func main() {
	most := flag.Int("most", 10, "how many packages and specs are listed")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "Error: name the directory of the reports")
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), *most); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir string, most int) error {
	all, err := read(dir)
	if err != nil {
		return err
	}
	var slowest bytes.Buffer
	printSlowest(&slowest, "packages", "took", all.packages, most)
	printSlowest(&slowest, "suites", "used a processor for", all.processor, most)
	printSlowest(&slowest, "specs and tests", "took", all.specs, most)
	if _, err := out.Write(slowest.Bytes()); err != nil {
		return fmt.Errorf("printing the slowest tests: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "slowest"), slowest.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the list of the slowest tests: %w", err)
	}
	flaky, err := all.writeLogs(dir)
	if err != nil {
		return err
	}
	text := strings.Join(flaky, "")
	fmt.Fprint(out, text)
	if err := os.WriteFile(filepath.Join(dir, "flaky"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the list of flaky tests: %w", err)
	}
	return nil
}

// timing is how long a package or a spec took.
type timing struct {
	name    string
	elapsed time.Duration
}

// failure is a test or spec that failed in its first run.
type failure struct {
	name, seed, output string
	// passed reports whether it passed in its second run.
	passed bool
}

// results are the times of all packages and of all specs and tests, the processor times of the suites, and the failures.
type results struct {
	packages, processor, specs []timing
	failures                   []failure
}

func printSlowest(out io.Writer, what, how string, timings []timing, most int) {
	if len(timings) == 0 {
		return
	}
	slices.SortStableFunc(timings, func(a, b timing) int { return cmp.Compare(b.elapsed, a.elapsed) })
	var sum time.Duration
	for _, t := range timings {
		sum += t.elapsed
	}
	fmt.Fprintf(out, "\nOf %d %s, which %s %s together, the most:\n", len(timings), what, how, sum.Round(time.Second))
	for _, t := range timings[:min(most, len(timings))] {
		fmt.Fprintf(out, "  %7.1fs  %s\n", t.elapsed.Seconds(), t.name)
	}
}

// writeLogs writes the output of each failure into a file of its own, in the directory logs beside the reports in dir, and returns a line
// for each failure whose test passed when it ran again.
func (r *results) writeLogs(dir string) ([]string, error) {
	var flaky []string
	for i, f := range r.failures {
		logs := filepath.Join(dir, "logs")
		if err := os.MkdirAll(logs, 0o700); err != nil {
			return nil, fmt.Errorf("making the directory of logs: %w", err)
		}
		path := filepath.Join(logs, fmt.Sprintf("%d.log", i+1))
		if err := os.WriteFile(path, []byte(f.name+"\n"+f.seed+"\n\n"+f.output), 0o600); err != nil {
			return nil, fmt.Errorf("writing the log of a failure: %w", err)
		}
		if f.passed {
			flaky = append(flaky, fmt.Sprintf("FLAKY %s (%slog: %s, reports: %s)\n", f.name, f.seed, path, dir))
		}
	}
	return flaky, nil
}

func read(dir string) (*results, error) {
	out := &results{}
	suites, err := out.readSpecs(dir)
	if err != nil {
		return nil, err
	}
	if err := out.readEvents(filepath.Join(dir, "events.json"), suites); err != nil {
		return nil, err
	}
	// A test fails with each of its subtests.
	all := slices.Clone(out.failures)
	out.failures = slices.DeleteFunc(out.failures, func(f failure) bool {
		return slices.ContainsFunc(all, func(sub failure) bool { return strings.HasPrefix(sub.name, f.name+"/") })
	})
	return out, nil
}

// readSpecs adds what Ginkgo reported, and returns the names of the Go tests that ran the suites.
func (r *results) readSpecs(dir string) (suites map[string]bool, err error) {
	suites = map[string]bool{}
	runs, err := suite.ReadRuns(dir)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		suites[run.Package+": "+run.Test] = true
		if run.ProcessorTime > 0 {
			r.processor = append(r.processor, timing{run.Package, run.ProcessorTime})
		}
		again := map[string]bool{}
		for _, spec := range specsOf(run.Again) {
			again[spec.FullText()] = spec.State.Is(types.SpecStatePassed)
		}
		for _, spec := range specsOf(run.First) {
			name := run.Package + ": " + cmp.Or(spec.FullText(), spec.LeafNodeType.String())
			if spec.LeafNodeType.Is(types.NodeTypeIt) && !spec.State.Is(types.SpecStateSkipped|types.SpecStatePending) {
				r.specs = append(r.specs, timing{name, spec.RunTime})
			}
			if spec.State.Is(types.SpecStateFailureStates) {
				r.failures = append(r.failures, failure{
					name: name, seed: fmt.Sprintf("-ginkgo.seed=%d, ", run.First[0].SuiteConfig.RandomSeed), output: outputOf(spec),
					passed: again[spec.FullText()] || !spec.LeafNodeType.Is(types.NodeTypeIt) && succeeded(run.Again),
				})
			}
		}
	}
	return suites, nil
}

func specsOf(reports []types.Report) []types.SpecReport {
	var out []types.SpecReport
	for _, r := range reports {
		out = append(out, r.SpecReports...)
	}
	return out
}

func succeeded(reports []types.Report) bool {
	return len(reports) > 0 && !slices.ContainsFunc(reports, func(r types.Report) bool { return !r.SuiteSucceeded })
}

func outputOf(spec types.SpecReport) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n\n%s\n", spec.Failure.Location, spec.Failure.Message, spec.CapturedGinkgoWriterOutput)
	for _, more := range spec.AdditionalFailures {
		fmt.Fprintf(&out, "\n%s\n%s\n", more.Failure.Location, more.Failure.Message)
	}
	return out.String()
}

// event is one event of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// readEvents adds what go test reported. The tests that ran suites are left out, since their specs are added already.
func (r *results) readEvents(path string, suites map[string]bool) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the events of go test: %w", err)
	}
	defer file.Close()
	output, failed, ran := map[string]*strings.Builder{}, map[string]int{}, map[string]bool{}
	for decoder := json.NewDecoder(bufio.NewReader(file)); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decoding the events of go test in %s: %w", path, err)
		}
		name := strings.TrimPrefix(e.Package, modulePath)
		if e.Test == "" {
			// A package with a failed test runs again.
			if (e.Action == "pass" || e.Action == "fail") && !ran[name] {
				ran[name] = true
				r.packages = append(r.packages, timing{name, time.Duration(e.Elapsed * float64(time.Second))})
			}
			continue
		}
		test := name + ": " + e.Test
		switch e.Action {
		case "output":
			if output[test] == nil {
				output[test] = &strings.Builder{}
			}
			output[test].WriteString(e.Output)
		case "pass", "skip":
			if i, known := failed[test]; known {
				r.failures[i].passed = true
			}
			if !suites[test] && !strings.Contains(e.Test, "/") {
				r.specs = append(r.specs, timing{test, time.Duration(e.Elapsed * float64(time.Second))})
			}
			delete(output, test)
		case "fail":
			if _, known := failed[test]; !known && !suites[test] {
				failed[test] = len(r.failures)
				f := failure{name: test}
				if written := output[test]; written != nil {
					f.output = written.String()
				}
				r.failures = append(r.failures, f)
			}
			delete(output, test)
		}
	}
}

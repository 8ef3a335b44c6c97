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

// Package suite runs the Ginkgo specs of a package, and keeps a report of each run. gotestsum runs a failed suite a second
// time. Then only the specs that failed before run, with the seed of the first run.
package suite

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/controlplane"
)

// ReportsVariable is the environment variable that names the directory of the reports. Without it, Run keeps no report and runs
// all specs each time.
const ReportsVariable = "BERTH_TEST_REPORTS"

const (
	firstSuffix = ".first.json"
	againSuffix = ".again.json"
	factsSuffix = ".facts.json"
)

// Benchmarks is the label of specs that are benchmarks. Run skips them unless the label filter selects them.
const Benchmarks = "benchmark"

// Run runs the specs of the package.
func Run(t ginkgo.GinkgoTestingT, description string) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	config, reporter := ginkgo.GinkgoConfiguration()
	config.LabelFilter = cmp.Or(config.LabelFilter, "!"+Benchmarks)
	// With a large budget, a suite takes longer than the hour after which Ginkgo ends it. The limit of go test holds for all budgets.
	config.Timeout = max(config.Timeout, time.Duration(budget.Rounds(1))*time.Hour)
	dir := os.Getenv(ReportsVariable)
	if dir == "" {
		ginkgo.RunSpecs(t, description, config, reporter)
		return
	}
	path, err := reportPath(dir, description)
	if err == nil {
		reporter.JSONReport, err = prepare(path, &config)
	}
	if err == nil {
		ginkgo.RunSpecs(t, description, config, reporter)
		if reporter.JSONReport == path+firstSuffix {
			err = writeFacts(path+factsSuffix, t)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		t.Fail()
	}
}

// writeFacts writes the facts of a run that has ended. They include the processor time of all processes that it started and that have
// ended.
func writeFacts(path string, t ginkgo.GinkgoTestingT) error {
	var facts Facts
	if named, ok := t.(interface{ Name() string }); ok {
		facts.Test = named.Name()
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return fmt.Errorf("reading the processor time: %w", err)
		}
		facts.ProcessorTime += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("encoding the facts of a suite: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("writing the facts of a suite: %w", err)
	}
	return nil
}

// RunBenchmarks runs the specs of the package that are benchmarks, in their order, for at most a day.
func RunBenchmarks(b ginkgo.GinkgoTestingT, description string) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	config, reporter := ginkgo.GinkgoConfiguration()
	config.LabelFilter, config.RandomizeAllSpecs, config.Timeout = Benchmarks, false, 24*time.Hour
	ginkgo.RunSpecs(b, description, config, reporter)
}

// Runs are the reports of the runs of one suite.
type Runs struct {
	// Package is the directory of the suite, relative to the repository.
	Package string
	// First has the report of all specs. Again has the report of those that failed, if the suite ran again.
	First, Again []types.Report
	Facts
}

// Facts are what Ginkgo does not report of the first run.
type Facts struct {
	// Test is the name of the Go test that ran the suite.
	Test string
	// ProcessorTime is what the run took, of its own process and of those that it started, such as control planes.
	ProcessorTime time.Duration
}

// ReadRuns returns what Run left in a directory of reports, sorted by package. It ignores all other files.
func ReadRuns(dir string) ([]Runs, error) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+firstSuffix))
	if err != nil {
		return nil, fmt.Errorf("looking for reports: %w", err)
	}
	var out []Runs
	for _, path := range paths {
		var run Runs
		if run.First, err = readReports(path); err != nil {
			return nil, err
		}
		if run.Again, err = readReports(strings.TrimSuffix(path, firstSuffix) + againSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// A suite that did not end has none.
		text, err := os.ReadFile(strings.TrimSuffix(path, firstSuffix) + factsSuffix)
		if err == nil {
			err = json.Unmarshal(text, &run.Facts)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading the facts of a suite: %w", err)
		}
		if run.Package, err = filepath.Rel(root, run.First[0].SuitePath); err != nil {
			return nil, fmt.Errorf("naming a suite: %w", err)
		}
		out = append(out, run)
	}
	return out, nil
}

func readReports(path string) ([]types.Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	var out []types.Report
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("decoding the report %s: %w", path, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the report %s is empty", path)
	}
	return out, nil
}

// reportPath returns the path, without its suffix, of the reports of the suite in the working directory.
func reportPath(dir, description string) (string, error) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return "", err
	}
	working, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the directory of the suite: %w", err)
	}
	name, err := filepath.Rel(root, working)
	if err != nil {
		return "", fmt.Errorf("naming the suite: %w", err)
	}
	return filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(name), "/", "_")+"."+strings.ReplaceAll(description, " ", "-")), nil
}

// prepare returns where the report of this run goes. If a report of a first run with failed specs exists, it restricts the
// run to these specs.
func prepare(path string, config *types.SuiteConfig) (string, error) {
	first, err := readReports(path + firstSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return path + firstSuffix, nil
	}
	if err != nil {
		return "", err
	}
	for _, report := range first {
		config.RandomSeed = report.SuiteConfig.RandomSeed
		config.FocusStrings = slices.Concat(config.FocusStrings, focusOf(report))
	}
	return path + againSuffix, nil
}

// focusOf returns regular expressions that match the specs of a report that failed. It returns none, so that all specs run, if a
// node of the whole suite failed. A spec of an ordered container needs the specs before it, so it selects the whole container.
func focusOf(report types.Report) []string {
	var out []string
	for _, spec := range report.SpecReports {
		if !spec.State.Is(types.SpecStateFailureStates) {
			continue
		}
		switch {
		case !spec.LeafNodeType.Is(types.NodeTypeIt):
			return nil
		case spec.IsInOrderedContainer:
			out = append(out, "^"+regexp.QuoteMeta(report.SuiteDescription+" "+spec.ContainerHierarchyTexts[0]+" "))
		default:
			out = append(out, "^"+regexp.QuoteMeta(report.SuiteDescription+" "+spec.FullText())+"$")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

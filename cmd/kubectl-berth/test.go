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
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/casetest"
)

const testLong = `Test policies by cases in YAML files. A case is an object and what policies decide about it: the clusters, labels,
annotations, and pod spec that it gets, whether it is denied, and why a cluster is not chosen. It needs no cluster.

Paths are files, or directories in which all files whose names end with ` + casetest.Suffix + ` are run.

The exit code is 0 if all cases pass, and 1 otherwise.`

const testExample = `  # All cases below a directory
  kubectl berth test policies/

  # Some cases, with the lines that they do not evaluate
  kubectl berth test policies/ --run 'data residency' --coverage`

// testOptions are the flags of the test command: --run, --watch, --coverage, --coverage-min, --output, and those of the manager's settings.
type testOptions struct {
	simulationFlags
	// run is a regular expression that the names of the cases to run match; empty for all. output is json or junit; empty for text.
	run, output string
	coverage    bool    // prints what percentage of the lines with expressions the cases evaluate, as a coverageMin above 0 does
	watch       bool    // runs the cases again after each change of a file
	coverageMin float64 // the least coverage, in percent, with which the command succeeds
}

func newTest(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &testOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	cmd := &cobra.Command{
		Use:     "test [PATH...]",
		Short:   "Test policies by cases in files",
		Long:    testLong,
		Example: testExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			if o.watch {
				return o.runOnChanges(cmd.Context(), args)
			}
			return o.runAll(cmd.Context(), args)
		},
	}
	o.addSettings(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "A regular expression. Only cases whose names match it run.")
	f.BoolVar(&o.watch, "watch", false, "Run the cases again each time a file in the directories of the paths changes, until the command is "+
		"interrupted.")
	f.BoolVar(&o.coverage, "coverage", false, "Print how much of the policies' text the cases evaluate.")
	f.Float64Var(&o.coverageMin, "coverage-min", 0, "Fail if the cases evaluate fewer than this many percent of the lines with expressions.")
	f.StringVarP(&o.output, "output", "o", "", "Output format: json or junit. Without it, text.")
	return cmd
}

// testReport is the output of the test command: the results of the cases that ran and, if it is measured, the coverage.
type testReport struct {
	Results  []casetest.Result         `json:"results"`
	Coverage []casetest.PolicyCoverage `json:"coverage,omitempty"`
	// CoveragePercent is the coverage of all policies together; nil if it is not measured.
	CoveragePercent *float64 `json:"coveragePercent,omitempty"`
}

// failed returns the number of cases that failed.
func (r *testReport) failed() int {
	failed := 0
	for _, result := range r.Results {
		if len(result.Failures) > 0 {
			failed++
		}
	}
	return failed
}

// runAll runs the cases in the paths once, and prints the results. It returns an error if a file can't be read, no case matches --run, a
// case fails, or too few lines are covered.
func (o *testOptions) runAll(ctx context.Context, paths []string) error {
	report, err := o.results(ctx, paths)
	if err != nil {
		return err
	}
	switch o.output {
	case "":
		p := newPrinter(o.Out)
		printResults(p, report)
		err = p.err
	case "junit":
		err = printJUnit(o, report)
	case "json":
		err = printStructured(o.Out, o.output, report)
	default:
		return fmt.Errorf("--output: %q is none of json, junit", o.output)
	}
	switch failed := report.failed(); {
	case err != nil:
		return err
	case len(report.Results) == 0:
		return fmt.Errorf("--run: no case matches %q", o.run)
	case failed > 0:
		return fmt.Errorf("%d of %d cases failed", failed, len(report.Results))
	case report.CoveragePercent != nil && *report.CoveragePercent < o.coverageMin:
		return fmt.Errorf("the cases evaluate %.1f %% of the lines with expressions, --coverage-min is %.1f",
			*report.CoveragePercent, o.coverageMin)
	}
	return nil
}

// watchInterval is how often the files are looked at. Notifications of file systems differ too much between platforms.
const watchInterval = 500 * time.Millisecond

// runOnChanges runs the cases at once, and after each change of a file, until ctx ends. It prints the errors of the runs, and returns an
// error only if it can't look at the files.
func (o *testOptions) runOnChanges(ctx context.Context, paths []string) error {
	before := ""
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		now, err := stateOfFiles(paths)
		if err != nil {
			return err
		}
		if now != before {
			before = now
			if err := o.runAll(ctx, paths); err != nil {
				printError(o.ErrOut, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// stateOfFiles returns a text with the name, size, and time of each file in the directories of the paths, and in their subdirectories, to
// notice changes. For the path of a file, it looks at the directory that contains the file.
func stateOfFiles(paths []string) (string, error) {
	var out strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			path = filepath.Dir(path)
		}
		err := filepath.WalkDir(path, func(name string, entry os.DirEntry, err error) error {
			if name != path && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				// Editors make files, and remove them at once.
				return nil
			}
			if err == nil {
				fmt.Fprintln(&out, name, info.Size(), info.ModTime().UnixNano())
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// results runs the cases in the paths, and returns their results and, if it is measured, the coverage. The error is that of the files which
// can't be run; the results are those of the others.
func (o *testOptions) results(ctx context.Context, paths []string) (*testReport, error) {
	options := casetest.Options{Clock: clock.RealClock{}}
	var err error
	if options.Simulation, options.Inventories, err = o.settings(); err != nil {
		return nil, err
	}
	if o.run != "" {
		if options.Run, err = regexp.Compile(o.run); err != nil {
			return nil, fmt.Errorf("--run: %w", err)
		}
	}
	if o.coverage || o.coverageMin > 0 {
		options.Cover = casetest.NewCoverage()
	}
	files, err := casetest.Find(paths...)
	if err != nil {
		return nil, err
	}
	out := &testReport{Results: []casetest.Result{}}
	var errs []error
	for _, path := range files {
		file, err := casetest.Load(path)
		if err == nil {
			var results []casetest.Result
			results, err = file.Run(ctx, options)
			out.Results = append(out.Results, results...)
		}
		errs = append(errs, err)
	}
	if options.Cover != nil {
		policies, percent := options.Cover.Report()
		out.Coverage, out.CoveragePercent = policies, &percent
	}
	return out, errors.Join(errs...)
}

func printResults(p *printer, r *testReport) {
	for _, result := range r.Results {
		if len(result.Failures) == 0 {
			continue
		}
		p.line("FAIL %s: %s", result.File, result.Case)
		for _, failure := range result.Failures {
			p.line("  %s", paragraph(failure))
		}
	}
	for _, c := range r.Coverage {
		line := fmt.Sprintf("policy %s: %.1f %% covered", c.Policy, c.Percent)
		if c.Rules > 0 {
			line += fmt.Sprintf(", %d of %d clauses", c.RulesCovered, c.Rules)
		}
		switch {
		case len(c.NotCovered) > 0:
			line += fmt.Sprintf(", not lines %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(c.NotCovered), " ", ", "), "[]"))
		case len(c.FieldsNotCovered) > 0:
			line += ", not all of " + strings.Join(c.FieldsNotCovered, ", ")
		}
		p.line("%s", line)
	}
	p.line("%d of %d cases passed", len(r.Results)-r.failed(), len(r.Results))
}

// junitSuites is the root of a report in the form of JUnit, which CI systems read. It has the suites, and no totals of its own.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

// junitSuite is the element testsuite of JUnit's XML, with the cases of one file.
type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

// junitCase is the element testcase of JUnit's XML: the result of one case.
type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"` // the path of the file
	Seconds float64       `xml:"time,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

// junitFailure is the element failure of JUnit's XML: why a case failed.
type junitFailure struct {
	Message string `xml:"message,attr"` // the first line of Text
	Text    string `xml:",chardata"`    // all failures of the case, joined by line breaks
}

// printJUnit writes the results as JUnit's XML, with a suite for each file.
func printJUnit(o *testOptions, r *testReport) error {
	var out junitSuites
	for _, result := range r.Results {
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != result.File {
			out.Suites = append(out.Suites, junitSuite{Name: result.File})
		}
		suite := &out.Suites[len(out.Suites)-1]
		c := junitCase{Name: result.Case, Class: result.File, Seconds: result.Duration.Seconds()}
		if len(result.Failures) > 0 {
			suite.Failures++
			first, _, _ := strings.Cut(result.Failures[0], "\n")
			c.Failure = &junitFailure{Message: first, Text: strings.Join(result.Failures, "\n")}
		}
		suite.Tests++
		suite.Cases = append(suite.Cases, c)
	}
	text, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	p := newPrinter(o.Out)
	p.document(xml.Header + string(text) + "\n")
	return p.err
}

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

package suite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

// spec is a report of a spec of the container "Pods".
func spec(text string, state types.SpecState, ordered bool) types.SpecReport {
	return types.SpecReport{
		ContainerHierarchyTexts: []string{"Pods (all)"}, LeafNodeType: types.NodeTypeIt, LeafNodeText: text, State: state, IsInOrderedContainer: ordered,
	}
}

func TestFocusOf(t *testing.T) {
	setup := types.SpecReport{LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStateFailed}
	for name, c := range map[string]struct {
		specs []types.SpecReport
		want  []string
	}{
		"nothing failed": {[]types.SpecReport{spec("run", types.SpecStatePassed, false), spec("wait", types.SpecStateSkipped, false)}, nil},
		"failed, panicked, and took too long": {
			[]types.SpecReport{
				spec("run", types.SpecStateFailed, false), spec("wait", types.SpecStatePassed, false),
				spec("start", types.SpecStatePanicked, false), spec("end", types.SpecStateTimedout, false),
			},
			[]string{`^Suite Pods \(all\) end$`, `^Suite Pods \(all\) run$`, `^Suite Pods \(all\) start$`},
		},
		"two of an ordered container": {
			[]types.SpecReport{spec("run", types.SpecStateFailed, true), spec("wait", types.SpecStateFailed, true)}, []string{`^Suite Pods \(all\) `},
		},
		"the suite's beginning": {[]types.SpecReport{setup, spec("run", types.SpecStateFailed, false)}, nil},
	} {
		if diff := cmp.Diff(c.want, focusOf(types.Report{SuiteDescription: "Suite", SpecReports: c.specs})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// write writes a report of one run.
func write(t *testing.T, path string, reports ...types.Report) {
	t.Helper()
	text, err := json.Marshal(reports)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunsAgain(t *testing.T) {
	path, err := reportPath(t.TempDir(), "All of it")
	if err != nil {
		t.Fatal(err)
	}
	if want := "test_suite.All-of-it"; filepath.Base(path) != want {
		t.Errorf("the reports are named %s, want %s", filepath.Base(path), want)
	}
	var config types.SuiteConfig
	if got, err := prepare(path, &config); err != nil || got != path+firstSuffix || len(config.FocusStrings) > 0 {
		t.Errorf("first run: got %s, %v, %v", got, config.FocusStrings, err)
	}
	working, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	first := types.Report{
		SuitePath: working, SuiteDescription: "All of it", SuiteConfig: types.SuiteConfig{RandomSeed: 7},
		SpecReports: types.SpecReports{spec("run", types.SpecStateFailed, false)},
	}
	write(t, path+firstSuffix, first)
	if got, err := prepare(path, &config); err != nil || got != path+againSuffix || config.RandomSeed != 7 || len(config.FocusStrings) != 1 {
		t.Errorf("second run: got %s, %+v, %v", got, config, err)
	}

	if err := writeFacts(path+factsSuffix, t); err != nil {
		t.Fatal(err)
	}
	runs, err := ReadRuns(filepath.Dir(path))
	if err != nil || len(runs) != 1 {
		t.Fatalf("got %v, %v", runs, err)
	}
	if got := runs[0]; got.Package != "test/suite" || len(got.First) != 1 || got.Again != nil || got.Test != "TestRunsAgain" || got.ProcessorTime <= 0 || got.ProcessorTime > time.Hour {
		t.Errorf("got %+v", got)
	}

	for _, bad := range []string{"", "[]", "{}"} {
		if err := os.WriteFile(path+firstSuffix, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := prepare(path, &config); err == nil {
			t.Errorf("the report %q is accepted", bad)
		}
		if _, err := ReadRuns(filepath.Dir(path)); err == nil {
			t.Errorf("the report %q is read", bad)
		}
	}
}

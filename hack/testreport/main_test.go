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
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/suite"
)

// events are of a package without a suite, in which one test fails once, one always, and of one with a suite.
const events = `
{"Action":"pass","Package":"github.com/berth-dev/berth/internal/a","Test":"TestGood","Elapsed":2.5}
{"Action":"output","Package":"github.com/berth-dev/berth/internal/a","Test":"TestOnce/sub","Output":"too late\n"}
{"Action":"fail","Package":"github.com/berth-dev/berth/internal/a","Test":"TestOnce/sub","Elapsed":1}
{"Action":"fail","Package":"github.com/berth-dev/berth/internal/a","Test":"TestOnce","Elapsed":1}
{"Action":"fail","Package":"github.com/berth-dev/berth/internal/a","Test":"TestAlways","Elapsed":1}
{"Action":"fail","Package":"github.com/berth-dev/berth/internal/a","Elapsed":6}
{"Action":"fail","Package":"github.com/berth-dev/berth/test/integration/b","Test":"TestSuite","Elapsed":90}
{"Action":"pass","Package":"github.com/berth-dev/berth/test/integration/b","Test":"TestPages","Elapsed":3}
{"Action":"fail","Package":"github.com/berth-dev/berth/test/integration/b","Elapsed":91}
{"Action":"pass","Package":"github.com/berth-dev/berth/internal/a","Test":"TestOnce/sub","Elapsed":1}
{"Action":"pass","Package":"github.com/berth-dev/berth/internal/a","Test":"TestOnce","Elapsed":1}
{"Action":"fail","Package":"github.com/berth-dev/berth/internal/a","Test":"TestAlways","Elapsed":1}
{"Action":"pass","Package":"github.com/berth-dev/berth/test/integration/b","Test":"TestSuite","Elapsed":20}
`

func TestRun(t *testing.T) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content any) {
		t.Helper()
		text, err := json.Marshal(content)
		if s, ok := content.(string); ok {
			text, err = []byte(s), nil
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	spec := func(text string, state types.SpecState, took time.Duration) types.SpecReport {
		return types.SpecReport{LeafNodeType: types.NodeTypeIt, LeafNodeText: text, State: state, RunTime: took, Failure: types.Failure{Message: "refused"}, CapturedGinkgoWriterOutput: "the log of the replica"}
	}
	report := func(specs ...types.SpecReport) []types.Report {
		return []types.Report{{SuitePath: filepath.Join(root, "test/integration/b"), SuiteConfig: types.SuiteConfig{RandomSeed: 7}, SpecReports: specs}}
	}
	write("events.json", events)
	write("test_integration_b.B.first.json", report(
		spec("runs", types.SpecStateFailed, time.Minute), spec("ends", types.SpecStatePassed, time.Second), spec("waits", types.SpecStateSkipped, 0),
	))
	write("test_integration_b.B.again.json", report(
		spec("runs", types.SpecStatePassed, time.Second), spec("ends", types.SpecStateSkipped, 0), spec("waits", types.SpecStateSkipped, 0),
	))
	write("test_integration_b.B.facts.json", suite.Facts{Test: "TestSuite", ProcessorTime: 33 * time.Second})

	var out bytes.Buffer
	if err := run(&out, dir, 2); err != nil {
		t.Fatal(err)
	}
	want := `
Of 2 packages, which took 1m37s together, the most:
     91.0s  test/integration/b
      6.0s  internal/a

Of 1 suites, which used a processor for 33s together, the most:
     33.0s  test/integration/b

Of 5 specs and tests, which took 1m8s together, the most:
     60.0s  test/integration/b: runs
      3.0s  test/integration/b: TestPages
FLAKY test/integration/b: runs (-ginkgo.seed=7, log: DIR/logs/1.log, reports: DIR)
FLAKY internal/a: TestOnce/sub (log: DIR/logs/2.log, reports: DIR)
`
	if diff := cmp.Diff(want, strings.ReplaceAll(out.String(), dir, "DIR")); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"flaky": "FLAKY test/integration/b: runs", "slowest": "Of 5 specs and tests", "logs/1.log": "the log of the replica", "logs/2.log": "too late", "logs/3.log": "TestAlways",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: got %q, %v, want %q in it", name, text, err, want)
		}
	}
}

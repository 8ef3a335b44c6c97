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

// Package prometheus_test tests the alerts in config/prometheus with promtool.
package prometheus_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile = "../../config/prometheus/prometheus_rule.yaml"
	testsFile = "testdata/alerts.yaml"
	docs      = "../../docs"
	// published is the address of the documentation for people who receive an alert.
	published = "https://github.com/berth-dev/berth/blob/main/docs/"
)

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// groups returns the rules in Prometheus' format, which the Prometheus operator extracts from its object.
func groups(t *testing.T) []group {
	t.Helper()
	var object struct {
		Spec struct {
			Groups []group `yaml:"groups"`
		} `yaml:"spec"`
	}
	readYAML(t, rulesFile, &object)
	if len(object.Spec.Groups) == 0 {
		t.Fatalf("%s has no groups", rulesFile)
	}
	return object.Spec.Groups
}

// promtool builds promtool and returns its path. It builds without service discovery, which the tests do not need, in a
// fraction of the time.
func promtool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "promtool")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags=remove_all_sd", "-o", path, "github.com/prometheus/prometheus/cmd/promtool")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building promtool: %v\n%s", err, out)
	}
	return path
}

// run runs a command in a directory.
func run(t *testing.T, dir, path string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, path string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAlerts(t *testing.T) {
	dir, tool := t.TempDir(), promtool(t)
	all := groups(t)
	write(t, filepath.Join(dir, "whole.yaml"), map[string]any{"groups": all})
	run(t, dir, tool, "check", "rules", "--lint=all", "--lint-fatal", "whole.yaml")

	// Remove annotations that are the same whenever an alert fires, so that the tests need not repeat them.
	for _, g := range all {
		for _, r := range g.Rules {
			for key, value := range r.Annotations {
				if key == "summary" {
					continue
				}
				if strings.Contains(value, "{{") {
					t.Errorf("the %s of %s has a part that no test looks at: %s", key, r.Alert, value)
				}
				delete(r.Annotations, key)
			}
		}
	}
	write(t, filepath.Join(dir, "rules.yaml"), map[string]any{"groups": all})
	tests, err := filepath.Abs(testsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tests, filepath.Join(dir, "tests.yaml")); err != nil {
		t.Fatal(err)
	}
	run(t, dir, tool, "test", "rules", "tests.yaml")
}

// TestEachAlertIsTested checks that each alert has tests in which it fires and in which it does not. Both need series
// of the alert's metrics, unless the alert detects missing series.
func TestEachAlertIsTested(t *testing.T) {
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	readYAML(t, testsFile, &tests)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				quiet[a.Name] = true
			}
		}
	}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s is seen to fire: %t, seen to be quiet: %t", r.Alert, fires[r.Alert], quiet[r.Alert])
			}
			delete(fires, r.Alert)
			delete(quiet, r.Alert)
		}
	}
	if len(fires)+len(quiet) > 0 {
		t.Errorf("alerts are tested that there are not: %v %v", fires, quiet)
	}
}

// TestRunbooks checks that the address of each runbook leads to an existing heading.
func TestRunbooks(t *testing.T) {
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			url, ok := r.Annotations["runbook_url"]
			if !ok {
				continue
			}
			path, ok := strings.CutPrefix(url, published)
			file, anchor, anchored := strings.Cut(path, "#")
			if !ok || !anchored {
				t.Errorf("%s: %s", r.Alert, url)
				continue
			}
			text, err := os.ReadFile(filepath.Join(docs, file))
			if err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			found := false
			for line := range strings.Lines(string(text)) {
				heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
				slug := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-")
				found = found || (ok && strings.HasPrefix(line, "#") && slug == anchor)
			}
			if !found {
				t.Errorf("%s: %s has no heading %s", r.Alert, file, anchor)
			}
		}
	}
}

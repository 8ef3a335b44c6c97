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

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuarantees checks that the tests exist that docs/security.md names: files, and functions as in internal/placement.TestFollow.
func TestGuarantees(t *testing.T) {
	text := contents(t, filepath.Join(root, "docs/security.md"))
	files := regexp.MustCompile("`([a-z0-9_/-]+_test\\.go)`").FindAllStringSubmatch(text, -1)
	functions := regexp.MustCompile("`([a-z0-9_/-]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(text, -1)
	if len(files) < 30 || len(functions) < 60 {
		t.Errorf("docs/security.md names %d files and %d functions", len(files), len(functions))
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file[1]))); err != nil {
			t.Errorf("docs/security.md names %s, which does not exist", file[1])
		}
	}
	for _, function := range functions {
		if !declares(t, function[1], function[2]) {
			t.Errorf("docs/security.md names %s in %s, which does not exist", function[2], function[1])
		}
	}
}

// declares reports whether a test file of a package declares a test.
func declares(t *testing.T, dir, name string) bool {
	t.Helper()
	tests, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tests {
		if strings.Contains(contents(t, file), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

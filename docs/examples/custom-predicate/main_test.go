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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/budget"
)

// TestBuildsOutside checks that users can build the manager in their own module: all packages resolve there, and none is an internal
// package of Berth. With the budget 1, the build itself is in this module, because one in another module compiles all of Berth again.
func TestBuildsOutside(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile(t, "main.go", filepath.Join(dir, "main.go"))
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(dir, "go.sum"))
	// Their module would ask for versions of its own; these are here.
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const itself = "module github.com/berth-dev/berth\n"
	module := strings.Replace(string(text), itself, "module example.com/manager\n", 1)
	if module == string(text) {
		t.Fatalf("go.mod does not begin with %q", itself)
	}
	module += "\nrequire github.com/berth-dev/berth v0.0.0\n\nreplace github.com/berth-dev/berth => " + root + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-deps", ".")
	outside.Dir, outside.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off")
	if out, err := outside.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary := filepath.Join(dir, "manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if budget.Rounds(1) > 1 {
		build.Dir, build.Env = dir, append(build.Env, "GOPROXY=off", "GOFLAGS=-mod=mod")
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "InterPodAffinity,Maintenance") {
		t.Errorf("%v: the predicate is not on the white-list:\n%s", err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

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

package controlplane_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/controlplane"
)

// TestOPA: the server is taken from KUBEBUILDER_ASSETS where that has it, and who has none learns how to build it.
func TestOPA(t *testing.T) {
	checkout, assets := t.TempDir(), t.TempDir()
	write := func(path, text string, mode os.FileMode) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(filepath.Join(checkout, "go.mod"), "module github.com/berth-dev/berth\n", 0o644)
	t.Chdir(checkout)
	check := func(want, failure string) {
		t.Helper()
		got, err := controlplane.OPA()
		if got != want || (err == nil) != (failure == "") || (err != nil && !strings.Contains(err.Error(), failure)) {
			t.Errorf("got %q, %v; want %q, %q", got, err, want, failure)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", "")
	check("", "run make opa, or set KUBEBUILDER_ASSETS")
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	check("", "opa is neither in KUBEBUILDER_ASSETS="+assets+" nor in "+filepath.Join(checkout, "bin")+": run make opa")
	own := write(filepath.Join(checkout, "bin", "opa"), "", 0o755)
	check(own, "")
	theirs := write(filepath.Join(assets, "opa"), "", 0o644)
	check("", "can't be executed: remove it and run make opa")
	if err := os.Chmod(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	check(theirs, "")
}

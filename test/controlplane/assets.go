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

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
)

// assetsVariable names the directory with the control plane's binaries, as for every envtest.
const assetsVariable = "KUBEBUILDER_ASSETS"

// moduleLine is what go.mod of this repository begins with.
var moduleLine = regexp.MustCompile(`(?m)^module github\.com/berth-dev/berth$`)

// DefinitionStates are what `kubectl wait --for` has to wait for, one after the other, until the API server serves a new
// CustomResourceDefinition. Its conditions are null before its names are accepted, for which a wait for a condition ends with an error:
// https://github.com/kubernetes/kubectl/issues/1236.
var DefinitionStates = [...]string{"jsonpath={.status.acceptedNames.singular}", "condition=Established"}

// RepositoryRoot returns the directory of this repository's go.mod, found by walking up from the working directory.
func RepositoryRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && moduleLine.Match(text) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository: no go.mod of github.com/berth-dev/berth in %s or above: run this inside a checkout", wd)
		}
	}
}

// Binary returns the path of one of the control plane's binaries, as in "kubectl": the one in KUBEBUILDER_ASSETS if that
// is set and has it (envtest's archives have neither kube-controller-manager nor kube-scheduler), else the one that
// `make controlplane` put into the repository's bin.
func Binary(name string) (string, error) { return binary(name, "controlplane") }

// OPA returns the path of the OPA server in the same way; `make opa` puts it into the repository's bin.
func OPA() (string, error) { return binary("opa", "opa") }

// binary finds a binary that a target of make builds.
func binary(name, target string) (string, error) {
	assets := os.Getenv(assetsVariable)
	if assets != "" {
		path, err := executable(filepath.Join(assets, name), target)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	path, err := executable(filepath.Join(root, "bin", name), target)
	switch {
	case err == nil:
		return path, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case assets != "":
		return "", fmt.Errorf("%s is neither in %s=%s nor in %s: run make %s", name, assetsVariable, assets, filepath.Join(root, "bin"), target)
	default:
		return "", fmt.Errorf("%s is not in %s: run make %s, or set %s", name, filepath.Join(root, "bin"), target, assetsVariable)
	}
}

func executable(path, target string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("looking for a binary: %w", err)
	}
	if info.IsDir() || info.Mode().Perm()&0o111 == 0 {
		return "", fmt.Errorf("%s can't be executed: remove it and run make %s", path, target)
	}
	return path, nil
}

// Program compiles a command of this module, as in ./cmd/manager, into the repository's bin/test, and returns the path. Suites that
// run at the same time share the program: they wait for each other, and the go command links it only if its sources have changed.
func Program(ctx context.Context, command string) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the directory of programs: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("locking the directory of programs: %w", err)
	}
	// Closing the file releases the lock.
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking the directory of programs: %w", err)
	}
	path := filepath.Join(dir, filepath.Base(command))
	// Without debugging information and a table of symbols, linking takes half the time.
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s", "-o", path, command)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling %s: %w\n%s", command, err, out)
	}
	return path, nil
}

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
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	// defaultIndex is the default index of setup-envtest, which controller-tools publishes.
	defaultIndex = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

	// reachTimeout is the timeout for reaching the index, so that a machine without a network starts to compile soon.
	reachTimeout = 5 * time.Second
	// downloadTimeout is roughly the time that compiling takes.
	downloadTimeout = 6 * time.Minute
)

// prebuiltComponents are the components in the archives of envtest.
var prebuiltComponents = []string{"etcd", "kube-apiserver", "kubectl"}

// prebuilt is a directory with downloaded binaries. They are of the newest patch release of the minor release that
// go.mod requires, for this platform. The demo and the development cluster use them. Tests use the version that go.mod
// pins.
type prebuilt struct {
	dir string
	// index is the URL of the index, which contains the checksums of the archives.
	index string
	// tool is the directory of the module that pins setup-envtest.
	tool string
	out  io.Writer
}

// provide downloads the binaries if necessary, and reports whether the directory has them. If it cannot download them,
// it prints the reason in one line, and the directory does not exist afterwards.
func (p prebuilt) provide(ctx context.Context, version string) bool {
	if p.complete(version) {
		fmt.Fprintf(p.out, "Using the downloaded %s in %s\n", strings.Join(prebuiltComponents, ", "), p.dir)
		return true
	}
	err := p.download(ctx, version)
	if err == nil {
		return true
	}
	// The errors of tools have several lines.
	reason := strings.Join(strings.Fields(err.Error()), " ")
	fmt.Fprintf(p.out, "No prebuilt binaries, compiling instead (PREBUILT=no skips the attempt): %s\n", reason)
	return false
}

// stamp returns an identifier of the required binaries.
func (p prebuilt) stamp(version string) string {
	return fmt.Sprintf("%s %s/%s\n", minor(version), runtime.GOOS, runtime.GOARCH)
}

func (p prebuilt) stampFile() string { return filepath.Join(p.dir, ".stamp") }

func (p prebuilt) complete(version string) bool {
	text, err := os.ReadFile(p.stampFile())
	return err == nil && string(text) == p.stamp(version)
}

func (p prebuilt) download(ctx context.Context, version string) (err error) {
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("removing binaries of another version: %w", err)
	}
	if err := p.reach(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	// Use the parent directory, because a rename is atomic only within a file system.
	tmp, err := os.MkdirTemp(filepath.Dir(p.dir), ".prebuilt-")
	if err != nil {
		return fmt.Errorf("making a directory for the download: %w", err)
	}
	defer func() { err = errors.Join(err, removeReadOnly(tmp)) }()
	fmt.Fprintf(p.out, "Downloading %s %s by the index %s\n", strings.Join(prebuiltComponents, ", "), minor(version), p.index)
	setup := filepath.Join(tmp, "setup-envtest")
	const pkg = "sigs.k8s.io/controller-runtime/tools/setup-envtest"
	if _, err := p.run(ctx, "Compiling setup-envtest", p.tool, "go", "build", "-o", setup, pkg); err != nil {
		return err
	}
	// setup-envtest compares the archive with the checksum in the index before it unpacks it.
	unpacked, err := p.run(ctx, "Downloading and verifying", tmp, setup, "use", minor(version)+".x", "--index="+p.index,
		"--bin-dir="+tmp, "--print=path")
	if err != nil {
		return err
	}
	return p.install(ctx, unpacked, version)
}

// reach returns an error if the index does not respond within reachTimeout.
func (p prebuilt) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.index, nil)
	if err != nil {
		return fmt.Errorf("the index %q is not a URL: %w", p.index, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the index does not answer: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the index %s answers %s", p.index, response.Status)
	}
	return nil
}

// run runs a command and returns its output. It reports progress meanwhile, for which what describes the command.
func (p prebuilt) run(ctx context.Context, what, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = buildEnv()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	started := time.Now()
	done := keepTelling(func() { fmt.Fprintf(p.out, "%s … %s elapsed\n", what, elapsed(started)) })
	defer done()
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", filepath.Base(name), context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// install checks the unpacked binaries and moves them to the directory.
func (p prebuilt) install(ctx context.Context, unpacked, version string) error {
	for _, name := range prebuiltComponents {
		info, err := os.Stat(filepath.Join(unpacked, name))
		if err != nil {
			return fmt.Errorf("the archive is incomplete: %w", err)
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			return fmt.Errorf("the archive's %s is not executable", name)
		}
	}
	says, err := p.run(ctx, "Starting kube-apiserver", unpacked, filepath.Join(unpacked, "kube-apiserver"), "--version")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(says, "Kubernetes v"+minor(version)+".") {
		return fmt.Errorf("the archive's kube-apiserver is %q, not of %s", says, minor(version))
	}
	// setup-envtest makes the directory read-only.
	if err := os.Chmod(unpacked, 0o755); err != nil {
		return fmt.Errorf("putting the binaries into place: %w", err)
	}
	if err := os.WriteFile(filepath.Join(unpacked, filepath.Base(p.stampFile())), []byte(p.stamp(version)), 0o644); err != nil {
		return fmt.Errorf("recording the version: %w", err)
	}
	if err := os.Rename(unpacked, p.dir); err != nil {
		return fmt.Errorf("putting the binaries into place: %w", err)
	}
	fmt.Fprintf(p.out, "Downloaded, verified and unpacked into %s: %s\n", p.dir, says)
	return nil
}

// removeReadOnly removes a directory into which setup-envtest unpacked read-only directories.
func removeReadOnly(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return err
	})
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("removing what was downloaded: %w", err)
	}
	return nil
}

// minor returns the minor release of a version, for example 1.36 for v1.36.3.
func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

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
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// reachTimeout is the timeout for the checksums, so that a machine without a network starts to compile soon.
	reachTimeout = 5 * time.Second
	// downloadTimeout is roughly the time that compiling takes.
	downloadTimeout = 4 * time.Minute
	// maxChecksums and maxProgram bound what is read of a file, in bytes.
	maxChecksums = 1 << 20
	maxProgram   = 1 << 30
)

// release is a published release of Berth.
type release struct {
	url, version string
	// dir receives the programs.
	dir string
	out io.Writer
}

// provide downloads a program of the release, unless dir has the program in the release's version. If it returns an
// error, dir is unchanged.
func (r release) provide(ctx context.Context, program string) (err error) {
	path := filepath.Join(r.dir, program)
	if r.check(ctx, path) == nil {
		fmt.Fprintf(r.out, "Using %s %s\n", path, r.version)
		return nil
	}
	name := fmt.Sprintf("%s_%s_%s_%s.tar.gz", program, r.version, runtime.GOOS, runtime.GOARCH)
	want, err := r.checksum(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	// Use a directory inside dir, because a rename is atomic only within a file system.
	tmp, err := os.MkdirTemp(r.dir, ".download-")
	if err != nil {
		return fmt.Errorf("making a directory for the download: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	archive := filepath.Join(tmp, name)
	got, err := r.fetch(ctx, name, archive)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the checksum of %s is %s, and checksums.txt has %s", name, got, want)
	}
	unpacked := filepath.Join(tmp, program)
	if err := unpack(archive, program, unpacked); err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := r.check(ctx, unpacked); err != nil {
		return err
	}
	if err := os.Rename(unpacked, path); err != nil {
		return fmt.Errorf("putting %s into place: %w", program, err)
	}
	fmt.Fprintf(r.out, "Downloaded and verified %s %s\n", path, r.version)
	return nil
}

// check returns an error unless the program reports the release's version.
func (r release) check(ctx context.Context, path string) error {
	says, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return fmt.Errorf("starting %s: %w", filepath.Base(path), err)
	}
	if !slices.Contains(strings.Fields(string(says)), r.version) {
		return fmt.Errorf("the version of %s is %q, not %s", filepath.Base(path), strings.TrimSpace(string(says)), r.version)
	}
	return nil
}

// checksum returns the SHA-256 checksum of a file, in the form that sha256sum prints, from the release's checksums.txt.
func (r release) checksum(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	body, err := r.get(ctx, "checksums.txt")
	if err != nil {
		return "", err
	}
	defer body.Close()
	lines := bufio.NewScanner(io.LimitReader(body, maxChecksums))
	for lines.Scan() {
		if sum, file, ok := strings.Cut(lines.Text(), "  "); ok && file == name {
			return sum, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("reading checksums.txt: %w", err)
	}
	return "", fmt.Errorf("checksums.txt of %s does not list %s", r.version, name)
}

// fetch writes a file of the release to path, and returns its SHA-256 checksum.
func (r release) fetch(ctx context.Context, name, path string) (checksum string, err error) {
	fmt.Fprintf(r.out, "Downloading %s from %s\n", name, r.url)
	body, err := r.get(ctx, name)
	if err != nil {
		return "", err
	}
	defer body.Close()
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("storing %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(body, maxProgram)); err != nil {
		return "", fmt.Errorf("downloading %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// get requests a file of the release.
func (r release) get(ctx context.Context, name string) (io.ReadCloser, error) {
	url := strings.TrimSuffix(r.url, "/") + "/" + r.version + "/" + name
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the release is unavailable: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s returns %s", url, response.Status)
	}
	return response.Body, nil
}

// unpack writes the program in the archive to path.
func unpack(archive, program, path string) (err error) {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	entries := tar.NewReader(zip)
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive has no %s", program)
		}
		if err != nil {
			return err
		}
		if entry.Name != program || entry.Typeflag != tar.TypeReg {
			continue
		}
		out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, io.LimitReader(entries, maxProgram))
		return errors.Join(err, out.Close())
	}
}

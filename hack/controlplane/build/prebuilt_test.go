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
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// version is the version that the repository's go.mod requires. The mirror has another patch release of the same minor
// release.
const version = "v1.36.3"

// mirror serves an index and its archive over loopback, and counts requests.
type mirror struct {
	*httptest.Server
	archive  []byte
	checksum string
	release  string
	requests atomic.Int64
}

func newMirror(t *testing.T, archive []byte) *mirror {
	t.Helper()
	sum := sha512.Sum512(archive)
	m := &mirror{archive: archive, checksum: hex.EncodeToString(sum[:]), release: "v1.36.2"}
	name := func() string { return fmt.Sprintf("envtest-%s-%s-%s.tar.gz", m.release, runtime.GOOS, runtime.GOARCH) }
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.requests.Add(1)
		switch r.URL.Path {
		case "/index.yaml":
			fmt.Fprintf(w, "releases:\n  %s:\n    %s:\n      hash: %s\n      selfLink: %s/%s\n", m.release, name(), m.checksum, m.URL, name())
		case "/" + name():
			_, _ = w.Write(m.archive)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// archiveOf packs binaries like envtest's archives. The files for etcd and kubectl are small placeholders.
func archiveOf(t *testing.T, server string) []byte {
	t.Helper()
	var packed bytes.Buffer
	// Do not compress, which would take longer than the rest of the test.
	zip, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zip)
	add := func(name string, size int64, content io.Reader) {
		t.Helper()
		if err := archive.WriteHeader(&tar.Header{Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: size}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(archive, content); err != nil {
			t.Fatal(err)
		}
	}
	const script = "#!/bin/sh\n"
	add("etcd", int64(len(script)), strings.NewReader(script))
	add("kubectl", int64(len(script)), strings.NewReader(script))
	binary, err := os.Open(server)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	info, err := binary.Stat()
	if err != nil {
		t.Fatal(err)
	}
	add("kube-apiserver", info.Size(), binary)
	for _, c := range []io.Closer{archive, zip} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return packed.Bytes()
}

// builtAPIServer returns the path of a real kube-apiserver.
func builtAPIServer(t *testing.T) string {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "..", "bin")
	}
	path := filepath.Join(assets, "kube-apiserver")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make controlplane, or set KUBEBUILDER_ASSETS", err)
	}
	return path
}

func TestPrebuilt(t *testing.T) {
	archive := archiveOf(t, builtAPIServer(t))
	provide := func(t *testing.T, dir, index string) (bool, string) {
		t.Helper()
		var out strings.Builder
		return prebuilt{dir: dir, index: index, tool: "../../envtest", out: &out}.provide(t.Context(), version), out.String()
	}
	// isFallback checks that one line says why nothing was downloaded, and that no files are left.
	isFallback := func(t *testing.T, dir, out, want string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(out), "\n")
		last := lines[len(lines)-1]
		if !strings.HasPrefix(last, "No prebuilt binaries, compiling instead (PREBUILT=no skips the attempt): ") || !strings.Contains(last, want) {
			t.Errorf("got the output\n%s\nwant a last line about %q", out, want)
		}
		left, err := os.ReadDir(filepath.Dir(dir))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, error %v", left, err)
		}
	}

	t.Run("is downloaded once", func(t *testing.T) {
		m, dir := newMirror(t, archive), filepath.Join(t.TempDir(), "prebuilt")
		ok, out := provide(t, dir, m.URL+"/index.yaml")
		if !ok {
			t.Fatalf("not provided:\n%s", out)
		}
		says, err := exec.CommandContext(t.Context(), filepath.Join(dir, "kube-apiserver"), "--version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(says), "Kubernetes v1.36.") {
			t.Errorf("the downloaded kube-apiserver says %q, error %v", says, err)
		}
		before := m.requests.Load()
		if ok, out := provide(t, dir, m.URL+"/index.yaml"); !ok || m.requests.Load() != before {
			t.Errorf("a second time: provided %v after %d further requests:\n%s", ok, m.requests.Load()-before, out)
		}
	})
	t.Run("is replaced when another minor release is wanted", func(t *testing.T) {
		m, dir := newMirror(t, archive), filepath.Join(t.TempDir(), "prebuilt")
		if ok, out := provide(t, dir, m.URL+"/index.yaml"); !ok {
			t.Fatalf("not provided:\n%s", out)
		}
		var out strings.Builder
		if (prebuilt{dir: dir, index: m.URL + "/index.yaml", tool: "../../envtest", out: &out}).provide(t.Context(), "v1.37.0") {
			t.Errorf("provided another minor release:\n%s", out.String())
		}
		isFallback(t, dir, out.String(), "setup-envtest")
	})
	t.Run("is refused if its checksum is wrong", func(t *testing.T) {
		m, dir := newMirror(t, archive), filepath.Join(t.TempDir(), "prebuilt")
		m.archive = bytes.Clone(archive)
		m.archive[len(m.archive)/2]++
		ok, out := provide(t, dir, m.URL+"/index.yaml")
		if ok {
			t.Error("provided")
		}
		isFallback(t, dir, out, "checksum mismatch")
	})
	t.Run("is refused if it is of another minor release than the index says", func(t *testing.T) {
		m, dir := newMirror(t, archive), filepath.Join(t.TempDir(), "prebuilt")
		m.release = "v1.35.1"
		var out strings.Builder
		if (prebuilt{dir: dir, index: m.URL + "/index.yaml", tool: "../../envtest", out: &out}).provide(t.Context(), "v1.35.0") {
			t.Error("provided")
		}
		isFallback(t, dir, out.String(), "not of 1.35")
	})
	t.Run("is not attempted if the index does not answer", func(t *testing.T) {
		m, dir := newMirror(t, archive), filepath.Join(t.TempDir(), "prebuilt")
		m.Close()
		ok, out := provide(t, dir, m.URL+"/index.yaml")
		if ok || strings.Count(out, "\n") != 1 {
			t.Errorf("provided %v, and said more than one line:\n%s", ok, out)
		}
		isFallback(t, dir, out, "the index does not answer")
	})
	t.Run("is not attempted if there is no index", func(t *testing.T) {
		m, dir := newMirror(t, archive), filepath.Join(t.TempDir(), "prebuilt")
		ok, out := provide(t, dir, m.URL+"/other.yaml")
		if ok || strings.Count(out, "\n") != 1 {
			t.Errorf("provided %v, and said more than one line:\n%s", ok, out)
		}
		isFallback(t, dir, out, "404")
	})
}

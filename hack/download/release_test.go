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
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const version = "v0.1.0"

// archiveOf packs a program that prints the text.
func archiveOf(t *testing.T, program, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	script := "#!/bin/sh\necho '" + text + "'\n"
	for name, content := range map[string]string{"LICENSE": "Apache-2.0", program: script} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// serve serves files of the release, and returns the URL of the releases and the number of requests so far.
func serve(t *testing.T, files map[string][]byte) (url string, requests *int) {
	t.Helper()
	requests = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/"+version+"/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestProvide(t *testing.T) {
	name := fmt.Sprintf("manager_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	good := archiveOf(t, "manager", version+" (commit 1234)")
	sums := func(archive []byte) []byte {
		return fmt.Appendf(nil, "%x  install.yaml\n%x  %s\n", sha256.Sum256(nil), sha256.Sum256(archive), name)
	}
	other := archiveOf(t, "manager", "v0.2.0")
	empty := archiveOf(t, "other", version)
	for _, test := range []struct {
		name  string
		files map[string][]byte
		want  string
	}{
		{name: "a release", files: map[string][]byte{"checksums.txt": sums(good), name: good}},
		{name: "no release", want: "404"},
		{name: "no archive for the platform", files: map[string][]byte{"checksums.txt": []byte("")}, want: "does not list " + name},
		{name: "an archive that is missing", files: map[string][]byte{"checksums.txt": sums(good)}, want: "404"},
		{name: "another archive", files: map[string][]byte{"checksums.txt": sums(good), name: other}, want: "the checksum of " + name},
		{name: "another version", files: map[string][]byte{"checksums.txt": sums(other), name: other}, want: `the version of manager is "v0.2.0"`},
		{name: "an archive without the program", files: map[string][]byte{"checksums.txt": sums(empty), name: empty}, want: "has no manager"},
		{name: "no archive at all", files: map[string][]byte{"checksums.txt": sums([]byte("x")), name: []byte("x")}, want: "unpacking"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, requests := serve(t, test.files)
			var out strings.Builder
			r := release{url: url, version: version, dir: t.TempDir(), out: &out}
			// A program of another version stays if it can't be replaced.
			path := filepath.Join(r.dir, "manager")
			if err := os.WriteFile(path, []byte("#!/bin/sh\necho v0.0.9\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			err := r.provide(t.Context(), "manager")
			left, readErr := os.ReadDir(r.dir)
			if readErr != nil || len(left) != 1 {
				t.Errorf("left behind: %v, error %v", left, readErr)
			}
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got the error %v, want one with %q", err, test.want)
				}
				if r.check(t.Context(), path) == nil {
					t.Error("the program was replaced")
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if err := r.check(t.Context(), path); err != nil {
				t.Error(err)
			}
			before := *requests
			if err := r.provide(t.Context(), "manager"); err != nil || *requests != before {
				t.Errorf("a second time: error %v, %d further requests", err, *requests-before)
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		r := release{url: server.URL, version: version, dir: t.TempDir(), out: &strings.Builder{}}
		if err := r.provide(t.Context(), "manager"); err == nil || !strings.Contains(err.Error(), "the release is unavailable") {
			t.Errorf("got the error %v", err)
		}
	})
}

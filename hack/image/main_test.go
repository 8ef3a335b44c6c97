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
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/spdx/tools-golang/json"
)

// source creates a module that builds quickly, with the operator's module path.
func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":              "module github.com/berth-dev/berth\n\ngo 1.26.0\n",
		"cmd/manager/main.go": "package main\n\nimport \"github.com/berth-dev/berth/internal/setup\"\n\nfunc main() { println(setup.Version()) }\n",
		"internal/setup/v.go": "package setup\n\nvar version string\n\nfunc Version() string { return version }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestImage(t *testing.T) {
	from, out := source(t), t.TempDir()
	args := []string{"-source", from, "-out", out, "-name", "registry.example/berth:v1.2.3", "-version", "v1.2.3", "-commit", "abc", "-date", "2026-01-02T03:04:05Z"}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	built, err := os.ReadFile(filepath.Join(out, "berth.tar"))
	if err != nil {
		t.Fatal(err)
	}

	dir := extract(t, built)
	store, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := store.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "registry.example/berth:v1.2.3" {
		t.Fatalf("%+v, %v", manifest, err)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, d := range images.Manifests {
		platforms = append(platforms, d.Platform.String())
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, *d.Platform)
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("platforms %s", got)
	}

	// A second build must give identical bytes.
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(filepath.Join(out, "berth.tar"))
	if err != nil || !bytes.Equal(built, again) {
		t.Errorf("a second build differs, %v", err)
	}

	file, err := os.Open(filepath.Join(out, "manager-linux-arm64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	doc, err := json.Read(file)
	if err != nil || len(doc.Packages) != 2 || doc.Packages[0].PackageName != "github.com/berth-dev/berth" || doc.Packages[0].PackageVersion != "v1.2.3" {
		t.Errorf("%+v, %v", doc, err)
	}
}

func checkImage(t *testing.T, image v1.Image, want v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !config.Platform().Equals(want) || config.Config.User != nonroot || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/manager" ||
		config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" || !config.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 || len(config.RootFS.DiffIDs) != 1 || len(config.History) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	binary := filepath.Join(extractFrom(t, content), "manager")
	if want.Architecture != "amd64" {
		return
	}
	out, err := exec.Command(binary).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "v1.2.3" {
		t.Errorf("the binary says %q, %v", out, err)
	}
}

func extract(t *testing.T, archive []byte) string {
	t.Helper()
	return extractFrom(t, bytes.NewReader(archive))
}

func extractFrom(t *testing.T, archive io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, os.FileMode(header.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for name, args := range map[string][]string{
		"no name":   {"-version", "v1", "-date", "2026-01-02T03:04:05Z"},
		"no date":   {"-name", "n", "-version", "v1"},
		"platforms": {"-name", "n", "-version", "v1", "-date", "2026-01-02T03:04:05Z", "-platforms", "a/b/c/d"},
		"no source": {"-name", "n", "-version", "v1", "-date", "2026-01-02T03:04:05Z", "-source", "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(append(args, "-out", t.TempDir())); err == nil {
				t.Error("no error")
			}
		})
	}
}

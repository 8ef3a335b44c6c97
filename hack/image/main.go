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

// Command image builds the operator's container image without a container engine. For each platform, it puts a static
// binary on an empty base. The result is an image index in a tar file of the OCI layout, which `docker load`, `podman
// load`, `skopeo copy oci-archive:`, and `ctr images import` can read. Command image also writes the binaries, each
// with a list of its modules.
//
// Equal sources, built in the same folder, give equal images. The end-to-end tests use the command to build another
// program.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nonroot is the user that the image runs as. The manifests set the same user.
const nonroot = "65532:65532"

// options are the command's flags.
type options struct {
	source, pkg, out, archive, name, version, commit string
	platforms                                        []string
	date                                             time.Time
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	var platforms, date string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.source, "source", "../..", "Folder of the operator's module.")
	flags.StringVar(&o.pkg, "package", "./cmd/manager", "Package, in the module, of the program that the image runs.")
	flags.StringVar(&o.out, "out", "dist/image", "Folder for the archive and, for each platform, the binary and its SBOM.")
	flags.StringVar(&o.archive, "archive", "berth.tar", "Name of the archive.")
	flags.StringVar(&o.name, "name", "", "Name of the image, with its tag.")
	flags.StringVar(&o.version, "version", "", "Version of the operator.")
	flags.StringVar(&o.commit, "commit", "", "Commit of the source.")
	flags.StringVar(&date, "date", "", "Date of the commit, in RFC 3339; what the image holds has this date.")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "Platforms, separated by commas.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.name == "" || o.version == "" {
		return errors.New("-name and -version are needed")
	}
	var err error
	if o.date, err = time.Parse(time.RFC3339, date); err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	o.platforms = strings.Split(platforms, ",")
	return build(o)
}

// program returns the name of the binary.
func (o options) program() string { return path.Base(o.pkg) }

// build writes the archive.
func build(o options) error {
	index := v1.ImageIndex(mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	for _, text := range o.platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return fmt.Errorf("-platforms: %w", err)
		}
		binary := filepath.Join(o.out, o.program()+"-"+platform.OS+"-"+platform.Architecture)
		if err := compile(o, platform, binary); err != nil {
			return fmt.Errorf("compiling for %s: %w", text, err)
		}
		if err := writeSBOM(o, binary); err != nil {
			return fmt.Errorf("listing the modules for %s: %w", text, err)
		}
		image, err := pack(o, platform, binary)
		if err != nil {
			return fmt.Errorf("packing for %s: %w", text, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	annotated, ok := mutate.Annotations(index, labels(o)).(v1.ImageIndex)
	if !ok {
		return errors.New("annotating made something else of an index")
	}
	dir, err := os.MkdirTemp("", "berth-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// Engines use this name for the loaded image.
	name := map[string]string{"org.opencontainers.image.ref.name": o.name, "io.containerd.image.name": o.name}
	if err := store.AppendIndex(annotated, layout.WithAnnotations(name)); err != nil {
		return err
	}
	return archive(dir, filepath.Join(o.out, o.archive), o.date)
}

// compile builds a static binary with the flags of `make build`, so that both share the build cache.
func compile(o options, p *v1.Platform, binary string) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return err
	}
	const setup = " -X github.com/berth-dev/berth/internal/setup."
	ldflags := "-s -w" + setup + "version=" + o.version + setup + "commit=" + o.commit + setup + "date=" + o.date.UTC().Format(time.RFC3339)
	cmd := exec.Command("go", "build", "-o", binary, "-ldflags", ldflags, o.pkg)
	cmd.Dir = o.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// labels returns the annotations that the OCI image specification defines.
func labels(o options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "berth",
		"org.opencontainers.image.description": "Decides where Kubernetes workloads may run and how much they may take, and keeps it so.",
		"org.opencontainers.image.source":      "https://github.com/berth-dev/berth",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.revision":    o.commit,
		"org.opencontainers.image.created":     o.date.UTC().Format(time.RFC3339),
	}
}

// pack returns an image with the binary.
func pack(o options, p *v1.Platform, binary string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	// The base is empty, so add the directory for temporary files.
	for _, entry := range []struct {
		header  tar.Header
		content []byte
	}{
		{header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
		{header: tar.Header{Name: o.program(), Typeflag: tar.TypeReg, Mode: 0o555}, content: content},
	} {
		entry.header.ModTime, entry.header.Size = o.date, int64(len(entry.content))
		if err := w.WriteHeader(&entry.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(entry.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: o.date}, CreatedBy: "hack/image"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(mutate.ConfigMediaType(image, types.OCIConfigJSON), config(o, p, image))
}

func config(o options, p *v1.Platform, image v1.Image) *v1.ConfigFile {
	// Keep the configuration that Append wrote for layers. Reading it does not fail for an image in memory.
	out, _ := image.ConfigFile()
	out = out.DeepCopy()
	out.OS, out.Architecture, out.Variant = p.OS, p.Architecture, p.Variant
	out.Created = v1.Time{Time: o.date}
	out.Config = v1.Config{Entrypoint: []string{"/" + o.program()}, User: nonroot, WorkingDir: "/", Labels: labels(o)}
	return out
}

// archive writes a folder to a tar file, in the order of names and with the same date for all entries.
func archive(dir, file string, date time.Time) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name) + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: date})
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)),
			ModTime: date}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), out.Close())
}

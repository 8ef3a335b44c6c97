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

// Command bundle writes the bundle (registry+v1) with which the Operator Lifecycle Manager (OLM) installs Berth. Like
// `operator-sdk generate bundle`, it reads the output of kustomize for config/manifests. It rejects what OLM would
// reject or ignore, and what would make OLM wait forever.
package main

import (
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// packageName is the name of Berth's package in catalogs and subscriptions.
const packageName = "berth"

// release is the information that the manifests do not contain.
type release struct {
	version  string
	image    string
	channel  string
	replaces string
	// platforms are the platforms of the image, for example linux/amd64.
	platforms []string
	// icon is an SVG image in base64.
	icon string
}

func main() {
	if err := run(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(manifests io.Reader, args []string) error {
	var r release
	var out, icon, platforms string
	f := flag.NewFlagSet("bundle", flag.ExitOnError)
	f.StringVar(&out, "out", "bundle", "Folder to write; a bundle that was there goes. The Dockerfile is written beside it.")
	f.StringVar(&r.version, "version", "", "Version of the release, as in 0.1.0.")
	f.StringVar(&r.image, "image", "", "The operator's image, with a tag of the release's own or a digest.")
	f.StringVar(&platforms, "platforms", "", "Platforms of the image, as in linux/amd64,linux/arm64.")
	f.StringVar(&r.channel, "channel", "", "Channel in which catalogs offer the release.")
	f.StringVar(&r.replaces, "replaces", "", "Name of the release that this one replaces, as in berth.v0.1.0; empty for none.")
	f.StringVar(&icon, "icon", "", "SVG that stands for the operator.")
	if err := f.Parse(args); err != nil {
		return err
	}
	r.platforms = strings.Split(platforms, ",")
	svg, err := os.ReadFile(icon)
	if err != nil {
		return err
	}
	r.icon = base64.StdEncoding.EncodeToString(svg)
	if err := r.validate(); err != nil {
		return err
	}
	in, err := read(manifests)
	if err != nil {
		return err
	}
	files, err := in.bundle(r)
	if err != nil {
		return err
	}
	return write(out, files, map[string][]byte{
		out + ".Dockerfile": dockerfile(r),
		// The project's own .dockerignore excludes the bundle.
		out + ".Dockerfile.dockerignore": []byte("**\n!bundle/**\n"),
	})
}

func (r release) validate() error {
	if _, err := version.ParseSemantic(r.version); err != nil || strings.HasPrefix(r.version, "v") {
		return fmt.Errorf("-version %q: must be a semantic version without v", r.version)
	}
	name := r.image[strings.LastIndexByte(r.image, '/')+1:]
	if !strings.ContainsAny(name, ":@") || strings.HasSuffix(name, ":latest") {
		return fmt.Errorf("-image %q: must be of one release, by tag or digest", r.image)
	}
	for _, platform := range r.platforms {
		if system, architecture, found := strings.Cut(platform, "/"); !found || system == "" || architecture == "" ||
			strings.Contains(architecture, "/") {
			return fmt.Errorf("-platforms: %q must be an operating system and an architecture, as in linux/amd64", platform)
		}
	}
	if r.channel == "" {
		return fmt.Errorf("-channel is missing")
	}
	return nil
}

// bundle returns the bundle's files by path within its folder.
func (in *input) bundle(r release) (map[string][]byte, error) {
	if err := in.fillCSV(r); err != nil {
		return nil, err
	}
	files := map[string][]byte{"metadata/annotations.yaml": annotations(r)}
	objects := map[string]object{
		"manifests/" + packageName + ".clusterserviceversion.yaml": in.csv,
		"tests/scorecard/config.yaml":                              in.scorecard,
	}
	for _, crd := range in.crds {
		plural, group, _ := strings.Cut(crd.GetName(), ".")
		objects["manifests/"+group+"_"+plural+".yaml"] = crd
	}
	for _, o := range in.extra {
		objects["manifests/"+fileName(o)] = withoutNamespace(o)
	}
	for path, o := range objects {
		text, err := encode(o)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", path, err)
		}
		files[path] = text
	}
	return files, nil
}

// write replaces the parts of a bundle in the folder out by files. beside are further files by path.
func write(out string, files, beside map[string][]byte) error {
	for _, part := range []string{"manifests", "metadata", "tests"} {
		if err := os.RemoveAll(filepath.Join(out, part)); err != nil {
			return err
		}
	}
	for path, text := range files {
		path := filepath.Join(out, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	for path, text := range beside {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

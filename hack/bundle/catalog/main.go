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

// Command catalog renders the file-based catalog that offers the bundle to the Operator Lifecycle Manager (OLM). Its
// output is that of `opm alpha render-template semver` for the bundle's image. It only supports a catalog with one
// release. For more releases, use opm, which reads the images of the other releases.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// template is opm's template of schema olm.semver.
type template struct {
	Schema                string `json:"schema"`
	GenerateMajorChannels bool   `json:"generateMajorChannels,omitempty"`
	Candidate             stream `json:"candidate,omitzero"`
	Fast                  stream `json:"fast,omitzero"`
	Stable                stream `json:"stable,omitzero"`
}

type stream struct {
	Bundles []struct {
		Image string `json:"image"`
	} `json:"bundles,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var from, bundle, out string
	f := flag.NewFlagSet("catalog", flag.ExitOnError)
	f.StringVar(&from, "template", "catalog/template.yaml", "The releases.")
	f.StringVar(&bundle, "bundle", "bundle", "Folder of the bundle.")
	f.StringVar(&out, "out", "catalog/berth/catalog.yaml", "File to write.")
	if err := f.Parse(args); err != nil {
		return err
	}
	t := template{}
	if err := load(from, &t); err != nil {
		return err
	}
	csv := &unstructured.Unstructured{}
	if err := loadCSV(bundle, csv); err != nil {
		return err
	}
	text, err := render(t, csv)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

func load(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func loadCSV(bundle string, csv *unstructured.Unstructured) error {
	paths, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil {
		return err
	}
	if len(paths) != 1 {
		return fmt.Errorf("%s has %d ClusterServiceVersions", bundle, len(paths))
	}
	return load(paths[0], &csv.Object)
}

// render returns the catalog with the single release.
func render(t template, csv *unstructured.Unstructured) ([]byte, error) {
	if t.Schema != "olm.semver" || !t.GenerateMajorChannels {
		return nil, errors.New("the template must be of schema olm.semver and ask for channels of major versions")
	}
	spec, _, err := unstructured.NestedMap(csv.Object, "spec")
	if err != nil {
		return nil, err
	}
	release, err := version.ParseSemantic(fmt.Sprint(spec["version"]))
	if err != nil {
		return nil, err
	}
	pkg := strings.TrimSuffix(csv.GetName(), ".v"+release.String())
	var image string
	var channels []any
	for _, s := range []struct {
		name string
		stream
	}{{"candidate", t.Candidate}, {"fast", t.Fast}, {"stable", t.Stable}} {
		if len(s.Bundles) == 0 {
			continue
		}
		if image = s.Bundles[0].Image; len(s.Bundles) > 1 || !strings.HasSuffix(image, ":v"+release.String()) {
			return nil, fmt.Errorf("%s: only release %s can be rendered here; with others beside it, have opm render the template", s.name, release)
		}
		channels = append(channels, map[string]any{
			"schema": "olm.channel", "package": pkg, "name": fmt.Sprintf("%s-v%d", s.name, release.Major()),
			"entries": []any{map[string]any{"name": csv.GetName()}},
		})
	}
	if len(channels) == 0 {
		return nil, errors.New("the template has no release")
	}
	// Subscriptions without a channel get the channel of the most trusted stream.
	best, _ := channels[len(channels)-1].(map[string]any)
	blobs := []any{map[string]any{
		"schema": "olm.package", "name": pkg, "defaultChannel": best["name"],
		"description": csv.GetAnnotations()["description"], "icon": icon(spec),
	}}
	blobs = append(blobs, channels...)
	blobs = append(blobs, bundleOf(pkg, image, csv, spec))
	var out bytes.Buffer
	for i, b := range blobs {
		text, err := yaml.Marshal(b)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			// The comment must be inside the first document. opm reads a comment before a separator as a document
			// without a schema, and rejects the catalog.
			out.WriteString("# Made by `make catalog` from template.yaml and the bundle.\n")
		} else {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

func icon(spec map[string]any) map[string]any {
	icons, _ := spec["icon"].([]any)
	if len(icons) == 0 {
		return nil
	}
	out, _ := icons[0].(map[string]any)
	return out
}

// bundleOf returns the catalog's entry for a bundle: what it provides, its metadata for display, and all of its images.
func bundleOf(pkg, image string, csv *unstructured.Unstructured, spec map[string]any) map[string]any {
	var properties []any
	described, _, _ := unstructured.NestedSlice(spec, "customresourcedefinitions", "owned")
	for _, d := range described {
		d, _ := d.(map[string]any)
		_, group, _ := strings.Cut(fmt.Sprint(d["name"]), ".")
		properties = append(properties, property("olm.gvk", map[string]any{"group": group, "kind": d["kind"], "version": d["version"]}))
	}
	properties = append(properties, property("olm.package", map[string]any{"packageName": pkg, "version": spec["version"]}))
	shown := map[string]any{"annotations": csv.GetAnnotations(), "crdDescriptions": spec["customresourcedefinitions"],
		"apiServiceDefinitions": map[string]any{}}
	if labels := csv.GetLabels(); len(labels) > 0 {
		shown["labels"] = labels
	}
	for _, field := range []string{"description", "displayName", "installModes", "keywords", "links", "maintainers", "maturity",
		"minKubeVersion", "provider"} {
		shown[field] = spec[field]
	}
	properties = append(properties, property("olm.csv.metadata", shown))
	images, _ := spec["relatedImages"].([]any)
	return map[string]any{
		"schema": "olm.bundle", "name": csv.GetName(), "package": pkg, "image": image, "properties": properties,
		"relatedImages": append([]any{map[string]any{"image": image, "name": ""}}, images...),
	}
}

func property(kind string, value map[string]any) map[string]any {
	return map[string]any{"type": kind, "value": value}
}

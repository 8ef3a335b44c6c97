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

package bundle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// fileBasedCatalog is what opm loads from catalog.yaml. The types are written by hand from those of opm, which drops fields
// that it does not know; reading them is strict, so that such a field fails the test.
type fileBasedCatalog struct {
	packages []catalogPackage
	channels []catalogChannel
	bundles  []catalogBundle
}

type catalogPackage struct {
	Schema         string `json:"schema"`
	Name           string `json:"name"`
	DefaultChannel string `json:"defaultChannel"`
	Description    string `json:"description"`
	Icon           struct {
		Data      []byte `json:"base64data"`
		MediaType string `json:"mediatype"`
	} `json:"icon"`
	Properties []catalogProperty `json:"properties"`
}

type catalogChannel struct {
	Schema  string `json:"schema"`
	Name    string `json:"name"`
	Package string `json:"package"`
	Entries []struct {
		Name      string   `json:"name"`
		Replaces  string   `json:"replaces"`
		Skips     []string `json:"skips"`
		SkipRange string   `json:"skipRange"`
	} `json:"entries"`
	Properties []catalogProperty `json:"properties"`
}

type catalogBundle struct {
	Schema        string            `json:"schema"`
	Name          string            `json:"name"`
	Package       string            `json:"package"`
	Image         string            `json:"image"`
	Properties    []catalogProperty `json:"properties"`
	RelatedImages []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	} `json:"relatedImages"`
}

type catalogProperty struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// loadCatalog loads the committed catalog by the rules of file-based catalogs: every document of the stream, one that has
// nothing but a comment too, is an object with a schema and a name.
func loadCatalog(t *testing.T) fileBasedCatalog {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "catalog", packageName, "catalog.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out fileBasedCatalog
	// The decoder that opm reads catalogs with.
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for i := 0; ; i++ {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		if len(document) == 0 {
			document = json.RawMessage("{}")
		}
		var meta struct {
			Schema string `json:"schema"`
			Name   string `json:"name"`
		}
		if err := json.Unmarshal(document, &meta); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		if meta.Schema == "" {
			t.Fatalf("document %d: object %q is missing root schema field", i, meta.Name)
		}
		if meta.Name == "" {
			t.Fatalf("document %d of schema %s has no name", i, meta.Schema)
		}
		switch meta.Schema {
		case "olm.package":
			out.packages = append(out.packages, decodeStrictly[catalogPackage](t, document))
		case "olm.channel":
			out.channels = append(out.channels, decodeStrictly[catalogChannel](t, document))
		case "olm.bundle":
			out.bundles = append(out.bundles, decodeStrictly[catalogBundle](t, document))
		default:
			t.Fatalf("document %d has the schema %s, which OLM does not know", i, meta.Schema)
		}
	}
}

func decodeStrictly[T any](t *testing.T, document []byte) T {
	t.Helper()
	var out T
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The properties by which OLM resolves a bundle and shows it.
func TestPropertiesOfTheCatalogsBundle(t *testing.T) {
	b, c := mustLoad(t), loadCatalog(t)
	for _, bundle := range c.bundles {
		byType := map[string][]json.RawMessage{}
		for _, p := range bundle.Properties {
			byType[p.Type] = append(byType[p.Type], p.Value)
		}
		if len(byType["olm.package"]) != 1 || len(byType["olm.csv.metadata"]) != 1 || len(byType["olm.gvk"]) != len(b.crds) {
			t.Fatalf("bundle %s has the properties %v", bundle.Name, byType)
		}
		pkg := decodeStrictly[struct {
			PackageName string `json:"packageName"`
			Version     string `json:"version"`
		}](t, byType["olm.package"][0])
		if pkg.PackageName != bundle.Package || pkg.Version != b.csv.Spec.Version {
			t.Errorf("bundle %s of package %s is %+v", bundle.Name, bundle.Package, pkg)
		}
		var images []string
		for _, related := range bundle.RelatedImages {
			images = append(images, related.Image)
		}
		if want := []string{bundle.Image, b.csv.Metadata.Annotations["containerImage"]}; !sameSet(images, want) {
			t.Errorf("bundle %s has the images %q, want %q", bundle.Name, images, want)
		}
	}
}

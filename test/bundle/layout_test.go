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
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestMetadata(t *testing.T) {
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := readStrictly(filepath.Join(root, "bundle", "metadata", "annotations.yaml"), &metadata); err != nil {
		t.Fatal(err)
	}
	const prefix = "operators.operatorframework.io.bundle."
	have := metadata.Annotations
	for key, want := range map[string]string{
		"mediatype.v1": "registry+v1", "manifests.v1": "manifests/", "metadata.v1": "metadata/", "package.v1": packageName,
	} {
		if have[prefix+key] != want {
			t.Errorf("%s is %q, want %q", key, have[prefix+key], want)
		}
	}
	channels := strings.Split(have[prefix+"channels.v1"], ",")
	if channel := have[prefix+"channel.default.v1"]; channel == "" || !slices.Contains(channels, channel) {
		t.Errorf("the default channel %q is none of %q", channel, channels)
	}
	dockerfile, err := os.ReadFile(filepath.Join(root, "bundle.Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, l := range regexp.MustCompile(`(?m)^LABEL (.+?)=(.+)$`).FindAllStringSubmatch(string(dockerfile), -1) {
		labels[l[1]] = l[2]
	}
	if diff := cmp.Diff(have, labels); diff != "" {
		t.Errorf("annotations (-) and labels of the image (+) differ:\n%s", diff)
	}
	for _, copied := range regexp.MustCompile(`(?m)^COPY (\S+) /(\S+)/$`).FindAllStringSubmatch(string(dockerfile), -1) {
		if info, err := os.Stat(filepath.Join(root, copied[1])); err != nil || !info.IsDir() || copied[1] != "bundle/"+copied[2] {
			t.Errorf("the image has %s at %s", copied[1], copied[2])
		}
	}
}

// admitted are the kinds that OLM v0 and v1 take beside the CSV, those apart whose definitions a cluster may lack.
var admitted = []string{
	"ConfigMap", "NetworkPolicy.networking.k8s.io", "PodDisruptionBudget.policy", "PriorityClass.scheduling.k8s.io", "Service",
	"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io", "Role.rbac.authorization.k8s.io",
	"RoleBinding.rbac.authorization.k8s.io",
}

func TestExtraObjects(t *testing.T) {
	b := mustLoad(t)
	for file, o := range b.extra {
		if kind := o.GroupVersionKind().GroupKind().String(); !slices.Contains(admitted, kind) {
			t.Errorf("%s: OLM takes no %s", file, kind)
		}
		if o.GetNamespace() != "" {
			t.Errorf("%s names the namespace %q, which is the administrator's to choose", file, o.GetNamespace())
		}
		if o.GetName() == "" || len(validation.IsDNS1123Subdomain(o.GetName())) > 0 {
			t.Errorf("%s: name %q", file, o.GetName())
		}
		path := filepath.Join(root, "bundle", "manifests", file)
		typed, err := scheme.Scheme.New(o.GroupVersionKind())
		if err != nil {
			t.Error(err)
			continue
		}
		if err := readStrictly(path, typed); err != nil {
			t.Error(err)
		}
	}
}

func TestDefinitionsAreThoseOfConfig(t *testing.T) {
	b := mustLoad(t)
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		o := &unstructured.Unstructured{}
		if err := readStrictly(file, &o.Object); err != nil {
			t.Fatal(err)
		}
		want[filepath.Base(file)] = o
	}
	if diff := cmp.Diff(want, b.crds); diff != "" {
		t.Errorf("config/crd/bases (-) and bundle (+) differ; run make bundle:\n%s", diff)
	}
}

// OLM keeps a bundle in a ConfigMap while it unpacks it.
func TestSize(t *testing.T) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	pack := tar.NewWriter(zip)
	if err := pack.AddFS(os.DirFS(filepath.Join(root, "bundle"))); err != nil {
		t.Fatal(err)
	}
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() >= 1<<20 {
		t.Errorf("the bundle takes %d bytes compressed", out.Len())
	}
}

// The same commands as a developer's, into another folder.
func TestCommittedIsWhatIsGenerated(t *testing.T) {
	dir := t.TempDir()
	for _, target := range []string{"bundle", "catalog"} {
		cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", root, target,
			"BUNDLE="+filepath.Join(dir, "bundle"), "CATALOG="+filepath.Join(dir, "catalog", packageName, "catalog.yaml"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	for _, part := range []string{"bundle", "bundle.Dockerfile", "bundle.Dockerfile.dockerignore", "catalog/" + packageName} {
		want, err := texts(filepath.Join(dir, part))
		if err != nil {
			t.Fatal(err)
		}
		have, err := texts(filepath.Join(root, part))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s: generated (-) and committed (+) differ; run make bundle catalog:\n%s", part, diff)
		}
	}
}

// texts returns the files below a path, or the one that is there.
func texts(path string) (map[string]string, error) {
	out := map[string]string{}
	return out, filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(path, file)
		out[name] = string(text)
		return err
	})
}

func TestCatalog(t *testing.T) {
	b := mustLoad(t)
	c := loadCatalog(t)
	if len(c.packages) != 1 || len(c.channels) != 1 || len(c.bundles) != 1 {
		t.Fatalf("got %d packages, %d channels and %d bundles", len(c.packages), len(c.channels), len(c.bundles))
	}
	pkg, channel, bundle := c.packages[0], c.channels[0], c.bundles[0]
	if pkg.Name != packageName || pkg.DefaultChannel != channel.Name || channel.Package != packageName {
		t.Errorf("package %s with default channel %s, and channel %s of %s", pkg.Name, pkg.DefaultChannel, channel.Name, channel.Package)
	}
	if len(channel.Entries) != 1 || channel.Entries[0].Name != b.csv.Metadata.Name {
		t.Errorf("entries of the channel: %+v, want %s alone", channel.Entries, b.csv.Metadata.Name)
	}
	if bundle.Name != b.csv.Metadata.Name || bundle.Package != packageName || !strings.HasSuffix(bundle.Image, ":v"+b.csv.Spec.Version) {
		t.Errorf("bundle %s of %s in image %s", bundle.Name, bundle.Package, bundle.Image)
	}
	metadata, err := os.ReadFile(filepath.Join(root, "bundle", "metadata", "annotations.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("bundle.channels.v1: %s\n", channel.Name); !strings.Contains(string(metadata), want) {
		t.Errorf("the bundle is for another channel than the catalog's: %q is not in its annotations", want)
	}
}

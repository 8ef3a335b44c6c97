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

package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// testedMinors returns the minor releases of Kubernetes whose API servers tests run on, the oldest first.
func testedMinors(t *testing.T) []string {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join(root, "hack/controlplane/compat/*/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`k8s\.io/kubernetes v(\d+\.\d+)\.\d+`)
	var out []string
	for _, file := range append(modules, filepath.Join(root, "hack/controlplane/go.mod")) {
		found := required.FindStringSubmatch(contents(t, file))
		if found == nil {
			t.Fatalf("%s does not require a release of k8s.io/kubernetes", file)
		}
		if dir := filepath.Base(filepath.Dir(file)); dir != "controlplane" && dir != found[1] {
			t.Errorf("%s requires Kubernetes %s", file, found[1])
		}
		out = append(out, found[1])
	}
	slices.SortFunc(out, func(a, b string) int {
		order, err := utilversion.MustParseGeneric(a).Compare(b)
		if err != nil {
			t.Fatal(err)
		}
		return order
	})
	return out
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestModulesShareVersions checks that what the operator shares with the control plane of tests, with tools, and with OPA has the same
// version there. Otherwise, Go compiles it and all that imports it once more, which takes minutes with an empty cache. A replacement does
// not help, since paths in what is compiled have the replaced version: later versions have to be excluded.
func TestModulesShareVersions(t *testing.T) {
	// These need other versions, which few packages import.
	excepted := map[string][]string{
		"go.tools.mod": {
			"github.com/Masterminds/semver/v3", "github.com/gobwas/glob", "github.com/google/pprof",
			"golang.org/x/mod", "golang.org/x/perf", "golang.org/x/tools",
		},
		"hack/helm/go.mod":       {"github.com/Azure/go-ansiterm", "github.com/Masterminds/semver/v3", "github.com/moby/term"},
		"hack/prometheus/go.mod": {"github.com/google/pprof", "golang.org/x/exp"},
	}
	own := requirements(t, "go.mod")
	for _, file := range []string{
		"go.tools.mod", "hack/controlplane/go.mod", "hack/helm/go.mod", "hack/image/go.mod", "hack/opa/go.mod", "hack/prometheus/go.mod",
	} {
		var other []string
		for module, version := range requirements(t, file) {
			if want, shared := own[module]; shared && version != want && !slices.Contains(excepted[file], module) {
				other = append(other, fmt.Sprintf("%s %s (there %s)", module, want, version))
			}
		}
		if slices.Sort(other); len(other) > 0 {
			t.Errorf("%s has other versions of modules than go.mod; require these there, and exclude those that are later:\n%s",
				file, strings.Join(other, "\n"))
		}
	}
}

// requirements returns the versions that a file such as go.mod requires, by module.
func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json", file)
	cmd.Dir = root
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range parsed.Require {
		out[r.Path] = r.Version
	}
	return out
}

// TestSupportedVersions checks that the supported versions in documents and manifests begin with the oldest release
// that tests run on.
func TestSupportedVersions(t *testing.T) {
	tested := testedMinors(t)
	oldest := tested[0]
	for file, want := range map[string]string{
		"charts/berth/Chart.yaml":                                 `kubeVersion: ">=` + oldest + `.0-0"`,
		"config/manifests/bases/berth.clusterserviceversion.yaml": "minKubeVersion: " + oldest + ".0\n",
		"bundle/manifests/berth.clusterserviceversion.yaml":       "minKubeVersion: " + oldest + ".0\n",
		"README.md":                  "Kubernetes " + oldest + " ",
		"docs/install.md":            "Kubernetes " + oldest + " and newer",
		"docs/quickstart.md":         "Kubernetes " + oldest + " or newer",
		"docs/contributing.md":       "make test-compat COMPAT=" + oldest + "`",
		"Makefile":                   "test-race test-compat\n",
		".github/workflows/test.yml": "make test-compat COMPAT=" + oldest + " ",
	} {
		if !strings.Contains(contents(t, filepath.Join(root, filepath.FromSlash(file))), want) {
			t.Errorf("%s does not have %q", file, want)
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+\.\d+) \| .make test`).FindAllStringSubmatch(contents(t, filepath.Join(root, "docs/install.md")), -1)
	var documented []string
	for _, row := range rows {
		documented = append(documented, row[1])
	}
	slices.Reverse(documented)
	if !slices.Equal(documented, tested) {
		t.Errorf("docs/install.md says that tests run on %v, and they run on %v", documented, tested)
	}
}

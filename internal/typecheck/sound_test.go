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

package typecheck_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/migration"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/internal/typecheck"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/conformance"
)

// root is the path of the repository.
const root = "../.."

// written returns the policies of the documentation, the examples, the samples, and the correct manifests in the corpus
// of mistakes, keyed by their location.
func written(t *testing.T) map[string]placementv1.PlacementPolicySpec {
	t.Helper()
	out := map[string]placementv1.PlacementPolicySpec{}
	var files []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/examples/*.yaml", "docs/examples/*/*.yaml", "docs/examples/stories/*/*.yaml", "config/samples/*.yaml", "test/mistakes/correct/*.yaml", "hack/demo/*.yaml", "test/bench/fixture/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	fences := regexp.MustCompile("(?ms)^```ya?ml[^\n]*\n(.*?)^```")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts := [][]byte{text}
		var entries []struct {
			Apply string `json:"apply"`
		}
		if yaml.Unmarshal(text, &entries) == nil {
			texts = nil
			for _, e := range entries {
				texts = append(texts, []byte(e.Apply))
			}
		}
		if strings.HasSuffix(file, ".md") {
			texts = nil
			for _, block := range fences.FindAllSubmatch(text, -1) {
				texts = append(texts, block[1])
			}
		}
		for _, text := range texts {
			for i, document := range bytes.Split(text, []byte("\n---")) {
				var p placementv1.PlacementPolicy
				if yaml.Unmarshal(document, &p) != nil || p.Kind != "PlacementPolicy" || p.Spec.Rego == "" {
					continue
				}
				out[fmt.Sprintf("%s/%s/%d", strings.TrimPrefix(file, root+"/"), p.Name, i)] = p.Spec.WithDefaults()
			}
		}
	}
	return out
}

// matched returns the kinds that a policy matches; nil if one of them is not recorded.
func matched(spec placementv1.PlacementPolicySpec) []typecheck.Kind {
	var out []typecheck.Kind
	for _, rule := range spec.Match.ResourceRules {
		for _, resource := range rule.Resources {
			r, ok := cluster[resource]
			if !ok || typeOf(r) == nil {
				return nil
			}
			out = append(out, typecheck.Kind{Resource: r.GroupResource(), Type: typeOf(r)})
		}
	}
	return out
}

// TestDocumentedPoliciesHaveNoFindings checks that correct policies have no findings.
func TestDocumentedPoliciesHaveNoFindings(t *testing.T) {
	policies := written(t)
	checked := 0
	for name, spec := range policies {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", spec)
			if err != nil {
				t.Skipf("a policy that does not compile: %v", err)
			}
			checked++
			if len(m.Warnings) > 0 {
				t.Errorf("warnings %q\n%s", m.Warnings, spec.Rego)
			}
			in := input(t, spec)
			in.Kinds = matched(spec)
			result := typecheck.Check(in)
			if len(result.Findings) > 0 || result.Unchecked != "" {
				t.Errorf("%q %s\n%s", texts(result), result.Unchecked, spec.Rego)
			}
		})
	}
	if checked < 19 {
		t.Errorf("only %d of %d policies compile: %v", checked, len(policies), slices.Sorted(maps.Keys(policies)))
	}
}

// literals returns the policies in the raw strings of a Go file.
func literals(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil && strings.HasPrefix(strings.TrimSpace(text), "package ") {
				out = append(out, text)
			}
		}
		return true
	})
	return out
}

// compiled returns a spec with the Rego in the language version in which it compiles. The result ok is false if it
// compiles in neither.
func compiled(text string) (spec placementv1.PlacementPolicySpec, ok bool) {
	for _, version := range []placementv1.RegoVersion{placementv1.RegoV1, placementv1.RegoV0} {
		spec = placementv1.PlacementPolicySpec{Rego: text, RegoVersion: version}
		if _, err := policy.Compile("p", spec); err == nil {
			return spec, true
		}
	}
	return spec, false
}

// wantNoFindings checks a policy that matches the types with the given plural names; without names, any type.
func wantNoFindings(t *testing.T, spec placementv1.PlacementPolicySpec, matched ...string) {
	t.Helper()
	in := input(t, spec, matched...)
	// Ignore missing documents, because the Rego comes without its policy's spec.data.
	in.Known = nil
	if result := typecheck.Check(in); result.Total > 0 || result.Unchecked != "" {
		t.Errorf("for %q: %q %s\n%s", matched, texts(result), result.Unchecked, spec.Rego)
	}
}

// seeds has the number of policies in the tests with the designs that Berth began with.
var seeds = map[string]struct{ policies, migrated int }{
	"internal/engine/embedded/seed_test.go":   {policies: 1, migrated: 1},
	"test/integration/admission/seed_test.go": {policies: 2, migrated: 2},
}

func TestSeedPoliciesHaveNoFindings(t *testing.T) {
	for file, want := range seeds {
		checked := 0
		for _, text := range literals(t, file) {
			if spec, ok := compiled(text); ok {
				checked++
				wantNoFindings(t, spec)
				wantNoFindings(t, spec, "deployments")
				wantNoFindings(t, spec, "deployments", "statefulsets")
			}
		}
		if checked < want.policies {
			t.Errorf("%s: only %d policies compile, want %d", file, checked, want.policies)
		}
	}
}

// TestMigratedPoliciesHaveNoFindings checks the policies that `migrate` converts from the example, from the seeds, and
// from its own tests. Those of its own tests match no particular kind.
func TestMigratedPoliciesHaveNoFindings(t *testing.T) {
	wantAll := func(sources [][]corev1.ConfigMap, least int, matched ...string) {
		t.Helper()
		checked := 0
		for _, source := range sources {
			for _, p := range migration.Convert(source, migrationOptions(t)).Policies {
				checked++
				wantNoFindings(t, p.Object.Spec.WithDefaults(), matched...)
			}
		}
		if checked < least {
			t.Errorf("only %d policies come out of migration, want %d", checked, least)
		}
	}
	for file, want := range seeds {
		t.Log(file)
		wantAll(configMaps(literals(t, file)), want.migrated)
		wantAll(configMaps(literals(t, file)), want.migrated, "deployments")
	}
	wantAll(configMaps(literals(t, "internal/migration/migration_test.go")), 8)
	wantAll([][]corev1.ConfigMap{migrationExample(t)}, 1, "deployments")
}

func migrationOptions(t *testing.T) migration.Options {
	t.Helper()
	out := migration.Options{
		Resources: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
	}
	var err error
	if out.Policies, err = labels.Parse(migration.DefaultPolicySelector); err != nil {
		t.Fatal(err)
	}
	if out.Data, err = labels.Parse(migration.DefaultDataSelector); err != nil {
		t.Fatal(err)
	}
	return out
}

// configMaps returns a ConfigMap for each text, as kube-mgmt reads them.
func configMaps(texts []string) [][]corev1.ConfigMap {
	var out [][]corev1.ConfigMap
	for _, text := range texts {
		out = append(out, []corev1.ConfigMap{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "opa", Name: "seed", Labels: map[string]string{"openpolicyagent.org/policy": "rego"}},
			Data:       map[string]string{"seed.rego": text},
		}})
	}
	return out
}

// migrationExample returns the ConfigMaps of the example in the documentation.
func migrationExample(t *testing.T) []corev1.ConfigMap {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "examples", "migration", "opa.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []corev1.ConfigMap
	for document := range bytes.SplitSeq(text, []byte("\n---")) {
		var cm corev1.ConfigMap
		if yaml.Unmarshal(document, &cm) == nil && cm.Kind == "ConfigMap" {
			out = append(out, cm)
		}
	}
	return out
}

// TestBenchmarkPoliciesHaveNoFindings checks the policies that benchmarks use.
func TestBenchmarkPoliciesHaveNoFindings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "test/bench/fixture/*.rego"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		spec, ok := compiled(string(text))
		if !ok {
			t.Fatalf("%s does not compile", file)
		}
		wantNoFindings(t, spec)
		wantNoFindings(t, spec, "deployments")
	}
}

// TestDocumentedRulesHaveNoFindings checks the rules in the documentation that have no package. They belong to policies
// that match Deployments.
func TestDocumentedRulesHaveNoFindings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	fences := regexp.MustCompile("(?ms)^```rego[^\n]*\n(.*?)^```")
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range fences.FindAllSubmatch(text, -1) {
			rego := string(block[1])
			if !strings.HasPrefix(rego, "package") {
				rego = "package p\n\n" + rego
			}
			spec := placementv1.PlacementPolicySpec{Rego: rego, RegoVersion: placementv1.RegoV1}
			if _, err := policy.Compile("p", spec); err != nil {
				t.Logf("%s/%d: %v", file, i, err)
				continue
			}
			checked++
			if result := typecheck.Check(input(t, spec, "deployments")); result.Total > 0 || result.Unchecked != "" {
				t.Errorf("%s: %q %s\n%s", file, texts(result), result.Unchecked, rego)
			}
		}
	}
	if checked < 3 {
		t.Errorf("only %d blocks compile", checked)
	}
}

// reading has the policies of the corpus that read missing fields on purpose.
var reading = map[string]bool{
	// It reads data.staticNested.a.b.z.
	"static/documents": true,
}

func TestConformanceCorpusHasNoFindings(t *testing.T) {
	themes, err := conformance.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, theme := range themes {
		world, err := theme.World()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range theme.Policies {
			t.Run(theme.Name+"/"+p.Name, func(t *testing.T) {
				spec := p.Spec()
				module, err := policy.Compile(p.Name, spec)
				if err != nil {
					t.Fatal(err)
				}
				binding, err := policy.Bind(p.Name, module, spec.Replicate, world)
				if err != nil {
					t.Fatal(err)
				}
				in := typecheck.Input{Spec: spec, Binding: binding, Objects: map[schema.GroupVersionResource]types.Type{}}
				for _, r := range binding.Resources {
					if known, ok := cluster[r.Resource]; ok && known.GroupVersionResource == r.GroupVersionResource && typeOf(r) != nil {
						in.Objects[r.GroupVersionResource] = typeOf(r)
					}
				}
				result := typecheck.Check(in)
				if found := len(result.Findings) > 0 || result.Unchecked != ""; found != reading[theme.Name+"/"+p.Name] {
					t.Errorf("%q %s\n%s", texts(result), result.Unchecked, spec.Rego)
				}
			})
		}
	}
}

// TestCheckAcceptsWhatTheCompilerAccepts checks that the compilation with types accepts every policy that the compiler
// accepts. With types that allow everything, the findings must be those of the Rego alone. With a schema, the check
// must return a result.
func TestCheckAcceptsWhatTheCompilerAccepts(t *testing.T) {
	checked, seeds := 0, budget.Rounds(75)
	for seed := range uint64(seeds) {
		g := &policytest.Generator{Bytes: policytest.RandomBytes(seed), Wide: true, V0: seed%3 == 0}
		spec := placementv1.PlacementPolicySpec{Rego: g.Policy(), RegoVersion: placementv1.RegoV1}
		if g.V0 {
			spec.RegoVersion = placementv1.RegoV0
		}
		module, err := policy.Compile("p", spec)
		if err != nil {
			continue
		}
		binding, err := policy.Bind("p", module, nil, cluster)
		if err != nil {
			continue
		}
		checked++
		in := typecheck.Input{Spec: spec, Binding: binding}
		for _, kinds := range [][]typecheck.Kind{nil, {{Type: typeOf(cluster["deployments"])}}} {
			in.Kinds = kinds
			if result := typecheck.Check(in); result.Unchecked != "" && !strings.Contains(result.Unchecked, "berth_size_error") {
				t.Errorf("seed %d: %s\n%s", seed, result.Unchecked, spec.Rego)
			}
		}
	}
	if checked < seeds/8 {
		t.Errorf("only %d policies compile", checked)
	}
}

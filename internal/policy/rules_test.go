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

package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rules"
)

func TestRulesDigest(t *testing.T) {
	one := []placementv1.Rule{{Name: "all", Set: &placementv1.RuleSettings{Labels: map[string]placementv1.RuleText{"a": "b"}}}}
	m, err := policy.Compile("p", placementv1.PlacementPolicySpec{Rules: one})
	if err != nil {
		t.Fatal(err)
	}
	rendered, _, errs := rules.Render(one)
	if len(errs) > 0 || m.RulesDigest() != rules.Digest(rendered.Text) || len(m.RulesDigest()) != len("sha256:")+64 {
		t.Errorf("digest %q of the text %q, errors %v", m.RulesDigest(), m.Text, errs)
	}
	if m, err = policy.Compile("p", placementv1.PlacementPolicySpec{Rego: rendered.Text}); err != nil || m.RulesDigest() != "" {
		t.Errorf("a policy with the same text as Rego has the digest %q, error %v", m.RulesDigest(), err)
	}
}

// TestRulesReadFields checks that the analysis understands the Rego of each construct. Otherwise, Berth replicates and compares whole
// objects.
func TestRulesReadFields(t *testing.T) {
	files, err := filepath.Glob("../rules/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var spec placementv1.PlacementPolicySpec
			if err := yaml.UnmarshalStrict(text, &spec.Rules); err != nil {
				t.Fatal(err)
			}
			m, err := policy.Compile("p", spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range m.Data.Paths() {
				if path == ".**" || strings.HasPrefix(path, ".clusters.*.**") {
					t.Errorf("the rules read data%s", path)
				}
			}
		})
	}
}

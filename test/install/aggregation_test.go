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

package install_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestAggregatedRolesReadNoTokens checks that the rules that Berth aggregates to the ClusterRoles view, edit and admin
// do not permit to read the tokens by which webhooks authenticate the API server.
func TestAggregatedRolesReadNoTokens(t *testing.T) {
	files, err := filepath.Glob("../../config/rbac/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	aggregated := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(text, role); err != nil || role.Kind != "ClusterRole" {
			continue
		}
		to := slices.Sorted(func(yield func(string) bool) {
			for label := range role.Labels {
				if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") && !yield(label) {
					return
				}
			}
		})
		if len(to) == 0 {
			continue
		}
		aggregated++
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				if group != "placement.berth.dev" {
					t.Errorf("%s: %s has rights on group %q", file, to, group)
				}
			}
		}
	}
	if aggregated == 0 {
		t.Error("no role is aggregated: the labels have changed")
	}
}

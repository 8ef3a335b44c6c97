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

package delivery

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestClusterRoles checks that the ClusterRole that messages name exists, and permits what delivery to the system needs.
func TestClusterRoles(t *testing.T) {
	files, err := filepath.Glob("../../config/rbac/delivery/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]rbacv1.ClusterRole{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(text, &role); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		roles[role.Name] = role
	}
	systems := Systems(&placementv1.Delivery{
		Karmada: &placementv1.KarmadaDelivery{}, KubeFleet: &placementv1.KubeFleetDelivery{},
		PlacementDecision: &placementv1.PlacementDecisionDelivery{}, OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{},
	})
	for _, system := range native {
		systems = append(systems, system)
	}
	for _, system := range systems {
		role, found := roles[system.ClusterRole]
		if !found {
			t.Errorf("%s: config/rbac/delivery has no ClusterRole %s", system.Name, system.ClusterRole)
			continue
		}
		if role.Labels["placement.berth.dev/aggregate-to-manager"] != "true" {
			t.Errorf("%s: ClusterRole %s has no label by which Berth's ClusterRole aggregates it", system.Name, role.Name)
		}
		need := func(group, resource string, verbs ...string) {
			for _, verb := range verbs {
				if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
					return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
				}) {
					t.Errorf("%s: ClusterRole %s does not permit to %s %s.%s", system.Name, role.Name, verb, resource, group)
				}
			}
		}
		for _, kind := range append(system.ReportKinds(), system.WorkKinds()...) {
			need(kind.Group, kind.Resource, "get", "list", "watch")
		}
		for _, kind := range system.Kinds {
			need(kind.Group, kind.Resource, "get", "list", "watch")
			if !kind.Existing {
				// Server-side apply needs the verbs create and patch.
				need(kind.Group, kind.Resource, "create", "patch", "delete")
			} else {
				// Remediation patches the placement object when its clusters change.
				need(kind.Group, kind.Resource, "patch")
			}
			if kind.Status {
				need(kind.Group, kind.Resource+"/status", "patch")
			}
		}
	}
}

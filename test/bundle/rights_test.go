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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// grants are rights one by one, so that the same rights are equal however rules spell them.
type grants map[string]bool

func (g grants) add(rules []rbacv1.PolicyRule) {
	or := func(list []string) []string {
		if len(list) == 0 {
			return []string{""}
		}
		return list
	}
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				g[verb+" "+url] = true
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, name := range or(r.ResourceNames) {
						g[strings.TrimSpace(verb+" "+resource+"."+group+" "+name)] = true
					}
				}
			}
		}
	}
}

func (g grants) String() string { return strings.Join(slices.Sorted(maps.Keys(g)), "\n") }

// The CSV gives the manager what config/rbac gives it, what it aggregates included, but for the Secrets of engines.
func TestRightsAreThoseOfConfig(t *testing.T) {
	c := mustLoad(t).csv
	account := c.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName
	wantCluster, wantOwn := configured(t, strings.TrimPrefix(account, "berth-"))
	for what, is := range map[string]struct {
		permissions []permission
		want        grants
	}{
		"clusterPermissions": {c.Spec.Install.Spec.ClusterPermissions, wantCluster},
		"permissions":        {c.Spec.Install.Spec.Permissions, wantOwn},
	} {
		have := grants{}
		for _, p := range is.permissions {
			if p.ServiceAccountName != account {
				t.Errorf("%s are for %q", what, p.ServiceAccountName)
			}
			have.add(p.Rules)
		}
		if diff := cmp.Diff(is.want.String(), have.String()); diff != "" {
			t.Errorf("config/rbac (-) and %s (+) differ:\n%s", what, diff)
		}
		for grant := range have {
			if strings.Contains(grant, "*") {
				t.Errorf("%s have a wildcard: %s", what, grant)
			}
			if verb, rest, _ := strings.Cut(grant, " "); strings.HasPrefix(rest, "customresourcedefinitions.") && !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("%s write definitions: %s", what, grant)
			}
		}
	}
}

// configured reads what the files of config/rbac grant to an account: in the cluster, and in its own namespace.
func configured(t *testing.T, account string) (cluster, own grants) {
	t.Helper()
	type object struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Rules             []rbacv1.PolicyRule     `json:"rules"`
		AggregationRule   *rbacv1.AggregationRule `json:"aggregationRule"`
		RoleRef           rbacv1.RoleRef          `json:"roleRef"`
		Subjects          []rbacv1.Subject        `json:"subjects"`
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "rbac", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var roles, bindings []object
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var o object
		if err := yaml.UnmarshalStrict(text, &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch {
		case strings.HasSuffix(o.Kind, "RoleBinding"):
			bindings = append(bindings, o)
		case strings.HasSuffix(o.Kind, "Role"):
			roles = append(roles, o)
		}
	}
	cluster, own = grants{}, grants{}
	for _, b := range bindings {
		// OLM would grant it in every namespace.
		if b.RoleRef.Name == "engine-secrets-role" {
			continue
		}
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Kind == "ServiceAccount" && s.Name == account }) {
			continue
		}
		to := own
		if b.Kind == "ClusterRoleBinding" {
			to = cluster
		}
		for _, r := range roles {
			if r.Kind != b.RoleRef.Kind || r.Name != b.RoleRef.Name {
				continue
			}
			to.add(r.Rules)
			if r.AggregationRule == nil {
				continue
			}
			for _, s := range r.AggregationRule.ClusterRoleSelectors {
				selector, err := metav1.LabelSelectorAsSelector(&s)
				if err != nil {
					t.Fatal(err)
				}
				for _, contribution := range roles {
					if contribution.Kind == "ClusterRole" && selector.Matches(labels.Set(contribution.Labels)) {
						to.add(contribution.Rules)
					}
				}
			}
		}
	}
	return cluster, own
}

// What people are granted, the role that administrators extend by label, and the role with which the webhook
// configurations go, come with the bundle. Nothing else that the manager has from the CSV comes twice.
func TestRolesOfTheBundle(t *testing.T) {
	b := mustLoad(t)
	var have []string
	for _, o := range b.extra {
		if o.GetKind() == "ClusterRole" {
			have = append(have, o.GetName())
		}
		if strings.HasSuffix(o.GetKind(), "Binding") {
			t.Errorf("%s %s: a subject's namespace can't be known", o.GetKind(), o.GetName())
		}
	}
	want := []string{"berth-metrics-reader", "berth-workloads", "berth-placementpolicy-approver-role"}
	if owner := b.owner(); owner != "" && !slices.Contains(want, owner) {
		want = append(want, owner)
	}
	for _, kind := range b.csv.Spec.Definitions.Owned {
		for _, who := range []string{"admin", "editor", "viewer"} {
			want = append(want, "berth-"+strings.ToLower(kind.Kind)+"-"+who+"-role")
		}
	}
	if !sameSet(have, want) {
		t.Errorf("roles %q, want %q", have, want)
	}
}

// owner is the ClusterRole with which the manager has its webhook configurations go; empty if it is told none.
func (b *bundle) owner() string {
	for _, arg := range b.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers[0].Args {
		if name, ok := strings.CutPrefix(arg, "--owner-cluster-role="); ok {
			return name
		}
	}
	return ""
}

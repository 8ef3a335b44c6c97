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

package main

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// permission is what the CSV grants a ServiceAccount. OLM creates a role and a binding from it.
type permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// permissions returns what the bindings grant the Deployments' ServiceAccounts: in the whole cluster, and in the
// operator's own namespace. The other roles become extra objects.
//
// A bundle cannot contain bindings to these accounts. A binding's subject needs a namespace, which is unknown until the
// administrator installs the operator. So the rules that an aggregated role has now are copied. The role itself stays
// in the bundle for administrators, who can bind it and extend it by label. A role also stays if an argument of the
// manager names it.
func (in *input) permissions() (cluster, own []permission, err error) {
	for _, b := range in.bindings {
		for _, s := range b.Subjects {
			if s.Kind != rbacv1.ServiceAccountKind || !slices.Contains(in.operators(), s.Name) {
				return nil, nil, fmt.Errorf("%s %s: OLM can't bind %s %s", b.source.GetKind(), b.Name, s.Kind, s.Name)
			}
			rules, err := in.grant(b.RoleRef)
			if err != nil {
				return nil, nil, fmt.Errorf("%s %s: %w", b.source.GetKind(), b.Name, err)
			}
			if b.source.GetKind() == "ClusterRoleBinding" {
				cluster = add(cluster, s.Name, rules)
			} else {
				own = add(own, s.Name, rules)
			}
		}
	}
	for _, r := range in.roles {
		if !r.granted || r.AggregationRule != nil || in.named(r.Name) {
			in.extra = append(in.extra, r.source)
		}
	}
	return cluster, own, nil
}

// named reports whether an argument of a Deployment's container has this name as its value.
func (in *input) named(name string) bool {
	for _, d := range in.deployments {
		containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			c, _ := c.(map[string]any)
			args, _ := c["args"].([]any)
			if slices.ContainsFunc(args, func(arg any) bool { return strings.HasSuffix(fmt.Sprint(arg), "="+name) }) {
				return true
			}
		}
	}
	return false
}

func add(to []permission, account string, rules []rbacv1.PolicyRule) []permission {
	i := slices.IndexFunc(to, func(p permission) bool { return p.ServiceAccountName == account })
	if i < 0 {
		return append(to, permission{ServiceAccountName: account, Rules: rules})
	}
	to[i].Rules = append(to[i].Rules, rules...)
	return to
}

// grant returns the rules of a role. For an aggregated role, these include the rules of the roles that it selects.
func (in *input) grant(ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	i := slices.IndexFunc(in.roles, func(r role) bool { return r.source.GetKind() == ref.Kind && r.Name == ref.Name })
	if i < 0 {
		return nil, fmt.Errorf("there is no %s %s", ref.Kind, ref.Name)
	}
	r := &in.roles[i]
	r.granted = true
	rules := slices.Clone(r.Rules)
	if r.AggregationRule == nil {
		return rules, nil
	}
	for _, s := range r.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return nil, err
		}
		for j := range in.roles {
			contribution := &in.roles[j]
			if j != i && contribution.source.GetKind() == "ClusterRole" && selector.Matches(labels.Set(contribution.Labels)) {
				contribution.granted = true
				rules = append(rules, contribution.Rules...)
			}
		}
	}
	return rules, nil
}

// plain converts typed values to the types of unstructured objects.
func plain(permissions []permission) ([]any, error) {
	var out []any
	for _, p := range permissions {
		one, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

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

// permission is what the CSV gives a ServiceAccount. OLM makes role and binding of it.
type permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// permissions are what the bindings give the accounts of the Deployments: in the whole cluster, and in the operator's own
// namespace. The other roles become extra objects.
//
// A bundle can have no binding of its own to these accounts: a subject must name its namespace, which is wherever the
// administrator installs. So the rules that a role aggregates are copied as they are now. The role itself stays in the
// bundle for administrators who bind it and extend it by label. So does a role that the manager is told the name of.
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

// named says whether an argument of a Deployment's container is this name.
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

// grant returns the rules of the role and, of one that aggregates, those of the roles that it selects.
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

// plain makes of typed values what unstructured objects are made of.
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

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

package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
)

// notDelivered are the workloads that do not count when those that a policy gives clusters to are compared with those that it does not
// match: they are hardly delivered by themselves, because Deployments create ReplicaSets, and replace ReplicationControllers.
var notDelivered = []schema.GroupResource{appsv1.Resource("replicasets"), corev1.Resource("replicationcontrollers")}

// findingsOfGaps finds an enforced policy that decides the objects of some kinds of workloads, and not those of others, with which users
// can do the same. There is at most one warning, and none if the types are not known or a remote engine decides.
//
// A policy that restricts pods has no gap if it matches pods: each pod is decided when it is created, whatever creates it. A
// policy that gives clusters has none if it delivers: an object that it does not match is not delivered.
func (f *Finder) findingsOfGaps(spec placementv1.PlacementPolicySpec, m *match.Matcher, module *policy.Module) []Finding {
	served := f.Catalog.Served()
	if served == nil || module.Remote != nil || spec.WithDefaults().Mode != placementv1.ModeEnforce {
		return nil
	}
	types := m.Served(served)
	var matched, open []schema.GroupResource
	for _, resource := range f.Templates.Workloads() {
		switch {
		case slices.ContainsFunc(types, func(t match.ServedType) bool { return t.GroupResource() == resource }):
			matched = append(matched, resource)
		case served.HasName(resource):
			open = append(open, resource)
		}
	}
	const at = "spec.match.resourceRules: "
	if module.RestrictsPods && len(matched) > 0 && !m.SelectsResource(corev1.SchemeGroupVersion.WithResource("pods")) {
		others := ""
		if len(open) > 0 {
			others = fmt.Sprintf(", and those of %s,", join(open))
		}
		return []Finding{advice(at+"the policy restricts the pods of %s, and does not match pods: those that users create themselves%s are not "+
			"restricted. "+
			`To restrict all pods, add {apiGroups: [""], apiVersions: [v1], resources: [pods]}`, join(matched), others)}
	}
	delivered := func(list []schema.GroupResource) []schema.GroupResource {
		return slices.DeleteFunc(slices.Clone(list), func(r schema.GroupResource) bool { return slices.Contains(notDelivered, r) })
	}
	matched, open = delivered(matched), delivered(open)
	if !givesClusters(module) || spec.Delivery != nil || len(matched) == 0 || len(open) == 0 {
		return nil
	}
	return []Finding{advice(at+"the policy gives clusters to %s, and does not match %s, which get none from it. To place these, too, add %s",
		join(matched), join(open), ruleOf(open))}
}

// copies are the types of what controllers make of the built-in workloads, with copies of their annotations, and what the controllers make
// them of. The keys and from are plural names in the group apps.
var copies = map[string]struct {
	kind, of string
	from     []string
}{
	"replicasets":         {"ReplicaSet", "a Deployment", []string{"deployments"}},
	"controllerrevisions": {"ControllerRevision", "a DaemonSet or StatefulSet", []string{"daemonsets", "statefulsets"}},
}

// findingsOfCopies finds a policy that gives clusters and names replicasets or controllerrevisions in spec.match.resourceRules, which
// controllers create for Deployments, DaemonSets, and StatefulSets. It knows no other such types. If the policy matches these workloads,
// too, such an object has their clusters, so that its type need not be named. Otherwise, the policy decides the object by itself, which can
// stop a rollout.
func findingsOfCopies(spec placementv1.PlacementPolicySpec, m *match.Matcher, module *policy.Module) []Finding {
	if !givesClusters(module) {
		return nil
	}
	var out []Finding
	for i, rule := range spec.Match.ResourceRules {
		if !slices.Contains(rule.APIGroups, appsv1.GroupName) {
			continue
		}
		for j, resource := range rule.Resources {
			c, known := copies[resource]
			at := fmt.Sprintf("spec.match.resourceRules[%d].resources[%d]: ", i, j)
			switch {
			case !known:
			case slices.ContainsFunc(c.from, func(name string) bool { return m.SelectsResource(appsv1.SchemeGroupVersion.WithResource(name)) }):
				out = append(out, advice(at+"a %s of %s has the clusters of that object, and is not delivered. "+
					"Remove %s, unless users create such objects themselves", c.kind, c.of, resource))
			default:
				out = append(out, advice(at+"the policy gives clusters to each %s by itself, and does not match %s. A %s of %s copies the "+
					"cluster list of that object. If the policy allows none of these clusters, the %s is denied, and the rollout stops. Match %s in "+
					"place of %s", c.kind, strings.Join(c.from, " and "), c.kind, c.of, c.kind, strings.Join(c.from, " and "), resource))
			}
		}
	}
	return out
}

// findingsOfGeneratedNames finds labels that rules set to the name of a pod. The API server generates the names of controllers' pods, so
// that at admission a pod has only the prefix, which ends with a character that no label may end with.
func findingsOfGeneratedNames(spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	if !m.SelectsResource(corev1.SchemeGroupVersion.WithResource("pods")) {
		return nil
	}
	var out []Finding
	for i, rule := range spec.Rules {
		if rule.Set == nil || rule.When != nil && rule.When.Expression != "" {
			// The expression may leave out what has a generated name.
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(rule.Set.Labels)) {
			if value := strings.ReplaceAll(string(rule.Set.Labels[key]), "{{", ""); strings.HasSuffix(value, "{name}") {
				out = append(out, advice("spec.rules[%d].set.labels[%s]: pods of controllers get their names after admission. Until then, {name} is a "+
					"prefix that "+
					`ends with "-", as no label may, so that they can't be decided. Set an annotation, or match their workloads in place of pods`, i, key))
			}
		}
	}
	return out
}

// ruleOf returns one resource rule that matches all of the resources, as YAML in a single line, for a user to add to
// spec.match.resourceRules. Its version is v1 if all of them are in the groups apps and batch; otherwise, it is "*".
func ruleOf(resources []schema.GroupResource) string {
	version := "v1"
	var groups, names []string
	for _, r := range resources {
		group := cmp.Or(r.Group, `""`)
		if names = append(names, r.Resource); !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		if r.Group != appsv1.GroupName && r.Group != batchv1.GroupName {
			version = `"*"`
		}
	}
	slices.Sort(groups)
	return fmt.Sprintf("{apiGroups: [%s], apiVersions: [%s], resources: [%s]}", strings.Join(groups, ", "), version, strings.Join(names, ", "))
}

// join returns the resources, such as deployments.apps, joined by commas.
func join(resources []schema.GroupResource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = r.String()
	}
	return strings.Join(names, ", ")
}

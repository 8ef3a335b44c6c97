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

package match

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// Subresources whose requests change fields that policies may read. For these requests, the API server sends no
// admission request for the object itself.
const (
	SubresourceScale               = "scale"
	SubresourceResize              = "resize"
	SubresourceEphemeralContainers = "ephemeralcontainers"
)

// every is a path element that stands for each item of a list or each member of an object.
const every = "*"

// subresource is a subresource of a resource that is built into Kubernetes, or the scale subresource of custom resources.
type subresource struct {
	resource schema.GroupResource
	name     string
	// changes are the paths of the fields that requests for the subresource change, such as [spec replicas]; nil for custom resources, where
	// they are not known.
	changes [][]string
}

var builtinSubresources = []subresource{
	{appsv1.Resource("deployments"), SubresourceScale, [][]string{specReplicas}},
	{appsv1.Resource("replicasets"), SubresourceScale, [][]string{specReplicas}},
	{appsv1.Resource("statefulsets"), SubresourceScale, [][]string{specReplicas}},
	{corev1.Resource("pods"), SubresourceEphemeralContainers, [][]string{{"spec", "ephemeralContainers"}}},
	{corev1.Resource("pods"), SubresourceResize, [][]string{
		{"spec", "containers", every, "resources"}, {"spec", "initContainers", every, "resources"}, {"spec", "resources"},
	}},
	{corev1.Resource("replicationcontrollers"), SubresourceScale, [][]string{specReplicas}},
}

var specReplicas = []string{"spec", "replicas"}

// BuiltinReplicasPath returns the path of the field that the scale subresource of a built-in resource sets: [spec replicas] for
// Deployments, ReplicaSets, StatefulSets, and ReplicationControllers. ok is false for all other resources, including custom resources.
// Callers must not change the path.
func BuiltinReplicasPath(resource schema.GroupResource) (path []string, ok bool) {
	i := slices.IndexFunc(builtinSubresources, func(s subresource) bool { return s.resource == resource && s.name == SubresourceScale })
	if i < 0 {
		return nil, false
	}
	return builtinSubresources[i].changes[0], true
}

// MayReadScale reports whether a policy that reads these fields may read the field for replicas, which the scale subresource of a
// custom resource sets. The CustomResourceDefinition names that field, which can be any field below spec.
func MayReadScale(reads *projection.FieldSet) bool { return readsPath(reads, []string{"spec"}) }

// FieldsRead returns the fields that match conditions or a decision depend on: all fields if a match condition refers to object or
// oldObject, and otherwise decision, the fields that the decision depends on. The labels that the object selector reads are not added.
func (m *Matcher) FieldsRead(decision *projection.FieldSet) *projection.FieldSet {
	for _, c := range m.match.MatchConditions {
		// The CEL variables are called object and oldObject.
		if strings.Contains(strings.ToLower(c.Expression), "object") {
			return projection.AllFields()
		}
	}
	return decision
}

// readsPath reports whether a sealed field set contains the field at a path, with or without what is below it. A set that has only fields
// above it does not. An element of the path may be every.
func readsPath(fields *projection.FieldSet, path []string) bool {
	for _, name := range path {
		if name == every {
			fields = fields.UnionAtDepth(1)
			continue
		}
		if !fields.Covers(projection.Fields(name)) {
			return false
		}
		fields = fields.AtPath(name)
	}
	return true
}

// subresourceSharingKey returns what two policies must have in common to share a webhook for subresources: the failure policy, the
// namespace selector, the API versions of the rules, and whether they need the guard. The API server evaluates object selectors and match
// conditions on the object in the request, which may be a Scale for a subresource. So these webhooks have neither, and the process
// evaluates both on the object itself.
func subresourceSharingKey(hook PolicyWebhook) sharingKey {
	out := sharingKeyOf(hook)
	out.ObjectSelector, out.MatchConditions, out.Subresources = nil, nil, true
	return out
}

// subresourceRules returns the webhook rules for updates of subresources of the types that a policy's resource rules select, as far as
// these updates change fields that the policy reads; nil if there are none, or if hook.Decision is nil.
func subresourceRules(hook PolicyWebhook) []admissionregistrationv1.RuleWithOperations {
	if hook.Decision == nil {
		return nil
	}
	reads := hook.Matcher.FieldsRead(hook.Decision)
	var out []admissionregistrationv1.RuleWithOperations
	for _, rule := range hook.Matcher.match.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, s := range subresourcesOf(group, rule.Resources, reads) {
				out = append(out, newRule([]string{s.resource.Group}, rule.APIVersions, []string{s.resource.Resource + "/" + s.name},
					admissionregistrationv1.Update))
			}
		}
	}
	return out
}

// subresourcesOf returns the subresources scale, resize, and ephemeralcontainers of the resources, as far as they change fields in reads.
// group and resources are those of a rule, which may have wildcards. For groups of custom resources, it assumes that each has scale.
func subresourcesOf(group string, resources []string, reads *projection.FieldSet) []subresource {
	var out []subresource
	custom := mayBeCustom(group)
	for _, s := range builtinSubresources {
		named := contains([]string{group}, s.resource.Group) && contains(resources, s.resource.Resource)
		// If the rule names all groups, the rule for custom resources covers the built-in ones as well.
		covered := custom && s.name == SubresourceScale
		if named && !covered && slices.ContainsFunc(s.changes, func(path []string) bool { return readsPath(reads, path) }) {
			out = append(out, s)
		}
	}
	if !custom || !MayReadScale(reads) {
		return out
	}
	for _, resource := range resources {
		gr := schema.GroupResource{Group: group, Resource: resource}
		if !NeverMatched(gr) {
			out = append(out, subresource{resource: gr, name: SubresourceScale})
		}
	}
	return out
}

// mayBeCustom reports whether a group in a rule may contain custom resources. The groups of custom resources are
// domains.
func mayBeCustom(group string) bool { return group == wildcard || strings.Contains(group, ".") }

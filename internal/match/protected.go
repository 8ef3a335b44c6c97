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
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
)

// NamespaceSystem is a namespace that is never matched. A cluster must start, and keep running, without Berth.
const NamespaceSystem = "kube-system"

const (
	// apiServerUser is the user of the API server's own requests. mastersGroup is its group, whose members may do
	// everything.
	apiServerUser = "system:apiserver"
	mastersGroup  = "system:masters"
)

// neverMatchedGroups are API groups that are never matched. Berth's own kinds are among them, so that a policy can always be
// corrected. The others are those that the API server needs to authenticate, to authorize, and to call webhooks.
var neverMatchedGroups = []string{
	placementv1.GroupVersion.Group,
	"admissionregistration.k8s.io",
	"apiregistration.k8s.io",
	"authentication.k8s.io",
	"authorization.k8s.io",
	"certificates.k8s.io",
}

// neverMatchedResources are single resource types that are never matched: nodes, leases, events, and CustomResourceDefinitions. A cluster
// does not work without nodes and leases. An event that reports a denial must not be denied itself, which would cause another event.
var neverMatchedResources = groupResources(
	"events",
	"events.events.k8s.io",
	"nodes",
	"leases.coordination.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io",
)

// bootstrapResources are resource types that a wildcard does not match, because the cluster writes them when it starts
// or when nodes join: those of RBAC and flow control, PriorityClasses, and some of networking, storage, and DRA. The API server exits if it
// cannot create its roles, and the kubelet if it cannot create its CSINode. A rule that names one matches it.
var bootstrapResources = groupResources(
	"clusterroles.rbac.authorization.k8s.io",
	"clusterrolebindings.rbac.authorization.k8s.io",
	"roles.rbac.authorization.k8s.io",
	"rolebindings.rbac.authorization.k8s.io",
	"flowschemas.flowcontrol.apiserver.k8s.io",
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	"priorityclasses.scheduling.k8s.io",
	"servicecidrs.networking.k8s.io",
	"ipaddresses.networking.k8s.io",
	"leasecandidates.coordination.k8s.io",
	"storageversions.internal.apiserver.k8s.io",
	"storageversionmigrations.storagemigration.k8s.io",
	"csinodes.storage.k8s.io",
	"volumeattachments.storage.k8s.io",
	"resourceslices.resource.k8s.io",
)

// groupResources parses resource types of the form "resource.group", such as "leases.coordination.k8s.io". One without a dot is of the core
// group.
func groupResources(names ...string) []schema.GroupResource {
	out := make([]schema.GroupResource, len(names))
	for i, name := range names {
		out[i] = schema.ParseGroupResource(name)
	}
	return out
}

// mixedGroups are API groups in which the API server writes objects of its own beside those of users: the Service
// "kubernetes" and its endpoints, and the first namespaces.
var mixedGroups = []string{"", "discovery.k8s.io"}

// IsProtectedNamespace reports whether objects in a namespace are never matched by a policy, counted by a ClusterScopedQuota, or limited
// by a LimitedResource. These namespaces are kube-system and Berth's own, which is "" if the served cluster has none. Cluster-scoped
// objects, whose namespace is "", are not exempt.
func IsProtectedNamespace(namespace, ownNamespace string) bool {
	return namespace == NamespaceSystem || namespace != "" && namespace == ownNamespace
}

// ExcludeProtectedNamespaces returns a requirement on a namespace's labels that excludes the namespaces for which IsProtectedNamespace is
// true.
func ExcludeProtectedNamespaces(ownNamespace string) metav1.LabelSelectorRequirement {
	out := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
		Values: []string{NamespaceSystem}}
	if ownNamespace != "" {
		out.Values = append(out.Values, ownNamespace)
	}
	return out
}

// NeverMatched reports whether objects of the resource are never matched, whatever a policy's rules say.
func NeverMatched(resource schema.GroupResource) bool {
	return slices.Contains(neverMatchedGroups, resource.Group) || slices.Contains(neverMatchedResources, resource)
}

// IsBootstrapType reports whether the cluster writes objects of the resource when it starts or when a node joins. A wildcard
// does not match them. A rule that names both the group and the resource does.
func IsBootstrapType(resource schema.GroupResource) bool {
	return slices.Contains(bootstrapResources, resource)
}

// sentByAPIServer reports whether the API server sends the request on its own behalf; false for nil. Only matches with wildcards that cover
// its own objects exclude such a request. It checks both user and group. A member of the group can change and delete policies anyway, so
// impersonating the user gains nothing.
func sentByAPIServer(r *admissionv1.AdmissionRequest) bool {
	return r != nil && r.UserInfo.Username == apiServerUser && slices.Contains(r.UserInfo.Groups, mastersGroup)
}

// selects reports whether a rule selects a resource. The resource must not be one for which NeverMatched is true.
func selects(rule placementv1.ResourceRule, resource schema.GroupVersionResource) bool {
	gr := resource.GroupResource()
	return contains(rule.APIVersions, resource.Version) && (names(rule, gr) || covers(rule, gr) && !IsBootstrapType(gr))
}

// covers reports whether a rule names the resource, in any version, or has a wildcard for it. It includes what wildcards do not match.
func covers(rule placementv1.ResourceRule, resource schema.GroupResource) bool {
	return contains(rule.APIGroups, resource.Group) && contains(rule.Resources, resource.Resource)
}

// names reports whether a rule has both the group and the name of the resource, not by a wildcard.
func names(rule placementv1.ResourceRule, resource schema.GroupResource) bool {
	return slices.Contains(rule.APIGroups, resource.Group) && slices.Contains(rule.Resources, resource.Resource)
}

// needsGuard reports whether a webhook with these rules needs the condition of guardCondition, which excludes requests that the
// rules cover but the policies do not match. Rules that name types by group and resource do not need it. Neither does a
// wildcard in a group without types that wildcards skip. The API server converts the object to evaluate a condition,
// which costs it more than the rest of the call.
func needsGuard(rules []placementv1.ResourceRule) bool {
	return slices.ContainsFunc(rules, func(rule placementv1.ResourceRule) bool {
		return slices.ContainsFunc(rule.APIGroups, func(group string) bool {
			if group == wildcard || slices.Contains(neverMatchedGroups, group) {
				return true
			}
			return slices.ContainsFunc(rule.Resources, func(resource string) bool {
				if resource == wildcard {
					return isMixedGroup(group)
				}
				return NeverMatched(schema.GroupResource{Group: group, Resource: resource})
			})
		})
	})
}

// isMixedGroup reports whether a group has, besides types that a wildcard matches, types or objects that it does not match. It is false for
// "*", and for a group of which no type is ever matched.
func isMixedGroup(group string) bool {
	ofGroup := func(r schema.GroupResource) bool { return r.Group == group }
	return slices.Contains(mixedGroups, group) || slices.ContainsFunc(neverMatchedResources, ofGroup) ||
		slices.ContainsFunc(bootstrapResources, ofGroup)
}

// withExplicitVersions returns the rules, with additional ones for bootstrap types that a rule names. If a wildcard of
// another rule covers such a type in more versions, withExplicitVersions adds rules for these versions. The reason is
// that the API server sends an object in the version of the request if any rule covers that version, even by a
// wildcard. It does not convert the object to the version of the rule that names the type.
func withExplicitVersions(rules []placementv1.ResourceRule) []placementv1.ResourceRule {
	out := slices.Clone(rules)
	for _, resource := range bootstrapNamed(rules) {
		for _, rule := range rules {
			if !covers(rule, resource) {
				continue
			}
			missing := slices.DeleteFunc(slices.Clone(rule.APIVersions), func(version string) bool {
				return slices.ContainsFunc(out, func(r placementv1.ResourceRule) bool {
					return names(r, resource) && contains(r.APIVersions, version)
				})
			})
			if len(missing) > 0 {
				out = append(out, placementv1.ResourceRule{APIGroups: []string{resource.Group}, APIVersions: missing,
					Resources: []string{resource.Resource}})
			}
		}
	}
	return out
}

// bootstrapNamed returns the bootstrap types that at least one of the rules names by group and resource.
func bootstrapNamed(rules []placementv1.ResourceRule) []schema.GroupResource {
	return slices.DeleteFunc(slices.Clone(bootstrapResources), func(resource schema.GroupResource) bool {
		return !slices.ContainsFunc(rules, func(rule placementv1.ResourceRule) bool { return names(rule, resource) })
	})
}

// Remarks returns messages for the author of a policy on the types, such as those of RBAC, that the cluster needs to start or to add nodes:
// which of them the rules name, and which the rules' wildcards would cover but do not match. It has none on types that no policy ever
// matches. path is the path of the match.
func Remarks(m placementv1.Match, path *field.Path) []string {
	var out []string
	for i, rule := range m.ResourceRules {
		at := path.Child("resourceRules").Index(i)
		var named, missed []string
		for _, resource := range bootstrapResources {
			switch {
			case names(rule, resource):
				named = append(named, resource.String())
			case covers(rule, resource):
				missed = append(missed, resource.String())
			}
		}
		if len(named) > 0 {
			out = append(out, fmt.Sprintf("%s: the cluster needs %s to start and to add nodes: while Berth is down, or if the policy denies such "+
				"objects, the cluster may do neither", at, strings.Join(named, ", ")))
		}
		if len(missed) > 0 {
			if more := len(missed) - maxListed; more > 0 {
				missed = append(missed[:maxListed], fmt.Sprintf("and %d other types that a cluster needs to start", more))
			}
			out = append(out, fmt.Sprintf("%s: wildcards do not match %s; to match a type, name both its group and resource", at,
				strings.Join(missed, ", ")))
		}
	}
	return out
}

// Warnings returns messages for the author of a policy about what its object selector and match conditions probably select by mistake: a
// label that only Namespaces have, operations that Berth does not receive, and comparisons in CEL that do not test what they seem to
// test. It does not look for conditions that fail when an object is created. path is the path of the match.
func Warnings(m placementv1.Match, path *field.Path) []string {
	out := warnOfNamespaceName(m, path.Child("objectSelector"))
	for i, condition := range m.MatchConditions {
		at := path.Child("matchConditions").Index(i).Child("expression")
		out = append(out, warnOfOperations(condition.Expression, at)...)
		for _, text := range celexpression.Mistakes(condition.Expression) {
			out = append(out, fmt.Sprintf("%s: %s", at, text))
		}
	}
	return out
}

// maxListed is the maximum number of types that one of Remarks lists as not matched by wildcards. Of the others, it has only the number.
const maxListed = 4

// guardCondition returns the condition that excludes what the policies of a webhook with wildcards do not match: types
// that are never matched, bootstrap types that no rule names, and objects that the API server itself writes.
func guardCondition(rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MatchCondition {
	const resource = `(request.resource.group + "/" + request.resource.resource)`
	unnamed := slices.DeleteFunc(slices.Clone(bootstrapResources), func(resource schema.GroupResource) bool {
		return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.APIGroups, resource.Group) && slices.Contains(r.Resources, resource.Resource)
		})
	})
	clauses := []string{
		fmt.Sprintf(`request.resource.group in %s`, stringList(neverMatchedGroups)),
		fmt.Sprintf(`%s in %s`, resource, resourceList(slices.Concat(neverMatchedResources, unnamed))),
		fmt.Sprintf(`has(request.userInfo.username) && request.userInfo.username == %q && `+
			`has(request.userInfo.groups) && %q in request.userInfo.groups`,
			apiServerUser, mastersGroup),
	}
	return admissionregistrationv1.MatchCondition{
		Name:       "never-hooked." + placementv1.GroupVersion.Group,
		Expression: "!(" + strings.Join(clauses, ") && !(") + ")",
	}
}

// stringList returns the texts as a list in CEL.
func stringList(list []string) string { return "[" + quoted(list, ", ") + "]" }

// quoted returns the texts in quotes, with a separator between them.
func quoted(list []string, separator string) string {
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = strconv.Quote(text)
	}
	return strings.Join(texts, separator)
}

// resourceList returns the resources as a list in CEL of texts such as "apps/deployments" or, in the core group, "/pods".
func resourceList(resources []schema.GroupResource) string {
	texts := make([]string, len(resources))
	for i, r := range resources {
		texts[i] = r.Group + "/" + r.Resource
	}
	return stringList(texts)
}

package match

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// NamespaceSystem is never matched: a cluster must come up, and stay up, without Berth.
const NamespaceSystem = "kube-system"

// neverGroups are API groups of which nothing is ever matched: Berth's own kinds, so that a policy can always be
// corrected, and what the API server itself asks for to authenticate, to authorize and to call webhooks.
var neverGroups = []string{
	placementv1.GroupVersion.Group,
	"admissionregistration.k8s.io",
	"apiregistration.k8s.io",
	"authentication.k8s.io",
	"authorization.k8s.io",
	"certificates.k8s.io",
}

// neverResources are single resource types that are never matched: without nodes and leases nothing runs, and an event
// that tells of a denial must not be denied, and told of, itself.
var neverResources = []schema.GroupResource{
	{Group: "", Resource: "events"},
	{Group: "events.k8s.io", Resource: "events"},
	{Group: "", Resource: "nodes"},
	{Group: "coordination.k8s.io", Resource: "leases"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
}

// Exempt says whether nothing in a namespace is ever asked about, counted or limited: in kube-system and in Berth's own,
// which is empty where the served cluster has none. Objects of no namespace, "", are not exempt.
func Exempt(namespace, ownNamespace string) bool {
	return namespace == NamespaceSystem || namespace != "" && namespace == ownNamespace
}

// Elsewhere is Exempt's opposite, as a requirement on a namespace's labels.
func Elsewhere(ownNamespace string) metav1.LabelSelectorRequirement {
	out := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{NamespaceSystem}}
	if ownNamespace != "" {
		out.Values = append(out.Values, ownNamespace)
	}
	return out
}

// Never says whether objects of the resource are never matched, whatever a policy's rules say.
func Never(resource schema.GroupResource) bool {
	return slices.Contains(neverGroups, resource.Group) || slices.Contains(neverResources, resource)
}

// neverCondition is Never as a condition of a webhook configuration, for rules with wildcards.
func neverCondition() admissionregistrationv1.MatchCondition {
	groups := make([]string, len(neverGroups))
	for i, g := range neverGroups {
		groups[i] = fmt.Sprintf("%q", g)
	}
	resources := make([]string, len(neverResources))
	for i, r := range neverResources {
		resources[i] = fmt.Sprintf("%q", r.Group+"/"+r.Resource)
	}
	return admissionregistrationv1.MatchCondition{
		Name: "never-hooked.placement.berth.dev",
		Expression: fmt.Sprintf(`!(request.resource.group in [%s]) && !((request.resource.group + "/" + request.resource.resource) in [%s])`,
			strings.Join(groups, ", "), strings.Join(resources, ", ")),
	}
}

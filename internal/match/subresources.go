package match

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// Subresources whose requests change fields of an object that policies may read. The API server sends no request for
// the object itself.
const (
	SubresourceScale               = "scale"
	SubresourceResize              = "resize"
	SubresourceEphemeralContainers = "ephemeralcontainers"
)

// every stands in a path for each member of a list or an object.
const every = "*"

// subresource is a subresource of a resource that Kubernetes itself serves.
type subresource struct {
	resource schema.GroupResource
	name     string
	// changes are the paths of the fields that requests for the subresource change.
	changes [][]string
}

var builtinSubresources = []subresource{
	{schema.GroupResource{Group: "apps", Resource: "deployments"}, SubresourceScale, [][]string{specReplicas}},
	{schema.GroupResource{Group: "apps", Resource: "replicasets"}, SubresourceScale, [][]string{specReplicas}},
	{schema.GroupResource{Group: "apps", Resource: "statefulsets"}, SubresourceScale, [][]string{specReplicas}},
	{schema.GroupResource{Resource: "pods"}, SubresourceEphemeralContainers, [][]string{{"spec", "ephemeralContainers"}}},
	{schema.GroupResource{Resource: "pods"}, SubresourceResize, [][]string{
		{"spec", "containers", every, "resources"}, {"spec", "initContainers", every, "resources"}, {"spec", "resources"},
	}},
	{schema.GroupResource{Resource: "replicationcontrollers"}, SubresourceScale, [][]string{specReplicas}},
}

var specReplicas = []string{"spec", "replicas"}

// BuiltinReplicasPath returns where objects of a resource that Kubernetes itself serves have the number that their scale
// sets; ok is false for all other resources, custom ones among them. The path is not to be changed.
func BuiltinReplicasPath(resource schema.GroupResource) (path []string, ok bool) {
	i := slices.IndexFunc(builtinSubresources, func(s subresource) bool { return s.resource == resource && s.name == SubresourceScale })
	if i < 0 {
		return nil, false
	}
	return builtinSubresources[i].changes[0], true
}

// MayReadScale reports whether a policy that reads these fields of objects may read what the scale of a custom resource
// sets. Its definition names the field, which can be any one below spec.
func MayReadScale(reads *projection.Fields) bool { return readsPath(reads, []string{"spec"}) }

// Reads returns the fields that a match or a decision depends on, where the decision depends on these: everything, if
// there are match conditions on the object.
func (m *Matcher) Reads(decision *projection.Fields) *projection.Fields {
	for _, c := range m.match.MatchConditions {
		// The variables are called object and oldObject.
		if strings.Contains(strings.ToLower(c.Expression), "object") {
			return projection.Everything()
		}
	}
	return decision
}

// readsPath reports whether a sealed set has the field at a path.
func readsPath(fields *projection.Fields, path []string) bool {
	for _, name := range path {
		if name == every {
			fields = fields.Members(1)
			continue
		}
		one := &projection.Fields{}
		one.Name(name)
		if !fields.Covers(one.Seal()) {
			return false
		}
		fields = fields.Below(name)
	}
	return true
}

// subresourceCommon is what a policy's rules for subresources must have in common with another's to share a webhook. The
// API server evaluates object selectors and match conditions on what a request for the subresource carries, which may be
// a Scale. So these webhooks have none, and the process evaluates them on the object itself.
func subresourceCommon(hook Hook) common {
	out := commonOf(hook)
	out.ObjectSelector, out.MatchConditions, out.Subresources = nil, nil, true
	return out
}

// subresourceRules are a policy's rules for the subresources through which requests change what the policy reads.
func subresourceRules(hook Hook) []admissionregistrationv1.RuleWithOperations {
	if hook.Decision == nil {
		return nil
	}
	reads := hook.Matcher.Reads(hook.Decision)
	var out []admissionregistrationv1.RuleWithOperations
	for _, rule := range hook.Matcher.match.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, s := range subresourcesOf(group, rule.Resources, reads) {
				out = append(out, newRule([]string{s.resource.Group}, rule.APIVersions, []string{s.resource.Resource + "/" + s.name}, admissionregistrationv1.Update))
			}
		}
	}
	return out
}

// subresourcesOf returns the subresources, of the resources of a group that a rule names, that change what is read.
func subresourcesOf(group string, resources []string, reads *projection.Fields) []subresource {
	var out []subresource
	custom := mayBeCustom(group)
	for _, s := range builtinSubresources {
		named := contains([]string{group}, s.resource.Group) && contains(resources, s.resource.Resource)
		// Where all groups are named, the rule for custom resources is about these too.
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
		if !Never(gr) {
			out = append(out, subresource{resource: gr, name: SubresourceScale})
		}
	}
	return out
}

// mayBeCustom reports whether a group in a rule may have custom resources: their groups are domains.
func mayBeCustom(group string) bool { return group == wildcard || strings.Contains(group, ".") }

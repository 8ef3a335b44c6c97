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

package quota

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// Webhook is one webhook of the configuration, without client configuration, and the objects that need it.
type Webhook struct {
	Webhook admissionregistrationv1.ValidatingWebhook
	Objects []Key // The quotas and LimitedResources that need the webhook.
}

// hook is the webhook that one ClusterScopedQuota, one LimitedResource, or all ScopedQuotas of one namespace with the same failure policy
// need. Hooks may share a webhook in the end.
type hook struct {
	failurePolicy admissionregistrationv1.FailurePolicyType
	// selector selects namespaces. It is nil if the hook is for one namespace, which is in namespace.
	selector  *metav1.LabelSelector
	namespace string                 // Empty if there is a selector.
	types     []schema.GroupResource // The types that are counted or limited.
	// pods are CEL expressions, of which at least one is true for each pod that is counted or limited. The webhook receives only pods for
	// which one is true; nil means that it receives all pods.
	pods   []string
	owners []Key // The objects that need the hook.
}

// Webhooks renders the webhooks for the types of objects that quotas count, in the namespaces of these quotas, and for the types that are
// limited. Nothing else is sent to Berth. An object that two webhooks match is charged only once, because an Account recognizes requests
// for the same change. The result is sorted and depends only on the sets of objects. Nothing is counted in ownNamespace, which may be
// empty.
func (e *Evaluators) Webhooks(scoped []placementv1.ScopedQuota, cluster []placementv1.ClusterScopedQuota,
	limits []placementv1.LimitedResource, ownNamespace string) []Webhook {
	hooks := e.scopedHooks(scoped, ownNamespace)
	for i := range cluster {
		q := &cluster[i]
		key, _ := KeyOf(q)
		hooks = append(hooks, hook{
			failurePolicy: failurePolicy(q.Spec.Mode), selector: orMatchAll(q.Spec.NamespaceSelector.Upstream()),
			types: e.typesOf(&q.Spec.QuotaSpec), pods: podsOfQuota(&q.Spec.QuotaSpec), owners: []Key{key},
		})
	}
	for i := range limits {
		l := &limits[i]
		key, _ := KeyOf(l)
		var types []schema.GroupResource
		if resource := (schema.GroupResource{Group: l.Spec.APIGroup, Resource: l.Spec.Resource}); !match.NeverMatched(resource) {
			types = append(types, resource)
		}
		hooks = append(hooks, hook{
			failurePolicy: admissionregistrationv1.Fail, selector: orMatchAll(l.Spec.NamespaceSelector.Upstream()), types: types,
			pods: podsOfLimit(&l.Spec), owners: []Key{key},
		})
	}
	return groupHooks(hooks, ownNamespace)
}

// typesOf returns the types that a quota counts, sorted.
func (e *Evaluators) typesOf(spec *placementv1.QuotaSpec) []schema.GroupResource {
	types, _ := e.Types(spec)
	return slices.SortedFunc(maps.Keys(types), compareTypes)
}

func compareTypes(a, b schema.GroupResource) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// failurePolicy returns the failure policy for a mode. Only enforced quotas may block requests while Berth is
// unavailable.
func failurePolicy(mode placementv1.Mode) admissionregistrationv1.FailurePolicyType {
	if mode == placementv1.ModeWarn || mode == placementv1.ModeDryRun {
		return admissionregistrationv1.Ignore
	}
	return admissionregistrationv1.Fail
}

// podsOfQuota returns one CEL expression, which is true for the pods that a quota may count by its scopes of priority classes; nil if it
// has no such scopes.
func podsOfQuota(spec *placementv1.QuotaSpec) []string {
	var all []string
	for _, scope := range spec.Scopes {
		if scope == corev1.ResourceQuotaScopePriorityClass {
			all = append(all, podsOfClass(corev1.ScopeSelectorOpExists, nil))
		}
	}
	if spec.ScopeSelector != nil {
		for _, r := range spec.ScopeSelector.MatchExpressions {
			if r.ScopeName == corev1.ResourceQuotaScopePriorityClass {
				all = append(all, podsOfClass(r.Operator, r.Values))
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{strings.Join(all, " && ")}
}

// podsOfLimit returns CEL expressions by priority class. For each pod that a limit may match, at least one is true. It returns nil if the
// limit may match pods of any class, because it has matchContains, or a scope other than PriorityClass.
func podsOfLimit(spec *placementv1.LimitedResourceSpec) []string {
	if len(spec.MatchContains) > 0 {
		return nil
	}
	var any []string
	for _, r := range spec.MatchScopes {
		if r.ScopeName != corev1.ResourceQuotaScopePriorityClass {
			return nil
		}
		any = append(any, podsOfClass(r.Operator, r.Values))
	}
	return any
}

// podsOfClass returns a CEL expression that is true for the pods whose PriorityClass a requirement selects.
func podsOfClass(operator corev1.ScopeSelectorOperator, values []string) string {
	var quotedValues []string
	for _, v := range slices.Sorted(slices.Values(values)) {
		// Omit "": a pod without a class has none of the listed classes.
		if v != "" {
			quotedValues = append(quotedValues, quoted(v))
		}
	}
	const class = `object.spec.?priorityClassName.orValue("")`
	in := class + " in [" + strings.Join(slices.Compact(quotedValues), ", ") + "]"
	switch operator {
	case corev1.ScopeSelectorOpIn:
		return "(" + in + ")"
	case corev1.ScopeSelectorOpNotIn:
		return "!(" + in + ")"
	case corev1.ScopeSelectorOpDoesNotExist:
		return "(" + class + ` == "")`
	default:
		return "(" + class + ` != "")`
	}
}

// scopedHooks returns one hook for all enforced quotas of a namespace, and one for all others. So the API server makes
// few calls, and quotas that are not enforced cannot block requests. In kube-system, no request waits for Berth,
// because a quota there could limit what a cluster needs to start.
func (e *Evaluators) scopedHooks(quotas []placementv1.ScopedQuota, ownNamespace string) []hook {
	type of struct {
		namespace string
		policy    admissionregistrationv1.FailurePolicyType
	}
	hooks := map[of]*hook{}
	for i := range quotas {
		q := &quotas[i]
		types := e.typesOf(&q.Spec.QuotaSpec)
		if q.Namespace == ownNamespace || len(types) == 0 {
			continue
		}
		at := of{q.Namespace, failurePolicy(q.Spec.Mode)}
		if q.Namespace == match.NamespaceSystem {
			at.policy = admissionregistrationv1.Ignore
		}
		key, _ := KeyOf(q)
		next := hook{failurePolicy: at.policy, namespace: at.namespace, types: types, pods: podsOfQuota(&q.Spec.QuotaSpec), owners: []Key{key}}
		if h, ok := hooks[at]; ok {
			h.join(next)
		} else {
			hooks[at] = &next
		}
	}
	var out []hook
	for _, at := range slices.SortedFunc(maps.Keys(hooks), func(a, b of) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(string(a.policy), string(b.policy)))
	}) {
		out = append(out, *hooks[at])
	}
	return out
}

// maxPods bounds the length of the pod expressions of one webhook, in bytes. Beyond it, the webhook receives all pods.
const maxPods = 4096

// join adds the types, pods, and owners of another hook to h. If one of them counts any pod, or the expressions become longer than maxPods,
// h has no expressions and is for all pods. The expressions of a hook without the type pods do not matter.
func (h *hook) join(other hook) {
	switch mine, others := slices.Contains(h.types, pods), slices.Contains(other.types, pods); {
	case others && !mine, others && other.pods == nil:
		h.pods = other.pods
	case others && h.pods != nil:
		h.pods = slices.Concat(h.pods, other.pods)
		slices.Sort(h.pods)
		if h.pods = slices.Compact(h.pods); len(strings.Join(h.pods, "")) > maxPods {
			h.pods = nil
		}
	}
	h.types = slices.Concat(h.types, other.types)
	slices.SortFunc(h.types, compareTypes)
	h.types = slices.Compact(h.types)
	h.owners = append(h.owners, other.owners...)
}

// maxSelectors bounds the number of webhooks with different selectors, so that the configuration can be stored. If
// there are more, the webhooks cover all namespaces, and the quotas' own selectors decide.
const maxSelectors = 64

// maxTypeSets bounds the number of webhooks for single namespaces that differ in their types or failure policy, so that the configuration
// can be stored. If there are more, all these namespaces share the types that any of the quotas counts.
const maxTypeSets = 64

// groupHooks merges hooks into webhooks. Hooks for single namespaces share a webhook if they have the same types and failure policy, and
// hooks with a selector if they have the same selector and failure policy. If there are too many different ones, more of them share a
// webhook. Webhooks of hooks with a selector exclude kube-system and ownNamespace.
func groupHooks(hooks []hook, ownNamespace string) []Webhook {
	type group struct {
		hook
		namespaces []string
	}
	selectors, typeSets := map[string]bool{}, map[string]bool{}
	for _, h := range hooks {
		switch {
		case len(h.types) == 0:
		case h.selector != nil:
			selectors[hookKey(h, false)] = true
		default:
			typeSets[hookKey(h, false)] = true
		}
	}
	coarse := len(typeSets) > maxTypeSets
	groups := map[string]*group{}
	for _, h := range hooks {
		if len(h.types) == 0 {
			continue
		}
		if h.selector != nil && len(selectors) > maxSelectors {
			h.selector = &metav1.LabelSelector{}
		}
		if len(strings.Join(h.pods, "")) > maxPods {
			h.pods = nil
		}
		key := hookKey(h, coarse)
		g, ok := groups[key]
		if !ok {
			g = &group{hook: h}
			groups[key] = g
		} else {
			g.join(h)
		}
		if h.selector == nil {
			g.namespaces = append(g.namespaces, h.namespace)
		}
	}
	out := make([]Webhook, 0, len(groups))
	for key, g := range groups {
		selector := metav1.LabelSelector{}
		if g.selector != nil {
			selector = *g.selector.DeepCopy()
			selector.MatchExpressions = append(selector.MatchExpressions, match.ExcludeProtectedNamespaces(ownNamespace))
		} else {
			slices.Sort(g.namespaces)
			selector.MatchExpressions = []metav1.LabelSelectorRequirement{{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: g.namespaces,
			}}
		}
		slices.SortFunc(g.owners, compareKeys)
		out = append(out, Webhook{Webhook: newWebhook(key, &selector, g.hook), Objects: g.owners})
	}
	slices.SortFunc(out, func(a, b Webhook) int { return strings.Compare(a.Webhook.Name, b.Webhook.Name) })
	return out
}

// hookKey returns a key that is equal for hooks that share a webhook: for hooks with a selector, those with equal selectors and failure
// policies; for hooks for single namespaces, those with equal types and failure policies or, if coarse is true, equal failure policies.
// Nothing else matters, such as the namespace or the expressions for pods.
func hookKey(h hook, coarse bool) string {
	shared := struct {
		FailurePolicy admissionregistrationv1.FailurePolicyType
		Selector      *metav1.LabelSelector
		Types         []schema.GroupResource
	}{FailurePolicy: h.failurePolicy, Selector: h.selector}
	if h.selector == nil && !coarse {
		shared.Types = h.types
	}
	// Marshaling does not fail: all values are strings.
	text, _ := json.Marshal(shared)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// newWebhook returns the webhook for a hook, without client configuration. It receives creates of objects of the hook's types and, only
// for Pods, Services, PersistentVolumeClaims, and ResourceClaims, those updates that may change usage. The key becomes part of its name;
// selector selects its namespaces.
func newWebhook(key string, selector *metav1.LabelSelector, h hook) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    "quota-" + key + "." + placementv1.GroupVersion.Group,
		FailurePolicy:           &h.failurePolicy,
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       selector,
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		AdmissionReviewVersions: []string{"v1"},
		Rules:                   hookRules(h.types),
		MatchConditions:         hookConditions(h),
	}
}

// hookConditions returns conditions that exclude requests that change no usage, and pods for which none of h.pods is true. Nearly all
// updates of pods, claims, and services in a cluster change no usage, and none of them may have to wait for Berth.
func hookConditions(h hook) []admissionregistrationv1.MatchCondition {
	var out []admissionregistrationv1.MatchCondition
	add := func(name string, t schema.GroupResource, where, condition string) {
		if slices.Contains(h.types, t) {
			out = append(out, admissionregistrationv1.MatchCondition{
				Name: name + ".placement.berth.dev",
				Expression: fmt.Sprintf(`request.resource.resource != %q || request.resource.group != %q%s || %s`, t.Resource,
					t.Group, where, condition),
			})
		}
	}
	const updates = ` || request.operation != "UPDATE"`
	changed := func(fields ...string) string {
		out := make([]string, len(fields))
		for i, f := range fields {
			out[i] = "object." + f + " != oldObject." + f
		}
		return strings.Join(out, " || ")
	}
	add("pod-changes-usage", pods, updates+` || request.?subResource.orValue("") != ""`,
		"has(object.spec.activeDeadlineSeconds) != has(oldObject.spec.activeDeadlineSeconds)")
	if h.pods != nil {
		add("pod-is-counted", pods, "", strings.Join(h.pods, " || "))
	}
	add("claim-changes-usage", claims, updates, changed("spec.?resources.requests.storage", "spec.?storageClassName",
		"spec.?volumeAttributesClassName", `metadata.?annotations["`+corev1.BetaStorageClassAnnotation+`"]`))
	add("device-claim-changes-usage", deviceClaims, updates, changed("metadata.?ownerReferences",
		`metadata.?annotations["`+resourcev1.ExtendedResourceClaimAnnotation+`"]`))
	add("service-changes-usage", services, updates, changed("spec.?type", "spec.?ports", "spec.?allocateLoadBalancerNodePorts"))
	return out
}

// hookRules returns rules with the operations that may change what objects of the types take: creates and, for pods, services, and claims,
// updates. They do not include the status of claims. Controllers that report the state of a volume there must not have to wait for Berth,
// and the recount notices the change.
func hookRules(types []schema.GroupResource) []admissionregistrationv1.RuleWithOperations {
	create := []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	update := []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	both := slices.Concat(create, update)
	rule := func(operations []admissionregistrationv1.OperationType, group string, versions []string,
		resources ...string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: versions, Resources: resources, Scope: new(admissionregistrationv1.NamespacedScope),
		}}
	}
	// The evaluators read these types in version v1. Of the other types, only the objects are counted.
	read, any := []string{"v1"}, []string{"*"}
	var out []admissionregistrationv1.RuleWithOperations
	counted := map[string][]string{}
	for _, t := range types {
		switch t {
		case pods:
			out = append(out, rule(both, "", read, "pods"), rule(update, "", read, "pods/resize"))
		case services, claims:
			out = append(out, rule(both, "", read, t.Resource))
		case deviceClaims:
			out = append(out, rule(both, t.Group, read, t.Resource))
		default:
			counted[t.Group] = append(counted[t.Group], t.Resource)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(counted)) {
		out = append(out, rule(create, group, any, counted[group]...))
	}
	return out
}

package quota

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// Webhook is one webhook of the configuration, without client configuration, and what it is there for.
type Webhook struct {
	Webhook admissionregistrationv1.ValidatingWebhook
	For     []Key
}

// hook is what one object, or one namespace's ScopedQuotas, wants to be asked about.
type hook struct {
	failurePolicy admissionregistrationv1.FailurePolicyType
	// selector selects namespaces; nil if namespace is the only one.
	selector  *metav1.LabelSelector
	namespace string
	types     []schema.GroupResource
	owners    []Key
}

// Webhooks renders what has to be asked about: the types of objects that quotas count, in the namespaces that have
// such quotas, and the types that are limited. Nothing else is sent to Berth. An object that two webhooks match is
// charged once all the same: see Account. The result is sorted and depends on nothing but the sets of objects.
func (e *Evaluators) Webhooks(scoped []placementv1.ScopedQuota, cluster []placementv1.ClusterScopedQuota, limits []placementv1.LimitedResource, ownNamespace string) []Webhook {
	hooks := e.scopedHooks(scoped, ownNamespace)
	for i := range cluster {
		q := &cluster[i]
		key, _ := KeyOf(q)
		hooks = append(hooks, hook{
			failurePolicy: failurePolicy(q.Spec.Mode), selector: orEverything(q.Spec.NamespaceSelector.Upstream()),
			types: e.typesOf(&q.Spec.QuotaSpec), owners: []Key{key},
		})
	}
	for i := range limits {
		l := &limits[i]
		key, _ := KeyOf(l)
		var types []schema.GroupResource
		if resource := (schema.GroupResource{Group: l.Spec.APIGroup, Resource: l.Spec.Resource}); !match.Never(resource) {
			types = append(types, resource)
		}
		hooks = append(hooks, hook{
			failurePolicy: admissionregistrationv1.Fail, selector: orEverything(l.Spec.NamespaceSelector.Upstream()), types: types, owners: []Key{key},
		})
	}
	return grouped(hooks, ownNamespace)
}

func (e *Evaluators) typesOf(spec *placementv1.QuotaSpec) []schema.GroupResource {
	types, _ := e.Types(spec)
	return slices.SortedFunc(maps.Keys(types), compareTypes)
}

func compareTypes(a, b schema.GroupResource) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
}

func orEverything(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s
}

// failurePolicy is what the API server does where Berth gives no answer: only who would deny may stop it.
func failurePolicy(mode placementv1.Mode) admissionregistrationv1.FailurePolicyType {
	if mode == placementv1.ModeWarn || mode == placementv1.ModeDryRun {
		return admissionregistrationv1.Ignore
	}
	return admissionregistrationv1.Fail
}

// scopedHooks makes one hook of all quotas of a namespace, so that the API server asks once. In kube-system, where
// a quota may limit what a cluster needs to come up, it never waits for Berth.
func (e *Evaluators) scopedHooks(quotas []placementv1.ScopedQuota, ownNamespace string) []hook {
	byNamespace := map[string]*hook{}
	for i := range quotas {
		q := &quotas[i]
		if q.Namespace == ownNamespace {
			continue
		}
		h, ok := byNamespace[q.Namespace]
		if !ok {
			h = &hook{failurePolicy: admissionregistrationv1.Ignore, namespace: q.Namespace}
			byNamespace[q.Namespace] = h
		}
		if policy := failurePolicy(q.Spec.Mode); q.Namespace != match.NamespaceSystem && policy == admissionregistrationv1.Fail {
			h.failurePolicy = policy
		}
		key, _ := KeyOf(q)
		h.owners = append(h.owners, key)
		h.types = append(h.types, e.typesOf(&q.Spec.QuotaSpec)...)
	}
	var out []hook
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		h := byNamespace[namespace]
		slices.SortFunc(h.types, compareTypes)
		h.types = slices.Compact(h.types)
		out = append(out, *h)
	}
	return out
}

// grouped makes one webhook of hooks that differ in nothing but the namespace, if they have just one each, or in
// nothing but the types, if they have a selector.
func grouped(hooks []hook, ownNamespace string) []Webhook {
	type group struct {
		hook
		namespaces []string
	}
	groups := map[string]*group{}
	for _, h := range hooks {
		if len(h.types) == 0 {
			continue
		}
		key := hookKey(h)
		g, ok := groups[key]
		if !ok {
			g = &group{hook: hook{failurePolicy: h.failurePolicy, selector: h.selector}}
			groups[key] = g
		}
		if h.selector == nil {
			g.namespaces = append(g.namespaces, h.namespace)
		}
		g.types = append(g.types, h.types...)
		g.owners = append(g.owners, h.owners...)
	}
	out := make([]Webhook, 0, len(groups))
	for key, g := range groups {
		slices.SortFunc(g.types, compareTypes)
		types := slices.Compact(g.types)
		selector := metav1.LabelSelector{}
		if g.selector != nil {
			selector = *g.selector.DeepCopy()
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{match.NamespaceSystem, ownNamespace},
			})
		} else {
			slices.Sort(g.namespaces)
			selector.MatchExpressions = []metav1.LabelSelectorRequirement{{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: g.namespaces,
			}}
		}
		out = append(out, Webhook{Webhook: newWebhook(key, g.failurePolicy, &selector, types), For: g.owners})
	}
	slices.SortFunc(out, func(a, b Webhook) int { return strings.Compare(a.Webhook.Name, b.Webhook.Name) })
	return out
}

// hookKey is equal for hooks that share a webhook.
func hookKey(h hook) string {
	shared := struct {
		FailurePolicy admissionregistrationv1.FailurePolicyType
		Selector      *metav1.LabelSelector
		Types         []schema.GroupResource
	}{FailurePolicy: h.failurePolicy, Selector: h.selector}
	if h.selector == nil {
		shared.Types = h.types
	}
	// Marshalling can't fail: there is nothing but strings.
	text, _ := json.Marshal(shared)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

func newWebhook(key string, failurePolicy admissionregistrationv1.FailurePolicyType, selector *metav1.LabelSelector, types []schema.GroupResource) admissionregistrationv1.ValidatingWebhook {
	out := admissionregistrationv1.ValidatingWebhook{
		Name:                    "quota-" + key + "." + placementv1.GroupVersion.Group,
		FailurePolicy:           &failurePolicy,
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       selector,
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		AdmissionReviewVersions: []string{"v1"},
		Rules:                   hookRules(types),
	}
	if slices.Contains(types, pods) {
		// Of the updates of a pod itself, one alone changes what quotas count.
		out.MatchConditions = []admissionregistrationv1.MatchCondition{{
			Name: "changes-usage.placement.berth.dev",
			Expression: `request.resource.resource != "pods" || request.resource.group != "" || request.operation != "UPDATE" || request.subResource != "" || ` +
				`has(object.spec.activeDeadlineSeconds) != has(oldObject.spec.activeDeadlineSeconds)`,
		}}
	}
	return out
}

// hookRules are the operations that may change what objects of the types take. The status of claims is not among
// them: whoever reports there what a volume is like must not have to wait for Berth, and the recount sees it.
func hookRules(types []schema.GroupResource) []admissionregistrationv1.RuleWithOperations {
	create := []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	update := []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	both := slices.Concat(create, update)
	rule := func(operations []admissionregistrationv1.OperationType, group string, versions []string, resources ...string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: versions, Resources: resources, Scope: new(admissionregistrationv1.NamespacedScope),
		}}
	}
	// The evaluators read these three in this version; of the others they count the objects.
	read, any := []string{"v1"}, []string{"*"}
	var out []admissionregistrationv1.RuleWithOperations
	counted := map[string][]string{}
	for _, t := range types {
		switch t {
		case pods:
			out = append(out, rule(both, "", read, "pods"), rule(update, "", read, "pods/resize"))
		case services, claims:
			out = append(out, rule(both, "", read, t.Resource))
		default:
			counted[t.Group] = append(counted[t.Group], t.Resource)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(counted)) {
		out = append(out, rule(create, group, any, counted[group]...))
	}
	return out
}

package match

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Hook is one policy's part in the webhook configuration.
type Hook struct {
	Policy        string
	FailurePolicy placementv1.FailurePolicy
	Matcher       *Matcher
}

// Group is a webhook of the configuration and the policies that it stands for.
type Group struct {
	Webhook  admissionregistrationv1.MutatingWebhook
	Policies []string
}

// groupKey is what policies must have in common to share a webhook. The API server sends an object in a version that
// one of the webhook's rules names, so policies share only where any such version is one that all of them match: where
// all rules of both name the same versions. A policy that names several lists of versions shares with its equals alone.
type groupKey struct {
	FailurePolicy     placementv1.FailurePolicy
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	MatchConditions   []admissionregistrationv1.MatchCondition
	Versions          []string
	Rules             []placementv1.ResourceRule
}

// Webhooks renders the policies' matches as webhooks of a MutatingWebhookConfiguration, without client configuration.
// Policies that differ in nothing but their resource rules share one. The result is sorted and depends on nothing but
// the set of hooks. ownNamespace, empty for none, is excluded besides kube-system.
func Webhooks(hooks []Hook, ownNamespace string) []Group {
	groups := map[string]*Group{}
	for _, hook := range sortedByPolicy(hooks) {
		m := hook.Matcher.match
		key := newGroupKey(hook)
		name := webhookName(key)
		group, ok := groups[name]
		if !ok {
			group = &Group{Webhook: newWebhook(name, key, ownNamespace)}
			groups[name] = group
		}
		group.Policies = append(group.Policies, hook.Policy)
		for _, rule := range m.ResourceRules {
			group.Webhook.Rules = appendRule(group.Webhook.Rules, rule)
		}
	}
	out := make([]Group, 0, len(groups))
	for _, group := range groups {
		slices.SortFunc(group.Webhook.Rules, func(a, b admissionregistrationv1.RuleWithOperations) int {
			return strings.Compare(ruleText(a), ruleText(b))
		})
		out = append(out, *group)
	}
	slices.SortFunc(out, func(a, b Group) int { return strings.Compare(a.Webhook.Name, b.Webhook.Name) })
	return out
}

func newGroupKey(hook Hook) groupKey {
	m := hook.Matcher.match
	key := groupKey{
		FailurePolicy: hook.FailurePolicy, NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector,
		MatchConditions: m.MatchConditions,
	}
	for i, rule := range m.ResourceRules {
		versions := slices.Sorted(slices.Values(rule.APIVersions))
		if i > 0 && !slices.Equal(versions, key.Versions) {
			key.Versions, key.Rules = nil, m.ResourceRules
			break
		}
		key.Versions = versions
	}
	return key
}

func sortedByPolicy(hooks []Hook) []Hook {
	return slices.SortedFunc(slices.Values(hooks), func(a, b Hook) int { return strings.Compare(a.Policy, b.Policy) })
}

func webhookName(key groupKey) string {
	// Marshalling can't fail: the key holds nothing but strings.
	text, _ := json.Marshal(key)
	sum := sha256.Sum256(text)
	// Fail sorts before Ignore in the name for the reader's sake; the order has no meaning.
	return strings.ToLower(string(key.FailurePolicy)) + "-" + hex.EncodeToString(sum[:6]) + "." + placementv1.GroupVersion.Group
}

func newWebhook(name string, key groupKey, ownNamespace string) admissionregistrationv1.MutatingWebhook {
	namespaces := &metav1.LabelSelector{}
	if key.NamespaceSelector != nil {
		namespaces = key.NamespaceSelector.DeepCopy()
	}
	namespaces.MatchExpressions = append(namespaces.MatchExpressions, Elsewhere(ownNamespace))
	objects := &metav1.LabelSelector{}
	if key.ObjectSelector != nil {
		objects = key.ObjectSelector.DeepCopy()
	}
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name,
		FailurePolicy:           new(admissionregistrationv1.FailurePolicyType(key.FailurePolicy)),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       namespaces,
		ObjectSelector:          objects,
		MatchConditions:         append([]admissionregistrationv1.MatchCondition{neverCondition()}, key.MatchConditions...),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}
}

func appendRule(rules []admissionregistrationv1.RuleWithOperations, rule placementv1.ResourceRule) []admissionregistrationv1.RuleWithOperations {
	next := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups:   rule.APIGroups,
			APIVersions: rule.APIVersions,
			Resources:   rule.Resources,
			Scope:       new(admissionregistrationv1.AllScopes),
		},
	}
	if slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool { return ruleText(r) == ruleText(next) }) {
		return rules
	}
	return append(rules, next)
}

func ruleText(r admissionregistrationv1.RuleWithOperations) string {
	return strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.APIVersions, ",") + "/" + strings.Join(r.Resources, ",")
}

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
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
)

// PolicyWebhook is one policy's contribution to the webhook configuration.
type PolicyWebhook struct {
	Policy        string
	FailurePolicy placementv1.FailurePolicy
	Matcher       *Matcher
	// Decision are the fields of objects that the policy's decisions depend on, sealed. nil means none.
	Decision *projection.FieldSet
}

// SharedWebhook is a webhook of the configuration with the policies that share it.
type SharedWebhook struct {
	Webhook  admissionregistrationv1.MutatingWebhook
	Policies []string
}

// sharingKey is what policies must have in common to share a webhook, whatever their resource rules are. The API server
// sends an object in a version that one of the webhook's rules names. So policies may share a webhook only if all rules
// of both name the same versions: then every policy matches any version that is sent. A policy with rules for different
// versions shares only with policies with equal rules. Policies that need the guard share only with each other, so that
// the webhooks of the others have no guard.
type sharingKey struct {
	FailurePolicy     placementv1.FailurePolicy
	NamespaceSelector requirementList
	ObjectSelector    requirementList
	MatchConditions   []admissionregistrationv1.MatchCondition
	Versions          []string
	Rules             []placementv1.ResourceRule
	Guarded           bool `json:",omitempty"`
	// Subresources separates webhooks for subresources from webhooks for objects.
	Subresources bool `json:",omitempty"`
}

// mergedShape is what policies must have in common to share a webhook if they require different values of one label:
// everything else, including their resource rules. Then the API server calls the webhook with all values exactly if it
// would call it with one of them. This does not hold if the policies differ in two labels.
type mergedShape struct {
	sharingKey
	ResourceRules []string
	// OfNamespace reports which selector lacks a requirement: the namespace selector or the object selector. Key is its
	// label.
	OfNamespace bool
	Key         string
}

// draftWebhook is a future webhook for policies that have the same common, whatever their resource rules are.
type draftWebhook struct {
	sharingKey
	policies []string
	rules    []admissionregistrationv1.RuleWithOperations
}

// draftWithoutLabel is a part without one of its requirements. values are the values of that requirement.
type draftWithoutLabel struct {
	mergedShape
	text   string
	values []string
}

// Webhooks renders the policies' matches as webhooks of a MutatingWebhookConfiguration, without client configuration.
//
// The API server calls webhooks one after the other, so policies share webhooks where possible. Policies share one if
// they differ only in their resource rules, or only in the required values of one label. No webhook receives objects
// that none of its policies matches. A policy that reads fields that subresources change has two webhooks: one for
// objects, and one for those subresources.
//
// The result is sorted and depends only on the set of hooks. A webhook's name does not depend on the label values that
// it requires. The webhooks exclude kube-system and ownNamespace, which may be empty.
func Webhooks(hooks []PolicyWebhook, ownNamespace string) []SharedWebhook {
	parts := draftsOf(hooks)
	cuts := make([][]draftWithoutLabel, len(parts))
	count := map[string]int{}
	for i, p := range parts {
		cuts[i] = p.withoutEachLabel()
		for _, c := range cuts[i] {
			count[c.text]++
		}
	}
	shared := map[string]*draftUnion{}
	for i, p := range parts {
		c := draftWithoutLabel{mergedShape: mergedShape{sharingKey: p.sharingKey}, text: keyText(p.sharingKey)}
		if len(cuts[i]) > 0 {
			// If a part could share a webhook in several ways, use the one that most parts share.
			c = slices.MaxFunc(cuts[i], func(a, b draftWithoutLabel) int {
				return cmp.Or(cmp.Compare(count[a.text], count[b.text]), -strings.Compare(a.text, b.text))
			})
		}
		u, ok := shared[c.text]
		if !ok {
			u = &draftUnion{draftWithoutLabel: c, rules: p.rules}
			shared[c.text] = u
		}
		u.policies = append(u.policies, p.policies...)
		u.wanted = append(u.wanted, c.values...)
	}
	out := make([]SharedWebhook, 0, len(shared))
	for _, u := range shared {
		out = append(out, u.group(ownNamespace))
	}
	slices.SortFunc(out, func(a, b SharedWebhook) int { return strings.Compare(a.Webhook.Name, b.Webhook.Name) })
	return out
}

// draftUnion is the set of parts that share a webhook. If their cut has a Key, wanted are all values that they require of
// it.
type draftUnion struct {
	draftWithoutLabel
	policies []string
	rules    []admissionregistrationv1.RuleWithOperations
	wanted   []string
}

func (u *draftUnion) group(ownNamespace string) SharedWebhook {
	key := u.sharingKey
	if u.Key != "" {
		wanted := requirementList{{Key: u.Key, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(slices.Sorted(slices.Values(u.wanted)))}}
		if u.OfNamespace {
			key.NamespaceSelector = slices.Concat(key.NamespaceSelector, wanted)
		} else {
			key.ObjectSelector = slices.Concat(key.ObjectSelector, wanted)
		}
	}
	slices.Sort(u.policies)
	return SharedWebhook{Webhook: newWebhook(webhookName(u.FailurePolicy, u.text), key, u.rules, ownNamespace), Policies: u.policies}
}

// draftsOf merges the hooks that differ only in their resource rules.
func draftsOf(hooks []PolicyWebhook) []*draftWebhook {
	byKey := map[string]*draftWebhook{}
	var out []*draftWebhook
	add := func(policy string, key sharingKey, rules []admissionregistrationv1.RuleWithOperations) {
		text := keyText(key)
		p, ok := byKey[text]
		if !ok {
			p = &draftWebhook{sharingKey: key}
			byKey[text] = p
			out = append(out, p)
		}
		p.policies = append(p.policies, policy)
		for _, rule := range rules {
			p.rules = appendRule(p.rules, rule)
		}
	}
	for _, hook := range slices.SortedFunc(slices.Values(hooks), func(a, b PolicyWebhook) int { return strings.Compare(a.Policy, b.Policy) }) {
		add(hook.Policy, sharingKeyOf(hook), objectRules(hook))
		if rules := subresourceRules(hook); len(rules) > 0 {
			add(hook.Policy, subresourceSharingKey(hook), rules)
		}
	}
	for _, p := range out {
		slices.SortFunc(p.rules, func(a, b admissionregistrationv1.RuleWithOperations) int {
			return strings.Compare(ruleText(a), ruleText(b))
		})
	}
	return out
}

func sharingKeyOf(hook PolicyWebhook) sharingKey {
	m := hook.Matcher.match
	key := sharingKey{
		FailurePolicy: hook.FailurePolicy, MatchConditions: m.MatchConditions,
		NamespaceSelector: normalizeSelector(m.NamespaceSelector), ObjectSelector: normalizeSelector(m.ObjectSelector),
		Guarded: hook.Matcher.needsGuard,
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

// withoutEachLabel returns a cut for each In requirement of the part.
func (p *draftWebhook) withoutEachLabel() []draftWithoutLabel {
	var rules []string
	for _, r := range p.rules {
		rules = append(rules, ruleText(r))
	}
	var out []draftWithoutLabel
	for _, ofNamespace := range []bool{true, false} {
		from := p.ObjectSelector
		if ofNamespace {
			from = p.NamespaceSelector
		}
		for i, r := range from {
			if r.Operator != metav1.LabelSelectorOpIn {
				continue
			}
			c := draftWithoutLabel{mergedShape: mergedShape{sharingKey: p.sharingKey, ResourceRules: rules, OfNamespace: ofNamespace, Key: r.Key}, values: r.Values}
			if ofNamespace {
				c.NamespaceSelector = from.except(i)
			} else {
				c.ObjectSelector = from.except(i)
			}
			c.text = keyText(c.mergedShape)
			out = append(out, c)
		}
	}
	return out
}

func keyText(key any) string {
	// Marshaling does not fail: the keys contain only strings and booleans.
	text, _ := json.Marshal(key)
	return string(text)
}

func webhookName(failure placementv1.FailurePolicy, key string) string {
	sum := sha256.Sum256([]byte(key))
	// "fail" sorts before "ignore", which helps readers. The order has no meaning to the API server.
	return strings.ToLower(string(failure)) + "-" + hex.EncodeToString(sum[:6]) + "." + placementv1.GroupVersion.Group
}

func newWebhook(name string, key sharingKey, rules []admissionregistrationv1.RuleWithOperations, ownNamespace string) admissionregistrationv1.MutatingWebhook {
	conditions := key.MatchConditions
	if key.Guarded {
		conditions = slices.Concat([]admissionregistrationv1.MatchCondition{guardCondition(rules)}, conditions)
	}
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name,
		Rules:                   rules,
		FailurePolicy:           new(admissionregistrationv1.FailurePolicyType(key.FailurePolicy)),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       key.NamespaceSelector.selector(ExcludeProtectedNamespaces(ownNamespace)),
		ObjectSelector:          key.ObjectSelector.selector(),
		MatchConditions:         conditions,
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// objectRules returns a policy's rules for the objects themselves.
func objectRules(hook PolicyWebhook) []admissionregistrationv1.RuleWithOperations {
	var out []admissionregistrationv1.RuleWithOperations
	for _, rule := range hook.Matcher.match.ResourceRules {
		out = append(out, newRule(rule.APIGroups, rule.APIVersions, rule.Resources, admissionregistrationv1.Create, admissionregistrationv1.Update))
	}
	return out
}

func newRule(groups, versions, resources []string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: groups, APIVersions: versions, Resources: resources, Scope: new(admissionregistrationv1.AllScopes),
		},
	}
}

// appendRule appends a rule unless the list has one for the same resources. All rules must have the same operations.
func appendRule(rules []admissionregistrationv1.RuleWithOperations,
	next admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	if slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool { return ruleText(r) == ruleText(next) }) {
		return rules
	}
	return append(rules, next)
}

func ruleText(r admissionregistrationv1.RuleWithOperations) string {
	return strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.APIVersions, ",") + "/" + strings.Join(r.Resources, ",")
}

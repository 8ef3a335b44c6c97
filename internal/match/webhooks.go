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

// PolicyWebhook is one policy's contribution to the MutatingWebhookConfiguration: its name, failure policy, match, and the fields that its
// decisions depend on.
type PolicyWebhook struct {
	Policy        string
	FailurePolicy placementv1.FailurePolicy
	Matcher       *Matcher
	// Decision are the fields of objects that the policy's decisions depend on, sealed. The policy gets the requests for those subresources
	// that change such fields. nil means none.
	Decision *projection.FieldSet
}

// SharedWebhook is a webhook of the MutatingWebhookConfiguration with the policies because of which it is there. Which policies decide a
// request does not depend on the webhook that gets it.
type SharedWebhook struct {
	Webhook  admissionregistrationv1.MutatingWebhook
	Policies []string // The names of the policies, sorted.
}

// sharingKey is what policies must have in common to share a webhook, whatever their resource rules are: the failure policy, both
// selectors, the match conditions, and the API versions. Timeouts are no part of it. Keys are equal if their JSON is. The API
// server sends an object in a version that one of the webhook's rules names. So policies may share a webhook only if all rules
// of both name the same versions: then every policy matches any version that is sent. A policy with rules for different
// versions shares only with policies with equal rules. Policies that need the guard share only with each other, so that
// the webhooks of the others have no guard.
type sharingKey struct {
	FailurePolicy     placementv1.FailurePolicy
	NamespaceSelector requirementList
	ObjectSelector    requirementList
	MatchConditions   []admissionregistrationv1.MatchCondition
	// Versions are the API versions that each resource rule names, sorted; nil if the rules differ in them.
	Versions []string
	// Rules are all resource rules if they differ in their versions; nil otherwise.
	Rules []placementv1.ResourceRule
	// Guarded reports whether the webhook needs the guard: a match condition that excludes requests which the rules cover by wildcards, but
	// which no policy matches, such as those of the API server itself.
	Guarded bool `json:",omitempty"`
	// Subresources reports whether the webhook is for subresources, such as scale, and not for objects themselves.
	Subresources bool `json:",omitempty"`
}

// mergedShape is what policies must have in common to share a webhook if they require different values of one label:
// everything else, including their resource rules. Then the API server calls the webhook that requires any of the values
// exactly if it would call a webhook for one of the values. This does not hold if the policies differ in two labels.
type mergedShape struct {
	sharingKey
	// ResourceRules are the rules as texts of ruleText.
	ResourceRules []string
	// OfNamespace reports whether the requirement that may differ is in the namespace selector; if not, it is in the object
	// selector. The selector in sharingKey lacks the requirement.
	OfNamespace bool
	Key         string // The key of the label in that requirement; "" if no requirement may differ.
}

// draftWebhook is a webhook for policies with the same sharingKey, before draftUnion merges it with others.
type draftWebhook struct {
	sharingKey
	policies []string // The names of the policies, sorted.
	rules    []admissionregistrationv1.RuleWithOperations
}

// draftWithoutLabel is a draftWebhook without one of its label requirements.
type draftWithoutLabel struct {
	mergedShape
	// keyText is the mergedShape as JSON, or the sharingKey as JSON if the draft has no requirement that can be left out.
	keyText string
	// values are the values of the requirement that is left out.
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
	drafts := draftsOf(hooks)
	withoutLabel := make([][]draftWithoutLabel, len(drafts))
	count := map[string]int{}
	for i, d := range drafts {
		withoutLabel[i] = d.withoutEachLabel()
		for _, w := range withoutLabel[i] {
			count[w.keyText]++
		}
	}
	shared := map[string]*draftUnion{}
	for i, d := range drafts {
		w := draftWithoutLabel{mergedShape: mergedShape{sharingKey: d.sharingKey}, keyText: keyText(d.sharingKey)}
		if len(withoutLabel[i]) > 0 {
			// If a draft could share a webhook in several ways, use the one that most drafts share.
			w = slices.MaxFunc(withoutLabel[i], func(a, b draftWithoutLabel) int {
				return cmp.Or(cmp.Compare(count[a.keyText], count[b.keyText]), -strings.Compare(a.keyText, b.keyText))
			})
		}
		u, ok := shared[w.keyText]
		if !ok {
			u = &draftUnion{draftWithoutLabel: w, rules: d.rules}
			shared[w.keyText] = u
		}
		u.policies = append(u.policies, d.policies...)
		u.labelValues = append(u.labelValues, w.values...)
	}
	out := make([]SharedWebhook, 0, len(shared))
	for _, u := range shared {
		out = append(out, u.webhook(ownNamespace))
	}
	slices.SortFunc(out, func(a, b SharedWebhook) int { return strings.Compare(a.Webhook.Name, b.Webhook.Name) })
	return out
}

// draftUnion is the union of drafts that share a webhook.
type draftUnion struct {
	draftWithoutLabel
	policies []string
	rules    []admissionregistrationv1.RuleWithOperations
	// labelValues are the values that the drafts require of the label Key; none if Key is empty.
	labelValues []string
}

// webhook returns the webhook that the drafts share.
func (u *draftUnion) webhook(ownNamespace string) SharedWebhook {
	key := u.sharingKey
	if u.Key != "" {
		required := requirementList{{Key: u.Key, Operator: metav1.LabelSelectorOpIn,
			Values: slices.Compact(slices.Sorted(slices.Values(u.labelValues)))}}
		if u.OfNamespace {
			key.NamespaceSelector = slices.Concat(key.NamespaceSelector, required)
		} else {
			key.ObjectSelector = slices.Concat(key.ObjectSelector, required)
		}
	}
	slices.Sort(u.policies)
	return SharedWebhook{Webhook: newWebhook(webhookName(u.FailurePolicy, u.keyText), key, u.rules, ownNamespace), Policies: u.policies}
}

// draftsOf returns the webhooks of the hooks, merged if their sharing keys are equal: one for objects, and one for the subresources that
// change fields that a policy reads.
func draftsOf(hooks []PolicyWebhook) []*draftWebhook {
	byKey := map[string]*draftWebhook{}
	var out []*draftWebhook
	add := func(policy string, key sharingKey, rules []admissionregistrationv1.RuleWithOperations) {
		text := keyText(key)
		d, ok := byKey[text]
		if !ok {
			d = &draftWebhook{sharingKey: key}
			byKey[text] = d
			out = append(out, d)
		}
		d.policies = append(d.policies, policy)
		for _, rule := range rules {
			d.rules = appendRule(d.rules, rule)
		}
	}
	for _, hook := range slices.SortedFunc(slices.Values(hooks), func(a, b PolicyWebhook) int { return strings.Compare(a.Policy, b.Policy) }) {
		add(hook.Policy, sharingKeyOf(hook), objectRules(hook))
		if rules := subresourceRules(hook); len(rules) > 0 {
			add(hook.Policy, subresourceSharingKey(hook), rules)
		}
	}
	for _, d := range out {
		slices.SortFunc(d.rules, func(a, b admissionregistrationv1.RuleWithOperations) int {
			return strings.Compare(ruleText(a), ruleText(b))
		})
	}
	return out
}

// sharingKeyOf returns the sharingKey of a policy's webhook for objects: its failure policy, selectors in normal form, match conditions,
// whether it needs the guard, and the API versions of its rules or, if the rules differ in these, the rules themselves.
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

// withoutEachLabel returns copies of the draft: one for each In requirement in its selectors, without that requirement.
func (d *draftWebhook) withoutEachLabel() []draftWithoutLabel {
	var rules []string
	for _, r := range d.rules {
		rules = append(rules, ruleText(r))
	}
	var out []draftWithoutLabel
	for _, ofNamespace := range []bool{true, false} {
		from := d.ObjectSelector
		if ofNamespace {
			from = d.NamespaceSelector
		}
		for i, r := range from {
			if r.Operator != metav1.LabelSelectorOpIn {
				continue
			}
			w := draftWithoutLabel{mergedShape: mergedShape{sharingKey: d.sharingKey, ResourceRules: rules, OfNamespace: ofNamespace, Key: r.Key},
				values: r.Values}
			if ofNamespace {
				w.NamespaceSelector = from.except(i)
			} else {
				w.ObjectSelector = from.except(i)
			}
			w.keyText = keyText(w.mergedShape)
			out = append(out, w)
		}
	}
	return out
}

// keyText returns a sharingKey or mergedShape as JSON.
func keyText(key any) string {
	// Marshaling does not fail: the keys contain only strings and booleans.
	text, _ := json.Marshal(key)
	return string(text)
}

// webhookName returns the name of a webhook, which has the failure policy and a digest of the key.
func webhookName(failure placementv1.FailurePolicy, key string) string {
	sum := sha256.Sum256([]byte(key))
	// "fail" sorts before "ignore", which helps readers. The order has no meaning to the API server.
	return strings.ToLower(string(failure)) + "-" + hex.EncodeToString(sum[:6]) + "." + placementv1.GroupVersion.Group
}

// newWebhook returns a webhook with the failure policy, selectors, and conditions of a key, and the guard if the key has it. It does not
// match kube-system and ownNamespace, and has neither client configuration nor timeout.
func newWebhook(name string, key sharingKey, rules []admissionregistrationv1.RuleWithOperations,
	ownNamespace string) admissionregistrationv1.MutatingWebhook {
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

// objectRules returns the webhook rules for creations and updates of the objects themselves, one for each of the policy's resource rules,
// also for equal ones.
func objectRules(hook PolicyWebhook) []admissionregistrationv1.RuleWithOperations {
	var out []admissionregistrationv1.RuleWithOperations
	for _, rule := range hook.Matcher.match.ResourceRules {
		out = append(out, newRule(rule.APIGroups, rule.APIVersions, rule.Resources, admissionregistrationv1.Create,
			admissionregistrationv1.Update))
	}
	return out
}

func newRule(groups, versions, resources []string,
	operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
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

// ruleText returns the groups, versions, and resources of a rule as a text, in the order in which the rule has them, to compare rules by.
func ruleText(r admissionregistrationv1.RuleWithOperations) string {
	return strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.APIVersions, ",") + "/" + strings.Join(r.Resources, ",")
}

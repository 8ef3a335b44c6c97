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

// Hook is one policy's part in the webhook configuration.
type Hook struct {
	Policy        string
	FailurePolicy placementv1.FailurePolicy
	Matcher       *Matcher
	// Decision are the fields of objects that the policy's decisions depend on, sealed; nil for none.
	Decision *projection.Fields
}

// Group is a webhook of the configuration and the policies that it stands for.
type Group struct {
	Webhook  admissionregistrationv1.MutatingWebhook
	Policies []string
}

// common is what policies must have in common to share a webhook whatever their resource rules are. The API server
// sends an object in a version that one of the webhook's rules names, so policies share only where any such version is
// one that all of them match: where all rules of both name the same versions. A policy that names several lists of
// versions shares with its equals alone. Policies that need the guard share with each other alone, so that the others do
// without it.
type common struct {
	FailurePolicy     placementv1.FailurePolicy
	NamespaceSelector normal
	ObjectSelector    normal
	MatchConditions   []admissionregistrationv1.MatchCondition
	Versions          []string
	Rules             []placementv1.ResourceRule
	Guarded           bool `json:",omitempty"`
	// Subresources sets webhooks for subresources apart from those for objects.
	Subresources bool `json:",omitempty"`
}

// shape is what policies must have in common to share a webhook where they want different values of one label: all
// else, their resource rules included. The API server asks for all values together exactly if it would ask for some
// of them alone; of two differences that would not be so.
type shape struct {
	common
	ResourceRules []string
	// OfNamespace says of which selector a requirement is left out, and Key of which label.
	OfNamespace bool
	Key         string
}

// part is a webhook to be, of policies that share it whatever their resource rules are.
type part struct {
	common
	policies []string
	rules    []admissionregistrationv1.RuleWithOperations
}

// cut is a part without one requirement, whose values it wants.
type cut struct {
	shape
	text   string
	values []string
}

// Webhooks renders the policies' matches as webhooks of a MutatingWebhookConfiguration, without client configuration.
// Policies that differ in nothing but their resource rules share one, and so do policies that differ in nothing but
// the values that they want of one label: the API server calls webhooks one after the other. None is called for
// anything that no policy of it is about. A policy that reads what subresources change is part of two: one for objects,
// and one for those subresources. The result is sorted and depends on nothing but the set of hooks; a
// webhook's name does not depend on the values that it wants. ownNamespace, empty for none, is excluded besides
// kube-system.
func Webhooks(hooks []Hook, ownNamespace string) []Group {
	parts := partsOf(hooks)
	cuts := make([][]cut, len(parts))
	count := map[string]int{}
	for i, p := range parts {
		cuts[i] = p.cuts()
		for _, c := range cuts[i] {
			count[c.text]++
		}
	}
	shared := map[string]*union{}
	for i, p := range parts {
		c := cut{shape: shape{common: p.common}, text: keyText(p.common)}
		if len(cuts[i]) > 0 {
			// Where a part could share with others in several ways, it does with the most.
			c = slices.MaxFunc(cuts[i], func(a, b cut) int {
				return cmp.Or(cmp.Compare(count[a.text], count[b.text]), -strings.Compare(a.text, b.text))
			})
		}
		u, ok := shared[c.text]
		if !ok {
			u = &union{cut: c, rules: p.rules}
			shared[c.text] = u
		}
		u.policies = append(u.policies, p.policies...)
		u.wanted = append(u.wanted, c.values...)
	}
	out := make([]Group, 0, len(shared))
	for _, u := range shared {
		out = append(out, u.group(ownNamespace))
	}
	slices.SortFunc(out, func(a, b Group) int { return strings.Compare(a.Webhook.Name, b.Webhook.Name) })
	return out
}

// union are parts that share a webhook. If their cut has a Key, wanted are all values that they want of it.
type union struct {
	cut
	policies []string
	rules    []admissionregistrationv1.RuleWithOperations
	wanted   []string
}

func (u *union) group(ownNamespace string) Group {
	key := u.common
	if u.Key != "" {
		wanted := normal{{Key: u.Key, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(slices.Sorted(slices.Values(u.wanted)))}}
		if u.OfNamespace {
			key.NamespaceSelector = slices.Concat(key.NamespaceSelector, wanted)
		} else {
			key.ObjectSelector = slices.Concat(key.ObjectSelector, wanted)
		}
	}
	slices.Sort(u.policies)
	return Group{Webhook: newWebhook(webhookName(u.FailurePolicy, u.text), key, u.rules, ownNamespace), Policies: u.policies}
}

// partsOf puts together what differs in nothing but resource rules.
func partsOf(hooks []Hook) []*part {
	byKey := map[string]*part{}
	var out []*part
	add := func(policy string, key common, rules []admissionregistrationv1.RuleWithOperations) {
		text := keyText(key)
		p, ok := byKey[text]
		if !ok {
			p = &part{common: key}
			byKey[text] = p
			out = append(out, p)
		}
		p.policies = append(p.policies, policy)
		for _, rule := range rules {
			p.rules = appendRule(p.rules, rule)
		}
	}
	for _, hook := range sortedByPolicy(hooks) {
		add(hook.Policy, commonOf(hook), objectRules(hook))
		if rules := subresourceRules(hook); len(rules) > 0 {
			add(hook.Policy, subresourceCommon(hook), rules)
		}
	}
	for _, p := range out {
		slices.SortFunc(p.rules, func(a, b admissionregistrationv1.RuleWithOperations) int {
			return strings.Compare(ruleText(a), ruleText(b))
		})
	}
	return out
}

func commonOf(hook Hook) common {
	m := hook.Matcher.match
	key := common{
		FailurePolicy: hook.FailurePolicy, MatchConditions: m.MatchConditions,
		NamespaceSelector: normalise(m.NamespaceSelector), ObjectSelector: normalise(m.ObjectSelector),
		Guarded: hook.Matcher.guarded,
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

// cuts are the ways to leave out one requirement that wants one of some values.
func (p *part) cuts() []cut {
	var rules []string
	for _, r := range p.rules {
		rules = append(rules, ruleText(r))
	}
	var out []cut
	for _, ofNamespace := range []bool{true, false} {
		from := p.ObjectSelector
		if ofNamespace {
			from = p.NamespaceSelector
		}
		for i, r := range from {
			if r.Operator != metav1.LabelSelectorOpIn {
				continue
			}
			c := cut{shape: shape{common: p.common, ResourceRules: rules, OfNamespace: ofNamespace, Key: r.Key}, values: r.Values}
			if ofNamespace {
				c.NamespaceSelector = from.except(i)
			} else {
				c.ObjectSelector = from.except(i)
			}
			c.text = keyText(c.shape)
			out = append(out, c)
		}
	}
	return out
}

func sortedByPolicy(hooks []Hook) []Hook {
	return slices.SortedFunc(slices.Values(hooks), func(a, b Hook) int { return strings.Compare(a.Policy, b.Policy) })
}

func keyText(key any) string {
	// Marshalling can't fail: the keys hold nothing but strings.
	text, _ := json.Marshal(key)
	return string(text)
}

func webhookName(failure placementv1.FailurePolicy, key string) string {
	sum := sha256.Sum256([]byte(key))
	// Fail sorts before Ignore in the name for the reader's sake; the order has no meaning.
	return strings.ToLower(string(failure)) + "-" + hex.EncodeToString(sum[:6]) + "." + placementv1.GroupVersion.Group
}

func newWebhook(name string, key common, rules []admissionregistrationv1.RuleWithOperations, ownNamespace string) admissionregistrationv1.MutatingWebhook {
	conditions := key.MatchConditions
	if key.Guarded {
		conditions = slices.Concat([]admissionregistrationv1.MatchCondition{guard(rules)}, conditions)
	}
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name,
		Rules:                   rules,
		FailurePolicy:           new(admissionregistrationv1.FailurePolicyType(key.FailurePolicy)),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       key.NamespaceSelector.selector(Elsewhere(ownNamespace)),
		ObjectSelector:          key.ObjectSelector.selector(),
		MatchConditions:         conditions,
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// objectRules are a policy's rules for objects themselves.
func objectRules(hook Hook) []admissionregistrationv1.RuleWithOperations {
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

// appendRule appends a rule unless there is one for the same resources. All have the same operations.
func appendRule(rules []admissionregistrationv1.RuleWithOperations, next admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	if slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool { return ruleText(r) == ruleText(next) }) {
		return rules
	}
	return append(rules, next)
}

func ruleText(r admissionregistrationv1.RuleWithOperations) string {
	return strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.APIVersions, ",") + "/" + strings.Join(r.Resources, ",")
}

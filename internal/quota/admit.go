package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Limit is a LimitedResource and its module.
type Limit struct {
	Object *placementv1.LimitedResource
	Rules  *Rules
}

// Denial is one reason that lasts.
type Denial struct {
	// Message is in upstream's words.
	Message string
	// By is the quota or the LimitedResource that denies; nil if it is neither.
	By runtime.Object
}

// Verdict is what quotas and limits say of a request. The request is allowed if nothing is denied and nothing pending.
type Verdict struct {
	// Denied are reasons that last: the request is to be denied.
	Denied []Denial
	// Pending are reasons that pass by themselves: the request is to be tried again.
	Pending []string
	// Warned is what quotas in mode Warn would have denied, Audited what those in mode DryRun would have, by quota.
	Warned  []string
	Audited map[string]string
}

// Allowed says whether the request is to be let through.
func (v *Verdict) Allowed() bool { return len(v.Denied)+len(v.Pending) == 0 }

// against is what one quota says of a request.
type against struct {
	account         *Account
	standing        corev1.ResourceList
	applies         bool
	changes         bool
	covered         coverage
	requested       corev1.ResourceList
	denied, pending []string
}

// coverage is what quotas limit for an object.
type coverage struct {
	resources, scopes []any
}

// Admit decides a request against all quotas of its namespace and all limits on its type there. If it allows the
// request, and that is no dry run, it charges the accounts; the charge holds until expires. An error says that a
// module could not be evaluated: nothing is decided and nothing charged.
//
// The order of the checks is that of upstream's CheckRequest.
func (r *Request) Admit(ctx context.Context, accounts []*Account, limits []Limit, expires time.Time) (*Verdict, error) {
	verdict := &Verdict{Audited: map[string]string{}}
	var covered coverage
	var opinions []*against
	for _, account := range accounts {
		opinion, err := r.ask(ctx, account)
		if err != nil {
			return nil, err
		}
		if account.mode() == placementv1.ModeEnforce {
			covered.resources = append(covered.resources, opinion.covered.resources...)
			covered.scopes = append(covered.scopes, opinion.covered.scopes...)
		}
		if opinion.applies {
			opinions = append(opinions, opinion)
		}
	}
	if negative := upstream.IsNegative(r.now.usage); len(negative) > 0 {
		verdict.Denied = append(verdict.Denied, Denial{Message: "quota usage is negative for resource(s): " + joined(negative)})
		return verdict, nil
	}
	changes := slices.ContainsFunc(opinions, func(o *against) bool { return o.changes })
	if len(opinions) == 0 {
		changes = len(upstream.RemoveZeros(r.delta())) > 0
	}
	if changes {
		uncovered, err := r.uncovered(ctx, limits, covered)
		if err != nil {
			return nil, err
		}
		verdict.Denied = append(verdict.Denied, uncovered...)
	}
	for _, opinion := range opinions {
		verdict.add(opinion)
	}
	if !verdict.Allowed() || r.DryRun {
		return verdict, nil
	}
	for _, opinion := range opinions {
		opinion.account.charge(r, opinion.requested, opinion.standing, expires)
	}
	return verdict, nil
}

// ask asks one quota's module.
func (r *Request) ask(ctx context.Context, account *Account) (*against, error) {
	out := &against{account: account, standing: account.standing(r)}
	spec, status := account.quota.QuotaSpec(), account.quota.QuotaStatus()
	tracked := r.evaluator.MatchingResources(upstream.ResourceNames(spec.Hard))
	slices.Sort(tracked)
	used := map[string]any{}
	if account.current() {
		used = amounts(subtract(status.Used, out.standing))
	}
	answer, err := account.rules.admit.Evaluate(ctx, r.with(map[string]any{
		"name": account.quota.GetName(), "used": used, "tracks": texts(tracked),
	}))
	if err != nil {
		return nil, fmt.Errorf("quota %s: %w", account.quota.GetName(), err)
	}
	out.covered.resources, _ = answer[ruleCoveredResources].([]any)
	out.covered.scopes, _ = answer[ruleCoveredScopes].([]any)
	if out.applies = answer[ruleApplies] == true; !out.applies {
		return out, nil
	}
	if err := r.evaluator.Constraints(tracked, r.content); err != nil {
		// As upstream: an object that a quota needs an amount of must name one, even if it takes no more than before.
		out.denied = append(out.denied, fmt.Sprintf("failed quota: %s: %v", account.quota.GetName(), err))
		return out, nil
	}
	if out.changes = answer[ruleChanges] == true; !out.changes {
		return out, nil
	}
	if out.requested, err = quantities(answer[ruleRequested]); err != nil {
		return nil, fmt.Errorf("quota %s: %w", account.quota.GetName(), err)
	}
	out.pending = messages(answer[rulePending])
	if len(out.pending) == 0 {
		out.denied = messages(answer[ruleErrors])
	}
	if len(out.pending)+len(out.denied) == 0 && account.full() && !r.DryRun {
		out.pending = append(out.pending, fmt.Sprintf("too many requests under way for quota: %s", account.quota.GetName()))
	}
	return out, nil
}

// add adds what a quota says, as its mode wants it said.
func (v *Verdict) add(o *against) {
	name := o.account.quota.GetName()
	switch o.account.mode() {
	case placementv1.ModeEnforce:
		for _, message := range o.denied {
			v.Denied = append(v.Denied, Denial{Message: message, By: o.account.quota})
		}
		v.Pending = append(v.Pending, o.pending...)
	case placementv1.ModeWarn:
		for _, message := range slices.Concat(o.denied, o.pending) {
			v.Warned = append(v.Warned, fmt.Sprintf("quota %s (mode Warn) would deny: %s", name, message))
		}
	case placementv1.ModeDryRun:
		if all := slices.Concat(o.denied, o.pending); len(all) > 0 {
			v.Audited[name] = strings.Join(all, "; ")
		}
	}
}

// uncovered asks the limits and says what they say in upstream's words, as the first of them that says anything.
func (r *Request) uncovered(ctx context.Context, limits []Limit, covered coverage) ([]Denial, error) {
	var resources, scopes []string
	var by runtime.Object
	for _, limit := range limits {
		answer, err := limit.Rules.admit.Evaluate(ctx, r.with(map[string]any{
			"covered_resources": orEmpty(covered.resources), "covered_scopes": orEmpty(covered.scopes),
		}))
		if err != nil {
			return nil, fmt.Errorf("limited resource %s: %w", limit.Object.Name, err)
		}
		resources = append(resources, messages(answer[ruleUncoveredResources])...)
		scopes = append(scopes, messages(answer[ruleUncoveredScopes])...)
		if by == nil && len(resources)+len(scopes) > 0 {
			by = limit.Object
		}
	}
	var out []Denial
	if len(resources) > 0 {
		slices.Sort(resources)
		out = append(out, Denial{Message: "insufficient quota to consume: " + strings.Join(slices.Compact(resources), ","), By: by})
	}
	if len(scopes) > 0 {
		out = append(out, Denial{Message: fmt.Sprintf("insufficient quota to match these scopes: %v", scopes), By: by})
	}
	return out, nil
}

func orEmpty(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

func texts(names []corev1.ResourceName) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	return out
}

func joined(names []corev1.ResourceName) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// messages are the strings of a rule's value.
func messages(value any) []string {
	list, _ := value.([]any)
	var out []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// quantities is a rule's value as a list of resources.
func quantities(value any) (corev1.ResourceList, error) {
	object, _ := value.(map[string]any)
	out := corev1.ResourceList{}
	for name, amount := range object {
		text, isText := amount.(string)
		if number, ok := amount.(json.Number); ok {
			text, isText = string(number), true
		}
		if !isText {
			return nil, fmt.Errorf("%s: %v is not a quantity", name, amount)
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[corev1.ResourceName(name)] = quantity
	}
	return out, nil
}

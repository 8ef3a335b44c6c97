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
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Limit is a LimitedResource with its compiled rules.
type Limit struct {
	Object *placementv1.LimitedResource
	Rules  *Rules
}

// Denial is a reason to deny a request that a later attempt does not change.
type Denial struct {
	// Message has the wording of Kubernetes' ResourceQuota plug-in.
	Message string
	// By is the quota or LimitedResource that denies the request; nil if none does, because the object takes negative amounts.
	By runtime.Object
}

// Verdict is the result of checking a request against quotas and limits. The request is allowed if Denied and Pending
// are empty.
type Verdict struct {
	// Denied are the permanent reasons of enforced quotas and of LimitedResources to deny the request.
	Denied []Denial
	// Pending are temporary reasons of enforced quotas to deny the request, such as usage that is not counted yet. The client should try the
	// request again.
	Pending []string
	// Warned are the reasons of quotas in mode Warn, and Audited those of quotas in mode DryRun. Neither deny the
	// request.
	Warned, Audited []string
	// Charged are the quotas that the request is charged to: the enforced quotas of which it increases the usage. It is empty for a request
	// that is not allowed, and for a dry run.
	Charged []Key
	// Uncovered reports whether a LimitedResource denies the request because no known quota covers it. A quota that is not known yet may cover
	// it.
	Uncovered bool
}

// Allowed reports whether the request is to be allowed.
func (v *Verdict) Allowed() bool { return len(v.Denied)+len(v.Pending) == 0 }

// quotaResult is the result of checking a request against one quota.
type quotaResult struct {
	account *Account
	// alreadyCharged are the amounts that requests for the same change of the object, or for creates of the same name, have already charged
	// to the quota.
	alreadyCharged corev1.ResourceList
	// applies reports whether the quota limits a resource of the object's type and its scopes match the object.
	applies bool
	// changes reports whether the object takes more, under any resource name, in hard or not, than the quota counts for it already. It is
	// false if the quota does not apply.
	changes bool
	covered coverage // What the quota covers for the object, or would cover in mode Enforce.
	// requested are the amounts, under the names in hard, that the object takes in addition to what the quota counts for it as it was before
	// the request. They include alreadyCharged.
	requested corev1.ResourceList
	// denied and pending are the reasons to deny the request for good, or for now.
	denied, pending []string
}

// coverage lists the names of the resources and scopes that one quota covers for an object, or all enforced quotas of its namespace
// together, as input for the modules of LimitedResources.
type coverage struct {
	resources, scopes []any // The names of the covered resources and scopes, as strings.
}

// Admit checks a request against all quotas of its namespace and all LimitedResources for its type there. If it allows the
// request, and the request is not a dry run, it charges the accounts. A charge is valid until expires. Admit returns an
// error if a module could not be evaluated. In this case it charges nothing.
//
// The checks are in the order of CheckRequest in Kubernetes' ResourceQuota plug-in. Kubernetes checks limits only if the
// request changes usage. Admit also denies an update by which an object comes to match a limit's scope. Otherwise every
// limit with such a scope could be avoided with two requests.
func (r *Request) Admit(ctx context.Context, accounts []*Account, limits []Limit, expires time.Time) (*Verdict, error) {
	verdict := &Verdict{}
	// Use empty lists instead of nil: the limits' modules require lists.
	covered := coverage{resources: []any{}, scopes: []any{}}
	var results []*quotaResult
	for _, account := range accounts {
		result, err := r.checkQuota(ctx, account)
		if err != nil {
			return nil, err
		}
		if account.mode() == placementv1.ModeEnforce {
			covered.resources = append(covered.resources, result.covered.resources...)
			covered.scopes = append(covered.scopes, result.covered.scopes...)
		}
		if result.applies {
			results = append(results, result)
		}
	}
	if negative := upstream.IsNegative(r.current.usage); len(negative) > 0 {
		verdict.Denied = append(verdict.Denied, Denial{Message: "quota usage is negative for resource(s): " + joinNames(negative)})
		return verdict, nil
	}
	if grows := r.changes(results); grows || r.before != nil {
		uncovered, err := r.uncovered(ctx, limits, covered, grows)
		if err != nil {
			return nil, err
		}
		verdict.Denied = append(verdict.Denied, uncovered...)
		verdict.Uncovered = len(uncovered) > 0
	}
	for _, result := range results {
		verdict.add(result)
	}
	if !verdict.Allowed() || r.DryRun {
		return verdict, nil
	}
	for _, result := range results {
		// Quotas that do not deny need no charge. The recount counts the object later.
		if result.account.mode() == placementv1.ModeEnforce && len(result.requested) > 0 {
			result.account.charge(r, result.requested, result.alreadyCharged, expires)
			key, _ := KeyOf(result.account.quota)
			verdict.Charged = append(verdict.Charged, key)
		}
	}
	return verdict, nil
}

// changes reports whether the request increases usage, so that LimitedResources apply in full. If enforced quotas apply, the object must
// take more than one of them counts for it already. Otherwise it must take more than before. So a quota that is not enforced cannot allow
// what would be denied without that quota.
func (r *Request) changes(results []*quotaResult) bool {
	enforced := false
	for _, o := range results {
		if o.account.mode() == placementv1.ModeEnforce {
			if o.changes {
				return true
			}
			enforced = true
		}
	}
	return !enforced && len(upstream.RemoveZeros(r.delta())) > 0
}

// checkQuota checks the request against one quota, in whatever mode that is. It charges nothing. The result is never nil without an error,
// which means that the quota's module could not be evaluated; if the quota does not apply to the object, applies is false in it.
func (r *Request) checkQuota(ctx context.Context, account *Account) (*quotaResult, error) {
	out := &quotaResult{account: account, alreadyCharged: account.alreadyCharged(r)}
	spec, status := account.quota.QuotaSpec(), account.quota.QuotaStatus()
	tracked := r.evaluator.MatchingResources(upstream.ResourceNames(spec.Hard))
	slices.Sort(tracked)
	tracks := namesInput(tracked)
	scoped, err := account.rules.evaluateScopes(ctx, r.current.scopes, tracks)
	if err != nil {
		return nil, fmt.Errorf("quota %s: %w", account.quota.GetName(), err)
	}
	out.covered = scoped.covered
	if out.applies = scoped.applies; !out.applies {
		return out, nil
	}
	if err := r.evaluator.Constraints(tracked, r.content); err != nil {
		// As in Kubernetes: if a quota requires an object to specify an amount, this holds even if the object takes no
		// more than before.
		out.denied = append(out.denied, fmt.Sprintf("failed quota: %s: %v", account.quota.GetName(), err))
		return out, nil
	}
	change, err := r.change(ctx, account.rules, tracks)
	if err != nil {
		return nil, fmt.Errorf("quota %s: %w", account.quota.GetName(), err)
	}
	if out.changes = len(change) > 0; !out.changes {
		return out, nil
	}
	out.requested = upstream.Mask(change, upstream.ResourceNames(spec.Hard))
	used := corev1.ResourceList{}
	if account.current() {
		used = subtract(status.Used, out.alreadyCharged)
	}
	unknown := slices.DeleteFunc(tracked, func(name corev1.ResourceName) bool { _, known := used[name]; return known })
	sum := upstream.Mask(upstream.Add(used, out.requested), upstream.ResourceNames(out.requested))
	if out.pending, out.denied, err = account.rules.evaluateUsage(ctx, unknown, sum, map[string]any{
		"name": account.quota.GetName(), "subresource": r.subresource, "unknown": namesInput(unknown), "used": used, "requested": out.requested,
	}); err != nil {
		return nil, fmt.Errorf("quota %s: %w", account.quota.GetName(), err)
	}
	if len(out.pending)+len(out.denied) == 0 && account.mode() == placementv1.ModeEnforce && !r.DryRun {
		switch {
		case account.full():
			out.pending = append(out.pending, fmt.Sprintf("too many requests under way for quota: %s", account.quota.GetName()))
		case account.crowded(r.Namespace) && len(out.alreadyCharged) == 0:
			out.pending = append(out.pending, fmt.Sprintf("too many requests of namespace %s under way for quota: %s", r.Namespace,
				account.quota.GetName()))
		}
	}
	return out, nil
}

// change returns the amounts that the object takes in addition to those that a quota with these rules already counts for it: all that it
// takes if the rules do not apply to the old object, or if there is none. They include amounts under names that the quota's hard does not
// have. A resource of which the object takes less than before, or as much, is left out. tracked are the names in hard by which objects of
// the object's type are measured, such as requests.cpu and count/pods for Pods; whether the rules apply depends on them.
func (r *Request) change(ctx context.Context, rules *Rules, tracked []any) (corev1.ResourceList, error) {
	if r.before != nil {
		before, err := rules.evaluateScopes(ctx, r.before.scopes, tracked)
		if err != nil {
			return nil, err
		}
		if before.applies {
			return upstream.RemoveZeros(r.delta()), nil
		}
	}
	return upstream.RemoveZeros(r.current.usage), nil
}

// add adds the reasons of one quota to deny the request, the permanent and the temporary ones, to the verdict: to Denied and Pending if the
// quota's mode is Enforce, all to Warned if it is Warn, and all to Audited if it is DryRun.
func (v *Verdict) add(o *quotaResult) {
	switch o.account.mode() {
	case placementv1.ModeEnforce:
		for _, message := range o.denied {
			v.Denied = append(v.Denied, Denial{Message: message, By: o.account.quota})
		}
		v.Pending = append(v.Pending, o.pending...)
	case placementv1.ModeWarn:
		v.Warned = append(v.Warned, o.unenforcedMessages()...)
	case placementv1.ModeDryRun:
		v.Audited = append(v.Audited, o.unenforcedMessages()...)
	}
}

// unenforcedMessages returns, for a quota in mode Warn or DryRun, one message for each reason to deny the request that it would have in
// mode Enforce, for good or for now.
func (o *quotaResult) unenforcedMessages() []string {
	spec := o.account.quota.QuotaSpec()
	var out []string
	for _, message := range slices.Concat(o.denied, o.pending) {
		out = append(out, fmt.Sprintf("quota %s (mode %s) would deny: %s", o.account.quota.GetName(), spec.Mode, message))
	}
	return out
}

// uncovered checks the request against the LimitedResources. It returns at most one denial for resources and one for scopes, as
// Kubernetes does. Each names the first LimitedResource that denies for that reason. For an update that does not grow, it checks
// only the scopes that the old object does not match.
func (r *Request) uncovered(ctx context.Context, limits []Limit, covered coverage, grows bool) ([]Denial, error) {
	var resources, scopes []string
	var byResources, byScopes runtime.Object
	for _, limit := range limits {
		answer, err := limit.Rules.admit.Evaluate(ctx, r.limitInput(map[string]any{
			"covered_resources": covered.resources, "covered_scopes": covered.scopes,
		}))
		if err != nil {
			return nil, fmt.Errorf("LimitedResource %s: %w", limit.Object.Name, err)
		}
		more := messages(answer[ruleUncoveredScopes])
		switch {
		case grows:
			resources = append(resources, messages(answer[ruleUncoveredResources])...)
		case len(more) > 0:
			before, err := limit.matchedScopes(ctx, r.before.scopes)
			if err != nil {
				return nil, err
			}
			more = slices.DeleteFunc(more, func(scope string) bool { return slices.Contains(before, scope) })
		}
		scopes = append(scopes, more...)
		if byResources == nil && len(resources) > 0 {
			byResources = limit.Object
		}
		if byScopes == nil && len(scopes) > 0 {
			byScopes = limit.Object
		}
	}
	var out []Denial
	if len(resources) > 0 {
		slices.Sort(resources)
		out = append(out, Denial{Message: "insufficient quota to consume: " + strings.Join(slices.Compact(resources), ","), By: byResources})
	}
	if len(scopes) > 0 {
		out = append(out, Denial{Message: fmt.Sprintf("insufficient quota to match these scopes: %v", scopes), By: byScopes})
	}
	return out, nil
}

// matchedScopes returns the scopes of the LimitedResource that match an object with the given scopes, as texts.
func (l Limit) matchedScopes(ctx context.Context, scopes Scopes) ([]string, error) {
	answer, err := l.Rules.admit.Evaluate(ctx, map[string]any{
		"scopes": scopes.moduleInput(), "usage": map[string]any{}, "covered_resources": []any{}, "covered_scopes": []any{},
	})
	if err != nil {
		return nil, fmt.Errorf("LimitedResource %s: %w", l.Object.Name, err)
	}
	return messages(answer[ruleUncoveredScopes]), nil
}

// namesInput returns names as a list of strings, in the same order, as input for a module.
func namesInput(names []corev1.ResourceName) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	return out
}

// joinNames returns the sorted names, joined by "," without spaces.
func joinNames(names []corev1.ResourceName) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// messages returns the strings in a rule's value, a decoded set or array; none if it is nil or of another type.
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

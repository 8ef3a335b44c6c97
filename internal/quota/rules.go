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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// Rules is the module of one quota or LimitedResource: its source, whose first line names the object, and its compiled parts, which do not
// have the object's name. Objects with equal specs share the compiled parts and their cache. It is safe for concurrent use.
type Rules struct {
	// Module is the module's source, and its digest, which leaves out the first line: it names the object.
	Module placementv1.QuotaModule
	prepared
}

// prepared holds the parts of Rules that quotas, or LimitedResources, with equal specs share. Each part evaluates several rules together.
type prepared struct {
	// scope decides whether a quota applies and what it covers. admit decides whether a request exceeds the quota, and messages
	// provides the messages. count decides whether an object counts. A LimitedResource has only admit, which decides what quotas do not cover;
	// the others are nil.
	scope, admit, messages, count policy.Rules
	// scoped caches the results of scope, whether the quota applies to an object and what it covers, by scopedKey, which has its variable
	// input. There are few different ones.
	scoped *lru.Cache
}

// evaluateUsage evaluates whether the usage sum, which includes the request, exceeds the quota. If so, it returns the reasons to deny the
// request. If the current usage of some names is unknown, it returns why the request is pending instead. messageInput is additional input
// for these messages, whose resource lists it converts.
func (r *Rules) evaluateUsage(ctx context.Context, unknown []corev1.ResourceName, sum corev1.ResourceList,
	messageInput map[string]any) (pending, denied []string, err error) {
	input := map[string]any{"sum": amounts(sum)}
	if len(unknown) == 0 {
		// Nearly all requests end here, with one evaluation.
		answer, err := r.admit.Evaluate(ctx, input)
		if err != nil || len(messages(answer[ruleExceeded])) == 0 {
			return nil, nil, err
		}
	}
	for name, value := range messageInput {
		if list, ok := value.(corev1.ResourceList); ok {
			value = amounts(list)
		}
		input[name] = value
	}
	answer, err := r.messages.Evaluate(ctx, input)
	if err != nil {
		return nil, nil, err
	}
	if pending = messages(answer[rulePending]); len(pending) > 0 {
		return pending, nil, nil
	}
	return nil, messages(answer[ruleErrors]), nil
}

// scopedKey identifies what a quota's module reads to decide whether the quota applies to an object, and what it covers.
type scopedKey struct {
	Scopes
	tracked string // For a ResourceClaim, the names in hard that count ResourceClaims, sorted, as text; "" for objects of other types.
}

// scopeResult is what a quota's module decides from an object's type and scopes: whether the quota applies to it, and what it covers.
type scopeResult struct {
	// applies reports whether the quota limits a resource of the object's type and matches the scopes.
	applies bool
	covered coverage
}

// evaluateScopes returns whether a quota applies to an object with some scopes, and which names and scopes it covers for the object: names
// only if it applies, but each of its scopes that matches the object, even if another one does not match. tracked are the names in the
// quota's hard that count objects of the object's type.
func (r *Rules) evaluateScopes(ctx context.Context, scopes Scopes, tracked []any) (scopeResult, error) {
	key := scopedKey{Scopes: scopes}
	if scopes.resource == deviceClaims {
		// Which resources are tracked depends on the DeviceClasses, too.
		key.tracked = fmt.Sprint(tracked)
	}
	if known, ok := r.scoped.Get(key); ok {
		answer, _ := known.(scopeResult)
		return answer, nil
	}
	answer, err := r.scope.Evaluate(ctx, map[string]any{"tracks": tracked, "scopes": scopes.moduleInput()})
	if err != nil {
		return scopeResult{}, err
	}
	out := scopeResult{applies: answer[ruleApplies] == true}
	out.covered.resources, _ = answer[ruleCoveredResources].([]any)
	out.covered.scopes, _ = answer[ruleCoveredScopes].([]any)
	r.scoped.Add(key, out)
	return out, nil
}

// counts reports whether the quota counts objects with these scopes.
func (r *Rules) counts(ctx context.Context, scopes Scopes) (bool, error) {
	answer, err := r.count.Evaluate(ctx, map[string]any{"scopes": scopes.moduleInput()})
	if err != nil {
		return false, err
	}
	return answer[ruleCounts] == true, nil
}

package quota

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// Rules are the generated module of one quota or limit, ready to be asked.
type Rules struct {
	// Module is the text and its digest.
	Module placementv1.QuotaModule
	prepared
}

// prepared are the parts of Rules that do not name an object: rules that are asked together.
type prepared struct {
	// scope says whether a quota applies and what it covers, admit whether a request exceeds it, words what to tell of
	// that, and count whether an object counts. A limit has admit alone.
	scope, admit, words, count policy.Rules
	// scoped are the answers of scope, by Scopes: nothing else decides about them, and few are different.
	scoped *lru.Cache
}

// judge asks a quota's module whether what would be used is more than it allows, and for the words if it is, or if it is
// not known what is used. words is the input for those; lists of resources in it stand for their amounts.
func (r *Rules) judge(ctx context.Context, unknown []corev1.ResourceName, sum corev1.ResourceList, words map[string]any) (pending, denied []string, err error) {
	input := map[string]any{"sum": amounts(sum)}
	if len(unknown) == 0 {
		// Nearly every request ends here, and asks for no more.
		answer, err := r.admit.Evaluate(ctx, input)
		if err != nil || len(messages(answer[ruleExceeded])) == 0 {
			return nil, nil, err
		}
	}
	for name, value := range words {
		if list, ok := value.(corev1.ResourceList); ok {
			value = amounts(list)
		}
		input[name] = value
	}
	answer, err := r.words.Evaluate(ctx, input)
	if err != nil {
		return nil, nil, err
	}
	if pending = messages(answer[rulePending]); len(pending) > 0 {
		return pending, nil, nil
	}
	return nil, messages(answer[ruleErrors]), nil
}

// scoped is what a quota's module says of objects of some scopes.
type scoped struct {
	applies bool
	covered coverage
}

// ofScopes asks a quota's module about objects of some scopes, of whose type it tracks these resources.
func (r *Rules) ofScopes(ctx context.Context, scopes Scopes, tracked []any) (scoped, error) {
	if known, ok := r.scoped.Get(scopes); ok {
		answer, _ := known.(scoped)
		return answer, nil
	}
	answer, err := r.scope.Evaluate(ctx, map[string]any{"tracks": tracked, "scopes": scopes.facts()})
	if err != nil {
		return scoped{}, err
	}
	out := scoped{applies: answer[ruleApplies] == true}
	out.covered.resources, _ = answer[ruleCoveredResources].([]any)
	out.covered.scopes, _ = answer[ruleCoveredScopes].([]any)
	r.scoped.Add(scopes, out)
	return out, nil
}

// counts asks a quota's module whether objects of some scopes count.
func (r *Rules) counts(ctx context.Context, scopes Scopes) (bool, error) {
	answer, err := r.count.Evaluate(ctx, map[string]any{"scopes": scopes.facts()})
	if err != nil {
		return false, err
	}
	return answer[ruleCounts] == true, nil
}

package quota

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// Prepare prepares a compiled module for evaluation. The policy engine provides it.
type Prepare func(ctx context.Context, name string, m *policy.Module) (policy.Rules, error)

// cached bounds the number of cached modules. One takes some hundred kilobytes.
const cached = 1024

// cachedScopes bounds the number of cached scope results of each module.
const cachedScopes = 256

// Compiler generates, compiles, and caches the modules of quotas and limits. Quotas with equal specs share a module. It
// is safe for concurrent use.
type Compiler struct {
	prepare  Prepare
	byObject *lru.Cache
	byDigest *lru.Cache
}

// NewCompiler returns a compiler that uses the engine's Prepare function.
func NewCompiler(p Prepare) *Compiler {
	return &Compiler{prepare: p, byObject: lru.New(cached), byDigest: lru.New(cached)}
}

// version identifies one version of a spec.
type version struct {
	uid        types.UID
	generation int64
}

// compiled are the rules of a spec, with a copy of that spec.
type compiled struct {
	rules *Rules
	spec  copiable
}

// copiable is a spec that can be copied. The cache needs copies, because the owner of an object may change its spec.
type copiable interface{ copied() copiable }

type quotaSpec struct{ *placementv1.QuotaSpec }

func (s quotaSpec) copied() copiable { return quotaSpec{s.DeepCopy()} }

type limitSpec struct {
	*placementv1.LimitedResourceSpec
}

func (s limitSpec) copied() copiable { return limitSpec{s.DeepCopy()} }

// questions are the names of the rules that are evaluated together, by the field of prepared that holds them.
type questions struct {
	scope, admit, words, count []string
}

var (
	ofQuota = questions{
		scope: []string{ruleApplies, ruleCoveredResources, ruleCoveredScopes},
		admit: []string{ruleExceeded}, words: []string{rulePending, ruleErrors}, count: []string{ruleCounts},
	}
	ofLimit = questions{admit: []string{ruleUncoveredResources, ruleUncoveredScopes}}
)

// Quota returns the compiled rules of a quota.
func (c *Compiler) Quota(ctx context.Context, q placementv1.Quota) (*Rules, error) {
	return c.rules(ctx, q, quotaSpec{q.QuotaSpec()}, func() string { return generateQuota(q.QuotaSpec()) }, ofQuota)
}

// Limit returns the compiled rules of a limit.
func (c *Compiler) Limit(ctx context.Context, l *placementv1.LimitedResource) (*Rules, error) {
	return c.rules(ctx, l, limitSpec{&l.Spec}, func() string { return generateLimit(&l.Spec) }, ofLimit)
}

func (c *Compiler) rules(ctx context.Context, object interface {
	runtime.Object
	GetUID() types.UID
	GetGeneration() int64
}, spec copiable, generate func() string, asked questions) (*Rules, error) {
	key := version{uid: object.GetUID(), generation: object.GetGeneration()}
	if cached, ok := c.byObject.Get(key); ok {
		// After the API server's storage was restored from a backup, two specs may have the same generation.
		if known, _ := cached.(compiled); equality.Semantic.DeepEqual(known.spec, spec) {
			return known.rules, nil
		}
	}
	named, _ := KeyOf(object)
	text := generate()
	rules := &Rules{Module: placementv1.QuotaModule{
		Digest: digest(text),
		Rego:   header(named) + text,
	}}
	var err error
	if rules.prepared, err = c.compile(ctx, rules.Module.Digest, text, asked); err != nil {
		return nil, fmt.Errorf("%s %s: %w", named.Kind, named.Name, err)
	}
	c.byObject.Add(key, compiled{rules: rules, spec: spec.copied()})
	return rules, nil
}

func (c *Compiler) compile(ctx context.Context, digest, text string, asked questions) (prepared, error) {
	if known, ok := c.byDigest.Get(digest); ok {
		p, _ := known.(prepared)
		return p, nil
	}
	module, err := policy.CompileGenerated(digest, text, asked.admit)
	if err != nil {
		return prepared{}, err
	}
	p := prepared{scoped: lru.New(cachedScopes)}
	for _, part := range []struct {
		rules []string
		into  *policy.Rules
	}{{asked.scope, &p.scope}, {asked.admit, &p.admit}, {asked.words, &p.words}, {asked.count, &p.count}} {
		if len(part.rules) == 0 {
			continue
		}
		of := *module
		of.Rules = part.rules
		if *part.into, err = c.prepare(ctx, digest, &of); err != nil {
			return prepared{}, err
		}
	}
	c.byDigest.Add(digest, p)
	return p, nil
}

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

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// Prepare returns the rules of a compiled module, ready to be evaluated any number of times. name is the digest of the module. The policy
// engine provides the function.
type Prepare func(ctx context.Context, name string, m *policy.Module) (policy.Rules, error)

// maxCachedModules bounds the number of cached modules. One takes some hundred kilobytes.
const maxCachedModules = 1024

// maxCachedScopes bounds the number of cached scope results of each module.
const maxCachedScopes = 256

// Compiler generates, compiles, and caches the modules of quotas and LimitedResources. Those with equal specs share a module. It is safe
// for concurrent use.
type Compiler struct {
	prepare  Prepare
	byObject *lru.Cache // Values of type *Rules, by the UID and generation of the quota or LimitedResource (specVersion).
	byDigest *lru.Cache // Values of type prepared, by the digest of a module.
}

// NewCompiler returns a compiler that uses the engine's Prepare function.
func NewCompiler(p Prepare) *Compiler {
	return &Compiler{prepare: p, byObject: lru.New(maxCachedModules), byDigest: lru.New(maxCachedModules)}
}

// specVersion identifies one version of the spec of a stored object.
type specVersion struct {
	uid        types.UID
	generation int64
}

// ruleNames has, for each field of prepared, the names of the rules in a module that the field evaluates together.
type ruleNames struct {
	// scope tells whether a quota applies and what it covers, admit what a request exceeds or, of a LimitedResource, what no quota covers,
	// messages the reasons to deny, and count whether an object counts.
	scope, admit, messages, count []string
}

var (
	quotaRuleNames = ruleNames{
		scope: []string{ruleApplies, ruleCoveredResources, ruleCoveredScopes},
		admit: []string{ruleExceeded}, messages: []string{rulePending, ruleErrors}, count: []string{ruleCounts},
	}
	limitRuleNames = ruleNames{admit: []string{ruleUncoveredResources, ruleUncoveredScopes}}
)

// Quota returns the compiled rules of a quota.
func (c *Compiler) Quota(ctx context.Context, q placementv1.Quota) (*Rules, error) {
	return c.rules(ctx, q, func() string { return generateQuota(q.QuotaSpec()) }, quotaRuleNames)
}

// Limit returns the compiled rules of a LimitedResource, which say what it matches and whether a quota covers that. Equal specs
// share one compilation.
func (c *Compiler) Limit(ctx context.Context, l *placementv1.LimitedResource) (*Rules, error) {
	return c.rules(ctx, l, func() string { return generateLimit(&l.Spec) }, limitRuleNames)
}

// rules returns the compiled rules of a quota or a LimitedResource, from a cache if this generation of the object was compiled before.
// generate returns the text of its module.
func (c *Compiler) rules(ctx context.Context, object interface {
	runtime.Object
	GetUID() types.UID
	GetGeneration() int64
}, generate func() string, names ruleNames) (*Rules, error) {
	key := specVersion{uid: object.GetUID(), generation: object.GetGeneration()}
	if cached, ok := c.byObject.Get(key); ok {
		known, _ := cached.(*Rules)
		return known, nil
	}
	named, _ := KeyOf(object)
	text := generate()
	rules := &Rules{Module: placementv1.QuotaModule{
		Digest: digest(text),
		Rego:   header(named) + text,
	}}
	var err error
	if rules.prepared, err = c.compile(ctx, rules.Module.Digest, text, names); err != nil {
		return nil, fmt.Errorf("%s %s: %w", named.Kind, named.Name, err)
	}
	// Objects that are not stored have no UID.
	if key.uid != "" {
		c.byObject.Add(key, rules)
	}
	return rules, nil
}

// compile compiles a module with a text and its digest, or returns the result of an equal one.
func (c *Compiler) compile(ctx context.Context, digest, text string, names ruleNames) (prepared, error) {
	if known, ok := c.byDigest.Get(digest); ok {
		p, _ := known.(prepared)
		return p, nil
	}
	module, err := policy.CompileGenerated(digest, text, names.admit)
	if err != nil {
		return prepared{}, err
	}
	p := prepared{scoped: lru.New(maxCachedScopes)}
	for _, part := range []struct {
		rules []string
		into  *policy.Rules
	}{{names.scope, &p.scope}, {names.admit, &p.admit}, {names.messages, &p.messages}, {names.count, &p.count}} {
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

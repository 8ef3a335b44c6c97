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

package embedded

import (
	"context"
	"reflect"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

var _ placement.Successor = (*evaluator)(nil)

// TakeOver implements placement.Successor. It copies all cached decisions of the version earlier if both versions read the same (readsAs)
// and have the same Rego. If instead their rules differ only in values that clusters are compared with, and every cluster meets the same
// requirements in both, it copies all but those that deny, because the texts of denials may differ: another threshold that no cluster
// crosses leaves the other decisions as they are. Otherwise it copies none.
func (p *evaluator) TakeOver(ctx context.Context, earlier placement.Evaluator) {
	before, ok := earlier.(*evaluator)
	if !ok || before.engine != p.engine || p.query == nil || p.decisionCache == nil || before.decisionCache == nil ||
		!p.readsAs(before) {
		return
	}
	state, err := p.currentState()
	if err != nil {
		return
	}
	denials := p.module.Digest == before.module.Digest
	if !denials && !p.decidesAs(ctx, before, state) {
		return
	}
	p.decisionCache.takeOver(before.decisionCache, p.revision(state.snapshot),
		func(d placement.Decision) bool { return denials || len(d.Errors) == 0 })
}

// readsAs reports whether both versions of the policy read the same fields of objects and the same data, and have equal documents of their
// own (spec.data), equal spec.predicates, and the same limit of the input. Their Rego may differ: it is not compared.
func (p *evaluator) readsAs(before *evaluator) bool {
	m, old := p.module, before.module
	return m.Candidates == old.Candidates && m.InputBytes == old.InputBytes && reflect.DeepEqual(m.Predicates, old.Predicates) &&
		(m.Static == nil) == (old.Static == nil) && (m.Static == nil || ast.Compare(m.Static, old.Static) == 0) &&
		reflect.DeepEqual(m.Input, old.Input) && reflect.DeepEqual(p.binding, before.binding)
}

// decidesAs reports whether the rules of both versions decide the same on all objects in a state, apart from the texts of denials. It
// returns false if the rules differ in more than values that clusters are compared with.
func (p *evaluator) decidesAs(ctx context.Context, before *evaluator, state evaluationState) bool {
	m := policy.RulesComparison(p.name, before.module, p.module)
	if m == nil {
		return false
	}
	query, err := p.engine.sharedQuery(ctx, m)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, p.engine.Timeout)
	defer cancel()
	comparison := &evaluator{engine: p.engine, name: p.name, module: m, query: query, view: p.view}
	decision, err := comparison.evaluateRules(ctx, comparison.newCaller(state), ast.NewObject(), &choices{})
	return err == nil && len(decision.Warnings) == 0
}

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

package whatif

import (
	"context"
	"fmt"
	"sync"

	"github.com/berth-dev/berth/internal/placement"
)

// groups are the objects that each policy decides, grouped by what the policy reads of them. A policy decides the members of
// a group alike.
type groups struct {
	mu       sync.Mutex
	byPolicy map[*placement.Policy]map[string]*group
}

// group is a set of objects that a policy decides alike, with the decision.
type group struct {
	once sync.Once
	// input has what the policy reads of a member, whose namespace is namespace.
	input     map[string]any
	namespace string
	decision  placement.Decision
	err       error
	// members are the indices of the objects.
	members []int
}

func newGroups() *groups { return &groups{byPolicy: map[*placement.Policy]map[string]*group{}} }

// evaluateFor returns the function that evaluates policies on the object of the index, and adds it to the groups. It is
// safe for concurrent use.
func (g *groups) evaluateFor(index int) func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	return func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		fields := p.Evaluator.Input()
		key, ok := fields.AppendKey(nil, input)
		if !ok {
			// An input without a key is alone in its group. No key starts like this.
			key = fmt.Appendf(nil, "object %d", index)
		}
		known := g.join(p, string(key), index)
		// Other groups are evaluated at the same time.
		known.once.Do(func() {
			known.input, known.namespace = fields.Project(input), placement.NamespaceOf(ctx)
			known.decision, known.err = p.Evaluator.Evaluate(ctx, input)
		})
		return known.decision, known.err
	}
}

// join adds the object of the index to the group of the key.
func (g *groups) join(p *placement.Policy, key string, index int) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byPolicy[p] == nil {
		g.byPolicy[p] = map[string]*group{}
	}
	known, ok := g.byPolicy[p][key]
	if !ok {
		known = &group{}
		g.byPolicy[p][key] = known
	}
	known.members = append(known.members, index)
	return known
}

// each calls f for each group of a policy.
func (g *groups) each(p *placement.Policy, f func(*group)) {
	for _, known := range g.byPolicy[p] {
		f(known)
	}
}

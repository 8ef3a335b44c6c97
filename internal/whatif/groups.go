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
	"maps"
	"slices"
	"sync"

	"github.com/berth-dev/berth/internal/placement"
)

// groups has, for each policy, the objects that it decides, grouped by what the policy reads of them. A policy decides all members of a
// group alike. If the group has an open decision, only the clusters that the policy chooses may differ.
type groups struct {
	mu       sync.Mutex
	byPolicy map[*placement.Policy]map[any]*group // by policy, and by what it reads or by its open decision
}

// group is a set of objects that a policy decides alike, with that decision.
type group struct {
	once sync.Once // sets input, namespace, and decision or open
	// input has what the policy reads of one member.
	input     map[string]any
	namespace string             // the namespace of that member, for the limits on evaluations; decisions do not depend on it
	decision  placement.Decision // the decision on each member, if open is nil
	err       error              // why the policy can't decide the members
	// open is the decision on all members without their clusters, which differ; nil if it does not leave clusters open.
	open placement.OpenDecision
	// members are the indices of the members in Session.objects.
	members []int
	// chosen has, for each of members, the clusters that an open decision chooses.
	chosen []chosen
}

// chosen has the clusters that an open decision chooses for one object.
type chosen struct {
	path     string // the path of the object, by which the clusters are chosen (rules.ObjectPath)
	clusters []string
}

// newGroups returns no groups.
func newGroups() *groups { return &groups{byPolicy: map[*placement.Policy]map[any]*group{}} }

// evaluateFor returns the simulation.Evaluate for the object with an index. It adds the object to a group of each policy, and evaluates the
// policy only for the first member. It is safe for concurrent use.
func (g *groups) evaluateFor(index int) func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	return func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		if decision, ok := g.choose(ctx, p, input, index); ok {
			return decision, nil
		}
		evaluate := func() (placement.Decision, error) { return p.Evaluator.Evaluate(ctx, input) }
		if chooser, ok := p.Evaluator.(placement.Chooser); ok && chooser.OpenInput() != nil {
			decided, err := evaluate()
			if decision, ok := g.choose(ctx, p, input, index); ok && err == nil {
				return decision, nil
			}
			evaluate = func() (placement.Decision, error) { return decided, err }
		}
		fields := p.Evaluator.Input()
		key, ok := fields.AppendKey(nil, input)
		if !ok {
			// An input without a key is alone in its group. No key starts like this.
			key = fmt.Appendf(nil, "object %d", index)
		}
		known := g.join(p, string(key), index, nil)
		// Other groups are evaluated at the same time.
		known.once.Do(func() {
			known.input, known.namespace = fields.Project(input), placement.NamespaceOf(ctx)
			known.decision, known.err = evaluate()
		})
		return known.decision, known.err
	}
}

// choose decides the object with an index by an open decision of a policy, which leaves only the clusters of each object open, and adds the
// object to the group of that decision. ok is false if the policy's evaluator keeps no open decision for the input.
func (g *groups) choose(ctx context.Context, p *placement.Policy, input map[string]any, index int) (decision placement.Decision, ok bool) {
	chooser, ok := p.Evaluator.(placement.Chooser)
	if !ok {
		return decision, false
	}
	open, path, ok := chooser.Open(input)
	if !ok {
		return decision, false
	}
	decision = open.Complete(path)
	known := g.join(p, open, index, &chosen{path, decision.Clusters})
	known.once.Do(func() {
		known.input, known.namespace, known.open = p.Evaluator.Input().Project(input), placement.NamespaceOf(ctx), open
	})
	return decision, true
}

// join adds the object with an index to the group of a policy with a key, and returns the group. c has the clusters that are chosen for the
// object; nil if the group has no open decision.
func (g *groups) join(p *placement.Policy, key any, index int, c *chosen) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byPolicy[p] == nil {
		g.byPolicy[p] = map[any]*group{}
	}
	known, ok := g.byPolicy[p][key]
	if !ok {
		known = &group{}
		g.byPolicy[p][key] = known
	}
	known.members = append(known.members, index)
	if c != nil {
		known.chosen = append(known.chosen, *c)
	}
	return known
}

// of returns the groups of a version of a policy.
func (g *groups) of(p *placement.Policy) []*group { return slices.Collect(maps.Values(g.byPolicy[p])) }

// concerned calls mark with the index of each member that the policy may decide otherwise by the evaluator after than by before.
func (g *group) concerned(ctx context.Context, before, after placement.Evaluator, mark func(index int)) {
	all := func() {
		for _, index := range g.members {
			mark(index)
		}
	}
	ctx = placement.WithNamespace(ctx, g.namespace)
	if g.open == nil {
		if decision, err := after.Evaluate(ctx, g.input); err != nil || g.err != nil || !decision.Equal(g.decision) {
			all()
		}
		return
	}
	concerns, ok := g.changes(ctx, before, after)
	if !ok {
		all()
		return
	}
	for i, c := range g.chosen {
		if concerns(c.path, c.clusters) {
			mark(g.members[i])
		}
	}
}

// changes compares the open decision of the evaluator before with that of after. concerns reports whether the object with a path, for which
// clusters were chosen before, may get others. ok is false if the decisions on all members may differ.
func (g *group) changes(ctx context.Context, before, after placement.Evaluator) (concerns func(path string, clusters []string) bool,
	ok bool) {
	was, wasChooser := before.(placement.Chooser)
	is, isChooser := after.(placement.Chooser)
	// The members are equal for the later open decision, too, if that reads nothing else.
	if !wasChooser || !isChooser || is.OpenInput() == nil || !was.OpenInput().Covers(is.OpenInput()) {
		return nil, false
	}
	if _, err := after.Evaluate(ctx, g.input); err != nil {
		return nil, false
	}
	open, _, ok := is.Open(g.input)
	if !ok {
		return nil, false
	}
	return g.open.ChangesTo(open)
}

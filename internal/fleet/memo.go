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

package fleet

import (
	"context"
	"fmt"
	"sync"

	"github.com/berth-dev/berth/internal/placement"
)

// memo evaluates each policy once for all objects that are equal in what the policy reads. It is safe for concurrent use.
type memo struct {
	mu sync.Mutex
	// known has the evaluations of each policy by the key of the input: the text of what the policy reads.
	known map[*placement.Policy]map[string]*evaluation
	// without is the number of inputs so far that have no key. By it, each of these is evaluated by itself.
	without int
}

// evaluation is the evaluation of a policy, and its result once that is known.
type evaluation struct {
	once     sync.Once
	decision placement.Decision
	err      error
}

func newMemo() *memo { return &memo{known: map[*placement.Policy]map[string]*evaluation{}} }

// evaluate returns what a policy decided, or the error, when it was first called with an equal input. It implements simulation.Evaluate.
func (m *memo) evaluate(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	key, ok := p.Evaluator.Input().AppendKey(nil, input)
	e := m.evaluation(p, string(key), ok)
	// Other keys are evaluated at the same time.
	e.once.Do(func() { e.decision, e.err = p.Evaluator.Evaluate(ctx, input) })
	return e.decision, e.err
}

// evaluation returns the evaluation of a policy for a key. If ok is false, the input has no key, and the evaluation is a new one.
func (m *memo) evaluation(p *placement.Policy, key string, ok bool) *evaluation {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !ok {
		m.without++
		// No key starts like this.
		key = fmt.Sprintf("object %d", m.without)
	}
	if m.known[p] == nil {
		m.known[p] = map[string]*evaluation{}
	}
	if m.known[p][key] == nil {
		m.known[p][key] = &evaluation{}
	}
	return m.known[p][key]
}

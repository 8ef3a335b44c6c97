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
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

const runsAway = `package p
errors contains "x" if { input.endless; some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); some k in numbers.range(1, 1000); i + j + k == -1 }
labels := {"a": input.name}`

// TestOtherTenantsAreDecided verifies that evaluations on the objects of one namespace that do not end, however many, keep
// neither the policy from deciding the objects of other namespaces, nor other policies from deciding those of this one.
func TestOtherTenantsAreDecided(t *testing.T) {
	e := New(NewData(), Options{Timeout: time.Minute, Concurrency: 8})
	p, _ := prepare(t, e, v1(runsAway))
	other, _ := e.Prepare(t.Context(), "other", p.(*evaluator).module, p.(*evaluator).binding)
	attack, stop := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	for range 20 {
		attackers.Go(func() {
			_, err := p.Evaluate(placement.WithNamespace(attack, "attacker"), map[string]any{"endless": true})
			if !errors.Is(err, engine.ErrDeadline) {
				t.Errorf("error %v, want the deadline", err)
			}
		})
	}
	// The attackers have all slots that they may have.
	for e.slots.tryAcquire("p", "attacker") {
		e.slots.release("p", "attacker")
		runtime.Gosched()
	}
	for namespace, ev := range map[string]placement.Evaluator{"victim": p, "": p, "attacker": other} {
		d, err := ev.Evaluate(placement.WithNamespace(t.Context(), namespace), map[string]any{"name": "a"})
		if err != nil || d.Labels["a"] != "a" {
			t.Errorf("in namespace %q: %v, %v", namespace, d, err)
		}
	}
	stop()
	attackers.Wait()
	awaitFree(t, e, 8)
}

// TestInputsAreBounded verifies that an input beyond the policy's limit is not evaluated, even if its decision is
// cached. Fields that the policy does not read don't count.
func TestInputsAreBounded(t *testing.T) {
	e := New(NewData(), Options{Timeout: time.Minute, Concurrency: 2})
	spec := v1(`package p
labels := {"a": input.name}`)
	spec.Limits = &placementv1.Limits{InputBytes: 1024}
	p, _ := prepare(t, e, spec)
	large := strings.Repeat("x", 2000)
	if _, err := p.Evaluate(t.Context(), map[string]any{"name": "n", "other": large}); err != nil {
		t.Error(err)
	}
	_, err := p.Evaluate(t.Context(), map[string]any{"name": large})
	if tooLarge, ok := errors.AsType[*engine.InputError](err); !ok || tooLarge.Size != len(`{"name":""}`)+2000 || tooLarge.Limit != 1024 || !strings.Contains(err.Error(), "spec.limits.inputBytes") {
		t.Errorf("error %v", err)
	}
	spec.Rego = `package p
labels := {"a": json.marshal(input)}`
	whole, _ := prepare(t, e, spec)
	if _, err := whole.Evaluate(t.Context(), map[string]any{"other": large}); err == nil || !strings.Contains(err.Error(), "has 2012 bytes as JSON, at most 1024") {
		t.Errorf("error %v", err)
	}
}

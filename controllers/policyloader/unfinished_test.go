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

package policyloader

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// hanging returns a compiler of at most n compilations that do not end, before the channel is closed, for sources with the word hangs.
func hanging(n int, end <-chan struct{}) *policy.BoundedCompiler {
	return policy.NewBoundedCompiler(n, policy.LoadDeadline, func(name string, spec placementv1.PlacementPolicySpec) (*policy.Module, error) {
		if strings.Contains(spec.Rego, "hangs") {
			<-end
		}
		return policy.Compile(name, spec)
	})
}

// TestOnePolicyDoesNotHoldUpTheOthers checks that all other policies decide, and that the replica is ready, if the compilation of one
// does not end, and that a change or the deletion of that one heals it.
func TestOnePolicyDoesNotHoldUpTheOthers(t *testing.T) {
	for name, heal := range map[string]func(from *policyCluster, end chan struct{}){
		"changed": func(from *policyCluster, _ chan struct{}) { from.change("policy-3", "policy-3", text(3)) },
		"deleted": func(from *policyCluster, _ chan struct{}) { delete(from.policies, "policy-3") },
		"ended": func(_ *policyCluster, end chan struct{}) {
			close(end)
			<-time.After(policy.UnfinishedInterval + time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				defer func() {
					if name != "ended" {
						close(end)
					}
				}()
				from := policiesOf(20, text)
				from.policies["policy-3"].Spec.Rego = text(3) + "# hangs"
				c, registry := newController(t, from)
				c.Compiler = hanging(2, end)
				loadAll(t, c, from)
				for name, state := range registry.All() {
					if hangs := name == "policy-3"; state.Broken != hangs || policy.IsUnfinished(state.Err) != hangs {
						t.Errorf("%s: broken is %t, error %v", name, state.Broken, state.Err)
					}
				}
				// It is not compiled again and again.
				began := time.Now()
				for range 10 {
					load(t, c, "policy-3")
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("loading it ten times more takes %s", took)
				}
				heal(from, end)
				load(t, c, "policy-3")
				if state := registry.Get("policy-3"); name == "deleted" != (state == nil) || state != nil && state.Err != nil {
					t.Errorf("state is %+v", state)
				}
			})
		})
	}
}

// TestUnfinishedUpdate checks that the version in force stays in force if the compilation of the next one does not end.
func TestUnfinishedUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		from := policiesOf(1, text)
		c, registry := newController(t, from)
		c.Compiler = hanging(2, end)
		load(t, c, "policy-0")
		from.change("policy-0", "policy-0", text(0)+"# hangs")
		load(t, c, "policy-0")
		if state := registry.Get("policy-0"); state.Broken || state.Policy.Generation != 1 || state.Generation != 2 || !policy.IsUnfinished(state.Err) {
			t.Errorf("in force is generation %d of %d, error %v", state.Policy.Generation, state.Generation, state.Err)
		}
	})
}

// TestTooManyUnfinished checks that a policy which can't be compiled because too many others are does not keep the replica from being
// ready, and is in force once one of them ends.
func TestTooManyUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		from := policiesOf(5, text)
		for _, name := range []string{"policy-0", "policy-1"} {
			from.policies[name].Spec.Rego += "# hangs"
		}
		c, registry := newController(t, from)
		c.Compiler = hanging(2, end)
		for _, name := range []string{"policy-0", "policy-1", "policy-2", "policy-3", "policy-4"} {
			load(t, c, name)
		}
		if state := registry.Get("policy-2"); !c.Loaded(t.Context()) || !policy.IsUnfinished(state.Err) {
			t.Errorf("loaded is %t, error %v", c.Loaded(t.Context()), state.Err)
		}
		close(end)
		synctest.Wait()
		load(t, c, "policy-2")
		if state := registry.Get("policy-2"); state.Err != nil {
			t.Errorf("error %v", state.Err)
		}
	})
}

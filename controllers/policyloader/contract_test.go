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
)

// TestDecidesNothing checks that the registry entry reports whether a policy has a rule of the decision contract.
func TestDecidesNothing(t *testing.T) {
	const allow = `package p

allow := true
`
	for rego, want := range map[string]bool{allow: true, text(1): false} {
		from := policiesOf(1, text)
		from.policies["policy-0"].Spec.Rego = rego
		c, registry := newController(t, from)
		load(t, c, "policy-0")
		if got := registry.Get("policy-0"); got.Broken || got.DecidesNothing != want {
			t.Errorf("%q: got %t, want %t; broken is %t", rego, got.DecidesNothing, want, got.Broken)
		}
	}
}

// TestContractIsChecked checks that a source whose contract rule can never be valid is not put in force.
func TestContractIsChecked(t *testing.T) {
	invalid := text(1) + "\nwarnings := true if input.metadata.labels.bad\n"
	const want = "warnings must be a set or an array of strings, is a boolean"

	t.Run("new", func(t *testing.T) {
		from := policiesOf(1, text)
		from.policies["policy-0"].Spec.Rego = invalid
		c, registry := newController(t, from)
		load(t, c, "policy-0")
		if got := registry.Get("policy-0"); !got.Broken || !strings.Contains(got.Err.Error(), want) {
			t.Errorf("broken is %t, error %v", got.Broken, got.Err)
		}
	})
	t.Run("changed", func(t *testing.T) {
		from := policiesOf(1, text)
		c, registry := newController(t, from)
		load(t, c, "policy-0")
		from.policies["policy-0"].Spec.Rego, from.policies["policy-0"].Generation = invalid, 2
		load(t, c, "policy-0")
		if got := registry.Get("policy-0"); got.Broken || got.Policy.Generation != 1 || got.Err == nil || !strings.Contains(got.Err.Error(), want) {
			t.Errorf("in force is generation %d, error %v", got.Policy.Generation, got.Err)
		}
	})
}

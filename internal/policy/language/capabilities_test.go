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

package language

import (
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestAllowedBuiltinsExist checks that OPA has each allowed function. A missing one is misspelt or was renamed in OPA.
func TestAllowedBuiltinsExist(t *testing.T) {
	for _, name := range allowedBuiltins {
		if _, known := ast.BuiltinMap[name]; !known {
			t.Errorf("OPA has no builtin %s", name)
		}
	}
	if !slices.IsSorted(allowedBuiltins) && len(slices.Compact(slices.Sorted(slices.Values(allowedBuiltins)))) != len(allowedBuiltins) {
		t.Error("a builtin is listed twice")
	}
}

func TestCapabilities(t *testing.T) {
	for _, v := range []placementv1.RegoVersion{placementv1.RegoV0, placementv1.RegoV1} {
		_, capabilities := Of(v)
		if capabilities.AllowNet == nil || len(capabilities.AllowNet) != 0 {
			t.Errorf("%s: hosts that may be reached: %v", v, capabilities.AllowNet)
		}
		for _, b := range capabilities.Builtins {
			if b.Nondeterministic {
				t.Errorf("%s: %s is not deterministic", v, b.Name)
			}
			if !slices.Contains(allowedBuiltins, b.Name) && !slices.Contains(ownBuiltins, b) {
				t.Errorf("%s: %s is not on the list", v, b.Name)
			}
		}
	}
}

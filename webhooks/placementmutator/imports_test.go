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

package placementmutator_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestAdmissionChecksNoValues checks that what decides requests for objects can't look for mistakes in policies and quotas: no package on
// its path imports those that compare policies with what there is, so that a check costs such a request nothing. cost_test.go and the
// ranges of test/bench bound what a request costs.
func TestAdmissionChecksNoValues(t *testing.T) {
	const module = "github.com/berth-dev/berth/"
	paths := []string{"webhooks/placementmutator", "webhooks/quotavalidator", "internal/engine/...", "internal/placement", "internal/quota/...", "internal/quotacharge"}
	args := []string{"list", "-deps"}
	for _, path := range paths {
		args = append(args, module+path)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := strings.Fields(string(out))
	if !slices.Contains(imported, module+"internal/rules") {
		t.Fatalf("%d packages, without those that are known to be among them", len(imported))
	}
	for _, checks := range []string{"internal/findings", "internal/absent", "internal/schemas", "internal/typecheck", "webhooks/policyvalidator", "webhooks/quotaspec"} {
		if slices.Contains(imported, module+checks) {
			t.Errorf("what decides requests imports %s", checks)
		}
	}
}

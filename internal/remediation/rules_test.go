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

package remediation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// ruledBy is the verdict of a policy by one of its rules.
func ruledBy(policy, rule string, changes ...placement.Change) *placement.Verdict {
	v := verdict(policy, changes...)
	v.Decision.Rule = rule
	return v
}

// TestRuleCounts checks that the report has the numbers of objects by the rule that decides them, whatever happens to the objects.
func TestRuleCounts(t *testing.T) {
	l := remediation.NewLedger()
	record := func(name string, v *placement.Verdict) []string {
		return l.Record(key("deployments", "shop", name), "u", "1", []*placement.Verdict{v}, false)
	}
	record("a", ruledBy("p", "eu"))
	record("b", ruledBy("p", "eu", change("x")))
	record("c", ruledBy("p", "any"))
	record("d", verdict("p"))
	record("e", undecidedBy("p", "no data"))
	denied := deniedBy("p", "no")
	denied.Decision.Rule = "any"
	record("f", denied)
	if diff := cmp.Diff(map[string]int{"eu": 2, "any": 2}, l.Report("p").Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if changed := record("a", ruledBy("p", "any")); len(changed) != 1 {
		t.Errorf("another rule decides the object, and the policies that changed are %v", changed)
	}
	if changed := record("a", ruledBy("p", "any")); len(changed) != 0 {
		t.Errorf("the same rule decides the object, and the policies that changed are %v", changed)
	}
	if diff := cmp.Diff(map[string]int{"eu": 1, "any": 3}, l.Report("p").Rules); diff != "" {
		t.Errorf("rules after another one decides (-want +got):\n%s", diff)
	}
	if violations := l.Report("p").Violations; violations != 3 {
		t.Errorf("%d violations", violations)
	}
}

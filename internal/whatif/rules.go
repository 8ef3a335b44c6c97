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

import "slices"

// rules returns how many existing objects each rule decides before and after the changes: for policies that change, and for those of which
// a rule decides more or fewer objects than before.
func (q *question) rules() (out []RuleCount) {
	before, after := map[decidingRule]int{}, map[decidingRule]int{}
	for i, s := range q.states {
		for _, r := range s.rules {
			before[r]++
			if !q.marked[i] && q.contents[i].Content != nil {
				after[r]++
			}
		}
	}
	for _, r := range q.results {
		for _, rule := range r.rules {
			after[rule]++
		}
	}
	for _, p := range q.after.Policies() {
		changes := q.changesPolicy(p.Name)
		differs := func(name string) bool {
			r := decidingRule{p.Name, name}
			return before[r] != after[r]
		}
		names := slices.Clone(p.Rules)
		for r := range before {
			if r.policy == p.Name && !slices.Contains(names, r.rule) {
				names = append(names, r.rule)
			}
		}
		// The rules that are gone follow in the order of their names.
		slices.Sort(names[len(p.Rules):])
		if !changes && !slices.ContainsFunc(names, differs) {
			continue
		}
		for _, name := range names {
			r := decidingRule{p.Name, name}
			out = append(out, RuleCount{p.Name, name, before[r], after[r]})
		}
	}
	return out
}

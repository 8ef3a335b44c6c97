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

package rules

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Comparison compares two versions of rules that differ only in values that clusters are compared with. It returns a Rego module that warns
// of each requirement and preference that a cluster of data.clusters meets in one version and not in the other, with its path. If there are
// no warnings, both versions decide the same for all objects, apart from the texts of denials, which name the values. ok is false if the
// versions do not differ, or differ in anything else. Both versions must be valid.
func Comparison(before, after []placementv1.Rule) (module string, ok bool) {
	if len(before) != len(after) {
		return "", false
	}
	g := &generator{helpers: map[string]bool{}}
	var out strings.Builder
	for i := range after {
		// compare gives both versions the same values, so that any other difference is found afterwards.
		old, next := *before[i].DeepCopy(), *after[i].DeepCopy()
		r := &ruleText{generator: g, rule: next, path: field.NewPath("spec", "rules").Index(i)}
		compare := func(list string, j int, a, b *placementv1.Requirement) {
			if !GivesClusters(next) || slices.Equal(a.Values, b.Values) {
				return
			}
			was, is := r.requirementOf(list, j, *a), r.requirementOf(list, j, *b)
			r.printf("\nwarnings contains %s if {\nsome name, cluster in data.clusters\ncount([1 | %s]) != count([1 | %s])\n}\n",
				quote(is.path.String()),
				was.met(), is.met())
			a.Values = b.Values
		}
		for j := range min(len(old.Require), len(next.Require)) {
			compare("require", j, &old.Require[j], &next.Require[j])
		}
		for j := range min(len(old.Prefer), len(next.Prefer)) {
			compare("prefer", j, &old.Prefer[j].Requirement, &next.Prefer[j].Requirement)
		}
		if !equality.Semantic.DeepEqual(old, next) {
			return "", false
		}
		out.WriteString(r.text.String())
	}
	if out.Len() == 0 {
		return "", false
	}
	return "package " + Package + "\n" + out.String() + g.sharedText(), true
}

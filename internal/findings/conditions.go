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

package findings

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/match"
)

// findingsOfConditions finds match conditions whose evaluation fails for objects that the policy is not meant for: those without a label,
// annotation, or other field, and those that are created and have no earlier state. types are the types that the policy matches.
func findingsOfConditions(ctx context.Context, spec placementv1.PlacementPolicySpec, types []match.ServedType) []Finding {
	var each []string
	for _, c := range spec.Match.MatchConditions {
		// A comment in the expression ends with the line.
		each = append(each, "("+c.Expression+"\n)")
	}
	if len(each) == 0 {
		return nil
	}
	// A condition that is false excludes the object, whatever fails in the others.
	all := strings.Join(each, " && ")
	at := func(is func(expression string) bool) *field.Path {
		return matchPath.Child("matchConditions").Index(max(0, slices.IndexFunc(each, is))).Child("expression")
	}
	var out []Finding
	has := map[string][]string{fieldLabels: requiredLabels(spec.Match.ObjectSelector)}
	if document, key, ok := celexpression.NeedsKey(ctx, all, has); ok {
		needs := func(expression string) bool {
			_, k, needed := celexpression.NeedsKey(ctx, expression, has)
			return needed && k == key
		}
		out = append(out, findingOfNeededKey(at(needs), document, key))
	}
	if match.FailsOnCreate(ctx, all) {
		fails := func(expression string) bool { return match.FailsOnCreate(ctx, expression) }
		out = append(out, advice("%s: fails for an object that is created, which then can't be decided, because oldObject is null. For an "+
			"existing object, oldObject is the object itself. Test oldObject first, as in oldObject != null && ...", at(fails)))
	}
	missing := func(path []string) *field.Path {
		return at(func(expression string) bool {
			return slices.ContainsFunc(celexpression.Paths(expression), func(read []string) bool {
				return len(read) >= len(path) && slices.Equal(read[:len(path)], path)
			})
		})
	}
	return append(out, findingsOfMissingFields(ctx, all, missing, types, nil)...)
}

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
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/workload"
)

// findingsOfOptional finds CEL expressions of rules whose evaluation fails for objects without a field that they may lack, and for all
// objects of a kind that has the field elsewhere, such as the pod template of a CronJob. It knows only the fields of built-in workloads,
// and looks at none of metadata and status: missing labels and annotations are found elsewhere. types are the types that the policy
// matches. A field that none of them has is found by the check of types. In a policy with match conditions, findingsOfOptional finds
// nothing.
func findingsOfOptional(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher, types []match.ServedType) []Finding {
	if m.Conditional() {
		return nil
	}
	var out []Finding
	for i, rule := range spec.Rules {
		if rule.When == nil || rule.When.Expression == "" {
			continue
		}
		at := func([]string) *field.Path { return specPath.Child("rules").Index(i).Child("when", "expression") }
		out = append(out, findingsOfMissingFields(ctx, rule.When.Expression, at, types, spec.Rules[:i])...)
	}
	return out
}

// findingsOfMissingFields finds fields without which the evaluation of one expression fails, and that objects of the types may lack, or
// have elsewhere. at returns the path of the expression that reads the field at a path in the object, and earlier are the rules that apply
// before it.
func findingsOfMissingFields(
	ctx context.Context, expression string, at func(path []string) *field.Path, types []match.ServedType, earlier []placementv1.Rule,
) []Finding {
	var out []Finding
	var optional string
	var elsewhere []schema.GroupVersionResource
	for _, t := range types {
		path, presence := missedBy(ctx, expression, t, earlier)
		isElsewhere := func(other match.ServedType) bool {
			return slices.Contains([]workload.Presence{workload.Always, workload.Sometimes}, workload.PresenceOf(other.GroupVersionResource, path))
		}
		switch {
		case presence == workload.Sometimes && optional == "":
			optional = fmt.Sprintf("%s: fails for an object without %s, which then can't be decided: test the field first, as in %s && ...",
				at(path),
				strings.Join(path, "."), presenceTest(path))
		case presence == workload.Never && !slices.Contains(elsewhere, t.GroupVersionResource) && slices.ContainsFunc(types, isElsewhere):
			elsewhere = append(elsewhere, t.GroupVersionResource)
			out = append(out, advice("%s: fails for each object of %s, which has no %s and then can't be decided%s. Test the kind first, as in "+
				"object.kind != %q && ...", at(path), t.GroupResource(), strings.Join(path, "."), podsOf(t), t.Kind))
		}
	}
	if optional != "" {
		out = append(out, advice("%s", optional))
	}
	return out
}

// maxReads limits the fields of an expression that are examined: for each of them, the expression is compiled.
const maxReads = 16

// missedBy returns the path of the first field without which the evaluation of an expression fails, among those that some or all objects of
// a type lack. presence is workload.Unknown if there is none, or if one of the earlier rules may exempt such objects.
func missedBy(ctx context.Context, expression string, t match.ServedType, earlier []placementv1.Rule) (path []string,
	presence workload.Presence) {
	names := func(text string) bool {
		return slices.ContainsFunc(earlier, func(r placementv1.Rule) bool { return r.When != nil && strings.Contains(r.When.Expression, text) })
	}
	if names(t.Kind) {
		return nil, workload.Unknown
	}
	known := map[string]any{"apiVersion": t.GroupVersion().String(), "kind": t.Kind}
	reads := celexpression.Paths(expression)
	for _, read := range reads[:min(len(reads), maxReads)] {
		if slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, read[0]) {
			// Each object has the first ones. The others have findings of their own.
			continue
		}
		for i := range read {
			path := read[:i+1]
			presence := workload.PresenceOf(t.GroupVersionResource, path)
			if presence == workload.Unknown {
				break
			}
			if presence != workload.Always && !names(read[i]) && celexpression.FailsWithout(ctx, expression, path, known) {
				return path, presence
			}
			if presence == workload.Never {
				break
			}
		}
	}
	return nil, workload.Unknown
}

// podsOf returns a clause that says where objects of a type have their pod spec, such as " (its pod spec is spec.template.spec)"; "" if the
// type is not a built-in workload.
func podsOf(t match.ServedType) string {
	path, known := (*workload.Templates)(nil).Path(t.GroupResource())
	if !known {
		return ""
	}
	return fmt.Sprintf(" (its pod spec is %s)", strings.Join(path, "."))
}

// identifier matches the names that CEL can select by a dot.
var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// presenceTest returns a CEL expression that tests whether an object has the field at a path, such as has(object.spec.replicas). It tests
// only the last name of the path: the expression fails for an object without the fields before it.
func presenceTest(path []string) string {
	text := "object"
	for i, name := range path {
		last := i == len(path)-1
		switch {
		case identifier.MatchString(name) && last:
			return fmt.Sprintf("has(%s.%s)", text, name)
		case identifier.MatchString(name):
			text += "." + name
		case last:
			return fmt.Sprintf("%q in %s", name, text)
		default:
			text += fmt.Sprintf("[%q]", name)
		}
	}
	return text
}

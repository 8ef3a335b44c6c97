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

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

// findings returns the errors and warnings about the changes, sorted by the object that each concerns (Finding.Object). An error says what
// could not be read.
func (q *question) findings(ctx context.Context) ([]Finding, error) {
	var out []Finding
	for resource, objects := range q.changed.changed {
		for name, c := range objects {
			found, err := q.changeFindings(ctx, resource, name, c)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	quotas, err := q.quotaFindings(ctx)
	if err != nil {
		return nil, err
	}
	out = slices.Concat(out, quotas, q.pauses(), q.unread())
	slices.SortStableFunc(out, func(a, b Finding) int { return strings.Compare(a.Object, b.Object) })
	return out, nil
}

// changeFindings returns the findings about the change of one object. For a policy that exists after it, they are those about the policy.
// For any other object, it is at most one warning: that its change has no effect on placements, or that the report does not show an effect
// of it. A policy that is deleted has none, nor has a quota.
func (q *question) changeFindings(ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName,
	c change) ([]Finding, error) {
	switch {
	case resource == placementPolicies && c.after != nil:
		found, err := q.policyFindings(ctx, q.after.Policy(name.Name))
		return append(found, q.stages(ctx, q.after.Policy(name.Name))...), err
	case resource.Group == placementv1.GroupVersion.Group && resource.Resource == "limitedresources":
		return []Finding{{simulation.Describe(cmp.Or(c.after, c.before)), false,
			"this report does not say which requests the LimitedResource denies because no quota covers them"}}, nil
	case resource.Group == placementv1.GroupVersion.Group:
		return nil, nil
	}
	object := simulation.Describe(cmp.Or(c.after, c.before))
	if text := q.withoutEffect(resource, c); text != "" {
		return []Finding{{object, false, text}}, nil
	}
	if resource == namespaces && c.after == nil {
		return []Finding{{object, false, "the objects in the namespace are deleted, too; this report does not show that"}}, nil
	}
	return nil, nil
}

// withoutEffect says why the change of an object of a type has no effect on placements; "" if policies may decide otherwise because of it.
func (q *question) withoutEffect(resource schema.GroupVersionResource, c change) string {
	if c.before != nil && c.after != nil && equality.Semantic.DeepEqual(ownContent(c.before), ownContent(c.after)) {
		return "the object already has this content, so nothing changes"
	}
	inventories := q.after.Cluster().Catalog().Inventories()
	read := false
	for _, p := range slices.Concat(q.before.Policies(), q.after.Policies()) {
		if p.SelectsResource(resource) || resource == namespaces && p.NeedsNamespaces() {
			return ""
		}
		for _, fields := range []*projection.FieldSet{p.Fields(resource), p.PredicateReads(resource)} {
			if fields == nil {
				continue
			}
			read = true
			if !reflect.DeepEqual(readOf(c.before, resource, fields, inventories), readOf(c.after, resource, fields, inventories)) {
				return ""
			}
		}
	}
	if q.recountedFor(resource) {
		return ""
	}
	if read {
		return "no policy reads what changes, so the change moves nothing"
	}
	return fmt.Sprintf("no policy matches or reads %s, so the change moves nothing", resource.GroupResource())
}

// ownContent returns the content of an object, which must not be nil, without its generation, which the API server increases.
func ownContent(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	out.SetGeneration(0)
	return out.Object
}

// readOf returns the given fields of an object as policies read them; nil if there is no object.
func readOf(obj *unstructured.Unstructured, resource schema.GroupVersionResource, fields *projection.FieldSet,
	inventories *replication.Inventories) map[string]any {
	if obj == nil {
		return nil
	}
	prepared := obj.DeepCopy()
	inventories.Prepare(resource, prepared)
	return fields.Project(prepared.Object)
}

// pauses returns a warning for each policy whose remediation Berth would pause after the changes, because they harm too many of the objects
// that the policy matches.
func (q *question) pauses() []Finding {
	harmed, objects := map[string]map[string]int{}, map[string]int{}
	for _, r := range q.results {
		for _, name := range r.harmed {
			if harmed[name] == nil {
				harmed[name] = map[string]int{}
			}
			harmed[name][r.namespace]++
			objects[name]++
		}
	}
	var out []Finding
	for name, by := range harmed {
		limit, matched := q.after.Policy(name).BlastRadius.WithDefaults(), q.matched(name)
		scope, pauses := remediation.ExceedsBlastRadius(limit, by, matched, 0)
		if !pauses {
			continue
		}
		where, there := "", ""
		if !scope.All() {
			where, there = " "+scope.String(), " there"
		}
		out = append(out, Finding{"PlacementPolicy " + name, false, fmt.Sprintf(
			"%d of %d matched objects would be left denied, undecided, or without clusters, which is more than %d %%: Berth pauses the policy%s "+
				"and moves none of its objects%s until the change is released",
			objects[name], matched, limit.Percent, where, there)})
	}
	return out
}

// matched returns the number of existing objects that the policy of a name matches after the changes.
func (q *question) matched(policy string) int {
	out := 0
	for _, r := range q.results {
		if slices.Contains(r.matched, policy) {
			out++
		}
	}
	for i, marked := range q.marked {
		if !marked && q.contents[i].Content != nil && slices.Contains(q.states[i].matched, policy) {
			out++
		}
	}
	return out
}

// policyFindings returns findings about a policy that changes: an error if it does not compile, warnings about its text, what the type
// checker finds, which are errors only with spec.strict, and warnings about types that are not served and that it matches nothing.
func (q *question) policyFindings(ctx context.Context, p *simulation.Policy) ([]Finding, error) {
	var out []Finding
	object := "PlacementPolicy " + p.Name
	if p.Err != nil {
		out = append(out, Finding{object, true, p.Err.Error()})
	}
	if p.Module != nil {
		for _, warning := range p.Module.Warnings {
			out = append(out, Finding{object, false, warning})
		}
	}
	if p.Err == nil && q.Types != nil {
		report, err := q.Types.Check(ctx, p.Name, p.Spec, p.Binding.Bindings)
		if err != nil {
			return nil, fmt.Errorf("checking the types of %s: %w", object, err)
		}
		q.checked[p.Name] = report
		for _, f := range report.Findings {
			out = append(out, Finding{object, p.Spec.Strict, f.Text(p.Name)})
		}
	}
	path := field.NewPath("spec", "match")
	coverage := p.Matcher.Coverage(q.after.Cluster().Catalog().Served(), path, q.options.OwnNamespace)
	for _, warning := range slices.Concat(match.Warnings(p.Spec.Match, path), coverage.Unserved) {
		out = append(out, Finding{object, false, warning})
	}
	if coverage.Impossible != "" {
		return append(out, Finding{object, false, "spec.match can't match any object: " + coverage.Impossible}), nil
	}
	if q.matched(p.Name) == 0 {
		out = append(out, Finding{object, false, "spec.match matches no existing object"})
	}
	return out, nil
}

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
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/simulation"
)

// findings returns the errors and warnings about the policies and quotas that change, sorted by kind and name.
func (q *question) findings(ctx context.Context) ([]Finding, error) {
	var out []Finding
	for name, c := range q.changed.changed[placementPolicies] {
		if c.after == nil {
			continue
		}
		found, err := q.policyFindings(ctx, q.after.Policy(name.Name))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	for _, plural := range []string{"scopedquotas", "clusterscopedquotas"} {
		changed := q.changed.changed[placementv1.GroupVersion.WithResource(plural)]
		for _, name := range slices.SortedFunc(maps.Keys(changed), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
			if changed[name].after != nil {
				out = append(out, quotaFindings(changed[name].after)...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return strings.Compare(a.Object, b.Object) })
	return out, nil
}

// policyFindings returns why a policy does not compile, the warnings about its text, what the type checker finds, and whether
// it matches nothing.
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
		report, err := q.Types.Check(ctx, p.Name, p.Object.Spec.WithDefaults(), p.Binding.Bindings)
		if err != nil {
			return nil, fmt.Errorf("checking the types of %s: %w", object, err)
		}
		for _, f := range report.Findings {
			out = append(out, Finding{object, p.Object.Spec.Strict, fmt.Sprintf("%s.rego:%d:%d: %s", p.Name, f.Line, f.Column, f.Message)})
		}
	}
	path := field.NewPath("spec", "match")
	coverage := p.Matcher.Coverage(q.after.Cluster().Catalog().Served(), path, q.options.OwnNamespace)
	for _, warning := range slices.Concat(match.Warnings(p.Object.Spec.WithDefaults().Match, path), coverage.Unserved) {
		out = append(out, Finding{object, false, warning})
	}
	if coverage.Impossible != "" {
		return append(out, Finding{object, false, "spec.match can't match any object: " + coverage.Impossible}), nil
	}
	matches, err := q.matchesAny(ctx, p)
	if err == nil && !matches {
		out = append(out, Finding{object, false, "spec.match matches no existing object"})
	}
	return out, err
}

// quotaFindings returns the resources of which more is used than the changed quota allows. Nothing is removed for that, but
// requests that need more are denied.
func quotaFindings(quota *unstructured.Unstructured) []Finding {
	hard, _, _ := unstructured.NestedMap(quota.Object, "spec", "hard")
	used, _, _ := unstructured.NestedMap(quota.Object, "status", "used")
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		limit, limitErr := resource.ParseQuantity(fmt.Sprint(hard[name]))
		usage, usageErr := resource.ParseQuantity(fmt.Sprint(used[name]))
		if limitErr != nil || usageErr != nil || usage.Cmp(limit) <= 0 {
			continue
		}
		out = append(out, Finding{simulation.Describe(quota), false, fmt.Sprintf("%s of %s are used, which exceeds the limit %s", usage.String(), name, limit.String())})
	}
	return out
}

// matchesAny reports whether a policy matches an existing object.
func (q *question) matchesAny(ctx context.Context, p *simulation.Policy) (bool, error) {
	for o, err := range q.after.Matched(ctx) {
		if err != nil {
			return false, err
		}
		if !p.Matcher.SelectsResource(o.Resource) {
			continue
		}
		if mismatch, err := q.after.Mismatch(ctx, p, o); err != nil || mismatch == nil {
			return true, err
		}
	}
	return false, nil
}

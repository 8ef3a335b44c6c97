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
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/quota"
)

// Quotas reads LimitedResources, and the quotas that cover what they limit.
type Quotas interface {
	// Limits returns all LimitedResources. Callers must not modify them.
	Limits(ctx context.Context) ([]placementv1.LimitedResource, error)
	// All returns all quotas. Callers must not modify them.
	All(ctx context.Context) ([]placementv1.Quota, error)
}

// findingsOfLimits finds priority classes that a policy sets, and that a LimitedResource denies to the pods of some namespaces that both
// select, because no quota covers the class there.
func (f *Finder) findingsOfLimits(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher, module *policy.Module) []Finding {
	classes := slices.DeleteFunc(settings(spec, module), func(s setting) bool { return s.field != podscheduling.PriorityClassName })
	if f.Quotas == nil || f.Namespaces == nil || spec.WithDefaults().Mode != placementv1.ModeEnforce || len(classes) == 0 {
		return nil
	}
	failed := func(err error) []Finding {
		return []Finding{notice("cannot check that quotas cover the priority class: %v", err)}
	}
	limits, err := f.Quotas.Limits(ctx)
	if err != nil {
		return failed(err)
	}
	// The findings are the same each time.
	limits = slices.SortedFunc(slices.Values(limits), func(a, b placementv1.LimitedResource) int { return cmp.Compare(a.Name, b.Name) })
	var quotas []placementv1.Quota
	var out []Finding
	for _, s := range classes {
		for i := range limits {
			if !quota.LimitsClass(&limits[i].Spec, s.value) {
				continue
			}
			if quotas == nil {
				if quotas, err = f.Quotas.All(ctx); err != nil {
					return failed(err)
				}
			}
			denied, allowed, err := f.byCoverage(ctx, s, m, &limits[i], quotas)
			if err != nil {
				return failed(err)
			}
			if len(denied) > 0 {
				out = append(out, s.at.finding(Advice, uncoveredText(limits[i].Name, s.value, denied, allowed)))
			}
		}
	}
	return out
}

// uncoveredText says in which namespaces a LimitedResource denies a class. allowed reports whether a quota covers it in another one.
func uncoveredText(limit, class string, denied []string, allowed bool) string {
	where, mend := "namespace ", "Create a quota whose scopeSelector has the class, or set another one"
	if len(denied) > 1 {
		where = "namespaces "
	}
	where += strings.Join(denied[:min(len(denied), maxListed)], ", ")
	if len(denied) > maxListed {
		where += ", and others"
	}
	if allowed {
		mend = "Create a quota there whose scopeSelector has the class, or set the class only in namespaces that have one"
	}
	return fmt.Sprintf("LimitedResource %s denies each pod of class %s in %s, because no enforced quota covers the class there. %s", limit, class, where, mend)
}

// byCoverage returns the namespaces in which the policy sets a class, the limit denies it, and no quota covers it, sorted. allowed reports
// whether the limit denies it in others, too, and a quota covers it there.
func (f *Finder) byCoverage(ctx context.Context, s setting, m *match.Matcher, limit *placementv1.LimitedResource,
	quotas []placementv1.Quota) (denied []string, allowed bool, err error) {
	limited, err := quota.NamespaceSelector(limit.Spec.NamespaceSelector)
	if err != nil {
		// The API server refuses it.
		return nil, false, nil //nolint:nilerror // There is no such LimitedResource.
	}
	decided, err := metav1.LabelSelectorAsSelector(s.namespaces)
	if err != nil {
		return nil, false, nil //nolint:nilerror // The error is told of the field itself.
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return nil, false, err
	}
	for name, of := range namespaces {
		set := labels.Set(of)
		switch {
		case match.IsProtectedNamespace(name, f.OwnNamespace) || !m.SelectsNamespace(name, of) || !decided.Matches(set) || !limited.Matches(set):
		case slices.ContainsFunc(quotas, func(q placementv1.Quota) bool { return quota.CoversClass(q, s.value, name, of) }):
			allowed = true
		default:
			denied = append(denied, name)
		}
	}
	slices.Sort(denied)
	return denied, allowed, nil
}

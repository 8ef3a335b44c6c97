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

	corev1 "k8s.io/api/core/v1"
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

// demand is what a LimitedResource demands of the quotas of a namespace before it allows pods of a priority class there: that one has a
// resource name in spec.hard, or the class in its scopeSelector.
type demand struct {
	limit *placementv1.LimitedResource
	// name is the resource name that a quota must have in spec.hard for the class; "" if a quota must have the class in its scopeSelector.
	name corev1.ResourceName
}

// demandsOn returns the demands of those LimitedResources that limit pods of a class: one for the class, if the LimitedResource limits it,
// and one for each resource name that it limits and each pod uses. They are in the order of the names of the LimitedResources.
func demandsOn(class string, limits []placementv1.LimitedResource) (out []demand) {
	for _, limit := range slices.SortedFunc(slices.Values(limits), func(a, b placementv1.LimitedResource) int {
		return cmp.Compare(a.Name, b.Name)
	}) {
		if quota.LimitsClass(&limit.Spec, class) {
			out = append(out, demand{limit: &limit})
		}
		for _, name := range quota.LimitsEachPod(&limit.Spec) {
			out = append(out, demand{&limit, name})
		}
	}
	return out
}

// allows reports whether one of the quotas meets the demand in a namespace that has the labels in of. denies reports whether pods there
// are denied because of the class. denies is false if no quota there limits the demanded resource name for any class: pods are then denied
// with each class.
func (d demand) allows(class, namespace string, of map[string]string, quotas []placementv1.Quota) (allows, denies bool) {
	some := func(covers func(q placementv1.Quota) bool) bool { return slices.ContainsFunc(quotas, covers) }
	if d.name == "" {
		allows = some(func(q placementv1.Quota) bool { return quota.CoversClass(q, class, namespace, of) })
		return allows, !allows
	}
	allows = some(func(q placementv1.Quota) bool { return quota.MayCoverName(q, d.name, class, namespace, of) })
	return allows, !allows && some(func(q placementv1.Quota) bool { return quota.HasName(q, d.name, namespace, of) })
}

// classesSet returns the priority classes that a policy sets, and where.
func classesSet(spec placementv1.PlacementPolicySpec, module *policy.Module) []setting {
	return slices.DeleteFunc(settings(spec, module), func(s setting) bool { return s.field != podscheduling.PriorityClassName })
}

// findingsOfLimits finds priority classes that an enforced policy sets although a LimitedResource denies pods of the class in some of the
// namespaces, because no quota there covers them. It returns a notice if quotas or namespaces can't be read, and nil if Finder.Quotas or
// Finder.Namespaces is nil.
func (f *Finder) findingsOfLimits(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher,
	module *policy.Module) []Finding {
	classes := classesSet(spec, module)
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
	var quotas []placementv1.Quota
	var out []Finding
	for _, s := range classes {
		for _, d := range demandsOn(s.value, limits) {
			if quotas == nil {
				if quotas, err = f.Quotas.All(ctx); err != nil {
					return failed(err)
				}
			}
			denied, allowed, err := f.deniedIn(ctx, s, m, d, quotas)
			if err != nil {
				return failed(err)
			}
			if len(denied) > 0 {
				out = append(out, s.at.finding(Advice, d.deniedText(s.value, denied, allowed)))
			}
		}
	}
	return out
}

// deniedText returns the message that pods of a class are denied in the namespaces with the names in denied. allowed reports whether pods
// of the class are allowed in another namespace, so that the message may suggest to set the class only there.
func (d demand) deniedText(class string, denied []string, allowed bool) string {
	where := "namespace "
	if len(denied) > 1 {
		where = "namespaces "
	}
	where += strings.Join(denied[:min(len(denied), maxListed)], ", ")
	if len(denied) > maxListed {
		where += ", and others"
	}
	// why completes "no enforced quota".
	why, mend := "there covers the priority class", "Create a quota whose scopeSelector has the priority class, or set another class"
	switch {
	case d.name != "":
		why = fmt.Sprintf("there with %s in spec.hard covers the priority class", d.name)
		mend = "Create such a quota there, without scopes or with the priority class in scopeSelector, or set a class that one covers"
	case allowed:
		mend = "Create a quota there whose scopeSelector has the priority class, or set the class only in namespaces that have such a quota"
	}
	return fmt.Sprintf("LimitedResource %s denies each pod of priority class %s in %s, because no enforced quota %s. %s", d.limit.Name, class,
		where, why, mend)
}

// deniedIn returns the namespaces in which the policy sets a class and pods are denied because the class does not meet the demand
// of a LimitedResource, sorted. allowed reports whether quotas meet the demand in another namespace.
func (f *Finder) deniedIn(ctx context.Context, s setting, m *match.Matcher, d demand, quotas []placementv1.Quota) (denied []string,
	allowed bool, err error) {
	limited, err := quota.NamespaceSelector(d.limit.Spec.NamespaceSelector)
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
		if match.IsProtectedNamespace(name, f.OwnNamespace) || !m.SelectsNamespace(name, of) || !decided.Matches(set) || !limited.Matches(set) {
			continue
		}
		allows, denies := d.allows(s.value, name, of, quotas)
		allowed = allowed || allows
		if denies {
			denied = append(denied, name)
		}
	}
	slices.Sort(denied)
	return denied, allowed, nil
}

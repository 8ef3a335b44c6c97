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

package quotaspec

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
)

const (
	// maxGaps is the maximum number of gaps in the warnings of one request.
	maxGaps = 3
	// maxCompared is the maximum number of pairs of a LimitedResource and a quota that are compared for one request.
	maxCompared = 10_000
	// maxListed is the maximum number of objects of a kind that are read from the API server for one request.
	maxListed = 500
)

// warnOfCoverage warns of quotas that seem to cover what a LimitedResource denies without a quota, and do not: a quota that is not
// enforced, or that has only one of two names that the same objects always take. A namespace without a quota causes no warning. applied is
// either a quota, which is compared with all LimitedResources, or a LimitedResource, which is compared with all quotas. If something can't
// be read, the only warning says so.
func (h *Handler) warnOfCoverage(ctx context.Context, applied client.Object) []string {
	if h.Live == nil || h.Namespaces == nil {
		return nil
	}
	limits, err := h.limits(ctx, applied)
	if err == nil && len(limits) == 0 {
		return nil
	}
	var quotas *holding
	if err == nil {
		quotas, err = h.holding(ctx, applied)
	}
	if err != nil {
		return []string{fmt.Sprintf("can't tell whether quotas cover what LimitedResources deny: %v", err)}
	}
	namespaces, err := h.Namespaces.All(ctx)
	if err != nil {
		return []string{fmt.Sprintf("can't tell whether quotas cover what LimitedResources deny: %v", err)}
	}
	labelsOf := maps.Collect(namespaces)
	return h.gaps(applied, limits, quotas, labelsOf)
}

// gaps compares the LimitedResources with the quotas of each namespace. It returns a warning for each pair with applied whose quota only
// seems to cover what its LimitedResource denies (quota.Evaluators.CoverageGap), at most maxGaps. labelsOf has the labels of all
// namespaces, by name.
func (h *Handler) gaps(applied client.Object, limits []*limit, quotas *holding, labelsOf map[string]map[string]string) []string {
	_, limitApplied := applied.(*placementv1.LimitedResource)
	var out []string
	compared, told := 0, map[[2]quota.Key]bool{}
	for _, namespace := range slices.Sorted(maps.Keys(labelsOf)) {
		if match.IsProtectedNamespace(namespace, h.OwnNamespace) {
			continue
		}
		here := quotas.in(namespace, labelsOf[namespace])
		for i, q := range here {
			key, _ := quota.KeyOf(q)
			if !limitApplied && q != applied {
				continue
			}
			others := slices.Concat(here[:i], here[i+1:])
			for _, l := range limits {
				pair := [2]quota.Key{{Kind: quota.KindLimitedResource, Name: l.Name}, key}
				if told[pair] || !l.selector.Matches(labels.Set(labelsOf[namespace])) {
					continue
				}
				if compared++; compared > maxCompared {
					return out
				}
				if gap := h.Evaluators.CoverageGap(l.LimitedResource, q, others, namespace); gap != "" {
					told[pair] = true
					out = append(out, gap)
				}
				if len(out) == maxGaps {
					return out
				}
			}
		}
	}
	return out
}

// limit is a LimitedResource with its parsed namespace selector.
type limit struct {
	*placementv1.LimitedResource
	selector labels.Selector
}

// limits returns the applied LimitedResource or, if a quota is applied, all LimitedResources. It returns an error if they can't be listed,
// or if one has an invalid namespace selector.
func (h *Handler) limits(ctx context.Context, applied client.Object) ([]*limit, error) {
	var all []placementv1.LimitedResource
	if l, ok := applied.(*placementv1.LimitedResource); ok {
		all = append(all, *l)
	} else {
		list := &placementv1.LimitedResourceList{}
		if err := h.list(ctx, list); err != nil {
			return nil, err
		}
		all = list.Items
	}
	var out []*limit
	for i := range all {
		selector, err := quota.NamespaceSelector(all[i].Spec.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		out = append(out, &limit{LimitedResource: &all[i], selector: selector})
	}
	return out, nil
}

// list lists objects, which the caller must not change. It reads from the API server, because a cache may lack an object that was created
// just before from the same file. Only if there are more than maxListed objects, it reads from the cache.
func (h *Handler) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := h.Live.List(ctx, list, append(slices.Clone(options), client.Limit(maxListed))...); err != nil || list.GetContinue() == "" {
		return err
	}
	return h.Cache.List(ctx, list, append(slices.Clone(options), client.UnsafeDisableDeepCopy)...)
}

// holding holds the quotas of each namespace.
type holding struct {
	scoped    map[string][]placementv1.Quota // The ScopedQuotas by namespace.
	cluster   []placementv1.Quota            // The ClusterScopedQuotas.
	selectors []labels.Selector              // The namespace selector of each of cluster, by index.
}

// in returns the quotas that count the objects of a namespace. of are its labels.
func (q *holding) in(namespace string, of map[string]string) []placementv1.Quota {
	out := slices.Clone(q.scoped[namespace])
	for i, selector := range q.selectors {
		if selector.Matches(labels.Set(of)) {
			out = append(out, q.cluster[i])
		}
	}
	return out
}

// holding returns all quotas, but ScopedQuotas only of the namespace of the applied object, if that has one. If the applied object is a
// quota itself, it replaces its stored version.
func (h *Handler) holding(ctx context.Context, applied client.Object) (*holding, error) {
	scoped, cluster := &placementv1.ScopedQuotaList{}, &placementv1.ClusterScopedQuotaList{}
	if err := h.list(ctx, scoped, client.InNamespace(applied.GetNamespace())); err != nil {
		return nil, err
	}
	if err := h.list(ctx, cluster); err != nil {
		return nil, err
	}
	key, _ := quota.KeyOf(applied)
	out := &holding{scoped: map[string][]placementv1.Quota{}}
	for i := range scoped.Items {
		q := &scoped.Items[i]
		if known, _ := quota.KeyOf(q); known != key {
			out.scoped[q.Namespace] = append(out.scoped[q.Namespace], q)
		}
	}
	all := cluster.Items
	switch q := applied.(type) {
	case *placementv1.ScopedQuota:
		out.scoped[q.Namespace] = append(out.scoped[q.Namespace], q)
	case *placementv1.ClusterScopedQuota:
		out.add(q)
	}
	for i := range all {
		if known, _ := quota.KeyOf(&all[i]); known != key {
			out.add(&all[i])
		}
	}
	return out, nil
}

// add adds a ClusterScopedQuota. One without a namespace selector counts in all namespaces. It ignores one with an invalid selector, which
// the API server refuses.
func (q *holding) add(c *placementv1.ClusterScopedQuota) {
	if selector, err := quota.NamespaceSelector(c.Spec.NamespaceSelector); err == nil {
		q.cluster, q.selectors = append(q.cluster, c), append(q.selectors, selector)
	}
}

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

package quotacharge

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
)

// freshness is how much of the data comes from the API server instead of a cache: nothing (cached), the quotas that the cache knows
// (reread), or everything (relisted).
type freshness int

const (
	// cached reads everything from the cache.
	cached freshness = iota
	// reread gets the quotas that the cache knows from the API server, one by one. A list of objects that seldom change
	// would take the API server much longer.
	reread
	// relisted reads everything from the API server.
	relisted
)

func (f freshness) String() string {
	return [...]string{cached: "cached", reread: "reread", relisted: "relisted"}[f]
}

// list reads a list of objects, which must not be modified: from the API server if the round's freshness is relisted, otherwise from the
// cache. An error names the kinds, such as "ScopedQuotas". The caller marks it as errUnreachable.
func (r *round) list(ctx context.Context, kinds string, list client.ObjectList, options ...client.ListOption) error {
	reader := r.Cached
	if r.freshness == relisted {
		reader = r.Live
	}
	if err := reader.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("listing %s: %w", kinds, err)
	}
	return nil
}

// quotas lists the quotas of every mode that apply to a namespace: its ScopedQuotas, and the ClusterScopedQuotas that select it. They are
// as in the API server if the round's freshness is relisted, otherwise as in the cache.
func (r *round) quotas(ctx context.Context, namespace string) ([]placementv1.Quota, error) {
	list := &placementv1.ScopedQuotaList{}
	if err := r.list(ctx, "ScopedQuotas", list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	out, err := r.clusterQuotas(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// clusterQuotas returns the ClusterScopedQuotas that select a namespace; none for a protected namespace.
func (r *round) clusterQuotas(ctx context.Context, namespace string) ([]placementv1.Quota, error) {
	if match.IsProtectedNamespace(namespace, r.OwnNamespace) {
		return nil, nil
	}
	if r.clusterList == nil {
		list := &placementv1.ClusterScopedQuotaList{}
		if err := r.list(ctx, "ClusterScopedQuotas", list); err != nil {
			return nil, err
		}
		r.clusterList = list
	}
	var out []placementv1.Quota
	for i := range r.clusterList.Items {
		q := &r.clusterList.Items[i]
		selects, err := r.selects(ctx, q.Spec.NamespaceSelector, namespace)
		if err != nil {
			return nil, fmt.Errorf("ClusterScopedQuota %s: %w", q.Name, err)
		}
		if selects {
			out = append(out, q)
		}
	}
	return out, nil
}

// limits returns the LimitedResources that limit a type in a namespace; none for a protected namespace.
func (r *round) limits(ctx context.Context, namespace string, resource schema.GroupResource) ([]*placementv1.LimitedResource, error) {
	if match.IsProtectedNamespace(namespace, r.OwnNamespace) {
		return nil, nil
	}
	if r.limitList == nil {
		list := &placementv1.LimitedResourceList{}
		if err := r.list(ctx, "LimitedResources", list); err != nil {
			return nil, err
		}
		r.limitList = list
	}
	var out []*placementv1.LimitedResource
	for i := range r.limitList.Items {
		limit := &r.limitList.Items[i]
		if limit.Spec.APIGroup != resource.Group || limit.Spec.Resource != resource.Resource {
			continue
		}
		selects, err := r.selects(ctx, limit.Spec.NamespaceSelector, namespace)
		if err != nil {
			return nil, fmt.Errorf("LimitedResource %s: %w", limit.Name, err)
		}
		if selects {
			out = append(out, limit)
		}
	}
	return out, nil
}

// selects reports whether a selector matches a namespace, by its labels, which it reads from the API server if the round's freshness is
// relisted, or the cache lacks the namespace, otherwise from the cache. A nil selector and an empty one match all namespaces unread.
func (r *round) selects(ctx context.Context, selector *placementv1.NamespaceSelector, namespace string) (bool, error) {
	parsed, err := quota.NamespaceSelector(selector)
	if err != nil {
		return false, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	if parsed.Empty() {
		return true, nil
	}
	namespaces := r.Namespaces
	if r.freshness == relisted {
		namespaces = r.LiveNamespaces
	}
	of, err := namespaces.Labels(ctx, namespace)
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return parsed.Matches(labels.Set(of)), nil
}

// reread reads the quota that now has the kind, namespace, and name of q from the API server, whatever its UID is. It returns nil if there
// is none, or if it does not select the namespace any more. The caller marks an error as errUnreachable.
func (r *round) reread(ctx context.Context, namespace string, q placementv1.Quota) (placementv1.Quota, error) {
	var fresh placementv1.Quota = &placementv1.ScopedQuota{}
	if _, isCluster := q.(*placementv1.ClusterScopedQuota); isCluster {
		fresh = &placementv1.ClusterScopedQuota{}
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(q), fresh); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading quota %s: %w", q.GetName(), err)
	}
	if cluster, ok := fresh.(*placementv1.ClusterScopedQuota); ok {
		if selects, err := r.selects(ctx, cluster.Spec.NamespaceSelector, namespace); err != nil || !selects {
			return nil, err
		}
	}
	return fresh, nil
}

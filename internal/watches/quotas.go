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

package watches

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Quotas reads LimitedResources from a cache, and ScopedQuotas and ClusterScopedQuotas from the API server. It is safe for concurrent use.
type Quotas struct {
	// Cache reads LimitedResources. Live reads quotas from the API server, because a cache may lack a quota that was just created from the
	// same file.
	Cache, Live client.Reader
}

// Limits returns all LimitedResources. Callers must not modify them.
func (q *Quotas) Limits(ctx context.Context) ([]placementv1.LimitedResource, error) {
	list := &placementv1.LimitedResourceList{}
	if err := q.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing LimitedResources: %w", err)
	}
	return list.Items, nil
}

// All returns the ScopedQuotas of all namespaces and then the ClusterScopedQuotas. It reads them from the API server, not from a cache.
func (q *Quotas) All(ctx context.Context) ([]placementv1.Quota, error) {
	scoped, cluster := &placementv1.ScopedQuotaList{}, &placementv1.ClusterScopedQuotaList{}
	if err := q.Live.List(ctx, scoped); err != nil {
		return nil, fmt.Errorf("listing ScopedQuotas: %w", err)
	}
	if err := q.Live.List(ctx, cluster); err != nil {
		return nil, fmt.Errorf("listing ClusterScopedQuotas: %w", err)
	}
	out := make([]placementv1.Quota, 0, len(scoped.Items)+len(cluster.Items))
	for i := range scoped.Items {
		out = append(out, &scoped.Items[i])
	}
	for i := range cluster.Items {
		out = append(out, &cluster.Items[i])
	}
	return out, nil
}

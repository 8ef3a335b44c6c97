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
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

// round is one attempt to decide a batch, with the quotas and limits that it reads. Each is read at most once, on first use. Each quota has
// one working copy, also if several namespaces share it. A round belongs to one goroutine.
type round struct {
	*Charger
	freshness freshness
	// released holds the IDs of charges that are reverted in every working copy before the decision: those of all requests that the round
	// decides, from earlier rounds, and those that no request needs any more.
	released    map[string]bool
	clusterList *placementv1.ClusterScopedQuotaList // All ClusterScopedQuotas; nil until they are read.
	limitList   *placementv1.LimitedResourceList    // All LimitedResources; nil until they are read.
	// accounts are the working copies by the UID of the quota.
	accounts            map[types.UID]*quota.Account
	accountsByNamespace map[string][]*quota.Account
	limitsByKey         map[limitKey][]quota.Limit
}

// limitKey identifies for what LimitedResources are looked up: the objects of a type in a namespace.
type limitKey struct {
	namespace string
	resource  schema.GroupResource
}

// beginRound begins an attempt to decide a batch, which reads as freshly as f says. In its working copies of the quotas, the charges with
// the IDs in released are reverted.
func (c *Charger) beginRound(f freshness, released map[string]bool) *round {
	return &round{
		Charger: c, freshness: f, released: released,
		accounts: map[types.UID]*quota.Account{}, accountsByNamespace: map[string][]*quota.Account{}, limitsByKey: map[limitKey][]quota.Limit{},
	}
}

// accountsIn returns the working copies of the quotas that the objects of a namespace are charged to. It returns an errModule if the rules
// of a quota do not compile. The caller marks any other error as errUnreachable.
func (r *round) accountsIn(ctx context.Context, namespace string) ([]*quota.Account, error) {
	if known, ok := r.accountsByNamespace[namespace]; ok {
		return known, nil
	}
	quotas, err := r.quotas(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if r.freshness == reread {
		if quotas, err = r.rereadAll(ctx, namespace, quotas); err != nil {
			return nil, err
		}
	}
	accounts := make([]*quota.Account, 0, len(quotas))
	for _, q := range quotas {
		account, ok := r.accounts[q.GetUID()]
		if !ok {
			if r.freshness == cached {
				q = r.newest(q)
			}
			rules, err := r.Compiler.Quota(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errModule, err)
			}
			account = quota.NewAccount(q, rules)
			account.ReleaseCharges(func(id string) bool { return r.released[id] })
			r.accounts[q.GetUID()] = account
		}
		accounts = append(accounts, account)
	}
	r.accountsByNamespace[namespace] = accounts
	return accounts, nil
}

// rereadAll returns the quotas as they are in the API server now. It returns those that already have a working copy unread, and leaves out
// those that do not exist or do not select the namespace any more.
func (r *round) rereadAll(ctx context.Context, namespace string, quotas []placementv1.Quota) ([]placementv1.Quota, error) {
	fresh, failed := slices.Clone(quotas), make([]error, len(quotas))
	var wg sync.WaitGroup
	for i, q := range quotas {
		if _, known := r.accounts[q.GetUID()]; !known {
			wg.Go(func() { fresh[i], failed[i] = r.reread(ctx, namespace, q) })
		}
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(fresh, func(q placementv1.Quota) bool { return q == nil }), nil
}

// limitsFor returns the LimitedResources for a type in a namespace, with their compiled rules. It returns an errModule if rules do not
// compile. The caller marks any other error as errUnreachable.
func (r *round) limitsFor(ctx context.Context, namespace string, resource schema.GroupResource) ([]quota.Limit, error) {
	key := limitKey{namespace, resource}
	if known, ok := r.limitsByKey[key]; ok {
		return known, nil
	}
	objects, err := r.limits(ctx, namespace, resource)
	if err != nil {
		return nil, err
	}
	limits := make([]quota.Limit, len(objects))
	for i, object := range objects {
		rules, err := r.Compiler.Limit(ctx, object)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errModule, err)
		}
		limits[i] = quota.Limit{Object: object, Rules: rules}
	}
	r.limitsByKey[key] = limits
	return limits, nil
}

// write writes every working copy that changed. It returns the number of writes, and how many of them found the quota changed or deleted.
// The error is that of a write that failed for another reason. The caller marks it as errUnreachable.
func (r *round) write(ctx context.Context) (writes, conflicts int, err error) {
	results := make(chan error, len(r.accounts))
	for _, account := range r.accounts {
		if !account.Changed() {
			continue
		}
		writes++
		if r.Unsettled != nil {
			account.Settle(r.Unsettled)
		}
		go func() { results <- r.writeQuota(ctx, account.Quota()) }()
	}
	for range writes {
		switch failed := <-results; {
		case apierrors.IsConflict(failed) || apierrors.IsNotFound(failed):
			// Another writer may have charged, changed or deleted the quota.
			conflicts++
		case failed != nil:
			err = failed
		}
	}
	return writes, conflicts, err
}

// writeQuota writes the status of a quota, and remembers the quota for newest.
func (r *round) writeQuota(ctx context.Context, q placementv1.Quota) error {
	if err := r.Writer.Update(ctx, q); err != nil {
		return fmt.Errorf("charging quota %s: %w", q.GetName(), err)
	}
	r.recordWritten(q)
	return nil
}

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
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
)

// Namespaces reads the labels of namespaces.
type Namespaces interface {
	Labels(ctx context.Context, name string) (map[string]string, error)
}

// Ledger reads quotas and LimitedResources, and writes copies of quotas with charges. Objects that it has read are
// never modified. It is safe for concurrent use.
type Ledger struct {
	// Cached reads from a cache, which may be stale.
	Cached client.Reader
	// Live reads from the API server.
	Live client.Reader
	// Writer writes status.
	Writer client.StatusWriter
	// Namespaces reads the labels of namespaces from a cache, LiveNamespaces from the API server.
	Namespaces, LiveNamespaces Namespaces
	// Compiler compiles and caches the modules of quotas and LimitedResources.
	Compiler *quota.Compiler
	// OwnNamespace is Berth's own namespace, in which nothing is counted. It is empty if there is none.
	OwnNamespace string
	// Unsettled returns those of a quota's reservations whose changes are not counted yet. On a replica that does not
	// count, it returns all. A nil Unsettled means all. Fewer reservations make a smaller and faster write.
	Unsettled func(placementv1.Quota) []placementv1.Reservation
	// StoreRestored is called when a read shows that the API server's store was set back to an earlier state, for example
	// by a restore from a backup. It may be nil. It must return quickly and may call ForgetAll.
	StoreRestored func()

	mu sync.Mutex
	// written holds quotas as this process wrote them, until the cache contains that version.
	written map[types.UID]placementv1.Quota
}

// freshness is how much of the data comes from the API server instead of a cache.
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

func (l *Ledger) reader(f freshness) client.Reader {
	if f == relisted {
		return l.Live
	}
	return l.Cached
}

// lists holds the lists that are the same for all namespaces. They are read on first use.
type lists struct {
	cluster *placementv1.ClusterScopedQuotaList
	limits  *placementv1.LimitedResourceList
}

func (l *Ledger) clusterList(ctx context.Context, f freshness, all *lists) (*placementv1.ClusterScopedQuotaList, error) {
	if all.cluster == nil {
		list := &placementv1.ClusterScopedQuotaList{}
		if err := l.reader(f).List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing ClusterScopedQuotas: %w", err)
		}
		all.cluster = list
	}
	return all.cluster, nil
}

func (l *Ledger) limitList(ctx context.Context, f freshness, all *lists) (*placementv1.LimitedResourceList, error) {
	if all.limits == nil {
		list := &placementv1.LimitedResourceList{}
		if err := l.reader(f).List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing LimitedResources: %w", err)
		}
		all.limits = list
	}
	return all.limits, nil
}

// queueKey returns the name of the queue of a namespace's requests: the namespace, or the UIDs of the quotas that it
// shares.
func (l *Ledger) queueKey(ctx context.Context, namespace string) (string, error) {
	shared, err := l.clusterQuotas(ctx, namespace, cached, &lists{})
	if err != nil || len(shared) == 0 {
		return namespace, err
	}
	uids := make([]string, len(shared))
	for i, q := range shared {
		uids[i] = string(q.GetUID())
	}
	slices.Sort(uids)
	// A comma can't occur in the name of a namespace.
	return "," + strings.Join(uids, ","), nil
}

func (l *Ledger) clusterQuotas(ctx context.Context, namespace string, f freshness, all *lists) ([]placementv1.Quota, error) {
	if match.IsProtectedNamespace(namespace, l.OwnNamespace) {
		return nil, nil
	}
	list, err := l.clusterList(ctx, f, all)
	if err != nil {
		return nil, err
	}
	var out []placementv1.Quota
	for i := range list.Items {
		selects, err := l.selects(ctx, list.Items[i].Spec.NamespaceSelector, namespace, f)
		if err != nil {
			return nil, fmt.Errorf("ClusterScopedQuota %s: %w", list.Items[i].Name, err)
		}
		if selects {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// selects reports whether a selector matches a namespace. An empty selector matches every namespace.
func (l *Ledger) selects(ctx context.Context, selector *placementv1.NamespaceSelector, namespace string, f freshness) (bool, error) {
	parsed, err := quota.NamespaceSelector(selector)
	if err != nil {
		return false, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	if parsed.Empty() {
		return true, nil
	}
	namespaces := l.Namespaces
	if f == relisted {
		namespaces = l.LiveNamespaces
	}
	of, err := namespaces.Labels(ctx, namespace)
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return parsed.Matches(labels.Set(of)), nil
}

// quotas returns the quotas that a namespace's objects are charged to.
func (l *Ledger) quotas(ctx context.Context, namespace string, f freshness, all *lists) ([]placementv1.Quota, error) {
	list := &placementv1.ScopedQuotaList{}
	if err := l.reader(f).List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ScopedQuotas: %w", err)
	}
	out, err := l.clusterQuotas(ctx, namespace, f, all)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// reread gets a quota from the API server. It returns nil if the quota does not exist or does not select the namespace
// any more.
func (l *Ledger) reread(ctx context.Context, namespace string, q placementv1.Quota) (placementv1.Quota, error) {
	known := l.newest(q).GetResourceVersion()
	var fresh placementv1.Quota = &placementv1.ScopedQuota{}
	_, isCluster := q.(*placementv1.ClusterScopedQuota)
	if isCluster {
		fresh = &placementv1.ClusterScopedQuota{}
	}
	if err := l.Live.Get(ctx, client.ObjectKey{Namespace: q.GetNamespace(), Name: q.GetName()}, fresh); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading quota %s: %w", q.GetName(), err)
	}
	// A read from the API server can't return an older version than was stored before the read began.
	if order, err := resourceversion.CompareResourceVersion(fresh.GetResourceVersion(), known); err == nil && order < 0 {
		l.ForgetAll()
		if l.StoreRestored != nil {
			l.StoreRestored()
		}
	}
	if cluster, ok := fresh.(*placementv1.ClusterScopedQuota); ok {
		if selects, err := l.selects(ctx, cluster.Spec.NamespaceSelector, namespace, reread); err != nil || !selects {
			return nil, err
		}
	}
	return fresh, nil
}

// newest returns the version of a quota that this process wrote, if it is newer than the version that was read.
func (l *Ledger) newest(read placementv1.Quota) placementv1.Quota {
	l.mu.Lock()
	defer l.mu.Unlock()
	written, ok := l.written[read.GetUID()]
	if !ok {
		return read
	}
	order, err := resourceversion.CompareResourceVersion(written.GetResourceVersion(), read.GetResourceVersion())
	if err != nil || order <= 0 {
		delete(l.written, read.GetUID())
		return read
	}
	return written
}

// limits returns the LimitedResources for a type in a namespace.
func (l *Ledger) limits(ctx context.Context, namespace string, resource schema.GroupResource, f freshness, all *lists) ([]quota.Limit, error) {
	if match.IsProtectedNamespace(namespace, l.OwnNamespace) {
		return nil, nil
	}
	list, err := l.limitList(ctx, f, all)
	if err != nil {
		return nil, err
	}
	var out []quota.Limit
	for i := range list.Items {
		limit := &list.Items[i]
		if limit.Spec.APIGroup != resource.Group || limit.Spec.Resource != resource.Resource {
			continue
		}
		selects, err := l.selects(ctx, limit.Spec.NamespaceSelector, namespace, f)
		if err != nil {
			return nil, fmt.Errorf("LimitedResource %s: %w", limit.Name, err)
		}
		if !selects {
			continue
		}
		rules, err := l.Compiler.Limit(ctx, limit)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errModule, err)
		}
		out = append(out, quota.Limit{Object: limit, Rules: rules})
	}
	return out, nil
}

// round holds the quotas of one round of decisions. Each quota occurs once, also if several namespaces share it.
type round struct {
	ledger              *Ledger
	freshness           freshness
	released            func(charge string) bool
	lists               lists
	accounts            map[types.UID]*quota.Account
	accountsByNamespace map[string][]*quota.Account
	limitsByKey         map[limitKey][]quota.Limit
}

// limitKey identifies a type in a namespace.
type limitKey struct {
	namespace string
	resource  schema.GroupResource
}

// beginRound begins a round. Charges for which released returns true are removed from the accounts first.
func (l *Ledger) beginRound(f freshness, released func(charge string) bool) *round {
	return &round{
		ledger: l, freshness: f, released: released,
		accounts: map[types.UID]*quota.Account{}, accountsByNamespace: map[string][]*quota.Account{}, limitsByKey: map[limitKey][]quota.Limit{},
	}
}

// accountsIn returns the accounts of a namespace.
func (r *round) accountsIn(ctx context.Context, namespace string) ([]*quota.Account, error) {
	if known, ok := r.accountsByNamespace[namespace]; ok {
		return known, nil
	}
	quotas, err := r.ledger.quotas(ctx, namespace, r.freshness, &r.lists)
	if err != nil {
		return nil, err
	}
	if r.freshness == reread {
		if quotas, err = r.reread(ctx, namespace, quotas); err != nil {
			return nil, err
		}
	}
	accounts := make([]*quota.Account, 0, len(quotas))
	for _, q := range quotas {
		account, ok := r.accounts[q.GetUID()]
		if !ok {
			q = r.ledger.newest(q)
			rules, err := r.ledger.Compiler.Quota(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errModule, err)
			}
			account = quota.NewAccount(q, rules)
			account.ReleaseCharges(r.released)
			r.accounts[q.GetUID()] = account
		}
		accounts = append(accounts, account)
	}
	r.accountsByNamespace[namespace] = accounts
	return accounts, nil
}

// limitsFor returns the LimitedResources for a type in a namespace.
func (r *round) limitsFor(ctx context.Context, namespace string, resource schema.GroupResource) ([]quota.Limit, error) {
	key := limitKey{namespace, resource}
	if known, ok := r.limitsByKey[key]; ok {
		return known, nil
	}
	limits, err := r.ledger.limits(ctx, namespace, resource, r.freshness, &r.lists)
	if err != nil {
		return nil, err
	}
	r.limitsByKey[key] = limits
	return limits, nil
}

// reread gets from the API server the quotas that have no account in this round yet. It leaves out those that do not
// exist or do not select the namespace any more.
func (r *round) reread(ctx context.Context, namespace string, quotas []placementv1.Quota) ([]placementv1.Quota, error) {
	fresh, failed := slices.Clone(quotas), make([]error, len(quotas))
	var wg sync.WaitGroup
	for i, q := range quotas {
		if _, known := r.accounts[q.GetUID()]; !known {
			wg.Go(func() { fresh[i], failed[i] = r.ledger.reread(ctx, namespace, q) })
		}
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(fresh, func(q placementv1.Quota) bool { return q == nil }), nil
}

// write writes every account that changed. It returns the number of writes, and how many of them conflicted.
func (r *round) write(ctx context.Context) (writes, conflicts int, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, account := range r.accounts {
		if !account.Changed() {
			continue
		}
		writes++
		if r.ledger.Unsettled != nil {
			account.Settle(r.ledger.Unsettled)
		}
		wg.Go(func() {
			q := account.Quota()
			failed := r.ledger.Writer.Update(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed == nil:
				r.ledger.recordWritten(q)
			case apierrors.IsConflict(failed) || apierrors.IsNotFound(failed):
				// Another writer may have charged, changed or deleted the quota.
				conflicts++
			default:
				err = fmt.Errorf("charging quota %s: %w", q.GetName(), failed)
			}
		})
	}
	wg.Wait()
	return writes, conflicts, err
}

func (l *Ledger) recordWritten(q placementv1.Quota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == nil {
		l.written = map[types.UID]placementv1.Quota{}
	}
	l.written[q.GetUID()] = q
}

// Forget drops the written version of a deleted quota.
func (l *Ledger) Forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, uid)
}

// ForgetAll drops the written versions of all quotas, because the API server's store may have lost them.
func (l *Ledger) ForgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.written)
}

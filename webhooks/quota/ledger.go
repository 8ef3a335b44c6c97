package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
)

// Namespaces knows the labels of namespaces.
type Namespaces interface {
	Labels(ctx context.Context, name string) (map[string]string, error)
}

// Ledger reads quotas and limits, which nobody changes, and writes copies of them with what is charged. It is safe for
// concurrent use.
type Ledger struct {
	// Cached reads from a cache, which may lag behind.
	Cached client.Reader
	// Live reads from the API server.
	Live client.Reader
	// Writer writes status.
	Writer client.StatusWriter
	// Namespaces knows the labels of namespaces, as a cache has them; LiveNamespaces as the API server does.
	Namespaces, LiveNamespaces Namespaces
	// Compiler has the modules.
	Compiler *quota.Compiler
	// OwnNamespace is Berth's own, where nothing is counted; empty for none.
	OwnNamespace string
	// Unsettled returns a quota's reservations whose changes are not counted yet, all of them on a replica that does
	// not count; nil for all. What is written is the smaller, and the faster to write, the fewer there are.
	Unsettled func(placementv1.Quota) []placementv1.Reservation
	// Rewound is called when the API server's store turns out to have gone back to an earlier state, as it does when a
	// backup is restored; nil for nobody. It must be quick and may call ForgetAll.
	Rewound func()

	mu sync.Mutex
	// written are quotas as this process wrote them, where the cache does not have that yet.
	written map[types.UID]placementv1.Quota
}

// freshness is how much of what is read comes from the API server.
type freshness int

const (
	// cached: nothing does.
	cached freshness = iota
	// reread: quotas do, as far as the cache knows of them. One by one: the API server answers a list of what seldom
	// changes much later.
	reread
	// relisted: everything does.
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

// lists are what is the same for all namespaces, read when first asked for.
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

// lane names what a namespace's requests compete for: the namespace or, where it shares quotas, those.
func (l *Ledger) lane(ctx context.Context, namespace string) (string, error) {
	shared, err := l.clusterQuotas(ctx, namespace, cached, &lists{})
	if err != nil || len(shared) == 0 {
		return namespace, err
	}
	uids := make([]string, len(shared))
	for i, q := range shared {
		uids[i] = string(q.GetUID())
	}
	slices.Sort(uids)
	// No namespace has a comma in its name.
	return "," + strings.Join(uids, ","), nil
}

func (l *Ledger) clusterQuotas(ctx context.Context, namespace string, f freshness, all *lists) ([]placementv1.Quota, error) {
	if match.Exempt(namespace, l.OwnNamespace) {
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

// selects says whether a selector selects a namespace; an empty one selects each.
func (l *Ledger) selects(ctx context.Context, selector *placementv1.NamespaceSelector, namespace string, f freshness) (bool, error) {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return true, nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector.Upstream())
	if err != nil {
		return false, fmt.Errorf("spec.namespaceSelector: %w", err)
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

// reread reads a quota anew; nil if it is gone or is another namespace's now.
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
	// A read from the API server has what was stored before it began.
	if order, err := resourceversion.CompareResourceVersion(fresh.GetResourceVersion(), known); err == nil && order < 0 {
		l.ForgetAll()
		if l.Rewound != nil {
			l.Rewound()
		}
	}
	if cluster, ok := fresh.(*placementv1.ClusterScopedQuota); ok {
		if selects, err := l.selects(ctx, cluster.Spec.NamespaceSelector, namespace, reread); err != nil || !selects {
			return nil, err
		}
	}
	return fresh, nil
}

// newest returns what this process wrote, if that is newer than what it read.
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

// limits returns the limits on a type of object in a namespace.
func (l *Ledger) limits(ctx context.Context, namespace string, resource schema.GroupResource, f freshness, all *lists) ([]quota.Limit, error) {
	if match.Exempt(namespace, l.OwnNamespace) {
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

// page is what one round of decisions works on: each quota once, whichever namespaces it is seen from.
type page struct {
	ledger    *Ledger
	freshness freshness
	giveBack  func(charge string) bool
	lists     lists
	accounts  map[types.UID]*quota.Account
	of        map[string][]*quota.Account
	limitsOf  map[limited][]quota.Limit
}

// limited is a type of object in a namespace.
type limited struct {
	namespace string
	resource  schema.GroupResource
}

// open begins a round. Charges that giveBack names are taken back at first.
func (l *Ledger) open(f freshness, giveBack func(charge string) bool) *page {
	return &page{
		ledger: l, freshness: f, giveBack: giveBack,
		accounts: map[types.UID]*quota.Account{}, of: map[string][]*quota.Account{}, limitsOf: map[limited][]quota.Limit{},
	}
}

// read returns the accounts of a namespace.
func (p *page) read(ctx context.Context, namespace string) ([]*quota.Account, error) {
	if known, ok := p.of[namespace]; ok {
		return known, nil
	}
	quotas, err := p.ledger.quotas(ctx, namespace, p.freshness, &p.lists)
	if err != nil {
		return nil, err
	}
	if p.freshness == reread {
		if quotas, err = p.reread(ctx, namespace, quotas); err != nil {
			return nil, err
		}
	}
	accounts := make([]*quota.Account, 0, len(quotas))
	for _, q := range quotas {
		account, ok := p.accounts[q.GetUID()]
		if !ok {
			q = p.ledger.newest(q)
			rules, err := p.ledger.Compiler.Quota(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errModule, err)
			}
			account = quota.NewAccount(q, rules)
			account.GiveBack(p.giveBack)
			p.accounts[q.GetUID()] = account
		}
		accounts = append(accounts, account)
	}
	p.of[namespace] = accounts
	return accounts, nil
}

// limits returns the limits on a type of object in a namespace.
func (p *page) limits(ctx context.Context, namespace string, resource schema.GroupResource) ([]quota.Limit, error) {
	key := limited{namespace, resource}
	if known, ok := p.limitsOf[key]; ok {
		return known, nil
	}
	limits, err := p.ledger.limits(ctx, namespace, resource, p.freshness, &p.lists)
	if err != nil {
		return nil, err
	}
	p.limitsOf[key] = limits
	return limits, nil
}

// reread reads anew the quotas that this round has no account of yet, and leaves out those that are gone or are
// another namespace's now.
func (p *page) reread(ctx context.Context, namespace string, quotas []placementv1.Quota) ([]placementv1.Quota, error) {
	fresh, failed := slices.Clone(quotas), make([]error, len(quotas))
	var wg sync.WaitGroup
	for i, q := range quotas {
		if _, known := p.accounts[q.GetUID()]; !known {
			wg.Go(func() { fresh[i], failed[i] = p.ledger.reread(ctx, namespace, q) })
		}
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(fresh, func(q placementv1.Quota) bool { return q == nil }), nil
}

// write writes every account that changed. It says how many writes there were, and how many of them came too late.
func (p *page) write(ctx context.Context) (writes, conflicts int, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, account := range p.accounts {
		if !account.Changed() {
			continue
		}
		writes++
		if p.ledger.Unsettled != nil {
			account.Settle(p.ledger.Unsettled)
		}
		wg.Go(func() {
			q := account.Quota()
			failed := p.ledger.Writer.Update(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed == nil:
				p.ledger.wrote(q)
			case apierrors.IsConflict(failed) || apierrors.IsNotFound(failed):
				// Whoever was faster may have charged, changed or deleted the quota.
				conflicts++
			default:
				err = fmt.Errorf("charging quota %s: %w", q.GetName(), failed)
			}
		})
	}
	wg.Wait()
	return writes, conflicts, err
}

func (l *Ledger) wrote(q placementv1.Quota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == nil {
		l.written = map[types.UID]placementv1.Quota{}
	}
	l.written[q.GetUID()] = q
}

// Forget drops what is kept of a quota that is gone.
func (l *Ledger) Forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, uid)
}

// ForgetAll drops what is kept of all quotas: the API server's store may not have it.
func (l *Ledger) ForgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.written)
}

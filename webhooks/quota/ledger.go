package quota

import (
	"context"
	"fmt"
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

// Ledger reads quotas and limits, which nobody changes, and writes copies of them with what is charged. It is safe for concurrent use.
type Ledger struct {
	// Cached reads from a cache, which may lag behind.
	Cached client.Reader
	// Live reads from the API server.
	Live client.Reader
	// Writer writes status.
	Writer client.StatusWriter
	// Namespaces knows the labels of namespaces.
	Namespaces Namespaces
	// Compiler has the modules.
	Compiler *quota.Compiler
	// OwnNamespace is Berth's own, where nothing is counted.
	OwnNamespace string

	mu sync.Mutex
	// written are quotas as this process wrote them, where the cache does not have that yet.
	written map[types.UID]placementv1.Quota
}

// shared says whether a namespace has quotas in common with others.
func (l *Ledger) shared(ctx context.Context, namespace string) (bool, error) {
	quotas, err := l.clusterQuotas(ctx, l.Cached, namespace)
	return len(quotas) > 0, err
}

func (l *Ledger) clusterQuotas(ctx context.Context, from client.Reader, namespace string) ([]placementv1.Quota, error) {
	if namespace == match.NamespaceSystem || namespace == l.OwnNamespace {
		return nil, nil
	}
	list := &placementv1.ClusterScopedQuotaList{}
	if err := from.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterScopedQuotas: %w", err)
	}
	var out []placementv1.Quota
	for i := range list.Items {
		selects, err := l.selects(ctx, list.Items[i].Spec.NamespaceSelector, namespace)
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
func (l *Ledger) selects(ctx context.Context, selector *placementv1.NamespaceSelector, namespace string) (bool, error) {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return true, nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector.Upstream())
	if err != nil {
		return false, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	of, err := l.Namespaces.Labels(ctx, namespace)
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return parsed.Matches(labels.Set(of)), nil
}

// quotas returns the quotas that a namespace's objects are charged to.
func (l *Ledger) quotas(ctx context.Context, namespace string, live bool) ([]placementv1.Quota, error) {
	from := l.Cached
	if live {
		from = l.Live
	}
	list := &placementv1.ScopedQuotaList{}
	if err := from.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ScopedQuotas: %w", err)
	}
	out, err := l.clusterQuotas(ctx, from, namespace)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	for i, q := range out {
		out[i] = l.newest(q)
	}
	return out, nil
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
func (l *Ledger) limits(ctx context.Context, namespace string, resource schema.GroupResource) ([]quota.Limit, error) {
	if namespace == match.NamespaceSystem || namespace == l.OwnNamespace {
		return nil, nil
	}
	list := &placementv1.LimitedResourceList{}
	if err := l.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing LimitedResources: %w", err)
	}
	var out []quota.Limit
	for i := range list.Items {
		limit := &list.Items[i]
		if limit.Spec.APIGroup != resource.Group || limit.Spec.Resource != resource.Resource {
			continue
		}
		selects, err := l.selects(ctx, limit.Spec.NamespaceSelector, namespace)
		if err != nil {
			return nil, fmt.Errorf("LimitedResource %s: %w", limit.Name, err)
		}
		if !selects {
			continue
		}
		rules, err := l.Compiler.Limit(ctx, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, quota.Limit{Object: limit, Rules: rules})
	}
	return out, nil
}

// page is what one round of decisions works on: each quota once, whichever namespaces it is seen from.
type page struct {
	ledger   *Ledger
	live     bool
	giveBack func(uid string) bool
	accounts map[types.UID]*quota.Account
	of       map[string][]*quota.Account
}

// open begins a round. Charges that giveBack names are taken back at first.
func (l *Ledger) open(live bool, giveBack func(uid string) bool) *page {
	return &page{ledger: l, live: live, giveBack: giveBack, accounts: map[types.UID]*quota.Account{}, of: map[string][]*quota.Account{}}
}

// read returns the accounts of a namespace.
func (p *page) read(ctx context.Context, namespace string) ([]*quota.Account, error) {
	if known, ok := p.of[namespace]; ok {
		return known, nil
	}
	quotas, err := p.ledger.quotas(ctx, namespace, p.live)
	if err != nil {
		return nil, err
	}
	accounts := make([]*quota.Account, 0, len(quotas))
	for _, q := range quotas {
		account, ok := p.accounts[q.GetUID()]
		if !ok {
			rules, err := p.ledger.Compiler.Quota(ctx, q)
			if err != nil {
				return nil, err
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

// write writes every account that changed. It says how many writes there were, and how many of them came too late.
func (p *page) write(ctx context.Context) (writes, conflicts int, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, account := range p.accounts {
		if !account.Changed() {
			continue
		}
		writes++
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

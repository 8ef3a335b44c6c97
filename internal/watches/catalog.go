package watches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

var _ policy.Served = (*Catalog)(nil)

// Catalog knows which resource types the API server serves that can be listed and watched. It is safe for concurrent use.
type Catalog struct {
	client      discovery.DiscoveryInterface
	inventories *replication.Inventories
	stale       chan struct{}
	current     atomic.Pointer[catalog]

	refresh     sync.Mutex
	subscribers []func()
}

// What the API server serves follows its objects with a delay, and an extension API server comes and goes without
// any: after an invalidation it is asked at these times, and besides now and then.
var (
	discoveryLags = []time.Duration{0, time.Second, 4 * time.Second}
	refreshPeriod = time.Minute
)

// catalog is what was served at one moment.
type catalog struct {
	byPlural map[string][]policy.Resource
	exact    map[schema.GroupVersionResource]policy.Resource
	kinds    map[schema.GroupVersionResource]string
	// scalable are the types that have a scale subresource.
	scalable map[schema.GroupVersionResource]bool
	// served are all types, also those that can't be listed or watched.
	served *match.Served
}

// NewCatalog returns a catalog that is empty until it is refreshed; which types stand for clusters it is told.
func NewCatalog(client discovery.DiscoveryInterface, inventories *replication.Inventories) *Catalog {
	c := &Catalog{client: client, inventories: inventories, stale: make(chan struct{}, 1)}
	c.current.Store(&catalog{})
	return c
}

// Subscribe has f called after each refresh that found something else than before. f must be quick and must not call
// Refresh.
func (c *Catalog) Subscribe(f func()) {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	c.subscribers = append(c.subscribers, f)
}

// Invalidate says that what is served has probably changed.
func (c *Catalog) Invalidate() {
	select {
	case c.stale <- struct{}{}:
	default:
	}
}

// NeedLeaderElection says that every replica needs to know what is served.
func (*Catalog) NeedLeaderElection() bool { return false }

// Start keeps the catalog true until ctx ends.
func (c *Catalog) Start(ctx context.Context) error {
	log := ctrllog.FromContext(ctx).WithName("catalog")
	var due []time.Duration
	for {
		wait := refreshPeriod
		if len(due) > 0 {
			wait, due = due[0], due[1:]
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.stale:
			due = discoveryLags
			continue
		case <-time.After(wait):
		}
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Refreshing")
		}
	}
}

// Refresh asks the API server. Groups that don't answer, such as those of an extension API server that is down, are
// left out; what is served besides is known all the same.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	groups, lists, err := discovery.ServerGroupsAndResources(c.client)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return fmt.Errorf("asking the API server what it serves: %w", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	next := newCatalog(groups, lists)
	next.served = servedTypes(groups, lists, partial)
	// The plurals tell when another version became the preferred one.
	if current := c.current.Load(); maps.Equal(current.kinds, next.kinds) && maps.Equal(current.scalable, next.scalable) && maps.EqualFunc(current.byPlural, next.byPlural, slices.Equal) && next.served.Equal(current.served) {
		return nil
	}
	c.current.Store(next)
	for _, f := range c.subscribers {
		f()
	}
	return nil
}

func newCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) *catalog {
	out := &catalog{
		byPlural: map[string][]policy.Resource{},
		exact:    map[schema.GroupVersionResource]policy.Resource{},
		kinds:    map[schema.GroupVersionResource]string{},
		scalable: map[schema.GroupVersionResource]bool{},
	}
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	for _, group := range groups {
		// The group's versions come preferred first; only the first that serves a resource stands for its plural.
		known := map[string]bool{}
		for _, version := range preferredFirst(group) {
			list := byVersion[version]
			if list == nil {
				continue
			}
			gv, err := schema.ParseGroupVersion(version)
			if err != nil {
				continue
			}
			for _, r := range list.APIResources {
				if parent, subresource, _ := strings.Cut(r.Name, "/"); subresource == match.SubresourceScale {
					out.scalable[gv.WithResource(parent)] = true
				}
				if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
					continue
				}
				resource := policy.Resource{GroupVersionResource: gv.WithResource(r.Name), Namespaced: r.Namespaced}
				out.exact[resource.GroupVersionResource] = resource
				out.kinds[resource.GroupVersionResource] = r.Kind
				if !known[r.Name] {
					known[r.Name] = true
					out.byPlural[r.Name] = append(out.byPlural[r.Name], resource)
				}
			}
		}
	}
	return out
}

// servedTypes returns all types that the lists have, and the versions of groups that did not answer.
func servedTypes(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed *discovery.ErrGroupDiscoveryFailed) *match.Served {
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	var types []match.ServedType
	for _, group := range groups {
		for _, version := range preferredFirst(group) {
			gv, err := schema.ParseGroupVersion(version)
			if list := byVersion[version]; err == nil && list != nil {
				types = append(types, typesOf(gv, list.APIResources)...)
			}
		}
	}
	var silent []schema.GroupVersion
	if failed != nil {
		silent = slices.SortedFunc(maps.Keys(failed.Groups), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	}
	return match.NewServed(types, silent...)
}

// typesOf returns the types of a version of a group.
func typesOf(gv schema.GroupVersion, resources []metav1.APIResource) []match.ServedType {
	var out []match.ServedType
	for _, r := range resources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		out = append(out, match.ServedType{
			GroupVersionResource: gv.WithResource(r.Name), Kind: r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames, Namespaced: r.Namespaced,
		})
	}
	return out
}

func preferredFirst(group *metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.GroupVersion}
	for _, v := range group.Versions {
		if v.GroupVersion != group.PreferredVersion.GroupVersion {
			versions = append(versions, v.GroupVersion)
		}
	}
	return versions
}

// ByPlural implements policy.Served.
func (c *Catalog) ByPlural(plural string) []policy.Resource {
	return c.current.Load().byPlural[plural]
}

// Exact implements policy.Served.
func (c *Catalog) Exact(resource schema.GroupVersionResource) (policy.Resource, bool) {
	r, ok := c.current.Load().exact[resource]
	return r, ok
}

// Inventories implements policy.Served.
func (c *Catalog) Inventories() *replication.Inventories { return c.inventories }

// Served returns all types that the API server serves, also those that can't be watched; nil before the first refresh.
func (c *Catalog) Served() *match.Served { return c.current.Load().served }

// Kind returns the kind of a resource type; empty if it is not served.
func (c *Catalog) Kind(resource schema.GroupVersionResource) string {
	return c.current.Load().kinds[resource]
}

// Kinds returns the kinds of the served types that the function selects, in every version.
func (c *Catalog) Kinds(selects func(schema.GroupVersionResource) bool) map[schema.GroupVersionResource]string {
	out := map[schema.GroupVersionResource]string{}
	for resource, kind := range c.current.Load().kinds {
		if selects(resource) {
			out[resource] = kind
		}
	}
	return out
}

// Scalable returns the served types with a scale subresource that the function selects, sorted.
func (c *Catalog) Scalable(selects func(schema.GroupVersionResource) bool) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for resource := range c.current.Load().scalable {
		if selects(resource) {
			out = append(out, resource)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// Select returns the served types that the function selects. Of a resource that is selected in several versions, only
// the group's preferred one among them is returned, so that no object is seen twice.
func (c *Catalog) Select(selects func(schema.GroupVersionResource) bool) []policy.Resource {
	current := c.current.Load()
	var out []policy.Resource
	for _, preferred := range current.byPlural {
		for _, r := range preferred {
			if selects(r.GroupVersionResource) {
				out = append(out, r)
				continue
			}
			var others []policy.Resource
			for other, resource := range current.exact {
				if other.GroupResource() == r.GroupResource() && selects(other) {
					others = append(others, resource)
				}
			}
			if len(others) > 0 {
				out = append(out, slices.MaxFunc(others, compare))
			}
		}
	}
	slices.SortFunc(out, compare)
	return out
}

func compare(a, b policy.Resource) int { return strings.Compare(a.String(), b.String()) }

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
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

var _ policy.ServedTypes = (*Catalog)(nil)

// Catalog has the resource types that the API server serves, as discovery reports them. It is safe for concurrent use.
type Catalog struct {
	discover    discoverFunc
	inventories *replication.Inventories
	stale       notify.Signal           // wakes Start to run discovery
	current     atomic.Pointer[catalog] // the last result of discovery; never nil: an empty catalog before the first
	changes     notify.Topic[struct{}]  // calls the functions of Subscribe

	refresh sync.Mutex // held during Refresh
}

// discoverFunc runs discovery. It returns the groups that the API server serves and the types of each of their versions. A
// *discovery.ErrGroupDiscoveryFailed may come with a result that lacks some groups.
type discoverFunc func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)

// Discovery follows changes of objects with a delay, and an extension API server comes and goes without any change of
// an object. So the catalog runs discovery with discoveryDelays after an invalidation, and every refreshPeriod besides.
var (
	discoveryDelays = []time.Duration{0, time.Second, 4 * time.Second}
	refreshPeriod   = time.Minute
)

// catalog is an immutable result of discovery. A type can be watched if it can be listed and watched.
type catalog struct {
	// byPlural has the types that can be watched, by plural name: one for each group, in the group's most preferred version that serves it.
	byPlural map[string][]policy.Resource
	// watchable has the types that can be watched, in each version.
	watchable map[schema.GroupVersionResource]policy.Resource
	kinds     map[schema.GroupVersionResource]string // the kind of each member of watchable
	// scalable holds the types that have a scale subresource.
	scalable map[schema.GroupVersionResource]bool
	// served has all types, including those that can't be watched, and the groups and versions that did not respond.
	served *match.ServedTypes
}

// NewCatalog returns a catalog that is empty until the first Refresh. inventories is what Inventories returns.
func NewCatalog(client discovery.DiscoveryInterface, inventories *replication.Inventories) *Catalog {
	c := &Catalog{inventories: inventories, stale: notify.NewSignal(), discover: func() ([]*metav1.APIGroup,
		[]*metav1.APIResourceList, error) {
		return discovery.ServerGroupsAndResources(client)
	}}
	c.current.Store(&catalog{})
	return c
}

// NewStaticCatalog returns a catalog of the given types, which Refresh does not change. groups and lists have the form in which discovery
// returns them. inventories is what Inventories returns.
func NewStaticCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, inventories *replication.Inventories) *Catalog {
	c := &Catalog{inventories: inventories, stale: notify.NewSignal(), discover: func() ([]*metav1.APIGroup,
		[]*metav1.APIResourceList, error) {
		return groups, lists, nil
	}}
	c.store(groups, lists, nil)
	return c
}

// Subscribe registers f, which is called after each refresh with another result than before. f must return quickly and must not call
// Refresh.
func (c *Catalog) Subscribe(f func()) { c.changes.Subscribe(func(struct{}) { f() }) }

// Invalidate makes Start refresh the catalog soon, because the served types have probably changed. It does not block.
func (c *Catalog) Invalidate() { c.stale.Notify() }

// NeedLeaderElection returns false: every replica needs the served types.
func (*Catalog) NeedLeaderElection() bool { return false }

// Start refreshes the catalog at intervals, and soon after each call of Invalidate, until ctx ends.
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
			due = discoveryDelays
			continue
		case <-time.After(wait):
		}
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Failed to refresh the list of served types; the earlier list remains until the next try succeeds")
		}
	}
}

// Refresh runs discovery. Groups that do not respond, such as those of an extension API server that is down, lose their types and are no
// error. After an error, the catalog is as before.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	groups, lists, err := c.discover()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return fmt.Errorf("asking the API server what it serves: %w", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.store(groups, lists, partial) {
		c.changes.Publish(struct{}{})
	}
	return nil
}

// store replaces the result of discovery if the new one differs, and reports whether it does. It does not call the functions of Subscribe.
// failed has the groups that did not respond; nil for none.
func (c *Catalog) store(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed *discovery.ErrGroupDiscoveryFailed) bool {
	next := newCatalog(groups, lists, failed)
	// The comparison includes the plurals because they change when another version becomes the preferred one.
	if current := c.current.Load(); current != nil && maps.Equal(current.kinds, next.kinds) && maps.Equal(current.scalable, next.scalable) &&
		maps.EqualFunc(current.byPlural, next.byPlural, slices.Equal) && next.served.Equal(current.served) {
		return false
	}
	c.current.Store(next)
	return true
}

// newCatalog converts a result of discovery. failed has the groups that did not respond; nil for none.
func newCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed *discovery.ErrGroupDiscoveryFailed) *catalog {
	out := &catalog{
		byPlural:  map[string][]policy.Resource{},
		watchable: map[schema.GroupVersionResource]policy.Resource{},
		kinds:     map[schema.GroupVersionResource]string{},
		scalable:  map[schema.GroupVersionResource]bool{},
	}
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	var types []match.ServedType
	for _, group := range groups {
		// The versions are ordered with the preferred one first. The first version that serves a resource represents
		// its plural.
		known := map[string]bool{}
		for _, version := range preferredFirst(group) {
			list := byVersion[version]
			gv, err := schema.ParseGroupVersion(version)
			if list == nil || err != nil {
				continue
			}
			for _, r := range list.APIResources {
				if parent, subresource, isSubresource := strings.Cut(r.Name, "/"); isSubresource {
					if subresource == match.SubresourceScale {
						out.scalable[gv.WithResource(parent)] = true
					}
					continue
				}
				resource := policy.Resource{GroupVersionResource: gv.WithResource(r.Name), Namespaced: r.Namespaced}
				types = append(types, match.ServedType{
					GroupVersionResource: resource.GroupVersionResource, Kind: r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames,
					Namespaced: r.Namespaced,
				})
				if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
					continue
				}
				out.watchable[resource.GroupVersionResource] = resource
				out.kinds[resource.GroupVersionResource] = r.Kind
				if !known[r.Name] {
					known[r.Name] = true
					out.byPlural[r.Name] = append(out.byPlural[r.Name], resource)
				}
			}
		}
	}
	var silent []schema.GroupVersion
	if failed != nil {
		silent = slices.SortedFunc(maps.Keys(failed.Groups), compareText[schema.GroupVersion])
	}
	out.served = match.NewServedTypes(types, silent...)
	return out
}

// preferredFirst returns the versions of a group, as group/version, with the preferred one first.
func preferredFirst(group *metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.GroupVersion}
	for _, v := range group.Versions {
		if v.GroupVersion != group.PreferredVersion.GroupVersion {
			versions = append(versions, v.GroupVersion)
		}
	}
	return versions
}

// ByPlural returns the types that can be watched and have a plural name, one for each group, in the group's most preferred version that
// serves it. They are in the order of groups in discovery; nil if there are none. It implements policy.ServedTypes.
func (c *Catalog) ByPlural(plural string) []policy.Resource {
	return c.current.Load().byPlural[plural]
}

// Namespaced returns the preferred version of a namespaced type. ok is false if the type can't be watched or is cluster-scoped.
func (c *Catalog) Namespaced(t schema.GroupResource) (_ schema.GroupVersionResource, ok bool) {
	for _, r := range c.ByPlural(t.Resource) {
		if r.Group == t.Group && r.Namespaced {
			return r.GroupVersionResource, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// Exact returns a type in one version; ok is false if it can't be watched. It implements policy.ServedTypes.
func (c *Catalog) Exact(resource schema.GroupVersionResource) (_ policy.Resource, ok bool) {
	r, ok := c.current.Load().watchable[resource]
	return r, ok
}

// Inventories returns the types whose objects represent clusters, as the catalog was made with them, also those that are not served. It
// implements policy.ServedTypes.
func (c *Catalog) Inventories() *replication.Inventories { return c.inventories }

// Served returns all types that the API server serves, including those that can't be watched. It returns nil before the
// first refresh.
func (c *Catalog) Served() *match.ServedTypes { return c.current.Load().served }

// Kind returns the kind of a resource type, or "" if the type can't be watched.
func (c *Catalog) Kind(resource schema.GroupVersionResource) string {
	return c.current.Load().kinds[resource]
}

// Kinds returns the kinds of the types that can be watched and for which selects returns true, in every version.
func (c *Catalog) Kinds(selects func(schema.GroupVersionResource) bool) map[schema.GroupVersionResource]string {
	out := map[schema.GroupVersionResource]string{}
	for resource, kind := range c.current.Load().kinds {
		if selects(resource) {
			out[resource] = kind
		}
	}
	return out
}

// Scalable returns, sorted, the served types with a scale subresource for which selects returns true, in every version.
func (c *Catalog) Scalable(selects func(schema.GroupVersionResource) bool) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for resource := range c.current.Load().scalable {
		if selects(resource) {
			out = append(out, resource)
		}
	}
	slices.SortFunc(out, compareText[schema.GroupVersionResource])
	return out
}

// Select returns the types that can be watched and for which selects returns true, each in one version, so that no object is seen twice:
// the group's preferred version if selects returns true for it, otherwise the version of the others whose name sorts last.
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
			for other, resource := range current.watchable {
				if other.GroupResource() == r.GroupResource() && selects(other) {
					others = append(others, resource)
				}
			}
			if len(others) > 0 {
				out = append(out, slices.MaxFunc(others, compareText[policy.Resource]))
			}
		}
	}
	slices.SortFunc(out, compareText[policy.Resource])
	return out
}

// compareText compares two values by their texts.
func compareText[T fmt.Stringer](a, b T) int { return strings.Compare(a.String(), b.String()) }

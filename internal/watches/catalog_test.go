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
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/discovery"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

// discovered is a fake API server for discovery.
type discovered struct {
	discovery.DiscoveryInterface
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	err    error
	asked  atomic.Int64
}

func (d *discovered) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	d.asked.Add(1)
	return d.groups, d.lists, d.err
}

// ServerGroups and ServerResourcesForGroupVersion are the requests of which the library makes ServerGroupsAndResources.
func (d *discovered) ServerGroups() (*metav1.APIGroupList, error) {
	out := &metav1.APIGroupList{}
	for _, g := range d.groups {
		out.Groups = append(out.Groups, *g)
	}
	d.asked.Add(1)
	if d.err != nil && !discovery.IsGroupDiscoveryFailedError(d.err) {
		return nil, d.err
	}
	return out, nil
}

func (d *discovered) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	if partial, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](d.err); ok {
		for failed, err := range partial.Groups {
			if failed.String() == gv {
				return nil, err
			}
		}
	}
	for _, l := range d.lists {
		if l.GroupVersion == gv {
			return l, nil
		}
	}
	return nil, errors.New("not served")
}

func group(name, preferred string, versions ...string) *metav1.APIGroup {
	gv := func(v string) metav1.GroupVersionForDiscovery {
		return metav1.GroupVersionForDiscovery{GroupVersion: schema.GroupVersion{Group: name, Version: v}.String(), Version: v}
	}
	out := &metav1.APIGroup{Name: name, PreferredVersion: gv(preferred)}
	for _, v := range versions {
		out.Versions = append(out.Versions, gv(v))
	}
	return out
}

var readable = metav1.Verbs{"get", "list", "watch"}

func list(gv string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: gv, APIResources: resources}
}

func served(group, version, plural string, namespaced bool) policy.Resource {
	return policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural}, Namespaced: namespaced}
}

func cluster() *discovered {
	return &discovered{
		groups: []*metav1.APIGroup{
			group("", "v1", "v1"), group("metrics.k8s.io", "v1beta1", "v1beta1"), group("shop.example", "v1", "v2alpha1", "v1"), group("events.k8s.io", "v1", "v1"),
		},
		lists: []*metav1.APIResourceList{
			list("v1",
				metav1.APIResource{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: readable},
				metav1.APIResource{Name: "pods/status", Kind: "Pod", Namespaced: true, Verbs: readable},
				metav1.APIResource{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
				metav1.APIResource{Name: "componentstatuses", Kind: "ComponentStatus", Verbs: metav1.Verbs{"get", "list"}},
				metav1.APIResource{Name: "events", Kind: "Event", Namespaced: true, Verbs: readable},
				metav1.APIResource{Name: "nodes", Kind: "Node", Verbs: readable}),
			list("metrics.k8s.io/v1beta1", metav1.APIResource{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}),
			list("shop.example/v2alpha1",
				metav1.APIResource{Name: "carts", Kind: "Cart", Namespaced: true, Verbs: readable},
				metav1.APIResource{Name: "wishes", Kind: "Wish", Verbs: readable}),
			list("shop.example/v1", metav1.APIResource{Name: "carts", Kind: "Cart", Namespaced: true, Verbs: readable}),
			list("events.k8s.io/v1", metav1.APIResource{Name: "events", Kind: "Event", Namespaced: true, Verbs: readable}),
		},
	}
}

func TestCatalog(t *testing.T) {
	c := NewCatalog(cluster(), replication.Known())
	if got := c.ByPlural("pods"); got != nil {
		t.Errorf("before the first refresh: %v", got)
	}
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	tests := map[string][]policy.Resource{
		// A type that can't be watched does not make the name of one that can ambiguous.
		"pods":              {served("", "v1", "pods", true)},
		"nodes":             {served("", "v1", "nodes", false)},
		"events":            {served("", "v1", "events", true), served("events.k8s.io", "v1", "events", true)},
		"carts":             {served("shop.example", "v1", "carts", true)},
		"wishes":            {served("shop.example", "v2alpha1", "wishes", false)},
		"bindings":          nil,
		"componentstatuses": nil,
		"pods/status":       nil,
		"nothing":           nil,
	}
	for plural, want := range tests {
		if diff := cmp.Diff(want, c.ByPlural(plural)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", plural, diff)
		}
	}
	for _, r := range []policy.Resource{served("shop.example", "v1", "carts", true), served("shop.example", "v2alpha1", "carts", true)} {
		if got, ok := c.Exact(r.GroupVersionResource); !ok || got != r {
			t.Errorf("Exact(%v) = %v, %t", r, got, ok)
		}
		if got := c.Kind(r.GroupVersionResource); got != "Cart" {
			t.Errorf("kind %q", got)
		}
	}
	if _, ok := c.Exact(served("metrics.k8s.io", "v1beta1", "pods", true).GroupVersionResource); ok {
		t.Error("metrics can be watched")
	}
	all := c.Select(func(r schema.GroupVersionResource) bool { return r.Group == "shop.example" })
	if len(all) == 0 {
		t.Error("nothing is selected")
	}
}

func TestCatalogWithoutAGroup(t *testing.T) {
	server := cluster()
	server.err = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1beta1"}: errors.New("down")}}
	c := NewCatalog(server, replication.Known())
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.ByPlural("nodes"); len(got) != 1 {
		t.Errorf("nodes: %v", got)
	}
	// If the server does not respond at all, the catalog remains as it was.
	server.err = errors.New("connection refused")
	if err := c.Refresh(t.Context()); err == nil {
		t.Error("no error")
	}
	if got := c.ByPlural("nodes"); len(got) != 1 {
		t.Errorf("nodes: %v", got)
	}
}

func TestCatalogTellsOfChanges(t *testing.T) {
	server := cluster()
	c := NewCatalog(server, replication.Known())
	told := 0
	c.Subscribe(func() { told++ })
	for range 3 {
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if told != 1 {
		t.Errorf("told %d times of one state", told)
	}
	server.groups = append(server.groups, group("new.example", "v1", "v1"))
	server.lists = append(server.lists, list("new.example/v1", metav1.APIResource{Name: "things", Kind: "Thing", Verbs: readable}))
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if told != 2 || len(c.ByPlural("things")) != 1 {
		t.Errorf("told %d times; things: %v", told, c.ByPlural("things"))
	}
}

// TestCatalogKnowsScales checks that a type that gains or loses its scale subresource is a change.
func TestCatalogKnowsScales(t *testing.T) {
	server := cluster()
	c := NewCatalog(server, replication.Known())
	told := 0
	c.Subscribe(func() { told++ })
	scalable := func() []schema.GroupVersionResource {
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.Scalable(func(r schema.GroupVersionResource) bool { return r.Version == "v1" })
	}
	if got := scalable(); len(got) != 0 {
		t.Errorf("scalable before: %v", got)
	}
	scale := metav1.APIResource{Name: "carts/scale", Kind: "Scale", Group: "autoscaling", Version: "v1", Verbs: metav1.Verbs{"get", "patch", "update"}}
	for _, l := range server.lists {
		if strings.HasPrefix(l.GroupVersion, "shop.example/") {
			l.APIResources = append(l.APIResources, scale)
		}
	}
	want := []schema.GroupVersionResource{{Group: "shop.example", Version: "v1", Resource: "carts"}}
	if diff := cmp.Diff(want, scalable()); diff != "" {
		t.Errorf("scalable (-want +got):\n%s", diff)
	}
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// TestCatalogTellsOfPreferredVersions checks that another preferred version is a change, because a reference without a
// group is bound to the preferred version.
func TestCatalogTellsOfPreferredVersions(t *testing.T) {
	server := cluster()
	c := NewCatalog(server, replication.Known())
	told := 0
	c.Subscribe(func() { told++ })
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.groups[2] = group("shop.example", "v2alpha1", "v2alpha1", "v1")
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.ByPlural("carts"); len(got) != 1 || got[0].Version != "v2alpha1" || told != 2 {
		t.Errorf("carts: %v; told %d times", got, told)
	}
}

func TestCatalogFollowsInvalidations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := cluster()
		c := NewCatalog(server, replication.Known())
		done := make(chan error, 1)
		go func() { done <- c.Start(ctx) }()
		synctest.Wait()
		c.Invalidate()
		c.Invalidate()
		<-time.After(30 * time.Second)
		synctest.Wait()
		asked := server.asked.Load()
		if asked < 3 || asked > 8 {
			t.Errorf("asked %d times after an invalidation", asked)
		}
		<-time.After(2 * refreshPeriod)
		synctest.Wait()
		if server.asked.Load() == asked {
			t.Error("never asked without an invalidation")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestCatalogServed checks that Served contains types that can't be watched, and that types of a group that does not
// respond are unknown.
func TestCatalogServed(t *testing.T) {
	from := cluster()
	c := NewCatalog(from, replication.Known())
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := 0
	c.Subscribe(func() { told++ })
	judge := func(group, version, resource string) match.Coverage {
		m, _ := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource},
		}}}, field.NewPath("match"))
		return m.Coverage(c.Served(), field.NewPath("match"), "")
	}
	for _, r := range [][3]string{{"", "v1", "bindings"}, {"", "v1", "componentstatuses"}, {"shop.example", "v2alpha1", "wishes"}} {
		if !judge(r[0], r[1], r[2]).Covered {
			t.Errorf("%v is not served", r)
		}
	}
	for _, r := range [][3]string{{"", "v1", "pods/status"}, {"shop.example", "v1", "wishes"}, {"", "v1", "carts"}} {
		if judge(r[0], r[1], r[2]).Covered {
			t.Errorf("%v is served", r)
		}
	}
	from.lists[0].APIResources = append(from.lists[0].APIResources, metav1.APIResource{Name: "reviews", Kind: "Review", Verbs: metav1.Verbs{"create"}})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if told != 1 || !judge("", "v1", "reviews").Covered {
		t.Errorf("told %d times of a type that can only be created", told)
	}
}

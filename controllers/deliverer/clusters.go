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

package deliverer

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*clusters)(nil)

// clusters holds which objects of the inventories represent which clusters. It is safe for concurrent use.
type clusters struct {
	// changed is called when the objects of a cluster changed.
	changed func()

	mu sync.Mutex
	// tables have the cluster that each object of a type represents. The claims have no manager.
	tables map[schema.GroupVersionResource]map[replication.Claim]member
	// known is the result of claims; nil after a change.
	known replication.Claims
}

// member is a cluster that an object represents. ready, and leaving, which reports whether the object is being deleted, are only known of
// types that are read with memberFields. manager is that of the replication.Claim.
type member struct {
	cluster, manager string
	ready, leaving   bool
}

func newClusters(changed func()) *clusters {
	return &clusters{changed: changed, tables: map[schema.GroupVersionResource]map[replication.Claim]member{}}
}

// clusterFields are the fields of prepared objects that are read: the names of clusters and their managers. memberFields also say whether
// they are ready, and whether they are being deleted.
var (
	clusterFields = replication.NormalFields(projection.Fields("name", replication.ManagerField))
	memberFields  = replication.NormalFields(projection.Fields("name", replication.ManagerField, "ready", "terminating"))
)

// claims returns the objects of each cluster. The caller must not change them.
func (c *clusters) claims() replication.Claims {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = replication.Claims{}
		for _, table := range c.tables {
			for claim, represented := range table {
				claim.Manager = represented.manager
				c.known.Add(represented.cluster, claim)
			}
		}
	}
	return c.known
}

// gone returns those of the clusters that no object represents any more. An object that is derived from one of an inventory does not
// represent the cluster without it. All inventories must have been read.
func (c *clusters) gone(inventory schema.GroupResource, names []string) []string {
	claims := c.claims()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(claims[name], func(claim replication.Claim) bool {
			of, derived := claim.DerivedFrom()
			return !derived || of.Resource != inventory || slices.Contains(claims[name], of)
		})
	})
}

// isReady reports whether an object of a type represents a cluster and is ready.
func (c *clusters) isReady(resource schema.GroupVersionResource, cluster string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The objects of these types have the names of their clusters.
	return c.tables[resource][replication.Claim{Resource: resource.GroupResource(), Name: cluster}].ready
}

// leaving returns those of the clusters that an object of an inventory represents which is being deleted.
func (c *clusters) leaving(inventory schema.GroupResource, names []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for resource, table := range c.tables {
		if resource.GroupResource() != inventory {
			continue
		}
		// The objects of these types have the names of their clusters.
		for _, name := range names {
			if table[replication.Claim{Resource: inventory, Name: name}].leaving {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// read returns the identity of a prepared object, and the cluster that it represents; the zero value if it represents none.
func read(resource schema.GroupVersionResource, o *unstructured.Unstructured) (replication.Claim, member) {
	_, normal := replication.Parts(o.Object)
	var out member
	out.cluster, _ = normal["name"].(string)
	out.manager = replication.ClaimOf(resource.GroupResource(), "", "", normal).Manager
	out.ready, _ = normal["ready"].(bool)
	out.leaving, _ = normal["terminating"].(bool)
	return replication.Claim{Resource: resource.GroupResource(), Namespace: o.GetNamespace(), Name: o.GetName()}, out
}

// Replace implements watches.Sink.
func (c *clusters) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	next := map[replication.Claim]member{}
	for _, o := range objects {
		if claim, represented := read(resource, o); represented.cluster != "" {
			next[claim] = represented
		}
	}
	c.mu.Lock()
	differs := !maps.Equal(c.tables[resource], next)
	c.tables[resource] = next
	c.unlock(differs)
}

// Put implements watches.Sink.
func (c *clusters) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	claim, represented := read(resource, o)
	c.set(resource, claim, represented)
}

// Delete implements watches.Sink.
func (c *clusters) Delete(resource schema.GroupVersionResource, namespace, name string) {
	c.set(resource, replication.Claim{Resource: resource.GroupResource(), Namespace: namespace, Name: name}, member{})
}

// set records the cluster that an object of a type represents; the zero value for none.
func (c *clusters) set(resource schema.GroupVersionResource, claim replication.Claim, represented member) {
	c.mu.Lock()
	table := c.tables[resource]
	differs := table != nil && table[claim] != represented
	switch {
	case !differs:
	case represented.cluster == "":
		delete(table, claim)
	default:
		table[claim] = represented
	}
	c.unlock(differs)
}

// Drop implements watches.Sink.
func (c *clusters) Drop(resource schema.GroupVersionResource) {
	c.mu.Lock()
	differs := len(c.tables[resource]) > 0
	delete(c.tables, resource)
	c.unlock(differs)
}

// unlock unlocks mu, and notifies of a difference.
func (c *clusters) unlock(differs bool) {
	if differs {
		c.known = nil
	}
	c.mu.Unlock()
	if differs {
		c.changed()
	}
}

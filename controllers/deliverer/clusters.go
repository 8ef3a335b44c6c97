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
	// changed is called when an object of an inventory is added, changed, or deleted, or a watch on an inventory ends.
	changed func()

	mu sync.Mutex
	// tables have, by type and object, the cluster that the object represents, without objects that represent none. The claims, which identify
	// the objects, have no manager.
	tables map[schema.GroupVersionResource]map[replication.Claim]member
	// known is the last result of claims; nil if tables changed since.
	known replication.Claims
}

// member is what an object of an inventory says of the cluster that it represents: its name, its cluster manager, and whether it is ready
// or is being deleted.
type member struct {
	cluster string // The name of the cluster; empty if the object represents none.
	manager string // The cluster manager that a ClusterProfile names; "" for objects of other types.
	ready   bool   // Whether the cluster is ready; false if the type is not read with memberFields.
	leaving bool   // Whether the object is being deleted; false if the type is not read with memberFields.
}

func newClusters(changed func()) *clusters {
	return &clusters{changed: changed, tables: map[schema.GroupVersionResource]map[replication.Claim]member{}}
}

// clusterFields are the fields of prepared objects that are read: the names of clusters and their managers. memberFields also have whether
// the clusters are ready, and whether the objects are being deleted.
var (
	clusterFields = replication.NormalFields(projection.Fields("name", replication.ManagerField))
	memberFields  = replication.NormalFields(projection.Fields("name", replication.ManagerField, "ready", "terminating"))
)

// claims returns the objects that represent each cluster. The caller must not change the result.
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

// gone returns the names of clusters, among names, that no object represents any more. An object that is derived from one of the type
// inventory does not count if the latter no longer exists. All inventories must have been read.
func (c *clusters) gone(inventory schema.GroupResource, names []string) []string {
	claims := c.claims()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(claims[name], func(claim replication.Claim) bool {
			of, derived := claim.DerivedFrom()
			return !derived || of.Resource != inventory || slices.Contains(claims[name], of)
		})
	})
}

// isReady reports whether an object of a type represents the cluster with a name, and says that the cluster is ready.
func (c *clusters) isReady(resource schema.GroupVersionResource, cluster string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The objects of these types have the names of their clusters.
	return c.tables[resource][replication.Claim{Resource: resource.GroupResource(), Name: cluster}].ready
}

// leaving returns the names of clusters, among names, whose object in the inventory is being deleted, sorted.
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

// read returns the identity of an inventory's object, which is its type, namespace, and name, and what the object says of its cluster: the
// name, the cluster manager, and whether it is ready or being deleted. The object is in its normal form.
func read(resource schema.GroupVersionResource, o *unstructured.Unstructured) (replication.Claim, member) {
	_, normal := replication.Parts(o.Object)
	var out member
	out.cluster, _ = normal["name"].(string)
	out.manager = replication.ClaimOf(resource.GroupResource(), "", "", normal).Manager
	out.ready, _ = normal["ready"].(bool)
	out.leaving, _ = normal["terminating"].(bool)
	return replication.Claim{Resource: resource.GroupResource(), Namespace: o.GetNamespace(), Name: o.GetName()}, out
}

// Replace implements watches.Sink: objects are all of an inventory, in place of those before.
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

// Put implements watches.Sink: it records which cluster an object of an inventory represents.
func (c *clusters) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	claim, represented := read(resource, o)
	c.set(resource, claim, represented)
}

// Delete implements watches.Sink: a deleted object of an inventory represents no cluster any more.
func (c *clusters) Delete(resource schema.GroupVersionResource, namespace, name string) {
	c.set(resource, replication.Claim{Resource: resource.GroupResource(), Namespace: namespace, Name: name}, member{})
}

// set records the cluster that the object with the identity claim represents; the zero value for none, or for a deleted object. It calls
// changed if that differs from before. It does nothing while the objects of the type are not known. The caller must not hold mu.
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

// Drop implements watches.Sink: it drops all objects of an inventory that is no longer watched or available.
func (c *clusters) Drop(resource schema.GroupVersionResource) {
	c.mu.Lock()
	differs := len(c.tables[resource]) > 0
	delete(c.tables, resource)
	c.unlock(differs)
}

// unlock unlocks mu. If tables changed, it drops the result of claims and calls changed.
func (c *clusters) unlock(differs bool) {
	if differs {
		c.known = nil
	}
	c.mu.Unlock()
	if differs {
		c.changed()
	}
}

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

package simulation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
)

// Cached is a cluster that keeps what was read of another one, so that several simulations see the same state and read each list only once.
type Cached struct {
	Cluster

	mu       sync.Mutex
	policies []placementv1.PlacementPolicy              // nil until they are read
	lists    map[schema.GroupVersionResource]cachedList // the lists that were read
	gets     map[objectKey]*unstructured.Unstructured   // the objects that Get found, at most maxGets; none that does not exist
}

// objectKey identifies an object.
type objectKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// maxGets is the maximum number of objects that a Cached keeps of those that were read one by one, with Get. Before it keeps another one,
// it drops all of them.
const maxGets = 1000

// cachedList has all objects of a type as they were read, and says which of their fields it has.
type cachedList struct {
	fields  *projection.FieldSet // the fields that the objects have; nil for all
	objects []*unstructured.Unstructured
}

// NewCached returns a cluster that caches what it reads from another one.
func NewCached(c Cluster) *Cached {
	return &Cached{Cluster: c, lists: map[schema.GroupVersionResource]cachedList{}, gets: map[objectKey]*unstructured.Unstructured{}}
}

// Policies returns all PlacementPolicies as they were when they were first read.
func (c *Cached) Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policies != nil {
		return c.policies, nil
	}
	var err error
	c.policies, err = c.Cluster.Policies(ctx)
	return c.policies, err
}

// List returns all objects of a type as they were when they were first read. It reads a type again if fields are needed that the cached
// objects lack.
func (c *Cached) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured,
	error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.lists[resource]
	if ok && (known.fields == nil || fields != nil && known.fields.Covers(fields)) {
		return known.objects, nil
	}
	if ok && fields != nil {
		fields = projection.Union(known.fields, fields)
	}
	objects, err := c.Cluster.List(ctx, resource, fields)
	if err != nil {
		return nil, err
	}
	c.lists[resource] = cachedList{fields, objects}
	return objects, nil
}

// Get returns an object, or nil if there is none. It returns the same object each time, unless about maxGets others were read meanwhile.
// For an object that does not exist, it asks the other cluster again each time.
func (c *Cached) Get(ctx context.Context, resource schema.GroupVersionResource, namespace,
	name string) (*unstructured.Unstructured, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := objectKey{resource, namespace, name}
	if known, ok := c.gets[key]; ok {
		return known, nil
	}
	obj, err := c.Cluster.Get(ctx, resource, namespace, name)
	if err != nil || obj == nil {
		return obj, err
	}
	if len(c.gets) >= maxGets {
		clear(c.gets)
	}
	c.gets[key] = obj
	return obj, nil
}

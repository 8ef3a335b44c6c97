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
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
)

// awaited are the placed objects that get no status before policies have decided them. It is safe for concurrent use. The zero value is
// empty.
type awaited struct {
	mu sync.Mutex
	// keys has the objects by each version of their type in which they are read, and read is the reverse.
	keys map[name]delivery.Key
	read map[delivery.Key][]name
}

// add adds an object that is read in some versions of its type.
func (a *awaited) add(key delivery.Key, resources []schema.GroupVersionResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys, a.read = map[name]delivery.Key{}, map[delivery.Key][]name{}
	}
	for _, resource := range resources {
		id := name{resource, key.Namespace, key.Name}
		a.keys[id] = key
		a.read[key] = append(a.read[key], id)
	}
}

// remove removes an object.
func (a *awaited) remove(key delivery.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range a.read[key] {
		delete(a.keys, id)
	}
	delete(a.read, key)
}

// of returns the object that is read by a name. ok is false if it is not awaited.
func (a *awaited) of(id name) (key delivery.Key, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, ok = a.keys[id]
	return key, ok
}

// awaitsDecision reports whether an object must not get a status that lets clusters start it: its clusters are those of an earlier decision, or
// it is not known yet whether they are. Then ObjectDecided enqueues it.
func (c *Controller) awaitsDecision(key delivery.Key, n *need) bool {
	// A decision after this is not missed.
	c.awaited.add(key, n.resources)
	if c.Undecided(n.decidedBy, key.Namespace, key.Name, n.resources...) ||
		slices.ContainsFunc(n.resources, func(r schema.GroupVersionResource) bool { return c.Misplaced(r, key.Namespace, key.Name) }) {
		return true
	}
	c.awaited.remove(key)
	return false
}

// ObjectDecided enqueues an object if it waits for the decision that policies have just made.
func (c *Controller) ObjectDecided(resource schema.GroupVersionResource, namespace, objectName string) {
	if key, ok := c.awaited.of(name{resource, namespace, objectName}); ok {
		c.enqueue(key)
	}
}

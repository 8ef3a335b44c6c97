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

// Package weakcache shares values that are costly to create among concurrent users.
package weakcache

import (
	"crypto/sha256"
	"encoding/json"
	"runtime"
	"sync"
	"weak"

	"golang.org/x/sync/singleflight"
)

// Cache holds values by key only for as long as other code holds them. It has no configurable size, and it never evicts
// a value that is in use. The zero value is ready to use. A Cache is safe for concurrent use.
//
// Values must not be changed. They must not be reachable from memory that is never collected, such as a global map.
type Cache[V any] struct {
	mu      sync.RWMutex
	entries map[string]weak.Pointer[V]
	making  singleflight.Group // joins concurrent calls of make for one key
}

// Get returns the value of a key. If no other code holds one, it calls make, once for all concurrent callers of the key. They also share an
// error, which is not cached.
func (c *Cache[V]) Get(key string, make func() (*V, error)) (*V, error) {
	if v := c.find(key); v != nil {
		return v, nil
	}
	shared, err, _ := c.making.Do(key, func() (any, error) {
		// Another call may have created the value in the meantime.
		if v := c.find(key); v != nil {
			return v, nil
		}
		v, err := make()
		if err != nil {
			return nil, err
		}
		c.put(key, v)
		return v, nil
	})
	v, _ := shared.(*V)
	return v, err
}

// Key returns a key for values: the 32 bytes of the SHA-256 hash of their JSON, which are not printable. Values that can't be written as
// JSON are an error.
func Key(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return string(sum[:]), nil
}

// Len returns the number of entries. An entry may remain for a short time after its value was garbage-collected.
func (c *Cache[V]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}

// find returns the value of a key, or nil if no other code holds one.
func (c *Cache[V]) find(key string) *V {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[key].Value()
}

// put sets the value of a key until the value is garbage-collected.
func (c *Cache[V]) put(key string, v *V) {
	pointer := weak.Make(v)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]weak.Pointer[V]{}
	}
	c.entries[key] = pointer
	runtime.AddCleanup(v, func(pointer weak.Pointer[V]) {
		c.mu.Lock()
		defer c.mu.Unlock()
		// The key may have a newer value by now.
		if c.entries[key] == pointer {
			delete(c.entries, key)
		}
	}, pointer)
}

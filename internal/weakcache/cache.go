// Package weakcache shares values that are costly to make among those who use them at the same time.
package weakcache

import (
	"runtime"
	"sync"
	"weak"

	"golang.org/x/sync/singleflight"
)

// Cache holds values by key for as long as somebody else holds them, and not longer: it has no size to be chosen, and
// evicts nothing that is in use. The zero value is ready to use; it is safe for concurrent use.
//
// Values must not be changed, and must not refer to themselves by anything that is never collected, such as a map that
// nobody clears.
type Cache[V any] struct {
	mu      sync.RWMutex
	entries map[string]weak.Pointer[V]
	making  singleflight.Group
}

// Get returns the key's value; if nobody holds one it is made, once for all who ask meanwhile. An error is theirs too,
// and is not kept.
func (c *Cache[V]) Get(key string, make func() (*V, error)) (*V, error) {
	if v := c.find(key); v != nil {
		return v, nil
	}
	shared, err, _ := c.making.Do(key, func() (any, error) {
		// Somebody may have made it since.
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

// Len returns the number of values that are held, and of those that are gone and not cleared away yet.
func (c *Cache[V]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}

func (c *Cache[V]) find(key string) *V {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[key].Value()
}

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
		// The key may have another value by now.
		if c.entries[key] == pointer {
			delete(c.entries, key)
		}
	}, pointer)
}

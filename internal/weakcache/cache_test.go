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

package weakcache_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth/internal/weakcache"
)

type value struct{ text string }

func of(text string) func() (*value, error) {
	return func() (*value, error) { return &value{text}, nil }
}

func get(t *testing.T, c *weakcache.Cache[value], key, text string) *value {
	t.Helper()
	v, err := c.Get(key, of(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSharedWhileInUse(t *testing.T) {
	c := &weakcache.Cache[value]{}
	a := get(t, c, "a", "first")
	b := get(t, c, "b", "second")
	runtime.GC()
	if again := get(t, c, "a", "third"); again != a {
		t.Errorf("got %q for a value that is in use", again.text)
	}
	if again := get(t, c, "b", "third"); again != b {
		t.Errorf("got %q for a value that is in use", again.text)
	}
}

// TestGoneWithItsUsers checks that an unused value is released together with its key.
func TestGoneWithItsUsers(t *testing.T) {
	c := &weakcache.Cache[value]{}
	kept := get(t, c, "kept", "kept")
	for i := range 100 {
		get(t, c, fmt.Sprint(i), "x")
	}
	// A cleanup runs some time after the garbage collection that frees its value.
	for range 1000 {
		runtime.GC()
		if c.Len() == 1 {
			break
		}
	}
	if n := c.Len(); n != 1 {
		t.Errorf("%d values are kept, of which one is in use", n)
	}
	if v := get(t, c, "0", "anew"); v.text != "anew" {
		t.Errorf("value %q has come back", v.text)
	}
	runtime.KeepAlive(kept)
}

func TestMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &weakcache.Cache[value]{}
		release := make(chan struct{})
		var made int
		values := make([]*value, 8)
		var all sync.WaitGroup
		for i := range values {
			all.Go(func() {
				values[i], _ = c.Get("a", func() (*value, error) {
					made++
					<-release
					return of("a")()
				})
			})
		}
		synctest.Wait()
		// Calls for other keys do not wait for it.
		get(t, c, "b", "b")
		close(release)
		all.Wait()
		if made != 1 {
			t.Errorf("made %d times", made)
		}
		for _, v := range values {
			if v != values[0] {
				t.Error("two who asked at the same time have different values")
			}
		}
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	c := &weakcache.Cache[value]{}
	broken := errors.New("broken")
	if _, err := c.Get("a", func() (*value, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if v := get(t, c, "a", "whole"); v.text != "whole" || c.Len() != 1 {
		t.Errorf("got %v after an error", v)
	}
}

func TestKey(t *testing.T) {
	keyOf := func(values ...any) string {
		key, err := weakcache.Key(values...)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	if first, second := keyOf("a", "b"), keyOf("a", "b"); first != second || first == keyOf("ab") || keyOf("a") == keyOf([]string{"a"}) {
		t.Error("keys are not those of the values")
	}
	if _, err := weakcache.Key(make(chan int)); err == nil {
		t.Error("a value that can't be written as JSON has a key")
	}
}

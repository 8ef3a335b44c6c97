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

package notify_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/berth-dev/berth/internal/notify"
)

// TestTopicKeepsOrder checks that subscribers are called in the order of subscription, each with every event from then
// on.
func TestTopicKeepsOrder(t *testing.T) {
	var topic notify.Topic[string]
	var got []string
	topic.Publish("before")
	topic.Subscribe(func(e string) { got = append(got, "first "+e) })
	topic.Publish("a")
	topic.Subscribe(func(e string) { got = append(got, "second "+e) })
	topic.Publish("b")
	topic.Publish("c")
	want := []string{"first a", "first b", "second b", "first c", "second c"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTopicHoldsNoLock checks that a subscriber may publish and subscribe.
func TestTopicHoldsNoLock(t *testing.T) {
	var topic notify.Topic[int]
	var got []int
	topic.Subscribe(func(e int) {
		got = append(got, e)
		if e > 0 {
			topic.Subscribe(func(e int) { got = append(got, -e) })
			topic.Publish(e - 1)
		}
	})
	topic.Publish(1)
	if want := []int{1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTopicIsSafe checks that goroutines may subscribe and publish at the same time.
func TestTopicIsSafe(t *testing.T) {
	var topic notify.Topic[int]
	var mu sync.Mutex
	sum := 0
	topic.Subscribe(func(e int) {
		mu.Lock()
		defer mu.Unlock()
		sum += e
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			topic.Subscribe(func(int) {})
			topic.Publish(1)
		})
	}
	wg.Wait()
	if sum != 8 {
		t.Errorf("%d events arrived, want 8", sum)
	}
}

// TestSignalMerges checks that notifications are merged until one is received, and that none blocks.
func TestSignalMerges(t *testing.T) {
	s := notify.NewSignal()
	s.Notify()
	s.Notify()
	<-s
	select {
	case <-s:
		t.Error("two notifications were not merged")
	default:
	}
	s.Notify()
	<-s
}

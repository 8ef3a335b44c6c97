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

package policyloader

import (
	"context"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// slowReader is a cache in which each list waits until the test provides its result.
type slowReader struct {
	client.Reader
	lists chan chan []string
}

func (r *slowReader) List(ctx context.Context, out client.ObjectList, _ ...client.ListOption) error {
	answer := make(chan []string)
	r.lists <- answer
	select {
	case <-ctx.Done():
		return ctx.Err()
	case names := <-answer:
		list := out.(*placementv1.PlacementPolicyList)
		for _, name := range names {
			list.Items = append(list.Items, placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return nil
	}
}

// start runs f in a goroutine. It returns the channel of f's result, and the list for which f waits.
func start[T any](r *slowReader, f func() T) (result chan T, list chan []string) {
	result = make(chan T, 1)
	go func() { result <- f() }()
	return result, <-r.lists
}

func TestLoadedWaitsForNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{lists: make(chan chan []string)}
		c := &Controller{Deps: Deps{Policies: r}}
		loaded := func(ctx context.Context) func() bool { return func() bool { return c.Loaded(ctx) } }

		slow, list := start(r, loaded(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		impatient, _ := start(r, loaded(ctx))
		cancel()
		if <-impatient {
			t.Error("loaded, although nothing was listed")
		}
		// This call returns immediately, while the first one still waits.
		quick, answer := start(r, loaded(t.Context()))
		answer <- nil
		if !<-quick {
			t.Error("not loaded, although there are no policies")
		}
		list <- nil
		if !<-slow {
			t.Error("not loaded any more")
		}
	})
}

// TestLoadedOnce checks that a replica is loaded once all listed policies are, and that an older list that ends later changes nothing.
func TestLoadedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{lists: make(chan chan []string)}
		c := &Controller{Deps: Deps{Policies: r}}
		loaded := func() bool { return c.Loaded(t.Context()) }
		late, lateList := start(r, loaded)
		c.entries.Store("a", entry{uid: "a"})
		for _, want := range []bool{false, true} {
			got, list := start(r, loaded)
			list <- []string{"a", "b"}
			if <-got != want {
				t.Errorf("loaded is %t, want %t", !want, want)
			}
			c.entries.Store("b", entry{uid: "b"})
		}
		lateList <- []string{"a", "c"}
		if !<-late || !c.Loaded(t.Context()) {
			t.Error("not loaded any more")
		}
	})
}

func TestNotLoadedAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{lists: make(chan chan []string)}
		c := &Controller{Deps: Deps{Policies: r}}
		ctx, cancel := context.WithCancel(t.Context())
		failing, _ := start(r, func() bool { return c.Loaded(ctx) })
		cancel()
		if <-failing {
			t.Error("loaded, although the list failed")
		}
	})
}

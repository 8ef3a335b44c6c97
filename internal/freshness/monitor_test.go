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

package freshness

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/restore"
)

func policy(name string, uid types.UID, generation int64) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Generation: generation}}
}

type versions = map[string]placement.LoadedVersion

func TestBehind(t *testing.T) {
	live := []metav1.PartialObjectMetadata{policy("a", "1", 2), policy("b", "2", 5)}
	all := versions{"a": {UID: "1", Generation: 2}, "b": {UID: "2", Generation: 5}}
	with := func(name string, l placement.LoadedVersion) versions {
		out := versions{"a": all["a"], "b": all["b"]}
		out[name] = l
		return out
	}
	tests := map[string]struct {
		before, now versions
		behind      bool
	}{
		"everything is loaded":                     {all, all, false},
		"it was loaded meanwhile":                  {versions{}, all, false},
		"nothing is loaded":                        {versions{}, versions{}, true},
		"one is not loaded":                        {versions{"a": all["a"]}, versions{"a": all["a"]}, true},
		"an older version":                         {with("b", placement.LoadedVersion{UID: "2", Generation: 4}), with("b", placement.LoadedVersion{UID: "2", Generation: 4}), true},
		"one that was deleted and created again":   {with("b", placement.LoadedVersion{UID: "0", Generation: 5}), with("b", placement.LoadedVersion{UID: "0", Generation: 5}), true},
		"a newer version came meanwhile":           {all, with("b", placement.LoadedVersion{UID: "2", Generation: 6}), false},
		"a version that the store went back from":  {with("b", placement.LoadedVersion{UID: "2", Generation: 6}), with("b", placement.LoadedVersion{UID: "2", Generation: 6}), true},
		"one that is deleted":                      {with("c", placement.LoadedVersion{UID: "3", Generation: 1}), with("c", placement.LoadedVersion{UID: "3", Generation: 1}), true},
		"one that was created meanwhile":           {all, with("c", placement.LoadedVersion{UID: "3", Generation: 1}), false},
		"one that was created again meanwhile too": {all, with("b", placement.LoadedVersion{UID: "4", Generation: 1}), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := behind(live, test.before, test.now); (err != nil) != test.behind {
				t.Errorf("got %v, want behind %t", err, test.behind)
			}
		})
	}
}

// server is a fake API server with one policy. It can delay its responses or never respond.
type server struct {
	client.Reader
	version, asked atomic.Int64
	generation     atomic.Int64
	silent         atomic.Bool
}

func (s *server) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.asked.Add(1)
	generation, version := s.generation.Load(), s.version.Load()
	if s.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	out, _ := list.(*metav1.PartialObjectMetadataList)
	out.ResourceVersion = strconv.FormatInt(version, 10)
	out.Items = []metav1.PartialObjectMetadata{policy("a", "1", generation)}
	return nil
}

func fixture(bound time.Duration) (*Monitor, *server, *placement.Registry) {
	s, r := &server{}, placement.NewRegistry()
	s.version.Store(100)
	s.generation.Store(1)
	load(r, 1)
	compare := func(first, second string) error { return restore.NewDetector().Compare(restore.Served, first, second) }
	return New(Options{Live: s, Registry: r, Bound: bound, Compare: compare}), s, r
}

func load(r *placement.Registry, generation int64) {
	r.Set("a", &placement.PolicyState{Policy: &placement.Policy{Name: "a"}, Loaded: placement.LoadedVersion{UID: "1", Generation: generation}})
}

// TestConfirmShares checks that concurrent calls share a request, and never one that began before the call.
func TestConfirmShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, r := fixture(20 * time.Second)
		results := make(chan error, 101)
		go func() { results <- m.Confirm(t.Context()) }()
		synctest.Wait()
		s.generation.Store(2)
		for range 100 {
			go func() { results <- m.Confirm(t.Context()) }()
		}
		failed := 0
		for range 101 {
			if <-results != nil {
				failed++
			}
		}
		if failed != 100 || s.asked.Load() != 2 {
			t.Errorf("%d of 101 calls failed, by %d requests; want 100 by 2", failed, s.asked.Load())
		}
		// Confirm waits for a policy that is being loaded.
		go func() { results <- m.Confirm(t.Context()) }()
		<-time.After(300 * time.Millisecond)
		load(r, 2)
		if err := <-results; err != nil {
			t.Error(err)
		}
	})
}

func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, r := fixture(20 * time.Second)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Start(ctx) }()
		expect := func(what string, current bool) {
			t.Helper()
			synctest.Wait()
			if m.Current() != current {
				t.Errorf("%s: current %t", what, m.Current())
			}
		}
		expect("before an answer", false)
		<-time.After(time.Hour)
		expect("as time goes by", true)
		if asked := s.asked.Load(); asked > 3600/4+10 {
			t.Errorf("asked %d times in an hour", asked)
		}

		s.silent.Store(true)
		<-time.After(14 * time.Second)
		expect("cut off for less than the bound", true)
		<-time.After(7 * time.Second)
		expect("cut off for longer than the bound", false)
		short, cancel := context.WithTimeout(ctx, time.Second)
		if err := m.Confirm(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request gets %v", err)
		}
		cancel()
		s.silent.Store(false)
		<-time.After(8 * time.Second)
		expect("connected again", true)

		s.generation.Store(2)
		<-time.After(30 * time.Second)
		expect("behind for longer than the bound", false)
		load(r, 2)
		<-time.After(3 * time.Second)
		expect("caught up", true)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestStoreWentBack checks that a list with an older version than the previous list does not confirm the policies.
func TestStoreWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, _ := fixture(20 * time.Second)
		for i, version := range []int64{100, 100, 101, 50} {
			s.version.Store(version)
			before := m.Confirmed()
			<-time.After(time.Second)
			err := m.Confirm(t.Context())
			if wentBack := i == 3; (err != nil) != wentBack || m.Confirmed().Equal(before) != wentBack {
				t.Errorf("version %d: %v, confirmed at %s", version, err, m.Confirmed())
			}
		}
		synctest.Wait()
	})
}

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

package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

func sourceOf(n int) placementv1.PlacementPolicySpec {
	return placementv1.PlacementPolicySpec{Rego: fmt.Sprintf("package p%d", n)}
}

// slow is a compiler whose compilations end when they are told to.
type slow struct {
	*policy.BoundedCompiler
	end chan struct{}

	mu            sync.Mutex
	started       int
	running, most int
}

// began returns how many compilations began, and how many ran at once.
func (s *slow) began() (n, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started, s.most
}

func newSlow(n int) *slow {
	s := &slow{end: make(chan struct{})}
	s.BoundedCompiler = policy.NewBoundedCompiler(n, policy.LoadDeadline, func(string, placementv1.PlacementPolicySpec) (*policy.Module, error) {
		s.count(1)
		<-s.end
		s.count(-1)
		return &policy.Module{}, nil
	})
	return s
}

func (s *slow) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += n
	s.most = max(s.most, s.running)
	s.started += max(n, 0)
}

// TestCompilationDeadline checks that a compilation that does not end returns an error in time, that its source is not compiled again
// before a while after it has ended, and that another source is.
func TestCompilationDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(2)
		compile := func(n int) (time.Duration, error) {
			began := time.Now()
			_, err := s.Compile(t.Context(), "p", sourceOf(n))
			return time.Since(began), err
		}
		took, err := compile(1)
		if took != policy.LoadDeadline || !policy.IsUnfinished(err) || !strings.Contains(err.Error(), "p.rego: berth_time_error: the policy takes longer than 20s to compile") {
			t.Errorf("after %s: %v", took, err)
		}
		took, err = compile(1)
		if n, _ := s.began(); took != 0 || !policy.IsUnfinished(err) || n != 1 {
			t.Errorf("again, after %s: %v; %d began", took, err, n)
		}
		close(s.end)
		synctest.Wait()
		if took, err := compile(2); took != 0 || err != nil {
			t.Errorf("another one, after %s: %v", took, err)
		}
		if _, err := compile(1); !policy.IsUnfinished(err) {
			t.Errorf("just after its end: %v", err)
		}
		<-time.After(policy.UnfinishedInterval + time.Second)
		_, err = compile(1)
		if n, _ := s.began(); err != nil || n != 3 {
			t.Errorf("a while later: %v; %d began", err, n)
		}
	})
}

// TestCompilationsAtOnce checks that at most n compilations run, and n that exceed the deadline, however many there are to run.
func TestCompilationsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(3)
		var all sync.WaitGroup
		failed := make(chan error, 50)
		for i := range 50 {
			all.Go(func() {
				_, err := s.Compile(t.Context(), "p", sourceOf(i))
				failed <- err
			})
		}
		all.Wait()
		busy := 0
		for range 50 {
			if err := <-failed; errors.Is(err, policy.ErrBusy) {
				busy++
			} else if !policy.IsUnfinished(err) {
				t.Errorf("error %v", err)
			}
		}
		if n, most := s.began(); most > 6 || n != 50-busy {
			t.Errorf("%d ran at once, %d began, %d did not", most, n, busy)
		}
		close(s.end)
		synctest.Wait()
		if _, err := s.Compile(t.Context(), "p", sourceOf(51)); err != nil {
			t.Errorf("after their end: %v", err)
		}
	})
}

// TestCanceledCompilation checks that nothing is compiled for a caller that is gone.
func TestCanceledCompilation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Compile(ctx, "p", sourceOf(1))
		if n, _ := s.began(); !errors.Is(err, context.Canceled) || n != 0 {
			t.Errorf("error %v, %d began", err, n)
		}
	})
}

// TestPanicOfACompilation checks that a panic of the compiler reaches the caller, who may recover from it.
func TestPanicOfACompilation(t *testing.T) {
	c := policy.NewBoundedCompiler(1, policy.LoadDeadline, func(string, placementv1.PlacementPolicySpec) (*policy.Module, error) { panic("bug") })
	for range 3 {
		func() {
			defer func() {
				if got := recover(); got != "bug" {
					t.Errorf("recovered %v", got)
				}
			}()
			_, _ = c.Compile(t.Context(), "p", sourceOf(1))
		}()
	}
}

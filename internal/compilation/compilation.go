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

// Package compilation compiles policies, and examines what they compile to, within a deadline. Nothing can cancel OPA's compiler. One
// policy must neither keep a replica from deciding by the others, nor keep those waiting who apply others.
package compilation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/weakcache"
)

const (
	// Deadline is how long a replica compiles a policy that it loads. The largest rules take seconds on a machine that does nothing
	// else.
	Deadline = 20 * time.Second
	// RequestDeadline is Deadline for policies that are applied: the API server waits ten seconds for the validating webhook.
	RequestDeadline = 8 * time.Second
	// RetryInterval is how long a source that exceeded the deadline is not compiled again. Other work may have delayed it.
	RetryInterval = time.Minute
)

// ErrBusy is the error for a compilation that did not begin because too many are running.
var ErrBusy = errors.New("too many other policies are being compiled")

// Compiler runs compilations, a limited number at once. One that exceeds the deadline goes on without its caller. Once as many go on
// as may run at once, no other one begins until one of them ends. A Compiler is safe for concurrent use. Create it with New.
type Compiler struct {
	compile  func(name string, spec placementv1.PlacementPolicySpec) (*policy.Module, error)
	deadline time.Duration
	slots    chan struct{}

	mu sync.Mutex
	// overdue has the keys of the sources that exceeded the deadline. late is the number of compilations that go on.
	overdue map[string]bool
	late    int
}

// New returns a compiler that runs at most n compilations at once, each with the deadline. The function compile is policy.Compile.
func New(n int, deadline time.Duration, compile func(name string, spec placementv1.PlacementPolicySpec) (*policy.Module, error)) *Compiler {
	return &Compiler{compile: compile, deadline: deadline, slots: make(chan struct{}, n), overdue: map[string]bool{}}
}

// Compile compiles a policy as policy.Compile does. It also returns the errors of Do. A nil Compiler has no limits.
func (c *Compiler) Compile(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) (*policy.Module, error) {
	if c == nil {
		return policy.Compile(name, spec)
	}
	type result struct {
		module *policy.Module
		err    error
	}
	out, err := Do(ctx, c, name, spec, func() result {
		module, err := c.compile(name, spec)
		return result{module, err}
	})
	if err != nil {
		return nil, err
	}
	return out.module, out.err
}

// Do returns the result of a function that compiles a policy, within the limits of a compiler, which is not nil. If the function takes
// longer than the deadline, or one for an equal source did before, the error is that of policy.Unfinished. Another error says why the
// function was not called: ErrBusy, or the cause of the end of ctx.
func Do[T any](ctx context.Context, c *Compiler, name string, spec placementv1.PlacementPolicySpec, f func() T) (T, error) {
	var none T
	key, err := weakcache.Key(spec.Rego, spec.RegoVersion, spec.Rules, spec.Remote)
	if err != nil {
		return none, err
	}
	limit := time.NewTimer(c.deadline)
	defer limit.Stop()
	if c.isOverdue(key) {
		return none, c.unfinished(name, spec)
	}
	if err := c.enter(ctx, limit.C); err != nil {
		return none, err
	}
	defer func() { <-c.slots }()
	limit.Reset(c.deadline)
	done := make(chan outcome[T], 1)
	go func() {
		var out outcome[T]
		defer func() {
			out.panicked = recover()
			done <- out
		}()
		out.value = f()
	}()
	select {
	case out := <-done:
		if out.panicked != nil {
			panic(out.panicked)
		}
		return out.value, nil
	case <-limit.C:
		c.exceeded(key)
		go func() {
			<-done
			c.ended(key)
		}()
		return none, c.unfinished(name, spec)
	}
}

// outcome is what a function returned, or the value with which it panicked.
type outcome[T any] struct {
	value    T
	panicked any
}

func (c *Compiler) unfinished(name string, spec placementv1.PlacementPolicySpec) error {
	return policy.Unfinished(name, spec, fmt.Sprintf("the policy takes longer than %s to compile: "+
		"use fewer and smaller values, comprehensions and rules, or divide it between several policies, which can match the same objects", c.deadline))
}

// enter waits for a slot, at most until the limit.
func (c *Compiler) enter(ctx context.Context, limit <-chan time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
		if c.isBusy() {
			<-c.slots
			return ErrBusy
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-limit:
		return ErrBusy
	}
}

func (c *Compiler) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late >= cap(c.slots)
}

func (c *Compiler) isOverdue(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue[key]
}

// exceeded records that a source exceeded the deadline.
func (c *Compiler) exceeded(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overdue[key] = true
	c.late++
}

// ended records that the compilation of such a source ended.
func (c *Compiler) ended(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late--
	time.AfterFunc(RetryInterval, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.overdue, key)
	})
}

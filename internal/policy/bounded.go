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

package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/weakcache"
)

const (
	// LoadDeadline is how long a replica compiles a policy that it loads. The largest rules take seconds on a machine that does nothing
	// else.
	LoadDeadline = 20 * time.Second
	// RequestDeadline is LoadDeadline for policies that are applied: the API server waits ten seconds for the validating webhook.
	RequestDeadline = 8 * time.Second
	// UnfinishedInterval is how long a source that exceeded the deadline is not compiled again. Other work may have delayed it.
	UnfinishedInterval = time.Minute
)

// ErrBusy is the error for a compilation that did not begin because too many are running, or continue after their deadline. It may succeed
// later.
var ErrBusy = errors.New("too many other policies are being compiled")

// BoundedCompiler compiles policies, and examines what they compile to, within a deadline, a limited number at once. Nothing can cancel
// OPA's compiler. One policy must neither keep a replica from deciding by the others, nor keep those waiting who apply others. So a
// compilation that exceeds the deadline continues after its caller has got an error. While as many of these continue as may run at once,
// no other compilation begins, and callers get ErrBusy. A BoundedCompiler is safe for concurrent use. Create it with NewBoundedCompiler.
type BoundedCompiler struct {
	// compile is Compile, or another function in tests.
	compile  func(name string, spec placementv1.PlacementPolicySpec) (*Module, error)
	deadline time.Duration // how long a caller waits for one compilation
	slots    chan struct{} // has an item for each caller that waits for its compilation

	mu sync.Mutex
	// overdue has the sources, by the key of RunBounded, that are not compiled: a compilation exceeded the deadline, and continues, or ended
	// less than UnfinishedInterval ago.
	overdue map[string]bool
	late    int // the number of compilations that continue after the deadline
}

// NewBoundedCompiler returns a compiler for which at most n callers wait for a compilation at once, each until the deadline. Other callers
// wait for one of these to end, at most as long, and then get ErrBusy. compile is the function Compile, or another one in tests.
func NewBoundedCompiler(n int, deadline time.Duration,
	compile func(name string, spec placementv1.PlacementPolicySpec) (*Module, error)) *BoundedCompiler {
	return &BoundedCompiler{compile: compile, deadline: deadline, slots: make(chan struct{}, n), overdue: map[string]bool{}}
}

// Compile compiles the spec of the policy of a name to a Module. An error is one of RunBounded, or a *CompileError of the function Compile,
// which may come with a module. A nil BoundedCompiler has no limits.
func (c *BoundedCompiler) Compile(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) (*Module, error) {
	if c == nil {
		return Compile(name, spec)
	}
	type result struct {
		module *Module
		err    error
	}
	out, err := RunBounded(ctx, c, name, spec, func() result {
		module, err := c.compile(name, spec)
		return result{module, err}
	})
	if err != nil {
		return nil, err
	}
	return out.module, out.err
}

// RunBounded calls f, which compiles the spec of the policy of a name, within the limits of a compiler, and returns its result. c is not
// nil. If f takes longer than the deadline, or a compilation of the same source recently did, the error is that of Unfinished. Another
// error says why f was not called: ErrBusy, or that of ctx. The source is the spec's Rego, rules, or remote engine. The hash of the source
// is the key. If f panics in time, RunBounded panics with the same value.
func RunBounded[T any](ctx context.Context, c *BoundedCompiler, name string, spec placementv1.PlacementPolicySpec, f func() T) (T, error) {
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
	panicked any // nil if the function returned
}

// unfinished returns the error of Unfinished for a policy whose compilation exceeded the deadline.
func (c *BoundedCompiler) unfinished(name string, spec placementv1.PlacementPolicySpec) error {
	return Unfinished(name, spec, fmt.Sprintf("the policy takes longer than %s to compile or to type-check: "+
		"use fewer and smaller values, comprehensions, and rules, or divide it between several policies, which can match the same objects",
		c.deadline))
}

// enter waits for a slot, until limit fires. It returns ErrBusy then, or if isBusy is true, and the error of ctx when that ends. Without an
// error, the caller must free the slot.
func (c *BoundedCompiler) enter(ctx context.Context, limit <-chan time.Time) error {
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

// isBusy reports whether as many compilations continue after the deadline as may run at once.
func (c *BoundedCompiler) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late >= cap(c.slots)
}

// isOverdue reports whether a compilation of the source with a key recently exceeded the deadline.
func (c *BoundedCompiler) isOverdue(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue[key]
}

// exceeded records that a compilation of the source with a key exceeded the deadline, and continues: until ended is called, and
// UnfinishedInterval later, the source is not compiled again.
func (c *BoundedCompiler) exceeded(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overdue[key] = true
	c.late++
}

// ended records that a compilation that exceeded the deadline ended: from now on, it does not keep others from beginning. Its source, which
// has the key, remains overdue until UnfinishedInterval has passed.
func (c *BoundedCompiler) ended(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late--
	time.AfterFunc(UnfinishedInterval, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.overdue, key)
	})
}

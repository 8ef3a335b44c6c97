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

package console

import "context"

// slots limit how many computations run at once. Nil slots limit nothing.
type slots chan struct{}

// take waits for a slot, and holds it until free is called. An error means that the context ended before a slot was free.
func (s slots) take(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// free gives back a slot that was taken.
func (s slots) free() {
	if s != nil {
		<-s
	}
}

// limited calls compute while it holds a slot, and returns what that returns, or the error of take.
func limited[T any](ctx context.Context, s slots, compute func() (T, error)) (T, error) {
	if err := s.take(ctx); err != nil {
		return *new(T), err
	}
	defer s.free()
	return compute()
}

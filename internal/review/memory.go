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

package review

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	mebibyte = 1 << 20

	// MaxBytes is the size of the largest review that is read. The API server accepts request bodies of at most 3 MiB,
	// and JSON encodes a byte such as "<" as the six bytes \u003c. A review contains an object and its version before
	// the update, each as large as that, and up to 1 MiB of other fields: 2 * 6 * 3 + 1 MiB. An object with a larger
	// review can't be stored: by default the API server and etcd accept 1.5 MiB.
	MaxBytes = 37 * mebibyte

	// smallBytes is the size of the largest review that never waits for larger ones.
	smallBytes = mebibyte
	// smallInFlight and largeInFlight are how many bytes of reviews may be in memory at once. A decision takes about
	// three times the bytes of the review. So all of them together take about a third of the memory limit in
	// config/manager/manager.yaml.
	smallInFlight = 32 * mebibyte
	largeInFlight = 64 * mebibyte
)

// Memory limits the bytes of reviews that are in memory at once, for all handlers that share it. It is safe for
// concurrent use.
type Memory struct {
	// small and large limit the bytes of small and of large reviews, so that many large reviews do not delay small ones.
	small, large *semaphore.Weighted
}

// NewMemory returns a Memory of which nothing is in use. Reviews of at most smallBytes and larger ones have a limit each: smallInFlight and
// largeInFlight bytes.
func NewMemory() *Memory {
	return &Memory{small: semaphore.NewWeighted(smallInFlight), large: semaphore.NewWeighted(largeInFlight)}
}

// acquire waits until a review of at most MaxBytes bytes may be read: until enough of the limit is free that it shares with the other small
// or the other large reviews. Call release when none of its memory is used any more. An error means that ctx ended before that.
func (m *Memory) acquire(ctx context.Context, bytes int64) (release func(), err error) {
	of := m.small
	if bytes > smallBytes {
		of = m.large
	}
	if err := of.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { of.Release(bytes) }, nil
}

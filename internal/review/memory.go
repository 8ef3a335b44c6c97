package review

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	mebibyte = 1 << 20

	// MaxBytes is the largest review that is read. The API server takes request bodies of 3 MiB at most, and JSON writes a
	// byte such as "<" as the six bytes \u003c. A review has an object and the one before the update, both as large as
	// that, and up to 1 MiB of other members: 2 * 6 * 3 + 1 MiB. No object that makes a larger review can be stored: by
	// default the API server and etcd take 1.5 MiB.
	MaxBytes = 37 * mebibyte

	// smallBytes is the largest review that never waits for large ones.
	smallBytes = mebibyte
	// smallInFlight and largeInFlight are how many bytes of reviews may be in memory at once. A decision takes about three
	// times the bytes of the review, so that all of them together take about a third of the memory that
	// config/manager/manager.yaml allows.
	smallInFlight = 32 * mebibyte
	largeInFlight = 64 * mebibyte
)

// Memory bounds the bytes of the reviews that are in memory at once, of all handlers that share it. It is safe for
// concurrent use.
type Memory struct {
	// Large reviews are apart from small ones, which a flood of large ones must not delay.
	small, large *semaphore.Weighted
}

// NewMemory returns a bound that is not used.
func NewMemory() *Memory {
	return &Memory{small: semaphore.NewWeighted(smallInFlight), large: semaphore.NewWeighted(largeInFlight)}
}

// acquire waits until a review of so many bytes, at most MaxBytes, may be read. Call release when nothing of it is used
// any more. An error says that ctx has ended before.
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

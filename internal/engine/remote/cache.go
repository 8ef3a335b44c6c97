package remote

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/berth-dev/berth/internal/placement"
)

const (
	// maxAnswers is the maximum number of cached decisions of all policies together.
	maxAnswers = 4096
	// maxRemembered is the maximum size in bytes of a response whose decision is cached.
	maxRemembered = 16 << 10
)

// answers is the decision cache of all remote policies. Each policy sets the time for which its decisions are kept. It
// is safe for concurrent use.
type answers struct {
	lru *cache.LRUExpireCache
}

func newAnswers() answers { return answers{cache.NewLRUExpireCache(maxAnswers)} }

// answerKey identifies a policy's request at a revision of its data.
type answerKey [sha256.Size]byte

// keyOf returns the key of a request. Revisions are unique among policies, so the policy's name is not part of it.
func keyOf(revision uint64, body []byte) (key answerKey) {
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint64(nil, revision))
	sum.Write(body)
	sum.Sum(key[:0])
	return key
}

func (a answers) get(key answerKey) (placement.Decision, bool) {
	got, ok := a.lru.Get(key)
	if !ok {
		return placement.Decision{}, false
	}
	d, ok := got.(placement.Decision)
	return d, ok
}

// put caches a decision. size is the size of the engine's response in bytes.
func (a answers) put(key answerKey, d placement.Decision, size int, ttl time.Duration) {
	if size <= maxRemembered {
		a.lru.Add(key, d, ttl)
	}
}

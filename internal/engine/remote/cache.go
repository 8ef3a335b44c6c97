package remote

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/berth-dev/berth/internal/placement"
)

const (
	// maxAnswers bounds how many answers are remembered, of all policies together.
	maxAnswers = 4096
	// maxRemembered bounds the size of an answer that is remembered, in bytes.
	maxRemembered = 16 << 10
)

// answers remembers decisions for as long as policies allow, those of all policies together. It is safe for concurrent use.
type answers struct {
	lru *cache.LRUExpireCache
}

func newAnswers() answers { return answers{cache.NewLRUExpireCache(maxAnswers)} }

// answerKey stands for a request of a policy in a state of the data.
type answerKey [sha256.Size]byte

// keyOf is that of a request. Revisions are of one policy only.
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

// put remembers a decision of which the engine's answer had so many bytes.
func (a answers) put(key answerKey, d placement.Decision, size int, ttl time.Duration) {
	if size <= maxRemembered {
		a.lru.Add(key, d, ttl)
	}
}

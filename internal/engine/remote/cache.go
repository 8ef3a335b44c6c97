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

package remote

import (
	"crypto/sha256"
	"encoding/binary"
)

const (
	// maxCachedDecisions is the maximum number of cached decisions of all policies together.
	maxCachedDecisions = 4096
	// maxCachedResponse is the maximum size in bytes of a response whose decision is cached.
	maxCachedResponse = 16 << 10
)

// requestKey is a digest of a request and of the revision of its policy's data. It identifies a cached decision.
type requestKey [sha256.Size]byte

// requestKeyOf returns the key of a request. Revisions are unique among policies, so the policy's name is not part of
// it.
func requestKeyOf(revision uint64, body []byte) (key requestKey) {
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint64(nil, revision))
	sum.Write(body)
	sum.Sum(key[:0])
	return key
}

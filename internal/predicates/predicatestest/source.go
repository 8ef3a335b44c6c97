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

package predicatestest

import (
	"encoding/binary"
	"math/rand/v2"
)

// Source returns a source of random numbers that uses the bytes first, and then a pseudo-random sequence. When a fuzzer
// changes one byte, only one choice changes.
func Source(data []byte) rand.Source {
	return &source{data: data, rest: rand.NewPCG(uint64(len(data)), 1)}
}

// source is the source of random numbers that Source returns.
type source struct {
	data []byte    // The bytes that are not used yet.
	rest *rand.PCG // The pseudo-random sequence: the lower bits of numbers that use a byte, and all numbers after the last byte.
}

// Uint64 implements rand.Source. As long as there are bytes, it uses one for each number: the byte becomes the highest bits, on which
// choices among few values depend. The other bits are pseudo-random.
func (s *source) Uint64() uint64 {
	n := s.rest.Uint64()
	if len(s.data) > 0 {
		var high [8]byte
		high[0] = s.data[0]
		s.data = s.data[1:]
		return binary.BigEndian.Uint64(high[:]) | n>>8
	}
	return n
}

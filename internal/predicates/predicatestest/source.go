package predicatestest

import (
	"encoding/binary"
	"math/rand/v2"
)

// Source returns a source of the numbers that are in the bytes, and then of others: what a fuzzer changes in the bytes
// changes one choice, and not all.
func Source(data []byte) rand.Source {
	return &source{data: data, rest: rand.NewPCG(uint64(len(data)), 1)}
}

type source struct {
	data []byte
	rest *rand.PCG
}

// Uint64 implements rand.Source. One byte makes a number: rand's choices among a few look at the highest bits.
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

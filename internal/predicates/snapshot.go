package predicates

// Snapshot is the world at one moment: nodes, or clusters in their place, and the pods on them. It is immutable, and is
// what plugins get as the scheduler's SharedLister.
type Snapshot struct{}

// Revision grows with every change, and is never 0.
func (s *Snapshot) Revision() uint64 { return 1 }

// Len is the number of candidates.
func (s *Snapshot) Len() int { return 0 }

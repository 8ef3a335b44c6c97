package remediation

import (
	"maps"
	"sync"
	"time"
)

// Limits of the brake: an object that was patched this often within this time is not settling. A decision that depends
// on its own output is patched many times a second; a world that changes this often for one object is rare enough to
// be told apart.
const (
	brakePatches = 100
	brakeWindow  = time.Minute
)

// Brake stops the patching of objects whose decision keeps changing after its own patch. It is safe for concurrent use.
type Brake struct {
	mu      sync.Mutex
	patched map[Key][]time.Time
}

// NewBrake returns a brake that has seen nothing.
func NewBrake() *Brake {
	return &Brake{patched: map[Key][]time.Time{}}
}

// Allows says whether the object may be patched now.
func (b *Brake) Allows(key Key, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.recent(key, now)) < brakePatches
}

// Patched says that the object was patched now.
func (b *Brake) Patched(key Key, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.patched[key] = append(b.recent(key, now), now)
}

// Forget forgets the object.
func (b *Brake) Forget(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.patched, key)
}

// ForgetAll forgets the objects that forgotten says.
func (b *Brake) ForgetAll(forgotten func(Key) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.patched, func(key Key, _ []time.Time) bool { return forgotten(key) })
}

func (b *Brake) recent(key Key, now time.Time) []time.Time {
	times := b.patched[key]
	for len(times) > 0 && now.Sub(times[0]) > brakeWindow {
		times = times[1:]
	}
	if len(times) == 0 {
		delete(b.patched, key)
	}
	return times
}

//go:build race

package embedded

// raceDetector reports whether the race detector is on, which needs memory of its own.
const raceDetector = true

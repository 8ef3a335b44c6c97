//go:build !race

package embedded

// raceDetector says that the race detector is on, which takes memory of its own.
const raceDetector = false

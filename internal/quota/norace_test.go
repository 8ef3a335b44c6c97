//go:build !race

package quota_test

// raceDetector says that the race detector is on, which makes everything several times slower.
const raceDetector = false

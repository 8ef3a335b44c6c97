//go:build race

package projection_test

// Under the race detector, a sync.Pool randomly discards objects.
var _ = func() bool { poolsLose = true; return true }()

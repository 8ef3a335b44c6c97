//go:build race

package projection_test

// The race detector has pools lose what they are given, to find who relies on it.
var _ = func() bool { poolsLose = true; return true }()

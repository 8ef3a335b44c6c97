package main

import (
	"fmt"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// memoryShare is how much of the container's memory Go may use before it collects garbage more often. The rest is for
// what Go does not count.
const memoryShare = 0.9

// limitMemory sets Go's memory limit from the container's, unless the environment variable GOMEMLIMIT sets it. A
// container without a limit, or one whose limit can't be read, leaves Go's as it was. It returns the limit, in bytes.
func limitMemory(log logr.Logger, container memlimit.Provider) int64 {
	limit, err := memlimit.Set(memlimit.WithProvider(container), memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		log.Error(err, "the container's memory limit can't be read; set GOMEMLIMIT")
	case limit == math.MaxInt64:
		log.Info("Memory is not limited")
	default:
		log.Info("Limiting Go's memory", "limit", fmt.Sprintf("%dMi", limit>>20))
	}
	return debug.SetMemoryLimit(-1)
}

package app

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// memoryShare is how much of the container's memory Go may use before it collects garbage more often. The rest is for
// what Go does not count.
const memoryShare = 0.9

// limitedGarbage is how much garbage there may be, in percent of what is in use, before it is collected, where a limit
// bounds it anyway. An admission request leaves much garbage, of which each collection finds little else to do: with
// twice Go's usual 100, a request takes a tenth to a fifth less of the processor.
const limitedGarbage = 200

// limitMemory sets Go's memory limit from the container's, unless the environment variable GOMEMLIMIT sets it. A
// container without a limit, or one whose limit can't be read, leaves Go's as it was. It returns the limit, in bytes.
//
// Where there is a limit, garbage is collected more rarely below it, unless the environment variable GOGC says how often.
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
	now := debug.SetMemoryLimit(-1)
	if now != math.MaxInt64 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(limitedGarbage)
	}
	return now
}

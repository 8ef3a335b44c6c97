/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package app

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// memoryShare is the fraction of the container's memory limit to which Go's memory limit is set. The rest is for memory
// that the Go runtime does not count.
const memoryShare = 0.9

// limitedGarbage is the value of GOGC if there is a memory limit, which bounds garbage anyway. GOGC is the amount of
// garbage, as a percentage of the live heap, at which a collection starts. Admission requests create much garbage and
// little else. With twice the default of 100, a request takes 10 to 20 percent less CPU time.
const limitedGarbage = 200

// limitMemory sets Go's memory limit according to the container's, unless the environment variable GOMEMLIMIT sets it.
// If the container has no limit, or its limit cannot be read, Go's limit stays as it is. limitMemory returns Go's limit
// in bytes.
//
// If there is a limit, it also sets GOGC to limitedGarbage, unless the environment variable GOGC is set.
func limitMemory(log logr.Logger, container memlimit.Provider) int64 {
	limit, err := memlimit.Set(memlimit.WithProvider(container), memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		log.Error(err, "Go's memory limit could not be derived from that of the container; set GOMEMLIMIT")
	case limit == math.MaxInt64:
		log.Info("Not limiting Go's memory: the container has no memory limit, or GOMEMLIMIT or AUTOMEMLIMIT is off")
	default:
		log.Info("Limiting Go's memory", "limit", fmt.Sprintf("%dMi", limit>>20))
	}
	now := debug.SetMemoryLimit(-1)
	if now != math.MaxInt64 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(limitedGarbage)
	}
	return now
}

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
	"errors"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr/testr"
)

func TestLimitMemory(t *testing.T) {
	tests := map[string]struct {
		container   memlimit.Provider
		environment string
		garbage     string
		want        int64
		wantGarbage int
	}{
		"Container":     {container: memlimit.Limit(1000 << 20), want: 900 << 20, wantGarbage: limitedGarbage},
		"NoLimit":       {container: func() (uint64, error) { return 0, memlimit.ErrNoLimit }, want: math.MaxInt64, wantGarbage: 100},
		"Unreadable":    {container: func() (uint64, error) { return 0, errors.New("no cgroup") }, want: 7 << 30, wantGarbage: limitedGarbage},
		"ByTheOperator": {container: memlimit.Limit(1000 << 20), environment: "7GiB", garbage: "100", want: 7 << 30, wantGarbage: 100},
	}
	before, garbageBefore := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(before)
		debug.SetGCPercent(garbageBefore)
	})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", test.environment)
			if test.environment == "" {
				if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("GOGC", test.garbage)
			debug.SetGCPercent(100)
			// This stands for the limit that Go read from GOMEMLIMIT at its start, or for the limit before the call.
			debug.SetMemoryLimit(7 << 30)
			if got := limitMemory(testr.New(t), test.container); got != test.want {
				t.Errorf("limit %d, want %d", got, test.want)
			}
			if got := debug.SetGCPercent(100); got != test.wantGarbage {
				t.Errorf("%d %% of garbage, want %d", got, test.wantGarbage)
			}
		})
	}
}

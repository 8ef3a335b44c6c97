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

package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of times in /proc/<pid>/stat: Linux shows them to programs in hundredths of a second, whatever it
// counts in.
const tick = 10 * time.Millisecond

// CPU returns the processor time that the process has taken until now, that of its children excluded. It needs Linux.
func (p *Process) CPU() (time.Duration, error) {
	cpu, err := CPU(p.process.Pid)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	return cpu, nil
}

// CPU returns the processor time that the process of that id has taken until now, that of its children excluded. It
// needs Linux.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading a processor time: %w", err)
	}
	return cpuOf(text)
}

// cpuOf reads user and system time from a line of /proc/<pid>/stat, the 14th and the 15th of its fields. The second is
// the command's name in parentheses, and may have spaces and parentheses in it.
func cpuOf(stat []byte) (time.Duration, error) {
	const state, utime, stime = 3, 14, 15
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime-state {
		return 0, fmt.Errorf("processor time: no such fields in %q", stat)
	}
	var sum time.Duration
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(string(fields[i-state]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

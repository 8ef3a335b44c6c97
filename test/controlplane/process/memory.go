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
)

// PeakMemory returns the most resident memory that the process has had until now, in bytes. It needs Linux.
func (p *Process) PeakMemory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", p.name, err)
	}
	return peakMemoryIn(text)
}

// peakMemoryIn reads the peak of the resident memory from /proc/<pid>/status, which has it in KiB.
func peakMemoryIn(status []byte) (int64, error) {
	_, after, _ := bytes.Cut(status, []byte("\nVmHWM:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	kibibytes, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(line, []byte(" kB")))), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("peak of the resident memory: %w", err)
	}
	return kibibytes << 10, nil
}

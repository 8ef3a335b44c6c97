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

package simulation

import "runtime/debug"

// Settings of the garbage collector: it runs when the heap has grown to five times what was in use, and earlier above memoryLimit, in
// bytes.
const (
	gcPercent   = 400
	memoryLimit = 800 << 20
)

// SetGarbageCollector sets the garbage collector of a command that reads a cluster for one user. Reading and deciding 100,000 objects then
// takes less processor time, and more memory, which is bounded. The returned function restores the settings before.
func SetGarbageCollector() (restore func()) {
	percent, limit := debug.SetGCPercent(gcPercent), debug.SetMemoryLimit(memoryLimit)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

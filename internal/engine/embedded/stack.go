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

package embedded

// stackBytes is the size to which growStack grows a goroutine's stack: more than most evaluations use.
const stackBytes = 96 << 10

// growStack grows the stack of a new goroutine at once. An evaluation nests deeply. Without this, the runtime would
// copy its stack several times, each time to one of twice the size. That took two fifths of the time of a short
// evaluation.
//
//go:noinline
func growStack() byte {
	var room [stackBytes]byte
	return room[len(room)-1-int(one)]
}

// one keeps the compiler from optimizing away the array in growStack.
var one byte = 1

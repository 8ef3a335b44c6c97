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

package notify

// Signal wakes the goroutine that receives from it. Notifications that arrive before it receives are merged into one, so the receiver reads
// the current state and not a sequence of events. Create it with NewSignal.
type Signal chan struct{}

// NewSignal returns a signal without a pending notification.
func NewSignal() Signal { return make(Signal, 1) }

// Notify wakes the receiver now or, if it is busy, when it receives next. It never blocks and is safe for concurrent
// use.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

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

package setup

import "testing"

// TestDecisionLogIsOff checks which values of --decision-log write no log, and which are errors.
func TestDecisionLogIsOff(t *testing.T) {
	for value, valid := range map[string]bool{"": true, DecisionLogOff: true, "file": false, "collector:4317": false, "/tmp/log": false} {
		log, err := newDecisionLog(t.Context(), nil, Options{DecisionLog: value})
		if log != nil || (err == nil) != valid {
			t.Errorf("%q: log %v, error %v", value, log, err)
		}
	}
}

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

package conformance

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/policy"
)

// No policy of the corpus is warned of, but for reading data that it is meant not to have, and for deciding nothing.
func TestNoPolicyIsWarnedOf(t *testing.T) {
	themes, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, theme := range themes {
		for _, p := range theme.Policies {
			m, err := policy.Compile(p.Name, p.Spec())
			if err != nil {
				t.Errorf("%s/%s: %v", theme.Name, p.Name, err)
				continue
			}
			for _, w := range m.Warnings {
				if !strings.Contains(w, "which spec.data does not have") && !strings.HasSuffix(w, "the policy decides nothing") {
					t.Errorf("%s/%s: %s", theme.Name, p.Name, w)
				}
			}
		}
	}
}

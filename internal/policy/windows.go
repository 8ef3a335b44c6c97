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

package policy

import (
	"fmt"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/window"
)

// checkWindows returns a *CompileError that names the field of each window of spec.remediation that is invalid; nil if all are valid.
func checkWindows(windows []placementv1.RemediationWindow) error {
	var wrong []Diagnostic
	for i, w := range windows {
		if _, field, err := window.Parse(w); err != nil {
			wrong = append(wrong, Diagnostic{Field: fmt.Sprintf("spec.remediation.windows[%d].%s", i, field),
				Code: codeWindow, Message: err.Error()})
		}
	}
	return errorOf(wrong)
}
